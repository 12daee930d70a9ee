"""Connections to the server, and asking over them: again where that is safe. Knows no verbs.

A verb whose connection breaks may have happened. What can be repeated is, told that it is a repetition; what
cannot is `Unknown`. While no connection can be had nothing has happened: `Unavailable`, once patience is over.
"""

from __future__ import annotations

import os
import threading
import time

from taskpit.errors import Unavailable, Unknown
from taskpit.store.postgres.address import quoted, unreadable, without_secrets
from taskpit.store.postgres.contact import Contact
from taskpit.store.postgres.libpq import Connection, ServerError, is_readable
from taskpit.store.postgres.server_errors import IN_USE, is_gone, is_undone, translate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from taskpit.store.postgres.address import PostgresAddress
    from taskpit.store.postgres.libpq import Row

#: First pause before another try, and the longest, in seconds.
FIRST, LONGEST = 0.02, 1.0
#: No verb takes longer than so many seconds: one that does is undone, and whoever asked is told. Who has set another
#: limit (for the user, the database, in the address) keeps it; upkeep that looks at every task has none.
STATEMENT = 60.0
#: Nor waits longer than this for what others have locked, before it lets them go first and tries again.
LOCK = 5.0
#: A pooler is known by this: another process answers than the one that we were connected to.
MEET = """
    SELECT pg_backend_pid(), (
        SELECT max(set_config(x.name, x.value, false))
        FROM (VALUES ('statement_timeout', %(limit)s), ('lock_timeout', %(lock)s),
                     ('search_path', 'pg_catalog, pg_temp')) x(name, value)
        WHERE pg_backend_pid() = %(pid)s AND (current_setting(x.name) = '0' OR x.name = 'search_path'))
"""
#: What was undone since others were in the way is tried this often; what they had locked, until patience is over.
TURNS = 50
#: A dead peer is noticed after about half a minute; an unreachable one when connecting, after ten seconds.
OURS = {
    "application_name": "taskpit",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


class Wire:
    """A few connections, as many as are in use at once."""

    def __init__(self, address: PostgresAddress) -> None:
        self.address = address
        #: The queue's schema as SQL wants it, in place of {s} in whatever is asked.
        self.schema = quoted(address.schema)
        #: Whether a pooler stands between, which hands each transaction another session.
        self.pooled = bool(address.pooled)
        #: What was asked, with that in its place.
        self._texts: dict[str, str] = {}
        #: For how long the server has answered.
        self.contact = Contact()
        self._spare: list[Connection] = []
        self._turn = threading.Lock()
        self._met = False
        self._pid = os.getpid()

    def connect(self) -> Connection:
        """One more connection; ServerError if there is none to be had."""
        if not is_readable(self.address.server):
            raise unreadable(self.address.whole, "the database's own client does not understand it")
        connection = Connection(self.address.server, OURS)
        if not self.pooled:  # else sessions are others', too: what they are set to is the server's business
            words = {"pid": connection.pid, "limit": f"{STATEMENT:.0f}s", "lock": f"{1000 * LOCK:.0f}ms"}
            answers = connection.execute(MEET, words)[0][0]
            self.pooled = self.address.pooled is None and answers != connection.pid
        connection.prepares = not self.pooled
        self._met = True
        return connection

    def _take(self) -> Connection:
        with self._turn:
            if self._pid != os.getpid():  # a fork must not speak over its parent's connections
                self._spare, self._pid = [], os.getpid()
            if self._spare:
                return self._spare.pop()
        return self.connect()

    def _give(self, connection: Connection) -> None:
        with self._turn:
            self._spare.append(connection)

    def drop(self) -> None:
        """No connection is kept: the server they led to is another now, or none."""
        with self._turn:
            spare, self._spare = self._spare, []
        for connection in spare:
            connection.close()

    def ask(
        self, sql: str, words: Mapping[str, object] | None = None, *, repeat: bool = True, slow: bool = False
    ) -> list[Row]:
        """The rows it answers. `again` among the words tells the server whether this may have happened before.

        `slow`: it may take as long as it does.
        """
        text = self._texts.get(sql) or self._texts.setdefault(sql, sql.replace("{s}", self.schema))
        began = time.monotonic()
        until, pause, turns, again = began + self.address.patience, FIRST, 0, False
        while True:
            connection = None
            try:
                connection = self._take()
                if slow and not self.pooled:
                    connection.execute("SET statement_timeout = 0; SET lock_timeout = 0")
                rows = connection.execute(text, None if words is None else {**words, "again": again})
                if slow:
                    connection.close()
                else:
                    self._give(connection)
                    self.contact.succeeded(began)
                return rows
            except ServerError as error:
                turns += 1
                if connection is None or not connection.is_usable:
                    self.contact.failed()
                again = self._was_refused(error, connection, again=again, repeat=repeat, turns=turns, until=until)
            time.sleep(pause * (0.5 + os.urandom(1)[0] / 510))
            pause = min(pause * 2, LONGEST)

    def _was_refused(
        self,
        error: ServerError,
        connection: Connection | None,
        *,
        again: bool,
        repeat: bool,
        turns: int,
        until: float,
    ) -> bool:
        """Whether it may have happened; raises where trying again is of no use."""
        if connection is not None and is_undone(error):
            self._give(connection)
            if turns >= TURNS or (error.sqlstate == IN_USE and time.monotonic() >= until):
                raise Unavailable(f"others were in the way {turns} times: {error}", hint="Try again.") from error
            return again
        told = translate(error, self.address)
        if not is_gone(error, closed=connection is None or not connection.is_usable):
            if connection is not None:
                self._give(connection)
            raise told from error
        if connection is not None:
            connection.close()
            self.drop()
            # Refused in words, it has not happened; cut off in the middle, it may have.
            again = again or not error.sqlstate.startswith(("25006", "57P03"))
            if again and not repeat:
                raise _unknown(error, self.address, repeat=repeat) from error
        if not isinstance(told, Unavailable) or not self._met or time.monotonic() >= until:
            raise (_unknown(error, self.address, repeat=repeat) if again else told) from error
        return again

    def close(self) -> None:
        """Every connection is closed."""
        self.drop()


def _unknown(error: ServerError, address: PostgresAddress, *, repeat: bool) -> Unknown:
    said = without_secrets(" ".join(str(error).split()), address)[:200]
    hint = "Repeating it is safe." if repeat else "It may have happened: `pit log` shows, before you repeat it."
    return Unknown(f"the connection broke before the answer came ({said})", hint=hint)
