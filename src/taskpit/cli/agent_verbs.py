"""Between the queue and an agent's session: `prime`, `hook`, `lessons`, `notify`, and `setup`, which writes its files.

`pit prime` says what an agent must know of this queue, in less than two kilobytes.

Made from the program and the queue as they are: the verbs' own rows and arguments, what the worker holds,
what is next. Nothing here says how a verb is spelled, so nothing here can grow old.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from itertools import islice
from typing import Any

from taskpit import access, fs
from taskpit.cli import verbs
from taskpit.cli.context import Args, Context, Reply, Usage, arg, takes
from taskpit.cli.options import AS
from taskpit.clock import say_duration
from taskpit.errors import Invalid
from taskpit.model import Card, Said, State
from taskpit.queue import Queue, cards, tally
from taskpit.setup.plan import PartPlan
from taskpit.status import summary
from taskpit.text import fit

#: Never more than this many bytes.
LARGEST = 2048
#: Verbs an agent needs, in the order it needs them.
NEEDED = ("claim", "renew", "done", "fail", "release", "split", "ask", "task", "note", "add", "show", "why")
#: Of the options, those that are said even though they can be left out.
WORTH_SAYING = ("--result", "--check", "--needs")
SHOWN, TITLE, PLACE = 3, 60, 200


def held_by(queue: Queue, worker: str) -> list[Card]:
    """What this worker holds."""
    return [card for card in cards(queue.store, State.CLAIMED) if card.worker == worker]


def _spelled(verb: verbs.Verb) -> str:
    """How a verb is written: its words, and the options that are worth saying."""
    shown = ["pit", verb.name]
    for spelled, _, more in verbs.handler(verb).rows:
        first = spelled.split()[0]
        if not first.startswith("-"):
            form = {"?": "[{}]", "*": "[{}]", "+": "{}..."}.get(more.get("nargs", ""), "{}")
            shown.append(form.format(first))
        elif first in WORTH_SAYING:
            shown.append(f"[{spelled}]")
    return " ".join(shown)


def _look(queue: Queue, worker: str) -> dict[str, Any]:
    """All that is said, as values."""
    info = queue.store.info()
    free = islice((card for card in cards(queue.store, State.READY) if not card.held), SHOWN)
    needed = [verb for name in NEEDED if (verb := verbs.find(name)) is not None]
    if info.layout != "activities":  # only there are tasks inside of activities
        needed = [verb for verb in needed if verb.name != "task"]
    return {
        "queue": info.where,
        "layout": info.layout,
        "worker": worker,
        "paused": queue.store.paused(),
        "counts": tally(queue.store),
        "holding": [_row(card, queue.clock.now()) for card in held_by(queue, worker)],
        "next": [_row(card, queue.clock.now()) for card in free],
        "verbs": [{"usage": _spelled(verb), "summary": verb.summary} for verb in needed],
    }


def _row(card: Card, now: float) -> dict[str, Any]:
    row: dict[str, Any] = {"id": card.task.id, "title": card.task.title or card.task.slug, "check": card.task.check}
    return {**row, "lease_seconds_left": card.until - now} if card.state is State.CLAIMED else row


def _line(row: dict[str, Any]) -> str:
    left = row.get("lease_seconds_left")
    lease = "" if left is None else f" (lease ends in {say_duration(left)})" if left > 0 else " (lease over: renew now)"
    return f"- {fit(row['id'], 40)} {fit(row['title'], TITLE)}{lease}"


def _text(facts: dict[str, Any]) -> str:
    holding, coming = facts["holding"], facts["next"]
    lines = [f"taskpit queue {fit(facts['queue'], PLACE)} ({facts['layout']}): {summary(facts['counts'])}."]
    lines.append(f"You are `{fit(facts['worker'], 80)}` here (`--as` or TASKPIT_AS; the MCP tools call it `worker`).")
    if facts["paused"]:
        lines.append(f"It is {fit(facts['paused'], 120)}.")
    if holding:
        lines += ["", "You hold, and must finish or give back:", *map(_line, holding[:SHOWN])]
        lines += [f"- and {len(holding) - SHOWN} more"] if len(holding) > SHOWN else []
    else:
        lines += ["", "You hold nothing."]
    lines += ["", "Next:", *map(_line, coming)] if coming else ["", "Nothing is ready to be taken."]
    lines += ["", *(f"{verb['usage']}  # {verb['summary']}" for verb in facts["verbs"])]
    lines += [
        "",
        "One task at a time. Done means its check is green. Renew before the lease ends; if that fails, stop.",
    ]
    return "\n".join(lines)


@takes(AS)
def _prime(args: Args, context: Context) -> Reply:
    """What an agent must know to work here: what it holds, what is next, and the commands.

    pit prime
    pit prime --as worker-1 --json
    """
    text = _look(context.queue, context.worker(args))
    return Reply(data=text, text=lambda: _text(text))


# -- `pit hook` ------------------------------------------------------------------------------------
# `pit hook`: what an agent's session calls as it goes on. Cheap, and never the reason why a session breaks.
#     session-start   tells the session its name in the queue, what it holds, what is next
#     tool-used       keeps its claims; says so if it is asked to stop
#     stop            refuses once, while it holds a claim
#
# The session is known by its id, so that two of one person are two workers. Where a pool runs the agent,
# the pool keeps the claim and ends it: then nothing is done here. Whatever goes wrong, nothing is said.


EVENTS = ("session-start", "tool-used", "stop")
#: What a session says of itself is shorter.
LONGEST_WORDS = 1024 * 1024
#: A claim is kept once this part of its lease is over.
RENEW_AFTER = 1 / 3


@takes(
    arg("--agent NAME", "whose session it is (default claude)", default="claude"),
    arg("EVENT", "session-start, tool-used or stop", choices=EVENTS),
)
def _hook(args: Args, context: Context) -> Reply:
    """For the hooks of an agent's session, which `pit setup` writes for claude and codex: reads what the session
    says of itself as JSON on standard input. Says nothing and exits 0 where there is no queue.

    echo '{"session_id": "0123456789"}' | pit hook session-start
    """
    if context.env.get("TASKPIT_RUN_DIR"):
        return Reply()
    try:
        session = _session()
        worker = context.env.get("TASKPIT_AS") or _name(session, args.agent)
        if not worker:
            return Reply()
        if session.get("cwd") and context.directory is None and not context.env.get("TASKPIT_DIR"):
            context.directory = str(session["cwd"])
        if args.event == "session-start":
            text = _start(context, worker)
        elif args.event == "tool-used":
            text = _keep(context, worker)
        else:
            text = "" if session.get("stop_hook_active") else _refuse(context, worker)
    except Exception:  # a queue that is gone or broken is no reason to break a session
        return Reply()
    return Reply(data=text, text=text)


def _session() -> dict[str, Any]:
    if sys.stdin is None or sys.stdin.isatty():
        return {}
    said = json.loads(sys.stdin.read(LONGEST_WORDS) or "{}")
    return said if isinstance(said, dict) else {}


def _name(session: dict[str, Any], agent: str) -> str:
    letters = "".join(letter for letter in str(session.get("session_id", "")) if letter.isascii() and letter.isalnum())
    return f"{agent}-{letters[:8].lower()}" if letters else ""


def _start(context: Context, worker: str) -> str:
    text = _text(_look(context.queue, worker))
    remembered = context.env.get("CLAUDE_ENV_FILE")
    if context.env.get("TASKPIT_AS"):
        return text
    if not remembered:
        return (
            f"{text}\nYour commands do not know your name: add `--as {worker}` to each that claims or changes a task."
        )
    with open(remembered, "a", encoding="utf-8") as file:  # commands of this session then have its name, too
        file.write(f"export TASKPIT_AS={worker}\n")
    return text


def _keep(context: Context, worker: str) -> str:
    """Renew what is a good while old; what is to be stopped is said."""
    queue, stopped = context.queue, []
    now = queue.clock.now()
    for card in held_by(queue, worker):
        claim = queue.holding(card.task.id, worker)
        if card.until - now > claim.lease * (1 - RENEW_AFTER):
            continue
        if queue.renew(claim) is Said.CANCEL:
            stopped.append(card.task.id)
    if not stopped:
        return ""
    give_back = f"pit cancel {stopped[0]} --as {worker}"
    text = f"You are asked to stop working on {', '.join(stopped)}: give it back with `{give_back}`."
    return json.dumps({"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": text}})


def _refuse(context: Context, worker: str) -> str:
    held = held_by(context.queue, worker)
    if not held:
        return ""
    names = ", ".join(f"{card.task.id} ({card.task.title or card.task.slug})" for card in held[:3])
    more = f" and {len(held) - 3} more" if len(held) > 3 else ""
    first = held[0].task.id
    reason = (
        f"You still hold {names}{more} as {worker}. Finish with `pit done {first} --as {worker}`, or give it back "
        f"with pit release, pit fail, pit split or pit ask. `pit prime --as {worker}` says how."
    )
    return json.dumps({"decision": "block", "reason": reason})


# -- `pit lessons` ---------------------------------------------------------------------------------


@takes(
    arg("N", "the lesson to change", dest="number", nargs="?", type=int),
    arg("TEXT", "what helps", nargs="?"),
    arg("--remove N", "take this one out", type=int),
)
def _lessons(args: Args, context: Context) -> Reply:
    """What turned red checks green: the error, and what helped, as the agents said it. Later tasks with the same
    error or the same `touches` read it. The setting `lessons` says how many are kept; 0 is none at all.
    With a number and a text, that lesson says this instead; --remove takes it out.

    pit lessons
    pit lessons 3 'run make generate first'
    pit lessons --remove 3
    """
    from taskpit.run.lessons import Lessons

    root = context.queue.store.info().papers
    known = Lessons(root, context.queue.config.lessons)
    number = args.remove if args.remove is not None else args.number
    if args.remove is not None and args.number is not None:
        raise Usage("--remove takes the number")
    if number is not None:
        if args.remove is None and not (args.text or "").strip():
            raise Usage("say what helps", hint=f"For example: `pit lessons {number} 'run make generate first'`.")
        access.need_verb("lessons --edit", context.env)
        known.rewrite(number, "" if args.remove is not None else args.text)
    found = known.read() if root else []
    data = [{"number": place, **one.as_dict()} for place, one in enumerate(found, 1)]
    lines = [f"{place:>3}  {one.task:<8} {one.error}\n     => {one.helped}" for place, one in enumerate(found, 1)]
    return Reply(data=data, text="\n".join(lines) or "There are no lessons yet.")


# -- `pit notify` ----------------------------------------------------------------------------------


LONGEST_EVENT = 16 * 1024 * 1024


@takes(arg("--test", "send a trial by every way that is set up, whatever the hour"))
def _notify(args: Args, context: Context) -> Reply:
    """Tell a person what a hook was given (JSON on standard input): on the desktop, by ntfy, in Slack or Discord,
    to any address. Whom to tell is in ~/.config/taskpit/notify.toml, or in TASKPIT_NOTIFY_SLACK and the like;
    never in a queue. Each reason is sent once; what comes in quiet hours is sent after them.
    With nothing on standard input: what was kept is sent, if it is time.

    pit notify --test
    pit notify < /dev/null
    """
    import time

    from taskpit.config import EVENTS
    from taskpit.run.notify import read_channels, tell

    channels, path = read_channels(context.env)
    if not channels.names:
        raise Invalid("no notification is set up", hint=f"Write for example `desktop = true` into {path}.")
    now = time.time()
    if args.test:
        channels = channels.replace(quiet="", events=EVENTS)
        event: dict[str, Any] | None = {"event": "done", "title": "a test of pit notify", "details": f"sent at {now}"}
    else:
        event = _event()
    text = tell(channels, event, now)
    return Reply(data={"told": text}, text=f"sent: {', '.join(text)}" if text else "")


def _event() -> dict[str, Any] | None:
    from taskpit.decode import read_json

    text = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read(LONGEST_EVENT)
    if not text.strip():
        return None
    try:
        found = read_json(text.encode())
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("event"), str):
        raise Invalid("standard input is no event", hint='A hook is given one: done = "pit notify" below [hooks].')
    return found


# -- `pit setup` -----------------------------------------------------------------------------------

#: What `--check` exits with when something is not as it should be.
DRIFT = 7


@takes(
    arg("AGENT", "one or several of the above", dest="agents", nargs="+"),
    arg("--check", "only say whether all is as it should be"),
    arg("--remove", "take it out again"),
    arg("--print", "only show what would be written", dest="show"),
    arg("--project DIR", "the project's folder (default: that of the repository around you, else this one)"),
)
def _setup(args: Args, _: Context) -> Reply:
    """Tell an agent of the queue: a short marked block in its instructions, the MCP server in its project
    settings, a skill, for claude and codex also hooks. All else in those files stays as it is, and --remove
    gives back what was there. --check also asks the agent itself which servers it has, if it is installed,
    and exits 7 if something is not as it should be.
    Agents: claude, codex, gemini, qwen, copilot, opencode, cursor, antigravity, agents-md.

    pit setup claude
    pit setup codex --check
    pit setup gemini --remove
    """
    from taskpit.setup import plan
    from taskpit.setup.agent_files import AGENTS, by_hand
    from taskpit.setup.plan import ProjectFolder, listed

    unknown = [name for name in args.agents if name not in AGENTS]
    if unknown:
        raise Invalid(f"there is no agent {unknown[0]!r}", hint=f"There are {', '.join(AGENTS)}.")
    if args.check + args.remove + args.show > 1:
        raise Invalid("--check, --remove and --print cannot be combined", hint="Choose one.")
    if args.show:
        shown = {_where(part): by_hand(part) for name in args.agents for part in AGENTS[name]}
        return Reply(data=shown, text="\n".join(f"--- {path}\n{text}" for path, text in shown.items()))
    place = ProjectFolder(_project(args.project))
    data: list[dict[str, object]] = []
    lines: list[str] = []
    drift = False
    agents = list(dict.fromkeys(args.agents))
    if not args.check:
        every = [step for name in agents for step in plan.steps_for(place, name, remove=args.remove)]
        plan.refuse(every, "Nothing was changed. ")
    for name in agents:  # one after the other: they share files
        steps = plan.steps_for(place, name, remove=args.remove)
        changed = [] if args.check else plan.carry_out(place, steps)
        drift = drift or any(step.changes or step.standing in plan.AMISS for step in steps)
        is_listed, answer = listed(name, place.root) if args.check else ("", "")
        drift = drift or is_listed == "no"
        parts = [{"path": step.name, "standing": str(step.standing), "why": step.why} for step in steps]
        data.append({"agent": name, "changed": changed, "parts": parts})
        lines += _report(name, steps, changed, check=args.check, remove=args.remove)
        if is_listed:
            data[-1] |= {"listed": is_listed, "told": answer}
            lines += [f"{name}: {answer}"] if answer else []
    code = DRIFT if args.check and drift else 0
    return Reply(data=data[0] if len(data) == 1 else data, text="\n".join(lines), exit_code=code)


def _where(part: object) -> str:
    paths: Sequence[str] = getattr(part, "paths", ())
    return paths[-1] if paths else str(getattr(part, "path", ""))


def _project(given: str | None) -> str:
    if given is not None:
        if not os.path.isdir(given):
            raise Invalid(f"there is no folder {given}", path=given)
        return given
    return fs.above(os.getcwd(), ".git") or os.getcwd()


def _report(agent: str, steps: Sequence[PartPlan], changed: Sequence[str], *, check: bool, remove: bool) -> list[str]:
    from taskpit.setup.agent_files import ALLOW
    from taskpit.setup.plan import AMISS

    allow = [f"{agent}: {ALLOW[agent]}"] if agent in ALLOW and not remove else []
    if check:
        lines = [f"{agent}: {step.name} is {step.standing}" + (f" ({step.why})" if step.why else "") for step in steps]
        return [*lines, *allow]
    notes = [f"{agent}: {step.why}" for step in steps if step.why]
    if not changed and not remove and any(step.standing in AMISS for step in steps):
        return notes
    if not changed:
        return [*notes, f"{agent}: {'there is nothing of ours' if remove else 'all is as it should be'}"]
    return [*notes, *(f"{agent}: {'took it out of' if remove else 'wrote'} {name}" for name in changed), *allow]
