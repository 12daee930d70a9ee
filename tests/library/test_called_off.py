"""A task that is cancelled while a worker has it: however that worker lets go of it, nobody else begins with it."""

import pytest
from workitems import FIRST, make

from taskpit import keeper
from taskpit.config import Config
from taskpit.model import Ask, Done, Failed, Release, Retry, Said, Split, State, Task, Verdict
from taskpit.queue import Queue
from taskpit.store.memory import MemoryStore
from taskpit.store.opening import init, open_store
from taskpit.testing import FakeClock

LEASE = 60.0
PARTS = (Task(id="", title="a part"),)
ENDS = [
    Ask(question="Which database?"),
    Split(children=PARTS, wait=True),
    Split(children=PARTS),
    Retry(reason="the model is busy", after=1.0),
    Failed(error="it broke"),
    Release(reason="not mine"),
    Release(reason="stuck", task=Task(id="", title="t", hold="stuck"), action="blocked"),
]


@pytest.fixture(params=["memory", "pit", "mailbox", "workspace", "activities"])
def queue(request, tmp_path):
    clock, config = FakeClock(), Config(durability="process", lease=LEASE, choke=2)
    if request.param == "memory":
        yield Queue(MemoryStore(clock=clock), config, clock)
        return
    if request.param == "activities":
        queue = make(tmp_path / "queue", clock)
    else:
        init(str(tmp_path / "queue"), request.param, clock)
        store = open_store(str(tmp_path / "queue"), clock=clock)
        queue = Queue(store, config, clock)
    yield queue
    queue.close()


def held(queue, **fields):
    """A task that a worker has, and whose worker was asked to stop."""
    name = FIRST if queue.store.info().layout == "activities" else ""
    task_id = queue.put([Task(id=name, title="t", **fields)])[0][0]
    (claim,) = queue.claim("snake~1", lease=LEASE, verbatim=True)
    assert queue.cancel(task_id, "ann") is False
    return claim


def assert_cancelled(queue, task_id):
    card = queue.card(task_id)
    assert (card.state, card.result and card.result.verdict) == (State.FAILED, Verdict.CANCELLED)
    assert queue.claim("next") == [], "and nobody begins with it, or with a part of it"
    queue.retry(task_id, "ann")
    (claim,) = queue.claim("next")
    assert queue.renew(claim) is Said.OK, "whoever has it after a person said so is not asked to stop"


@pytest.mark.parametrize("outcome", ENDS, ids=lambda one: type(one).__name__)
def test_however_its_worker_lets_go_of_it(queue, outcome):
    claim = held(queue)
    if isinstance(outcome, Release) and outcome.task is not None:
        outcome = outcome.replace(task=claim.task.replace(hold="stuck"))
    said, end = queue.finish(claim, outcome)
    assert (said, end.action, end.children) == (Said.OK, "cancelled_task", ())
    assert_cancelled(queue, claim.task.id)


def test_when_its_worker_dies(queue):
    claim = held(queue)
    queue.clock.advance(100 * LEASE)
    keeper.sweep(queue)
    queue.clock.advance(100 * LEASE)
    keeper.sweep(queue)
    assert_cancelled(queue, claim.task.id)


def test_what_is_done_is_done(queue):
    """Also if somebody would rather have it stopped."""
    claim = held(queue)
    assert queue.finish(claim, Done(output="here"))[0] is Said.OK
    assert queue.card(claim.task.id).state is State.DONE
