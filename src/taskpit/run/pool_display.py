"""A pool at work, as a person sees it: a board that is redrawn in place, or one line for each event.

Both are a `Show` of the pool. On a terminal there is one line per worker and one of totals; what has ended
scrolls away above them. In a pipe there are only plain lines. Nothing here reads the queue.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TextIO

from taskpit.clock import say_duration
from taskpit.model import Claim
from taskpit.policy import REVIEWER
from taskpit.run.attempt import ClaimEnd
from taskpit.run.pool_options import PoolReport, Show, Survey
from taskpit.run.runner import Run
from taskpit.store.port import Mend
from taskpit.text import fit, last_lines, one_line

#: The colours of the words of an end, in the order a summary has them.
COLOURS = {
    "done": "32",
    "approved": "32",
    "sent back": "33",
    "split": "36",
    "itself": "32",
    "asked": "36",
    "retry": "33",
    "failed": "31",
    "stuck": "31",
    "cancelled": "31",
    "lost": "31",
    "unsaved": "31",
    "recovered": "36",
    "handed in": "36",
}
#: What these mean, in words.
MEANINGS = {"itself": "the command ended it", "lost": "another worker has it now"}


class Lines(Show):
    """One plain line for each event."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream

    def claimed(self, claim: Claim) -> None:
        """Who begins what."""
        again = f" (attempt {claim.attempt})" if claim.attempt > 1 else ""
        word = "reviews" if claim.task.hold.startswith(REVIEWER) else "claimed"
        self._line(word, claim.worker, claim.task.id, claim.task.title + again)

    def over(self, over: ClaimEnd) -> None:
        """How it ended, after how long."""
        self._line(*over_words(over))

    def mended(self, mend: Mend) -> None:
        """What the keeper did."""
        self._line(*mend_words(mend))

    def say(self, text: str) -> None:
        """As it is."""
        self._line("note", "pool", "", text)

    def _line(self, word: str, worker: str, task_id: str, details: str) -> None:
        self._write(
            f"{time.strftime('%H:%M:%S')} {word:<9} {worker:<10} {task_id:<6} {one_line(details)}".rstrip() + "\n"
        )

    def _write(self, text: str) -> None:
        """Written; once nobody listens any more we are silent, and the work goes on."""
        if self._stream is None:
            return
        encoding = self._stream.encoding or "utf-8"
        try:
            self._stream.write(text.encode(encoding, "replace").decode(encoding, "replace"))
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = None


class PoolBoard(Lines):
    """One line per worker and one of totals, redrawn in place; ends scroll away above."""

    period = 0.2

    def __init__(self, stream: TextIO, env: Mapping[str, str]) -> None:
        super().__init__(stream)
        self._colours = not env.get("NO_COLOR")
        self._began = time.monotonic()
        self._workers: list[str] = []
        self._tally: dict[str, int] = {}
        self._drawn = 0
        self._last: list[str] = []
        self._write("\x1b[?25l")  # no cursor jumping about

    def claimed(self, claim: Claim) -> None:
        """It will be on the board."""
        if claim.worker not in self._workers:
            self._workers = sorted([*self._workers, claim.worker], key=_by_number)

    def over(self, over: ClaimEnd) -> None:
        """Its line leaves the board, upwards."""
        self._tally[over.word] = self._tally.get(over.word, 0) + 1
        super().over(over)

    def _line(self, word: str, worker: str, task_id: str, details: str) -> None:
        width = screen_size(self._stream)[0]
        head = f"{self._paint(COLOURS.get(word, '2'), f'{word:<9}')} {task_id:<6} "
        room = width - 17 - len(worker) - 2
        self._draw(self._last, above=f"{head}{fit(details, room)} {self._paint('2', worker)}\n")

    def look(self, runs: dict[str, Run], survey: Survey | None) -> None:
        """Draw the board again."""
        width, height = screen_size(self._stream)
        shown = self._workers[: max(height - 3, 1)]
        lines = [self._worker_line(worker, runs.get(worker), width) for worker in shown]
        if len(shown) < len(self._workers):
            lines.append(self._paint("2", f"… and {len(self._workers) - len(shown)} more workers"))
        lines.append(fit(self._totals(survey, len(runs)), width))
        if lines != self._last:
            self._draw(lines)

    def _worker_line(self, worker: str, run: Run | None, width: int) -> str:
        if run is None:
            return f"{worker:<10} {self._paint('2', 'idle')}"
        claim = run.claim
        age = say_duration(int(max(time.time() - claim.since, 0)))
        head = f"{worker:<10} {claim.task.id:<6} {age:>5}  "
        title = fit(claim.task.title, width - len(head))
        room = width - len(head) - len(title) - 3
        words = fit(last_lines(run.place.last_words(), 1), room) if room > 10 else ""
        return f"{head}{title}" + (f"   {self._paint('2', words)}" if words else "")

    def _totals(self, survey: Survey | None, running: int) -> str:
        ended = self._tally.get("done", 0) + self._tally.get("itself", 0)
        parts = [f"{ended} done", f"{self._tally.get('failed', 0)} failed", f"{running} running"]
        if survey is not None:
            parts += [f"{survey.ready} ready", f"{survey.held} held"]
        seconds = time.monotonic() - self._began
        rate = ended / seconds if seconds > 2 else 0.0
        if rate:
            parts.append(f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.0f}/min")
        if rate and survey is not None and survey.ready:
            parts.append(f"about {say_duration(int(survey.ready / rate) + 1)} left")
        return "— " + ", ".join(parts)

    def _paint(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colours and text else text

    def _draw(self, lines: list[str], above: str = "") -> None:
        """In one write, so that nobody sees half a board."""
        up = f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""
        self._write(up + above + "".join(f"{line}\n" for line in lines))
        self._last, self._drawn = lines, len(lines)

    def close(self) -> None:
        """The terminal is as it was, the board gone."""
        self._draw([])
        self._write("\x1b[?25h")


def screen_size(stream: TextIO | None) -> tuple[int, int]:
    """Letters in a line and lines on the screen that may be used."""
    try:
        size = os.get_terminal_size(stream.fileno() if stream else 1)
    except (OSError, ValueError):
        return 79, 24
    return max(size.columns - 1, 20) if size.columns else 79, size.lines or 24


def _by_number(worker: str) -> tuple[str, int]:
    base, _, number = worker.rpartition("-")
    return base, int(number) if number.isdecimal() else 0


def over_words(over: ClaimEnd) -> tuple[str, str, str, str]:
    """Word, worker, task and details of an end."""
    claim = over.claim
    message = ": ".join(filter(None, (MEANINGS.get(over.word, ""), over.details)))
    details = f"{claim.task.title} ({say_duration(over.seconds)})" + (f": {message}" if message else "")
    return over.word, claim.worker, claim.task.id, details


def mend_words(mend: Mend) -> tuple[str, str, str, str]:
    """The same for what the keeper did."""
    if mend.kind == "reclaimed":
        return "recovered", "keeper", mend.what, mend.details
    return mend.kind, "keeper", "", f"{mend.what} {mend.details}"


def is_drawn(stream: TextIO, env: Mapping[str, str]) -> bool:
    """Whether a board can be drawn there; elsewhere there are lines."""
    return stream.isatty() and env.get("TERM") != "dumb"


def summary(report: PoolReport) -> str:
    """What a pool has done, in one line."""
    words = {
        "itself": "ended by their command",
        "unsaved": "not saved",
        "retry": "put back to be tried again",
        "asked": "asked a question",
    }
    ordered = sorted(report.tally.items(), key=lambda item: [*COLOURS].index(item[0]) if item[0] in COLOURS else 99)
    parts = [f"{count} {words.get(word, word)}" for word, count in ordered]
    ended = sum(count for word, count in report.tally.items() if word not in ("approved", "sent back"))
    if report.started > ended:  # its claim has ended, the task has not
        parts.append(f"{report.started - ended} handed in")
    return f"{', '.join(parts) or 'nothing done'} in {say_duration(report.seconds)}"
