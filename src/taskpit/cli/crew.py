"""The crew of `agents.toml`: `crew up`, `crew down`, `crew restart`, and what its members print."""

from __future__ import annotations

import os
import time

from taskpit import errors, fs
from taskpit.cli.context import Args, Context, Reply, Usage, arg, takes
from taskpit.crew.state import SUPERVISOR, Crew, CrewFiles

#: How often a followed log is looked at, and how much of it is read at once.
LOOK_AGAIN, PIECE = 0.2, 1 << 20


def crew_files(context: Context) -> CrewFiles:
    """The crew's files of this queue; Invalid if it has no folder for them."""
    info = context.queue.store.info()
    if not info.papers:
        raise errors.Invalid("a crew needs a queue in a folder, for its state and logs", where=info.where)
    return CrewFiles(os.path.abspath(info.papers))


def load_crew(args: Args, context: Context) -> Crew:
    """The crew's file, checked."""
    from taskpit.crew import file

    root = crew_files(context).root
    return file.load(args.config or file.find(root), root, context.env)


CONFIG = arg("--config FILE", "the crew (default: agents.toml in the queue's folder or beside it)")


# -- up, restart, down -----------------------------------------------------------------------------


@takes(
    arg("action", "what to do", choices=("up", "down", "restart")),
    arg("NAME", "only these (default: all); `snake` means snake-1, snake-2, ...", dest="names", nargs="*"),
    arg("--now", "down, restart: give running tasks back unfinished"),
    CONFIG,
)
def _crew(args: Args, context: Context) -> Reply:
    """The crew of agents.toml: a supervisor in the background, and a process for each agent and service.
    up       start it; what runs already is left alone, what dies is started again
    down     end it, once running tasks are finished; interrupting the command does not interrupt that
    restart  start it again with what agents.toml says now, once running tasks are finished
    `pit status` shows the crew, `pit log NAME` what a member prints.

    pit crew up
    pit crew up snake keeper
    pit crew restart snake-2
    pit crew down --now
    """
    if args.now and args.action == "up":
        raise Usage("--now is for down and restart", hint="`pit crew up` starts what does not run.")
    return {"up": _up, "down": _down, "restart": _restart}[args.action](args, context)


def _up(args: Args, context: Context) -> Reply:
    from taskpit.crew import file
    from taskpit.crew.control import CrewControl

    context.queue.need_trust()
    crew = load_crew(args, context)
    file.require_landing(crew)
    orderly = CrewControl(crew_files(context), context.env)
    before = {post.name: _is_well(orderly.files, post.name) for post in crew.posts}
    wishes, older = orderly.up(crew, args.names)
    troubles = orderly.await_up(wishes)
    for name in older:
        context.warn(
            f"{name} runs with older settings", hint=f"`pit crew restart {name}` starts it with what the file says now."
        )
    started = [name for name in wishes if not before[name] and name not in troubles]
    running = [name for name in wishes if before[name]]
    text = f"started {', '.join(started)}" if started else "" if troubles else "all are up already"
    return _came_up(context, troubles, text, {"started": started, "running": running})


def _is_well(desk: CrewFiles, name: str) -> bool:
    """Whether it needs no start: it lives, or waits as it said it would."""
    wish = desk.plan(sealed=False).get(name)
    waits = wish is not None and wish.wanted and desk.seen(name).state == "waiting"
    return bool(desk.living(name)) or waits


def _came_up(context: Context, troubles: dict[str, str], text: str, data: dict[str, object]) -> Reply:
    lines = [text] if text else []
    lines += [f"{name} did not come up: {why}; see `{context.called(f'log {name}')}`" for name, why in troubles.items()]
    status, logs, down = map(context.called, ("status", "log -f NAME", "crew down"))
    lines.append(f"next: `{status}` shows them, `{logs}` follows one, `{down}` ends them")
    return Reply(data={**data, "failed": troubles}, text="\n".join(lines), exit_code=1 if troubles else 0)


def _restart(args: Args, context: Context) -> Reply:
    from taskpit.crew.control import CrewControl

    context.queue.need_trust()
    crew = load_crew(args, context)
    orderly = CrewControl(crew_files(context), context.env)
    wishes = orderly.restart(crew, args.names, now=args.now)
    troubles = orderly.await_up(wishes, context.tell)
    well = [name for name in wishes if name not in troubles]
    return _came_up(context, troubles, f"restarted {', '.join(well)}" if well else "", {"started": well})


def _down(args: Args, context: Context) -> Reply:
    from taskpit.crew.control import CrewControl

    orderly = CrewControl(crew_files(context), context.env)
    living = orderly.down(args.names, now=args.now)
    orderly.await_down(living, context.tell)
    return Reply(data={"stopped": living}, text=f"stopped {', '.join(living)}" if living else "none is up")


# -- what members print ----------------------------------------------------------------------------


def member_log(name: str, context: Context, limit: int, *, follow: bool) -> Reply:
    """What a member of the crew has printed, or the supervisor."""
    from taskpit.crew.control import choose

    desk = crew_files(context)
    known = [SUPERVISOR, *desk.plan(sealed=False)]
    path = desk.log(name if name in known else choose(known, [name])[0])
    lines, end = _read(path, 0)
    shown = lines[-limit:] if limit else lines
    if follow:
        _follow(context, path, shown, end)
    return Reply(data={"name": name, "lines": shown}, text="\n".join(shown) or "Nothing was printed yet.")


#: More of a log than this is not shown at once.
LARGEST = 16 * 1024 * 1024


def _read(path: str, start: int) -> tuple[list[str], int]:
    """Whole lines from this place on, and the place after them. A log that was cut is followed from its end."""
    try:
        status = fs.status(path)
        if status is None or status.st_size < start:
            return [], status.st_size if status else 0
        data = fs.piece(path, start, LARGEST)
    except FileNotFoundError:
        return [], 0
    whole = data[: data.rfind(b"\n") + 1]
    return whole.decode("utf-8", "replace").splitlines(), start + len(whole)


def _follow(context: Context, path: str, shown: list[str], end: int) -> None:
    """Print what was and what comes, until interrupted."""
    while True:
        for line in shown:
            context.say(line, line)
        time.sleep(LOOK_AGAIN)
        shown, end = _read(path, end)
