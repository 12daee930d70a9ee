"""A limit is waited for by the backend that has it: no attempt is spent, and nobody else waits."""

from __future__ import annotations

import json
import threading
import time

import pytest
from waits import PATIENCE, until

from taskpit.model import Done, Failed, Retry, State, Task
from taskpit.queue import Queue
from taskpit.run.agent_limits import Gate, gate_for
from taskpit.run.pool import Pool
from taskpit.run.pool_options import PoolOptions, Show
from taskpit.run.preset import Backend
from taskpit.store.memory import MemoryStore
from taskpit.store.opening import open_store
from taskpit.testing import FakeClock


class Heard(Show):
    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


@pytest.fixture
def clock():
    return FakeClock(float(int(time.time())))


@pytest.fixture
def queue(pit, clock):
    store = open_store(pit.root, clock=clock)
    queue = Queue(store, store.folder.config, clock)
    yield queue
    queue.close()


def gate(pit, clock, **fields):
    return Gate(Backend(**{"name": "claude", **fields}), pit.root, clock)


def paused(pit, name="claude"):
    try:
        with open(f"{pit.root}/.taskpit/backends/{name}.json", encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


# -- what agents say -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mode", "after"),
    [
        ("claude", "limit-event", 7200),
        ("claude", "limit-unix", 7200),
        ("codex", "limit", 7500),
        ("codex", "too fast", 20),
        ("gemini", "limit", 9592),
        ("opencode", "limit", 90),
    ],
)
def test_a_limit_says_when_it_ends_and_spends_no_attempt(pit, clock, monkeypatch, name, mode, after):
    monkeypatch.setenv("FAKE_RESET", str(int(clock.now()) + 7200))
    (task,) = pit.put(f"{mode}: a task")
    seen = []

    def runner(claim, run):
        seen.append(pit.runner(name, clock=clock)(claim, run))
        return seen[0]

    over = pit.work_once(runner)
    card = pit.card(task)
    assert seen[0].kind == "quota"
    assert seen[0].after == pytest.approx(after)
    assert (over.word, card.task.attempts, card.tries[0].kind) == ("retry", 0, "quota")


def test_three_in_the_afternoon_in_berlin(pit):
    pit.put("limit-words: a task")
    noon = 1778500000.0  # 2026-05-11 11:46:40 UTC, 13:46:40 in Berlin
    outcome = []
    pit.work_once(lambda claim, run: outcome.append(pit.runner("claude", clock=FakeClock(noon))(claim, run)) or Done())
    assert outcome[0].after == 13 * 60 + 20 + 3600


# -- the pool --------------------------------------------------------------------------------------


def test_a_backend_rests_until_its_reset_and_others_go_on(pit, queue, clock, monkeypatch):
    reset = int(clock.now()) + 7200
    monkeypatch.setenv("FAKE_RESET", str(reset))
    (limited,) = pit.put("limit-event: a task", tags=("a",))
    others = pit.put("good: one", "good: two", tags=("b",))
    show = Heard()
    claude = Pool(
        queue, pit.runner("claude", clock=clock), PoolOptions(until_empty=True, tags=("a",), name="ant"), show
    )
    thread = threading.Thread(target=claude.run)
    thread.start()
    until(lambda: any("rests until" in text for text in show.said))
    assert (paused(pit)["paused_until"], pit.card(limited).task.attempts) == (reset, 0)

    store = open_store(pit.root, clock=clock)
    codex = Pool(
        Queue(store, store.folder.config, clock),
        pit.runner("codex", clock=clock),
        PoolOptions(until_empty=True, tags=("b",), name="bee"),
        Show(),
    )
    assert codex.run().tally == {"done": 2}
    assert all(pit.card(task).state is State.DONE for task in others)

    clock.advance(7190)  # long after any pause between attempts, and still before the reset
    for _ in range(2):  # it has looked, and looked again
        mark = time.monotonic()
        until(lambda since=mark: claude.progress.woke > since)
    assert [call["agent"] for call in pit.calls()] == ["claude", "codex", "codex"]
    clock.advance(20)
    thread.join(PATIENCE)
    assert not thread.is_alive()
    card = queue.card(limited)
    assert (card.state, card.result.attempt) == (State.DONE, 1)
    assert [(one.kind, one.counted) for one in card.tries] == [("quota", False)]
    assert [text.partition(":")[0] for text in show.said][-1] == "claude goes on"
    assert not paused(pit)
    store.close()


def test_the_limited_task_itself_may_go_to_another_backend(pit, queue, clock):
    (task,) = pit.put("limit: a task")
    queue_again = Queue(queue.store, queue.config, clock)
    first = Pool(queue, pit.runner("codex", clock=clock), PoolOptions(max_tasks=1), Show())
    assert first.run().tally == {"retry": 1}
    clock.advance(5)  # a pause between attempts, no more
    second = Pool(queue_again, pit.runner("claude", clock=clock), PoolOptions(until_empty=True), Show())
    assert second.run().tally == {"done": 1}
    assert pit.card(task).state is State.DONE
    assert paused(pit, "codex")["paused_until"] == pytest.approx(clock.now() + 7500 - 5)


def test_never_more_at_once_than_the_limit(pit):
    class Counting:
        backend = Backend(name="few", limit=2)

        def __init__(self):
            self.now = self.most = 0
            self.turn = threading.Lock()

        def __call__(self, _claim, run):
            with self.turn:
                self.now += 1
                self.most = max(self.most, self.now)
            until(lambda: self.most == 2)
            run.bell.wait(0.03)
            with self.turn:
                self.now -= 1
            return Done()

    pit.put(*(f"task {n}" for n in range(12)))
    runner = Counting()
    report = Pool(pit.queue, runner, PoolOptions(slots=6, until_empty=True), Show()).run()
    assert (report.tally, runner.most) == ({"done": 12}, 2)


def test_a_failure_frees_its_place(pit):
    class Failing:
        backend = Backend(name="few", limit=1)

        def __call__(self, claim, _run):
            if claim.task.title == "throws":
                raise RuntimeError("boom")
            return Failed(error="no") if claim.task.title == "fails" else Done()

    pit.put("throws", "fails", "works", max_attempts=1)
    report = Pool(pit.queue, Failing(), PoolOptions(slots=2, until_empty=True), Show()).run()
    assert report.tally == {"failed": 2, "done": 1}


# -- the gate --------------------------------------------------------------------------------------


def test_places_are_shared_by_all_pools(pit, clock):
    one, other = gate(pit, clock, limit=2), gate(pit, clock, limit=2)
    first, second = one.enter(), other.enter()
    assert first
    assert second
    assert one.enter() is None
    assert gate(pit, clock, name="codex", limit=2).enter()
    second.leave()
    assert one.enter()


def test_a_limit_that_says_nothing_doubles_until_something_works(pit, clock):
    one = gate(pit, clock)
    rests = []
    for _ in range(3):
        assert one.put_off(Retry(reason="429", kind="quota")).after == 0
        rests.append(round(paused(pit)["paused_until"] - clock.now()))
        one.put_off(Retry(reason="429", kind="quota"))  # another slot, the same limit
        clock.advance(rests[-1] + 1)
        assert not one.rests()
    assert rests == [300, 600, 1200]
    one.worked()
    one.put_off(Retry(reason="429", kind="quota"))
    assert round(paused(pit)["paused_until"] - clock.now()) == 300


def test_the_later_reset_stands(pit, clock):
    one = gate(pit, clock)
    one.put_off(Retry(reason="week", after=5000, kind="quota"))
    one.put_off(Retry(reason="minute", after=60, kind="quota"))
    assert paused(pit)["paused_until"] == clock.now() + 5000
    one.worked()  # somebody who began before has finished: the limit stands
    assert one.rests()
    one.wake()
    assert one.enter()


def test_a_damaged_record_is_no_rest(pit, clock):
    one = gate(pit, clock)
    for text in ("", "{", "[]", '{"paused_until": "soon"}', '{"paused_until": 1e18}'):
        with open(f"{pit.root}/.taskpit/backends/claude.json", "w", encoding="utf-8") as file:
            file.write(text)
        assert not one.rests()
        assert one.enter()


def test_runners_inside_others_are_found(pit):
    class Wrapping:
        def __init__(self, runner):
            self.runner = runner
            self.backend = "something else"

        def __call__(self, claim, run):
            return self.runner(claim, run)

    assert gate_for(pit.queue, Wrapping(pit.runner("codex"))).backend.name == "codex"
    assert gate_for(pit.queue, lambda _claim, _run: Done()).backend is None


def test_a_queue_that_is_no_folder_rests_too(clock):
    queue = Queue(MemoryStore(clock), clock=clock)
    queue.put([Task(id="a", title="a")])

    class Limited:
        backend = Backend(name="x")
        runs = 0

        def __call__(self, _claim, _run):
            self.runs += 1
            if self.runs == 1:
                return Retry(reason="limit", after=3600, kind="quota")
            return Done()

    runner, show = Limited(), Heard()
    thread = threading.Thread(target=Pool(queue, runner, PoolOptions(until_empty=True), show).run)
    thread.start()
    until(lambda: show.said)
    assert runner.runs == 1
    clock.advance(3601)
    thread.join(PATIENCE)
    assert (runner.runs, thread.is_alive()) == (2, False)
