"""What the models of the store found in its code, forced: two who carry the same thing out, and one of them stalls."""

from __future__ import annotations

import os

import pytest
from faults import Stopped, _hooked
from pits import make, misplaced, put, reopened, root_of, take, task, wrong
from stalls import ID, MOST

from taskpit import fs
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Said, State
from taskpit.store import mend, withdraw
from taskpit.store import put as entering
from taskpit.store.folder import QUARANTINE, SEALED
from taskpit.testing import FakeClock

READY = "food/food-0001-task-1.md"


def quarantined(queue):
    """Bytes of what was set aside."""
    folder = f"{root_of(queue)}/{QUARANTINE}"
    found = []
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".reason"):
            with open(f"{folder}/{name}", encoding="utf-8") as file:
                found.append(file.read())
    return found


def write(path, text="# food-0001-task-1\n- **task:** a copy\n"):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def test_a_put_sets_the_copy_aside_and_never_the_task(tmp_path):
    """A copy lies where the task shall go; the putter stalls anywhere while a keeper brings the task in."""
    carried = 0
    for number in range(1, MOST):
        queue = make(str(tmp_path / str(number)), FakeClock())
        other = reopened(root_of(queue), queue.clock)
        write(f"{root_of(queue)}/{READY}")
        stopped = Stopped(lambda queue=queue: queue.store.put([task(1, body="the task itself")]), number)
        there = stopped.there
        known = other.store.folder.original(ID)
        if there and known is not None and known.body == "the task itself":
            sweep(other)
            carried += 1
        stopped.go_on()
        sweep(other)
        sweep(other)
        assert misplaced(other) == {}, (number, stopped.call)
        assert [line for line in wrong(other) if not line.startswith("quarantined")] == [], (number, stopped.call)
        if known is not None and known.body == "the task itself":
            assert other.card(ID).task.body == "the task itself", (number, stopped.call)
            assert all("the task itself" not in text for text in quarantined(other)), (number, stopped.call)
        other.close()
        queue.close()
        if not there:
            break
    assert carried > 3


def test_a_power_loss_brings_back_what_was_sealed(tmp_path):
    """Of an end that was carried out the sealed name is there again, with the bytes of before: a ghost."""
    queue = make(str(tmp_path / "pit"), FakeClock())
    put(queue, task(1, max_attempts=9))
    claim = take(queue, ID)
    before = fs.read(f"{root_of(queue)}/claimed/{claim.fence}.food-0001-task-1.md", 1 << 20)[0]
    assert queue.finish(claim, Failed(error="try again"))[0] is Said.OK
    ghost = f"{root_of(queue)}/{SEALED}/food-0001-task-1.md~abcdef12345678~ready.nt"
    with open(ghost, "wb") as file:
        file.write(before)
    sweep(queue)
    assert sweep(queue) == []
    assert misplaced(queue) == {}
    assert queue.card(ID).task.attempts == 1
    (aside,) = quarantined(queue)
    assert aside.encode() == before
    queue.close()


def test_a_reopening_that_stalls_takes_no_later_result_away(tmp_path):
    """A keeper carries it on, the task fails again, and the first one goes on."""
    failed_again = 0
    for layout in ("pit", "mailbox", "workspace"):
        for number in range(1, MOST):
            queue = make(str(tmp_path / f"{layout}{number}"), FakeClock(), layout=layout)
            other = reopened(root_of(queue), queue.clock)
            put(queue, task(1))
            assert queue.finish(take(queue, ID), Failed(error="one", final=True))[0] is Said.OK
            old = queue.card(ID).task
            stopped = Stopped(lambda queue=queue, old=old: queue.store.reopen([old]), number)
            there = stopped.there
            if there:
                sweep(other)
                for claim in other.claim("fast"):
                    assert other.finish(claim, Failed(error="two", final=True))[0] is Said.OK
                    failed_again += 1
            stopped.go_on()
            sweep(other)
            sweep(other)
            card = other.card(ID)
            assert misplaced(other) == {}, (layout, number, stopped.call)
            assert wrong(other) == [], (layout, number, stopped.call)
            assert card.state is State.READY or card.result.reason == "two", (layout, number, stopped.call)
            other.close()
            queue.close()
            if not there:
                break
    assert failed_again > 6


def test_a_keeper_that_looked_before_the_seal_does_not_end_it(tmp_path):
    """A keeper stalls; the end is sealed and published meanwhile; the keeper goes on; the task is reopened."""
    for number in range(1, MOST):
        queue = make(str(tmp_path / str(number)), FakeClock())
        other = reopened(root_of(queue), queue.clock)
        put(queue, task(1))
        claim = take(queue, ID)
        keeper = []

        def meanwhile(call, path, keeper=keeper, other=other, number=number):
            if call == "rename" and "/claimed/" in path and not keeper:
                keeper.append(Stopped(lambda: sweep(other), number))
            elif call == "unlink" and f"/{SEALED}/" in path and len(keeper) == 1:
                keeper[0].go_on()
                keeper.append(other.store.reopen([other.card(ID).task]))
                sweep(other)

        with _hooked(meanwhile):
            queue.finish(claim, Failed(error="mine", final=True))
        sweep(other)
        assert misplaced(other) == {}, (number, keeper[0].call)
        assert wrong(other) == [], (number, keeper[0].call)
        assert quarantined(other) == [], (number, keeper[0].call)
        if other.card(ID).state is State.READY:
            (again,) = other.claim("fast")
            assert other.finish(again, Done(output="theirs"))[0] is Said.OK
            assert other.claim("fast") == []
        other.close()
        queue.close()
        if not keeper[0].there:
            break
    assert 10 < number < MOST - 1


# -- controls: how it was before ----------------------------------------------------------------------------------


def test_setting_aside_unseen_loses_a_put(tmp_path, monkeypatch):
    real = entering._is_listed
    asked = []

    def listed(path):  # the second look is the one after the move
        asked.append(path)
        return real(path) if asked.count(path) % 2 else True

    monkeypatch.setattr(entering, "_is_listed", listed)
    with pytest.raises(AssertionError):
        test_a_put_sets_the_copy_aside_and_never_the_task(tmp_path)


def test_a_look_and_an_unlink_take_a_later_result_away(tmp_path, monkeypatch):
    class Nobody:
        def __init__(self, path):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(withdraw, "BoundedLock", Nobody)
    with pytest.raises(AssertionError):
        test_a_reopening_that_stalls_takes_no_later_result_away(tmp_path)


def test_the_seals_before_the_links_bring_it_twice(tmp_path, monkeypatch):
    real = mend._Mender.results

    def results(job):
        ending_then = [nonce for _, nonce, _ in job.folder.sealed()]
        found = list(job._tmp())
        with monkeypatch.context() as inner:
            inner.setattr(job, "_tmp", lambda: found)
            inner.setattr(job.folder, "sealed", lambda: [(None, nonce, None) for nonce in ending_then])
            yield from real(job)

    monkeypatch.setattr(mend._Mender, "results", results)
    with pytest.raises(AssertionError):
        test_a_keeper_that_looked_before_the_seal_does_not_end_it(tmp_path)
