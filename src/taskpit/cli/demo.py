"""The verb that shows what this is: `demo`."""

from __future__ import annotations

import os
import sys
import time
from shutil import which

from taskpit import errors
from taskpit.cli.context import Args, Context, Reply, arg, takes
from taskpit.cli.options import a_count
from taskpit.cli.output import paint, quoted, terminal_width
from taskpit.demo.run import Demo, Stage, Theatre
from taskpit.run.pool_display import is_drawn


@takes(
    arg("--dir DIR", "where (default: a new temporary folder)", dest="folder"),
    arg("--seed N", "other numbers, other tasks", type=a_count, default=7),
)
def _demo(args: Args, context: Context) -> Reply:
    """Make a snake pit in a new folder, put two dozen small tasks into it, and start its crew: keeper, planner, three
    snakes, cleanup, reviewer and a service. One snake is killed on the way, and one change is reviewed and lands on a
    git branch (without a recent git that is left out). Takes about half a minute, needs no network and no model; the
    folder stays, for looking.

    pit demo
    pit demo --dir /tmp/my-first-pit
    """
    if context.json:
        raise errors.Invalid("the demo is for watching; it has no --json")
    began = time.monotonic()
    demo = Demo(_folder(args.folder), args.seed)
    demo.prepare()
    context.tell(_prologue(demo))
    drawn = is_drawn(sys.stdout, context.env)
    stage = Theatre(sys.stdout, context.env) if drawn else Stage(sys.stdout)
    try:
        try:
            demo.show(stage)
        finally:
            stage.close()
        context.tell(f"\n{_command(f'pit -C {quoted(demo.pit)} status')}\n{_status(demo, context)}\n")
        context.tell(_command(f"pit -C {quoted(demo.pit)} crew down"))
        context.tell(f"stopped {', '.join(demo.down())}")
    finally:
        demo.down(now=True)  # whatever happened: nobody is left behind
    good, bad = demo.verify()
    return Reply(text=_epilogue(demo, good, bad, time.monotonic() - began), exit_code=1 if bad else 0)


def _program() -> str:
    """How this program is called: `pit`, or by its path where a shell would not find it (`make demo`)."""
    own = os.path.abspath(sys.argv[0])
    if which("pit") or not os.access(own, os.X_OK) or os.path.basename(own) != "pit":
        return "pit"
    near = os.path.relpath(own)
    return quoted(own if near.startswith("..") else near)


def _command(text: str) -> str:
    return paint("bold", f"$ {text}")


def _status(demo: Demo, context: Context) -> str:
    """What `pit status` says of it."""
    from taskpit.cli.status import LastDay, look, screen

    there = Context(context.env, directory=demo.pit)
    try:
        return screen(look(there, {}, LastDay(there.queue)), terminal_width())
    finally:
        there.close()


def _folder(given: str | None) -> str:
    """A folder with nothing in it."""
    if given is None:
        from tempfile import mkdtemp

        return mkdtemp(prefix="taskpit-demo-")
    folder = os.path.abspath(given)
    os.makedirs(folder, exist_ok=True)
    if os.listdir(folder):
        raise errors.Invalid(f"{folder} is not empty", hint="Name a folder that does not exist yet.", path=folder)
    return folder


def _prologue(demo: Demo) -> str:
    judge, lands = ("", "") if demo.sign is None else (", a reviewer", " One change is reviewed, and lands on main.")
    return (
        f"{len(demo.tasks)} tasks lie in {demo.pit}/food, each a Markdown file.\n"
        f"The crew gets to work: a keeper, a planner, three snakes, a cleanup{judge}, and a chronicle of it all.\n"
        "What they claim moves to claimed/, what they finish to done/. One of the snakes will be killed on the way,\n"
        f"with half an elephant in its mouth.{lands}"
    )


def _epilogue(demo: Demo, good: list[str], bad: list[str], seconds: float) -> str:
    by_title = {task.title: task.id for task in demo.tasks}
    haiku, elephant = by_title["Write a haiku about this pit"], by_title["Digest the elephant"]
    diary, where = by_title["Read the diary of the mouse"], quoted(demo.pit)
    pit = f"{_program()} -C {where}"
    looks = {
        f"ls {where}/done": "the results, one file each",
        f"cat {where}/README.md": "what a snake pit is made of",
        f"cat {where}/scraps/*choked.md": "the note about what got stuck",
        f"{pit} show {haiku}": "a task with its tries, its check and its result",
        f"{pit} why {elephant}": "what happened to the elephant",
        **({f"{pit} diff {demo.sign.id}": "the change that landed"} if demo.sign is not None else {}),
        f"{pit} log {demo.victim or 'supervisor'}": "what the snake that was killed had to say",
        f"{pit} unblock {diary}": "let the stuck one be tried again",
        f"{pit} crew up": "and the crew is back",
    }
    width = max(map(len, looks))
    lines = ["", paint("bold", f"What happened in {seconds:.0f} seconds")]
    lines += [f"  {paint('green', 'yes')}  {text}" for text in good]
    lines += [f"  {paint('red', 'NO')}   {text}" for text in bad]
    lines += ["", paint("bold", "Where to look")]
    lines += [f"  {command:<{width}}  {paint('dim', message)}" for command, message in looks.items()]
    return "\n".join(lines)
