"""An outage without a restart takes no claim from its holder, and a sweep asks the store before it ends a process."""

from __future__ import annotations

import contextlib
import time

import pytest
from waits import until

from taskpit import keeper
from taskpit.config import Config
from taskpit.errors import Lost
from taskpit.model import Said, State, Task, Want
from taskpit.queue import Queue
from taskpit.store.postgres.address import parse
from taskpit.store.postgres.store import PostgresStore

pytestmark = pytest.mark.races

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


def test_a_keeper_that_was_cut_off_alone_waits_for_one_lease(alone, holder):
    """Others kept their contact, so the server knows of no outage; a holder on the keeper's network may come back."""
    elsewhere, claim = another(holder), claimed(holder)
    keeper_of = another(holder)
    elsewhere.join("elsewhere", LEASE)
    assert keeper_of.lapsed() == []
    keeper_of.database.contact.failed()
    outlive(claim)
    assert [lapse.claim.fence for lapse in elsewhere.lapsed()] == [claim.fence]
    assert keeper_of.lapsed() == []
    until(lambda: len(keeper_of.lapsed()) == 1)
    keeper_of.close()
    elsewhere.close()


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
