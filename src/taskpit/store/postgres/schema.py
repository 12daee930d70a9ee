"""Making a queue's schema and bringing it up to date. Knows versions and the SQL files, no verbs.

A migration is one transaction under a lock of its own: several may try at once, one does it. Workers go on
meanwhile: each version says which older programs it still serves.
"""

from __future__ import annotations

import os
import time

import psycopg

from taskpit.config import Config, Hooks, parse
from taskpit.errors import NotFound, Storage, TaskpitError, Unavailable
from taskpit.records import Value
from taskpit.store.postgres.row_text import as_json
from taskpit.store.postgres.server_errors import translate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from taskpit.store.postgres.address import PostgresAddress
    from taskpit.store.postgres.connection import Row, Wire

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sql")
#: The oldest server whose functions these use.
OLDEST_SERVER = 130000
#: The first half of every advisory lock of ours.
LOCK = 1953720679
#: How long a migration waits for a table that somebody uses, before it lets others go first and tries again.
LOCK_SECONDS, TURNS = 2, 30


class Migration(Value):
    """One step: what is run, and the oldest version whose programs still work afterwards."""

    version: int
    serves: int
    files: tuple[str, ...]


MIGRATIONS: tuple[Migration, ...] = (
    Migration(version=1, serves=1, files=("0001_tables.sql",)),
    Migration(version=2, serves=1, files=("0002_verbs.sql", "0003_ends.sql", "0004_lives.sql")),
    Migration(version=3, serves=1, files=("0005_limits.sql", "0002_verbs.sql", "0003_ends.sql")),
    Migration(version=4, serves=1, files=("0006_retention.sql",)),
    Migration(version=5, serves=1, files=("0002_verbs.sql", "0003_ends.sql")),
    Migration(version=6, serves=1, files=("0007_floor.sql", "0002_verbs.sql", "0003_ends.sql")),
    Migration(version=7, serves=1, files=("0002_verbs.sql", "0003_ends.sql")),
)


class Meta(Value):
    """What a queue says of itself."""

    version: int
    serves: int
    #: This queue and no other.
    space: str
    config: Config
    #: How far the server's clock is ahead of ours, in seconds.
    offset: float
    #: `power`, `process` or `none`, as the server is set, and what a person should know of that.
    durability: str
    warnings: tuple[str, ...]


def quoted(schema: str) -> str:
    """The schema's name as SQL wants it."""
    return '"' + schema.replace('"', '""') + '"'


def script(name: str, schema: str) -> str:
    """A file's SQL for this schema."""
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        text = file.read()
    return (
        text.replace("{s}", quoted(schema))
        .replace("{q}", quoted(schema).replace("'", "''"))
        .replace("{t}", schema.replace("'", "''"))
    )


def bring_up(wire: Wire, settings: Mapping[str, object]) -> list[int]:
    """The queue is there and up to date, with these settings if there are any; the versions it went through."""
    from taskpit import jsontext

    config = parse(settings) if settings else None
    for turn in range(TURNS):
        try:
            with wire.connect() as connection:
                done = _migrate(connection, wire.address)
                if config is not None:
                    table = f"{quoted(wire.address.schema)}.meta"
                    row = connection.execute(f"SELECT config FROM {table}").fetchone()  # noqa: S608 - a quoted name
                    known = jsontext.loads(row[0]) if row and row[0] else {}
                    told_tables = {"limits": config.limits, "shares": config.shares}
                    more = {name: {**known.get(name, {}), **table} for name, table in told_tables.items() if table}
                    told = as_json({**known, **settings, **more})
                    connection.execute(f"UPDATE {table} SET config = %s", [told])  # noqa: S608
                return done
        except psycopg.errors.LockNotAvailable as error:
            if turn == TURNS - 1:
                told = "the queue's tables were in use all the time; nothing was changed"
                raise Unavailable(told, hint="Try again.") from error
            time.sleep(0.1)
        except psycopg.Error as error:
            raise translate(error, wire.address) from error
    return []


def missing(wire: Wire) -> list[Migration]:
    """The steps that bringing it up would take, none if it is up to date. Changes nothing."""
    try:
        with wire.connect() as connection:
            name = f"{quoted(wire.address.schema)}.meta"
            there = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [name]).fetchone()
            row = connection.execute(f"SELECT version FROM {name}").fetchone() if there and there[0] else None  # noqa: S608
    except psycopg.Error as error:
        raise translate(error, wire.address) from error
    return [step for step in MIGRATIONS if step.version > (row[0] if row else 0)]


def _migrate(connection: psycopg.Connection[Row], address: PostgresAddress) -> list[int]:
    if connection.info.server_version < OLDEST_SERVER:
        version = connection.info.server_version // 10000
        raise Storage(f"the server is PostgreSQL {version}; 13 is the oldest that will do")
    schema, done = address.schema, []
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [LOCK, schema])
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'; SET LOCAL statement_timeout = 0")
        row = connection.execute(
            "SELECT to_regnamespace(%s) IS NOT NULL, to_regclass(%s) IS NOT NULL",
            [quoted(schema), f"{quoted(schema)}.meta"],
        ).fetchone()
        there, has_meta = row or (False, False)
        if not there:
            connection.execute(f"CREATE SCHEMA {quoted(schema)}")
        version = 0
        if has_meta:
            found = connection.execute(f"SELECT version FROM {quoted(schema)}.meta").fetchone()  # noqa: S608
            version = found[0] if found else 0
        for step in MIGRATIONS:
            if step.version > version:
                for name in step.files:
                    connection.execute(script(name, schema).encode())
                _note(connection, schema, step)
                done.append(step.version)
        _begin_era(connection, schema)
    return done


def _begin_era(connection: psycopg.Connection[Row], schema: str) -> None:
    """The queue came from a dump of another cluster, which numbers its transactions otherwise: those come first."""
    row = connection.execute(
        f"UPDATE {quoted(schema)}.meta m SET era = m.era + 1, system = c.system_identifier::text "  # noqa: S608
        "FROM pg_control_system() c WHERE m.system <> c.system_identifier::text RETURNING m.era"
    ).fetchone()
    if row is not None:
        connection.execute(f"ALTER TABLE {quoted(schema)}.event ALTER COLUMN era SET DEFAULT {int(row[0])}".encode())


def _note(connection: psycopg.Connection[Row], schema: str, step: Migration) -> None:
    connection.execute(
        f"INSERT INTO {quoted(schema)}.meta (version, serves, space) VALUES (%s, %s, %s) "  # noqa: S608 - a quoted name
        "ON CONFLICT (one) DO UPDATE SET version = excluded.version, serves = excluded.serves",
        [step.version, step.serves, os.urandom(6).hex()],
    )


def look(wire: Wire) -> Meta:
    """What the queue says of itself; an error if there is none, or none that this program can work with."""
    before = time.time()
    sql = (
        "SELECT version, serves, space, config, extract(epoch FROM clock_timestamp())::float8, "
        "current_setting('fsync'), current_setting('synchronous_commit'), "
        "current_setting('synchronous_standby_names'), current_setting('full_page_writes'), "
        "(SELECT c.system_identifier::text FROM pg_control_system() c), to_jsonb(m) ->> 'system' FROM {}.meta m"
    )
    try:
        rows = wire.ask(sql.format(quoted(wire.address.schema)))
    except NotFound:
        raise
    except TaskpitError as error:
        if error.details.get("sqlstate") == "42501":
            error.hint = "Give the user USAGE on the schema and all rights on what is in it."
        raise
    if not rows:
        raise NotFound(f"there is no queue in schema {wire.address.schema}")
    version, serves, space, config, now, *settings, here, born = rows[0]
    _check(wire.address, version, serves)
    if here != born:
        told = "the queue was restored from a copy of another server's, and has not gone on here yet"
        raise Storage(told, hint=f"`pit init '{wire.address.shown}'` lets it go on here; nothing is lost.")
    from taskpit import jsontext

    durability, warnings = _durability(*settings)
    return Meta(
        version=version,
        serves=serves,
        space=space,
        # What is run on this machine is never taken from a database: its workers can write there.
        config=parse(jsontext.loads(config) if config else {}).replace(hooks=Hooks()),
        offset=now - (before + time.time()) / 2,
        durability=durability,
        warnings=warnings,
    )


def _durability(fsync: str, commit: str, standbys: str, full_pages: str) -> tuple[str, tuple[str, ...]]:
    """What the server's settings make of an acknowledged verb, and what a person should know of it."""
    if fsync != "on":
        return "none", ("fsync is off on the server: a power loss there may destroy the whole queue",)
    if commit == "off":
        told = "synchronous_commit is off: a power loss there loses what was acknowledged in the last moments"
        return "process", (told,)
    warnings = []
    if full_pages != "on":
        warnings.append("full_page_writes is off on the server: a power loss there may tear pages")
    if not standbys or commit == "local":
        told = "no synchronous standby: if another server takes over from this one, its last moments are lost"
        warnings.append(told)
    return "power", tuple(warnings)


def _check(address: PostgresAddress, version: int, serves: int) -> None:
    ours = MIGRATIONS[-1].version
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
