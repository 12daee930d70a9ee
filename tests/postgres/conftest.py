"""The server these tests share: one for each process that runs tests, started when first asked for."""

from __future__ import annotations

import fcntl
import os
import subprocess

import pytest
from world import memory

pytest.importorskip("psycopg", reason="psycopg is missing: pip install 'taskpit[postgres]'")

from pgservers import Server, system, wheel

LONG = bool(os.environ.get("TASKPIT_LONG"))


def _programs():
    return [wheel(), *([system()] if LONG and system() else [])]


def _name(path):
    return "wheel" if "pginstall" in path else "system"


def _server(programs, made):
    """A server that never ran: its data is made once for all processes of a run, and copied for each."""
    server, kept = Server(programs, place=next(memory(), "/tmp")), made / _name(programs)
    with open(f"{kept}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            first = Server(programs).make()
            subprocess.run(["cp", "-a", first.data, f"{kept}.new"], check=True)
            os.rename(f"{kept}.new", kept)
            first.remove()
    subprocess.run(["cp", "-a", str(kept), server.data], check=True)
    return server


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder that all processes of a run share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "postgres"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", params=_programs(), ids=_name)
def running(request, made):
    server = _server(request.param, made)
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
def alone(made, running):
    """A server of one's own, to be killed and restarted."""
    server = _server(running.programs, made)
    try:
        yield server.start()
    finally:
        server.remove()
