"""A gateway on its socket: tokens, the guard, addresses, errors as HTTP, and a log of refusals."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Callable

from taskpit import fs
from taskpit.clock import iso
from taskpit.errors import Denied, Invalid, Storage, TaskpitError, TooLarge, Unavailable, Unknown
from taskpit.model import Value
from taskpit.queue import Queue
from taskpit.serve.gateway import Gateway
from taskpit.store.http import wire
from taskpit.store.http.guard import App, Guard, GuardRules, Head, Receive, Refused, Scope, Send
from taskpit.store.http.limits import Limits
from taskpit.store.http.listening import LOOPBACK, is_loopback, listen
from taskpit.store.http.server import Server
from taskpit.store.http.tokens import Grant, TokenRefused, Tokens

#: Where a gateway listens unless another port is named.
PORT = 8443
#: A line for each refusal; a file that is larger is moved to another name, and one such is kept.
REFUSALS, LARGEST_LOG = ".taskpit/refusals.log", 1024 * 1024
#: Our errors in HTTP; the answer's own words count.
STATUS = ((Denied, 403), (TooLarge, 413), (Unavailable, 503), (Unknown, 503), (Storage, 503), (Invalid, 400))
#: Verbs with large answers, and how many of them one token may have in flight.
LARGE, LARGE_AT_ONCE = ("page", "read", "events", "latest", "read_log", "read_artifact"), 2
HEALTH = ("/healthz", "/readyz")

Audit = Callable[[str, str, str, str], None]


class ServeOptions(Value, frozen=True, kw_only=True):
    """Where to listen, and how."""

    host: str = "127.0.0.1"
    #: 0 is any that is free.
    port: int = PORT
    #: What comes before `/v1/` in its address.
    name: str = "q"
    cert: str = ""
    key: str = ""
    #: A proxy in front of this gateway speaks TLS.
    behind_proxy: bool = False


class GatewayGuard(Guard):
    """Let callers in that show one of the queue's tokens. No page of a website may ask."""

    def __init__(self, app: App, rules: GuardRules, tokens: Tokens, audit: Audit) -> None:
        super().__init__(app, rules)
        self._tokens, self._audit = tokens, audit

    def admit(self, head: Head) -> Grant:
        """Return what the caller's token grants."""
        hint = "Show a token that is in force: `pit serve token add NAME` where the queue is makes one."
        if not head.bearer:
            raise Refused(401, "denied", "the token is missing", hint)
        try:
            return self._tokens.check(head.bearer)
        except TokenRefused as error:
            refused = Refused(401, "denied", "Invalid, expired or revoked token.", hint)
            refused.reason = f"{error.why}: {error.name}" if error.name else error.why
            raise refused from None

    def note_refusal(self, head: Head, refused: Refused) -> None:
        """Write a line."""
        self._audit(head.client(behind_proxy=self.rules.behind_proxy), "", f"{head.method} {head.path}", refused.reason)


class GatewayApp:
    """The verbs behind the guard."""

    def __init__(self, gateway: Gateway, place: ServeOptions, audit: Audit) -> None:
        self.gateway = gateway
        self._prefix, self._behind_proxy, self._audit = f"/{place.name}", place.behind_proxy, audit
        #: The last trouble of the store.
        self._trouble = ""
        #: By token: its calls with large answers, until these are written: from then on the limits count them.
        self._large: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(LARGE_AT_ONCE))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        path = scope["path"].removeprefix(self._prefix)
        if path in HEALTH:
            well = path == "/healthz" or await self.gateway.is_ready()
            status, body = 200 if well else 503, wire.encode({"ok": well})
        elif path.rpartition("/")[2] in LARGE:
            async with self._large[scope["caller"].name]:
                await _send(send, *await self._call(scope, path, receive))
            return
        else:
            status, body = await self._call(scope, path, receive)
        await _send(send, status, body)

    async def _call(self, scope: Scope, path: str, receive: Receive) -> tuple[int, bytes]:
        grant: Grant = scope["caller"]
        try:
            words = path.split("/")
            if words[:2] != ["", "v1"] or len(words) != 3:
                return 404, _error("not_found", "there is nothing here", "Verbs are below /v1/.")
            if scope["method"] != "POST":
                return 405, _error("invalid", "ask with POST")
            body = (await receive())["body"]
            before = next((value for key, value in scope["headers"] if key == b"pit-again"), b"").decode("latin-1")
            return 200, await self.gateway.call(grant, words[2], body, before, receive)
        except TaskpitError as error:
            if isinstance(error, Denied):
                self._note(scope, grant, error.message)
            elif wire.is_of_the_server(error) and error.message != self._trouble:  # once, until it is another
                self._trouble = error.message
                self._note(scope, grant, error.message)
            status = next((status for kind, status in STATUS if isinstance(error, kind)), 409)
            return status, wire.encode({"ok": False, "error": wire.write_error(error)})
        except Exception as error:  # a fault of ours: the caller repeats nothing
            self._note(scope, grant, f"fault: {type(error).__name__}: {error}"[:300])
            return 500, _error("error", "the gateway met a fault of its own", "Its log says more.")

    def _note(self, scope: Scope, grant: Grant, why: str) -> None:
        head = Head(scope)
        self._audit(head.client(behind_proxy=self._behind_proxy), grant.name, f"{head.method} {head.path}", why)


async def _send(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"retry-after", b"1")] if status == 503 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _error(code: str, message: str, hint: str = "") -> bytes:
    return wire.encode({"ok": False, "error": {"code": code, "message": message, "hint": hint}})


class GatewayServer:
    """A queue, ready to be served: it has its socket."""

    def __init__(
        self,
        queue: Queue,
        place: ServeOptions,
        tell: Callable[[str], None] = lambda _: None,
        limits: Limits | None = None,
    ) -> None:
        _refuse_exposure(place)
        queue.need_trust()  # tokens that came with the folder would open it
        papers = papers_of(queue)
        self.gateway = Gateway(queue)
        self._refusals, self._tell = f"{papers}/{REFUSALS}", tell
        is_local = is_loopback(place.host) and not place.behind_proxy
        rules = GuardRules(
            hosts=LOOPBACK if is_local else (),
            pages=False,
            largest_body=wire.LARGEST_BODY,
            content_type="application/json",
            public=(*HEALTH, *(f"/{place.name}{path}" for path in HEALTH)),
            behind_proxy=place.behind_proxy,
            headers=(("x-content-type-options", "nosniff"), ("pit-gateway", self.gateway.name)),
        )
        guard = GatewayGuard(GatewayApp(self.gateway, place, self._audit), rules, Tokens(papers), self._audit)
        listening = listen(place.host, [place.port])
        self.port: int = listening.getsockname()[1]
        shown = place.host if is_loopback(place.host) else socket.gethostname()
        host = f"[{shown}]" if ":" in shown else shown
        self.address = f"{'https' if place.cert else 'http'}://{host}:{self.port}/{place.name}"
        self.server = Server(
            guard,
            listening,
            (limits or Limits()).replace(by_client=not place.behind_proxy),
            tls=(place.cert, place.key) if place.cert else None,
            dismiss=self.gateway.dismiss,
        )

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Serve until interrupted."""
        self.gateway.start()
        try:
            self.server.serve_until_stopped(ready)
        finally:
            self.gateway.close()

    def stop(self) -> None:
        """End soon. May be called from another thread."""
        self.server.stop()

    def _audit(self, client: str, token: str, what: str, why: str) -> None:
        """Write a line about a refusal, on the disk and for the person who serves; never a secret."""
        line = {"at": iso(time.time()), "from": client, "token": token, "what": what[:120], "why": why}
        self._tell(f"refused {line['what']} from {client} ({token or 'no token'}): {why}")
        try:
            status = fs.status(self._refusals)
            if status is not None and status.st_size > LARGEST_LOG:
                fs.move(self._refusals, f"{self._refusals}.1")
            fs.append(self._refusals, wire.encode(line) + b"\n")
        except OSError as error:
            print(f"pit serve: a refusal could not be written down: {error}", file=sys.stderr)


def papers_of(queue: Queue) -> str:
    """Return the folder for what belongs to serving this queue."""
    info = queue.store.info()
    if info.kind == "remote":
        raise Invalid("this queue is behind a gateway already", hint="Serve it where it is.")
    fs.make_dir(f"{info.papers}/.taskpit")
    return info.papers


def _refuse_exposure(place: ServeOptions) -> None:
    """Raise Invalid unless what is sent there is safe from readers on the way."""
    if bool(place.cert) != bool(place.key):
        raise Invalid("--cert and --key go together", hint="Name both files.")
    for path in filter(None, (place.cert, place.key)):
        if not os.path.isfile(path):
            raise Invalid(f"there is no file {path}", hint="Name a PEM file.", path=path)
    if not (is_loopback(place.host) or place.cert or place.behind_proxy):
        raise Invalid(
            f"{place.host} can be reached from other machines, and tokens would go there in the clear",
            hint="Give --cert and --key, or say --behind-proxy if a proxy in front of it speaks TLS.",
            host=place.host,
        )
