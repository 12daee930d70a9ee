"""What happens at the end of a claim: one place, values in, one value out. Touches nothing.

Done     -> the result is published
Failed   -> another attempt after a pause; the same failure again and again chokes (a person looks);
            out of attempts it is failed for good
Retry    -> back after a pause, no attempt spent (quota, infrastructure)
Release  -> back as it was, no attempt spent
Split    -> its children enter; the parent is done, or waits for them
Ask      -> held until a person answers
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from taskpit.clock import iso, say_duration
from taskpit.config import Config
from taskpit.decode import convert_field
from taskpit.errors import Invalid
from taskpit.model import (
    FOR_PARTS,
    Ask,
    Claim,
    Done,
    End,
    Evidence,
    Failed,
    Outcome,
    Release,
    Result,
    Retry,
    Split,
    Task,
    Try,
    Verdict,
)
from taskpit.text import headline, one_line

#: Kinds of failure that are the task's own; all others spend no attempt.
SPENDS = frozenset(("task", "check", "conflict", "crash", "timeout", "empty"))

#: So many tries in vain double the pause before the next.
LONGER_PAUSES = 5

#: What differs each time, in small letters, and what stands for it.
_NOISE = (
    (r"\d{4}-\d\d-\d\d[t ][\d:.,]+(z|[+-][\d:]+)?", "<time>"),
    (r"0x[0-9a-f]+|\b[0-9a-f]{7,}\b", "<hex>"),
    (r"(?:/[\w.~+-]+)+/", "<dir>/"),
    (r"\d+(\.\d+)?", "<n>"),
    (r"\s+", " "),
)


def signature(error: str) -> str:
    """The error without what differs each time (times, numbers, addresses, directories): equal ones are the same."""
    text = error.lower()
    for pattern, word in _NOISE:
        text = re.sub(pattern, word, text)
    return text.strip()[:400]


def pause(config: Config, attempt: int, jitter: float | None = None) -> float:
    """Seconds before the next attempt: doubling, capped, and spread so that a crowd does not come back at once."""
    if jitter is None:
        jitter = os.urandom(1)[0] / 255
    longest = min(config.backoff * 2.0 ** min(attempt - 1, 30), config.backoff_longest)
    return longest * (0.5 + jitter / 2)


def check_end(claim: object, outcome: object) -> None:
    """Whether a claim may end so: all its words are words, and its numbers numbers. Invalid says what to write."""
    if not isinstance(claim, Claim):
        raise Invalid(f"{claim!r:.60} is no claim", hint="Give one of those that `claim` returned.")
    task_id, hint = claim.task.id, "Write Done(output='...'), Failed(error='...') or another outcome."
    if not isinstance(outcome, Outcome):
        raise Invalid(f"{outcome!r:.80} is not an outcome", hint=hint, id=task_id)
    for name, kind in outcome.kinds().items():
        value = getattr(outcome, name)
        if name == "children":
            if not isinstance(value, list | tuple) or not {Task}.issuperset(map(type, value)):
                raise Invalid(
                    "a split has tasks for its children", hint="Write Split(children=[Task(...)]).", id=task_id
                )
        elif name in ("task", "evidence"):
            if value is not None and not isinstance(value, Task if name == "task" else Evidence):
                raise Invalid(f"{name!r} is {value!r:.60}: it should be a {kind}", hint=hint, id=task_id)
        else:
            convert_field(type(outcome), name, dict(value) if isinstance(value, Mapping) else value)


def settle(claim: Claim, outcome: Outcome, tries: Sequence[Try], config: Config, now: float) -> End:
    """The end of this claim."""
    match outcome:
        case Done():
            result = _result(claim, outcome, Verdict.DONE, outcome.reason, now)
            return End(claim=claim, result=result, action="completed_task", details=outcome.reason)
        case Failed():
            return _failed(claim, outcome, tries, config, now)
        case Retry(reason=reason, after=after, kind=kind, log=log):
            attempt = _try(claim, kind, reason, now, counted=False).replace(log=log)
            return End(claim=claim, delay=after, attempt=attempt, action="retried_task", details=reason)
        case Release(reason=reason, task=task, action=action):
            return End(claim=claim, task=task, action=action, details=reason)
        case Split():
            return _split(claim, outcome, config, now)
        case Ask():
            return _ask(claim, outcome)
        case _:
            raise Invalid(f"{outcome!r:.80} is not an outcome", id=claim.task.id)


#: How a hold begins that an answer ends, and the field that carries the question's key.
WAITS = "waits for an answer: "
KEY = "ask-key"
#: How the hold of a task begins that was handed in: it is to be landed, or a person must look at it first.
LANDING = "waits for landing"
REVIEW = "waits for review"
REVIEWER = f"{REVIEW} by an agent"
#: The same of a task whose change waits at a forge, which is asked how it stands.
PULL = "waits for the pull request"
#: The hold of a task that runs only when an agent's quota would be lost otherwise.
SPARE = "spare: it runs when the window of an agent's quota would otherwise be lost"
#: How the reason of a racer begins that did not win.
OVER = "the race is over"
#: How the hold of a task begins whose racers work, and the field that names them.
RACING = "its racers work on it"
RACERS = "racers"


def _ask(claim: Claim, outcome: Ask) -> End:
    question = " ".join(outcome.question.split())
    extra = {**claim.task.extra, KEY: outcome.key} if outcome.key else claim.task.extra
    held = claim.task.replace(hold=f"{WAITS}{question}", extra=extra)
    lines = [f"# {claim.task.title}", "", f"{claim.task.id} asks: {question}"]
    lines += [f"What would answer it: {outcome.wanted}"] if outcome.wanted else []
    lines += [f"Key: {outcome.key}"] if outcome.key else []
    lines += ["", f"Answer: `pit answer {claim.task.id} TEXT`.", ""]
    return End(claim=claim, task=held, note=("ask", "\n".join(lines)), action="asked", details=question)


def question_of(task: Task) -> str:
    """What it asks a person; empty if it asks nothing."""
    return task.hold.removeprefix(WAITS).strip(" :") if task.hold.startswith(WAITS) else ""


def answered(task: Task, text: str, worker: str) -> Task:
    """The task with question and answer in its body, so that the next worker reads both."""
    question = task.hold.removeprefix(WAITS)
    extra = {key: value for key, value in task.extra.items() if key != KEY}
    body = f"{task.body.rstrip()}\n\n**Question:** {question}\n\n**Answer** ({worker}): {text.strip()}\n"
    return task.replace(hold="", extra=extra, body=body.lstrip())


def _result(claim: Claim, outcome: Done | Failed, verdict: Verdict, reason: str, now: float) -> Result:
    return Result(
        id=claim.task.id,
        verdict=verdict,
        reason=reason,
        worker=claim.fence,
        attempt=claim.attempt,
        finished=now,
        output=outcome.output,
        evidence=outcome.evidence,
        seconds=outcome.seconds,
        cost=outcome.cost,
        log=outcome.log,
    )


def checked(outcome: Done, evidence: Evidence, mode: str) -> Done | Failed:
    """What is left of a done once its task's check has run: that, if it is green, or red in a lenient `mode`."""
    if evidence.green:
        return outcome.replace(evidence=evidence)
    if mode == "lenient":
        return outcome.replace(evidence=evidence, reason="the check is red; ignored (lenient)")
    return Failed(error=evidence.complaint(), kind="check", output=outcome.output, evidence=evidence)


def _failed(claim: Claim, outcome: Failed, tries: Sequence[Try], config: Config, now: float) -> End:
    if outcome.kind == "lost":
        return _lost(claim, outcome, tries, config, now)
    spends = outcome.kind in SPENDS
    attempt = _try(claim, outcome.kind, outcome.error, now, counted=spends).replace(
        evidence=outcome.evidence, seconds=outcome.seconds, log=outcome.log
    )
    if outcome.cancelled or outcome.final:
        return _end_for_good(claim, outcome, attempt, now)
    if not spends:
        delay = pause(config, in_vain(tries) + 1)
        return End(claim=claim, delay=delay, attempt=attempt, action="retried_task", details=outcome.error)
    allowed = claim.task.max_attempts or config.max_attempts
    error = _short(outcome.error)
    spent = claim.task.replace(attempts=claim.task.attempts + 1, max_attempts=allowed, last_error=error)
    same = _in_a_row(counting(claim.task, tries), attempt.mark) + 1
    if same >= config.choke:
        reason = f"failed {same} times the same way: {error}"
        note = ("choked", _note(claim, reason, [*tries, attempt]))
        return End(
            claim=claim,
            task=spent.replace(hold=reason),
            attempt=attempt,
            note=note,
            action="choked_task",
            details=reason,
        )
    if spent.attempts >= allowed:
        return _end_for_good(claim, outcome, attempt, now)
    delay = 0.0 if outcome.kind == "conflict" else pause(config, spent.attempts)  # time heals no conflict
    details = f"attempt {spent.attempts} of {allowed}: {error}; again in {say_duration(delay)}"
    return End(claim=claim, task=spent, delay=delay, attempt=attempt, action="retried_task", details=details)


def _lost(claim: Claim, outcome: Failed, tries: Sequence[Try], config: Config, now: float) -> End:
    """Its worker is gone: back at once, no attempt spent; but a task that keeps losing workers is held."""
    attempt = _try(claim, "lost", outcome.error, now, counted=False)
    losses = 1 + sum(1 for one in counting(claim.task, tries) if one.kind == "lost")
    brief = "every" in claim.task.extra or RACERS in claim.task.extra  # claimed for an instant only, again and again
    if losses < config.losses or brief:
        return End(claim=claim, attempt=attempt, action="recovered_task", details=outcome.error)
    reason = f"lost its worker {losses} times, last: {_short(outcome.error)}"
    note = ("lost", _note(claim, reason, [*tries, attempt]))
    held = claim.task.replace(hold=reason)
    return End(claim=claim, task=held, attempt=attempt, note=note, action="recovered_task", details=reason)


def _end_for_good(claim: Claim, outcome: Failed, attempt: Try, now: float) -> End:
    verdict = Verdict.CANCELLED if outcome.cancelled else Verdict.FAILED
    result = _result(claim, outcome, verdict, outcome.error, now)
    action = "cancelled_task" if outcome.cancelled else "failed_task"
    return End(claim=claim, result=result, attempt=attempt, action=action, details=_short(outcome.error))


#: What a worker reads in a task whose parts are done.
WHOLE = "Now that they are done: see that the whole is right."


def _split(claim: Claim, outcome: Split, config: Config, now: float) -> End:
    """Its parts enter. One that is split again and again, each time its parts are done, waits for a person then."""
    ids = tuple(child.id for child in outcome.children)
    details = f"into {', '.join(ids)}"
    if outcome.wait:
        body = f"{claim.task.body.rstrip()}\n\nIt was split {details}. {WHOLE}\n"
        needs, times = tuple(dict.fromkeys((*claim.task.needs, *ids))), body.count(WHOLE)
        hold = f"it was split {times} times: look whether that leads anywhere" if times > config.choke else ""
        waiting = claim.task.replace(needs=needs, big=False, body=body.lstrip(), hold=hold)
        waits = f"{FOR_PARTS}{', '.join(ids)}"
        return End(claim=claim, task=waiting, children=outcome.children, action="split_task", details=waits)
    result = Result(
        id=claim.task.id,
        verdict=Verdict.DONE,
        reason=f"split {details}",
        output=outcome.output,
        worker=claim.fence,
        attempt=claim.attempt,
        finished=now,
        children=ids,
    )
    return End(claim=claim, result=result, children=outcome.children, action="split_task", details=details)


def _try(claim: Claim, kind: str, error: str, now: float, *, counted: bool) -> Try:
    return Try(at=now, worker=claim.fence, kind=kind, error=error, mark=signature(error), counted=counted)


def counting(task: Task, tries: Sequence[Try]) -> list[Try]:
    """The last tries, those that a person has not forgiven: by a reset among them, or since the task, as it was
    reopened, says that fewer of its attempts are spent.
    """
    found: list[Try] = []
    left = task.attempts
    for one in reversed(tries):
        left -= one.counted
        if one.kind == "reset" or left < 0:
            break
        found.append(one)
    return found[::-1]


def _in_a_row(tries: Sequence[Try], mark: str) -> int:
    """How many of the last failures in a row were this one; tries that spend nothing don't break the row."""
    count = 0
    for one in reversed([one for one in tries if one.counted]):
        if one.mark != mark:
            break
        count += 1
    return count


def in_vain(tries: Sequence[Try]) -> int:
    """How many of the last tries in a row had trouble with the machine, as far as that makes the pause longer: a disk
    that is full all night is not met every few seconds, and one that was made room on is seen soon.
    """
    last = tries[-LONGER_PAUSES:]
    return next((count for count, one in enumerate(reversed(last)) if one.kind not in ("infra", "room")), len(last))


def _short(text: str, longest: int = 200) -> str:
    line = one_line(headline(text))
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _note(claim: Claim, reason: str, tries: Sequence[Try]) -> str:
    """What a person needs to decide: what was asked, what happened, and how to go on."""
    lines = [f"# {claim.task.title}", "", f"{claim.task.id} {reason}", "", "What happened:", ""]
    lines += [f"- {iso(one.at)} {one.worker} ({one.kind}): {_short(one.error)}" for one in tries[-10:]]
    lines += ["", f"Look: `pit show {claim.task.id}`. Go on: `pit unblock {claim.task.id}`.", ""]
    return "\n".join(lines)
