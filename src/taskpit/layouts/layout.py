"""What a layout is: which path and which bytes stand for a task in a state. Pure; touches no disk."""

from __future__ import annotations

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Protocol

from taskpit.clock import stamp
from taskpit.errors import Invalid
from taskpit.ids import ALNUM, LONGEST_WORD, is_word, path_of
from taskpit.model import Result, State, Task, Value, Verdict

__all__ = ["Layout", "Named", "Spot", "check_word", "is_word", "is_worker", "slugify"]

#: A worker's name, and what a pool adds to make one claim unique.
OF_WORKERS = f"{ALNUM}_@+-"
OF_NONCES = "abcdefghijklmnopqrstuvwxyz0123456789"
#: Each byte as it stands in a slug: what is none of these is a dash.
_DASHED = bytes(byte if chr(byte) in OF_NONCES else 45 for byte in range(256))
LONGEST_WORKER = 72
#: Bytes a ready file's name may have, so that a worker's name fits before it and a suffix after.
LONGEST_NAME = 160
#: What a file that is no task begins with, whatever the layout.
NEVER = (".", "README", "readme")


class Named(Protocol):
    """What a file is called after: a task, or as much of it as another name told."""

    @property
    def id(self) -> str: ...  # noqa: D102 - as a task has them
    @property
    def slug(self) -> str: ...  # noqa: D102


class Spot(Value, frozen=True, kw_only=True):
    """What a file's name says: whose file it is and in which state."""

    state: State
    id: str
    slug: str = ""
    worker: str = ""
    verdict: Verdict | None = None
    #: Relative to the queue's root.
    path: str = ""


class Layout(ABC):
    """Names and spellings of one kind of folder. Subclasses say how; none of them touches a disk.

    Every layout has ids and texts, and cannot be made without them. Names of files only those have whose tasks are
    files of their own; nobody asks the others for any.
    """

    name = ""
    #: Every visible directory, made by `init`.
    folders: tuple[str, ...] = ()
    #: Where ready and claimed tasks and results lie; several states may share a directory.
    ready = ""
    claimed = ""
    results: tuple[str, ...] = ()
    #: Where temporary files lie.
    tmp = ".taskpit/tmp"
    #: Where working logs go, and the file that keeps their digest once they are pruned.
    logs = ".taskpit/logs"
    digest = ".taskpit/logs/DIGEST.md"
    #: An index of all tasks that others read; derived from the names, empty where there is none.
    manifest = ""
    #: Where FIFOs between agents lie; empty where there are none.
    pipes = ""
    #: Where reclaims are noted for people to read; empty is nowhere.
    reclaims = ""
    #: Claimed files have one fixed name, with the holder inside: every verb on an id then runs under a lock.
    guarded = False
    #: Others rewrite this layout's files and drop what they don't know: originals are copies, not links.
    rewritten = False
    #: A result may leave its place when it is old; not where an index that others read says where it is.
    archives = False
    #: Others remove old results here, by a retention of their own that counts in days.
    prunes = False
    #: A ready file's name has more in it than the id, so two of them can claim to be the same task.
    slugged = False
    #: How the name of a text ends that is taken for a task when it is dropped among the ready ones; empty: none is.
    takes_in = ""
    #: Settings that differ from the queue's own defaults here.
    defaults: Mapping[str, object] = {}
    #: What this layout's own documents call our errors, by code.
    error_names: Mapping[str, str] = {}

    def check_id(self, text: str) -> str:
        """The id, if this layout's names can carry it; Invalid says why not. Names here begin with the id."""
        if check_word(text, "id").startswith(NEVER):
            raise Invalid(f"id {text!r} is not allowed: files called {text[:6]}* are never tasks", text=text)
        return text

    def check_worker(self, text: str) -> str:
        """The worker's name, if file names can carry it: without a dot, which ends it in a pit."""
        return check_worker(text)

    @abstractmethod
    def new_id(self, number: int) -> str:
        """The id we give to the task with this number."""

    @abstractmethod
    def number(self, text: str) -> int:
        """The number behind an id of ours; 0 for ids that others made up."""

    def like(self, old: str) -> Iterator[str]:
        """Ids like this one, first those that look most like it; the last kind fits everywhere, some day."""
        stem = re.sub(r"[^A-Za-z0-9.]+", "_", old).strip("._") or "task"
        for text in (stem, re.sub(r"[._]+", ".", stem)):
            yield text[:60]
            yield from (f"{text[:56]}.{number}" for number in range(2, 10))
        yield from (f"task.{re.sub(r'[^A-Za-z0-9]+', '.', stem)[:48]}.{number}" for number in itertools.count(1))

    def first_number(self, now: float) -> int:  # noqa: ARG002 - some number by the clock
        """The lowest number to give to a new task."""
        return 1

    def spot(self, folder: str, file: str) -> Spot | None:
        """What a directory entry is; None if it is none of ours. Invalid: it wants to be a task and can't."""
        raise NotImplementedError

    def is_others(self, file: str) -> bool:  # noqa: ARG002 - most share no folder with tasks that are not theirs
        """Whether what lies among the ready tasks under a name that is none of ours is another program's task."""
        return False

    def state_in(self, folder: str, file: str) -> State | None:
        """In which state the task of a directory entry is, for counting: None if it is no task that can be."""
        spot = self._said(folder, file)
        return spot.state if spot is not None else None

    def ready_id(self, file: str) -> str | None:
        """The id in a ready task's name; empty if it is none's. None: it wants to be one and can't."""
        try:
            spot = None if file.startswith(NEVER) or file.endswith("~") else self.spot(self.ready, file)
        except Invalid:
            return None
        return spot.id if spot is not None and spot.state is State.READY else ""

    def ended_id(self, folder: str, file: str) -> str:
        """The id in the name of a result, cheaply; empty if it has none. Only `spot` knows whether it is one."""
        spot = self._said(folder, file)
        return spot.id if spot is not None and spot.verdict is not None else ""

    def _said(self, folder: str, file: str) -> Spot | None:
        """What a directory entry is; None also if it wants to be a task and can't."""
        try:
            return None if file.startswith(NEVER) or file.endswith("~") else self.spot(folder, file)
        except Invalid:
            return None

    def named(self, task: Task) -> Task:
        """The task with what its file's name needs besides the id."""
        return task.replace(slug=slugify(task.title)) if self.slugged and not task.slug else task

    def ready_path(self, task: Named) -> str:
        """Where the task lies while it is ready."""
        raise NotImplementedError

    def claimed_path(self, task: Named, worker: str) -> str:
        """Where it lies while this worker has it."""
        raise NotImplementedError

    def result_path(self, task: Task, verdict: Verdict, again: str = "") -> str:
        """Where its result lies; `again` makes another name when the plain one is taken."""
        raise NotImplementedError

    def finished_paths(self, task: Named) -> tuple[str, ...]:
        """Files whose presence says that the task has ended, whichever program wrote them."""
        raise NotImplementedError

    def result_of(self, spot: Spot) -> str:
        """Where the result of a finished task lies, given the entry that says so."""
        return spot.path

    def ended_path(self, task: Named, verdict: Verdict) -> str:  # noqa: ARG002 - most keep nothing
        """Where the task's own file lies once it is finished; empty if it is gone then."""
        return ""

    def note_path(self, task: Named, kind: str) -> str:
        """Where a note of this kind about the task lies."""
        return path_of(".taskpit/notes", task.id, f"-{kind}.md")

    def log_path(self, worker: str, when: float) -> str:
        """Where this worker's log of that time lies."""
        return f"{self.logs}/{worker}-{stamp(when)}.log"

    @abstractmethod
    def load(self, spot: Spot, data: bytes, beside: bytes = b"") -> Task:
        """The task in these bytes, and in what is kept beside them; Invalid says what is wrong."""

    @abstractmethod
    def dump(self, task: Task) -> bytes:
        """The task's bytes; what was not changed since it was read is as it was."""

    def dump_sure(self, task: Task) -> bytes | None:  # noqa: ARG002 - most must try
        """Its bytes, if name and bytes are known to be read again as they are meant, without trying."""
        return None

    def beside(self, task: Task) -> bytes:  # noqa: ARG002 - most keep all of it inside
        """What must be kept beside the task's file, since others drop it from inside; empty if nothing."""
        return b""

    def with_field(self, task: Task, key: str, text: str) -> Task:
        """The task with one field of the layout's own schema set from text; Invalid if it can't be."""
        return task.replace(extra={**task.extra, key: text})

    def claimed_bytes(self, task: Task, worker: str, now: float) -> bytes:  # noqa: ARG002 - most tell by name
        """The task's bytes while it is claimed; empty if they are the same."""
        return b""

    def holder(self, data: bytes) -> str:  # noqa: ARG002 - most tell by name
        """Who has a claimed file, where its name does not say."""
        return ""

    def load_result(self, spot: Spot, data: bytes) -> tuple[Result, Task | None]:
        """The result in these bytes, and the task whose text it keeps."""
        raise NotImplementedError

    def dump_result(self, task: Task, result: Result) -> bytes:
        """The result's bytes."""
        raise NotImplementedError


def check_word(text: str, what: str) -> str:
    """The text, if it may stand in a file name on any layout; Invalid says why not."""
    if not text:
        raise Invalid(f"the {what} is empty")
    if len(text.encode("utf-8", "replace")) > LONGEST_WORD:
        raise Invalid(f"the {what} is {len(text)} characters long; {LONGEST_WORD} is the most", text=text)
    if not is_word(text):
        raise Invalid(
            f"{what} {text!r} is not allowed",
            hint="Use letters, digits, dot, underscore and dash, beginning with a letter or digit.",
            text=text,
        )
    return text


def check_worker(text: str) -> str:
    """The text, if a worker may be called this on any layout; Invalid says why not."""
    if len(text) > LONGEST_WORKER or not is_worker(text):
        raise Invalid(
            f"worker name {text!r} is not allowed",
            hint="Use letters, digits, dash, underscore and @, beginning with a letter or digit; no dot.",
            text=text,
        )
    return text


def is_worker(text: str) -> bool:
    """Whether a worker may be called this, with or without what makes one claim of it unique."""
    name, mark, nonce = text.partition("~")
    named = bool(name) and name[0] in ALNUM and not name.strip(OF_WORKERS)
    return named and (not mark or (bool(nonce) and not nonce.strip(OF_NONCES)))


def slugify(title: str, longest: int = 40) -> str:
    """The readable part of a file name: `Fix the login!` becomes `fix-the-login`."""
    dashed = title.lower().encode("ascii", "replace").translate(_DASHED).decode()
    words = "-".join(filter(None, dashed.split("-")))
    if len(words) > longest:
        words = words[: longest + 1].rpartition("-")[0] or words[:longest]
    return words or "task"
