"""One actor stands still before each of its calls in turn; meanwhile the world goes on; then it goes on too."""

from __future__ import annotations

import itertools
import shutil

from faults import Stopped
from pits import CONFIG, LEASE, make, misplaced, put, reopened, root_of, take, task, wrong

from taskpit.keeper import sweep
from taskpit.model import Done, Said, State
from taskpit.testing import FakeClock

ID = "0001"
#: No verb here makes more calls than this.
MOST = 400
#: And none fewer than this.
FEWEST = 2


def stalls(where, work, prepare=None):
    """For each call of `work(queue, given)`: a fresh pit, that work stopped before it, and the queue of another.

    Ends when the work came to its end before it was stopped.
    """
    for number in range(1, MOST):
        clock = FakeClock()
        queue = make(f"{where}/{number}", clock, CONFIG)
        put(queue, task(1, body="do it"))
        given = prepare(queue) if prepare else None
        stopped = Stopped(lambda q=queue, g=given: work(q, g), number)
        if not stopped.there:
            assert number > FEWEST, "it was hardly ever stopped: nothing is shown"
            stopped.go_on()
            queue.close()
            return
        other = reopened(root_of(queue), clock)
        yield Stall(number, stopped, queue, other)
        other.close()
        queue.close()
        shutil.rmtree(root_of(queue))
    raise AssertionError("the work does not end")


class Stall:
    """Who stands where, and the queue as somebody else has it."""

    def __init__(self, number, stopped, queue, other):
        self.stopped = stopped
        self.queue = queue
        self.other = other
        self.where = f"stopped before call {number}, {stopped.call}"

    def go_on(self):
        return self.stopped.go_on()

    def lapse(self):
        """The lease of every claim runs out, and a keeper comes."""
        self.other.clock.advance(LEASE + 1)
        sweep(self.other)

    def somebody_does_it(self, output="theirs"):
        """Another worker claims the task and finishes it; False if there is none to be had."""
        claims = self.other.claim("fast", ids=(ID,)) if self.other.card(ID).state is State.READY else []
        for claim in claims:
            assert self.other.finish(claim, Done(output=output))[0] is Said.OK, self.where
        return bool(claims)

    def all_is_well(self, late=0):
        """Exactly one token, nothing wrong, a sweep finds nothing more to do."""
        sweep(self.other)
        assert sweep(self.other) == [], self.where
        assert misplaced(self.other) == {}, self.where
        assert wrong(self.other) == [], self.where
        card = self.other.card(ID)
        assert len(card.late) == late, self.where
        return card


__all__ = ["ID", "Stall", "itertools", "stalls", "take"]
