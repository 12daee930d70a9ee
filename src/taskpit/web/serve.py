"""A socket, a token and a server that ends at once when it is asked to. Knows the application, nothing of pages."""

from __future__ import annotations

import socket
from collections.abc import Callable

from taskpit.model import Value
from taskpit.queue import Queue
from taskpit.store.http.guard import GuardRules, new_token
from taskpit.store.http.limits import Limits
from taskpit.store.http.listening import LOOPBACK, is_loopback, listen, refuse_exposure
from taskpit.store.http.server import Server
from taskpit.web.app import QueuesPages, board_app, guarded
from taskpit.web.html import Paper
from taskpit.web.shared import BoardThreads, Bring, Hub

#: Where the board is unless something else is there already.
PORT = 7480
#: Requests are at most this large, or twice the largest task.
LARGEST = 4 * 1024 * 1024


class WebOptions(Value, frozen=True, kw_only=True):
    """How the board is to be served."""

    host: str = "127.0.0.1"
    #: 0: the usual one if it is free, else any.
    port: int = 0
    expose: bool = False
    #: What everybody must show; empty: one is made.
    token: str = ""
    read_only: bool = False


def open_desk(open_queue: Callable[[], Queue], paper: Paper, worker: str, bring: Bring) -> BoardThreads:
    """A queue for its pages: opened once to follow it, once to do what people ask for, each in a thread of its own."""
    return BoardThreads(open_queue(), Hub(open_queue(), paper), paper, worker, bring)


class BoardServer:
    """The board of a queue, or of all, ready to be served: it has its socket and its link."""

    def __init__(
        self, make: Callable[[], BoardThreads | QueuesPages], wish: WebOptions, limits: Limits | None = None
    ) -> None:
        refuse_exposure(wish.host, wish.token, exposed=wish.expose)
        made = make()
        self.token = wish.token or new_token()
        rules = GuardRules(token=self.token, hosts=_hosts(wish.host), read_only=wish.read_only)
        rules = rules.replace(largest_body=max(LARGEST, 2 * made.largest_task))
        self.desk = made
        app = guarded(board_app(made) if isinstance(made, BoardThreads) else made.app(), rules)
        self._socket = listen(wish.host, [wish.port] if wish.port else [PORT, 0])
        self.port: int = self._socket.getsockname()[1]
        shown = wish.host if is_loopback(wish.host) else socket.gethostname()
        self.address = f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}/"
        self.server = Server(app, self._socket, limits, dismiss=made.dismiss)

    @property
    def link(self) -> str:
        """What a person opens."""
        return f"{self.address}?token={self.token}"

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Serve until interrupted."""
        self.server.serve_until_stopped(ready)

    def stop(self) -> None:
        """It ends soon; may be called from another thread."""
        self.server.stop()


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
