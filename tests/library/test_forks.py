"""A queue object in a process and in what it forks: each is a worker of its own, and holds nothing of the other's."""

import os
import signal
import warnings
from contextlib import contextmanager

import pytest
from waits import PATIENCE, until

from taskpit import Queue, State
from taskpit.keeper import sweep

pytestmark = pytest.mark.races


@contextmanager
def forked(body):
    """What the body writes to its end of a pipe, in a fork that lives until the block is left and is killed then."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that there are threads is what is tried
        pid = os.fork()
    if not pid:
        signal.alarm(int(PATIENCE))
        try:
            os.close(reading)
            kept = body(lambda text: os.write(writing, f"{text}\n".encode()))
            signal.pause()
            del kept  # a block that nobody has is left
        finally:
            os._exit(70)
    os.close(writing)
    try:
        with os.fdopen(reading) as said:
            yield said.readline().strip()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_fork_that_is_killed_is_a_dead_worker_also_if_its_parent_lives(queue):
    """It worked under the name of its parent, and its task was nobody's for a whole lease."""
    queue.add("x")
    with queue.take("w"):
        pass
    task_id = queue.add("y")

    def take(say):
        block = queue.take("w")
        block.__enter__()
        say("taken")
        return block

    with forked(take) as said:
        assert said == "taken"
        sweep(queue)
        assert queue.card(task_id).state is State.CLAIMED
    sweep(queue)
    assert queue.card(task_id).state is State.READY


def test_what_a_dead_worker_has_forked_is_no_sign_that_it_lives(queue, root):
    """Its task was nobody's for a whole lease, if a process of a pool outlived the program."""
    task_id = queue.add("x")

    def take(say):
        block = Queue.open(root).take("w")
        block.__enter__()
        left = os.fork()
        if left == 0:
            signal.alarm(int(PATIENCE))
            signal.pause()
        say(left)
        return block

    with forked(take) as left:
        sweep(queue)
        assert queue.card(task_id).state is State.CLAIMED

    def is_ready():
        sweep(queue)
        return queue.card(task_id).state is State.READY

    try:
        until(is_ready)  # the kernel may still have to release the lock of the process that was killed
    finally:
        os.kill(int(left), signal.SIGKILL)


@pytest.mark.parametrize("verb", [lambda queue: queue.add("z"), lambda queue: queue.claim("c"), Queue.close])
def test_what_a_fork_does_with_the_queue_takes_nothing_from_its_parent(queue, verb):
    task_id = queue.add("x")
    with queue.take("w") as job:
        with forked(lambda say: (verb(queue), say("done"))) as said:
            assert said == "done"
        sweep(queue)
        assert queue.card(task_id).state is State.CLAIMED
        job.output = "here"
    assert queue.card(task_id).state is State.DONE
