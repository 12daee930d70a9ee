"""What runs print and leave, in tables: logs as they grow, and files that are kept with a task."""

from __future__ import annotations

from hashlib import sha256 as digest_of

from taskpit.errors import Invalid, Lost
from taskpit.model import State
from taskpit.store import run_files
from taskpit.store.port import Artifact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from taskpit.model import Card, Claim
    from taskpit.store.postgres.upkeep import Ask

#: Where a log is, in the words of a result: its number follows.
PLACE = "the table log, number "
PRINTED = """
    SELECT substr(string_agg(p.data, '' ORDER BY p.start), %(start)s, %(size)s), sum(length(p.data))::bigint
    FROM {s}.printed p WHERE p.id = %(id)s AND p.fence = %(fence)s
"""
LOG = "SELECT substr(l.data, %(start)s, %(size)s), length(l.data) FROM {s}.log l WHERE l.n = %(number)s"
KEEP = """
    INSERT INTO {s}.artifact (id, name, sha256, data)
    SELECT l.id, %(name)s, %(sha256)s, %(data)s FROM {s}.lease l WHERE l.id = %(id)s AND l.fence = %(fence)s
    ON CONFLICT (id, name) DO UPDATE SET sha256 = excluded.sha256, data = excluded.data RETURNING 1
"""
LIST = "SELECT a.name, length(a.data), a.sha256 FROM {s}.artifact a WHERE a.id = %(id)s ORDER BY a.name"
READ = "SELECT a.data, a.sha256 FROM {s}.artifact a WHERE a.id = %(id)s AND a.name = %(name)s"


def _lost(claim: Claim) -> Lost:
    return Lost(f"{claim.task.id} is not {claim.worker}'s any more", id=claim.task.id)


def add_log(ask: Ask, claim: Claim, start: int, data: bytes) -> int:
    """A row for each piece."""
    run_files.check_piece(start, data)
    sql = "SELECT {s}.add_log(%(id)s, %(fence)s, %(start)s::bigint, %(data)s, %(now)s)"
    size: int | None = ask(sql, id=claim.task.id, fence=claim.fence, start=start, data=data)[0][0]
    if size is None:
        raise _lost(claim)
    return size


def end_log(ask: Ask, claim: Claim) -> str:
    """One row of all pieces."""
    sql = "SELECT {s}.end_log(%(id)s, %(fence)s, %(worker)s, %(now)s)"
    number = ask(sql, repeat=False, id=claim.task.id, fence=claim.fence, worker=claim.worker)[0][0]
    return f"{PLACE}{number}" if number is not None else ""


def read_log(ask: Ask, card: Card, start: int, size: int) -> tuple[bytes, int]:
    """Of the claim that has it, or of the last."""
    words: dict[str, Any] = {"start": start + 1, "size": min(size, run_files.LARGEST_PIECE)}
    number = run_files.last_log(card).removeprefix(PLACE)
    if card.state is State.CLAIMED:
        rows = ask(PRINTED, id=card.task.id, fence=card.worker, **words)
    elif number.isascii() and number.isdecimal() and len(number) < 19:
        rows = ask(LOG, number=int(number), **words)
    else:
        rows = []
    return (rows[0][0], rows[0][1]) if rows and rows[0][0] is not None else (b"", 0)


def keep_artifact(ask: Ask, claim: Claim, name: str, data: bytes, sha256: str) -> None:
    """A row, while the claim lasts."""
    run_files.check_artifact(name, data, sha256, artifacts(ask, claim.task.id))
    if not ask(KEEP, id=claim.task.id, fence=claim.fence, name=name, sha256=sha256, data=data):
        raise _lost(claim)


def artifacts(ask: Ask, task_id: str) -> list[Artifact]:
    """By name."""
    return [Artifact(name=name, size=size, sha256=digest) for name, size, digest in ask(LIST, id=task_id)]


def read_artifact(ask: Ask, task_id: str, name: str) -> bytes:
    """Its bytes, if they are still those that were kept."""
    rows = ask(READ, id=task_id, name=name) if "\0" not in task_id + name else []
    if not rows:
        raise run_files.none_of(task_id, name)
    data: bytes = rows[0][0]
    if digest_of(data).hexdigest() != rows[0][1]:
        raise Invalid(f"the bytes of {name} are not those that were kept with {task_id}", id=task_id, name=name)
    return data


def forget(ask: Ask, ids: list[str], age: float) -> None:
    """Files of these tasks go, and what runs had printed that never ended, once it is so many seconds old."""
    ask("DELETE FROM {s}.artifact a WHERE a.id = ANY (%(ids)s) RETURNING 1", ids=ids)
    ask("DELETE FROM {s}.printed p WHERE p.at < {s}.time_of(%(now)s) - %(age)s RETURNING 1", age=age)
