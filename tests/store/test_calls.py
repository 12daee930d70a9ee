"""The system calls and functions of a life are counted and pinned: what a verb costs is decided, not found out.

Counted are calls on the queue's own folder, as `strace` sees them. What choosing among many tasks costs, and the
catalogue of a large queue, is not pinned here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter

import pytest
from waits import PATIENCE

from taskpit import fs, held_directories, kernel
from taskpit.queue import Queue
from taskpit.store.opening import init
from taskpit.task import Done, State, Task

STRACE = shutil.which("strace")
straced = pytest.mark.skipif(STRACE is None, reason="strace is not installed: scripts/system-packages strace")

#: Each verb on one task and on ten, between marks that strace shows.
LIFE = """
import os, sys
from taskpit import held_directories, logfile
from taskpit.layouts import Spot
from taskpit.policy import settle
from taskpit.queue import Queue
from taskpit.store import claim as claims
from taskpit.task import Done, State, Task, Want

root, once = sys.argv[1:]
held_directories.COMPARED = logfile.EVERY = 1e9  # these are compared with their paths each second, not by verbs
queue = Queue.open(root)
store, folder = queue.store, queue.store.folder
folder._ordered = folder.durable and once == "True"  # whatever filesystem this is
want = Want(worker="w", lease=60.0)

def mark(name):
    os.access(f"/mark/{name}", os.F_OK)

def take(tasks, name):
    taken, looked = [], []
    for task in tasks:
        spot = Spot(state=State.READY, id=task.id, slug=task.slug, path=folder.layout.ready_path(task))
        data, status = folder.read(folder.at(spot.path))
        looked.append((spot, folder.parse(spot, data), (status.st_ino, status.st_mtime_ns)))
    mark(name)
    for spot, known, sign in looked:
        taken.append(claims.take(folder, spot, want, known, sign))
    claims.tell(folder, want, taken)
    return taken

def live(count, first, names=("", "", "", "")):
    tasks = [Task(id=f"{n:04d}", title=f"t {n}", slug=f"t-{n}", by="w") for n in range(first, first + count)]
    mark(names[0]); store.put(tasks)
    mark(""); taken = take(tasks, names[1])
    mark(names[2]); store.renew(taken, 60.0)
    mark(names[3]); store.finish([settle(claim, Done(output="ok"), (), queue.config, 0.0) for claim in taken])
    mark("")

store._introduce("w", 60.0)
live(1, 1)
live(10, 11)
live(1, 101, ("put", "claim", "renew", "done"))
live(10, 111, ("put 10", "claim 10", "renew 10", "done 10"))
"""
#: Whole lives by the queue's own verbs, one after the other, as a worker that stays has them.
LIVES = """
import os, sys
from taskpit import held_directories, logfile
from taskpit.queue import Queue
from taskpit.store import manifest
from taskpit.task import Done, State, Task

held_directories.COMPARED = logfile.EVERY = 1e9
manifest.SAVED = 0.0  # that index has its share of the time, not of each verb
queue = Queue.open(sys.argv[1])

def mark(name):
    os.access(f"/mark/{name}", os.F_OK)

for number in range(9):
    mark("put" if number == 8 else ""); queue.put([Task(id="", title=f"t {number}")])
    mark("claim" if number == 8 else ""); (claim,) = queue.claim("w")
    mark("done" if number == 8 else ""); queue.finish(claim, Done(output="ok"))
    mark("")
"""
#: Calls of each verb at most, with choosing and reading.
AT_MOST = {
    "pit": {"put": 7, "claim": 13, "done": 8},
    "workspace": {"put": 8, "claim": 15, "done": 10},
    "mailbox": {"put": 11, "claim": 35, "done": 15},
}
#: Our own functions of a life at most, from put to done in one process; some Pythons count comprehensions, too.
FUNCTIONS_AT_MOST = 197
#: One name for calls that do the same.
SAME = {
    "openat": "open",
    "newfstatat": "stat",
    "lstat": "stat",
    "fstat": "stat",
    "statx": "stat",
    "linkat": "link",
    "renameat": "rename",
    "renameat2": "rename",
    "unlinkat": "unlink",
    "utimensat": "utime",
    "pread64": "pread",
    "getdents64": "list",
    "getdents": "list",
}
#: One line of the changelog, which is kept open.
LOG = Counter(write=1)
FILE = Counter(open=1, write=1, close=1)
#: A directory is open to be synced.
SYNC = Counter(fsync=1)
#: What is known of the task, and that it is not finished in any way.
FREE = Counter(stat=5)
#: One stamp, one rename, and one look at whose file and whose stamp it was.
TAKEN = Counter(utime=1, rename=1, stat=1)
PUBLISHED = Counter(rename=2, link=1, unlink=1)


def times(count, calls):
    return Counter({name: count * number for name, number in calls.items()})


#: The new file is looked at for its row in the catalogue.
ENTERED = FILE + Counter(link=1, rename=1, stat=1)
PINNED = {
    "put": ENTERED + LOG,
    "claim": FREE + TAKEN + LOG,
    "renew": Counter(utime=1, stat=1),
    "done": FILE + PUBLISHED + LOG,
    "put 10": times(10, ENTERED) + LOG,
    "claim 10": times(10, FREE + TAKEN) + LOG,
    "renew 10": times(10, Counter(utime=1, stat=1)),
    "done 10": times(10, FILE + PUBLISHED) + LOG,
}


def with_power(pinned, *, together, once):
    """What durability `power` adds: the bytes, their names in tmp, the ids, the ready names; of ten, once for all."""
    bytes_of_ten = Counter(syncfs=1) if together else Counter(fsync=10) + SYNC
    late = Counter(open=1, stat=1, close=1)
    if once:  # after the decision, by the file's name
        more = {
            "put": late + Counter(fsync=1),
            "done": late + Counter(utime=1, fsync=1),
            "put 10": Counter(syncfs=1) if together else times(10, late) + Counter(fsync=10),
            "done 10": Counter(syncfs=1) if together else times(10, late) + Counter(utime=10, fsync=10),
        }
    else:
        more = {
            "put": Counter(fsync=1) + times(3, SYNC),
            "done": Counter(fsync=1) + times(2, SYNC),
            "put 10": bytes_of_ten + times(2, SYNC),
            "done 10": bytes_of_ten + SYNC,
        }
    return {verb: calls + more.get(verb, Counter()) for verb, calls in pinned.items()}


def counted(program, root, layout, durability, tmp_path, *given):
    """The calls of each verb."""
    init(root, layout)
    with open(f"{root}/.taskpit/config.toml", "w", encoding="utf-8") as file:
        file.write(f'durability = "{durability}"\n')
    trace = str(tmp_path / "trace")
    command = [STRACE, "-f", "-y", "-s", "0", "-o", trace, sys.executable, "-c", program, root, *given]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if "ptrace" in ran.stderr:
        pytest.skip(f"strace may not be used here: {ran.stderr.strip()}")
    assert ran.returncode == 0, ran.stderr
    calls, verb = {}, ""
    with open(trace, encoding="utf-8") as file:
        for line in file:
            mark = re.search(r'"/mark/([^"]*)"', line)
            if mark:
                verb = mark[1]
            elif verb and root in line and "/.taskpit/index" not in line:
                name = re.match(r"\d+ +(\w+)", line)[1]
                calls.setdefault(verb, Counter())[SAME.get(name, name)] += 1
    return calls


@straced
@pytest.mark.parametrize("once", [True, False], ids=["one fsync", "each"])
@pytest.mark.parametrize("durability", ["process", "power"])
def test_the_calls_of_a_life(durability, once, tmp_path):
    together = kernel.syncs_filesystems(str(tmp_path))
    wanted = PINNED if durability == "process" else with_power(PINNED, together=together, once=once)
    calls = counted(LIFE, str(tmp_path / "pit"), "pit", durability, tmp_path, str(once))
    assert calls.keys() == wanted.keys()
    assert [(verb, dict(calls[verb])) for verb in wanted if calls[verb] != wanted[verb]] == []


@straced
@pytest.mark.parametrize("layout", AT_MOST)
def test_the_calls_of_a_whole_life(layout, tmp_path):
    calls = counted(LIVES, str(tmp_path / "queue"), layout, "process", tmp_path)
    found = {verb: calls[verb].total() for verb in AT_MOST[layout]}
    assert {verb: calls[verb] for verb, most in AT_MOST[layout].items() if found[verb] > most} == {}


def test_the_functions_of_a_whole_life(tmp_path):
    init(str(tmp_path / "pit"), "pit")
    (tmp_path / "pit" / ".taskpit" / "config.toml").write_text('durability = "process"\n', encoding="utf-8")
    queue, calls = Queue.open(str(tmp_path / "pit")), Counter()

    def count(frame, event, _):
        if event == "call" and "/taskpit/" in frame.f_code.co_filename:
            calls[frame.f_code.co_name] += 1

    held_directories.COMPARED, before = 1e9, held_directories.COMPARED
    try:
        for number in range(9):
            sys.setprofile(count if number == 8 else None)
            queue.put([Task(id="", title=f"t {number}")])
            queue.finish(queue.claim("w")[0], Done(output="ok"))
    finally:
        sys.setprofile(None)
        held_directories.COMPARED = before
    queue.close()
    assert calls.total() <= FUNCTIONS_AT_MOST, calls.most_common(20)


@pytest.mark.parametrize("layout", ["pit", "mailbox"])  # a workspace has its claims among the ready tasks
def test_a_task_that_is_named_is_found_among_many_without_listing_them(layout, tmp_path):
    init(str(tmp_path / "queue"), layout)
    queue, listed = Queue.open(str(tmp_path / "queue")), []
    ids = [task_id for task_id, _ in queue.put([Task(id="", title=f"t {number}") for number in range(5)])]
    fs.set_hook(lambda call, path: listed.append(path) if call == "list" else None)
    try:
        (claim,) = queue.claim("w", ids=[ids[3]])
        assert (claim.task.id, queue.card(ids[3]).state) == (ids[3], State.CLAIMED)
    finally:
        fs.set_hook(None)
    queue.close()
    assert queue.store.folder.at(queue.store.folder.layout.ready) not in listed


@pytest.mark.parametrize("needs", ["the same", "each another"])
def test_a_claim_behind_many_that_wait_looks_at_each_need_once(needs, tmp_path):
    """It read the needed task for each that waits, and looked thrice for its result: 250 ms behind 2,000."""
    init(str(tmp_path / "queue"), "pit")
    queue, looked = Queue.open(str(tmp_path / "queue")), Counter()
    queue.put([Task(id="0001", title="first", hold="a person looks")])
    waiting = [("0001",) if needs == "the same" else (f"{number:04d}",) for number in range(1, 41)]
    queue.put([Task(id="", title=f"t {number}", needs=need) for number, need in enumerate(waiting)])
    queue.put([Task(id="", title="free") for _ in range(3)])
    assert queue.claim("w")[0].task.title == "free"
    fs.set_hook(lambda call, path: looked.update([(call, path)]) if "/food" not in path else None)
    try:
        assert queue.claim("w")[0].task.title == "free"
    finally:
        fs.set_hook(None)
    queue.close()
    kinds = Counter(call for call, path in looked.elements())
    assert kinds["open"] == 0, "what is needed is not read again"
    assert max(looked.values()) <= 3
    assert kinds["stat"] <= 3 * len(set(waiting)) + 12
