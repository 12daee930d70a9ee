"""Ending claims: the seal decides whether each was still ours; then it is carried out, or known, or late."""

from __future__ import annotations

from taskpit import fs
from taskpit.errors import Invalid, Unavailable
from taskpit.layouts import Spot
from taskpit.store.claim import holds
from taskpit.store.finish import carried_before, clear, commit, draw_up, give_up, publish, roll, seal
from taskpit.store.folder import LARGEST_RESULT, OUTCOMES, SEALED, STOPS, Folder
from taskpit.task import Claim, End, Said, State, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from taskpit.store.finish import Sealed
    from taskpit.task import Event

__all__ = ["end", "end_all"]


def end(folder: Folder, how: End) -> Said:
    """Row *end of a claim*: seal, then carry out."""
    spot = _spot(folder, how.claim)
    sealed, committed = seal(folder, spot, how, still_ours=lambda: holds(folder, how.claim, spot.path))
    return _carry_out(sealed, how) if committed else _too_late(sealed, how)


def end_all(folder: Folder, ends: Sequence[End], patiently: Callable[[Callable[[], Said]], Said]) -> list[Said]:
    """The same for many, which share what they wait for: all that follows is on the disk before the first seal.

    If the disk refuses something in between, they go on one by one, `patiently`: what is sealed is carried out as
    far as it is not yet, what is not is ended from the beginning.
    """
    drawn = [(how, draw_up(folder, _spot(folder, how.claim), how)) for how in ends]
    said: dict[int, Said] = {}
    sealed: dict[int, tuple[Sealed, End]] = {}
    try:
        _write(folder, [one for _, one in drawn])
        for number, (how, (token, _)) in enumerate(drawn):
            if commit(token, _whether_held(folder, how.claim, token)):
                sealed[number] = (token, how)
        _carry_out_all(folder, sealed, said)
        for number, (how, (token, _)) in enumerate(drawn):
            if number not in sealed:  # after all the others: it may be one of these that has ended it
                said[number] = _too_late(token, how)
    except (OSError, Unavailable):
        for number, (_, (token, _)) in enumerate(drawn):
            if number not in sealed and number not in said:
                clear(token)
        for number, how in enumerate(ends):
            if number not in said:
                said[number] = patiently(_rest_of(folder, how, sealed.get(number)))
    return [said[number] for number in range(len(ends))]


def _rest_of(folder: Folder, how: End, sealed: tuple[Sealed, End] | None) -> Callable[[], Said]:
    """What is left to do of one of many, after trouble."""

    def go_on() -> Said:
        if sealed is None:
            return end(folder, how)
        said = roll(sealed[0], end=how)
        return Said.OK if said is Said.ALREADY else said

    return go_on


def _carry_out_all(folder: Folder, sealed: dict[int, tuple[Sealed, End]], said: dict[int, Said]) -> None:
    """Those that only publish a result are carried out together, all others one by one."""
    plain = {number: (token, how) for number, (token, how) in sealed.items() if token.parts == "r"}
    if plain:
        marks = set(fs.names(folder.at(STOPS)))
        for _, how in plain.values():
            _unmark(folder, how.claim, marks)
        answers = publish(folder, [(token, how, _event(folder, how)) for token, how in plain.values()])
        said.update(zip(plain, answers, strict=True))
    for number, (token, how) in sealed.items():
        if number not in plain:
            said[number] = _carry_out(token, how)


def _whether_held(folder: Folder, claim: Claim, token: Sealed) -> Callable[[], bool]:
    return lambda: holds(folder, claim, token.spot.path)


def _write(folder: Folder, drawn: Sequence[tuple[Sealed, dict[str, bytes]]]) -> None:
    """All parts of these ends are on the disk."""
    early = [(token, content) for token, content in drawn if not token.settles_late]
    together = folder.syncs_together(sum(len(content) for _, content in early))
    for token, content in drawn:
        for letter, data in content.items():
            folder.write(token.part(letter), data, sync=folder.durable and not token.settles_late and not together)
    if early:
        folder.settle(folder.layout.tmp, together=together)


def _spot(folder: Folder, claim: Claim) -> Spot:
    path = folder.layout.claimed_path(claim.task, claim.fence)
    return Spot(state=State.CLAIMED, id=claim.task.id, slug=claim.task.slug, worker=claim.fence, path=path)


def _event(folder: Folder, how: End) -> Event:
    return folder.event(how.action or "released_task", how.claim.task.id, how.claim.fence, how.details)


def _carry_out(sealed: Sealed, how: End) -> Said:
    folder, event = sealed.folder, _event(sealed.folder, how)
    if how.result is not None:
        _unmark(folder, how.claim)
    if how.action == "recovered_task" and folder.layout.reclaims:
        line = f"- {event.timestamp} {sealed.spot.path.rpartition('/')[2]}: {how.details}\n"
        folder.make_place(folder.at(folder.layout.reclaims))
        fs.append(folder.at(folder.layout.reclaims), line.encode("utf-8", "replace"))
    return roll(sealed, end=how, event=event)


def _unmark(folder: Folder, claim: Claim, marks: set[str] | None = None) -> None:
    """Nobody need be asked to stop any more; a wish to stop outlives a claim that merely ends."""
    if marks is None or claim.task.id in marks:
        fs.remove(folder.of(STOPS, claim.task.id))


def _too_late(sealed: Sealed, how: End) -> Said:
    """The claim was over: because this very end was carried out before, or because another has the task."""
    folder, claim = sealed.folder, how.claim
    if carried_before(sealed) or (how.result is not None and _ended_by(folder, claim, how.result.verdict)):
        for letter in sealed.parts:
            fs.remove(sealed.part(letter))
        if how.result is not None and folder.durable:  # whoever ended it may not have come so far yet
            _settle_outcome(folder, how)
        return Said.ALREADY
    kept = give_up(sealed)
    if kept:
        folder.tell("late_result", claim.task.id, claim.fence, f"kept in {kept}")
    return Said.LOST


def _settle_outcome(folder: Folder, how: End) -> None:
    """The result that stands is on the disk, and so is where it stands."""
    result = how.result
    assert result is not None
    path = folder.layout.result_path(how.claim.task, result.verdict)
    for file in (folder.outcome_path(how.claim.task.id, result.verdict), folder.at(path)):
        try:
            fs.sync_path(file)
        except FileNotFoundError:
            continue
    folder.sync(SEALED, OUTCOMES, path.rpartition("/")[0])


def _ended_by(folder: Folder, claim: Claim, verdict: Verdict) -> bool:
    """Whether this very claim has ended this way before."""
    try:
        data, _ = fs.read(folder.outcome_path(claim.task.id, verdict), LARGEST_RESULT)
        spot = Spot(state=verdict.state, id=claim.task.id, slug=claim.task.slug, verdict=verdict)
        return folder.layout.load_result(spot, data)[0].worker == claim.fence
    except (OSError, Invalid):
        return False
