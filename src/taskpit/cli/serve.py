"""Serve the queue: `serve` to workers on other machines, with tokens, `mcp` to agents."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from taskpit import errors, fs
from taskpit.cli.context import Args, Context, Reply, Usage, arg, takes
from taskpit.cli.options import a_duration, a_port, given_token, only_tags, said_any, token_option
from taskpit.clock import iso, local, say_duration
from taskpit.errors import MissingExtra, install_hint
from taskpit.queue import Queue
from taskpit.store.http.guard import new_token
from taskpit.store.http.listening import refuse_exposure
from taskpit.store.http.tokens import Grant, Tokens

if TYPE_CHECKING:  # an extra, which may not be installed
    from taskpit.serve.server import GatewayServer

RIGHTS = ("look", "work", "put", "all")
NEW_TOKEN = "For example: `pit serve token add builder`."  # noqa: S105 - a hint


@takes(
    arg("token", "nothing: serve; or `token`: who may ask", nargs="?", choices=("token",)),
    arg("action", "of a token", nargs="?", choices=("add", "list", "revoke")),
    arg("NAME", "the worker it is for", dest="worker", nargs="?", default=""),
    arg("--port N", "where to listen (default 8443)", type=a_port),
    arg("--host H", "another address; others can then reach it (needs TLS)"),
    arg("--name NAME", "the last part of its address (default q)"),
    arg("--cert FILE", "the certificate and its chain, PEM"),
    arg("--key FILE", "the certificate's key, PEM"),
    arg("--behind-proxy", "a proxy before it speaks TLS"),
    arg("--verb", "of a token: what it allows; may be repeated", action="append", choices=RIGHTS),
    arg("--tag T", "of a token: it may only claim tasks with this tag; may be repeated", action="append"),
    arg("--expires D", "of a token: its end, counted from now: 30d, 12h", type=a_duration),
)
def _serve(args: Args, context: Context) -> Reply:
    """Serve this queue, a folder's or a database's, to workers on other machines.

    Its address then works wherever a folder does (pit -C https://HOST:8443/q list, TASKPIT_DIR, pit init DIR
    --address URL). A caller shows a token. The queue's keeper runs here. Without --cert and --key only this machine
    is served, unless a proxy in front of it speaks TLS (--behind-proxy).

    A token is for one worker: it claims, renews and ends as NAME, NAME-1, ... or NAME@machine, and cannot touch the
    claims of others. `token add` shows it once; only its digest is kept. --verb look reads, put also adds tasks, work
    also claims and finishes them (the default), all does everything under any name: that one is for the queue's owner.

    pit serve token add builder --tag build --expires 30d
    pit serve
    pit serve --host 0.0.0.0 --cert chain.pem --key key.pem
    pit serve token list
    pit serve token revoke builder
    """
    if args.token:
        return _token(args, context)
    if said_any(args, "verb", "tag", "expires"):
        raise Usage("--verb, --tag and --expires are for a new token", hint=NEW_TOKEN)
    try:
        from taskpit.serve.server import PORT, GatewayServer, ServeOptions
    except ModuleNotFoundError as error:
        hint = install_hint("serve")
        raise MissingExtra(f"`pit serve` needs {error.name}, which is not installed", hint=hint) from error
    name = args.name or "q"
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii() or name == "v1":
        raise Usage(f"--name {name!r} cannot be part of an address", hint="Use letters, digits and dashes.")
    place = ServeOptions(
        host=args.host or "127.0.0.1",
        port=PORT if args.port is None else args.port,
        name=name,
        cert=args.cert or "",
        key=args.key or "",
        behind_proxy=args.behind_proxy,
    )
    server = GatewayServer(context.queue, place, context.warn)
    server.run(lambda: _tell(server, context))
    return Reply(data={"ended": True})


def _tell(server: GatewayServer, context: Context) -> None:
    """Say where it is, once it listens."""
    text = f"The queue is at {server.address} for callers with a token. Ctrl-C ends it."
    context.say({"address": server.address, "port": server.port}, text)
    if not _tokens(context).all():
        hint = f"`{context.called('serve token add NAME')}` makes one."
        context.warn("there is no token yet, so no worker can connect", hint=hint)


# -- tokens ----------------------------------------------------------------------------------------


def _token(args: Args, context: Context) -> Reply:
    """Add, list or revoke tokens."""
    if said_any(args, "port", "host", "name", "cert", "key", "behind_proxy"):
        raise Usage("options of the server are not for tokens", hint=NEW_TOKEN)
    if args.action != "add" and said_any(args, "verb", "tag", "expires"):
        raise Usage("--verb, --tag and --expires are for a new token", hint=NEW_TOKEN)
    if not args.action:
        raise Usage("say what to do: add, list or revoke", hint=NEW_TOKEN)
    if args.action == "list" and args.worker:
        raise Usage("all tokens are listed, not one", hint="`pit serve token list` alone shows them.")
    tokens = _tokens(context)
    if args.action == "list":
        grants = tokens.all()
        return Reply(data={"tokens": [_facts(grant) for grant in grants]}, text=lambda: _listed(grants, context))
    if not args.worker:
        raise Usage(f"say whose: pit serve token {args.action} NAME")
    if args.action == "revoke":
        tokens.revoke(args.worker)
        return Reply(data={"revoked": args.worker}, text=f"the token {args.worker} is revoked")
    token = tokens.add(args.worker, args.verb or ["work"], only_tags(args.tag), args.expires or 0.0)
    text = (
        f"{token}\n\nIt is shown this once. There, put it into TASKPIT_TOKEN, or a file that TASKPIT_TOKEN_FILE names."
    )
    return Reply(data={"name": args.worker, "token": token}, text=text)


def _tokens(context: Context) -> Tokens:
    info = context.queue.store.info()
    if info.kind == "remote":
        raise errors.Invalid("tokens are created on the server, not through it", hint="Run it there.")
    fs.make_dir(f"{info.papers}/.taskpit")
    return Tokens(info.papers, context.queue.clock)


def _facts(grant: Grant) -> dict[str, object]:
    return {
        "name": grant.name,
        "verbs": list(grant.rights),
        "tags": list(grant.tags),
        "created": iso(grant.created),
        "expires": iso(grant.until) if grant.until else None,
    }


def _listed(grants: list[Grant], context: Context) -> str:
    if not grants:
        return "No tokens."
    now, lines = context.queue.clock.now(), []
    for grant in grants:
        over = bool(grant.until) and grant.until <= now
        ends = "expired" if over else f"for another {say_duration(grant.until - now)}" if grant.until else "without end"
        tags = f", tags {', '.join(grant.tags)}" if grant.tags else ""
        lines.append(f"{grant.name}  {', '.join(grant.rights)}{tags}, since {local(grant.created)}, {ends}")
    return "\n".join(lines)


# -- the queue as an MCP server: `pit mcp` ---------------------------------------------------------


@takes(
    arg("--as W", "default worker for calls that do not name one (default: TASKPIT_AS)", dest="worker"),
    arg("--http", "streamable HTTP instead of standard input and output"),
    arg("--port N", "with --http (default: a free one)", type=a_port),
    arg("--host ADDRESS", "with --http: where to listen (default: 127.0.0.1)"),
    arg("--name NAME", "with --http: a further name it is reached by", action="append"),
    token_option("with --http: the token of clients"),
    arg("--expose", "with --http: allow access from other machines (requires --token-file)"),
)
def _mcp(args: Args, context: Context) -> Reply:
    """Serve this queue to agents over the Model Context Protocol: on standard input and output for the client
    that starts it, or with --http on this machine, behind a token. `pit setup` registers it with your agent.

    pit mcp
    pit mcp --as claude-1
    pit mcp --http --port 8765
    """
    from taskpit.mcp.tools import ToolCalls

    if not args.http and said_any(args, "port", "host", "name", "token_file", "expose"):
        raise Usage("--port, --host, --name, --token-file and --expose are for HTTP", hint="Add --http.")
    token, host = given_token(args, context) if args.http else "", args.host or "127.0.0.1"
    if args.http:
        refuse_exposure(host, token, exposed=args.expose)
    try:
        from taskpit.mcp.server import QueueServer, serve_http, serve_stdio
    except ModuleNotFoundError as error:
        raise MissingExtra(f"`pit mcp` needs {error.name}, which is not installed", hint=install_hint("mcp")) from error
    where = context.find()
    worker = args.worker or context.env.get("TASKPIT_AS", "")
    desk = ToolCalls(lambda: Queue.open(where, context.env), worker, os.getcwd())
    try:
        if args.http:
            server, shown = QueueServer(desk), token or new_token()
            serve_http(
                server, lambda url: context.say({"address": url}, url), shown, host, args.port or 0, args.name or ()
            )
        else:
            serve_stdio(QueueServer(desk))
    finally:
        desk.close()
    return Reply() if not context.json else Reply(data={"ended": True})
