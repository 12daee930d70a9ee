"""A task whose change lands by a pull request: pushed and opened, looked at while it is open, done once merged.

    push     the candidate, to a branch of its own at the remote; a head that is not ours is never pushed over
    open     one pull request for that branch; the task stays held: "waits for the pull request N"
    look     by whoever runs, at most once a minute for each repository: merged, closed, changes wanted
    merged   the forge's merge commit is in the remote's branch: that is what landed

Work begins from the remote's branch, and the person's own branches are never moved.
"""

from __future__ import annotations

import os
import time

from taskpit import fs
from taskpit.landing.forge import Forge
from taskpit.landing.git import ZERO, GitTrouble
from taskpit.landing.values import CANDIDATE, FenceLost, held, opened
from taskpit.policy import PULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.landing.forge import Pull
    from taskpit.landing.pipe import Pipe
    from taskpit.landing.values import HandIn
    from taskpit.task import Card, Claim, Done, Release

__all__ = ["Pulls", "is_open"]

#: Seconds between two looks at one repository's pull requests.
APART = 60.0


def is_open(card: Card | None, handed: HandIn) -> bool:
    """Whether this very candidate waits for its pull request."""
    if card is None or not handed.pr or not card.task.hold.startswith(PULL):
        return False
    told = card.task.extra.get(CANDIDATE)
    return isinstance(told, dict) and told.get("commit") == handed.commit


class Pulls:
    """The pull requests of one pipe."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.git = pipe.git

    def _forge(self, handed: HandIn | None = None) -> Forge:
        place = self.pipe.repository
        return Forge(place.remote().url, place.folder, handed.pr_command if handed else "")

    # -- opening -----------------------------------------------------------------------------------

    def open(self, claim: Claim, handed: HandIn) -> Release:
        """Pushed, and there is a pull request: the end of the claim, held until that is over."""
        branch = self.pipe.branch_of(handed.task)
        foreign = self._push(handed, branch)
        if foreign:
            where = self.pipe.repository.remote().name
            told = f"the branch {branch} at {where} has a commit that is not this task's, {foreign[:12]}"
            return held(claim.task, handed, [f"{told}; it was not pushed over"])
        pull = self._forge(handed).open(branch, handed.target, " ".join(handed.title.split())[:200], _body(handed))
        return opened(claim.task, self.pipe.note(handed, handed.replace(pr=pull.url or branch, number=pull.number)))

    def _push(self, handed: HandIn, branch: str) -> str:
        """The remote's branch is the candidate; else the foreign commit that is there. What was there must be ours."""
        record = self.pipe.ref("pushed", handed.task)
        there = self.pipe.repository.remote_head(branch)
        if there == handed.commit:
            return ""
        old = self.git.ref(record)
        ours = self.git.read(old).decode().split() if old else []
        if there and there not in ours:
            return there
        if handed.commit not in ours:  # noted first: what a killed push has brought there is known to be ours
            self.git.set(record, self.git.blob("\n".join([*ours, handed.commit]).encode()))
        self.pipe.repository.push(handed.commit, branch, there)
        return ""

    # -- looking -----------------------------------------------------------------------------------

    def look(self, waiting: list[HandIn], *, now: bool = False) -> dict[str, Pull]:
        """How the pull requests of these stand, by task; nothing if somebody has looked within the last minute."""
        asked = [one for one in waiting if one.number]
        if not asked or not (self._may_look() or now):
            return {}
        found = self._forge().look([one.number for one in asked])
        return {one.task: found[one.number] for one in asked if one.number in found}

    def _may_look(self) -> bool:
        """Once a minute, whoever it is; the mark is made before, so that a forge in trouble is asked no oftener."""
        mark = f"{self.pipe.repository.folder}/looked"
        with fs.Flock(f"{mark}.lock"):
            status = fs.status(mark)
            if status is not None and 0 <= time.time() - status.st_mtime < APART:
                return False
            with open(mark, "ab"):
                os.utime(mark)
            return True

    def wanted(self, handed: HandIn, pull: Pull) -> str:
        """What members want changed in this very candidate; empty if nothing. Older words were about older commits."""
        said = [words for commit, words in pull.wanted if commit == handed.commit]
        if not said:
            return ""
        lines = [*said, *self._forge().remarks(pull.number, handed.commit)]
        return f"changes are wanted in {pull.url}\n\n" + "\n".join(f"- {line}" for line in lines if line)

    # -- the end -----------------------------------------------------------------------------------

    def merged(self, claim: Claim, handed: HandIn, commit: str) -> Done:
        """It has landed by this commit, which the remote's branch has; a person's word names none: then by its last."""
        fence = self.pipe.take_fence(claim)
        line = self.pipe.repository.remote_line(handed.target)
        if not commit:
            commit = handed.commit if self.git.is_ancestor(handed.commit, line) else line
        elif not self.pipe.repository.knows(commit) or not self.git.is_ancestor(commit, line):
            raise GitTrouble(f"{commit[:12]}, by which {handed.pr} was merged, is not on {handed.target} at the remote")
        name = self.pipe.ref("land", handed.task)
        was = self.git.ref(name)
        if was != commit and not self.git.move(name, commit, was or ZERO, fence=fence):
            raise FenceLost(f"another worker has taken over the landing of {handed.task}")
        return self.pipe.sealed(handed, commit)

    def closed(self, claim: Claim, handed: HandIn) -> Release:
        """A person must say what now: approving it opens another one."""
        handed = self.pipe.note(handed, handed.replace(pr="", number=0, approved=""))
        return held(claim.task, handed, ["its pull request was closed without being merged"])


def _body(handed: HandIn) -> str:
    lines = [f"Task: {handed.task}", ""]
    if handed.evidence is not None:
        lines += [f"`{handed.evidence.command}` is {'green' if handed.evidence.green else 'red'} on this commit.", ""]
    words = handed.output.strip()[:8000].splitlines()
    return "\n".join([*lines, *(["In its worker's words:", ""] if words else []), *(f"> {line}" for line in words), ""])
