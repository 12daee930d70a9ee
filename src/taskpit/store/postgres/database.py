"""Connections to the server, and statements over them, repeated where that is safe. Knows no verbs.

A verb whose connection breaks may have happened. A verb that can be repeated is, and the server learns that this is a
repetition; any other raises `Unknown`. Without a connection nothing has happened: `Unavailable`, after some patience.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from taskpit.errors import Unavailable, Unknown
from taskpit.store.postgres.address import PostgresAddress, quoted, unreadable, without_secrets
from taskpit.store.postgres.contact import Contact
from taskpit.store.postgres.server_errors import CROWDED, IN_USE, code_of, is_gone, is_undone, translate

T = TypeVar("T")
Row = tuple[Any, ...]

SQL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sql")
#: A verb that has no answer after so many seconds fails, also when the server is silent. The server undoes a statement
#: before that. Upkeep that reads every task may take longer.
DEADLINE, STATEMENT, UPKEEP = 30.0, 25.0, 600.0
#: A statement waits no longer than this for a lock; then it is undone and repeated.
LOCK = 5.0
#: The first pause before a repetition, and the longest, in seconds.
FIRST, LONGEST = 0.02, 1.0
#: A statement that other transactions undid is repeated this often; one that waited for a lock, while patience lasts.
TURNS = 50
#: The longest attempt to connect to one host, in seconds.
CONNECT = 10.0
#: Settings of a connection that the address may change. A dead peer is noticed after half a minute.
USUAL = {
    "application_name": "taskpit",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "client_encoding": "UTF8",
}


@functools.cache
def statement(name: str) -> str:
    """Return the SQL of this name."""
    with open(f"{SQL}/{name}.sql", encoding="utf-8") as file:
        return file.read()


class Session(psycopg.Connection[Row]):
    """A connection whose every wait for the server ends at a time."""

    #: On the monotonic clock.
    ends: float | None = None

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for an answer until the deadline of the verb. A session that missed it is closed."""
        if timeout is not None or self.ends is None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, max(self.ends - time.monotonic(), 0.0))
        except psycopg.OperationalError as error:
            if self.closed or time.monotonic() < self.ends:
                raise
            self.close()
            raise psycopg.OperationalError("it did not answer in time") from error


class Database:
    """As many connections to one queue's server as are in use at once."""

    def __init__(self, address: PostgresAddress) -> None:
        self.address = address
        #: The name of the queue's schema in SQL.
        self.schema = quoted(address.schema)
        #: Whether a pooler gives each transaction another session.
        self.pooled = bool(address.pooled)
        self.contact = Contact()
        self._spare: list[Session] = []
        self._turn = threading.Lock()
        self._connected = False
        self._closed = False
        self._pid = os.getpid()

    def text(self, sql: str) -> bytes:
        """Return the SQL for this queue's schema."""
        return sql.replace("{s}", self.schema).encode()

    # -- connections -------------------------------------------------------------------------------

    def connect(self, patience: float = DEADLINE) -> Session:
        """Open a connection; psycopg.Error if there is none to be had."""
        try:
            given = conninfo_to_dict(self.address.server)
        except psycopg.ProgrammingError:
            raise unreadable(self.address.whole, "the PostgreSQL client does not understand it") from None
        hosts = 1 + str(given.get("host", "")).count(",")
        usual = {**USUAL, "connect_timeout": max(int(min(CONNECT, patience / hosts)), 2)}
        words: dict[str, Any] = {**usual, **given}
        session = Session.connect(autocommit=True, **words)
        session.ends = time.monotonic() + patience
        try:
            if not self.pooled:  # the sessions of a pooler belong to others, too: their settings stay
                self._greet(session)
        except BaseException:
            session.close()
            raise
        session.prepare_threshold = None if self.pooled else 5
        self._connected = True
        return session

    def _greet(self, session: Session) -> None:
        pid = session.info.backend_pid
        values = {"pid": pid, "limit": f"{STATEMENT:.0f}s", "lock": f"{1000 * LOCK:.0f}ms"}
        row = session.execute(self.text(statement("meet")), values).fetchone()
        self.pooled = self.address.pooled is None and row is not None and row[0] != pid

    def _take(self, patience: float) -> Session:
        with self._turn:
            if self._pid != os.getpid():  # a forked child must not use the connections of its parent
                self._spare, self._pid = [], os.getpid()
            if self._spare:
                return self._spare.pop()
        return self.connect(patience)

    def _give(self, session: Session) -> None:
        with self._turn:
            if not self._closed:
                self._spare.append(session)
                return
        session.close()  # a thread was still waiting for its answer

    def close(self) -> None:
        """Close the connections, those in use after their answer."""
        self._closed = True
        self.drop()

    def drop(self) -> None:
        """Close the connections that are not in use."""
        with self._turn:
            spare, self._spare = self._spare, []
        for session in spare:
            session.close()

    # -- statements --------------------------------------------------------------------------------

    def execute(
        self, sql: str, values: Mapping[str, object] | None = None, *, repeat: bool = True, slow: bool = False
    ) -> list[Row]:
        """Run SQL and return its rows. `again` among its placeholders tells the server of a repetition.

        Without `repeat`, a lost answer is `Unknown`. A `slow` statement may take as long as upkeep may.
        """
        text = self.text(sql)

        def run(session: Session, *, again: bool) -> list[Row]:
            given = None if values is None else {**values, "again": again}
            try:
                cursor = session.execute(text, given)
            except UnicodeEncodeError:  # half of a surrogate pair becomes a question mark, as in a file
                cursor = session.execute(text, {key: _encodable(value) for key, value in (given or {}).items()})
            return cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []

        return self._run(run, repeat=repeat, slow=slow)

    def ask_each(self, name: str, batches: Sequence[Mapping[str, object]]) -> list[list[Row]]:
        """Run the statement for each batch, a transaction each, without waiting for one answer before the next."""
        text = self.text(statement(name))
        answers: list[list[Row]] = []
        attempts = 0

        def run(session: Session, *, again: bool) -> list[list[Row]]:
            nonlocal attempts
            attempts += 1
            with session.pipeline() as pipeline:
                cursors = []
                for values in batches[len(answers) :]:
                    cursors.append(session.execute(text, {**values, "again": again or attempts > 1}))
                    pipeline.sync()
                answers.extend(cursor.fetchall() for cursor in cursors)
            return answers

        return self._run(run)

    def _run(self, run: Callable[..., T], *, repeat: bool = True, slow: bool = False) -> T:
        began = time.monotonic()
        ends = began + (UPKEEP if slow else max(DEADLINE, self.address.patience))
        pause, turns, again = FIRST, 0, False
        while True:
            session = None
            try:
                session = self._take(ends - time.monotonic())
                session.ends = ends
                if slow and not self.pooled:
                    session.execute("SET statement_timeout = 0")
                    session.execute("SET lock_timeout = 0")
                answer = run(session, again=again)
            except psycopg.Error as error:
                turns += 1
                if session is None or session.closed:
                    self.contact.failed()
                until = min(began + self.address.patience, ends)
                again = self._failed(error, session, again=again, repeat=repeat, turns=turns, until=until)
            except BaseException:
                if session is not None:
                    session.close()  # it was interrupted somewhere
                raise
            else:
                if slow:
                    session.close()
                else:
                    self._give(session)
                    self.contact.succeeded(began)
                return answer
            time.sleep(pause * (0.5 + os.urandom(1)[0] / 510))
            pause = min(pause * 2, LONGEST)

    def _failed(
        self, error: psycopg.Error, session: Session | None, *, again: bool, repeat: bool, turns: int, until: float
    ) -> bool:
        """Return whether the statement may have happened. Raises if it is not to be repeated."""
        late = time.monotonic() >= until
        if session is not None and not session.closed and is_undone(error):
            self._give(session)
            if turns >= TURNS or (error.sqlstate == IN_USE and late):
                raise Unavailable(f"Other transactions were in the way {turns} times: {error}", hint="Try again.")
            return again
        reason = translate(error, self.address)
        if session is not None:
            if not session.closed and not is_gone(error):
                self._give(session)
                raise reason from error
            session.close()
            self.drop()
            # The server refused the statement in words, or the connection broke after it was sent.
            again = again or code_of(error) not in ("25006", "57P03", "57P05")
            if again and not repeat:
                raise self._unknown(error, repeat=repeat) from error
        hopeless = not self._connected and code_of(error) != CROWDED
        if not isinstance(reason, Unavailable) or hopeless or late:
            raise (self._unknown(error, repeat=repeat) if again else reason) from error
        return again

    def _unknown(self, error: psycopg.Error, *, repeat: bool) -> Unknown:
        words = without_secrets(" ".join(str(error).split()), self.address)[:200]
        hint = "Repeating it is safe." if repeat else "It may have happened: `pit log` shows, before you repeat it."
        return Unknown(f"the connection broke before the answer came ({words})", hint=hint)


def _encodable(value: object) -> object:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
