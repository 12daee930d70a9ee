"""HTTP of uvicorn that waits for nobody for long. Knows connections, nothing of what is asked for.

Who is connected and has not finished saying what they want is silent. A silent one is hung up on after a while; and
when there are many, the client that has most of them loses its oldest. So nobody is kept out by half a request.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

#: A request must have been sent after so many seconds: who dawdles is not waited for.
PATIENCE = 20.0
#: How long open streams may take to end when a server is stopped, in seconds.
GRACE = 2
#: So many may be silent at once, over all clients.
MOST_SILENT = 256


def server_config(app: Any) -> uvicorn.Config:
    """How each of our applications is served: nothing of a request is written down, since that has the token in it."""
    return uvicorn.Config(
        app,
        http=Impatient,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
    )


class Impatient(H11Protocol):
    """HTTP that hangs up on those who take for ever to say what they want."""

    patience = PATIENCE
    most_silent = MOST_SILENT

    def __init__(self, config: Any, *args: Any, **named: Any) -> None:
        super().__init__(config, *args, **named)
        #: The silent ones of this server, oldest first, by client.
        self._silent: dict[str, dict[Impatient, None]] = vars(config).setdefault("silent", {})
        self._address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there."""
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # an answer's head must not wait
        self._address = str((transport.get_extra_info("peername") or ("",))[0])
        self._hush()
        self._hurry()

    def data_received(self, data: bytes) -> None:
        """They say something."""
        super().data_received(data)
        cycle = getattr(self, "cycle", None)  # none before the first request's head is there
        if cycle is not None and not cycle.more_body:
            self._speak()

    def on_response_complete(self) -> None:
        """They have their answer, and may ask again."""
        super().on_response_complete()
        if not self.transport.is_closing():
            self._hush()

    def connection_lost(self, exc: Exception | None) -> None:
        """They are gone."""
        self._speak()
        self._clock.cancel()
        super().connection_lost(exc)

    def _hush(self) -> None:
        """One more is silent; if that is one too many, the client with most of them loses its oldest."""
        self._silent.setdefault(self._address, {})[self] = None
        if sum(map(len, self._silent.values())) > self.most_silent:
            clients = list(self._silent.values())
            most = clients[max(range(len(clients)), key=lambda at: len(clients[at]))]
            oldest = next(iter(most))
            del most[oldest]
            oldest.transport.abort()

    def _speak(self) -> None:
        mine = self._silent.get(self._address, {})
        mine.pop(self, None)
        if not mine:
            self._silent.pop(self._address, None)

    def _hurry(self) -> None:
        self._clock = self.loop.call_later(self.patience, self._look)

    def _look(self) -> None:
        cycle = getattr(self, "cycle", None)
        if cycle is not None and not cycle.more_body:
            self._hurry()  # it may be in the middle of its next request by then
        else:
            self.transport.close()
