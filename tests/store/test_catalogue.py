"""The catalogue of a large queue: derived, deletable, never trusted over the folder, and worth having."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3

import pytest
from faults import killed_at, record
from hypothesis import given, settings
from hypothesis import strategies as st
from pits import make, root_of, task

from taskpit import catalog, fs
from taskpit.keeper import sweep
from taskpit.logfile import Log
from taskpit.model import End, Release, Task
from taskpit.queue import Queue
from taskpit.store import index as module
from taskpit.store.memory import MemoryStore
from taskpit.testing import FakeClock

pytestmark = pytest.mark.mechanism

MANY = 120


@pytest.fixture
def queue(tmp_path, clock):
    queue = make(str(tmp_path / "pit"), clock)
    yield queue
    queue.close()


@pytest.mark.parametrize("field", ["tags", "touches", "needs", "title"])
def test_half_a_letter_in_a_file_that_somebody_dropped_in_stops_nobody(tmp_path, clock, field):
    """JSON can say half of one; what SQLite cannot keep stopped every verb."""
    queue = make(str(tmp_path / "box"), clock, layout="mailbox")
    queue.put([Task(id=f"t{number}", title="x") for number in range(MANY)])
    half = r'["\ud800"]' if field != "title" else r'"\ud800"'
    with open(tmp_path / "box/inbox/half.json", "w", encoding="utf-8") as file:
        file.write(f'{{"id": "half", "{field}": {half}}}')
    clock.advance(10.0)
    other = Queue.open(root_of(queue))
    assert len(other.claim("w", count=MANY)) >= MANY - 1
    sweep(other)
    assert other.store.counts()
    other.close()
    queue.close()


def again(queue):
    """Another process on the same folder."""
    return Queue.open(root_of(queue))


def fill(queue, count=MANY, seed=1):
    """Tasks of mixed priorities; their ids in the order they must come out."""
    dice = random.Random(seed)
    tasks = [task(number, priority=dice.randrange(5), created=1000.0 + number) for number in range(1, count + 1)]
    queue.put(tasks)
    return [one.id for one in sorted(tasks, key=lambda one: (-one.priority, one.created))]


def index(queue):
    return f"{root_of(queue)}/.taskpit/index"


def take(queue, count=1):
    return [claim.task.id for _ in range(count) for claim in queue.claim("snake")]


def read_tasks(calls):
    return [path for call, path in calls if call == "open" and "/food/" in path]


def test_a_large_queue_is_taken_in_order(queue):
    wanted = fill(queue)
    assert take(queue, MANY + 1) == wanted
    assert any(name.startswith("catalog-") for name in os.listdir(index(queue)))


def test_each_command_takes_the_next(queue):
    wanted = fill(queue)
    got = []
    for _ in range(10):
        other = again(queue)
        got += take(other)
        other.close()
    assert got == wanted[:10]


def test_a_command_reads_only_what_it_takes(queue):
    fill(queue)
    for number in range(3):
        other = again(queue)
        with record() as calls:
            assert len(take(other)) == 1
        other.close()
        assert len(read_tasks(calls)) <= 1, number


def test_without_a_catalogue_it_would_read_them_all(queue, monkeypatch):
    """The control: this is what the catalogue saves."""
    fill(queue)
    monkeypatch.setattr(module, "SMALL", 10**9)
    other = again(queue)
    with record() as calls:
        assert len(take(other)) == 1
    other.close()
    assert len(read_tasks(calls)) >= MANY


def test_a_worker_keeps_a_window_in_memory(queue, monkeypatch):
    monkeypatch.setattr(module, "MOST", 40)
    monkeypatch.setattr(module, "SOME", 16)
    wanted = fill(queue, 300)
    assert take(queue, 250) == wanted[:250]
    known = queue.store._chooser._ready
    assert len(known._window) <= 40 + 16


def test_a_worker_alone_in_a_vast_queue_watches_nothing(queue, monkeypatch):
    """The kernel looks at every name when a watch begins: that is for whoever is not alone, or waits."""
    monkeypatch.setattr(module, "EXACT", 10)
    wanted = fill(queue)
    known = queue.store._chooser._ready
    assert take(queue, 5) == wanted[:5]
    assert known._watch is None
    other = again(queue)
    assert take(other, 2) == wanted[5:7]  # what the first would have tried for next
    rest = take(queue, 1)
    assert known._watch is not None
    assert sorted(rest + take(queue, MANY)) == sorted(wanted[7:])
    other.close()


def test_who_waits_in_a_vast_queue_watches(queue, monkeypatch):
    monkeypatch.setattr(module, "EXACT", 10)
    fill(queue)
    take(queue, 2)
    queue.store.wait(0.0)
    assert queue.store._chooser._ready._watch is not None


def test_a_torn_line_of_the_log_spoils_only_itself(tmp_path):
    row = (0, 1.0, 2, "a", "food-0001-a.md", 7, 0, "[]")
    line = json.dumps({"action": "added_task", "ready": list(row)}, separators=(",", ":")).encode() + b"\n"
    with open(tmp_path / "log", "ab") as log:
        log.write(line + line[:20])  # its writer found the disk full
    log = Log(str(tmp_path / "log"))
    log.append(line + line)
    log.close()
    arrivals = catalog.Arrivals(str(tmp_path / "log"))
    rows, place = arrivals.read(0)
    assert rows == [row] * 3
    assert arrivals.read(place) == ([], place)
    arrivals.close()


def test_a_place_in_another_log_is_none(tmp_path):
    """Also if it has the old one's inode and is as long: a word for what stands before it tells."""
    path = str(tmp_path / "log")
    arrivals = catalog.Arrivals(path)
    for text in (b"one\ntwo\n", b"six\nten\n"):
        with open(path, "wb") as file:
            file.write(text)
        cursor = arrivals.cursor(8)
        assert arrivals.find(cursor) == 8
        with open(path, "r+b") as file:
            file.write(b"x")
        assert arrivals.find(cursor) is None
    os.rename(path, f"{path}.1")
    with open(path, "wb"):
        pass
    arrivals._looked = 0.0
    assert not arrivals.is_current()
    assert arrivals.end() == 0
    arrivals.close()


def test_a_log_that_was_rotated_costs_a_comparison_and_no_task(queue, monkeypatch):
    wanted = fill(queue)
    assert take(queue) == wanted[:1]
    log = f"{root_of(queue)}/.taskpit/changelog.log"
    os.rename(log, f"{log}.1")
    queue.put([Task(id="9001", title="urgent", priority=99, created=1.0)])
    monkeypatch.setattr(catalog, "LOOK", 0.0)
    assert take(queue) == ["9001"]
    other = again(queue)
    assert take(other) == wanted[1:2]
    other.close()


def test_what_comes_while_a_catalogue_is_built_is_told_by_the_log(queue, monkeypatch):
    """The place in the log is noted before the directory is listed: whoever comes in between is told by one or both."""
    wanted = fill(queue)
    other, real = again(queue), module.Ready._compare_with

    def compare(self, known):
        found = real(self, known)
        if self is queue.store._chooser._ready:
            monkeypatch.setattr(module.Ready, "_compare_with", real)
            other.put([Task(id="9001", title="urgent", priority=99, created=1.0)])
        return found

    monkeypatch.setattr(module.Ready, "_compare_with", compare)
    assert take(queue) == ["9001"]
    monkeypatch.setattr(module.Ready, "_compare_with", lambda *_: False)
    assert take(queue) == wanted[:1]
    other.close()


def test_what_comes_later_takes_its_turn(queue):
    fill(queue)
    take(queue)
    queue.put([Task(id="9001", title="urgent", priority=99, created=1.0)])
    assert take(queue) == ["9001"]
    other = again(queue)
    queue.put([Task(id="9002", title="more urgent", priority=100, created=1.0)])
    assert take(other) == ["9002"]
    other.close()


def test_what_goes_back_is_there_again(queue):
    wanted = fill(queue)
    (claim,) = queue.claim("snake")
    queue.store.finish([End(claim=claim, task=claim.task.replace(priority=-1))])
    other = again(queue)
    assert take(other, MANY) == [*wanted[1:], wanted[0]]
    other.close()


@pytest.mark.parametrize("spoil", ["delete all", "delete the log", "delete the database", "scribble", "another boot"])
def test_it_may_be_spoilt_at_any_time(spoil, queue, monkeypatch):
    """By whomever: the next one sees all of it in order, and so does who had it open."""
    wanted = fill(queue)
    assert take(queue, 2) == wanted[:2]
    for name in os.listdir(index(queue)):
        path = f"{index(queue)}/{name}"
        doomed = {"delete all": "", "delete the database": "catalog"}.get(spoil)
        if doomed is not None and name.startswith(doomed):
            os.unlink(path)
        elif spoil == "scribble" and name.endswith(".db"):
            with open(path, "r+b") as file:
                file.write(b"scribble" * 2000)
    if spoil == "delete the log":
        os.unlink(f"{root_of(queue)}/.taskpit/changelog.log")
    if spoil == "another boot":
        monkeypatch.setattr("taskpit.catalog.boot_id", lambda: "another")
    other = again(queue)
    assert take(other, 2) == wanted[2:4]
    assert take(queue, 2) == wanted[4:6]
    assert sorted(take(other, MANY)) == sorted(wanted[6:])
    other.close()


def torn(queue, tear):
    """The database as a power loss may leave it: `tear` makes other bytes of its own."""
    (name,) = (name for name in os.listdir(index(queue)) if name.endswith(".db"))
    with open(f"{index(queue)}/{name}", "r+b") as file:
        whole = file.read()
        file.seek(0)
        file.truncate()
        file.write(tear(whole))


def emptied_log(queue):
    """A log that was begun anew: only the database knows the tasks."""
    with open(f"{root_of(queue)}/.taskpit/changelog.log", "wb"):
        pass


def test_on_another_boot_only_what_changed_is_read(queue, monkeypatch):
    wanted = fill(queue)
    assert take(queue) == wanted[:1]
    queue.close()
    emptied_log(queue)
    food = f"{root_of(queue)}/food"
    first, second, third = (next(name for name in os.listdir(food) if one in name) for one in wanted[1:4])
    os.unlink(f"{food}/{first}")
    with open(f"{food}/{second}.new", "w", encoding="utf-8") as file:
        file.write("- **task:** not so urgent\n- **priority:** -5\n")
    os.rename(f"{food}/{second}.new", f"{food}/{second}")
    monkeypatch.setattr("taskpit.catalog.boot_id", lambda: "another")
    other = again(queue)
    with record() as calls:
        assert take(other) == [wanted[3]]
    assert {path.rpartition("/")[2] for path in read_tasks(calls)} <= {second, third}
    assert take(other, MANY) == [*wanted[4:], wanted[2]]
    other.close()


@pytest.mark.parametrize(
    "tear",
    [
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:8192] + bytes(4096) + whole[12288:],
        lambda whole: whole[:8192] + whole[4096:8192] + whole[12288:],
        lambda _: b"",
    ],
    ids=["cut off", "a page of nothing", "a page twice", "empty"],
)
def test_on_another_boot_a_torn_one_is_made_anew(queue, monkeypatch, tear):
    wanted = fill(queue, 400)
    assert take(queue) == wanted[:1]
    queue.close()
    emptied_log(queue)
    torn(queue, tear)
    monkeypatch.setattr("taskpit.catalog.boot_id", lambda: "another")
    other = again(queue)
    assert take(other, 400) == wanted[1:]
    other.close()


@pytest.mark.parametrize("how", ["whole", "of another form", "its first page is of another time"])
def test_rows_are_taken_over_from_a_whole_one_only(queue, monkeypatch, how):
    wanted = fill(queue)
    assert take(queue) == wanted[:1]
    queue.close()
    emptied_log(queue)
    (name,) = (name for name in os.listdir(index(queue)) if name.endswith(".db"))
    with contextlib.closing(sqlite3.connect(f"{index(queue)}/{name}")) as database:
        form = catalog.FORM - (how == "of another form")
        database.execute("update facts set value = ? where key = 'boot'", (f"{form} before",))
        database.execute("update rows set rank = 99")  # not what their files say: nobody may believe it without need
        database.commit()
    if how == "its first page is of another time":
        torn(queue, lambda whole: whole[:36] + (7).to_bytes(4, "big") + whole[40:])  # so many pages are free, it says
    monkeypatch.setattr("taskpit.catalog.boot_id", lambda: "another")
    other = again(queue)
    assert (take(other, MANY) == wanted[1:]) == (how != "whole")
    other.close()


def test_what_others_drop_in_is_noticed(queue, clock):
    """At once by whoever begins (up to a few thousand tasks), else after the stated time, or when nothing is left."""
    fill(queue)
    take(queue)
    with open(f"{root_of(queue)}/food/food-7777-urgent.md", "w", encoding="utf-8") as file:
        file.write("# food-7777-urgent\n- **task:** urgent\n- **priority:** 50\n")
    assert "7777" not in take(queue)
    clock.advance(module.RESCAN + 1)
    assert take(queue) == ["7777"]


def test_what_others_drop_in_is_noticed_when_nothing_is_left(queue):
    fill(queue)
    take(queue, MANY)
    with open(f"{root_of(queue)}/food/food-7777-late.md", "w", encoding="utf-8") as file:
        file.write("# food-7777-late\n- **task:** late\n")
    assert take(queue) == ["7777"]


def test_a_hold_that_a_person_takes_out_is_noticed(queue):
    queue.put([task(number, hold="wait") for number in range(1, MANY)])
    assert take(queue) == []
    path = f"{root_of(queue)}/food/{os.listdir(f'{root_of(queue)}/food')[0]}"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("- **hold:** wait\n", ""))
    assert len(take(queue)) == 1


def test_killed_anywhere_nothing_is_lost(tmp_path):
    """Whoever dies while putting, claiming or comparing leaves a queue from which everything can be had."""
    number = 0
    while True:
        number += 1
        queue = make(str(tmp_path / str(number)), FakeClock())
        wanted = fill(queue, 80)
        with record() as calls, killed_at(number):
            queue.put([task(500, priority=9)])
            take(queue, 2)
            queue.put([task(501, priority=9)])
            take(queue)
        whole = len(calls) < number
        queue.close()
        other = make(root_of(queue), FakeClock())
        sweep(other)
        ready_now = {card.task.id for card in other.store.page(limit=1000).cards if card.state == "ready"}
        assert set(take(other, 100)) == ready_now
        known = {card.task.id for card in other.store.page(limit=1000).cards}
        assert set(wanted) <= known
        assert other.store.check() == []
        other.close()
        if whole:
            return


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3), st.booleans()), min_size=1, max_size=40))
def test_the_order_is_that_of_memory(tmp_path_factory, tasks):
    """Whatever the priorities, ages and holds."""
    clock = FakeClock()
    queue = make(str(tmp_path_factory.mktemp("q") / "pit"), clock)
    memory = Queue(MemoryStore(clock), queue.config, clock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SMALL", 2)
        patch.setattr(module, "SOME", 4)
        patch.setattr(module, "FIRST", 2)
        for number, (priority, age, held) in enumerate(tasks, 1):
            for store in (queue, memory):
                store.put([task(number, priority=priority, created=1000.0 + age, hold="no" if held else "")])
        assert take(queue, len(tasks)) == take(memory, len(tasks))
    queue.close()


# -- nothing is left open --------------------------------------------------------------------------


@pytest.fixture
def connections(monkeypatch):
    """Those that were opened and are still open."""
    import sqlite3

    opened = set()

    class Counted(sqlite3.Connection):
        def __init__(self, *words, **options):
            super().__init__(*words, **options)
            opened.add(self)

        def close(self):
            super().close()
            opened.discard(self)

    monkeypatch.setattr(sqlite3, "connect", Counted)
    return opened


def refuse(*_words):
    raise OSError("the disk refuses")


@pytest.mark.parametrize("where", ["connecting", "preparing", "taking in", "comparing"])
def test_no_connection_is_left_open_by_trouble(where, tmp_path, connections, monkeypatch):
    folder, log = str(tmp_path), str(tmp_path / "log")
    if where == "connecting":
        (tmp_path / "catalog").write_text("catalog-1.db")
        (tmp_path / "catalog-1.db").write_bytes(b"no database " * 1000)
        assert catalog.Catalog.open(folder, log) is None
    else:
        method = {"preparing": "_prepare", "taking in": "take_in"}.get(where)
        if method:
            monkeypatch.setattr(catalog.Catalog, method, refuse)
        with pytest.raises(OSError, match="refuses"):
            catalog.Catalog.build(folder, log, 100, refuse)
    assert connections == set()


@pytest.mark.parametrize("name", [b"catalog-1\0.db", b"../catalog-1.db", b"..", b"", b"\xff.db", b"a b.db"])
def test_a_pointer_that_names_no_database_is_none(name, tmp_path):
    """The folder may come from anywhere."""
    (tmp_path / "catalog").write_bytes(name)
    (tmp_path.parent / "catalog-1.db").touch()
    assert catalog.Catalog.open(str(tmp_path), str(tmp_path / "log")) is None


def test_a_task_that_is_saved_in_place_is_no_longer_what_its_row_tells(queue):
    """By a writer that is still at it: with half of its text, without any, and once it is done."""
    first, second = fill(queue)[:2]
    other = again(queue)
    path = f"{root_of(queue)}/{queue.store.folder.layout.ready_path(queue.card(first).task)}"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        assert take(other) == [second]  # it is empty
        file.write("# half a ")
        file.flush()
        assert first not in take(other, 3)
        file.seek(0)
        file.write(text.replace("\n", "\n- **priority:** 9\n", 1))
    (claim,) = other.claim("snake", ids=[first])
    assert claim.task.priority == 9
    other.close()


def test_what_comes_back_between_its_line_and_a_comparison_is_not_forgotten(queue):
    """Its row was read while it was known to be gone, and that it came was forgotten when all was compared."""
    other = again(queue)
    queue.put([task(number) for number in range(1, MANY + 1)])
    for _ in range(3):
        queue.claim("w")
    (claim,) = other.claim("other", ids=["0010"])
    ready = queue.store._chooser._ready
    ready.refresh()  # it is gone
    seen = []

    def between(call, path):
        if call == "rename" and "/sealed/" in path and not seen:
            seen.append(path)
            ready.refresh()  # its row is in the log, and its file is not there yet

    fs.set_hook(between)
    try:
        other.finish(claim, Release(reason="not for me"))
    finally:
        fs.set_hook(None)
    assert seen
    ready.refresh(closely=True)  # as who only looks does
    found = set()
    while claims := queue.claim("w", count=MANY):
        found |= {claim.task.id for claim in claims}
    assert "0010" in found
    other.close()
