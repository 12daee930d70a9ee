"""What the changelog tells of the past, as numbers to draw: who worked on what and when, how much came and went.

Pure: lines in, values out. Knows no store and no surface.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from taskpit.clock import instant
from taskpit.model import Event, Result, Value

#: So many spans and waits are remembered; older ones are forgotten first.
MOST = 50_000
#: Ends of a claim, and what each means for a span.
ENDS = {
    "completed_task": "done",
    "failed_task": "failed",
    "cancelled_task": "failed",
    "split_task": "split",
    "retried_task": "retried",
    "released_task": "released",
    "recovered_task": "lost",
    "choked_task": "held",
    "asked": "asked",
    "blocked": "held",
}
#: The words for ends that workers, their reviewers and landers decide. All others are a person's (answered, unblocked,
#: allowed_budget, ...) or the store's own; of what is no end, a worker's machine tells that a hook of its own failed.
SAID_BY_WORKERS = frozenset((*ENDS, "scheduled_task", "handed_in", "pull_request", "approved", "sent_back"))
TOLD_BY_WORKERS = frozenset(("hook_failed",))


class ClaimSpan(Value, frozen=True, kw_only=True):
    """One claim, from its beginning to its end; `end` 0 goes on, `how` is how it ended."""

    worker: str
    id: str
    start: float
    end: float = 0.0
    how: str = ""


class Flow(Value, frozen=True, kw_only=True):
    """What happened between two times: how many came, were done, failed; how many were worked on at its end."""

    start: float
    end: float
    added: int = 0
    done: int = 0
    failed: int = 0
    running: int = 0
    #: Seconds that tasks waited from being added to their first claim, the middle one; None if none was claimed.
    waited: float | None = None


class History:
    """The past as far as it was told; feed it more lines as they come."""

    def __init__(self, most: int = MOST) -> None:
        self.spans: list[ClaimSpan] = []
        self._most = most
        self._open: dict[str, ClaimSpan] = {}
        self._added: dict[str, float] = {}
        #: (when, what) of tasks that came and went, and (when, how long) of waits that ended.
        self._happened: list[tuple[float, str]] = []
        self._waits: list[tuple[float, float]] = []

    def feed(self, events: Iterable[Event]) -> None:
        """These lines are part of it, in their order."""
        for event in events:
            at, did, about = moment(event.timestamp), event.did, event.about
            if did == "added_task":
                self._added[about] = at
                self._happened.append((at, "added"))
            elif did == "claimed_task":
                self._close(about, at, "lost")
                self._open[about] = ClaimSpan(worker=who(event.worker), id=about, start=at)
                if about in self._added:
                    self._waits.append((at, max(at - self._added.pop(about), 0.0)))
            elif did in ENDS:
                self._close(about, at, ENDS[did])
                if ENDS[did] in ("done", "failed", "split") and not event.waits:
                    self._happened.append((at, "failed" if ENDS[did] == "failed" else "done"))
        for kept in (self.spans, self._happened, self._waits):
            if len(kept) > 2 * self._most:
                del kept[: -self._most]

    def _close(self, about: str, at: float, how: str) -> None:
        span = self._open.pop(about, None)
        if span is not None:
            self.spans.append(span.replace(end=max(at, span.start), how=how))

    def began(self) -> float:
        """When the first thing happened that is remembered; 0 if nothing did."""
        times = [self._happened[0][0]] if self._happened else []
        times += [span.start for span in self.spans[:1]] + [span.start for span in self._open.values()]
        return min(times, default=0.0)

    def recent(self, since: float, limit: int = MOST) -> list[ClaimSpan]:
        """Spans that were not over before this, oldest first; those that go on are among them."""
        found = [span for span in self.spans if span.end >= since] + list(self._open.values())
        return sorted(found, key=lambda span: (span.start, span.id))[-limit:]

    def flow(self, start: float, end: float, steps: int) -> list[Flow]:
        """The time between these two, in so many equal steps."""
        steps, width = max(steps, 1), max(end - start, 1.0) / max(steps, 1)
        tally = [{"added": 0, "done": 0, "failed": 0} for _ in range(steps)]
        waits: list[list[float]] = [[] for _ in range(steps)]
        for at, what in self._happened:
            if start <= at < start + steps * width:
                tally[int((at - start) / width)][what] += 1
        for at, waited in self._waits:
            if start <= at < start + steps * width:
                waits[int((at - start) / width)].append(waited)
        running = self._running([start + (step + 1) * width for step in range(steps)])
        return [
            Flow(
                start=start + step * width,
                end=start + (step + 1) * width,
                running=running[step],
                waited=sorted(waits[step])[len(waits[step]) // 2] if waits[step] else None,
                **tally[step],
            )
            for step in range(steps)
        ]

    def _running(self, times: Sequence[float]) -> list[int]:
        """How many claims were open at each of these times, which grow."""
        moves = sorted(
            move for span in (*self.spans, *self._open.values()) for move in ((span.start, 1), (span.end or 2**40, -1))
        )
        found, at, count = [], 0, 0
        for time in times:
            while at < len(moves) and moves[at][0] <= time:
                count += moves[at][1]
                at += 1
            found.append(count)
        return found


def moment(timestamp: str) -> float:
    """Unix seconds of a line's time; 0 if it is none."""
    try:
        return instant(timestamp, 0.0)
    except (ValueError, OverflowError):
        return 0.0


def who(fence: str) -> str:
    """The worker's name without what makes each of its claims unique."""
    return fence.partition("~")[0]


def author(result: Result) -> str:
    """Who did the work; of what landed the last line of the output says it, since a lander ended the claim."""
    last = result.output.rstrip().rpartition("\n")[2]
    landed = last.startswith("Landed on ") and last.endswith(".")
    return who(last.rpartition(" ")[2].rstrip(".") if landed else result.worker)
