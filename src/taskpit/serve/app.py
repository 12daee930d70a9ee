"""What stands between HTTP and the gateway: what is let in, how large it may be, how it is answered. Knows no verbs.

No page of a website may ask here, whatever it shows. Everything but the two looks at its health needs a token.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from taskpit.errors import Denied, Invalid, Storage, TaskpitError, TooLarge, Unavailable, Unknown
from taskpit.serve import tokens as shown
from taskpit.serve.gateway import Asked, Gateway
from taskpit.serve.http import BadRequest, Head, HttpAnswer
from taskpit.serve.tokens import Grant, Tokens
from taskpit.store.http.listening import LOOPBACK
from taskpit.store.remote import wire

#: Bytes of requests that are held at once, over all callers.
MOST_BYTES = 256 * 1024 * 1024
#: What our errors are in the words of HTTP; the answer's own words count.
STATUS = ((Denied, 403), (TooLarge, 413), (Unavailable, 503), (Unknown, 503), (Storage, 503), (Invalid, 400))


class Request(NamedTuple):
    """A request that was let in: by whom, and for what."""

    head: Head
    grant: Grant | None
    path: str
    verb: str

    @property
    def known(self) -> bool:
        """Whether the caller has shown a token: then it may keep a connection without a word."""
        return self.grant is not None


class GatewayApp:
    """The gateway as callers over HTTP meet it."""

    def __init__(
        self,
        gateway: Gateway,
        tokens: Tokens,
        *,
        name: str = "q",
        local: bool = True,
        behind_proxy: bool = False,
        audit: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> None:
        self.gateway = gateway
        self.tokens = tokens
        self._prefix = f"/{name}"
        #: Whether only this machine reaches us: then by its names only, which pages elsewhere cannot use.
        self._local = local
        self._behind_proxy = behind_proxy
        self._audit = audit
        self._bytes = 0
        #: What the store refused last.
        self._trouble = ""
        self._headers = (
            "content-type: application/json\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\n"
            f"pit-gateway: {gateway.name}\r\n"
        ).encode("ascii")

    # -- what is let in ----------------------------------------------------------------------------

    def admit(self, head: Head) -> Request:
        """Who asks for what; before any of the body is read."""
        path = head.path.removeprefix(self._prefix) if head.path.startswith(f"{self._prefix}/") else head.path
        self._check_place(head)
        if path in ("/healthz", "/readyz"):
            if head.method not in ("GET", "HEAD"):
                raise BadRequest(405, "invalid", "ask with GET")
            _check_size(head, 0)
            return Request(head, None, path, path[1:])
        grant = self._grant(head)
        verb = _verb(path, head.method)
        if head.get("content-type").partition(";")[0].strip().lower() != "application/json":
            raise BadRequest(415, "invalid", "the body should be application/json")
        _check_size(head, wire.LARGEST_BODY)
        return Request(head, grant, path, verb)

    def _check_place(self, head: Head) -> None:
        """No page asks, and a server of this machine is called by a name of this machine."""
        if head.get("origin") or head.get("sec-fetch-site"):
            raise BadRequest(403, "foreign_origin", "no page of a website may ask here")
        host = head.get("host").lower()
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if self._local and name not in LOOPBACK:
            raise BadRequest(421, "wrong_host", "this gateway does not answer to that name")

    def _grant(self, head: Head) -> Grant:
        scheme, _, token = head.get("authorization").partition(" ")
        told = "Show a token that is in force: `pit token add NAME` where the queue is makes one."
        if scheme.lower() != "bearer" or not token:
            raise BadRequest(401, "denied", "the token is missing", told)
        try:
            return self.tokens.check(token.strip())
        except shown.TokenRefused as refused:
            why = f"{refused.why}: {refused.name}" if refused.name else refused.why
            raise BadRequest(401, "denied", "the token is wrong, over or revoked", told, why) from None

    def take(self, count: int) -> None:
        """So many bytes more are held."""
        self._bytes += count
        if self._bytes > MOST_BYTES:
            raise BadRequest(503, "unavailable", "the gateway is busy", "Try again.")

    def drop(self, count: int) -> None:
        """They are not."""
        self._bytes -= count

    def refusal(self, head: Head | None, refused: BadRequest) -> HttpAnswer:
        """A line about it, and what the caller is told."""
        if refused.status != 503:
            self._note(head, "", refused.why)
        return self._said(refused.status, {"ok": False, "error": refused.error}, close=True)

    # -- asking ------------------------------------------------------------------------------------

    def serve(self, asked: Request, body: bytes, answer: Callable[[HttpAnswer], None]) -> Callable[[], None] | None:
        """The answer goes out when it is there; a caller that hangs up while it waits is noticed."""
        grant = asked.grant
        if grant is None:
            work = asyncio.ensure_future(self._healthy(asked.path))
            work.add_done_callback(lambda done: answer(done.result()))
            return None
        try:
            call = Asked(grant, asked.verb, wire.load(body), asked.head.get("pit-again") or None)
            begun = self.gateway.begin(call)
        except Exception as error:
            answer(self._failed(asked, error))
            return None
        pending = asyncio.ensure_future(self.gateway.answer(call)) if begun is None else begun.work
        if pending.done():
            answer(self._answered(asked, pending))
            return None
        gone = False

        def over(done: asyncio.Future[Any]) -> None:
            if not gone:
                answer(self._answered(asked, done))
            elif not done.cancelled():
                done.exception()  # heard, though nobody listens

        def leave() -> None:
            nonlocal gone
            gone = True
            if begun is not None:
                self.gateway.give_up(call, begun)

        pending.add_done_callback(over)
        return leave

    def _answered(self, asked: Request, done: asyncio.Future[Any]) -> HttpAnswer:
        if done.cancelled():  # given up by another call of the same caller
            return self._said(200, {"ok": True, "data": {"claim": []} if asked.verb == "turn" else []})
        error = done.exception()
        if error is not None:
            return self._failed(asked, error)
        return self._said(200, {"ok": True, "data": done.result()})

    def _failed(self, asked: Request, error: BaseException) -> HttpAnswer:
        name = asked.grant.name if asked.grant is not None else ""
        if isinstance(error, TaskpitError):
            if isinstance(error, Denied):
                self._note(asked.head, name, error.message)
            elif wire.is_of_the_server(error) and error.message != self._trouble:  # once, until it is another
                self._trouble = error.message
                self._note(asked.head, name, error.message)
            status = next((status for kind, status in STATUS if isinstance(error, kind)), 409)
            return self._said(status, {"ok": False, "error": wire.write_error(error)})
        # A fault of ours: the caller is told so, and repeats nothing.
        self._note(asked.head, name, f"fault: {type(error).__name__}: {error}"[:300])
        fault = {"code": "error", "message": "the gateway met a fault of its own", "hint": "Its log says more."}
        return self._said(500, {"ok": False, "error": fault})

    async def _healthy(self, path: str) -> HttpAnswer:
        well = path == "/healthz" or await self.gateway.is_ready()
        return self._said(200 if well else 503, {"ok": well})

    def _said(self, status: int, answer: dict[str, Any], *, close: bool = False) -> HttpAnswer:
        body = json.dumps(answer, separators=(",", ":")).encode("ascii")
        return HttpAnswer(
            status, body, self._headers + b"retry-after: 1\r\n" if status == 503 else self._headers, close
        )

    def _note(self, head: Head | None, name: str, why: str) -> None:
        """A line for each refusal."""
        client, what = "", ""
        if head is not None:
            path = head.path.removeprefix(self._prefix)
            client, what = head.client, f"{head.method} {path}"[:120]
            if self._behind_proxy:  # the proxy says who asked it; what its caller says stands before that
                client = head.get("x-forwarded-for").rpartition(",")[2].strip()[:80] or client
        self._audit({"at": time.time(), "from": client, "token": name, "what": what, "why": why})


def _check_size(head: Head, most: int) -> None:
    if head.length > most:
        raise BadRequest(413, "too_large", f"the request is larger than {most} bytes", "Send less at once.")


def _verb(path: str, method: str) -> str:
    """What is asked for."""
    words = path.split("/")
    if words[:2] != ["", "v1"] or len(words) != 3:
        raise BadRequest(404, "not_found", "there is nothing here", "Verbs are below /v1/.")
    if method != "POST":
        raise BadRequest(405, "invalid", "ask with POST")
    return words[2]
