"""Waiting for work behind a gateway. A wait is a claim that stands in line there: nobody is woken for nothing.

Whoever found nothing and sleeps stands in line with the wish that found nothing. What the gateway deals out is kept
here until the same wish is asked for again, which is the next thing a worker that was woken does; what is not asked
for within some seconds is given back.
"""

from __future__ import annotations

import threading
import time

from taskpit.errors import TaskpitError, Unknown
from taskpit.store.remote.connection import ANSWER, SILENT, Connections, HeldConnection, new_call
from taskpit.store.remote.wire import CLAIMS, LONGEST_POLL, WANT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from taskpit.model import Claim, Want

#: Who has not waited for so many seconds stands in line no longer; what was dealt is kept as long.
KEPT = 5.0
#: A pause after trouble, in seconds.
REST = 1.0


class Polling:
    """One place in line, for the wish that was last asked for in vain."""

    def __init__(
        self,
        line: Connections,
        about: Callable[[], dict[str, object]],
        give_back: Callable[[Claim], None],
        unanswered: Callable[[Want, str], None],
    ) -> None:
        self._line = line
        #: What goes with every call: who we are.
        self._about = about
        self._give_back = give_back
        #: Hears of a wish, and the name of its call, that nobody answered.
        self._unanswered = unanswered
        self._turn = threading.Condition()
        self._want: Want | None = None
        self._dealt: list[Claim] = []
        self._dealt_at = 0.0
        self._waited = 0.0
        self._held: HeldConnection | None = None
        self._thread: threading.Thread | None = None
        self._woken = False
        self._closed = False

    def take(self, want: Want) -> list[Claim] | None:
        """What was dealt for this wish; none yet, while we stand in line for it; None: ask the gateway."""
        with self._turn:
            if want != self._want:
                return None
            if self._dealt:
                taken, self._dealt, self._want = self._dealt, [], None
                return taken
            return [] if self._thread is not None and not self._closed else None

    def missed(self, want: Want) -> None:
        """This wish was asked for in vain: whoever waits next waits for it."""
        with self._turn:
            if self._thread is None and not self._dealt:
                self._want = want

    def wait(self, timeout: float) -> bool:
        """Until something was dealt, or that many seconds; True if it was, or if there is nothing to wait for."""
        with self._turn:
            if self._closed:
                return False
            self._waited = time.monotonic()
            if self._want is None:
                self._turn.wait(min(timeout, REST))
                return True
            if self._thread is None and not self._dealt:
                self._thread = threading.Thread(target=self._stand, name="in line", daemon=True)
                self._thread.start()
            return self._turn.wait_for(lambda: bool(self._dealt) or self._closed or self._want is None, timeout)

    def _stand(self) -> None:
        """Stand in line until something is dealt, or nobody waits any more."""
        try:
            while True:
                with self._turn:
                    want, waits = self._want, time.monotonic() - self._waited < KEPT
                    if self._closed or want is None or not waits:
                        return
                    held = self._held = HeldConnection()
                    call = new_call()
                if self._ask(want, call, held):
                    return
        finally:
            with self._turn:
                self._thread = self._held = None
                if not self._dealt:
                    self._want = None
                self._turn.notify_all()

    def _ask(self, want: Want, call: str, held: HeldConnection) -> bool:
        """One turn in line; whether something was dealt."""
        asked = {**self._about(), "claim": WANT.write(want.replace(call=call)), "wait": LONGEST_POLL}
        try:
            answer, _ = self._line.ask("turn", asked, call=call, timeout=LONGEST_POLL + SILENT, on=held)
            claims = CLAIMS.read(answer.get("claim") if isinstance(answer, dict) else None)
        except TaskpitError as error:
            if held.dropped:
                self._drop(call)
                return True
            if isinstance(error, Unknown):
                self._unanswered(want, call)
            with self._turn:  # whoever asks next is told what is wrong
                self._turn.wait_for(lambda: self._closed, REST)
                self._want = None
            return True
        if not claims:
            return False
        with self._turn:
            if not self._closed:
                self._dealt, self._dealt_at = claims, time.monotonic()
                self._turn.notify_all()
                self._turn.wait_for(lambda: self._closed or not self._dealt, KEPT)
                claims, self._dealt = self._dealt, []
        for claim in claims:
            self._give_back(claim)
        return True

    def _drop(self, call: str) -> None:
        """Whatever was dealt to a wait that was given up goes back."""
        try:
            self._line.ask("drop", {**self._about(), "drop": call})
        except TaskpitError:
            return  # its lease ends

    def close(self) -> None:
        """Nobody stands in line any more."""
        with self._turn:
            self._closed = True
            thread, held = self._thread, self._held
            self._turn.notify_all()
        if held is not None:
            held.drop()
        if thread is not None:
            thread.join(ANSWER)
