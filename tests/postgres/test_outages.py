"""The server goes away: killed under load, restarted, replaced. Nothing acknowledged is lost or finished twice."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from pgservers import Server
from relay import Relay
from waits import PATIENCE
from workshop import until

from taskpit.errors import CursorLost, Lost, Storage, Unavailable, Unknown
from taskpit.model import Claim, End, Event, Result, Said, State, Task, Verdict, Want
from taskpit.queue import Queue
from taskpit.store.postgres.address import parse
from taskpit.store.postgres.opening import address_in, init_database, leave_address
from taskpit.store.postgres.rows import as_json, end_item, task_item
from taskpit.store.postgres.store import PostgresStore

LONG = bool(os.environ.get("TASKPIT_LONG"))
KILLS = 10 if LONG else 2


def done(claim):
    return End(claim=claim, result=Result(id=claim.task.id, verdict=Verdict.DONE, worker=claim.fence))


class Load:
    """Two who put and eight who work, each with connections of its own, until they are told to stop."""

    def __init__(self, address):
        self.address = address
        self.over = threading.Event()
        self.put: set[str] = set()
        self.runs: list[str] = []
        self.ended: list[str] = []
        self.pool = ThreadPoolExecutor(10)
        self.threads = [self.pool.submit(self._puts, n) for n in range(2)]
        self.threads += [self.pool.submit(self._works, n) for n in range(8)]

    def _puts(self, number):
        store, count = PostgresStore(parse(self.address)), 0
        while not self.over.is_set():
            ids = [f"P{number}x{count + step}" for step in range(3)]
            said = store.put([Task(id=name, title=name) for name in ids])
            assert Said.CONFLICT not in said
            self.put.update(ids)
            count += 3
            self.over.wait(0.002)
        store.close()

    def _works(self, number):
        store = PostgresStore(parse(self.address))
        while not self.over.is_set():
            for claim in store.claim(Want(worker=f"w{number}", lease=3600.0)):
                self.runs.append(claim.task.id)
                if store.finish([done(claim)]) == [Said.OK]:
                    self.ended.append(claim.task.id)
        store.close()

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.result(PATIENCE)
        self.pool.shutdown()

    def judge(self):
        """What is left is done, and then every task that was acknowledged is done, once."""
        store = PostgresStore(parse(self.address))
        for lapse in store.lapsed():
            raise AssertionError(lapse)
        for card in store.page(State.CLAIMED, limit=10_000).cards:  # whose worker never heard that it had it
            claim = Claim(task=card.task, worker=card.worker, fence=card.worker)
            assert store.finish([End(claim=claim)]) == [Said.OK]
        while claims := store.claim(Want(worker="last", lease=3600.0, count=100)):
            self.runs += [claim.task.id for claim in claims]
            self.ended += [claim.task.id for claim in claims]
            assert set(store.finish([done(claim) for claim in claims])) == {Said.OK}
        counts = store.counts()
        lost = [name for name in self.put if (card := store.read([name])[0]) is None or card.state is not State.DONE]
        again = len(self.runs) - len(set(self.runs))
        twice = len(self.ended) - len(set(self.ended))
        assert (lost, twice) == ([], 0)
        assert counts[State.READY] == counts[State.CLAIMED] == 0
        assert store.check() == []
        store.close()
        print(f"{len(self.put)} acknowledged, 0 lost, 0 finished twice, {again} executed again")


def busy(load, more):
    """That many more tasks have been finished, while everything goes on."""
    aim, deadline = len(load.ended) + more, time.monotonic() + PATIENCE
    while len(load.ended) < aim:
        failed = [thread for thread in load.threads if thread.done() and not load.over.is_set()]
        assert not failed, failed[0].exception()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.races
def test_killed_under_load(alone):
    address = alone.address(schema="load", patience="300s")
    init_database(address, {})
    load = Load(address)
    try:
        for _ in range(KILLS):
            busy(load, 40)
            alone.kill()
            alone.start()
        busy(load, 40)
    finally:
        load.stop()
    load.judge()


@pytest.mark.races
def test_restarted_in_good_order(alone):
    """Waiting, listening and holding go on by themselves."""
    address = alone.address(schema="load", patience="300s")
    init_database(address, {})
    store = PostgresStore(parse(address))
    store.put([Task(id="A", title="a")])
    claim = store.claim(Want(worker="w", lease=600.0))[0]
    lock = store.lock("deploy", "w", 600.0)
    store.wait(0.0)
    alone.stop()
    alone.start()
    assert store.wait(0.01)
    assert store.renew([claim], 600.0) == [Said.OK]
    assert store.relock(lock, 600.0) is Said.OK
    assert store.finish([done(claim)]) == [Said.OK]
    store.close()


@pytest.mark.races
def test_gone_for_good_is_told(alone):
    """Nothing happened while nobody answers; what may have happened is told as that."""
    address = alone.address(schema="load", patience="0s")
    init_database(address, {})
    store = PostgresStore(parse(address))
    alone.stop()
    with pytest.raises(Unknown):  # a connection was there, and broke
        store.put([Task(id="A", title="a")])
    with pytest.raises(Unavailable) as told:
        store.put([Task(id="A", title="a")])
    assert told.value.exit_code == 8
    assert "cannot be reached" in told.value.message
    assert told.value.hint
    store.close()


# -- answers that got lost -------------------------------------------------------------------------


@pytest.fixture
def cut(server):
    """A relay that loses answers: the server has done it, and the client learns nothing."""
    relay = Relay(server.root)
    yield relay
    relay.close()


@pytest.fixture
def store(server, cut):
    store = server.queue(host=cut.place)
    yield store
    store.close()


def test_a_put_whose_answer_got_lost(store, cut):
    cut.next()
    assert store.put([Task(id="A", title="a")]) == [Said.EXISTS]
    assert store.counts()[State.READY] == 1


def test_a_put_whose_answer_got_lost_is_told_as_what_it_was(store, cut):
    """The id was given to us just now, so nothing was there before; an id of one's own may have been."""
    queue, (number,) = Queue(store, store.config, store.clock), store.allot([""])
    store.allot = lambda _: [number]
    cut.next()
    assert queue.put([Task(id="", title="a")]) == [(number, Said.CREATED)]
    assert queue.put([Task(id=number, title="a")]) == [(number, Said.EXISTS)]


def test_a_put_whose_answer_never_came_names_the_ids_it_chose(server, cut):
    """Repeated without them it would be a second task."""
    store = server.queue(patience="0s", host=cut.place)
    queue = Queue(store, store.config, store.clock)
    store.allot = lambda parents: [f"000{number + 1}" for number, _ in enumerate(parents)]
    cut.next()
    with pytest.raises(Unknown) as refused:
        queue.put([Task(id="", title="a"), Task(id="mine", title="b"), Task(id="", title="c")])
    assert "as 0001 to 0002: `pit show 0001`" in refused.value.hint
    assert refused.value.details["ids"] == ["0001", "0002"]
    assert queue.put([Task(id="0001", title="a")]) == [("0001", Said.EXISTS)]
    store.close()


def test_a_claim_whose_answer_got_lost(store, cut):
    """The same task, not another one."""
    store.put([Task(id="A", title="a"), Task(id="B", title="b")])
    cut.next()
    (claim,) = store.claim(Want(worker="w", lease=3600.0))
    assert claim.task.id == "A"
    assert store.counts()[State.CLAIMED] == 1
    assert store.renew([claim], 60.0) == [Said.OK]


@pytest.mark.parametrize("how", ["done", "back"])
def test_a_finish_whose_answer_got_lost(store, cut, how):
    """It is told as what it was: done, not lost."""
    store.put([Task(id="A", title="a")])
    (claim,) = store.claim(Want(worker="w", lease=3600.0))
    cut.next()
    assert store.finish([done(claim) if how == "done" else End(claim=claim)]) == [Said.OK]
    assert store.read(["A"])[0].late == ()


def test_a_lock_whose_answer_got_lost(store, cut):
    cut.next()
    lock = store.lock("deploy", "w", 60.0)
    assert lock.number == 1
    cut.next()
    assert store.unlock(lock) is Said.OK
    assert store.locks() == []


def test_a_reopening_whose_answer_got_lost(store, cut):
    store.put([Task(id="A", title="a")])
    (claim,) = store.claim(Want(worker="w", lease=3600.0))
    store.finish([End(claim=claim, result=Result(id="A", verdict=Verdict.FAILED, worker=claim.fence))])
    cut.next()
    assert store.reopen([claim.task.replace(priority=1)]) == [Said.OK]
    assert store.read(["A"])[0].state is State.READY


def test_a_note_whose_answer_got_lost(store, cut):
    """It stands there once, and so does what tells of it; the same words once more are another note."""
    store.put([Task(id="A", title="a")])
    cut.next()
    store.note("A", "look", "ann")
    assert store.read(["A"])[0].notes.count("look") == 1
    store.note("A", "look", "ann")
    assert store.read(["A"])[0].notes.count("look") == 2
    assert [event.action for event in store.events()[0]].count("noted") == 2


def test_a_pause_and_its_end_whose_answers_got_lost(store, cut):
    """Each is told once, and as what it was; so is the end of a pause whose time has passed, as in a folder."""
    cut.next()
    store.pause("lunch", 0.0, "ann")
    cut.next()
    assert store.resume("ann")
    assert not store.resume("ann")
    store.pause("a moment", 1e-6, "ann")
    assert store.paused() == ""
    assert store.resume("ann")
    cut.next()
    assert not store.resume("ann")
    assert [event.action for event in store.events()[0]] == ["paused", "resumed"] * 2


def test_what_cannot_be_repeated_says_so(store, cut):
    """A line of somebody else's would stand there twice."""
    cut.next()
    with pytest.raises(Unknown) as refused:
        store.record([Event(timestamp="2026-01-01T00:00:00Z", worker="ann", worker_type="human", action="looked")])
    assert "may have happened" in refused.value.hint


def test_a_late_result_whose_answer_got_lost_is_kept_once(store, cut):
    store.put([Task(id="A", title="a")])
    (claim,) = store.claim(Want(worker="w", lease=3600.0))
    late = End(claim=claim, result=Result(id="A", verdict=Verdict.DONE, worker=claim.fence, output="mine"))
    store.finish([End(claim=claim)])  # it goes back
    (other,) = store.claim(Want(worker="x", lease=3600.0))
    store.finish([done(other)])
    cut.next()
    assert store.finish([late]) == [Said.LOST]
    assert len(store.read(["A"])[0].late) == 1


# -- nobody could renew ----------------------------------------------------------------------------


def outlast(store, claims, lease):
    """Every one of these leases is over, by the server's clock."""
    while store.clock.now() <= max(claim.since for claim in claims) + lease:
        time.sleep(0.01)


@pytest.mark.races
def test_who_could_not_renew_while_the_server_was_down_keeps_its_claim(alone):
    store = alone.queue()
    store.put([Task(id=f"T{number}", title="x") for number in range(30)])
    member, lease = store.join("w", 1.0), 1.0
    claims = store.claim(Want(worker="w", lease=lease, count=30))
    lock = store.lock("deploy", "w", lease)
    alone.stop()
    outlast(store, claims, lease)
    alone.start()
    assert store.lapsed() == []
    other = PostgresStore(parse(store.address.whole))
    with pytest.raises(Lost):
        other.join("w", lease)
    other.close()
    with pytest.raises(Lost):
        store.lock("deploy", "x", lease)
    assert store.renew(claims, lease) == [Said.OK] * 30
    assert store.relock(lock, lease) is Said.OK
    until(lambda: len(store.lapsed()) == 30)  # nobody renews any more: they lapse as ever
    member.leave()
    store.close()


@pytest.mark.races
def test_nothing_lapses_because_a_server_was_long_to_answer_after_its_start(alone):
    """One that was killed reads its log before it lets anybody in, for as long as that takes."""
    store, lease = alone.queue(), 1.0
    store.put([Task(id="A", title="a")])
    claims = store.claim(Want(worker="w", lease=lease))
    alone.stop()
    alone.start()
    started = alone.sql("SELECT extract(epoch FROM pg_postmaster_start_time())::float8")[0][0]
    until(lambda: store.clock.now() > started + lease)  # nobody has asked yet
    assert store.lapsed() == []
    assert store.renew(claims, lease) == [Said.OK]
    until(lambda: len(store.lapsed()) == 1)
    store.close()


@pytest.mark.races
def test_a_server_that_is_down_for_many_leases_robs_nobody_of_eight_who_renew(alone):
    """Each renews as a pool does, and sweepers look for what has lapsed all the while.

    Claims of the last moments before a kill need not be on its disk; these are.
    """
    lease, leases, over = 6.0, 10 if LONG else 1.2, threading.Event()  # a busy machine lets each of them renew in time
    address = alone.address(schema="load", patience="300s")
    init_database(address, {})
    source = PostgresStore(parse(address))
    source.put([Task(id=f"T{number}", title="x") for number in range(8)])
    renewals = [0] * 8

    def work(number):
        store, said = PostgresStore(parse(address)), []
        (claim,) = store.claim(Want(worker=f"w{number}", lease=lease))
        while not over.wait(lease / 4):
            said += store.renew([claim], lease)
            renewals[number] = len(said)
        said += store.finish([done(claim)])
        store.close()
        return set(said)

    def sweep():
        store, found = PostgresStore(parse(address)), []
        while not over.wait(lease / 8):
            found += store.lapsed()
        store.close()
        return found

    with ThreadPoolExecutor(10) as pool:
        workers, sweepers = [pool.submit(work, n) for n in range(8)], [pool.submit(sweep) for _ in range(2)]
        try:
            until(lambda: min(renewals) > 0)
            claimed = alone.sql("SELECT pg_current_wal_insert_lsn()")[0][0]
            until(lambda: alone.sql("SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn", claimed)[0][0])
            alone.kill()
            over.wait(leases * lease)  # nothing else is to be waited for: the time itself passes
            alone.start()
            before = list(renewals)
            until(lambda: all(now > then + 4 for now, then in zip(renewals, before, strict=True)))
        finally:
            over.set()
        assert [worker.result(PATIENCE) for worker in workers] == [{Said.OK}] * 8
        assert [lapse for sweeper in sweepers for lapse in sweeper.result(PATIENCE)] == []
    assert source.counts()[State.DONE] == 8
    source.close()


@pytest.mark.races
def test_nothing_lapses_as_soon_as_another_server_takes_over(server, store):
    store.put([Task(id="A", title="a")])
    (claim,) = store.claim(Want(worker="w", lease=0.5))
    until(lambda: [lapse.claim.task.id for lapse in store.lapsed()] == ["A"])
    server.mutate(store, ("RETURN ('x'", "RETURN 2 + 0 * ('x'"))
    assert store.lapsed() == []
    assert store.renew([claim], 60.0) == [Said.OK]


def test_a_dump_that_is_restored_on_a_younger_server_goes_on(server, store):
    """Its transactions have smaller numbers than those of old lines."""
    store.put([Task(id=f"T{number}", title="x") for number in range(5)])
    name = store.database.schema
    server.sql(f"UPDATE {name}.event SET xid = (xid::text::bigint + 900000000)::text::xid8")
    seen, cursor = store.events(limit=3)
    server.sql(f"UPDATE {name}.meta SET system = 'another cluster'")
    with pytest.raises(Storage, match="restored from a copy"):
        PostgresStore(parse(store.address.whole))
    assert init_database(server.address(schema=store.address.schema), {}) == []  # the owner says so
    restored = PostgresStore(parse(store.address.whole))
    restored.put([Task(id="N", title="n")])
    lines, cursor = restored.events(cursor)
    assert [event.task_id for event in (*seen, *lines)] == ["T0", "T1", "T2", "T3", "T4", "N"]
    assert [event.task_id for event in restored.latest(2)[0]] == ["T4", "N"]
    restored.put([Task(id="M", title="m")])
    assert [event.task_id for event in restored.events(cursor)[0]] == ["M"]
    restored.close()


def test_a_queue_is_dumped_restored_on_another_server_and_goes_on(alone):
    """By the page's own commands. Cursors from before go on and skip no line; who has a claim still has it."""
    schema = "work"
    init_database(alone.address(schema=schema), {})
    store = PostgresStore(parse(alone.address(schema=schema)))
    store.put([Task(id=f"T{number}", title="x") for number in range(6)])
    ended, kept = store.claim(Want(worker="w", lease=3600.0, count=2))
    assert store.finish([done(ended)]) == [Said.OK]
    seen, cursor = store.events(limit=4)
    whole = [(event.action, event.task_id) for event in store.events()[0]]
    dump = alone.run("pg_dump", "-h", alone.root, "-U", "pit", "-n", schema, "postgres")
    store.close()
    other = Server(alone.programs)
    try:
        other.make().start()
        path = f"{other.root}/dump.sql"
        with open(path, "w", encoding="utf-8") as file:
            file.write(dump)
        other.run("psql", "-q", "-v", "ON_ERROR_STOP=1", "-h", other.root, "-U", "pit", "-f", path, "postgres")
        address = other.address(schema=schema)
        with pytest.raises(Storage, match="restored from a copy"):
            PostgresStore(parse(address))
        assert init_database(address, {}) == []
        restored = PostgresStore(parse(address))
        restored.put([Task(id="N", title="n")])
        lines = [(event.action, event.task_id) for event in (*seen, *restored.events(cursor)[0])]
        assert lines == [*whole, ("added_task", "N")]
        assert restored.renew([kept], 3600.0) == [Said.OK]
        assert restored.finish([done(kept)]) == [Said.OK]
        claims = restored.claim(Want(worker="v", lease=3600.0, count=10))
        assert {claim.task.id for claim in claims} == {"T2", "T3", "T4", "T5", "N"}
        assert set(restored.finish([done(claim) for claim in claims])) == {Said.OK}
        assert restored.check() == []
        restored.close()
    finally:
        other.remove()


def test_a_copy_of_a_queue_has_papers_of_its_own(server, tmp_path, monkeypatch):
    """What production runs finds production: a copy that works beside it took over the address in its papers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first = server.new()
    schema = parse(first).schema
    dump = tmp_path / "dump.sql"
    dump.write_text(server.run("pg_dump", "-h", server.root, "-U", "pit", "-n", schema, "postgres"), encoding="utf-8")
    server.sql("DROP DATABASE IF EXISTS copy")
    server.sql("CREATE DATABASE copy")
    subprocess.run([f"{server.programs}/psql", "-qh", server.root, "-U", "pit", "-f", dump, "copy"], check=True)

    def papers(address, *, joins=True):
        store = PostgresStore(parse(address))
        if joins:
            store.join("w", 60.0).leave()
        store.close()
        return store.info().papers

    ours, copy = papers(first), papers(first.replace("/postgres?", "/copy?"))
    assert ours != copy
    assert (address_in(ours), address_in(copy)) == (first, first.replace("/postgres?", "/copy?"))
    alias = f"{first}&application_name=x&hostaddr="
    assert papers(alias) == ours == papers(first)  # the same queue by another address
    os.unlink(f"{ours}/.taskpit/place")  # as it was before papers said whose they are: the address tells
    leave_address(ours, first)
    assert papers(first.replace("/postgres?", "/copy?")) == copy
    assert papers(first, joins=False) == ours
    server.sql("DROP DATABASE copy")


# -- a hand in the tables --------------------------------------------------------------------------


def test_what_a_hand_in_the_tables_left_is_told_and_put_right(server, store):
    store.put([Task(id="need", title="x"), *(Task(id=name, title=name) for name in ("gone", "ghost", "over"))])
    store.put([Task(id="lost", title="x", needs=("need",), tags=("web",)), Task(id="free", title="x", needs=("need",))])
    store.put([Task(id="tagged", title="x", tags=("web",), touches=("src/*",), priority=5)])
    (over,) = store.claim(Want(worker="w", lease=3600.0, ids=("over",)))
    store.finish([done(over)])
    name = store.database.schema
    server.sql(f"DELETE FROM {name}.need WHERE id IN ('lost', 'free')")
    server.sql(f"DELETE FROM {name}.waiting WHERE id = 'lost'")
    server.sql(f"DELETE FROM {name}.ready_tag")
    server.sql(f"DELETE FROM {name}.task WHERE id = 'ghost'")
    server.sql(f"INSERT INTO {name}.ready (big, key, id) VALUES (false, '\\x01', 'over')")
    wrong = {
        ("lost", "stray task"),
        ("free", "waits for nothing"),
        ("ghost", "no such task"),
        ("over", "no such task"),
        ("tagged", "not under its tags"),
        ("the tally", "miscounted"),
    }
    assert {(mend.what, mend.kind) for mend in store.check()} == wrong
    taken = store.claim(Want(worker="w", lease=3600.0, count=10))  # rows of no task trouble nobody
    assert {claim.task.id for claim in taken} == {"need", "gone", "over", "tagged"}
    for claim in taken:
        if claim.task.id != "over":
            store.finish([End(claim=claim)])
    assert {(mend.what, mend.kind) for mend in store.fix()} >= {("lost", "stray task"), ("ghost", "no such task")}
    assert store.check() == []
    assert store.read(["over"])[0].state is State.DONE
    web = Want(worker="w", lease=3600.0, count=10, tags=("web",))
    assert [claim.task.id for claim in store.claim(web)] == ["tagged"]
    claims = store.claim(Want(worker="w", lease=3600.0, count=10))
    assert {claim.task.id for claim in claims} == {"need", "gone", "free"}  # `lost` waits for its need again
    store.finish([done(claim) for claim in claims])
    assert [claim.task.id for claim in store.claim(Want(worker="w", lease=3600.0, tags=("web",)))] == ["lost"]


# -- another server takes over ---------------------------------------------------------------------


def test_no_fence_twice_after_a_lossy_fail_over(server, store):
    """The new history has never heard of the last claims and gives their numbers out again."""
    store.put([Task(id="A", title="a")])
    (lost,) = store.claim(Want(worker="w", lease=3600.0))
    lock = store.lock("deploy", "w", 60.0)
    _, cursor = store.events()
    name = store.database.schema
    server.sql(f"DELETE FROM {name}.lease; DELETE FROM {name}.lock; ALTER SEQUENCE {name}.fence_number RESTART")
    store.fix()
    server.mutate(store, ("RETURN ('x'", "RETURN 2 + 0 * ('x'"))
    (again,) = store.claim(Want(worker="w", lease=3600.0))
    assert again.fence.split("e")[0] == lost.fence.split("e")[0]  # the same number
    assert again.fence.split("e")[1][0] != lost.fence.split("e")[1][0]  # of another history
    assert store.finish([done(lost)]) == [Said.LOST]
    assert store.renew([lost, again], 60.0) == [Said.LOST, Said.OK]
    assert store.lock("deploy", "x", 60.0).number > lock.number
    with pytest.raises(CursorLost):
        store.events(cursor)


def test_a_cursor_whose_line_a_crash_took(server, store):
    """Another line may have its numbers now."""
    store.put([Task(id="A", title="a")])
    _, cursor = store.events()
    server.sql(f"UPDATE {store.database.schema}.event SET at = at + 1, id = 'B'")
    with pytest.raises(CursorLost):
        store.events(cursor)


def test_only_claims_may_be_lost_in_a_crash(server, store):
    """A claim does not wait for the disk; what is put and finished does."""

    def commit(sql, *words):
        with psycopg.connect(store.address.server) as line:
            line.execute(sql.replace("{s}", store.database.schema).encode(), words)
            return line.execute("SHOW synchronous_commit").fetchone()[0]

    put = as_json([task_item(Task(id="A", title="a"))])
    assert commit("SELECT {s}.put(%s::jsonb, NULL)", put) == "on"
    (claim,) = store.claim(Want(worker="w", lease=3600.0))
    assert commit("SELECT {s}.renew(%s::jsonb, 60, NULL)", as_json([("A", claim.fence)])) == "off"
    assert commit("SELECT {s}.finish(%s::jsonb, false, NULL)", as_json([end_item(done(claim), 0, 0.0)])) == "on"


@pytest.mark.races
@pytest.mark.skipif(not LONG, reason="two servers: TASKPIT_LONG=1")
@pytest.mark.parametrize("synchronous", [True, False], ids=["synchronous", "asynchronous"])
def test_a_standby_takes_over_under_load(alone, synchronous):
    standby = Server(alone.programs)
    try:
        standby.copy_of(alone).start()
        if synchronous:
            alone.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
            alone.sql("SELECT pg_reload_conf()")
        hosts = f"{alone.root},{standby.root}"
        address = f"postgresql://pit@/postgres?host={hosts}&target_session_attrs=read-write&schema=load&patience=300s"
        init_database(address, {})
        load = Load(address)
        try:
            busy(load, 100)
            if not synchronous:
                standby.stop()
                busy(load, 100)  # what the standby has not seen
            alone.kill()
            if not synchronous:
                standby.start()
            standby.run("pg_ctl", "promote", "-D", standby.data, "-w")
            busy(load, 100)
        finally:
            load.stop()
        if synchronous:
            load.judge()
            return
        store = PostgresStore(parse(address))
        gone = [name for name in load.put if store.read([name])[0] is None]
        twice = len(load.ended) - len(set(load.ended))
        print(f"asynchronous: {len(gone)} of {len(load.put)} acknowledged tasks lost, {twice} ends repeated")
        assert store.check() == []
        assert "no synchronous standby" in " ".join(store.info().warnings) or store.info().durability == "none"
        store.close()
    finally:
        standby.remove()
