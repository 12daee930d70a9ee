"""Places to work: the clones in which the tasks of one queue are built, checked and judged. Knows files, no claims.

<state>/taskpit/landing/<name>-<digest>/work/<queue>/
    <task>            its builder's clone, kept from attempt to attempt
    <task>~ready      which directory that is, its target, when its task was made: another in its place is none of ours
    <task>~log        what its set-up printed
    <task>~review     its reviewer's clone
    <task>~old-*      a `.git` with the commits of an earlier attempt, or the clone of another task so called

No id has a `~`, and any may have a dot.
"""

from __future__ import annotations

import glob
import hashlib
import os
import stat
import subprocess
import time

from taskpit import fs
from taskpit.clock import iso
from taskpit.ids import path_of
from taskpit.landing.candidate import Candidates
from taskpit.landing.repository import Repository, remove
from taskpit.landing.values import HandIn, Hands, SetupFailed, Terms, name_of
from taskpit.model import Evidence, Task

# -- what a set-up made ----------------------------------------------------------------------------
# Kept so that the next clone has it without running it again. Copied, never linked.
# <state>/taskpit/landing/<name>-<digest>/setup/<key>/    the files that it added to a clone
#
# Kept only where a person names the files that decide it, such as lock files: the key is the command and these files
# in the commit. Made from a clone of what has landed, before an agent had it: nothing that an agent wrote is in it. A
# virtual environment works only where it was made, so a set-up that makes one is run each time.

#: What nobody has used for so many seconds is removed when the next one is kept.
UNUSED = 30 * 86400.0
#: Where these stand, a directory is a virtual environment.
IN_PLACE = ("pyvenv.cfg", "*/pyvenv.cfg")


class Setups:
    """The set-ups of one repository."""

    def __init__(self, repository: Repository) -> None:
        self._git = repository.git
        self._folder = f"{repository.folder}/setup"

    def key(self, commit: str, terms: Terms) -> str:
        """What this set-up of this commit is kept as; empty if it is not to be kept."""
        if not terms.setup or not terms.setup_key:
            return ""
        entries = self._git.run("ls-tree", "-z", "--full-tree", commit, "--", *terms.setup_key).out
        words = "\0".join((terms.setup, *terms.copy, "")).encode("utf-8", "surrogateescape")
        return hashlib.sha256(words + entries).hexdigest()[:24]

    def bring(self, key: str, path: str) -> bool:
        """The clone has what was kept; False if it has not, and then it may have some of it."""
        place = f"{self._folder}/{key}"
        if not key or not os.path.isdir(place):
            return False
        os.utime(place)
        return all(_copied(f"{place}/{name}", path, name) for name in _listed(f"{place}.names"))

    def keep(self, key: str, path: str, commit: str, terms: Terms) -> None:
        """What the set-up added to this clone is kept; nothing if that could not be used elsewhere, or is there."""
        names = Candidates(self._git).loose(path, commit, terms)
        made_here = any(glob.glob(f"{glob.escape(f'{path}/{name}')}/{mark}") for name in names for mark in IN_PLACE)
        if made_here or not names or os.path.exists(f"{self._folder}/{key}"):
            return
        fs.make_dir(self._folder)
        self._prune()
        scratch = f"{self._folder}/.{fs.fresh_name(12)}"
        os.makedirs(scratch)
        if all(_copied(f"{path}/{name}", scratch, name) for name in names):
            data = b"\0".join(os.fsencode(name) for name in names)
            fs.replace(f"{self._folder}/{key}.names", data, f"{scratch}.names", sync=False)
            fs.move(scratch, f"{self._folder}/{key}")
        remove(scratch)

    def _prune(self) -> None:
        for name in fs.names(self._folder):
            status = fs.status(f"{self._folder}/{name}")
            if status is not None and time.time() - status.st_mtime > UNUSED and not name.endswith(".names"):
                remove(f"{self._folder}/{name}")


def _listed(path: str) -> list[str]:
    try:
        return [os.fsdecode(name) for name in fs.read(path, 1 << 24)[0].split(b"\0") if name]
    except OSError:
        return []


def _copied(source: str, root: str, name: str) -> bool:
    """`source` is in `root` under this name; False if something is there, or a link would lead elsewhere."""
    *above, last = name.rstrip("/").split("/")
    folder = root
    try:
        for part in above:
            folder = f"{folder}/{part}"
            fs.make_dir(folder)
            if os.path.islink(folder):
                return False
        target = f"{folder}/{last}"
        if os.path.lexists(target):
            return False
        for words in (("cp", "-a", "--reflink=auto"), ("cp", "-pPR")):  # the first is GNU's
            ran = subprocess.run((*words, "--", source.rstrip("/"), target), capture_output=True, check=False)
            if ran.returncode == 0:
                return True
            remove(target)
    except OSError:
        return False
    return False


# -- places to work --------------------------------------------------------------------------------


class Clones:
    """The clones of one queue in one repository."""

    def __init__(self, repository: Repository, queue: str, limits: Terms) -> None:
        self._repository = repository
        self._folder = f"{repository.folder}/work/{queue}"
        self._limits = limits

    def path(self, task_id: str) -> str:
        """Where a task's clone is."""
        return path_of(self._folder, task_id)

    def names(self) -> list[str]:
        """The tasks that have a clone."""
        return sorted(name.removesuffix("~ready") for name in fs.names(self._folder) if name.endswith("~ready"))

    # -- whose it is -------------------------------------------------------------------------------

    def is_ours(self, path: str) -> bool:
        """Whether what stands there is the clone that was made there."""
        return _directory(path) == _read_mark(path)[0]

    def target(self, task_id: str) -> str:
        """The branch that was settled when its clone was made; empty if none was."""
        return _read_mark(self.path(task_id))[1]

    def set_aside(self, task: Task) -> bool:
        """No clone stands there that was made for another task so called, in a queue that was in the same place
        before; whether one did.
        """
        path = self.path(task.id)
        if _read_mark(path)[2] in ("", _made(task)):
            return False
        fs.move(path, f"{path}~old-{fs.fresh_name()}")
        fs.remove(f"{path}~ready")
        return True

    def _mark(self, path: str, onto: str, made: str) -> None:
        """The clone is whole, and this directory is it. Its target is settled."""
        data = f"{_directory(path)}\n{onto}\n{made}\n".encode()
        fs.replace(f"{path}~ready", data, sync=False)

    # -- making them -------------------------------------------------------------------------------

    def make(self, task: Task, base: str, terms: Terms, hands: Hands) -> None:
        """The task's own clone is there; SetupFailed if its set-up is red."""
        path = self.path(task.id)
        fs.make_dir(self._folder)
        fs.remove(f"{path}~ready")
        self._furnish(path, base, terms, hands, f"{path}~log", branch=f"pit/{name_of(task.id)}", onto=terms.onto)
        self._mark(path, terms.onto, _made(task))

    def check(self, task_id: str, command: str, commit: str, terms: Terms, hands: Hands, target: str = "") -> Evidence:
        """Run a check on exactly this commit, in a clone that nothing else has touched.

        Where paths are frozen, git writes the files by the attributes of the target: those of the commit could give a
        frozen test other line endings, or another encoding.
        """
        place = path_of(f"{self._repository.folder}/check", task_id, f".{fs.fresh_name()}")
        files = Candidates(self._repository.git)
        written = files.with_attributes(commit, target) if terms.frozen and target else commit
        try:
            self._furnish(place, written, terms, hands, f"{self.path(task_id)}~log")
            if written != commit:
                files.restore_attributes(place, commit)
            return hands.run(command, place, self._limits.check_limit, env=terms.env)
        finally:
            remove(place)

    def for_review(self, handed: HandIn, hands: Hands) -> str:
        """A clone of exactly the candidate, for a reviewer; it is thrown away. The same path each time: agents
        look for their sessions by that.
        """
        path = self.path(handed.task)
        fs.make_dir(self._folder)
        self._furnish(f"{path}~review", handed.commit, handed, hands, f"{path}~log")
        return f"{path}~review"

    def _furnish(
        self,
        path: str,
        commit: str,
        terms: Terms,
        hands: Hands,
        log: str,
        *,
        branch: str = "",
        onto: str = "",
    ) -> None:
        """A fresh clone with its files and set-up; SetupFailed if that is red."""
        self._clone(path, commit, terms, branch, onto)
        if not terms.setup:
            return
        setups = Setups(self._repository)
        key = setups.key(commit, terms)
        if setups.bring(key, path):
            hands.say("the files of the set-up were copied: what decides them is the same")
            return
        if key:  # some of it may be there
            self._clone(path, commit, terms, branch, onto)
        evidence = hands.run(terms.setup, path, self._limits.setup_limit, log, terms.env)
        if not evidence.green:
            message = evidence.tail[-500:] or terms.setup
            raise SetupFailed(f"the set-up failed (exit code {evidence.exit_code}): {message}", log=log)
        if key and branch:  # a clone of what has landed, and no agent's yet
            setups.keep(key, path, commit, terms)

    def _clone(self, path: str, commit: str, terms: Terms, branch: str, onto: str) -> None:
        self._repository.clone(path, commit, branch, onto)
        self._repository.copy(terms.copy, path)

    def rebase(self, task_id: str, target: str, base: str, was: str, tree: str) -> None:
        """The task's clone begins from `base` and has the files of `tree` instead of those of `was`; its own commits
        are kept beside it. Its `.git` is a fresh one: what the agent did to the other is nothing that ours should meet.
        """
        path = self.path(task_id)
        fresh = f"{path}~new"
        self._repository.clone(fresh, base, f"pit/{name_of(task_id)}", target)
        if self.is_ours(path):
            if os.path.lexists(f"{path}/.git"):
                fs.move(f"{path}/.git", f"{path}~old-{fs.fresh_name()}")
            fs.move(f"{fresh}/.git", f"{path}/.git")
            remove(fresh)
        else:
            remove(path)
            fs.move(fresh, path)
            self._mark(path, target, _read_mark(path)[2])
        with Candidates(self._repository.git).index(was) as index:  # what is no longer there goes
            self._repository.git.run("read-tree", "--reset", "-u", tree, tree=path, index=index)

    def remove(self, task_id: str) -> None:
        """All that is called after this task is gone."""
        path = self.path(task_id)
        fs.remove(f"{path}~ready")
        for name in fs.names(self._folder):
            if name == task_id or name.startswith(f"{task_id}~"):
                remove(f"{self._folder}/{name}")


def _made(task: Task) -> str:
    """By which a task is told from another so called; empty where that time is not known."""
    return iso(task.created) if task.created else ""


def _directory(path: str) -> str:
    """Which directory this is; a link is none."""
    status = fs.status(path)
    return f"{status.st_dev}:{status.st_ino}" if status and stat.S_ISDIR(status.st_mode) else "none"


def _read_mark(path: str) -> tuple[str, str, str]:
    """The directory that was made ready there, its target, and when its task was made."""
    try:
        directory, onto, made, _ = fs.read(f"{path}~ready", 4096)[0].decode().split("\n")
    except (OSError, ValueError):
        return "", "", ""
    return directory, onto, made
