"""Malformed files next to good ones: no command fails, each in a process of its own.

pytest imports `json` and `json.decoder`, which hides what a fresh process lacks, so each command is a subprocess.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from waits import PATIENCE

MISTAKES = {
    "open brace": "{",
    "cut off": '{"id":"bad"',
    "trailing comma": '{"id":"bad",}',
    "no comma": '{"id":"bad" "title":"x"}',
    "no colon": '{"id" "bad"}',
    "open string": '{"id":"bad',
    "bad escape": '{"id":"\\q"}',
    "two values": '{"id":"bad"} {}',
    "a word": "nonsense",
    "empty": "",
    "zeros": "\0" * 40,
    "not UTF-8": b'{"id":"\xff"}',
    "a list": "[1, 2]",
    "a number": "7",
    "not a number": '{"id":"bad","priority":NaN}',
    "deep": "[" * 5000,
}
READERS = (["list"], ["status"], ["show", "good"], ["why", "good"], ["log"], ["stats"], ["report"], ["export"])
LATER = time.time() - 60


def run(box, *words):
    env = {**os.environ, "TASKPIT_AS": "w", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "taskpit", "-C", str(box), *words]
    answer = subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE, stdin=subprocess.DEVNULL
    )
    words = f"{answer.stdout}{answer.stderr}"
    assert "unexpected" not in words, words
    assert "Traceback" not in words, words
    return answer.returncode, answer.stdout, words


def drop(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(path, (LATER, LATER))


@pytest.fixture
def box(tmp_path):
    box = tmp_path / "box"
    assert run(box, "init", str(box), "--layout", "mailbox")[0] == 0
    drop(box / "inbox/good.json", '{"id":"good","title":"A good one"}')
    return box


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_file_with_a_mistake_stops_no_command(box, mistake):
    drop(box / "inbox/bad.json", MISTAKES[mistake])
    drop(box / "outbox/other.json", MISTAKES[mistake])
    drop(box / "processing/held.json", MISTAKES[mistake])
    for words in READERS:
        code, _, answer = run(box, *words)
        assert code == 0, (words, answer)
    assert run(box, "doctor")[0] in (0, 1)
    code, out, answer = run(box, "claim", "--json")
    assert code == 0, answer
    assert json.loads(out)["data"]["task"]["id"] == "good"
    assert run(box, "done", "good")[0] == 0
    assert run(box, "sweep")[0] == 0


@pytest.mark.parametrize("mistake", [name for name in MISTAKES if name != "deep"])
def test_a_torn_line_of_the_changelog_stops_no_command(box, mistake):
    content = MISTAKES[mistake]
    with open(box / ".taskpit/changelog.log", "ab") as file:
        file.write((content if isinstance(content, bytes) else content.encode()) + b"\n")
    assert run(box, "claim", "good")[0] == 0
    assert run(box, "done", "good")[0] == 0
    for words in READERS:
        code, _, answer = run(box, *words)
        assert code == 0, (words, answer)
    assert run(box, "doctor")[0] in (0, 1)
    assert "good" in run(box, "log")[2]
