"""The commands that the page on PostgreSQL shows are run, and what they print is what it shows."""

from __future__ import annotations

import sessions


def test_the_page_on_postgres(server, tmp_path):
    server.sql("DROP DATABASE IF EXISTS work")
    server.sql("CREATE DATABASE work")
    page = sessions.ROOT / "docs" / "postgres.md"
    more = {"PGHOST": server.root, "PGUSER": "pit", "TASKPIT_DIR": "postgresql:///work", "PGAPPNAME": "docs"}
    said = sessions.play(page.read_text(encoding="utf-8"), tmp_path, **more)
    server.sql("DROP DATABASE work WITH (FORCE)")

    assert len(said) > 3
    assert not [one for one in said if not one.agrees], "\n\n".join(str(one) for one in said if not one.agrees)
