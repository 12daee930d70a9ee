"""A clock that is set two days on and two days back, again and again, in a real kernel, while workers live.

In a guest: a pool whose tasks take longer than their leases, a claim that its owner renews from command to command,
and keepers that sweep all the time. Nobody who renews loses a claim; a pool that is killed is found and its tasks
are done by another. The same with a judge that believes the wall clock must fail.

    python tests/vm/clocks.py --seconds 20
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import machine

DAY = 86400.0
WORKERS = 4
#: The shortest lease, in seconds. On a busy machine a lease is so many times what it takes to start a command.
LEASE, STARTS = 3.0, 2.0
#: A task takes so many leases.
WORK = 7 / 3
#: The end of every wait, in seconds: only what hangs meets it.
PATIENCE = 1200.0
CONFIG = 'lease = "{0:.0f}s"\nabandoned = "{0:.0f}s"\ndurability = "process"\n'


def inside(job):
    """What the guest is booted for: as it is, then with the broken judge."""
    begun = time.monotonic()
    subprocess.run([sys.executable, "-m", "taskpit", "--version"], stdout=subprocess.DEVNULL, check=True)
    lease = max(LEASE, STARTS * (time.monotonic() - begun))
    return {name: try_out(name, job["seconds"], lease) for name in ("as it is", "wall clock")}


def try_out(name, seconds, lease):
    """A fresh queue, its workers, and a clock that jumps."""
    from taskpit.model import Done, Task
    from taskpit.queue import Queue
    from taskpit.store.opening import init

    root = f"/mnt/{name.replace(' ', '-')}"
    init(root, "pit")
    with open(f"{root}/.taskpit/config.toml", "w", encoding="utf-8") as file:
        file.write(CONFIG.format(lease))
    queue = Queue.open(root)
    # When the pool is killed it must have some, and others must be left.
    tasks = WORKERS * (2 + int(seconds / (WORK * lease)))
    queue.put([Task(id=f"{number:04d}", title="wait", slug="wait") for number in range(1, tasks + 1)])
    queue.put([Task(id="9999", title="by hand", slug="hand", tags=("hand",))])
    (held,) = queue.claim("ann", tags=("hand",), lease=lease, verbatim=True)
    keepers = [_keeper(root, name) for _ in range(2)]
    clock = Jumps(queue, held, lease)
    pool = _pool(root, "first", lease)
    robbed = None if name == "as it is" else lambda: _count(queue)["false"]
    clock.jump(seconds, robbed or (lambda: _held(queue) == WORKERS))
    pool.send_signal(signal.SIGKILL)
    pool.wait()
    killed_with = _held(queue)
    second = _pool(root, "second", lease)
    clock.jump(seconds, robbed or (lambda: _done(queue) == tasks))
    said, _ = queue.finish(held, Done())
    second.terminate()
    second.wait()
    for pid in keepers:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    found = {**_count(queue), "done": _done(queue), "tasks": tasks + 1, "killed with": killed_with}
    queue.close()
    return {**found, "jumps": clock.count, "lease": round(lease, 1), "renewed by hand": str(said)}


def _pool(root, name, lease):
    """Workers on tasks that outlast their leases."""
    command = [sys.executable, "-m", "taskpit", "-C", root, "work", "-n", str(WORKERS), "--as", name, "--"]
    with open(f"/mnt/{name}.log", "wb") as log:
        return subprocess.Popen(
            [*command, "sleep", str(WORK * lease)], stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )


def _keeper(root, name):
    pid = os.fork()
    if pid:
        return pid
    from taskpit.keeper import sweep
    from taskpit.queue import Queue
    from taskpit.store import leases

    if name == "wall clock":
        leases._clock_unchanged = lambda *_: True
        leases._set_since = lambda *_: False
    queue = Queue.open(root)
    while True:
        sweep(queue)
        time.sleep(0.1)


class Jumps:
    """A clock that is set on and back, while we renew what we hold."""

    def __init__(self, queue, held, lease):
        self.count, self._queue, self._held, self._lease = 0, queue, held, lease
        self._renewed = time.monotonic()

    def jump(self, seconds, met):
        """For so long at least, and until something has happened."""
        begun = time.monotonic()
        while (past := time.monotonic() - begun) < seconds or (not met() and past < PATIENCE):
            days = 2 if self.count % 4 in (0, 3) else -2
            time.clock_settime(time.CLOCK_REALTIME, time.time() + days * DAY)
            self.count += 1
            time.sleep(0.35)  # part of the test: how long a wrong clock is looked at
            if time.monotonic() - self._renewed > self._lease / 3:
                self._queue.renew(self._held, self._lease)
                self._renewed = time.monotonic()


def _held(queue):
    """How many tasks a pool has."""
    return len(list(queue.store.folder.claims())) - 1


def _events(queue, action):
    return [event for event in queue.store.events(limit=100_000)[0] if event.action == action]


def _done(queue):
    return len({event.task_id for event in _events(queue, "completed_task")})


def _count(queue):
    """Reclaims by what they were: of the dead, as they should be, or of the living."""
    given_back = _events(queue, "recovered_task")
    dead = {event.task_id for event in given_back if "is dead" in event.details}
    false = [f"{event.task_id}: {event.details}" for event in given_back if "is dead" not in event.details]
    return {"found dead": len(dead), "false": false}


def main():
    """The clock jumps; what came of it."""
    parser = machine.arguments(__doc__.partition("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="at least, before the pool is killed and again after it"
    )
    args = parser.parse_args()
    if machine.skip(args):
        return
    with machine.Machine() as guest:
        found = guest.run("clocks", {"seconds": args.seconds}, 2 * PATIENCE)
    for name, counts in found.items():
        print(
            f"{name}: {counts['jumps']} jumps of two days, {len(counts['false'])} false reclaims, "
            f"{counts['found dead']} of {counts['killed with']} claims of the killed pool given back, "
            f"{counts['done']} of {counts['tasks']} tasks done, renewed by hand: {counts['renewed by hand']}, "
            f"leases of {counts['lease']} s"
        )
    real, failures = found["as it is"], []
    failures += [f"a living worker was robbed: {line}" for line in real["false"]]
    if real["found dead"] != real["killed with"] or not real["killed with"]:
        failures.append(f"{real['killed with']} claims died with the pool, {real['found dead']} were given back")
    if real["done"] != real["tasks"] or real["renewed by hand"] != "ok":
        failures.append(f"not everything was done: {real}")
    if not found["wall clock"]["false"]:
        failures.append("a judge that believes the wall clock was not noticed, so this run proves nothing")
    machine.conclude(args, found, failures)


if __name__ == "__main__":
    main()
