"""What keeps a queue in a database in order: pauses, notes, stray tasks, old logs."""

from __future__ import annotations

from taskpit.clock import Clock, iso
from taskpit.schema import amount
from taskpit.store.port import Mend
from taskpit.store.postgres import run_files
from taskpit.store.postgres.row_text import as_item, as_json, read_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from taskpit.config import Config

    class Ask(Protocol):
        """How a verb asks the server."""

        def __call__(
            self, sql: str, *, repeat: bool = True, fetch: bool = True, slow: bool = False, **words: Any
        ) -> list[tuple[Any, ...]]:
            """The rows it answers."""


#: Whether this very line was written by a call whose answer got lost: it is among the last.
TOLD = """
    (%(again)s AND EXISTS (
        SELECT 1 FROM (SELECT * FROM {s}.event x ORDER BY x.era DESC, x.xid DESC, x.seq DESC LIMIT 10000) e
        WHERE (e.at, e.worker, e.action) = (%(at)s, %(worker)s, %(action)s)))
"""
PAUSE = """
    WITH fresh AS (SELECT 1 WHERE NOT {told}),
    p AS (
        INSERT INTO {s}.pause (said, until) SELECT %(said)s, %(until)s FROM fresh
        ON CONFLICT (one) DO UPDATE SET said = excluded.said, until = excluded.until)
    INSERT INTO {s}.event (at, worker, action, details)
        SELECT %(at)s, %(worker)s, %(action)s, %(reason)s FROM fresh RETURNING 1
""".replace("{told}", TOLD)
RESUME = """
    WITH p AS (DELETE FROM {s}.pause p RETURNING 1),
    e AS (INSERT INTO {s}.event (at, worker, action) SELECT %(at)s, %(worker)s, %(action)s FROM p RETURNING 1)
    SELECT 1 FROM e UNION ALL SELECT 1 WHERE {told}
""".replace("{told}", TOLD)
NOTE = """
    WITH fresh AS (
        SELECT 1 WHERE NOT (%(again)s AND EXISTS (
            SELECT 1 FROM {s}.note n WHERE (n.id, n.at, n.worker, n.words) = (%(id)s, %(at)s, %(worker)s, %(line)s)))),
    n AS (
        INSERT INTO {s}.note (id, at, worker, words)
            SELECT t.id, %(at)s, %(worker)s, %(line)s FROM {s}.task t, fresh WHERE t.id = %(id)s AND t.state <> 'w')
    INSERT INTO {s}.event (at, worker, action, id, details)
        SELECT %(at)s, %(worker)s, 'noted', %(id)s, %(text)s FROM fresh RETURNING 1
"""
DIGEST = """
    WITH gone AS (DELETE FROM {s}.log l WHERE l.n = ANY (%(ns)s) RETURNING l.*)
    INSERT INTO {s}.digest
        SELECT g.n, g.worker, g.at, length(g.data),
               right(regexp_replace(convert_from(substr(g.data, greatest(length(g.data) - 399, 1)), 'LATIN1'),
                                    '[^[:print:]]+', ' ', 'g'), 200)
        FROM gone g ON CONFLICT DO NOTHING RETURNING 1
"""


def pause(ask: Ask, clock: Clock, reason: str, seconds: float, worker: str) -> None:
    """Nobody is given anything until then."""
    now, reason = clock.now(), reason.replace("\0", "")
    ask(
        PAUSE,
        said=f"paused by {worker}: {reason}",
        until=now + seconds if seconds else 0.0,
        at=now,
        worker=worker,
        action="paused",
        reason=reason,
    )


def resume(ask: Ask, clock: Clock, worker: str) -> bool:
    """Tasks are given out again; False if they were all the time."""
    now = clock.now()
    return bool(ask(RESUME, at=now, worker=worker, action="resumed"))


def paused(ask: Ask, clock: Clock) -> str:
    """What was said, unless its time has passed."""
    rows = ask("SELECT p.said, p.until FROM {s}.pause p WHERE p.until = 0 OR p.until > %(at)s", at=clock.now())
    if not rows:
        return ""
    said, until = rows[0]
    return f"{said}, until {iso(amount(until))}" if until else str(said)


def note(ask: Ask, task_id: str, text: str, line: str, worker: str, now: float) -> None:
    """A line beside the task, and one in the changelog."""
    ask(
        NOTE,
        id=task_id,
        at=now,
        worker=worker,
        line=line.replace("\0", ""),
        text=text.replace("\0", ""),
    )


# -- what a hand in the tables may have left ---------------------------------------------------------

#: What is wrong with a task, by the server's word for it.
ASTRAY = {
    "stray task": "it stood nowhere",
    "waits for nothing": "all it needs is done",
    "no such task": "it stood among those that are open, and is none",
    "not under its tags": "workers with tags could not find it",
    "stands aside": "nothing that runs is in its way",
}


def mend(ask: Ask, *, dry_run: bool) -> list[Mend]:
    """What stands nowhere is put back with all it says; what is no open task leaves; the rest is put in order."""
    rows = ask("SELECT id, kind, doc FROM {s}.astray()", slow=True)
    if rows and not dry_run:
        items = [
            as_item(read_task(doc, task_id), number) for number, (task_id, _, doc) in enumerate(rows) if doc is not None
        ]
        rows = ask("SELECT id, kind FROM {s}.put_right(%(items)s::json, %(now)s)", slow=True, items=as_json(items))
    return [Mend(kind=row[1], what=row[0], details=ASTRAY[row[1]]) for row in rows]


#: Seconds after which a transaction that stays open is told of, and dead rows of a hot table.
OLD, MANY_DEAD = 300.0, 20_000
HINDRANCES = """
    SELECT 'old transaction', 'process ' || a.pid, 'open since ' || to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SS')
        FROM pg_stat_activity a WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
             AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
             AND a.xact_start < clock_timestamp() - %(old)s * interval '1 second'
    UNION ALL
    SELECT 'old transaction', 'prepared transaction ' || p.gid, 'since ' || to_char(p.prepared, 'YYYY-MM-DD HH24:MI:SS')
        FROM pg_prepared_xacts p WHERE p.prepared < clock_timestamp() - %(old)s * interval '1 second'
    UNION ALL
    SELECT 'old transaction', 'replication slot ' || r.slot_name, 'nobody reads it'
        FROM pg_replication_slots r WHERE NOT r.active AND r.xmin IS NOT NULL
    UNION ALL
    SELECT 'dead rows', t.relname, t.n_dead_tup || ' in a table that every claim reads'
        FROM pg_stat_user_tables t
        WHERE t.schemaname = %(schema)s AND t.relname = ANY (%(hot)s) AND t.n_dead_tup > %(many)s
    UNION ALL
    SELECT 'no autovacuum', 'the server', 'autovacuum is off' WHERE current_setting('autovacuum') <> 'on'
    UNION ALL
    SELECT 'no autovacuum', c.relname, 'autovacuum_enabled is off for this table'
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, pg_catalog.unnest(c.reloptions) o(said)
        WHERE n.nspname = %(schema)s AND o.said IN ('autovacuum_enabled=false', 'autovacuum_enabled=off')
"""


def hindrances(ask: Ask, schema: str) -> list[Mend]:
    """What makes claims slow and only a person can end: old transactions, dead rows, a server that does not clean."""
    rows = ask(HINDRANCES, schema=schema, old=OLD, hot=list(HOT), many=MANY_DEAD)
    return [Mend(kind=kind, what=what, details=details) for kind, what, details in rows]


#: Hot tables whose dead rows lie in everybody's way, and how many of them may.
DEAD, HOT = 2000, ("ready", "ready_tag", "lease", "waiting", "need")


def vacuum(ask: Ask, schema: str) -> list[str]:
    """Hot tables with many dead rows are cleaned at once, not when the server gets round to it; which."""
    rows = ask(
        "SELECT relname FROM pg_stat_user_tables WHERE schemaname = %(schema)s AND relname = ANY (%(hot)s) "
        "AND n_dead_tup > %(dead)s",
        schema=schema,
        hot=list(HOT),
        dead=DEAD,
    )
    names = [row[0] for row in rows]
    for name in names:
        ask(f"VACUUM (SKIP_LOCKED) {{s}}.{name}", fetch=False, slow=True)
    return names


def compost(ask: Ask, config: Config, *, dry_run: bool) -> list[Mend]:
    """Old working logs leave one line each in the table digest; old results how they ended, if the settings say so."""
    pruned = [
        Mend(kind="pruned", what=row[0], details="its result")
        for state, keep in (("d", config.keep_results), ("f", config.keep_failed))
        if keep
        for row in ask("SELECT {s}.prune(%(state)s, %(keep)s, %(dry)s, %(now)s)", state=state, keep=keep, dry=dry_run)
    ]
    old = ask(
        "SELECT n, worker FROM {s}.log WHERE at < {s}.time_of(%(now)s) - %(age)s ORDER BY n LIMIT 1000",
        age=config.compost,
    )
    if old and not dry_run:
        ask(DIGEST, ns=[row[0] for row in old])
    if not dry_run:
        run_files.forget(ask, [mend.what for mend in pruned], config.compost)
    logs = [Mend(kind="composted", what=f"log {number}", details=f"of {worker}") for number, worker in old]
    return [*pruned, *logs]
