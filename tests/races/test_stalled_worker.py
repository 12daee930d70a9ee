"""A worker that stands still while others go on: whatever it does later, exactly one result stands."""

from __future__ import annotations

import os
import time

from pits import actions, make, misplaced, put, take, task
from stalls import ID, stalls

from taskpit import fs
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Release, Retry, Said, Split, State, Task, Verdict
from taskpit.store import claim as taking
from taskpit.store.folder import CLEANED
from taskpit.testing import FakeClock

MINE = Done(output="mine")


def claimed(queue):
    return take(queue, ID)


def finishing(outcome):
    return lambda queue, claim: queue.finish(claim, outcome)[0]


def test_a_stalled_done(tmp_path):
    """Its lease runs out, another claims and finishes: it is LOST, or it had sealed and the other got nothing."""
    seen = set()
    for stall in stalls(tmp_path, finishing(MINE), claimed):
        stall.lapse()
        taken = stall.somebody_does_it()
        said = stall.go_on()
        card = stall.all_is_well(late=1 if taken else 0)
        assert card.state is State.DONE, stall.where
        if taken:
            assert (said, card.result.output) == (Said.LOST, "theirs"), stall.where
            with open(stall.other.store.folder.at(card.late[0]), encoding="utf-8") as file:
                assert "mine" in file.read(), stall.where
            assert "late_result" in actions(stall.other, ID), stall.where
        else:
            assert said in (Said.OK, Said.ALREADY), stall.where
            assert card.result.output == "mine", stall.where
        seen.add((said, taken))
    assert {(Said.LOST, True), (Said.OK, False)} <= seen


def test_a_stalled_done_while_the_other_still_works(tmp_path):
    """What comes too late takes nothing from whoever has the task now."""
    for stall in stalls(tmp_path, finishing(MINE), claimed):
        stall.lapse()
        if stall.other.card(ID).state is not State.READY:
            stall.go_on()
            continue
        (claim,) = stall.other.claim("fast", ids=(ID,))
        assert stall.go_on() is Said.LOST, stall.where
        assert stall.other.renew(claim) is Said.OK, stall.where
        assert stall.other.finish(claim, Done(output="theirs"))[0] is Said.OK, stall.where
        assert stall.all_is_well(late=1).result.output == "theirs", stall.where


def test_a_stalled_failure(tmp_path):
    """For good, stopped anywhere, also after somebody reopened and did the task."""
    for stall in stalls(tmp_path, finishing(Failed(error="mine", final=True)), claimed):
        stall.lapse()
        if stall.other.card(ID).state is State.FAILED:
            assert stall.other.store.reopen([stall.other.card(ID).task]) == [Said.OK]
        taken = stall.somebody_does_it()
        assert taken, stall.where
        stall.go_on()
        sweep(stall.other)
        card = stall.all_is_well(late=1)
        assert (card.state, card.result.output) == (State.DONE, "theirs"), stall.where


def test_a_stalled_failure_that_was_reopened(tmp_path):
    """It was carried out by a keeper and a person started it anew: it does not fail a second time."""
    for stall in stalls(tmp_path, finishing(Failed(error="mine", final=True)), claimed):
        stall.lapse()
        if stall.other.card(ID).state is State.FAILED:
            assert stall.other.store.reopen([stall.other.card(ID).task]) == [Said.OK]
        (claim,) = stall.other.claim("fast", ids=(ID,))
        stall.go_on()
        sweep(stall.other)
        assert stall.other.renew(claim) is Said.OK, stall.where
        assert stall.other.finish(claim, Done(output="theirs"))[0] is Said.OK, stall.where
        card = stall.all_is_well(late=len(stall.other.card(ID).late))
        assert len(card.late) in (1, 2), stall.where
        assert (card.state, card.result.output) == (State.DONE, "theirs"), stall.where


def test_a_stalled_end_whose_parts_were_swept(tmp_path):
    """Stopped for so long that its temporary files went, and its task was given back: its result is late."""
    for outcome in (MINE, Failed(error="mine", final=True)):
        for stall in stalls(tmp_path / type(outcome).__name__, finishing(outcome), claimed):
            sealed = os.listdir(stall.other.store.folder.at(".taskpit/sealed"))
            for name in os.listdir(stall.other.store.folder.at(".taskpit/tmp")) if sealed else []:
                os.unlink(stall.other.store.folder.at(f".taskpit/tmp/{name}"))
            stall.lapse()
            taken = stall.somebody_does_it()
            stall.go_on()
            sweep(stall.other)
            assert misplaced(stall.other) == {}, stall.where
            if taken:
                assert stall.other.card(ID).result.output == "theirs", stall.where


def test_a_stalled_retry_brings_nothing_back(tmp_path):
    """Neither its task nor its bytes: the other's result stands."""
    for stall in stalls(tmp_path, finishing(Failed(error="mine")), claimed):
        stall.lapse()
        stall.other.clock.advance(100)
        assert stall.somebody_does_it(), stall.where
        stall.go_on()
        sweep(stall.other)
        card = stall.other.card(ID)
        assert (card.state, card.result.output) == (State.DONE, "theirs"), stall.where
        stall.all_is_well(late=len(card.late))


def test_a_stalled_release_brings_nothing_back(tmp_path):
    for stall in stalls(tmp_path, finishing(Release()), claimed):
        stall.lapse()
        assert stall.somebody_does_it(), stall.where
        stall.go_on()
        assert stall.all_is_well().result.output == "theirs", stall.where


def test_a_stalled_quota_pause(tmp_path):
    for stall in stalls(tmp_path, finishing(Retry(reason="quota", after=5.0)), claimed):
        stall.lapse()
        stall.other.clock.advance(100)
        assert stall.somebody_does_it(), stall.where
        stall.go_on()
        card = stall.other.card(ID)
        assert card.result.output == "theirs", stall.where
        stall.all_is_well(late=len(card.late))


def test_a_stalled_split_has_children_or_not(tmp_path):
    """All of them if it was sealed, none if it was lost; and each once, also if somebody did them meanwhile."""
    children = (Task(id="0002", title="one", slug="one"), Task(id="0003", title="two", slug="two"))
    for stall in stalls(tmp_path, finishing(Split(children=children)), claimed):
        stall.lapse()
        taken = stall.somebody_does_it()
        if not taken:
            for claim in stall.other.claim("fast", count=5):
                stall.other.finish(claim, Done(output="theirs"))
        stall.go_on()
        stall.all_is_well(late=1 if taken else 0)
        cards = stall.other.store.read(["0002", "0003"])
        if taken:
            assert cards == [None, None], stall.where
        else:
            assert [card.state for card in cards] == [State.DONE, State.DONE], stall.where


def test_a_stalled_claim(tmp_path):
    """Whoever comes back finds the task gone, or has a claim that is over; never do both finish it."""
    for stall in stalls(tmp_path, lambda queue, _: queue.claim("slow", ids=())):
        stall.lapse()
        taken = stall.somebody_does_it()
        claims = stall.go_on()
        for claim in claims:
            assert stall.queue.finish(claim, MINE)[0] is (Said.LOST if taken else Said.OK), stall.where
        card = stall.all_is_well(late=1 if taken and claims else 0)
        assert card.result.output == ("theirs" if taken else "mine"), stall.where


def test_a_claim_is_not_taken_away_before_it_is_stamped(tmp_path):
    """A keeper that looks between the claiming rename and its stamp judges nobody abandoned."""
    for stall in stalls(tmp_path, lambda queue, _: queue.claim("slow", ids=())):
        stall.other.store.folder.grace = 2.0
        stall.other.clock.advance(time.time() + 1 - stall.other.clock.now())  # later than the file itself
        judged = stall.other.store.lapsed()
        claims = stall.go_on()
        assert judged == [], stall.where
        assert stall.queue.renew(claims[0]) is Said.OK, stall.where


def test_a_rivals_stamp_robs_nobody(tmp_path):
    """Who tried for it, too, stamped it with a shorter lease: an instant after our look, so that it stands there."""
    queue = make(str(tmp_path / "pit"), FakeClock())
    queue.clock.advance(time.time() - queue.clock.now())  # the kernel's ctime counts
    put(queue, task(1))
    (claim,) = queue.claim("slow", lease=3600.0)
    path = queue.store.folder.at(queue.store.folder.layout.claimed_path(claim.task, claim.fence))
    os.utime(path, (queue.clock.now() + 5.0 - CLEANED,) * 2)
    queue.clock.advance(60.0)
    assert queue.store.lapsed() == []
    assert queue.finish(claim, MINE)[0] is Said.OK
    queue.close()


def test_a_rivals_stamp_before_our_rename_is_made_good(tmp_path):
    """The look after the rename shows whose stamp it is."""
    queue = make(str(tmp_path / "pit"), FakeClock())
    put(queue, task(1))

    def stamp(call, path):
        if call == "rename" and "/food/" in path:
            os.utime(path, (queue.clock.now() + 5.0 - CLEANED,) * 2)

    fs.set_hook(stamp)
    try:
        (claim,) = queue.claim("slow", lease=3600.0)
    finally:
        fs.set_hook(None)
    assert abs(queue.card(claim.task.id).until - queue.clock.now() - 3600.0) < 1.0
    queue.close()


def test_one_name_for_two_claims_replaces_neither(tmp_path):
    """A copy that an editor saved, claimed under a name of one's own choosing: the live claim stays what it is."""
    queue = make(str(tmp_path / "pit"), FakeClock())
    put(queue, task(1))
    (claim,) = queue.claim("ann", ids=("0001",), verbatim=True)
    folder = queue.store.folder
    held = folder.at(folder.layout.claimed_path(claim.task, claim.fence))
    inode = os.stat(held).st_ino
    os.link(folder.at(".taskpit/ids/0001"), folder.at(folder.layout.ready_path(task(1))))  # as a restored copy would
    ready = folder.at(folder.layout.ready_path(claim.task))
    assert taking._move(folder, ready, held, 0.0, verbatim=True) is None
    assert os.stat(held).st_ino == inode
    queue.close()


def test_a_stalled_renewal(tmp_path):
    """It keeps the claim if it is still there, and touches nobody else's if not."""
    for stall in stalls(tmp_path, lambda queue, claim: queue.renew(claim), claimed):
        stall.lapse()
        (claim,) = stall.other.claim("fast", ids=(ID,))
        before = stall.other.card(ID).until
        stamped = stall.stopped.call[0] == "stat"
        assert stall.go_on() is (Said.OK if stamped else Said.LOST), stall.where
        assert stall.other.card(ID).until == before, stall.where
        assert stall.other.finish(claim, MINE)[0] is Said.OK, stall.where
        stall.all_is_well()


def test_a_task_is_always_somewhere(tmp_path):
    """Whoever reads while another stands still in the middle of an end finds the task."""
    for outcome in (MINE, Failed(error="x", final=True), Failed(error="x"), Release()):
        for stall in stalls(tmp_path / str(type(outcome).__name__ + str(id(outcome))), finishing(outcome), claimed):
            assert stall.other.store.read([ID])[0] is not None, stall.where
            stall.go_on()


def test_results_name_their_verdict(tmp_path):
    """A failure that somebody else carries out is a failure."""
    for stall in stalls(tmp_path, finishing(Failed(error="mine", cancelled=True)), claimed):
        sweep(stall.other)
        stall.go_on()
        card = stall.all_is_well()
        assert card.result.verdict is Verdict.CANCELLED, stall.where
