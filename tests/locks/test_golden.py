"""The original's own examples, byte for byte: the lock file, the changelog's lines, the table of durations."""

from __future__ import annotations

import pytest
from lockers import NAME, make, path_of, read

from taskpit import layouts
from taskpit.clock import instant, iso
from taskpit.config import Config
from taskpit.layouts import lock_text
from taskpit.model import Event, Lock
from taskpit.store import changelog
from taskpit.testing import FakeClock

LOCK = b"""\
{
  "holder": "agent-abc123",
  "holder_type": "agent",
  "acquired": "2026-01-24T10:00:00Z",
  "expires": "2026-01-24T11:00:00Z",
  "task_id": "WI-001-A1-T2",
  "task_acquired": "2026-01-24T10:30:00Z",
  "task_expires": "2026-01-24T11:00:00Z"
}
"""
TEN, HALF_PAST, ELEVEN = (instant(f"2026-01-24T{time}:00Z", 0.0) for time in ("10:00", "10:30", "11:00"))
AS_READ = Lock(
    name="WI-001-A1",
    holder="agent-abc123",
    kind="agent",
    acquired=TEN,
    expires=ELEVEN,
    task_id="WI-001-A1-T2",
    task_acquired=HALF_PAST,
    task_expires=ELEVEN,
    extra={},
)
LINES = b"""\
{"timestamp":"2026-01-24T10:00:00Z","worker":"agent-abc123","worker_type":"agent","action":"claimed_activity",\
"activity_id":"WI-001-A1","details":"Starting work"}
{"timestamp":"2026-01-24T10:30:00Z","worker":"agent-abc123","worker_type":"agent","action":"completed_task",\
"activity_id":"WI-001-A1","task_id":"WI-001-A1-T1","details":"Implemented feature X"}
"""
EVENTS = [
    Event(
        timestamp="2026-01-24T10:00:00Z",
        worker="agent-abc123",
        worker_type="agent",
        action="claimed_activity",
        activity_id="WI-001-A1",
        details="Starting work",
    ),
    Event(
        timestamp="2026-01-24T10:30:00Z",
        worker="agent-abc123",
        worker_type="agent",
        action="completed_task",
        activity_id="WI-001-A1",
        task_id="WI-001-A1-T1",
        details="Implemented feature X",
    ),
]
HOUR = 3600.0


def test_the_lock_file_is_written_as_documented():
    assert lock_text.dump(AS_READ) == LOCK


def test_the_lock_file_is_read_as_documented():
    assert lock_text.load("WI-001-A1", LOCK) == AS_READ


def test_a_named_lock_is_spelled_alike(tmp_path):
    """Without a task its fields are null, and stand all the same; no end is told too early."""
    clock = FakeClock(TEN + 0.25)
    found = make(tmp_path / "pit", clock)
    found.lock(NAME, "ada@home", 0.5 * HOUR)
    assert read(path_of(found)).decode() == (
        '{\n  "holder": "ada@home",\n  "holder_type": "human",\n  "acquired": "2026-01-24T10:00:00Z",\n'
        '  "expires": "2026-01-24T10:30:01Z",\n  "task_id": null,\n  "task_acquired": null,\n'
        '  "task_expires": null\n}\n'
    )


def test_the_changelogs_lines(tmp_path):
    path = str(tmp_path / "changelog.log")
    changelog.append(path, EVENTS)
    assert read(path) == LINES
    assert changelog.read(path, "", 10)[0] == EVENTS


@pytest.mark.parametrize(("kind", "activity", "task"), [("human", 8 * HOUR, 4 * HOUR), ("agent", HOUR, 0.5 * HOUR)])
def test_the_table_of_durations(kind, activity, task):
    """With what an activities queue has by default."""
    config = Config(**layouts.get("activities").defaults)
    assert config.lease_of(kind) == activity
    assert config.task_lease_of(kind) == task


def test_times_are_whole_seconds_in_utc():
    assert iso(TEN) == "2026-01-24T10:00:00Z"
    assert b"T10:00:01Z" in lock_text.dump(AS_READ.replace(expires=TEN + 0.001))
