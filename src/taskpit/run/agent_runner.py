"""How one claimed task is run by an agent CLI, as its preset says. Knows presets and sessions; no CLI by name.

What a run leads to is in `cause`; a run at its limit is never good by itself, only a green check can find it done.
The session of an attempt that did not finish the task is gone on with by the next one, where the CLI can.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence

from taskpit import fs
from taskpit.clock import Clock
from taskpit.decode import convert, read_json
from taskpit.errors import Invalid
from taskpit.ids import path_of
from taskpit.model import Ask, Claim, Count, Done, Failed, Fields, Outcome, Text, Value
from taskpit.run import process, steering, usage
from taskpit.run.acp import Client
from taskpit.run.agent_output import Listener, Talk
from taskpit.run.allowed import allowed
from taskpit.run.budget import BudgetLimit
from taskpit.run.cause import Cause, RunReport, decide
from taskpit.run.preset import STREAMS, Backend, Preset, fill
from taskpit.run.process import CannotRun
from taskpit.run.run_directory import RunDirectory
from taskpit.run.runner import ERROR_LINES, LARGEST_PROMPT, OUTPUT_TAIL, Run
from taskpit.run.transcript import Transcript, judge, without_noise
from taskpit.run.usage import amount, model_name, session_name
from taskpit.text import fit, last_lines, plain

# -- which session of which agent worked on a task -------------------------------------------------
# So that the next attempt can go on in it.
# .taskpit/sessions/<task id>          preset, session, where it worked, and in which attempt it began
# .taskpit/sessions/<task id>~review   the same of its reviewer, whose session is never its builder's
#
# Written before the agent is started where the session's name is ours, else as soon as it is told. A session
# serves the attempt it began in, however often that is cut short, and the next one; after that a fresh mind
# is the better one. In a queue that is no folder nothing is kept.

#: Attempts after its first one that a session serves.
FURTHER = 1
#: After this long agents forget their sessions, and so do we.
KEPT = 30 * 86400.0


class Session(Value, frozen=True, kw_only=True):
    """A session of an agent."""

    preset: Text
    session: Text
    #: Agents look for their sessions by the directory they worked in.
    cwd: Text
    attempt: Count = 1
    #: What the agent has counted in this session so far, where it counts the whole session.
    counted: Fields = {}


class Sessions:
    """The sessions of one queue."""

    def __init__(self, where: str, role: str = "") -> None:
        self._rest = f"~{role}" if role else ""
        self._root = f"{where}/.taskpit" if os.path.isdir(f"{where}/.taskpit") else ""

    def _path(self, task_id: str) -> str:
        return path_of(f"{self._root}/sessions", task_id, self._rest)

    def find(self, claim: Claim, preset: str, cwd: str) -> Session | None:
        """The session this attempt should go on in, or None."""
        if not self._root:
            return None
        try:
            found = convert(read_json(fs.read(self._path(claim.task.id), 65536)[0]), Session)
        except (OSError, ValueError, Invalid):
            return None
        fits = found.preset == preset and found.cwd == cwd and 0 <= claim.attempt - found.attempt <= FURTHER
        return found if fits and session_name(found.session) else None

    def keep(self, claim: Claim, session: Session) -> None:
        """It is written down, whole; a disk that refuses costs a resumption, not the run."""
        if not self._root:
            return
        try:
            fs.make_dir(f"{self._root}/sessions")
            fs.replace(self._path(claim.task.id), json.dumps(session.as_dict()).encode(), sync=False)
        except OSError:
            return

    def forget(self, claim: Claim) -> None:
        """There is no such session any more."""
        if self._root:
            fs.remove(self._path(claim.task.id))

    def prune(self) -> None:
        """Those that agents have forgotten are gone."""
        folder = f"{self._root}/sessions"
        for name in fs.names(folder) if self._root else ():
            status = fs.status(f"{folder}/{name}")
            if status is not None and time.time() - status.st_mtime > KEPT:
                fs.remove(f"{folder}/{name}")


# -- how one claimed task is run by an agent CLI ---------------------------------------------------


#: A longer prompt does not fit into an argument; the agent is told where to read it instead.
LONGEST_ARGUMENT = 100_000
#: What an agent is told that goes on in its session.
AGAIN = "\nYou have worked on this before, in this very session. Go on from there.\n"
#: The cause for each sign of trouble that is not the task's, as presets call it.
SIGNS = {
    "quota": Cause.QUOTA,
    "infra": Cause.OUTAGE,
    "auth": Cause.LOGIN,
    "usage": Cause.MISUSE,
    "no-session": Cause.NO_SESSION,
}
#: Facts that are no costs.
NO_COST = frozenset(("text", "error", "session", "model"))
#: So many changed files are listed in a log.
MOST_CHANGES = 100
#: The largest account of its usage that an agent may leave.
LARGEST_USAGE = 1024 * 1024


class AgentRunner:
    """Runs one agent CLI for every task.

    `cwd` is where it works unless the run has a place of its own; `limit` the seconds one run may take (0:
    any time); `extra` are further words for its command line; `env` patterns of further variables it may see;
    `grace` the seconds between asking it to stop and killing it. `backend` is what a pool must know before it
    claims for it.
    """

    def __init__(
        self,
        preset: Preset,
        *,
        cwd: str,
        model: str = "",
        limit: float = 0.0,
        extra: Sequence[str] = (),
        env: Sequence[str] = (),
        grace: float = 5.0,
        clock: Clock | None = None,
    ) -> None:
        self.preset = preset
        self.cwd = cwd
        self.model = model
        self.limit = limit
        self.extra = tuple(extra)
        self.seen = tuple(env)
        self.grace = grace
        self.clock = clock or Clock()
        self._pruned = False
        self.backend: Backend = preset

    def check(self, env: Mapping[str, str]) -> None:
        """CannotRun if its program is not there, before any task is taken for it."""
        name = self.preset.bin
        if not process.find_program(name, self.cwd, env):
            raise CannotRun(
                f"there is no program {name!r} for the preset {self.preset.name}, or it may not be executed",
                hint=f'Install it, or say where it is: bin = "/path/to/{os.path.basename(name)}" in '
                f"~/.config/taskpit/presets/{self.preset.name}.toml or .taskpit/presets/{self.preset.name}.toml.",
                command=name,
            )

    def command(self, run: Run, prompt: str, session: str = "", *, resumed: bool = False) -> tuple[str, ...]:
        """The command for this run, in a session that begins or one that goes on."""
        known = {
            **run.placeholders(),
            "worktree": run.cwd or self.cwd,
            "queue": run.where if os.path.isdir(run.where) else "",
            "bin": self.preset.bin,
            "prompt": prompt,
            "session": session or self._new_session(),
            "model": self.model,
            "title": fit(run.claim.task.title, 60),
            "hook": _hook(run.place.path) if self.preset.steer == "hook" else "",
        }
        return fill(
            self.preset.resume if resumed and self.preset.resume else self.preset.argv,
            known,
            self.extra,
            (run.sandbox and self.preset.sandboxed) or self.preset.flags,
        )

    def env(self, run: Run) -> dict[str, str]:
        """What it may see, and the way to `pit` for a shell that makes a path of its own."""
        sets = dict(name.split("=", 1) for name in self.preset.env if "=" in name)
        seen = allowed(run.env(), *(name for name in self.preset.env if "=" not in name), *self.seen)
        return {**seen, "BASH_ENV": f"{run.place.bin}/path", **sets}

    def __call__(self, claim: Claim, run: Run) -> Outcome:
        """The agent has run on this task."""
        if run.sandbox is not None:  # its own settings and sessions are what it sees of the home
            run.sandbox = run.sandbox.replace(home=tuple(dict.fromkeys((*run.sandbox.home, *self.preset.home))))
        sessions, cwd = Sessions(run.where, run.role), run.cwd or self.cwd
        if not self._pruned:
            self._pruned = True
            sessions.prune()
        prompt = fs.read(run.place.prompt, LARGEST_PROMPT)[0].decode("utf-8", "replace")
        resumes = self.preset.resume or self.preset.protocol  # whether it can go on in a session
        known = sessions.find(claim, self.preset.name, cwd) if resumes else None
        counts_tools = "tools" in self.preset.take and self.preset.has_stream
        run.exact, run.tools = False, 0 if counts_tools else None
        if known is not None:
            run.say(f"{self.preset.name} goes on in session {known.session}")
            outcome = self._go(run, sessions, prompt + AGAIN, known, resumed=True)
            if outcome is not None:
                return outcome
            run.say(f"{self.preset.name} does not know session {known.session} any more; it begins a new session")
            sessions.forget(claim)
        fresh = Session(preset=self.preset.name, session=self._new_session(), cwd=cwd, attempt=claim.attempt)
        if fresh.session:
            sessions.keep(claim, fresh)
        outcome = self._go(run, sessions, prompt, fresh, resumed=False)
        return outcome or Failed(error=f"{self.preset.name} does not know its own session", kind="crash")

    def _talk(self, run: Run, prompt: str, session: Session, *, resumed: bool) -> Talk | None:
        """The conversation with an agent that wants one."""
        if self.preset.protocol != "acp":
            return None
        client = Client(
            run.cwd or self.cwd,
            prompt,
            session=session.session if resumed else "",
            permissions=self.preset.permissions,
            answers=run.answers,
            note=lambda: steering.take(run.place.path),
        )
        return Talk(f"{run.place.path}/input", client)

    def _follow_up(self, run: Run, sessions: Sessions, outcome: Outcome | None) -> Outcome | None:
        """What was said to it too late for this run: its session goes on with that before it counts as done."""
        known = sessions.find(run.claim, self.preset.name, run.cwd or self.cwd) if self.preset.resume else None
        if not isinstance(outcome, Done) or known is None or run.stopping:
            return outcome
        note = steering.take(run.place.path)
        if not note:
            return outcome
        run.say(f"{self.preset.name} goes on in session {known.session} with a note")
        spent = dict(run.cost)
        after = self._go(run, sessions, note, known, resumed=True)
        run.cost = _added(spent, run.cost)
        return after.replace(cost=run.cost) if isinstance(after, Done) else after or outcome

    def _new_session(self) -> str:
        from uuid import uuid4

        return str(uuid4()) if self.preset.session == "ours" else ""

    def _go(self, run: Run, sessions: Sessions, prompt: str, session: Session, *, resumed: bool) -> Outcome | None:
        """One run of the program; None if it does not know the session it was to go on with."""
        fs.write(run.place.prompt, prompt.encode("utf-8", "replace"))
        if len(prompt.encode("utf-8", "replace")) > LONGEST_ARGUMENT:
            prompt = f"Read {run.place.prompt} and do what it says."
        talk = self._talk(run, prompt, session, resumed=resumed)
        order = process.Command(
            argv=self.command(run, prompt.replace("\0", ""), session.session, resumed=resumed),
            cwd=run.cwd or self.cwd,
            env=self.env(run),
            log=run.place.errors,
            out=run.place.events,
            stdin=f"{run.place.path}/input" if talk else run.place.prompt if self.preset.prompt == "stdin" else "",
            limit=self.limit,
            grace=self.grace,
        )
        steering.offer(
            run.place.path, self.preset.steer or self.preset.protocol or ("resume" if self.preset.resume else "")
        )
        note = AgentNote(
            preset=self.preset.name,
            model=self.model,
            session=session.session,
            counted=session.counted if resumed else {},
            began=self.clock.now(),
        )
        fs.write(run.place.agent, json.dumps(note.as_dict()).encode())
        news = _News(run, sessions, session)
        listener = Listener(self.preset, run.place, news, talk)
        try:
            ended = run.execute(order, listener, talk.part if talk else None)
            transcript = listener.finish()
            if talk is not None:
                counted = {"tools": len(talk.client.tools), "files": len(talk.client.changed)}
                transcript.facts |= {key: count for key, count in counted.items() if count}
                for path, (added, removed) in list(talk.client.changed.items())[:MOST_CHANGES]:
                    run.say(f"changed {fit(plain(path), 200)} (+{added} -{removed})")
            self._hear_files(run, transcript)
            before = session.counted if resumed else {}
            run.cost = cost_of(transcript, self.model, session.session, before, run.where)
            news.counted({key: amount(transcript.facts[key]) or 0.0 for key in transcript.totals})
            if talk is not None and talk.client.question and ended.why != "bell":  # also one that is slow to leave
                return Ask(question=talk.client.question, wanted="yes; or no, and what to do instead")
            report = self._report(run, ended, transcript, resumed=resumed)
        except OSError as error:
            return decide(RunReport(cause=Cause.NO_ROOM, words=str(error)))
        finally:
            listener.close()
            add_to_log(run.place)
            fs.remove(run.place.agent)
        outcome = decide(report) if report.cause is not Cause.NO_SESSION else None
        return self._follow_up(run, sessions, outcome)

    def _report(self, run: Run, ended: process.Ended, transcript: Transcript, *, resumed: bool) -> RunReport:
        """What the run shows."""
        facts, preset = transcript.facts, self.preset
        report = RunReport(
            cause=Cause.STOPPED, name=preset.name, program=preset.bin, code=ended.code, seconds=ended.seconds
        )
        if ended.why == "bell":
            return report
        result = run.place.read_result()
        run.has_result = result is not None
        if run.tools is not None:
            run.tools += int(amount(facts.get("tools")) or 0)
        now = self.clock.now()
        finding = judge(transcript, ended, result=result is not None, resumed=resumed, now=now)
        costs = ", ".join(f"{key} {value}" for key, value in run.cost.items())
        run.say(f"{preset.name}: {finding.means}; {costs}")
        output = plain(result or transcript.text("text")).strip()
        if finding.means == "done":
            words = without_noise(preset, transcript.words)
            output = output or plain(words[-OUTPUT_TAIL:]).strip()
            return report.replace(cause=Cause.DONE, output=output, cost=run.cost)
        cause = SIGNS.get(finding.means)
        if cause is None:  # no sign of its backend: the most telling of what is known about the task
            spoke = transcript.text("text") or facts.get("tools")
            ended_by_us = {"limit": Cause.LIMIT, "stall": Cause.STALLED if spoke else Cause.MUTE}
            cause = ended_by_us.get(ended.why) or Cause(finding.means)
        run.exact = finding.exact and cause is Cause.QUOTA
        return report.replace(
            cause=cause,
            words=last_lines((finding.told or transcript.words).encode(), ERROR_LINES),
            output=output,
            allowed=self.limit if ended.why == "limit" else preset.stall,
            after=max(finding.resets - now, 0.0) if finding.resets and cause is Cause.QUOTA else 0.0,
        )

    def _hear_files(self, run: Run, transcript: Transcript) -> None:
        """Hear the events in files that it left."""
        for name in self.preset.events:
            if name in STREAMS:
                continue
            try:
                data = fs.read(f"{run.place.path}/{name}", LARGEST_USAGE)[0]
                fs.remove(f"{run.place.path}/{name}")
            except OSError:
                continue
            transcript.hear(data.splitlines(keepends=True) if name.endswith(".jsonl") else [b" ".join(data.split())])

    def prices(self, root: str) -> usage.Prices:
        """What is known about prices here."""
        return usage.load(usage.files(root))

    def check_budget(self, limits: Sequence[BudgetLimit], root: str) -> None:
        """CannotRun if a budget in dollars is asked for and nobody could tell when it is spent."""
        if not any(limit.unit == "usd" for limit in limits) or "usd" in self.preset.take:
            return
        known = self.prices(root)
        if "input_tokens" in self.preset.take and self.model and known.of(self.model):
            return
        which = f"the price of {self.model} is not known" if self.model else "its model is not known: say --model"
        raise CannotRun(
            f"a budget in dollars cannot be kept: {self.preset.name} reports none, and {which}",
            hint=f"Prices are known for {', '.join(sorted(known.models))}; yours go to .taskpit/{usage.FILE}. "
            "A budget in tokens or hours needs no price.",
            command=self.preset.bin,
        )


def _hook(run_dir: str) -> str:
    """Settings by which an agent asks after each of its tool calls whether there is a note for it."""
    waits = f'test ! -s "{run_dir}/told" || exec "{sys.executable}" -I -S "{steering.__file__}" "{run_dir}"'
    hook = {"hooks": [{"type": "command", "command": waits, "timeout": 30}]}
    return json.dumps({"hooks": {"PostToolUse": [hook]}})


def _added(one: Mapping[str, object], other: Mapping[str, object]) -> dict[str, object]:
    """Both costs together; words as the later one has them."""
    both = {**one, **other}
    for key in one.keys() & other.keys():
        first, second = amount(one[key]), amount(other[key])
        if first is not None and second is not None:
            both[key] = _plain_number(round(first + second, 9))
    return both


def _plain_number(number: float) -> float:
    """Whole numbers as such: people read them."""
    return int(number) if float(number).is_integer() else number


class _News:
    """What is done with news while the agent runs: its session is kept, its words are shown."""

    def __init__(self, run: Run, sessions: Sessions, session: Session) -> None:
        self._run = run
        self._sessions = sessions
        self._session = session
        self._shown = ""

    def __call__(self, transcript: Transcript) -> None:
        session = session_name(transcript.facts.get("session"))
        if session and session != self._session.session:
            self._session = self._session.replace(session=session)
            self._sessions.keep(self._run.claim, self._session)
        self._show(transcript)

    def counted(self, totals: Mapping[str, float]) -> None:
        """What the session has had so far is kept with it: the next run pays only what is new."""
        if totals and self._session.session:
            self._session = self._session.replace(counted=totals)
            self._sessions.keep(self._run.claim, self._session)

    def _show(self, transcript: Transcript) -> None:
        latest = last_lines(transcript.text("text")[-2000:].encode("utf-8", "replace"), 1)
        if latest != self._shown:
            self._shown = latest
            self._run.say(latest)


class AgentNote(Value, frozen=True, kw_only=True):
    """Which agent works in a run directory; written before it starts, so that a sweep knows what it cost."""

    preset: Text
    model: Text = ""
    session: Text = ""
    #: What its session had cost before, where the agent counts the whole session.
    counted: Fields = {}
    began: float = 0.0


def cost_of(
    transcript: Transcript, model: str, session: str, before: Mapping[str, object], root: str
) -> dict[str, object]:
    """Return what a run has cost, as its events tell; by the price of its model, if they tell only tokens."""
    facts: dict[str, float] = {}
    for key, value in transcript.facts.items():
        counted = amount(len(value) if isinstance(value, list) else value)
        if key not in NO_COST and counted is not None and (counted or key != "refused"):
            since = counted - (amount(before.get(key)) or 0.0)
            facts[key] = _plain_number(since if key in transcript.totals and since >= 0 else counted)
    named = model_name(transcript.facts.get("model")) or model
    if facts.get("input_tokens") is not None and "output_tokens" in facts:
        rest = facts.pop("total_tokens", 0.0) - facts["input_tokens"]  # with its thoughts: paid as output
        facts["output_tokens"] = _plain_number(max(facts["output_tokens"], rest))
        facts["tokens"] = _plain_number(facts["input_tokens"] + facts["output_tokens"])
    if "usd" not in facts:
        known = usage.load(usage.files(root))
        dollars = next((one for one in (known.dollars(name, facts) for name in (named, model)) if one), None)
        facts |= {"usd": round(dollars, 6)} if dollars is not None else {}
    words = {"model": named, "session": session_name(transcript.facts.get("session")) or session}
    return {"agent": transcript.preset.name, **{key: word for key, word in words.items() if word}, **facts}


def add_to_log(place: RunDirectory) -> None:
    """Append the agent's output to the log, as it was printed: first stderr, then its events."""
    for path in (place.errors, place.events):
        try:
            data = fs.tail(path, process.LONGEST_LOG)
            if data:
                fs.append(place.log, data if data.endswith(b"\n") else data + b"\n")
            fs.remove(path)
        except OSError:
            continue  # the log is for people; the verdict does not hang on it
