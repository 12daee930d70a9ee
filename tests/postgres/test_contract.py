"""The store on PostgreSQL keeps the contract, like every other: alone, and in batches, which take other ways."""

from __future__ import annotations

import pytest

from taskpit.task import Claim, End, Said, Task, Want
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


def test_a_batch_of_plain_tasks_is_answered_one_by_one(server):
    """It goes in columns: what was there, what is wanted otherwise and what others waited for is told from the rest."""
    store = server.queue()
    there, other, needed = (Task(id=name, title=name, by="me") for name in ("there", "other", "needed"))
    store.put([there])
    store.put([other])
    store.put([Task(id="waits", title="waits", needs=("needed",))])
    fresh = [Task(id=f"n{number}", title='odd "\\ ü\n', by="you", big=number == 2) for number in range(3)]
    said = store.put([fresh[2], there, other.replace(title="another"), needed, *fresh[:2]])
    assert said == [Said.CREATED, Said.EXISTS, Said.CONFLICT, Said.CREATED, Said.CREATED, Said.CREATED]
    assert [card.task for card in store.read(["other", "n0", "n1", "n2"])] == [other, *fresh]
    told = [(event.task_id, event.worker, event.details) for event in store.events()[0]]
    assert told[3:] == [
        ("n2", "you", fresh[2].title),
        ("needed", "me", "needed"),
        ("n0", "you", fresh[0].title),
        ("n1", "you", fresh[1].title),
    ]
    claims = store.claim(Want(worker="w", lease=60.0, count=9))
    assert sorted(claim.task.id for claim in claims) == ["n0", "n1", "n2", "needed", "other", "there"]
    assert store.check() == []
    store.close()


def test_a_batch_with_one_id_twice_is_one_task(server):
    store = server.queue()
    first, second = Task(id="a", title="first"), Task(id="a", title="second")
    assert store.put([first, second, first]) == [Said.CREATED, Said.CONFLICT, Said.EXISTS]
    assert store.read(["a"])[0].task.title == "first"
    store.close()
