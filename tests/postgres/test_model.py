"""The store on PostgreSQL against the model: whatever is done to both, nobody can tell them apart."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from likememory import LikeMemory
from pits import CONFIG
from rotation import examples

from taskpit.queue import Queue


def test_postgres_like_memory(server):
    class PostgresLikeMemory(LikeMemory):
        def begin(self):
            server.over()
            return Queue(server.queue(self.clock, CONFIG), CONFIG, self.clock)

    plan = settings(
        max_examples=examples(60, 30),
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    run_state_machine_as_test(PostgresLikeMemory, settings=plan)
