"""Connections to a gateway, and asking over them: again where that is safe. Knows HTTP, no verbs.

Every call that changes something has a name of its own. A gateway that hears the same name twice does it once and
gives the same answer; so a call whose connection broke is repeated. Only where the gateway is another than the one
that was asked first, and the verb cannot be repeated by itself, is the outcome `Unknown`. While no connection can be
had nothing has happened: `Unavailable`, once patience is over. Redirects are never followed.
"""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from typing import NamedTuple

from taskpit.errors import Invalid, Storage, Unavailable, Unknown
from taskpit.nonces import fresh_name
from taskpit.store.remote import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Any

    from taskpit.store.remote.address import RemoteAddress

#: First pause before another try, and the longest, in seconds.
FIRST, LONGEST = 0.02, 1.0
#: How long a connection may take, and how long an answer.
CONNECT, ANSWER = 10.0, 60.0
#: A connection on which no answer comes for so long may be dead without a sign: the call is repeated over another, by
#: its name, and gets the answer of the first.
SILENT = 10.0
#: A connection that was not used for so long may be cut without a sign: a new one is made.
STALE = 45.0
#: No answer is larger.
LARGEST_ANSWER = 256 * 1024 * 1024


def new_call() -> str:
    """A name for one call that no other has; a letter first."""
    return f"c{fresh_name(13)}"


class Request(NamedTuple):
    """What is sent, and how long an answer may take."""

    path: str
    data: bytes
    timeout: float
    #: Whether it changes something there.
    changes: bool


class Connections:
    """A few connections, as many as are in use at once."""

    def __init__(self, address: RemoteAddress) -> None:
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

    def connect(self, timeout: float = ANSWER) -> http.client.HTTPConnection:
        """One more connection; OSError if there is none to be had."""
        address = self.address
        if not address.secure:
            made: http.client.HTTPConnection = http.client.HTTPConnection(address.host, address.port, timeout=CONNECT)
        else:
            made = http.client.HTTPSConnection(address.host, address.port, timeout=CONNECT, context=self._tls())
        made.connect()
        made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.sock.settimeout(timeout)
        return made

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            import ssl

            try:
                context = ssl.create_default_context(cafile=self.address.ca or None)
            except OSError as error:
                raise Invalid(f"TASKPIT_CA names no file of certificates: {error.strerror or error}") from None
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            self._context = context
        return self._context

    def _take(self, timeout: float) -> http.client.HTTPConnection:
        now = time.monotonic()
        with self._turn:
            if self._pid != os.getpid():  # a fork must not speak over its parent's connections
                self._spare, self._pid = [], os.getpid()
            while self._spare:
                spare, used = self._spare.pop()
                if now - used < STALE and spare.sock is not None:
                    spare.sock.settimeout(timeout)
                    return spare
                spare.close()
        return self.connect(timeout)

    def _give(self, connection: http.client.HTTPConnection) -> None:
        with self._turn:
            self._spare.append((connection, time.monotonic()))

    def close(self) -> None:
        """No connection is kept."""
        with self._turn:
            spare, self._spare = self._spare, []
        for connection, _ in spare:
            connection.close()

    # -- asking ------------------------------------------------------------------------------------

    def ask(
        self,
        verb: str,
        fields: dict[str, Any],
        *,
        call: str = "",
        again: bool = False,
        repeat: bool = True,
        timeout: float = 0.0,
        on: HeldConnection | None = None,
    ) -> tuple[Any, bool]:
        """The answer, and whether it is that of a repetition. `repeat`: doing it twice is as good as once.

        `again`: a call of this name was made before, and never answered.

        `timeout`: what comes later than that on one connection is not waited for there.

        Without a name of its own it only looks: if it fails, nothing has happened.
        """
        data = wire.dump({**fields, "call": call} if call else fields)
        request = Request(f"/v1/{verb}", data, timeout or SILENT, bool(call))
        return self._patiently(request, repeat=repeat, on=on, again="unknown" if again else None)

    def _patiently(
        self, request: Request, *, repeat: bool, on: HeldConnection | None = None, again: str | None = None
    ) -> tuple[Any, bool]:
        """`again` is the gateway that was asked before, if one may have been."""
        began, pause = time.monotonic(), FIRST
        until, slow = began + self.address.patience, began + max(ANSWER, self.address.patience)
        while True:
            before, sent = self._gateway, False
            try:
                connection = self._take(request.timeout)
                if on is not None:
                    on.hold(connection)
                sent = request.changes
                return self._exchange(connection, request, again), again is not None
            except Unavailable as error:
                if time.monotonic() >= until:
                    if again is None:
                        raise
                    raise self._unknown(error.message, repeat=repeat) from error
            except (OSError, http.client.HTTPException) as error:
                if on is not None and on.dropped:
                    raise Unavailable("the wait was given up") from None
                if sent and again is None:
                    again = before or "unknown"
                if isinstance(error, TimeoutError):
                    self.close()  # the others lead the same way
                # Where a connection can be had and no answer comes, the gateway may be slow: it has more time.
                late = time.monotonic() >= (slow if sent and isinstance(error, TimeoutError) else until)
                self._was_refused(error, again=again is not None, repeat=repeat, late=late)
            time.sleep(pause * (0.5 + os.urandom(1)[0] / 510))
            pause = min(pause * 2, LONGEST)

    def _exchange(self, connection: http.client.HTTPConnection, request: Request, again: str | None) -> Any:
        """One request and its answer; the connection is kept if it can be used again."""
        headers = {"Authorization": f"Bearer {self.address.token}", "Content-Type": "application/json"}
        if again is not None:
            headers["Pit-Again"] = again
        try:
            connection.request("POST", f"{self.address.path}{request.path}", body=request.data, headers=headers)
            response = connection.getresponse()
            answer = response.read(LARGEST_ANSWER + 1)
        except BaseException:
            connection.close()
            raise
        gateway = response.getheader("Pit-Gateway", "")
        if len(answer) > LARGEST_ANSWER or response.will_close:
            connection.close()
        else:
            self._give(connection)
        return self._judge(response.status, gateway, answer)

    def _judge(self, status: int, gateway: str, data: bytes) -> Any:
        """What the answer says; raises the error that it tells of."""
        where = self.address.whole
        if 300 <= status < 400:
            raise Storage(f"{where} leads elsewhere, and is not followed", hint="Name the gateway's own address.")
        try:
            answer = wire.load(data)
        except Invalid:
            answer = {}
        if status in (502, 503, 504) and not gateway:
            raise _Gone(f"what stands before {where} says {status}")
        if not gateway or "ok" not in answer:
            told = "is no gateway of ours, or something between answers for it"
            raise Storage(f"{where} {told} (HTTP {status})", hint="Name the address that `pit serve` shows.")
        self._gateway, self._met = gateway[:40], True
        if answer["ok"] is True:
            return answer.get("data")
        raise wire.error_of(answer.get("error"))

    def _was_refused(self, error: Exception, *, again: bool, repeat: bool, late: bool) -> None:
        """Raises where trying once more is of no use."""
        import ssl

        where = self.address.whole
        if isinstance(error, ssl.SSLCertVerificationError):
            raise Storage(
                f"the certificate of {where} is not trusted: {error.verify_message}",
                hint="Put the file of the authority that signed it into TASKPIT_CA.",
            ) from None
        if again and late:
            raise self._unknown(_told(error), repeat=repeat)
        if late or not (self._met or again):
            hint = "Nothing happened. Is `pit serve` running there?"
            raise Unavailable(f"{where} cannot be reached ({_told(error)})", hint=hint) from None

    def _unknown(self, told: str, *, repeat: bool) -> Unknown:
        hint = "Repeating it is safe." if repeat else "It may have happened: `pit log` shows, before you repeat it."
        return Unknown(f"the connection to {self.address.whole} broke before the answer came ({told})", hint=hint)


class HeldConnection:
    """The connection of a call that may be given up from another thread."""

    def __init__(self) -> None:
        self._connection: http.client.HTTPConnection | None = None
        self._turn = threading.Lock()
        self.dropped = False

    def hold(self, connection: http.client.HTTPConnection) -> None:
        """This is it; OSError if the call was given up before."""
        with self._turn:
            self._connection = connection
            if self.dropped:
                raise ConnectionAbortedError("given up")

    def drop(self) -> None:
        """It is cut; whoever reads from it hears so at once."""
        with self._turn:
            self.dropped = True
            sock = self._connection.sock if self._connection is not None else None
            if sock is not None:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return  # it was cut already


class _Gone(http.client.HTTPException):
    """A proxy answers for a gateway that is not there, or was cut off in the middle."""


def _told(error: Exception) -> str:
    """In words without anything that was sent."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(getattr(error, "strerror", None) or error)[:200] or type(error).__name__
