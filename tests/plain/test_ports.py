"""Nothing in the plain store but its files port asks the operating system."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from taskpit.store import plain

#: Modules that reach the system, and the names of others that may be used: they only spell, or name an error.
SYSTEM = (
    "os",
    "fcntl",
    "select",
    "ctypes",
    "socket",
    "shutil",
    "subprocess",
    "tempfile",
    "threading",
    "random",
    "secrets",
)
ONLY = {"time": {"strftime", "gmtime"}, "sqlite3": {"Error", "Connection"}}
ROOMS = (
    "taskpit.fs",
    "taskpit.kernel",
    "taskpit.held_directories",
    "taskpit.nonces",
    "taskpit.watch",
    "taskpit.logfile",
)
MODULES = sorted(path for path in Path(plain.__file__).parent.glob("*.py") if path.name != "files.py")


def reaches(source):
    """What a module uses of the system."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.partition(".")[0] in SYSTEM or one.name in ROOMS)
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{one.name}" for one in node.names} | {str(node.module)}
            yield from sorted(name for name in names if name.partition(".")[0] in (*SYSTEM, *ONLY) or name in ROOMS)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ONLY:
            yield from [f"{node.value.id}.{node.attr}"] if node.attr not in ONLY[node.value.id] else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield "open"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_the_system_is_reached_by_the_port_alone(path):
    assert list(reaches(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "line", ["import os", "from os import path", "import time\ntime.time()", "open('x')", "from taskpit import fs"]
)
def test_what_would_break_it_is_seen(line):
    assert list(reaches(line)) != []
