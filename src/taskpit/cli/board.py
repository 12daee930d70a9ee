"""The verb that opens a board, in the terminal or the browser: `board`. Knows nothing of how it looks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from taskpit import errors, fs
from taskpit.actions import edit
from taskpit.cli.context import Args, Context, Reply, Usage, arg, takes
from taskpit.cli.edit import by_hand
from taskpit.cli.options import AS, a_port, given_token, token_option
from taskpit.crew.status import MemberRow, rows
from taskpit.errors import Invalid, MissingExtra, TaskpitError, install_hint
from taskpit.queue import Queue
from taskpit.trust import state_dir

if TYPE_CHECKING:  # an extra, which may not be installed
    from taskpit.web.serve import BoardServer
    from taskpit.web.shared import BoardThreads

WEB_ARGS = (
    arg("--port N", "where to listen (default: 7480, or any that is free)", type=a_port, default=0, group="with --web"),
    arg("--host H", "the address to listen on; other machines need --expose", default="127.0.0.1", group="with --web"),
    arg("--expose", "allow access from other machines (requires --token-file)", group="with --web"),
    token_option("the secret in the link", group="with --web"),
    arg("--open", "open it in the browser", group="with --web"),
)


@takes(
    arg("--web", "open it in the browser"),
    arg("--all", "every queue that you made or trusted on this machine"),
    arg("--read-only", "allow no changes"),
    arg("--light", "start with light colours (the key t switches)"),
    AS,
    *WEB_ARGS,
)
def _board(args: Args, context: Context) -> Reply:
    """Open the live board: see every task, and add, answer, edit, block, retry or cancel tasks. In the terminal
    `?` shows every key.
    With --web the board is in the browser, with agents and plots. It prints a link that contains a secret and serves
    this machine only, until Ctrl-C. /metrics has metrics for Prometheus (Authorization: Bearer with the secret),
    /healthz reports its health.

    pit board
    pit board --all
    pit board --web --open
    pit board --web --read-only --port 8080
    pit board --web --host 0.0.0.0 --expose --token-file secret
    """
    if args.web:
        return run(args, context)
    if args.port or args.expose or args.token_file or args.open:
        raise Usage(
            "--port, --host, --expose, --token-file and --open are for the board in the browser", hint="Add --web."
        )
    if not args.all:
        context.find()  # without a queue there is nothing to look at, terminal or not
    if context.json or not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise Invalid(
            "the board needs a terminal",
            hint="Use `pit list --json` in programs and `pit status -f` in pipes.",
        )
    try:
        import taskpit.tui.app  # noqa: F401 - whether it is there
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("textual", "rich"):
            raise
        text = "the terminal board needs Textual, which is not installed"
        raise MissingExtra(text, hint=f"{install_hint('tui')}, or use `pit status -f`.") from None
    if args.all:
        _all_queues(args, context)
    else:
        _one_queue(args, context)
    return Reply()


def _one_queue(args: Args, context: Context) -> None:
    from taskpit.tui.app import PitBoard
    from taskpit.tui.queue_access import QueueAccess

    worker = context.worker(args)
    desk = QueueAccess(
        context.queue,
        worker,
        read_only=args.read_only,
        edit=lambda task_id: _edit(context, worker, task_id),
        crew=_crew(context),
    )
    PitBoard(desk, light=_light(args, context)).run()


def _all_queues(args: Args, context: Context) -> None:
    """The screen of all of them; who leaves the board of one is back there."""
    from taskpit.run.user_queues import Queues
    from taskpit.tui.queues import AllQueues

    queues, picked, trouble = Queues(context.env), "", ""
    try:
        while picked := AllQueues(queues, picked, trouble, light=_light(args, context)).run() or "":
            chosen, trouble = Context(context.env, directory=picked), ""
            try:
                _one_queue(args, chosen)
            except (TaskpitError, OSError) as error:
                trouble = str(error)
            finally:
                chosen.close()
    finally:
        queues.close()


def _light(args: Args, context: Context) -> bool:
    return args.light or context.env.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")


def _edit(context: Context, worker: str, task_id: str) -> str:
    change = by_hand(context.queue, task_id, context.env)
    return edit(context.queue, task_id, worker, change) if change else "Nothing was changed."


def _crew(context: Context) -> Callable[[], list[MemberRow]] | None:
    """Who of the crew does what; None if there is no folder for its files."""
    if not context.queue.store.info().papers:
        return None
    from taskpit.cli.crew import crew_files
    from taskpit.crew.file import posts_of

    desk = crew_files(context)
    return lambda: rows(desk, posts_of(desk.root, context.env)[0], context.queue.store.paused())


# -- the board in the browser ----------------------------------------------------------------------


#: What the board needs beyond the standard library.
EXTRA = ("starlette", "uvicorn", "jinja2", "markupsafe", "markdown_it")


def run(args: Args, context: Context) -> Reply:
    """Serve it until interrupted."""
    board = _one_board(args, context)
    board.run(lambda: _tell(board, args, context))
    return Reply(data={"ended": True})


def _one_board(args: Args, context: Context) -> BoardServer:
    try:
        from taskpit.web.serve import BoardServer, WebOptions, open_desk
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        raise errors.MissingExtra(
            f"the board in the browser needs {error.name}, which is not installed",
            hint=install_hint("web"),
        ) from None
    from taskpit.run.user_queues import Queues, project_name
    from taskpit.web.app import QueuesPages
    from taskpit.web.html import Paper

    where, worker = "" if args.all else context.find(), context.worker(args)
    token = given_token(args, context)
    wish = WebOptions(host=args.host, port=args.port, expose=args.expose, token=token, read_only=args.read_only)

    def bring(queue: Queue, name: str, data: bytes) -> list[str]:
        from taskpit.cli.import_files import bring_file

        return bring_file(queue, name, data, worker)

    def desk(path: str, paper: Paper) -> BoardThreads:
        return open_desk(lambda: Queue.open(path, context.env), paper, worker, bring)

    def make() -> BoardThreads | QueuesPages:
        if args.all:
            return QueuesPages(Queues(context.env), desk, read_only=args.read_only)
        return desk(where, Paper(title=project_name(where), read_only=args.read_only))

    return BoardServer(make, wish)


def _tell(board: BoardServer, args: Args, context: Context) -> None:
    """Where it is: said once it listens."""
    data = {"url": board.link, "address": board.address, "token": board.token, "port": board.port}
    text = f"{'read' if args.read_only else 'read and change'} {'your queues' if args.all else 'the queue'}"
    context.say(data, f"The board: {board.link}\nAnyone with this link can {text}. Ctrl-C ends it.")
    if args.open:
        import webbrowser

        webbrowser.open(_page_that_leads_to(board.link))


def _page_that_leads_to(link: str) -> str:
    """The address of a file that only this user can read and that goes on to the link: a browser's command line, which
    others can read, must not have the token in it.
    """
    path = f"{state_dir('web')}/board.html"
    page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={link}">\n'
    fs.replace(path, page.encode(), f"{path}~{fs.fresh_name()}", sync=False, mode=0o600)
    return f"file://{path}"
