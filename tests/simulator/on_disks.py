"""Compare the simulated disk with each real filesystem that this machine can mount: a step of `make faults`."""

from __future__ import annotations

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))

from disks import Unable, alone, mounted  # noqa: E402 - the path comes first

KINDS = ("ext4", "xfs", "btrfs", "tmpfs")
#: Sequences of 120 calls on each.
SEQUENCES = "300"


def compare(kind: str) -> str:
    """Run both comparisons on this filesystem: ok, FAILED, or why it cannot be done."""
    try:
        with mounted(kind) as place:
            env = {**os.environ, "TASKPIT_DISK_PLACES": place, "TASKPIT_DISK_SEQUENCES": SEQUENCES}
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{HERE}/test_ports.py"]
            return "FAILED" if subprocess.run(command, env=env, check=False).returncode else "ok"
    except Unable as error:
        return f"SKIPPED {error}"


def main() -> int:
    try:
        alone()
    except Unable as error:
        print(f"SKIPPED {error}")
        return 0
    answers = {kind: compare(kind) for kind in KINDS}
    for kind, answer in answers.items():
        print(f"{kind}: {answer}")
    return int("FAILED" in answers.values())


if __name__ == "__main__":
    sys.exit(main())
