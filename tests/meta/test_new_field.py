"""A new field of a task is a line in `model.py` and a row of options: every layout, list, import and board has it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import taskpit
from taskpit.model import Task, defaults

#: What somebody would write who wants tasks to have a link and reviewers: file, a line of it, the lines after it.
CHANGES = {
    "model.py": (
        ('    parent: Text = ""\n', '    link: Text = ""\n    reviewers: Texts = ()\n'),
        ('LATER = ("limits",', ' "link", "reviewers",'),
    ),
    "cli/task_options.py": (
        (
            "TASK_OPTIONS = {\n",
            (
                '    "link": arg("--link URL", "where it is discussed"),\n'
                '    "reviewers": arg("--reviewer W", "who looks at it; may be repeated"),\n'
            ),
        ),
    ),
}

#: A life of a task that has them: through every layout, and in again from a record.
LIFE = """
import json
from taskpit.cli.main import main

def pit(*words):
    code = main(list(words))
    assert code == 0, (words, code)

pit("init", "pit")
pit("-C", "pit", "add", "one", "--link", "http://a/b", "--reviewer", "ann,bob")
pit("-C", "pit", "edit", "1", "--reviewer", "cyd,dan")
before = "pit"
for layout in ("mailbox", "workspace", "activities"):
    pit("-C", before, "convert", layout, "--layout", layout)
    before = layout
pit("-C", before, "convert", "back", "--layout", "pit")
with open("more.json", "w") as file:
    json.dump({"title": "two", "link": "http://c", "reviewers": ["eve"]}, file)
pit("-C", "back", "import", "more.json")
for folder in ("pit", "mailbox", "workspace", "activities", "back"):
    print("###", folder)
    pit("-C", folder, "list", "--json")
print("### shown")
pit("-C", "pit", "show", "1")
"""


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """The package as it is with two fields more."""
    root = tmp_path_factory.mktemp("changed")
    shutil.copytree(Path(taskpit.__file__).parent, root / "taskpit", ignore=shutil.ignore_patterns("__pycache__"))
    for name, places in CHANGES.items():
        path = root / "taskpit" / name
        text = path.read_text(encoding="utf-8")
        for before, more in places:
            assert text.count(before) == 1, (name, before)
            text = text.replace(before, before + more)
        path.write_text(text, encoding="utf-8")
    return root


def test_a_field_more(changed, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", LIFE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(changed), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    said = dict(part.split("\n", 1) for part in ran.stdout.split("### ")[1:])
    shown = said.pop("shown")
    assert "http://a/b" in shown
    assert "cyd, dan" in shown
    for folder, text in said.items():
        tasks = {task["title"]: (task["link"], task["reviewers"]) for task in json.loads(text)["data"]}
        assert tasks.pop("one") == ("http://a/b", ["cyd", "dan"]), folder
        assert tasks == ({"two": ("http://c", ["eve"])} if folder == "back" else {})
    assert "- **reviewers:** cyd, dan\n" in next((tmp_path / "back/food").glob("*one*")).read_text(encoding="utf-8")


def test_what_a_task_says_by_itself_is_nothing():
    """So that a row of the database has only what somebody said: a default that is something would be lost there."""
    assert [name for name, value in defaults(Task).items() if value] == []
