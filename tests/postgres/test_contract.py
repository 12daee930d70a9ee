"""The store on PostgreSQL keeps the contract, like every other: alone, and in batches, which take other ways."""

from __future__ import annotations

import pytest

from taskpit.errors import Invalid
from taskpit.model import Claim, End, Result, Said, Task, Try, Verdict, Want
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


@pytest.mark.parametrize("turns", [False, True])
def test_half_a_letter_and_a_zero_byte_lose_no_work(server, turns):
    """As in a file: what cannot be written is marked, and the rest is there."""
    store = server.queue()
    store.put([Task(id="A", title="a", tags=("x\0",), touches=("y\0",))])
    odd, want = "a\ud83db\0c \\u0000 \\\0", Want(worker="w", lease=60.0)
    (claim,) = store.claim(want)
    attempt = Try(at=1.0, worker="w", kind="task", error=odd)
    store.finish([End(claim=claim, attempt=attempt, action="retried_task", details=odd)])
    (claim,) = store.claim(want.replace(tags=("x\0",)))
    end = End(claim=claim, result=Result(id="A", verdict=Verdict.DONE, output=odd, finished=1.0), details=odd)
    assert (store.turn([end], [want])[0] if turns else store.finish([end])) == [Said.OK]
    (card,) = store.read(["A"])
    kept = "a?b\ufffdc \\u0000 \\\ufffd"
    assert (card.result.output, card.tries[0].error) == (kept, kept)
    store.note("A", odd, "w")
    store.pause(odd, 0.0, "w")
    assert store.paused() == "paused by w: a?bc \\u0000 \\"
    assert (store.resolve("A\ud800"), store.read(["A\ud800"])) == ([], [None])
    assert [mend.what for mend in store.archive(0.0, dry_run=True)] == ["A"]
    store.close()


def test_worker_names_are_those_that_a_folder_takes(server):
    store = server.queue()
    want = Want(worker="w\0", lease=60.0)
    for call in (
        lambda: store.claim(want),
        lambda: store.claim(want.replace(count=2)),
        lambda: store.lock("deploy", "w\0", 60.0),
        lambda: store.join("w\0", 60.0),
        lambda: store.keep_log("w\0", b"log"),
    ):
        with pytest.raises(Invalid, match="worker name"):
            call()
    with pytest.raises(Invalid, match="id"):
        store.stop(["a\0"])
    store.close()
