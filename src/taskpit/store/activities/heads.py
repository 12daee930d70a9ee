"""Headers of work items on their way between queues: what stands before all activities of one, whole and comparable."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from taskpit.errors import Invalid
from taskpit.layouts.progress import ENDED, OF_THE_FILE, Progress
from taskpit.model import State
from taskpit.store.activities.items import Items


def heads(items: Items) -> dict[str, dict[str, Any]]:
    """The header of each work item that has activities; one without them goes as a task."""
    found = {}
    for progress in items.readable():
        if next(progress.entries(), None) is not None:
            with contextlib.suppress(Invalid):  # it has no end: what it bars is held instead
                found[progress.item] = progress.header()
    return found


def same(items: Items, given: Mapping[str, dict[str, Any]]) -> set[str]:
    """Those that say the same here, but for how far they are, or are not here yet."""
    found = set()
    for item, document in given.items():
        try:
            here = items.get(item)
        except Invalid:
            continue
        if here is None or _gist(here) == _gist(Progress(item, document)):
            found.add(item)
    return found


def _gist(progress: Progress) -> tuple[Any, ...]:
    header = Progress(progress.item, progress.header())
    own = {key: value for key, value in header.head.items() if key not in (*OF_THE_FILE, "status", "completed_at")}
    over = progress.status if progress.status in ENDED and progress.state() is not State.DONE else ""
    return own, "" if over == "completed" else over, list(header.blockers()), header.pivot()
