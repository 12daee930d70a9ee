"""HTTP before the gateway: what is let in, how large it may be, how it is answered. Pure ASGI; knows no verbs.

No page of a website may ask here, whatever it shows. Everything but the two looks at its health needs a token.
"""

from __future__ import annotations

import asyncio
import json
import time
from urllib.parse import parse_qsl

from taskpit.asgi_guard import LOOPBACK
from taskpit.errors import Denied, Invalid, Storage, TaskpitError, TooLarge, Unavailable, Unknown
from taskpit.serve.gateway import Asked, Gateway
from taskpit.serve.tokens import Refused, Tokens
from taskpit.store.remote import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from taskpit.asgi_guard import Message, Receive, Scope, Send

__all__ = ["GatewayApp"]

#: Bytes of requests that are held at once, over all callers.
MOST_BYTES = 256 * 1024 * 1024
#: What our errors are in the words of HTTP; the answer's own words count.
STATUS = ((Denied, 403), (TooLarge, 413), (Unavailable, 503), (Unknown, 503), (Storage, 503), (Invalid, 400))


class _NotLetIn(Exception):
    """This request goes no further."""

    def __init__(self, status: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.error = {"code": code, "message": message, "hint": hint, "details": {}}


class GatewayApp:
    """The gateway as an ASGI application."""

    def __init__(
        self,
        gateway: Gateway,
        tokens: Tokens,
        *,
        name: str = "q",
        local: bool = True,
        audit: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> None:
        self.gateway = gateway
        self.tokens = tokens
        self._prefix = f"/{name}"
        #: Whether only this machine reaches us: then by its names only, which pages elsewhere cannot use.
        self._local = local
        self._audit = audit
        self._bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self.gateway.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.gateway.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = _Head(scope)
        path = head.path.removeprefix(self._prefix) if head.path.startswith(f"{self._prefix}/") else head.path
        name = ""
        try:
            self._check_place(head)
            if path in ("/healthz", "/readyz"):
                await self._healthy(path, head, send)
                return
            grant = self._grant(head)
            name = grant.name
            scope["known"] = True  # whoever has shown a token may keep a connection without a word
            verb, what = _verb(path, head.method)
            body = await self._body(head, receive, wire.LARGEST_LOG if verb == "log" else wire.LARGEST_BODY)
            try:
                fields = {"call": what, "data": body, **head.query} if verb == "log" else wire.load(body)
                asked = Asked(grant, verb, fields, head.get("pit-again") or None)
                answer = await self._ask(asked, receive)
            finally:
                self._bytes -= len(body)
        except _NotLetIn as refused:
            self._refused(head, path, name, str(refused))
            await _send(send, refused.status, {"ok": False, "error": refused.error}, self.gateway.name, close=True)
        except asyncio.CancelledError:
            raise
        except TaskpitError as error:
            if isinstance(error, Denied):
                self._refused(head, path, name, error.message)
            status = next((status for kind, status in STATUS if isinstance(error, kind)), 409)
            await _send(send, status, {"ok": False, "error": wire.write_error(error)}, self.gateway.name)
        except _Gone:
            return
        except Exception as error:  # a fault of ours: the caller is told so, and repeats nothing
            self._refused(head, path, name, f"fault: {type(error).__name__}: {error}"[:300])
            fault = {"code": "error", "message": "the gateway met a fault of its own", "hint": "Its log says more."}
            await _send(send, 500, {"ok": False, "error": fault}, self.gateway.name)
        else:
            await _send(send, 200, {"ok": True, "data": answer}, self.gateway.name)

    # -- what is let in ----------------------------------------------------------------------------

    def _check_place(self, head: _Head) -> None:
        """No page asks, and a server of this machine is called by a name of this machine."""
        if head.get("origin") or head.get("sec-fetch-site"):
            raise _NotLetIn(403, "foreign_origin", "no page of a website may ask here")
        host = head.get("host").lower()
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if self._local and name not in LOOPBACK:
            raise _NotLetIn(421, "wrong_host", "this gateway does not answer to that name")

    def _grant(self, head: _Head) -> Any:
        scheme, _, token = head.get("authorization").partition(" ")
        told = "Show a token that is in force: `pit token add NAME` where the queue is makes one."
        if scheme.lower() != "bearer" or not token:
            raise _NotLetIn(401, "denied", "the token is missing", told)
        try:
            return self.tokens.check(token.strip())
        except Refused as refused:
            why = f"{refused.why}: {refused.name}" if refused.name else refused.why
            error = _NotLetIn(401, "denied", "the token is wrong, over or revoked", told)
            error.args = (why,)  # for our own log
            raise error from None

    async def _body(self, head: _Head, receive: Receive, most: int) -> bytes:
        """The whole body; refused as soon as it is too large, or as too much is held already."""
        told = head.get("content-length")
        wanted = "application/octet-stream" if head.method == "PUT" else "application/json"
        if head.get("content-type").partition(";")[0].strip().lower() != wanted:
            raise _NotLetIn(415, "invalid", f"the body should be {wanted}")
        if told.isdecimal() and int(told) > most:
            raise _NotLetIn(413, "too_large", f"the request is larger than {most} bytes", "Send less at once.")
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self._bytes -= len(body)
                raise _Gone
            chunk = message.get("body", b"")
            body += chunk
            self._bytes += len(chunk)
            if len(body) > most or self._bytes > MOST_BYTES:
                self._bytes -= len(body)
                if len(body) > most:
                    raise _NotLetIn(413, "too_large", f"the request is larger than {most} bytes", "Send less at once.")
                raise Unavailable("the gateway has its hands full", hint="Try again.")
            if not message.get("more_body", False):
                return bytes(body)

    # -- asking ------------------------------------------------------------------------------------

    async def _ask(self, asked: Asked, receive: Receive) -> Any:
        """The answer; a caller that hangs up while it waits is noticed."""
        call = self.gateway.begin(asked)
        if call is None:
            return await self.gateway.answer(asked)
        if call.work.done():
            return call.work.result()
        gone = asyncio.ensure_future(_hung_up(receive))
        try:
            await asyncio.wait((call.work, gone), return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                self.gateway.give_up(asked, call)
                raise _Gone
            return call.work.result()
        except asyncio.CancelledError:
            if call.work.cancelled():
                return {"claim": []} if asked.verb == "turn" else []
            raise
        finally:
            gone.cancel()

    async def _healthy(self, path: str, head: _Head, send: Send) -> None:
        if head.method not in ("GET", "HEAD"):
            raise _NotLetIn(405, "invalid", "ask with GET")
        well = path == "/healthz" or await self.gateway.is_ready()
        await _send(send, 200 if well else 503, {"ok": well}, self.gateway.name)

    def _refused(self, head: _Head, path: str, name: str, why: str) -> None:
        self._audit(
            {"at": time.time(), "from": head.client, "token": name, "what": f"{head.method} {path}"[:120], "why": why}
        )


class _Gone(Exception):
    """Nobody is there to be answered."""


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _Head:
    """A request's head, read once."""

    def __init__(self, scope: Scope) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.client = str((scope.get("client") or ("",))[0])
        self._headers: dict[str, str] = {}
        for key, value in scope["headers"]:
            self._headers.setdefault(key.decode("latin-1").lower(), value.decode("latin-1"))
        self.query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))

    def get(self, name: str) -> str:
        """A header; empty if there is none."""
        return self._headers.get(name, "")


def _verb(path: str, method: str) -> tuple[str, str]:
    """What is asked for, and of what."""
    words = path.split("/")
    if method == "PUT" and words[:3] == ["", "v1", "log"] and len(words) == 4:
        return "log", words[3]
    if words[:2] != ["", "v1"] or len(words) != 3 or words[2] == "log":
        raise _NotLetIn(404, "not_found", "there is nothing here", "Verbs are below /v1/.")
    if method != "POST":
        raise _NotLetIn(405, "invalid", "ask with POST")
    return words[2], ""


async def _send(send: Send, status: int, answer: dict[str, Any], gateway: str, *, close: bool = False) -> None:
    body = json.dumps(answer, separators=(",", ":")).encode("ascii")
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"pit-gateway", gateway.encode()),
        *([(b"connection", b"close")] if close else []),
        *([(b"retry-after", b"1")] if status == 503 else []),
    ]
    start: Message = {"type": "http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
