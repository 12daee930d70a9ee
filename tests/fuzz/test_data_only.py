"""A task file is data: nothing in it runs but its check, whatever its fields say and however it goes through a pool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from shlex import quote

import pytest
from boxes import LAYOUTS, clean_environment, make_fast, pit
from waits import PATIENCE

#: Each would leave a file called `trap` if anybody gave it to a shell, or took it for an option or a place.
TRAPS = (
    "$(touch {0})",
    "`touch {0}`",
    "; touch {0} #",
    "| touch {0}",
    "&& touch {0}",
    "'; touch {0}; '",
    '"; touch {0}; "',
    "\n touch {0}",
    "--result={0}",
    "-C{0}",
    "{{prompt}} $TRAP",
    "%s %(x)s {{0}} ${{HOME}}",
    "../../../../{0}",
)


def task_file(layout, task_id, text):
    flat = text.replace("\n", " ")
    if layout == "mailbox":
        texts = ("title", "description", "epic_id", "type", "operator", "verdict_reason", "last_error", "created_by")
        fields = {
            "id": task_id,
            **dict.fromkeys(texts, text),
            "priority": 1,
            "tags": [flat],
            "touches": [flat],
            text: text,
        }
        return json.dumps({**fields, "metadata": {"notes": text}}).encode()
    bullets = ("task", "tossed-by", "tags", "touches", "parent", "mood", "last-error", "model", "worker")
    lines = [
        f"# {flat}",
        *(f"- **{key}:** {flat}" for key in bullets),
        f"- **done-when:** a person says {flat.replace('`', '')}",
    ]
    return "\n".join([*lines, "", text, ""]).encode()


def work(root, *words, env=None):
    """A pool that ends once there is nothing left to do."""
    argv = [sys.executable, "-P", "-m", "taskpit", "-C", root, "work", "-n", "2", "--until", "empty", *words]
    environment = clean_environment(**(env or {}))
    return subprocess.run(
        argv, env=environment, cwd=root, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_in_a_task_runs(layout, tmp_path):
    root = make_fast(tmp_path / "queue", layout)
    folder, called = {
        "pit": ("food", "food-{}-x.md"),
        "mailbox": ("inbox", "{}.json"),
        "workspace": ("tasks", "{}_pending.md"),
    }[layout]
    trap = tmp_path / "trap"
    for number, text in enumerate(TRAPS, 70):
        path = f"{root}/{folder}/{called.format(f'{number:04d}')}"
        with open(path, "wb") as file:
            file.write(task_file(layout, f"{number:04d}", text.format(trap)))
        os.utime(path, (1, 1))
    script = 'cat "$1" "$2" >/dev/null; echo worked > "$3"'
    words = ("--", "sh", "-c", script, "sh", "{task_file}", "{prompt_file}", "{result_file}")
    answer = work(root, *words, env={"TRAP": f"touch {quote(str(trap))}"})
    done = pit("-C", root, "list", "--state", "done", "--json").data
    assert len(done) == len(TRAPS), (answer.stdout, answer.stderr, pit("-C", root, "list").out)
    for words in ("list", "log", "stats", "doctor", "export"):
        pit("-C", root, *words.split())
    assert not trap.exists()
    left = [name for _, folders, files in os.walk(tmp_path) for name in (*folders, *files) if name == "trap"]
    assert left == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_check_does_run(layout, tmp_path):
    """Or the test above would prove nothing: the same trap as a check is sprung."""
    root = make_fast(tmp_path / "queue", layout)
    trap = tmp_path / "trap"
    pit("-C", root, "add", "x", "--check", f"touch {quote(str(trap))}")
    work(root, "--", "true")
    assert trap.exists()
