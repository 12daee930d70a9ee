"""How clients reach the server: standard input and output, or HTTP on this machine behind the guard."""

from __future__ import annotations

import logging

import anyio
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from taskpit.asgi_guard import LOOPBACK, Guard, GuardRules, refuse_exposure
from taskpit.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from taskpit.mcp.server import QueueServer

__all__ = ["Address", "http_app", "serve_http", "serve_stdio"]

PATH = "/mcp"
#: A task's text and a result must fit; nothing larger is read.
LARGEST_BODY = 4 * 1024 * 1024
#: How long open streams may take to end when the server is stopped.
GRACE = 2


class Address(Value):
    """Where to listen and who may ask."""

    token: str
    host: str = "127.0.0.1"
    #: 0 is any that is free.
    port: int = 0
    #: Further names the server is reached by.
    names: tuple[str, ...] = ()
    #: Others than this machine may reach it.
    exposed: bool = False


def serve_stdio(server: QueueServer) -> None:
    """Speak with the one client that started us, until it closes our input."""
    _quiet()

    async def run() -> None:
        async with stdio_server() as (reader, writer):
            await server.protocol.run(reader, writer, server.options())

    anyio.run(run)


def http_app(server: QueueServer, rules: GuardRules) -> Guard:
    """The server as an ASGI application: the guard, then the protocol, which remembers nothing between requests."""
    inner = server.protocol.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        max_request_body_size=rules.largest_body,
        # The guard has looked at Host and Origin already, by the names it was given.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return Guard(inner, rules)


def serve_http(server: QueueServer, address: Address, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; `ready` is told the address with its token once connections are accepted."""
    import uvicorn

    from taskpit.asgi_serving import Impatient, listen

    refuse_exposure(address.host, address.token, exposed=address.exposed)
    _quiet()
    host = f"[{address.host}]" if ":" in address.host else address.host
    names = tuple(dict.fromkeys((*LOOPBACK, host.lower(), *(name.lower() for name in address.names))))
    app = http_app(server, GuardRules(token=address.token, hosts=names, largest_body=LARGEST_BODY))
    listening = listen(address.host, [address.port])
    ready(f"http://{host}:{listening.getsockname()[1]}{PATH}?token={address.token}")
    config = uvicorn.Config(
        app,
        http=Impatient,
        access_log=False,  # it would write the token down
        log_level="warning",
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=GRACE,
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        listening.close()


def _quiet() -> None:
    """Only what needs somebody's attention is written to standard error."""
    for name in ("mcp", "anyio", "uvicorn", "httpx2"):
        logger: Any = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
