"""What the server refuses: said clearly, with the next step and the right exit code, and nothing is half done."""

from __future__ import annotations

import os
import socket
import subprocess
import threading

import psycopg
import pytest

from taskpit.errors import Invalid, MissingExtra, Storage
from taskpit.model import Said, State, Task, Want
from taskpit.store.postgres import opening, schema, upkeep
from taskpit.store.postgres.address import parse
from taskpit.store.postgres.database import Database
from taskpit.store.postgres.opening import init_database, upgrade_script
from taskpit.store.postgres.store import PostgresStore

LONG = bool(os.environ.get("TASKPIT_LONG"))


def test_a_wrong_password(server, pit):
    server.sql("DROP ROLE IF EXISTS locked")
    server.sql("CREATE ROLE locked LOGIN PASSWORD 'right'")
    address = f"postgresql://locked:wrong@/postgres?host={server.root}"
    code, told = pit("-C", address, "list")
    assert code == 8
    assert "refuses this user or password" in told
    assert "PGPASSWORD" in told
    assert "wrong" not in told.replace("wrong password", "")


def test_nobody_listens(pit, tmp_path):
    code, told = pit("-C", f"postgresql://x@/y?host={tmp_path}", "list")
    assert (code, "cannot be reached" in told, "Is it running" in told) == (8, True, True)


def test_no_such_database(server, pit):
    code, told = pit("-C", server.address("nowhere"), "list")
    assert (code, "no such database" in told) == (5, True)


def test_no_certificate_to_check_the_servers_by(pit):
    """What is missing is the file, not the database."""
    with socket.create_server(("127.0.0.1", 0)) as door:

        def answer():
            with door.accept()[0] as caller:
                caller.recv(8)
                caller.sendall(b"S")  # it would speak TLS
                caller.recv(1)

        helper = threading.Thread(target=answer)
        helper.start()
        address = f"postgresql://x@127.0.0.1:{door.getsockname()[1]}/y?sslmode=verify-full&gssencmode=disable"
        code, told = pit("-C", address, "list")
        helper.join()
    assert (code, "certificate cannot be checked" in told, "sslrootcert=system" in told) == (8, True, True)


def test_no_queue_there(server, pit):
    address = server.address(schema="nowhere")
    code, told = pit("-C", address, "add", "x")
    assert code == 5
    assert "no queue in schema nowhere" in told
    assert f"pit init '{address}'" in told


def test_an_older_schema(server, pit):
    address = server.new()
    name = parse(address).schema
    server.sql(f"UPDATE {name}.meta SET version = 0")
    code, told = pit("-C", address, "list")
    assert (code, "unreleased taskpit" in told, "another schema" in told) == (8, True, True)
    server.sql(f"UPDATE {name}.meta SET version = {schema.MIGRATIONS[-1].version}")


def test_a_newer_schema(server, pit):
    address = server.new()
    name = parse(address).schema
    server.sql(f"UPDATE {name}.meta SET version = 99")
    assert pit("-C", address, "list")[0] == 0  # it still serves us
    server.sql(f"UPDATE {name}.meta SET serves = 98")
    code, told = pit("-C", address, "list")
    assert (code, "newer taskpit" in told, "Upgrade" in told) == (8, True, True)
    latest = schema.MIGRATIONS[-1]
    server.sql(f"UPDATE {name}.meta SET version = {latest.version}, serves = {latest.serves}")


def test_a_server_that_only_reads(server, pit):
    address = server.new(patience="0s", options="-c%20default_transaction_read_only%3Don")
    code, told = pit("-C", address, "add", "x")
    assert (code, "only reads" in told, "target_session_attrs" in told) == (8, True, True)
    assert pit("-C", address, "list")[0] == 0


def test_without_rights(server, pit):
    server.sql("DROP ROLE IF EXISTS guest")
    server.sql("CREATE ROLE guest LOGIN")
    address = server.new().replace("pit@", "guest@")
    code, told = pit("-C", address, "list")
    assert (code, "may not" in told, "USAGE" in told) == (8, True, True)
    code, told = pit("init", server.address(schema="mine").replace("pit@", "guest@"))
    assert (code, "may not" in told, "CREATE" in told) == (8, True, True)


def test_an_ordinary_user_is_enough(server, pit):
    """Who may make a schema may have a queue: no superuser is needed for anything."""
    server.sql("DROP SCHEMA IF EXISTS plain CASCADE")
    server.sql("DO $$ BEGIN CREATE ROLE plain LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    server.sql("GRANT CREATE ON DATABASE postgres TO plain")
    address = server.address(schema="plain").replace("pit@", "plain@")
    assert pit("init", address)[0] == 0
    assert pit("-C", address, "add", "x") == (0, "0001\n")
    assert pit("-C", address, "claim", "--as", "w")[0] == 0
    assert pit("-C", address, "done", "1", "--as", "w")[0] == 0
    assert pit("-C", address, "sweep")[0] == 0
    assert pit("-C", address, "doctor")[0] == 0


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("postgresql://h/d?schema=pg_mine", "cannot be a queue's name"),
        ("postgresql://h/d?schema=a;b", "cannot be a queue's name"),
        ("postgresql://h/d?schema=" + "x" * 64, "cannot be a queue's name"),
        ("postgresql://h/d?pgbouncer=maybe", "write 1 or 0"),
        ("postgresql://h/d?patience=soon", "is not a duration"),
        ("postgresql://h/d?nonsense", "key=value"),
        ("mysql://h/d", "no address of a queue"),
    ],
)
def test_an_address_that_is_none(pit, address, told):
    code, said = pit("-C", address, "list")
    assert (code, told in said) == (6, True)


def test_a_password_is_never_shown(server, pit):
    address = f"postgresql://pit:secret@/postgres?host={server.root}&schema=secrets&password=other"
    assert "***" in parse(address).shown
    for words in (("init", address), ("-C", address, "doctor", "--json"), ("-C", address, "status")):
        _, told = pit(*words)
        assert "secret@" not in told
        assert "other" not in told
    assert pit("-C", address, "list")[0] == 0


def test_without_the_driver(monkeypatch):
    from taskpit.queue import Queue

    monkeypatch.setattr(opening, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra) as told:
        Queue.open("postgresql://h/d")
    assert "taskpit[postgres]" in told.value.hint


def test_settings(server, pit):
    address = server.new()
    assert pit("init", address, "--set", "lease=30m", "--set", "max_attempts=5")[0] == 0
    store = PostgresStore(parse(address))
    assert (store.config.lease, store.config.max_attempts) == (1800.0, 5)
    store.close()
    code, told = pit("init", address, "--set", "leese=1m")
    assert (code, "Did you mean 'lease'?" in told) == (6, True)


def test_more_than_it_takes(server):
    store = server.queue()
    with pytest.raises(Invalid):
        store.vet([Task(id="A", title="a", priority=1 << 80)])
    store.close()


# -- migrations ------------------------------------------------------------------------------------


def test_two_may_try_at_once(server):
    from concurrent.futures import ThreadPoolExecutor

    server.sql("DROP SCHEMA IF EXISTS twice CASCADE")
    address = server.address(schema="twice")
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: init_database(address, {}), range(4)))
    assert sorted(map(len, made)) == [0, 0, 0, len(schema.MIGRATIONS)]


def test_a_migration_while_workers_work(server, monkeypatch, tmp_path):
    """Workers of the last version go on; one that reads the table all the time only delays it."""
    store = server.queue()
    store.put([Task(id="A", title="a"), Task(id="B", title="b")])
    (claim,) = store.claim(Want(worker="w", lease=60.0))
    owner = parse(server.address(schema=store.address.schema))
    real = schema.script
    steps = (*schema.MIGRATIONS, schema.Migration(version=99, serves=1, files=("next",)))
    monkeypatch.setattr(schema, "MIGRATIONS", steps)
    monkeypatch.setattr(
        schema,
        "script",
        lambda name, s: f'ALTER TABLE "{s}".task ADD colour text' if name == "next" else real(name, s),
    )
    with psycopg.connect(store.address.server) as reader:
        reader.execute(f"SELECT 1 FROM {store.database.schema}.task LIMIT 1")
        monkeypatch.setattr(schema, "TURNS", 1)
        monkeypatch.setattr(schema, "LOCK_SECONDS", 1)
        with pytest.raises(Storage, match="nothing was changed"):
            schema.bring_up(Database(owner), {})
        assert store.renew([claim], 60.0) == [Said.OK]
    assert schema.bring_up(Database(owner), {}) == [99]
    assert store.put([Task(id="C", title="c")]) == [Said.CREATED]
    assert store.renew([claim], 60.0) == [Said.OK]
    store.close()
    server._spoilt.add(store.address.schema)


@pytest.mark.skipif(not LONG or os.geteuid() != 0, reason="mounts a small disk: root, TASKPIT_LONG=1")
def test_a_full_disk(alone, pit):
    small = f"{alone.root}/small"
    os.mkdir(small)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", small], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        os.chown(small, *alone._as.values())
        alone.sql(f"CREATE TABLESPACE small LOCATION '{small}'")
        alone.sql("CREATE DATABASE tight TABLESPACE small")
        address = alone.address("tight")
        assert pit("init", address)[0] == 0
        store, put = PostgresStore(parse(address)), []

        def fill():
            while True:
                store.put([Task(id=f"T{len(put)}", title="x", body=os.urandom(20_000).hex())])
                put.append(1)

        with pytest.raises(Storage, match="disk is full"):
            fill()
        code, told = pit("-C", address, "add", "x", "--body", os.urandom(400_000).hex()[:100_000])
        assert (code, "disk is full" in told) == (8, True)
        assert store.counts()[State.READY] == len(put) > 3
        assert store.check() == []
        store.close()
    finally:
        alone.stop()
        subprocess.run(["umount", "-l", small], check=True)


def test_doctor_tells_what_keeps_the_server_from_cleaning_up(server, monkeypatch):
    store = server.queue()
    assert store.check() == []
    monkeypatch.setattr(upkeep, "OLD", 0.0)
    server.sql(f"ALTER TABLE {store.database.schema}.ready SET (autovacuum_enabled = false)")
    with psycopg.connect(store.address.server) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM pg_class")
        found = {(mend.kind, mend.what) for mend in store.check()}
        assert ("old transaction", f"process {old.info.backend_pid}") in found
        assert ("no autovacuum", "ready") in found
    server.sql(f"ALTER TABLE {store.database.schema}.ready RESET (autovacuum_enabled)")
    store.close()


def test_the_sql_of_an_upgrade_is_shown_and_nothing_done(server):
    """Run by hand as it is shown it makes what `pit init` makes."""
    address = server.address(schema="planned")
    versions, sql = upgrade_script(address)
    assert versions == [step.version for step in schema.MIGRATIONS]
    assert "CREATE TABLE" in sql
    assert server.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'planned'")[0][0] == 0
    server.sql(sql)
    assert upgrade_script(address) == ([], "")
    schema.bring_up(Database(parse(address)), {"limits": {"staging": 2}})
    schema.bring_up(Database(parse(address)), {"limits": {"api": "10/min"}})  # and the other stays
    assert upgrade_script(address) == ([], "")
    store = PostgresStore(parse(address))
    store.put([Task(id=f"T{n}", title="t", limits=("staging",)) for n in range(4)])
    assert len(store.claim(Want(worker="w", lease=60.0, count=4))) == 2
    assert "limit staging=2" in store.read(["T3"])[0].held
    store.close()
    server.sql("DROP SCHEMA planned CASCADE")
