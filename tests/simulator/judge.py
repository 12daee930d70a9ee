"""The judge: one rule for each promise of docs/guarantees.md that a history can break.

| rule | promise |
|---|---|
| one result | exactly one result per task |
| acknowledged | what was acknowledged survives kill -9, and power loss with `durability = "power"` |
| words are kept | a second result is kept aside; nothing is deleted |
| robbed | a worker that renews is never robbed; fences are unique |
| too early, ran again | no task runs before its needs, none after it was done |
| whole verbs | a verb has happened or it has not: the same put exists, the same end is known |
| refused | no verb ends with an unexpected error; a task that is known is found |
| quiet | after one sweep the next ones do nothing, doctor has nothing to say, and what is ready can be done |
| missed | a worker is given a task that is ready, and none while the queue is paused |
| at once | a limit of one is used by one task at a time; a lock has one holder, and its number grows |
| asked to stop | who renews after the task was cancelled is asked to stop |
| log | the changelog tells of each end |
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from scheduler import SECOND, Killed

from taskpit.errors import Conflict, Held, Invalid, Lost, NotFound, Nothing, Storage, TaskpitError, Unavailable
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Said, Split, State

#: What a person may be answered, whatever the state of a task.
FAIR = (Nothing, Held, Lost, Conflict, Invalid)
#: Verbs that name a task which may be in any state.
PERSONAL = ("retry", "cancel", "block", "unblock", "edit", "note", "claim")


@dataclass
class Given:
    """A claim that a worker was given."""

    claim: object
    host: str
    #: The call that it came from.
    call: object


class Judge:
    """What a history may not show."""

    def __init__(self, history):
        self.history, self.book = history, history.book
        self.world, self.machine, self.knobs = history.world, history.machine, history.knobs
        self.stopped: list[tuple[int, int, int, bool]] = []
        self.held: dict[str, Given] = {}

    # While it happens

    def claimed(self, host, claim):
        call = host.book_last()
        if claim.fence in self.held:
            self.breaks("robbed", f"the fence {claim.fence} was given twice")
        self.held[claim.fence] = Given(claim, host.actor.name, call)
        for need in claim.task.needs:
            if not self._was_done(need):
                self.breaks("too early", f"{claim.task.id} was given out before {need} was done", call)
        for end in self.ends(claim.task.id):
            if end.ended is not None and end.ended < call.began and self._is_done(end):
                self.breaks("ran again", f"{claim.task.id} was given to {claim.fence} after {end}", end, call)
        for entry in self.book.strange:
            result = entry.what == "result" and entry.task_id == claim.task.id
            if result and entry.time + 3 * SECOND < call.started and not self.book.outages:
                self.breaks("ran again", f"{claim.task.id} was given to {claim.fence} after {entry}", call)

    def _was_done(self, task_id):
        by_us = any(isinstance(call.args[2], Done | Split) for call in self.ends(task_id))
        return by_us or any(
            entry.task_id == task_id and entry.what.startswith(("takes", "result")) for entry in self.book.strange
        )

    # What the book tells

    def breaks(self, rule, text, *calls):
        self.world.note(f"BROKEN {rule}")
        self.book.breaks(rule, text, *calls)

    def ends(self, task_id=None):
        return [call for call in self.book.of("finish") if task_id in (None, call.args[0])]

    def _said(self, call):
        """What a finish answered."""
        return call.answer[0] if call.answer is not None else None

    def _is_done(self, call):
        return self._said(call) is Said.OK and isinstance(call.args[2], Done)

    def strange(self, task_id, *kinds):
        return [one for one in self.book.strange if one.task_id == task_id and (not kinds or one.what in kinds)]

    def puts(self):
        """Each acknowledged put: its call, the id, and what was said."""
        for call in self.book.of("put"):
            for task_id, said in call.answer or ():
                yield call, task_id, said

    # At the end

    def conclude(self):
        """Let things settle, look at everything, and do what is left to do."""
        if self.world.stopping is not None:
            return
        self.world.limit = self.world.steps + 500_000
        process = self.world.process("judge")
        try:
            self.queue = self.history.open_queue(process)
            self._settle()
            self._check_doctor("after four sweeps")
            self.cards = {task_id: self.queue.store.read([task_id])[0] for task_id in self._ids()}
            self._look()
            self._drain()
        except Killed:
            raise
        except Exception as error:
            import traceback

            self.breaks("refused", f"the judge itself: {error!r} {''.join(traceback.format_exception(error)[-4:])}")

    def _ids(self):
        ids = dict.fromkeys(task_id for _, task_id, _ in self.puts())
        return list(ids)

    def _settle(self):
        self.machine.notifies = True
        self.world.monotonic += (3 * 86400 if self.book.leaps else 5 * 3600) * SECOND
        for _ in range(3):
            sweep(self.queue)
            self.world.monotonic += 7200 * SECOND
        last = sweep(self.queue)
        if last:
            self.breaks("quiet", f"the fourth sweep still does something: {last}")

    def _check_doctor(self, when):
        found = [one for one in self.queue.store.check() if one.kind not in ("late result", "torn")]
        if self.book.strange:  # what strangers left is kept, and doctor shows it
            found = [one for one in found if one.kind not in ("quarantined", "being written")]
        found = [one for one in found if one.kind != "vanished" or not self.strange(one.what, "checks out")]
        if self.book.outages:  # the manifest, and a mailbox' claimed copies, are derived and never flushed
            found = [one for one in found if "manifest.json" not in one.what and "processing/" not in one.details]
        if self.book.outages and not self.knobs.ordered:  # names that came back are set aside
            found = [one for one in found if one.kind != "quarantined"]
        if self.book.outages:  # strangers flush nothing: what they moved or wrote may be gone
            found = [one for one in found if one.kind not in ("vanished", "result gone") or not self.strange(one.what)]
        if found:
            self.breaks("quiet", f"doctor {when}: {[(one.kind, one.what, one.details) for one in found]}")

    def _look(self):
        self._one_result()
        self._acknowledged_puts()
        self._acknowledged_ends()
        self._words()
        self._robbed()
        self._errors()
        self._missed()
        self._paused()
        self._limits()
        self._locks()
        self._asked_to_stop()
        self._log()

    def _one_result(self):
        listing = self.machine.disk.listing
        marks = [
            name for name in listing("/q/.taskpit/ended") if name.partition("~")[2] in ("done", "failed", "cancelled")
        ]
        for task_id in self._ids():
            done = [call for call in self.ends(task_id) if self._is_done(call)]
            if len(done) > 1:
                self.breaks("one result", f"{task_id} was done twice: {done[0]} and {done[1]}", *done)
            mine = [name for name in marks if name.startswith(f"{task_id}~")]
            if len(mine) > 1:
                self.breaks("one result", f"{task_id} has two results: {mine}")
            created = [call for call, one, said in self.puts() if one == task_id and said is Said.CREATED]
            if len(created) > 1 and not self.book.outages:
                self.breaks("one result", f"{task_id} was created twice: {created[0]} and {created[1]}", *created)

    def _acknowledged_puts(self):
        for call, task_id, said in self.puts():
            if self.cards[task_id] is None:
                self.breaks("acknowledged", f"{task_id} is not there; {call.actor} was answered {said}", call)
        for task_id, card in self.cards.items():
            edited = self.strange(task_id) or any(call.args[0] == task_id for call in self.book.of("edit"))
            if card is not None and not edited and f"body of {task_id}" not in card.task.body:
                self.breaks("acknowledged", f"{task_id} has other words: {card.task.body!r}")

    def _acknowledged_ends(self):
        for call in self.ends():
            task_id, _, outcome = call.args
            card = self.cards.get(task_id)
            if card is None or self._said(call) is not Said.OK:
                continue
            if isinstance(outcome, Done):
                words = card.result.output if card.result else ""
                if card.state is not State.DONE or outcome.output.strip() not in words:
                    self.breaks("acknowledged", f"{call}, and now it is {card.state} {words!r}", call)
            elif isinstance(outcome, Failed) and call.answer[1].result is not None:
                later = [other for other in self.book.of("retry") if other.args[0] == task_id and other.ended != -1]
                if not later and not self.strange(task_id) and card.state is not State.FAILED:
                    self.breaks("acknowledged", f"{call}, and now it is {card.state}", call)
        for task_id, card in self.cards.items():
            counted = [one.worker for one in card.tries if one.counted] if card else []
            if len(counted) > len(set(counted)):
                self.breaks("whole verbs", f"{task_id}: one claim spent two attempts: {counted}")

    def _tree(self):
        """The bytes of every file of the queue."""
        found, rest = {}, [("", self.machine.disk.find("/q"))]
        while rest:
            path, node = rest.pop()
            for name, child in (node.entries or {}).items():
                if child.entries is None:
                    found[f"{path}/{name}"] = child.data
                else:
                    rest.append((f"{path}/{name}", child))
        return found

    def _words(self):
        everything = b"\n".join(self._tree().values())
        for call in self.ends():
            outcome, said = call.args[2], self._said(call)
            if said is None or not isinstance(outcome, Done | Failed):
                continue
            if call.answer[1].action == "cancelled_task":
                continue  # a person had cancelled it
            if said is Said.ALREADY and any(other.args[1] == call.args[1] for other in self._before(call)):
                continue  # the same claim had ended before: its first words stand
            words = outcome.output if isinstance(outcome, Done) else outcome.error
            if words.encode() not in everything:
                self.breaks("words are kept", f"{call}, and its words are nowhere", call)
        if self.book.outages:
            return
        for entry in self.book.strange:
            once = len(self.strange(entry.task_id, "result")) == 1  # strangers replace each other's
            if entry.words and entry.what == "result" and once and entry.words.encode() not in everything:
                self.breaks("words are kept", f"{entry}, and its words are nowhere")
            edited = any(call.args[0] == entry.task_id for call in self.book.of("edit"))
            alone = len(self.strange(entry.task_id)) == 2 and not edited  # the intent and the deed
            if entry.words and entry.what == "edit" and alone and entry.words.encode() not in everything:
                self.breaks("words are kept", f"{entry}, and its words are nowhere")

    def _before(self, call):
        return [other for other in self.ends(call.args[0]) if other.began < call.began]

    def _robbed(self):
        for call in self.book.of("finish", "renew"):
            said = self._said(call) if call.verb == "finish" else call.answer
            task_id, fence = call.args[:2]
            held = self.held.get(fence)
            if said is not Said.LOST or held is None or self.strange(task_id):
                continue
            before = [other for other in self.book.calls if other.began < call.began and other.args[1:2] == (fence,)]
            if any(other.verb == "finish" for other in before) or call.epoch != held.call.epoch:
                continue
            renewed = [other.started for other in before if other.verb == "renew" and other.answer is Said.OK]
            begin = max([held.call.started, *renewed])
            if call.stopped <= begin + int(self.knobs.lease * SECOND):
                self.breaks(
                    "robbed", f"{call}, {(call.stopped - begin) / SECOND:.1f} s after its last renewal", held.call, call
                )

    def _errors(self):
        for call in self.book.calls:
            error = call.error
            if error is None or self._is_fair(call, error):
                continue
            self.breaks("refused", f"{call.actor} {call.verb}{call.args}: {error!r}\n{call.trace}", call)

    def _is_fair(self, call, error):
        if not isinstance(error, TaskpitError):
            return False
        if isinstance(error, Storage):
            return call.hurt or (isinstance(error, Unavailable) and self._lock_was_stopped(call))
        named = (call.args or ("",))[0] if call.verb != "claim" else (call.args[1] or ("",))[0]
        if isinstance(error, NotFound):
            return not any(one == named and other.ended < call.began for other, one, _ in self.puts())
        if call.verb == "put" and isinstance(error, Conflict):
            return any(self.strange(task_id) for task_id in call.args)
        if call.verb in ("join", "lock") and isinstance(error, Lost):
            return True
        return call.verb in PERSONAL and isinstance(error, FAIR)

    def _lock_was_stopped(self, call):
        return any(held and start < call.stopped and call.started < end for _, start, end, held in self.stopped)

    def _missed(self):
        if self.book.strange or self.book.outages or self.knobs.limited:
            return
        looks = ("put", "begin", "sweep", "renew", "show", "page", "counts", "events", "doctor", "leave", "join")
        for call in self.book.of("claim"):
            if call.answer != [] or call.args[1] or call.hurt:
                continue
            for put, task_id, _ in self.puts():
                if put.stopped + 3 * SECOND > call.started or self.history.tasks[task_id].needs:
                    continue
                others = (other for other in self.book.calls if other.verb not in looks and other is not call)
                if not any(self._concerns(other, task_id) and other.began < call.ended for other in others):
                    self.breaks("missed", f"{call} although {task_id} was put {put.stopped} and is ready", put, call)
                    break

    def _concerns(self, call, task_id):
        if call.verb == "pause":
            return True
        if call.verb == "claim":
            return call.answer is None or any(claim.task.id == task_id for claim in call.answer)
        return task_id in call.args

    def _paused(self):
        """No task is given out between an acknowledged pause and the end of its time."""
        if self.book.leaps or self.book.outages:
            return
        for pause in self.book.of("pause"):
            resumed = [call.began for call in self.book.of("resume", "pause") if call.began > pause.began]
            until = min(resumed, default=1 << 60)
            end = pause.started + int((self.knobs.pause + 1) * SECOND)
            for call in self.book.of("claim"):
                inside = pause.ended is not None and pause.error is None and call.began > pause.ended
                if call.answer and inside and call.ended < until and call.stopped < end:
                    self.breaks("missed", f"{call} although the queue was paused", pause, call)

    def _spans(self):
        """From when until when each claim is surely its worker's: task, begin, end, and the calls of both."""
        for fence, given in self.held.items():
            calls = [call for call in self.book.of("renew", "finish") if call.args[1] == fence]
            renewed = [call.started for call in calls if call.verb == "renew" and call.answer is Said.OK]
            end = max([given.call.started, *renewed]) + int(self.knobs.lease * SECOND)
            ends = [call.started for call in calls if call.verb == "finish"]
            yield given, given.call.stopped, min([end, *ends])

    def _limits(self):
        if not self.knobs.limited or self.book.strange or self.book.leaps or self.book.outages:
            return
        spans = [span for span in self._spans() if span[0].claim.task.limits and span[1] < span[2]]
        for one, begin, end in spans:
            for other, start, _ in spans:
                if other is not one and begin <= start < end:
                    self.breaks("at once", f"{one.call} and {other.call} use one thing at once", one.call, other.call)

    def _locks(self):
        taken = [call for call in self.book.of("lock") if call.answer is not None]
        numbers = [(call.answer.number, call.answer.holder) for call in taken]
        if len(set(numbers)) != len({number for number, _ in numbers}):
            self.breaks("at once", f"two locks have one number: {numbers}")
        if self.book.leaps or self.book.outages:
            return
        for call in taken:
            later = [one for one in self.book.of("relock", "unlock", "lock") if one.actor == call.actor]
            frees = [one.began for one in later if one.verb in ("unlock", "lock") and one.began > call.began]
            for other in taken:
                inside = call.ended < other.began and other.stopped + self.world.offset < call.answer.expires * SECOND
                if other.actor != call.actor and inside and other.ended < min(frees, default=1 << 60):
                    self.breaks("at once", f"{call} and {other} have one lock", call, other)

    def _asked_to_stop(self):
        for call in self.book.of("cancel"):
            if call.answer is not False:
                continue
            for other in self.book.of("renew"):
                given = self.held.get(other.args[1])
                same = given is not None and given.call.ended < call.began and other.args[0] == call.args[0]
                between = [one for one in self.book.of("retry", "unblock") if one.args[0] == call.args[0]]
                if same and not between and other.began > call.ended and other.answer is Said.OK:
                    self.breaks("asked to stop", f"{other} after {call}", call, other)

    def _log(self):
        if self.book.outages:
            return
        events = self.queue.store.events(limit=1 << 20)[0]
        logged = {event.task_id for event in events if event.action == "completed_task"}
        for call in self.ends():
            if self._is_done(call) and call.args[0] not in logged:
                self.breaks("log", f"{call}, and the changelog does not tell", call)

    def _drain(self):
        """What is left is done by one worker, and then there is nothing left to do."""
        for _ in range(100):
            claims = self.queue.claim("last", lease=600.0)
            if not claims:
                break
            for claim in claims:
                answer = self.queue.finish(claim, Done(output="drained"))[0]
                if answer is not Said.OK:
                    self.breaks("whole verbs", f"the last worker's end of {claim.task.id} is {answer}")
        else:
            self.breaks("quiet", "the last worker is given tasks again and again")
        self.world.monotonic += 5 * SECOND
        sweep(self.queue)
        self._check_doctor("at the end")
        for card in self.queue.store.page(State.READY).cards:
            if not card.held:
                self.breaks("quiet", f"{card.task.id} is ready and given to no worker")
        for card in self.queue.store.page(State.CLAIMED).cards:
            self.breaks("quiet", f"{card.task.id} is claimed by {card.worker} at the end")

    def fill_later(self):
        """Let the disk be full for a while; the actors' own chance does not decide when."""
        chance = random.Random(f"{self.knobs.seed}:full")
        begin = self.world.monotonic + int(chance.random() * self.knobs.pause * 5 * SECOND)
        end = begin + int(chance.random() * 20 * SECOND)
        disk, world = self.machine.disk, self.world
        whole = disk.room

        def look():
            disk.room = 0 if begin <= world.monotonic < end else whole

        world.look = look
