"""A store against the model: whatever is done to both, nobody can tell them apart."""

from __future__ import annotations

import time

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from pits import CONFIG

from taskpit.keeper import sweep
from taskpit.model import End, Result, Said, State, Task, Try, Verdict, Want
from taskpit.queue import Queue
from taskpit.store.memory import MemoryStore
from taskpit.testing import FakeClock

IDS = tuple(f"{number:04d}" for number in range(1, 7))
ids = st.sampled_from(IDS)
workers = st.sampled_from(["ann", "bob"])
picks = st.integers(0, 20)


class LikeMemory(RuleBasedStateMachine):
    """Every rule does the same to both stores and compares what they say."""

    def __init__(self):
        super().__init__()
        self.clock = FakeClock(float(int(time.time())))
        self.other = self.begin()
        self.memory = Queue(MemoryStore(self.clock), CONFIG, self.clock)
        self.pairs = []

    def teardown(self):
        told = [self._told(queue) for queue in self.both]
        self.other.close()
        self.over()
        assert told[0] == told[1]

    def begin(self):
        """The queue that is compared, empty."""
        raise NotImplementedError

    def over(self):
        """It is not needed any more."""

    @property
    def both(self):
        return self.other, self.memory

    def _told(self, queue):
        # A keeper cannot know that a lapsed claim was a person's change, which is not told; it tells what it saw.
        seen = [event for event in queue.store.events(limit=10**6)[0] if event.details != "seen by the keeper"]
        events = [(event.task_id, event.action) for event in seen]
        return {task_id: [action for one, action in events if one == task_id] for task_id, _ in events}

    def same(self, act):
        """What both answered, which must be the same."""
        other, memory = (act(queue) for queue in self.both)
        assert other == memory
        return other

    @rule(
        task_id=ids,
        title=st.sampled_from(["one", "two"]),
        priority=st.integers(0, 2),
        need=st.none() | ids,
        tag=st.booleans(),
    )
    def put(self, task_id, title, priority, need, tag):
        task = Task(
            id=task_id,
            title=title,
            slug=title,
            priority=priority,
            needs=(need,) if need and need != task_id else (),
            tags=("red",) if tag else (),
        )
        self.same(lambda queue: queue.store.put([task]))

    @rule(task_id=ids, limit=st.sampled_from(["db=1", "db=2", "api=1/min"]), tag=st.booleans(), path=st.booleans())
    def put_limited(self, task_id, limit, tag, path):
        tags, touches = ("red",) if tag else (), ("src/a",) if path else ()
        task = Task(id=task_id, title="limited", slug="limited", limits=(limit,), tags=tags, touches=touches)
        self.same(lambda queue: queue.store.put([task]))

    @rule(task_id=ids, wait=st.sampled_from([0, 20]), hold=st.booleans())
    def put_held(self, task_id, wait, hold):
        now = self.clock.now()
        task = Task(
            id=task_id, title="held", slug="held", not_before=now + wait if wait else 0.0, hold="no" if hold else ""
        )
        self.same(lambda queue: queue.store.put([task]))

    @rule(
        worker=workers,
        count=st.integers(1, 3),
        tag=st.booleans(),
        verbatim=st.booleans(),
        lease=st.sampled_from([10.0, 50.0]),
    )
    def claim(self, worker, count, tag, verbatim, lease):
        want = Want(worker=worker, lease=lease, count=count, tags=("red",) if tag else (), verbatim=verbatim)
        self._claim(want)

    @rule(worker=workers, task_id=ids, even_held=st.booleans())
    def claim_by_id(self, worker, task_id, even_held):
        self._claim(Want(worker=worker, lease=30.0, ids=(task_id,), even_held=even_held))

    def _claim(self, want):
        other, memory = (queue.store.claim(want) for queue in self.both)
        assert [claim.task.id for claim in other] == [claim.task.id for claim in memory]
        assert [claim.attempt for claim in other] == [claim.attempt for claim in memory]
        self.pairs += zip(other, memory, strict=True)

    def _pair(self, pick):
        if not self.pairs:
            return None
        other, _ = self.pairs[-1 - pick % len(self.pairs)]
        # A name that stands in a claim as it is may have claimed the task again since: no store can tell the two apart.
        return [one for one in self.pairs if (one[0].task.id, one[0].fence) == (other.task.id, other.fence)][-1]

    @rule(pick=picks)
    def renew(self, pick):
        if pair := self._pair(pick):
            said = [queue.store.renew([claim], 30.0) for queue, claim in zip(self.both, pair, strict=True)]
            assert said[0] == said[1]

    def _finish(self, pick, make_end):
        """The same end for both; a claim that is over ends nothing on either."""
        if pair := self._pair(pick):
            said = [queue.store.finish([make_end(claim)])[0] for queue, claim in zip(self.both, pair, strict=True)]
            over = {Said.LOST, Said.ALREADY}
            assert said[0] == said[1] or set(said) <= over

    @rule(pick=picks, verdict=st.sampled_from(list(Verdict)), output=st.sampled_from(["yes", "no\n"]))
    def finish(self, pick, verdict, output):
        def end(claim):
            result = Result(id=claim.task.id, verdict=verdict, output=output, reason="so it is", worker=claim.fence)
            return End(claim=claim, result=result, action=f"{verdict}_task")

        self._finish(pick, end)

    @rule(pick=picks, delay=st.sampled_from([0.0, 5.0, 40.0]), error=st.sampled_from(["x", "y"]))
    def retry(self, pick, delay, error):
        now = self.clock.now()

        def end(claim):
            spent = claim.task.replace(attempts=claim.task.attempts + 1, max_attempts=9)
            attempt = Try(at=now, worker=claim.fence, kind="task", error=error)
            return End(claim=claim, task=spent, delay=delay, attempt=attempt, action="retried_task")

        self._finish(pick, end)

    @rule(pick=picks, hold=st.sampled_from(["", "look"]))
    def release(self, pick, hold):
        self._finish(pick, lambda claim: End(claim=claim, task=claim.task.replace(hold=hold) if hold else None))

    @rule(pick=picks, children=st.lists(ids, min_size=1, max_size=2, unique=True), wait=st.booleans())
    def split(self, pick, children, wait):
        tasks = tuple(Task(id=child, title="child", slug="child") for child in children)

        def end(claim):
            if wait:
                needs = tuple(child for child in children if child != claim.task.id)
                return End(claim=claim, task=claim.task.replace(needs=needs), children=tasks, action="split_task")
            result = Result(id=claim.task.id, verdict=Verdict.DONE, worker=claim.fence, children=tuple(children))
            return End(claim=claim, result=result, children=tasks, action="split_task")

        self._finish(pick, end)

    @rule(task_id=ids, priority=st.integers(0, 2))
    def reopen(self, task_id, priority):
        def act(queue):
            card = queue.store.read([task_id])[0]
            return queue.store.reopen([card.task.replace(priority=priority)]) if card else None

        self.same(act)

    @rule(task_id=ids)
    def stop(self, task_id):
        if self.memory.store.read([task_id])[0] is not None:
            self.same(lambda queue: queue.store.stop([task_id]))

    @rule(seconds=st.sampled_from([1.0, 11.0, 60.0]))
    def advance(self, seconds):
        self.clock.advance(seconds)

    @rule()
    def sweep(self):
        swept = [sorted(mend.what for mend in sweep(queue) if mend.kind == "reclaimed") for queue in self.both]
        assert swept[0] == swept[1]

    @rule()
    def mend(self):
        assert self.other.store.mend() == []

    @invariant()
    def no_file_is_of_the_future(self):
        """A filesystem stamps the real time, which passes also where a disk is slow: a claim is as old as its file."""
        self.clock.advance(max(float(int(time.time())) - self.clock.now(), 0.0))

    @invariant()
    def they_look_the_same(self):
        for task_id in IDS:
            cards = [queue.store.read([task_id])[0] for queue in self.both]
            assert self._seen(cards[0]) == self._seen(cards[1])
        assert self.other.store.counts() == self.memory.store.counts()

    def _seen(self, card):
        return card and (
            card.state,
            card.held,
            card.worker.partition("~")[0],
            card.task.wish(),
            (card.task.attempts, card.task.max_attempts),
            card.result and (card.result.verdict, card.result.output, card.result.children),
            [(one.kind, one.error.partition("~")[0]) for one in card.tries if one.kind != "lost"],
            sum(1 for one in card.tries if one.kind == "lost"),
            len(card.late),
        )

    @invariant()
    def ready_ones_come_in_the_same_order(self):
        pages = [[card.task.id for card in queue.store.page(State.READY).cards] for queue in self.both]
        assert pages[0] == pages[1]

    @invariant()
    def nothing_is_wrong(self):
        assert [found for found in self.other.store.check() if found.kind != "late result"] == []
