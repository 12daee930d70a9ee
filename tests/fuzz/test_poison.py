"""One file must not spoil it for the others: needs that lead nowhere, chains without end, marks that editors leave."""

from __future__ import annotations

import json
import os

import pytest
from boxes import make_fast, pit, reopened
from monsters import Late, patience

from taskpit.errors import Invalid
from taskpit.layouts import Spot, get
from taskpit.model import State, Task
from taskpit.rules import tangled
from taskpit.store import cards as look
from taskpit.store import claim as claims

NEEDS = ["a\0b", "x" * 300, "x" * 100_000, "../../../../../etc/passwd", "../layout", "\ud800", "a/b", "-", "\x1b[2J"]
LOOKING = ("ready", "list", "status", "stats", "sweep", "doctor", "why bad", "show bad", "export", "doctor --fix")
DEEP = 10_000 if os.environ.get("TASKPIT_LONG") else 1200


def poisoned(tmp_path, need):
    """A mailbox with a good task, and before it one whose needs are nobody's."""
    root = make_fast(tmp_path / "queue", "mailbox")
    assert pit("-C", root, "add", "good").code == 0
    fields = {"id": "bad", "title": "bad", "priority": 9, "parent_id": need, "metadata": {"dependencies": [need]}}
    path = f"{root}/inbox/bad.json"
    with open(path, "w", encoding="ascii") as file:
        json.dump(fields, file)
    os.utime(path, (1, 1))
    return root


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: ascii(need)[:20])
def test_a_need_that_can_be_nobodys_holds_only_its_own_task(need, tmp_path):
    root = poisoned(tmp_path, need)
    for words in LOOKING:
        answer = pit("-C", root, *words.split())
        assert answer.code in (0, 1), (words, answer.err)
        assert "unexpected" not in answer.err, (words, answer.err)
    assert pit("-C", root, "claim", "--json").data["task"]["title"] == "good"
    assert pit("-C", root, "claim", "bad").code == 3
    assert "does not exist" in pit("-C", root, "why", "bad").out


def test_looking_for_any_name_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "is_word", lambda _: True)
    root = poisoned(tmp_path, "x" * 300)
    assert pit("-C", root, "claim").code == 6  # refused where an id becomes a path


@pytest.mark.parametrize("name", ["../layout", "..", "a/../../..", "../../../../etc/passwd", "x" * 300])
@pytest.mark.parametrize("verb", ["show", "why", "claim", "renew", "done", "release", "cancel", "note {} x"])
def test_a_name_that_leads_elsewhere_is_no_task(name, verb, tmp_path):
    root = make_fast(tmp_path / "queue", "pit")
    assert pit("-C", root, *(f"{verb} {{}}" if "{}" not in verb else verb).format(name).split()).code in (5, 6)


def chain(tmp_path, length):
    """Tasks made by hand, each of which needs the one before; the first is free."""
    root = make_fast(tmp_path / "queue", "pit")
    for number in range(1, length + 1):
        with open(f"{root}/food/food-{number:05d}-x.md", "w", encoding="ascii") as file:
            file.write(f"- **task:** x\n- **needs:** {number - 1:05d}\n" if number > 1 else "- **task:** x\n")
    return reopened(root, "pit")


def test_thousands_deep(tmp_path):
    queue = chain(tmp_path, DEEP)
    with patience(60):
        assert queue.card(f"{DEEP:05d}").held == f"needs {DEEP - 1:05d}, which is not done yet"
        cards = queue.store.page(limit=2 * DEEP).cards
        assert [card.task.id for card in cards if not card.held] == ["00001"]
        assert len(cards) == DEEP
        assert [claim.task.id for claim in queue.claim("snake", count=9)] == ["00001"]
        assert "in two places" not in {found.kind for found in queue.store.check()}
    queue.close()


@pytest.mark.skipif(not os.environ.get("TASKPIT_LONG"), reason="runs until the clock stops it: TASKPIT_LONG=1")
def test_looking_for_each_need_anew_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(look._Ready, "state_of", lambda self, task_id: self._store.state_of(task_id))
    queue = chain(tmp_path, DEEP)
    with pytest.raises(Late), patience(10):
        queue.store.page(limit=2 * DEEP)
    queue.close()


def test_only_circles_and_what_waits_for_them_are_tangled():
    def tasks(**needs):
        return {key: Task(id=key, title="x", needs=tuple(said)) for key, said in needs.items()}

    assert tangled(tasks(a="", b="a", c="b", d="elsewhere")) == {}
    assert set(tangled(tasks(a="b", b="a", c="a", d="", e="d"))) == {"a", "b", "c"}
    assert set(tangled(tasks(a="a", b=""))) == {"a"}
    deep = {str(n): Task(id=str(n), title="x", needs=(str(n - 1),)) for n in range(DEEP)}
    assert tangled(deep) == {}
    assert len(tangled({**deep, "-1": Task(id="-1", title="x", needs=(str(DEEP - 1),))})) == DEEP + 1


@pytest.mark.parametrize("layout", ["pit", "workspace"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte order mark"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_what_editors_leave_hides_no_bullet(layout, mark, end, tmp_path):
    """A mark before the first letter made the whole head a text: nobody checked, nobody waited."""
    lines = ["# title", "- **priority:** 5", "- **needs:** 0002", "- **done-when:** `make test`", "", "body", ""]
    data = (mark + end.join(lines)).encode()
    spot = Spot(state=State.READY, id="0001", slug="x" if layout == "pit" else "", path="x")
    task = get(layout).load(spot, data)
    assert (task.title, task.priority, task.needs, task.check) == ("title", 5, ("0002",), "make test")
    assert get(layout).dump(task) == data
    changed = get(layout).dump(task.replace(priority=6))
    assert changed.startswith(mark.encode() + b"# title")
    assert get(layout).load(spot, changed).priority == 6


def test_a_mark_before_json_is_no_matter():
    fields = get("mailbox").load(Spot(state=State.READY, id="a"), b'\xef\xbb\xbf{"title": "x"}\r\n')
    assert fields.title == "x"


@pytest.mark.parametrize("depth", [90, 100_000])
def test_nesting_is_read_up_to_a_depth_and_refused_beyond(depth):
    data = b'{"title": "x", "k": ' + b"[" * depth + b"]" * depth + b"}"
    spot = Spot(state=State.READY, id="a")
    if depth < 100:
        task = get("mailbox").load(spot, data)
        assert get("mailbox").load(spot, get("mailbox").dump(task.replace(priority=1))).extra["k"] == task.extra["k"]
    else:
        with pytest.raises(Invalid):
            get("mailbox").load(spot, data)
