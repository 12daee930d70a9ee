"""A queue that is closed keeps nothing open: its disk can be unmounted, whoever used it and however that ended."""

from __future__ import annotations

import gc
import os
import resource
import threading

import pytest
from boxes import FAST, LAYOUTS, make, reopened
from waits import PATIENCE

from taskpit import fs, held_directories, layouts
from taskpit.model import Done, Task
from taskpit.queue import Queue
from taskpit.store.opening import init, open_store

MANY_FILES = 4096


def opened(root):
    """What this process has open in this folder."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:  # the listing's own
            continue
        if path == str(root) or path.startswith(f"{root}/"):
            found.append(path)
    return found


def live(queue, task_id):
    queue.put([Task(id=task_id, title="one")])
    queue.finish(queue.claim("snake")[0], Done(output="done"))


@pytest.mark.parametrize("layout", [*LAYOUTS, "activities"])
def test_nothing_is_open_once_it_is_closed(layout, tmp_path):
    root = tmp_path / "queue"
    init(str(root), layout)
    assert opened(root) == [], "who only makes a queue holds nothing"
    queue = Queue.open(str(root))
    queue.store.counts()
    queue.store.check()
    assert opened(root) != []
    queue.close()
    assert opened(root) == []
    queue.close()
    queue.store.counts()
    assert opened(root) == [], "used after it was closed, it holds nothing either"


def test_the_last_of_several_lets_go(tmp_path):
    root = tmp_path / "queue"
    one = make(root, "pit")
    two = reopened(root, "pit")
    live(one, "0001")
    one.close()
    assert opened(root) != []
    live(two, "0002")
    two.close()
    assert opened(root) == []


def test_one_that_nobody_has_any_more_holds_nothing(tmp_path):
    root = tmp_path / "queue"
    init(str(root), "pit")
    store = open_store(str(root))
    store.counts()
    del store
    assert opened(root) == []


@pytest.mark.parametrize("count", [1, 100])  # with so many there is a catalogue
def test_one_that_waited_and_that_nobody_has_any_more_holds_nothing(tmp_path, count):
    """Two of the 128 instances of inotify that a user has, and a place in line that nobody left."""
    init(str(tmp_path / "queue"), "pit")
    queue = Queue.open(str(tmp_path / "queue"))
    queue.put([Task(id="", title=f"task {number}", tags=("x",)) for number in range(count)])
    queue.close()
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        queue = Queue.open(str(tmp_path / "queue"))
        assert queue.claim("w", tags=("y",), wait=0.01) == []
        del queue
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= len(before)


def test_who_has_very_many_files_open_can_wait(tmp_path):
    """`select` knows a thousand descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < MANY_FILES:
        pytest.skip(f"this process may have {hard} files open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, MANY_FILES), hard))
    queue = make(tmp_path / "queue", "pit")
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert queue.claim("w", wait=0.01) == []
    finally:
        for fd in files:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        queue.close()


@pytest.mark.parametrize("count", [3, 100])  # with so many there is a catalogue
def test_a_child_takes_no_news_from_its_parent_nor_the_parent_from_it(tmp_path, count):
    queue = make(tmp_path / "queue", "pit")
    other = reopened(tmp_path / "queue", "pit")
    other.put([Task(id="", title=f"task {number}") for number in range(count)])
    for _ in range(3):
        assert queue.claim("w")
    queue.store.wait(0.0)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(writing)
            os.read(reading, 1)  # until the queue is paused
            found = queue.claim("child")
            queue.close()
            os._exit(len(found))
        finally:
            os._exit(70)
    other.store.pause("lunch", 0.0, "ann")
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0, "it is paused for the child"
    os.close(reading)
    assert queue.claim("w") == [], "and for the parent, whoever read the news"
    other.store.resume("ann")
    (made, _), *_ = other.put([Task(id="", title="more", priority=9)])
    assert [claim.task.id for claim in queue.claim("w")] == [made]
    queue.close()
    other.close()


def test_a_child_that_closes_it_takes_nothing_from_its_parent(tmp_path):
    root = tmp_path / "queue"
    queue = make(root, "pit")
    live(queue, "0001")
    before = opened(root)
    child = os.fork()
    if child == 0:
        queue.close()
        os._exit(len(opened(root)))
    assert os.waitpid(child, 0)[1] == 0
    assert opened(root) == before
    live(queue, "0002")
    queue.close()


def test_closed_while_another_thread_opens_a_directory(tmp_path, monkeypatch):
    """It was opened for a store that is closed by the time it would be kept."""
    root = str(tmp_path / "queue")
    queue = make(root, "pit", config=FAST)
    ready = queue.store.folder.at(layouts.get("pit").ready)
    fs.wall(root)
    stands, goes_on = threading.Event(), threading.Event()
    refuse = held_directories._refuse_foreign

    def stop(parent, found):
        if found.path == ready:
            stands.set()
            assert goes_on.wait(PATIENCE)
        refuse(parent, found)

    monkeypatch.setattr(held_directories, "_refuse_foreign", stop)
    thread = threading.Thread(target=fs.names, args=(ready,))
    thread.start()
    assert stands.wait(PATIENCE)
    queue.close()
    goes_on.set()
    thread.join(PATIENCE)
    assert opened(root) == []
