"""The queue as programs have it: everything `taskpit.queue.Queue` has, and what makes a program short.

    with Queue.open("pit") as queue:
        queue.add("Fix the login", check="make test")
        with queue.take("me") as job:
            job.output = solve(job.task)    # renewed meanwhile, by a thread
            job.check()                     # where stopping is easy: Lost if another worker has the task by now

Left in good order the task is done, once its own check is green; left by an exception it has failed, with the trace;
left by an interrupt or a cancellation it goes back as it was. A program that takes tasks is a worker that stays: should
it be killed, the next sweep gives its tasks back at once. Knows workers, jobs and the changelog; no terminal.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import wraps
from math import isnan
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from taskpit import access, keeper
from taskpit.clock import Clock
from taskpit.config import Config
from taskpit.decode import convert, several
from taskpit.errors import CheckFailed, CursorLost, Invalid, Lost, Nothing, TaskpitError, Unknown, Untrusted
from taskpit.model import LISTS, Claim, Count, Done, End, Event, Failed, Outcome, Release, Said, Seconds, Task
from taskpit.nonces import own
from taskpit.policy import check_end, checked
from taskpit.queue import Queue as Verbs
from taskpit.rules import check_mode
from taskpit.run.attempt import crashed, end_claim, fate
from taskpit.run.lost import settle
from taskpit.run.pool import Pool
from taskpit.run.pool_options import PoolOptions, PoolReport, Show
from taskpit.run.process import run_check
from taskpit.store.port import Member, Store

if TYPE_CHECKING:
    from taskpit.run.runner import Run, Runner

P = ParamSpec("P")
T = TypeVar("T")
#: Works on a job; a text is the output of a task that is done, nothing is the job's own output.
Handler = Callable[["Job"], str | Outcome | None]

__all__ = ["Job", "Queue"]

#: A watcher looks again after this many seconds, whatever the folder tells.
LOOK_AGAIN = 1.0
#: Who waits for work gives back what others abandoned, this often.
SWEEP_EVERY = 10.0
#: What a worker is called that has no name.
WORKER = "python"
#: A claim is renewed this often in a lease, and after so many seconds at most: a cancelled task stops soon.
RENEWALS, RENEW_AT_MOST = 3, 5.0


def _check_argument(name: str, value: object, kind: Any) -> None:
    """Invalid if this is not of that kind; what is waited may be over already, or without end."""
    if name != "wait":
        convert(value, kind, name)
    elif not isinstance(value, int | float) or isnan(value):
        raise Invalid(f"wait is a number of seconds, not {value!r:.60}", hint="Write wait=60.")


def _checked_first(verb: Callable[P, T], *, judged: str = "", **kinds: Any) -> Callable[P, T]:
    """Return the same verb, which checks the kinds of its arguments before it changes anything.

    With `judged` it raises Denied where the run of this process may not use that verb on the task.
    """
    names = verb.__code__.co_varnames

    @wraps(verb)
    def call(*given: P.args, **named: P.kwargs) -> T:
        said = {**dict(zip(names, given, strict=False)), **named}
        for name, kind in kinds.items():
            if name in said:
                _check_argument(name, said[name], kind)
        if judged:
            queue: Any = said["self"]
            access.need(queue, judged, queue.card(said["task_id"]), os.environ)
        return verb(*given, **named)

    return call


def _edit(
    self: Verbs,
    task_id: str,
    worker: str,
    change: Callable[[Task], Task],
    action: str = "edited_task",
    why: str = "",
) -> Task:
    """Change a ready task. It is claimed for a moment, so that no worker starts on it."""
    before = self.card(task_id)

    def allowed(task: Task) -> Task:
        after = change(task)
        access.need(self, "edit", before, os.environ, after=after)
        return after

    return Verbs.edit(self, task_id, worker, allowed, action, why)


def _answer(self: Verbs, word: str, text: str, worker: str) -> list[str]:
    """Answer every task that waits for this answer: the task of that id, or all with that key."""
    access.need_verb("answer", os.environ)
    return Verbs.answer(self, word, text, worker)


class Queue(Verbs):
    """Tasks in, claims out; and for programs: jobs, pools of functions, and what happens as it happens."""

    def __init__(self, store: Store, config: Config | None = None, clock: Clock | None = None) -> None:
        super().__init__(store, config, clock)
        #: The names under which this process stays, by the names it was told.
        self._members: dict[str, Member] = {}
        self._joining = threading.Lock()
        self._of = own.first

    @classmethod
    def open(cls, path: str | PathLike[str], env: Mapping[str, str] | None = None) -> Self:
        """The queue in this folder, or at this address."""
        return super().open(os.fspath(path), env)

    @classmethod
    def create(cls, path: str | PathLike[str], layout: str | None = None) -> Self:
        """The queue in this folder, made if there is none: a pit, or what the folder looks like."""
        from taskpit.store.opening import init

        init(os.fspath(path), layout)
        return cls.open(os.fspath(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of what is held open; tasks that are still worked on here are given back by the next sweep."""
        while self._members and self._of == own.first:
            self._members.popitem()[1].leave()
        super().close()

    def add(  # noqa: PLR0913 - a task has many sides, each said by name
        self,
        title: str,
        *,
        id: str = "",  # noqa: A002 - that is what it is called everywhere
        body: str = "",
        priority: int = 0,
        needs: Iterable[str] = (),
        check: str = "",
        tags: Iterable[str] = (),
        touches: Iterable[str] = (),
        limits: Iterable[str] = (),
        parent: str = "",
        not_before: float = 0.0,
        max_attempts: int = 0,
        big: bool = False,
        by: str = "",
    ) -> str:
        """A task is in the queue for good; its id."""
        given = {name: value for name, value in locals().items() if name in Task.__struct_fields__}
        given |= {name: several(name, given[name]) for name in LISTS if name in given}
        return self.put([Task(**given)])[0][0]

    def put(self, tasks: Iterable[Task], each: Callable[[str, Said], None] | None = None) -> list[tuple[str, Said]]:
        """Each is in the queue for good; those without an id get one. Ids and what was said, in order.

        All are checked before any is put: bad input changes nothing. Conflict if an id is known with other content.
        `each` is told of every task that is in.
        """
        several_tasks: object = tasks
        if not hasattr(several_tasks, "__iter__"):
            raise Invalid(
                f"put takes tasks, not {tasks!r:.60}", hint="Write put([Task(id='', title='Fix the login')])."
            )
        return super().put(tasks, each)

    def finish_many(self, ends: Sequence[tuple[Claim, Outcome]]) -> list[tuple[Said, End]]:
        """Each of these claims ends its way; together they wait for the disk once. None does if one of them cannot."""
        try:
            for claim, outcome in ends:
                check_end(claim, outcome)
        except (TypeError, ValueError):
            hint = "Write finish_many([(claim, Done(output='...'))])."
            raise Invalid("finish_many takes pairs of a claim and an outcome", hint=hint) from None
        return super().finish_many(ends)

    def renew(self, claim: Claim, lease: float = 0.0) -> Said:
        """The claim lasts another lease; says CANCEL if its work should stop, LOST if it is over."""
        check_end(claim, Release())
        return super().renew(claim, lease)

    claim = _checked_first(Verbs.claim, worker=str, wait=float, kind=str)
    card = _checked_first(Verbs.card, task_id=str)
    resolve = _checked_first(Verbs.resolve, text=str)
    block = _checked_first(Verbs.block, judged="block", task_id=str, worker=str, reason=str)
    unblock = _checked_first(Verbs.unblock, judged="unblock", task_id=str, worker=str)
    retry = _checked_first(Verbs.retry, judged="retry", task_id=str, worker=str)
    cancel = _checked_first(Verbs.cancel, judged="cancel", task_id=str, worker=str, reason=str)
    edit = _checked_first(_edit, task_id=str, worker=str, action=str, why=str)
    answer = _checked_first(_answer, word=str, text=str, worker=str)
    note = _checked_first(Verbs.note, task_id=str, text=str, worker=str)

    # -- working -----------------------------------------------------------------------------------

    def take(
        self,
        worker: str = WORKER,
        *,
        ids: Sequence[str] = (),
        tags: Sequence[str] = (),
        big: bool | None = False,
        lease: float = 0.0,
        wait: float = 0.0,
        checks: str | None = ".",
    ) -> AbstractContextManager[Job]:
        """The next task, for a `with` block: done when it is left, failed if it throws, renewed meanwhile.

        Raises the error `Nothing` if there is none after `wait` seconds. `checks` is where the task's own check
        is run, None not to run it.
        """
        _check_argument("worker", worker, str)
        _check_argument("lease", lease, Seconds)
        _check_argument("wait", wait, float)
        if checks is not None:
            checks = os.fspath(checks)
        return self._take(
            worker,
            ids=several("ids", ids),
            tags=several("tags", tags),
            big=big,
            lease=lease,
            wait=wait,
            checks=checks,
        )

    @contextmanager
    def _take(self, worker: str, *, checks: str | None, **wish: Any) -> Iterator[Job]:
        with holding(self, self._next(worker, **wish), checks) as job:
            yield job

    def _next(self, worker: str, *, wait: float, **wish: Any) -> Claim:
        """The next task for a worker that stays."""
        name = self._join(worker, wish.get("lease", 0.0))
        deadline = self.clock.monotonic() + wait
        claims = self.claim(name, **wish)
        while not claims:
            keeper.sweep(self, ended=settle)  # who comes for nothing has the time to look after the others
            left = max(deadline - self.clock.monotonic(), 0.0)
            claims = self.claim(name, wait=min(left, SWEEP_EVERY), **wish)
            if not claims and self.clock.monotonic() >= deadline:
                raise Nothing(hint="`pit list` shows what waits, and why.")
        return claims[0]

    def _join(self, worker: str, lease: float) -> str:
        """The name under which this process stays: this one, or with a number if a living process has it."""
        if self._of != own.first:  # after a fork, the names are the parent's
            self._of, self._members, self._joining = own.first, {}, threading.Lock()
        with self._joining:
            number = 1
            while worker not in self._members:
                name = worker if number == 1 else f"{worker}-{number}"
                with suppress(Lost):
                    self._members[worker] = self.store.join(name, lease or self.config.lease, patience=0.0)
                number += 1
            return self._members[worker].worker

    def work(  # noqa: PLR0913 - as `pit work` has them
        self,
        handler: Handler,
        n: int = 1,
        *,
        until_empty: bool = False,
        worker: str = WORKER,
        tags: Sequence[str] = (),
        big: bool | None = False,
        lease: float = 0.0,
        max_tasks: int = 0,
        checks: str | None = ".",
    ) -> PoolReport:
        """Run this function on task after task, `n` at once, until interrupted or nothing is left; what came of it.

        It is called in threads. In the main thread, an interrupt lets running ones finish and a second one
        tells them to stop.
        """
        whom: object = handler
        if not callable(whom):
            raise Invalid(f"{whom!r:.60} is no function", hint="Write work(solve), where solve(job) returns a text.")
        return self.pool(
            called(lambda job, _: handler(job)),
            n,
            until_empty=until_empty,
            worker=worker,
            tags=tags,
            big=big,
            lease=lease,
            max_tasks=max_tasks,
            checks=checks,
        ).run()

    def pool(
        self,
        runner: Runner,
        n: int = 1,
        *,
        worker: str = WORKER,
        tags: Sequence[str] = (),
        checks: str | None = ".",
        **told: Any,
    ) -> Pool:
        """The workers that `work` runs."""
        convert(worker, str, "worker")
        for name, kind in (("lease", Seconds), ("max_tasks", Count)):
            convert(told.get(name, 0), kind, name)
        if not convert(n, Count, "n"):
            raise Invalid("n must be at least 1: without workers it would wait for ever")
        options = PoolOptions(
            slots=n,
            name=worker,
            tags=several("tags", tags),
            check_in=None if checks is None else os.path.abspath(checks),
            **told,
        )
        return Pool(self, runner, options, Show())

    # -- looking -----------------------------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        """The changelog from its beginning, line by line."""
        cursor = ""
        while True:
            events, cursor = self.store.events(cursor)
            yield from events
            if not events:
                return

    def watch(self, timeout: float | None = None) -> Iterator[Event]:
        """What happens from now on, as it happens; ends after `timeout` seconds in which nothing did."""
        return _watched(Watcher(self), timeout)


# -- a claim in the hands of a program ------------------------------------------------------------


class Job:
    """One claim as the program that works on it sees it."""

    def __init__(self, claim: Claim, why: Callable[[], str], trouble: Callable[[], str] = str) -> None:
        self.claim = claim
        self._why, self._trouble = why, trouble
        #: What is published when it is done.
        self.output = ""
        #: How it should end, if not done: Failed, Retry, Release, Split, Ask.
        self.outcome: Outcome | None = None

    @property
    def task(self) -> Task:
        """What is to be done."""
        return self.claim.task

    @property
    def stopping(self) -> str:
        """Why to stop: `lost`, `cancel` (a person takes it back) or `stop` (the pool ends); empty: go on."""
        return self._why()

    @property
    def lost(self) -> bool:
        """Whether another worker has the task by now, or may: what comes out of this work will be kept aside then."""
        return self.stopping == "lost"

    def check(self) -> None:
        """Go on, if nothing is said; Lost if there is no use in it."""
        why = self.stopping
        if why:
            raise _over(self.task.id, why, self._trouble())


def _over(task_id: str, why: str, trouble: str = "") -> Lost:
    unsure = f"{task_id} could not be renewed for a whole lease, and another worker may have it: {trouble}"
    facts = {
        "lost": unsure if trouble else f"another worker holds {task_id} by now; your result is kept aside",
        "cancel": f"{task_id} was cancelled",
        "stop": f"the work on {task_id} is to stop",
    }
    return Lost(facts[why], hint=f"`pit why {task_id}` says more.", id=task_id, why=why)


class _Keeping:
    """Renews one claim until it is told to stop, and knows why the work should."""

    def __init__(self, queue: Verbs, claim: Claim) -> None:
        self.why = ""
        #: What the last renewal was refused for; empty if it was not.
        self.trouble = ""
        self._queue, self._claim = queue, claim
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"keeps {claim.task.id}", daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        lease, clock = self._claim.lease or self._queue.config.lease, self._queue.clock
        kept = clock.monotonic()
        while not self._left.wait(min(lease / RENEWALS, RENEW_AT_MOST)):
            asked = clock.monotonic()
            try:
                said = self._queue.renew(self._claim)
                lost = said is Said.LOST and self.fate() == "lost"
            except TaskpitError as error:  # for a moment that is no loss, the next turn will tell
                self.trouble = error.message
                if clock.monotonic() - kept >= lease:
                    self.why = self.why or "lost"
                continue
            kept, self.trouble = asked, ""
            if lost:
                self.why = "lost"
                return
            self.why = "cancel" if "cancel" in (said, self.why) else ""

    def fate(self) -> str:
        """What became of the claim: `ours`, `itself` or `lost`."""
        return fate(self._claim, self._queue.store.read([self._claim.task.id])[0])

    def stop(self) -> None:
        """No further renewal."""
        self._left.set()
        self._thread.join()


@contextmanager
def holding(queue: Verbs, claim: Claim, check_in: str | None = None) -> Iterator[Job]:
    """The claim is kept while the body works and ended when it leaves; `check_in`: where its check is run.

    Leaving raises what went wrong with the end: CheckFailed, Lost, or Unknown if the store could not be written.
    """
    keeping = _Keeping(queue, claim)
    job = Job(claim, lambda: keeping.why, lambda: keeping.trouble)
    try:
        if check_in is not None and check_mode(claim.task) != "disabled":
            queue.need_trust()
        yield job
        outcome = _checked(queue, job, _meant(job), check_in)
    except BaseException as error:
        blamed = isinstance(error, Exception) and not isinstance(error, Untrusted)
        interrupted = Release(reason=f"its worker was interrupted ({type(error).__name__})")
        outcome = crashed(error) if blamed else interrupted
        trouble = _end(queue, keeping, job, outcome)
        if trouble is not None and not isinstance(error, Lost):
            error.add_note(trouble.message)
        raise
    trouble = _end(queue, keeping, job, outcome)
    if trouble is not None:
        raise trouble


def _meant(job: Job, said: str | Outcome | None = None) -> Outcome:
    """How a job ends, by what its function returned, else by what the job says; Invalid if that is no end of a task."""
    for told, kinds in ((said, (str, Outcome)), (job.outcome, Outcome), (job.output, str)):
        if told is not None and not isinstance(told, kinds):
            hint = "A text is the output of what is done; Failed(error=...) and the like are other ends."
            raise Invalid(f"{told!r:.80} is neither a text nor an outcome", hint=hint, id=job.task.id)
    if isinstance(said, Outcome):
        return said
    return job.outcome or Done(output=said or job.output or "")


def _checked(queue: Verbs, job: Job, outcome: Outcome, check_in: str | None) -> Outcome:
    """Done counts only once the task's own check is green; the claim is still renewed while it runs."""
    mode = check_mode(job.task)
    if not isinstance(outcome, Done) or check_in is None or mode == "disabled" or job.stopping:
        return outcome
    env = {**os.environ, "TASKPIT_TASK": job.task.id, "TASKPIT_AS": job.claim.fence}
    evidence = run_check(job.task.check, check_in, queue.config.check_limit, env)
    return checked(outcome, evidence, mode)


def _end(queue: Verbs, keeping: _Keeping, job: Job, outcome: Outcome) -> CheckFailed | Lost | Unknown | None:
    """The claim has ended this way; what the program should hear of it."""
    keeping.stop()
    task_id = job.task.id
    if job.stopping == "cancel" and not isinstance(outcome, Release):
        outcome = Failed(error="cancelled", cancelled=True)
    word, details = end_claim(queue, job.claim, outcome)
    if word == "lost" and keeping.fate() != "itself":  # the program itself, or what it started, may have ended it
        keeping.why = "lost"
        return _over(task_id, "lost")
    if word == "unsaved":
        hint = f"`pit why {task_id}` says how it stands; when its lease is over, it is taken again."
        return Unknown(f"the end of {task_id} could not be written: {details}", hint=hint, id=task_id)
    if job.stopping == "cancel":
        return _over(task_id, "cancel")
    if isinstance(outcome, Failed) and outcome.kind == "check":
        return CheckFailed(outcome.error, hint=f"`pit why {task_id}` says what is next.", id=task_id)
    return None


# -- what happens ----------------------------------------------------------------------------------


def _watched(watcher: Watcher, timeout: float | None) -> Iterator[Event]:
    try:
        while True:
            yield from watcher.look()
            left = watcher.patience(timeout)
            if left <= 0:
                return
            watcher.sleep(left)
    finally:
        watcher.close()


class Watcher:
    """Looks what has happened since it last looked, and sleeps until something may have."""

    def __init__(self, queue: Verbs) -> None:
        from taskpit.watch import Watch

        self._store, self._clock = queue.store, queue.clock
        info = queue.store.info()
        text = info.kind == "files" and info.layout != "activities"  # whose changelogs lie where the work items do
        self._watch = Watch([f"{info.where}/.taskpit"]) if text else None  # before the look: nothing falls between
        self._cursor = self._store.latest(0)[1]
        self._heard = self._clock.monotonic()

    def _page(self, limit: int) -> list[Event]:
        events, self._cursor = self._store.events(self._cursor, limit)
        return events

    def look(self) -> list[Event]:
        """What is new."""
        found: list[Event] = []
        try:
            while events := self._page(1000):
                found += events
        except CursorLost:
            self._cursor = ""  # the changelog was begun again: so is our reading
            return found + self.look()
        if found:
            self._heard = self._clock.monotonic()
        return found

    def patience(self, timeout: float | None) -> float:
        """How long to sleep before the next look; none if it was silent for `timeout` seconds."""
        if timeout is None:
            return LOOK_AGAIN
        return min(self._heard + timeout - self._clock.monotonic(), LOOK_AGAIN)

    def sleep(self, seconds: float) -> None:
        """Until the changelog may have grown, or that many seconds."""
        if self._watch is None:
            self._store.wait(seconds)
        elif self._watch.wait(seconds):
            self._watch.changes()

    def close(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.close()


def called(
    handler: Callable[[Job, Run], str | Outcome | None], stopped: tuple[type[BaseException], ...] = (Lost,)
) -> Runner:
    """A runner that calls this function; these are what it throws when it was told to stop."""

    def run(claim: Claim, run: Run) -> Outcome:
        job = Job(claim, lambda: run.stopping)
        try:
            said = handler(job, run)
        except stopped:
            if not run.stopping:
                raise
            return Release(reason="its worker was asked to stop")
        return _meant(job, said)

    return run
