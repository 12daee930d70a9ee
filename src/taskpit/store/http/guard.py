"""Decide which requests reach an application. Pure ASGI: nothing here knows tasks or frameworks.

A page on any website may send requests to a server on this machine, and any program here may connect to it. So each
request names us (Host), comes from our own pages or from no page (Origin), shows a token, is small, and is refused
here otherwise. Three servers share this: the gateway (`Guard` with grants), board and MCP (`PageGuard`).

| secret  | where it is                                   | what it opens                                             |
|---------|-----------------------------------------------|-----------------------------------------------------------|
| token   | `Authorization: Bearer`, or `?token=` once    | everything; a browser's becomes a session at once         |
| cookie  | made from the token; browsers send it to every port of a machine | nothing alone                          |
| word    | made from the token, kept by our own pages    | a session together with the cookie                        |
| door    | a page for browsers that show a cookie and no word | it contains nothing, and has the word or has not     |

The word is sent in the header X-CSRF-Token, in the form field `csrf`, or as `?word=` where a browser cannot send a
header. Applications find it in scope["csrf"]. A session ends twelve hours after its last use.
"""

from __future__ import annotations

import contextlib
import hmac
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec

from taskpit.errors import Invalid
from taskpit.model import Value
from taskpit.store.http.limits import CONNECTION
from taskpit.store.http.listening import LOOPBACK

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Scripts, styles and pictures come from this server; pages are not framed and send nothing elsewhere.
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
#: Methods that change nothing.
SAFE = ("GET", "HEAD", "OPTIONS")
COOKIE = "taskpit"
#: Seconds without use after which a session ends; it is renewed in its second half.
SESSION = 12 * 3600
#: Long enough to resist guessing, and valid in addresses, cookies and headers.
TOKEN = re.compile(r"[A-Za-z0-9_-]{16,200}")
FORM = "application/x-www-form-urlencoded"


class GuardRules(Value, frozen=True, kw_only=True):
    """What a request may be."""

    #: The token of a `PageGuard`.
    token: str = ""
    #: Names of this server, without port; IPv6 addresses in brackets. Empty: any name.
    hosts: tuple[str, ...] = LOOPBACK
    #: Whether pages of this server may ask; otherwise only programs may.
    pages: bool = True
    #: The most bytes of one body, and its type.
    largest_body: int = 1024 * 1024
    content_type: str = ""
    #: Refuse requests that would change something.
    read_only: bool = False
    #: What may be read without a token: these paths, and everything below those that end with a slash.
    public: tuple[str, ...] = ()
    #: A proxy in front of this server says in X-Forwarded-For which client asked it.
    behind_proxy: bool = False
    #: Headers of every answer.
    headers: tuple[tuple[str, str], ...] = (
        ("content-security-policy", CSP),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    )
    #: The page for browsers without the word, with {told} for the reason; empty: there are no pages.
    door: str = ""


def new_token() -> str:
    """Return a secret that cannot be guessed."""
    return token_urlsafe(24)


class Refused(Exception):
    """This request does not reach the application."""

    def __init__(self, status: int, code: str, message: str, hint: str = "", page: str = "", **headers: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.hint, self.page = status, code, message, hint, page
        self.headers = [(key.replace("_", "-"), value) for key, value in headers.items()]
        #: The reason for our own log, where that is more than the caller may know.
        self.reason = message


class Head:
    """The head of a request."""

    def __init__(self, scope: Scope) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        self._query: bytes = scope["query_string"]
        self._client = scope.get("client")

    @property
    def safe(self) -> bool:
        """Whether its method changes nothing."""
        return self.method in SAFE

    @property
    def query(self) -> list[tuple[str, str]]:
        """The words after the `?`."""
        return parse_qsl(self._query.decode("latin-1"), keep_blank_values=True, encoding="latin-1")

    def all(self, name: str) -> list[str]:
        """Return every value of a header."""
        wanted = name.encode("latin-1")
        return [value.decode("latin-1") for key, value in self._headers if key.lower() == wanted]

    def one(self, name: str) -> str:
        """Return a header's first value; empty if there is none."""
        return next(iter(self.all(name)), "")

    @property
    def browses(self) -> bool:
        """Whether a browser asks for a page."""
        return "text/html" in self.one("accept")

    @property
    def length(self) -> int:
        """The declared length of its body."""
        text = self.one("content-length")
        return int(text) if text.isascii() and text.isdecimal() else 0

    @property
    def bearer(self) -> str:
        """The token in its Authorization header; empty if there is none."""
        scheme, _, token = self.one("authorization").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    def client(self, *, behind_proxy: bool) -> str:
        """Return the address it comes from; a proxy's word is the last one of X-Forwarded-For."""
        forwarded = ",".join(self.all("x-forwarded-for")).rpartition(",")[2].strip()[:80] if behind_proxy else ""
        return forwarded or str((self._client or ("",))[0])


class Guard:
    """Let requests through that are from the right place, small, and shown a token for. Subclasses know the tokens."""

    def __init__(self, app: App, rules: GuardRules) -> None:
        self.app, self.rules = app, rules
        self._fixed = [(key.encode(), value.encode("latin-1")) for key, value in rules.headers]

    def admit(self, head: Head) -> object:
        """Return who asks, before the body is read. Raises Refused."""
        raise NotImplementedError

    def check_body(self, head: Head, body: bytes, caller: Any) -> None:
        """Refuse a request by what its body has. Raises Refused."""

    def inner_scope(self, scope: Scope, head: Head, caller: Any) -> Scope:  # noqa: ARG002
        """Return the scope that the application gets."""
        return {**scope, "caller": caller}

    def added_headers(self, head: Head, caller: Any) -> list[tuple[bytes, bytes]]:  # noqa: ARG002
        """Return headers of the answer to this request."""
        return []

    def note_refusal(self, head: Head, refused: Refused) -> None:
        """Hear of a refusal."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:  # none of our applications uses web sockets
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        head, caller, body = Head(scope), None, b""
        try:
            self._check_place(head)
            if not (head.safe and self._is_public(head.path)):
                caller = self.admit(head)
                if CONNECTION in scope:
                    scope[CONNECTION].is_known = True
                self._check_head(head)
                body = b"" if head.safe else await self._body(receive)
                self.check_body(head, body, caller)
        except Refused as refused:
            self.note_refusal(head, refused)
            await self._answer(refused, head, self._with_headers(send, []))
            return
        inner = self.inner_scope(scope, head, caller)
        added = self.added_headers(head, caller)
        await self.app(inner, receive if head.safe else _replay(body, receive), self._with_headers(send, added))

    def _is_public(self, path: str) -> bool:
        return any(path == one or (one.endswith("/") and path.startswith(one)) for one in self.rules.public)

    def _check_place(self, head: Head) -> None:
        """Check that the request means this server, is not sent by a page of another site, and is in one piece."""
        hosts, rules = head.all("host"), self.rules
        if rules.hosts and (len(hosts) != 1 or _name(hosts[0]) not in rules.hosts):
            names = ", ".join(rules.hosts)
            raise Refused(421, "wrong_host", "this server does not answer to that name", f"It answers to {names}.")
        origins, site = head.all("origin"), head.one("sec-fetch-site")
        if not rules.pages and (origins or site):
            raise Refused(403, "foreign_origin", "no page of a website may ask here")
        if not all(_is_ours(origin, hosts[0]) for origin in origins):
            raise Refused(403, "foreign_origin", "pages of other origins may not ask here")
        if not head.safe and site in ("cross-site", "same-site"):
            raise Refused(403, "foreign_origin", "pages of other sites may not change anything here")
        if head.safe and head.length:
            raise Refused(413, "too_large", f"a {head.method} has no body")

    def _check_head(self, head: Head) -> None:
        rules = self.rules
        if rules.read_only and not head.safe:
            raise Refused(403, "read_only", "this server is read-only", "Start it without --read-only.")
        if rules.content_type and head.one("content-type").partition(";")[0].strip().lower() != rules.content_type:
            raise Refused(415, "invalid", f"the body should be {rules.content_type}")
        if head.length > rules.largest_body:
            raise _too_large(rules.largest_body)

    async def _body(self, receive: Receive) -> bytes:
        """Read the whole body, and refuse it as soon as it is too large."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "ended_early", "the request ended early")
            body += message.get("body", b"")
            if len(body) > self.rules.largest_body:
                raise _too_large(self.rules.largest_body)
            if not message.get("more_body", False):
                return bytes(body)

    def _with_headers(self, send: Send, added: list[tuple[bytes, bytes]]) -> Send:
        """Add the fixed headers, which tell browsers what they may do with an answer."""
        fixed, names = self._fixed, {key for key, _ in self._fixed}

        async def send_with(message: Message) -> None:
            if message["type"] == "http.response.start":
                theirs = [(key, value) for key, value in message.get("headers", ()) if key.lower() not in names]
                if not any(key.lower() == b"cache-control" for key, _ in theirs):
                    theirs.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*theirs, *fixed, *added]}
            await send(message)

        return send_with

    async def _answer(self, refused: Refused, head: Head, send: Send) -> None:
        if head.browses and refused.page and head.method == "GET":
            kind, text = "text/html; charset=utf-8", refused.page.replace("{told}", f"{refused}. {refused.hint}")
        elif head.browses:
            kind, text = "text/plain; charset=utf-8", f"{refused}\n{refused.hint}".strip() + "\n"
        else:
            error = {"code": refused.code, "message": refused.message, "hint": refused.hint}
            kind = "application/json"
            text = msgspec.json.encode({"schema": 1, "ok": False, "error": error}).decode()
        body = b"" if head.method == "HEAD" else text.encode()
        headers = [("content-type", kind), ("content-length", str(len(text.encode()))), ("connection", "close")]
        encoded = [(key.encode(), value.encode("latin-1")) for key, value in [*headers, *refused.headers]]
        await send({"type": "http.response.start", "status": refused.status, "headers": encoded})
        await send({"type": "http.response.body", "body": body})


class _Session(Value, frozen=True, kw_only=True):
    """A browser that has shown the token once."""

    name: str
    #: Known to our own pages in that browser only.
    word: str
    #: Seconds until it ends.
    left: float


class PageGuard(Guard):
    """One token for everybody; browsers get a session for it."""

    def __init__(self, app: App, rules: GuardRules) -> None:
        if not TOKEN.fullmatch(rules.token):
            raise Invalid("a token is 16 or more letters, digits, - and _", hint="Leave it out to have one made.")
        super().__init__(app, rules)

    def admit(self, head: Head) -> _Session | None:
        """Return the session of a browser; None if the token itself was shown."""
        if self._is_token(head.bearer):
            return None
        given = [value for key, value in head.query if key == "token"]
        if given and self._is_token(given[0]):
            if head.method == "GET" and head.browses:
                raise self._moved(head)
            return None
        session = next(filter(None, map(self._session, _cookies(head, _cookie_name(head)))), None)
        if session is None:
            raise self._unknown(401)
        return session

    def check_body(self, head: Head, body: bytes, caller: _Session | None) -> None:
        """Check that one of our own pages asks: it knows the word of its session."""
        if caller is None:
            return
        words = head.all("x-csrf-token")
        if head.safe:
            words += [value for key, value in head.query if key == "word"]
        elif head.one("content-type").partition(";")[0].strip().lower() == FORM:
            words += [value for key, value in parse_qsl(body.decode("latin-1")) if key == "csrf"]
        if any(hmac.compare_digest(word.encode("utf-8", "replace"), caller.word.encode()) for word in words):
            return
        if head.safe:
            raise self._unknown(200 if head.browses and self.rules.door and not words else 401)
        raise Refused(403, "csrf", "this does not come from one of our own pages", "Reload the page and try again.")

    def inner_scope(self, scope: Scope, head: Head, caller: _Session | None) -> Scope:
        """Give the application the word for its pages, and an address without secrets."""
        word = caller.word if caller else self._mac("word")
        return {**scope, "csrf": word, "query_string": _without_secrets(head).encode("latin-1")}

    def added_headers(self, head: Head, caller: _Session | None) -> list[tuple[bytes, bytes]]:
        """Renew the cookie of a session in its second half."""
        if caller is None or caller.left >= SESSION / 2:
            return []
        return [(b"set-cookie", self._cookie(head, caller.name).encode("latin-1"))]

    def _unknown(self, status: int) -> Refused:
        return Refused(
            status,
            "unauthorized",
            "the token is missing or wrong",
            "Use the whole address that was printed when this server started, or send Authorization: Bearer TOKEN.",
            self.rules.door,
            www_authenticate='Bearer realm="taskpit"',
        )

    def _mac(self, text: str) -> str:
        """Return a digest that only the token can make of this text."""
        return hmac.new(self.rules.token.encode(), text.encode("utf-8", "replace"), "sha256").hexdigest()

    def _session(self, cookie: str) -> _Session | None:
        """Return the session of a cookie; None if it is not ours or has ended."""
        until, _, rest = cookie.partition(".")
        name, _, mac = rest.partition(".")
        expected = self._mac(f"session {until} {name}")
        if not until.isdecimal() or not hmac.compare_digest(mac.encode(), expected.encode()):
            return None
        left = int(until) - time.time()
        return _Session(name=name, word=self._mac(f"word {name}"), left=left) if left > 0 else None

    def _cookie(self, head: Head, name: str) -> str:
        until = int(time.time()) + SESSION
        value = f"{until}.{name}.{self._mac(f'session {until} {name}')}"
        return f"{_cookie_name(head)}={value}; Path=/; Max-Age={SESSION}; HttpOnly; SameSite=Strict"

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.rules.token.encode())

    def _moved(self, head: Head) -> Refused:
        """Make a session of the token and take it out of the address; the word goes where no server sees it."""
        query, name = _without_secrets(head), new_token()
        path = quote("/" + head.path.lstrip("/\\"))  # `//elsewhere` would be another server
        place = f"{path}?{query}" if query else path
        return Refused(
            303,
            "moved",
            "go on without the token in the address",
            location=f"{place}#word={self._mac(f'word {name}')}",
            set_cookie=self._cookie(head, name),
        )


def _is_ours(origin: str, host: str) -> bool:
    """Whether an Origin header names a page of this server."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _name(host: str) -> str:
    """Return a Host header without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


def _without_secrets(head: Head) -> str:
    return urlencode([pair for pair in head.query if pair[0] not in ("token", "word")], encoding="latin-1")


def _cookie_name(head: Head) -> str:
    """Return the name of this server's cookie: browsers share cookies between the ports of a machine."""
    port = head.one("host").rpartition("]")[2].rpartition(":")[2]
    return f"{COOKIE}-{port}" if port.isdecimal() else COOKIE


def _cookies(head: Head, name: str) -> list[str]:
    values = []
    for line in head.all("cookie"):
        with contextlib.suppress(CookieError):
            cookies = SimpleCookie(line)
            values += [cookies[name].value] if name in cookies else []
    return values


def _too_large(most: int) -> Refused:
    return Refused(413, "too_large", f"the request is larger than {most} bytes", "Send less at once.")


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body that was read, then what comes after it."""
    is_read = False

    async def again() -> Message:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
