"""How far something is that takes its time: a bar on a terminal, silence everywhere else. Knows no verb."""

from __future__ import annotations

import sys
import time
from threading import Event, Thread
from types import TracebackType
from typing import Self, TextIO

from taskpit.cli.context import Context
from taskpit.cli.output import terminal_width

#: Nobody needs a bar for what takes less than this, in seconds; and it is drawn this often.
PATIENCE, PACE = 0.7, 0.1
#: The bar is this wide, without what is written beside it.
WIDTH = 24
#: What turns while nobody knows how much there is.
WHEEL = "|/-\\"


class ProgressBar:
    """A bar on one line of standard error, gone when it is over: `with ProgressBar(context, "importing", 100) as bar`.

    `turns`: a wheel that turns by itself, for what cannot say how far it is.
    """

    def __init__(
        self, context: Context, what: str, total: int = 0, *, turns: bool = False, stream: TextIO | None = None
    ) -> None:
        self._stream = stream or sys.stderr
        self._lives = self._stream.isatty() and not context.json and context.env.get("TERM") != "dumb"
        self._what = what
        self._total = total
        self._began = self._drawn = time.monotonic()
        self._drew = False
        self._turns = 0
        #: Where nothing says how far it is, a wheel shows that it goes on.
        self._wheel = Thread(target=self._turn, daemon=True) if turns and self._lives else None
        self._over = Event()

    def __enter__(self) -> Self:
        if self._wheel is not None:
            self._wheel.start()
        return self

    def _turn(self) -> None:
        while not self._over.wait(PACE):
            self.step(0)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.clear()

    def step(self, count: int, total: int = 0, what: str = "") -> None:
        """So many are done, of so many if that is known by now."""
        self._total, self._what = total or self._total, what or self._what
        now = time.monotonic()
        if not self._lives or now - self._began < PATIENCE or now - self._drawn < PACE:
            return
        self._drawn, self._drew = now, True
        self._turns += 1
        line = self._line(count, now - self._began)[: min(terminal_width(), 200) - 1]
        self._stream.write(f"\r\x1b[K{line}")
        self._stream.flush()

    def say(self, what: str) -> None:
        """This is being done now; nobody knows how long it takes."""
        self.step(0, what=what)

    def _line(self, count: int, seconds: float) -> str:
        if not self._total:
            return f"{WHEEL[self._turns % len(WHEEL)]} {self._what}" + (
                f" {count:,}" if count else f", {int(seconds)}s"
            )
        share = min(count / self._total, 1.0)
        bar = "#" * int(share * WIDTH)
        left = f", {int(seconds / share * (1 - share)) + 1}s left" if 0 < share < 1 else ""
        return f"{self._what} [{bar:<{WIDTH}}] {count:,} of {self._total:,}{left}"

    def clear(self) -> None:
        """The line is empty again."""
        self._over.set()
        if self._wheel is not None and self._wheel.is_alive():
            self._wheel.join()
        if self._drew:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drew = False
