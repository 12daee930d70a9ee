"""A program that writes back only the words it knows: what is ours outlives it, and what people take out does not."""

from __future__ import annotations

import re

import pytest
from boxes import make_fast, pit
from workitems import FIRST, ITEM, SECOND, by_hand, entry, file_of, load, put, save, take

from taskpit.layouts import yamltext
from taskpit.model import Failed, Release, State, Task
from taskpit.queue import Queue
from taskpit.store.folder import BESIDE

#: What the other program knows of a file, of an activity and of a task inside.
HEAD = ("schema_version", "version", "last_modified", "last_modified_by", "work_item_id", "title", "type", "status")
ACTIVITY = ("id", "title", "status", "actor", "depends_on", "started_at", "completed_by", "completed_at", "tasks")
STEP = ("id", "title", "status", "depends_on", "completed_by", "completed_at")


def only(fields, words):
    return {word: fields[word] for word in words if word in fields}


def rewrite(queue, item=ITEM, **status):
    """As the other program saves it: one version more, its own words, its own shape, no comment."""
    path = file_of(queue, item)
    document = load(path)
    activities = []
    for one in document["activities"]:
        kept = only(one, ACTIVITY)
        kept["status"] = status.get(str(one["id"]).replace("-", "_"), one["status"])
        if "tasks" in kept:
            kept["tasks"] = [only(step, STEP) for step in kept["tasks"]]
        activities.append(kept)
    plain = {**only(document, HEAD), "version": int(document["version"]) + 1, "last_modified_by": "its tool"}
    save(path, yamltext.dump({**plain, "activities": activities, "blockers": []}).decode())


def begin(queue, *titles, **fields):
    """A work item with these activities."""
    put(queue, "Ship it", parent="")
    put(queue, *titles, **fields)


FIELDS = {
    "check": "false",
    "priority": 7,
    "tags": ("web", "slow"),
    "touches": ("src/*",),
    "max_attempts": 5,
    "by": "ann",
    "body": "All of it.",
    "extra": {"estimate": "3d"},
}


def test_all_of_ours_outlives_a_rewriting(queue):
    begin(queue, "Backend", **FIELDS)
    before = queue.card(FIRST).task
    rewrite(queue)
    assert "done_when" not in file_of(queue).read_text()
    assert queue.card(FIRST).task == before
    claim = take(queue)
    assert claim.task == before
    assert "done_when: 'false'" in file_of(queue).read_text()


@pytest.mark.parametrize("when", ["before the claim", "after it"])
def test_done_runs_the_check_all_the_same(when, tmp_path):
    folder = make_fast(tmp_path / "q", "activities")
    assert pit("-C", folder, "add", "Backend", "--check", "false", "--tag", "web", "--priority", "7").code == 0
    queue = Queue.open(folder)
    rewrite(queue)
    queue.close()
    assert pit("-C", folder, "claim", "--as", "bot").code == 0
    if when == "after it":
        rewrite(queue)
    answer = pit("-C", folder, "done", FIRST, "--as", "bot", "--json")
    assert (answer.code, answer.error["code"]) == (7, "check_failed")
    shown = pit("-C", folder, "show", FIRST, "--json").data
    assert (shown["state"], shown["check"], shown["tags"], shown["priority"]) == ("claimed", "false", ["web"], 7)


def test_so_does_what_is_counted_and_how_it_ended(queue, clock):
    begin(queue, "Backend", "Frontend", check="true", max_attempts=2)
    queue.finish(take(queue), Failed(error="no luck"))
    rewrite(queue)
    card = queue.card(FIRST)
    assert (card.task.attempts, card.task.last_error, len(card.tries)) == (1, "no luck", 1)
    clock.advance(100)
    queue.finish(take(queue), Failed(error="never", final=True))
    queue.cancel(SECOND, "ann", "no longer")
    rewrite(queue)
    assert [str(queue.card(one).result.verdict) for one in (FIRST, SECOND)] == ["failed", "cancelled"]
    assert queue.card(FIRST).result.reason == "never"


def test_a_result_is_not_that_of_another_end(queue):
    begin(queue, "Backend", check="true", max_attempts=1)
    queue.finish(take(queue), Failed(error="never"))
    rewrite(queue, WI_001_A1="pending")
    assert (queue.card(FIRST).state, "result" in entry(queue)) == (State.READY, False)
    rewrite(queue, WI_001_A1="completed")
    card = queue.card(FIRST)
    assert (card.state, card.result.reason) == (State.DONE, "")


def test_blockers_of_ours_come_back_with_it(queue):
    begin(queue, "Backend", check="true")
    queue.block(FIRST, "ann", "no access")
    rewrite(queue)
    assert "no access" in queue.card(FIRST).held
    queue.unblock(FIRST, "ann")
    rewrite(queue)
    assert queue.card(FIRST).held == ""


def test_a_work_item_of_its_own_keeps_its_words(queue):
    queue.put([Task(id="WI-001", title="Alone", check="false", priority=3)])
    rewrite(queue)
    assert (queue.card(ITEM).task.check, queue.card(ITEM).task.priority) == ("false", 3)
    claim = take(queue, ITEM)
    assert claim.task.check == "false"


def test_what_a_person_takes_out_is_meant(queue):
    begin(queue, "Backend", **FIELDS)
    path = file_of(queue)
    save(path, re.sub(r"\n +done_when: .*", "", path.read_text()))
    assert (queue.card(FIRST).task.check, queue.card(FIRST).task.priority) == ("", 7)
    claim = take(queue)
    assert claim.task.check == ""
    assert "done_when" not in path.read_text()


def test_so_is_a_word_with_nothing_behind_it(queue):
    by_hand(queue, "version: 1\nactivities:\n  - id: A1\n    done_when: 'false'\n")
    queue.finish(take(queue), Release())
    path = file_of(queue)
    save(path, path.read_text().replace("done_when: 'false'", "done_when:"))
    assert take(queue).task.check == ""


def test_so_is_an_older_file_that_is_put_back(queue):
    path = by_hand(queue, "version: 1\nactivities:\n  - id: A1\n")
    before = path.read_text()
    queue.edit(FIRST, "ann", lambda task: task.replace(check="false"))
    assert queue.card(FIRST).task.check == "false"
    save(path, before)
    assert queue.card(FIRST).task.check == ""


@pytest.mark.parametrize("beside", [b"", b"no JSON", b"[]", b"{}", b'{"version": 1, "entries": [], "blockers": 3}'])
def test_what_is_kept_may_be_damaged(beside, queue):
    begin(queue, "Backend", **FIELDS)
    with open(queue.store.folder.at(f"{BESIDE}/{ITEM}"), "wb") as file:
        file.write(beside)
    assert queue.card(FIRST).task.check == "false"
    assert take(queue).task.priority == 7
    rewrite(queue)
    assert queue.card(FIRST).task.check == "false"
