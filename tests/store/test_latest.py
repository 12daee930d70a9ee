"""The newest lines of a changelog: read from its end, however long it is, and followed from there without a gap."""

from __future__ import annotations

import pytest
from pits import make, put, task

from taskpit.clock import iso
from taskpit.model import Event
from taskpit.store import changelog
from taskpit.testing import FakeClock

MANY = 5000


@pytest.fixture
def path(tmp_path):
    """A changelog of many lines."""
    path = str(tmp_path / "changelog.log")
    changelog.append(path, [told(number) for number in range(MANY)])
    return path


def told(number):
    stamp = f"2026-01-24T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
    return Event(timestamp=stamp, worker="w", worker_type="agent", action="noted", task_id=f"{number:04d}")


def ids(events):
    return [event.task_id for event in events]


@pytest.mark.parametrize("limit", [0, 1, 50, 900, MANY, MANY + 1])
def test_the_end_is_read_and_not_what_is_before(path, limit, monkeypatch):
    real, read = changelog.decode, []
    monkeypatch.setattr(changelog, "decode", lambda line: read.append(line) or real(line))
    events, cursor = changelog.latest(path, limit)
    assert ids(events) == [f"{number:04d}" for number in range(MANY)][MANY - min(limit, MANY) :]
    assert len(read) <= 2 * limit
    assert changelog.read(path, cursor, 10)[0] == []


def test_a_line_that_is_being_written_comes_whole_afterwards(path):
    line = changelog.encode(told(MANY))
    with open(path, "ab") as log:
        log.write(line[:20])
    events, cursor = changelog.latest(path, 2)
    assert ids(events) == [f"{MANY - 2}", f"{MANY - 1}"]
    with open(path, "ab") as log:
        log.write(line[20:])
    assert ids(changelog.read(path, cursor, 10)[0]) == [f"{MANY}"]


def test_long_lines_and_lines_of_others_are_passed_over(tmp_path):
    path = str(tmp_path / "changelog.log")
    changelog.append(path, [told(1), told(2)])
    with open(path, "ab") as log:
        log.write(b"what is this\n" * 5000 + b"x" * 100_000 + b"\n")
    assert ids(changelog.latest(path, 1)[0]) == ["0002"]
    assert changelog.latest(str(tmp_path / "none"), 5) == ([], "0:0:0")


def test_a_log_since_some_time_goes_back_until_before_it(tmp_path, monkeypatch):
    """Also where clocks were set, so that lines are out of order."""
    from taskpit.report import newest

    queue = make(str(tmp_path / "pit"), FakeClock())
    queue.store.record([told(number) for number in (*range(100, 400), 5, *range(400, 500))])
    asked, real = [], queue.store.latest
    monkeypatch.setattr(queue.store, "latest", lambda count: asked.append(count) or real(count))
    since = told(100).timestamp
    found, _ = newest(queue.store, since)
    assert ids(found) == [f"{number:04d}" for number in range(100, 500)]
    found, _ = newest(queue.store, limit=1, keep=lambda event: event.task_id == "0120")
    assert ids(found) == ["0120"]
    assert asked == [50, 400, 3200, 1, 8, 64, 512]
    queue.close()


def test_a_log_that_another_queue_brought_does_not_hide_what_happened_here(tmp_path):
    """Its lines are old, and stand behind those of today."""
    from taskpit import transfer
    from taskpit.report import newest

    clock = FakeClock()
    queue, other = make(str(tmp_path / "pit"), clock), make(str(tmp_path / "other"), clock)
    other.store.record([told(number) for number in range(100)])
    clock.advance(1000 * 86400)
    queue.put([task(1)])
    transfer.copy(transfer.Cargo(events=tuple(transfer.events_of(other.store)), layout="pit"), queue.store, str)
    found, _ = newest(queue.store, iso(clock.now() - 60))
    assert [event.action for event in found] == ["added_task"]
    queue.put([task(2)])
    assert ids(newest(queue.store, iso(clock.now() - 60))[0]) == ["0001", "0002"]
    queue.close()
    other.close()


def test_what_begins_at_the_end_reads_nothing_before_it(tmp_path, monkeypatch):
    """Boards and watchers of a queue with a long past."""
    from taskpit import board
    from taskpit.library import Watcher

    monkeypatch.setattr(board, "LAST", 100)
    queue = make(str(tmp_path / "pit"), FakeClock())
    put(queue, task(1))
    queue.store.record([told(number) for number in range(MANY)])
    real, read = changelog.decode, []
    monkeypatch.setattr(changelog, "decode", lambda line: read.append(line) or real(line))
    watcher = Watcher(queue)
    assert len(read) < 500
    put(queue, task(2))
    assert [event.action for event in watcher.look()] == ["added_task"]
    watcher.close()
    assert sorted(board.Board(queue).load().slips) == ["0001", "0002"]
    assert len(read) < 2000
    queue.close()
