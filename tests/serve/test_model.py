"""The store behind a gateway against the model: whatever is done to both, nobody can tell them apart."""

from __future__ import annotations

import shutil
import tempfile

from gateways import Served
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from likememory import LikeMemory
from pits import CONFIG, make
from rotation import examples

from taskpit.queue import Queue


def plan():
    return settings(
        max_examples=examples(100, 20),
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


class BehindGateway(LikeMemory):
    """Compared through a gateway; what sweeps is the model's own step, not the gateway's keeper."""

    def begin(self):
        self.root = tempfile.mkdtemp()
        self.served = Served(self.behind())
        store = self.served.store(clock=self.clock, papers=f"{self.root}/papers")
        store._info = store._info.replace(kept=False)
        return Queue(store, CONFIG, self.clock)

    def behind(self):
        return make(f"{self.root}/pit", self.clock)

    def over(self):
        self.served.close()
        shutil.rmtree(self.root, ignore_errors=True)


def test_a_served_folder_like_memory():
    run_state_machine_as_test(BehindGateway, settings=plan())
