"""Many processes on one queue, killed, frozen and held up anywhere; then a judge who was told everything.

    python tests/hammer/hammer.py --seconds 20 --filesystem ext4 --layout pit --workers 6 --keepers 2 --foreign 1

Exits 0 if every promise held, 1 if one was broken, 77 if this machine cannot make that filesystem.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, f"{os.path.dirname(HERE)}/support"]

import crowd  # noqa: E402 - found by the path above
import disks  # noqa: E402
import strangers  # noqa: E402
import verdicts  # noqa: E402
from variants import MUTANTS  # noqa: E402
from waits import PATIENCE  # noqa: E402

from taskpit import fs  # noqa: E402
from taskpit.keeper import sweep  # noqa: E402
from taskpit.model import Done, Said, State  # noqa: E402
from taskpit.store.opening import init  # noqa: E402

#: What automake and others call a test that could not be run.
UNABLE = 77
#: Of all that happens to a process so much is a death; the rest are freezes, for up to so many leases.
DEATHS, LONGEST_FREEZE = 0.75, 3.0


class Hammer:
    """Starts the crowd, strikes it, starts the dead again."""

    def __init__(self, job, options, rng):
        self.job = job
        self.rng = rng
        self.counts = {"kills": 0, "freezes": 0}
        self._live = {}
        self._frozen = {}
        self._roles = [(crowd.work, job, number) for number in range(options.workers)]
        self._roles += [(crowd.keep, job)] * options.keepers + [(crowd.put, job)] * 2
        self._roles += [(strangers.work, job, number) for number in range(options.foreign)]
        self._roles += [(strangers.clean, job)] * bool(options.foreign)
        #: How long nothing happens to anybody, on average.
        self._peace = options.life / len(self._roles) * DEATHS

    def run(self, seconds):
        """Everybody at once, for so long."""
        for role in self._roles:
            self._start(role)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline or not self._enough(deadline + PATIENCE):
            time.sleep(self.rng.random() * 2 * self._peace)  # how long they are left in peace
            self._strike(self.rng.choice(list(self._live)))
            self._look_after()
        for pid in self._live:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _enough(self, deadline):
        """On a busy machine it goes on until all sorts of things have happened: ends, repairs, deaths and freezes."""
        told = self.job.told()
        enough = all(self.counts.values()) and Said.OK in told and told & {"carried out", "reclaimed"}
        return enough or time.monotonic() > deadline

    def _start(self, role):
        work, job, *rest = role
        seed = self.rng.getrandbits(60)
        pid = os.fork()
        if pid:
            self._live[pid] = role
            return
        try:
            work(job, *rest, random.Random(seed))
        except BaseException as error:
            fs.set_hook(None)
            where = traceback.format_exc().strip().replace("\n", " | ").replace("\t", " ")
            job.tell("trouble", work.__name__, "", repr(error.__cause__), where)
        os._exit(1)

    def _strike(self, pid):
        if self.rng.random() < DEATHS:
            os.kill(pid, signal.SIGKILL)
            self.counts["kills"] += 1
        elif pid not in self._frozen:
            os.kill(pid, signal.SIGSTOP)
            self._frozen[pid] = time.monotonic() + self.rng.random() * LONGEST_FREEZE * self.job.lease
            self.counts["freezes"] += 1

    def _look_after(self):
        """The frozen thaw, the dead are started again."""
        for pid, until in list(self._frozen.items()):
            if time.monotonic() > until:
                del self._frozen[pid]
                os.kill(pid, signal.SIGCONT)
        for pid in list(self._live):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._frozen.pop(pid, None)
                self._start(self._live.pop(pid))


def settle(job):
    """Sweep and do what is left, undisturbed; the queue afterwards, and what still is not finished."""
    queue = job.queue()
    time.sleep(job.lease)  # whoever died in its last step is not young any more: half a put, too, is a task to be done
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        sweep(queue)
        for number, claim in enumerate(queue.claim("last", count=20, lease=60.0)):
            mark = f"last.{claim.task.id}.{number}"
            job.tell("claimed", claim.task.id, mark, f"{claim.since:.6f}", f"{claim.since:.6f}")
            job.tell("ending", claim.task.id, mark, "done")
            said, _ = queue.finish(claim, Done(output=f"mark={mark}"))
            job.tell("ended", claim.task.id, mark, "done", said, "")
        counts = queue.store.counts()
        open_tasks = counts[State.READY] + counts[State.CLAIMED] + len(fs.names(f"{job.root}/.taskpit/sealed"))
        if not open_tasks:
            break
        time.sleep(0.1)  # some leases are still to run out
    sweep(queue)
    return queue, [f"after {PATIENCE:.0f} s in peace {open_tasks} tasks are not finished"] if open_tasks else []


def play(where, options):
    """One run in this directory: what broke and the counts."""
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="taskpit-ledger-") as desk:
        root, ledger = f"{where}/queue", f"{desk}/ledger"
        init(root, options.layout)
        job = crowd.Job(
            root,
            options.layout,
            ledger,
            lease=options.lease,
            durability=options.durability,
            mutant=options.mutant,
            pauses=options.pauses,
        )
        hammer = Hammer(job, options, rng)
        hammer.run(options.seconds)
        queue, stuck = settle(job)
        broken, counts = verdicts.judge(queue, verdicts.Ledger(ledger), options.layout, strangers=options.foreign)
        queue.close()
        if options.keep and stuck + broken:
            shutil.copytree(root, f"{options.keep}/queue")
            shutil.copy(ledger, f"{options.keep}/ledger")
        rate = {"kills per second": round(hammer.counts["kills"] / options.seconds, 1)}
        return {**vars(options), **hammer.counts, **rate, **counts, "broken": stuck + broken}


def parse(words):
    """What is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--filesystem", choices=disks.KINDS, default="here")
    parser.add_argument("--layout", choices=tuple(verdicts.RESULTS), default="pit")
    parser.add_argument("--durability", choices=("process", "power"), default="process")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--keepers", type=int, default=2)
    parser.add_argument("--foreign", type=int, default=0, help="workers that only know mv, and a cleaner with them")
    parser.add_argument("--life", type=float, default=1.2, help="how long a process lives on average, in seconds")
    parser.add_argument("--lease", type=float, default=0.15)
    parser.add_argument("--pauses", type=float, default=1.0, help="how often calls are held up; 1 is as described")
    parser.add_argument("--mutant", choices=("", *MUTANTS), default=os.environ.get("HAMMER_MUTANT", ""))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--keep", help="copy the queue and the ledger into this folder if something is broken")
    parser.add_argument("--json", help="write the counts here")
    return parser.parse_args(words)


def main(words):
    """One run; its counts; whether it held."""
    options = parse(words)
    try:
        if options.filesystem != "here":
            disks.alone()
        with disks.mounted(options.filesystem) as where:
            found = play(where, options)
    except disks.Unable as error:
        print(f"skipped: {error}")
        return UNABLE
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=2)
    print(", ".join(f"{key} {value}" for key, value in found.items() if key not in ("broken", "json", "keep")))
    for line in found["broken"][:20]:
        print(f"BROKEN {line}")
    print(f"{len(found['broken'])} broken")
    return 1 if found["broken"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
