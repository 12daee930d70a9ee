"""Waiting for a task: a put wakes one of many, whoever dies in line is passed over, nobody sleeps past a task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
from faults import record
from pits import make, reopened, root_of, task
from waits import PATIENCE

from taskpit import queue as queues
from taskpit.clock import Clock
from taskpit.errors import Storage
from taskpit.model import Done
from taskpit.queue import Queue
from taskpit.store.waiters import Line
from taskpit.watch import Watch

pytestmark = pytest.mark.mechanism

#: Says that it sleeps, and then does until it has a task.
SLEEPER = """
import sys
from taskpit.errors import Storage
from taskpit.queue import Queue
from taskpit.watch import Watch

wait = Watch.wait
def told(self, timeout):
    print("asleep", flush=True)
    return wait(self, timeout)
Watch.wait = told
print(Queue.open(sys.argv[1]).claim("sleeper", wait=60)[0].task.id, flush=True)
"""


@pytest.fixture(autouse=True)
def nobody_looks_by_itself(monkeypatch):
    """What must wake somebody must do it by itself, not by the look that comes every second."""
    monkeypatch.setattr(queues, "LOOK_AGAIN", PATIENCE)


@pytest.fixture
def queue(tmp_path):
    queue = make(str(tmp_path / "pit"), Clock())
    yield queue
    queue.close()


class Waiter:
    """A worker with a store of its own that waits in a thread of its own."""

    def __init__(self, queue: Queue, worker: str, **want) -> None:
        self.queue = reopened(root_of(queue), Clock())
        self.store = self.queue.store
        self.calls: list[tuple[str, str]] = []
        self.heard = 0
        self._asleep = threading.Event()
        self._closing = False
        self._claims: list = []
        self._thread = threading.Thread(target=self._run, args=(worker, want), daemon=True)
        hear = self.store._chooser.hear
        self.store._chooser.hear = lambda: self._count() or hear()

    def start(self) -> None:
        self._thread.start()
        assert self._asleep.wait(PATIENCE)

    def _count(self) -> None:
        self.heard += 1

    def sleeps(self) -> None:
        """If it is its thread that asks, it is about to sleep."""
        if threading.current_thread() is self._thread:
            self._asleep.set()
            self.calls.clear()

    def _run(self, worker, want) -> None:
        try:
            with record() as self.calls:
                self._claims = self.queue.claim(worker, wait=PATIENCE, **want)
        except (OSError, Storage):
            if not self._closing:  # who still waits when the test is over hears that its queue is closed
                raise

    def got(self) -> list[str]:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return [claim.task.id for claim in self._claims]

    @property
    def behind(self) -> str:
        return self.store._line._before

    @property
    def place(self) -> str:
        return self.store._line._name

    def close(self) -> None:
        self._closing = True
        self.queue.close()


@pytest.fixture
def waiting(queue, monkeypatch):
    made: list[Waiter] = []
    wait = Watch.wait

    def slept(watch, timeout):
        for waiter in made:
            waiter.sleeps()
        return wait(watch, timeout)

    def begin(worker, **want):
        made.append(Waiter(queue, worker, **want))
        made[-1].start()
        return made[-1]

    # By the test, not by each waiter: one that sleeps on when its test is over would put it back in another test.
    monkeypatch.setattr(Watch, "wait", slept)

    yield begin
    for waiter in made:
        waiter.close()


def test_a_put_wakes_one(queue, waiting):
    one, two, three = waiting("one"), waiting("two"), waiting("three")
    assert (two.behind, three.behind) == (one.place, two.place)

    queue.put([task(1)])
    assert one.got() == ["0001"]
    assert three.heard == 0

    queue.put([task(2)])
    assert two.got() == ["0002"]
    queue.put([task(3)])
    assert three.got() == ["0003"]


def test_many_puts_wake_many(queue, waiting):
    waiters = [waiting(f"w{number}") for number in range(4)]
    queue.put([task(number) for number in range(1, 5)])
    assert sorted(task_id for waiter in waiters for task_id in waiter.got()) == ["0001", "0002", "0003", "0004"]


def test_whoever_is_woken_for_nothing_lets_the_next_one_look(queue, waiting):
    waiting("picky", tags=["other"])
    second = waiting("any")
    queue.put([task(1)])
    assert second.got() == ["0001"]


def test_a_need_that_is_met_wakes(queue, waiting):
    queue.put([task(1), task(2, needs=("0001",))])
    (claim,) = queue.claim("snake")
    waiter = waiting("waiter")
    queue.finish(claim, Done(output="ok"))
    assert waiter.got() == ["0002"]


def sleeper(queue):
    process = subprocess.Popen([sys.executable, "-c", SLEEPER, root_of(queue)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "asleep\n"
    return process


def test_the_first_in_line_is_killed(queue, waiting):
    process = sleeper(queue)
    second = waiting("second")
    assert second.behind
    process.kill()
    process.communicate()
    queue.put([task(1)])
    assert second.got() == ["0001"]
    assert os.listdir(f"{root_of(queue)}/.taskpit/line") == [second.place]


def test_the_first_in_line_stands_still(queue, monkeypatch):
    """Then the others find it when they look by themselves, as they do every second."""
    process = sleeper(queue)
    try:
        process.send_signal(signal.SIGSTOP)
        monkeypatch.setattr(queues, "LOOK_AGAIN", 0.05)
        other = reopened(root_of(queue), Clock())
        assert other.claim("other", wait=0.1) == []
        assert other.store._line._before
        queue.put([task(1)])
        assert [claim.task.id for claim in other.claim("other", wait=PATIENCE)] == ["0001"]
        other.close()
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate()


def test_without_a_line_all_wait_for_themselves(queue, waiting):
    with open(f"{root_of(queue)}/.taskpit/line", "w", encoding="utf-8"):
        pass
    one, two = waiting("one"), waiting("two")
    queue.put([task(1), task(2)])
    assert sorted(one.got() + two.got()) == ["0001", "0002"]


def test_whoever_wakes_tries_what_came_and_looks_at_nothing_else(queue, waiting):
    queue.put([task(number, hold="wait") for number in range(1, 30)])
    waiter = waiting("waiter")
    queue.put([task(99)])
    assert waiter.got() == ["0099"]
    calls = [call for call, path in waiter.calls if "/food/" in path or "/claimed/" in path]
    assert calls == ["open", "read", "utime", "rename", "stat"]
    assert "list" not in dict(waiter.calls)


def test_beside_a_catalogue_what_others_drop_in_wakes_at_once(queue, waiting):
    """Also when comparing was too dear a moment ago, and nobody has told the catalogue of it."""
    queue.put([task(number, tags=("x",)) for number in range(1, 100)])
    waiter = waiting("picky", tags=["y"])
    ready = waiter.store._chooser._ready
    assert ready._catalog is not None
    ready._cost, ready._listed = 1e6, Clock().monotonic()
    root = root_of(queue)
    with open(f"{root}/hidden", "w", encoding="utf-8") as file:
        file.write("# food-7777-late\n- **task:** late\n- **tags:** y\n")
    os.rename(f"{root}/hidden", f"{root}/food/food-7777-late.md")
    assert waiter.got() == ["7777"]


def test_a_place_is_kept_until_one_has_something(tmp_path):
    one, two = Line(str(tmp_path / "line")), Line(str(tmp_path / "line"))
    assert one.first()
    assert not two.first()
    assert one.first()
    one.leave()
    two.sleep(PATIENCE)
    assert two.first()
    assert not one.first()
    two.close()
    one.sleep(PATIENCE)
    assert one.first()
    one.close()
    assert os.listdir(tmp_path / "line") == []


@pytest.mark.parametrize("moved", [False, True])
def test_a_directory_that_is_made_anew_is_watched(moved, queue):
    """As git does when a branch is switched: it removes those that are empty, and makes them when they are needed."""
    folder = queue.store.folder
    ready = folder.at(folder.layout.ready)

    def has_none():
        assert queue.claim("w") == []
        return queue.store.wait(0.0)

    has_none()
    assert not has_none()
    if moved:
        os.rename(ready, f"{ready}.old")
    else:
        os.rmdir(ready)
    assert has_none()
    assert not has_none()
    os.mkdir(ready)
    assert has_none()
    assert not has_none()
    with open(f"{root_of(queue)}/coming", "w", encoding="utf-8") as file:
        file.write("- **task:** x\n")
    os.rename(file.name, f"{ready}/food-a1-x.md")
    assert queue.store.wait(0.0)
    assert [claim.task.id for claim in queue.claim("w")] == ["a1"]
