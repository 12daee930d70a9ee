"""A real pgbouncer in transaction mode stands between: each transaction has another session, and nothing is amiss."""

from __future__ import annotations

import os
import shutil
import subprocess

import psycopg
import pytest
from waits import until

from taskpit.model import End, Result, Said, State, Task, Verdict, Want
from taskpit.store.postgres import listen
from taskpit.store.postgres.address import parse
from taskpit.store.postgres.opening import init_database
from taskpit.store.postgres.store import PostgresStore

pytestmark = pytest.mark.races

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
CONFIG = """\
[databases]
postgres = host={root} port=5432 user=pit dbname=postgres
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {root}
auth_type = any
auth_file = {root}/users
pool_mode = transaction
default_pool_size = 3
pidfile = {root}/bouncer.pid
"""

pytestmark = pytest.mark.skipif(
    not PROGRAM or not os.environ.get("TASKPIT_LONG"), reason="needs pgbouncer and TASKPIT_LONG=1"
)


@pytest.fixture
def address(alone):
    for name, text in (("users", '"pit" ""\n'), ("bouncer.ini", CONFIG.format(root=alone.root))):
        with open(f"{alone.root}/{name}", "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(f"{alone.root}/{name}", 0o644)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([PROGRAM, f"{alone.root}/bouncer.ini"], **alone._as, **quiet)
    address = f"postgresql://pit@/postgres?host={alone.root}&port=6432&schema=pooled"
    try:
        until(lambda: _answers(parse(address).server), process)
        yield address
    finally:
        process.terminate()
        process.wait()


def _answers(server):
    try:
        psycopg.connect(server).close()
    except psycopg.OperationalError:
        return False
    return True


def test_six_workers_on_three_sessions(address):
    init_database(address, {})
    stores = [PostgresStore(parse(address)) for _ in range(6)]
    assert all(store.database.pooled for store in stores)
    assert stores[0].info().wake_bound == listen.POLL
    for number in range(40):
        tags = ("red",) if number % 2 else ()
        assert stores[number % 6].put([Task(id=f"T{number}", title="t", tags=tags)]) == [Said.CREATED]
    for number in range(60):
        one, other = stores[number % 6], stores[(number + 1) % 6]
        for claim in one.claim(Want(worker="w", lease=60.0, tags=() if number % 3 else ("red",))):
            assert one.renew([claim], 60.0) == [Said.OK]
            result = Result(id=claim.task.id, verdict=Verdict.DONE, worker=claim.fence)
            assert other.finish([End(claim=claim, result=result)]) == [Said.OK]
    assert stores[0].counts()[State.DONE] == 40
    many = [Task(id=f"M{number}", title="m") for number in range(1200)]  # several batches, sent one after another
    assert set(stores[1].put(many)) == {Said.CREATED}
    claims = stores[2].claim(Want(worker="w", lease=60.0, count=1200))
    assert stores[3].finish([End(claim=claim) for claim in claims]) == [Said.OK] * 1200
    assert stores[0].wait(0.01)
    assert len(stores[0].events(limit=9999)[0]) == 120 + 3 * 1200
    for store in stores:
        store.close()
