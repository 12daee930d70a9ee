"""Ending a claim: the seal decides whether it was still ours; then it is carried out, or known, or late."""

from __future__ import annotations

from taskpit import fs
from taskpit.errors import Invalid
from taskpit.layouts import Spot
from taskpit.store.claims import holds
from taskpit.store.ending import carried_before, give_up, roll, seal
from taskpit.store.folder import LARGEST_RESULT, STOPS, Folder
from taskpit.task import Claim, End, Said, State, Verdict

__all__ = ["end"]


def end(folder: Folder, how: End) -> Said:
    """Row *end of a claim*: seal, then carry out."""
    claim = how.claim
    event = folder.event(how.action or "released_task", claim.task.id, claim.fence, how.details)
    path = folder.layout.claimed_path(claim.task, claim.fence)
    spot = Spot(state=State.CLAIMED, id=claim.task.id, slug=claim.task.slug, worker=claim.fence, path=path)
    sealed, committed = seal(folder, spot, how, still_ours=lambda: holds(folder, claim, path))
    if committed:
        if how.result is not None:  # a wish to stop outlives a claim that merely ends
            fs.remove(folder.at(f"{STOPS}/{claim.task.id}"))
        if how.action == "recovered_task" and folder.layout.reclaims:
            line = f"- {event.timestamp} {path.rpartition('/')[2]}: {how.details}\n"
            fs.append(folder.at(folder.layout.reclaims), line.encode("utf-8", "replace"))
        return roll(sealed, end=how, event=event)
    if carried_before(sealed) or (how.result is not None and _ended_by(folder, claim, how.result.verdict)):
        for letter in sealed.parts:
            fs.remove(sealed.part(letter))
        return Said.ALREADY
    kept = give_up(sealed)
    if kept:
        folder.tell("late_result", claim.task.id, claim.fence, f"kept in {kept}")
    return Said.LOST


def _ended_by(folder: Folder, claim: Claim, verdict: Verdict) -> bool:
    """Whether this very claim has ended this way before."""
    try:
        data, _ = fs.read(folder.outcome_path(claim.task.id, verdict), LARGEST_RESULT)
        spot = Spot(state=verdict.state, id=claim.task.id, slug=claim.task.slug, verdict=verdict)
        return folder.layout.load_result(spot, data)[0].worker == claim.fence
    except (OSError, Invalid):
        return False
