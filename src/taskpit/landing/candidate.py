"""From an agent's files to a tree: by an index of our own, frozen paths from the target, and what a person should see.

The clone is taken as files. Links are not followed, its `.git` is not read, and what its own repository ignores, hides
or calls unchanged is nothing to us.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase

from taskpit import fs
from taskpit.landing.git import Git
from taskpit.landing.values import Terms
from taskpit.model import Value

#: A new file larger than this is asked about; contents are looked at up to the other.
LARGE, LOOKED_AT = 5 * 1024 * 1024, 1024 * 1024
#: Names and contents that look like a secret.
SECRET_NAMES = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.keystore",
    "id_rsa*",
    "id_ed25519*",
    "id_ecdsa*",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "credentials.json",
)
HARMLESS_NAMES = ("*.example", "*.sample", "*.template", "*.dist", "*.pub")
SECRETS = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}\b|\bglpat-[\w-]{20}"
    rb"|\bsk-ant-[\w-]{20}|\bxox[abprs]-[\w-]{10}|\bAIza[\w-]{35}\b"
)
#: The lines by which git marks both sides of a conflict: where all of them stand, nobody has decided.
MARKS = tuple(re.compile(line, re.MULTILINE) for line in (rb"^<{7} ", rb"^={7}\r?$", rb"^>{7} "))
_HUNK = re.compile(rb"\A@@ -\d+(,\d+)? \+\d+(,\d+)? @@.*", re.DOTALL)
#: Modes: of files, of links, of a pointer to another repository, and of what is not there.
FILE, PROGRAM, LINK, GITLINK, NOTHING = "100644", "100755", "120000", "160000", "000000"


class PathChange(Value, frozen=True, kw_only=True):
    """One path that differs between two trees."""

    old_mode: str
    old_oid: str
    mode: str
    oid: str
    #: A: new, M: other bytes, D: gone, T: another kind of thing.
    letter: str
    name: str
    #: Lines; a binary file has none.
    added: int = 0
    removed: int = 0

    @property
    def entry(self) -> str:
        """As git's index lists it; empty if it is gone."""
        return f"{self.mode} {self.oid} 0" if self.mode != NOTHING else ""

    @property
    def old_entry(self) -> str:
        """The same before; empty if it is new."""
        return f"{self.old_mode} {self.old_oid} 0" if self.old_mode != NOTHING else ""


class Taken(Value, frozen=True, kw_only=True):
    """What a clone's files are as a tree."""

    tree: str
    changes: tuple[PathChange, ...]
    #: What a person should see before it lands, and what was left out of it.
    questions: tuple[str, ...]


class Candidates:
    """Trees in our own repository."""

    def __init__(self, git: Git) -> None:
        self.git = git

    def take(self, path: str, terms: Terms, base: str, target: str) -> Taken:
        """A clone's files as a tree, frozen paths as in the target."""
        with self.index(base) as index:
            nested = self._not_ignored(sorted({*_nested(path), *self._filled(path, base)}), path, index)
            copied = self._not_ignored([os.fsencode(name) for name in terms.copy], path, index)
            specs = [b".", *(b":(exclude,literal)" + name for name in (*nested, *copied))]
            words = ("add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul")
            self.git.run(*words, stdin=b"\0".join(specs), tree=path, index=index)
            self._freeze(terms.frozen, target, index)
            tree = self.git.run("write-tree", index=index).text
            changes = self.changes(base, tree)
            questions = [*(self._left_out(name, base) for name in nested), *self._questions(changes, index)]
        return Taken(tree=tree, changes=tuple(changes), questions=tuple(questions))

    def _filled(self, path: str, base: str) -> list[bytes]:
        """Submodules, which a fresh clone has as empty directories, in which there is something now."""
        if not self.git.run("ls-tree", "-z", "--full-tree", base, "--", ".gitmodules").out:
            return []
        links = [name for name, (mode, _) in self._entries(base) if mode == GITLINK.encode()]
        places = ((name, os.path.join(os.fsencode(path), name)) for name in links)
        return [
            name for name, place in places if os.path.isdir(place) and not os.path.islink(place) and os.listdir(place)
        ]

    def _left_out(self, name: bytes, base: str) -> str:
        """What is said of a repository in the clone, whose files do not land."""
        listed = self.git.run("ls-tree", "-z", "--full-tree", base, "--", os.fsdecode(name)).out
        if listed.startswith(GITLINK.encode()):
            return f"{os.fsdecode(name)} is a submodule: nothing of it lands, commit and push what changed in it there"
        return f"{os.fsdecode(name)} is a repository of its own and was left out"

    def _not_ignored(self, names: list[bytes], path: str, index: str) -> list[bytes]:
        """Those that git would take; it complains of one that is ignored and left out by name."""
        if not names:
            return []
        words = ("check-ignore", "-z", "--stdin")
        ignored = self.git.run(*words, stdin=b"\0".join(names), tree=path, index=index, ok=(0, 1)).out.split(b"\0")
        return [name for name in names if name not in ignored]

    def frozen(self, globs: Sequence[str], tree: str, target: str) -> str:
        """The tree with the paths that these globs mean as they are in the target."""
        if not globs:
            return tree
        with self.index(tree) as index:
            self._freeze(globs, target, index)
            return self.git.run("write-tree", index=index).text

    def _freeze(self, globs: Sequence[str], target: str, index: str) -> None:
        """What these globs mean is as in the target: changed back, brought back, or taken out."""
        if not globs:
            return
        wanted = {name: entry for name, entry in self._entries(target) if _matches(name, globs)}
        listed = self.git.run("ls-files", "-z", index=index).out.split(b"\0")
        parents = {name[:at] for name in wanted for at, letter in enumerate(name) if letter == ord("/")}
        gone = [name for name in listed if name and name not in wanted and (name in parents or _matches(name, globs))]
        none = b"0" * len(target)
        lines = [b"0 " + none + b"\t" + name for name in gone]
        lines += [mode + b" " + oid + b" 0\t" + name for name, (mode, oid) in wanted.items()]
        self.git.run("update-index", "-z", "--index-info", stdin=b"".join(line + b"\0" for line in lines), index=index)

    def _entries(self, commit: str) -> Iterable[tuple[bytes, tuple[bytes, bytes]]]:
        for line in self.git.run("ls-tree", "-r", "-z", "--full-tree", commit).out.split(b"\0"):
            if line:
                facts, _, name = line.partition(b"\t")
                mode, _, oid = facts.split(b" ")
                yield name, (mode, oid)

    def changes(self, old: str, new: str) -> list[PathChange]:
        """Each path that differs."""
        words = ("diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--raw", "--numstat")
        out = self.git.run(*words, "--no-abbrev", old, new).out.decode("utf-8", "surrogateescape")
        parts = iter(out.split("\0"))
        facts, lines = {}, {}
        for part in parts:
            if part.startswith(":"):
                facts[next(parts)] = part[1:].split(" ")
            elif part:  # the counts come after all that
                added, removed, name = part.split("\t", 2)
                lines[name] = (int(added), int(removed)) if added.isdecimal() else (0, 0)
        return [
            PathChange(
                old_mode=old_mode,
                old_oid=old_oid,
                mode=mode,
                oid=oid,
                letter=letter[:1],
                name=name,
                added=lines.get(name, (0, 0))[0],
                removed=lines.get(name, (0, 0))[1],
            )
            for name, (old_mode, mode, old_oid, oid, letter) in facts.items()
        ]

    def _questions(self, found: Sequence[PathChange], index: str) -> list[str]:
        """What in a candidate a person should see before it lands; the index holds it."""
        changes = [one for one in found if one.letter != "D"]
        lines = [f"{one.name} points to another repository" for one in changes if one.mode == GITLINK]
        lines += [f"{one.name} is a submodule no longer" for one in found if one.old_mode == GITLINK != one.mode]
        blobs = [one for one in changes if one.mode != GITLINK]
        sizes = self._sizes([one.oid for one in blobs])
        lines += [
            f"{one.name} is new and large ({sizes[one.oid] // 1048576} MB)"
            for one in blobs
            if one.letter == "A" and sizes[one.oid] > LARGE
        ]
        looked_at = self.git.blobs([oid for oid, size in sizes.items() if size <= LOOKED_AT])
        spilt = {oid for oid, data in looked_at.items() if SECRETS.search(data)}
        lines += [f"{one.name} looks like a secret" for one in blobs if one.oid in spilt or _is_secret(one)]
        marked = {oid for oid, data in looked_at.items() if all(mark.search(data) for mark in MARKS)}
        lines += [f"{one.name} has the marks of a conflict" for one in blobs if one.oid in marked]
        if filtered := self._filtered(blobs, index):
            lines.append(f"{', '.join(filtered[:5])} would go through a git filter, which landing does not run")
        return lines

    def _sizes(self, oids: Sequence[str]) -> dict[str, int]:
        if not oids:
            return {}
        listed = self.git.say("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin="\n".join(oids).encode())
        return {oid: int(size) for oid, _, size in (line.partition(" ") for line in listed.splitlines())}

    def _filtered(self, changes: Sequence[PathChange], index: str) -> list[str]:
        """Changed paths whose attributes name a filter: their bytes may not be what the person's git would store."""
        if not changes:
            return []
        names = b"\0".join(os.fsencode(one.name) for one in changes)
        out = self.git.run("check-attr", "-z", "--cached", "--stdin", "filter", stdin=names, index=index).out
        parts = out.decode("utf-8", "surrogateescape").split("\0")
        return [
            name for name, value in zip(parts[::3], parts[2::3], strict=False) if value not in ("unspecified", "unset")
        ]

    def patch(self, base: str, commit: str) -> str:
        """A digest of what is taken out, what comes in and what stands around it, wherever in its files that is."""
        words = ("diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv")
        lines = self.git.run(*words, "--no-color", base, commit).out.split(b"\n")
        kept = [_HUNK.sub(b"@@", line) for line in lines if not line.startswith(b"index ")]
        return hashlib.sha256(b"\n".join(kept)).hexdigest()

    def loose(self, path: str, commit: str, terms: Terms) -> list[str]:
        """Files in the clone that are not committed."""
        with self.index(commit) as index:
            out = self.git.run("ls-files", "-z", "--others", "--directory", tree=path, index=index).out
        known = {*(os.fsencode(name) for name in terms.copy), b".git/"}
        return [os.fsdecode(name) for name in out.split(b"\0") if name and name not in known]

    @contextmanager
    def index(self, tree: str) -> Iterator[str]:
        """An index of its own that holds this tree."""
        index = f"{self.git.directory}/index.{fs.fresh_name(12)}"
        try:
            self.git.run("read-tree", tree, index=index)
            yield index
        finally:
            fs.remove(index)


def size(changes: Sequence[PathChange]) -> tuple[int, int, int]:
    """Files that differ, lines added, lines removed."""
    return len(changes), sum(one.added for one in changes), sum(one.removed for one in changes)


def _nested(path: str) -> Iterable[bytes]:
    """Directories below that are repositories of their own; links are not followed."""
    root = os.fsencode(path)
    for folder, folders, files in os.walk(root):
        if folder != root and (b".git" in folders or b".git" in files):
            yield os.path.relpath(folder, root)
            folders.clear()
        elif folder == root:
            folders[:] = [name for name in folders if name != b".git"]


def _matches(name: bytes, globs: Sequence[str]) -> bool:
    """Whether a path is meant by one of the globs; one that means a directory means all below it."""
    text = os.fsdecode(name)
    parts = text.split("/")
    prefixes = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return any(fnmatchcase(prefix, glob.rstrip("/")) for glob in globs for prefix in prefixes)


def _is_secret(change: PathChange) -> bool:
    """Whether a new file is called like one that holds a secret."""
    name = change.name.rpartition("/")[2].lower()
    named = any(fnmatchcase(name, glob) for glob in SECRET_NAMES)
    return change.letter == "A" and named and not any(fnmatchcase(name, glob) for glob in HARMLESS_NAMES)
