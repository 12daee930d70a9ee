"""A large backlog costs nothing: how many rows each verb looks at is counted, not how long it takes.

Plans are kept by a session: each is made here while the tables are nearly empty, and used when they are full.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256

import psycopg
import pytest
from pgservers import LEAST
from waits import until

from taskpit.config import Config
from taskpit.keeper import sweep
from taskpit.model import Claim, End, Result, Said, State, Task, Verdict, Want
from taskpit.queue import Queue
from taskpit.store.postgres import upkeep
from taskpit.store.postgres.rows import as_json, end_item, plain_row, task_item
from taskpit.testing import FakeClock

LONG = bool(os.environ.get("TASKPIT_LONG"))
#: How many tasks wait; the million of docs/postgres.md where the verbs are counted, which takes half a minute to make.
MANY, MOST = (200_000, 1_000_000) if LONG else (10_000, 10_000)
#: No verb on one task looks at more rows than this.
FEW = 60


@pytest.fixture
def session(store):
    session = Session(store)
    yield session
    session.line.close()


@pytest.fixture
def store(server):
    store = server.queue()
    yield store
    store.close()
    server._spoilt.add(store.address.schema)


class Session:
    """One session that keeps its plans, and counts the rows a verb looks at."""

    def __init__(self, store):
        self.schema = store.database.schema
        self.name = store.address.schema
        self.line = psycopg.connect(store.address.server, autocommit=True)

    def rows(self, sql, *words):
        """How many rows it looked at; what it did is undone."""
        with self.line.transaction(force_rollback=True):
            before = self._seen()
            self.line.execute(sql.replace("{s}", self.schema).encode(), words)
            return self._seen() - before

    def _seen(self):
        found = self.line.execute(
            "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables "
            "WHERE schemaname = %s",
            [self.name],
        ).fetchone()
        return int(found[0] or 0)


def want(**fields):
    usual = {"worker": "w", "lease": 60.0, "count": 1, "ids": [], "tags": [], "big": None, "even_held": False}
    return json.dumps({**usual, "verbatim": False, "member": None, "call": "call", **fields})


CLAIM = "SELECT * FROM {s}.claim(%s::jsonb, false, NULL)"


def test_how_many_rows_each_verb_looks_at(server, store, session):
    store.put([Task(id="one", title="one", tags=("tag1", "other"), created=1.0)])
    claim = Claim(task=Task(id="held", title="held"), worker="w", fence="w")
    store.put([claim.task])
    (claim,) = store.claim(Want(worker="w", lease=60.0, ids=("held",)))
    end = End(claim=claim, result=Result(id="held", verdict=Verdict.DONE, worker=claim.fence))
    new = Task(id="new", title="new", needs=("held",), tags=("tag1",))
    other = Task(id="other", title="other", needs=("N4", "N5", "unknown"))
    lost = end_item(End(claim=claim.replace(task=Task(id="one", title="one"), fence="old")), 1, 0.0)
    back = end_item(End(claim=claim.replace(fence="older")), 2, 0.0)
    task_id, big, key, wish, doc, by, title = plain_row(Task(id="plain", title="plain"))
    ending = end_item(end, 0, 0.0)
    fields = ("id", "fence", "mark", "seen", "verdict", "result", "attempt", "action", "details")
    wanted = ("w", [False, True], 60.0, "call", None, "{}")
    verbs = {
        "claim": (CLAIM, want()),
        "one": ("SELECT {s}.claim_one(%s, %s, %s, %s, %s, %s::jsonb, false, NULL)", *wanted),
        "an end and one": (
            f"SELECT {{s}}.turn_one({'%s, ' * 14}%s::jsonb, false, NULL)",
            *(ending[field] for field in fields),
            *wanted,
        ),
        "put one": ("SELECT {s}.put_one(%s, %s, %s, %s, %s, %s, %s, NULL)", task_id, big, key, wish, doc, by, title),
        "plain puts": (
            "SELECT {s}.put_plain(%s::jsonb, NULL)",
            as_json([(task_id, big, key.hex(), wish.hex(), doc, by, title)]),
        ),
        "small ones": (CLAIM, want(big=False)),
        "by tags": (CLAIM, want(tags=["tag0", "tag1", "tag2", "nobody"])),
        "by id": (CLAIM, want(ids=["N4"])),
        "put": ("SELECT {s}.put(%s::jsonb, NULL)", as_json([task_item(new)])),
        "finish": ("SELECT {s}.finish(%s::jsonb, false, NULL)", as_json([end_item(end, 0, 0.0)])),
        "renew": ("SELECT {s}.renew(%s::jsonb, 60, NULL)", as_json([("held", claim.fence)])),
        "several": (CLAIM, want(count=5)),
        "several puts": ("SELECT {s}.put(%s::jsonb, NULL)", as_json([task_item(new), task_item(other, 1)])),
        "several ends": ("SELECT {s}.finish(%s::jsonb, false, NULL)", as_json([end_item(end, 0, 0.0), lost, back])),
        "said before": ("SELECT {s}.finish(%s::jsonb, false, NULL)", as_json([lost])),
    }
    for (table,) in server.sql("SELECT tablename FROM pg_tables WHERE schemaname = %s", store.address.schema):
        server.sql(f"VACUUM ANALYZE {store.database.schema}.{table}")  # now every table is known to be tiny
    for _ in range(7):  # each plan is made and kept
        for sql, *words in verbs.values():
            session.rows(sql, *words)
    server.fill(store, MOST)
    looked = {name: session.rows(sql, *words) for name, (sql, *words) in verbs.items()}
    assert {name: rows for name, rows in looked.items() if rows > FEW} == {}
    assert looked["claim"] > 0
    assert looked["one"] > 0


def test_what_sessions_used_is_counted_when_they_have_ended(server):
    """A calm run's database was busy for less than no time: processes that ended took their seconds along."""
    before = server.cpu()
    with psycopg.connect(server.address()) as line:
        line.execute("SELECT count(*) FROM generate_series(1, 3000000)")
    until(lambda: server.cpu() - before >= 0.1)
    seen = [server.cpu() for _ in range(5)]
    assert seen == sorted(seen)


def test_the_naive_claim_by_tags_looks_at_everything(server, store, session):
    server.mutate(
        store,
        ("FROM {s}.ready_tag g, LATERAL", "FROM (SELECT wanted.tag, lane.big) g, LATERAL"),
        ("r.big = g.big AND r.key = g.key", "r.big = g.big AND g.tag = ANY (r.tags)"),
        ("ORDER BY g.key LIMIT", "ORDER BY one.key LIMIT"),
        (" AND g.key > p_after AND g.key >= {s}.floor_of(lane.big)", ""),
    )
    server.fill(store, MANY)
    assert session.rows(CLAIM, want(tags=["nobody"])) >= MANY


def test_what_stands_aside_is_not_walked_past(store, session):
    """Behind one path, behind others that it covers, behind a limit: a claim beside them looks at a few rows."""
    many = 3000 if LONG else 500
    store.put([Task(id="first", title="first", touches=("src/*",), limits=("staging=1",), priority=2)])
    (claim,) = store.claim(Want(worker="w", lease=60.0))
    store.put([Task(id=f"T{n}", title="t", touches=("src/a",), priority=1) for n in range(many)])
    store.put([Task(id=f"L{n}", title="l", limits=("staging=1",), tags=("x",), priority=1) for n in range(many)])
    store.put([Task(id=f"U{n}", title="u", touches=(f"src/u{n}",), priority=1) for n in range(100)])
    store.put([Task(id="free", title="free")])
    first = session.rows(CLAIM, want())  # the first that meets them lets them stand aside, each once
    assert 2 * many < first < 60 * many
    (free,) = store.claim(Want(worker="w", lease=60.0))
    assert free.task.id == "free"
    store.put([Task(id="free2", title="free")])
    store.put([Task(id="Tz", title="t", touches=("src/a",), priority=1)])
    looked = {
        "claim": session.rows(CLAIM, want()),
        "tagged": session.rows(CLAIM, want(tags=["x"])),
        "end": session.rows(
            "SELECT {s}.finish(%s::jsonb, false, NULL)",
            as_json([end_item(End(claim=free, result=Result(id="free", verdict=Verdict.DONE)), 0, 0.0)]),
        ),
    }
    assert {name: rows for name, rows in looked.items() if rows > FEW} == {}
    end = End(claim=claim, result=Result(id="first", verdict=Verdict.DONE, worker=claim.fence))
    assert store.finish([end]) == [Said.OK]
    assert session.rows(CLAIM, want()) <= FEW
    got = [one.task.id for one in store.claim(Want(worker="w", lease=60.0, count=2 * many))]
    assert sorted(got) == sorted(["T0", "L0", "free2", *(f"U{n}" for n in range(100))])
    assert store.counts()[State.READY] == 2 * many - 1  # Tz among them
    assert store.check() == []


def test_pages_look_at_their_own_rows(server, store, session):
    server.fill(store, MANY)
    page = 100
    after = bytes.fromhex("7fffffffffffffff8000000000000000") + (5000).to_bytes(8, "big")
    for letter in "rd":
        assert 0 < session.rows("SELECT * FROM {s}.places(%s, %s, %s)", letter, after, page) <= 3 * page
    first = store.page(State.READY, limit=page)
    second = store.page(State.READY, first.cursor, limit=page)
    assert [card.task.id for card in second.cards] == [f"N{n}" for n in range(2 * page + 2, 4 * page + 2, 2)]


# -- a transaction that stays open -----------------------------------------------------------------


def _buffers(store):
    """How many pages finding the head takes."""
    with psycopg.connect(store.address.server, autocommit=True) as line:
        line.execute("SET enable_seqscan = off")
        (plan,) = line.execute(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT key FROM {store.database.schema}.ready WHERE big = false "
            "ORDER BY key LIMIT 1"
        ).fetchone()
    top = plan[0]["Plan"]
    return top["Shared Hit Blocks"] + top["Shared Read Blocks"]


def test_dead_rows_go_once_the_old_transaction_is_over(server, store):
    """While it stays open nobody can clean; the first sweep after it does, not some time later."""
    life = 3000
    # The server's own cleaning would have the table in the moment of the sweep, which then passes by it.
    server.sql(f"ALTER TABLE {store.database.schema}.ready SET (autovacuum_enabled = false)")
    if int(server.sql("SHOW server_version_num")[0][0]) < 17_00_00:  # there only its owner may clean a table
        server.sql(f"ALTER TABLE {store.database.schema}.ready OWNER TO {LEAST}")
    with psycopg.connect(store.address.server) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM pg_class")
        store.put([Task(id=f"T{n}", title="t") for n in range(life + 1)])
        claims = store.claim(Want(worker="w", lease=60.0, count=life))
        store.finish([End(claim=c, result=Result(id=c.task.id, verdict=Verdict.DONE, worker=c.fence)) for c in claims])
        held_up = _buffers(store)
    store.database.drop()  # what a session did is counted when it ends
    counted = "SELECT 1 FROM pg_stat_user_tables WHERE schemaname = %s AND relname = 'ready' AND n_dead_tup > 2000"
    until(lambda: server.sql(counted, store.address.schema))
    others = "SELECT 1 FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()"
    until(lambda: not server.sql(others))  # such as the server's own, which counts a large table of another test
    store.compost()
    assert _buffers(store) < held_up / 3
    assert len(store.claim(Want(worker="w", lease=60.0))) == 1


def test_a_sweep_does_not_look_at_everything(server, store, monkeypatch):
    """It comes every few seconds, from every pool."""
    server.fill(store, MANY)
    seen = []
    real = store.database.execute

    def ask(sql, words=None, **more):
        with psycopg.connect(store.address.server) as line:
            line.execute(sql.replace("{s}", store.database.schema).encode(), {**(words or {}), "again": False})
            rows = line.execute(
                "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables "
                "WHERE schemaname = %s",
                [store.address.schema],
            ).fetchone()
            line.rollback()
        seen.append(int(rows[0] or 0))
        return real(sql, words, **more)

    monkeypatch.setattr(upkeep, "DEAD", 1 << 60)  # cleaning is no looking
    monkeypatch.setattr(store.database, "execute", ask)
    assert sweep(Queue(store)) == []
    assert len(seen) >= 3
    assert max(seen) <= FEW


# -- results of long ago ---------------------------------------------------------------------------


def test_old_results_leave_how_they_ended(server):
    """Those of done tasks after one time, of failed ones after another; none before, and each once."""
    clock = FakeClock()
    day = 86400.0
    store = server.queue(clock=clock, config=Config(keep_results=7 * day, keep_failed=30 * day))
    store.put(
        [Task(id=name, title=name) for name in ("done", "failed", "young")] + [Task(id="B", title="b", needs=("done",))]
    )

    def end(name, verdict):
        (claim,) = store.claim(Want(worker="w", lease=60.0, ids=(name,)))
        store.keep_artifact(claim, "a.txt", name.encode(), sha256(name.encode()).hexdigest())
        store.add_log(claim, 0, b"never ended")
        result = Result(id=name, verdict=verdict, worker=claim.fence, output="long", reason="r", finished=clock.now())
        assert store.finish([End(claim=claim, result=result)]) == [Said.OK]

    end("done", Verdict.DONE)
    end("failed", Verdict.CANCELLED)
    clock.advance(6 * day)
    end("young", Verdict.DONE)
    assert store.compost() == []
    clock.advance(2 * day)
    assert [mend.what for mend in store.compost(dry_run=True)] == ["done"]
    assert [mend.what for mend in store.compost()] == ["done"]
    assert store.compost() == []
    done, failed, young = store.read(["done", "failed", "young"])
    assert (done.state, done.result.verdict, done.result.output) == (State.DONE, Verdict.DONE, "")
    assert (failed.result.output, young.result.output) == ("long", "long")
    kept = [[one.name for one in store.artifacts(name)] for name in ("done", "failed", "young")]
    assert kept == [[], ["a.txt"], ["a.txt"]]
    assert store.put([Task(id="done", title="done")]) == [Said.EXISTS]
    clock.advance(23 * day)
    assert sorted(mend.what for mend in store.compost()) == ["failed", "young"]
    assert store.read(["failed"])[0].result.verdict is Verdict.CANCELLED
    assert len(store.claim(Want(worker="w", lease=60.0, ids=("B",)))) == 1
    assert store.artifacts("young") == []
    assert server.sql(f"SELECT count(*) FROM {store.database.schema}.printed") == [(0,)]  # of runs that never ended
    store.close()
