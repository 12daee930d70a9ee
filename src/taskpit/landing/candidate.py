"""From an agent's files to a tree: by an index of our own, frozen paths from the target, and what a person should see.

The clone is taken as files. Links are not followed, its `.git` is not read, and what its own repository ignores, hides
or calls unchanged is nothing to us.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bA[KS]IA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}\b|\bglpat-[\w-]{20}"
    rb"|\bgithub_pat_\w{22}|\bsk-(?:ant|proj|svcacct)-[\w-]{20}|\bsk_live_\w{16}|\bnpm_[A-Za-z0-9]{36}\b"
    rb"|\bxox[abprs]-[\w-]{10}|\bAIza[\w-]{35}\b|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"
    rb"|\b[a-z][a-z0-9+.-]*://[^\s/:@\"']+:(?!(?:pass\w*|secret|pw|x+|\*+|\.+)@)[^\s/@\"'$<{]{4,}@[\w.-]+"
)
#: Variables whose values are secrets, by their names, and the shortest value that is looked for.
SECRET_VARIABLES = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
SHORTEST_SECRET = 12
#: Files that a tool runs or obeys by itself, without a command of the person's that names them.
STARTERS = (
    *(".envrc", ".github/workflows/*", ".gitlab-ci.yml", ".circleci/*", ".pre-commit-config.yaml"),
    *(".vscode/tasks.json", ".vscode/settings.json", ".idea/runConfigurations/*", ".husky/*", ".githooks/*"),
    *(".claude/*", ".codex/*", ".cursor/*", ".mcp.json"),
)
#: Files that a test runner reads by itself.
RUNNER_FILES = (
    *("conftest.py", "pytest.ini", "pytest.py", "tox.ini", "setup.cfg", "pyproject.toml", "sitecustomize.py"),
    *("jest.config.*", "vitest.config.*", ".mocharc*", "karma.conf.*", "phpunit.xml*", ".rspec", "package.json"),
)
ATTRIBUTES = ".gitattributes"
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
    #: The reasons that an approval has to name: secret, conflict, link, starter, attributes.
    despite: tuple[str, ...] = ()
    #: Why it cannot land at all.
    refused: tuple[str, ...] = ()
    #: Frozen paths that the agent changed, which stay as they are in the target.
    left_out: tuple[str, ...] = ()


class Found(Value, frozen=True, kw_only=True):
    """One thing in a candidate that a person should see."""

    text: str
    #: The reason that an approval has to name for it; empty if any approval will do.
    reason: str = ""


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
            left_out = self._freeze(terms.frozen, target, index, base)
            tree = self.git.run("write-tree", index=index).text
            changes = self.changes(base, tree)
            found = self._questions(changes, index)
            refused = self._refused(changes)
        return Taken(
            tree=tree,
            changes=tuple(changes),
            questions=(*(self._left_out(name, base) for name in nested), *(one.text for one in found)),
            despite=tuple(sorted({one.reason for one in found if one.reason})),
            refused=tuple(refused),
            left_out=left_out,
        )

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

    def with_attributes(self, commit: str, source: str) -> str:
        """Return a commit with the files of this one and the git attributes of `source`; this one if they agree."""

        def attributes(of: str) -> dict[bytes, tuple[bytes, bytes]]:
            return {name: entry for name, entry in self._entries(of) if _is_attributes(name)}

        ours, theirs = attributes(commit), attributes(source)
        if ours == theirs:
            return commit
        none = b"0" * len(commit)
        lines = [b"0 " + none + b"\t" + name for name in ours.keys() - theirs.keys()]
        lines += [mode + b" " + oid + b" 0\t" + name for name, (mode, oid) in theirs.items()]
        with self.index(commit) as index:
            given = b"".join(line + b"\0" for line in lines)
            self.git.run("update-index", "-z", "--index-info", stdin=given, index=index)
            tree = self.git.run("write-tree", index=index).text
        return self.git.commit(tree, [commit], "attributes of the target\n")

    def restore_attributes(self, path: str, commit: str) -> None:
        """Write the attribute files of this commit into a checkout that has others."""
        wanted = {os.fsdecode(name): oid.decode() for name, (_, oid) in self._entries(commit) if _is_attributes(name)}
        blobs = self.git.blobs(list(wanted.values()))
        for name, oid in wanted.items():
            if not os.path.islink(os.path.dirname(f"{path}/{name}")):
                fs.replace(f"{path}/{name}", blobs[oid], sync=False)

    def _freeze(self, globs: Sequence[str], target: str, index: str, base: str = "") -> tuple[str, ...]:
        """Put the paths that these globs mean back to what they are in the target.

        Return those that differ from `base`: edits that are left out.
        """
        if not globs:
            return ()
        wanted = {name: entry for name, entry in self._entries(target) if _matches(name, globs)}
        staged = self._staged(index)
        left_out = self._edited(staged, globs, base, target, wanted) if base else ()
        listed = list(staged)
        parents = {name[:at] for name in wanted for at, letter in enumerate(name) if letter == ord("/")}
        gone = [name for name in listed if name and name not in wanted and (name in parents or _matches(name, globs))]
        none = b"0" * len(target)
        lines = [b"0 " + none + b"\t" + name for name in gone]
        lines += [mode + b" " + oid + b" 0\t" + name for name, (mode, oid) in wanted.items()]
        self.git.run("update-index", "-z", "--index-info", stdin=b"".join(line + b"\0" for line in lines), index=index)
        return left_out

    def _staged(self, index: str) -> dict[bytes, tuple[bytes, bytes]]:
        staged = {}
        for line in self.git.run("ls-files", "--stage", "-z", index=index).out.split(b"\0"):
            if line:
                facts, _, name = line.partition(b"\t")
                mode, oid, _ = facts.split(b" ")
                staged[name] = (mode, oid)
        return staged

    def _edited(
        self,
        staged: Mapping[bytes, tuple[bytes, bytes]],
        globs: Sequence[str],
        base: str,
        target: str,
        wanted: Mapping[bytes, tuple[bytes, bytes]],
    ) -> tuple[str, ...]:
        """Return the frozen paths that differ from what the clone began with."""
        began = wanted
        if base != target:
            began = {name: entry for name, entry in self._entries(base) if _matches(name, globs)}
        now = {name: entry for name, entry in staged.items() if _matches(name, globs)}
        edited = [name for name in now.keys() | began.keys() if now.get(name) != began.get(name)]
        return tuple(sorted(os.fsdecode(name) for name in edited))

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

    def _questions(self, found: Sequence[PathChange], index: str) -> list[Found]:
        """What in a candidate a person should see before it lands; the index holds it."""
        changes = [one for one in found if one.letter != "D"]
        lines = [f"{one.name} points to another repository" for one in changes if one.mode == GITLINK]
        lines += [f"{one.name} is a submodule no longer" for one in found if one.old_mode == GITLINK != one.mode]
        reasons = [
            Found(text=f"{one.name} changes how git writes files", reason="attributes")
            for one in found
            if _is_attributes(os.fsencode(one.name))
        ]
        reasons += [
            Found(text=f"{one.name} is run or obeyed by a tool without being asked", reason="starter")
            for one in changes
            if any(fnmatchcase(one.name, glob) for glob in STARTERS)
        ]
        blobs = [one for one in changes if one.mode != GITLINK]
        sizes = self._sizes([one.oid for one in blobs])
        lines += [
            f"{one.name} is new and large ({sizes[one.oid] // 1048576} MB)"
            for one in blobs
            if one.letter == "A" and sizes[one.oid] > LARGE
        ]
        looked_at = self.git.blobs([oid for oid, size in sizes.items() if size <= LOOKED_AT])
        given = _given_secrets()
        spilt = {
            oid for oid, data in looked_at.items() if SECRETS.search(data) or any(secret in data for secret in given)
        }
        marked = {oid for oid, data in looked_at.items() if all(mark.search(data) for mark in MARKS)}
        for one in blobs:
            if one.oid in spilt or _is_secret(one):
                reasons.append(Found(text=f"{one.name} looks like a secret", reason="secret"))
            if one.oid in marked:
                reasons.append(Found(text=f"{one.name} has the marks of a conflict", reason="conflict"))
            if one.mode == LINK and _leaves(one.name, looked_at.get(one.oid, b"")):
                reasons.append(Found(text=f"{one.name} is a link out of the repository", reason="link"))
        if filtered := self._filtered(blobs, index):
            lines.append(f"{', '.join(filtered[:5])} would go through a git filter, which landing does not run")
        return [*(Found(text=line) for line in lines), *reasons]

    def _refused(self, found: Sequence[PathChange]) -> list[str]:
        """Return why a candidate cannot land at all: git would take its files for a repository, or obey them."""
        links = [one for one in found if one.letter != "D" and one.mode == LINK]
        texts = self.git.blobs([one.oid for one in links])
        lines = [f"{one.name} is a link into .git" for one in links if _enters_git(one.name, texts[one.oid])]
        heads = [one.name for one in found if one.letter != "D" and one.name.rpartition("/")[2] == "HEAD"]
        folders = {name.rpartition("/")[0] for name in heads}
        names = {one.name for one in found if one.letter != "D"}
        for folder in sorted(folders):
            begin = f"{folder}/" if folder else ""
            if all(any(name.startswith(f"{begin}{part}/") for name in names) for part in ("objects", "refs")):
                lines.append(f"{folder or 'the top'} is a bare repository, whose settings git obeys")
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


def _is_attributes(name: bytes) -> bool:
    return name.rpartition(b"/")[2].lower() == ATTRIBUTES.encode()


def _given_secrets() -> list[bytes]:
    """The values of secrets that runs of this process were given as variables."""
    return [
        os.fsencode(value)
        for name, value in os.environ.items()
        if SECRET_VARIABLES.search(name) and len(value) >= SHORTEST_SECRET
    ]


def _leads(name: str, target: bytes) -> str:
    """Return where a link leads, as a path from the top of the repository; it may begin with `..` or `/`."""
    return os.path.normpath(os.path.join(os.path.dirname(name), os.fsdecode(target)))


def _leaves(name: str, target: bytes) -> bool:
    return _leads(name, target).startswith(("/", ".."))


def _enters_git(name: str, target: bytes) -> bool:
    parts = [part.casefold().rstrip(". ") for part in _leads(name, target).split("/")]
    return ".git" in parts or "git~1" in parts


def runner_files(changes: Iterable[PathChange]) -> list[str]:
    """Return the new files that a test runner reads by itself."""
    return [
        one.name
        for one in changes
        if one.letter == "A" and any(fnmatchcase(one.name.rpartition("/")[2], glob) for glob in RUNNER_FILES)
    ]


def _is_secret(change: PathChange) -> bool:
    """Whether a new file is called like one that holds a secret."""
    name = change.name.rpartition("/")[2].lower()
    named = any(fnmatchcase(name, glob) for glob in SECRET_NAMES)
    return change.letter == "A" and named and not any(fnmatchcase(name, glob) for glob in HARMLESS_NAMES)
