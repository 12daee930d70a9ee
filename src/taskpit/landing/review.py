"""What waits for a look: its diff, and the word of a person or a reviewer. Surfaces call this; it prints nothing.

An approval names the candidate it saw and is noted in our own repository, where no agent writes: editing a task's file
approves nothing. Who built a candidate cannot approve it.
"""

from __future__ import annotations

import os

from taskpit import fs, workers
from taskpit.errors import Conflict, Invalid, NotFound, TaskpitError
from taskpit.landing.candidate import runner_files
from taskpit.landing.values import CANDIDATE, Terms, held, name_of
from taskpit.model import Count, Release, State, Text, Value, Want
from taskpit.policy import LANDING, PULL, REVIEW, REVIEWER
from taskpit.queue import cards
from taskpit.trust import state_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from taskpit.landing.pipe import LandingPipe
    from taskpit.landing.values import HandIn
    from taskpit.model import Card, Claim, Task
    from taskpit.queue import Queue

#: The longest diff that is shown, in bytes.
LONGEST_DIFF = 4 * 1024 * 1024
#: How the hold of a task begins whose candidate waits in a repository.
WAITS = (REVIEW, LANDING, PULL)
#: How the words of a review begin in its task.
SAID = "**Review** ("
#: What to do where changes wait for a reviewer agent and there is none.
NO_REVIEWER = "`pit work --reviewer AGENT` starts one, `pit review` lets you judge instead"


class ReviewComment(Value, frozen=True, kw_only=True):
    """A remark about one line of a candidate."""

    path: Text
    #: In the candidate's own numbers, from 1; 0 is the file as a whole.
    line: Count = 0
    text: Text


class FileDiff(Value, frozen=True, kw_only=True):
    """One file of a candidate."""

    path: str
    #: A: new, M: changed, D: gone, T: another kind of thing.
    letter: str
    added: int
    removed: int


class OpenWork(Value, frozen=True, kw_only=True):
    """What of a queue's work has not come to rest."""

    #: Ids that wait for a person's look, for a reviewer agent, and to be landed.
    review: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()
    landing: tuple[str, ...] = ()
    #: Ids whose pull requests are open.
    pulls: tuple[str, ...] = ()
    #: Branches that are behind what landed on them, as sentences.
    behind: tuple[str, ...] = ()
    #: What waits for a repository that is not where it was, as sentences.
    stranded: tuple[str, ...] = ()
    #: Clones whose tasks are over.
    kept: tuple[str, ...] = ()
    #: Whether a reviewer agent is there.
    reviewer: bool = False

    def sentences(self) -> list[str]:
        """For people."""
        lines = [f"{_wait(self.review)} for review: `pit review`"] if self.review else []
        if self.judged:
            none = "" if self.reviewer else f", and none runs: {NO_REVIEWER}"
            lines.append(f"{_wait(self.judged)} for a reviewer agent{none}")
        lines += [f"{_wait(self.landing)} for landing: the next `pit work` does that"] if self.landing else []
        lines += [f"{_wait(self.pulls)} for a pull request"] if self.pulls else []
        return [
            *lines,
            *self.stranded,
            *self.behind,
            *(f"{path.rpartition('/')[2]} is over, and its clone is kept: {path}" for path in self.kept),
        ]


def _wait(ids: Sequence[str]) -> str:
    return f"{len(ids)} {'waits' if len(ids) == 1 else 'wait'}"


def pipes(queue: Queue) -> list[LandingPipe]:
    """The repositories of this machine in which tasks of this queue have landed or wait."""
    return _repositories(queue)[0]


def _repositories(queue: Queue) -> tuple[list[LandingPipe], list[str]]:
    """Those of this queue that are there, and where others were that are not."""
    place = state_path("landing")
    names = fs.names(place)
    if not names:
        return [], []
    from taskpit.landing.pipe import LandingPipe, queue_key  # a look at a queue whose tasks do not land does without
    from taskpit.landing.repository import Repository

    key = queue_key(queue)
    found, gone = [], []
    for name in names:
        folder = f"{place}/{name}"
        if not os.path.exists(f"{folder}/queues/{LandingPipe.digest(key)}"):
            continue
        top = "(where is not known)"
        try:
            top = fs.read(f"{folder}/repository", 8192)[0].decode("utf-8", "surrogateescape").strip()
            repository = Repository(top)
        except (OSError, TaskpitError):
            gone.append(top)  # it was moved or removed; what is in ours stays
            continue
        if repository.folder == folder:
            found.append(LandingPipe(repository, key, Terms(check_limit=queue.config.check_limit)))
        else:
            gone.append(top)
    return found, gone


def _stranded(found: Sequence[LandingPipe], gone: Sequence[str], ids: Sequence[str]) -> list[str]:
    """What waits for a repository that is not where it was."""
    lost = [one for one in ids if not any(pipe.hand_in_of(one) for pipe in found)] if gone else []
    if not lost:
        return []
    wait = f"{', '.join(lost)} {'waits' if len(lost) == 1 else 'wait'}"
    return [f"{wait} for a repository that was moved away: put it back at {' or '.join(gone)}"]


def find(queue: Queue, task_id: str) -> tuple[LandingPipe, HandIn]:
    """What was handed in for this task and has not come to an end, and where."""
    found, gone = _repositories(queue)
    for pipe in found:
        handed = pipe.hand_in_of(task_id)
        if handed is not None:
            return pipe, handed
    candidate = queue.card(task_id).task.extra.get(CANDIDATE)
    if isinstance(candidate, dict) and candidate.get("host") not in (None, workers.host()):
        raise NotFound(f"the candidate of {task_id} is on {candidate['host']}", hint="Look there.", id=task_id)
    if candidate is not None and gone:
        hint = "Nothing is lost: what was handed in is kept, and goes on once the repository is there again."
        raise NotFound(_stranded(found, gone, [task_id])[0], hint=hint, id=task_id)
    raise NotFound(
        f"{task_id} has no change that waits for review", hint=f"`pit why {task_id}` says where it is.", id=task_id
    )


def landed(queue: Queue, task_id: str) -> str:
    """The commit of a task that has landed and is not sealed yet; empty if it has not landed."""
    return next(filter(None, (pipe.landed(task_id) for pipe in pipes(queue))), "")


def waiting(queue: Queue) -> list[Card]:
    """Tasks that wait for a look, those for a person first."""
    found = [card for card in cards(queue.store, State.READY, tied=True) if card.task.hold.startswith(REVIEW)]
    return sorted(found, key=lambda card: card.task.hold.startswith(REVIEWER))


def standing(queue: Queue) -> OpenWork:
    """What of this queue's work has not come to rest. Changes nothing; costs nothing where nothing ever landed."""
    found, gone = _repositories(queue)
    if not found and not gone:
        return OpenWork()
    ready = [card.task for card in cards(queue.store, State.READY, tied=True) if card.task.hold]
    judged = tuple(task.id for task in ready if task.hold.startswith(REVIEWER))
    return OpenWork(
        review=tuple(task.id for task in ready if task.hold.startswith(REVIEW) and task.id not in judged),
        judged=judged,
        reviewer=bool(judged) and any(pipe.has_reviewer() for pipe in found),
        landing=tuple(task.id for task in ready if task.hold.startswith(LANDING)),
        pulls=tuple(task.id for task in ready if task.hold.startswith(PULL)),
        stranded=tuple(_stranded(found, gone, [task.id for task in ready if task.hold.startswith(WAITS)])),
        behind=tuple(line for pipe in found for line in _behind(pipe)),
        kept=tuple(path for pipe in found for path in _kept(queue, pipe)),
    )


def _behind(pipe: LandingPipe) -> list[str]:
    try:
        return pipe.behind()
    except (TaskpitError, OSError) as error:  # the rest of the queue is shown all the same
        return [f"what landed cannot be read in {pipe.repository.top}: {' '.join(str(error).split())[:300]}"]


def _kept(queue: Queue, pipe: LandingPipe) -> list[str]:
    """Clones of tasks that are over: what failed may still be of use, so they stay until a person looks."""
    ids = pipe.clones.names()
    known = zip(ids, queue.store.read(ids), strict=True)
    return [pipe.workspace(one) for one, card in known if card is None or card.state in (State.DONE, State.FAILED)]


def prune(queue: Queue) -> list[str]:
    """Candidates of tasks that have been over for long are gone; their ids. What an open task needs stays."""
    before, found = queue.clock.now() - queue.config.keep_candidates, []
    for pipe in pipes(queue) if queue.config.keep_candidates else ():
        old = pipe.candidates(before)
        known = dict(zip(old, queue.store.read(old), strict=True))
        over = [one for one, card in known.items() if card is None or (card.result and card.result.finished < before)]
        gone = [one for one in over if one not in _needed(queue)] if over else []
        if gone:
            pipe.prune(gone)
        found += gone
    return found


def _needed(queue: Queue) -> set[str]:
    opened = (card for state in (State.READY, State.CLAIMED) for card in cards(queue.store, state, tied=True))
    return {need for card in opened for need in card.task.needs}


# -- the diff --------------------------------------------------------------------------------------


def diff(pipe: LandingPipe, base: str, commit: str) -> str:
    """The change as a unified diff, by nobody's configuration."""
    words = (
        "diff-tree",
        "-p",
        "-r",
        "-M",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--full-index",
        base,
        commit,
    )
    out = pipe.git.run(*words).out
    cut = f"\n[cut here: {len(out)} bytes]\n" if len(out) > LONGEST_DIFF else ""
    return out[:LONGEST_DIFF].decode("utf-8", "replace") + cut


def files(pipe: LandingPipe, base: str, commit: str) -> list[FileDiff]:
    """Which files it changes, and by how many lines."""
    return [
        FileDiff(path=one.name, letter=one.letter, added=one.added, removed=one.removed)
        for one in pipe.files.changes(base, commit)
    ]


def read_by_test_runners(pipe: LandingPipe, base: str, commit: str) -> list[str]:
    """Return the new files of a candidate that a test runner reads by itself."""
    return runner_files(pipe.files.changes(base, commit))


def candidate(queue: Queue, task_id: str) -> tuple[LandingPipe, str, str]:
    """Base and commit of the last candidate of a task, also once it has landed."""
    found, gone = _repositories(queue)
    for pipe in found:
        commit = pipe.git.ref(pipe.ref("cand", task_id))
        if commit:
            return pipe, pipe.git.say("rev-parse", "--verify", f"{commit}^"), commit
    if gone:
        message = f"if there is a candidate of {task_id}, its repository is not at {' or '.join(gone)} any more"
        raise NotFound(message, hint="Move the repository back there.", id=task_id)
    raise NotFound(
        f"there is no candidate of {task_id} here", hint=f"`pit show {task_id}` says where it is.", id=task_id
    )


# -- a verdict -------------------------------------------------------------------------------------


def approve(
    queue: Queue, task_id: str, worker: str, commit: str = "", despite: Sequence[str] = ()
) -> tuple[LandingPipe, HandIn]:
    """Let a candidate land. `commit` is the candidate that was seen: a newer one is refused.

    `despite` names the reasons that speak against it. Conflict if one is missing.
    """
    pipe, handed = find(queue, task_id)
    card = queue.card(task_id)
    if card.state is not State.READY or not card.task.hold.startswith((REVIEW, LANDING)):
        raise Conflict(f"{task_id} does not wait for review", hint=f"See `pit why {task_id}`.", id=task_id)
    if commit and not handed.commit.startswith(commit):
        message = f"{task_id} has a newer candidate, {handed.commit[:12]}, than the one you saw"
        raise Conflict(message, hint=f"`pit review {task_id}` shows it.", id=task_id, commit=handed.commit)
    missing = [reason for reason in handed.despite if reason not in despite]
    if missing:
        words = " ".join(f"--despite {reason}" for reason in missing)
        raise Conflict(
            f"{task_id} needs a second look: {'; '.join(handed.questions)}",
            hint=f"If that is right: `pit review {task_id} --approve {words}`.",
            id=task_id,
            despite=missing,
        )
    if workers.base(worker) == workers.base(handed.worker):
        raise Invalid(f"{task_id} was built by {workers.base(worker)}, who cannot approve it", id=task_id)
    approved = pipe.approve(handed, worker)

    def change(task: Task) -> Task:
        waiting = held(task, approved).task
        if not task.hold.startswith((REVIEW, LANDING)) or waiting is None:
            raise Conflict(f"{task_id} does not wait for review", id=task_id)
        return waiting

    queue.edit(task_id, worker, change, "approved", f"candidate {handed.commit[:12]}")
    return pipe, approved


def send_back(queue: Queue, task_id: str, worker: str, text: str, comments: Sequence[ReviewComment] = ()) -> Task:
    """The same agent goes on with what is said here in its task; no attempt is spent."""
    if not text.strip() and not comments:
        raise Invalid("say what should be different", id=task_id)
    pipe, handed = find(queue, task_id)
    message = words(pipe, handed, worker, text, comments)

    def change(task: Task) -> Task:
        if not task.hold.startswith((REVIEW, LANDING, PULL)):
            raise Conflict(f"{task.id} does not wait for review", hint=f"See `pit why {task.id}`.", id=task.id)
        return without_candidate(task, message)

    changed = queue.edit(task_id, worker, change, "sent_back", " ".join(message.split())[:300])
    pipe.forget(task_id, approval=True)
    return changed


def words(pipe: LandingPipe, handed: HandIn, worker: str, text: str, comments: Sequence[ReviewComment]) -> str:
    """What its builder reads; Invalid if a comment is about what is not there."""
    lines = [f"{SAID}{workers.base(worker)}) of {handed.commit[:12]}: {text.strip()}".rstrip(" :"), ""]
    for one in comments:
        place = f"`{one.path}:{one.line}`" if one.line else f"`{one.path}`"
        line = quoted(pipe, handed, one)
        lines += [f"- {place}: {' '.join(one.text.split())}", *([f"  > {line}"] if line else [])]
    return "\n".join(lines).rstrip() + "\n"


def without_candidate(task: Task, told: str) -> Task:
    """The task as its builder goes on with it, these words below it."""
    extra = {key: value for key, value in task.extra.items() if key != CANDIDATE}
    return task.replace(hold="", extra=extra, body=f"{task.body.rstrip()}\n\n{told}".lstrip())


def remarks(pipe: LandingPipe, handed: HandIn, text: str) -> tuple[str, list[ReviewComment]]:
    """What a person wrote, and out of it the lines `file:line: text` about files that the candidate has."""
    paths = {one.path for one in files(pipe, handed.base, handed.commit) if one.letter != "D"}
    rest, comments = [], []
    for line in text.splitlines():
        place, found, said = line.strip().partition(": ")
        path, _, number = place.rpartition(":")
        if found and said.strip() and path in paths and number.isascii() and number.isdecimal():
            comments.append(ReviewComment(path=path, line=int(number[:9]), text=said))
        else:
            rest.append(line)
    return "\n".join(rest), comments


def quoted(pipe: LandingPipe, handed: HandIn, comment: ReviewComment) -> str:
    """The line that is meant, as it stands in the candidate; Invalid if there is none."""
    ran = pipe.git.run("cat-file", "blob", f"{handed.commit}:{comment.path}", ok=(0, 128))
    if ran.code:
        raise Invalid(f"there is no file {comment.path} in the candidate of {handed.task}", path=comment.path)
    rows = ran.out.decode("utf-8", "replace").splitlines()
    if comment.line > len(rows):
        raise Invalid(f"{comment.path} has {len(rows)} lines, not {comment.line}", path=comment.path)
    return rows[comment.line - 1].strip()[:200] if comment.line else ""


def take_over(queue: Queue, task_id: str, worker: str) -> tuple[Claim, str]:
    """The task is this person's, and its candidate is on a branch of theirs: the claim and the branch."""
    pipe, _ = find(queue, task_id)
    want = Want(worker=worker, lease=queue.config.lease_of("human"), ids=(task_id,), even_held=True, verbatim=True)
    claims = queue.store.claim(want)
    if not claims:
        raise Conflict(f"{task_id} cannot be had just now", hint=f"See `pit why {task_id}`.", id=task_id)
    try:
        return claims[0], pipe.repository.give(pipe.ref("cand", task_id), f"pit/{name_of(task_id)}")
    except BaseException:
        queue.finish(claims[0], Release(reason="its change could not be brought onto a branch"))
        raise
