"""The board in the browser: `board --web`. Turns options into a server; the pages are elsewhere."""

from __future__ import annotations

from taskpit import errors
from taskpit.cli import output
from taskpit.cli.context import Reply
from taskpit.cli.options import a_port, given_token, token_option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from taskpit.cli.context import Context
    from taskpit.queue import Queue
    from taskpit.web.serve import BoardServer
    from taskpit.web.shared import Desk

__all__ = ["run", "web_arguments"]

#: What the board needs beyond the standard library.
EXTRA = ("starlette", "uvicorn", "jinja2", "markupsafe", "markdown_it")


def web_arguments(parser: ArgumentParser) -> None:
    """What a board in the browser can be told."""
    group = parser.add_argument_group("with --web")
    add = group.add_argument
    add("--port", type=a_port, default=0, metavar="N", help="where to listen (default: 7480, or any that is free)")
    add("--host", default="127.0.0.1", metavar="H", help="another address; others can then reach it (see --expose)")
    add("--expose", action="store_true", help="yes, others shall reach it; needs a token of your own")
    token_option(add, "what the link must contain")
    add("--open", action="store_true", help="open it in the browser")


def run(args: Namespace, context: Context) -> Reply:
    """Serve it until interrupted."""
    board = _board(args, context)

    def ready() -> None:
        _tell(board, args, context)

    board.run(ready)
    return Reply(data={"ended": True})


def _board(args: Namespace, context: Context) -> BoardServer:
    try:
        from taskpit.web.serve import BoardServer, Wish, open_desk
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        raise errors.MissingExtra(
            f"the board in the browser needs {error.name}, which is not installed",
            hint="Install it with: pip install 'taskpit[web]'",
        ) from None
    from taskpit.queue import Queue
    from taskpit.web.app import Overview
    from taskpit.web.html import Paper
    from taskpit.worker.user_queues import Queues, project_name

    where, worker = "" if args.all else context.find(), context.worker(args)
    token = given_token(args, context)
    wish = Wish(host=args.host, port=args.port, expose=args.expose, token=token, read_only=args.read_only)

    def bring(queue: Queue, name: str, data: bytes) -> list[str]:
        from taskpit.cli.import_files import bring_file

        return bring_file(queue, name, data, worker)

    def desk(path: str, paper: Paper) -> Desk:
        return open_desk(lambda: Queue.open(path, context.env), paper, worker, bring)

    def make() -> Desk | Overview:
        if args.all:
            return Overview(Queues(context.env), desk, read_only=args.read_only)
        return desk(where, Paper(title=project_name(where), read_only=args.read_only))

    return BoardServer(make, wish)


def _tell(board: BoardServer, args: Namespace, context: Context) -> None:
    """Where it is: said once it listens."""
    if context.json:
        output.envelope({"url": board.link, "address": board.address, "token": board.token, "port": board.port})
    else:
        told = f"{'read' if args.read_only else 'read and change'} {'your queues' if args.all else 'the queue'}"
        context.tell(f"The board: {board.link}\nAnyone with this link can {told}. Ctrl-C ends it.")
    if args.open:
        import webbrowser

        webbrowser.open(_page_that_leads_to(board.link))


def _page_that_leads_to(link: str) -> str:
    """The address of a file that only this user can read and that goes on to the link: a browser's command line, which
    others can read, must not have the token in it.
    """
    from taskpit import fs
    from taskpit.trust import state_dir

    path = f"{state_dir('web')}/board.html"
    page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={link}">\n'
    fs.replace(path, page.encode(), f"{path}~{fs.fresh_name()}", sync=False, mode=0o600)
    return f"file://{path}"
