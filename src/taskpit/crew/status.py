"""How the crew stands, as rows for people and programs. Reads the crew's files, changes nothing."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from taskpit import fs, workers
from taskpit.clock import Clock, say_duration
from taskpit.crew.state import SUPERVISOR, CrewFiles, MemberPlan, Now, Post
from taskpit.errors import Conflict
from taskpit.model import Value
from taskpit.rules import natural

#: What is in the name of those that only land.
LANDER = "-lander-"


class MemberRow(Value, frozen=True, kw_only=True):
    """One of the crew as it stands."""

    name: str
    role: str
    kind: str
    #: up, down, waiting, paused or stalled.
    state: str
    pid: int = 0
    wanted: bool = False
    task: str = ""
    title: str = ""
    #: Seconds it has been at its task, or in this state.
    age: float = 0.0
    restarts: int = 0
    #: Unix seconds until which it waits; 0 if it does not.
    until: float = 0.0
    why: str = ""
    #: The last line that it, or the command it runs, has printed.
    last: str = ""


def rows(files: CrewFiles, posts: Mapping[str, Post], paused: str = "") -> list[MemberRow]:
    """Everybody in the file, and who still runs or is wanted without being in it."""
    plan = files.plan(sealed=False)
    known = dict(posts) | {
        name: wish.post for name, wish in plan.items() if name not in posts and (wish.wanted or pid_here(files, name))
    }
    watched = bool(pid_here(files, SUPERVISOR))
    return [_row(files, post, plan.get(name), paused, watched=watched) for name, post in known.items()]


def pid_here(files: CrewFiles, name: str) -> int:
    """The process of this name on this machine, 0 if there is none."""
    try:
        return files.living(name)
    except Conflict:
        return 0  # on another machine; that one can tell


def _row(files: CrewFiles, post: Post, wish: MemberPlan | None, paused: str, *, watched: bool) -> MemberRow:
    pid, seen = pid_here(files, post.name), files.seen(post.name)
    wanted = wish is not None and wish.wanted
    doing = files.now(post.name) if pid and post.kind == "tasks" else Now()
    why = seen.why
    if pid:
        paused = _paused(files, post, paused)
        state = _living_state(files, post, seen.since, paused)
        why = paused if state == "paused" else why
    else:
        going = wanted and (watched or seen.state != "up")  # who is only just starting has no lock yet
        state = seen.state if going else "down"
        if wanted and not watched:
            why = "the supervisor is gone"
        elif not wanted:
            why = ""
    now = time.time()
    since = doing.since or seen.since
    return MemberRow(
        name=post.name,
        role=post.role,
        kind=post.kind,
        state=state,
        pid=pid,
        wanted=wanted,
        task=doing.task,
        title=doing.title,
        age=now - since if since else 0.0,
        restarts=seen.restarts,
        until=seen.until if wanted and not pid and seen.until > now and seen.until < 2**39 else 0.0,
        why=why,
        last=files.last_words(post.name, doing),
    )


def _living_state(files: CrewFiles, post: Post, since: float, paused: str) -> str:
    watched_for_it = post.kind in ("tasks", "rounds") or post.watch == "heal+stall"
    if watched_for_it and files.silent(post, since) > post.patience:
        return "stalled"
    return "paused" if paused and post.kind == "tasks" else "up"


def _paused(files: CrewFiles, post: Post, paused: str) -> str:
    """Why it takes nothing: the queue is paused, or its backend rests."""
    shared = post.backend.shared() if post.backend and post.kind == "tasks" else None
    if paused or shared is None or not fs.exists(f"{files.root}/.taskpit/backends/{shared.name}.json"):
        return paused
    from taskpit.run.agent_limits import Gate  # only where an agent has reached a limit

    return Gate(shared, files.root, Clock()).rests()


def idle_workers(root: str, busy: Collection[str]) -> list[str]:
    """Workers of pools that live on this machine, without those that are named, and without those that only land."""
    folder = f"{root}/.taskpit/workers"
    names = [name for name in fs.names(folder) if name not in busy and LANDER not in name]
    records = [(name, workers.load(f"{folder}/{name}")) for name in sorted(names, key=natural)]
    return [name for name, record in records if record and record.stays and workers.lives(f"{folder}/{name}", record)]


def doing(row: MemberRow) -> str:
    """What is behind its state, in a few words."""
    if row.task:
        return row.task
    left = row.until - time.time()
    if row.until:
        return f"{row.why}, for {say_duration(max(left, 0))}" if row.why else f"for {say_duration(max(left, 0))}"
    return row.why
