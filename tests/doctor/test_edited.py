"""An edit of a published result is noticed: its digest stands in the line that tells of it."""

from __future__ import annotations

import json
import os

import pytest
from boxes import LAYOUTS, make, reopened
from pits import root_of

from taskpit import keeper, transfer
from taskpit.model import Done, Failed, Said, Task
from taskpit.store import changelog
from taskpit.store.doctor import examine


@pytest.fixture(params=LAYOUTS)
def queue(request, tmp_path):
    made = make(tmp_path / "queue", request.param)
    yield made
    made.close()


def do(queue, task_id, outcome=None):
    (claim,) = queue.claim("snake", ids=(task_id,))
    assert queue.finish(claim, outcome or Done(output="four eggs"))[0] is Said.OK


def put(queue, **fields):
    return queue.put([Task(id="", title="count the eggs", **fields)])[0][0]


def edited(queue):
    return [found for found in examine(queue.store.folder) if found.kind == "edited result"]


def result(queue, task_id):
    """Where people read it."""
    outcome = os.stat(f"{root_of(queue)}/.taskpit/outcomes/{task_id}~done").st_ino
    paths = [f"{folder}/{name}" for folder, _, names in os.walk(root_of(queue)) for name in names]
    return next(path for path in paths if "/.taskpit/" not in path and os.stat(path).st_ino == outcome)


def lie(path):
    with open(path, encoding="utf-8") as file:
        return file.read().replace("four eggs", "nine eggs")


def test_what_nobody_touched_is_not_told(queue):
    one, two, three = put(queue), put(queue, max_attempts=1), put(queue)
    do(queue, one)
    do(queue, two, Failed(error="no hen"))
    do(queue, three)
    assert len(changelog.digests(f"{root_of(queue)}/.taskpit/changelog.log")) == 3
    assert edited(queue) == []


def test_an_edit_in_its_place_is_told(queue):
    task = put(queue)
    do(queue, task)
    path = result(queue, task)
    text = lie(path)
    with open(path, "r+", encoding="utf-8") as file:  # the same size, the same file
        file.write(text)
    (found,) = edited(queue)
    assert (found.what, "not what was published" in found.details) == (task, True)
    keeper.sweep(queue)
    keeper.fix(queue, dry_run=True, ended=lambda *_: True)
    assert [found.what for found in edited(queue)] == [task]
    assert ("edited result", task) in [(done.kind, done.what) for done in keeper.fix(queue, ended=lambda *_: True)]
    assert edited(queue) == []  # a person has looked


def test_another_file_in_its_place_is_set_aside_by_a_sweep_and_the_original_is_back(queue):
    task = put(queue)
    do(queue, task)
    path = result(queue, task)
    text = lie(path)
    os.remove(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    assert "sweep will do" in [found.kind for found in examine(queue.store.folder)]
    keeper.sweep(queue)
    assert "four eggs" in queue.card(task).result.output
    assert edited(queue) == []


def test_done_again_its_new_result_counts(queue):
    task = put(queue, max_attempts=1)
    do(queue, task, Failed(error="no hen"))
    queue.retry(task, "ann")
    do(queue, task, Done(output="five eggs, counted again"))
    assert edited(queue) == []
    with open(result(queue, task), "a", encoding="utf-8") as file:
        file.write("and one more\n")
    assert [found.what for found in edited(queue)] == [task]


def test_many_that_end_together_have_theirs(queue):
    tasks = [put(queue) for _ in range(3)]
    claims = queue.claim("snake", count=3)
    queue.finish_many([(claim, Done(output=f"egg {claim.task.id}")) for claim in claims])
    assert set(changelog.digests(f"{root_of(queue)}/.taskpit/changelog.log")) == set(tasks)
    assert edited(queue) == []


def test_whoever_carries_out_what_a_killed_worker_sealed_says_it_too(queue, monkeypatch):
    task = put(queue)
    with monkeypatch.context() as patch:
        patch.setattr("taskpit.store.finish.roll", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            do(queue, task)
    layout = queue.store.folder.layout.name
    other = reopened(root_of(queue), layout)
    keeper.sweep(other)
    assert list(changelog.digests(f"{root_of(queue)}/.taskpit/changelog.log")) == [task]
    assert edited(other) == []
    other.close()


def test_another_queues_digests_do_not_come_along(queue, tmp_path):
    task = put(queue)
    do(queue, task)
    lines = list(transfer.dump(queue.store))
    assert any("digest" in json.loads(line) for line in lines)
    other = make(tmp_path / "other", "mailbox" if queue.store.folder.layout.name == "pit" else "pit")
    other.store.record(transfer.events_of(queue.store))
    assert changelog.digests(f"{root_of(other)}/.taskpit/changelog.log") == {}
    other.close()
