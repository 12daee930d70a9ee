"""Many workers in one process: who claims, who runs, and when to stop. Shows nothing itself.

Each worker has a thread, which runs its tasks one after another and claims the next one itself. `_fill` is the only
place where something starts; every thread that changes anything here holds `_turn`. The caller's thread reads the
inbox (signals, sweeps, changes of the folder, the lander), claims for workers that had nothing to do, and decides when
the pool ends.

    duty         thread            what it does                                   it tells the inbox
    slot         one each          runs a task down and up its steps
    heartbeat    renewer, keeper   renews claims; watches the folder and sweeps   changed, mends, surveys
    lander       lander            lands what was handed in                       ends, sentences

The first signal, or a fatal end, stops new claims; running tasks and the lander finish. The second gives runs back.
"""

from __future__ import annotations

import os
import queue as queues
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from taskpit import fs, pools, workers
from taskpit.errors import Lost, Storage, TaskpitError
from taskpit.explain import resuming
from taskpit.hooks import tell
from taskpit.model import Claim, Release, State
from taskpit.policy import RACERS, REVIEW
from taskpit.queue import cards
from taskpit.race import RACER_OF
from taskpit.run.agent_limits import Pass
from taskpit.run.allowed import without_secrets
from taskpit.run.announcer import Announcer
from taskpit.run.attempt import Attempt, ClaimEnd, perform
from taskpit.run.bench import Bench, ReviewBench
from taskpit.run.budget import pause_if_spent
from taskpit.run.heartbeat import Heartbeat
from taskpit.run.landing_thread import LandingThread
from taskpit.run.log_stream import LogStream, LogStreams, is_elsewhere
from taskpit.run.pool_options import PoolOptions, PoolReport, Show, Survey, survey
from taskpit.run.process import make_room, serving
from taskpit.run.review_thread import Reviews
from taskpit.run.run_directory import GroupNote, RunPlaces, programs
from taskpit.run.runner import Run
from taskpit.store.port import Mend

if TYPE_CHECKING:
    from types import FrameType

    from taskpit.queue import Queue
    from taskpit.run.runner import Runner
    from taskpit.store.port import Member

#: An idle worker looks for work after this many seconds, whatever the folder tells.
LOOK_AGAIN = 1.0
#: After this many seconds of nothing but refusals from the disk the pool gives up.
PATIENCE = 30.0
#: Why a pool whose agents share the checkout leaves tasks alone.
DECLARED_ONLY = (
    "agents share this checkout (--land none), so only tasks that declare the paths they touch are claimed; "
    "`pit edit ID --touches GLOB` declares them, --land merge gives each task a clone"
)
#: Signals that end a pool.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Short(NamedTuple):
    """A result that cannot be written yet."""

    worker: str
    task_id: str
    why: str


class Slots:
    """A thread for each worker, which runs one job after another."""

    def __init__(self, work: Callable[[str, Any], None], failed: Callable[[BaseException], None]) -> None:
        self._work = work
        self._failed = failed
        self._jobs: dict[str, queues.SimpleQueue[Any]] = {}
        self._threads: list[threading.Thread] = []

    def give(self, worker: str, job: object) -> None:
        """Give a job to this worker's thread."""
        if worker not in self._jobs:
            self._jobs[worker] = queues.SimpleQueue()
            self._threads.append(threading.Thread(target=self._serve, args=(worker,), name=worker, daemon=True))
            self._threads[-1].start()
        self._jobs[worker].put(job)

    def _serve(self, worker: str) -> None:
        try:
            while (job := self._jobs[worker].get()) is not None:
                self._work(worker, job)
        except BaseException as error:  # shown by the caller of the pool
            self._failed(error)

    def close(self) -> None:
        """Wait for the end of every thread."""
        for jobs in self._jobs.values():
            jobs.put(None)
        for thread in self._threads:
            thread.join()


class RunMaker:
    """Makes runs: where they have their files, what they see of our environment, where their processes are noted."""

    def __init__(self, queue: Queue, options: PoolOptions, runs: Callable[[], dict[str, Run]]) -> None:
        self._queue = queue
        self._sandbox = options.sandbox
        self._where = queue.store.info().papers or queue.store.info().where
        self._seen = without_secrets(os.environ)
        self._places = RunPlaces(queue.store)
        self._notes: dict[str, GroupNote] = {}
        self._streams = LogStreams(runs) if is_elsewhere(queue.store) else None

    @contextmanager
    def working(self, names: list[str]) -> Iterator[None]:
        """Make runs for these workers."""
        self._places = RunPlaces(self._queue.store, programs())
        self._notes = {name: GroupNote(self._queue.store, name) for name in names}
        if self._streams:
            self._streams.start()
        try:
            yield
        finally:
            for note in self._notes.values():
                note.close()
            if self._streams:
                self._streams.close()

    def make(self, worker: str, claim: Claim, bench: Bench) -> Run:
        """Make the run of a claim. OSError: there is no room for it."""
        run = Run(claim, self._places.of(claim), self._where, self._notes[worker], self._seen)
        run.gate = bench.gate
        run.slot = _number_of(worker)
        run.sandbox = self._sandbox
        run.stream = LogStream(self._queue.store, run) if self._streams else None
        return run


class Progress:
    """What a pool has done, what stops it, and when it looks for work again."""

    def __init__(self, options: PoolOptions, now: Callable[[], float]) -> None:
        self._options = options
        self._now = now
        self.began = time.monotonic()
        self.tally: dict[str, int] = {}
        self.started = 0
        self.signals: list[int] = []
        self.error: TaskpitError | None = None
        self.closed = False
        #: The first task on which each unexpected exception of ours happened.
        self._mistakes: dict[str, str] = {}
        #: Workers whose results wait for room on the disk: until these are written nothing begins.
        self.short: set[str] = set()
        #: Why no task is begun although there may be some, as a sentence.
        self.drowned = ""
        #: Whether there may be work, and since when this was not looked at.
        self.hungry, self.woke = True, time.monotonic()
        #: When the disk first refused, and when the queue may be surveyed again.
        self.refused, self.survey_at = 0.0, 0.0

    def wake(self) -> None:
        """Note that there may be work."""
        self.hungry, self.woke = True, time.monotonic()

    def is_ending(self) -> bool:
        """Whether nothing more is to begin, also no review."""
        late = self._options.until and self._now() >= self._options.until
        return bool(self.signals or self.error or late or self.closed)

    def is_closing(self) -> bool:
        """Whether no further task is to be claimed."""
        spent = self._options.max_tasks and self.started >= self._options.max_tasks
        return bool(spent or self.is_ending())

    def count(self, end: ClaimEnd) -> None:
        """Count an end; a task that was handed in has not ended."""
        if end.word != "handed in":
            self.tally[end.word] = self.tally.get(end.word, 0) + 1

    def fatal(self, end: ClaimEnd) -> TaskpitError | None:
        """Why the pool ends with this end: its own reason, or the same exception of ours at a second task."""
        if end.fatal is not None or not end.mistake:
            return end.fatal
        first = self._mistakes.setdefault(end.mistake, end.claim.task.id)
        if first == end.claim.task.id:
            return None
        return TaskpitError(
            f"taskpit failed in the same way on {first} and {end.claim.task.id}: {end.mistake}",
            hint=f"`pit why {end.claim.task.id}` shows the trace. Please report it.",
        )

    def reason(self, failure: BaseException | None) -> str:
        """Why the pool ended."""
        trouble = failure or self.error
        if trouble is not None:
            return str(getattr(trouble, "message", "")) or f"{type(trouble).__name__}: {trouble}"
        if self.signals:
            return f"it was stopped ({signal.Signals(self.signals[0]).name})"
        if self._options.until and self._now() >= self._options.until:
            return "its time was up"
        if self._options.max_tasks and self.started >= self._options.max_tasks:
            return f"it had claimed {self.started} tasks, as many as it was to"
        return self.drowned or "no task was left"

    def report(self) -> PoolReport:
        """Return what the pool has done."""
        return PoolReport(
            tally=self.tally,
            started=self.started,
            seconds=time.monotonic() - self.began,
            signal=self.signals[0] if self.signals else 0,
            error=self.error,
        )


class Pool:
    """Runs tasks until it is told to stop, or nothing is left."""

    def __init__(
        self, queue: Queue, runner: Runner, options: PoolOptions, show: Show, reviewer: Runner | None = None
    ) -> None:
        self.queue = queue
        self.options = options
        self.inbox: queues.SimpleQueue[object] = queues.SimpleQueue()
        self.progress = Progress(options, queue.clock.now)
        self.announcer = Announcer(show)
        self.benches = _benches(queue, runner, options, reviewer)
        self.record = pools.Recorder(queue.store.info().papers, _described(queue, options))
        self._turn = threading.RLock()
        self._slots = Slots(self._work_on, self.inbox.put)
        lease = options.lease or queue.config.lease
        self._heartbeat = Heartbeat(queue, lease, self.inbox, tags=options.tags if show.period else None)
        self._runs = RunMaker(queue, options, self._heartbeat.runs)
        self._lander: LandingThread | None = None
        self._survey: Survey | None = None

    def run(self) -> PoolReport:
        """Work until the end; return what was done."""
        if self.options.check_in is not None:
            self.queue.need_trust()
        pools.prune(self.queue.store.info().papers)
        failure: BaseException | None = None
        try:
            with serving(), ExitStack() as stack:
                stack.enter_context(self._listening())
                self._work(stack)
        except BaseException as error:
            failure = error
            raise
        finally:
            self._record_end(failure)
        return self.progress.report()

    def _work(self, stack: ExitStack) -> None:
        make_room(self.options.slots)
        for bench in self.benches:
            for member in self._join(bench):
                stack.callback(member.leave)
                bench.idle.append(member.worker)
        stack.enter_context(self._runs.working([name for bench in self.benches for name in bench.idle]))
        stack.enter_context(self._present())
        stack.callback(self._close)
        self._sweep_first()
        self._heartbeat.start()
        pipe = self.options.landing
        if pipe is not None and pipe.repository.is_known():
            self._land()  # begins with what was left
        while self._goes_on():
            self._hear()

    def _close(self) -> None:
        with self._turn:
            self.progress.closed = True
        self._heartbeat.stop_all("stop")
        self._slots.close()
        if self._lander is not None:
            self._lander.close()
        self._heartbeat.close()

    def _record_end(self, failure: BaseException | None) -> None:
        """Leave the end and its reason for status, report and the hook `stopped`."""
        reason, failed = self.progress.reason(failure), bool(failure or self.progress.error)
        self.record.change(ended=self.queue.clock.now(), reason=reason, failed=failed, closed=())
        tell(self.queue.store, self.queue.config.hooks, "stopped", details=reason, worker=self.options.name)

    def _sweep_first(self) -> None:
        """Sweep with the store that has joined: it knows the orphans of its names. Trouble there keeps nothing up."""
        try:
            for mend in self._heartbeat.sweep():
                self.announcer.show.mended(mend)
        except Storage as error:
            self.announcer.show.say(f"the keeper had trouble: {error}")

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Put signals into the inbox. Ignored ones stay ignored."""
        before: dict[int, Any] = {}

        def heard(number: int, _: FrameType | None) -> None:
            self.inbox.put(signal.Signals(number))  # a SimpleQueue may be put into at any point

        for number in SIGNALS if threading.current_thread() is threading.main_thread() else ():
            handler = signal.getsignal(number)
            if handler is not signal.SIG_IGN and handler is not None:
                before[number] = signal.signal(number, heard)
        try:
            yield
        finally:
            for heard_before, handler in before.items():
                signal.signal(heard_before, handler)

    def _join(self, bench: Bench) -> Iterator[Member]:
        """Join the queue under numbers that no living process has, or under the exact name."""
        store, lease = self.queue.store, bench.lease
        if self.options.exact:
            if bench.count:
                yield store.join(self.options.name, lease)
            return
        number = joined = 0
        while joined < bench.count:
            number += 1
            try:
                yield store.join(f"{bench.name}-{number}", lease, patience=0.0)
                joined += 1
            except Lost:
                continue

    @contextmanager
    def _present(self) -> Iterator[None]:
        """Let others know that there is a reviewer."""
        judges = [name for bench in self.benches if isinstance(bench, ReviewBench) for name in bench.idle]
        if not judges or self.options.landing is None:
            yield
            return
        presence = self.options.landing.presence(judges[0])
        presence.take()
        try:
            yield
        finally:
            presence.drop()

    # -- claiming ----------------------------------------------------------------------------------

    def _goes_on(self) -> bool:
        """Give tasks to idle workers; whether there is something to wait for."""
        with self._turn:
            self._fill()
            self._listen_if_hungry()
            rests = (bench.gate.rests() for bench in self.benches[:1])
            self.record.change(closed=tuple(filter(None, (*rests, self.progress.drowned))))
            self.record.touch()
            return not self._is_finished()

    def _is_finished(self) -> bool:
        if self.announcer.doing or not (self._lander is None or self._lander.is_done()):
            return False
        if self.progress.is_closing():
            return True
        if not self.options.until_empty:
            return False
        return bool(self.progress.drowned) or (not self.progress.hungry and self._is_empty())

    def _is_empty(self) -> bool:
        """Whether nothing is left that could come by itself. Looks seldom where looking takes long."""
        began = time.monotonic()
        if began < self.progress.survey_at:
            return False
        try:
            landing = self._lander.known if self._lander is not None else frozenset()
            landing = landing.union(*(bench.known for bench in self.benches))
            options = self.options
            found = survey(self.queue, options.tags, options.big, landing, declared_only=options.declared_only)
            if not options.slots:  # what is ready is not ours to take
                found = found.replace(coming=len(landing))
        except Storage:
            return False
        self.progress.survey_at = time.monotonic() + 10 * (time.monotonic() - began)
        if not self.announcer.doing and not found.coming and found.claimed:
            others = f"waiting for {found.claimed} that others have; `pit list --state running` shows them"
            self.announcer.once(others)
        return not found.coming and not found.claimed

    def _fill(self) -> None:
        """Give tasks to idle workers, as far as there are any and no gate is closed."""
        progress = self.progress
        if not progress.hungry or progress.short or self._day_is_spent():
            return
        for bench in self.benches[::-1]:
            reviews = isinstance(bench, ReviewBench)
            if not reviews and self._many_wait_for_review():
                return
            while bench.idle and not (progress.is_ending() if reviews else progress.is_closing()):
                if not self._next(bench):
                    break
        progress.hungry = False

    def _next(self, bench: Bench) -> bool:
        """Claim a task for an idle worker of this bench; whether to try for another one."""
        way = bench.enter()
        if news := bench.gate.news():
            self.announcer.show.say(news)
        if way is None:
            return False
        try:
            claim = bench.claim(bench.idle[0])
        except Storage as error:
            way.leave()
            self._was_refused(error)
            return False
        self.progress.refused = 0.0
        if claim is not None:
            self._begin(bench, bench.idle.pop(0), claim, way)
            return True
        way.leave()
        if bench.free_a_spare():
            return True
        if not isinstance(bench, ReviewBench):
            self.announcer.once(self._why_none())
        return False

    def _why_none(self) -> str:
        """Why no task was given out, if there is more to it than that there is none."""
        try:
            paused = self.queue.store.paused()
            if paused:
                return f"the queue is {paused}; {resuming(paused)}".rstrip("; .")
            return DECLARED_ONLY if self.options.declared_only and self.queue.store.counts()[State.READY] else ""
        except Storage:
            return ""

    def _day_is_spent(self) -> bool:
        """Whether today may cost no more: then the queue is paused until tomorrow, or until a person says go on."""
        reason = pause_if_spent(self.queue, self.options.budget, self.options.name)
        self.announcer.once(reason)
        return bool(reason)

    def _many_wait_for_review(self) -> bool:
        """Whether a person has enough to look at."""
        limit, pipe = self.options.review_limit, self.options.landing
        if not limit or pipe is None or pipe.terms.review != "person":
            return False
        try:
            ready = cards(self.queue.store, State.READY, tied=True)
            waiting = sum(1 for card in ready if card.task.hold.startswith(f"{REVIEW} by a person"))
        except Storage:
            return False
        full = waiting + len(self.announcer.doing) >= limit
        text = f"{waiting} wait for review, and the limit is {limit}; `pit review` shows them"
        self.progress.drowned = text if full else ""
        self.announcer.once(self.progress.drowned)
        return full

    def _was_refused(self, error: Storage) -> None:
        """Try again for a while after the disk refused, then give up."""
        now = time.monotonic()
        if not self.progress.refused:
            self.progress.refused = now
            self.announcer.show.say(f"{error.message}; trying again")
        elif now - self.progress.refused > PATIENCE:
            self.progress.error = error
        self.progress.hungry = False

    def _begin(self, bench: Bench, worker: str, claim: Claim, way: Pass) -> None:
        self.progress.started += not isinstance(bench, ReviewBench)
        way.started(self.queue.clock.now())
        try:
            run = self._runs.make(worker, claim, bench)
        except OSError as error:
            way.leave()
            self.queue.finish(claim, Release(reason=str(error)))
            self.progress.error = Storage(f"there is no room to run {claim.task.id}: {error}")
            return
        self._heartbeat.add(worker, run)
        self.announcer.begun(worker, claim)
        self._slots.give(worker, (bench, run, way))

    # -- running, in a worker's thread -------------------------------------------------------------

    def _work_on(self, worker: str, job: tuple[Bench, Run, Pass]) -> None:
        """Run a task, then claim the next one."""
        bench, run, way = job
        end = self._perform(worker, bench, run)
        self._heartbeat.drop(worker)
        way.leave()
        run.bell.close()
        if end.word != "unsaved":
            run.place.clear()
        with self._turn:
            self._ended(bench, worker, end)
            self._fill()
            self._listen_if_hungry()
            if worker not in self.announcer.doing:
                self.inbox.put(None)  # it may have been the last one

    def _perform(self, worker: str, bench: Bench, run: Run) -> ClaimEnd:
        try:
            return perform(
                Attempt(self.queue, run, bench.runner, self.options),
                bench.steps,
                lambda: self._heartbeat.drop(worker),
                lambda why: self._is_short(worker, run, why),
            )
        except Exception as error:
            details = f"{type(error).__name__}: {error}"
            return ClaimEnd(claim=run.claim, word="unsaved", details=details)

    def _is_short(self, worker: str, run: Run, why: str) -> bool:
        """Report a result that waits for room; whether it may wait on."""
        self.inbox.put(Short(worker, run.claim.task.id, why))
        return len(self.progress.signals) < 2

    def _ended(self, bench: Bench, worker: str, end: ClaimEnd) -> None:
        self.progress.short.discard(worker)
        bench.idle.append(worker)
        self.progress.wake()
        if end.word in ("handed in", "approved"):
            self._land()
        self._count(worker, end)
        fatal = self.progress.fatal(end)
        if fatal is not None and self.progress.error is None:
            self.progress.error = fatal
            self.announcer.show.say(f"{fatal.message}; no further task is claimed")

    def _count(self, worker: str, end: ClaimEnd) -> None:
        if RACER_OF in end.claim.task.extra or RACERS in end.claim.task.extra:
            self._heartbeat.look_at_races()
        self.announcer.ended(worker, end)
        self.progress.count(end)

    def _land(self) -> None:
        """Land what was handed in, next to the work."""
        pipe = self.options.landing
        if self._lander is not None:
            self._lander.hear()
        elif pipe is not None:
            self._lander = LandingThread(self.queue, pipe, self.options.name, self.inbox, self.options.sandbox)
            self.announcer.landing = lambda: self._lander.unheard if self._lander is not None else ()
            self._lander.start()

    # -- the inbox ---------------------------------------------------------------------------------

    def _hear(self) -> None:
        """Wait for messages, then take in all there are."""
        messages: list[object] = []
        try:
            messages.append(self.inbox.get(timeout=self.announcer.show.period or LOOK_AGAIN))
            while True:
                messages.append(self.inbox.get_nowait())
        except queues.Empty:
            pass
        with self._turn:
            for message in messages:
                self._take(message)
            if time.monotonic() - self.progress.woke > LOOK_AGAIN:
                self.progress.wake()
            self.announcer.show.look(self._heartbeat.runs(), self._survey)

    def _listen_if_hungry(self) -> None:
        """Hear of changes of the folder while a worker has nothing to do."""
        idle = any(bench.idle for bench in self.benches)
        self._heartbeat.listen(hungry=idle and not self.progress.is_closing())

    def _take(self, message: object) -> None:
        match message:
            case signal.Signals():
                self._signalled(message)
            case ("", ClaimEnd() as end):
                self.progress.wake()
                if self._lander is not None:
                    self._lander.unheard.discard(end.claim.task.id)
                self._count("", end)
            case BaseException():
                raise message
            case None:
                pass
            case Short():
                self._waits(message)
            case Survey():
                self._survey = message
            case "changed":
                self.progress.wake()
            case Mend():
                self.announcer.show.mended(message)
            case _:
                self.announcer.show.say(str(message))

    def _waits(self, short: Short) -> None:
        """Begin nothing while a result waits for room: it would be worked on in vain, too."""
        if short.worker in self.announcer.doing and short.worker not in self.progress.short:
            self.progress.short.add(short.worker)
            self.announcer.show.say(f"{short.why}: {short.task_id} waits for room, nothing else is begun")

    def _signalled(self, number: signal.Signals) -> None:
        signals, running, show = self.progress.signals, len(self.announcer.doing), self.announcer.show
        signals.append(number)
        if len(signals) == 1 and running:
            again = "Ctrl-C" if number is signal.SIGINT else number.name
            show.say(f"stopping: {running} running will be finished; {again} again gives them back unfinished")
        if len(signals) == 2 and running:
            show.say(f"stopping now: {running} running are ended and given back")
            self._heartbeat.stop_all("stop")
        if len(signals) == 2 and self._lander is not None:
            self._lander.stop()


def _benches(queue: Queue, runner: Runner, options: PoolOptions, reviewer: Runner | None) -> list[Bench]:
    """Return the workers of a pool, and its reviewer behind them if it has one."""
    benches = [Bench(queue, runner, options)]
    if reviewer is not None and options.landing is not None:
        reviews = Reviews(queue, options.landing, reviewer, options.tags)
        benches.append(ReviewBench(queue, reviewer, options, reviews))
    return benches


def _described(queue: Queue, options: PoolOptions) -> pools.PoolRecord:
    """Return the record of a pool that begins."""
    pid = os.getpid()
    return pools.PoolRecord(
        key=fs.fresh_name(),
        host=workers.host(),
        pid=pid,
        birth=pools.birth_of(pid),
        name=options.name,
        began=queue.clock.now(),
        declared_only=options.declared_only,
    )


def _number_of(worker: str) -> int:
    """Return the number at the end of a worker's name, which no other living one of this queue has; else 1."""
    number = worker.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 9 else 1
