"""The configuration of the person's repository: what of it counts for us, and what could start a program. Runs nothing.

A repository may have come by any hand, with its configuration. What SAFE in `git.py` switches off is off; what could
still start a program of a stranger's where a branch is moved is named by `unsafe`, and then git is not run there. The
person's own configuration and the machine's are obeyed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence

from taskpit.model import Value

#: Whose word it is, the key in git's spelling, its value.
Setting = tuple[str, str, str]

#: Settings of the person's that decide which bytes a file has in a commit, and the values we take.
HABITS = {
    "core.autocrlf": ("true", "false", "input"),
    "core.eol": ("lf", "crlf", "native"),
    "core.filemode": ("true", "false"),
    "core.ignorecase": ("true", "false"),
}
#: Whose word it is, and which, where a person's own list of files lies that git shall not see.
IGNORED = ("global", "core.excludesfile")
#: Settings that start nothing when a branch is moved; people change these all the time.
HARMLESS = ("branch.", "remote.", "user.", "pull.", "push.", "gc.", "color.", "alias.", "diff.", "log.")
#: A repository that fetches what it lacks when it is read, from a place and by a program that it names.
PARTIAL = re.compile(r"extensions\.partialclone|remote\..*\.promisor", re.DOTALL)
#: A program that a fetch into the repository starts, and what has it fetch from elsewhere.
PROGRAM, INSTEAD = re.compile(r"core\.alternaterefscommand"), re.compile(r"url\..*\.insteadof", re.DOTALL)
#: Programs that read and write the files of a checkout.
FILTERS = re.compile(r"filter\..*\.(clean|smudge|process)", re.DOTALL)


class Remote(Value, frozen=True, kw_only=True):
    """Where the person's repository is pushed to."""

    name: str
    url: str


def own(settings: Sequence[Setting]) -> list[tuple[str, str]]:
    """Those that stand in the repository itself, or in what it includes."""
    return [(key, value) for scope, key, value in settings if scope in {"local", "worktree"}]


def digest(settings: Sequence[Setting]) -> str:
    """Of what in the repository's own configuration could start something when a branch is moved."""
    entries = {f"{key}\n{value}" for key, value in own(settings)}
    kept = sorted(entry for entry in entries if not entry.lower().startswith(HARMLESS))
    return hashlib.sha256("\0".join(kept).encode("utf-8", "surrogateescape")).hexdigest()


def is_partial(settings: Sequence[Setting]) -> bool:
    """Whether files of the repository may be missing."""
    return any(PARTIAL.fullmatch(key) for key, _ in own(settings))


def unsafe(settings: Sequence[Setting], source: str, *, checkout: bool) -> str:
    """The first key by which the repository could have a program of its own choice started, or another place looked
    at, when something is fetched from `source`, and brought to a checkout if there is one. Empty if none could.
    """
    for key, value in own(settings):
        rewritten = INSTEAD.fullmatch(key) and source.startswith(value)
        filtered = checkout and FILTERS.fullmatch(key) and value
        named = key.startswith(f"remote.{source}.") or PROGRAM.fullmatch(key) or PARTIAL.fullmatch(key)
        if named or rewritten or filtered:
            return key if key.isprintable() else repr(key)
    return ""


def remote_of(settings: Sequence[Setting]) -> Remote | None:
    """`origin`, or the only one. Read once: what an agent makes of it later is not obeyed."""
    found: dict[str, str] = {}
    for scope, key, url in settings:
        if scope == "local" and re.fullmatch(r"remote\..*\.url", key, re.DOTALL) and url and url.isprintable():
            found.setdefault(key.removeprefix("remote.").removesuffix(".url"), url)
    name = "origin" if "origin" in found or len(found) != 1 else next(iter(found))
    return Remote(name=name, url=found[name]) if name in found else None


def line_for(key: str, value: str) -> bytes:
    """A setting as lines of git's configuration."""
    section, _, name = key.partition(".")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return os.fsencode(f'[{section}]\n\t{name} = "{escaped}"\n')
