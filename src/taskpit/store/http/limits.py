"""The limits of one server: connections, bytes and time, for each client and for all clients together.

| limit       | counts                                                    | at the limit                          |
|-------------|-----------------------------------------------------------|---------------------------------------|
| connections | open connections                                          | a new one is closed                   |
| silent      | connections without a token and without a request         | the client with most loses its oldest |
| received    | bytes of request bodies                                   | 503                                   |
| untaken     | bytes of answers that a client does not read              | the connection that adds to them ends |
| read_ahead  | bytes after the request in flight                         | reading stops                         |
| patience    | seconds for the head of a request                         | the connection is closed              |
| taking      | seconds for reading an answer                             | the connection is closed              |

A connection has one request in flight, so the limit on connections is also the limit on requests in flight. A closed
connection is safe for callers of a gateway: they repeat the call by its name.
"""

from __future__ import annotations

import time
from typing import Protocol

from taskpit.model import Value

KIB, MIB = 1024, 1024 * 1024
#: Where an application finds the connection of a request in its scope.
CONNECTION = "taskpit.connection"


class Limits(Value, frozen=True, kw_only=True):
    """What one server gives to its clients."""

    connections: int = 8192
    connections_of_client: int = 4096
    silent: int = 1024
    #: The largest head of a request, and the bytes that may wait behind the request in flight.
    head: int = 16 * KIB
    read_ahead: int = 64 * KIB
    received: int = 256 * MIB
    received_of_client: int = 64 * MIB
    untaken: int = 256 * MIB
    untaken_of_client: int = 16 * MIB
    #: Seconds for a head; a body has as long again, and a second for each so many bytes.
    patience: float = 20.0
    slowest: int = 64 * KIB
    taking: float = 60.0
    #: Seconds between two requests of a client that has shown a token.
    keep_alive: float = 75.0
    #: Seconds in which a refused client may go on sending, so that it reads why it was refused.
    linger: float = 2.0
    linger_bytes: int = 8 * MIB
    #: Whether clients are told apart by their address; behind a proxy all have the proxy's.
    by_client: bool = True


class Connection(Protocol):
    """What the table knows of a connection."""

    client: tuple[str, int] | None
    #: Monotonic seconds at which it is closed unless something happens first.
    until: float

    @property
    def is_busy(self) -> bool:
        """Whether a request is in flight."""

    def abort(self) -> None:
        """Close it now."""


class Usage:
    """What one client uses at the moment, or all of them."""

    __slots__ = ("connections", "received", "silent", "untaken")

    def __init__(self) -> None:
        self.connections = self.received = self.untaken = 0
        #: Its silent connections, oldest first.
        self.silent: dict[Connection, None] = {}


class ConnectionTable:
    """Track the connections of a server, and close the slow and the idle ones."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.connections: set[Connection] = set()
        self._all = Usage()
        self._clients: dict[str, Usage] = {}
        self._swept = time.monotonic()

    def _usage(self, connection: Connection) -> Usage:
        name = connection.client[0] if connection.client and self.limits.by_client else ""
        return self._clients.setdefault(name, Usage())

    def add(self, connection: Connection) -> bool:
        """Count a new connection; False if there are too many."""
        self.connections.add(connection)
        limits, usage = self.limits, self._usage(connection)
        for one in (usage, self._all):
            one.connections += 1
        alone = not limits.by_client or usage.connections <= limits.connections_of_client
        return alone and self._all.connections <= limits.connections

    def remove(self, connection: Connection) -> None:
        """Forget a closed connection."""
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        self.unmute(connection)
        usage = self._usage(connection)
        for one in (usage, self._all):
            one.connections -= 1
        if not usage.connections:
            self._clients = {name: one for name, one in self._clients.items() if one is not usage}

    # -- bytes -------------------------------------------------------------------------------------

    def receive(self, connection: Connection, size: int) -> bool:
        """Count bytes of a request; a negative size gives them back. False if there are too many."""
        usage, limits = self._usage(connection), self.limits
        usage.received += size
        self._all.received += size
        alone = not limits.by_client or usage.received <= limits.received_of_client
        return size < 0 or (alone and self._all.received <= limits.received)

    def leave_untaken(self, connection: Connection, size: int) -> bool:
        """Count bytes of an answer that its client does not read; False if there are too many besides this one."""
        usage, limits = self._usage(connection), self.limits
        usage.untaken += size
        self._all.untaken += size
        mine = usage.untaken <= limits.untaken_of_client or usage.untaken == size or not limits.by_client
        return size < 0 or (mine and self._all.untaken <= limits.untaken)

    # -- time --------------------------------------------------------------------------------------

    def mute(self, connection: Connection) -> None:
        """Count a connection as silent; if that is one too many, the client with the most loses its oldest."""
        silent = self._usage(connection).silent
        self._all.silent[connection] = silent[connection] = None
        if len(self._all.silent) > self.limits.silent:
            most = max(self._clients.values(), key=lambda usage: len(usage.silent))
            oldest = next(iter(most.silent))
            self.unmute(oldest)
            oldest.abort()

    def unmute(self, connection: Connection) -> None:
        """Count a connection as silent no longer: it has a request in flight, has shown a token, or is closed."""
        self._all.silent.pop(connection, None)
        self._usage(connection).silent.pop(connection, None)

    def sweep(self) -> None:
        """Close the connections whose time is up."""
        now = time.monotonic()
        late, self._swept = now - self._swept, now
        if late > 1.0:  # this process did not run for so long: its clients could not be heard
            for connection in self.connections:
                connection.until += late
        for connection in [one for one in self.connections if one.until < now]:
            connection.abort()
