"""What is made once for all processes of a run is made once, however they come."""

from __future__ import annotations

import fcntl
import threading
from types import SimpleNamespace

import world
from waits import PATIENCE


def test_who_waits_while_it_is_made_does_not_make_it_again(tmp_path, monkeypatch):
    """It had opened the lock's file before anything was in it, and threw away what others were copying from."""
    folders = SimpleNamespace(getbasetemp=lambda: tmp_path / "run" / "gw0")
    (tmp_path / "run" / "gw0").mkdir(parents=True)
    begun, second, made = threading.Event(), threading.Event(), []
    flock = fcntl.flock

    def tell(file, how):
        if begun.is_set():
            second.set()  # its file is open by now
        flock(file, how)

    def make(place):
        made.append(place)
        begun.set()
        assert second.wait(PATIENCE)

    monkeypatch.setattr(world.fcntl, "flock", tell)
    threads = [threading.Thread(target=world.once, args=(folders, "x", make)) for _ in range(2)]
    threads[0].start()
    assert begun.wait(PATIENCE)
    threads[1].start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(made) == 1
