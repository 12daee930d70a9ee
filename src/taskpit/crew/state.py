"""The members of a crew as values, and its files in `.taskpit/crew/`: who should run, who runs, how it goes.

plan.json       who is wanted, with all that each needs to know; written by `crew up`, `down` and `restart`
supervisor      the supervisor's record, locked while it lives
<name>          the record of one of the crew, locked while it lives: nobody is started twice
<name>.json     what the supervisor knows of it: how often it was restarted, why it ended, until when it waits
<name>.now      what it is doing; written by itself, and touched as a sign of life
<name>.log      what it printed

A process that changes the plan holds `.plan` meanwhile. All of it can be deleted while nobody runs.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from taskpit import fs, ids, trust, workers
from taskpit.clock import Clock, instant
from taskpit.decode import convert, read_json
from taskpit.errors import Conflict, Invalid, Storage, Untrusted
from taskpit.landing.values import Terms, spelled
from taskpit.model import Count, Seconds, Text, Texts, Time, Value
from taskpit.run.preset import Backend
from taskpit.text import last_lines

if TYPE_CHECKING:
    from subprocess import Popen

SUPERVISOR = "supervisor"
#: A plan or a state larger than this is none of ours.
LARGEST = 4 * 1024 * 1024
#: Who has left no sign of life for this long on another machine is gone; here its lock tells.
FRESH = 60.0
#: How long the supervisor may take to begin.
PATIENCE = 60.0
#: The word by which one that paces itself says when it wants to be started again.
WAITING = "WAITING-UNTIL:"
#: How long one may be silent unless told otherwise.
STALL = 900.0


class BackendSettings(Value, frozen=True, kw_only=True):
    """How agents of one sort are run."""

    name: Text
    preset: Text = ""
    command: Texts = ()
    #: The program to use instead of the preset's own.
    bin: Text = ""
    flags: Texts = ()
    model: Text = ""
    #: How the prompt goes in: by `{prompt_file}`, on standard input, or as the last argument; empty: the usual way.
    prompt: Text = ""
    #: How many may run at once, 0: any number.
    limit: Count = 0

    def shared(self) -> Backend:
        """What all that run on it share."""
        return Backend(name=self.preset or self.name, limit=self.limit)


class Post(Terms, frozen=True, kw_only=True):
    """One process of the crew, with all that it needs to know, also how its work lands."""

    name: Text
    #: tasks: takes tasks; rounds: sweeps; session: runs its prompt at its own pace; service: a plain command.
    kind: Text
    role: Text = ""
    #: Where its commands and its tasks' checks run.
    cwd: Text = ""
    backend: BackendSettings | None = None
    #: A service's command.
    command: Texts = ()
    model: Text = ""
    #: The file that says what it is told to be.
    prompt: Text = ""
    tags: Texts = ()
    #: Seconds a claim lasts, 0: as the queue has it; seconds a run may take.
    lease: Seconds = 0.0
    limit: Seconds = 3600.0
    #: Seconds of silence after which it counts as stalled; 0 is the usual.
    stall: Seconds = 0.0
    #: What its work may cost, each as `$5/day` or `30m/task`.
    budget: Texts = ()
    #: How its work lands; empty: as `worktree` and `merge` say, the older spellings of `branch` and `merge`.
    land: Text = ""
    red_first: bool = False
    review_limit: Count = 0
    worktree: bool = False
    merge: Text = "none"
    #: Shut in by bubblewrap, its network on or off; empty: not at all.
    sandbox: Text = ""
    watch: Text = "heal"
    #: Seconds between rounds, or between sessions that don't say when the next one should be.
    every: Seconds = 60.0

    @property
    def patience(self) -> float:
        """Seconds of silence after which it counts as stalled."""
        return self.stall or STALL

    @property
    def seen_by_checks(self) -> tuple[str, ...]:
        """Patterns of what checks may see: after an agent no more than it was to see, else all that we see."""
        return self.env if self.backend is not None and self.backend.preset else ("*",)

    def terms(self) -> Terms:
        """How its work lands."""
        own = {name: getattr(self, name) for name in Terms.__struct_fields__}
        land = self.land or spelled(worktree=self.worktree, merge=self.merge)
        return Terms(**{**own, "land": land, "env": self.seen_by_checks})

    def facts(self) -> dict[str, object]:
        """As JSON has it."""
        return {**self.as_dict(), "backend": self.backend and self.backend.as_dict()}

    @property
    def digest(self) -> str:
        """By which it is known whether two say the same."""
        from hashlib import sha256

        return sha256(json.dumps(self.facts(), sort_keys=True).encode()).hexdigest()[:16]

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> Post:
        """Read again what `facts` said."""
        return convert(facts, cls)


class Crew(Value, frozen=True, kw_only=True):
    """All posts of one file, in its order."""

    path: str
    posts: tuple[Post, ...]


# -- who should run, and how each was last seen ----------------------------------------------------


class MemberPlan(Value, frozen=True, kw_only=True):
    """What the plan says of one of the crew."""

    post: Post
    wanted: bool = True
    #: Grows when it is to be started again; what runs from an earlier turn is replaced.
    turn: Count = 1
    #: Stopping does not wait for its task.
    now: bool = False


class MemberState(Value, frozen=True, kw_only=True):
    """What the supervisor knows of one of the crew."""

    #: up, down, waiting or stalled.
    state: Text = "down"
    why: Text = ""
    #: Since when, and until when it waits or is left alone (unix seconds).
    since: Time = 0.0
    until: Seconds = 0.0
    restarts: Count = 0
    #: Ends in a row that nobody asked for.
    failures: Count = 0
    #: The turn it was last started in, and the digest of the post it was given then.
    turn: Count = 0
    post: Text = ""


class Now(Value, frozen=True, kw_only=True):
    """What one of the crew says it is doing."""

    task: Text = ""
    title: Text = ""
    since: Time = 0.0
    #: Where its command's output goes.
    log: Text = ""


V = TypeVar("V", MemberState, Now)


class CrewFiles:
    """The crew's files of one queue."""

    def __init__(self, root: str) -> None:
        fs.wall(root, keep=True)
        self.root = root
        self.folder = f"{root}/.taskpit/crew"

    def at(self, name: str) -> str:
        """Where a paper lies."""
        return f"{self.folder}/{name}"

    def _read(self, name: str) -> Any:
        try:
            return read_json(fs.read(self.at(name), LARGEST)[0])
        except (OSError, ValueError):
            return None

    def _write(self, name: str, value: object) -> None:
        fs.replace(self.at(name), json.dumps(value).encode() + b"\n", sync=False)

    # -- the plan ----------------------------------------------------------------------------------

    def plan_lock(self) -> fs.Flock:
        """Held by a process that changes the plan, and by a supervisor about to leave."""
        fs.make_dir(self.folder)
        return fs.Flock(self.at(".plan"))

    def plan(self, *, sealed: bool = True) -> dict[str, MemberPlan]:
        """Who is wanted, in the order of the file.

        Who runs it believes only what a process of this user has written for this folder: Untrusted if another hand
        did. Who only looks need not mind (`sealed=False`).
        """
        path, said = self.at("plan.json"), self._read("plan.json")
        if said is None and sealed and fs.exists(path):
            raise Storage(f"{path} cannot be read", path=path)  # which is not to say that nobody is wanted
        try:
            found = said or {}
            plan = found.get("plan", found)  # an older version wrote it without a seal
            if sealed and plan and found.get("seal") != self._seal(plan):
                text = "`pit crew down`, then `pit crew up`, by the user who should run the crew, writes a new one."
                raise Untrusted(f"{path} was not written by you, for this folder", hint=text, path=path)
            return {ids.word(name): convert(one, MemberPlan) for name, one in plan.items()}
        except (AttributeError, KeyError, TypeError, ValueError, Invalid) as error:
            raise Storage(f"{self.at('plan.json')} is not a plan: {error}", path=self.at("plan.json")) from None

    def save_plan(self, plan: Mapping[str, MemberPlan]) -> None:
        """This is the plan from now on."""
        facts = {name: {**one.as_dict(), "post": one.post.facts()} for name, one in plan.items()}
        self._write("plan.json", {"plan": facts, "seal": self._seal(facts)})

    def _seal(self, facts: object) -> str:
        return trust.seal(self.root, json.dumps(facts).encode())

    # -- who lives ---------------------------------------------------------------------------------

    def living(self, name: str) -> int:
        """The process that lives under this name, 0 if none does. Conflict if one does on another machine."""
        record = workers.load(self.at(name))
        lives = workers.lives(self.at(name), record) if record is not None else False
        sign = max(_changed(self.at(name)), _changed(self.at(f"{name}.now")))
        if record is not None and lives is None and time.time() - sign < FRESH:
            raise Conflict(
                f"{name} runs on {record.host}, and a crew runs on one machine",
                hint=f"Run this on {record.host}.",
                host=record.host,
            )
        return record.pid if record is not None and lives else 0

    def strays(self, plan: Mapping[str, MemberPlan]) -> list[str]:
        """Who lives, by this user's record, and is not in the plan: that was lost, or another hand has written it."""
        found = [name for name in fs.names(self.folder) if "." not in name and name not in (SUPERVISOR, *plan)]
        return [name for name in found if self.living(name) and not self._is_foreign(name)]

    def _is_foreign(self, name: str) -> bool:
        try:
            return bool(fs.foreign(self.at(name)))
        except FileNotFoundError:
            return True  # it has just left

    def enter(self, name: str, patience: float = 1.0) -> workers.LocalMember | None:
        """This process is the one of this name as long as it lives; None if another is."""
        fs.make_dir(self.folder)
        clock = Clock()
        member = workers.LocalMember(self.at(name))
        record = workers.describe(name, 0.0, clock, stays=True)
        return member if member.join(record, clock, patience=patience) else None

    # -- how it goes -------------------------------------------------------------------------------

    def seen(self, name: str) -> MemberState:
        """What the supervisor last knew of it."""
        return self._load(MemberState, f"{name}.json")

    def _load(self, kind: type[V], name: str) -> V:
        """What was written there; the first of all such values if nothing was, or nothing of use."""
        try:
            return kind(**(self._read(name) or {}))
        except TypeError:
            return kind()

    def note(self, name: str, seen: MemberState) -> None:
        """It knows this now."""
        self._write(f"{name}.json", seen.as_dict())

    def now(self, name: str) -> Now:
        """What it says it is doing."""
        return self._load(Now, f"{name}.now")

    def say_now(self, name: str, now: Now) -> None:
        """It is doing this."""
        self._write(f"{name}.now", now.as_dict())

    def touch(self, name: str) -> None:
        """It lives and is not stuck."""
        fs.set_times(self.at(name if name == SUPERVISOR else f"{name}.now"), None)

    def log(self, name: str) -> str:
        """Where its output goes."""
        return self.at(f"{name}.log")

    def last_words(self, name: str, now: Now | None = None) -> str:
        """The last line it printed, or the command it runs."""
        path = now.log if now is not None and now.task else self.log(name)
        try:
            return last_lines(fs.tail(path, 4096), 1) if path else ""
        except OSError:
            return ""

    def silent(self, post: Post, since: float) -> float:
        """For how many seconds nothing was heard of it that shows it is not stuck."""
        pulse = _changed(self.at(f"{post.name}.now"))
        # What was said before it began was said by the one before it, which may have been silent for long.
        doing = self.now(post.name) if post.kind == "tasks" and pulse >= since else Now()
        spoke = [_changed(self.log(post.name)), since]
        if post.kind in ("tasks", "rounds"):
            spoke = [max(pulse, since)]  # its own pulse, whether or not it says a thing
        silence = time.time() - max(spoke)
        if doing.task:  # what it runs must be heard of too
            silence = max(silence, time.time() - max(_changed(doing.log), doing.since))
        return silence

    # -- the supervisor ----------------------------------------------------------------------------

    def refuse_other_users(self) -> None:
        """Conflict if another user's supervisor keeps the crew: it would not believe a plan of ours."""
        path = self.at(SUPERVISOR)
        why = fs.foreign(path) if fs.exists(path) else ""
        if why and self.living(SUPERVISOR):
            hint = "Ask its user to end it, or to change it."
            raise Conflict(f"the crew is run by another user: {path} {why}", hint=hint, path=path)

    def start(self, name: str, module: str, *words: str, cwd: str, env: Mapping[str, str]) -> Popen[bytes]:
        """A process of the crew begins, in a session of its own; it prints to the log of this name."""
        from subprocess import DEVNULL, Popen  # a look at a crew does without

        # It inherits all but what was said of one task or worker.
        kept = {key: value for key, value in env.items() if not key.startswith("TASKPIT_") or key == trust.VARIABLE}
        with open(fs.open_file(self.log(name)), "ab") as log:
            return Popen(
                [sys.executable, "-P", "-m", f"taskpit.crew.{module}", self.root, *words],
                cwd=cwd,
                env=kept | {"TASKPIT_DIR": self.root},
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def ensure_supervisor(self, env: Mapping[str, str]) -> bool:
        """A supervisor of this user lives; True if it was started just now. Call it with the plan's lock held."""
        if self.living(SUPERVISOR):
            return False
        starter = self.start(SUPERVISOR, "supervisor", cwd=self.root, env=env)
        starter.wait()  # it forks and is gone: nobody's child is left to us
        deadline = time.monotonic() + PATIENCE
        while not self.living(SUPERVISOR):
            if time.monotonic() > deadline:
                text = self.last_words(SUPERVISOR) or "it said nothing"
                raise Storage(f"the supervisor did not start: {text}", hint="`pit log supervisor` says more.")
            time.sleep(0.02)
        return True


def _changed(path: str) -> float:
    """When the file was last written to; 0 if there is none."""
    try:
        return os.lstat(path).st_mtime if path else 0.0
    except OSError:
        return 0.0


def waiting_until(lines: Iterable[str], now: float) -> float:
    """When one whose last words are these wants to be started again; 0 if it did not say."""
    said = [line.strip() for line in lines if line.strip()]
    if not said or not said[-1].startswith(WAITING):
        return 0.0
    try:
        return instant(said[-1].removeprefix(WAITING).strip(), now)
    except (ValueError, OverflowError):
        return 0.0
