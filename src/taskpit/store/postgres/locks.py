"""Names that one worker has until a time, as rows whose numbers only grow. Asks; the server decides."""

from __future__ import annotations

from taskpit import schema
from taskpit.clock import iso
from taskpit.errors import Invalid, Lost
from taskpit.layouts.layout import check_word, check_worker
from taskpit.model import Lock, Said, worker_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from taskpit.store.postgres.upkeep import Ask

FIELDS = "name, holder, kind, number, acquired, expires"


def take(ask: Ask, name: str, worker: str, seconds: float, kind: str) -> Lock:
    """The name is this worker's; Lost says whose it is."""
    check_word(name, "name of a lock")
    check_worker(worker)
    if seconds <= 0:
        raise Invalid("a lock must last some time", name=name)
    row = ask(
        f"SELECT {FIELDS} FROM {{s}}.take_lock(%(name)s, %(worker)s, %(kind)s, %(seconds)s, %(now)s)",  # noqa: S608
        name=name,
        worker=worker,
        kind=kind or worker_type(worker),
        seconds=seconds,
    )[0]
    lock = _lock(row)
    if lock.holder != worker:
        told = f"{name} is held by {lock.holder} until {iso(lock.expires)}"
        raise Lost(told, hint="`pit lock` shows all of them.", holder=lock.holder, id=name)
    return lock


def keep(ask: Ask, lock: Lock, seconds: float) -> Said:
    """It lasts longer, if it is still the same."""
    sql = "SELECT {s}.keep_lock(%(name)s, %(holder)s, %(number)s, %(seconds)s, %(now)s)"
    kept = ask(sql, name=lock.name, holder=lock.holder, number=lock.number, seconds=seconds)[0][0]
    return Said.OK if kept else Said.LOST


def free(ask: Ask, lock: Lock) -> Said:
    """It is free, if it was still the same."""
    sql = "SELECT {s}.free_lock(%(name)s, %(holder)s, %(number)s, %(again)s)"
    freed = ask(sql, name=lock.name, holder=lock.holder, number=lock.number)[0][0]
    return Said.OK if freed else Said.LOST


def held(ask: Ask) -> list[Lock]:
    """All that somebody has, by name."""
    return [_lock(row) for row in ask(f"SELECT {FIELDS} FROM {{s}}.lock WHERE holder IS NOT NULL ORDER BY name")]  # noqa: S608


def _lock(row: tuple[Any, ...]) -> Lock:
    name, holder, kind, number, acquired, expires = row
    begun, ends = schema.amount(acquired), schema.amount(expires)
    return Lock(name=name, holder=holder, kind=kind, number=number, acquired=begun, expires=ends)
