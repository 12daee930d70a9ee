"""The store on PostgreSQL keeps the contract, like every other: alone, and in batches, which take other ways."""

from __future__ import annotations

import pytest

from taskpit.task import Claim, End, Said, Task
from taskpit.testing import StoreContract


class TestPostgresStore(StoreContract):
    @pytest.fixture(autouse=True)
    def begin(self, server):
        """The server, known before the store is made."""
        self.server = server
        super().setup_method()

    def setup_method(self):
        """The fixture does it, once it knows the server."""

    def make_store(self, clock):
        return self.server.queue(clock)


class TestInBatches(TestPostgresStore):
    """Single tasks and ends go simple ways; here none of them is single."""

    TURNS = 2

    def make_store(self, clock):
        store = self.server.queue(clock)
        finish, put, claim, stranger = store.finish, store.put, store.claim, Task(id="nobody", title="nobody")
        lost = End(claim=Claim(task=stranger, worker="x", fence="x"))

        def finish_both(ends):
            *said, last = finish([*ends, lost])
            assert last is Said.LOST
            return said

        store.finish = finish_both
        store.put = lambda tasks: put([*tasks, *tasks[-1:]])[: len(tasks)]
        store.claim = lambda want: claim(
            want if want.count > 1 or want.tags else want.replace(ids=want.ids or ready(want))
        )

        def ready(want):
            fit = [card.task.id for card in store.page(limit=50).cards if want.big in (None, card.task.big)]
            return tuple(fit) or ("nobody",)

        return store
