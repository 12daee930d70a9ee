"""What a network filesystem shows late: names and times as they were, after another machine has changed them."""

from __future__ import annotations

import errno
import fcntl
import os
import signal

import pytest
from faults import Stopped, record
from pits import LEASE, make, misplaced, put, reopened, root_of, take, task, wrong

from taskpit import fs, held_directories
from taskpit.held_directories import at, path_in
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Said, State
from taskpit.testing import FakeClock

pytestmark = pytest.mark.mechanism

ID = "0001"


@pytest.fixture
def queue(tmp_path):
    found = make(str(tmp_path / "pit"), FakeClock())
    yield found
    found.close()


def stopped_putter(queue, monkeypatch):
    """A putter on another machine stands before its last rename; a keeper here has carried the put out meanwhile."""
    put(queue, task(3))
    put(queue, task(4))  # from now on the changelog is kept open
    with record() as calls:
        put(queue, task(2))
    number = next(at for at, (call, path) in enumerate(calls, 1) if call == "rename" and "~put~" in path)
    slow = Stopped(lambda: put(queue, task(1)), number)
    assert slow.there
    source = slow.call[1]
    shown = fs.status(source)
    keeper = reopened(root_of(queue), queue.clock)
    sweep(keeper)
    assert fs.status(source) is None
    monkeypatch.setattr(fs, "status_at", _showing(source, shown))
    real = fs.move_new_at

    def move_new(here, old, there, new):
        if path_in(here, old) == source and os.path.lexists(path_in(there, new)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
        return real(here, old, there, new)

    monkeypatch.setattr(fs, "move_new_at", move_new)
    return slow, keeper


def _showing(path, shown, real=fs.status_at):
    return lambda there, name: shown if path_in(there, name) == path else real(there, name)


def test_a_put_that_another_carried_out_is_not_set_aside(queue, monkeypatch):
    slow, keeper = stopped_putter(queue, monkeypatch)
    slow.go_on()
    monkeypatch.undo()
    sweep(keeper)
    assert misplaced(keeper) == {}
    assert wrong(keeper) == []
    assert keeper.card(ID).state is State.READY
    assert keeper.finish(take(keeper, ID), Done())[0] is Said.OK
    keeper.close()


def test_a_put_that_was_carried_out_and_tried_meanwhile_is_not_set_aside(queue, monkeypatch):
    """Another file stands there by now: the task with an attempt spent, which is the task all the same."""
    slow, keeper = stopped_putter(queue, monkeypatch)
    keeper.finish(take(keeper, ID), Failed(error="again"))
    slow.go_on()
    monkeypatch.undo()
    sweep(keeper)
    assert misplaced(keeper) == {}
    assert (keeper.card(ID).state, keeper.card(ID).task.attempts) == (State.READY, 1)
    keeper.close()


def _claimed_elsewhere(queue):
    """A claim, the ready name that this machine remembers of its task, and what it remembers of it."""
    put(queue, task(1))
    folder = queue.store.folder
    ready = folder.at(folder.layout.ready_path(queue.card(ID).task))
    shown = fs.status(ready)
    return take(queue, ID), ready, (shown, folder.at(f".taskpit/ids/{ID}"))


def _remembering(patch, name, inode):
    """This machine remembers a name that another has moved since: as long as it does, every look, an open and even
    a rename of the same file to it are answered from memory, as Linux does on NFS."""
    real_move_new, real_read, real_move = fs.move_new_at, fs.read_at, fs.move_at

    def move_new(here, old, there, new):
        if path_in(there, new) == name:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
        return real_move_new(here, old, there, new)

    def read(there, file, limit):
        return real_read(*(at(inode[1]) if path_in(there, file) == name else (there, file)), limit)

    def move(here, old, there, new):
        return True if path_in(there, new) == name else real_move(here, old, there, new)

    patch.setattr(fs, "move_new_at", move_new)
    patch.setattr(fs, "read_at", read)
    patch.setattr(fs, "status_at", _showing(name, inode[0]))
    patch.setattr(fs, "move_at", move)


def test_a_task_that_goes_back_to_a_place_where_it_is_still_shown_is_not_lost(queue, monkeypatch):
    """The keeper's machine saw the ready name before another claimed it, and still believes in it."""
    claim, ready, shown = _claimed_elsewhere(queue)
    with monkeypatch.context() as memory:
        _remembering(memory, ready, shown)
        queue.finish(claim, Failed(error="the worker is gone", kind="lost"))
    queue.clock.advance(60)
    sweep(queue)  # by now it has forgotten
    assert misplaced(queue) == {}
    assert wrong(queue) == []
    assert queue.card(ID).state is State.READY
    assert queue.finish(take(queue, ID), Done())[0] is Said.OK


def test_a_task_that_was_remembered_wrongly_is_ready_at_once_when_looked_at_anew(queue, monkeypatch):
    """Who opens the directory is told: no sweep need be waited for."""
    claim, ready, shown = _claimed_elsewhere(queue)
    memory, real = pytest.MonkeyPatch(), fs.look_anew

    def look_anew(path):
        assert path == os.path.dirname(ready)
        memory.undo()
        real(path)

    with monkeypatch.context() as patch, memory.context():
        patch.setattr(fs, "look_anew", look_anew)
        _remembering(memory, ready, shown)
        queue.finish(claim, Failed(error="the worker is gone", kind="lost"))
    assert queue.card(ID).state is State.READY
    assert misplaced(queue) == {}


def test_a_put_whose_id_is_not_seen_yet_is_not_cleared_up(queue, monkeypatch):
    """Its putter died after it had taken the id, and a keeper elsewhere still remembers that there was none."""
    put(queue, task(1))
    folder = queue.store.folder
    ready, entry = folder.layout.ready_path(queue.card(ID).task), folder.at(f".taskpit/ids/{ID}")
    assert fs.move(folder.at(ready), folder.tmp(ID, "nonce", f"put~{os.path.basename(ready)}"))
    queue.clock.advance(folder.config.keep_tmp + 3600)
    with monkeypatch.context() as memory:
        memory.setattr(fs, "status_at", _showing(entry, None))
        sweep(queue)
    assert misplaced(queue) == {}
    assert queue.card(ID).state is State.READY


def test_a_renewal_that_status_shows_late_is_seen(queue, monkeypatch):
    put(queue, task(1))
    claim = take(queue, ID)
    path = queue.store.folder.at(queue.store.folder.layout.claimed_path(claim.task, claim.fence))
    shown = fs.status(path)
    keeper = reopened(root_of(queue), queue.clock)
    for _ in range(3):
        queue.clock.advance(LEASE * 0.7)
        assert queue.renew(claim) is Said.OK
        with monkeypatch.context() as late:
            _show_late(late, path, shown)
            assert fs.status(path) == shown
            assert keeper.store.lapsed() == []
    keeper.close()


def _show_late(patch, path, shown):
    """The status of this file is what it was until somebody opens it."""
    opened, real_read, real_status = [], fs.read_at, fs.status_at

    def read(there, name, limit):
        opened.append(path_in(there, name))
        return real_read(there, name, limit)

    def status(there, name):
        late = path_in(there, name) == path and path not in opened
        return shown if late else real_status(there, name)

    patch.setattr(fs, "read_at", read)
    patch.setattr(fs, "status_at", status)


@pytest.fixture
def lent(tmp_path):
    """A file that another machine has as its own: to the kernel of its server that is a lease."""
    path = str(tmp_path / "record")
    with open(path, "w", encoding="utf-8") as file:
        file.write("one\n")
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        pytest.skip(f"there are no leases here: {error}")
    yield path, fd
    os.close(fd)


def test_a_file_that_another_machine_has_as_its_own_is_waited_for(lent, monkeypatch):
    """The server's own programs are told to come again, and it is given back because they came."""
    path, fd = lent
    monkeypatch.setattr(held_directories, "sleep", lambda _: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK))
    fs.append(path, b"two\n")
    with open(path, encoding="utf-8") as file:
        assert file.read() == "one\ntwo\n"


def test_a_file_that_is_not_given_back_is_not_waited_for_for_ever(lent, monkeypatch):
    path, _ = lent
    monkeypatch.setattr(held_directories, "RECALL", 0.0)
    with pytest.raises(BlockingIOError) as told:
        fs.append(path, b"two\n")
    assert told.value.filename == path
