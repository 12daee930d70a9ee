"""Values of the queue as programs read them. Pure: values in, plain JSON out."""

from __future__ import annotations

from taskpit.clock import iso
from taskpit.status import status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from taskpit.model import Card, Result


def _time(seconds: float) -> str | None:
    return iso(seconds) if seconds else None


def card_facts(card: Card) -> dict[str, Any]:
    """All that was asked for, and where it stands."""
    task = card.task
    facts = task.as_dict()
    del facts["source"]
    for name in ("created", "updated", "not_before"):
        facts[name] = _time(facts[name])
    facts["extra"] = dict(task.extra)
    where = {"state": str(card.state), "status": str(status_of(card)), "held": card.held, "worker": card.worker}
    return {**facts, **where}


def full_facts(card: Card) -> dict[str, Any]:
    """A task with everything known about it."""
    return {
        **card_facts(card),
        "since": _time(card.since),
        "until": _time(card.until),
        "alive": card.alive,
        "result": {**result_facts(card.result), "checked": card.checked or "none"} if card.result else None,
        "tries": [
            {**one.as_dict(), "at": _time(one.at), "evidence": one.evidence.as_dict() if one.evidence else None}
            for one in card.tries
        ],
        "notes": card.notes,
        "late": list(card.late),
    }


def result_facts(result: Result) -> dict[str, Any]:
    """What was published."""
    return {
        **result.as_dict(),
        "verdict": str(result.verdict),
        "finished": _time(result.finished),
        "evidence": result.evidence.as_dict() if result.evidence else None,
        "cost": dict(result.cost),
    }
