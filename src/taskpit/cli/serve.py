"""The queue for others: `serve` for workers on other machines, `token` for who of them may ask, `mcp` for agents. Turns
options into a server; what it answers is elsewhere.
"""

from __future__ import annotations

import os

from taskpit import errors, fs
from taskpit.cli.context import Args, Context, Reply, Usage, arg, takes
from taskpit.cli.options import a_duration, a_port, given_token, only_tags, said_any, token_option
from taskpit.clock import iso, say_duration
from taskpit.errors import MissingExtra, install_hint
from taskpit.queue import Queue
from taskpit.serve.serving import GatewayServer, ServeOptions
from taskpit.serve.tokens import Grant, Tokens
from taskpit.store.http.guard import new_token
from taskpit.store.http.listening import refuse_exposure


@takes(
    arg("--port N", "where to listen (default 8443)", type=a_port, default=8443),
    arg("--host H", "another address; others can then reach it (needs TLS)", default="127.0.0.1"),
    arg("--name NAME", "the last part of its address (default q)", default="q"),
    arg("--cert FILE", "the certificate and its chain, PEM", default=""),
    arg("--key FILE", "the certificate's key, PEM", default=""),
    arg("--behind-proxy", "a proxy before it speaks TLS"),
)
def _serve(args: Args, context: Context) -> Reply:
    """Serve this queue, a folder's or a database's, to workers on other machines: its address then stands wherever a
    folder does (pit -C https://HOST:8443/q list, TASKPIT_DIR, pit init DIR --address URL). A caller shows a token
    that `pit token add` made. The queue's keeper runs here. Without --cert and --key only this machine is served,
    unless a proxy in front of it speaks TLS (--behind-proxy).

    pit token add ann && pit serve
    pit serve --host 0.0.0.0 --cert chain.pem --key key.pem
    """
    if not args.name.replace("-", "").replace("_", "").isalnum() or not args.name.isascii() or args.name == "v1":
        raise Usage(f"--name {args.name!r} cannot be part of an address", hint="Use letters, digits and dashes.")
    place = ServeOptions(
        host=args.host, port=args.port, name=args.name, cert=args.cert, key=args.key, behind_proxy=args.behind_proxy
    )
    server = GatewayServer(context.queue, place, context.warn)
    server.run(lambda: _tell(server, context))
    return Reply(data={"ended": True})


def _tell(server: GatewayServer, context: Context) -> None:
    """Where it is: said once it listens."""
    text = f"The queue is at {server.address} for callers with a token. Ctrl-C ends it."
    context.say({"address": server.address, "port": server.port}, text)
    if not _tokens(context).all():
        context.warn(
            "there is no token yet, so no worker can connect", hint=f"`{context.called('token add NAME')}` makes one."
        )


# -- tokens ----------------------------------------------------------------------------------------


@takes(
    arg("action", "what to do", choices=("add", "list", "revoke")),
    arg("NAME", "the worker it is for", nargs="?", default=""),
    arg("--verb", "what it is for; may be repeated", action="append", choices=("look", "work", "put", "all")),
    arg("--tag T", "it may only claim tasks with this tag; may be repeated", action="append"),
    arg("--expires D", "its end, counted from now: 30d, 12h", type=a_duration),
)
def _token(args: Args, context: Context) -> Reply:
    """Who may ask `pit serve`. A token is for one worker: it claims, renews and ends as NAME, NAME-1, ... or
    NAME@machine and cannot touch what others have claimed. It is shown once, here; only its digest is kept, beside
    the queue.

    --verb look reads, put also adds tasks, work also claims and finishes them (the default), all does everything under
    any name: that one is for the queue's owner.

    pit token add builder --tag build --expires 30d
    pit token list
    pit token revoke builder
    """
    if args.action != "add" and said_any(args, "verb", "tag", "expires"):
        raise Usage("--verb, --tag and --expires are for a new token", hint="For example: `pit token add builder`.")
    if args.action == "list" and args.name:
        raise Usage("all tokens are listed, not one", hint="`pit token list` alone shows them.")
    tokens = _tokens(context)
    if args.action == "list":
        grants = tokens.all()
        return Reply(data={"tokens": [_facts(grant) for grant in grants]}, text=lambda: _listed(grants, context))
    if not args.name:
        raise Usage(f"say whose: pit token {args.action} NAME")
    if args.action == "revoke":
        tokens.revoke(args.name)
        return Reply(data={"revoked": args.name}, text=f"the token {args.name} is revoked")
    token = tokens.add(args.name, args.verb or ["work"], only_tags(args.tag), args.expires or 0.0)
    text = (
        f"{token}\n\nIt is shown this once. There, put it into TASKPIT_TOKEN, or a file that TASKPIT_TOKEN_FILE names."
    )
    return Reply(data={"name": args.name, "token": token}, text=text)


def _tokens(context: Context) -> Tokens:
    info = context.queue.store.info()
    if info.kind == "remote":
        raise errors.Invalid("tokens are made where the queue is, not through its gateway", hint="Run it there.")
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
        return "there are no tokens"
    now, lines = context.queue.clock.now(), []
    for grant in grants:
        over = bool(grant.until) and grant.until <= now
        ends = "over" if over else f"for another {say_duration(grant.until - now)}" if grant.until else "without end"
        tags = f", tags {', '.join(grant.tags)}" if grant.tags else ""
        lines.append(f"{grant.name}  {', '.join(grant.rights)}{tags}, since {iso(grant.created)}, {ends}")
    return "\n".join(lines)


# -- the queue as an MCP server: `pit mcp` ---------------------------------------------------------


@takes(
    arg("--as W", "whom calls speak for that name no worker (default: TASKPIT_AS)", dest="worker"),
    arg("--http", "streamable HTTP instead of standard input and output"),
    arg("--port N", "with --http (default: a free one)", type=a_port),
    arg("--host ADDRESS", "with --http: where to listen (default: 127.0.0.1)"),
    arg("--name NAME", "with --http: a further name it is reached by", action="append"),
    token_option("with --http: what clients must show"),
    arg("--expose", "with --http: other machines may reach it; needs a token of your own"),
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
