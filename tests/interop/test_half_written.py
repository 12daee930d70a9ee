"""Files that are written where everybody sees them: nobody takes one before its writer is done with it.

Each file tells its check in its last line, and the check is red: a task that is done was taken before that
line was written. TASKPIT_LONG writes a thousand of each kind.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading

import pytest
from pits import CONFIG, put, root_of, task
from waits import PATIENCE, until
from workshop import Pit

from taskpit import fs, kernel, layouts
from taskpit import queue as queues
from taskpit.clock import Clock
from taskpit.errors import Held
from taskpit.keeper import sweep
from taskpit.queue import Queue
from taskpit.store.files import FileStore
from taskpit.store.opening import init
from taskpit.task import State
from taskpit.testing import FakeClock
from taskpit.watch import Watch

MANY = 1000 if os.environ.get("TASKPIT_LONG") else 6
#: A line long enough that no program writes the file in one go.
PAD = "- **pad:** " + "x" * 200_000
HEAD = "- **task:** half written\n"
CHECK = "- **done-when:** `false`\n"
TEXT = f"{HEAD}{PAD}\n{CHECK}"

SHELL = """
n=0
while [ $n -lt "$2" ]; do
    n=$((n + 1))
    { head -c 100 "$1"; sleep 0.005; tail -c +101 "$1"; } | cat > "$3/food-sh$n-x.md"
done
"""
PYTHON = """
import sys, time
text = open(sys.argv[1], encoding="utf-8").read()
for n in range(1, int(sys.argv[2]) + 1):
    with open(f"{sys.argv[3]}/food-py{n}-x.md", "w", encoding="utf-8") as file:
        file.write(text[:30])
        file.flush()
        time.sleep(0.005)
        file.write(text[30:])
"""
COPY = 'n=0; while [ $n -lt "$2" ]; do n=$((n + 1)); cp "$1" "$3/food-cp$n-x.md"; done'
RSYNC = 'n=0; while [ $n -lt "$2" ]; do n=$((n + 1)); rsync "$1" "$3/food-rs$n-x.md"; done'
#: Named anew and filled, saved once more in place, and by a rename: what editors do.
EDITOR = """
import os, sys
text = open(sys.argv[1], encoding="utf-8").read()
for n in range(1, int(sys.argv[2]) + 1):
    path = f"{sys.argv[3]}/food-ed{n}-x.md"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))
    fd = os.open(path, os.O_WRONLY)
    for at in range(0, len(text), 65536):
        os.write(fd, text[at : at + 65536].encode())
    os.close(fd)
"""
WRITERS = {
    "sh": ["sh", "-c", SHELL, "sh"],
    "py": [sys.executable, "-c", PYTHON],
    "cp": ["sh", "-c", COPY, "sh"],
    "rs": ["sh", "-c", RSYNC, "sh"],
    "ed": [sys.executable, "-c", EDITOR],
}


@pytest.mark.timeout(1200)
def test_a_waiting_pool_takes_nothing_that_is_still_being_written(tmp_path):
    pit = Pit(tmp_path / "pit")
    pit.configure('durability = "process"\nmax_attempts = 1\n')
    source = tmp_path / "source"
    source.write_text(TEXT, encoding="utf-8")
    try:
        pool = pit.start("-n", "4", "--", "true")
        until(lambda: "-4" in "".join(os.listdir(f"{pit.root}/.taskpit/workers")))
        kinds = [kind for kind in WRITERS if kind != "rs" or shutil.which("rsync")]
        writers = [
            subprocess.Popen([*WRITERS[kind], str(source), str(MANY), f"{pit.root}/food"], stderr=subprocess.PIPE)
            for kind in kinds
        ]
        assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [(b"", 0)] * len(kinds)
        wanted = {f"{kind}{number}" for kind in kinds for number in range(1, MANY + 1)}
        until(lambda: ended(pit, State.FAILED) | ended(pit, State.DONE) >= wanted or pool.poll(), 1000)
        assert pool.poll() is None, pit.said()
        assert ended(pit, State.DONE) == set()
        assert ended(pit, State.FAILED) == wanted
        assert os.listdir(f"{pit.root}/.taskpit/quarantine") == []
    finally:
        pit.close()


def ended(pit, state):
    names = os.listdir(f"{pit.root}/.taskpit/outcomes")
    wanted = "done" if state is State.DONE else "failed"
    return {name.partition("~")[0] for name in names if name.endswith(f"~{wanted}")}


#: Each layout whose tasks are Markdown: where a task of an id lies while it is ready.
READY = {"pit": "food/food-{}-x.md", "workspace": "tasks/{}_pending.md"}
GRACE = 2.0


def opened(root, clock, config=CONFIG):
    """The queue as a process sees it that leaves writers the time they have by default."""
    with open(f"{root}/.taskpit/layout", encoding="utf-8") as file:
        layout = layouts.get(file.read().strip())
    return Queue(FileStore(root, layout, config, clock, grace=GRACE), config, clock)


@pytest.fixture(params=READY)
def layout(request):
    return request.param


@pytest.fixture
def queue(layout, tmp_path):
    root = str(tmp_path / "queue")
    init(root, layout)
    queue = opened(root, FakeClock())
    yield queue
    queue.close()


@pytest.fixture
def path(queue, layout):
    """Where a file is written that nobody put."""
    return f"{root_of(queue)}/{READY[layout].format('a1')}"


def claimed(queue):
    """What another process gets that claims now."""
    other = opened(root_of(queue), queue.clock)
    try:
        return [claim.task.id for claim in other.claim("w")]
    finally:
        other.close()


def claimed_by_name(queue):
    other = opened(root_of(queue), queue.clock)
    try:
        return [claim.task.id for claim in other.claim("w", ids=("a1",))]
    except Held as error:
        return [] if "being written" in error.message or "empty" in error.message else [error.message]
    finally:
        other.close()


def waited_for(queue):
    other = opened(root_of(queue), Clock())
    try:
        return [claim.task.id for claim in other.claim("w", wait=0.05)]
    finally:
        other.close()


def claimed_among_many(queue):
    queue.store.put([task(number, hold="wait") for number in range(1, 80)])
    return claimed(queue)


def swept(queue):
    """What a sweep registers, and what is claimable then."""
    other = opened(root_of(queue), queue.clock)
    found = [mend.what for mend in sweep(other) if mend.kind == "registered"]
    other.close()
    assert os.listdir(f"{root_of(queue)}/.taskpit/quarantine") == []
    return found


def looks(path):
    """All that a hand could change; when it was last read is not among it."""
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mode, status.st_mtime_ns, status.st_ctime_ns


WAYS = [claimed, claimed_by_name, waited_for, claimed_among_many, swept]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_is_open_for_writing_is_no_task_by_any_way(way, queue, path):
    with open(path, "w", encoding="utf-8") as file:
        file.write("# x\n- **task:** x\n")
        file.flush()
        before = looks(path)
        queue.clock.advance(GRACE * 10)  # however long it takes
        assert way(queue) == []
        assert looks(path) == before
        assert [(card.task.id, card.held) for card in listed(queue)] == [("a1", "it is still being written")]
        file.write("- **tags:** late\n")
    assert way(queue) == ["a1"]
    if way is not swept:
        return
    assert [claim.task.tags for claim in queue.claim("w")] == [("late",)]


def listed(queue):
    return [card for card in queue.store.page(State.READY).cards if card.task.hold != "wait"]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_an_empty_file_is_no_task_and_is_left_alone(way, queue, path):
    with open(path, "w", encoding="utf-8"):
        pass
    queue.clock.advance(GRACE * 10)
    assert way(queue) == []
    assert ["empty" in card.held for card in listed(queue)] == [True]
    with open(path, "w", encoding="utf-8") as file:
        file.write("# x\n")
    assert way(queue) == ["a1"]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_where_nobody_can_tell_it_must_rest(way, queue, path, monkeypatch):
    """Another user's file, a filesystem without leases: two seconds by the clock of the files."""
    monkeypatch.setattr(kernel, "has_writer", lambda fd: None)
    with open(path, "w", encoding="utf-8") as file:
        file.write("# x\n")
    queue.clock.set_wall(os.stat(path).st_ctime + GRACE - 0.1)
    if way is not waited_for:
        assert way(queue) == []
    queue.clock.set_wall(os.stat(path).st_ctime + GRACE)
    os.utime(path, (1, 1))  # what says that it is old is not the time that anybody can set
    if way is not waited_for:
        assert way(queue) == []
    queue.clock.set_wall(os.stat(path).st_ctime + GRACE)
    if way is not waited_for:
        assert way(queue) == ["a1"]


def test_a_network_folder_goes_by_its_own_clock_and_by_nothing_else(queue, path, monkeypatch):
    """A lease says nothing of writers on other machines; nor does our clock, which is an hour ahead."""
    monkeypatch.setattr(kernel, "is_local", lambda path: False)
    monkeypatch.setattr(kernel, "has_writer", lambda fd: False)
    with open(path, "w", encoding="utf-8") as file:
        file.write("# x\n")
    queue.clock.advance(3600)
    assert claimed(queue) == []
    queue.store.folder.grace = 0.0
    assert [claim.task.id for claim in queue.claim("w")] == ["a1"]


def test_what_rested_under_our_eyes_is_whole_whatever_the_clocks_say(queue, path, monkeypatch):
    monkeypatch.setattr(kernel, "has_writer", lambda fd: None)
    queue.clock.set_wall(1000.0)
    with open(path, "w", encoding="utf-8") as file:
        file.write("# x\n")
    assert queue.claim("w") == []
    queue.clock.advance(GRACE - 0.1)
    assert queue.claim("w") == []
    queue.clock.advance(0.2)
    assert [claim.task.id for claim in queue.claim("w")] == ["a1"]


@pytest.fixture
def nobody_looks_by_itself(monkeypatch):
    monkeypatch.setattr(queues, "LOOK_AGAIN", 60.0)


def waiting(queue):
    """A claim that sleeps until the kernel wakes it; what it got."""
    asleep, got = threading.Event(), []
    other, wait = opened(root_of(queue), Clock()), Watch.wait

    def sleeping(watch, timeout):
        asleep.set()
        return wait(watch, timeout)

    def claim():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Watch, "wait", sleeping)
            got.extend(other.claim("w", wait=60.0))
        other.close()

    thread = threading.Thread(target=claim, daemon=True)
    thread.start()
    assert asleep.wait(PATIENCE)
    return thread, got


@pytest.mark.parametrize("leases", [True, False])
@pytest.mark.usefixtures("nobody_looks_by_itself")
def test_the_kernel_wakes_who_waits_when_a_writer_is_done(leases, queue, path, monkeypatch):
    if not leases:
        monkeypatch.setattr(kernel, "has_writer", lambda fd: None)
    thread, got = waiting(queue)
    with open(path, "w", encoding="utf-8") as file:
        file.write("# x\n")
        file.flush()
        file.write("- **tags:** late\n")
    thread.join(PATIENCE)
    assert [claim.task.tags for claim in got] == [("late",)]


@pytest.mark.parametrize("leases", [True, False])
@pytest.mark.usefixtures("nobody_looks_by_itself")
def test_what_is_moved_in_is_taken_at_once(leases, queue, path, monkeypatch):
    if not leases:
        monkeypatch.setattr(kernel, "has_writer", lambda fd: None)
    thread, got = waiting(queue)
    with open(f"{root_of(queue)}/.elsewhere", "w", encoding="utf-8") as file:
        file.write("# x\n")
    os.rename(file.name, path)
    thread.join(PATIENCE)
    assert [claim.task.id for claim in got] == ["a1"]


def test_a_task_that_is_saved_in_place_is_not_taken_meanwhile(queue, layout):
    """Its file is the registered one all the time."""
    put(queue, task(1))
    name = queue.store.folder.at(queue.store.folder.layout.ready_path(queue.card("0001").task))
    assert [card.held for card in listed(queue)] == [""]  # a worker that stays has read it
    with open(name, "w", encoding="utf-8") as file:
        assert queue.claim("w") == claimed(queue) == []
        file.write("# x\n- **tags:** early\n")
        file.flush()
        queue.clock.set_wall(os.stat(name).st_ctime)
        assert queue.claim("w") == claimed(queue) == []
        file.write("- **needs:** nothing.there\n")
    assert queue.claim("w") == claimed(queue) == []
    assert "nothing.there" in queue.card("0001").held


def test_a_copy_that_is_being_written_is_judged_when_it_is_whole(queue, layout):
    """Under a number that is taken it would be renamed or set aside, under its writer's hands."""
    put(queue, task(1))
    (claim,) = queue.claim("w")
    name = queue.store.folder.at(queue.store.folder.layout.ready_path(claim.task))
    with open(name, "w", encoding="utf-8") as file:
        file.write("# x\n")
        file.flush()
        queue.clock.advance(GRACE * 10)
        assert (claimed(queue), sweep(queue)) == ([], [])
        assert os.path.exists(name)
    assert [mend.kind for mend in sweep(queue)] == ["set aside"]
    assert not os.path.exists(name)


def test_a_text_that_is_dropped_in_under_any_name_is_taken_in_once_it_is_whole(tmp_path, monkeypatch):
    root = str(tmp_path / "q")
    init(root, "pit")
    queue = Queue.open(root)
    ready = f"{root}/food"
    with open(f"{ready}/My story.md", "w", encoding="utf-8") as file:
        file.write("# Build a boat\n")
        file.flush()
        sweep(queue)
        assert queue.store.counts()[State.READY] == 0
        file.write("\nwith oars\n")
    os.symlink("/etc/hostname", f"{ready}/link.md")
    with open(f"{ready}/README.md", "w", encoding="utf-8") as file:
        file.write("about this folder\n")

    move = fs.move_new

    def faster(source, target):
        """Another keeper has renamed it just before us."""
        monkeypatch.setattr(fs, "move_new", move)
        sweep(other)
        return move(source, target)

    other = Queue.open(root)
    monkeypatch.setattr(fs, "move_new", faster)
    sweep(queue)
    (card,) = queue.store.page().cards
    assert (card.task.title, card.task.body.strip(), card.state) == ("Build a boat", "with oars", State.READY)
    named = os.path.basename(queue.store.folder.layout.ready_path(card.task))
    assert set(os.listdir(ready)) == {"README.md", "link.md", named}
    assert os.path.islink(f"{ready}/link.md")
    assert queue.claim("snake")[0].task.title == "Build a boat"
    other.close()
    queue.close()
