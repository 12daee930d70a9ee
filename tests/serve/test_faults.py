"""What breaks between a worker and its gateway: answers that are lost, connections that are cut, gateways that die."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from gateways import Cutter, Served, kill_gateways
from pits import CONFIG
from waits import PATIENCE, until

from taskpit.clock import Clock
from taskpit.errors import Lost, Storage, TaskpitError, Unavailable, Unknown
from taskpit.model import Claim, End, Result, Said, State, Task, Verdict, Want
from taskpit.queue import Queue
from taskpit.serve import line as lines
from taskpit.serve.calls import Batch
from taskpit.store.http import connection as connections
from taskpit.store.http import wire
from taskpit.store.http.tokens import Tokens
from taskpit.store.opening import init, open_store

LEASE = 60.0
LONG = bool(os.environ.get("TASKPIT_LONG"))


def done(claim):
    result = Result(id=claim.task.id, verdict=Verdict.DONE, worker=claim.fence)
    return End(claim=claim, result=result, action="completed_task")


def tasks(*numbers):
    return [Task(id=f"{number:04d}", title=f"task {number}", slug=f"task-{number}") for number in numbers]


def add(served, *numbers):
    """Put through the gateway, by a caller of its own."""
    store = served.store()
    store.put(tasks(*numbers))
    store.close()


@pytest.fixture
def cutter(served):
    one = Cutter(served.server.port)
    yield one
    one.close()


@pytest.fixture
def remote(served, cutter):
    store = cutter.store(served.owner)
    yield store
    store.close()


def restarted(served, cutter):
    """Another gateway over the same folder, where the proxy leads from now on."""
    root = served.queue.store.info().where
    store = open_store(root, {}, Clock())
    fresh = Served.__new__(Served)
    fresh.owner = served.owner
    Served.begin(fresh, Queue(store, CONFIG, store.clock))
    cutter.port = fresh.server.port
    cutter.cut()
    return fresh


# -- lost answers ----------------------------------------------------------------------------------


def test_whatever_answer_is_lost_the_call_is_made_once(remote, cutter, served):
    behind = served.queue.store

    def lose(act):
        cutter.swallow = 1
        said = act()
        assert cutter.swallowed.acquire(timeout=PATIENCE)
        return said

    assert lose(lambda: remote.put(tasks(1, 2))) == [Said.CREATED, Said.CREATED]
    (claim,) = lose(lambda: remote.claim(Want(worker="ann", lease=LEASE)))
    assert behind.counts()[State.CLAIMED] == 1
    assert lose(lambda: remote.renew([claim], LEASE)) == [Said.OK]
    assert lose(lambda: remote.finish([done(claim)])) == [Said.OK]
    assert [event.action for event in behind.events()[0]].count("completed_task") == 1
    lose(lambda: remote.note("0002", "once", "ann"))
    assert behind.read(["0002"])[0].notes.count("once") == 1
    lock = lose(lambda: remote.lock("deploy", "ann", 60.0))
    assert lose(lambda: remote.unlock(lock)) is Said.OK
    lose(lambda: remote.pause("x", 0.0, "ann"))
    assert lose(lambda: remote.resume("ann")) is True
    place = lose(lambda: remote.keep_log("ann", b"log"))
    folder = os.path.dirname(f"{behind.info().where}/{place}")
    assert len(os.listdir(folder)) == 1


def test_an_answer_lost_with_its_gateway_is_found_by_the_next(remote, cutter, served):
    remote.put(tasks(1, 2, 3))
    taken: list[list[Claim]] = []
    cutter.swallow = 1
    cutter.port, port = 1, cutter.port  # whoever asks again finds nobody
    remote._line._gateway = served.gateway.name
    thread = threading.Thread(target=lambda: taken.append(remote.claim(Want(worker="ann", lease=LEASE, count=2))))
    thread.start()
    assert cutter.swallowed.acquire(timeout=PATIENCE)
    held = {card.worker for card in served.queue.store.page(State.CLAIMED).cards}
    assert port
    fresh = restarted(served, cutter)
    thread.join(PATIENCE)

    assert sorted(claim.task.id for claim in taken[0]) == ["0001", "0002"]
    assert {claim.fence for claim in taken[0]} == held
    assert remote.renew(taken[0], LEASE) == [Said.OK, Said.OK]
    assert fresh.queue.store.counts()[State.CLAIMED] == 2
    fresh.close()


def test_what_was_claimed_for_a_caller_that_lost_patience_is_found_by_its_next_claim(served, cutter):
    """Its gateway was killed before it answered, and another came when the call was given up."""
    served.queue.store.put(tasks(1))
    remote, want = cutter.store(served.owner, patience=0.2), Want(worker="ann", lease=LEASE)
    cutter.swallow, cutter.port = 1, 1  # the answer is lost, and whoever asks again finds nobody
    with pytest.raises(Unknown):
        remote.claim(want)
    until(lambda: served.queue.store.counts()[State.CLAIMED] == 1)
    (card,) = served.queue.store.page(State.CLAIMED).cards
    until(lambda: remote._unanswered)
    fresh = restarted(served, cutter)
    (claim,) = until(lambda: remote.claim(want))
    assert (claim.task.id, claim.fence) == ("0001", card.worker)
    assert remote.finish([done(claim)]) == [Said.OK]
    assert fresh.queue.store.counts()[State.CLAIMED] == 0
    fresh.close()
    remote.close()


def test_what_only_the_dead_gateway_could_tell_is_unknown(remote, cutter, served):
    remote.put(tasks(1))
    told: list[TaskpitError] = []

    def note():
        try:
            remote.note("0001", "perhaps", "ann")
        except TaskpitError as error:
            told.append(error)

    cutter.swallow = 1
    cutter.port = 1
    thread = threading.Thread(target=note)
    thread.start()
    assert cutter.swallowed.acquire(timeout=PATIENCE)
    fresh = restarted(served, cutter)
    thread.join(PATIENCE)

    assert isinstance(told[0], Unknown)
    fresh.close()


@pytest.mark.races
def test_a_connection_that_is_dead_without_a_sign_robs_nobody(remote, cutter, served, monkeypatch):
    """Half open: what is sent goes nowhere, and nothing says so. Renewals come through by another connection."""
    remote.put(tasks(1))
    (claim,) = remote.claim(Want(worker="ann", lease=LEASE))
    monkeypatch.setattr(connections, "SILENT", 0.2)
    cutter.mute()
    assert remote.renew([claim], LEASE) == [Said.OK]
    cutter.mute()
    assert remote.finish([done(claim)]) == [Said.OK]
    assert served.queue.store.counts()[State.DONE] == 1


@pytest.mark.races
def test_answers_that_come_late_or_out_of_order_change_nothing(remote, cutter, served, monkeypatch):
    """Each first answer is kept back until the call was repeated and the next one made, then comes after all."""
    behind = served.queue.store
    monkeypatch.setattr(connections, "SILENT", 0.2)

    def late(act):
        cutter.keep_back = 1
        said = act()
        assert cutter.kept_back.acquire(timeout=PATIENCE)
        return said

    assert late(lambda: remote.put(tasks(1, 2))) == [Said.CREATED] * 2
    (claim,) = late(lambda: remote.claim(Want(worker="ann", lease=LEASE)))
    cutter.let_go()
    assert late(lambda: remote.renew([claim], LEASE)) == [Said.OK]
    assert late(lambda: remote.finish([done(claim)])) == [Said.OK]
    cutter.let_go()
    late(lambda: remote.note("0002", "once", "ann"))
    (other,) = late(lambda: remote.claim(Want(worker="ann", lease=LEASE)))
    cutter.let_go()
    assert (claim.task.id, other.task.id) == ("0001", "0002")
    assert behind.counts() == {State.READY: 0, State.CLAIMED: 1, State.DONE: 1, State.FAILED: 0}
    assert behind.read(["0002"])[0].notes.count("once") == 1
    assert len(cutter.kept) >= 6


@pytest.mark.races
def test_a_gateway_that_is_slow_is_waited_for_and_asked_once(remote, served, monkeypatch):
    monkeypatch.setattr(connections, "SILENT", 0.1)
    real, calls = served.gateway.store.put, []

    def slow(some):
        calls.append(len(some))
        time.sleep(0.5)
        return real(some)

    served.gateway.batches["put"]._act = slow
    assert remote.put(tasks(1)) == [Said.CREATED]
    assert calls == [1]


@pytest.mark.races
def test_a_proxy_that_cuts_what_is_silent_is_not_noticed(served, cutter, monkeypatch):
    """It cuts after a second, waits are 0.4 seconds long: as 25 are to its 60."""
    assert wire.LONGEST_POLL * 2 < 60
    assert connections.STALE < 60
    monkeypatch.setattr(wire, "LONGEST_POLL", 0.4)
    cutter.idle = 1.0
    store = cutter.store(served.owner)
    want = Want(worker="ann", lease=LEASE)
    assert store.claim(want) == []
    over = time.monotonic() + 2.0
    while time.monotonic() < over:
        store.wait(0.5)
    cuts = cutter.cuts
    add(served, 1)
    assert store.wait(PATIENCE)
    claims = []
    until(lambda: claims.extend(store.claim(want)) or claims)  # a cut may wake it, too
    (claim,) = claims
    until(lambda: cutter.cuts > cuts)  # between two calls it was idle for too long
    assert store.finish([done(claim)]) == [Said.OK]
    store.close()


def test_nobody_there_is_unavailable(served, cutter):
    cutter.port = 1
    with pytest.raises(Unavailable):
        cutter.store(served.owner)


class Stranger(HTTPServer):
    """A server of another kind, which answers once."""

    def __init__(self, status, headers, body):
        class Answers(BaseHTTPRequestHandler):
            def do_POST(self):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Answers)
        threading.Thread(target=self.handle_request, daemon=True).start()


GATEWAY = {"Pit-Gateway": "gabcdefgh"}


@pytest.mark.parametrize(
    ("told", "status", "headers", "body"),
    [
        ("no gateway", 200, {}, b"<html>"),
        ("no gateway", 404, {}, b"{}"),
        ("elsewhere", 307, {"Location": "http://127.0.0.1:1/q"}, b""),
        ("no gateway of this version", 200, GATEWAY, b'{"ok": true, "data": {}}'),
        ("no gateway of this version", 200, GATEWAY, b'{"ok": true, "data": [[]]}'),
        ("no gateway", 200, GATEWAY, b"[" * 10_000),
    ],
)
def test_a_stranger_is_told_apart_and_no_redirect_is_followed(served, cutter, told, status, headers, body):
    other = Stranger(status, headers, body)
    cutter.port = other.server_address[1]
    with pytest.raises(Storage, match=told):
        cutter.store(served.owner)
    other.server_close()


# -- waiting ---------------------------------------------------------------------------------------


def in_line(served, count):
    until(lambda: len(served.gateway.line) == count)


def stand(served, store, worker, count=1):
    """This worker waits, as one of so many."""
    want = Want(worker=worker, lease=LEASE)
    until(lambda: store.claim(want) == [] and not store.wait(0.2))
    in_line(served, count)


class Quiet:
    """A store that tells nothing by itself."""

    def wait(self, timeout):
        return False


def in_a_line(act):
    """Six workers of one wish and one of another in a line; `act` is given the line, the wish and those who wait."""

    async def run():
        line, want = lines.Line(Quiet(), personal=False), Want(worker="w", lease=LEASE)
        gone = [asyncio.Event() for _ in range(7)]
        waits = []
        for event, wish in zip(gone, [want] * 6 + [want.replace(tags=("x",))], strict=True):
            waits.append(asyncio.ensure_future(line.wait(wish, 0, PATIENCE, event.wait)))
            await asyncio.sleep(0)
        async for woken in act(line, want, gone):
            await asyncio.sleep(0.05)
            assert [number for number, wait in enumerate(waits) if wait.done()] == woken
        line.close()
        await asyncio.gather(*waits)

    asyncio.run(run())


def test_first_come_first_served_and_nobody_else_is_woken(monkeypatch):
    monkeypatch.setattr(lines, "LOOK_AGAIN", PATIENCE)

    async def act(line, want, _):
        line.tell(2)
        yield [0, 1, 6]  # the other wish may be for these, too
        line.claimed(want, found=True)
        yield [0, 1, 2, 6]
        line.claimed(want, found=False)
        yield [0, 1, 2, 6]

    in_a_line(act)


def test_who_is_woken_and_gone_leaves_its_turn_to_the_next(monkeypatch):
    monkeypatch.setattr(lines, "LOOK_AGAIN", PATIENCE)

    async def act(line, _, gone):
        gone[0].set()
        line.tell()
        yield [0, 1, 6]

    in_a_line(act)


def test_news_that_came_before_a_worker_waits_are_not_missed():
    async def run():
        line, want = lines.Line(Quiet(), personal=False), Want(worker="w", lease=LEASE)
        line.tell()
        assert await line.wait(want, 0, PATIENCE, asyncio.Event().wait)

    asyncio.run(run())


def test_who_hangs_up_leaves_the_line_and_takes_nothing(served, cutter, monkeypatch):
    monkeypatch.setattr(lines, "LOOK_AGAIN", PATIENCE)
    store = cutter.store(served.owner)
    stand(served, store, "ann")
    store.close()
    in_line(served, 0)
    add(served, 1)
    assert served.queue.store.counts()[State.CLAIMED] == 0


def test_a_cut_wait_is_asked_for_again_and_nothing_is_lost(served, cutter, monkeypatch):
    monkeypatch.setattr(lines, "LOOK_AGAIN", PATIENCE)
    store = cutter.store(served.owner)
    for _ in range(3):
        stand(served, store, "ann")
        cutter.cut()
        assert store.wait(PATIENCE)
        in_line(served, 0)
    stand(served, store, "ann")
    add(served, 1)
    assert until(lambda: store.wait(1.0) and store.claim(Want(worker="ann", lease=LEASE)))
    assert served.queue.store.counts()[State.CLAIMED] == 1
    store.close()


def test_who_comes_back_to_another_gateway_keeps_what_the_first_one_claimed(served, cutter):
    """Two gateways before one queue: the first has claimed for a caller that is cut off and that the second answers."""
    began, go_on, taken = threading.Event(), threading.Event(), []
    claim = served.gateway.store.claim

    def slow(want):
        claims = claim(want)
        began.set()
        assert go_on.wait(PATIENCE)
        return claims

    served.queue.store.put(tasks(1))
    served.gateway.store.claim = slow
    store = open_store(served.queue.store.info().where, {}, Clock())
    other = Served.__new__(Served)
    other.owner = served.owner
    Served.begin(other, Queue(store, CONFIG, store.clock))
    ann = cutter.store(served.owner)
    asks = threading.Thread(target=lambda: taken.extend(ann.claim(Want(worker="ann", lease=LEASE))))
    asks.start()
    assert began.wait(PATIENCE)
    cutter.port = other.server.port
    cutter.cut()
    asks.join(PATIENCE)
    go_on.set()
    assert ann.renew(taken, LEASE) == [Said.OK]
    assert ann.finish([done(taken[0])]) == [Said.OK]
    ann.close()
    other.close()


def test_renewals_wait_for_nothing_else(served):
    served.queue.store.put(tasks(1))
    store = served.store()
    (claim,) = store.claim(Want(worker="ann", lease=LEASE))
    go_on, busy = threading.Event(), threading.Event()
    real = served.gateway.store.finish

    def stuck(ends):
        busy.set()
        assert go_on.wait(PATIENCE)
        return real(ends)

    served.gateway.store.finish = stuck
    ender = threading.Thread(target=lambda: store.finish([End(claim=claim.replace(fence="x~y"))]))
    ender.start()
    assert busy.wait(PATIENCE)
    assert store.renew([claim], LEASE) == [Said.OK]
    go_on.set()
    ender.join(PATIENCE)
    store.close()


def test_many_callers_share_calls_of_the_store(served):
    calls = []
    real, go_on = served.gateway.store.put, threading.Event()

    def put(some):
        calls.append(len(some))
        assert len(calls) > 1 or go_on.wait(PATIENCE)
        return real(some)

    served.gateway.batches["put"]._act = served.gateway.batches["put"]._again = put
    stores = [served.store() for _ in range(8)]
    threads = [
        threading.Thread(target=store.put, args=(tasks(number),)) for number, store in enumerate(stores, start=1)
    ]
    threads[0].start()
    until(lambda: calls)
    for thread in threads[1:]:
        thread.start()
    until(lambda: len(served.gateway.batches["put"]._waiting) == 7)
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE)

    assert calls == [1, 7]
    assert served.queue.store.counts()[State.READY] == 8
    for store in stores:
        store.close()


def test_one_bad_item_spoils_no_other(served):
    served.queue.store.put(tasks(1))
    store = served.store()
    store.put(tasks(2))
    with pytest.raises(TaskpitError):
        store.put([Task(id="0003", title="x", body="x" * (CONFIG.largest_task + 1))])
    assert store.put(tasks(4)) == [Said.CREATED]
    store.close()


@pytest.mark.parametrize("error", [KeyError("x"), Storage("no")])
def test_what_nobody_has_foreseen_in_one_callers_items_fails_that_one(error):
    """Everybody whose items were in the same call of the store was told that it failed."""

    def act(items):
        if "bad" in items:
            raise error
        return [f"{item} done" for item in items]

    async def ask():
        with ThreadPoolExecutor(1) as threads:
            batch = Batch(threads, act)
            asked = (batch.ask(["one"]), batch.ask(["bad"]), batch.ask(["two", "three"]))
            return await asyncio.gather(*asked, return_exceptions=True)

    assert asyncio.run(ask()) == [["one done"], error, ["two done", "three done"]]


# -- grace and names -------------------------------------------------------------------------------


@pytest.mark.races
def test_nothing_lapses_in_the_first_lease_of_a_gateway_but_what_it_heard_of(served):
    served.queue.store.put(tasks(1, 2))
    (old,) = served.queue.store.claim(Want(worker="old", lease=0.01))
    store = served.store()
    (heard,) = store.claim(Want(worker="new", lease=0.01))
    until(lambda: len(served.queue.store.lapsed()) == 2)

    assert [lapse.claim.fence for lapse in store.lapsed()] == [heard.fence]
    served.gateway.members.grace = 0.0
    assert {lapse.claim.fence for lapse in store.lapsed()} == {old.fence, heard.fence}
    store.close()


def test_names_are_known_again_after_a_restart(served, cutter, tmp_path):
    one, two = (
        cutter.store(served.owner, papers=str(tmp_path / "a")),
        cutter.store(served.owner, papers=str(tmp_path / "b")),
    )
    one.join("ann-1", LEASE)
    with pytest.raises(Lost):
        two.join("ann-1", LEASE, patience=0.0)
    fresh = restarted(served, cutter)
    one.counts()
    with pytest.raises(Lost):
        two.join("ann-1", LEASE, patience=0.0)
    one.close()
    two.close()
    fresh.close()


def test_a_member_that_died_and_came_back_finds_its_claims_given_back(served, tmp_path):
    served.queue.store.put(tasks(1))
    papers = str(tmp_path / "papers")
    dead = served.store(papers=papers)
    member = dead.join("ann", LEASE)
    (claim,) = dead.claim(Want(worker="ann", lease=LEASE))
    member._record.leave()  # as the death of its process does
    again = served.store(papers=papers)
    again.join("ann", LEASE)

    assert [lapse.claim.fence for lapse in again.lapsed()] == [claim.fence]
    again.close()
    dead.close()


# -- killed gateways -------------------------------------------------------------------------------


@pytest.mark.races
@pytest.mark.parametrize("count", [1, 2])
def test_gateways_killed_under_load_lose_nothing(tmp_path, count):
    """Workers go on through the same addresses while the gateways behind them are killed, one or two at once."""
    root = str(tmp_path / "pit")
    init(root, "pit")
    with open(f"{root}/.taskpit/config.toml", "w", encoding="utf-8") as file:
        file.write('durability = "process"\n')
    kill_gateways(root, Tokens(root).add("owner", ["all"]), count, 20 if LONG else 2)
