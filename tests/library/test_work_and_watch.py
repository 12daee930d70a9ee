"""`queue.work(handler)`, `queue.watch()`, `queue.events()`: pools of functions, and what happens as it happens."""

from __future__ import annotations

import threading

import pytest
from waits import PATIENCE

from taskpit import Failed, Job, Queue, State, Task
from taskpit.errors import Invalid
from taskpit.run.pool import Pool
from taskpit.store.memory import MemoryStore
from taskpit.watch import Watch


def test_a_function_is_run_on_every_task(queue):
    ids = [queue.add(f"task {number}") for number in range(6)]
    together = threading.Barrier(3)  # three at once, or it breaks

    def handler(job: Job) -> str:
        together.wait(PATIENCE)
        return f"did {job.task.title}"

    report = queue.work(handler, n=3, until_empty=True)

    assert report.tally == {"done": 6}
    assert [queue.card(one).result.output.strip() for one in ids] == [f"did task {number}" for number in range(6)]


def test_what_a_function_may_say(queue):
    said = {
        "text": lambda _job: "text",
        "nothing": lambda _job: None,
        "outcome": lambda _job: Failed(error="no", final=True),
        "own": lambda job: setattr(job, "output", "own"),
        "set": lambda job: setattr(job, "outcome", Failed(error="set", final=True)),
        "throws": lambda _job: {}["x"],
    }
    ids = {title: queue.add(title, max_attempts=1) for title in said}
    queue.work(lambda job: said[job.task.title](job), until_empty=True)
    results = {title: queue.card(task_id).result for title, task_id in ids.items()}

    assert {title: result.output.strip() for title, result in results.items()} == {
        "text": "text",
        "nothing": "",
        "outcome": "",
        "own": "own",
        "set": "",
        "throws": "",
    }
    assert {title for title, result in results.items() if result.verdict == "done"} == {"text", "nothing", "own"}
    assert results["throws"].reason.startswith("KeyError: 'x'")


def test_checks_are_run(queue, tmp_path):
    task_id = queue.add("check me", check="pwd", max_attempts=1)
    queue.work(lambda _job: None, until_empty=True, checks=str(tmp_path))

    assert queue.card(task_id).result.evidence.tail.strip() == str(tmp_path)


def test_a_function_that_is_told_to_stop_gives_its_task_back(queue, monkeypatch):
    task_id = queue.add("endless")
    pools = []
    monkeypatch.setattr(Pool, "run", lambda pool, run=Pool.run: pools.append(pool) or run(pool))

    def handler(job: Job) -> None:
        pools[0]._heartbeat.stop_all("stop")
        assert job.stopping == "stop"
        job.check()

    report = queue.work(handler, max_tasks=1)

    assert report.tally == {"released": 1}
    assert (queue.card(task_id).state, queue.card(task_id).task.attempts) == (State.READY, 0)


def test_events_are_the_changelog(queue):
    for number in range(3):
        queue.add(f"task {number}")
    with queue.take():
        pass

    assert [event.action for event in queue.events()] == [*["added_task"] * 3, "claimed_task", "completed_task"]


def test_watching_begins_when_it_is_asked_for_and_ends_in_silence(queue):
    queue.add("before")
    watching = queue.watch(timeout=0.0)
    task_id = queue.add("after")

    assert [event.task_id for event in watching] == [task_id]


def test_a_watcher_sleeps_until_something_happens(queue, root, monkeypatch):
    """It is woken by the folder: looking again by itself is put out of reach."""
    monkeypatch.setattr("taskpit.library.LOOK_AGAIN", 1000.0)
    with Queue.open(root) as other:
        heard, asleep = [], threading.Event()
        monkeypatch.setattr(Watch, "wait", lambda one, seconds, wait=Watch.wait: asleep.set() or wait(one, seconds))
        watching = other.watch(timeout=PATIENCE)
        thread = threading.Thread(target=lambda: heard.append(next(watching)))
        thread.start()
        assert asleep.wait(PATIENCE)
        task_id = queue.add("news")
        thread.join(PATIENCE)

    assert [event.task_id for event in heard] == [task_id]


def test_a_changelog_begun_anew_is_read_from_its_beginning(queue, root):
    queue.add("old")
    watching = queue.watch(timeout=0.0)
    (root / ".taskpit/changelog.log").unlink()
    task_id = queue.add("new")

    assert [event.task_id for event in watching] == [task_id]


def test_watching_any_store():
    queue = Queue(MemoryStore())
    watching = queue.watch(timeout=0.0)
    task_id = queue.add("anywhere")

    assert next(watching).task_id == task_id
    assert list(watching) == []


@pytest.mark.parametrize("layout", ["mailbox", "workspace", "activities"])
def test_other_layouts(tmp_path, layout):
    with Queue.create(tmp_path / "q", layout) as queue:
        watching = queue.watch(timeout=0.0)
        queue.add("anything")
        assert len(list(watching)) == 1
        report = queue.work(lambda _job: "done", until_empty=True)

    assert report.tally == {"done": 1}


def test_tasks_that_can_be_gone_through_only_once_are_put(queue):
    said = queue.put(Task(id="", title=f"task {number}") for number in range(3))
    assert [queue.card(task_id).task.title for task_id, _ in said] == ["task 0", "task 1", "task 2"]


@pytest.mark.parametrize("n", [0, -1])
def test_a_pool_without_workers_is_refused(queue, n):
    with pytest.raises(Invalid):
        queue.pool(lambda _claim, _run: None, n)


def test_fewer_than_no_tasks_are_not_claimed(queue):
    queue.add("x")
    with pytest.raises(Invalid):
        queue.claim("ada", count=-1)
    assert queue.store.counts()[State.READY] == 1


def _later(_job):
    yield "nothing of it has run"


async def _awaitable(_job):
    return "nothing of it has run"


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("handler", [lambda _: 5, lambda _: False, lambda _: {"a": 1}, _later, _awaitable])
def test_a_function_that_returns_what_is_no_result_has_failed(queue, handler):
    """A generator was done before any of it had run, and a number left the task claimed."""
    task_id = queue.add("x", max_attempts=1)
    assert queue.work(handler, max_tasks=1).tally == {"failed": 1}
    assert "neither a text nor an outcome" in queue.card(task_id).result.reason
