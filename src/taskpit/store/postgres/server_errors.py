"""Errors of the server in our words: what happened, and the next step."""

from __future__ import annotations

import psycopg

from taskpit.errors import Invalid, NotFound, Storage, TaskpitError, TooLarge, Unavailable
from taskpit.store.postgres.address import PostgresAddress, without_secrets

#: The statement waited for a lock for as long as it may.
IN_USE = "55P03"
#: The server has no connection left.
CROWDED = "53300"
#: The transaction was undone because others were in the way: it can be repeated.
UNDONE = ("40001", "40P01", IN_USE)
#: The server goes away, comes up, or is no longer the one that writes.
GONE = ("08", "57P01", "57P02", "57P03", "57P05", "25006")
#: Our own code: there is no certificate to check the server's by.
ROOTS = "roots"

_MISSING = "Make one with `pit init {address}`."
_PASSWORD = "Look at the user and the password in the address, in PGPASSWORD or in ~/.pgpass."  # noqa: S105 - words
_RIGHTS = "Give the user CREATE on the database, or USAGE on the schema and all rights on what is in it."
_POOLER = "A pooler seems to be in between: leave pgbouncer=0 out of the address, or write pgbouncer=1."
_ROOTS = "Add sslrootcert=system to the address (the authorities this machine trusts), or sslrootcert=FILE."
_ROOM = "Make room there; workers go on by themselves."
_STANDBY = "Name all servers in the address (host1,host2) with target_session_attrs=read-write."

#: Our own code: there is no certificate to check the server's by.
ROOTS = "roots"

_MISSING = "Make one with `pit init {address}`."
_PASSWORD = "Look at the user and the password in the address, in PGPASSWORD or in ~/.pgpass."  # noqa: S105 - words
_RIGHTS = "Give the user CREATE on the database, or USAGE on the schema and all rights on what is in it."
_POOLER = "A pooler seems to be in between: leave pgbouncer=0 out of the address, or write pgbouncer=1."

#: Code or its beginning, kind of error, message (the server's own words follow), hint.
KNOWN: tuple[tuple[str, type[TaskpitError], str, str], ...] = (
    ("22021", Invalid, "PostgreSQL stores no text with a zero byte", ""),
    ("26000", Storage, "a prepared statement is gone", _POOLER),
    ("42P05", Storage, "a prepared statement is there already", _POOLER),
    ("28", Storage, "the server refuses this user or password", _PASSWORD),
    ("3D000", NotFound, "there is no such database", "Create it, or name another in the address."),
    ("3F000", NotFound, "there is no queue in schema {schema}", _MISSING),
    ("42P01", NotFound, "there is no queue in schema {schema}", _MISSING),
    ("42883", Storage, "the queue in schema {schema} lacks something", "`pit init {address}` brings it up to date."),
    (ROOTS, Storage, "the server's certificate cannot be checked", _ROOTS),
    ("42501", Storage, "this user may not do that", _RIGHTS),
    ("25006", Unavailable, "this server only reads: it is a standby", _STANDBY),
    ("53100", Storage, "the server's disk is full; nothing was changed", _ROOM),
    (CROWDED, Unavailable, "the server has no connection left", "Raise max_connections there, or use a pooler."),
    ("53", Unavailable, "the server is short of resources; nothing was changed", "Try again."),
    ("54", TooLarge, "that is more than the server takes", ""),
    ("57014", Unavailable, "the server gave up on it; nothing was changed", "Try again; see statement_timeout there."),
)

#: The words of a refused connection, which has no code; * is anything.
WORDS = (
    ("too many c", CROWDED),  # clients, or connections for a role or a database
    ("remaining connection slots", CROWDED),
    ("password authentication failed", "28"),
    ("no password supplied", "28"),
    ("no pg_hba.conf entry", "28"),
    ("role ", "28"),
    ('database "*" does not exist', "3D000"),
    ("root certificate file", ROOTS),
    ("read-only", "25006"),
    ("session is not read-write", "25006"),
)


def code_of(error: psycopg.Error) -> str:
    """Return the code of an error, or the one that its words mean."""
    text = str(error)
    known = (code for words, code in WORDS if all(part in text for part in words.split("*")))
    return error.sqlstate or next(known, "")


def is_undone(error: psycopg.Error) -> bool:
    """Whether the server undid the transaction because others were in the way."""
    return (error.sqlstate or "").startswith(UNDONE)


def is_gone(error: psycopg.Error) -> bool:
    """Whether the server cannot be used over this connection any more."""
    return (error.sqlstate or "").startswith(GONE)


def translate(error: psycopg.Error, address: PostgresAddress) -> TaskpitError:
    """Return our error for one of the server."""
    code = code_of(error)
    words = without_secrets(" ".join(str(error).split()), address)[:300]
    names = {"schema": address.schema, "address": f"'{address.shown}'"}
    if isinstance(error, psycopg.DataError) and not error.sqlstate:
        code = "22021"  # psycopg refuses a zero byte itself
    for known, kind, message, hint in KNOWN:
        if code.startswith(known):
            return kind(
                f"{message.format(**names)} ({words})", hint=hint.format(**names), address=address.shown, sqlstate=code
            )
    if code and not code.startswith(GONE):
        return Storage(f"the server refused: {words}", address=address.shown, sqlstate=code)
    message = "the database cannot be reached"
    hint = "Is it running, and is the address right? Workers go on by themselves once it is back."
    return Unavailable(f"{message}: {words}", hint=hint, address=address.shown)
