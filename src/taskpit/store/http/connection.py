"""Connections to a gateway, and calls over them that are repeated where that is safe. Knows HTTP, no verbs.

Every call that changes something has a name. A gateway that hears a name twice carries the call out once and gives
the same answer, so a call whose connection broke is repeated. The outcome is Unknown only if another gateway answers
and the verb may not be repeated. While no connection can be made, nothing has happened: Unavailable, once patience
ends. Redirects are never followed.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import socket
import ssl
import threading
import time
from typing import NamedTuple

from taskpit.errors import Invalid, Storage, TaskpitError, Unavailable, Unknown
from taskpit.nonces import fresh_name
from taskpit.store.http import wire
from taskpit.store.http.address import GatewayAddress

#: The first pause before another try, and the longest, in seconds.
FIRST, LONGEST = 0.02, 1.0
#: Seconds for making a connection, and for an answer.
CONNECT, ANSWER = 10.0, 60.0
#: A connection without an answer for so many seconds may be dead: the call is repeated over another one.
SILENT = 10.0
#: A connection that was not used for so many seconds may be cut without a sign: a new one is made.
STALE = 45.0
LARGEST_ANSWER = 256 * 1024 * 1024


def new_call() -> str:
    """Return a name for one call."""
    return f"c{fresh_name(13)}"


class Request(NamedTuple):
    """One request of a verb."""

    verb: str
    data: bytes
    #: Whether it changes something there, and whether it may be carried out twice.
    changes: bool
    repeat: bool = True


class _Gone(http.client.HTTPException):
    """A proxy answers for a gateway that is not there, or was cut off."""


class Connections:
    """A few connections, as many as are in use at once."""

    def __init__(self, address: GatewayAddress) -> None:
        self.address = address
        self._spare: list[tuple[http.client.HTTPConnection, float]] = []
        self._turn = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._pid = os.getpid()
        #: Whether the gateway has ever answered: one that never did is not waited for.
        self._met = False
        #: The gateway that answered last.
        self._gateway = ""

    # -- connections -------------------------------------------------------------------------------

    def _connect(self) -> http.client.HTTPConnection:
        address = self.address
        if address.secure:
            made: http.client.HTTPConnection = http.client.HTTPSConnection(
                address.host, address.port, timeout=CONNECT, context=self._tls()
            )
        else:
            made = http.client.HTTPConnection(address.host, address.port, timeout=CONNECT)
        made.connect()
        made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            try:
                context = ssl.create_default_context(cafile=self.address.ca or None)
            except OSError as error:
                raise Invalid(f"TASKPIT_CA names no file of certificates: {error.strerror or error}") from None
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            self._context = context
        return self._context

    def _take(self) -> http.client.HTTPConnection:
        now = time.monotonic()
        with self._turn:
            if self._pid != os.getpid():  # a fork must not speak over its parent's connections
                self._spare, self._pid = [], os.getpid()
            while self._spare:
                spare, used = self._spare.pop()
                if now - used < STALE and spare.sock is not None:
                    return spare
                spare.close()
        return self._connect()

    def close(self) -> None:
        """Close every connection that is not in use."""
        with self._turn:
            spare, self._spare = self._spare, []
        for connection, _ in spare:
            connection.close()

    # -- calls -------------------------------------------------------------------------------------

    def ask(self, request: Request, again: str | None = None) -> tuple[wire.Reply, bool]:
        """Return the answer, and whether it is that of a repetition. Raises the error that the gateway answers.

        `again` is the gateway that was asked before, if one may have been.
        """
        began, pause = time.monotonic(), FIRST
        until, slow = began + self.address.patience, began + max(ANSWER, self.address.patience)
        while True:
            before, sent = self._gateway, False
            try:
                connection = self._take()
                sent = request.changes
                self._send(connection, request, again)
                return self._receive(connection), again is not None
            except Unavailable as error:
                if time.monotonic() >= until:
                    if again is None:
                        raise
                    raise self._unknown(error.message, request) from error
            except (OSError, http.client.HTTPException) as error:
                if sent and again is None:
                    again = before or "unknown"
                if isinstance(error, TimeoutError):
                    self.close()  # the others go the same way
                # Where a connection can be made and no answer comes, the gateway may be slow: it has more time.
                late = time.monotonic() >= (slow if sent and isinstance(error, TimeoutError) else until)
                self._check_retry(error, request, again=again is not None, late=late)
            time.sleep(pause * (0.5 + os.urandom(1)[0] / 510))
            pause = min(pause * 2, LONGEST)

    def begin(self, request: Request) -> PendingCall:
        """Send a request that changes nothing, and return without its answer. Raises OSError."""
        connection = self._take()
        self._send(connection, request, None)
        return PendingCall(self, connection)

    def _send(self, connection: http.client.HTTPConnection, request: Request, again: str | None) -> None:
        headers = {"Authorization": f"Bearer {self.address.token}", "Content-Type": "application/json"}
        if again is not None:
            headers["Pit-Again"] = again
        try:
            connection.sock.settimeout(SILENT)
            connection.request("POST", f"{self.address.path}/v1/{request.verb}", body=request.data, headers=headers)
        except BaseException:
            connection.close()
            raise

    def _receive(self, connection: http.client.HTTPConnection) -> wire.Reply:
        """Read an answer; the connection is kept if it can be used again."""
        try:
            response = connection.getresponse()
            answer = response.read(LARGEST_ANSWER + 1)
        except BaseException:
            connection.close()
            raise
        if len(answer) > LARGEST_ANSWER or response.will_close:
            connection.close()
        else:
            with self._turn:
                self._spare.append((connection, time.monotonic()))
        return self._judge(response.status, response.getheader("Pit-Gateway", ""), answer)

    def _judge(self, status: int, gateway: str, data: bytes) -> wire.Reply:
        """Return the answer, or raise the error that it tells."""
        where = self.address.whole
        if 300 <= status < 400:
            raise Storage(f"{where} leads elsewhere, and is not followed", hint="Name the gateway's own address.")
        if status in (502, 503, 504) and not gateway:
            raise _Gone(f"a proxy in front of {where} says {status}")
        try:
            answer = wire.read_reply(data) if gateway else None
        except Invalid:
            answer = None
        if answer is None:
            message = "is no gateway of ours, or something between answers for it"
            raise Storage(f"{where} {message} (HTTP {status})", hint="Name the address that `pit serve` shows.")
        self._gateway, self._met = gateway[:40], True
        if not answer.ok:
            raise wire.error_of(answer.error)
        return answer

    def _check_retry(self, error: Exception, request: Request, *, again: bool, late: bool) -> None:
        """Raise where another try is of no use."""
        where = self.address.whole
        if isinstance(error, ssl.SSLCertVerificationError):
            raise Storage(
                f"the certificate of {where} is not trusted: {error.verify_message}",
                hint="Put the file of the authority that signed it into TASKPIT_CA.",
            ) from None
        if again and late:
            raise self._unknown(_words(error), request)
        if late or not (self._met or again):
            hint = "Nothing happened. Is `pit serve` running there?"
            raise Unavailable(f"{where} cannot be reached ({_words(error)})", hint=hint) from None

    def _unknown(self, why: str, request: Request) -> Unknown:
        if request.repeat:
            hint = "Repeating it is safe."
        else:
            hint = "It may have happened: `pit log` shows, before you repeat it."
        return Unknown(f"the connection to {self.address.whole} broke before the answer came ({why})", hint=hint)


class PendingCall:
    """A request whose answer is awaited in pieces."""

    def __init__(self, line: Connections, connection: http.client.HTTPConnection) -> None:
        self._line, self._connection = line, connection

    def is_answered(self, seconds: float) -> bool:
        """Wait so long for an answer, or for the end of the connection."""
        sock = self._connection.sock
        if sock is None or sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def answer(self) -> wire.Reply | None:
        """Return the answer; None if the connection broke or the gateway has none."""
        try:
            return self._line._receive(self._connection)  # noqa: SLF001 - the other half of `begin`
        except (OSError, http.client.HTTPException, TaskpitError):
            self._connection.close()
            return None

    def give_up(self) -> None:
        """Cut the connection, which ends the wait on both sides."""
        sock = self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits in `is_answered`
        self._connection.close()


def _words(error: Exception) -> str:
    """Describe an error without anything that was sent."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(getattr(error, "strerror", None) or error)[:200] or type(error).__name__
