"""The words that users meet are in the glossary, each once."""

from __future__ import annotations

import re
from pathlib import Path

import taskpit
from taskpit import layouts
from taskpit.model import State
from taskpit.status import LABELS

PAGE = Path(__file__).parents[2] / "docs/glossary.md"
#: Words of the field that a reader looks for, and finds in the source by the same spelling.
FIELD = [
    *("lease", "heartbeat", "reclaim", "retry", "worker", "pool", "slot", "lock", "registry"),
    *("hook", "store", "layout", "preset", "crew", "sweep"),
]


def words():
    rows = re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [word for row in rows for word in row.split(", ")]


def test_each_word_is_explained_once_and_in_order():
    found = words()
    assert len(found) == len(set(found))
    rows = re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == sorted(rows, key=lambda row: re.sub(r"[^a-z ]", "", row.lower()))


def test_what_programs_and_boards_say_is_explained():
    nouns = [name.lower() for name in taskpit.__all__ if name.isalpha() and name != "TaskpitError"]
    said = [
        *nouns,
        *(str(state) for state in State),
        *(label.lower() for label in LABELS.values()),
        *layouts.NAMES,
        *FIELD,
    ]
    assert {word for word in said if word not in words() and word.removesuffix("ies") + "y" not in words()} == set()


def test_words_of_the_field_are_in_the_source():
    text = "\n".join(path.read_text(encoding="utf-8") for path in Path(taskpit.__file__).parent.rglob("*.py"))
    assert {word for word in FIELD if not re.search(rf"\b{word}", text)} == set()
