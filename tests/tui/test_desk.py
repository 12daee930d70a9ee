"""What the board knows of a real folder: logs that grow, ids that can be; and what it makes of what agents print."""

from __future__ import annotations

import json
import os

import pytest
from pits import make, task

from taskpit.errors import Invalid
from taskpit.task import Done, Task
from taskpit.testing import FakeClock
from taskpit.tui.desk import END, Desk, Tail
from taskpit.worker.place import place_for
from taskpit.worker.spoken import readable


@pytest.fixture
def folder(tmp_path):
    made = make(str(tmp_path / "pit"), FakeClock())
    yield made
    made.close()


def test_a_log_is_followed_line_by_line(tmp_path):
    path = tmp_path / "log"
    tail = Tail(str(path))
    assert tail.more() == []
    path.write_bytes(b"one\ntwo\nthr")
    assert tail.more() == ["one", "two"]
    assert tail.more() == []
    with path.open("ab") as file:
        file.write(b"ee\n\xff\x1b[31mfour\n")
    assert tail.more() == ["three", "\ufffdfour"]
    path.write_bytes(b"anew\n")
    assert tail.more() == ["anew"]


def test_of_a_long_log_the_end_is_read(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"x" * 99 + b"\n" + b"y" * 99 + b"\n" * (END // 50))
    with path.open("ab") as file:
        file.write(b"last\n")
    lines = Tail(str(path)).more()
    assert lines[-1] == "last"
    assert sum(map(len, lines)) <= END


def test_the_log_of_a_claim_is_what_its_worker_prints_and_then_what_was_kept(folder):
    desk = Desk(folder, "me")
    folder.put([task(1)])
    (claim,) = folder.claim("snake-1")
    assert desk.log_of(desk.card("0001")) == ""
    place = place_for(folder.store, claim)
    place.make()
    with open(place.log, "w", encoding="utf-8") as file:
        file.write("working\n")
    assert Tail(desk.log_of(desk.card("0001"))).more() == ["working"]
    with open(place.events, "w", encoding="utf-8") as file:
        file.write('{"type": "text", "text": "hello"}\n')
    assert Tail(desk.log_of(desk.card("0001"))).more() == ["text          hello"]
    kept = folder.store.keep_log("snake-1", b"all of it\n")
    folder.finish(claim, Done(log=kept))
    path = desk.log_of(desk.card("0001"))
    assert os.path.isabs(path)
    assert Tail(path).more() == ["all of it"]


def test_the_log_of_the_running_agent_is_live(folder, drive):
    folder.put([task(1)])
    (claim,) = folder.claim("snake-1")
    place = place_for(folder.store, claim)
    place.make()
    with open(place.log, "w", encoding="utf-8") as file:
        file.write("first line\n")

    def write_more():
        with open(place.log, "a", encoding="utf-8") as file:
            file.write("second line\n")

    async def look(board):
        await board.press("3", "l")
        assert "first line" in board.text
        write_more()
        await board.follow()
        assert "second line" in board.text
        assert board.text.count("first line") == 1

    drive(folder, look)


def test_a_need_must_be_a_name_of_this_queue(folder):
    with pytest.raises(Invalid):
        Desk(folder, "me").add(Task(id="", title="x", needs=("../up",)))
    assert not folder.store.page().cards


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        ({"type": "assistant", "message": {"content": [{"type": "text", "text": "I read.\nThen write."}]}}, 2),
        ({"type": "tool_use", "name": "Bash", "input": {"command": "make test"}}, 1),
        ({"type": "turn.completed", "usage": {"input_tokens": 3}}, 1),
        ({"type": "item", "item": {"text": "line\n" * 40}}, 7),
        ({"type": "evil", "text": "\x1b[2Jx\u202ey\x07"}, 1),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else None,
)
def test_events_are_told_in_words(event, shown):
    lines = readable(json.dumps(event))
    assert len(lines) == shown
    assert all("{" not in line and line.isprintable() for line in lines)
    assert lines[0].startswith(event.get("name", event["type"])[:11])


@pytest.mark.parametrize("line", ["plain words", "{ not json", '["a list"]', "{}", "", '{"a": ' * 3000])
def test_what_is_no_event_stays_as_it_is(line):
    assert readable(line) == [line.rstrip()]
