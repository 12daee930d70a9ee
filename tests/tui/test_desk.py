"""What the board knows of a real folder: logs that grow, ids that can be; and what it makes of what agents print."""

from __future__ import annotations

import json
import os

import pytest
from pits import make, task

from taskpit.crew.log_tail import Tail
from taskpit.errors import Invalid
from taskpit.model import Done, Task
from taskpit.run.run_directory import RunPlaces
from taskpit.run.transcript import readable
from taskpit.testing import FakeClock
from taskpit.tui.queue_access import QueueAccess


@pytest.fixture
def folder(tmp_path):
    made = make(str(tmp_path / "pit"), FakeClock())
    yield made
    made.close()


def test_the_log_of_a_claim_is_what_its_worker_prints_and_then_what_was_kept(folder):
    desk = QueueAccess(folder, "me")
    folder.put([task(1)])
    (claim,) = folder.claim("snake-1")
    assert desk.log_of(desk.card("0001")) == ""
    place = RunPlaces(folder.store).of(claim)
    place.make()
    with open(place.log, "w", encoding="utf-8") as file:
        file.write("working\n")
    assert Tail(desk.log_of(desk.card("0001"))).more() == "working\n"
    with open(place.events, "w", encoding="utf-8") as file:
        file.write('{"type": "text", "text": "hello"}\n')
    assert Tail(desk.log_of(desk.card("0001"))).more() == "text          hello\n"
    kept = folder.store.keep_log("snake-1", b"all of it\n")
    folder.finish(claim, Done(log=kept))
    path = desk.log_of(desk.card("0001"))
    assert os.path.isabs(path)
    assert Tail(path).more() == "all of it\n"


def test_a_log_that_leads_out_of_the_queue_is_not_followed(folder, tmp_path):
    """A result names its log; one that names a file elsewhere, or a link to one, gets nothing."""
    desk, secret = QueueAccess(folder, "me"), tmp_path / "secret"
    secret.write_text("for nobody")
    os.symlink(secret, tmp_path / "pit/waste/link.log")
    for number, log in enumerate((str(secret), "../secret", "waste/link.log", "waste"), 1):
        folder.put([task(number)])
        folder.finish(folder.claim("snake-1", ids=[f"{number:04d}"])[0], Done(log=log))
        assert desk.log_of(desk.card(f"{number:04d}")) == ""


def test_the_log_of_the_running_agent_is_live(folder, drive):
    folder.put([task(1)])
    (claim,) = folder.claim("snake-1")
    place = RunPlaces(folder.store).of(claim)
    place.make()
    with open(place.log, "w", encoding="utf-8") as file:
        file.write("first line\n")

    def write_more():
        with open(place.log, "a", encoding="utf-8") as file:
            file.write("second line\n")

    async def look(board):
        await board.press("4", "l")
        assert "first line" in board.text
        write_more()
        await board.follow()
        assert "second line" in board.text
        assert board.text.count("first line") == 1

    drive(folder, look)


def test_a_need_may_be_written_as_its_number(folder):
    folder.put([task(1)])
    added = QueueAccess(folder, "me").add(Task(id="", title="x", needs=("1", "0001", "9")))
    assert folder.card(added).task.needs == ("0001", "0009")


def test_a_need_must_be_a_name_of_this_queue(folder):
    with pytest.raises(Invalid):
        QueueAccess(folder, "me").add(Task(id="", title="x", needs=("../up",)))
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
