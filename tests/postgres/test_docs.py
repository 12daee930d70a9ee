"""The commands that the page on PostgreSQL shows are run, and what they print is what it shows."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_on_postgres(server, tmp_path):
    spec = importlib.util.spec_from_file_location("docs_commands", ROOT / "tests" / "docs" / "test_commands.py")
    docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(docs)
    server.sql("DROP DATABASE IF EXISTS work")
    server.sql("CREATE DATABASE work")
    page = ROOT / "docs" / "postgres.md"
    # Each command is a shell of its own: what the first one exports is given to all of them.
    env = {"PGHOST": server.root, "PGUSER": "pit", "TASKPIT_DIR": "postgresql:///work", "PGAPPNAME": "docs"}
    docs.run(page, tmp_path, env)
    server.sql("DROP DATABASE work WITH (FORCE)")
