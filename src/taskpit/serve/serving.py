"""A gateway on its socket: where it listens, by which certificate, and who is not waited for. Knows servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable
from typing import Any

from taskpit import fs
from taskpit.clock import iso
from taskpit.errors import Invalid
from taskpit.model import Value
from taskpit.queue import Queue
from taskpit.serve.app import GatewayApp
from taskpit.serve.gateway import Gateway
from taskpit.serve.http import Connection, Floor
from taskpit.serve.tokens import Tokens
from taskpit.store.http.listening import is_loopback, listen

#: Where a gateway is unless another port is named.
PORT = 8443
#: Refusals, a line each; a file that is larger is put aside, and one such is kept.
REFUSALS, LARGEST_LOG = ".taskpit/refusals.log", 1024 * 1024
#: Connections that may wait to be accepted.
BACKLOG = 2048
#: How long answers under way are waited for at the end, in seconds.
DRAIN = 2.0


class ServeOptions(Value, frozen=True, kw_only=True):
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


class GatewayServer:
    """A queue, ready to be served: it has its socket."""

    def __init__(self, queue: Queue, place: ServeOptions, tell: Callable[[str], None] = lambda _: None) -> None:
        _refuse_exposure(place)
        queue.need_trust()  # tokens that came with the folder would open it
        papers = papers_of(queue)
        self.gateway = Gateway(queue)
        self._refusals = f"{papers}/{REFUSALS}"
        self._tell = tell
        self._tls = _tls(place)
        self._app = GatewayApp(
            self.gateway,
            Tokens(papers),
            name=place.name,
            local=is_loopback(place.host) and not place.behind_proxy,
            behind_proxy=place.behind_proxy,
            audit=self._audit,
        )
        self.floor = Floor(self._app)
        self._socket = listen(place.host, [place.port])
        self.port: int = self._socket.getsockname()[1]
        shown = place.host if is_loopback(place.host) else socket.gethostname()
        host = f"[{shown}]" if ":" in shown else shown
        self.address = f"{'https' if place.cert else 'http'}://{host}:{self.port}/{place.name}"
        self._stop: Callable[[], object] = lambda: None

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Serve until interrupted."""
        _allow_connections()
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(self._serve(ready))

    async def _serve(self, ready: Callable[[], None] | None) -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(over.set)
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):  # only the first thread hears them
                loop.add_signal_handler(number, over.set)
        self.gateway.start()
        server = await loop.create_server(
            lambda: Connection(self.floor), sock=self._socket, backlog=BACKLOG, ssl=self._tls
        )
        watch = asyncio.ensure_future(self.floor.watch())
        try:
            if ready is not None:
                ready()
            await over.wait()
        finally:
            watch.cancel()
            server.close()
            self.gateway.dismiss()
            await self.floor.drain(DRAIN)
            self.gateway.close()

    def stop(self) -> None:
        """It ends soon; may be called from another thread."""
        with contextlib.suppress(RuntimeError):  # it has
            self._stop()

    def _audit(self, line: dict[str, Any]) -> None:
        """A line for each refusal, on the disk and for whoever watches; never what was shown."""
        told = {**line, "at": iso(line["at"])}
        self._tell(f"refused {told['what']} from {told['from']} ({told['token'] or 'no token'}): {told['why']}")
        try:
            found = fs.status(self._refusals)
            if found is not None and found.st_size > LARGEST_LOG:
                fs.move(self._refusals, f"{self._refusals}.1")
            fs.append(self._refusals, f"{json.dumps(told, ensure_ascii=False)}\n".encode("utf-8", "replace"))
        except OSError as error:
            print(f"pit serve: a refusal could not be written down: {error}", file=sys.stderr)


def _tls(place: ServeOptions) -> ssl.SSLContext | None:
    """How callers are spoken to; None: in the clear."""
    if not place.cert:
        return None
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(place.cert, place.key)
    except OSError as error:
        raise Invalid(
            f"the certificate or its key cannot be used: {error.strerror or error}",
            hint="--cert is a file with the certificate and its chain, --key one with its key, both PEM.",
        ) from None
    return context


def _allow_connections() -> None:
    """As many open files as this process may have: each caller is one."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (ImportError, ValueError, OSError):
        return  # then with those it has


def papers_of(queue: Queue) -> str:
    """Where what belongs to serving this queue is kept."""
    info = queue.store.info()
    if info.kind == "remote":
        raise Invalid("this queue is behind a gateway already", hint="Serve it where it is.")
    fs.make_dir(f"{info.papers}/.taskpit")
    return info.papers


def _refuse_exposure(place: ServeOptions) -> None:
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
