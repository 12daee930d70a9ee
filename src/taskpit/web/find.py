"""Finding tasks by what they say: the one search of taskpit, or, where that is missing, a plain look at every task."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from taskpit.text import one_line
from taskpit.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from taskpit.queue import Queue
    from taskpit.task import Card

__all__ = ["Hit", "find"]


class Hit(Value):
    """A task that was found, and the place where."""

    id: str
    title: str
    state: str
    where: str = ""


def find(queue: Queue, text: str, limit: int) -> list[Hit]:
    """The tasks with these words, the best first where that is known."""
    try:
        search: Any = import_module("taskpit.search").search
    except ImportError:
        return _plainly(queue, text.casefold().split(), limit)
    return [_hit(one) for one in search(queue, text, limit)]


def _hit(found: Any) -> Hit:
    return Hit(id=found.id, title=found.title, state=found.column, where=found.snippet)


def _plainly(queue: Queue, words: list[str], limit: int) -> list[Hit]:
    hits: list[Hit] = []
    for card in _cards(queue):
        task, result = card.task, card.result
        said = [task.id, task.title, task.body, card.notes, *((result.reason, result.output) if result else ())]
        text = one_line(" ".join(said))
        folded = text.casefold()
        if all(word in folded for word in words):
            at = max(folded.find(words[0]) - 60, 0)
            hits.append(Hit(id=task.id, title=task.title, state=str(card.state), where=text[at : at + 200]))
            if len(hits) == limit:
                break
    return hits


def _cards(queue: Queue) -> Iterator[Card]:
    cursor = ""
    while True:
        page = queue.store.page(after=cursor)
        yield from page.cards
        cursor = page.cursor
        if not cursor:
            return
