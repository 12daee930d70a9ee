"""A git worktree and branch for each task, so that agents don't step on each other. Knows git, not tasks' fate.

A worktree with work in it that is not safe elsewhere (uncommitted changes, or commits that are not merged)
is never removed, whatever became of its task: done, failed, killed, swept. What is removed was first saved
as a patch. The next attempt at a task finds the worktree of the last one as it was left.
"""

from __future__ import annotations

import os
import subprocess

from taskpit import fs
from taskpit.errors import TaskpitError
from taskpit.schema import path_of
from taskpit.task import Done, Failed
from taskpit.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from taskpit.task import Evidence, Outcome

__all__ = ["GitTrouble", "Landed", "Worktrees"]

#: How long one git command may take.
PATIENCE = 120.0


class GitTrouble(TaskpitError):
    """Git could not do what was asked."""

    code = "git"


class Landed(Value):
    """What became of a task's branch."""

    branch: str
    commits: tuple[str, ...] = ()
    merged: bool = False
    #: Where the worktree still is, if it was kept, and why.
    kept: str = ""
    why: str = ""

    def told(self) -> str:
        """The same for people, below the output."""
        lines = [f"Commits on {self.branch}:" if self.commits else f"No commits on {self.branch}."]
        lines += [f"- {commit}" for commit in self.commits]
        lines += ["Merged."] if self.merged else []
        lines += [f"The worktree is kept in {self.kept}: {self.why}"] if self.kept else []
        return "\n".join(lines)


class Worktrees:
    """Worktrees of one repository for the tasks of one queue."""

    def __init__(self, repository: str, queue: str, *, merge: str = "none") -> None:
        self.root = _git(repository, "rev-parse", "--show-toplevel")
        self.folder = f"{queue}/.taskpit/worktrees"
        self._lock = f"{queue}/.taskpit/merge.lock"
        self.merge = merge

    def path(self, task_id: str) -> str:
        """Where a task's worktree is."""
        return path_of(self.folder, task_id)

    def enter(self, task_id: str) -> str:
        """The task's own worktree, on its own branch, made if it was not there; its directory."""
        path, branch = self.path(task_id), _branch(task_id)
        if os.path.isdir(path):
            return path
        fs.make_dir(self.folder)
        _git(self.root, "worktree", "prune")
        known = _try_git(self.root, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}") is not None
        made = ("worktree", "add", "--quiet", path, branch) if known else _new(path, branch)
        _git(self.root, *made)
        return path

    def leave(self, task_id: str, outcome: Outcome, run_dir: str, check: Callable[[str], Evidence | None]) -> Outcome:
        """The outcome with what became of the branch; a green one is merged if that was asked for."""
        path, branch = self.path(task_id), _branch(task_id)
        if not isinstance(outcome, Done):
            return outcome
        landed = Landed(branch=branch, commits=_commits(path, self._target()))
        if self.merge == "ff" and landed.commits:
            trouble = self._land(path, branch, check)
            if trouble:
                return Failed(error=trouble, kind="check", output=outcome.output, evidence=outcome.evidence)
            landed = Landed(branch=branch, commits=_commits(path, f"HEAD~{len(landed.commits)}"), merged=True)
        landed = self._clear(task_id, landed, run_dir)
        return outcome.replace(output=f"{outcome.output.rstrip()}\n\n{landed.told()}".lstrip())

    def _target(self) -> str:
        return _git(self.root, "rev-parse", "HEAD")

    def _land(self, path: str, branch: str, check: Callable[[str], Evidence | None]) -> str:
        """Bring the branch up to date, check it again, merge it; one at a time. What went wrong, or nothing."""
        if _git(path, "status", "--porcelain"):
            return f"{branch} has uncommitted changes, so it was not merged"
        with fs.Flock(self._lock):
            if _try_git(path, "rebase", "--quiet", self._target()) is None:
                _try_git(path, "rebase", "--abort")
                return f"{branch} conflicts with what was merged before it: bring it up to date"
            evidence = check(path)
            if evidence is not None and not evidence.green:
                return f"after the merge the check is red (exit code {evidence.exit_code}): {evidence.tail[-500:]}"
            if _try_git(self.root, "merge", "--quiet", "--ff-only", branch) is None:
                return f"{branch} could not be merged into the checkout in {self.root}: is it dirty there?"
        return ""

    def _clear(self, task_id: str, landed: Landed, run_dir: str) -> Landed:
        """Remove the worktree if everything in it is safe elsewhere, after saving it as a patch all the same."""
        path = self.path(task_id)
        dirty = _git(path, "status", "--porcelain")
        if dirty or (landed.commits and not landed.merged):
            why = "it has uncommitted changes" if dirty else f"{landed.branch} is not merged"
            return landed.replace(kept=path, why=why)
        patch = _try_git(path, "format-patch", "--stdout", f"-{max(len(landed.commits), 1)}") or ""
        if landed.commits:
            with open(f"{run_dir}/work.patch", "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(patch)
        if _try_git(self.root, "worktree", "remove", path) is None:  # without --force: git looks once more
            return landed.replace(kept=path, why="git would not remove it")
        _try_git(self.root, "branch", "--quiet", "-d", landed.branch)  # -d, not -D: only what is merged
        return landed


def _commits(path: str, base: str) -> tuple[str, ...]:
    return tuple(_git(path, "log", "--format=%h %s", f"{base}..HEAD").splitlines())


def _branch(task_id: str) -> str:
    return f"pit/{task_id}"


def _new(path: str, branch: str) -> tuple[str, ...]:
    return ("worktree", "add", "--quiet", "-b", branch, path, "HEAD")


def _try_git(cwd: str, *words: str) -> str | None:
    try:
        return _git(cwd, *words)
    except GitTrouble:
        return None


def _git(cwd: str, *words: str) -> str:
    """What git says; GitTrouble with its last words if it can't."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        ran = subprocess.run(
            ("git", *words),
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitTrouble(f"git {words[0]}: {error}") from None
    if ran.returncode:
        raise GitTrouble(f"git {' '.join(words[:2])}: {ran.stderr.strip()[-300:]}", cwd=cwd)
    return ran.stdout.strip()
