"""Many processes on one queue, killed, stopped and paused anywhere; and what must hold afterwards. Guest side.

Workers write each claim and each accepted end to a ledger outside the queue, by a name of the claim's own, so that
an end accepted from somebody whose task had been given to another is seen, also where all fences look alike.
"""

from __future__ import annotations

import collections
import ctypes
import itertools
import os
import random
import signal
import socket
import time
import traceback

from guest import LIBC
from pits import misplaced, reopened, wrong

from taskpit import fs
from taskpit.clock import Clock
from taskpit.config import Config
from taskpit.errors import TaskpitError
from taskpit.keeper import sweep
from taskpit.model import Done, Said, State, Task
from taskpit.store import finish

#: How long a claim lasts here, in seconds, and how often a call is held up, for up to one and a half of that.
LEASE = 0.8
PAUSES = 0.003
CONFIG = Config(durability="process", lease=LEASE, abandoned=LEASE, backoff=0.0, losses=10_000)
NEW_UTS = 0x04000000
#: How long what is left may take to be done in peace, in seconds: on a busy machine everything takes long.
PATIENCE = 600.0
#: What the server shows, as it has it itself.
EXPORT = "/mnt/export"
#: Where processes tell what befell them.
TROUBLE = "/mnt/trouble"


class Elsewhere(Clock):
    """The clock of another machine: its boot is not ours."""

    def __init__(self, name):
        self._name = name

    def boot(self):
        return self._name


def become(machine):
    """This process is on another machine, as far as names tell."""
    if LIBC.unshare(NEW_UTS):
        raise OSError(ctypes.get_errno(), "unshare")
    socket.sethostname(machine)


class Side:
    """One client: its mount, its name, and what its processes do."""

    def __init__(self, root, name, ledger, mutant=""):
        self.root = root
        self.name = name
        self.ledger = ledger
        self.mutant = mutant

    def queue(self, rng):
        """The queue as a process of this side has it, with pauses before any of its calls."""
        become(self.name)
        MUTANTS[self.mutant]()

        def pause(_call, _path):
            if rng.random() < PAUSES:
                time.sleep(rng.random() * LEASE * 1.5)

        queue = reopened(self.root, Elsewhere(self.name), CONFIG)
        queue.store.folder.grace = 0.3
        fs.set_hook(pause)
        return queue

    def tell(self, *words):
        """One line in the ledger."""
        os.write(self.ledger, f"{' '.join(words)}\n".encode())

    def put(self, ids, rng):
        """Put these; others put the same."""
        queue = self.queue(rng)
        for task_id in ids:
            said = queue.store.put([Task(id=task_id, title=f"task {task_id}", slug="work", by=self.name)])[0]
            self.tell("put", task_id, str(said))
            time.sleep(rng.random() * 0.2)  # so that there is something to do till the end

    def work(self, number, rng):
        """Claim, renew or not, finish."""
        queue, name = self.queue(rng), f"{self.name}-{number}"
        if self.mutant == "fixed name":
            name = "snake"
        else:
            queue.store.join(name, LEASE, patience=30.0)
        for count in range(1_000_000):
            for claim in queue.claim(name, wait=0.2, lease=LEASE, verbatim=self.mutant == "fixed name"):
                mine = f"{os.getpid()}.{count}.{claim.task.id}.{claim.fence}"
                self.tell("claimed", claim.task.id, mine)
                self._mull(queue, claim, rng)
                said, _ = queue.finish(claim, Done(output=mine))
                self.tell(str(said), claim.task.id, mine)

    @staticmethod
    def _mull(queue, claim, rng):
        if rng.random() < 0.5:
            time.sleep(LEASE * (0.8 + 2 * rng.random()))  # works too long without a sign
        elif rng.random() < 0.2:
            for _ in range(4):  # works longer than a lease, and says so
                time.sleep(LEASE / 3)
                queue.renew(claim)

    def keep(self, rng):
        """Sweep for ever."""
        queue = self.queue(rng)
        while True:
            for mend in sweep(queue):
                self.tell("mend", mend.what.replace(" ", "_")[-60:], mend.kind.replace(" ", "-"))
            time.sleep(0.1)


def seal_skipped():
    """Who has lost the claim ends it all the same."""
    real = finish.seal
    finish.seal = lambda *args, **named: (real(*args, **named)[0], True)


def seal_by_link():
    """The link follows the file wherever it has gone, as a name that a client remembers does.

    Forced, not hoped for: every third end waits until another has the task.
    """
    real, count = fs.move_at, itertools.count(os.getpid())

    def move_at(here, old, there, new):
        if not (there.path.endswith("/.taskpit/sealed") and here.path.endswith("/claimed")):
            return real(here, old, there, new)
        source = f"{here.path}/{old}"
        try:
            file = os.open(source, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            if next(count) % 3 == 0:
                _wait_for_another(source)
            os.link(f"/proc/self/fd/{file}", f"{there.path}/{new}", src_dir_fd=file, follow_symlinks=True)
        except FileNotFoundError:
            return False  # the file itself is gone
        finally:
            os.close(file)
        fs.remove(source)
        return True

    fs.move_at = move_at


def _wait_for_another(claimed):
    """Until somebody else has the task of this claim, as the server's own folder tells at once. At the longest so long
    that not everybody waits for everybody.
    """
    folder, _, name = f"{EXPORT}/{claimed.split('/', 3)[3]}".rpartition("/")
    food, deadline = name[name.index("food-") :], time.monotonic() + 12 * LEASE
    while not any(one != name and one.endswith(food) for one in os.listdir(folder)) and time.monotonic() < deadline:
        time.sleep(LEASE / 20)


MUTANTS = {"": lambda: None, "fixed name": lambda: None, "seal skipped": seal_skipped, "seal by link": seal_by_link}


def start(work, *args):
    """A process that does this until it ends or is killed; what befell it is told."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work(*args)
    except TaskpitError as error:
        _tell_trouble(f"{work.__qualname__}: {error!r} {error.__cause__!r}")
    except BaseException:
        _tell_trouble(traceback.format_exc())
    os._exit(0)


def _tell_trouble(text):
    with open(TROUBLE, "a", encoding="utf-8") as file:
        file.write(f"{text.rstrip()}\0")


def troubles():
    """What befell processes so far, each with how often."""
    try:
        with open(TROUBLE, encoding="utf-8") as file:
            return dict(collections.Counter(file.read().split("\0")[:-1]))
    except FileNotFoundError:
        return {}


class Hammer:
    """Everybody at once for so many seconds."""

    def __init__(self, sides, workers, rng):
        self.sides = sides
        self.rng = rng
        self.counts = {"kills": 0, "stops": 0, "ended": 0}
        self._seeds = iter(range(rng.randrange(1 << 30), 1 << 40))
        self._live = {}
        self._jobs = [(side.work, number) for side in sides for number in range(workers)]
        self._jobs += [(side.keep,) for side in sides for _ in range(2)]

    def _start(self, job):
        pid = start(*job, random.Random(next(self._seeds)))
        self._live[pid] = job
        return pid

    def run(self, ids, seconds, enough=lambda: True):
        """Kill, stop and start again until the time is up, and there was enough of what was to be seen."""
        putters = [start(side.put, ids, random.Random(next(self._seeds))) for side in self.sides]
        for job in self._jobs:
            self._start(job)
        stopped, deadline = {}, time.monotonic() + seconds
        while time.monotonic() < deadline or (not enough() and time.monotonic() < deadline + PATIENCE):
            time.sleep(self.rng.random() * 0.4)  # how long they are left in peace
            victim = self.rng.choice(list(self._live))
            if self.rng.random() < 0.4:
                os.kill(victim, signal.SIGKILL)
                self.counts["kills"] += 1
            elif victim not in stopped:
                os.kill(victim, signal.SIGSTOP)
                stopped[victim] = time.monotonic() + self.rng.random() * LEASE * 2
                self.counts["stops"] += 1
            self._reap(stopped)
        self._end(putters)

    def _reap(self, stopped):
        for pid in [pid for pid, until in stopped.items() if time.monotonic() > until or pid not in self._live]:
            del stopped[pid]
            if pid in self._live:
                os.kill(pid, signal.SIGCONT)
        for pid in list(self._live):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self.counts["ended"] += 1
                stopped.pop(pid, None)
                self._start(self._live.pop(pid))

    def _end(self, putters):
        for pid in (*self._live, *putters):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def settle(root, ledger, side):
    """What is left is swept and done in peace; then what is wrong, and the counts."""
    queue = reopened(root, Clock(), CONFIG)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        sweep(queue)
        for claim in queue.claim("last", count=10, lease=60.0):
            mine = f"last.{claim.task.id}"
            side.tell("claimed", claim.task.id, mine)
            said, _ = queue.finish(claim, Done(output=mine))
            side.tell(str(said), claim.task.id, mine)
        counts = queue.store.counts()
        if not counts[State.READY] and not counts[State.CLAIMED] and not fs.names(f"{root}/.taskpit/sealed"):
            break
        time.sleep(0.2)
    sweep(queue)
    with open(ledger, encoding="ascii") as file:
        found = judge(queue, [line.split() for line in file])
    queue.close()
    return found


def is_noticed(root, ledger):
    """Whether the ledger tells by now that an end was accepted from somebody whose task another had."""
    with open(ledger, encoding="ascii") as file:
        lines = [line.split() for line in file]
    current, taken = {}, []
    for word, task_id, rest in lines:
        if word == "claimed":
            current[task_id] = rest
        elif word in ("ok", "already") and current[task_id] != rest:
            taken.append((task_id, current[task_id], rest))
    if not taken:
        return False
    queue = reopened(root, Clock(), CONFIG)
    history = _history(queue)
    queue.close()
    return any(not _told_late(history.get(task_id, []), other, mine) for task_id, other, mine in taken)


def judge(queue, lines):
    """The promises, against the ledger and the folder."""
    created, current, accepted, counts = {}, {}, {}, {"claims": 0, "lost": 0, "reclaimed": 0, "superseded": 0}
    broken, history = [], _history(queue)
    for word, task_id, rest in lines:
        if word == "put" and rest == "created":
            if task_id in created:
                broken.append(f"{task_id} was put twice")
            created[task_id] = True
        elif word == "claimed":
            counts["claims"] += 1
            current[task_id] = rest
        elif word in ("ok", "already"):
            if current[task_id] != rest and not _told_late(history.get(task_id, []), current[task_id], rest):
                counts["superseded"] += 1
                broken.append(f"the end of {task_id} was accepted from {rest}, after {current[task_id]} had it")
            if accepted.setdefault(task_id, rest) != rest:
                broken.append(f"{task_id} was finished by {accepted[task_id]} and by {rest}")
        elif word == "mend":
            counts["reclaimed"] += rest == "reclaimed"
        elif word == "lost":
            counts["lost"] += 1
    broken += [f"{task_id} is in {places or 'no place'}" for task_id, places in misplaced(queue).items()]
    broken += [finding for finding in wrong(queue) if not finding.startswith("quarantined")]
    for task_id in created:
        (card,) = queue.store.read([task_id])
        if card is None:
            broken.append(f"{task_id} is gone; of it there is {_traces(queue, task_id)}")
        elif card.state is not State.DONE or card.result is None:
            broken.append(f"{task_id} is {card.state}")
        elif accepted.get(task_id, card.result.output.strip()) != card.result.output.strip():
            broken.append(f"{accepted[task_id]} was told that {task_id} is done; the result is {card.result.output}")
    reasons = [finding for finding in wrong(queue) if finding.startswith("quarantined")]
    more = {"tasks": len(created), "accepted": len(accepted), "double executions": counts["claims"] - len(created)}
    more |= {"set aside": len(reasons), "reasons": reasons[:5], "troubles": troubles()}
    return {**counts, **more, "broken": broken}


def _history(queue):
    """What the changelog tells of each task, in its order."""
    history = collections.defaultdict(list)
    for event in queue.store.events(limit=10**6)[0]:
        history[event.task_id].append((event.action, event.worker))
    return history


def _told_late(events, other, mine):
    """Whether another's claim was over before this one began, and its worker was only stopped before it told us."""
    over = ("recovered_task", other.split(".", 3)[-1])
    began = ("claimed_task", mine.split(".", 3)[-1])
    return over in events and began in events and events.index(over) < events.index(began)


def _traces(queue, task_id):
    """Every file that is called after this task."""
    root = queue.store.folder.root
    names = [os.path.join(folder, name) for folder, _, files in os.walk(root) for name in files]
    traces = [os.path.relpath(name, root) for name in names if task_id in os.path.basename(name)]
    return traces + [f"{action} by {worker}" for action, worker in _history(queue)[task_id]]


__all__ = ["LEASE", "Hammer", "Said", "Side", "is_noticed", "settle"]
