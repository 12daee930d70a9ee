"""A queue, and ways to reach it over the protocol: in process, as a process on pipes, over HTTP."""

from __future__ import annotations

import json
import os

import pytest
from forks import forked
from mcp.client.stdio import StdioServerParameters
from schemata import judge_command
from talks import PIT

from taskpit.mcp.server import QueueServer
from taskpit.mcp.tools import ToolCalls
from taskpit.queue import Queue
from taskpit.store.opening import init


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A pit, in an environment that names no other."""
    for name in [name for name in os.environ if name.startswith(("TASKPIT_", "DROVER_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = str(tmp_path / "pit")
    init(path, "pit")
    with open(f"{path}/.taskpit/config.toml", "w", encoding="utf-8") as file:
        file.write('durability = "process"\n')
    return path


@pytest.fixture
def queue(root):
    queue = Queue.open(root)
    yield queue
    queue.close()


@pytest.fixture
def serve():
    """A server for the queue there, as an object."""
    desks = []

    def serve(root, worker="", cwd="."):
        desk = ToolCalls(lambda: Queue.open(root), worker, cwd)
        desks.append(desk)
        return QueueServer(desk)

    yield serve
    for desk in desks:
        desk.close()


@pytest.fixture
def http(root):
    """The address of a server that runs as a process of its own."""
    with forked("-C", root, "mcp", "--http", "--json") as said:
        data = json.loads(said.readline())["data"]
        judge_command(["mcp"], data)
        yield data["address"]


@pytest.fixture
def target(request, root, serve):
    """What the official client connects to, by the test's parameter."""
    kind = request.param
    if kind == "process":
        return serve(root).protocol
    if kind == "stdio":
        return StdioServerParameters(command=PIT, args=["-C", root, "mcp"])
    return request.getfixturevalue("http")
