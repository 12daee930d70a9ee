"""What each tool does: arguments in, facts out, over the verbs of a Queue. Knows nothing of the protocol."""

from __future__ import annotations

import os
import re

from taskpit import errors, layouts
from taskpit.explain import nothing
from taskpit.json_facts import card_facts, full_facts
from taskpit.queue import cards
from taskpit.task import Ask, Card, Failed, Release, Said, Split, State, Task
from taskpit.worker.manual import finish_by_hand, need_ids, refuse_lost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from taskpit.queue import Queue
    from taskpit.task import Outcome

    Facts = dict[str, Any]
    Arguments = Mapping[str, Any]

__all__ = ["Desk", "say_error"]

#: Verbs of the command line that are tools here, under the same name.
_AS_TOOLS = re.compile(r"`pit ((?:add|list|show|claim|renew|done|note)\b[^`]*)`")
#: What lists tell of a task; `show` tells the rest.
BRIEF = ("id", "title", "state", "held", "worker", "priority", "tags", "needs", "parent")
PAGE = 200


class Desk:
    """Where calls are answered. One queue for all of them; a call that waits opens its own."""

    def __init__(self, open_queue: Callable[[], Queue], worker: str = "", cwd: str = ".") -> None:
        self._open = open_queue
        self.queue = open_queue()
        #: Whom calls speak for that name nobody; empty if each must.
        self.worker = worker
        #: Where checks run unless the call says otherwise.
        self.cwd = cwd
        self._answers = {
            "add": self._add,
            "list": self._list,
            "show": self._show,
            "claim": self._claim,
            "renew": self._renew,
            "done": self._done,
            "give_back": self._give_back,
            "note": self._note,
        }

    def fresh(self) -> Queue:
        """The same queue, opened for somebody who will wait for it."""
        return self._open()

    def close(self) -> None:
        """Let go of the queue."""
        self.queue.close()

    def answer(self, name: str, given: Arguments) -> Facts:
        """What the tool of this name has to say; TaskpitError if it can't be done."""
        try:
            return self._answers[name](given)
        except errors.TaskpitError as error:
            known = layouts.get(self.queue.store.info().layout).error_names.get(error.code)
            if known:
                error.message = f"{known}: {error.message}"
            raise

    # -- make and look -----------------------------------------------------------------------------

    def _add(self, given: Arguments) -> Facts:
        queue = self.queue
        task = _wish(given).replace(
            id=given.get("id", ""),
            needs=tuple(dict.fromkeys(self._known(word) for word in given.get("needs", ()))),
            parent=queue.resolve(given["parent"]) if given.get("parent") else "",
            by=given.get("worker") or self.worker or "agent",
        )
        task_id, said = queue.put([task])[0]
        missing = queue.missing_needs(task)
        return {"id": task_id, "created": said is Said.CREATED} | ({"missing_needs": missing} if missing else {})

    def _known(self, word: str) -> str:
        """The id this means; one that nobody has put yet is as good as any."""
        try:
            return self.queue.resolve(word)
        except errors.NotFound:
            return need_ids(self.queue, [word])[0]

    def _list(self, given: Arguments) -> Facts:
        state, tag, limit = given.get("state", "ready"), given.get("tag"), int(given.get("limit", 20))
        found: list[Facts] = []
        more = False
        for card in self._cards(state):
            if tag and tag not in card.task.tags:
                continue
            more = len(found) == limit
            if more:
                break
            found.append(_brief(card))
        counts = {str(word): count for word, count in self.queue.store.counts().items()}
        return {"tasks": found, "more": more, "counts": counts}

    def _cards(self, word: str) -> Iterator[Card]:
        state = None if word == "all" else State.READY if word == "held" else State(word)
        for card in cards(self.queue.store, state, PAGE):
            if word not in ("ready", "held") or bool(card.held) == (word == "held"):
                yield card

    def _show(self, given: Arguments) -> Facts:
        card = self.queue.card(self.queue.resolve(given["id"]))
        return _filled({**full_facts(card), "why": self.queue.why(card.task.id)}, "id", "title", "state", "why")

    # -- work on a task ----------------------------------------------------------------------------

    def _who(self, given: Arguments) -> str:
        return given.get("worker") or self.worker

    def _claim(self, given: Arguments) -> Facts:
        wait = float(given.get("wait_seconds", 0))
        queue = self.fresh() if wait else self.queue  # only one at a time may wait for an open queue
        try:
            return self._take(queue, given, wait)
        finally:
            if queue is not self.queue:
                queue.close()

    def _take(self, queue: Queue, given: Arguments, wait: float) -> Facts:
        worker, tags = self._who(given), tuple(given.get("tags", ()))
        ids = [queue.resolve(given["id"])] if given.get("id") else []
        lease = float(given.get("lease_seconds", 0))
        claims = queue.claim(worker, ids=ids, tags=tags, lease=lease, wait=wait, verbatim=True)
        if not claims:
            error = nothing(queue.store.counts(), queue.store.paused(), ids[0] if ids else "", tags)
            if ids:
                raise error
            return {"task": None, "worker": worker, "message": error.message, "hint": in_tools(error.hint)}
        claim = claims[0]
        facts = card_facts(Card(task=claim.task, state=State.CLAIMED, worker=claim.fence))
        task = _filled(facts, "id", "title", "state")
        answer = {"task": task, "worker": claim.worker, "lease_seconds": claim.lease, "attempt": claim.attempt}
        return {**answer, "notes": notes} if (notes := queue.card(claim.task.id).notes) else answer

    def _renew(self, given: Arguments) -> Facts:
        task_id = self.queue.resolve(given["id"])
        claim = self.queue.holding(task_id, self._who(given))
        lease = float(given.get("lease_seconds", 0)) or claim.lease
        said = self.queue.renew(claim, lease)
        if said is Said.LOST:
            raise errors.Lost(
                f"{task_id} is no longer yours: stop working on it", hint=f"`pit show {task_id}` says why.", id=task_id
            )
        return {"id": task_id, "lease_seconds": lease, "stop": said is Said.CANCEL}

    def _done(self, given: Arguments) -> Facts:
        cwd = os.path.abspath(given.get("cwd") or self.cwd)
        if not os.path.isdir(cwd):
            raise errors.NotFound(f"there is no folder {cwd} to run the check in", path=cwd)
        task_id = self.queue.resolve(given["id"])
        output = given.get("result", "")
        facts = finish_by_hand(self.queue, task_id, self._who(given), output=output, cwd=cwd, env=os.environ)
        return _filled(facts, "id", "state")

    def _give_back(self, given: Arguments) -> Facts:
        how, reason = given["how"], given.get("reason", "").strip()
        if how == "fail" and not reason:
            raise errors.Invalid("say what went wrong", hint="Give `reason`: the next attempt reads it.")
        if (how == "split") != ("parts" in given):
            raise errors.Invalid("a split needs `parts`, and nothing else has them", hint="Each part has a title.")
        claim = self.queue.holding(self.queue.resolve(given["id"]), self._who(given))
        outcome: Outcome
        if how == "split":
            parts = self._parts(given["parts"], claim.task)
            outcome = Split(children=parts, wait=given.get("wait", False), output=reason)
        elif how == "fail":
            outcome = Failed(error=reason, final=given.get("final", False))
        else:
            outcome = Release(reason=reason)
        said, end = self.queue.finish(claim, outcome)
        refuse_lost(said, claim.task.id)
        after = end.task or claim.task
        facts = {
            "id": claim.task.id,
            "state": str(end.result.verdict.state) if end.result else "ready",
            "held": after.hold,
            "delay_seconds": end.delay,
            "children": [child.id for child in end.children],
        }
        return _filled(facts, "id", "state")

    def _parts(self, given: Sequence[Arguments], whole: Task) -> tuple[Task, ...]:
        """The parts as tasks; where one comes after another they get their ids now."""
        wishes = [_wish(part) for part in given]
        if not any(part.get("after") for part in given):
            return tuple(wishes)
        ids = self.queue.store.allot([self.queue.family(whole)] * len(wishes))
        parts = []
        for place, (wish, part) in enumerate(zip(wishes, given, strict=True)):
            earlier = part.get("after", ())
            if not all(0 <= other < place for other in earlier):
                raise errors.Invalid(f"part {place} comes after one that is not earlier: {list(earlier)}")
            parts.append(wish.replace(id=ids[place], needs=tuple(ids[other] for other in earlier)))
        return tuple(parts)

    def _note(self, given: Arguments) -> Facts:
        queue, text = self.queue, given["text"]
        task_id = queue.resolve(given["id"])
        if not given.get("ask"):
            queue.note(task_id, text, self._who(given))
            return {"id": task_id, "noted": True}
        if not text.strip():
            raise errors.Invalid("the question is empty")
        claim = queue.holding(task_id, self._who(given))
        said, end = queue.finish(claim, Ask(question=text))
        refuse_lost(said, task_id)
        return {"id": task_id, "state": "ready", "held": (end.task or claim.task).hold}


def _wish(given: Arguments) -> Task:
    return Task(
        id="",
        title=given["title"],
        body=given.get("body", ""),
        check=given.get("check", ""),
        priority=given.get("priority", 0),
        tags=tuple(given.get("tags", ())),
        touches=tuple(given.get("touches", ())),
        limits=tuple(given.get("limits", ())),
    )


def _filled(facts: Facts, *always: str) -> Facts:
    """The facts without those that say nothing: an agent pays for every word."""
    silent: tuple[object, ...] = (None, "", [], (), {}, 0)
    return {key: value for key, value in facts.items() if key in always or (value not in silent and key != "slug")}


def _brief(card: Card) -> Facts:
    facts = card_facts(card)
    return _filled({key: facts[key] for key in BRIEF}, "id", "title", "state")


def in_tools(text: str) -> str:
    """A hint for somebody who has tools instead of a command line, where there is one for it."""
    return _AS_TOOLS.sub(r"`\1`", text)


def say_error(error: errors.TaskpitError) -> str:
    """What went wrong and what to do next, for an agent to read."""
    lines = [f"{error.code}: {error.message}"]
    if error.hint:
        lines.append(f"Next: {in_tools(error.hint)}")
    tail = str(error.details.get("tail", ""))
    return "\n".join([*lines, *(["", tail] if tail else [])])
