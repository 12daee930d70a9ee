"""Many workers in one process: who claims, who runs, who renews, and when to stop. Shows nothing itself.

Each worker has a thread, which runs its tasks one after another. Whoever has news decides what follows, one thread
at a time (`_turn`): a worker that has ended a task claims the next one itself, without waking anybody. The caller's
thread hears in its inbox what others have to say, signals included, and claims for workers that had nothing to do.
`Heartbeat` has two more threads: one renews, one watches the folder and sweeps.
"""

from __future__ import annotations

import os
import queue as queues
import signal
import threading
import time
from typing import NamedTuple

from taskpit import fs, pools, workers
from taskpit.errors import Lost, Storage, TaskpitError
from taskpit.explain import resuming
from taskpit.hooks import tell
from taskpit.model import Release, State, Want
from taskpit.policy import RACERS, REVIEW, SPARE
from taskpit.queue import cards
from taskpit.race import RACER_OF
from taskpit.rules import suits
from taskpit.run.agent_limits import gate_for
from taskpit.run.allowed import without_secrets
from taskpit.run.attempt import Attempt, ClaimEnd, perform
from taskpit.run.budget import pause_if_spent
from taskpit.run.heartbeat import Heartbeat
from taskpit.run.log_stream import LogStream, LogStreams, is_elsewhere
from taskpit.run.pool_options import PoolReport, Survey, survey
from taskpit.run.process import make_room, serving
from taskpit.run.run_directory import GroupNote, RunPlaces, programs
from taskpit.run.runner import Run
from taskpit.run.steps import WORK, review_steps
from taskpit.store.port import Mend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

    from taskpit.fs import Flock
    from taskpit.model import Claim, Task
    from taskpit.queue import Queue
    from taskpit.run.agent_limits import Gate, Pass
    from taskpit.run.landing_thread import LandingThread
    from taskpit.run.pool_options import PoolOptions, Show
    from taskpit.run.review_thread import Reviews
    from taskpit.run.runner import Runner
    from taskpit.store.port import Member

#: An idle slot looks for work after this many seconds, whatever the folder tells.
LOOK_AGAIN = 1.0
#: After this many seconds of nothing but refusals from the disk the pool gives up.
PATIENCE = 30.0
#: Why a pool whose agents share the checkout leaves tasks alone.
DECLARED_ONLY = (
    "agents share this checkout (--land none), so only tasks that declare the paths they touch are claimed; "
    "`pit edit ID --touches GLOB` declares them, --land merge gives each task a clone"
)
#: What a pool's own reviewer is called, with a number.
REVIEWER = "reviewer"
#: Signals that end a pool: the first lets running tasks finish, the second does not.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Short(NamedTuple):
    """A result that cannot be written yet."""

    worker: str
    task_id: str
    why: str


class Pool:
    """Runs tasks until it is told to stop, or nothing is left."""

    _hungry: bool
    _woke: float

    def __init__(
        self, queue: Queue, runner: Runner, options: PoolOptions, show: Show, reviewer: Runner | None = None
    ) -> None:
        self.queue = queue
        self.runner = runner
        self.options = options
        self.show = show
        self.lease = options.lease or queue.config.lease
        self.inbox: queues.SimpleQueue[object] = queues.SimpleQueue()
        self.tally: dict[str, int] = {}
        #: Tasks of ours whose end was not heard of yet, and claims that are shown after the ends of what they need.
        self._going: set[str] = set()
        #: What each worker does whose end was not heard of yet.
        self._doing: dict[str, str] = {}
        self._unshown: list[Claim] = []
        self.signals: list[int] = []
        self.error: TaskpitError | None = None
        #: The first task on which each unexpected exception of ours happened.
        self._mistakes: dict[str, str] = {}
        self._idle: list[str] = []
        #: The reviewer's name while it has nothing to do, and always.
        self._judges: list[str] = []
        self._reviewer = ""
        #: Whoever changes anything here has this.
        self._turn = threading.RLock()
        #: The thread of each worker, and what it is to run next; None: it ends.
        self._threads: list[threading.Thread] = []
        self._jobs: dict[str, queues.SimpleQueue[tuple[Run, Pass] | None]] = {}
        self._listens = False
        self._closed = False
        self._started = 0
        self._refused = 0.0
        #: Workers whose results wait for room on the disk: until these are written nobody begins anything.
        self._short: set[str] = set()
        self._awaited = ""
        self._drowned = False
        self._looked = 0.0
        self._wake()
        self._survey: Survey | None = None
        self._lander: LandingThread | None = None
        self._gate = gate_for(queue, runner)
        self._reviews = _reviews_for(queue, reviewer, options)
        self._presence: Flock | None = None
        self._recorder = pools.Recorder(queue.store.info().papers, self._described())
        self._where = queue.store.info().papers or queue.store.info().where
        #: What commands see of our environment.
        self._seen = without_secrets(os.environ)
        self._notes: dict[str, GroupNote] = {}
        #: Where they have their files, and find `pit`.
        self._places = RunPlaces(queue.store)
        self._heartbeat = Heartbeat(queue, self.lease, self.inbox, tags=options.tags if show.period else None)
        self._streams = LogStreams(self._heartbeat.runs) if is_elsewhere(queue.store) else None

    def run(self) -> PoolReport:
        """Work; what came of it."""
        with serving():  # one process that starts the commands of all slots
            return self._run()

    def _run(self) -> PoolReport:
        if self.options.check_in is not None:
            self.queue.need_trust()
        began = time.monotonic()
        members: list[Member] = []
        before = self._listen()
        pools.prune(self.queue.store.info().papers)
        failure: BaseException | None = None
        try:
            make_room(self.options.slots)
            members.extend(self._join())
            names = [member.worker for member in members]
            self._places = RunPlaces(self.queue.store, programs())
            self._notes = {name: GroupNote(self.queue.store, name) for name in names}
            self._idle, self._judges = names[: self.options.slots], names[self.options.slots :]
            self._be_there()
            self._sweep_first()
            self._heartbeat.start()
            if self._streams:
                self._streams.start()
            if self.options.landing is not None and self.options.landing.repository.is_known():
                self._land()  # begins with what was left
            while self._goes_on():
                self._hear()
        except BaseException as error:
            failure = error
            raise
        finally:
            self._close(members, before)
            self._record_end(failure)
        number = self.signals[0] if self.signals else 0
        return PoolReport(
            tally=self.tally,
            started=self._started,
            seconds=time.monotonic() - began,
            signal=number,
            error=self.error,
        )

    def _described(self) -> pools.PoolRecord:
        """This pool as others see it while it works."""
        pid = os.getpid()
        return pools.PoolRecord(
            key=fs.fresh_name(),
            host=workers.host(),
            pid=pid,
            birth=pools.birth_of(pid),
            name=self.options.name,
            began=self.queue.clock.now(),
            declared_only=self.options.declared_only,
        )

    def _record_end(self, failure: BaseException | None) -> None:
        """Leave the end of this pool and its reason for status, report and the hook `stopped`."""
        reason = self._why_ended(failure)
        self._recorder.change(
            ended=self.queue.clock.now(), reason=reason, failed=bool(failure or self.error), closed=()
        )
        tell(self.queue.store, self.queue.config.hooks, "stopped", details=reason, worker=self.options.name)

    def _why_ended(self, failure: BaseException | None) -> str:
        trouble = failure or self.error
        if trouble is not None:
            return str(getattr(trouble, "message", "")) or f"{type(trouble).__name__}: {trouble}"
        if self.signals:
            return f"it was stopped ({signal.Signals(self.signals[0]).name})"
        if self.options.until and self.queue.clock.now() >= self.options.until:
            return "its time was up"
        if self.options.max_tasks and self._started >= self.options.max_tasks:
            return f"it had claimed {self._started} tasks, as many as it was to"
        return self._awaited if self._drowned else "no task was left"

    def _sweep_first(self) -> None:
        """By the store that has joined: it knows its names' orphans. Trouble with old things keeps nobody from work."""
        try:
            for mend in self._heartbeat.sweep():
                self.show.mended(mend)
        except Storage as error:
            self.show.say(f"the keeper had trouble: {error}")

    def _close(self, members: list[Member], before: dict[int, Any]) -> None:
        with self._turn:
            self._closed = True
        self._heartbeat.stop_all("stop")
        for jobs in self._jobs.values():
            jobs.put(None)
        for thread in self._threads:
            thread.join()
        if self._lander is not None:
            self._lander.close()
        self._heartbeat.close()
        for note in self._notes.values():
            note.close()
        if self._streams:
            self._streams.close()
        for member in members:
            member.leave()
        if self._presence is not None:
            self._presence.drop()
        for number, handler in before.items():
            signal.signal(number, handler)

    def _listen(self) -> dict[int, Any]:
        """Signals come to the inbox from now on; what they did before. Ignored ones stay ignored."""
        if threading.current_thread() is not threading.main_thread():
            return {}

        def heard(number: int, _: FrameType | None) -> None:
            self.inbox.put(signal.Signals(number))  # a SimpleQueue may be put into at any point

        before: dict[int, Any] = {}
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if handler is not signal.SIG_IGN and handler is not None:
                before[number] = signal.signal(number, heard)
        return before

    def _join(self) -> Iterator[Member]:
        """As many workers as there are slots, under numbers that no living process has."""
        if self.options.exact:
            yield self.queue.store.join(self.options.name, self.lease)
            return
        yield from self._join_as(self.options.name, self.options.slots)
        if self._reviews is not None:
            yield from self._join_as(REVIEWER, 1)

    def _join_as(self, name: str, count: int) -> Iterator[Member]:
        number = joined = 0
        while joined < count:
            number += 1
            try:
                yield self.queue.store.join(f"{name}-{number}", self.lease, patience=0.0)
                joined += 1
            except Lost:
                continue

    def _be_there(self) -> None:
        """Others know that there is a reviewer."""
        if self._judges and self.options.landing is not None:
            self._reviewer = self._judges[0]
            self._presence = self.options.landing.presence(self._reviewer)
            self._presence.take()

    # -- claiming ----------------------------------------------------------------------------------

    def _closing(self) -> bool:
        """Whether no further task is to be claimed."""
        spent = self.options.max_tasks and self._started >= self.options.max_tasks
        return bool(spent or self._ending())

    def _ending(self) -> bool:
        """Whether nothing more is to begin, also no review."""
        late = self.options.until and self.queue.clock.now() >= self.options.until
        return bool(self.signals or self.error or late or self._closed)

    def _goes_on(self) -> bool:
        """Idle workers have tasks; whether there is something to wait for."""
        with self._turn:
            self._fill()
            self._listen_if_hungry()
            self._recorder.change(closed=self._closed_by())
            self._recorder.touch()
            return not self._finished()

    def _finished(self) -> bool:
        if self._doing or not (self._lander is None or self._lander.is_done()):
            return False
        if self._closing():
            return True
        if self.options.until_empty and self._drowned:
            return True  # nothing more comes before a person has looked
        return self.options.until_empty and not self._hungry and self._is_empty()

    def _is_empty(self) -> bool:
        """Whether nothing is left that could come by itself. Looks seldom where looking takes long."""
        began = time.monotonic()
        if began < self._looked:
            return False
        try:
            landing = self._lander.known if self._lander is not None else frozenset()
            landing |= self._reviews.known if self._reviews is not None else frozenset()
            found = survey(
                self.queue, self.options.tags, self.options.big, landing, declared_only=self.options.declared_only
            )
            if not self.options.slots:  # what is ready is not ours to take
                found = found.replace(coming=len(landing))
        except Storage:
            return False
        self._looked = time.monotonic() + 10 * (time.monotonic() - began)
        if not self._doing and not found.coming and found.claimed:
            self._wait_for(f"waiting for {found.claimed} that others have; `pit list --state running` shows them")
        return not found.coming and not found.claimed

    def _wait_for(self, what: str) -> None:
        """Whoever watches knows why nothing happens; once, until something does."""
        if what and what != self._awaited:
            self.show.say(what)
        self._awaited = what or self._awaited

    def _fill(self) -> None:
        """Idle slots have tasks, as far as there are any."""
        if not self._hungry or self._short or self._day_is_spent():
            return
        self._fill_reviews()
        if self._many_wait_for_review():
            return
        while self._idle and not self._closing() and (way := self._enter(self._gate)):
            try:
                claims = self._claim(self._idle[0])
            except Storage as error:
                way.leave()
                self._was_refused(error)
                return
            self._refused = 0.0
            if not claims:
                way.leave()
                if self._free_a_spare():
                    continue
                self._wait_for(self._pause_told())
                break
            self._begin(self._idle.pop(0), claims[0], way, self._gate)
        self._hungry = False

    def _closed_by(self) -> tuple[str, ...]:
        """Why nothing is claimed now, as sentences."""
        return tuple(filter(None, (self._gate.rests(), self._awaited if self._drowned else "")))

    def _declared(self) -> tuple[str, ...] | None:
        """Ids of ready tasks that declare the paths they touch; None where every task may be claimed."""
        if not self.options.declared_only:
            return None
        want = Want(worker=self.options.name, lease=self.lease, tags=self.options.tags, big=self.options.big)
        ready = cards(self.queue.store, State.READY, tied=True)
        return tuple(card.task.id for card in ready if card.task.touches and not card.held and suits(card.task, want))

    def _claim(self, worker: str) -> list[Claim]:
        """The next task for this worker."""
        tags, big, ids = self.options.tags, self.options.big, self._declared()
        if ids is not None and not ids:
            self._wait_for(DECLARED_ONLY)
            return []
        return self.queue.claim(worker, tags=tags, big=big, lease=self.lease, ids=ids or ())

    def _free_a_spare(self) -> bool:
        """There is nothing else to do, and quota would be lost: a spare task is one as all others from now on."""
        why = self._gate.is_lost_soon()
        if not why or self.queue.store.paused():
            return False
        tags, big = self.options.tags, self.options.big
        want = Want(worker=self.options.name, lease=self.lease, tags=tuple(tags), big=big)
        for card in cards(self.queue.store, State.READY, tied=True):
            if card.task.hold == SPARE and suits(card.task, want):
                try:
                    self.queue.edit(card.task.id, self.options.name, _freed, "unblocked", why)
                except TaskpitError:
                    continue  # another was faster: there may be more
                return True
        return False

    def _fill_reviews(self) -> None:
        """The reviewer has a change to judge, if one waits."""
        reviews = self._reviews
        if reviews is None or not self._judges or self._ending() or (way := self._enter(reviews.gate)) is None:
            return
        try:
            claim = reviews.take(self._judges[0], self.lease)
        except Storage as error:
            way.leave()
            self._was_refused(error)
            return
        if claim is None:
            way.leave()
        else:
            self._begin(self._judges.pop(0), claim, way, reviews.gate)

    def _pause_told(self) -> str:
        try:
            paused = self.queue.store.paused()
        except Storage:
            return ""
        return f"the queue is {paused}; {resuming(paused)}".rstrip("; .") if paused else ""

    def _enter(self, gate: Gate) -> Pass | None:
        """The backend takes one more; None if it is full or rests, and whoever watches knows that."""
        way = gate.enter()
        if news := gate.news():
            self.show.say(news)
        return way

    def _day_is_spent(self) -> bool:
        """Whether today may cost no more: then the queue is paused until tomorrow, or until somebody says go on."""
        reason = pause_if_spent(self.queue, self.options.budget, self.options.name)
        self._wait_for(reason)
        return bool(reason)

    def _many_wait_for_review(self) -> bool:
        """Whether a person has enough to look at: new work would only drown them."""
        limit, pipe = self.options.review_limit, self.options.landing
        if not limit or pipe is None or pipe.terms.review != "person":
            return False
        try:
            waiting = sum(
                1
                for card in cards(self.queue.store, State.READY, tied=True)
                if card.task.hold.startswith(f"{REVIEW} by a person")
            )
        except Storage:
            return False
        self._drowned = waiting + len(self._doing) >= limit
        if self._drowned:
            self._wait_for(f"{waiting} wait for review, and the limit is {limit}; `pit review` shows them")
        return self._drowned

    def _was_refused(self, error: Storage) -> None:
        """The disk said no: try again for a while, then say so and end."""
        now = time.monotonic()
        if not self._refused:
            self._refused = now
            self.show.say(f"{error.message}; trying again")
        elif now - self._refused > PATIENCE:
            self.error = error
        self._hungry = False

    def _begin(self, worker: str, claim: Claim, way: Pass, gate: Gate) -> None:
        self._started += worker != self._reviewer
        self._awaited = ""
        way.started(self.queue.clock.now())
        try:
            run = Run(claim, self._places.of(claim), self._where, self._notes[worker], self._seen)
        except OSError as error:
            way.leave()
            self.queue.finish(claim, Release(reason=str(error)))
            self.error = Storage(f"there is no room to run {claim.task.id}: {error}")
            return
        run.gate = gate
        run.slot = _number_of(worker)
        run.sandbox = self.options.sandbox
        run.stream = LogStream(self.queue.store, run) if self._streams else None
        self._heartbeat.add(worker, run)
        self._doing[worker] = claim.task.id
        self._unshown.append(claim)
        self._show_claimed()
        self._going.add(claim.task.id)
        if worker not in self._jobs:
            self._jobs[worker] = queues.SimpleQueue()
            thread = threading.Thread(target=self._work_on, args=(worker,), name=worker, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._jobs[worker].put((run, way))

    def _work_on(self, worker: str) -> None:
        """One task after another, in the worker's thread."""
        try:
            while (job := self._jobs[worker].get()) is not None:
                over = self._work(worker, *job)
                with self._turn:
                    self._ended(worker, over)
                    self._fill()
                    self._listen_if_hungry()
                    if worker not in self._doing:
                        self.inbox.put(None)  # it may have been the last one
        except BaseException as error:  # shown by whoever runs the pool
            self.inbox.put(error)

    def _work(self, worker: str, run: Run, way: Pass) -> ClaimEnd:
        """One task; how its claim ended, whatever happens."""
        over = ClaimEnd(claim=run.claim, word="unsaved", details="its thread broke")
        reviews = self._reviews if worker == self._reviewer else None
        runner, steps = (reviews.runner, review_steps(reviews)) if reviews else (self.runner, WORK)
        try:
            over = perform(
                Attempt(self.queue, run, runner, self.options),
                steps,
                lambda: self._heartbeat.drop(worker),
                lambda why: self._is_short(worker, run, why),
            )
        except Exception as error:
            over = over.replace(details=f"{type(error).__name__}: {error}")
        self._heartbeat.drop(worker)
        way.leave()
        run.bell.close()
        if over.word != "unsaved":
            run.place.clear()
        return over

    def _is_short(self, worker: str, run: Run, why: str) -> bool:
        """Whoever runs the pool hears that a result waits for room; whether it may wait on. In the worker's thread."""
        self.inbox.put(Short(worker, run.claim.task.id, why))
        return len(self.signals) < 2

    # -- hearing -----------------------------------------------------------------------------------

    def _hear(self) -> None:
        """Wait for news, then take in all there are."""
        news: list[object] = []
        try:
            news.append(self.inbox.get(timeout=self.show.period or LOOK_AGAIN))
            while True:
                news.append(self.inbox.get_nowait())
        except queues.Empty:
            pass
        with self._turn:
            for one in news:
                self._take(one)
            if time.monotonic() - self._woke > LOOK_AGAIN:
                self._wake()
            self.show.look(self._heartbeat.runs(), self._survey)

    def _listen_if_hungry(self) -> None:
        """The heartbeat tells of changes while a worker has nothing to do."""
        hungry = bool(self._idle or self._judges) and not self._closing()
        if hungry != self._listens:
            self._listens = hungry
            self._heartbeat.listen(hungry=hungry)

    def _wake(self) -> None:
        self._hungry, self._woke = True, time.monotonic()

    def _take(self, news: object) -> None:
        match news:
            case signal.Signals():
                self._signalled(news)
            case ("", ClaimEnd() as over):
                self._landed(over)
            case BaseException():
                raise news
            case None:
                pass
            case Short():
                self._waits(news)
            case Survey():
                self._survey = news
            case "changed":
                self._wake()
            case Mend():
                self.show.mended(news)
            case _:
                self.show.say(str(news))

    def _ended(self, worker: str, over: ClaimEnd) -> None:
        del self._doing[worker]
        self._short.discard(worker)
        (self._judges if worker == self._reviewer else self._idle).append(worker)
        self._wake()
        if over.word in ("handed in", "approved"):
            self._land()
        self._count(over)
        fatal = over.fatal or self._repeated(over)
        if fatal is not None and self.error is None:
            self.error = fatal
            self.show.say(f"{fatal.message}; no further task is claimed")

    def _repeated(self, over: ClaimEnd) -> TaskpitError | None:
        """Why the pool ends: the same exception of ours, at a second task."""
        if not over.mistake or self._mistakes.setdefault(over.mistake, over.claim.task.id) == over.claim.task.id:
            return None
        both = f"{self._mistakes[over.mistake]} and {over.claim.task.id}"
        return TaskpitError(
            f"taskpit failed in the same way on {both}: {over.mistake}",
            hint=f"`pit why {over.claim.task.id}` shows the trace. Please report it.",
        )

    def _land(self) -> None:
        """What was handed in is landed beside the work."""
        if self._lander is None and self.options.landing is not None:
            from taskpit.run.landing_thread import LandingThread

            told = (self.queue, self.options.landing, self.options.name, self.inbox, self.options.sandbox)
            self._lander = LandingThread(*told)
            self._lander.start()
        elif self._lander is not None:
            self._lander.hear()

    def _landed(self, over: ClaimEnd) -> None:
        """What was handed in has come to an end, or is back: others may have waited for it."""
        self._wake()
        if self._lander is not None:
            self._lander.unheard.discard(over.claim.task.id)
        self._count(over)

    def _count(self, over: ClaimEnd) -> None:
        if RACER_OF in over.claim.task.extra or RACERS in over.claim.task.extra:
            self._heartbeat.look_at_races()
        if over.claim in self._unshown:
            self._unshown.remove(over.claim)
            self.show.claimed(over.claim)
        self.show.over(over)
        if over.word != "handed in":  # that is not how it ends
            self.tally[over.word] = self.tally.get(over.word, 0) + 1
        if over.word not in ("handed in", "approved"):
            self._going.discard(over.claim.task.id)
        self._show_claimed()

    def _show_claimed(self) -> None:
        """What needed another task of ours is shown as claimed after that one's end, which is heard a moment later; and
        so is what another of our workers or our lander has just let go of.
        """
        if not self._unshown:
            return
        others = list(self._doing.items())
        others += [("", task_id) for task_id in (list(self._lander.unheard) if self._lander is not None else ())]
        for claim in [
            one
            for one in self._unshown
            if not self._going.intersection(one.task.needs)
            and not any(task_id == one.task.id and worker != one.worker for worker, task_id in others)
        ]:
            self._unshown.remove(claim)
            self.show.claimed(claim)

    def _waits(self, news: Short) -> None:
        """Nothing is begun while a result waits for room: it would be worked on in vain, too."""
        if news.worker in self._doing and news.worker not in self._short:
            self._short.add(news.worker)
            self.show.say(f"{news.why}: {news.task_id} waits for room, nothing else is begun")

    def _signalled(self, number: signal.Signals) -> None:
        self.signals.append(number)
        running = len(self._doing)
        if len(self.signals) == 1 and running:
            again = "Ctrl-C" if number is signal.SIGINT else number.name
            self.show.say(f"stopping: {running} running will be finished; {again} again gives them back unfinished")
        elif len(self.signals) == 2 and running:
            self.show.say(f"stopping now: {running} running are ended and given back")
            self._heartbeat.stop_all("stop")
        if len(self.signals) == 2 and self._lander is not None:
            self._lander.stop()


def _reviews_for(queue: Queue, reviewer: Runner | None, options: PoolOptions) -> Reviews | None:
    """What a reviewer does here; only who lands loads what that takes."""
    if reviewer is None or options.landing is None:
        return None
    from taskpit.run.review_thread import Reviews

    return Reviews(queue, options.landing, reviewer, options.tags)


def _number_of(worker: str) -> int:
    """The number at the end of a worker's name, which no other living one of this queue has; else 1."""
    number = worker.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 9 else 1


def _freed(task: Task) -> Task:
    """A spare task as all others; one that a person has put their hand on meanwhile stays as it is."""
    return task.replace(hold="") if task.hold == SPARE else task
