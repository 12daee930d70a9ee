"""A task in words: all about it, and why it is where it is, with what to do next. Pure: a card in, words out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from json import dumps

from taskpit import errors
from taskpit.clock import local, say_duration
from taskpit.history import author, who
from taskpit.model import LATER, Card, Result, State, Task, Try, Verdict
from taskpit.policy import LANDING, OVER, PULL, RACING, REVIEW, REVIEWER, SPARE, WAITS, question_of
from taskpit.status import LABELS, Status, status_of
from taskpit.text import headline, one_line, revealed

#: What a task needs that no time will bring.
_NEVER = re.compile(r"needs (?P<need>\S+), which (?:(?P<failed>failed)|does not exist)")
#: Whose a task is between the end of its claim and the last step of it.
ENDING = "(ending)"
#: So many of a task's tries are told.
LAST_TRIES = 10


def reason_of(card: Card) -> str:
    """Why it does not go on, in one line: what holds it, or what it failed of. Empty for all others."""
    if card.held:
        return _plainly(card)
    return headline(card.result.reason) if card.result and card.state is State.FAILED else ""


# -- all about it ----------------------------------------------------------------------------------


def facts(card: Card, now: float) -> list[tuple[str, str]]:
    """Name and value of all that can be said of it in a line."""
    task = card.task
    found = [
        ("state", LABELS[status_of(card)] + (f": {card.held}" if card.held else "")),
        ("worker", _holder(card, now)),
        ("priority", str(task.priority or "")),
        ("needs", ", ".join(task.needs)),
        ("check", revealed(task.check)),
        ("attempts", _attempts(card)),
        ("tags", ", ".join(task.tags)),
        ("touches", ", ".join(task.touches)),
        ("parent", task.parent),
        ("big", "yes: a planner splits it" if task.big else ""),
        ("added", " by ".join(filter(None, (local(task.created) if task.created else "", task.by)))),
        ("last error", task.last_error),
        ("checked", "no: its check was not run" if card.checked == "no" else ""),
        *further(task),
    ]
    return [(name, value) for name, value in found if value]


def further(task: Task) -> list[tuple[str, str]]:
    """Fields that have no line of their own, and those that a person set beyond them."""
    said = [(name.replace("_", " "), _spelt(getattr(task, name))) for name in LATER if getattr(task, name)]
    return [*said, *((key, _spelt(value)) for key, value in task.extra.items())]


def _spelt(value: object) -> str:
    """A field in a line: text as it is, a list with commas, a mapping as its words."""
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and not any(isinstance(part, (dict, list, tuple)) for part in value.values()):
        return ", ".join(f"{key} {part}" for key, part in value.items())

    return dumps(value)


def _holder(card: Card, now: float) -> str:
    if card.state is not State.CLAIMED:
        return who(card.worker)
    alive = {"yes": "alive", "no": "dead"}.get(card.alive, "may or may not be alive")
    return f"{who(card.worker)} ({alive}; {_signs(card, now)})"


def _signs(card: Card, now: float, lease: str = "lease") -> str:
    """When its holder was last heard of, and for how long it may be silent."""
    left = card.until - now
    until = f"{lease} ends in {say_duration(left)}" if left > 0 else f"{lease} ended {say_duration(-left)} ago"
    return f"last sign {say_duration(max(now - card.since, 0.0))} ago, {until}"


def _attempts(card: Card) -> str:
    task = card.task
    if not task.attempts and not task.max_attempts:
        return ""
    spent = task.attempts
    if card.result is not None and card.result.verdict is Verdict.FAILED:  # the last is told by the result alone
        spent = max(spent, card.result.attempt)
    return f"{spent} of {task.max_attempts} spent" if task.max_attempts else f"{spent} spent"


def ending(result: Result) -> list[str]:
    """How it ended, in lines."""
    said = f"{result.verdict} by {author(result) or 'an unknown worker'}, attempt {result.attempt}"
    when = f", at {local(result.finished)}" if result.finished else ""
    after = f" after {say_duration(result.seconds)}" if result.finished and result.seconds else ""
    head = headline(result.reason)
    rest = [] if head == one_line(result.reason) else ["", *result.reason.strip("\n").splitlines()]
    children = f"split into {', '.join(result.children)}" if result.children else ""
    cost = costs(result.cost)
    lines = [said + when + after, head if head != children else "", children, f"cost: {cost}" if cost else ""]
    lines = [line for line in (*lines, f"log: {result.log}" if result.log else "") if line]
    return lines + rest


def costs(cost: Mapping[str, object]) -> str:
    """Who did it and what it cost, in a line; empty if nobody told."""
    words = [str(cost[key]) for key in ("agent", "model") if cost.get(key)]
    usd, session = cost.get("usd"), cost.get("session")
    lines = [f"${usd:.2f}"] if isinstance(usd, int | float) else []
    lines += [f"{cost[key]:.0f} {key}" for key in ("tokens", "turns") if isinstance(cost.get(key), int | float)]
    lines += [f"{cost['refused']} tools refused"] if cost.get("refused") else []
    lines += [f"session {session}"] if session else []
    return ": ".join(part for part in (" ".join(words), ", ".join(lines)) if part)


def tries(all_of_them: Sequence[Try]) -> list[str]:
    """The last tries, a line for each."""
    shown = []
    for one in all_of_them[-LAST_TRIES:]:
        kind = "failed" if one.kind == "task" else one.kind
        shown.append(f"{local(one.at)}  {kind:<8} {who(one.worker)}  {headline(one.error)}".rstrip())
    earlier = len(all_of_them) - len(shown)
    return [*([f"({earlier} earlier)"] if earlier else []), *shown]


# -- why it is where it is -------------------------------------------------------------------------


def held_by(card: Card, now: float) -> errors.Lost:
    """Who has it, whether it lives, since when, and what to do."""
    if card.worker == ENDING:
        text = f"the end of {card.task.id} is decided and not carried out yet"
        return errors.Lost(text, hint="`pit sweep` carries it out.", id=card.task.id)
    life = {"yes": "is alive", "no": "is dead", "unknown": "may or may not be alive"}[card.alive]
    hint = "Wait for it, or choose another task with `pit claim`."
    if card.alive == "no" or card.until <= now:
        hint = "`pit sweep` gives abandoned tasks back; then claim again."
    worker = who(card.worker) or "a worker that gave no name"
    return errors.Lost(
        f"{card.task.id} is claimed by {worker}, which {life}; {_signs(card, now, 'its lease')}",
        hint=hint,
        id=card.task.id,
        holder=card.worker,
        alive=card.alive,
    )


def refusal(card: Card, now: float) -> errors.TaskpitError:
    """Why a task cannot be had: a worker has it, it is over, it may not be taken yet, or is not what was wanted."""
    task_id = card.task.id
    if card.state is State.CLAIMED:
        return held_by(card, now)
    if card.state is not State.READY:
        return errors.Conflict(f"{task_id} {_standing(card)} already", hint=f"See `pit show {task_id}`.", id=task_id)
    if card.held:
        return errors.Held(f"{task_id} {_held(card)}", hint=f"`pit why {task_id}` says more.", id=task_id)
    return errors.Nothing(
        f"{task_id} is ready, but not of the sort that was asked for",
        hint=f"`pit show {task_id}` says its tags, and whether it is big.",
        id=task_id,
    )


def not_claimed(card: Card) -> errors.Lost:
    """It is nobody's; what to do depends on why."""
    task_id, free = card.task.id, card.state is State.READY and not card.held
    hint = f"`pit claim {task_id}` takes it." if free else f"See `pit why {task_id}`."
    return errors.Lost(f"{task_id} {_standing(card)}, not claimed", hint=hint, id=task_id, state=str(card.state))


def _standing(card: Card) -> str:
    """Where it stands, as the end of a sentence that begins with its id."""
    words = {Status.NEEDS_YOU: "needs a person", Status.WAITING: "waits", Status.FAILED: "has failed"}
    status = status_of(card)
    return words.get(status, f"is {LABELS[status].lower()}")


def resuming(paused: str) -> str:
    """What ends this pause, in a sentence; empty where the pause itself names the command for it."""
    return "" if "`pit " in paused else "`pit resume` gives out tasks again."


def pause_hint(paused: str) -> str:
    """The same for who was refused for its sake, whom something must be said."""
    return resuming(paused) or "Do what the pause says, or wait for its end."


def nothing(counts: dict[State, int], paused: str, task_id: str = "", tags: Sequence[str] = ()) -> errors.TaskpitError:
    """Why there was nothing to claim, or not the one named, and what to do."""
    if paused:
        return errors.Nothing(f"the queue is {paused}", hint=pause_hint(paused), paused=paused)
    if task_id:
        return errors.Lost(f"{task_id} was taken by another worker first", hint=f"See `pit why {task_id}`.")
    ready, claimed = counts[State.READY], counts[State.CLAIMED]
    if ready and tags:
        hint = "Other tasks are ready or wait; `pit list` shows them."
    elif ready:
        hint = f"{ready} may not be taken yet; `pit list` says why."
    elif claimed:
        hint = f"{claimed} running; `pit list --state running` shows by whom, --wait waits for more."
    elif any(counts.values()):
        hint = "Everything is finished. `pit add` puts something in."
    else:
        hint = "The queue is empty. `pit add 'a first task'` puts something in."
    with_tag = f" with the tag {' or '.join(tags)}" if tags else ""
    return errors.Nothing(f"there is nothing to claim{with_tag}", hint=hint, ready=ready, claimed=claimed)


def may_be_in(error: errors.Unknown, fresh: Sequence[str]) -> None:
    """The error of a put that may have happened names the ids that we chose: without them it would happen twice."""
    if fresh:
        first, more = fresh[0], f" to {fresh[-1]}" if len(fresh) > 1 else ""
        error.hint = f"It may be in as {first}{more}: `pit show {first}` tells. To repeat it safely: --id {first}"
        error.hint += ", and each of the others with its own." if more else "."
        error.details["ids"] = list(fresh)


def known_otherwise(task_id: str, card: Card | None) -> errors.Conflict:
    """The id is another task's: which, and what to do."""
    state = card.state if card else "known"
    return errors.Conflict(
        f"{task_id} exists already ({state}) with other content",
        hint=f"Look at it with `pit show {task_id}`, change it with `pit edit {task_id}`, or choose another id.",
        id=task_id,
        state=str(state),
    )


def why(card: Card, now: float, paused: str) -> list[str]:
    """What holds it, what happened to it, what to do."""
    lines = [_where(card, now), *_what_to_do(card, paused)]
    for one in card.tries:
        what = headline(one.error)[:300] or ("attempts reset" if one.kind == "reset" else one.kind)
        lines.append(f"{local(one.at)} {who(one.worker)}: {what}")
    return lines + [f"A result that came late or was taken back is kept in {late}." for late in card.late]


def _where(card: Card, now: float) -> str:
    task_id = card.task.id
    by = f" (by {author(card.result)})" if card.result and card.result.worker else ""
    if card.held:
        text = _held(card)
        return f"{task_id} {text}" if text.endswith("?") else f"{task_id} {text}."
    if card.state is State.READY:
        taker = "a planner takes it (`pit work --big`)" if card.task.big else "any worker may take it"
        return f"{task_id} is ready: {taker}."
    if card.state is State.CLAIMED:
        return held_by(card, now).message.replace("is claimed by", "is running:") + "."
    if card.state is State.DONE:
        return f"{task_id} is done{by}."
    return f"{task_id} {_standing(card)}{by}."


def _plainly(card: Card) -> str:
    """What holds it, as it is said to the person who can do something about it."""
    reason, question = one_line(card.held), one_line(question_of(card.task))
    if question:
        return f"asks: {question}"
    if reason.startswith(REVIEW) and not reason.startswith(REVIEWER):
        return f"waits for your review:{reason.partition(':')[2]}"
    return reason


def _held(card: Card) -> str:
    """Why it does not go on, as the end of a sentence that begins with its id."""
    reason = _plainly(card).rstrip(".")
    if reason.startswith(("asks: ", "waits for ", "needs ", "failed ", "lost its worker ")):
        return reason
    blocked = card.task.hold == card.held and status_of(card) is Status.NEEDS_YOU
    return f"{'is blocked' if blocked else _standing(card)}: {reason}"


def _what_to_do(card: Card, paused: str) -> list[str]:

    task_id = card.task.id
    if card.state is State.FAILED and card.result:
        again = [f"`pit retry {task_id}` starts it from scratch."] if not card.result.reason.startswith(OVER) else []
        return [f"Reason: {headline(card.result.reason)}", *again]
    if card.state is State.DONE:
        return []
    holds = {
        WAITS: f"`pit answer {task_id} TEXT` answers it.",
        REVIEWER: "A running reviewer judges it (`pit work --reviewer AGENT`, or the reviewer of a crew); "
        f"`pit review {task_id}` lets you judge it instead.",
        REVIEW: f"`pit review {task_id}` shows the change; --approve lands it, --send-back TEXT gives it back.",
        PULL: f"It is done when that is merged. `pit review {task_id} --send-back TEXT` gives it back instead.",
        RACING: f"The first racer that is done is its result; `pit cancel {task_id}` stops them all.",
        SPARE: f"`pit unblock {task_id}` lets it run now.",
        LANDING: "A running `pit work` with --land lands it, or the next one.",
    }
    for hold, text in holds.items():
        if card.task.hold.startswith(hold):
            return [text]
    if card.task.hold:
        return [f"`pit unblock {task_id}` releases the hold and resets attempts."]
    if unmet := _NEVER.search(card.held):
        need = unmet["need"]
        how = f"`pit retry {need}` runs that again" if unmet["failed"] else f"`pit add --id {need}` puts that in"
        return [f"{how}; `pit edit {task_id} --needs ...` changes what it waits for."]
    if card.state is State.READY and paused:
        return [f"The queue is {paused}. {resuming(paused)}".rstrip()]
    return []
