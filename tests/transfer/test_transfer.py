"""Moving queues: any layout into any other, verified, nothing lost, and resumed wherever it was interrupted."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from pathlib import Path

import pytest
from boxes import FAST, LAYOUTS, load, make, make_fast, pit, read, reopened, write
from faults import fail_at, killed_at, record

from taskpit import layouts, transfer
from taskpit.cli.main import main
from taskpit.clock import iso
from taskpit.errors import Conflict, Invalid, Storage
from taskpit.keeper import sweep
from taskpit.model import Card, Done, Event, Evidence, Failed, Said, Split, State, Task, Verdict, Want
from taskpit.queue import Queue
from taskpit.store.memory import MemoryStore
from taskpit.store.postgres.rows import read_result

PAIRS = [(one, other) for one in LAYOUTS for other in LAYOUTS]
HOSTILE = "<!-- taskpit:task -->\n# not it\n\n## Task\n- **verdict:** failed\n\x1b[31m ünï \u2028 \r\n"
#: Each layout has ids of its own, some of which others cannot carry.
IDS = {
    "pit": ["0001", "a_done", "b.pending", "x_inprogress_y", "0005", "0006", "0007", "0008", "9"],
    "mailbox": ["task_1705862400", "a-b_done", "a_b_done", "x_inprogress_y", "e-5", "f", "g", "h.json", "i"],
    "workspace": ["task_001", "a-b", "a_b", "a.b", "e-5", "f", "g", "h.md", "i"],
}
EXTRA = {
    "x_list": [1, None, {"deep": 2.5}],
    "x_text": "plain",
    "x_json": "json looking",
    "x_comment": "with # a comment",
    "x_lines": "two\nlines",
    "x_empty": "",
    "x_bool": True,
    "type": "feature",
    "sequence_number": 4,
    "metadata": {"worktree": "/w", "team": "blue"},
}
#: What one layout calls so is something else, or nothing, in another.
ODD = {
    "pit": {
        "created_at": "yesterday",
        "operator": [5],
        "status": "odd",
        "metadata": "no object",
        "claimed_by": {"a": 1},
    },
    "mailbox": {"task": "x", "created": "yesterday", "Tags": 5, "größe": 1, "a:b": "c", "": 0, "done-when": [1]},
    "workspace": {"created_at": "yesterday", "test_mode": "strict", "verdict": 5, "id": "zzz", "title": "other"},
}


def furnish(queue, layout):
    """A queue with everything there is: states, results, tries, notes, holds, odd fields."""
    ids = IDS[layout]
    put = queue.store.put
    full = {"body": "- **looks:** like a head\n\n# and a heading\n", "tags": ("a b", "c"), "touches": ("src/*.py",)}
    put(
        [
            Task(
                id=ids[0],
                title="full",
                priority=-3,
                check="grep  'a  b' `x`",
                by="ann",
                created=1e9,
                extra=EXTRA,
                **full,
            )
        ]
    )
    put([Task(id=ids[1], title="held", hold="look first", needs=(ids[0], ids[2]), parent=ids[0], extra=ODD[layout])])
    put([Task(id=ids[2], title="later", not_before=4_000_000_000.0, big=True, max_attempts=7, created=5.0)])
    put([Task(id=task_id, title=task_id, by="ann", created=7.0) for task_id in ids[3:]])
    done = Done(
        output=HOSTILE, reason="fine", evidence=Evidence(command="make  test", exit_code=0, seconds=1.5, tail=HOSTILE)
    )
    finish(queue, ids[3], done)
    finish(queue, ids[4], Failed(error="broken\nin two lines", output=HOSTILE, final=True))
    finish(queue, ids[5], Failed(error="once"))
    queue.clock.advance(100)
    finish(queue, ids[5], Failed(error="twice"))
    finish(queue, ids[6], Failed(error="no longer", cancelled=True))
    finish(queue, ids[7], Split(children=(Task(id="", title="child one"), Task(id="", title="child two"))))
    queue.note(ids[0], "mind the gap", "ann")
    queue.note(ids[3], "done well", "bob")


def finish(queue, task_id, outcome):
    (claim,) = queue.claim("worker", ids=(task_id,))
    assert queue.finish(claim, outcome)[0] is Said.OK


def with_a_past(tmp_path, clock):
    """A queue of two tasks, one of which is done at its second attempt."""
    queue = make(tmp_path / "a", "workspace", clock)
    queue.store.put([Task(id="task_001", title="one"), Task(id="task_002", title="two")])
    finish(queue, "task_001", Failed(error="once", kind="infra"))
    clock.advance(10_000)
    finish(queue, "task_001", Done(output="done"))
    return queue


def move(source, target, step=lambda _: None):
    """What `convert` does."""
    kind = layouts.get(target.store.info().layout)
    cargo = transfer.cargo_of(source.store)
    moved = transfer.copy(cargo, target.store, kind.check_id, step=step)
    assert transfer.verify(cargo, target.store, kind.check_id) == []
    return moved


def picture(queue, new_ids=None):
    """Everything about every task, in the words of no layout."""
    new_ids = new_ids or {}
    shown = {}
    for card in transfer.cards_of(queue.store):
        task, result = card.task, card.result
        shown[new_ids.get(task.id, task.id)] = {
            "state": card.state,
            "task": task.replace(
                id="",
                source=b"",
                updated=0.0,
                slug="",
                max_attempts=task.max_attempts or 3,
                body=task.body.strip(),
                created=float(int(task.created)),
                not_before=float(int(task.not_before)),
                needs=tuple(new_ids.get(need, need) for need in task.needs),
                parent=new_ids.get(task.parent, task.parent),
                extra={key: value for key, value in task.extra.items() if key != "original-id"},
            ),
            "result": result
            and result.replace(
                id="", finished=float(int(result.finished)), children=tuple(new_ids.get(c, c) for c in result.children)
            ),
            "tries": [one.replace(at=float(int(one.at))) for one in card.tries],
            "notes": [text for text in ("mind the gap", "done well") if text in card.notes],
        }
    return shown


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=str)
def test_any_layout_to_any_other(one, other, tmp_path, clock):
    source, target = make(tmp_path / "a", one, clock), make(tmp_path / "b", other, clock)
    furnish(source, one)
    moved = move(source, target)
    new_ids = dict(moved.mapped)
    assert picture(target) == picture(source, new_ids)
    assert moved.tasks == 11
    assert target.store.check() == []
    assert {card.task.extra.get("original-id") for card in transfer.cards_of(target.store)} - {None} == set(new_ids)
    told = [event.action for event in transfer.events_of(source.store)]
    assert [event.action for event in transfer.events_of(target.store)][-len(told) - 1 : -1] == told
    source.close()
    target.close()


@pytest.mark.parametrize("other", ["mailbox", "workspace"])
def test_there_and_back_again_it_is_what_it_was(other, tmp_path, clock):
    source, far, back = (
        make(tmp_path / name, kind, clock) for name, kind in (("a", "pit"), ("b", other), ("c", "pit"))
    )
    furnish(source, "pit")
    move(source, far)
    new_ids = dict(move(far, back).mapped)
    ours = picture(source, {card.task.extra.get("original-id"): card.task.id for card in transfer.cards_of(far.store)})
    assert picture(far, new_ids).keys() == picture(back).keys()
    assert len(ours) == len(picture(back))
    by_title = {card.task.title: card for card in transfer.cards_of(back.store)}
    for card in transfer.cards_of(source.store):
        assert by_title[card.task.title].task.slug == card.task.slug
        assert by_title[card.task.title].state is card.state
    for queue in (source, far, back):
        queue.close()


def test_ids_are_mapped_the_same_way_every_time():
    check = layouts.get("pit").check_id
    mapped = transfer.map_ids(["a-b", "a_b", "a+b", "ok"], check)
    assert mapped["ok"] == "ok"
    assert mapped["a_b"] == "a_b"
    assert len(set(mapped.values())) == 4
    assert transfer.map_ids(["a+b", "ok", "a-b", "a_b"], check) == mapped


@pytest.mark.parametrize(("one", "other"), [("pit", "workspace"), ("workspace", "mailbox"), ("mailbox", "pit")])
def test_interrupted_after_every_task_and_resumed(one, other, tmp_path, clock):
    source, target = make(tmp_path / "a", one, clock), make(tmp_path / "b", other, clock)
    furnish(source, one)

    class Interrupted(Exception):
        pass

    for number in range(1, 12):

        def step(count, number=number):
            if count == number:
                raise Interrupted

        with pytest.raises(Interrupted):
            move(source, target, step)
    new_ids = dict(move(source, target).mapped)
    assert picture(target) == picture(source, new_ids)
    told = [event.action for event in transfer.events_of(target.store)]
    assert told.count("transferred_events") == 1
    assert move(source, target).already == 11
    assert [event.action for event in transfer.events_of(target.store)] == told, "no line comes twice"
    source.close()
    target.close()


@pytest.mark.parametrize("other", LAYOUTS)
def test_killed_at_any_call_and_resumed(other, tmp_path, clock):
    """Also between taking a task in the new place and giving it its result."""
    source = with_a_past(tmp_path, clock)
    source.note("task_002", "mind the gap", "ann")
    wanted = picture(source)
    whole = make(tmp_path / "whole", other, clock)
    with record() as calls:
        move(source, whole)
    whole.close()
    assert len(calls) > 100
    for number in range(1, len(calls) + 1, 1 if os.environ.get("TASKPIT_LONG") else 9):
        root = str(tmp_path / str(number))
        target = make(root, other, clock)
        with killed_at(number):
            move(source, target)
        target.close()
        target = reopened(root, other, clock)
        new_ids = dict(move(source, target).mapped)
        assert picture(target) == {new_ids.get(key, key): value for key, value in wanted.items()}, calls[number - 1]
        sweep(target)
        sweep(target)  # by this clock every leftover is old, and one kind is cleared up in two steps
        assert target.store.check() == [], calls[number - 1]
        target.close()
        shutil.rmtree(root)
    source.close()


@pytest.mark.parametrize("other", LAYOUTS)
def test_any_call_is_refused_and_the_same_process_tries_again(other, tmp_path, clock):
    """With too many files open it says so, and the next try brings everything once, although nothing is opened anew."""
    source = with_a_past(tmp_path, clock)
    wanted = picture(source)
    whole = make(tmp_path / "whole", other, clock)
    with record() as calls:
        move(source, whole)
    whole.close()
    for number in range(1, len(calls) + 1, 1 if os.environ.get("TASKPIT_LONG") else 19):
        root = str(tmp_path / str(number))
        target = make(root, other, clock)
        with fail_at(number, errno.EMFILE), contextlib.suppress(Storage):
            move(source, target)
        new_ids = dict(move(source, target).mapped)
        assert picture(target) == {new_ids.get(key, key): value for key, value in wanted.items()}, calls[number - 1]
        sweep(target)
        sweep(target)
        assert target.store.check() == [], calls[number - 1]
        target.close()
        shutil.rmtree(root)
    source.close()


@pytest.mark.parametrize("other", LAYOUTS)
@pytest.mark.parametrize("how", ["convert", "export"])
def test_what_nobody_can_read_is_held_there_and_told(how, other, tmp_path):
    """It was a ready task without a text there, "compared", and a worker took it."""
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    assert pit("init", old).code == 0
    for title in ("done", "held by a worker", "large", "fine"):
        assert pit("-C", old, "add", title).code == 0
    for number in ("1", "2"):
        assert pit("-C", old, "claim", number, "--as", "w").code == 0
    assert pit("-C", old, "done", "1", "--as", "w").code == 0
    for result in (*Path(old, "done").glob("*0001*"), Path(old, ".taskpit/outcomes/0001~done")):
        result.unlink()
        result.mkdir()
    (claimed,) = Path(old, "claimed").glob("*0002*")
    claimed.write_bytes(b"\xff\xfe")
    (large,) = Path(old, "food").glob("*0003*")
    large.write_bytes(b"#" * 3_000_000)
    os.utime(large, (1, 1))  # nobody writes it any more
    if how == "convert":
        answer = pit("-C", old, "convert", new, "--layout", other, "--release")
    else:
        answer = pit("-C", old, "export", "-o", f"{new}.jsonl")
        assert pit("init", new, "--layout", other).code == 0
        again = pit("-C", new, "import", f"{new}.jsonl")
        assert again.code == 0, again.err
        assert "0003 is held there: it cannot be read: it is too large" in again.out
    assert answer.code == 0, answer.err
    assert "the result of 0001 cannot be read, and is not carried: " in answer.err
    assert "0002 cannot be read, and only its name is carried: " in answer.err
    assert "0003 cannot be read, and only its name is carried: it is too large" in answer.err
    assert "0004" not in answer.err
    queue = Queue.open(new)
    assert [claim.task.title for claim in queue.claim("w", count=9)] == ["fine"]
    queue.close()


@pytest.mark.parametrize(
    "words", [("convert", "new", "--layout", "pit"), ("export", "-o", "new")], ids=lambda it: it[0]
)
def test_a_work_item_that_nobody_can_read_is_told(words, tmp_path):
    """It was left out without a word."""
    old = str(tmp_path / "old")
    assert pit("init", old, "--layout", "activities").code == 0
    for title in ("one", "two"):
        assert pit("-C", old, "add", title).code == 0
    (Path(old) / "WI-001-one" / "progress.yaml").write_text("\t: [\n")
    answer = pit("-C", old, *(str(tmp_path / word) if word == "new" else word for word in words))
    assert answer.code == 0, answer.err
    assert "WI-001 cannot be read, and nothing of it is carried: " in answer.err
    assert "WI-002" not in answer.err


def test_a_row_of_a_database_that_is_no_result_is_told():
    card = Card(task=Task(id="0001", title="one"), state=State.DONE, result=read_result("[]", "0001", "done"))
    assert transfer.unread(card).startswith("the result of 0001 cannot be read, and is not carried: ")


@pytest.mark.parametrize("other", LAYOUTS)
def test_killed_while_a_result_is_published_it_is_held_or_has_its_own_text(other, tmp_path, clock):
    source = make(tmp_path / "a", "workspace", clock)
    source.store.put([Task(id="task_001", title="one")])
    finish(source, "task_001", Done(output="done"))
    (card,) = (card.replace(task=card.task.replace(source=b"")) for card in transfer.cards_of(source.store))
    whole = make(tmp_path / "whole", other, clock)
    with record() as calls:
        transfer.place(card, whole.store)
    whole.close()
    sealed = next(number for number, call in enumerate(calls, 1) if "sealed" in str(call))
    for number in range(sealed, len(calls) + 1):
        root = str(tmp_path / str(number))
        target = make(root, other, clock)
        with killed_at(number):
            transfer.place(card, target.store)
        target.close()
        target = reopened(root, other, clock)
        assert target.claim("eager") == [], calls[number - 1]
        there = target.card("task_001")
        assert there.state is not State.DONE or there.task.hold == "", calls[number - 1]
        transfer.place(card, target.store)
        cargo = transfer.Cargo(cards=(card,))
        assert transfer.verify(cargo, target.store, layouts.get(other).check_id) == [], calls[number - 1]
        target.close()
    source.close()


class Contested:
    """A store at which a worker that waits there claims after every call; what it got."""

    def __init__(self, store):
        self.store, self.taken = store, []

    def __getattr__(self, name):
        verb = getattr(self.store, name)

        def call(*given, **named):
            said = verb(*given, **named)
            self.taken += [claim.task.id for claim in self.store.claim(Want(worker="eager", lease=60, count=99))]
            return said

        return call


@pytest.mark.parametrize("other", [*LAYOUTS, "memory"])
def test_what_has_a_past_is_handed_to_nobody_while_it_is_brought_in(other, tmp_path, clock):
    source = make(tmp_path / "a", "workspace", clock)
    source.store.put([Task(id=f"task_00{number}", title=f"{number}") for number in range(1, 5)])
    finish(source, "task_001", Done(output="done"))
    finish(source, "task_002", Failed(error="broken", final=True))
    for error in ("once", "twice"):
        finish(source, "task_003", Failed(error=error, kind="infra"))
        clock.advance(10_000)
    source.block("task_004", "ann", "look first")
    store = MemoryStore(clock) if other == "memory" else make(tmp_path / "b", other, clock).store
    contested = Contested(store)
    cards = [card for card in transfer.cards_of(source.store) if card.task.id != "task_003"]
    (tried,) = source.store.read(["task_003"])
    assert len(tried.tries) == 2
    check = layouts.get("pit").check_id
    transfer.copy(transfer.Cargo(cards=tuple(cards), layout="workspace"), contested, check)
    assert contested.taken == []
    transfer.copy(transfer.Cargo(cards=(tried,), layout="workspace"), contested, check)
    assert contested.taken == ["task_003"]  # once it had all its tries
    assert transfer.verify(transfer.Cargo(cards=(*cards, tried)), store, check) == []
    assert [card.task.hold for card in store.read(["task_001", "task_002", "task_003", "task_004"])] == [
        *("", "", "", "look first")
    ]
    assert store.put([card.task.replace(source=b"") for card in [*cards, tried]]) == [Said.EXISTS] * 4
    store.close()
    source.close()


def test_what_has_a_past_waits_where_bringing_it_in_was_interrupted(tmp_path, clock):
    source, target = make(tmp_path / "a", "pit", clock), make(tmp_path / "b", "pit", clock)
    source.store.put([Task(id="0001", title="one", hold="")])
    finish(source, "0001", Done(output="done"))
    (card,) = transfer.cards_of(source.store)
    target.store.put([card.task.arriving()])  # and here it was killed
    assert target.claim("eager") == []
    assert "repeat it" in target.card("0001").held
    move(source, target)
    assert (target.card("0001").state, target.card("0001").task.hold) == (State.DONE, "")
    source.close()
    target.close()


@pytest.mark.parametrize("other", [*LAYOUTS, "memory"])
def test_another_changelog_of_the_same_length_comes_too_and_none_twice(other, tmp_path, clock):
    store = MemoryStore(clock) if other == "memory" else make(tmp_path / "b", other, clock).store
    odd = {"seconds": 3, "sha": "abc"}
    for name in ("one", "two", "one"):
        events = [
            Event(
                timestamp=iso(1e9 + at), worker=name, worker_type="agent", action="claimed_task", task_id="x", extra=odd
            )
            for at in range(3)
        ]
        transfer.copy(transfer.Cargo(events=tuple(events), layout="pit"), store, layouts.get("pit").check_id)
    told = [event.worker for event in transfer.events_of(store)]
    assert told == [*["one"] * 3, "transfer", *["two"] * 3, "transfer"]
    store.close()


@pytest.mark.parametrize("seconds", [0.0, 500.0])
def test_a_new_queue_is_paused_as_the_old_one_is(seconds, tmp_path, clock):
    source, target = make(tmp_path / "a", "pit", clock), make(tmp_path / "b", "mailbox", clock)
    source.store.put([Task(id="x", title="x")])
    source.store.pause("lunch: soup", seconds, "ann")
    assert move(source, target).left == ()
    assert target.store.paused().partition(", until")[0] == "paused by ann: lunch: soup"
    assert ("until" in target.store.paused()) == bool(seconds)
    target.store.resume("ann")
    assert move(source, target).left == (f"the queue was {source.store.paused()}; here, tasks are given out",)
    assert target.claim("worker"), "what a person has resumed stays so"
    for queue in (source, target):
        queue.close()


def test_what_is_there_with_other_content_is_not_overwritten(tmp_path, clock):
    source, target = make(tmp_path / "a", "pit", clock), make(tmp_path / "b", "mailbox", clock)
    source.store.put([Task(id="0001", title="mine")])
    target.store.put([Task(id="0001", title="theirs")])
    with pytest.raises(Conflict, match="0001"):
        move(source, target)
    assert target.card("0001").task.title == "theirs"
    source.close()
    target.close()


def test_verify_tells_what_is_not_the_same(tmp_path, clock):
    source, target = make(tmp_path / "a", "pit", clock), make(tmp_path / "b", "mailbox", clock)
    source.store.put([Task(id="0001", title="one"), Task(id="0002", title="two")])
    finish(source, "0001", Done(output="yes"))
    cargo = transfer.cargo_of(source.store)
    check = layouts.get("mailbox").check_id
    assert len(transfer.verify(cargo, target.store, check)) == 2
    move(source, target)
    target.edit("0002", "ann", lambda task: task.replace(priority=5))
    assert transfer.verify(cargo, target.store, check) == ["0002: priority differs"]
    source.close()
    target.close()


# -- as JSON lines ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=str)
def test_exported_and_imported(one, other, tmp_path, clock):
    source, target = make(tmp_path / "a", one, clock), make(tmp_path / "b", other, clock)
    furnish(source, one)
    lines = list(transfer.dump(source.store))
    assert all(json.loads(line) for line in lines)
    cargo = transfer.load(lines)
    assert cargo.layout == one
    check = layouts.get(other).check_id
    moved = transfer.copy(cargo, target.store, check)
    assert transfer.verify(cargo, target.store, check) == []
    assert picture(target) == picture(source, dict(moved.mapped))
    source.close()
    target.close()


def test_the_lines_are_for_reading(tmp_path, clock):
    source = make(tmp_path / "a", "mailbox", clock)
    source.store.put([Task(id="x", title="grüße", created=1e9, not_before=4e9)])
    finish_line = Done(output="yes")
    source.edit("x", "ann", lambda task: task.replace(not_before=0.0))
    finish(source, "x", finish_line)
    head, task, *events = [json.loads(line) for line in transfer.dump(source.store)]
    assert head == {"kind": "queue", "schema": 1, "layout": "mailbox"}
    assert (task["kind"], task["state"], task["task"]["title"]) == ("task", "done", "grüße")
    assert task["task"]["created"] == iso(1e9)
    assert (task["result"]["verdict"], task["result"]["output"]) == ("done", "yes")
    assert {event["kind"] for event in events} == {"event"}
    source.close()


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "5",
        "{}",
        '{"kind": "task"}',
        '{"kind": "task", "task": {"id": "x"}, "state": "ready"}',
        '{"kind": "task", "task": {"id": "x", "title": "t"}, "state": "odd"}',
        '{"kind": "task", "task": {"id": "x", "title": "t", "what": 1}, "state": "ready"}',
        '{"kind": "task", "task": {"id": "x", "title": "t", "created": "soon"}, "state": "ready"}',
        '{"kind": "event", "what": 1}',
        '{"kind": "work_item", "id": "WI-001-A1", "document": {}}',
        '{"kind": "work_item", "id": "WI-001", "document": {"blockers": 5}}',
        '{"kind": "work_item", "id": "WI-001", "document": {"activities": [{"id": "A1"}]}}',
        '{"kind": "queue", "schema": 99, "layout": "pit"}',
    ],
)
def test_a_bad_line_is_named(line):
    with pytest.raises(Invalid, match="line 2"):
        transfer.load(["", line])


def test_kinds_of_lines_from_later_are_left_alone():
    assert transfer.load(['{"kind": "from the future", "x": 1}']) == transfer.Cargo()


# -- from the shell --------------------------------------------------------------------------------


def furnished(root, layout):
    queue = make(root, layout, config=FAST)
    furnish(queue, layout) if layout != "pit" else furnish_with_time(queue)
    queue.close()
    return str(root)


def furnish_with_time(queue):
    queue.store.put([Task(id="0001", title="one", tags=("a",)), Task(id="0002", title="two", needs=("0001",))])
    finish(queue, "0001", Done(output=HOSTILE))
    queue.note("0002", "mind the gap", "ann")


@pytest.mark.parametrize(("one", "other"), [("pit", "mailbox"), ("pit", "workspace")])
def test_pit_convert(one, other, tmp_path):
    source = furnished(tmp_path / "a", one)
    for already in (0, 2):
        answer = pit("-C", source, "convert", tmp_path / "b", "--layout", other, "--json")
        assert answer.code == 0, answer.out
        assert (answer.data["tasks"], answer.data["already"]) == (2, already)
    shown = pit("-C", tmp_path / "b", "show", "0001", "--json").data
    assert shown["result"]["output"] == HOSTILE
    assert pit("-C", tmp_path / "b", "claim", "--json").data["task"]["id"] == "0002"


def test_pit_convert_into_itself_is_refused(tmp_path):
    source = furnished(tmp_path / "a", "pit")
    assert pit("-C", source, "convert", source, "--layout", "mailbox").code == 6


def test_pit_convert_does_not_take_work_from_anybody(tmp_path):
    source = furnished(tmp_path / "a", "pit")
    assert pit("-C", source, "claim").code == 0
    answer = pit("-C", source, "convert", tmp_path / "b", "--layout", "mailbox", "--json")
    assert (answer.code, "0002" in answer.error["message"]) == (4, True)
    assert not (tmp_path / "b").exists()
    answer = pit("-C", source, "convert", tmp_path / "b", "--layout", "mailbox", "--release", "--json")
    assert (answer.code, answer.data["released"]) == (0, ["0002"])


def test_pit_export_and_import(tmp_path):
    source = furnished(tmp_path / "a", "pit")
    lines = pit("-C", source, "export")
    assert lines.code == 0
    write(tmp_path / "queue.jsonl", lines.out)
    target = make_fast(tmp_path / "b", "workspace")
    for already in (0, 2):
        answer = pit("-C", target, "import", tmp_path / "queue.jsonl", "--json")
        assert answer.code == 0, answer.out
        assert (answer.data["tasks"], answer.data["already"]) == (2, already)
    assert pit("-C", target, "show", "0001", "--json").data["result"]["output"] == HOSTILE
    assert "mind the gap" in pit("-C", target, "show", "0002").out


def test_pit_export_to_a_file_never_replaces_one(tmp_path):
    source = furnished(tmp_path / "a", "pit")
    assert pit("-C", source, "export", "-o", tmp_path / "x").code == 0
    assert read(tmp_path / "x") == pit("-C", source, "export").out
    assert pit("-C", source, "export", "-o", tmp_path / "x").code == 6


def test_a_mixed_list_of_files_is_imported_as_ever(tmp_path):
    target = make_fast(tmp_path / "b", "pit")
    write(tmp_path / "tasks.jsonl", '{"id": "a", "title": "one"}\n{"id": "b", "title": "two", "kind": "bug"}\n')
    (tmp_path / "notes").mkdir()
    write(tmp_path / "notes" / "one.md", "# a third\n")
    answer = pit("-C", target, "import", tmp_path / "tasks.jsonl", tmp_path / "notes", "--json")
    assert (answer.code, len(answer.data["created"])) == (0, 3)


# -- adopting what is there ------------------------------------------------------------------------

TREES = {
    "pit": ("food", "claimed", "done", "scraps", "waste"),
    "mailbox": ("inbox", "processing", "outbox", "failed", ".tmp"),
    "workspace": ("tasks", "agents", "outputs"),
}
READY = {
    "pit": ("food/food-0007-reverse-string.md", "# food-0007-reverse-string\n- **task:** reverse\n"),
    "mailbox": ("inbox/task_7.json", '{"id": "task_7", "title": "reverse"}'),
    "workspace": ("tasks/task_007_pending.md", "# reverse\n"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_init_adopts_a_originals_bare_tree(layout, tmp_path):
    root = tmp_path / "queue"
    for name in TREES[layout]:
        (root / name).mkdir(parents=True)
    path, text = READY[layout]
    write(root / path, text)
    assert pit("-C", root, "list").code in (5, 8)
    assert pit("init", root).code == 0
    assert read(root / ".taskpit" / "layout") == f"{layout}\n"
    assert [task["title"] for task in pit("-C", root, "list", "--json").data] == ["reverse"]
    assert pit("-C", root, "claim", "--json").data["task"]["title"] == "reverse"
    assert pit("-C", root, "add", "another").code == 0


def test_init_without_a_sign_makes_a_pit(tmp_path):
    (tmp_path / "queue").mkdir()
    assert pit("init", tmp_path / "queue").code == 0
    assert (tmp_path / "queue" / "food").is_dir()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_init_of_another_layout_over_a_queue_is_refused(layout, tmp_path):
    root = make_fast(tmp_path / "queue", layout)
    other = next(name for name in LAYOUTS if name != layout)
    assert pit("init", root, "--layout", other).code == 6
    assert pit("init", root, "--layout", layout).code == 0


def test_results_and_claims_of_an_adopted_mailbox(tmp_path):
    """Whatever state it is in when we come."""
    root = tmp_path / "box"
    for name in TREES["mailbox"]:
        (root / name).mkdir(parents=True)
    write(root / "inbox" / "a.json", '{"id": "a", "title": "a", "metadata": {"dependencies": ["c"]}}')
    write(root / "processing" / "b.json", '{"id": "b", "title": "b", "status": "claimed", "claimed_by": "go"}')
    write(root / "outbox" / "c_result.json", '{"task_id": "c", "status": "completed", "output": "yes"}')
    write(root / "failed" / "d_error.json", '{"task_id": "d", "status": "failed", "error": "no"}')
    assert pit("init", root).code == 0
    states = {task["id"]: task["state"] for task in pit("-C", root, "list", "--state", "all", "--json").data}
    assert states == {"a": "ready", "b": "claimed", "c": "done", "d": "failed"}
    assert pit("-C", root, "claim", "--json").data["task"]["id"] == "a"
    assert load(root / "processing" / "b.json")["claimed_by"] == "go"
    queue = reopened(root, "mailbox")
    assert (queue.card("c").result.verdict, queue.card("d").result.reason) == (Verdict.DONE, "no")
    assert queue.card("b").state is State.CLAIMED
    queue.close()


def test_a_queue_brought_back_into_itself_is_as_it_was(tmp_path, capsys):
    root = str(tmp_path / "pit")
    assert main(["init", root, "--layout", "pit"]) == 0
    for title in ("one", "two"):
        assert main(["-C", root, "add", title]) == 0
    assert main(["-C", root, "claim", "1", "--as", "ann"]) == 0
    assert main(["-C", root, "export", "-o", str(tmp_path / "all.jsonl")]) == 0
    before = Path(root, ".taskpit", "changelog.log").read_bytes()
    for _ in range(2):
        assert main(["-C", root, "import", str(tmp_path / "all.jsonl")]) == 0
    assert Path(root, ".taskpit", "changelog.log").read_bytes() == before


def test_a_layout_that_does_not_exist_is_told_before_anything_else(tmp_path, capsys):
    root = str(tmp_path / "pit")
    main(["init", root, "--layout", "pit"])
    assert main(["-C", root, "convert", str(tmp_path / "new"), "--layout", "nope"]) == 6
    assert "there is no layout 'nope'" in capsys.readouterr().err
    assert not Path(tmp_path, "new").exists()
