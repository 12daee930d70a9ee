"""Races between transactions, forced: one stands still in the middle of a verb while the other goes on.

Each is run on the naive way as well, which must be caught.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from gateways import Served
from waits import PATIENCE

from taskpit.actions import undo
from taskpit.model import End, Event, Result, Said, State, Task, Try, Verdict, Want
from taskpit.queue import Queue
from taskpit.store.postgres import base, changelog
from taskpit.store.postgres.rows import as_json, end_item, task_item
from taskpit.transfer import events_of

RACES = 400 if os.environ.get("TASKPIT_LONG") else 20


def task(name, **fields):
    return Task(id=name, title=name, **fields)


def take(store, *ids, worker="snake", **want):
    return store.claim(Want(worker=worker, lease=60.0, ids=ids, count=len(ids) or 1, **want))


def done(claim):
    return End(claim=claim, result=Result(id=claim.task.id, verdict=Verdict.DONE, worker=claim.fence))


class Half:
    """A verb that has been carried out and is not committed."""

    def __init__(self, store, sql, value):
        self.line = psycopg.connect(store.address.server)
        self.line.execute(sql.replace("{s}", store.database.schema).encode(), [as_json(value)])

    @classmethod
    def put(cls, store, *tasks):
        return cls(store, "SELECT {s}.put(%s::jsonb, NULL)", [task_item(one, n) for n, one in enumerate(tasks)])

    @classmethod
    def finish(cls, store, *ends):
        return cls(
            store, "SELECT {s}.finish(%s::jsonb, false, NULL)", [end_item(one, n, 0.0) for n, one in enumerate(ends)]
        )

    def commit(self):
        self.line.commit()
        self.line.close()


def meanwhile(server, half, act):
    """`act` begins while the other verb stands still, and ends after it was committed if it must wait for it."""
    before = server.waiting()
    with ThreadPoolExecutor(1) as pool:
        acting = pool.submit(act)
        deadline = time.monotonic() + PATIENCE
        while not acting.done() and server.waiting() == before and time.monotonic() < deadline:
            time.sleep(0.002)
        half.commit()
        return acting.result(PATIENCE)


def put_while_it_ends(server, store):
    """B comes to need A while A is being finished."""
    store.put([task("A")])
    meanwhile(server, Half.finish(store, done(take(store, "A")[0])), lambda: store.put([task("B", needs=("A",))]))


def ends_while_put(server, store):
    """A ends while somebody puts B, which needs it."""
    store.put([task("A")])
    claim = take(store, "A")[0]
    meanwhile(server, Half.put(store, task("B", needs=("A",))), lambda: store.finish([done(claim)]))


def comes_while_needed(server, store):
    """A is put, taken and finished while somebody puts B, which needs it and found nobody of that name."""

    def whole_life():
        store.put([task("A")])
        store.finish([done(take(store, "A")[0])])

    meanwhile(server, Half.put(store, task("B", needs=("A",))), whole_life)


def both_end_at_once(server, store):
    """Two tasks that B needs end at the same time, and neither sees that the other has."""
    store.put([task("A"), task("C"), task("B", needs=("A", "C"))])
    one, other = take(store, "A", "C")
    meanwhile(server, Half.finish(store, done(one)), lambda: store.finish([done(other)]))


#: Each race, and the naive way that loses it.
SHARE = ("ORDER BY t.id FOR SHARE;", ";")
NO_ROW = ("ORDER BY 1 ON CONFLICT (id) DO NOTHING;", "LIMIT 0;")
ALL_UNKNOWN = ("WHERE t.id = x.need) <> 'd'", "WHERE t.id = x.need) IS DISTINCT FROM 'd'")
NAIVE = [
    (put_while_it_ends, (SHARE, NO_ROW)),
    (ends_while_put, (SHARE,)),
    (comes_while_needed, (NO_ROW, ALL_UNKNOWN)),
    (both_end_at_once, (("ORDER BY w.id FOR UPDATE;", ";"),)),
]


@pytest.mark.parametrize("race", [race for race, _ in NAIVE], ids=lambda race: race.__name__)
def test_nobody_is_stranded(server, race):
    store = server.queue()
    race(server, store)
    assert [claim.task.id for claim in take(store, "B")] == ["B"]
    assert store.check() == []
    store.close()


@pytest.mark.parametrize(("race", "changes"), NAIVE, ids=lambda value: getattr(value, "__name__", ""))
def test_the_naive_way_strands(server, race, changes):
    store = server.queue()
    server.mutate(store, *changes)
    race(server, store)
    assert take(store, "B") == []
    assert [(mend.kind, mend.what) for mend in store.check()] == [("waits for nothing", "B")]
    store.fix()
    assert [claim.task.id for claim in take(store, "B")] == ["B"]  # `pit doctor --fix` finds even these
    store.close()


@pytest.mark.races
def test_many_races_at_once(server):
    """Not forced, but many: whoever needs and whoever ends start together."""
    store = server.queue()
    store.put([task(f"A{n}") for n in range(RACES)])
    claims = store.claim(Want(worker="snake", lease=600.0, count=RACES))
    start = threading.Barrier(2)

    def end():
        for claim in claims:
            start.wait(PATIENCE)
            assert store.finish([done(claim)]) == [Said.OK]

    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(end)
        for claim in claims:
            start.wait(PATIENCE)
            need = claim.task.id
            assert store.put([task(need.replace("A", "B"), needs=(need,))]) == [Said.CREATED]
        ending.result(PATIENCE)
    assert len(store.claim(Want(worker="snake", lease=60.0, count=RACES + 1))) == RACES
    store.close()


@pytest.mark.races
def test_one_claim_each(server):
    """Eight at once take two hundred tasks: each once."""
    stores = [server.queue()]
    stores += [type(stores[0])(stores[0].address) for _ in range(7)]
    stores[0].put([task(f"T{n}") for n in range(200)])
    start = threading.Barrier(8)

    def work(store):
        start.wait(PATIENCE)
        got = []
        while claims := store.claim(Want(worker="snake", lease=60.0, count=3)):
            got += [claim.task.id for claim in claims]
        store.close()
        return got

    with ThreadPoolExecutor(8) as pool:
        taken = [name for got in pool.map(work, stores) for name in got]
    assert sorted(taken) == sorted(f"T{n}" for n in range(200))


@pytest.mark.races
def test_no_two_tasks_that_touch_the_same(server):
    """Eight at once, ten tasks of the same file: one is taken."""
    stores = [server.queue()]
    stores += [type(stores[0])(stores[0].address) for _ in range(7)]
    stores[0].put([task(f"T{n}", touches=("src/app.py",)) for n in range(10)])
    start = threading.Barrier(8)

    def work(store):
        start.wait(PATIENCE)
        got = store.claim(Want(worker="snake", lease=60.0))
        store.close()
        return len(got)

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, stores)) == 1


@pytest.mark.races
def test_no_more_at_once_than_a_limit_allows(server):
    """Eight at once, twenty tasks of which three may run: three are taken, and three again when those have ended."""
    stores = [server.queue()]
    stores += [type(stores[0])(stores[0].address) for _ in range(7)]
    stores[0].put([task(f"T{n}", limits=("model:opus=3",)) for n in range(20)])
    for _ in range(2):
        start = threading.Barrier(8)

        def work(store, start=start):
            start.wait(PATIENCE)
            return store.claim(Want(worker="snake", lease=60.0, count=2))

        with ThreadPoolExecutor(8) as pool:
            taken = [claim for got in pool.map(work, stores) for claim in got]
        taken += stores[0].claim(Want(worker="snake", lease=60.0, count=9))  # whoever was skipped while it was locked
        assert len(taken) == 3
        assert stores[0].finish([done(claim) for claim in taken]) == [Said.OK] * 3
    assert stores[0].check() == []
    for store in stores:
        store.close()


def stands_aside_while_it_ends(server, store):
    """B stands aside for A while A is being finished and is not committed."""
    store.put([task("A", touches=("src/a",)), task("B", touches=("src/a",))])
    half = Half.finish(store, done(take(store, "A")[0]))
    return meanwhile(server, half, lambda: take(store))


def put_beside_the_end(server, store):
    """C is put into the lane of B while that is let in."""
    store.put([task("A", limits=("one=1",)), task("B", limits=("one=1",))])
    (claim,) = take(store, "A")
    assert take(store) == []  # B stands aside
    meanwhile(server, Half.put(store, task("C", limits=("one=1",))), lambda: store.finish([done(claim)]))
    store.finish([done(take(store, "B")[0])])
    return take(store)


def ends_beside_the_put(server, store):
    """The same the other way round: the end is there first."""
    store.put([task("A", limits=("one=1",)), task("B", limits=("one=1",))])
    (claim,) = take(store, "A")
    assert take(store) == []
    half = Half.finish(store, done(claim))
    meanwhile(server, half, lambda: store.put([task("C", limits=("one=1",))]))
    store.finish([done(take(store, "B")[0])])
    return take(store)


@pytest.mark.parametrize("race", [stands_aside_while_it_ends, put_beside_the_end, ends_beside_the_put])
def test_nobody_stands_aside_for_ever(server, race):
    store = server.queue()
    assert len(race(server, store)) == 1
    assert store.check() == []
    store.close()


def test_an_end_that_does_not_wait_its_turn_strands_others(server):
    """The naive way: what stands aside for a task that is just ending is never looked at again."""
    store = server.queue()
    server.mutate(store, ("PERFORM {s}.one_by_one();\n    FOR w_lane", "FOR w_lane"))
    stands_aside_while_it_ends(server, store)
    assert take(store) == []
    (found,) = store.check()
    assert (found.kind, found.what) == ("stands aside", "B")
    assert [mend.what for mend in store.fix()] == ["B"]
    assert [claim.task.id for claim in take(store)] == ["B"]
    store.close()


def test_who_renews_after_the_judge_looked_is_not_robbed(server):
    store = server.queue()
    store.put([task("A")])
    claim = store.claim(Want(worker="snake", lease=-1.0))[0]
    (lapse,) = store.lapsed()
    assert store.renew([claim], 60.0) == [Said.OK]
    lost = Try(at=0.0, worker=claim.fence, kind="lost", error=lapse.reason, counted=False)
    assert store.finish([End(claim=lapse.claim, attempt=lost)]) == [Said.LOST]
    assert store.renew([claim], 60.0) == [Said.OK]
    assert store.read(["A"])[0].state is State.CLAIMED
    store.close()


# -- the changelog ---------------------------------------------------------------------------------


def _late_writer(server, store):
    """What a reader sees in the end while a transaction that began first commits last."""
    half = Half.put(store, task("early"))
    store.put([task("late")])
    seen, cursor = store.events()
    half.commit()
    more, _ = store.events(cursor)
    return [event.about for event in (*seen, *more)]


def test_the_tail_skips_nothing(server, monkeypatch):
    monkeypatch.setattr(changelog, "PATIENCE", 0.0)
    store = server.queue()
    assert _late_writer(server, store) == ["early", "late"]
    store.close()


def test_the_naive_tail_skips(server, monkeypatch):
    monkeypatch.setattr(changelog, "PATIENCE", 0.0)
    real, horizon = base.statement, "pg_snapshot_xmin(pg_current_snapshot())"
    monkeypatch.setattr(base, "statement", lambda name: real(name).replace(horizon, "'9223372036854775807'::xid8"))
    store = server.queue()
    assert _late_writer(server, store) == ["late"]
    store.close()


@pytest.mark.parametrize("served", [False, True])
def test_what_happened_last_is_known_while_another_writes(server, monkeypatch, tmp_path, served):
    """A transaction anywhere on the server hides new lines from the tail, but not from who takes back or moves all."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(changelog, "PATIENCE", 0.0)
    monkeypatch.setattr(changelog, "MANY", 2)
    queue = Queue(store := server.queue(), store.config, store.clock)
    gateway = Served(queue) if served else None
    if gateway is not None:
        queue = Queue(gateway.store(papers=str(tmp_path / "papers")), store.config, store.clock)
    queue.put([task("older", by="ann")])
    half = Half.put(store, task("other"))
    queue.put([task(name, by="ann") for name in ("more", "and", "mistake")])
    assert [event.about for event in queue.store.latest(9)[0]] == ["older"]
    assert [event.about for event in events_of(queue.store)] == ["older", "more", "and", "mistake"]
    assert undo(queue, "ann")[0] == "mistake"
    half.commit()
    assert [event.about for event in store.events()[0]].count("mistake") == 2
    if gateway is not None:
        queue.store.close()
        gateway.close()
    store.close()


@pytest.mark.races
def test_the_tail_with_eight_writers(server):
    """None missed, none twice, each writer's lines in order."""
    store, each = server.queue(), RACES
    start = threading.Barrier(9)

    def write(number):
        start.wait(PATIENCE)
        for turn in range(each):
            store.record([Event(timestamp="", worker=f"w{number}", worker_type="agent", action=str(turn))])

    with ThreadPoolExecutor(8) as pool:
        writing = [pool.submit(write, number) for number in range(8)]
        start.wait(PATIENCE)
        seen, cursor = [], ""
        while not all(one.done() for one in writing) or len(seen) < 8 * each:
            events, cursor = store.events(cursor, 7)
            seen += [(event.worker, int(event.action)) for event in events]
            if not events and all(one.done() for one in writing) and not store.events(cursor)[0]:
                break
        for one in writing:
            one.result(PATIENCE)
    assert len(seen) == len(set(seen)) == 8 * each
    for number in range(8):
        assert [turn for worker, turn in seen if worker == f"w{number}"] == list(range(each))
    store.close()
