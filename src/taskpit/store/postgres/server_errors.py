"""What the server refuses, in our words: what happened, and what to do next. Knows its codes, asks it nothing."""

from __future__ import annotations

from taskpit.errors import NotFound, Storage, TaskpitError, TooLarge, Unavailable
from taskpit.store.postgres.address import without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.store.postgres.address import PostgresAddress
    from taskpit.store.postgres.libpq import ServerError

#: What others have locked was waited for, for as long as that may take.
IN_USE = "55P03"
#: Codes and beginnings of codes: the whole was undone since others were in the way, so it can be tried again.
UNDONE = ("40001", "40P01", IN_USE)
#: The server goes away, comes up, or is no longer the one that writes.
GONE = ("08", "57P01", "57P02", "57P03", "57P05", "25006")

_MISSING = "Make one with `pit init {address}`."
_PASSWORD = "Look at the user and the password in the address, in PGPASSWORD or in ~/.pgpass."  # noqa: S105 - words
_RIGHTS = "Give the user CREATE on the database, or USAGE on the schema and all rights on what is in it."

#: Our own code: there is no certificate by which the server's could be checked.
ROOTS = "roots"

#: Code, kind of error, what is told (beside the server's own words), what to do.
KNOWN: tuple[tuple[str, type[TaskpitError], str, str], ...] = (
    ("28", Storage, "the server refuses this user or password", _PASSWORD),
    ("3D000", NotFound, "there is no such database", "Create it, or name another in the address."),
    ("3F000", NotFound, "there is no queue in schema {schema}", _MISSING),
    ("42P01", NotFound, "there is no queue in schema {schema}", _MISSING),
    ("42883", Storage, "the queue in schema {schema} lacks something", "`pit init {address}` brings it up to date."),
    (
        ROOTS,
        Storage,
        "the server's certificate cannot be checked",
        "Add sslrootcert=system to the address (whom this machine trusts), or sslrootcert=FILE.",
    ),
    ("42501", Storage, "this user may not do that", _RIGHTS),
    (
        "25006",
        Unavailable,
        "this server only reads: it is a standby",
        "Name all servers in the address (host1,host2) with target_session_attrs=read-write.",
    ),
    (
        "53100",
        Storage,
        "the server's disk is full; nothing was changed",
        "Make room there; workers go on by themselves.",
    ),
    ("53300", Unavailable, "the server has no connection left", "Raise max_connections there, or use a pooler."),
    ("53", Unavailable, "the server is short of resources; nothing was changed", "Try again."),
    ("54", TooLarge, "that is more than the server takes", ""),
    ("57014", Unavailable, "the server gave up on it; nothing was changed", "Try again; see statement_timeout there."),
)

#: What libpq says without a code, when no server has answered yet; * is anything.
SAID = (
    ("password authentication failed", "28"),
    ("no password supplied", "28"),
    ("no pg_hba.conf entry", "28"),
    ("role ", "28"),
    ('database "*" does not exist', "3D000"),
    ("root certificate file", ROOTS),
    ("too many clients", "53300"),
    ("remaining connection slots", "53300"),
    ("read-only", "25006"),
    ("session is not read-write", "25006"),
)


def _code(error: ServerError) -> str:
    text = str(error)
    return error.sqlstate or next((code for words, code in SAID if all(one in text for one in words.split("*"))), "")


def is_undone(error: ServerError) -> bool:
    """Whether the server undid it all since others were in the way."""
    return error.sqlstate.startswith(UNDONE)


def is_gone(error: ServerError, *, closed: bool) -> bool:
    """Whether the connection is of no more use."""
    return closed or error.sqlstate.startswith(GONE)


def translate(error: ServerError, address: PostgresAddress) -> TaskpitError:
    """The error in our words."""
    code = _code(error)
    said = without_secrets(" ".join(str(error).split()), address)[:300]
    words = {"schema": address.schema, "address": f"'{address.shown}'"}
    for known, kind, told, hint in KNOWN:
        if code.startswith(known):
            return kind(
                f"{told.format(**words)} ({said})", hint=hint.format(**words), address=address.shown, sqlstate=code
            )
    if code and not code.startswith(GONE):
        return Storage(f"the server refused: {said}", address=address.shown, sqlstate=code)
    hint = "Is it running, and is the address right? Workers go on by themselves once it is back."
    return Unavailable(f"the database cannot be reached: {said}", hint=hint, address=address.shown)
