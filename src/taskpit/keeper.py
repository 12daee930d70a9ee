"""The janitor: gives back what was abandoned, carries out what was left undone, prunes. Idempotent.

Anybody may run it at any time, ten at once if need be: each step is decided by one rename.
"""

from __future__ import annotations

from collections.abc import Callable

from taskpit.errors import CursorLost, Storage, Unavailable
from taskpit.hooks import tell_ends
from taskpit.model import Card, Claim, Failed, Said, State
from taskpit.policy import settle
from taskpit.queue import Queue
from taskpit.store.port import Lapse, Looking, Mend

#: Lines of the changelog that are looked at for what one sweep set aside.
MANY = 100_000


def sweep(
    queue: Queue,
    *,
    dry_run: bool = False,
    closely: bool = False,
    whole: bool = True,
    ended: Callable[[Queue, Claim], bool] = lambda _queue, _claim: True,
) -> list[Mend]:
    """What was done, or what would be. `ended` ends what still works for a claim before it is given back.

    Not `whole`: only what is claimed and what is due is looked at, however much waits.

    `closely`, for a person: every waiting task is looked at for schedules and races that are out of step, and what was
    set aside on the way is among them, too.

    Where it says False, the claim is left alone: the next sweep tries again.
    """
    store = queue.store
    if store.info().kept and not closely:
        return []
    _trust_hooks(queue, dry_run=dry_run)
    start = _place(store) if closely else None
    done = list(store.mend(dry_run=dry_run)) if whole else []
    done += give_back(queue, dry_run=dry_run, ended=ended)
    if not dry_run:
        done += [Mend(kind="scheduled", what=task_id) for task_id in queue.fire_schedules("keeper", closely=closely)]
    done += store.compost(dry_run=dry_run) if whole else []
    return [*done, *_told_since(store, start, done)]


def fix(queue: Queue, *, dry_run: bool = False, ended: Callable[[Queue, Claim], bool]) -> list[Mend]:
    """What a sweep mends and gives back, and what needs a person's word, who has given it. Prunes nothing."""
    _trust_hooks(queue, dry_run=dry_run)
    start = _place(queue.store)
    done = [*queue.store.fix(dry_run=dry_run), *give_back(queue, dry_run=dry_run, ended=ended)]
    return [*done, *_told_since(queue.store, start, done)]


def _place(store: Looking) -> str | None:
    """Where the changelog ends now; None if it cannot be read."""
    try:
        events, cursor = store.latest(1)
    except Storage:
        return None
    return cursor if events else ""


def _told_since(store: Looking, start: str | None, done: list[Mend]) -> list[Mend]:
    """What the changelog says was set aside or came too late since then, beyond what is known."""
    try:
        events = store.events(start, MANY)[0] if start is not None else []
    except (CursorLost, Storage):
        return []  # it was put away meanwhile; doctor shows what is aside
    known = {mend.what for mend in done if mend.kind in ("set aside", "put back", "late result")}
    found: list[Mend] = []
    for event in events:
        what, details = event.about, event.details
        if event.action == "quarantined":
            path, _, details = event.details.partition(": ")
            what = path.strip("'\"")
        if event.action in ("quarantined", "late_result") and what not in known:
            kind = "set aside" if event.action == "quarantined" else "late result"
            found.append(Mend(kind=kind, what=what, details=details or "not published; kept to be read"))
    return found


def _trust_hooks(queue: Queue, *, dry_run: bool) -> None:
    """What is given back may be told to a hook: before anything is changed, it is known whether that may run."""
    if queue.config.hooks.commands and not dry_run:
        queue.need_trust()


def give_back(queue: Queue, *, ended: Callable[[Queue, Claim], bool], dry_run: bool = False) -> list[Mend]:
    """What was abandoned is ready again: the part of a sweep that looks only at what is claimed."""
    store, done = queue.store, []
    _trust_hooks(queue, dry_run=dry_run)
    for lapse in store.lapsed(dry_run=dry_run):
        claim = lapse.claim
        if not dry_run:
            card = store.read([claim.task.id])[0]
            # The worker may have renewed or finished since `lapsed` looked: ask again before signalling its processes.
            if not _still_lapsed(lapse, card) or not ended(queue, claim):
                continue
            # What a person has cancelled is nobody's to begin with, also if its worker died before it heard that.
            outcome = queue.called_off(claim.task.id) if lapse.called_off else Failed(error=lapse.reason, kind="lost")
            end = settle(claim, outcome, card.tries if card else (), queue.config, queue.clock.now())
            try:
                said = store.finish([end])[0]
            except Unavailable:
                continue  # a process stands still in the middle of it: the next sweep looks again
            if said is not Said.OK:
                continue  # its worker came back to life and finished it, or another keeper was faster
            if queue.config.hooks.commands:
                tell_ends(store, queue.config.hooks, [end])
            if "race-of" in claim.task.extra or "racers" in claim.task.extra:
                queue.look_after_race(claim.task)
        done.append(Mend(kind="reclaimed", what=claim.task.id, details=lapse.reason))
    return done


def _still_lapsed(lapse: Lapse, card: Card | None) -> bool:
    """Whether the claim has been neither ended nor renewed since the store judged it, where its lease tells that."""
    if not lapse.until:
        return True
    same = card is not None and card.state is State.CLAIMED and card.worker == lapse.claim.fence
    return same and card is not None and card.until == lapse.until
