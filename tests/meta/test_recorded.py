"""What users and programs notice: `--json`, exit codes, visible files, the changelog, the Python names, everyday text.

A record that differs is a mistake, or a change that users will notice: `make records` writes tests/recorded again, and
their diff belongs to the change.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest
from boxes import read, write
from recorder import Place, api
from story import STORY

RECORDS = Path(__file__).parents[1] / "recorded"
LAYOUTS = ("pit", "mailbox", "workspace", "activities")
RENEW = bool(os.environ.get("TASKPIT_RENEW"))
FILES = {
    "result": "It works.\n",
    "artifact": "bytes\n",
    "tasks.jsonl": '{"title": "From a file", "id": "imported"}\n',
    "plan.md": "- [ ] First step\n- [x] Second step\n",
}


def compare(name, shown):
    if RENEW:
        write(RECORDS / name, shown)
    before = read(RECORDS / name).splitlines()
    diff = "\n".join(difflib.unified_diff(before, shown.splitlines(), "recorded", "now", lineterm="", n=2))
    assert not diff, f"{diff}\n\nIf users should notice this, run `make records` and commit the difference."


@pytest.mark.parametrize(("shown", "text"), [*((name, False) for name in LAYOUTS), ("pit", True)])
def test_a_story_in_every_layout(shown, text, tmp_path):
    (tmp_path / "home").mkdir()
    for name, content in FILES.items():
        write(tmp_path / name, content)
    compare(f"{shown}-text.txt" if text else f"{shown}.txt", Place(tmp_path, shown, text=text).play(STORY))


def test_the_python_names():
    compare("python.txt", api())
