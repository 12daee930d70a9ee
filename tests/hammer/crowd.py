"""What each process of the hammer does: put, work, keep. Each says in a ledger outside the queue what it was told.

Before any call on the folder a process may be held up for longer than a lease: only so do those come about who
believe that they still have what was given to another.
"""

from __future__ import annotations

import os
import time

import variants
from faults import CHANGES

from taskpit import fs, layouts
from taskpit.clock import Clock
from taskpit.config import Config
from taskpit.errors import Unavailable
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Release, Said, Split, Task
from taskpit.queue import Queue
from taskpit.store.files import FileStore

#: Held up for up to so many leases, before a call that changes something and before one that looks.
LONGEST_PAUSE = 1.5
BEFORE_CHANGES, BEFORE_LOOKS = 0.08, 0.003
#: One claim in so many is worked on for longer than its lease, without a sign; and with.
OVERRUNS, RENEWS = 0.15, 0.2


class Job:
    """One queue under the hammer: where it is, how its leases are, and who is told."""

    def __init__(self, root, layout, ledger, *, lease=0.4, durability="process", mutant="", pauses=1.0):
        self.root = root
        self.layout = layout
        self.lease = lease
        self.mutant = mutant
        self.pauses = pauses
        self.config = Config(
            durability=durability,
            lease=lease,
            abandoned=2 * lease,
            backoff=0.0,
            losses=10**6,
            max_attempts=10**6,
            choke=10**6,
        )
        self._ledger = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def tell(self, word, task_id, mark, *more):
        """One line of the ledger: when, what, of which task, by which claim."""
        line = "\t".join([f"{time.time():.6f}", word, task_id, mark, *map(str, more)])
        os.write(self._ledger, f"{line}\n".encode())

    def told(self):
        """All sorts of things that are in the ledger: ends with what was said of them, repairs by their kind."""
        with open(f"/proc/self/fd/{self._ledger}", encoding="utf-8") as file:
            lines = [line.rstrip("\n").split("\t") for line in file]
        return {words[5] if words[1] == "ended" else words[3] for words in lines if words[1] in ("ended", "mended")}

    def queue(self):
        """The queue as one process sees it, one that leaves the others little time to finish."""
        store = FileStore(self.root, layouts.get(self.layout), self.config, Clock(), grace=self.lease / 4)
        return Queue(store, self.config, store.folder.clock)

    def disturbed(self, rng):
        """The same, held up now and then, in one variant of the protocol. Where the last claim began is in `begun`."""
        variants.become(self.mutant)
        queue = self.queue()
        ready = queue.store.folder.at(f"{queue.store.folder.layout.ready}/")
        self.begun = 0.0

        def hook(call, path):
            if rng.random() < self.pauses * (BEFORE_CHANGES if call in CHANGES else BEFORE_LOOKS):
                time.sleep(rng.random() * LONGEST_PAUSE * self.lease)
            if call == "rename" and path.startswith(ready):
                self.begun = time.time()

        fs.set_hook(hook)
        return queue


def put(job, rng, backlog=24):
    """Keep the queue filled; several do the same at once, and each goes on where the ledger says."""
    queue, number = job.disturbed(rng), rng.randrange(1, 10)
    ready = f"{job.root}/{queue.store.folder.layout.ready}"
    while True:
        if len(os.listdir(ready)) > backlog:
            time.sleep(0.02)
            continue
        task_id = f"h{number}"
        task = Task(
            id=task_id, title=f"task {number}", slug="work", by="ann", created=1_700_000_000, max_attempts=10**6
        )
        said = queue.store.put([task])[0]
        job.tell("put", task_id, "", said)
        number += 1 if said is Said.CREATED else rng.randrange(1, 5)


class Worker:
    """Claims and ends."""

    def __init__(self, job, number, rng):
        self.job = job
        self.rng = rng
        self.queue = job.disturbed(rng)
        self.name = f"snake-{number}"
        self.count = 0
        if job.mutant == "fixed name":
            self.name = "snake"
        elif number % 2:  # the others leave no proof of life, like commands that claim and exit
            self.queue.store.join(self.name, job.lease, patience=30.0)

    def run(self):
        """For ever."""
        while True:
            try:
                for claim in self.queue.claim(self.name, wait=0.2, lease=self.job.lease):
                    self._work(claim)
            except Unavailable:
                continue  # somebody was stopped in the middle of it

    def _work(self, claim):
        self.count += 1
        mark = f"{os.getpid()}.{self.count}"
        task_id = claim.task.id
        self.job.tell("claimed", task_id, mark, f"{self.job.begun:.6f}", f"{claim.since:.6f}")
        self._mull(claim, mark)
        outcome, kind = self._outcome(claim, mark)
        self.job.tell("ending", task_id, mark, kind)
        for _ in range(3):
            try:
                said, end = self.queue.finish(claim, outcome)
            except Unavailable:
                continue
            children = ",".join(child.id for child in end.children)
            self.job.tell("ended", task_id, mark, kind, said, children)
            return

    def _mull(self, claim, mark):
        chance = self.rng.random()
        if chance < OVERRUNS:
            time.sleep(self.job.lease * (1 + self.rng.random()))  # no sign for longer than a lease
        elif chance < OVERRUNS + RENEWS:
            self._renew(claim, mark)

    def _renew(self, claim, mark):
        """Longer than a lease, with signs; while each of them came in time, the claim must be ours."""
        last, in_time = claim.since, True
        for _ in range(5):
            time.sleep(self.job.lease / 4)
            begin = time.time()
            try:
                said = self.queue.renew(claim)
            except Unavailable:
                return
            in_time = in_time and time.time() - last < self.job.lease * 0.9
            if said is Said.LOST:
                self.job.tell("robbed" if in_time else "renewed too late", claim.task.id, mark)
                return
            last = begin

    def _outcome(self, claim, mark):
        chance = self.rng.random()
        if chance < 0.15:
            return Failed(error=f"tried={mark}"), "again"
        if chance < 0.2:
            return Release(), "released"
        if chance < 0.28:
            return Failed(error=f"mark={mark}", output=f"mark={mark}", final=True), "failed"
        if chance < 0.36 and not claim.task.parent and claim.task.id.startswith("h"):
            parts = tuple(Task(id="", title=title, max_attempts=10**6) for title in ("one part", "another"))
            return Split(children=parts, output=f"mark={mark}"), "split"
        return Done(output=f"mark={mark}"), "done"


def work(job, number, rng):
    """A worker."""
    Worker(job, number, rng).run()


def keep(job, rng):
    """A keeper: sweeps for ever."""
    queue = job.disturbed(rng)
    while True:
        try:
            for mend in sweep(queue):
                job.tell("mended", mend.what.replace("\t", " "), mend.kind)
        except Unavailable:
            continue
