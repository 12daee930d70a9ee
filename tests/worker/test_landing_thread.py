"""The thread that lands: a pool ends only when it says that it is done."""

from __future__ import annotations

from queue import SimpleQueue
from types import SimpleNamespace

from waits import PATIENCE, until

from taskpit.run import landing_thread
from taskpit.run.landing_thread import LandingThread


def test_whatever_goes_wrong_in_landing_the_pool_does_not_wait_for_ever(monkeypatch):
    """Its thread ended by what nobody had foreseen, and was never done."""
    inbox, rounds = SimpleQueue(), []

    def broken(_self, _lander, **_how):
        rounds.append(1)
        raise KeyError("candidate")

    monkeypatch.setattr(landing_thread, "join", lambda _queue, name: SimpleNamespace(worker=name, leave=lambda: None))
    monkeypatch.setattr(landing_thread, "Lander", lambda *_: None)
    monkeypatch.setattr(LandingThread, "_round", broken)
    lander = LandingThread(None, None, "x", inbox)
    lander.start()
    until(lander.is_done)
    assert "landing had trouble" in inbox.get(timeout=PATIENCE)
    lander.hear()
    until(lambda: len(rounds) > 1 and lander.is_done())
    lander.close()
