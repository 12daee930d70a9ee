"""The values of landing: how work lands, what was handed in, and what can be in the way. Touches nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

from taskpit import decode, ids, workers
from taskpit.decode import read_json
from taskpit.errors import Invalid, TaskpitError
from taskpit.model import Count, Evidence, Fields, LongText, Release, Seconds, Text, Texts, Value
from taskpit.policy import LANDING, PULL, REVIEW
from taskpit.rules import check_mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from taskpit.model import Task

#: How a task's change may land, and who may have to look first.
LANDS = ("none", "branch", "merge", "pr")
REVIEWS = ("none", "person", "agent")
#: The same, each asking for more than the one before.
STRICTER = ("none", "agent", "person")
#: The field of a held task that tells of its candidate.
CANDIDATE = "candidate"
#: Fields by which a task says otherwise than its pool.
OWN = ("land", "onto", "setup", "review", "frozen")
#: So many paths are named in a sentence.
FEW = 10
#: How much of a hand-in is read back.
LARGEST_HAND_IN = 8 * 1024 * 1024


class Hands(Protocol):
    """Whoever runs commands for the pipe, and hears what it does."""

    def run(self, command: str, directory: str, limit: float, log: str = "", env: Sequence[str] = ()) -> Evidence:
        """What a command showed; its output is in the file `log`, if one is named. Stopped: it was told to stop.

        It sees the variables that every program needs, and those that are like a pattern in `env`.
        """

    def say(self, text: str) -> None:
        """A step was done."""


#: What means nothing where nothing lands; for a pool and in a crew's file.
HOW_IT_LANDS = ("onto", "setup", "setup_key", "copy", "land_check", "pr_command", "review", "frozen", "merge")


class Terms(Value, frozen=True, kw_only=True):
    """How the work of a task lands."""

    land: Text = "none"
    #: The branch it lands on, or begins from.
    onto: Text = ""
    #: The command that makes a fresh clone ready, and how long it may take.
    setup: Text = ""
    setup_limit: Seconds = 900.0
    #: Files that decide what the set-up makes: while they are the same, what it made is copied instead.
    setup_key: Texts = ()
    #: Files of the person's checkout that no commit has and every clone needs.
    copy: Texts = ()
    #: Patterns of further variables that set-up and checks may see: they run what an agent wrote.
    env: Texts = ()
    #: What must be green, beside the task's own check, on what would land.
    land_check: Text = ""
    check_limit: Seconds = 600.0
    review: Text = "none"
    #: Tags of tasks whose changes a person looks at, whatever `review` says.
    review_tags: Texts = ()
    #: Path globs that are the target's in what is checked and landed, whatever the agent did to them.
    frozen: Texts = ()
    #: Opens a pull request where neither `gh` nor `glab` does; run without a shell.
    pr_command: Text = ""
    #: The queue is on another machine: what is on a branch of this one alone has landed nowhere.
    away: bool = False

    def of(self, task: Task) -> Terms:
        """The same, as this task says otherwise; Invalid if it says something else."""
        own = {key: task.extra[key] for key in OWN if key in task.extra}
        for key, words in (("land", LANDS), ("review", REVIEWS)):
            if key in own and own[key] not in words:
                raise Invalid(f"{task.id}: {key} is one of {', '.join(words)}, not {own[key]!r}", id=task.id)
        if "frozen" in own:
            globs = own["frozen"] if isinstance(own["frozen"], list | tuple) else str(own["frozen"]).split(",")
            own["frozen"] = tuple(str(glob).strip() for glob in globs if str(glob).strip()) + self.frozen
        pool = "person" if set(task.tags) & set(self.review_tags) else self.review
        own["review"] = max(own.get("review", pool), pool, key=STRICTER.index)  # a task may ask for more, never less
        if own.get("land") == "none" and pool != "none":  # it would work in the checkout, past every look
            raise Invalid(f"{task.id}: land none leaves out the review that its pool asks for", id=task.id)
        if not all(isinstance(own[key], str) for key in own.keys() - {"frozen"}):
            raise Invalid(f"{task.id}: land, onto, setup and review are texts", id=task.id)
        return self.replace(**own)


def spelled(*, worktree: bool, merge: str) -> str:
    """How work lands that is asked for by the older words."""
    return "none" if not worktree else "merge" if merge == "ff" else "branch"


class HandIn(Terms, frozen=True, kw_only=True):
    """A candidate with how it lands and all else that landing it needs, so that nobody has to ask its agent again."""

    task: Text
    title: Text
    #: The task that its landing seals, where a racer handed it in; else it is the task's own.
    parent: Text = ""
    commit: Text
    base: Text
    tree: Text
    #: The branch it lands on: `onto`, or one of its own.
    target: Text
    #: The check at the time of the claim, and whether it was run green on `tree`.
    check: Text = ""
    green: bool = False
    #: Its pool runs no checks, whatever its task asks for.
    unchecked: bool = False
    #: Why a person must look, whatever `review` says.
    questions: Texts = ()
    #: The reasons that an approval has to name: secret, conflict, link, starter, attributes.
    despite: Texts = ()
    #: Frozen paths that the agent changed, which stay as they are in the target.
    left_out: Texts = ()
    #: Who has approved this very candidate.
    approved: Text = ""
    #: The address of its pull request once there is one, and its number where a forge can be asked about it.
    pr: Text = ""
    number: Count = 0
    #: The fence of the claim that brought it, and the agent's own words.
    worker: Text = ""
    attempt: Count = 1
    output: LongText = ""
    #: What must be known about how it ended, beside that it is done.
    reason: Text = ""
    evidence: Evidence | None = None
    cost: Fields = {}
    seconds: Seconds = 0.0
    log: Text = ""
    files: Count = 0
    added: Count = 0
    removed: Count = 0

    def dump(self) -> bytes:
        """As a blob."""
        fields = {**self.as_dict(), "evidence": self.evidence.as_dict() if self.evidence else None}
        return json.dumps(fields).encode()

    @classmethod
    def load(cls, data: bytes) -> HandIn:
        """Read again; ValueError or Invalid if it is none."""
        fields = read_json(data) if len(data) <= LARGEST_HAND_IN else None
        return decode.convert(fields, cls)

    @property
    def seals(self) -> str:
        """The task that is done once this has landed."""
        return self.parent or self.task

    @property
    def may_land(self) -> bool:
        """Whether nobody must look at it any more."""
        return bool(self.approved) or (self.review == "none" and not self.questions)

    def outdated(self, task: Task) -> str:
        """Which of the things that its task asks for is another now than when this was handed in; empty if none is."""
        asked = {key: task.extra[key] for key in ("land", "onto") if key in task.extra}
        if check_mode(task) == "strict" and not self.unchecked:
            asked["check"] = task.check
        return ", ".join(sorted(key for key, value in asked.items() if value != getattr(self, key)))

    def summary(self) -> dict[str, object]:
        """What is told beside the task."""
        return {
            "commit": self.commit,
            "onto": self.target,
            "files": self.files,
            "added": self.added,
            "removed": self.removed,
            "host": workers.host(),
            **({"left_out": list(self.left_out)} if self.left_out else {}),
            **({"log": self.log} if self.log else {}),
        }


class Waits(TaskpitError):
    """A person must do something before this task can be worked on."""

    code = "waits"


class SetupFailed(TaskpitError):
    """The set-up command was red: nothing the task did."""

    code = "setup"


class Stopped(Exception):
    """No error: the worker was asked to stop in the middle of it, and gives its claim back."""

    def __init__(self) -> None:
        super().__init__("its worker was asked to stop")


class FenceLost(TaskpitError):
    """Another worker lands this task now."""

    code = "fence"


def frozen_edits(paths: Sequence[str]) -> str:
    """Return a sentence about edits to frozen paths, which were left out of a candidate; empty if there were none."""
    more = f" and {len(paths) - FEW} more" if len(paths) > FEW else ""
    return f"edits to frozen paths were left out: {', '.join(paths[:FEW])}{more}" if paths else ""


def held(task: Task, handed: HandIn, questions: Sequence[str] = (), why: str = "") -> Release:
    """The end of a claim whose candidate waits: for a person or a reviewer, or to be landed."""
    if questions:
        hold = f"{REVIEW} by a person: {'; '.join(questions)}"
    elif handed.review != "none" and not handed.approved:
        who = "a person" if handed.review == "person" else "an agent"
        count = "1 file" if handed.files == 1 else f"{handed.files} files"
        hold = f"{REVIEW} by {who}: {count}, +{handed.added} -{handed.removed}{f'; {why}' if why else ''}"
    else:
        hold = f"{LANDING} on {handed.target}"
    extra = {**task.extra, CANDIDATE: handed.summary()}
    hold = " ".join(hold.split())[:700]
    return Release(reason=hold, task=task.replace(hold=hold, extra=extra, last_error=""), action="handed_in")


def opened(task: Task, handed: HandIn) -> Release:
    """The end of a claim whose candidate waits for its pull request, or for a person to say that it was merged."""
    if handed.number:
        hold = f"{PULL} {handed.number}: {handed.pr}"
    else:
        hold = f"{PULL}, which you confirm (`pit review {task.id} --approve` once it is merged): {handed.pr}"
    extra = {**task.extra, CANDIDATE: {**handed.summary(), "pr": handed.pr}}
    return Release(reason=hold, task=task.replace(hold=hold, extra=extra, last_error=""), action="pull_request")


def name_of(task_id: str) -> str:
    """The id as part of a ref, where a dot may mean something."""
    return ids.word(task_id).replace(".", "=")
