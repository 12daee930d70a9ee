"""A gateway on its socket: where it listens, by which certificate, and who is not waited for. Knows servers."""

from __future__ import annotations

import os
import socket
import sys

import uvicorn

from taskpit import fs
from taskpit.asgi_guard import is_loopback
from taskpit.asgi_serving import Impatient, listen
from taskpit.clock import iso
from taskpit.errors import Invalid
from taskpit.jsontext import dumps
from taskpit.records import Value
from taskpit.serve.app import GatewayApp
from taskpit.serve.gateway import Gateway
from taskpit.serve.tokens import Tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from taskpit.queue import Queue

__all__ = ["PORT", "GatewayServer", "Place", "papers_of"]

#: Where a gateway is unless another port is named.
PORT = 8443
#: Refusals, a line each; a file that is larger is put aside, and one such is kept.
REFUSALS, LARGEST_LOG = ".taskpit/refusals.log", 1024 * 1024
#: Connections that may wait to be accepted.
BACKLOG = 2048


class Place(Value):
    """Where to listen, and how."""

    host: str = "127.0.0.1"
    #: 0 is any that is free.
    port: int = PORT
    #: What comes before `/v1/` in its address.
    name: str = "q"
    cert: str = ""
    key: str = ""
    #: A proxy before us speaks TLS.
    behind_proxy: bool = False


class _Callers(Impatient):
    """HTTP that waits for those who have shown a token: they keep their connections between two calls."""

    most_silent = 1024

    def on_response_complete(self) -> None:
        """They have their answer, and may ask again."""
        super().on_response_complete()
        if self.scope.get("known"):
            self._speak()


class GatewayServer:
    """A queue, ready to be served: it has its socket."""

    def __init__(self, queue: Queue, place: Place, tell: Callable[[str], None] = lambda _: None) -> None:
        _refuse_exposure(place)
        if queue.config.hooks.commands:
            queue.need_trust()
        papers = papers_of(queue)
        self.gateway = Gateway(queue)
        self._refusals = f"{papers}/{REFUSALS}"
        self._tell = tell
        app = GatewayApp(
            self.gateway,
            Tokens(papers),
            name=place.name,
            local=is_loopback(place.host) and not place.behind_proxy,
            audit=self._audit,
        )
        self._socket = listen(place.host, [place.port])
        self._socket.listen(BACKLOG)
        self.port: int = self._socket.getsockname()[1]
        shown = place.host if is_loopback(place.host) else socket.gethostname()
        host = f"[{shown}]" if ":" in shown else shown
        self.address = f"{'https' if place.cert else 'http'}://{host}:{self.port}/{place.name}"
        config = uvicorn.Config(
            app,
            http=_Callers,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=2,
            ssl_certfile=place.cert or None,
            ssl_keyfile=place.key or None,
        )
        try:
            config.load()
        except OSError as error:
            self._socket.close()
            raise Invalid(
                f"the certificate or its key cannot be used: {error.strerror or error}",
                hint="--cert is a file with the certificate and its chain, --key one with its key, both PEM.",
            ) from None
        self._server = _Server(config)

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Serve until interrupted."""
        self._server.ready = ready
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """It ends soon; may be called from another thread."""
        self._server.should_exit = True

    def _audit(self, line: dict[str, Any]) -> None:
        """A line for each refusal, on the disk and for whoever watches; never what was shown."""
        told = {**line, "at": iso(line["at"])}
        self._tell(f"refused {told['what']} from {told['from']} ({told['token'] or 'no token'}): {told['why']}")
        try:
            found = fs.status(self._refusals)
            if found is not None and found.st_size > LARGEST_LOG:
                fs.move(self._refusals, f"{self._refusals}.1")
            fs.append(self._refusals, f"{dumps(told)}\n".encode("utf-8", "replace"))
        except OSError as error:
            print(f"pit serve: a refusal could not be written down: {error}", file=sys.stderr)


class _Server(uvicorn.Server):
    """A server that says when it listens, and lets nobody wait when it is asked to end."""

    ready: Callable[[], None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """It listens."""
        await super().startup(sockets)
        if self.ready is not None:
            self.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """It ends: those in line go home with nothing."""
        app: Any = self.config.loaded_app
        while not isinstance(app, GatewayApp):
            app = app.app
        if app.gateway.waiting is not None:
            app.gateway.waiting.close()
        await super().shutdown(sockets)


def papers_of(queue: Queue) -> str:
    """Where what belongs to serving this queue is kept."""
    info = queue.store.info()
    if info.kind == "remote":
        raise Invalid("this queue is behind a gateway already", hint="Serve it where it is.")
    fs.make_dir(f"{info.papers}/.taskpit")
    return info.papers


def _refuse_exposure(place: Place) -> None:
    """Invalid unless what is sent there cannot be read on the way."""
    if bool(place.cert) != bool(place.key):
        raise Invalid("--cert and --key go together", hint="Name both files.")
    for path in filter(None, (place.cert, place.key)):
        if not os.path.isfile(path):
            raise Invalid(f"there is no file {path}", hint="Name a PEM file.", path=path)
    if not (is_loopback(place.host) or place.cert or place.behind_proxy):
        raise Invalid(
            f"{place.host} can be reached from other machines, and tokens would go there in the clear",
            hint="Give --cert and --key, or say --behind-proxy if a proxy before it speaks TLS.",
            host=place.host,
        )
