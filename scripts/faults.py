"""The wider proofs, one after the other, each bounded: `make faults` (half an hour) and `make soak` (hours).

Knows which commands there are and how long each may take; what they prove is theirs to say. A step that cannot
run here (no guest kernel, no right to mount) says SKIPPED and why. Exits 1 if any step found something.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: Filesystems that the hammer makes for itself.
DISKS = ("ext4", "xfs", "btrfs", "overlay", "tmpfs")
#: A step hangs that takes so many times as long as a quiet machine needs at most: on a busy one all take long.
BUSY = 6
#: So many seconds a step has to end what it has started when it hangs.
LAST_WORDS = 60.0

Step = tuple[str, list[str], dict[str, str], float]


def python(*words: str) -> list[str]:
    """A command of ours."""
    return [sys.executable, *words]


def hammer(disk: str, seconds: int, seed: int, *more: str) -> Step:
    """Many processes on one queue on this kind of disk, killed and frozen."""
    words = ("tests/hammer/hammer.py", "--seconds", str(seconds), "--filesystem", disk, "--seed", str(seed), *more)
    return f"hammer on {disk} {' '.join(more)}".strip(), python(*words), {}, seconds * 3 + 60


def power_loss(disk: str, states: int, seed: int) -> Step:
    """Block-level states of a disk whose power fails."""
    words = ("tests/vm/powerloss.py", "--filesystem", disk, "--states", str(states), "--seed", str(seed))
    return f"power loss on {disk}", python(*words), {}, 120 + states * 1.5


def foreign(seconds: int, seed: int) -> Step:
    """Pools beside workers that know only the seeds' text, all of them killed at random."""
    words = ("tests/support/mixed.py", "--seconds", str(seconds), "--seed", str(seed))
    return "other programs' workers beside ours", python(*words), {}, seconds + 400


def short() -> list[Step]:
    """Half an hour on two cores."""
    ports = python("-m", "pytest", "-q", "-m", "races", "tests/simulator/test_ports.py")
    locks = python("-m", "pytest", "-q", "tests/locks/test_takeover.py", "-k", "one")
    return [
        ("models, a million states and more", python("tests/models/explore.py", "--states", "1000000"), {}, 900),
        ("locks, 1,000 rounds", locks, {"TASKPIT_LOCK_ROUNDS": "1000"}, 300),
        ("the simulated disk and real ones", ports, {}, 120),
        *(hammer(disk, 12, seed) for seed, disk in enumerate(DISKS, 1)),
        foreign(600, 1),
        hammer("here", 12, 6, "--layout", "mailbox"),
        hammer("here", 12, 7, "--layout", "workspace", "--durability", "power"),
        *(power_loss(disk, states, 1) for disk, states in (("ext4", 100), ("xfs", 60), ("btrfs", 40))),
        ("two network clients", python("tests/vm/nfs.py", "--seconds", "45"), {}, 300),
        ("clocks that are set", python("tests/vm/clocks.py", "--seconds", "10"), {}, 180),
    ]


def long(seed: int) -> list[Step]:
    """One turn of a soak; every turn has another seed."""
    every = {"TASKPIT_LONG": "1", "TASKPIT_LOCK_ROUNDS": "1000", "TASKPIT_FUZZ": "20"}
    suites = ("tests/crash", "tests/locks", "tests/activities", "tests/fuzz", "tests/doctor")
    return [
        *(hammer(disk, 300, seed) for disk in DISKS),
        foreign(1800, seed),
        *(power_loss(disk, 700, seed) for disk in ("ext4", "xfs", "btrfs")),
        ("two network clients", python("tests/vm/nfs.py", "--seconds", "300", "--seed", str(seed)), {}, 900),
        ("clocks that are set", python("tests/vm/clocks.py", "--seconds", "120", "--seed", str(seed)), {}, 600),
        ("the suites, at length", python("-m", "pytest", "-q", "-n", "2", *suites), every, 7200),
    ]


def run(step: Step) -> tuple[str, float]:
    """How a step went: ok, SKIPPED, FAILED or TOO LONG; and its seconds."""
    name, command, env, limit = step
    print(f"\n== {name}\n$ {' '.join([*(f'{key}={value}' for key, value in env.items()), *command[1:]])}", flush=True)
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=HERE,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    word = ""
    try:
        said, _ = process.communicate(timeout=limit * BUSY)
    except subprocess.TimeoutExpired:
        word, said = "TOO LONG", _interrupt(process)
    print(said.rstrip()[-4000:], flush=True)
    word = word or ("FAILED" if process.returncode else "SKIPPED" if "SKIPPED" in said[:2000] else "ok")
    return word, time.monotonic() - began


def _interrupt(process: subprocess.Popen[str]) -> str:
    """It has ended, and before that what it has started: a guest has a session of its own. What it has said."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=LAST_WORDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def main() -> int:
    """Run them; what came of each at the end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored, also by what we start
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=0.0, help="go on for so long, with other seeds each time")
    hours = parser.parse_args().hours
    end, seed, told = time.monotonic() + hours * 3600, 1, []
    while True:
        for step in long(seed) if hours else short():
            word, seconds = run(step)
            told.append((step[0], word, seconds))
            if hours and time.monotonic() > end:
                break
        seed += 1
        if time.monotonic() >= end:
            break
    print("\n" + "\n".join(f"{word:<9} {seconds:7.0f} s  {name}" for name, word, seconds in told))
    return int(any(word in ("FAILED", "TOO LONG") for _, word, _ in told))


if __name__ == "__main__":
    sys.exit(main())
