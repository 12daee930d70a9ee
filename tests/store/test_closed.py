"""A queue that is closed keeps nothing open: its disk can be unmounted, whoever used it and however that ended."""

from __future__ import annotations

import os
import threading

import pytest
from boxes import FAST, LAYOUTS, make, reopened
from waits import PATIENCE

from taskpit import fs, held_directories, layouts
from taskpit.queue import Queue
from taskpit.store.opening import init, open_store
from taskpit.task import Done, Task


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
