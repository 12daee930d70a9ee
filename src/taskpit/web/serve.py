"""A socket, a token and a server that ends at once when it is asked to. Knows the application, nothing of pages."""

from __future__ import annotations

import errno
import socket

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from taskpit.asgi_guard import LOOPBACK, GuardRules, is_loopback, new_token, refuse_exposure
from taskpit.errors import Invalid
from taskpit.values import Value
from taskpit.web.app import make_app
from taskpit.web.desk import Desk
from taskpit.web.hub import Hub
from taskpit.web.paper import Paper

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any

    from taskpit.queue import Queue
    from taskpit.web.desk import Bring

__all__ = ["PORT", "BoardServer", "Wish"]

#: Where the board is unless something else is there already.
PORT = 7480
#: A request must have been sent after so many seconds: who dawdles is not waited for.
PATIENCE = 20.0
#: Requests are at most this large, or twice the largest task.
LARGEST = 4 * 1024 * 1024
#: So many connections at once; more are told to come back later.
CROWD = 900


class Wish(Value):
    """How the board is to be served."""

    host: str = "127.0.0.1"
    #: 0: the usual one if it is free, else any.
    port: int = 0
    expose: bool = False
    #: What everybody must show; empty: one is made.
    token: str = ""
    read_only: bool = False


class _Impatient(H11Protocol):
    """HTTP that hangs up on those who take for ever to say what they want."""

    patience = PATIENCE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there."""
        super().connection_made(transport)
        self._hurry()

    def _hurry(self) -> None:
        self._clock = self.loop.call_later(self.patience, self._look)

    def _look(self) -> None:
        cycle = getattr(self, "cycle", None)  # none before the first request's head is there
        if cycle is not None and not cycle.more_body:
            self._hurry()  # it may be in the middle of its next request by then
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """They are gone."""
        self._clock.cancel()
        super().connection_lost(exc)


class BoardServer:
    """A board that is ready to be served: it has its socket and its link.

    The queue is opened twice: once to follow it, once to do what people ask for, each in a thread of its own.
    """

    def __init__(self, open_queue: Callable[[], Queue], wish: Wish, worker: str, bring: Bring, name: str) -> None:
        refuse_exposure(wish.host, wish.token, exposed=wish.expose)
        self.token = wish.token or new_token()
        rules = GuardRules(token=self.token, hosts=_hosts(wish.host), read_only=wish.read_only)
        followed, used = open_queue(), open_queue()
        paper = Paper(title=name, read_only=wish.read_only)
        self.desk = Desk(used, Hub(followed, paper), paper, worker, bring)
        rules = rules.replace(largest_body=max(LARGEST, 2 * used.config.largest_task))
        app = make_app(self.desk, rules)
        self._socket = _listen(wish.host, wish.port)
        self.port: int = self._socket.getsockname()[1]
        shown = wish.host if is_loopback(wish.host) else socket.gethostname()
        self.address = f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}/"
        config = uvicorn.Config(
            app,
            http=_Impatient,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=2,
            limit_concurrency=CROWD,
        )
        self._server = _Server(config, self.desk.hub)

    @property
    def link(self) -> str:
        """What a person opens."""
        return f"{self.address}?token={self.token}"

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Serve until somebody interrupts."""
        self._server.ready = ready
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """It ends soon; may be called from another thread."""
        self._server.should_exit = True


class _Server(uvicorn.Server):
    """A server whose listeners go home when it is asked to end, so that nobody waits for them."""

    ready: Callable[[], None] | None = None

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """It listens."""
        await super().startup(sockets)
        if self.ready is not None:
            self.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """It ends."""
        await self._hub.dismiss()
        await super().shutdown(sockets)


def _hosts(host: str) -> tuple[str, ...]:
    """The names we answer to: our own, and where others may reach us, all that this machine is called."""
    if is_loopback(host):
        return LOOPBACK
    named = {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
    found = {f"[{name}]" if ":" in name else name for name in named | _addresses()}
    return (*LOOPBACK, *sorted(found - set(LOOPBACK)))


def _addresses() -> set[str]:
    try:
        return {str(row[4][0]) for row in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        return set()


def _listen(host: str, port: int) -> socket.socket:
    """A socket there; Invalid if it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    options: dict[str, Any] = {"family": family, "backlog": 512}
    wanted = [port] if port else [PORT, 0]
    for one in wanted:
        try:
            return socket.create_server((host, one), **options)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and one != wanted[-1]:
                continue
            taken = error.errno == errno.EADDRINUSE
            told = "another program listens there already" if taken else error.strerror or str(error)
            raise Invalid(
                f"cannot listen on {host} port {one}: {told}", hint="Choose another with --port, or leave it out."
            ) from None
    raise AssertionError(wanted)  # pragma: no cover - the last one returns or raises
