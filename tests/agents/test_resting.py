"""A backend that rests is shown by `pit status`."""

from __future__ import annotations

import json

from taskpit.cli.main import main
from taskpit.clock import Clock
from taskpit.run.agent_limits import resting
from taskpit.store.opening import init


def test_what_rests_is_told(tmp_path, capsys):
    init(str(tmp_path), "pit")
    folder = tmp_path / ".taskpit" / "backends"
    folder.mkdir()
    until = Clock().now() + 600
    (folder / "claude.json").write_text(json.dumps({"paused_until": until, "reason": "limit reached"}))
    (folder / "codex.json").write_text(json.dumps({"paused_until": until - 1200, "reason": "long ago"}))
    (told,) = resting(str(tmp_path), Clock())
    assert told.startswith("claude rests until ")
    assert main(["-C", str(tmp_path), "status"]) == 0
    assert told in capsys.readouterr().out
    assert main(["-C", str(tmp_path), "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["resting"] == [told]
