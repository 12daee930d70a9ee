"""What failed for good and is put back with nothing but `mv` or `cp` is tried again, once; what is done stays done."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path

import pytest
from faults import Stopped, record
from pits import make, misplaced, put, root_of, take, task, wrong
from rotation import part

from taskpit.clock import iso
from taskpit.errors import Conflict, Lost
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Said, State, Want
from taskpit.testing import FakeClock

ID = "0001"


@pytest.fixture(params=["claim", "sweep"])
def act(request):
    return request.param


def failed(tmp_path, layout):
    queue = make(str(tmp_path / "queue"), FakeClock(), layout=layout)
    put(queue, task(1, body="do it", check="true"))
    queue.finish(take(queue, ID), Failed(error="no", final=True))
    assert queue.card(ID).state is State.FAILED
    return queue


def by_mv(root):
    """As a keeper does it in a pit: out of the scraps, back into the food."""
    os.rename(f"{root}/scraps/food-0001-task-1-needs-keeper.md", f"{root}/food/food-0001-task-1.md")


def by_cp(root):
    shutil.copyfile(f"{root}/scraps/food-0001-task-1-needs-keeper.md", f"{root}/food/food-0001-task-1.md")


def by_hand(root):
    with open(f"{root}/food/food-0001-task-1.md", "w", encoding="utf-8") as file:
        file.write("- **task:** task 1\n- **done-when:** `true`\n\ndo it\n")


def renamed(root):
    """In a workspace the name is the state."""
    os.rename(f"{root}/tasks/0001_failed.md", f"{root}/tasks/0001_pending.md")


WAYS = [("pit", by_mv), ("pit", by_cp), ("pit", by_hand), ("workspace", renamed)]


@pytest.mark.parametrize(("layout", "way"), WAYS, ids=lambda one: getattr(one, "__name__", one))
def test_it_is_tried_again(layout, way, act, tmp_path):
    queue = failed(tmp_path, layout)
    way(root_of(queue))
    assert [(card.task.id, card.state) for card in queue.store.page().cards] == [(ID, State.READY)]
    if act == "sweep":
        assert [mend.kind for mend in sweep(queue)] == ["tried again"]
        assert sweep(queue) == []
    (claim,) = queue.claim("snake")
    assert (claim.task.check, claim.task.body.strip(), claim.task.attempts) == ("true", "do it", 0)
    assert queue.finish(claim, Done(output="at last"))[0] is Said.OK
    sweep(queue)
    card = queue.card(ID)
    assert (card.state, card.result.output.strip(), len(card.late)) == (State.DONE, "at last", 1)
    assert (misplaced(queue), os.listdir(f"{root_of(queue)}/.taskpit/quarantine")) == ({}, [])
    assert {finding.partition(":")[0] for finding in wrong(queue)} <= {"late result"}
    queue.close()


def taken_away(queue):
    for name in os.listdir(queue.store.folder.at("food")):
        os.unlink(queue.store.folder.at(f"food/{name}"))


def saved_again(queue):
    """By an editor, whose new file replaces what stood there."""
    with open(queue.store.folder.at("new"), "w", encoding="utf-8") as file:
        file.write("- **task:** task 1\n\ndo it otherwise\n")
    os.rename(queue.store.folder.at("new"), queue.store.folder.at("food/food-0001-task-1.md"))


def retried(queue):
    with contextlib.suppress(Conflict, Lost):
        queue.retry(ID, "ada")


@pytest.mark.parametrize("meanwhile", [taken_away, saved_again, retried], ids=lambda one: one.__name__)
@pytest.mark.parametrize("way", [by_mv, by_hand], ids=lambda one: one.__name__)
def test_whatever_becomes_of_it_meanwhile_it_is_one_task_and_no_words_are_lost(way, meanwhile, tmp_path):
    """Before each call of the sweep that takes it up, another hand is quicker."""
    queue = failed(tmp_path / "first", "pit")
    way(root_of(queue))
    with record() as calls:
        sweep(queue)
    queue.close()
    for number in part(range(1, len(calls) + 1), 6):
        queue = failed(tmp_path / str(number), "pit")
        way(root_of(queue))
        stopped = Stopped(lambda q=queue: sweep(q), number)
        meanwhile(queue)
        stopped.go_on()
        queue.clock.advance(10)
        sweep(queue)
        texts = [path.read_text(errors="replace") for path in Path(root_of(queue)).rglob("*") if path.is_file()]
        assert meanwhile is not saved_again or any("otherwise" in text for text in texts), stopped.call
        if meanwhile is taken_away and not queue.store.read([ID])[0]:  # it was the task by then: its text is kept
            queue.store.fix()
        claims = queue.claim("snake", count=9)
        assert len(claims) <= 1, stopped.call
        assert claims or meanwhile is taken_away, stopped.call
        for claim in claims:
            assert queue.finish(claim, Done())[0] is Said.OK, stopped.call
        sweep(queue)
        assert queue.card(ID).state is (State.DONE if claims else State.FAILED), stopped.call
        assert (misplaced(queue), queue.claim("snake")) == ({}, []), stopped.call
        queue.close()


@pytest.mark.parametrize("layout", ["pit", "workspace", "mailbox"])
def test_an_empty_file_asks_for_nothing(layout, tmp_path):
    """Vim leaves one behind if its file is taken between its look and its save."""
    queue = failed(tmp_path, layout)
    folder = queue.store.folder
    with open(folder.at(folder.layout.ready_path(task(1))), "w", encoding="utf-8"):
        pass
    assert queue.claim("snake") == []
    sweep(queue)
    card = queue.card(ID)
    assert (card.state, card.result.reason, card.late) == (State.FAILED, "no", ())
    assert (sweep(queue), misplaced(queue)) == ([], {})
    assert len(os.listdir(f"{root_of(queue)}/.taskpit/quarantine")) == 2  # it, and why
    queue.close()


@pytest.mark.parametrize("layout", ["pit", "workspace", "mailbox"])
def test_a_copy_of_what_is_done_is_listed_once(layout, tmp_path):
    """As what it is: an old backup is unpacked over a queue."""
    queue = make(str(tmp_path / "queue"), FakeClock(), layout=layout)
    put(queue, task(1))
    ready = queue.store.folder.at(queue.store.folder.layout.ready_path(queue.card(ID).task))
    shutil.copy2(ready, f"{tmp_path}/backup")
    queue.finish(take(queue, ID), Done())
    shutil.copy2(f"{tmp_path}/backup", ready)
    assert [(card.task.id, card.state) for card in queue.store.page().cards] == [(ID, State.DONE)]
    assert queue.claim("snake") == []
    sweep(queue)
    assert not os.path.exists(ready)
    queue.close()


def test_what_is_done_is_not(tmp_path):
    queue = make(str(tmp_path / "queue"), FakeClock())
    put(queue, task(1))
    queue.finish(take(queue, ID), Done())
    by_hand(root_of(queue))
    assert [mend.kind for mend in sweep(queue)] == ["set aside"]
    assert queue.card(ID).state is State.DONE
    queue.close()


def test_a_claimed_file_is_left_to_its_worker_for_a_moment_after_its_result(tmp_path):
    """Between a stranger's result and its `rm` a sweep takes nothing from under its hands."""
    queue = make(str(tmp_path / "queue"), FakeClock())
    queue.store.folder.grace = 2.0
    put(queue, task(1))
    root = root_of(queue)
    os.rename(f"{root}/food/food-0001-task-1.md", f"{root}/claimed/sh.food-0001-task-1.md")
    with open(f"{root}/done/food-0001-task-1.result.md", "w", encoding="utf-8") as file:
        file.write("done\n")
    queue.clock.set_wall(os.stat(f"{root}/done/food-0001-task-1.result.md").st_ctime)
    assert sweep(queue) == []
    queue.clock.advance(3)
    assert {mend.kind for mend in sweep(queue)} == {"set aside", "registered"}
    queue.close()


def test_logs_are_named_by_worker_and_time_and_nothing_else(tmp_path):
    queue = make(str(tmp_path / "queue"), FakeClock())
    names = [os.path.basename(queue.store.keep_log("snake-2", b"x")) for _ in range(3)]
    assert len(set(names)) == 3
    assert all(len(name) == len("snake-2-20260614T175042Z.log") and name.startswith("snake-2-2") for name in names)
    queue.close()


@pytest.mark.parametrize("text", ["{", "[]", "", '{"tasks": {"task_001": {"note": "theirs"}}}', '{"tasks": null}'])
def test_a_manifest_that_cannot_be_read_is_kept(text, tmp_path):
    queue = make(str(tmp_path / "queue"), FakeClock(), layout="workspace")
    path = f"{root_of(queue)}/manifest.json"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    put(queue, task(1))
    (kept,) = [name for name in os.listdir(f"{root_of(queue)}/.taskpit/quarantine") if not name.endswith(".reason")]
    with open(f"{root_of(queue)}/.taskpit/quarantine/{kept}", encoding="utf-8") as file:
        assert file.read() == text
    queue.close()


def test_a_manifest_tells_no_creation_in_the_future(tmp_path):
    queue = make(str(tmp_path / "queue"), FakeClock(), layout="workspace")
    root = root_of(queue)
    with open(f"{root}/tasks/a_pending.md", "w", encoding="utf-8") as file:
        file.write("# a\n")
    queue.store.claim(Want(worker="w", lease=9e6, ids=("a",)))
    os.unlink(f"{root}/manifest.json")
    sweep(queue)
    with open(f"{root}/manifest.json", encoding="utf-8") as file:
        told = json.load(file)["tasks"][0]["created_at"]
    assert told <= iso(queue.store.clock.now())[:13] + ":99"
    queue.close()


def test_it_is_what_it_had_become_when_it_failed(tmp_path, act):
    """Not what it was when it was added."""
    queue = make(str(tmp_path / "queue"), FakeClock())
    put(queue, task(1, body="do it"))
    queue.edit(ID, "ada", lambda one: one.replace(body="do it better"))
    queue.finish(take(queue, ID), Failed(error="no", final=True))
    by_mv(root_of(queue))
    if act == "sweep":
        sweep(queue)
    assert [claim.task.body.strip() for claim in queue.claim("snake")] == ["do it better"]
    queue.close()


def test_a_failure_that_does_not_say_what_the_task_was(tmp_path, act):
    """A mailbox's has only its id: the registry knows the rest."""
    queue = failed(tmp_path, "mailbox")
    os.rename(f"{root_of(queue)}/failed/{ID}_error.json", f"{root_of(queue)}/inbox/{ID}.json")
    if act == "sweep":
        assert [mend.kind for mend in sweep(queue)] == ["tried again"]
    (claim,) = queue.claim("snake")
    assert (claim.task.title, claim.task.body, claim.task.check) == ("task 1", "do it", "true")
    queue.close()


def copied(root, name, text):
    with open(f"{root}/food/{name}", "w", encoding="utf-8") as file:
        file.write(f"- **task:** task 1\n\n{text}\n")


@pytest.mark.parametrize(
    ("there", "first"),
    [
        ({"food-0001-a.md": "copy"}, "do it"),  # the file that was put
        ({"food-0001-a.md": "copy", "food-0001-task-1.md": "saved again"}, "saved again"),  # the one of its name
        ({"food-0001-zz.md": "copy", "food-0001-task-1.md": "saved again"}, "saved again"),
        ({"food-0001-b.md": "second", "food-0001-a.md": "first", "food-0001-task-1.md": None}, "first"),
    ],
)
def test_of_two_files_with_one_id_one_is_the_task(there, first, tmp_path, act):
    queue = make(str(tmp_path / "queue"), FakeClock())
    put(queue, task(1, body="do it"))
    root = root_of(queue)
    for name, text in there.items():
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{root}/food/{name}")
        if text:
            copied(root, name, text)
    if act == "sweep":
        sweep(queue)
    claims = [claim.task for claim in queue.claim("snake", count=9)]
    sweep(queue)
    claims += [claim.task for claim in queue.claim("snake", count=9)]
    assert [one.body.strip() for one in claims if one.id == ID] == [first]
    queue.close()
