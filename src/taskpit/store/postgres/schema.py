"""Make a queue's schema and bring it up to date. Knows versions and the SQL files, no verbs.

An upgrade is one transaction: several may try at once, one does it. Workers go on in the meantime, because each version
says which older programs it still serves.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from hashlib import sha256

import psycopg

from taskpit.config import Config, Hooks, parse
from taskpit.errors import NotFound, Storage, TaskpitError, Unavailable
from taskpit.model import Value
from taskpit.store.postgres.address import PostgresAddress, quoted
from taskpit.store.postgres.database import SQL, UPKEEP, Database, Row, Session, statement
from taskpit.store.postgres.rows import as_json
from taskpit.store.postgres.server_errors import IN_USE, translate

#: The oldest server whose functions these use.
OLDEST_SERVER = 130000
#: How long an upgrade waits for a table in use before it lets others go first, and how often it tries.
LOCK_SECONDS, TURNS = 2, 30
#: Versions before this were never released.
FIRST_VERSION = 13
#: Errors of an upgrade that another one got ahead of: the schema, its tables or its row have just been made.
AHEAD = ("42P06", "42P07", "23505", "42710")
#: Names without a schema mean the server's own functions: another login's, in a schema before it, would run as us.
PINNED = "SET LOCAL search_path = pg_catalog, pg_temp;"


class Migration(Value, frozen=True, kw_only=True):
    """One step: its files, and the oldest version whose programs still work afterwards."""

    version: int
    serves: int
    #: `functions` is all files in that folder.
    files: tuple[str, ...]


MIGRATIONS: tuple[Migration, ...] = (
    Migration(version=13, serves=13, files=("tables.sql", "functions", "settings.sql")),
)


class Meta(Value, frozen=True, kw_only=True):
    """What a queue says of itself."""

    #: This queue and no other.
    space: str
    #: This server, database and schema. A copy of the queue has another place.
    place: str
    config: Config
    #: How far the server's clock is ahead of ours, in seconds.
    offset: float
    #: `power`, `process` or `none`, as the server is set, and what a person should know of that.
    durability: str
    warnings: tuple[str, ...]


# -- upgrades --------------------------------------------------------------------------------------


def script(name: str, schema: str) -> str:
    """Return the SQL of a file, or of all files in a folder, for this schema."""
    path = f"{SQL}/{name}"
    names = [f"{name}/{file}" for file in sorted(os.listdir(path))] if os.path.isdir(path) else [name]
    text = "\n".join(statement(each.removesuffix(".sql")) for each in names)
    return text.replace("{s}", quoted(schema)).replace("{q}", quoted(schema).replace("'", "''"))


def texts(step: Migration, schema: str) -> list[str]:
    """Return the SQL of one step, which ends with the version that the queue has then."""
    note = script("note_version.sql", schema)
    note = note.replace("{version}", str(step.version)).replace("{serves}", str(step.serves))
    return [*(script(name, schema) for name in step.files), note]


def bring_up(database: Database, settings: Mapping[str, object]) -> list[int]:
    """Make the queue or bring it up to date, with these settings. Return the versions it went through."""
    if settings:
        parse(settings)
    for turn in range(TURNS):
        try:
            with database.connect() as session:
                session.ends = time.monotonic() + UPKEEP
                done = _migrate(session, database)
                if settings:
                    _set(session, database, settings)
                return done
        except psycopg.Error as error:
            if error.sqlstate not in (IN_USE, *AHEAD):
                raise translate(error, database.address) from error
            if turn == TURNS - 1:
                message = "the queue's tables were in use all the time; nothing was changed"
                raise Unavailable(message, hint="Try again.") from error
            time.sleep(0.1)
    return []


def missing(database: Database) -> list[Migration]:
    """Return the steps that are to be taken. Changes nothing."""
    try:
        with database.connect() as session:
            version = _version(session, database)
    except psycopg.Error as error:
        raise translate(error, database.address) from error
    return [step for step in MIGRATIONS if step.version > version]


def _run(session: Session, database: Database, sql: str, **values: object) -> list[Row]:
    cursor = session.execute(database.text(sql), values or None)
    return cursor.fetchall() if cursor.description else []


def _version(session: Session, database: Database) -> int:
    """Return the version of the queue; 0 if there is none."""
    if _run(session, database, statement("has_meta"), table=f"{database.schema}.meta") == [(False,)]:
        return 0
    rows = _run(session, database, "SELECT m.version FROM {s}.meta m")
    return int(rows[0][0]) if rows else 0


def _migrate(session: Session, database: Database) -> list[int]:
    """Take the missing steps in one transaction, and return their versions."""
    if session.info.server_version < OLDEST_SERVER:
        number = session.info.server_version // 10000
        raise Storage(f"the server is PostgreSQL {number}; 13 is the oldest that will do")
    with session.transaction():
        for sql in (PINNED, f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'", "SET LOCAL statement_timeout = 0"):
            _run(session, database, sql)
        version = _version(session, database)
        if 0 < version < FIRST_VERSION:
            raise _unreleased(database.address)
        if version:  # another upgrade waits here, and finds its steps taken
            _run(session, database, "SELECT 1 FROM {s}.meta FOR UPDATE")
            version = _version(session, database)
        elif _run(session, database, "SELECT to_regnamespace(%(schema)s) IS NULL", schema=database.schema) == [(True,)]:
            _run(session, database, "CREATE SCHEMA {s}")
        steps = [step for step in MIGRATIONS if step.version > version]
        for text in (text for step in steps for text in texts(step, database.address.schema)):
            session.execute(text.encode())
        # The lines of another cluster come first: it numbered its transactions from its own start.
        for (era,) in _run(session, database, statement("begin_era")):
            _run(session, database, f"ALTER TABLE {{s}}.event ALTER COLUMN era SET DEFAULT {int(era)}")
    return [step.version for step in steps]


def _set(session: Session, database: Database, settings: Mapping[str, object]) -> None:
    """Change these settings. A table of settings keeps the keys that are not named."""
    ((config,),) = _run(session, database, "SELECT m.config FROM {s}.meta m")
    known = json.loads(config) if config else {}
    tables = {key: {**known.get(key, {}), **value} for key, value in settings.items() if isinstance(value, Mapping)}
    changed = as_json({**known, **settings, **tables})
    _run(session, database, "UPDATE {s}.meta SET config = %(config)s", config=changed)


# -- opening ---------------------------------------------------------------------------------------


def look(database: Database) -> Meta:
    """Return what the queue says of itself. Raises if there is none, or none that this program can work with."""
    before = time.time()
    try:
        rows = database.execute(statement("describe"))
    except NotFound:
        raise
    except TaskpitError as error:
        if error.details.get("sqlstate") == "42501":
            error.hint = "Give the user USAGE on the schema and all rights on what is in it."
        raise
    if not rows:
        raise NotFound(f"there is no queue in schema {database.address.schema}")
    version, serves, space, config, now, *settings, place, cluster, origin = rows[0]
    _check(database.address, version, serves)
    if cluster != origin:
        hint = f"`pit init '{database.address.shown}'` lets it go on here; nothing is lost."
        raise Storage("the queue was restored from a copy of another server's, and has not gone on here yet", hint=hint)
    durability, warnings = _durability(*settings)
    return Meta(
        space=space,
        place=sha256(f"{cluster}/{place}".encode()).hexdigest()[:12],
        # No command comes from a database: its workers can write there.
        config=parse(json.loads(config) if config else {}).replace(hooks=Hooks()),
        offset=now - (before + time.time()) / 2,
        durability=durability,
        warnings=warnings,
    )


def _durability(fsync: str, commit: str, standbys: str, full_pages: str) -> tuple[str, tuple[str, ...]]:
    """Return how durable an acknowledged verb is with these settings of the server, and warnings."""
    if fsync != "on":
        return "none", ("fsync is off on the server: a power loss there may destroy the whole queue",)
    if commit == "off":
        warning = "synchronous_commit is off: a power loss there loses what was acknowledged in the last moments"
        return "process", (warning,)
    warnings = []
    if full_pages != "on":
        warnings.append("full_page_writes is off on the server: a power loss there may tear pages")
    if not standbys or commit == "local":
        warning = "no synchronous standby: if another server takes over from this one, its last moments are lost"
        warnings.append(warning)
    return "power", tuple(warnings)


def _check(address: PostgresAddress, version: int, serves: int) -> None:
    ours = MIGRATIONS[-1].version
    if version < FIRST_VERSION:
        raise _unreleased(address)
    if version < ours:
        raise Storage(
            f"the queue's schema is of version {version}, this taskpit needs {ours}",
            hint=f"`pit init '{address.shown}'` brings it up to date while others work.",
            version=version,
        )
    if serves > ours:
        raise Storage(
            f"the queue's schema is of version {version}, which needs a newer taskpit than this (version {ours})",
            hint="Upgrade taskpit here; nothing was changed.",
            version=version,
        )


def _unreleased(address: PostgresAddress) -> Storage:
    return Storage(
        f"the queue in schema {address.schema} was made by an unreleased taskpit, which this one cannot read",
        hint="Make a new queue in another schema: add schema=NAME to the address.",
    )
