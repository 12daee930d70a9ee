"""A transaction that stays open keeps dead rows from being cleaned away: claims walk over none, and miss nothing."""

from __future__ import annotations

import json
import threading

import psycopg
import pytest
from waits import PATIENCE, until

from taskpit.errors import Unavailable
from taskpit.model import End, Result, Said, State, Task, Verdict, Want
from taskpit.store.postgres import database

LEASE = 60.0
#: A wish as the server is told it: of any sort, and of the simplest.
WANT = json.dumps(
    {"worker": "w", "lease": LEASE, "count": 1, "ids": [], "tags": [], "big": None, "even_held": False}
    | {"verbatim": False, "member": None, "call": "call", "limits": {}}
)
CLAIMS = (
    f"claim('{WANT}'::jsonb, false, NULL)",
    f"claim_one('w', '{{f,t}}', {LEASE}, 'call', NULL, '{{}}', false, NULL)",
)


@pytest.fixture
def store(server):
    store = server.queue()
    store._raised = float("inf")  # only these tests raise the floor
    yield store
    store.close()
    server._spoilt.add(store.address.schema)


def tasks(*numbers, **fields):
    return [Task(id=f"t{number:05d}", title="t", created=1.0, **fields) for number in numbers]


def done(claim):
    return End(claim=claim, result=Result(id=claim.task.id, verdict=Verdict.DONE, worker=claim.fence))


def taken(store, count=1):
    return [claim.task.id for claim in store.claim(Want(worker="w", lease=LEASE, count=count))]


def raise_floor(store, many=10):
    """As a process does that claims, once a second."""
    return store.database.execute(f"SELECT {store.database.schema}.raise_floor({many})")[0][0]


class Held:
    """A snapshot that stays open."""

    def __init__(self, server):
        self.line = psycopg.connect(server.address())
        self.line.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self.line.execute("SELECT pg_current_xact_id()")

    def close(self):
        self.line.close()


@pytest.fixture
def dead(server, store):
    """2,000 tasks that were claimed under a snapshot that is held, then three that are ready."""
    store.put(tasks(*range(2000)))
    held = Held(server)
    for _ in range(4):
        store.claim(Want(worker="w", lease=LEASE, count=500))
    store.put(tasks(3001, 3002, 3003))
    table = f"'{store.database.schema}.ready'::regclass"
    until(lambda: server.sql(f"SELECT pg_stat_get_dead_tuples({table})")[0][0] >= 1000 or _report(store))
    yield held
    held.close()


def _report(store):
    store.database.execute("SELECT pg_stat_force_next_flush()")
    return False


def entries(store, claim):
    """Entries of the index of ready tasks that a claim walks over, dead ones too. What it did is undone."""
    index = f"pg_stat_get_xact_tuples_returned('{store.database.schema}.ready_pkey'::regclass)"
    with psycopg.connect(store.address.server, autocommit=True) as line, line.transaction(force_rollback=True):
        line.execute(f"SELECT * FROM {store.database.schema}.{claim}".encode())
        return line.execute(f"SELECT {index}".encode()).fetchone()[0]


def test_claims_do_not_walk_over_what_cannot_be_cleaned_away(store, dead):
    assert all(entries(store, claim) > 1000 for claim in CLAIMS)
    assert raise_floor(store)
    assert all(entries(store, claim) < 10 for claim in CLAIMS)


def test_what_is_put_before_the_floor_is_found_at_once(store, dead):
    assert raise_floor(store)
    store.put([Task(id="urgent", title="u", priority=9, created=0.5)])
    store.put([Task(id="early", title="e", created=0.6), Task(id="earlier", title="e", created=0.5)])  # in columns
    store.put(
        [
            Task(id="small", title="s", created=0.7, tags=("x",)),
            Task(id="waits", title="w", created=2.0, not_before=1.0),
        ]
    )
    assert taken(store, 4) == ["urgent", "earlier", "early", "small"]
    assert set(taken(store, 9)) == {"t03001", "t03002", "t03003", "waits"}


def test_what_comes_back_or_was_waited_for_is_found(store, dead):
    (first,) = store.claim(Want(worker="w", lease=LEASE))
    assert first.task.id == "t03001"
    store.put([Task(id="after", title="a", created=0.5, needs=("t03002",))])
    (second,) = store.claim(Want(worker="w", lease=LEASE))
    assert raise_floor(store)
    assert store.finish([End(claim=first)]) == [Said.OK]
    assert store.finish([done(second)]) == [Said.OK]
    assert taken(store, 9) == ["after", "t03001", "t03003"]


def test_the_floor_goes_when_the_rows_are_cleaned_away(server, store, dead):
    assert raise_floor(store)
    assert server.sql(f"SELECT count(*) FROM {store.database.schema}.floor")[0][0] == 2
    dead.close()

    def cleaned():
        server.sql(f"VACUUM {store.database.schema}.ready")  # cleans nothing while autovacuum has an older snapshot
        return raise_floor(store) and not server.sql(f"SELECT count(*) FROM {store.database.schema}.floor")[0][0]

    until(cleaned)


def put_half(server, store):
    """A put that is not committed yet, of a task before all others."""
    line = psycopg.connect(server.address())
    from taskpit.store.postgres.rows import as_json, task_item

    item = as_json([task_item(Task(id="first", title="f", priority=9, created=0.5))])
    line.execute(f"SELECT {store.database.schema}.put(%s::jsonb, NULL)".encode(), [item])
    return line


def test_a_floor_is_not_raised_past_a_put_that_is_under_way(server, store, dead):
    line = put_half(server, store)
    assert not raise_floor(store)
    line.commit()
    line.close()
    assert raise_floor(store)
    assert taken(store) == ["first"]


def test_the_naive_floor_misses_it(server, store, dead):
    server.mutate(store, ("    LOCK TABLE {s}.floor IN SHARE ROW EXCLUSIVE MODE NOWAIT;\n", ""))
    line = put_half(server, store)
    assert raise_floor(store)
    line.commit()
    line.close()
    assert taken(store) == ["t03001"]


# -- ends and claims in one call ---------------------------------------------------------------------


def test_ends_and_claims_of_several_workers_in_one_transaction(server, store):
    store.put(tasks(*range(4), tags=("a",)))
    first, second = store.claim(Want(worker="w", lease=LEASE, count=2))
    wants = [Want(worker=f"w{n}", lease=LEASE, tags=tags) for n, tags in enumerate([("a",), ("b",), ("a",), ("a",)])]
    before = server.sql("SELECT pg_current_xact_id()")[0][0]
    said, claims = store.turn([done(first), done(second)], wants)
    after = server.sql("SELECT pg_current_xact_id()")[0][0]

    assert said == [Said.OK, Said.OK]
    assert [[claim.task.id for claim in some] for some in claims] == [["t00002"], [], ["t00003"], []]
    assert [some[0].fence.partition("~")[0] for some in claims if some] == ["w0", "w2"]
    assert int(after) - int(before) == 2  # the turn, and our own second look
    assert store.counts()[State.DONE] == 2


@pytest.mark.parametrize(("ends", "mode"), [(True, "on"), (False, "off")])
def test_what_has_ended_is_on_the_disk_when_the_turn_answers(store, ends, mode):
    from taskpit.store.postgres.rows import as_json, end_item

    store.put(tasks(1, 2))
    (claim,) = store.claim(Want(worker="w", lease=LEASE))
    told = as_json([end_item(done(claim), 0, 0.0)] if ends else [])
    with psycopg.connect(store.address.server) as line:
        sql = f"SELECT * FROM {store.database.schema}.turn(%s::jsonb, %s::jsonb, false, NULL)"
        assert len(line.execute(sql.encode(), [told, f"[{WANT}]"]).fetchall()) == 1 + ends
        assert line.execute("SHOW synchronous_commit").fetchone()[0] == mode


def test_a_turn_whose_answer_got_lost_is_the_same_again(store):
    store.put(tasks(1, 2))
    (claim,) = store.claim(Want(worker="w", lease=LEASE))
    wish = Want(worker="w", lease=LEASE, call="cabcdefgh")
    first = store.turn([done(claim)], [wish])
    execute = store.database.execute
    store.database.execute = lambda sql, values, **more: execute(sql.replace("%(again)s", "true"), values, **more)
    again = store.turn([done(claim)], [wish])

    assert again[0] == first[0] == [Said.OK]
    assert [one.fence for one in again[1][0]] == [one.fence for one in first[1][0]]


def test_renewals_of_many_in_one_call_each_with_its_answer(store):
    store.put(tasks(*range(50)))
    claims = store.claim(Want(worker="w", lease=LEASE, count=50))
    store.stop([claims[7].task.id])
    held = [*reversed(claims), claims[3].replace(fence="w~other"), claims[0]]
    said = store.renew(held, LEASE)

    assert [said[n] for n in (0, 42, 50, 51)] == [Said.OK, Said.CANCEL, Said.LOST, Said.OK]
    assert said.count(Said.OK) == 50


# -- how long a verb may take --------------------------------------------------------------------------


@pytest.mark.races
def test_a_verb_that_takes_for_ever_is_undone_and_told(server, monkeypatch):
    monkeypatch.setattr(database, "STATEMENT", 1.0)
    store = server.queue()
    store.put(tasks(1))
    server.mutate(store, ("    IF NOT w_later THEN\n", "    PERFORM pg_sleep(600);\n    IF NOT w_later THEN\n"))
    with pytest.raises(Unavailable, match="gave up"):
        store.claim(Want(worker="w", lease=LEASE))
    assert store.counts()[State.READY] == 1
    assert store.database.execute("SELECT pg_sleep(1.1)", slow=True)
    store.close()


@pytest.mark.races
def test_a_lock_that_others_keep_is_told_once_patience_is_over(server, monkeypatch):
    """A verb waited fifty times for it, in silence; one that has no function waited as long as a statement may take."""
    monkeypatch.setattr(database, "STATEMENT", 10.0)
    monkeypatch.setattr(database, "LOCK", 0.1)
    store = server.queue(patience="0s")
    name = store.database.schema
    server._spoilt.add(store.address.schema)
    server.sql(f"ALTER FUNCTION {name}.put_one SET lock_timeout = '100ms'")
    with psycopg.connect(server.address()) as other:
        other.execute(f"LOCK TABLE {name}.task IN ACCESS EXCLUSIVE MODE")
        for call in (lambda: store.resolve("t"), lambda: store.put(tasks(1)), lambda: store.allot([""])):
            with pytest.raises(Unavailable, match="transactions were in the way 1 times"):
                call()
    assert store.put(tasks(1)) == [Said.CREATED]
    store.close()


def test_every_hot_verb_is_planned_for_large_tables_and_waits_for_no_lock_for_ever(server):
    store = server.queue()
    verbs = server.sql(
        "SELECT proname FROM pg_proc WHERE pronamespace = %s::regnamespace AND 'lock_timeout=5s' = ANY (proconfig)",
        store.address.schema,
    )
    assert {verb for (verb,) in verbs} >= {"put", "put_one", "put_plain", "claim_one", "finish", "renew", "turn_one"}
    store.close()


def test_another_limit_that_somebody_has_set_stays(server):
    store = server.queue(options="-cstatement_timeout%3D7s%20-clock_timeout%3D3s")
    assert store.database.execute("SHOW statement_timeout") == [("7s",)]
    assert store.database.execute("SHOW lock_timeout") == [("3s",)]
    store.close()
    store = server.queue()
    assert store.database.execute("SHOW statement_timeout") == [("25s",)]
    assert store.database.execute("SHOW lock_timeout") == [("5s",)]
    store.close()


def test_a_pool_that_is_too_old_by_now_is_told_so_while_it_works(server):
    """The version is asked again with each sweep, not only when a queue is opened."""
    from taskpit.errors import Storage

    store = server.queue()
    store.put(tasks(1))
    server.sql(f"UPDATE {store.database.schema}.meta SET version = 99, serves = 99")
    server._spoilt.add(store.address.schema)
    with pytest.raises(Storage, match="newer taskpit"):
        store.lapsed()
    store.close()


def test_putters_and_claimers_at_once_miss_nothing_while_the_floor_moves(server, store, dead):
    """Eight threads put and claim, one raises the floor all the time."""
    over, got, lock = threading.Event(), [], threading.Lock()

    def put(number):
        for turn in range(20):
            store.put([Task(id=f"p{number}-{turn}", title="p", priority=turn % 5, created=float(turn % 3))])

    def claim():
        while not over.is_set():
            some = taken(store, 3)
            with lock:
                got.extend(some)

    def lift():
        while not over.is_set():
            raise_floor(store)

    threads = [threading.Thread(target=put, args=(n,)) for n in range(4)]
    others = [threading.Thread(target=claim) for _ in range(3)] + [threading.Thread(target=lift)]
    for thread in (*threads, *others):
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    until(lambda: len(got) >= 83)
    over.set()
    for thread in others:
        thread.join(PATIENCE)
    assert len(got) == len(set(got)) == 83
