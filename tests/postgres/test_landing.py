"""Landing on a queue in a database: a candidate is carried and sealed there as in a folder."""

from __future__ import annotations

import os

import pytest
from ground import Ground, git

from taskpit.landing.pipe import LandingPipe, queue_key
from taskpit.landing.repository import Repository
from taskpit.landing.values import CANDIDATE
from taskpit.model import State
from taskpit.policy import LANDING
from taskpit.queue import Queue
from taskpit.store.postgres.opening import init_database


@pytest.fixture
def ground(tmp_path, server, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Ground(tmp_path / "ground")
    made.queue.close()
    address = server.new()
    init_database(address, {"lease": "1m", "backoff": "0s", "backoff_longest": "0s"})
    made.queue = Queue.open(address)
    made.pipe = LandingPipe(Repository(made.top), queue_key(made.queue), made.terms)
    yield made
    made.close()


def test_handed_in_landed_and_sealed(ground):
    one, two = ground.put("one", check="test -s a.txt"), ground.put("two")
    ground.work(one, a_dot_txt="a")
    card = ground.card(one)
    assert card.held == f"{LANDING} on main"
    assert card.task.extra[CANDIDATE]["onto"] == "main"
    ground.work(two, a_dot_txt="b")
    ground.land(one)
    ground.land(two)
    assert ground.card(one).state is State.DONE
    assert ground.card(one).checked == "yes"
    assert ground.card(two).tries[-1].kind == "conflict"
    assert ground.log() == ["one", "begin"]
    assert git(ground.top, "status", "--porcelain") == ""
    assert os.path.exists(f"{ground.top}/a.txt")
