"""What has landed on a branch, and the person's branch: how both come together. Makes commits, moves no ref.

    ours     the line: what the person's branch was, and what has landed since
    theirs   the person's branch as it is now
    seen     the person's branch as the line last had it

Who only adds commits to their branch has them merged. Who resets, amends or rebases it takes commits out, which a merge
would bring back: so what has landed since is made again on their branch, commit by commit, as a rebase does.

A landing is known again by its candidate, which its message names: also where it was made again, by us or by a person.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from taskpit.landing.git import Git, GitTrouble
from taskpit.landing.values import Waits
from taskpit.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.landing.repository import Repository

#: How much is told of the names of files that conflict: the commands come after them.
LONGEST_LIST = 200
#: A commit's candidates in git's words.
CANDIDATES = "%(trailers:key=Candidate,valueonly,separator=%x20)"


class BranchTrouble(GitTrouble, Waits):
    """The person's branch is gone, or git cannot bring it together with the line: a person must do something."""


class Landing(Value, frozen=True, kw_only=True):
    """A commit by which something landed."""

    oid: str
    parent: str
    candidates: tuple[str, ...]
    message: str


def line_of(branch: str) -> str:
    """The ref of what has landed on this branch."""
    return f"refs/pit/line/{branch}"


def up_of(branch: str) -> str:
    """The ref of the person's branch as last seen."""
    return f"refs/pit/up/{branch}"


def have_of(branch: str) -> str:
    """The ref of the person's branch as last fetched."""
    return f"refs/pit/have/{branch}"


def together(repository: Repository, branch: str, ours: str, theirs: str, known: Sequence[str]) -> str:
    """What the line should be; BranchTrouble if a person must say. `known`: their branch as last seen, and as last
    fetched before now. A crash may have come between the line's move and the note of what it was moved to.
    """
    git, seen = repository.git, known[0]
    if not ours or ours == theirs:
        return theirs
    base = next((one for one in known if one and git.is_ancestor(one, ours)), "")
    if base == theirs:
        return ours
    if base == ours:  # all that landed was theirs
        return theirs
    if base and not git.is_ancestor(base, theirs):
        return _made_again(repository, branch, ours, theirs, base)
    if git.is_ancestor(theirs, ours):
        return ours
    if git.is_ancestor(ours, theirs) or (seen and not base and git.is_ancestor(ours, seen)):
        return theirs
    merge = repository.merge(ours, theirs)
    if merge.conflicts or (seen and not base):
        told = f"has commits that conflict with what has landed: {_few(merge.conflicts)}"
        told = told if merge.conflicts else "has parted from what has landed"
        raise _trouble(repository, branch, told, "git merge FETCH_HEAD")
    return git.commit(merge.tree, [ours, theirs], f"Merge {branch}\n")


def _made_again(repository: Repository, branch: str, ours: str, theirs: str, base: str) -> str:
    """The person's branch with all that landed since it was `base`, but for what a person has brought there already."""
    git, new = repository.git, theirs
    brought = {one for _, names in _named(git, theirs, f"^{base}") for one in names}
    for one in _landings(git, ours, base):
        if brought.intersection(one.candidates):
            continue
        beside = git.commit(git.tree_of(new), [one.parent], "beside\n")  # so that only its own change is merged
        merge = repository.merge(beside, one.oid)
        if merge.conflicts:
            told = (
                f"was reset, amended or rebased, and what has landed since conflicts with it: {_few(merge.conflicts)}"
            )
            raise _trouble(
                repository, branch, told, f"git cherry-pick --first-parent --no-merges {base[:12]}..FETCH_HEAD"
            )
        if merge.tree != git.tree_of(new):
            new = git.commit(merge.tree, [new], one.message)
    return new


def landed_as(git: Git, commit: str, line: str) -> str:
    """The commit of the line by which this one has landed: itself, or that which has the same candidate; or none."""
    if git.is_ancestor(commit, line):
        return commit
    wanted = {one for _, names in _named(git, commit, "--no-walk") for one in names}
    return (
        next((oid for oid, names in _named(git, line, f"^{commit}") if wanted.intersection(names)), "")
        if wanted
        else ""
    )


def _named(git: Git, *which: str) -> list[tuple[str, list[str]]]:
    """These commits, each with the candidates that it names."""
    lines = git.say("log", f"--format=%H {CANDIDATES}", *which).splitlines()
    return [(oid, names.split()) for oid, _, names in (line.partition(" ") for line in lines)]


def _landings(git: Git, new: str, old: str) -> list[Landing]:
    """What landed on a line between the two, the oldest first. The person's commits came by merges."""
    words = ("--reverse", "--first-parent", "--no-merges", f"--format=%H%n%P%n{CANDIDATES}%n%B", new, f"^{old}")
    entries = git.run("log", "-z", *words).out.decode("utf-8", "replace").split("\0")
    parts = (entry.split("\n", 3) for entry in entries if entry)
    return [
        Landing(oid=oid, parent=parent, candidates=tuple(names.split()), message=message)
        for oid, parent, names, message in parts
    ]


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5])[:LONGEST_LIST]


def _trouble(repository: Repository, branch: str, told: str, how: str) -> BranchTrouble:
    """In the person's words, with the commands that mend it."""
    fetch = f"git fetch {shlex.quote(repository.git.directory)} {shlex.quote(line_of(branch))}"
    return BranchTrouble(f"{branch} {told}. In {repository.top}, `{fetch}` and `{how}` bring both together")
