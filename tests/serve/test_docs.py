"""What the page about serving shows is what happens."""

from __future__ import annotations

import sessions


def test_what_the_page_shows_is_what_happens(served, tmp_path):
    text = (sessions.ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
    port = served.server.port
    folder = tmp_path / "there"
    folder.mkdir()
    token = served.token("ada", "work", "put")
    said = sessions.play(text.replace("127.0.0.1:8443", f"127.0.0.1:{port}"), folder, TASKPIT_TOKEN=token)

    assert len(said) == 6
    assert not [one for one in said if not one.agrees], "\n\n".join(str(one) for one in said if not one.agrees)
