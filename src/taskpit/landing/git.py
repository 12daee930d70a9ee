"""All git there is: each call with an environment made from nothing, in a repository of ours. Knows no tasks.

An agent can write to its own clone and, where nothing fences it, to the person's repository. Configuration there
names programs that git starts (hooks, filters, fsmonitor, gpg). So every call names its repository, reads no
configuration but ours, and takes files from an agent's clone as files: its `.git` is never read.

    U   the person's repository; only `publish` changes it
    P   ours: private and bare, in the user's state directory; nobody has it checked out
    W   an agent's clone, or one in which a check runs: it borrows the objects of P
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache

from taskpit import fs
from taskpit.errors import TaskpitError
from taskpit.model import Value

#: How long one git command may take.
PATIENCE = 600.0
#: The object that is none: as an old value it says that there must be no such ref.
ZERO = "0" * 40
#: So many commits are known by their trees.
MANY = 10_000
#: The oldest git that merges without a checkout.
OLDEST = (2, 38)
#: With so many loose objects in one of the 256 directories for them, about 2,000 in all, they are packed; how long
#: that may take.
LOOSE, PACKING = 8, 120.0

#: What no configuration may change, not even the person's own in their repository.
SAFE = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.allow", "never"),
    ("protocol.file.allow", "always"),
    ("submodule.recurse", "false"),
    ("commit.gpgSign", "false"),
    ("core.quotePath", "false"),
)
#: The same for repositories of ours, which know nobody's habits.
OURS = (
    *SAFE,
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.untrackedCache", "false"),
    ("core.splitIndex", "false"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    ("fetch.fsckObjects", "true"),
    ("safe.bareRepository", "explicit"),
)
#: The environment in which git finds the person's own configuration.
PERSONAL = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")
#: What reaching a remote needs beside it: who they are there, and the way.
REACHING = (
    "USER",
    "LOGNAME",
    "SSH_AUTH_SOCK",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "SSL_CERT_FILE",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
)
#: The ways that are taken; others start programs.
WAYS = tuple((f"protocol.{way}.allow", "always") for way in ("https", "http", "ssh"))


class GitTrouble(TaskpitError):
    """Git could not do what was asked."""

    code = "git"


class Ref(Value, frozen=True, kw_only=True):
    """A ref as it was seen: the object it names, and what that holds. Both are empty if there is no such ref."""

    oid: str = ""
    data: bytes = b""


class Ran(Value, frozen=True, kw_only=True):
    """What one git command did."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """What it said, as text."""
        return self.out.decode("utf-8", "surrogateescape").strip()


def _environment(more: Mapping[str, str], *, personal: bool = False) -> dict[str, str]:
    """Nothing of ours but where programs are and what time it is here; `personal`: also who we are."""
    kept = {key: os.environ[key] for key in ("PATH", "TZ") if key in os.environ}
    nobody = {
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
    }
    return {
        "PATH": os.defpath,
        **kept,
        "LC_ALL": "C",
        **({key: os.environ[key] for key in PERSONAL if key in os.environ} if personal else nobody),
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_EDITOR": "false",
        "GIT_DEFAULT_REF_FORMAT": "files",
        **more,
    }


def _run(
    words: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    settings: Sequence[tuple[str, str]],
    stdin: bytes = b"",
    lock: int = -1,
    patience: float = PATIENCE,
) -> Ran:
    """Git has run, in a group of its own, with an open lock if `lock` is one; GitTrouble if it could not."""
    given = [word for key, value in settings for word in ("-c", f"{key}={value}")]
    fs.step("git", words[0])
    try:
        ran = subprocess.run(
            ("git", "--no-pager", *given, *words),
            cwd=cwd,
            env=env,
            input=stdin,
            capture_output=True,
            timeout=patience,
            check=False,
            start_new_session=True,
            pass_fds=(lock,) if lock >= 0 else (),
        )
    except subprocess.TimeoutExpired:
        raise GitTrouble(f"git {words[0]} took longer than {patience:g} seconds", cwd=cwd) from None
    except OSError as error:
        raise GitTrouble(f"git cannot be run: {error}", hint="Install git 2.38 or newer.", cwd=cwd) from None
    return Ran(code=ran.returncode, out=ran.stdout, err=ran.stderr.decode("utf-8", "replace").strip())


def _accept(ran: Ran, ok: Sequence[int], words: Sequence[str], cwd: str) -> Ran:
    if ran.code not in ok:
        raise GitTrouble(f"git {words[0]}: {ran.err[-300:] or f'exit code {ran.code}'}", cwd=cwd)
    return ran


def outside(
    cwd: str,
    *words: str,
    ok: Sequence[int] = (0,),
    personal: bool = False,
    stdin: bytes = b"",
    patience: float = PATIENCE,
) -> Ran:
    """Git where the person's repository is found from `cwd`: to look, to make P, and to publish.

    The repository may have come by any hand: nothing that its own settings name is run.
    """
    settings = SAFE if personal else OURS
    ran = _run(words, _environment({}, personal=personal), cwd, settings, stdin, patience=patience)
    return _accept(ran, ok, words, cwd)


def require() -> None:
    """GitTrouble unless there is a git that can do all this."""
    version = _version(os.environ.get("PATH", ""))
    numbers = tuple(int(part) for part in "".join(version.split()[2:3]).split(".")[:2] if part.isdecimal())
    if numbers < OLDEST:
        raise GitTrouble(f"landing needs git 2.38 or newer, and this is {version!r}", hint="Install a newer git.")


@cache
def _version(path: str) -> str:  # noqa: ARG001 - on another path there is another git
    return outside("/", "version").text


class Git:
    """Git in a repository that is named by its directory and never looked for.

    What changes a ref holds a lock that git itself inherits: while we have it no git of a killed worker is at
    work, so a lock file of git's that lies there is nobody's and is removed.
    """

    def __init__(self, directory: str, *, author: tuple[str, str] = ("taskpit", "taskpit@localhost")) -> None:
        self.directory = directory
        #: The trees of commits that were met: no commit has another, ever.
        self._trees: dict[str, str] = {}
        name, mail = author
        self._who = {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", name), ("EMAIL", mail))
        }

    def run(self, *words: str, stdin: bytes = b"", ok: Sequence[int] = (0,), tree: str = "", index: str = "") -> Ran:
        """What it did; GitTrouble if it ended otherwise than `ok`. `tree` is a work tree, `index` one of its own."""
        return _accept(self._run(words, stdin, tree, index), ok, words, self.directory)

    def _run(
        self,
        words: Sequence[str],
        stdin: bytes = b"",
        tree: str = "",
        index: str = "",
        lock: int = -1,
        patience: float = PATIENCE,
    ) -> Ran:
        env = {**self._who, "GIT_DIR": self.directory}
        if tree:
            env |= {"GIT_WORK_TREE": tree, "GIT_CEILING_DIRECTORIES": tree}
        if index:
            env["GIT_INDEX_FILE"] = index
        return _run(words, _environment(env), tree or self.directory, OURS, stdin, lock, patience)

    def reach(self, *words: str, ok: Sequence[int] = (0,)) -> Ran:
        """The same where a remote is needed: by the person's own configuration, for their credentials are there.

        Not that of their repository, which an agent may have written to: the remote is named by its address.
        """
        known = {key: os.environ[key] for key in REACHING if key in os.environ}
        env = _environment({**known, "GIT_DIR": self.directory}, personal=True)
        ran = _run(words, env, self.directory, (*SAFE, *WAYS), b"", -1)
        return _accept(ran, ok, words, self.directory)

    def alone(self, *words: str, stdin: bytes = b"", ok: Sequence[int] = (0,)) -> Ran:
        """The same for what changes refs: one at a time, and never stopped by what a killed git left."""
        with fs.Flock(f"{self.directory}/pit.lock") as lock:
            ran = self._run(words, stdin, lock=lock.fd)
            if ran.code and ".lock': File exists" in ran.err:
                self._clear_locks()
                ran = self._run(words, stdin, lock=lock.fd)
        return _accept(ran, ok, words, self.directory)

    def _clear_locks(self) -> None:
        for folder, _, names in os.walk(f"{self.directory}/refs"):
            for name in names:
                if name.endswith(".lock"):
                    fs.remove(f"{folder}/{name}")
        fs.remove(f"{self.directory}/packed-refs.lock")

    def say(self, *words: str, stdin: bytes = b"") -> str:
        """What it says in one text."""
        return self.run(*words, stdin=stdin).text

    # -- objects and refs --------------------------------------------------------------------------

    def needs_packing(self) -> bool:
        """Whether there are so many loose objects that each look for one takes long. Objects that are borrowed from
        another repository stay where they are: then nothing is packed.
        """
        objects = f"{self.directory}/objects"
        return len(fs.names(f"{objects}/17")) >= LOOSE and not os.path.exists(f"{objects}/info/alternates")

    def pack(self) -> None:
        """Loose objects and small packs are one pack; large packs stay as they are, so it never takes long.

        No object goes, and a pack is whole before anything that is in it is removed: killed anywhere it does no harm.
        """
        words = ("-c", "pack.threads=1", "repack", "-d", "-l", "--quiet", "--geometric=2")
        _accept(self._run(words, patience=PACKING), (0,), words[2:], self.directory)

    def look(self, *names: str) -> list[Ref]:
        """Each of these refs, as all of them were seen in one call."""
        found = self.below(*names)
        return [found.get(name, Ref()) for name in names]

    def below(self, *names: str) -> dict[str, Ref]:
        """The refs that are called so or lie below that, by their full names. A missing object is trouble."""
        form = "--format=%(refname)%00%(objectname)%00%(raw:size)%00%(raw)"
        out = self.run("for-each-ref", form, *names).out
        found, at = {}, 0
        while at < len(out):
            start = at
            for _ in range(3):
                start = out.index(b"\0", start) + 1
            name, oid, size, _ = out[at:start].split(b"\0")
            at = start + int(size) + 1
            found[os.fsdecode(name)] = ref = Ref(oid=oid.decode(), data=out[start : at - 1])
            if ref.data.startswith(b"tree "):
                self._know(ref.oid, ref.data.partition(b"\n")[0].removeprefix(b"tree ").decode())
        return found

    def _know(self, commit: str, tree: str) -> str:
        if len(self._trees) >= MANY:
            self._trees.clear()
        self._trees[commit] = tree
        return tree

    def ref(self, name: str) -> str:
        """The object a ref names; empty if there is no such ref."""
        return self.look(name)[0].oid

    def tree_of(self, commit: str) -> str:
        """The tree of a commit."""
        known = self._trees.get(commit)
        return known or self._know(commit, self.say("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}"))

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether one commit is in the history of the other; a missing object is no answer but trouble."""
        return old == new or self.run("merge-base", "--is-ancestor", old, new, ok=(0, 1)).code == 0

    def blob(self, data: bytes) -> str:
        """These bytes are an object."""
        return self.say("hash-object", "-w", "--stdin", stdin=data)

    def blobs(self, oids: Sequence[str]) -> dict[str, bytes]:
        """The bytes of many objects, in one call."""
        out = self.run("cat-file", "--batch", stdin="\n".join(oids).encode()).out if oids else b""
        found, at = {}, 0
        while at < len(out):
            head, _, _ = out[at : at + 200].partition(b"\n")
            oid, kind, *size = head.decode().split(" ")
            if kind == "missing":
                raise GitTrouble(f"an object is missing: {oid}")
            start = at + len(head) + 1
            at = start + int(size[0]) + 1
            found[oid] = out[start : at - 1]
        return found

    def commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        """A commit of this tree."""
        words = [word for parent in parents for word in ("-p", parent)]
        made = self.say("commit-tree", tree, *words, "-F", "-", stdin=message.encode("utf-8", "replace"))
        self._know(made, tree)
        return made

    def move(self, name: str, new: str, old: str = "", *, fence: tuple[str, str] = ("", "")) -> bool:
        """The ref is `new` if it was `old` (ZERO: there was none) and the fence stands; False if not.

        Behind a fence `old` may be empty: nobody else changes the ref, whatever it was. One transaction changes one
        ref: several are not moved together by a crash.
        """
        if len(new) < 40:  # an empty new value would delete the ref
            raise GitTrouble(f"{name} was to be moved to {new!r}")
        none = "0" * max(len(new), len(old))  # as long as this repository's names are: 40 letters, or 64
        words = ["update", name, *(none if oid == ZERO else oid for oid in (new, old) if oid)]
        lines = ["start", " ".join(words)]
        if fence[0]:
            lines.insert(1, f"verify {fence[0]} {fence[1]}")
        text = "\n".join([*lines, "prepare", "commit", ""])
        ran = self.alone("update-ref", "--stdin", stdin=text.encode(), ok=(0, 128))
        if ran.code:
            now, guard = self.look(name, fence[0] or name)
            if old in ("", now.oid or ZERO) and (not fence[0] or guard.oid == fence[1]):
                raise GitTrouble(f"git update-ref: {ran.err[-300:]}", ref=name)  # nobody was faster: it cannot be done
        return ran.code == 0

    def set(self, name: str, new: str) -> None:
        """The ref is this, whatever it was: for what only one process at a time can be about."""
        self.alone("update-ref", name, new)

    def drop(self, *names: str) -> None:
        """There are no such refs; one that was not there is not missed."""
        self.alone("update-ref", "--stdin", stdin="".join(f"delete {name}\n" for name in names).encode())
