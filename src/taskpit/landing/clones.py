"""Places to work: the clones in which the tasks of one queue are built, checked and judged. Knows files, no claims.

<state>/taskpit/landing/<name>-<digest>/work/<queue>/
    <task>            its builder's clone, kept from attempt to attempt
    <task>.ready      which directory that is, and its target: another in its place is none of ours
    <task>.log        what its set-up printed
    <task>.review     its reviewer's clone
    <task>.old-*      a `.git` with the commits of an earlier attempt
"""

from __future__ import annotations

import os
import stat

from taskpit import fs
from taskpit.landing.candidate import Candidates
from taskpit.landing.repository import remove
from taskpit.landing.setup_cache import Setups
from taskpit.landing.values import SetupFailed, name_of
from taskpit.schema import path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.landing.repository import Repository
    from taskpit.landing.values import HandIn, Hands, Terms
    from taskpit.task import Evidence

__all__ = ["Clones"]


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
        return sorted(name.removesuffix(".ready") for name in fs.names(self._folder) if name.endswith(".ready"))

    # -- whose it is -------------------------------------------------------------------------------

    def is_ours(self, path: str) -> bool:
        """Whether what stands there is the clone that was made there."""
        return _directory(path) == _read_mark(path)[0]

    def target(self, task_id: str) -> str:
        """The branch that was settled when its clone was made; empty if none was."""
        return _read_mark(self.path(task_id))[1]

    def _mark(self, path: str, onto: str) -> None:
        """The clone is whole, and this directory is it. Its target is settled."""
        data = f"{_directory(path)}\n{onto}\n".encode()
        fs.replace(f"{path}.ready", data, f"{path}.ready.{fs.fresh_name()}", sync=False)

    # -- making them -------------------------------------------------------------------------------

    def make(self, task_id: str, base: str, terms: Terms, hands: Hands) -> None:
        """The task's own clone is there; SetupFailed if its set-up is red."""
        path = self.path(task_id)
        fs.make_dir(self._folder)
        fs.remove(f"{path}.ready")
        self._furnish(path, base, terms, hands, f"{path}.log", branch=f"pit/{name_of(task_id)}")
        self._mark(path, terms.onto)

    def check(self, task_id: str, command: str, commit: str, terms: Terms | HandIn, hands: Hands) -> Evidence:
        """What a check shows on exactly this commit, in a clone that nothing else has touched."""
        place = path_of(f"{self._repository.folder}/check", task_id, f".{fs.fresh_name()}")
        try:
            self._furnish(place, commit, terms, hands, f"{self.path(task_id)}.log")
            return hands.run(command, place, self._limits.check_limit, env=terms.env)
        finally:
            remove(place)

    def for_review(self, handed: HandIn, hands: Hands) -> str:
        """A clone of exactly the candidate, for a reviewer; it is thrown away. The same path each time: agents
        look for their sessions by that.
        """
        path = self.path(handed.task)
        fs.make_dir(self._folder)
        self._furnish(f"{path}.review", handed.commit, handed, hands, f"{path}.log")
        return f"{path}.review"

    def _furnish(
        self, path: str, commit: str, terms: Terms | HandIn, hands: Hands, log: str, *, branch: str = ""
    ) -> None:
        """A fresh clone with its files and set-up; SetupFailed if that is red."""
        self._clone(path, commit, terms, branch)
        if not terms.setup:
            return
        setups = Setups(self._repository)
        key = setups.key(commit, terms)
        if setups.bring(key, path):
            hands.say("the files of the set-up were copied: what decides them is the same")
            return
        if key:  # some of it may be there
            self._clone(path, commit, terms, branch)
        evidence = hands.run(terms.setup, path, self._limits.setup_limit, log, terms.env)
        if not evidence.green:
            told = evidence.tail[-500:] or terms.setup
            raise SetupFailed(f"the set-up failed (exit code {evidence.exit_code}): {told}", log=log)
        if key and branch:  # a clone of what has landed, and no agent's yet
            setups.keep(key, path, commit, terms)

    def _clone(self, path: str, commit: str, terms: Terms | HandIn, branch: str) -> None:
        self._repository.clone(path, commit, branch)
        self._repository.copy(terms.copy, path)

    def rebase(self, task_id: str, target: str, base: str, was: str, tree: str) -> None:
        """The task's clone begins from `base` and has the files of `tree` instead of those of `was`; its own commits
        are kept beside it. Its `.git` is a fresh one: what the agent did to the other is nothing that ours should meet.
        """
        path = self.path(task_id)
        fresh = f"{path}.new"
        self._repository.clone(fresh, base, f"pit/{name_of(task_id)}")
        if self.is_ours(path):
            if os.path.lexists(f"{path}/.git"):
                fs.move(f"{path}/.git", f"{path}.old-{fs.fresh_name()}")
            fs.move(f"{fresh}/.git", f"{path}/.git")
            remove(fresh)
        else:
            remove(path)
            fs.move(fresh, path)
            self._mark(path, target)
        with Candidates(self._repository.git).index(was) as index:  # what is no longer there goes
            self._repository.git.run("read-tree", "--reset", "-u", tree, tree=path, index=index)

    def remove(self, task_id: str) -> None:
        """All that is called after this task is gone."""
        path = self.path(task_id)
        fs.remove(f"{path}.ready")
        for name in fs.names(self._folder):
            if name == task_id or name.startswith(f"{task_id}."):
                remove(f"{self._folder}/{name}")


def _directory(path: str) -> str:
    """Which directory this is; a link is none."""
    status = fs.status(path)
    return f"{status.st_dev}:{status.st_ino}" if status and stat.S_ISDIR(status.st_mode) else "none"


def _read_mark(path: str) -> tuple[str, str]:
    """The directory that was made ready there, and its target."""
    try:
        directory, onto, _ = fs.read(f"{path}.ready", 4096)[0].decode().split("\n")
    except (OSError, ValueError):
        return "", ""
    return directory, onto
