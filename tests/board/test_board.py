"""The board: read once, then kept true by what the changelog tells; strangers are noticed too."""

from __future__ import annotations

import os

import pytest
from faults import record
from pits import make, root_of, task

from taskpit import held_directories
from taskpit.board import COLUMNS, COMPARE, LOOK, Board
from taskpit.errors import Storage
from taskpit.model import Ask, Done, Failed, Release, Task
from taskpit.queue import Queue
from taskpit.store.memory import MemoryStore


@pytest.fixture(params=["pit", "mailbox", "workspace", "memory"])
def queue(request, tmp_path, clock):
    if request.param == "memory":
        made = Queue(MemoryStore(clock), clock=clock)
    else:
        made = make(str(tmp_path / "queue"), clock, layout=request.param)
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path, clock):
    made = make(str(tmp_path / "pit"), clock)
    yield made
    made.close()


def shown(board):
    return {name: [slip.id for slip in board.column(name)] for name in COLUMNS}


def truth(queue):
    """What a board that has just been read shows."""
    return shown(Board(queue).load())


def test_every_move_is_followed(queue, clock):
    """After each step the board that follows is the board that is read anew."""
    board = Board(queue).load()
    queue.put([task(number, priority=number % 3) for number in range(1, 9)])
    steps = [
        lambda: queue.put([Task(id="0100", title="late", priority=9)]),
        lambda: queue.finish(queue.claim("a")[0], Done(output="x")),
        lambda: queue.finish(queue.claim("a")[0], Failed(error="broken", final=True)),
        lambda: queue.finish(queue.claim("a")[0], Release()),
        lambda: queue.finish(queue.claim("a")[0], Ask(question="which way?")),
        lambda: queue.claim("b"),
        lambda: queue.put([Task(id="0101", title="needs", needs=("0001",))]),
    ]
    for step in steps:
        step()
        change = board.follow()
        assert change
        assert shown(board) == truth(queue)
        assert board.counts == Board(queue).load().counts
        clock.advance(0.5)


def test_what_waited_for_another_is_free_when_it_is_done(queue):
    queue.put([Task(id="0001", title="first"), Task(id="0002", title="second", needs=("0001",))])
    board = Board(queue).load()
    assert shown(board)["waiting"] == ["0002"]
    (claim,) = queue.claim("a")
    queue.finish(claim, Done())
    assert board.follow().ids == {"0001", "0002"}
    assert shown(board)["ready"] == ["0002"]


def test_a_time_that_was_waited_for_comes(queue, clock):
    queue.put([Task(id="0001", title="later", not_before=clock.now() + 60)])
    board = Board(queue).load()
    assert shown(board)["waiting"] == ["0001"]
    clock.advance(61)
    board.follow()
    assert shown(board)["ready"] == ["0001"]


def test_nothing_new_is_no_change(queue):
    queue.put([task(1)])
    board = Board(queue).load()
    version = board.version
    assert not board.follow()
    assert board.version == version


def test_following_reads_only_what_changed(folder):
    folder.put([task(number) for number in range(1, 40)])
    board = Board(folder).load()
    folder.put([task(50)])
    with record() as calls:
        board.follow()
    assert len({path for call, path in calls if call == "open" and "/food/" in path}) == 1


def test_strangers_are_noticed(folder, clock):
    """A worker that only renames tells nobody; the counts do."""
    folder.put([task(1), task(2)])
    board = Board(folder).load()
    name = min(os.listdir(f"{root_of(folder)}/food"))
    os.rename(f"{root_of(folder)}/food/{name}", f"{root_of(folder)}/claimed/stranger.{name}")
    assert not board.follow()
    clock.advance(COMPARE + 0.1)
    assert board.follow().anew
    assert [slip.worker for slip in board.column("running")] == ["stranger"]


def test_a_new_changelog_is_a_new_beginning(folder):
    folder.put([task(1)])
    board = Board(folder).load()
    os.rename(f"{root_of(folder)}/.taskpit/changelog.log", f"{root_of(folder)}/.taskpit/changelog.log.1")
    folder.put([task(2)])
    assert board.follow().anew
    assert shown(board)["ready"] == ["0001", "0002"]


def test_a_claim_is_as_old_as_its_claim_not_its_last_sign(folder, clock):
    folder.put([task(1)])
    (claim,) = folder.claim("a")
    began = clock.now()
    board = Board(folder).load()
    clock.advance(LOOK * 3)
    folder.renew(claim)
    board.follow()
    (slip,) = board.column("running")
    assert slip.since == int(began)


def test_what_is_asked_stands_first_and_says_what(queue):
    queue.put([task(number) for number in range(1, 4)])
    queue.block("0001", "me@here", "broken tool")
    (claim,) = queue.claim("a")
    queue.finish(claim, Ask(question="tabs or spaces?"))
    board = Board(queue).load()
    assert [slip.id for slip in board.column("needs_you")] == ["0002", "0001"]
    assert board.column("needs_you")[0].question == "tabs or spaces?"


def test_a_long_column_is_counted_and_not_read(queue):
    queue.put([task(number) for number in range(1, 31)])
    board = Board(queue, most=10).load()
    assert len(board.column("ready")) == 10
    assert board.counts["ready"] == 30


def test_a_pause_is_seen(queue):
    board = Board(queue).load()
    queue.store.pause("lunch", 0, "me@here")
    board.follow()
    assert "lunch" in board.paused


def test_a_queue_that_was_moved_away_is_not_shown_as_an_empty_one(folder, tmp_path, monkeypatch):
    folder.put([task(1)])
    board = Board(folder).load()
    monkeypatch.setattr(held_directories, "COMPARED", -1.0)
    monkeypatch.setattr(held_directories, "COMPARED_AGAIN", -1.0)
    os.rename(tmp_path / "pit", tmp_path / "away")
    with pytest.raises(Storage, match="No such file"):
        board.follow()
    assert board.counts["ready"] == 1
    os.rename(tmp_path / "away", tmp_path / "pit")
    board.follow()


def test_a_pause_whose_time_has_passed_is_no_longer_seen(queue):
    queue.store.pause("lunch", 60, "me@here")
    board = Board(queue).load()
    assert "lunch" in board.paused
    queue.clock.advance(61)
    board.follow()
    assert board.paused == ""


def test_the_last_lines_are_at_hand(queue):
    """Those from before it was read, then those that come, each once."""
    queue.put([task(1)])
    board = Board(queue).load()
    queue.claim("a")
    board.follow()
    board.follow()
    assert [event.did for event in board.recent] == ["added_task", "claimed_task"]


def test_what_is_slow_to_count_is_counted_seldom(queue, clock, monkeypatch):
    """A board that nobody tells anything costs next to nothing, however many tasks there are."""
    counted, counts = [], queue.store.counts

    def slowly():
        counted.append(clock.monotonic())
        clock.advance(0.1)
        return counts()

    monkeypatch.setattr(queue.store, "counts", slowly)
    board = Board(queue).load()
    for _ in range(240):
        clock.advance(0.25)
        board.follow()
    assert 1 < len(counted) <= 4


def test_what_comes_while_all_is_read_is_counted_once(queue, monkeypatch):
    """The store's counts know of it before the board has read it: it must not be counted again then."""
    queue.put([task(1)])
    counts = queue.store.counts

    def late():
        monkeypatch.undo()
        queue.put([task(2)])
        return counts()

    board = Board(queue)
    monkeypatch.setattr(queue.store, "counts", late)
    board.load()
    assert board.counts["ready"] == 1
    board.follow()
    assert board.counts["ready"] == 2


def test_what_happens_while_it_is_compared_is_no_reason_to_read_all(queue, clock, monkeypatch):
    queue.put([task(1)])
    board = Board(queue).load()
    counts = queue.store.counts

    def late():
        monkeypatch.undo()
        queue.put([task(2)])
        return counts()

    monkeypatch.setattr(queue.store, "counts", late)
    clock.advance(COMPARE + 0.1)
    assert not board.follow()
    change = board.follow()
    assert (change.ids, change.anew) == ({"0002"}, False)


def test_a_column_that_is_too_long_is_counted_whole(queue):
    queue.put([task(number) for number in range(1, 8)])
    board = Board(queue, most=3).load()
    assert (len(board.column("ready")), board.counts["ready"]) == (3, 7)
    queue.put([task(9)])
    board.follow()
    assert board.counts["ready"] == 8


def test_what_cannot_be_read_is_no_reason_to_read_all_again_and_again(folder, clock):
    folder.put([task(1)])
    with open(f"{root_of(folder)}/food/food-0002-bad.md", "wb") as file:
        file.write(b"\xff\x00")
    board = Board(folder).load()
    clock.advance(COMPARE + 0.1)
    board.follow()  # it may be set aside by now
    for _ in range(3):
        clock.advance(COMPARE + 0.1)
        assert not board.follow()
