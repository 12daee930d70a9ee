"""HTTP/1.1 as callers of a gateway speak it: a head, a body of a told length, one answer. Knows bytes and connections,
nothing of what is asked for.

Standard library only, and small on purpose: it stands on the way of every call. What could be read in two ways is not
read at all (a length told twice, chunks, folded lines), so that no proxy before us can be made to see another request
than we do. Who takes for ever to say what they want is hung up on; and when many do, the client that has most of them
loses its oldest.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol


class Admitted(Protocol):
    """A request that was let in."""

    @property
    def known(self) -> bool:
        """Whether the caller has shown who it is."""


class App(Protocol):
    """What is behind a connection."""

    def admit(self, head: Head) -> Admitted:
        """Who asks, and for what; Refused if it is not to be had. Before any of the body is read."""

    def refusal(self, head: Head | None, refused: BadRequest) -> HttpAnswer:
        """What is said to a caller that is not let in."""

    def take(self, count: int) -> None:
        """So many bytes of a body have come; Refused if that is too much."""

    def drop(self, count: int) -> None:
        """They are not held any more."""

    def serve(self, asked: Any, body: bytes, answer: Callable[[HttpAnswer], None]) -> Callable[[], None] | None:
        """Begin; `answer` is called once, now or later. What it returns is called if the caller hangs up before."""


#: Bytes of a head, and of what may come before an answer is out.
LARGEST_HEAD, READ_AHEAD = 16 * 1024, 64 * 1024
#: A request must have been sent, and an answer taken, after so many seconds.
PATIENCE, TAKING = 20.0, 60.0
#: How long a caller that has shown a token may keep a connection without a word.
KEEP_ALIVE = 75.0
#: So many may be silent at once, over all clients.
MOST_SILENT = 1024
#: How long a caller that was refused may go on sending what nobody reads, so that it hears why.
LINGER = 2.0

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: What may be told only once.
_ONCE = ("content-length", "transfer-encoding", "host", "authorization", "content-type")


class BadRequest(Exception):
    """This request goes no further, and its connection ends."""

    def __init__(self, status: int, code: str, message: str, hint: str = "", why: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.error = {"code": code, "message": message, "hint": hint, "details": {}}
        #: For our own log, where that should say more.
        self.why = why or message


class HttpAnswer(NamedTuple):
    """What goes back."""

    status: int
    body: bytes
    headers: bytes
    close: bool = False


class Head:
    """A request's head, read once."""

    __slots__ = ("_headers", "client", "keep", "length", "method", "path")

    def __init__(self, data: bytes, client: str) -> None:
        self.client = client
        self.method = self.path = ""
        self._headers: dict[str, str] = {}
        self.length, self.keep = 0, False
        lines = data.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0") or not words[1].startswith("/"):
            raise BadRequest(400, "invalid", "this is not a request")
        self.method, target, version = words
        self.path = target.partition("?")[0]
        headers = self._headers
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or _NAME.fullmatch(name) is None or "\r" in value or "\n" in value or "\0" in value:
                raise BadRequest(400, "invalid", "a header cannot be read")
            name = name.lower()
            if name in headers:
                if name in _ONCE:
                    raise BadRequest(400, "invalid", f"{name} is told twice")
                continue
            headers[name] = value.strip(" \t")
        if "transfer-encoding" in headers:
            raise BadRequest(411, "invalid", "the length of the body is not told")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal() and len(length) < 15):
            raise BadRequest(400, "invalid", "the length of the body cannot be read")
        self.length = int(length)
        self.keep = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"

    def get(self, name: str) -> str:
        """A header; empty if there is none."""
        return self._headers.get(name, "")


class Floor:
    """All connections of one server: who dawdles, and who is silent."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.connections: set[Connection] = set()
        #: Those who have shown no token and have not finished a request, oldest first, by client.
        self.silent: dict[str, dict[Connection, None]] = {}
        self._count = 0

    def hush(self, one: Connection) -> None:
        """One more is silent; if that is one too many, the client with most of them loses its oldest."""
        mine = self.silent.setdefault(one.client, {})
        self._count += one not in mine
        mine[one] = None
        if self._count > MOST_SILENT:
            most = max(self.silent.values(), key=len)
            oldest = next(iter(most))
            self.speak(oldest)
            oldest.abort()

    def speak(self, one: Connection) -> None:
        """It is silent no longer."""
        mine = self.silent.get(one.client)
        if mine is not None and one in mine:
            del mine[one]
            self._count -= 1
            if not mine:
                del self.silent[one.client]

    async def watch(self) -> None:
        """Hang up on those whose time is over; until cancelled."""
        period = min(1.0, PATIENCE / 4)
        while True:
            began = time.monotonic()
            await asyncio.sleep(period)
            now = time.monotonic()
            late = now - began - period
            if late > period:  # we did not listen for so long, on a machine that has too much to do: not their fault
                for one in self.connections:
                    one.until += late
            for one in [one for one in self.connections if one.until < now]:
                one.abort()

    async def drain(self, seconds: float) -> None:
        """Answers under way go out, for so long; then everybody is hung up on."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and any(one.busy for one in self.connections):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for one in list(self.connections):
            one.close()
        await asyncio.sleep(0)


class Connection(asyncio.Protocol):
    """One caller, one request at a time."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._app = floor.app
        self._data = bytearray()
        self._head: Head | None = None
        self._admitted: Any = None
        #: Whether an answer is awaited, and what is to be done if the caller leaves meanwhile.
        self.busy = False
        #: Whether an answer waits for its caller to take it.
        self._untaken = False
        self._gone: Callable[[], None] | None = None
        self._refused = False
        #: Bytes of the body that are accounted for.
        self._taken = 0
        self.client = ""
        self.until = time.monotonic() + PATIENCE

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A caller is there."""
        self._transport: Any = transport
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a dead peer's wait ends some time
            for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self.client = str((transport.get_extra_info("peername") or ("",))[0])
        self._floor.connections.add(self)
        loop = asyncio.get_running_loop()  # what many that come at once have sent is read before one is called silent
        loop.call_soon(loop.call_soon, self._sent_nothing)

    def _sent_nothing(self) -> None:
        known = self._admitted is not None and self._admitted.known
        if self in self._floor.connections and not self.busy and not known:
            self._floor.hush(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - whyever
        """The caller is gone."""
        self._floor.connections.discard(self)
        self._floor.speak(self)
        self._release()
        gone, self._gone = self._gone, None
        self._refused = True
        if gone is not None:
            gone()

    def abort(self) -> None:
        """Hang up at once."""
        self._transport.abort()

    def close(self) -> None:
        """Hang up once what was said is sent."""
        self._transport.close()

    def _release(self) -> None:
        self._app.drop(self._taken)
        self._taken = 0

    # -- in ----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """They say something."""
        if self._refused:
            return
        self._data += data
        if self.busy:
            if len(self._data) > READ_AHEAD:
                self._transport.pause_reading()
            return
        try:
            self._read()
        except BadRequest as refused:
            self._refuse(refused)

    def _read(self) -> None:
        if self._head is None:
            end = self._data.find(b"\r\n\r\n", 0, LARGEST_HEAD)
            if end < 0:
                if len(self._data) >= LARGEST_HEAD:
                    raise BadRequest(431, "too_large", "the head of the request is too large")
                return
            head = self._head = Head(bytes(self._data[:end]), self.client)
            self._admitted = self._app.admit(head)
            del self._data[: end + 4]
            if head.get("expect").lower() == "100-continue":
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        head = self._head
        have = min(len(self._data), head.length)
        if have > self._taken:
            self._taken, more = have, have - self._taken
            self._app.take(more)
        if have < head.length:
            return
        body = bytes(self._data[: head.length])
        del self._data[: head.length]
        self.busy = True
        self.until = float("inf")
        self._floor.speak(self)
        gone = self._app.serve(self._admitted, body, self._answer)
        if self.busy:
            self._gone = gone

    # -- out ---------------------------------------------------------------------------------------

    def _answer(self, answer: HttpAnswer) -> None:
        if self._refused:
            return  # nobody is there
        head, self._head, self._gone = self._head, None, None
        self._release()
        self.busy = False
        keep = head is not None and head.keep and not answer.close
        self._write(answer, keep=keep, bare=head is not None and head.method == "HEAD")
        if not keep:
            self._transport.close()
            self._refused = True
            return
        self._expect(KEEP_ALIVE if self._admitted.known else PATIENCE)
        if self._data:
            self._transport.resume_reading()
            asyncio.get_running_loop().call_soon(self.data_received, b"")

    def _expect(self, seconds: float) -> None:
        """The next request, within so long; who has not shown a token is one of the silent."""
        if not self._untaken:
            self.until = time.monotonic() + seconds
        if not self._admitted.known:
            self._floor.hush(self)

    def _write(self, answer: HttpAnswer, *, keep: bool, bare: bool = False) -> None:
        line = f"HTTP/1.1 {answer.status} {_phrase(answer.status)}\r\ncontent-length: {len(answer.body)}\r\n".encode()
        close = b"" if keep else b"connection: close\r\n"
        self._transport.write(b"".join((line, answer.headers, close, b"\r\n", b"" if bare else answer.body)))

    def _refuse(self, refused: BadRequest) -> None:
        """Say why, read on for a moment what nobody wants, so that it is heard, and hang up."""
        self._write(self._app.refusal(self._head, refused), keep=False)
        self._release()
        self._refused = True
        self._data.clear()
        self.until = time.monotonic() + LINGER

    def pause_writing(self) -> None:
        """They do not take their answer."""
        self._untaken = True
        self.until = time.monotonic() + TAKING

    def resume_writing(self) -> None:
        """They do."""
        self._untaken = False
        self.until = float("inf") if self.busy else time.monotonic() + KEEP_ALIVE


def _phrase(status: int) -> str:
    return _PHRASES.get(status, "")


_PHRASES = {int(one): one.phrase for one in HTTPStatus}
