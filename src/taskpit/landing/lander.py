"""Landing what was handed in: takes the task as any worker would, lands it, ends the claim. Runs no agent.

Anybody may do it: a pool beside its work, or a person who approves. What a killed one left is found by the next.
"""

from __future__ import annotations

from collections.abc import Callable

from taskpit import fs, workers
from taskpit.clock import Clock
from taskpit.errors import Lost, TaskpitError
from taskpit.landing import review
from taskpit.landing.forge import Pull, Pulls, is_open
from taskpit.landing.pipe import LandingPipe
from taskpit.landing.values import CANDIDATE, FenceLost, HandIn, Hands, Stopped, held
from taskpit.model import Card, Claim, Done, End, Failed, Outcome, Release, Said, State, Want
from taskpit.policy import LANDING, PULL
from taskpit.queue import Queue
from taskpit.race import racers_of
from taskpit.store.port import Member
from taskpit.text import headline

#: Trouble that is nobody's conflict is tried again this often before a person is asked.
TRIES = 3
#: Our repository is packed at most so often, in seconds; and so often it is looked whether it should be.
DAILY, PACK_LOOK = 86400.0, 600.0


class Seldom:
    """When to ask git again: at once when one of these files or directories has changed, else after pauses that double.

    Git moves each of its files into place, so a directory tells what was changed in it.
    """

    #: Seconds. The first pause is longer than what a file's time can tell apart.
    FIRST, LONGEST = 1.0, 60.0

    def __init__(self, clock: Clock, *paths: str) -> None:
        self._clock = clock
        self._paths = paths
        self._seen: list[object] = []
        self._pause = self._next = 0.0

    def due(self, *, anyway: bool = False) -> bool:
        """Whether to ask now; then that counts as done."""
        now, changed = self._clock.monotonic(), self._look() != self._seen
        if not (changed or anyway or now >= self._next):
            return False
        self._pause = self.FIRST if changed or anyway else min(2 * self._pause, self.LONGEST)
        self._next = now + self._pause
        self.asked()
        return True

    def asked(self) -> None:
        """What the asking itself has changed is no news."""
        self._seen = self._look()

    def _look(self) -> list[object]:
        found = map(fs.status, self._paths)
        return [(one.st_mtime_ns, one.st_ino) if one is not None else None for one in found]


def is_to_land(card: Card | None, handed: HandIn) -> bool:
    """Whether this very candidate waits for nothing but landing."""
    if card is None or card.state is not State.READY or not card.task.hold.startswith(LANDING):
        return False
    if not handed.may_land:  # whatever the task's file says
        return False
    candidate = card.task.extra.get(CANDIDATE)
    return isinstance(candidate, dict) and candidate.get("commit") == handed.commit


def join(queue: Queue, name: str) -> Member:
    """A name to land under, held while we live: what a killed one had is given back at once."""
    number = 0
    while True:
        number += 1
        try:
            return queue.store.join(f"{workers.base(name)[:40]}-lander-{number}", queue.config.lease, patience=0.0)
        except Lost:
            continue


class Lander:
    """Lands the tasks of one queue in one repository, under one name."""

    def __init__(self, queue: Queue, pipe: LandingPipe, worker: str, hands: Hands) -> None:
        self.queue = queue
        self.pipe = pipe
        self.worker = worker
        self.hands = hands
        terms = pipe.terms
        #: Long enough for two set-ups and checks: a lander that dies is noticed by its lock, not by this.
        self.lease = max(queue.config.lease, 2 * (terms.setup_limit + terms.check_limit) + 60.0)
        self._trouble: dict[str, int] = {}
        self._pulls = Pulls(pipe)
        self._pack_look = 0.0
        #: What waits for its pull request, as last seen.
        self._pulled: list[HandIn] | None = None
        ours, theirs = pipe.git.directory, pipe.repository.places()
        #: What was handed in, as last seen, and when that is looked at again; the same for the person's branches.
        self._handed: dict[str, HandIn] = {}
        self._hands = Seldom(queue.clock, f"{ours}/refs/pit/hand/{pipe.queue}", f"{ours}/packed-refs")
        self._branches = Seldom(queue.clock, *theirs, f"{ours}/refs/pit/line", f"{ours}/packed-refs")

    def waiting(self, *, anyway: bool = True) -> list[HandIn]:
        """What could be landed now; what was landed, sealed and left lying is cleaned up on the way.

        Without `anyway` git is asked only if something was handed in, approved or landed since.
        """
        if self._hands.due(anyway=anyway):
            self._handed = self.pipe.waiting()
        handed = self._handed
        cards = dict(zip(handed, self.queue.store.read(list(handed)), strict=True))
        for task_id, card in cards.items():
            if card is None:  # its file is elsewhere for now: moved by hand, or on another branch of a tracked queue
                continue
            if card.state is State.DONE or (card.state is State.FAILED and handed[task_id].parent):
                self._afterwards(handed[task_id])  # a racer's candidate is kept, its clone is not
        self._pulled = [one for task_id, one in handed.items() if is_open(cards[task_id], one)]
        return [one for task_id, one in handed.items() if is_to_land(cards[task_id], one)]

    def land(self, handed: HandIn) -> tuple[Claim, End] | None:
        """It has landed and is sealed, or is back, or waits for a person. None: it is not to be had."""
        if not handed.parent:
            return self._end(handed, LANDING, lambda claim: self._outcome(claim, handed))
        card = self.queue.store.read([handed.parent])[0]
        if card is None or handed.task not in racers_of(card.task):
            self.hands.say(f"{handed.task} is no racer of {handed.parent}, so it does not land")
            return None
        parent = self._take(handed.parent)
        if parent is None:
            self.queue.look_after_race(card.task, self.worker)  # it may be over; else another racer's lands just now
            return None
        landed = self._end(handed, LANDING, lambda claim: self._outcome(claim, handed, parent), parent)
        if landed is None or landed[0].task.id != handed.parent:  # not sealed: the race goes on
            self.queue.store.finish([End(claim=parent)])
            self.queue.look_after_race(parent.task, self.worker)
        return landed

    def publish(self, *, anyway: bool = False) -> list[str]:
        """The person's branches have what landed on them, as far as may be; what is in the way, as sentences.

        Tried when something has changed there, and after pauses: a file may be clean again without any trace.
        """
        if not self._branches.due(anyway=anyway):
            return []
        lines = self.pipe.publish()
        self._branches.asked()
        return lines

    def pack(self) -> bool:
        """Our repository is packed, if it needs that and nobody lands in it; nobody does until it is."""
        repository, now = self.pipe.repository, self.queue.clock.monotonic()
        if now < self._pack_look or not repository.is_known() or not repository.git.needs_packing():
            return False
        self._pack_look = now + PACK_LOOK
        turns = self.pipe.turns()
        try:
            if not all(turn.take(wait=False) for turn in turns):
                return False
            if repository.is_due("packed", DAILY):
                repository.git.pack()
            return True
        finally:
            for turn in turns:
                turn.drop()

    def look(self, *, now: bool = False) -> list[tuple[Claim, End]]:
        """What became of pull requests: merged is done, closed is a person's, changes go back to the agent."""
        if self._pulled is None:
            self.waiting()
        waiting = self._pulled or []
        found = self._pulls.look(waiting, now=now)
        ended = [self._judge(one, found[one.task]) for one in waiting if one.task in found]
        return [one for one in ended if one is not None]

    def _judge(self, handed: HandIn, pull: Pull) -> tuple[Claim, End] | None:
        if pull.state == "merged" and pull.merged:
            return self.confirm(handed, pull.merged)
        if pull.state == "closed":
            return self._end(handed, PULL, lambda claim: self._pulls.closed(claim, handed))
        if pull.state == "open" and (text := self._pulls.wanted(handed, pull)):
            review.send_back(self.queue, handed.task, self.worker, text)
            self.hands.say(f"{handed.task} goes back to its agent: changes are wanted in {pull.url}")
        return None

    def confirm(self, handed: HandIn, commit: str = "") -> tuple[Claim, End] | None:
        """Its pull request is merged, by this commit; or a person says so, and names none."""

        def outcome(claim: Claim) -> Outcome:
            try:
                return self._pulls.merged(claim, handed, commit)
            except (TaskpitError, OSError) as error:  # the next look may find it
                self.hands.say(f"{handed.task}: {error}")
                return Release(reason=str(error))

        return self._end(handed, PULL, outcome)

    def _take(self, task_id: str) -> Claim | None:
        claims = self.queue.store.claim(Want(worker=self.worker, lease=self.lease, ids=(task_id,), even_held=True))
        return claims[0] if claims else None

    def _end(
        self, handed: HandIn, hold: str, outcome_of: Callable[[Claim], Outcome], parent: Claim | None = None
    ) -> tuple[Claim, End] | None:
        """The task is taken as any worker would, and ended so; None if it does not wait for that any more."""
        claim = self._take(handed.task)
        if claim is None:
            return None
        if not claim.task.hold.startswith(hold):  # it was sent back or taken over meanwhile
            self.queue.finish(claim, Release(reason="it does not wait for landing"))
            return None
        try:
            outcome = outcome_of(claim)
        except BaseException:  # a person's Ctrl-C: it waits as before, and not for the end of a long lease
            self.queue.finish(claim, Release(reason="landing it was interrupted"))
            raise
        if parent is not None and isinstance(outcome, Done):
            return self._seal(claim, handed, parent, outcome)
        if parent is not None and isinstance(outcome, Failed) and outcome.cancelled:
            _, end = self.queue.finish(parent, outcome)
            self.queue.finish(claim, outcome)
            return parent, end
        if isinstance(outcome, Failed):
            extra = {key: value for key, value in claim.task.extra.items() if key != CANDIDATE}
            claim = claim.replace(task=claim.task.replace(hold="", extra=extra))
        said, end = self.queue.finish(claim, outcome)
        if said is Said.LOST:
            return None
        if isinstance(outcome, Done):
            self._afterwards(handed)
        elif isinstance(outcome, Failed):
            self.pipe.forget(handed.task)
        return claim, end

    def _seal(self, claim: Claim, handed: HandIn, parent: Claim, done: Done) -> tuple[Claim, End] | None:
        """A racer's has landed: the parent is done, then the racer. It may be another's, whose lander died."""
        winner = self.pipe.hand_in_of(handed.parent) or handed
        waiting = [one for one in self.pipe.waiting().values() if one.parent == handed.parent]
        said, end = self.queue.seal(parent, winner.task, done, [one.cost for one in waiting if one.task != winner.task])
        if said is Said.LOST:
            self.queue.finish(claim, Release(reason="the claim on its race is over"))
            return None
        self.queue.finish(claim, done)
        self._afterwards(winner)
        return parent, end

    def _outcome(self, claim: Claim, handed: HandIn, parent: Claim | None = None) -> Outcome:
        """How the claim ends: a conflict is the agent's while it has attempts, and a person's then."""
        asked: list[Said] = []

        def still_ours() -> bool:
            asked.append(self.queue.renew(parent or claim, self.lease))
            return asked[-1] is not Said.LOST

        try:
            outcome = self.pipe.land(claim, self.hands, still_ours, parent)
        except (FenceLost, Stopped) as error:
            return Release(reason=str(error))
        except (TaskpitError, OSError) as error:
            return self._troubled(claim, handed, error)
        if isinstance(outcome, Done):
            return outcome
        if Said.CANCEL in asked or not still_ours() or Said.CANCEL in asked:
            return Failed(error="cancelled", cancelled=True)
        allowed = claim.task.max_attempts or self.queue.config.max_attempts
        if isinstance(outcome, Failed) and claim.task.attempts + 1 >= allowed:
            return held(claim.task, handed, [f"no attempt is left: {headline(outcome.error)[:250]}"])
        return outcome

    def _troubled(self, claim: Claim, handed: HandIn, error: Exception) -> Release:
        """Trouble is no conflict: it is tried again, and then told to a person, the candidate kept."""
        count = self._trouble[claim.task.id] = self._trouble.get(claim.task.id, 0) + 1
        hint = error.hint if isinstance(error, TaskpitError) else ""
        message = " ".join(f"{str(error)[:250]}{f'. {hint}' if hint else ''}".split())
        self.hands.say(f"{claim.task.id} could not be landed: {message}")
        if count < TRIES:
            return Release(reason=message)
        del self._trouble[claim.task.id]
        return held(claim.task, handed, [f"it could not be landed: {message}"])

    def _afterwards(self, handed: HandIn) -> None:
        """The person's branch has it, if nothing is in the way; what only landing needed is gone."""
        try:
            where = handed.target if handed.land == "merge" else ""  # a branch of its own may have got a number since
            for line in self.pipe.publish(where) if handed.land != "pr" else ():
                self.hands.say(line)
            self.pipe.clean(handed.task)
            card = self.queue.store.read([handed.parent])[0] if handed.parent else None
            if card is not None and card.result is not None:
                self.pipe.clean(handed.parent)
                for racer in racers_of(card.task):
                    self.pipe.clones.remove(racer)
        except (TaskpitError, OSError) as error:  # it has landed: the next look does this
            self.hands.say(f"after {handed.task} landed: {' '.join(str(error).split())[:250]}")
