"""Power loss on a real kernel and real filesystems: every write logged, crash states mounted, swept and judged.

In a guest, several processes work on a queue whose disk keeps a log of all writes; each acknowledgement is a mark
in that log. In a second guest, disks as a power loss at any point could have left them are mounted, and whatever
had been acknowledged before that point must be there. The same is done, and must fail, without fsync, and with
the original's write-and-rename.

    python tests/vm/powerloss.py --filesystem ext4 --states 300
"""

from __future__ import annotations

import random
import time

import machine

SCHEMES = ("power", "batches", "process", "original")
#: Those that must hold; the others are controls, which must not.
HOLD = ("power", "batches")
#: So many tasks in each call of a batch: enough to be synced together.
BATCH = 12


def record(job):
    """In the guest: the workload on a logged disk."""
    import load
    from devices import Logged

    scheme = _scheme(job["scheme"])
    disk = Logged(job["disk"], job["log"], job["filesystem"])
    disk.format(job["base"], scheme.prepare, "/mnt/disk")
    disk.attach("/mnt/disk")
    died = load.play(scheme, "/mnt/disk", disk.mark, job["tasks"])
    disk.detach("/mnt/disk")
    return {"died": died}


def _scheme(name):
    import load

    if name == "original":
        return load.Plain("/mnt/disk/q")
    return load.Folder("/mnt/disk/q", "power", BATCH) if name == "batches" else load.Folder("/mnt/disk/q", name)


def replay(job):
    """In another guest: states, distinct ones, judged."""
    import judge
    import writelog
    from devices import Loop

    entries = writelog.read(job["log"])
    disk = writelog.Disk(job["base"], job["log"], entries)
    states, generated = _states(disk, entries, job["states"], random.Random(job["seed"]))
    loop = Loop("/mnt/state")
    look = judge.plain if job["scheme"] == "original" else judge.folder
    broken, examples, acknowledgements = 0, [], 0
    started = time.monotonic()
    for number, (chosen, cut) in enumerate(states):
        acknowledged = [
            entry.mark for entry in entries[:cut] if ":" in entry.mark
        ]  # the kernel ends with one of its own
        acknowledgements += len(acknowledged)
        disk.write(loop.fd, chosen)
        try:
            loop.mounted("/mnt/disk", job["filesystem"])
            try:
                wrong = look("/mnt/disk/q", acknowledged, thorough=number % 10 == 0)
            finally:
                loop.free("/mnt/disk")
        except OSError as error:
            wrong = [f"it can't be mounted: {error}"]
        if wrong:
            broken += 1
            if len(examples) < 12:
                examples.append({"cut": cut, "of": len(entries), "kept": len(chosen), "wrong": wrong[:6]})
    return {
        "writes": sum(1 for entry in entries if entry.length),
        "bytes written": sum(entry.length for entry in entries),
        "flushes": sum(1 for entry in entries if entry.flags & writelog.FLUSH),
        "acknowledged": sum(1 for entry in entries if ":" in entry.mark),
        "generated": generated,
        "distinct": len(states),
        "promises checked": acknowledgements,
        "broken": broken,
        "examples": examples,
        "seconds per state": round((time.monotonic() - started) / max(len(states), 1), 4),
    }


def _states(disk, entries, wanted, rng):
    """Distinct disks, each with the last point in the log at which it is possible: all prefixes, then parts."""
    import writelog

    cuts = list(range(len(entries), 0, -1))
    rng.shuffle(cuts)
    found, generated = {}, 0
    for turn in range(40):
        for cut in cuts:
            chance = rng.random()
            chosen = writelog.kept(entries, cut, None if turn == 0 else lambda c=chance: rng.random() < c)
            generated += 1
            name = disk.digest(chosen)
            if name not in found or found[name][1] < cut:
                found[name] = (chosen, cut)
            if len(found) >= wanted:
                return list(found.values()), generated
    return list(found.values()), generated


def inside(job):
    """What the guest is booted for."""
    return {"record": record, "replay": replay}[job["do"]](job)


def crash(filesystem, scheme, args):
    """One filesystem, one way of working: what came of it."""
    import devices

    with machine.Machine() as guest:
        disk, log = guest.disk(devices.MEGABYTES[filesystem]), guest.disk(1024)
        job = {"filesystem": filesystem, "scheme": scheme, "disk": disk, "log": log, "seed": args.seed}
        job |= {
            "base": f"{guest.work}/base",
            "tasks": max(args.tasks, 4 * BATCH) if scheme == "batches" else args.tasks,
        }
        begun = time.monotonic()
        told = guest.run("powerloss", {**job, "do": "record"}, 240)
        states = args.states if scheme in HOLD else args.control_states
        job |= {"do": "replay", "log": f"{guest.work}/disk1", "states": states}
        told |= guest.run("powerloss", job, 120 + states * 3)
        return {"filesystem": filesystem, "scheme": scheme, **told, "seconds": round(time.monotonic() - begun, 1)}


def main():
    """Every filesystem and every way of working that was asked for."""
    parser = machine.arguments(__doc__.partition("\n")[0])
    parser.add_argument("--filesystem", action="append", choices=("ext4", "xfs", "btrfs"))
    parser.add_argument("--scheme", action="append", choices=SCHEMES)
    parser.add_argument("--states", type=int, default=300, help="distinct crash states of each filesystem")
    parser.add_argument("--control-states", type=int, default=60, help="the same for each control")
    parser.add_argument("--tasks", type=int, default=12)
    args = parser.parse_args()
    if machine.skip(args, "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "dmsetup", "blockdev"):
        return
    runs, failures = [], []
    for filesystem in args.filesystem or ("ext4", "xfs", "btrfs"):
        for scheme in args.scheme or SCHEMES:
            found = crash(filesystem, scheme, args)
            runs.append(found)
            print(
                f"{filesystem} {scheme}: {found['broken']} of {found['distinct']} distinct states broken "
                f"({found['generated']} generated from {found['writes']} writes, {found['flushes']} flushes; "
                f"{found['acknowledged']} acknowledgements, {found['died']} workers died; {found['seconds']} s)",
                flush=True,
            )
            if scheme in HOLD and found["broken"]:
                failures += [f"{filesystem}: {example}" for example in found["examples"]]
            if scheme not in HOLD and not found["broken"]:
                failures.append(f"{filesystem} {scheme}: the control holds, so this run proves nothing")
    machine.conclude(args, {"runs": runs}, failures)


if __name__ == "__main__":
    main()
