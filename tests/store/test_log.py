"""A log that is kept open, names and ids that are counted in memory, a claim that lists nothing."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal

import pytest
from faults import fail_at, record, short_at
from pits import make, put, reopened, root_of, task

from taskpit import fs
from taskpit.keeper import sweep
from taskpit.layouts import Spot
from taskpit.logfile import Log
from taskpit.model import Done, Failed, Said, State, Task, Want
from taskpit.store import claim as claims
from taskpit.testing import FakeClock


@pytest.fixture
def log(tmp_path):
    found = Log(str(tmp_path / "log"))
    yield found
    found.close()


def lines(log):
    return [line for line in fs.read(log.path, 1 << 20)[0].splitlines() if line]


def test_a_line_is_one_write(log):
    log.append(b"one\n")
    with record() as calls:
        log.append(b"two\n")
    assert calls == [("write", log.path)]
    assert lines(log) == [b"one", b"two"]


def test_a_torn_line_spoils_only_itself(log):
    log.append(b"one\n")
    with open(log.path, "ab") as file:
        file.write(b"to")  # its writer was killed
    log.append(b"three\n")
    assert lines(log) == [b"one", b"to", b"three"]


def test_after_a_short_write_the_whole_line_comes_again(log):
    log.append(b"one\n")
    with short_at(1):
        log.append(b"a longer line\n")
    assert lines(log)[-1] == b"a longer line"


def test_an_error_is_tried_again_once(log):
    log.append(b"one\n")
    with fail_at(1, errno.EIO):
        log.append(b"two\n")
    assert lines(log) == [b"one", b"two"]


def test_a_log_that_was_rotated_is_noticed(log):
    log.append(b"one\n")
    os.rename(log.path, f"{log.path}.1")
    with open(log.path, "w", encoding="utf-8"):
        pass
    log._looked = 0.0  # a second goes by
    log.append(b"two\n")
    assert lines(log) == [b"two"]


def forked(work):
    """What a child process says."""
    come, go = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(60)  # one that waits for ever says nothing
        try:
            os.write(go, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(go)
    with open(come, encoding="utf-8") as file:
        said = json.loads(file.read())
    os.waitpid(child, 0)
    return said


def test_names_are_others_after_a_fork():
    fs.fresh_name()
    theirs = forked(lambda: [fs.fresh_name() for _ in range(100)])
    mine = [fs.fresh_name() for _ in range(100)]
    assert len({*mine, *theirs}) == 200


def test_a_fork_waits_for_no_thread_of_its_parent(log):
    log.append(b"before\n")
    with log._turn:  # as another thread has it that is just writing
        assert forked(lambda: log.append(b"after\n") or log.close() or "written") == "written"
    assert lines(log) == [b"before", b"after"]


@pytest.fixture
def queue(tmp_path):
    found = make(str(tmp_path / "pit"), FakeClock())
    yield found
    found.close()


def added(queue, count):
    return [queue.put([Task(id="", title="one of many", by="ann")])[0][0] for _ in range(count)]


def test_ids_are_given_out_from_what_was_reserved(queue):
    added(queue, 8)
    with record() as calls:
        added(queue, 5)
    assert [path for call, path in calls if path.endswith("/.taskpit/next")] == []


def test_ids_have_no_gaps_once_their_process_has_closed(queue):
    first = added(queue, 9)
    queue.close()
    other = reopened(root_of(queue), queue.clock)
    assert first + added(other, 2) == [f"{number:04d}" for number in range(1, 12)]
    other.close()


def test_ids_of_two_processes_are_never_the_same(queue):
    added(queue, 9)
    theirs = forked(lambda: added(queue, 9))
    other = reopened(root_of(queue), queue.clock)
    ids = [*added(queue, 9), *theirs, *added(other, 9)]
    assert len(set(ids)) == 27
    other.close()


def test_an_id_that_a_person_has_used_meanwhile_is_passed_over(queue):
    added(queue, 4)  # 1, then 2 and 3, then 4 to 7
    other = reopened(root_of(queue), queue.clock)
    put(other, task(5))
    assert added(queue, 2) == ["0006", "0007"]
    other.close()


def test_a_claim_of_an_edited_task_lists_no_ready_tasks(queue):
    put(queue, task(1), task(2))
    path = f"{root_of(queue)}/food/food-0001-task-1.md"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(f"{text}\nand more\n")
    os.rename(f"{path}.new", path)
    queue.clock.advance(60)
    spot = Spot(state=State.READY, id="0001", slug="task-1", path="food/food-0001-task-1.md")
    queue.store._introduce("w", 60.0)
    with record() as calls:
        claim = claims.take(queue.store.folder, spot, Want(worker="w", lease=60.0))
    assert "and more" in claim.task.body
    assert ("list", f"{root_of(queue)}/food") not in calls


def test_a_renamed_task_beside_an_edited_one_is_the_task(queue):
    """The registered file stands under another name: then the one with its old name is a copy."""
    put(queue, task(1))
    food = f"{root_of(queue)}/food"
    with open(f"{food}/food-0001-task-1.md", encoding="utf-8") as file:
        text = file.read()
    os.rename(f"{food}/food-0001-task-1.md", f"{food}/food-0001-renamed.md")
    with open(f"{food}/food-0001-task-1.md", "w", encoding="utf-8") as file:
        file.write(text)
    queue.clock.advance(60)
    taken = [claim.fence for worker in ("a", "b", "c") for claim in queue.claim(worker)]
    assert len(taken) == 1


def test_a_log_that_refuses_fails_no_claim(queue):
    """They are claimed all the same: nobody would know of them until their lease ends."""
    put(queue, task(1), task(2))
    with refusing_log(queue):
        claims = queue.claim("w", count=2)
    assert [claim.task.id for claim in claims] == ["0001", "0002"]


@contextlib.contextmanager
def refusing_log(queue):
    """Whatever is written to the changelog fails."""
    log = f"{root_of(queue)}/.taskpit/changelog.log"

    def refuse(call, path):
        if path == log and call in ("open", "write"):
            raise OSError(errno.ENOSPC, "no room", path)

    fs.set_hook(refuse)
    try:
        yield
    finally:
        fs.set_hook(None)


def test_a_claim_that_cannot_be_read_for_want_of_descriptors_is_given_back(queue):
    put(queue, task(1))
    queue.store._introduce("w", 60.0)
    spot = Spot(state=State.READY, id="0001", slug="task-1", path="food/food-0001-task-1.md")

    def refuse(call, path):
        if call == "open" and "/claimed/" in path:
            raise OSError(errno.EMFILE, "too many open files", path)

    fs.set_hook(refuse)
    try:
        with pytest.raises(OSError, match="too many"):
            claims.take(queue.store.folder, spot, Want(worker="w", lease=60.0))
    finally:
        fs.set_hook(None)
    assert queue.card("0001").state is State.READY
    assert [claim.task.id for claim in queue.claim("other")] == ["0001"]


def test_a_wish_to_stop_does_not_outlive_a_retry(queue):
    put(queue, task(1))
    (claim,) = queue.claim("w")
    queue.finish(claim, Failed(error="no", final=True))
    queue.store.stop(["0001"])  # it came too late
    queue.store.reopen([queue.card("0001").task])
    (claim,) = queue.claim("w")
    assert queue.renew(claim) is Said.OK


def test_a_sealed_file_with_an_end_nobody_knows_stops_no_keeper(queue):
    put(queue, task(1))
    name = ".taskpit/sealed/food-0009-x.md~abcdef~nonsense.r"
    with open(f"{root_of(queue)}/{name}", "w", encoding="utf-8") as file:
        file.write("# food-0009-x\n")
    sweep(queue)
    assert [finding.what for finding in queue.store.check() if finding.kind == "foreign"] == [name]
    queue.store.fix()
    assert not os.path.exists(f"{root_of(queue)}/{name}")


def test_a_wish_to_stop_what_has_ended_is_swept(queue):
    put(queue, task(1), task(2))
    queue.store.stop(["0001", "0002"])
    (claim,) = queue.claim("w", ids=["0001"])
    queue.finish(claim, Done(output="all the same"))
    sweep(queue)
    assert os.listdir(f"{root_of(queue)}/.taskpit/stops") == ["0002"]


def test_nothing_touches_a_file_that_is_still_being_written(queue):
    """Not even its times, by which others tell."""
    path = f"{root_of(queue)}/food/food-0007-by-hand.md"
    with open(path, "w", encoding="utf-8") as file:
        file.write("# food-0007-by-hand\n- **task:** by hand\n")
        file.flush()
        before = os.stat(path).st_mtime_ns
        queue.store._introduce("w", 60.0)
        spot = Spot(state=State.READY, id="0007", slug="by-hand", path="food/food-0007-by-hand.md")
        with record() as calls:
            assert claims.take(queue.store.folder, spot, Want(worker="w", lease=60.0)) is None
        assert os.stat(path).st_mtime_ns == before
    assert ("utime", path) not in calls
