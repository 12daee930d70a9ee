"""Folders and documents as they are met: what can be read is used, what cannot is told, and nobody loses a word."""

from __future__ import annotations

import os

import pytest
from boxes import pit
from workitems import (
    FIRST,
    ITEM,
    LEASE,
    by_hand,
    disorder,
    entry,
    file_of,
    load,
    lock_of,
    make,
    put,
    save,
    status,
    take,
)

from taskpit.errors import Invalid, NotFound, Unavailable
from taskpit.keeper import sweep
from taskpit.layouts import yamltext
from taskpit.model import Done, Release, Said, Split, State, Task
from taskpit.store.activities import steps as moves
from taskpit.store.locks import Grip

ONE = "activities:\n  - id: A1\n    title: one\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def kinds(queue):
    return [(mend.kind, mend.what) for mend in queue.store.check()]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just words\n",
        "- a\n- list\n",
        "activities: [\n",
        "\tactivities: []\n",
        "a: 1\na: 2\n",
        "---\na: 1\n---\nb: 2\n",
        "activities: none\n",
        "activities: []\nblockers: none\n",
        "pivots: 3\n",
        f"{BOMB}title: *i\n{ONE}",
        f"{BOMB}{ONE}    status: *i\n",
        b"\xff\xfe\x00a",
        b"title: caf\xe9\n",
        "activities:\n  - &x {id: A1}\n  - *x\n",
        "activities:\n  - {id: A1, tasks: &t [{id: T1}]}\n  - {id: A2, tasks: *t}\n",
        "activities: []\n" + "x" * (9 * 1024 * 1024),
    ],
    ids=range(17),
)
def test_what_cannot_be_read_is_told_and_left_alone(text, queue):
    path = by_hand(queue, text)
    before = path.read_bytes()
    by_hand(queue, ONE, folder="WI-002-fine")
    assert kinds(queue) == [("unreadable", ITEM)]
    listed = {card.task.id: card.held for card in queue.store.page().cards}
    assert set(listed) == {ITEM, "WI-002-A1"}, "it was in no list"
    assert listed[ITEM].startswith("it cannot be read: progress.yaml of WI-001")
    assert queue.store.counts()[State.READY] == 2
    assert [claim.task.id for claim in queue.claim("agent-1", count=9, kind="human")] == ["WI-002-A1"]
    with pytest.raises(Invalid, match=r"progress.yaml of WI-001"):
        put(queue, "more")
    assert sweep(queue) == []
    assert path.read_bytes() == before


LARGE = {
    "a flow list": "z: [" + "1," * 30_000 + "1]\n",
    "short flow lists": "z:\n" + "  - [1, 2, 3]\n" * 8_000,
    "a block list": "z:\n" + "  - x\n" * 30_000,
    "keys": "".join(f"k{number}: x\n" for number in range(30_000)),
    "anchors": "".join(f"k{number}: &a{number} x\n" for number in range(11_000)),
    "aliases": "k: &a x\nz: [" + "*a," * 11_000 + "*a]\n",
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_document_of_too_many_values_is_refused_before_it_is_parsed(kind, queue):
    """Parsing takes 0.1 ms for each value: 200 KB of them took 20 seconds, for each command that looked."""
    by_hand(queue, f"{LARGE[kind]}{ONE}")
    with pytest.raises(Invalid, match=r"values; 20000 is the most"):
        yamltext.load(f"{LARGE[kind]}{ONE}".encode())
    assert [kind for kind, _ in kinds(queue)] == ["unreadable"]


def test_a_long_text_in_a_document_is_no_value(queue):
    text = "a line with words only\n      " * 30_000
    yamltext.load(f"{ONE}    description: |\n      {text}\n".encode())


@pytest.mark.parametrize(
    "text",
    [
        "title: x\n",
        "title: x\nactivities:\n",
        "title: x\nactivities: ~\n",
        "title: x\nactivities: {}\nblockers: ~\npivots:\n",
        "work_item: {title: x, status: ~}\n",
        "title: x\nactivities: [~, word, 3, {title: no id}, {id: B7}, {id: WI-009-A1}]\n",
    ],
)
def test_without_activities_it_stands_for_itself(text, queue):
    path = by_hand(queue, text)
    assert take(queue, ITEM).task.id == FIRST
    assert load(path)["activities"]
    assert status(queue) == "in_progress"


def test_what_is_no_activity_is_told(queue):
    by_hand(queue, f"{ONE}  - title: no id\n  - word\n  - {{id: WI-009-A1}}\n  - {{id: A1, title: again}}\n")
    told = [mend.details for mend in queue.store.check() if mend.kind == "no activity"]
    assert told == ["no id", "word", "WI-009-A1", "A1"]
    assert queue.card(FIRST).task.title == "one", "of two with one id the first is it"
    queue.finish(take(queue), Done())
    assert [one.get("status") for one in load(file_of(queue))["activities"] if isinstance(one, dict)] == [
        "completed",
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("field", "held"),
    [
        ("priority: high", True),
        ("priority: true", True),
        ("attempts: '2'", True),
        ("title: 42", False),
        ("title: ~", False),
        ("title: [a, b]", False),
        ("depends_on: ~", False),
        ("tags: web", False),
        ("created_at: yesterday", False),
        ("created_at: 2026-01-24", False),
        ("updated_at: 2020-01-24 10:00:00", False),
        ("not_before: 17.12.2027", True),
        ("not_before: [x]", True),
        ("not_before: +30m", True),
        ("tasks: none", False),
        ("tasks: [~, word, {title: no id}]", False),
        ("tries: [1, {what: ever}]", False),
        ("status: ~", False),
        ("1: 2", False),
        ("? [a, b]\n    : c", False),
        ("<<: {priority: 3}", False),
    ],
)
def test_odd_values(field, held, queue):
    path = by_hand(queue, f"activities:\n  - id: A1\n    {field}\n")
    card = queue.card(FIRST)
    assert card.held.startswith("it cannot be read") == held
    if not held:
        assert queue.finish(take(queue), Done())[0] is Said.OK
        assert field.partition("\n")[0].strip("? ") in path.read_text() or "status" in field


@pytest.mark.parametrize("field", ["depends_on: [{id: WI-009}]", "not_before: 17.12.2027", "not_before: [x]"])
def test_odd_values_of_a_whole_work_item_hold_it_alone(field, queue):
    by_hand(queue, f"{field}\nactivities:\n  - id: A1\n")
    by_hand(queue, "activities:\n  - id: A1\n", folder="WI-002-fine")
    assert [claim.task.id for claim in queue.claim("agent-1", count=9)] == ["WI-002-A1"]
    assert queue.card(FIRST).held.startswith("WI-001: it cannot be read: WI-001: ")
    assert len(queue.store.page().cards) == 2
    assert [(found.kind, found.what) for found in disorder(queue)] == [("unreadable", "WI-001")]


@pytest.mark.parametrize("result", ["ok", "[1]", "{evidence: {what: ever}, attempt: x, children: abc, cost: 3}", "~"])
def test_odd_results(result, queue):
    by_hand(queue, f"activities:\n  - id: A1\n    status: done\n    completed_by: ann\n    result: {result}\n")
    card = queue.card(FIRST)
    assert (card.state, card.result.worker, card.result.children) == (State.DONE, "ann", ())
    sweep(queue)
    assert pit("-C", queue.store.folder.root, "show", FIRST, "--json").code == 0


def test_lists_by_id_are_added_to_by_id(queue):
    """Nothing that was there makes way for what we write."""
    path = by_hand(
        queue,
        "activities:\n  A1: {tasks: {T1: {title: one}}}\nblockers:\n  B1: {description: old, resolved: true}\n",
    )
    put(queue, "two", parent=FIRST)
    queue.block(FIRST, "ann", "no access")
    document = load(path)
    assert list(document["activities"]["A1"]["tasks"]) == ["T1", f"{FIRST}-T2"]
    assert list(document["blockers"]) == ["B1", "WI-001-B2"]
    queue.unblock(FIRST, "ann")
    assert moves.finish(queue.store.items, f"{FIRST}-T2", "ann", "human") is State.READY


def test_anchors_and_merge_keys_stay(queue):
    text = "common: &c {actor: any, owner: ann}\nactivities:\n  - <<: *c\n    id: A1   # mine\n  - <<: *c\n    id: A2\n"
    path = by_hand(queue, text)
    queue.finish(take(queue), Done())
    after = path.read_text()
    assert "common: &c {actor: any, owner: ann}" in after
    assert after.count("<<: *c") == 2
    assert "# mine" in after
    assert status(queue, FIRST) == "completed"
    assert queue.card("WI-001-A2").state is State.READY


def test_a_folder_without_a_readable_part(queue):
    by_hand(queue, ONE, folder="WI-001")
    assert queue.finish(take(queue), Done(output="it works"))[0] is Said.OK
    assert queue.card(FIRST).result.output == "it works"


def test_two_folders_of_one_id(queue):
    by_hand(queue, ONE, folder="WI-001-b")
    by_hand(queue, ONE.replace("one", "the other"), folder="WI-001-a")
    assert queue.card(FIRST).task.title == "the other"
    assert kinds(queue) == [("folder not used", ITEM)]


def test_a_folder_that_leads_elsewhere_is_not_followed(queue, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "progress.yaml").write_text(ONE)
    os.symlink(outside, f"{queue.store.folder.root}/WI-001-link")
    assert queue.store.page().cards == ()
    assert queue.claim("agent-1") == []


def test_a_folder_with_nothing_in_it(queue):
    (home := by_hand(queue, "x").parent).joinpath("progress.yaml").unlink()
    assert kinds(queue) == [("no progress.yaml", ITEM)]
    with pytest.raises(NotFound):
        queue.card(FIRST)
    queue.put([Task(id=ITEM, title="now there is")])
    assert (home / "progress.yaml").exists()
    assert take(queue, ITEM).task.title == "now there is"
    assert kinds(queue) == []


def test_no_locks_folder_and_no_deliverables(queue):
    path = by_hand(queue, ONE)
    assert os.listdir(path.parent) == ["progress.yaml"]
    claim = take(queue)
    assert lock_of(queue).exists()
    assert queue.finish(claim, Done(output="yes"))[0] is Said.OK
    assert (path.parent / "deliverables" / f"{FIRST}.md").read_text() == "yes"


def test_a_deliverable_of_that_name_is_not_replaced(queue):
    path = by_hand(queue, ONE)
    (path.parent / "deliverables").mkdir()
    (path.parent / "deliverables" / f"{FIRST}.md").write_text("by hand")
    queue.finish(take(queue), Done(output="yes"))
    assert (path.parent / "deliverables" / f"{FIRST}.md").read_text() == "by hand"
    assert queue.card(FIRST).result.output == "yes"
    assert entry(queue)["deliverables"] == [f"deliverables/{FIRST}-2.md"]


def test_an_ended_activity_with_a_strangers_expired_lock(queue, clock):
    """Completed by hand, the lock forgotten: the keeper takes it away once its time is over, and not before."""
    path = by_hand(queue, ONE)
    take(queue, worker="ann", kind="human")
    save(path, f"{ONE}    status: completed\n    completed_by: ben\n")
    assert sweep(queue) == []
    assert lock_of(queue).exists()
    clock.advance(9 * LEASE)
    assert [mend.kind for mend in sweep(queue)] == ["lock left behind"]
    assert not lock_of(queue).exists()


def a_stranger_writes_the_lock(queue, monkeypatch):
    """Between our look at it and what we do about it: strangers take no turns."""
    real = Grip._untouched

    def untouched(grip):
        theirs = lock_of(queue).with_name("theirs")
        theirs.write_bytes(lock_of(queue).read_bytes())
        theirs.replace(lock_of(queue))
        return real(grip)

    monkeypatch.setattr(Grip, "_untouched", untouched)


def test_a_lock_that_a_stranger_writes_meanwhile_ends_no_sweep(queue, clock, monkeypatch):
    path = by_hand(queue, ONE)
    take(queue, worker="ann", kind="human")
    save(path, f"{ONE}    status: completed\n    completed_by: ben\n")
    clock.advance(9 * LEASE)
    a_stranger_writes_the_lock(queue, monkeypatch)
    sweep(queue)
    assert lock_of(queue).exists()


def test_a_lock_that_a_stranger_writes_meanwhile_ends_no_worker(queue, monkeypatch):
    """Its renewal says that the claim is lost; what it has done is done, and the lock is left to them."""
    by_hand(queue, ONE)
    claim = take(queue)
    a_stranger_writes_the_lock(queue, monkeypatch)
    assert queue.renew(claim) is Said.LOST
    assert queue.finish(claim, Done(output="yes"))[0] is Said.OK
    assert queue.card(FIRST).state is State.DONE
    assert lock_of(queue).exists()


def test_an_existing_folder_is_adopted(tmp_path):
    """`pit init` on what people have made by hand changes none of it."""
    root = tmp_path / "project"
    home = root / "WI-007-by-hand"
    home.mkdir(parents=True)
    (home / "progress.yaml").write_text(f"# ours\n{ONE}")
    (root / "README.md").write_text("hello")
    assert pit("init", root, "--layout", "activities").code == 0
    assert (home / "progress.yaml").read_text() == f"# ours\n{ONE}"
    assert os.listdir(home) == ["progress.yaml"]
    assert pit("-C", root, "list", "--json").data[0]["id"] == "WI-007-A1"
    assert pit("-C", root, "add", "next", "--json").data["id"] == "WI-008"
    assert pit("-C", root, "claim", "--as", "ann", "--json").data["task"]["id"] == "WI-007-A1"


def test_numbers_are_not_given_twice(tmp_path):
    queue = make(tmp_path / "queue")
    by_hand(queue, f"{ONE}  - id: WI-001-A7\n")
    assert put(queue, "x") == ["WI-001-A8"]
    document = yamltext.load(file_of(queue).read_bytes())
    del document["activities"][-1]
    save(file_of(queue), yamltext.dump(document).decode())
    assert put(queue, "y") == ["WI-001-A9"], "also not of one that was deleted"
    queue.close()


def test_a_split_of_a_part_stays_in_the_work_item(queue):
    by_hand(queue, ONE)
    for task_id, child in ((FIRST, "WI-001-A2"), ("WI-001-A2", "WI-001-A3"), ("WI-001-A3", "WI-001-A4")):
        _, end = queue.finish(take(queue, task_id), Split(children=(Task(id="", title="part"),)))
        assert [one.id for one in end.children] == [child]
        assert queue.card(child).state is State.READY
    with pytest.raises(Invalid, match="no activity of WI-001"):
        queue.finish(take(queue, "WI-001-A4"), Split(children=(Task(id="WI-009-A1", title="elsewhere"),)))
    assert queue.finish(queue.holding("WI-001-A4", "agent-1"), Release())[0] is Said.OK


HALF = "activities:\n  - id: A1\n    title: one\n    status: pending\n"
REST = "    done_when: 'false'\n  - id: A2\n    title: two\n"


def test_what_is_still_being_written_is_neither_judged_nor_taken_nor_replaced(queue):
    """Half of a file is YAML, too: it was claimed without its check, and the other half was lost by our rename."""
    path = by_hand(queue, "")
    with open(path, "w", encoding="utf-8") as file:
        file.write(HALF)
        file.flush()
        other = make(queue.store.folder.root)
        assert kinds(other) == []
        assert (other.claim("agent-1"), sweep(other)) == ([], [])
        with pytest.raises(Invalid, match="still being written"):
            put(other, "more")
        assert path.read_text() == HALF
        file.write(REST)
    assert [claim.task.check for claim in other.claim("agent-1", count=1)] == ["false"]
    assert [one["id"] for one in load(path)["activities"]] == ["A1", "A2"]
    other.close()


def test_a_claim_whose_file_is_being_saved_waits_for_its_end_and_loses_nothing(queue):
    """Who saves truncates first: what we knew before still holds, and nothing is written over it."""
    path = by_hand(queue, HALF + REST)
    (claim,) = queue.claim("agent-1", count=1)
    text = path.read_text()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text[:40])
        file.flush()
        assert queue.card(claim.task.id).state is State.CLAIMED
        with pytest.raises(Unavailable, match=r"saved again and again|still being written"):
            queue.finish(claim, Done(output="x"))
        assert path.read_text() == text[:40]
        file.write(text[40:])
    assert queue.finish(claim, Done(output="x"))[0] is Said.OK
    assert [one["id"] for one in load(path)["activities"]] == ["A1", "A2"]
