"""Roles: workers work and change no settings, readers look; what a database says is never run here, nor a path."""

from __future__ import annotations

import json

import psycopg
import pytest

from taskpit.model import Done
from taskpit.queue import Queue
from taskpit.store.postgres.address import parse, shown

SECRETS = ["se%cret", "se/cret", "se#cret", "se?cret", "se@cret", "se:cret", "se%zzcret", "se%2Fcret", "s e c r e t"]


@pytest.fixture
def queue(server, pit):
    """A queue with roles and a login of each; its addresses by login."""
    base = f"@/postgres?host={server.root}&schema=guarded"
    if not server.sql("SELECT 1 FROM pg_namespace WHERE nspname = 'guarded'"):
        assert pit("init", f"postgresql://pit{base}")[0] == 0
        code, script = pit("roles", f"postgresql://pit{base}")
        assert code == 0
        for _ in range(2):  # it can be repeated
            server.sql(script)
        for role in ("owner", "worker", "reader"):
            server.sql(f"CREATE ROLE the_{role} LOGIN; GRANT guarded_{role} TO the_{role}")
    server.wipe("guarded")
    return {role: f"postgresql://the_{role}{base}" for role in ("owner", "worker", "reader")}


def test_workers_work_and_readers_look(queue, pit, monkeypatch):
    monkeypatch.setenv("TASKPIT_AS", "me")
    worker, reader = queue["worker"], queue["reader"]
    for line in ("add one", "add two", "claim 1", "renew 1", "done 1", "claim 2", "fail 2 --error x", "note 2 x"):
        code, said = pit("-C", worker, *line.split())
        assert code == 0, (line, said)
    for line in ("lock x", "unlock x", "sweep", "pause", "resume", "retry 2"):
        code, said = pit("-C", worker, *line.split())
        assert code in (0, 4, 5, 6), (line, said)
    for line in ("list", "show 1", "why 2", "log", "stats", "ready", "locks", "search one", "doctor"):
        code, said = pit("-C", reader, *line.split())
        assert code == 0, (line, said)
    for line in ("add x", "claim", "note 1 x", "pause"):
        code, said = pit("-C", reader, *line.split())
        assert code != 0, line
        assert "may not do that" in said, said


def test_only_the_owner_changes_settings(queue, pit):
    for who in ("worker", "reader"):
        code, said = pit("init", queue[who], "--set", "lease=5m")
        assert (code, "may not do that" in said) == (8, True), said
        address = parse(queue[who])
        with psycopg.connect(address.server, autocommit=True) as connection:
            for sql in ("UPDATE guarded.meta SET config = '{}'", "DROP TABLE guarded.task", "TRUNCATE guarded.meta"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(sql)
    assert pit("init", queue["owner"], "--set", "lease=5m")[0] == 0
    store = Queue.open(queue["worker"])
    assert store.config.lease == 300.0
    store.close()


def test_what_the_database_says_is_not_run_here(queue, server, tmp_path, monkeypatch):
    """Whoever could write to the settings had commands run on every machine that works there."""
    hooks = json.dumps({"hooks": {"done": ["touch", str(tmp_path / "ran")]}})
    server.sql(f"UPDATE guarded.meta SET config = '{hooks}'")
    opened = Queue.open(queue["worker"])
    assert not opened.config.hooks.commands
    from taskpit.model import Task

    opened.put([Task(id="x", title="x")])
    assert str(opened.finish(opened.claim("me")[0], Done())[0]) == "ok"
    opened.close()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("space", ["../../x", "/etc", "a/b", "", "x" * 300])
def test_a_space_that_is_a_path_is_refused(queue, server, pit, space):
    server.sql(f"UPDATE guarded.meta SET space = '{space}'")
    code, said = pit("-C", queue["worker"], "list")
    assert code == 6, said
    assert "cannot be the name of a folder" in said


SHAPES = ["//user:{}@127.0.0.1:1/x?{}", "//user:{}@", "//user:{}", "//127.0.0.1:1/x?password={}&{}", "//u:{}@[::1/x?{}"]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_message_has_a_password_in_it(pit, secret, shape, monkeypatch):
    if "@" in secret and shape == "//user:{}":
        pytest.skip("then it is a host, and no secret")
    address = "postgresql:" + shape.format(secret, "patience=0s&connect_timeout=1")
    monkeypatch.setenv("PGPASSWORD", "another-secret")
    for line in (("-C", address, "list"), ("init", address), ("roles", address), ("-C", address, "add", "x", "--json")):
        code, said = pit(*line)
        assert code != 0 or line[0] == "roles", said
        for part in ("cret", "another-secret", "s e c", secret):
            assert part not in said, (line, said)
    assert "cret" not in shown(address)


#: What a worker's role can write into rows, by the column: every one stopped `list` or `log` for everybody once.
ROWS = {
    "no object": ("task", "doc", "'[]'"),
    "of the wrong kind": ("task", "doc", """'{"id": "a", "title": 5}'"""),
    "another's": ("task", "doc", """'{"id": "../../x", "title": "x"}'"""),
    "deep": ("task", "doc", "repeat('[', 100000)"),
    "a result": ("task", "result", "'[]'"),
    "a line": ("event", "doc", "repeat('[', 100000)"),
    "a line of nothing": ("event", "doc", "'5'"),
    "no time": ("event", "at", "'NaN'"),
    "no end": ("event", "at", "'Infinity'"),
    "a lease": ("lease", "seen", "'NaN'"),
    "a try": ("attempt", "doc", "'[]'"),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_that_a_worker_made_stops_nobody(queue, pit, server, name):
    table, column, value = ROWS[name]
    address, me = queue["worker"], ("--as", "me")
    for words in (("add", "a", "--id", "a"), ("add", "b", "--id", "b"), ("claim", "a", *me), ("done", "a", *me)):
        assert pit("-C", address, *words)[0] == 0
    if table == "lease":
        assert pit("-C", address, "claim", "b", *me)[0] == 0
    elif table == "attempt":
        assert pit("-C", address, "claim", "b", *me)[0] == 0
        assert pit("-C", address, "fail", "b", "--error", "x", *me)[0] == 0
    elif column == "doc" and table == "task":
        assert pit("-C", address, "add", "c", "--id", "c")[0] == 0
    with psycopg.connect(parse(address).server, autocommit=True) as connection:
        where = " WHERE id = 'b'" if column == "doc" and table == "task" else ""
        assert connection.execute(f"UPDATE guarded.{table} SET {column} = {value}{where}").rowcount
    for line in ("list --state all", "status", "log", "show b", "why a", "stats", "export", "doctor", "sweep"):
        code, said = pit("-C", address, *line.split())
        assert code in (0, 1), (line, said)
        assert "unexpected" not in said, (line, said)
    if column == "doc" and table == "task":
        code, said = pit("-C", address, "claim", "--as", "you")
        assert (code, "c" in said.split()) == (0, True), said  # the other one
        assert "cannot be read" in pit("-C", address, "list")[1]
