"""The server these tests share: one for each process that runs tests, started when first asked for."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("psycopg", reason="psycopg is missing: pip install 'taskpit[postgres]'")

from pgservers import Server, system, wheel

LONG = bool(os.environ.get("TASKPIT_LONG"))


def _programs():
    return [wheel(), *([system()] if LONG and system() else [])]


def _name(path):
    return "wheel" if "pginstall" in path else "system"


@pytest.fixture(scope="session", params=_programs(), ids=_name)
def running(request):
    server = Server(request.param)
    try:
        yield server.make().start()
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
    server = Server(running.programs)
    try:
        yield server.make().start()
    finally:
        server.remove()
