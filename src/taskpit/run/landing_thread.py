"""Landing beside a pool's work: one thread lands what was handed in, while slots take other tasks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from taskpit.errors import Invalid
from taskpit.landing.forge import template
from taskpit.landing.git import GitTrouble
from taskpit.landing.lander import Lander, join
from taskpit.landing.pipe import LandingPipe, queue_key
from taskpit.landing.repository import Repository
from taskpit.landing.values import HandIn, Stopped, Terms
from taskpit.model import Claim, End, Evidence
from taskpit.queue import Queue
from taskpit.run import process
from taskpit.run.allowed import allowed
from taskpit.run.attempt import ClaimEnd, word_of
from taskpit.run.process import SHELL, run_check
from taskpit.run.sandbox import Sandbox
from taskpit.store.port import Member

#: How often it looks whether something was approved elsewhere.
LOOK = 2.0


def pipe_for(queue: Queue, cwd: str, terms: Terms) -> LandingPipe | None:
    """The pipe for work in this directory; None if that is in no checkout and nothing is to land by default.

    What lets nothing land from there is told now, before anything runs.
    """
    away = queue.store.info().kind == "remote"
    if away and terms.land not in ("none", "pr"):
        raise Invalid(
            f"the queue is on another machine: land {terms.land} would leave the change on this one alone",
            hint="`--land pr` pushes it to origin; --pr-command opens the pull request where neither gh nor glab does.",
        )
    try:
        repository = Repository(cwd)
        if terms.land not in ("none", "pr"):
            repository.require_branch(terms.onto or repository.current_branch())
    except GitTrouble:
        if terms.land == "none":
            return None
        raise
    if terms.pr_command:
        template(terms.pr_command)
    onto = terms.onto or (repository.current_branch() if terms.land != "none" else "")
    limits = terms.replace(onto=onto, check_limit=queue.config.check_limit, away=away)
    pipe = LandingPipe(repository, queue_key(queue), limits)
    if terms.land != "none":
        pipe.ready()
    return pipe


class ByHand:
    """What runs because a person approved: in their own process, with what its agent's checks may see."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say

    def run(self, command: str, directory: str, limit: float, log: str = "", env: Sequence[str] = ()) -> Evidence:
        """A check or a set-up."""
        return run_check(command, directory, limit, allowed(os.environ, *env), log=log)

    def say(self, text: str) -> None:
        """For the person."""
        self._say(text)


def land_by_hand(queue: Queue, pipe: LandingPipe, handed: HandIn, worker: str, say: Callable[[str], object]) -> str:
    """What was approved is landed here and now, unless a pool is at it; how it went."""
    turn = pipe.turn(handed.target)
    if not turn.take(wait=False):
        return "a pool lands it"
    member = join(queue, worker)
    try:
        landed = Lander(queue, pipe, member.worker, ByHand(say)).land(handed)
    finally:
        member.leave()
        turn.drop()
    return landed[1].details if landed else "a pool lands it"


class LandingThread:
    """Lands for one pool; the pool hears of each end in its inbox."""

    def __init__(
        self, queue: Queue, pipe: LandingPipe, name: str, inbox: SimpleQueue[object], sandbox: Sandbox | None = None
    ) -> None:
        self._queue = queue
        self._pipe = pipe
        self._name = name
        self._inbox = inbox
        self._sandbox = sandbox.replace(shown=(pipe.git.directory,)) if sandbox is not None else None
        self._member: Member | None = None
        #: Ends the check that runs.
        self._alarm = process.Bell()
        self._stopping = False
        self._quit = False
        self._bell = threading.Event()
        #: Hand-ins it was given, and how many of these it has looked at.
        self._announced, self._seen = 1, 0
        self._published: list[str] = []
        #: What waits for nothing but landing here, as last seen.
        self.known: frozenset[str] = frozenset()
        #: What it has taken to land and the pool has not heard the end of.
        self.unheard: set[str] = set()
        self._thread = threading.Thread(target=self._work, name="lander", daemon=True)

    def start(self) -> None:
        """It lands from now on, beginning with what was left."""
        self._member = join(self._queue, self._name)
        self._thread.start()

    def hear(self) -> None:
        """Something was handed in."""
        self._announced += 1
        self._bell.set()

    def is_done(self) -> bool:
        """Whether nothing is left that it could land now."""
        return self._seen >= self._announced

    def stop(self) -> None:
        """What runs is ended; its candidate waits for the next lander."""
        self._stopping = True
        self._alarm.ring()

    def close(self) -> None:
        """It has ended, and its name is free."""
        self._quit = True
        self._bell.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._alarm.close()
        if self._member is not None:
            self._member.leave()

    # -- its thread --------------------------------------------------------------------------------

    def _work(self) -> None:
        if self._member is None:
            return
        lander = Lander(self._queue, self._pipe, self._member.worker, self)
        while not (self._quit or self._stopping):
            heard = self._announced
            try:
                moved = self._round(lander, anyway=heard > self._seen)
            except Exception as error:  # the next look may find the disk in a better mood; and the pool waits for us
                moved = False
                self.say(f"landing had trouble: {error}")
            if not moved:
                self._seen = max(self._seen, heard)
                self._bell.wait(LOOK)
                self._bell.clear()
        self._seen = self._announced

    def _round(self, lander: Lander, *, anyway: bool = True) -> bool:
        """Everything that waits has had its turn; whether something is left for another round.

        Without `anyway` git is not asked while nothing changes.
        """
        moved = False
        waiting = lander.waiting(anyway=anyway)
        self.known = frozenset(one.task for one in waiting)
        for handed in waiting:
            if self._stopping:
                return False
            turn = self._pipe.turn(handed.target)
            if not turn.take(wait=False):
                moved = True  # another pool lands there just now
                time.sleep(0.1)
                continue
            try:
                began = time.monotonic()
                self.unheard.add(handed.task)
                landed = lander.land(handed)
            finally:
                turn.drop()
            if landed is not None:
                moved = self._over(*landed, began) or moved
            if landed is None or landed[0].task.id != handed.task:  # nothing will be heard of that one
                self.unheard.discard(handed.task)
        began = time.monotonic()
        for looked in lander.look():
            moved = self._over(*looked, began) or moved
        if not moved:
            for line in lander.publish(anyway=anyway):
                self.say(line)
            lander.pack()
        return moved

    def _over(self, claim: Claim, end: End, began: float) -> bool:
        """The pool hears how it ended; whether that was the task's end."""
        over = ClaimEnd(claim=claim, word=word_of(end), details=end.details, seconds=time.monotonic() - began)
        self._inbox.put(("", over))
        return end.result is not None

    # -- as the pipe's hands -----------------------------------------------------------------------

    def run(self, command: str, directory: str, limit: float, log: str = "", env: Sequence[str] = ()) -> Evidence:
        """A check or a set-up, ended with us."""
        info = self._queue.store.info()
        seen = {**allowed(os.environ, *env), "TASKPIT_DIR": info.papers or info.where}
        shell = (*(self._sandbox.wrap(directory, ()) if self._sandbox is not None else ()), *SHELL)
        evidence = run_check(command, directory, limit, seen, log=log, shell=shell, bell=self._alarm)
        if self._stopping:
            raise Stopped
        return evidence

    def say(self, text: str) -> None:
        """The pool shows it; the same thing once."""
        if text not in self._published:
            self._published = [*self._published[-20:], text]
            self._inbox.put(text)
