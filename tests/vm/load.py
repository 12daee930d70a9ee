"""Work for a power loss to interrupt: putters, workers that finish, fail, retry, split and die, and a keeper.

Every acknowledgement is said to `tell`, which keeps it where the power loss can't reach. What a task or a result
must contain follows from its name alone, so that a judge can know it by heart.
"""

from __future__ import annotations

import functools
import itertools
import os
import time
import zlib

from taskpit import fs
from taskpit.errors import Lost
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Said, Split, State, Task
from taskpit.queue import Queue
from taskpit.store.opening import init

CONFIG = 'durability = "{durability}"\nbackoff = 0.02\nbackoff_longest = 0.02\n'
#: One in so many claims is never finished: its worker dies.
DIES = 9


@functools.cache
def text(name):
    """Lines nobody could write half of unnoticed; up to three pages of a disk."""
    number = zlib.crc32(name.encode())
    lines = (f"{name} line {line} {zlib.crc32(f'{name}{line}'.encode()):08x}" for line in itertools.count())
    return "\n".join(itertools.islice(lines, 2 + number % 150)) + "\nthe end"


def task(task_id):
    """The task of this id."""
    return Task(id=task_id, title=f"task {task_id}", slug="work", by="ann", body=text(task_id), created=1_700_000_000)


def children_of(task_id):
    """What a task that splits is split into."""
    return tuple(task(f"{task_id}{letter}") for letter in "ab")


class Folder:
    """The queue under test: its own verbs, on one task at a time or on `batch` of them."""

    def __init__(self, root, durability, batch=1):
        self.root = root
        self._durability = durability
        self._batch = batch

    def prepare(self):
        """The empty queue."""
        init(self.root, "pit")
        with open(f"{self.root}/.taskpit/config.toml", "w", encoding="utf-8") as file:
            file.write(CONFIG.format(durability=self._durability))

    def put(self, ids, tell):
        """Put these."""
        queue = Queue.open(self.root)
        for start in range(0, len(ids), self._batch):
            some = ids[start : start + self._batch]
            for task_id, said in zip(some, queue.store.put([task(one) for one in some]), strict=True):
                if said is Said.CREATED:
                    tell(f"put:{task_id}")
        queue.close()

    def work(self, name, tell):
        """Claim and end until nothing is left; dies now and then."""
        queue = Queue.open(self.root)
        queue.store.join(name, 60.0, patience=30.0)
        while not self.finished():
            claims = queue.claim(name, lease=60.0, wait=0.2, count=self._batch)
            if any(zlib.crc32(claim.fence.encode()) % (DIES * self._batch) == 0 for claim in claims):
                os._exit(9)
            ends = [(claim, *self._outcome(claim)) for claim in claims]
            for (claim, _, word), (said, _) in zip(ends, queue.finish_many([end[:2] for end in ends]), strict=True):
                if said is Said.OK:
                    tell(f"{word}:{claim.task.id}:{claim.fence}")
        queue.close()

    def _outcome(self, claim):
        """How this claim ends, and the word for it."""
        task_id, kind = claim.task.id, zlib.crc32(claim.task.id.encode()) % 5
        output = text(f"{task_id} by {claim.fence}")
        if kind == 0 and len(task_id) == 4:
            return Split(children=children_of(task_id), output=output), "split"
        if kind == 1:
            return Failed(error="it can't be done", output=output, final=True), "failed"
        if kind == 2 and claim.task.attempts == 0:
            return Failed(error="try again"), "retry"
        return Done(output=output), "done"

    def keep(self):
        """Sweep until nothing is left."""
        queue = Queue.open(self.root)
        queue.store.folder.grace = 0.3
        while not self.finished():
            try:
                sweep(queue)
            except Lost:
                continue
            time.sleep(0.05)
        queue.close()

    def finished(self):
        """Whether everything that was to be put is put and ended."""
        return os.path.exists("/mnt/stop")

    def count_open(self):
        """How many tasks are not ended."""
        queue = Queue.open(self.root)
        counts = queue.store.counts()
        queue.close()
        return counts[State.READY] + counts[State.CLAIMED] + len(fs.names(f"{self.root}/.taskpit/sealed"))


class Plain:
    """The control: the same work by the original's steps, write and rename, and no fsync anywhere."""

    def __init__(self, root):
        self.root = root

    def prepare(self):
        for name in ("inbox", "processing", "outbox", ".tmp"):
            os.makedirs(f"{self.root}/{name}")

    def put(self, ids, tell):
        for task_id in ids:
            self._publish(f"{task_id}.json", text(task_id), "inbox")
            tell(f"put:{task_id}")

    def _publish(self, name, content, folder):
        with open(f"{self.root}/.tmp/{name}", "w", encoding="utf-8") as file:
            file.write(content)
        os.rename(f"{self.root}/.tmp/{name}", f"{self.root}/{folder}/{name}")

    def work(self, name, tell):
        while not self.finished():
            for file in os.listdir(f"{self.root}/inbox"):
                try:
                    os.rename(f"{self.root}/inbox/{file}", f"{self.root}/processing/{file}")
                except FileNotFoundError:
                    continue
                task_id = file.removesuffix(".json")
                self._publish(f"{task_id}_result.json", text(f"{task_id} by {name}"), "outbox")
                os.unlink(f"{self.root}/processing/{file}")
                tell(f"done:{task_id}:{name}")
            time.sleep(0.02)

    def keep(self):
        while not self.finished():
            time.sleep(0.05)

    finished = Folder.finished

    def count_open(self):
        return len(os.listdir(f"{self.root}/inbox")) + len(os.listdir(f"{self.root}/processing"))


def neighbour(where):
    """Somebody else on the same disk who syncs a file of their own now and then, as on any machine."""
    with open(f"{where}/neighbour", "w", encoding="utf-8") as file:
        while not os.path.exists("/mnt/stop"):
            file.write("x" * 100)
            file.flush()
            os.fsync(file.fileno())
            time.sleep(0.1)


def spawn(work, *args):
    """A process that does this."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work(*args)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def play(scheme, where, tell, tasks, putters=2, workers=2, limit=1200.0):
    """Everybody at once until every task is ended. How many workers died on the way."""
    ids = [f"{1000 + number}" for number in range(tasks)]
    putting = {spawn(scheme.put, ids[one::putters], tell) for one in range(putters)}
    others = {spawn(scheme.keep), spawn(neighbour, where)}
    working = {spawn(scheme.work, f"snake-{one}", tell): f"snake-{one}" for one in range(workers)}
    deadline, died = time.monotonic() + limit, 0
    while putting or scheme.count_open():
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            time.sleep(0.05)
        elif pid in working:
            died += 1
            name = working.pop(pid)
            working[spawn(scheme.work, name, tell)] = name
        elif status or pid in others:
            raise RuntimeError(f"a process of the workload ended with {status}")
        putting.discard(pid)
        if time.monotonic() > deadline:
            raise RuntimeError(f"after {limit} s {scheme.count_open()} tasks are not ended")
    with open("/mnt/stop", "w", encoding="ascii"):
        pass
    for pid in (*working, *others):
        os.waitpid(pid, 0)
    return died
