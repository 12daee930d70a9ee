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
import time

import pytest
from boxes import read, write
from pits import CONFIG, put, root_of, task
from waits import PATIENCE, until
from workshop import Pit

from taskpit import fs, kernel, layouts
from taskpit import queue as queues
from taskpit.clock import Clock
from taskpit.errors import Held
from taskpit.keeper import sweep
from taskpit.model import State
from taskpit.queue import Queue
from taskpit.store.files import FileStore
from taskpit.store.opening import init
from taskpit.testing import FakeClock
from taskpit.watch import Watch

LONG = bool(os.environ.get("TASKPIT_LONG"))
#: A text long enough that no program writes the file in one go.
PAD = "x" * 200_000

#: What each program does with the lines of a file: write the first as the second, once the one before was taken: so
#: somebody waits for it.
LINES = """
set -e
taken() { while [ "${1%%.yaml}" = "$1" ] && [ -e "$1" ]; do sleep 0.01; done; }  # a work item's file stays where it is
while read -r from && read -r to; do %s; taken "$to"; done < "$1"
"""
SHELL = LINES % '{ head -c 100 "$from"; sleep 0.005; tail -c +101 "$from"; } | cat > "$to"'
COPY = LINES % 'cp "$from" "$to"'
RSYNC = LINES % 'rsync "$from" "$to"'
TAKEN = """
import os, sys, time
def taken(path):
    while os.path.exists(path) and not path.endswith(".yaml"):
        time.sleep(0.01)
"""
PYTHON = f"""{TAKEN}
lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
for source, target in zip(lines[::2], lines[1::2]):
    text = open(source, encoding="utf-8").read()
    with open(target, "w", encoding="utf-8") as file:
        file.write(text[:30])
        file.flush()
        time.sleep(0.005)
        file.write(text[30:])
    taken(target)
"""
#: Named anew and filled later, moved over the name, and saved once more in place: what editors do.
EDITOR = f"""{TAKEN}
def fill(path, text, flags):
    try:
        fd = os.open(path, os.O_WRONLY | flags, 0o644)
    except FileNotFoundError:
        return  # saved a second time, when it had been taken
    for at in range(0, len(text), 65536):
        os.write(fd, text[at : at + 65536])
    os.close(fd)
lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
for number, (source, target) in enumerate(zip(lines[::2], lines[1::2])):
    text = open(source, "rb").read()
    if number % 3 == 0:
        fill(target, b"", os.O_CREAT)
        fill(target, text, 0)
    elif number % 3 == 1:
        swap = os.path.join(os.path.dirname(target), ".swap")
        fill(swap, text, os.O_CREAT | os.O_TRUNC)
        os.rename(swap, target)
    else:
        fill(target, text, os.O_CREAT)
        fill(target, text, os.O_TRUNC)
    taken(target)
"""
WRITERS = {
    "sh": ["sh", "-c", SHELL, "sh"],
    "py": [sys.executable, "-c", PYTHON],
    "cp": ["sh", "-c", COPY, "sh"],
    "rs": ["sh", "-c", RSYNC, "sh"],
    "ed": [sys.executable, "-c", EDITOR],
}
#: Where each layout has a task of a name, and its text, whose check is last.
MARKDOWN = f"# half written\n- **pad:** {PAD}\n- **done-when:** `false`\n"
JSON = f'{{"id": "@", "title": "half written", "status": "ready", "pad": "{PAD}", "test_command": "false"}}'
YAML = "title: x\nactivities:\n  - id: A1\n    title: x\n    status: pending\n"
TASKS = {
    "pit": ("food/food-{}-x.md", MARKDOWN),
    "workspace": ("tasks/{}_pending.md", MARKDOWN),
    "mailbox": ("inbox/{}.json", JSON),
    "activities": ("WI-{}-x/progress.yaml", f"{YAML}    pad: {PAD}\n    done_when: 'false'\n"),
}
#: `pit` where the kernel tells nothing of directories.
BLIND = """
import sys
from taskpit.cli.main import main
from taskpit.watch import Watch
Watch._open = lambda self: None
sys.exit(main(sys.argv[1:]))
"""
#: How many of each writer: a work item of this size is read and written several times by a YAML library in Python, two
#: seconds of processor for each.
MANY = {("pit", True): 1000, ("activities", True): 15, ("activities", False): 15}
POOLS = [(layout, told, MANY.get((layout, told), 60)) for layout in TASKS for told in (True, False)]


@pytest.mark.races
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(("layout", "told", "many"), POOLS if LONG else [("pit", True, 6)])
def test_a_waiting_pool_takes_nothing_that_is_still_being_written(layout, told, many, tmp_path):
    """With and without word from the kernel."""
    root, begins = str(tmp_path / "queue"), ["-m", "taskpit"] if told else ["-c", BLIND]
    init(root, layout)
    write(f"{root}/.taskpit/config.toml", 'durability = "process"\nmax_attempts = 1\n')
    kinds = [kind for kind in WRITERS if kind != "rs" or shutil.which("rsync")]
    lists = {kind: prepare(root, layout, kind, many) for kind in kinds}
    with open(f"{tmp_path}/said", "wb") as said:
        command = [sys.executable, *begins, "-C", root, "work", "-n", "4", "--", "true"]
        pool = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    writers: list[subprocess.Popen] = []
    try:
        until(lambda: "-4" in "".join(os.listdir(f"{root}/.taskpit/workers")), pool)
        writers += [subprocess.Popen([*WRITERS[kind], lists[kind]], stderr=subprocess.PIPE) for kind in kinds]
        queue = Queue.open(root)

        def ended():
            assert pool.poll() is None, read(f"{tmp_path}/said")
            for kind, writer in zip(kinds, writers, strict=True):
                assert not writer.poll(), f"The writer {kind} failed: {writer.communicate()[1]!r}"
            return all_ended(queue, many * len(kinds))

        assert until(ended, seconds=2000) == {State.FAILED: many * len(kinds)}
        assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [(b"", 0)] * len(kinds)
        assert os.listdir(f"{root}/.taskpit/quarantine") == []
        queue.close()
    finally:
        for process in (*writers, pool):
            process.kill()
            process.wait()


def prepare(root, layout, kind, many):
    """A file with two lines for each task: its text, and where it is to be written."""
    place, text = TASKS[layout]
    made, lines, first = f"{root}/.made-{kind}", [], ""
    os.mkdir(made)
    for number in range(1, many + 1):
        name = f"{list(WRITERS).index(kind) + 1}{number:05d}" if layout == "activities" else f"{kind}{number}"
        lines.append(f"{made}/{name}\n{root}/{place.format(name)}\n")
        os.makedirs(os.path.dirname(f"{root}/{place.format(name)}"), exist_ok=True)
        if number == 1 or "@" in text:
            write(f"{made}/{name}", text.replace("@", name))
            first = f"{made}/{name}"
        else:
            os.link(first, f"{made}/{name}")
    write(f"{made}/lines", "".join(lines))
    return f"{made}/lines"


def all_ended(queue, wanted):
    """How many are in which state, once all have ended."""
    counts = queue.store.counts()
    if counts[State.DONE] + counts[State.FAILED] < wanted:
        return None
    return {state: count for state, count in counts.items() if count}


@pytest.fixture
def _first_in_line():
    """The test and what it starts come before all else on this machine: what others do is not measured."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))
    except PermissionError:
        pytest.skip("only root comes first; beside others' work a measurement says nothing")
    yield
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@pytest.mark.skipif(not LONG, reason="a measurement: TASKPIT_LONG=1")
@pytest.mark.usefixtures("_first_in_line")
def test_the_median_wait_of_what_is_moved_in(tmp_path):
    """From its rename until a waiting pool of four has it."""
    pit, waits = Pit(tmp_path / "pit"), []
    pit.configure('durability = "process"\nmax_attempts = 1\n')
    try:
        pit.start("-n", "4", "--", "true")
        until(lambda: "-4" in "".join(os.listdir(f"{pit.root}/.taskpit/workers")))
        for number in range(300):
            write(f"{pit.root}/.coming", f"# {number}\n")
            time.sleep(0.05)  # they sleep again
            came, began = f"{pit.root}/food/food-m{number}-x.md", time.perf_counter()
            os.rename(f"{pit.root}/.coming", came)
            while os.path.exists(came):
                pass
            waits.append(time.perf_counter() - began)
        waits.sort()
        print(f"median {waits[150] * 1000:.2f} ms, 99 of 100 within {waits[297] * 1000:.2f} ms")
        assert waits[150] < 0.005
    finally:
        pit.close()


#: Each layout whose tasks are Markdown: where a task of an id lies while it is ready.
READY = {"pit": "food/food-{}-x.md", "workspace": "tasks/{}_pending.md"}
#: The same of every layout whose tasks are files, and a whole task that stands there.
PLACES = {**READY, "mailbox": "inbox/{}.json"}
WHOLE = {**dict.fromkeys(READY, "# x\n"), "mailbox": '{"id": "a1", "title": "x"}'}
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
    return f"{root_of(queue)}/{PLACES[layout].format('a1')}"


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


@pytest.mark.parametrize("layout", PLACES)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_an_empty_file_is_no_task_and_is_left_alone(way, queue, path, layout):
    with open(path, "w", encoding="utf-8"):
        pass
    os.utime(path, (1, 1))
    before = looks(path)
    queue.clock.advance(GRACE * 10)
    assert way(queue) == []
    assert looks(path) == before
    assert ["empty" in card.held for card in listed(queue)] == [True]
    assert [(mend.kind, "empty" in mend.details) for mend in queue.store.check()] == [("being written", True)]
    assert not os.path.exists(f"{root_of(queue)}/.taskpit/ids/a1")
    with open(path, "w", encoding="utf-8") as file:
        file.write(WHOLE[layout])
    assert way(queue) == ["a1"]


@pytest.mark.parametrize("layout", PLACES)
def test_a_ready_task_that_is_emptied_waits_for_its_writer(queue, layout):
    """A stranger that saves in place and closes the file in between, however long that takes."""
    put(queue, task(1))
    name = queue.store.folder.at(queue.store.folder.layout.ready_path(queue.card("0001").task))
    text = read(name)
    with open(name, "w", encoding="utf-8"):
        pass
    os.utime(name, (1, 1))
    queue.clock.advance(GRACE * 10)
    assert (claimed(queue), queue.claim("w"), sweep(queue)) == ([], [], [])
    assert [(mend.kind, mend.details[:11]) for mend in queue.store.check()] == [("being written", "it is empty")]
    write(name, text)
    assert claimed(queue) == ["0001"]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("layout", ["mailbox"])
def test_half_an_object_is_left_alone_while_it_is_written(way, queue, path):
    """By whatever way: its id is not known by half of it, and nothing is set aside before it has rested."""
    half = '{"id": "a1", "ti'
    write(path, half)
    queue.clock.set_wall(os.stat(path).st_mtime + GRACE - 0.1)
    if way is not waited_for:
        assert way(queue) == []
    with open(path, "w", encoding="utf-8") as file:
        file.write(half)
        file.flush()
        os.utime(path, (1, 1))
        queue.clock.advance(GRACE * 10)
        assert way(queue) == []
        assert read(path) == half
        assert [card.held for card in listed(queue)] == ["it is still being written"]
        assert not os.path.exists(f"{root_of(queue)}/.taskpit/ids/a1")
        file.write('tle": "x"}')
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
    monkeypatch.setattr(queues, "LOOK_AGAIN", 2 * PATIENCE)


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
            got.extend(other.claim("w", wait=PATIENCE))
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


def test_an_editor_that_begins_while_its_file_is_registered(queue, path, monkeypatch):
    """Its second name is newer than what the editor wrote: nothing but the open file tells that it is not whole."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("# x\n- **tags:** early\n")
    link, editor = fs.link, []

    def begun(source, target):
        monkeypatch.setattr(fs, "link", link)
        editor.append(open(path, "w", encoding="utf-8"))  # noqa: SIM115 - it stays open meanwhile
        editor[0].write("# x\n")
        editor[0].flush()
        return link(source, target)

    monkeypatch.setattr(fs, "link", begun)
    sweep(queue)
    assert queue.claim("w") == claimed(queue) == []
    editor[0].write("- **tags:** late\n")
    editor[0].close()
    assert [claim.task.tags for claim in queue.claim("w")] == [("late",)]


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
