"""Results and errors as the mailbox writes them: JSON, Drover's fields first. No names, no disk."""

from __future__ import annotations

import json

from taskpit import schema
from taskpit.errors import Invalid
from taskpit.task import Evidence, Result, Verdict
from taskpit.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from taskpit.layouts.layout import Spot

__all__ = ["dump_result", "load_result", "mapping", "read_object", "spell"]


def load_result(spot: Spot, data: bytes) -> Result:
    """The result or error in these bytes; one that another tool wrote has less in it."""
    fields = read_object(data)
    failed = spot.verdict is not Verdict.DONE
    said, children = fields.get("outcome"), fields.get("children")
    return Result(
        id=spot.id,
        verdict=Verdict(said) if said in tuple(Verdict) else spot.verdict or Verdict.DONE,
        reason=str(fields.get("error" if failed else "verdict_reason") or ""),
        output=str(fields.get("output") or ""),
        worker=str(fields.get("worker") or ""),
        attempt=_int(fields.get("attempts"), 1),
        finished=_moment(fields.get("failed_at" if failed else "completed_at")),
        seconds=_moment(fields.get("duration_ms")) / 1000,
        evidence=_evidence(fields.get("evidence")),
        cost=mapping(fields.get("cost")),
        children=tuple(map(str, children)) if isinstance(children, list) else (),
        log=str(fields.get("log") or ""),
    )


def dump_result(task_id: str, result: Result) -> bytes:
    """Drover's fields in Drover's order, then ours."""
    when = int(result.finished)
    if result.verdict is Verdict.DONE:
        fields: dict[str, object] = {
            "task_id": task_id,
            "status": "completed",
            "verdict": "pass",
            "verdict_reason": result.reason,
            "output": result.output,
            "duration_ms": round(result.seconds * 1000),
            "completed_at": when,
        }
        ours: dict[str, object] = {"attempts": result.attempt}
    else:
        fields = {
            "task_id": task_id,
            "status": "failed",
            "error": result.reason,
            "attempts": result.attempt,
            "last_attempt_at": when,
            "failed_at": when,
        }
        ours = {"output": result.output, "duration_ms": round(result.seconds * 1000)}
    ours |= {
        "outcome": str(result.verdict),
        "worker": result.worker,
        "evidence": result.evidence and result.evidence.as_dict(),
        "cost": dict(result.cost),
        "children": list(result.children),
        "log": result.log,
    }
    return spell({**fields, **{key: value for key, value in ours.items() if value}})


def read_object(data: bytes) -> dict[str, Any]:
    """The JSON object in these bytes; Invalid if there is none."""
    try:
        fields = read_json(data)
    except ValueError as error:
        raise Invalid(f"it is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise Invalid("it is not a JSON object")
    return fields


def spell(fields: Mapping[str, object]) -> bytes:
    """The object as it is written: two spaces, a newline at the end; half letters stay the escapes they were."""
    try:
        return json.dumps(fields, indent=2, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(fields, indent=2).encode() + b"\n"


def mapping(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return dict(value) if isinstance(value, dict) else {}


def _int(value: object, default: int) -> int:
    return int(schema.amount(value)) if schema.is_number(value) else default


def _moment(value: object) -> float:
    return float(_int(value, 0))


def _evidence(value: object) -> Evidence | None:
    """What running a check showed, if another tool's words for it are ours."""
    fields = mapping(value)
    command, code, seconds, tail = (fields.get(key) for key in ("command", "exit_code", "seconds", "tail"))
    if not isinstance(command, str) or not isinstance(code, int) or not schema.fits(Evidence, "exit_code", code):
        return None
    return Evidence(command=command, exit_code=code, seconds=schema.amount(seconds), tail=str(tail or ""))
