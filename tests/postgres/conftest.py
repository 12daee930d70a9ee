"""The server these tests share: one for each process that runs tests, started when first asked for."""

from __future__ import annotations

import os
import subprocess
from functools import cache

import pytest
from world import keep, memory

pytest.importorskip("psycopg", reason="psycopg is missing: pip install 'taskpit[postgres]'")

from pgservers import Server, system, wheel

LONG = bool(os.environ.get("TASKPIT_LONG"))


def _programs():
    return [wheel(), *([system()] if LONG and system() else [])]


def _name(path):
    return "wheel" if "pginstall" in path else "system"


@cache
def _data(programs):
    """The data of a server that never ran: made once in a process, copied for each."""
    server, kept = Server(programs).make(), keep("postgres")
    subprocess.run(["cp", "-a", server.data, kept], check=True)
    server.remove()
    return f"{kept}/data"


def _server(programs):
    server = Server(programs, place=next(memory(), "/tmp"))
    subprocess.run(["cp", "-a", _data(programs), server.data], check=True)
    return server


@pytest.fixture(scope="session", params=_programs(), ids=_name)
def running(request):
    server = _server(request.param)
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
def alone(request, running):
    """A server of one's own, to be killed and restarted."""
    server = _server(running.programs)
    try:
        yield server.start()
    finally:
        server.remove()
