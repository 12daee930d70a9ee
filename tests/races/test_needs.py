"""A need counts as done only when its result can be read: whoever is given the next task may look at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults import Stopped, record

from taskpit.model import Done, State, Task
from taskpit.queue import Queue
from taskpit.store.opening import init


def prepared(root, layout):
    """A claim of a task that another one needs."""
    init(root, layout)
    Path(root, ".taskpit", "config.toml").write_text('durability = "process"\n', encoding="utf-8")
    queue = Queue.open(root)
    ids = ("a", "b")
    queue.put([Task(id=ids[0], title="first"), Task(id=ids[1], title="second", needs=ids[:1])])
    return queue, queue.claim("snake", ids=ids[:1])[0]


@pytest.mark.parametrize("layout", ["pit", "mailbox", "workspace"])
def test_what_a_task_needs_can_be_read_when_it_is_given_out(tmp_path, layout):
    queue, claim = prepared(str(tmp_path / "calls"), layout)
    with record() as calls:
        queue.finish(claim, Done(output="here"))
    queue.close()
    given = 0
    for number in range(1, len(calls) + 1):
        root = str(tmp_path / str(number))
        queue, claim = prepared(root, layout)
        worker = Stopped(lambda queue=queue, claim=claim: queue.finish(claim, Done(output="here")), number)
        other = Queue.open(root)
        if other.claim("next"):
            card = other.card("a")
            assert card.state is State.DONE, worker.call
            assert card.result.output.strip() == "here", worker.call
            given += 1
        worker.go_on()
        other.close()
        queue.close()
    assert given
