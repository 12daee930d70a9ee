"""Where a server listens, and whether other machines reach it there."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from ipaddress import ip_address

from taskpit.errors import Invalid

#: Names that mean this machine.
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
#: Connections that may wait to be accepted.
BACKLOG = 2048


def is_loopback(host: str) -> bool:
    """Whether a server that listens there is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listen(host: str, ports: Sequence[int]) -> socket.socket:
    """Return a socket on the first free one of these ports. Raises Invalid if there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports:
        try:
            return socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            is_taken = error.errno == errno.EADDRINUSE
            if is_taken and port != ports[-1]:
                continue
            message = "another program listens there already" if is_taken else error.strerror or str(error)
            raise Invalid(
                f"cannot listen on {host} port {port}: {message}", hint="Choose another with --port, or leave it out."
            ) from None
    raise AssertionError(ports)  # pragma: no cover - the last one returns or raises


def refuse_exposure(host: str, token: str, *, exposed: bool) -> None:
    """Raise Invalid unless only this machine is served, or a person has allowed others and has chosen a token."""
    if is_loopback(host) or (exposed and token):
        return
    raise Invalid(
        f"{host} can be reached from other machines, and anyone who reaches it can give your agents work",
        hint="Leave out --host to serve this machine only, or say --expose and give the token that others must show: "
        "TASKPIT_TOKEN or --token-file.",
        host=host,
    )
