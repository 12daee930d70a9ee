"""Serve an ASGI application: a socket, TLS, and uvicorn with the limits of `limits.py`.

uvicorn's parsers read several requests at once, and each reads doubtful ones in its own way. So a connection hands
its parser one request at a time, after checking that the head can be read in one way only: no proxy in front can be
made to see another request than we do.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from typing import Any

import msgspec
import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.protocols.http.flow_control import FlowControl

from taskpit.errors import Invalid
from taskpit.store.http.limits import CONNECTION, ConnectionTable, Limits
from taskpit.store.http.listening import BACKLOG

#: Seconds in which open requests may end when a server stops.
GRACE = 2

#: A head that every parser reads in the same way: origin form, CRLF, no folded lines, no space before a colon.
HEAD = re.compile(
    rb"[A-Z]+ /[\x21-\x7e]* HTTP/1\.[01]\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*\r\n)*\r\n", re.ASCII
)
#: Fields that may be there once.
ONCE = re.compile(
    rb"\r\n(host|content-length|transfer-encoding|authorization|content-type|upgrade):([^\r]*)", re.IGNORECASE
)
#: Offers of other protocols are not taken up.
UPGRADE = re.compile(rb"\r\nupgrade:[^\r]*", re.IGNORECASE)

#: httptools where it is installed, h11 otherwise.
_Parser: Any = AutoHTTPProtocol


class BadHead(Exception):
    """A request that cannot be read, or can be read in two ways."""

    def __init__(self, status: int, message: str, code: str = "invalid") -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


def body_length(head: bytes) -> int:
    """Check the head of a request and return the length of its body. Raises BadHead."""
    if HEAD.fullmatch(head) is None:
        raise BadHead(400, "This is not an HTTP request.")
    length, seen = b"0", set()
    for found in ONCE.finditer(head):
        name, value = found[1].lower(), found[2].strip(b" \t")
        if name in seen:
            raise BadHead(400, f"The header {name.decode()} is there twice.")
        seen.add(name)
        if name == b"transfer-encoding":
            raise BadHead(411, "The request needs a Content-Length; chunks are not read.")
        if name == b"content-length":
            length = value
    if b"host" not in seen:
        raise BadHead(400, "The request names no host.")
    if not length.isdigit() or len(length) > 15:
        raise BadHead(400, "The Content-Length is not a number.")
    return int(length)


class _Flow(FlowControl):
    """Reading goes on only while the bytes behind the request in flight are few, whatever uvicorn asks."""

    def __init__(self, transport: asyncio.Transport, is_full: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._is_full = is_full

    def resume_reading(self) -> None:
        if not self._is_full():
            super().resume_reading()


class _Lingering:
    """A transport whose `close` reads on for a moment: closing with unread bytes would destroy the last answer."""

    def __init__(self, transport: asyncio.Transport, linger: Callable[[], None]) -> None:
        self._transport, self._is_closing = transport, False
        self._linger = linger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Whether it is closed or lingers."""
        return self._is_closing or self._transport.is_closing()

    def close_now(self) -> None:
        """Close it once what was written is sent."""
        self._transport.close()

    def close(self) -> None:
        """Send what was written, and discard what comes."""
        if self.is_closing() or not self._transport.can_write_eof():
            self._transport.close()
            return
        self._is_closing = True
        self._transport.write_eof()
        self._linger()


class LimitedConnection(_Parser):  # type: ignore[misc]  # which class it is depends on what is installed
    """A connection of uvicorn's that keeps the limits of its server. It feeds its parser one request at a time."""

    def __init__(self, table: ConnectionTable, **named: Any) -> None:
        super().__init__(**named)
        self.table, self.limits = table, table.limits
        self._application: Any = self.config.loaded_app
        self.app = self._run
        self._data = bytearray()
        #: Bytes of the request's body that have not come, and those that the table counts.
        self._missing = self._received = self._untaken = self._discarded = 0
        #: Whether an answer is complete but not read by its client yet; whether the client was refused.
        self._is_answered = self._is_refused = False
        #: Whether the client has shown a token.
        self.is_known = False
        self.until = time.monotonic() + self.limits.patience

    async def _run(self, scope: Any, receive: Any, send: Any) -> None:
        scope[CONNECTION] = self
        await self._application(scope, receive, send)

    @property
    def is_busy(self) -> bool:
        """Whether a request is in flight, or its answer has not been read."""
        return self._is_answered or (self.cycle is not None and not self.cycle.response_complete)

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Register the connection, or close it if there are too many."""
        lingering: Any = _Lingering(transport, self._linger)
        super().connection_made(lingering)
        self.flow = _Flow(transport, lambda: len(self._data) > self.limits.read_ahead)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a dead peer is noticed during a long wait
            for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if not self.table.add(self):
            self.abort()
            return
        # Many clients may connect while the loop is busy. What they have sent is read before one is called silent.
        self.loop.call_soon(self.loop.call_soon, self._mute)

    def _mute(self) -> None:
        if self in self.table.connections and not self.is_busy and not self.is_known:
            self.table.mute(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._is_refused = True
        self._release()
        self.table.remove(self)
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection at once."""
        self._is_refused = True
        self.transport.abort()

    def _release(self) -> None:
        self.table.receive(self, -self._received)
        self.table.leave_untaken(self, -self._untaken)
        self._received = self._untaken = 0

    # -- requests ----------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take bytes from the client; the parser gets those of one request."""
        if self._is_refused:
            self._discarded += len(data)
            if self._discarded > self.limits.linger_bytes:
                self.abort()
            return
        self._data += data
        self._feed()
        if len(self._data) > self.limits.read_ahead:
            self.flow.pause_reading()

    def _feed(self) -> None:
        """Give the parser the rest of the request in flight, or the next one once that is answered and read."""
        try:
            while self._data and not self._is_refused:
                if self._missing:
                    self._feed_body()
                elif self.is_busy or not self._feed_head():
                    return
        except BadHead as refused:
            self._refuse(refused)

    def _feed_head(self) -> bool:
        """Check and feed one head; False if it is not complete."""
        end = self._data.find(b"\r\n\r\n", 0, self.limits.head)
        if end < 0:
            if len(self._data) >= self.limits.head:
                raise BadHead(431, "The head of the request is too large.", "too_large")
            return False
        head = bytes(self._data[: end + 4])
        del self._data[: end + 4]
        self._missing = body_length(head)
        self.until = time.monotonic() + self.limits.patience + self._missing / self.limits.slowest
        super().data_received(UPGRADE.sub(b"", head))
        self._note_complete()
        return True

    def _feed_body(self) -> None:
        piece = bytes(self._data[: self._missing])
        del self._data[: len(piece)]
        self._missing -= len(piece)
        self._received += len(piece)
        if not self.table.receive(self, len(piece)):
            raise BadHead(503, "The server is busy. Try again.", "unavailable")
        super().data_received(piece)
        self._note_complete()

    def _note_complete(self) -> None:
        if not self._missing and self.is_busy:
            self.until = float("inf")
            self.table.unmute(self)

    def _refuse(self, refused: BadHead) -> None:
        """Answer and close."""
        error = {"code": refused.code, "message": refused.message, "hint": ""}
        body = msgspec.json.encode({"schema": 1, "ok": False, "error": error})
        head = f"HTTP/1.1 {refused.status} {HTTPStatus(refused.status).phrase}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        if not self.is_busy or not self.cycle.response_started:
            self.transport.write(head.encode() + body)
        self.transport.close()

    def _linger(self) -> None:
        """Discard what comes from now on."""
        self._is_refused = True
        self._data.clear()
        self._release()
        self.until = time.monotonic() + self.limits.linger
        self.flow.resume_reading()

    def shutdown(self) -> None:
        """Close the connection once its last answer is sent."""
        self.transport.close_now()

    # -- answers -----------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        """Go on with the next request once the client has read this answer."""
        self._is_answered = True
        if not self.flow.write_paused:
            self._finish()

    def _finish(self) -> None:
        self._is_answered = False
        self._release()
        super().on_response_complete()
        if self._is_refused or self.transport.is_closing():
            return
        self.until = time.monotonic() + (self.limits.keep_alive if self.is_known else self.limits.patience)
        self._mute()
        if self._data:
            self.loop.call_soon(self._feed)

    def pause_writing(self) -> None:
        """Wait a while for a client that does not read, unless it leaves too much."""
        super().pause_writing()
        self.until = time.monotonic() + self.limits.taking
        self._untaken = self.transport.get_write_buffer_size()
        if not self.table.leave_untaken(self, self._untaken):
            self.abort()

    def resume_writing(self) -> None:
        """Go on: the client has read most of what was sent."""
        super().resume_writing()
        self.table.leave_untaken(self, -self._untaken)
        self._untaken = 0
        self.until = float("inf")
        if self._is_answered:
            self._finish()


class Server(uvicorn.Server):
    """One server: the application, its socket and its limits."""

    def __init__(
        self,
        app: Any,
        listening: socket.socket,
        limits: Limits | None = None,
        *,
        tls: tuple[str, str] | None = None,
        dismiss: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.table = ConnectionTable(limits or Limits())
        config = uvicorn.Config(
            app,
            http=self._connection,  # type: ignore[arg-type]  # uvicorn only calls it
            ws="none",
            lifespan="auto",
            log_config=None,
            access_log=False,  # addresses of requests may have the token in them
            server_header=False,
            date_header=False,
            proxy_headers=False,  # the guard decides which address a proxy may tell
            timeout_keep_alive=24 * 3600,  # the table closes idle connections
            timeout_graceful_shutdown=GRACE,
            backlog=BACKLOG,
            ssl_certfile=tls[0] if tls else None,
            ssl_keyfile=tls[1] if tls else None,
        )
        try:
            config.load()
        except OSError as error:
            raise Invalid(
                f"The certificate or its key cannot be used: {error.strerror or error}.",
                hint="--cert is a file with the certificate and its chain, --key one with its key, both PEM.",
            ) from None
        super().__init__(config)
        self._listening = listening
        self._dismiss = dismiss
        self._ready: Callable[[], None] | None = None

    def _connection(self, **named: Any) -> LimitedConnection:
        return LimitedConnection(self.table, **named)

    def serve_until_stopped(self, ready: Callable[[], None] | None = None) -> None:
        """Serve until a signal or `stop`; `ready` is called once connections are accepted."""
        self._ready = ready
        _raise_open_files()
        try:
            self.run(sockets=[self._listening])
        finally:
            self._listening.close()

    def stop(self) -> None:
        """End soon. May be called from another thread."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        await super().startup(sockets)
        if self._ready is not None:
            self._ready()

    async def on_tick(self, counter: int) -> bool:
        """Close slow connections, ten times a second."""
        self.table.sweep()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let the application end what waits, and answers go out; then close everything."""
        if self._dismiss is not None:
            await self._dismiss()
        for listener in self.servers:
            listener.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                while any(connection.is_busy for connection in self.table.connections):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        for connection in [one for one in self.table.connections if one.is_busy]:
            connection.abort()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End in good order at SIGINT and SIGTERM, without raising them again."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()


def _raise_open_files() -> None:
    """Allow as many open files as this process may have: each connection is one."""
    try:
        import resource  # noqa: PLC0415 - Windows has none

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (ImportError, ValueError, OSError):
        return  # the server works with those it has
