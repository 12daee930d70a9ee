"""What ids and workers' names are made of, and the paths that are built from them. Pure."""

from __future__ import annotations

from functools import lru_cache

from taskpit.errors import Invalid

#: The letters of every id, whatever the layout; each layout may allow less.
ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#: Bytes of an id or a worker's name, so that every name built from them fits a directory entry.
LONGEST_WORD = 64
OF_WORDS = f"{ALNUM}._-"


@lru_cache(1024)
def is_word(text: str) -> bool:
    """Whether a task of any layout can have this id."""
    return 0 < len(text) <= LONGEST_WORD and ".." not in text and text[0] in ALNUM and not text.strip(OF_WORDS)


def word(text: str) -> str:
    """Return the text if it can be part of a path; Invalid if not."""
    if not is_word(text):
        raise Invalid(f"{text[:80]!r} cannot be part of a file's name")
    return text


def name_of(task_id: str, rest: str = "", before: str = "") -> str:
    """Return the name of a file that belongs to a task. Ids become parts of names here and nowhere else.

    Raises Invalid if the name would leave its folder.
    """
    name = f"{before}{task_id}{rest}"
    if not is_word(task_id) or "/" in name or "\0" in name:
        raise Invalid(f"{task_id[:80]!r} cannot be part of a file's name", hint="Use the id that `pit list` shows.")
    return name


def path_of(folder: str, task_id: str, rest: str = "", before: str = "") -> str:
    """Return the path of a file that belongs to a task in this folder; Invalid if it would leave the folder."""
    return f"{folder}/{name_of(task_id, rest, before)}"
