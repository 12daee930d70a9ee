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
#: One of them is done by hand.
TASKS = 13
#: How long a claim lasts and how long a task takes, in seconds.
LEASE, WORK = 3.0, 7.0
CONFIG = f'lease = "{LEASE:.0f}s"\nabandoned = "{LEASE:.0f}s"\ndurability = "process"\n'


def inside(job):
    """What the guest is booted for: as it is, then with the broken judge."""
    return {name: try_out(name, job["seconds"]) for name in ("as it is", "wall clock")}


def try_out(name, seconds):
    """A fresh queue, its workers, and a clock that jumps."""
    from taskpit.queue import Queue
    from taskpit.store.opening import init
    from taskpit.task import Done, Task

    root = f"/mnt/{name.replace(' ', '-')}"
    init(root, "pit")
    with open(f"{root}/.taskpit/config.toml", "w", encoding="utf-8") as file:
        file.write(CONFIG)
    queue = Queue.open(root)
    queue.put([Task(id=f"{number:04d}", title="wait", slug="wait") for number in range(1, TASKS)])
    queue.put([Task(id="0100", title="by hand", slug="hand", tags=("hand",))])
    (held,) = queue.claim("ann", tags=("hand",), lease=LEASE, verbatim=True)
    keepers = [_keeper(root, name) for _ in range(2)]
    pool = _pool(root, "first")
    jumps = _jump(queue, held, seconds)
    pool.send_signal(signal.SIGKILL)
    pool.wait()
    killed_with = len(list(queue.store.folder.claims())) - 1
    second = _pool(root, "second")
    jumps += _jump(queue, held, seconds + WORK * TASKS / 4)
    said, _ = queue.finish(held, Done())
    second.terminate()
    second.wait()
    for pid in keepers:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    found = _count(queue, killed_with)
    queue.close()
    return {**found, "jumps": jumps, "renewed by hand": str(said)}


def _pool(root, name):
    """Four workers on tasks that outlast their leases."""
    command = [sys.executable, "-m", "taskpit", "-C", root, "work", "-n", "4", "--as", name, "--"]
    with open(f"/mnt/{name}.log", "wb") as log:
        return subprocess.Popen([*command, "sleep", str(WORK)], stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def _keeper(root, name):
    pid = os.fork()
    if pid:
        return pid
    from taskpit.keeper import sweep
    from taskpit.queue import Queue
    from taskpit.store import leases

    if name == "wall clock":
        leases._clock_unchanged = lambda folder, record: True
        leases._set_since = lambda folder, noted, status: False
    queue = Queue.open(root)
    while True:
        sweep(queue)
        time.sleep(0.1)


def _jump(queue, held, seconds):
    """Set the clock on and back until the time is up, renewing what we hold."""
    jumps, deadline, renewed = 0, time.monotonic() + seconds, time.monotonic()
    while time.monotonic() < deadline:
        days = 2 if jumps % 4 in (0, 3) else -2
        time.clock_settime(time.CLOCK_REALTIME, time.time() + days * DAY)
        jumps += 1
        time.sleep(0.35)  # part of the test: how long a wrong clock is looked at
        if time.monotonic() - renewed > LEASE / 3:
            queue.renew(held, LEASE)
            renewed = time.monotonic()
    return jumps


def _count(queue, killed_with):
    """Reclaims by what they were: of the dead, as they should be, or of the living."""
    events = queue.store.events(limit=100_000)[0]
    dead = {e.task_id for e in events if e.action == "recovered_task" and "is dead" in e.details}
    false = [f"{e.task_id}: {e.details}" for e in events if e.action == "recovered_task" and "is dead" not in e.details]
    done = {e.task_id for e in events if e.action == "completed_task"}
    return {"killed with": killed_with, "found dead": len(dead), "false": false, "done": len(done)}


def main():
    """The clock jumps; what came of it."""
    parser = machine.arguments(__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="before the pool is killed, and again after it")
    args = parser.parse_args()
    if machine.skip(args):
        return
    with machine.Machine() as guest:
        found = guest.run("clocks", {"seconds": args.seconds}, 300 + 5 * args.seconds)
    for name, counts in found.items():
        print(
            f"{name}: {counts['jumps']} jumps of two days, {len(counts['false'])} false reclaims, "
            f"{counts['found dead']} of {counts['killed with']} claims of the killed pool given back, "
            f"{counts['done']} of {TASKS} tasks done, renewed by hand: {counts['renewed by hand']}"
        )
    real, failures = found["as it is"], []
    failures += [f"a living worker was robbed: {line}" for line in real["false"]]
    if real["found dead"] != real["killed with"] or not real["killed with"]:
        failures.append(f"{real['killed with']} claims died with the pool, {real['found dead']} were given back")
    if real["done"] != TASKS or real["renewed by hand"] != "ok":
        failures.append(f"not everything was done: {real}")
    if not found["wall clock"]["false"]:
        failures.append("a judge that believes the wall clock was not noticed, so this run proves nothing")
    machine.conclude(args, found, failures)


if __name__ == "__main__":
    main()
