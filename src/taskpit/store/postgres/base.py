"""What all parts of the store share: the database, and how a verb asks it."""

from __future__ import annotations

from typing import Any

from taskpit.clock import Clock
from taskpit.config import Config
from taskpit.store.postgres.address import PostgresAddress
from taskpit.store.postgres.database import Database, Row, statement


class Base:
    """One queue."""

    address: PostgresAddress
    database: Database
    config: Config
    clock: Clock
    #: A test's clock.
    _given: Clock | None
    #: The queue's own name, which cursors carry.
    _space: str

    def _now(self) -> float | None:
        """Return the time of a test's clock. Otherwise the server uses its own."""
        return self._given.now() if self._given else None

    def _ask(self, name: str, /, *, repeat: bool = True, slow: bool = False, **values: Any) -> list[Row]:
        """Run the statement of this name."""
        return self.database.execute(statement(name), {**values, "now": self._now()}, repeat=repeat, slow=slow)
