"""A fixed name for every holder: whoever comes too late takes nothing from whoever has the task now."""

from __future__ import annotations

import errno
import os
import shutil

import pytest
from boxes import LEASE, load, make, reopened
from faults import Stopped

from taskpit import fs
from taskpit.errors import Storage, Unavailable
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Release, Said, State, Task, Want
from taskpit.store import flock
from taskpit.testing import FakeClock

#: No verb here makes more calls than this.
MOST = 200


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Whoever stands still keeps nobody waiting for long."""
    monkeypatch.setattr(fs, "TURN", 0.005)
    monkeypatch.setattr(flock, "TURN", 0.005)


def test_what_the_disk_has_no_room_to_claim_stays_where_it_was(tmp_path):
    """Each claim left a task in processing/ as nobody's, until the inbox was empty."""
    queue = make(tmp_path / "box", "mailbox", FakeClock())
    queue.store.put([Task(id="x", title="x"), Task(id="y", title="y")])

    def full(call, path):
        if call == "create" and path.endswith("~claim"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    for _ in range(3):
        fs.set_hook(full)
        try:
            with pytest.raises(Storage):
                queue.claim("w")
        finally:
            fs.set_hook(None)
        assert sorted(os.listdir(tmp_path / "box/inbox")) == ["x.json", "y.json"]
    assert [claim.task.id for claim in queue.claim("w", count=2)] == ["x", "y"]
    queue.close()


class Stall:
    """A worker that stands still before one of its calls, and the mailbox as somebody else has it."""

    def __init__(self, root, work, number):
        self.clock = FakeClock()
        self.slow = make(root, "mailbox", self.clock)
        assert self.slow.store.put([Task(id="x", title="x", tags=("a",))]) == [Said.CREATED]
        (self.claim,) = self.slow.claim("slow")
        self.stopped = Stopped(lambda: work(self.slow, self.claim), number)
        self.fast = reopened(root, "mailbox", self.clock)
        self.where = f"stopped before call {number}, {self.stopped.call}"

    @property
    def in_the_guard(self):
        """Whether the one that stands still holds the guard of the task."""
        guard = self.fast.store.folder.guard("x")
        if not guard.take(wait=False):
            return True
        guard.drop()
        return False

    def taken_over(self):
        """The lease runs out, a keeper comes, another claims. None if the slow one had sealed already."""
        self.clock.advance(LEASE + 1)
        sweep(self.fast)
        if self.fast.card("x").state is not State.READY:
            return None
        (claim,) = self.fast.claim("fast", ids=("x",))
        return claim

    def close(self):
        self.slow.close()
        self.fast.close()


def stalls(where, work):
    """One for each call of the work."""
    for number in range(1, MOST):
        root = f"{where}/{number}"
        stall = Stall(root, work, number)
        if not stall.stopped.there:
            assert number > 5, "it was hardly ever stopped: nothing is shown"
            stall.stopped.go_on()
            stall.close()
            return
        yield stall
        stall.close()
        shutil.rmtree(root)
    raise AssertionError("the work does not end")


OUTCOMES = {"done": Done(output="slow"), "failed": Failed(error="slow", final=True), "release": Release()}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_stalled_end_takes_nothing_from_the_next_holder(outcome, tmp_path):
    lost = 0
    for stall in stalls(tmp_path, lambda queue, claim: queue.finish(claim, OUTCOMES[outcome])[0]):
        if stall.in_the_guard:
            assert stall.stopped.go_on() is Said.OK, stall.where
            continue
        claim = stall.taken_over()
        if claim is None:
            assert stall.stopped.go_on() in (Said.OK, Said.ALREADY), stall.where
            continue
        before = stall.fast.card("x")
        said = stall.stopped.go_on()
        assert said in (Said.LOST, Said.OK, Said.ALREADY), stall.where  # OK: a keeper had carried its release out
        assert said is Said.LOST or outcome == "release", stall.where
        lost += said is Said.LOST
        assert stall.fast.card("x") == before.replace(late=stall.fast.card("x").late), stall.where
        assert load(stall.fast.store.folder.at("processing/x.json"))["claimed_by"] == claim.fence, stall.where
        assert stall.fast.renew(claim) is Said.OK, stall.where
        assert stall.fast.finish(claim, Done(output="fast"))[0] is Said.OK, stall.where
        sweep(stall.fast)
        assert stall.fast.card("x").result.output == "fast", stall.where
    assert lost > 0


def test_a_stalled_renewal_stamps_nobody_elses_claim(tmp_path):
    seen = set()
    for stall in stalls(tmp_path, lambda queue, claim: queue.renew(claim)):
        if stall.in_the_guard:
            seen.add(stall.stopped.go_on())
            continue
        claim = stall.taken_over()
        before = os.stat(stall.fast.store.folder.at("processing/x.json"))
        said = stall.stopped.go_on()
        seen.add(said)
        after = os.stat(stall.fast.store.folder.at("processing/x.json"))
        assert (before.st_mtime_ns, before.st_ctime_ns) == (after.st_mtime_ns, after.st_ctime_ns), stall.where
        assert stall.fast.finish(claim, Done(output="fast"))[0] is Said.OK, stall.where
    assert seen == {Said.LOST, Said.OK}


def test_a_stalled_claim_has_the_task_or_not(tmp_path):
    """Stopped anywhere between listing and the holder's name, also inside the guard: never two holders."""
    for number in range(1, MOST):
        clock, root = FakeClock(), f"{tmp_path}/{number}"
        slow = make(root, "mailbox", clock)
        slow.store.put([Task(id="x", title="x")])
        stopped = Stopped(lambda slow=slow: slow.claim("slow"), number)
        if not stopped.there:
            assert number > 5, "it was hardly ever stopped: nothing is shown"
            stopped.go_on()
            slow.close()
            return
        fast = reopened(root, "mailbox", clock)
        mine = fast.claim("fast")
        theirs = stopped.go_on()
        where = f"stopped before call {number}, {stopped.call}"
        assert len(mine) + len(theirs) == 1, where
        for queue, claims in ((fast, mine), (slow, theirs)):
            for claim in claims:
                assert queue.finish(claim, Done(output="once"))[0] is Said.OK, where
        slow.close()
        fast.close()
        shutil.rmtree(root)
    raise AssertionError("the claim does not end")


def test_whoever_stands_still_in_the_guard_stops_nobody_for_long(tmp_path):
    """Others go on with other tasks; what concerns this one says that nothing happened."""
    found = 0
    for stall in stalls(tmp_path, lambda queue, claim: queue.finish(claim, Done(output="slow"))[0]):
        if stall.in_the_guard:
            found += 1
            stall.fast.store.put([Task(id="other", title="other"), Task(id="x.", title="same guard, perhaps")])
            assert [claim.task.id for claim in stall.fast.claim("fast", ids=("other",))] == ["other"]
            stall.clock.advance(LEASE + 1)
            sweep(stall.fast)
            with pytest.raises(Unavailable, match="does not go on"):
                stall.fast.renew(stall.claim)
        assert stall.stopped.go_on() is Said.OK or not stall.where
    assert found > 0


def test_a_foreign_mv_over_our_claim_is_noticed(tmp_path):
    """Another tool gave our task back and took it for itself: the name is the same, the holder is not."""
    queue = make(tmp_path / "box", "mailbox", FakeClock())
    root = queue.store.folder.root
    queue.store.put([Task(id="x", title="x")])
    (claim,) = queue.claim("ours")
    fields = load(f"{root}/processing/x.json")
    os.rename(f"{root}/processing/x.json", f"{root}/inbox/x.json")
    with open(f"{root}/inbox/x.json", "w", encoding="utf-8") as file:
        file.write(f'{{"id": "x", "title": "x", "claimed_by": "theirs", "created_at": {fields["created_at"]}}}')
    os.rename(f"{root}/inbox/x.json", f"{root}/processing/x.json")
    assert queue.renew(claim) is Said.LOST
    assert queue.finish(claim, Done(output="ours"))[0] is Said.LOST
    assert load(f"{root}/processing/x.json")["claimed_by"] == "theirs"
    assert [late.startswith(".taskpit/late/x~") for late in queue.card("x").late] == [True]
    queue.close()


def test_one_worker_by_declaration_has_one_claim(tmp_path):
    """With `--as` the name is the fence: two processes under one name are the same worker."""
    queue = make(tmp_path / "box", "mailbox", FakeClock())
    queue.store.put([Task(id="x", title="x")])
    (claim,) = queue.store.claim(Want(worker="ann", lease=LEASE, verbatim=True))
    assert claim.fence == "ann"
    assert [again.fence for again in queue.claim("ann", ids=("x",), verbatim=True)] == ["ann"]
    queue.close()
