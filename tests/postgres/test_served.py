"""A database behind a gateway: the contract, the model, and gateways that are killed."""

from __future__ import annotations

import os

import pytest
from gateways import Served, kill_gateways
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from likememory import LikeMemory
from pits import CONFIG
from rotation import examples

from taskpit.queue import Queue
from taskpit.serve.server import papers_of
from taskpit.store.http.tokens import Tokens
from taskpit.testing import StoreContract


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class TestServedDatabase(StoreContract):
    TURNS = 2

    @pytest.fixture(autouse=True)
    def begin(self, server, own_state, tmp_path):
        """The server, known before the store is made."""
        self.server, self.papers = server, str(tmp_path / "papers")
        self.served = []
        super().setup_method()
        yield
        self.store.close()
        for one in self.served:
            one.close()

    def setup_method(self):
        """The fixture does it, once it knows the server."""

    def teardown_method(self):
        """The fixture does it."""

    def make_store(self, clock):
        store = self.server.queue(clock)
        self.served.append(Served(Queue(store, store.config, clock)))
        return self.served[-1].store(clock=clock, papers=self.papers)


def test_a_served_database_like_memory(server, tmp_path):
    class ServedLikeMemory(LikeMemory):
        def begin(self):
            server.over()
            self.served = Served(Queue(server.queue(self.clock, CONFIG), CONFIG, self.clock))
            store = self.served.store(clock=self.clock, papers=str(tmp_path / "papers"))
            store._info = store._info.replace(kept=False)
            return Queue(store, CONFIG, self.clock)

        def over(self):
            self.served.close()

    plan = settings(
        max_examples=examples(60, 30),
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    run_state_machine_as_test(ServedLikeMemory, settings=plan)


@pytest.mark.races
def test_two_gateways_killed_at_once_under_load_lose_nothing(server):
    store = server.queue()
    owner = Tokens(papers_of(Queue(store, store.config, store.clock))).add("owner", ["all"])
    kill_gateways(store.address.whole, owner, 2, 20 if os.environ.get("TASKPIT_LONG") else 2, env=dict(os.environ))
    store.close()
