"""An end that was cut off between its seal and what people see: any command carries it out."""

from __future__ import annotations

import os
import time

import pytest
from boxes import LAYOUTS, make_fast, pit
from faults import killed_at

from taskpit.clock import Clock
from taskpit.model import Done, Failed
from taskpit.queue import Queue
from taskpit.store.folder import SEALED

#: Some that look, some that change, some that have nothing to do with tasks.
COMMANDS = [("list",), ("status",), ("log",), ("resume",), ("note", "x", "y"), ("add", "more")]
ENDS = {"done": Done(output="x"), "ready": Failed(error="no")}


@pytest.fixture(params=LAYOUTS)
def box(request, tmp_path):
    return make_fast(tmp_path / "queue", request.param)


def cut_off(box, end):
    """A worker is killed right after its seal."""
    assert pit("-C", box, "add", "x", "--id", "x").code == 0
    queue = Queue.open(box)
    (claim,) = queue.claim("w")
    for number in range(1, 100):
        with killed_at(number):
            queue.finish(claim, end)
        if os.listdir(f"{box}/{SEALED}"):
            break
    queue.close()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_any_command_carries_it_out(command, end, box, monkeypatch):
    cut_off(box, ENDS[end])
    assert len(os.listdir(f"{box}/{SEALED}")) == 1
    pit("-C", box, *command)
    assert len(os.listdir(f"{box}/{SEALED}")) == 1  # its worker may still be at it
    monkeypatch.setattr(Clock, "now", lambda _clock: time.time() + 5)
    pit("-C", box, *command)
    assert os.listdir(f"{box}/{SEALED}") == []
    shown = pit("-C", box, "show", "x", "--json").data
    assert shown["state"] == end


def test_where_it_cannot_be_it_is_left(box, monkeypatch):
    cut_off(box, Done())
    monkeypatch.setattr(Clock, "now", lambda _clock: time.time() + 5)
    monkeypatch.setattr("taskpit.store.mend.roll", lambda _sealed: (_ for _ in ()).throw(PermissionError()))
    assert pit("-C", box, "list").code == 0
