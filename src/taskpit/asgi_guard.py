"""What stands before everything we serve over HTTP. Pure ASGI: knows requests, nothing of tasks or frameworks.

A page on any website may send requests to a server on this machine, and any program here may connect to it.
So each request must name us (Host), come from our own pages or from no page at all (Origin), carry the token,
be small, and, when it changes something with nothing but a browser's cookie to show, repeat a word that only
our own pages know. A request that fails is answered here and never reaches the application.

    token   Authorization: Bearer, or `?token=` in the address; a browser's is turned into a session at once
    session a cookie and a word, made from the token, neither of which tells it. A browser sends cookies to every
            port of a machine, so the cookie alone opens nothing: the word is kept by our own pages, for this
            origin only, and shown with every request (the header X-CSRF-Token, the form field `csrf`, or
            `?word=` where a browser can send no header). The application finds it in scope["csrf"].
            A session ends some hours after it was last used.
    door    what a browser is given that shows a cookie and no word: a page without anything in it, which has
            the word or has not
"""

from __future__ import annotations

import errno
import hmac
import json
import re
import socket
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from taskpit.errors import Invalid
from taskpit.model import Value

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


#: Names under which only this machine can be meant.
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
#: Scripts, styles and pictures from ourselves only; nobody frames us, nothing is sent elsewhere.
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
#: Methods that change nothing.
SAFE = ("GET", "HEAD", "OPTIONS")
COOKIE = "taskpit"
#: A session that is not used for this long has ended, in seconds; it is renewed in its second half.
SESSION = 12 * 3600
#: Long enough not to be guessed, and at home in addresses, cookies and headers.
TOKEN = re.compile(r"[A-Za-z0-9_-]{16,200}")
FORM = "application/x-www-form-urlencoded"


class GuardRules(Value, frozen=True, kw_only=True):
    """Who may ask, and for how much."""

    #: What every request must show.
    token: str
    #: Names this server answers to, without port; IPv6 addresses in brackets.
    hosts: tuple[str, ...] = LOOPBACK
    #: The most bytes of one request.
    largest_body: int = 1024 * 1024
    #: Requests that would change something are refused.
    read_only: bool = False
    csp: str = CSP
    #: What may be read without a token, by who calls us by our name: these paths, and what is below those with a /.
    public: tuple[str, ...] = ()
    #: The page that browsers are given without the word, with {told} for what is wrong; empty: there are no pages.
    door: str = ""


def new_token() -> str:
    """A secret nobody can guess."""
    from secrets import token_urlsafe

    return token_urlsafe(24)


def is_loopback(host: str) -> bool:
    """Whether a server that listens there is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listen(host: str, ports: Sequence[int]) -> socket.socket:
    """A socket there, on the first of these ports that is free; Invalid if it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for one in ports:
        try:
            return socket.create_server((host, one), family=family, backlog=512)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            if taken and one != ports[-1]:
                continue
            message = "another program listens there already" if taken else error.strerror or str(error)
            raise Invalid(
                f"cannot listen on {host} port {one}: {message}", hint="Choose another with --port, or leave it out."
            ) from None
    raise AssertionError(ports)  # pragma: no cover - the last one returns or raises


def refuse_exposure(host: str, token: str, *, exposed: bool) -> None:
    """Invalid unless listening there is safe, or a person has said twice that others shall reach it."""
    if is_loopback(host) or (exposed and token):
        return
    raise Invalid(
        f"{host} can be reached from other machines, and anyone who reaches it can give your agents work",
        hint="Leave out --host to serve this machine only, or say --expose and give the token that others must show: "
        "TASKPIT_TOKEN or --token-file.",
        host=host,
    )


class _Refused(Exception):
    """This request goes no further."""

    def __init__(self, status: int, code: str, message: str, hint: str = "", page: str = "", **headers: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.hint, self.page = status, code, message, hint, page
        self.headers = [(key.replace("_", "-"), value) for key, value in headers.items()]


class _Session(Value, frozen=True, kw_only=True):
    """A browser that has shown the token once."""

    name: str
    #: What only our own pages in that browser know.
    word: str
    #: Seconds until it ends.
    left: float


class _Asked:
    """A request's head, read once."""

    def __init__(self, scope: Scope) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, encoding="latin-1")
        self._headers: list[tuple[bytes, bytes]] = list(scope["headers"])

    @property
    def safe(self) -> bool:
        return self.method in SAFE

    def all(self, name: str) -> list[str]:
        wanted = name.encode("latin-1")
        return [value.decode("latin-1") for key, value in self._headers if key.lower() == wanted]

    def one(self, name: str) -> str:
        return next(iter(self.all(name)), "")

    @property
    def browses(self) -> bool:
        """Whether a person looks at a page with this."""
        return "text/html" in self.one("accept")


class Guard:
    """An ASGI application that lets only good requests through to another."""

    def __init__(self, app: App, rules: GuardRules) -> None:
        if not TOKEN.fullmatch(rules.token):
            raise Invalid("a token is 16 or more letters, digits, - and _", hint="Leave it out to have one made.")
        self.app, self.rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:  # nothing of ours speaks over web sockets
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked, session, body = _Asked(scope), None, b""
        try:
            self._check_place(asked)
            if not (asked.safe and self._is_public(asked.path)):
                session = self._check_token(asked)
                self._check_wish(asked)
                body = b"" if asked.safe else await self._body(asked, receive)
                if session is not None:
                    self._check_word(asked, body, session)
        except _Refused as refused:
            await _answer(refused, asked, self._with_headers(send))
            return
        word = session.word if session else self._mac("word")
        inner = {**scope, "csrf": word, "query_string": _without_secrets(asked).encode("latin-1")}
        renewed = self._cookie(asked, session.name) if session and session.left < SESSION / 2 else ""
        await self.app(inner, receive if asked.safe else _replay(body, receive), self._with_headers(send, renewed))

    def _is_public(self, path: str) -> bool:
        return any(path == one or (one.endswith("/") and path.startswith(one)) for one in self.rules.public)

    def _check_place(self, asked: _Asked) -> None:
        """The request means us, and no page of another site sends it."""
        hosts = asked.all("host")
        if len(hosts) != 1 or _name(hosts[0]) not in self.rules.hosts:
            names = ", ".join(self.rules.hosts)
            raise _Refused(421, "wrong_host", "this server does not answer to that name", f"It answers to {names}.")
        for origin in asked.all("origin"):
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or parts.netloc.lower() != hosts[0].lower():
                raise _Refused(403, "foreign_origin", "pages of other origins may not ask here")
        if not asked.safe and asked.one("sec-fetch-site") in ("cross-site", "same-site"):
            raise _Refused(403, "foreign_origin", "pages of other sites may not change anything here")

    def _check_token(self, asked: _Asked) -> _Session | None:
        """The session, if a browser has one; None if the token itself was shown."""
        scheme, _, bearer = asked.one("authorization").partition(" ")
        given = [value for key, value in asked.query if key == "token"]
        if scheme.lower() == "bearer" and self._is_token(bearer.strip()):
            return None
        if given and self._is_token(given[0]):
            if asked.method == "GET" and asked.browses:
                raise self._moved(asked)
            return None
        sessions = filter(None, map(self._session, _cookies(asked, self._cookie_name(asked))))
        found = next(sessions, None)
        if found is None:
            raise self._unknown(401)
        return found

    def _unknown(self, status: int) -> _Refused:
        return _Refused(
            status,
            "unauthorized",
            "the token is missing or wrong",
            "Use the whole address that was printed when this server started, or send Authorization: Bearer TOKEN.",
            self.rules.door,
            www_authenticate='Bearer realm="taskpit"',
        )

    # -- sessions ----------------------------------------------------------------------------------

    def _mac(self, text: str) -> str:
        """What only who has the token can make of a text."""
        return hmac.new(self.rules.token.encode(), text.encode("utf-8", "replace"), "sha256").hexdigest()

    def _session(self, cookie: str) -> _Session | None:
        """The session that a cookie stands for; None if it is none of ours, or over."""
        until, _, rest = cookie.partition(".")
        name, _, mac = rest.partition(".")
        if not until.isdecimal() or not hmac.compare_digest(
            mac.encode(), self._mac(f"session {until} {name}").encode()
        ):
            return None
        left = int(until) - time.time()
        return _Session(name=name, word=self._mac(f"word {name}"), left=left) if left > 0 else None

    def _cookie(self, asked: _Asked, name: str) -> str:
        until = int(time.time()) + SESSION
        value = f"{until}.{name}.{self._mac(f'session {until} {name}')}"
        return f"{self._cookie_name(asked)}={value}; Path=/; Max-Age={SESSION}; HttpOnly; SameSite=Strict"

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.rules.token.encode())

    def _cookie_name(self, asked: _Asked) -> str:
        """Browsers share cookies between ports: each server has its own name for its own."""
        port = asked.one("host").rpartition("]")[2].rpartition(":")[2]
        return f"{COOKIE}-{port}" if port.isdecimal() else COOKIE

    def _moved(self, asked: _Asked) -> _Refused:
        """The token becomes a session and leaves the address; the word goes where no server is told of it."""
        query = _without_secrets(asked)
        path = quote("/" + asked.path.lstrip("/\\"))  # `//elsewhere` would lead elsewhere
        name = new_token()
        place = f"{path}?{query}" if query else path
        return _Refused(
            303,
            "moved",
            "go on without the token in the address",
            location=f"{place}#word={self._mac(f'word {name}')}",
            set_cookie=self._cookie(asked, name),
        )

    def _check_wish(self, asked: _Asked) -> None:
        if self.rules.read_only and not asked.safe:
            raise _Refused(403, "read_only", "this server is read-only", "Start it without --read-only.")

    async def _body(self, asked: _Asked, receive: Receive) -> bytes:
        """The whole body; refused as soon as it is too large."""
        most = self.rules.largest_body
        text = asked.one("content-length")
        if text.isdecimal() and int(text) > most:
            raise _too_large(most)
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Refused(400, "ended_early", "the request ended early")
            body += message.get("body", b"")
            if len(body) > most:
                raise _too_large(most)
            if not message.get("more_body", False):
                return bytes(body)

    def _check_word(self, asked: _Asked, body: bytes, session: _Session) -> None:
        """One of our own pages asks: it knows the word of this session."""
        words = asked.all("x-csrf-token")
        if asked.safe:
            words += [value for key, value in asked.query if key == "word"]
        elif asked.one("content-type").partition(";")[0].strip().lower() == FORM:
            words += [value for key, value in parse_qsl(body.decode("latin-1")) if key == "csrf"]
        if any(hmac.compare_digest(word.encode("utf-8", "replace"), session.word.encode()) for word in words):
            return
        if asked.safe:
            raise self._unknown(200 if asked.browses and self.rules.door and not words else 401)
        raise _Refused(403, "csrf", "this does not come from one of our own pages", "Reload the page and try again.")

    def _with_headers(self, send: Send, cookie: str = "") -> Send:
        """Every answer tells browsers what they may do with it."""
        ours = {
            "content-security-policy": self.rules.csp,
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
        }

        async def send_with(message: Message) -> None:
            if message["type"] == "http.response.start":
                theirs = [(key, value) for key, value in message.get("headers", ()) if key.decode().lower() not in ours]
                if not any(key.lower() == b"cache-control" for key, _ in theirs):
                    theirs.append((b"cache-control", b"no-store"))
                added = [(key.encode(), value.encode("latin-1")) for key, value in ours.items()]
                added += [(b"set-cookie", cookie.encode("latin-1"))] if cookie else []
                message = {**message, "headers": [*theirs, *added]}
            await send(message)

        return send_with


def _name(host: str) -> str:
    """A Host header without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


def _without_secrets(asked: _Asked) -> str:
    return urlencode([pair for pair in asked.query if pair[0] not in ("token", "word")], encoding="latin-1")


def _cookies(asked: _Asked, name: str) -> list[str]:
    found = []
    for line in asked.all("cookie"):
        try:
            cookies = SimpleCookie(line)
        except CookieError:
            continue
        if name in cookies:
            found.append(cookies[name].value)
    return found


def _too_large(most: int) -> _Refused:
    return _Refused(413, "too_large", f"the request is larger than {most} bytes", "Send less at once.")


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body that was read already, then whatever comes after it."""
    read = False

    async def again() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _answer(refused: _Refused, asked: _Asked, send: Send) -> None:
    if asked.browses and refused.page and asked.method == "GET":
        kind, text = "text/html; charset=utf-8", refused.page.replace("{told}", f"{refused.message}. {refused.hint}")
    elif asked.browses:
        kind, text = "text/plain; charset=utf-8", f"{refused.message}\n{refused.hint}".strip() + "\n"
    else:
        facts = {"code": refused.code, "message": refused.message, "hint": refused.hint}
        kind, text = "application/json", json.dumps({"schema": 1, "ok": False, "error": facts})
    body = text.encode()
    headers = [("content-type", kind), ("content-length", str(len(body))), ("connection", "close"), *refused.headers]
    encoded = [(key.encode(), value.encode("latin-1")) for key, value in headers]
    await send({"type": "http.response.start", "status": refused.status, "headers": encoded})
    await send({"type": "http.response.body", "body": b"" if asked.method == "HEAD" else body})
