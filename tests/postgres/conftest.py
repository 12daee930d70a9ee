"""The server these tests share: one for each process that runs tests, started when first asked for."""

from __future__ import annotations

import os
import subprocess

import pytest
from world import memory, once

pytest.importorskip("psycopg", reason="psycopg is missing: pip install 'taskpit[postgres]'")

from pgservers import Server, system, wheel

from taskpit.cli.main import main

#: So many queues are in the data that is copied: making one costs more than most tests.
READY = 3

LONG = bool(os.environ.get("TASKPIT_LONG"))


def _programs():
    found = [one for one in (wheel(), system()) if one]
    return found if LONG and found else [next(iter(found), "")]


def _name(path):
    return "wheel" if "pginstall" in path else "system"


def _server(programs, folders):
    """A server that never ran: its data is made once for all processes of a run, and copied for each."""
    server = Server(programs, place=next(memory(), "/tmp"))
    kept = once(folders, f"postgres-{_name(programs)}", lambda place: _make(programs, place))
    subprocess.run(["cp", "-a", f"{kept}/data", server.data], check=True)
    return server.having(READY)


def _make(programs, place):
    first = Server(programs, place=next(memory(), "/tmp")).make().start()
    for _ in range(READY):
        first.new()
    first.stop()
    subprocess.run(["cp", "-a", first.data, f"{place}/data"], check=True)
    first.remove()


@pytest.fixture(scope="session", params=_programs(), ids=_name)
def running(request, tmp_path_factory):
    if not request.param:
        pytest.skip("there is no PostgreSQL server: scripts/system-packages postgres")
    server = _server(request.param, tmp_path_factory)
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def server(running):
    running.over()
    yield running
    running.over()


@pytest.fixture
def alone(tmp_path_factory, running):
    """A server of one's own, to be killed and restarted."""
    server = _server(running.programs, tmp_path_factory)
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def pit(capsys):
    """`pit` as a function: its exit code and all that it says."""

    def run(*words):
        code = main(list(words))
        out, err = capsys.readouterr()
        return code, out + err

    return run
