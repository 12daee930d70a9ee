"""A changelog with many writers: every line is there and whole, and a writer that is killed spoils only its own."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from lockers import read, write
from waits import PATIENCE

from taskpit.model import Event
from taskpit.store import changelog

ACTOR = os.path.join(os.path.dirname(__file__), "actors/writer.py")
WRITERS = 8
LINES = 10_000
KILLS = 24
DETAILS = 4096
EVENT = Event(timestamp="2026-01-24T10:00:00Z", worker="last", worker_type="agent", action="noted", details="the next")


def start(path, name, count, style="ours"):
    """A writer that waits for its line on stdin."""
    process = subprocess.Popen(
        [sys.executable, ACTOR, path, name, str(count), style],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "here\n"
    return process


def crowd(path, count, style="ours"):
    """All write at once, and end well."""
    processes = [start(path, f"writer-{number}", count, style) for number in range(WRITERS)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (0, "")


def whole(event):
    """Who wrote it and its number, if all of the line is there."""
    worker, number, _ = event.details.split(" ", 2)
    assert event.details == f"{worker} {number} ".ljust(DETAILS, "abcdefgh"[int(number) % 8])
    assert worker == event.worker
    return worker, int(number)


@pytest.mark.races
def test_every_line_of_eight_writers_is_there(tmp_path):
    path, each = str(tmp_path / "changelog.log"), LINES // WRITERS
    crowd(path, each)
    assert read(path).count(b"\n") == LINES
    events, _ = changelog.read(path, "", LINES * 2)
    expected = Counter((f"writer-{writer}", number) for writer in range(WRITERS) for number in range(each))
    assert Counter(map(whole, events)) == expected


@pytest.mark.races
def test_lines_written_in_parts_are_lost(tmp_path):
    """The proof that the test above can fail."""
    path, each = str(tmp_path / "changelog.log"), 200
    crowd(path, each, "parts")
    events, _ = changelog.read(path, "", LINES)
    assert len(events) < WRITERS * each


@pytest.mark.races
def test_writers_that_are_killed_spoil_nobody_elses_lines(tmp_path):
    path = str(tmp_path / "changelog.log")
    chance, acknowledged = random.Random(7), set()
    for turn in range(KILLS // 4):
        crew = {f"writer-{turn}-{number}": start(path, f"writer-{turn}-{number}", 10**9) for number in range(4)}
        for process in crew.values():
            process.stdin.write("go\n")
            process.stdin.flush()
        for name, process in crew.items():
            time.sleep(chance.random() * 0.02)  # how long it is left in peace: part of the test, not a wait
            acknowledged |= ended(name, process)
        changelog.append(path, [EVENT.replace(details=f"after turn {turn}")])
    written, others = found(path)
    assert acknowledged <= set(written), f"{len(acknowledged - set(written))} acknowledged lines are lost"
    assert len(written) == len(set(written))
    assert others == [f"after turn {turn}" for turn in range(KILLS // 4)], (
        "who came next can be read, whatever was torn"
    )
    assert len(acknowledged) > KILLS, "too few lines to show anything"


def ended(name, process):
    """It is killed; the lines it had been told are in."""
    process.send_signal(signal.SIGKILL)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    return {(name, int(line)) for line in out.splitlines(keepends=True) if line.endswith("\n")}


def found(path):
    """The lines of the crew, and those of others."""
    events, _ = changelog.read(path, "", LINES * 10)
    return [whole(event) for event in events if event.worker != "last"], [
        event.details for event in events if event.worker == "last"
    ]


def test_a_torn_tail_spoils_only_itself(tmp_path):
    """Wherever the writer before was torn."""
    path, line = str(tmp_path / "changelog.log"), changelog.encode(EVENT.replace(details="torn"))
    for length in range(1, len(line)):
        write(path, changelog.encode(EVENT.replace(details="before")) + line[:length])
        assert [event.details for event in changelog.read(path, "", 10)[0]] == ["before"]
        changelog.append(path, [EVENT])
        told = [event.details for event in changelog.read(path, "", 10)[0]]
        # Only its line end may be missing: then all of it was there.
        assert told == ["before", *(["torn"] if length == len(line) - 1 else []), "the next"], length
