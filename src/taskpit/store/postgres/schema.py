"""Making a queue's schema and bringing it up to date. Knows versions and the SQL files, no verbs.

A migration is one transaction under a lock of its own: several may try at once, one does it. Workers go on
meanwhile: each version says which older programs it still serves.
"""

from __future__ import annotations

import os
import time
from hashlib import sha256

from taskpit.config import Config, Hooks, parse
from taskpit.errors import NotFound, Storage, TaskpitError, Unavailable
from taskpit.model import Value
from taskpit.store.postgres.address import quoted
from taskpit.store.postgres.libpq import ServerError
from taskpit.store.postgres.row_text import as_json
from taskpit.store.postgres.server_errors import IN_USE, translate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from taskpit.store.postgres.address import PostgresAddress
    from taskpit.store.postgres.connection import Wire
    from taskpit.store.postgres.libpq import Connection

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sql")
#: The oldest server whose functions these use.
OLDEST_SERVER = 130000
#: The first half of every advisory lock of ours.
LOCK = 1953720679
#: How long a migration waits for a table that somebody uses, before it lets others go first and tries again.
LOCK_SECONDS, TURNS = 2, 30


#: Names without a schema mean the server's own functions: another login's, in a schema before it, would run as us.
PINNED = "SET LOCAL search_path = pg_catalog, pg_temp;"


class Migration(Value, frozen=True, kw_only=True):
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
    Migration(version=8, serves=1, files=("0002_verbs.sql", "0003_ends.sql")),
    Migration(version=9, serves=1, files=("0008_files.sql", "0003_ends.sql")),
    Migration(version=10, serves=1, files=("0003_ends.sql",)),
    Migration(version=11, serves=1, files=("0009_zeros.sql", "0003_ends.sql")),
    Migration(version=12, serves=1, files=("0010_contact.sql", "0002_verbs.sql", "0003_ends.sql")),
)


class Meta(Value, frozen=True, kw_only=True):
    """What a queue says of itself."""

    version: int
    serves: int
    #: This queue and no other.
    space: str
    #: Where it is: this server, database and schema. A copy has another.
    place: str
    config: Config
    #: How far the server's clock is ahead of ours, in seconds.
    offset: float
    #: `power`, `process` or `none`, as the server is set, and what a person should know of that.
    durability: str
    warnings: tuple[str, ...]


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
                    (stored,) = connection.execute(f"SELECT config FROM {table}")[0]  # noqa: S608 - a quoted name
                    known = jsontext.loads(stored) if stored else {}
                    told_tables = {"limits": config.limits, "shares": config.shares}
                    more = {name: {**known.get(name, {}), **table} for name, table in told_tables.items() if table}
                    told = as_json({**known, **settings, **more})
                    connection.execute(f"UPDATE {table} SET config = %(told)s", {"told": told})  # noqa: S608
                return done
        except ServerError as error:
            if error.sqlstate != IN_USE:
                raise translate(error, wire.address) from error
            if turn == TURNS - 1:
                told = "the queue's tables were in use all the time; nothing was changed"
                raise Unavailable(told, hint="Try again.") from error
            time.sleep(0.1)
    return []


def missing(wire: Wire) -> list[Migration]:
    """The steps that bringing it up would take, none if it is up to date. Changes nothing."""
    try:
        with wire.connect() as connection:
            name = f"{quoted(wire.address.schema)}.meta"
            version = _version(connection, name)
    except ServerError as error:
        raise translate(error, wire.address) from error
    return [step for step in MIGRATIONS if step.version > version]


def _version(connection: Connection, table: str) -> int:
    """The version that stands in this table; 0 if there is none."""
    there = connection.execute("SELECT to_regclass(%(table)s) IS NOT NULL", {"table": table})[0][0]
    rows = connection.execute(f"SELECT version FROM {table}") if there else []  # noqa: S608 - a quoted name
    return rows[0][0] if rows else 0


def _migrate(connection: Connection, address: PostgresAddress) -> list[int]:
    """The versions it went through, in one transaction; what is refused is undone, and the connection closed."""
    if connection.version < OLDEST_SERVER:
        raise Storage(f"the server is PostgreSQL {connection.version // 10000}; 13 is the oldest that will do")
    schema, done = address.schema, []
    connection.execute("BEGIN")
    connection.execute(PINNED)
    connection.execute("SELECT pg_advisory_xact_lock(%(lock)s, hashtext(%(schema)s))", {"lock": LOCK, "schema": schema})
    connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'; SET LOCAL statement_timeout = 0")
    there = connection.execute("SELECT to_regnamespace(%(schema)s) IS NOT NULL", {"schema": quoted(schema)})[0][0]
    if not there:
        connection.execute(f"CREATE SCHEMA {quoted(schema)}")
    version = _version(connection, f"{quoted(schema)}.meta")
    for step in MIGRATIONS:
        if step.version > version:
            for text in texts(step, schema):
                connection.execute(text)
            done.append(step.version)
    _begin_era(connection, schema)
    connection.execute("COMMIT")
    return done


def _begin_era(connection: Connection, schema: str) -> None:
    """The queue came from a dump of another cluster, which numbers its transactions otherwise: those come first."""
    rows = connection.execute(
        f"UPDATE {quoted(schema)}.meta m SET era = m.era + 1, system = c.system_identifier::text "  # noqa: S608
        "FROM pg_control_system() c WHERE m.system <> c.system_identifier::text RETURNING m.era"
    )
    for (era,) in rows:
        connection.execute(f"ALTER TABLE {quoted(schema)}.event ALTER COLUMN era SET DEFAULT {int(era)}")


def texts(step: Migration, schema: str) -> list[str]:
    """The SQL of one step, which ends with the version that the queue has then."""
    note = (
        f"INSERT INTO {quoted(schema)}.meta (version, serves, space) "  # noqa: S608 - a quoted name
        f"VALUES ({step.version}, {step.serves}, substr(md5(random()::text || clock_timestamp()), 1, 12))\n"
        "    ON CONFLICT (one) DO UPDATE SET version = excluded.version, serves = excluded.serves;"
    )
    return [*(script(name, schema) for name in step.files), note]


def look(wire: Wire) -> Meta:
    """What the queue says of itself; an error if there is none, or none that this program can work with."""
    before = time.time()
    sql = (
        "SELECT version, serves, space, config, extract(epoch FROM clock_timestamp())::float8, "
        "current_setting('fsync'), current_setting('synchronous_commit'), "
        "current_setting('synchronous_standby_names'), current_setting('full_page_writes'), "
        "(SELECT c.relnamespace || '/' || d.oid FROM pg_class c, pg_database d "
        "WHERE c.oid = m.tableoid AND d.datname = current_database()), "
        "(SELECT c.system_identifier::text FROM pg_control_system() c), "
        "pg_catalog.to_jsonb(m) ->> 'system' FROM {s}.meta m"
    )
    try:
        rows = wire.ask(sql)
    except NotFound:
        raise
    except TaskpitError as error:
        if error.details.get("sqlstate") == "42501":
            error.hint = "Give the user USAGE on the schema and all rights on what is in it."
        raise
    if not rows:
        raise NotFound(f"there is no queue in schema {wire.address.schema}")
    version, serves, space, config, now, *settings, place, here, born = rows[0]
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
        place=sha256(f"{here}/{place}".encode()).hexdigest()[:12],
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
