"""Who sleeps is woken; nobody is rung for who does not sleep; where nobody can be woken one looks now and then."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from waits import PATIENCE

from taskpit.model import End, Result, Task, Verdict, Want
from taskpit.store.postgres import listen


@pytest.fixture
def store(server):
    store = server.queue()
    yield store
    store.close()


@pytest.fixture
def ear(store):
    """Somebody who listens and does not say so."""
    with psycopg.connect(store.address.server, autocommit=True) as line:
        line.execute(f"LISTEN {store._listener.channel}")
        yield line


def asleep(store):
    """The store's waiter is noted and would sleep now."""
    assert store.wait(0.0)
    assert store.wait(listen.POLL)  # what was under way is over


def heard(line, least=0):
    """How often it rang: waits for so many, and a moment for more."""
    rings = list(line.notifies(timeout=PATIENCE, stop_after=least)) if least else []
    return len(rings) + len(list(line.notifies(timeout=0.05)))


def test_nobody_rings_for_nobody(store, ear):
    store.put([Task(id="A", title="a")])
    assert heard(ear) == 0


def test_the_verb_itself_never_rings(server, store, ear):
    """That would make every commit of the server wait for every other; the ring comes after."""
    asleep(store)
    with psycopg.connect(store.address.server) as line:
        line.execute(
            f"SELECT {store.database.schema}.put(%s::jsonb, NULL)",
            [
                '[{"n":0,"id":"A","key":"00","wish":"","doc":"{}","big":false,"held":false,"due":0,"worker":"","details":""}]'
            ],
        )
    assert heard(ear) == 0
    rings = f"PERFORM pg_notify('{store._listener.channel}', ''); rings := 'created'"
    server.mutate(store, ("rings := 'created'", rings))
    store.put([Task(id="B", title="b")])
    assert heard(ear, 1) >= 1


def test_nothing_new_rings_nobody(store, ear):
    asleep(store)
    store.put([Task(id="A", title="a")])
    assert heard(ear, 1) == 1
    store.put([Task(id="A", title="a")])
    claim = store.claim(Want(worker="w", lease=60.0))[0]
    store.finish([End(claim=claim, result=Result(id="A", verdict=Verdict.DONE, worker=claim.fence))])
    assert heard(ear) == 0


@pytest.mark.parametrize("news", ["put", "back", "need", "resume"])
def test_who_sleeps_is_woken(store, monkeypatch, news):
    monkeypatch.setattr(listen, "FALLBACK", 10 * PATIENCE)
    store.put([Task(id="A", title="a"), Task(id="B", title="b", needs=("A",))])
    claim = store.claim(Want(worker="w", lease=60.0))[0]
    if news == "resume":
        store.pause("lunch", 0, "ann")
    asleep(store)
    with ThreadPoolExecutor(1) as pool:
        sleeping = pool.submit(store.wait, 5 * PATIENCE)
        if news == "put":
            store.put([Task(id="C", title="c")])
        elif news == "back":
            store.finish([End(claim=claim)])
        elif news == "resume":
            store.resume("ann")
        else:
            store.finish([End(claim=claim, result=Result(id="A", verdict=Verdict.DONE, worker=claim.fence))])
        assert sleeping.result(PATIENCE) is True


def test_behind_a_pooler_one_looks_now_and_then(server):
    store = server.queue(pgbouncer="1")
    assert store.info().wake_bound == listen.POLL
    assert store.wait(0.01) is True
    assert server.sql(f"SELECT count(*) FROM {store.database.schema}.waiter") == [(0,)]
    line = store.database.connect()
    assert line.prepare_threshold is None
    line.close()
    store.close()


def test_a_pooler_is_noticed(server, monkeypatch):
    """It shows another process than the one that answers."""
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", property(lambda _: 1))
    store = server.queue()
    assert store.database.pooled
    store.close()


def test_no_pooler_no_polling(store):
    assert not store.database.pooled
    assert store.info().wake_bound == listen.FALLBACK


def test_who_leaves_sleeps_no_more(server):
    store = server.queue()
    asleep(store)
    assert server.sql(f"SELECT count(*) FROM {store.database.schema}.waiter") == [(1,)]
    store.close()
    assert server.sql(f"SELECT count(*) FROM {store.database.schema}.waiter") == [(0,)]
