"""Full text over a queue: which tasks mention these words, the best first. Works on every store, keeps no index.

Knows the queue's verbs and no surface: the command line, the terminal and the browser show these hits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from heapq import nsmallest

from taskpit.errors import Invalid
from taskpit.events import new_events
from taskpit.model import Card, Value
from taskpit.queue import Queue, cards
from taskpit.status import STATUSES, Status, state_with, status_of
from taskpit.text import fit, one_line

#: Where a word may stand, from where it counts most to where it counts least.
FIELDS = ("id", "title", "tags", "body", "reason", "result", "worker", "notes")
#: Tasks are read this many at a time: every page costs a listing.
PAGE = 10_000
#: How long a snippet is, and how much of it stands before what was found.
SNIPPET, BEFORE = 120, 40


class Hit(Value, frozen=True, kw_only=True):
    """One task that mentions all the words, and where."""

    id: str
    title: str
    #: Where it stands.
    column: str
    #: The field the snippet was taken from, and the text around what was found, on one line.
    field: str
    snippet: str
    #: Small is good: the places of the words in `FIELDS`, the sum of them, and the place in the queue.
    rank: tuple[int, int, int]


def words_of(text: str) -> tuple[str, ...]:
    """The words and "quoted phrases" of what a person looks for, in small letters."""
    found: list[str] = []
    for place, part in enumerate(text.split('"')):
        found += [" ".join(part.split())] if place % 2 else part.split()
    return tuple(dict.fromkeys(word.casefold() for word in found if word))


def search(
    queue: Queue,
    text: str,
    limit: int = 50,
    *,
    only: frozenset[Status] = frozenset(STATUSES),
    progress: Callable[[int], None] = lambda _: None,
) -> list[Hit]:
    """Tasks in which all these words stand, whatever the case; those with the words in the title first.

    `only` looks only among those that stand so.
    """
    words = words_of(text)
    if not words:
        raise Invalid("there is nothing to look for", hint='Give some words; "a phrase" stands between quotes.')
    notes = _notes(queue)
    hits = _hits(queue, words, only, notes, progress)
    return nsmallest(limit, hits, key=lambda hit: hit.rank) if limit else sorted(hits, key=lambda hit: hit.rank)


def _hits(
    queue: Queue, words: Sequence[str], only: frozenset[Status], notes: dict[str, str], progress: Callable[[int], None]
) -> Iterator[Hit]:
    for seen, card in enumerate(cards(queue.store, state_with(only), PAGE), 1):
        progress(seen)
        hit = _hit(card, words, notes.get(card.task.id, ""), seen) if status_of(card) in only else None
        if hit is not None:
            yield hit


def _notes(queue: Queue) -> dict[str, str]:
    """What people noted beside tasks, by id: the changelog tells it in one go, their files only one by one."""
    found: dict[str, str] = {}
    for event in new_events(queue.store, "", lambda event: event.did == "noted")[0]:
        found[event.about] = f"{found.get(event.about, '')}{event.details}\n"
    return found


def _hit(card: Card, words: Sequence[str], notes: str, place: int) -> Hit | None:
    """The hit this task is; None if a word stands nowhere."""
    fields = _fields(card, notes)
    plain = {name: " ".join(text.split()).casefold() for name, text in fields.items() if text}
    best: list[str] = []
    for word in words:
        where = next((name for name in FIELDS if word in plain.get(name, "")), None)
        if where is None:
            return None
        best.append(where)
    ranks = [FIELDS.index(where) for where in best]
    deepest = max(ranks)
    shown = FIELDS[deepest]
    return Hit(
        id=card.task.id,
        title=one_line(card.task.title or card.task.slug or card.task.id),
        column=str(status_of(card)),
        field=shown,
        snippet=_snippet(fields[shown], words[ranks.index(deepest)]),
        rank=(max(deepest, 1), sum(ranks), place),
    )


def _fields(card: Card, notes: str) -> dict[str, str]:
    """All that is searched, by name, in the order of FIELDS."""
    task, result = card.task, card.result
    reasons = (card.held, task.last_error, result.reason if result else "")
    proof = result.evidence.tail if result and result.evidence else ""
    return {
        "id": task.id,
        "title": task.title or task.slug,
        "tags": " ".join(task.tags),
        "body": f"{task.body}\n{task.check}" if task.check else task.body,
        "reason": "\n".join(filter(None, reasons)),
        "result": f"{result.output}\n{proof}" if result else "",
        "worker": " ".join(filter(None, (card.worker, result.worker if result else "", task.by))),
        "notes": f"{card.notes}\n{notes}" if card.notes else notes,
    }


def _snippet(text: str, word: str) -> str:
    """What stands around the word, on one line that is safe to show."""
    flat = one_line(text)
    found = re.search(re.escape(word), flat, re.IGNORECASE)  # where folding changes lengths: the beginning
    start = max(found.start() - BEFORE, 0) if found else 0
    if start:
        start = flat.find(" ", start, found.start() if found else None) + 1 or start
    return ("…" if start else "") + fit(flat[start : start + 4 * SNIPPET], SNIPPET)
