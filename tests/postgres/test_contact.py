"""Outages, deadlines and neighbours: an outage takes no claim, a silent server no verb's time, a stranger nothing."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from relay import Relay
from waits import PATIENCE, until

from taskpit import keeper
from taskpit.config import Config
from taskpit.errors import Lost, Storage, Unavailable, Unknown
from taskpit.model import End, Result, Said, State, Task, Try, Verdict, Want
from taskpit.queue import Queue
from taskpit.store.postgres import database
from taskpit.store.postgres.address import parse
from taskpit.store.postgres.store import PostgresStore

#: Decided by how fast a busy machine is.
timed = pytest.mark.races

LEASE = 1.0


def another(store):
    return PostgresStore(parse(store.address.whole))


def claimed(store, lease=LEASE, **words):
    store.put([Task(id="A", title="a")])
    (claim,) = store.claim(Want(worker="w", lease=lease, **words))
    return claim


def outlive(claim, leases=1.5):
    """The lease ends while nothing can be asked: only time passes."""
    time.sleep(leases * claim.lease)


@pytest.fixture
def holder(alone):
    store = alone.queue()
    yield store
    store.close()


@timed
def test_a_frozen_server_takes_no_claim_from_its_holder(alone, holder):
    """The keeper, and one that was never there before, are asked first after the thaw."""
    keeper_of = another(holder)
    claim = claimed(holder)
    lock = holder.lock("deploy", "w", LEASE)
    assert keeper_of.lapsed() == []
    with alone.frozen():
        outlive(claim)
    assert keeper_of.lapsed() == []
    fresh = another(holder)
    assert fresh.lapsed() == []
    with pytest.raises(Lost):
        fresh.lock("deploy", "x", LEASE)
    assert holder.renew([claim], LEASE) == [Said.OK]
    assert holder.relock(lock, LEASE) is Said.OK
    until(lambda: len(fresh.lapsed()) == 1)  # nothing renews it any more
    until(lambda: len(keeper_of.lapsed()) == 1)
    keeper_of.close()
    fresh.close()


@timed
def test_a_keeper_that_was_cut_off_alone_waits_for_one_lease(alone, holder):
    """Others kept their contact, so the server knows of no outage; a holder on the keeper's network may come back."""
    elsewhere, claim = another(holder), claimed(holder)
    keeper_of = another(holder)
    elsewhere.join("elsewhere", LEASE)
    assert keeper_of.lapsed() == []
    keeper_of.database.contact.failed()
    outlive(claim)
    until(lambda: [lapse.claim.fence for lapse in elsewhere.lapsed()] == [claim.fence])
    assert keeper_of.lapsed() == []
    until(lambda: len(keeper_of.lapsed()) == 1)
    keeper_of.close()
    elsewhere.close()


@timed
def test_a_lone_sweep_notes_a_claim_and_one_a_lease_later_reclaims_it(server):
    store = server.queue()
    claim = claimed(store, 0.5)
    outlive(claim)
    with contextlib.closing(another(store)) as first:
        assert first.lapsed(dry_run=True) == []
        assert first.lapsed() == []
    outlive(claim)
    with contextlib.closing(another(store)) as second:
        assert [lapse.claim.fence for lapse in second.lapsed()] == [claim.fence]
    store.close()


@timed
def test_a_holder_that_renews_after_a_lone_sweep_keeps_its_claim(server):
    store = server.queue()
    claim = claimed(store, 0.5)
    outlive(claim)
    with contextlib.closing(another(store)) as first:
        assert first.lapsed() == []
    outlive(claim)
    assert store.renew([claim], 0.5) == [Said.OK]
    outlive(claim)
    with contextlib.closing(another(store)) as second:
        assert second.lapsed() == []  # it is noted anew: the first note was for the lease before
    store.close()


@timed
def test_a_single_sweep_reclaims_where_a_pool_keeps_contact(server):
    store, pool = server.queue(), None
    lease = 4.0  # a busy machine lets the pool note contact within a tenth of it
    pool = another(store)
    pool.join("pool", lease)
    claim = claimed(store, lease)
    until(lambda: store.clock.now() > claim.since + 2 * lease)
    with contextlib.closing(another(store)) as sweeper:
        assert [lapse.claim.fence for lapse in sweeper.lapsed()] == [claim.fence]
    pool.close()
    store.close()


def test_a_keeper_that_joined_nothing_keeps_contact_too(server):
    """As a gateway does, whose sweeps are further apart than the tenth of a short lease."""
    store = server.queue(config=Config(lease=1.0))
    store.lapsed()
    store.lapsed()
    noted = f"SELECT at FROM {store.database.schema}.contact"
    before = server.sql(noted)
    until(lambda: server.sql(noted) != before)
    store.close()


@timed
def test_the_name_of_a_worker_that_is_gone_is_free_after_an_outage_and_one_lease(server):
    """Of a worker on another machine, which cannot be looked at."""
    store = server.queue()
    store.join("w", 0.5)
    store._contact.close()
    server.sql(f"UPDATE {store.database.schema}.member SET host = 'elsewhere'")
    time.sleep(1.0)
    for tries in range(2):
        with contextlib.closing(another(store)) as other:
            if tries == 0:
                with pytest.raises(Lost):
                    other.join("w", 0.5)
                time.sleep(1.0)
            else:
                other.join("w", 0.5).leave()
    store.close()


class RenewedMeanwhile:
    """The store as a keeper sees it whose holder renews just after the keeper has looked."""

    def __init__(self, store, claim):
        self._store, self._claim = store, claim

    def lapsed(self, *, dry_run=False):
        found = self._store.lapsed(dry_run=dry_run)
        assert self._store.renew([self._claim], 60.0) == [Said.OK]
        return found

    def __getattr__(self, name):
        return getattr(self._store, name)


def test_a_sweep_ends_no_process_of_a_claim_that_was_renewed(server):
    store, signalled = server.queue(), []
    store.put([Task(id="A", title="a")])
    (claim,) = store.claim(Want(worker="w", lease=-1.0))
    queue = Queue(RenewedMeanwhile(store, claim), Config(), store.clock)

    def ended(_queue, claim):
        signalled.append(claim.fence)
        return True

    assert keeper.give_back(queue, ended=ended) == []
    assert signalled == []
    (card,) = store.read(["A"])
    assert (card.state, card.worker, card.tries, card.late) == (State.CLAIMED, claim.fence, (), ())
    store.close()


# -- functions of another login --------------------------------------------------------------------

#: Each takes exactly what ours pass, where the server's own takes any type: found first, it would be chosen.
DECOYS = """
    CREATE TABLE {at}.ran (who text);
    GRANT ALL ON {at}.ran TO PUBLIC;
    CREATE FUNCTION {at}.cardinality(text[]) RETURNS int LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO {at}.ran VALUES (current_user); RETURN pg_catalog.cardinality($1); END $$;
    CREATE FUNCTION {at}.unnest(text[]) RETURNS SETOF text LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO {at}.ran VALUES (current_user); RETURN QUERY SELECT pg_catalog.unnest($1); END $$;
    CREATE FUNCTION {at}.seen(text[], text) RETURNS text[] LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO {at}.ran VALUES (current_user); RETURN $1 || $2; END $$;
    CREATE AGGREGATE {at}.array_agg(text) (SFUNC = {at}.seen, STYPE = text[]);
"""


@pytest.mark.parametrize("pooled", ["", "1"], ids=["direct", "pooled"])
def test_no_function_of_another_login_runs_as_the_worker(server, pooled):
    server.sql("DO $$ BEGIN CREATE ROLE stranger LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
    server.sql("CREATE SCHEMA decoys; GRANT ALL ON SCHEMA decoys TO stranger, PUBLIC")
    try:
        server.sql(f"SET ROLE stranger; {DECOYS.format(at='decoys')}")
        words = {"pgbouncer": "1"} if pooled else {}
        server.sql("ALTER ROLE least SET search_path = decoys, pg_catalog")  # as a schema of its own name would be
        store = server.queue(**words)
        store.put([Task(id="N", title="n")])
        store.put([Task(id=name, title=name, tags=("t",), needs=("N",)) for name in "AB"])
        claims = store.claim(Want(worker="w", lease=60.0, count=9))
        store.read(["A", "B", "N"])
        store.renew(claims, 60.0)
        store.turn([], [Want(worker="w", lease=60.0, tags=("t",))])
        store.lapsed()
        store.check()
        store.close()
        assert server.sql("SELECT * FROM decoys.ran") == []
    finally:
        server.sql("ALTER ROLE least RESET search_path")
        server.sql("DROP SCHEMA decoys CASCADE")


# -- servers that do not answer ----------------------------------------------------------------------


@pytest.fixture
def hurried(monkeypatch):
    """Verbs have a second, not thirty."""
    monkeypatch.setattr(database, "DEADLINE", 1.0)


@timed
def test_a_verb_fails_in_time_while_the_server_is_frozen(alone, hurried):
    store = alone.queue(patience="0s")
    claim = claimed(store, 60.0)
    with alone.frozen():
        for call in (store.counts, lambda: store.renew([claim], 60.0)):
            with pytest.raises((Unavailable, Unknown)) as refused:
                call()
            assert refused.value.exit_code == 8
    assert store.renew([claim], 60.0) == [Said.OK]
    store.close()


@timed
def test_a_verb_fails_in_time_behind_a_network_that_swallows(server, hurried):
    relay = Relay(server.root)
    store = server.queue(host=relay.place, patience="0s")
    claim = claimed(store, 60.0)
    with relay.swallowing():
        with pytest.raises(Unknown):
            store.finish([End(claim=claim)])
        with pytest.raises(Unavailable):
            store.counts()
    assert store.finish([End(claim=claim)]) in ([Said.OK], [Said.ALREADY])
    assert store.read(["A"])[0].state is State.READY
    store.close()
    relay.close()


def test_too_many_connections_are_named_and_tried_again(server):
    server.sql("DO $$ BEGIN CREATE ROLE least LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
    server.sql("ALTER ROLE least CONNECTION LIMIT 1")
    try:
        store = server.queue(patience="0s")
        with pytest.raises(Unavailable, match="no connection left"):
            another(store)
        waiting = parse(store.address.whole.replace("patience=0s", "patience=60s"))
        with ThreadPoolExecutor(1) as pool:
            opening = pool.submit(PostgresStore, waiting)
            assert not opening.done()
            store.close()
            opening.result(PATIENCE).close()
    finally:
        server.sql("ALTER ROLE least CONNECTION LIMIT -1")


def test_prepared_statements_that_a_pooler_lost_are_named(server):
    store = server.queue(pgbouncer="0")
    for _ in range(7):
        store.counts()
    (session,) = store.database._spare
    session.pgconn.exec_(b"DEALLOCATE ALL")
    with pytest.raises(Storage) as refused:
        store.counts()
    assert "leave pgbouncer=0 out" in refused.value.hint
    store.close()


def test_a_login_without_rights_stops_nothing(server):
    """It may hold any advisory lock, and none that a verb waits for."""
    store = server.queue()
    server.sql("DO $$ BEGIN CREATE ROLE stranger LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
    tables = [row[0] for row in server.sql("SELECT oid::int FROM pg_class WHERE relkind = 'r'")]
    with psycopg.connect(server.address().replace("//pit@", "//stranger@"), autocommit=True) as stranger:
        for number in (1953720679, 1953720680, 1953720681):
            for table in tables:
                stranger.execute("SELECT pg_advisory_lock(%s, %s)", [number, table])
        for table in ("floor", "turn", "tally", "ready"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), stranger.transaction():
                stranger.execute(f"LOCK TABLE {store.database.schema}.{table} IN ACCESS SHARE MODE")
        claim = claimed(store, 60.0)
        store.put([Task(id="B", title="b", touches=("x",))])
        (other,) = store.claim(Want(worker="w", lease=60.0))
        assert store.finish([End(claim=claim), End(claim=other)]) == [Said.OK, Said.OK]
    store.close()


def test_a_refused_judge_leaves_no_late_result(server):
    store = server.queue()
    store.put([Task(id="A", title="a")])
    (claim,) = store.claim(Want(worker="w", lease=-1.0))
    (lapse,) = store.lapsed()
    store.renew([claim], 60.0)
    lost = Try(at=0.0, worker=claim.fence, kind="lost", error=lapse.reason, counted=False)
    for _ in range(2):
        assert store.finish([End(claim=lapse.claim, attempt=lost)]) == [Said.LOST]
    assert store.read(["A"])[0].late == ()
    assert [event.action for event in store.events()[0]] == ["added_task", "claimed_task"]
    store.close()


def test_counts_follow_every_verb(server):
    """And the fold, which keeps their rows few."""
    store = server.queue()
    store.put([Task(id=f"T{number}", title="t") for number in range(1200)])
    claims = store.claim(Want(worker="w", lease=60.0, count=700))
    results = [End(claim=c, result=Result(id=c.task.id, verdict=Verdict.DONE, worker=c.fence)) for c in claims[:600]]
    assert set(store.finish(results)) == {Said.OK}
    failed = claims[600]
    store.finish([End(claim=failed, result=Result(id=failed.task.id, verdict=Verdict.FAILED, worker=failed.fence))])
    expected = {State.READY: 500, State.CLAIMED: 99, State.DONE: 600, State.FAILED: 1}
    assert store.counts() == expected
    for _ in range(3):
        store._ask("fold")
        assert store.counts() == expected
    assert store.reopen([failed.task]) == [Said.OK]
    assert store.counts() == expected | {State.READY: 501, State.FAILED: 0}
    assert store.check() == []
    server.sql(f"INSERT INTO {store.database.schema}.tally VALUES (5, 0, 0)")
    assert [mend.kind for mend in store.check()] == ["miscounted"]
    assert [mend.kind for mend in store.fix()] == ["miscounted"]
    assert store.counts() == expected | {State.READY: 501, State.FAILED: 0}
    store.close()
