"""What a person does to a task by hand where more than the queue has a part in it. Knows no terminal and no protocol.

Finishing runs its check first, then publishes the result; an answer also lets the task cost as much again; a need
is called as the layout calls it, however it was written.
"""

from __future__ import annotations

from taskpit import errors, fs, layouts, workers
from taskpit.model import Claim, Done, Said, State, Verdict
from taskpit.policy import question_of
from taskpit.rules import check_mode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from taskpit.model import Card, End, Evidence, Task
    from taskpit.queue import Queue

#: What lets no task go on that has cost too much.
NO = ("no", "n", "stop")


def need_ids(queue: Queue, words: Iterable[str]) -> tuple[str, ...]:
    """Needs as a person writes them, by id: a bare number stands for the id with that number.

    Ids nobody has yet are as good as any, if this queue could have them.
    """
    name = queue.store.info().layout
    if not name:  # in memory there are no names to be respelled
        return tuple(dict.fromkeys(words))
    layout = layouts.get(name)

    def meant(word: str) -> str:
        number = layout.number(word)
        return layout.check_id(layout.new_id(number) if number and queue.store.read([word]) == [None] else word)

    return tuple(dict.fromkeys(map(meant, words)))


def answer_by_hand(queue: Queue, word: str, text: str, worker: str) -> list[str]:
    """Every task that waits for this answer goes on with it; their ids. A no to what it costs lets nothing go on."""
    from taskpit.run.budget import GO_ON, allow

    found = queue.store.resolve(word)
    card = queue.store.read(found)[0] if len(found) == 1 else None  # none: it is a question's key
    if card is not None and question_of(card.task).endswith(GO_ON) and text.strip():
        if text.strip().casefold() in NO:
            hint = f"`pit cancel {card.task.id}` ends it. Any other answer lets it go on, and cost as much again."
            raise errors.Invalid(f"{card.task.id} still waits", hint=hint, id=card.task.id)
        allow(queue, worker, card.task.id)
    return queue.answer(word, text, worker)


def finish_by_hand(  # noqa: PLR0913 - what a person may say of an end
    queue: Queue,
    task_id: str,
    worker: str,
    *,
    output: str = "",
    log: str = "",
    cwd: str = ".",
    check: bool = True,
    force: bool = False,
    env: Mapping[str, str] | None = None,
    go_on: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """The task is done, or CheckFailed and still this worker's, or Lost with what was brought kept aside.

    Doing it twice is fine. A claim that a pool runs is ended by that pool: from inside the run the output is handed
    in, and the pool runs the check when the command has ended; from elsewhere only by a person who says `force`.
    `go_on` is called before the check and after it; if it raises nothing is published, and the claim stays.
    """
    card = queue.card(task_id)
    if card.state is State.DONE and card.result and card.result.worker == worker:
        return {"id": task_id, "state": "done", "already": True, "check": None}
    try:
        claim = queue.holding(task_id, worker)
    except errors.Lost as lost:
        if output:  # it was taken back, and may be another worker's by now: what was brought is kept aside
            over = Claim(task=card.task, worker=worker, fence=worker)
            said, _ = queue.finish(over, Done(output=output))
            if card.state is not State.READY:
                refuse_lost(said, task_id)
            lost.hint = f"What you brought is kept aside: `pit show {task_id}` shows where. {lost.hint}"
        raise
    around = workers.run_around(env or {})
    own = check and around is not None and task_id in (around.task, around.says)
    if (own or _runs_in_pool(queue, card, claim)) and not (force and not around):
        place = (env or {}).get("TASKPIT_RUN_DIR", "") if around and _is_its_own(queue, claim, around) else ""
        return _hand_in(claim, place, output, check=check)
    if around and not check:
        text = f"{task_id} is not finished from inside a pool's run without what the pool asks of it"
        raise errors.Invalid(text, hint="Hand in your own task with `pit done`; --no-check is for people.", id=task_id)
    if check and claim.task.extra.get("land", "none") != "none":
        text = f"{task_id} is done when its change has landed (land: {claim.task.extra['land']}), and a pool does that"
        hint = f"`pit release {task_id}` gives it to one. Where you have brought the change there yourself: --no-check."
        raise errors.Conflict(text, hint=hint, id=task_id)
    go_on()
    evidence = _checked(queue, claim, cwd) if check and check_mode(claim.task) != "disabled" else None
    go_on()
    said, end = queue.finish(claim, Done(output=output, evidence=evidence, log=log))
    refuse_lost(said, task_id)
    if end.result is not None and end.result.verdict is not Verdict.DONE:
        hint = f"What you brought is kept: `pit show {task_id}`."
        raise errors.Lost(f"{task_id} is {end.result.verdict}: {end.result.reason}", hint=hint, id=task_id)
    shown = evidence.as_dict() if evidence else None
    facts = {"id": task_id, "state": "done", "already": said is Said.ALREADY, "check": shown}
    if queue.store.info().layout == "activities":  # a person's part may be left, however well an agent did its own
        now = queue.card(task_id)
        facts |= {"state": str(now.state), "held": now.held}
    return facts


def own_claim(queue: Queue, task_id: str, worker: str, env: Mapping[str, str]) -> Claim:
    """The claim this worker has on this task, to end it; Lost also inside the run of another claim than that."""
    claim = queue.holding(task_id, worker)
    need_own_run(queue, claim, env)
    return claim


def need_own_run(queue: Queue, claim: Claim, env: Mapping[str, str], *, parts: bool = False) -> None:
    """Lost inside another run than that of this claim, if a pool runs it; `parts`: but for a part of the run's task."""
    around = workers.run_around(env)
    if not around or _is_its_own(queue, claim, around) or (parts and is_part(queue, claim.task, around.task)):
        return
    if _runs_in_pool(queue, queue.card(claim.task.id), claim):
        text = f"{claim.task.id} is run by a living pool as {claim.fence}, and this is another run"
        hint = "Only its own run ends it, or a person."
        raise errors.Lost(text, hint=hint, id=claim.task.id, holder=claim.fence)


def need_wait(task_id: str, env: Mapping[str, str]) -> None:
    """Invalid in a run, for a split that ends its task at once: nobody would run the check."""
    if workers.run_around(env):
        text = "in a pool's run a task waits for its children, and its check runs then"
        raise errors.Invalid(text, hint="Leave out --no-wait: that is for people.", id=task_id)


def _is_its_own(queue: Queue, claim: Claim, around: workers.Around) -> bool:
    """Whether the run of this claim is the one that this process is part of, or one of a pool inside that."""
    from taskpit.run.run_directory import reaper_of

    if around.fence == claim.fence:
        return True
    inside = reaper_of(queue.store, claim)
    return inside > 0 and workers.is_below(inside, around.top)


def is_part(queue: Queue, task: Task, whole: str) -> bool:
    """Whether the task is a part of the other, or a part's part."""
    seen = {""}
    while task.parent not in seen:
        if task.parent == whole:
            return True
        seen.add(task.parent)
        card = queue.store.read([task.parent])[0]
        task = card.task if card is not None else task
    return False


def _runs_in_pool(queue: Queue, card: Card, claim: Claim) -> bool:
    """Whether a living pool has a run of this claim."""
    if card.alive != "yes":
        return False
    from taskpit.run.run_directory import directory_of

    return fs.exists(directory_of(queue.store, claim))


def _hand_in(claim: Claim, place: str, output: str, *, check: bool) -> dict[str, Any]:
    """What the run brought lies ready in this place for its pool, which checks it and ends the claim."""
    task_id = claim.task.id
    if not place:
        text = f"{task_id} is run by a living pool as {claim.fence}, which ends it itself"
        hint = f"`pit cancel {task_id}` asks it to stop; a person may say --not-mine."
        raise errors.Lost(text, hint=hint, id=task_id, holder=claim.fence)
    if not check:
        raise errors.Invalid(f"{task_id} is run by a pool, which runs its check", hint="--no-check is for people.")
    from taskpit.run.run_directory import RunDirectory

    RunDirectory(place).hand_in(output)
    return {"id": task_id, "state": "claimed", "already": False, "check": None, "handed_in": True}


def _checked(queue: Queue, claim: Claim, cwd: str) -> Evidence:
    """The check's evidence, green unless red does not count; the claim is kept for as long as the check may take."""
    from taskpit.run.process import run_check

    task, limit = claim.task, queue.config.check_limit
    queue.need_trust()
    if queue.renew(claim, max(claim.lease, limit + 60)) is Said.LOST:
        raise errors.Lost(f"{task.id} is no longer yours", hint=f"See `pit why {task.id}`.", id=task.id)
    evidence = run_check(task.check, cwd, limit)
    if not evidence.green and check_mode(task) == "strict":
        raise errors.CheckFailed(
            f"the check of {task.id} is red: {task.check} exited {evidence.exit_code}",
            hint=f"The task is still yours: fix it and repeat, or `pit fail {task.id} 'what went wrong'`.",
            id=task.id,
            exit_code=evidence.exit_code,
            tail=evidence.tail,
        )
    return evidence


def refuse_lost(said: Said, task_id: str) -> None:
    """Lost if the claim was over when its end was told."""
    if said is Said.LOST:
        raise errors.Lost(
            f"the claim on {task_id} was over; what you brought is kept aside",
            hint=f"`pit show {task_id}` shows where, and what stands.",
            id=task_id,
        )


def refuse_called_off(end: End) -> None:
    """Conflict if it was cancelled meanwhile, and is: it neither waits for an answer nor has it parts."""
    if end.result is not None and end.result.verdict is Verdict.CANCELLED:
        task_id = end.claim.task.id
        hint = f"Leave it, and take another. `pit retry {task_id}` would run it again."
        raise errors.Conflict(
            f"{task_id} was cancelled while you had it, and has ended with that", hint=hint, id=task_id
        )


def refuse_unsplit(queue: Queue, said: Said, end: End) -> None:
    """Lost if the claim was over when it was to be split; also if it was over in another way, and no part is there."""
    unsplit = said is Said.ALREADY and None in queue.store.read([child.id for child in end.children])
    refuse_lost(Said.LOST if unsplit else said, end.claim.task.id)
