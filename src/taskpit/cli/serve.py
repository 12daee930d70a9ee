"""`pit serve` and `pit token`: the queue for workers on other machines, and who of them may ask. Turns options into a
server; what it answers is elsewhere.
"""

from __future__ import annotations

from taskpit import errors
from taskpit.cli import output
from taskpit.cli.context import Reply, Usage
from taskpit.cli.options import a_duration, a_port, example, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from taskpit.cli.context import Context
    from taskpit.cli.verbs import Handlers
    from taskpit.serve.serving import GatewayServer
    from taskpit.serve.tokens import Grant, Tokens

__all__ = ["VERBS"]


def _serve_arguments(parser: ArgumentParser) -> None:
    parser.description = """\
Serve this queue, a folder's or a database's, to workers on other machines: its address then stands wherever a
folder does (pit -C https://HOST:8443/q list, TASKPIT_DIR, pit init DIR --address URL). A caller shows a token
that `pit token add` made. The queue's keeper runs here. Without --cert and --key only this machine is served,
unless a proxy in front of it speaks TLS (--behind-proxy)."""
    parser.epilog = example("pit token add ann && pit serve", "pit serve --host 0.0.0.0 --cert chain.pem --key key.pem")
    add = parser.add_argument
    add("--port", type=a_port, default=8443, metavar="N", help="where to listen (default 8443)")
    add("--host", default="127.0.0.1", metavar="H", help="another address; others can then reach it (needs TLS)")
    add("--name", default="q", metavar="NAME", help="the last part of its address (default q)")
    add("--cert", default="", metavar="FILE", help="the certificate and its chain, PEM")
    add("--key", default="", metavar="FILE", help="the certificate's key, PEM")
    add("--behind-proxy", action="store_true", help="a proxy before it speaks TLS")


def _serve(args: Namespace, context: Context) -> Reply:
    from taskpit.serve.serving import GatewayServer, ServeOptions

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
    if context.json:
        output.envelope({"address": server.address, "port": server.port})
    else:
        context.tell(f"The queue is at {server.address} for callers with a token. Ctrl-C ends it.")
    if not _tokens(context).all():
        context.warn(
            "there is no token yet, so no worker can connect", hint=f"`{context.called('token add NAME')}` makes one."
        )


# -- tokens ----------------------------------------------------------------------------------------


def _token_arguments(parser: ArgumentParser) -> None:
    parser.description = """\
Who may ask `pit serve`. A token is for one worker: it claims, renews and ends as NAME, NAME-1, ... or NAME@machine and
cannot touch what others have claimed. It is shown once, here; only its digest is kept, beside the queue.

--verb look reads, put also adds tasks, work also claims and finishes them (the default), all does everything under
any name: that one is for the queue's owner."""
    parser.epilog = example(
        "pit token add builder --tag build --expires 30d", "pit token list", "pit token revoke builder"
    )
    add = parser.add_argument
    add("action", choices=("add", "list", "revoke"), help="what to do")
    add("name", metavar="NAME", nargs="?", default="", help="the worker it is for")
    add("--verb", action="append", choices=("look", "work", "put", "all"), help="what it is for; may be repeated")
    add("--tag", action="append", metavar="T", help="it may only claim tasks with this tag; may be repeated")
    add("--expires", type=a_duration, default=0.0, metavar="D", help="its end, counted from now: 30d, 12h")


def _token(args: Namespace, context: Context) -> Reply:
    tokens = _tokens(context)
    if args.action == "list":
        grants = tokens.all()
        return Reply(data={"tokens": [_facts(grant) for grant in grants]}, text=lambda: _listed(grants, context))
    if not args.name:
        raise Usage(f"say whose: pit token {args.action} NAME")
    from taskpit.workers import run_around

    if run_around(context.env):
        raise errors.Untrusted("who may ask is for a person to decide, not for a worker's command", hint="Ask one.")
    if args.action == "revoke":
        tokens.revoke(args.name)
        return Reply(data={"revoked": args.name}, text=f"the token {args.name} is revoked")
    token = tokens.add(args.name, args.verb or ["work"], words(args.tag), args.expires)
    told = (
        f"{token}\n\nIt is shown this once. There, put it into TASKPIT_TOKEN, or a file that TASKPIT_TOKEN_FILE names."
    )
    return Reply(data={"name": args.name, "token": token}, text=told)


def _tokens(context: Context) -> Tokens:
    from taskpit import fs
    from taskpit.serve.tokens import Tokens

    info = context.queue.store.info()
    if info.kind == "remote":
        raise errors.Invalid("tokens are made where the queue is, not through its gateway", hint="Run it there.")
    fs.make_dir(f"{info.papers}/.taskpit")
    return Tokens(info.papers, context.queue.clock)


def _facts(grant: Grant) -> dict[str, object]:
    from taskpit.clock import iso

    return {
        "name": grant.name,
        "verbs": list(grant.rights),
        "tags": list(grant.tags),
        "created": iso(grant.created),
        "expires": iso(grant.until) if grant.until else None,
    }


def _listed(grants: list[Grant], context: Context) -> str:
    from taskpit.clock import iso, say_duration

    if not grants:
        return "there are no tokens"
    now, lines = context.queue.clock.now(), []
    for grant in grants:
        over = bool(grant.until) and grant.until <= now
        ends = "over" if over else f"for another {say_duration(grant.until - now)}" if grant.until else "without end"
        tags = f", tags {', '.join(grant.tags)}" if grant.tags else ""
        lines.append(f"{grant.name}  {', '.join(grant.rights)}{tags}, since {iso(grant.created)}, {ends}")
    return "\n".join(lines)


VERBS: Handlers = {"serve": (_serve_arguments, _serve), "token": (_token_arguments, _token)}
