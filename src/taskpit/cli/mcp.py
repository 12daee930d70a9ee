"""`pit mcp`: the queue as an MCP server."""

from __future__ import annotations

import os

from taskpit.cli.context import Reply
from taskpit.cli.options import a_port, example, given_token, token_option
from taskpit.errors import MissingExtra

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from taskpit.cli.context import Context
    from taskpit.cli.verbs import Handlers

__all__ = ["VERBS"]


def _mcp_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Serve this queue to agents over the Model Context Protocol: on standard input and output for the client\n"
        "that starts it, or with --http on this machine, behind a token. `pit setup` registers it with your agent."
    )
    parser.epilog = example("pit mcp", "pit mcp --as claude-1", "pit mcp --http --port 8765")
    add = parser.add_argument
    add("--as", dest="worker", metavar="W", help="whom calls speak for that name no worker (default: TASKPIT_AS)")
    add("--http", action="store_true", help="streamable HTTP instead of standard input and output")
    add("--port", type=a_port, default=0, metavar="N", help="with --http (default: a free one)")
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="with --http: where to listen (default: 127.0.0.1)")
    add("--name", action="append", metavar="NAME", help="with --http: a further name it is reached by")
    token_option(add, "with --http: what clients must show")
    add("--expose", action="store_true", help="with --http: other machines may reach it; needs a token of your own")


def _mcp(args: Namespace, context: Context) -> Reply:
    from taskpit.asgi_guard import new_token, refuse_exposure
    from taskpit.mcp.tools import ToolCalls
    from taskpit.queue import Queue

    token = given_token(args, context) if args.http else ""
    if args.http:
        refuse_exposure(args.host, token, exposed=args.expose)
    try:
        from taskpit.mcp.server import McpOptions, QueueServer, serve_http, serve_stdio
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"`pit mcp` needs {error.name}, which is not installed", hint="pip install 'taskpit[mcp]'"
        ) from error
    where = context.find()
    worker = args.worker or context.env.get("TASKPIT_AS", "")
    desk = ToolCalls(lambda: Queue.open(where, context.env), worker, os.getcwd())
    try:
        if args.http:
            address = McpOptions(
                token=token or new_token(),
                host=args.host,
                port=args.port,
                names=tuple(args.name or ()),
                exposed=args.expose,
            )
            serve_http(QueueServer(desk), address, lambda url: _tell(url, context))
        else:
            serve_stdio(QueueServer(desk))
    finally:
        desk.close()
    return Reply() if not context.json else Reply(data={"ended": True})


def _tell(address: str, context: Context) -> None:
    """Where the server is, token and all, for whoever started it."""
    if context.json:
        from taskpit.cli.output import envelope

        envelope({"address": address})
    else:
        context.tell(address)


VERBS: Handlers = {"mcp": (_mcp_arguments, _mcp)}
