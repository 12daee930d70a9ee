"""A machine of our own: user-mode-linux on this one, as an ordinary process. Knows booting; nothing about queues.

The guest sees this machine's files as its root, has a kernel, clocks, disks and network of its own, and runs one
function of one module here. What the function returns comes back as JSON; what it prints is in the machine's log.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "src")
SUPPORT = os.path.join(os.path.dirname(HERE), "support")
#: Where Debian's package keeps the guest kernel's modules.
MODULES = "/usr/lib/uml/modules"
#: Where the last guest's log is kept, for looking; nowhere if it is not said.
KEPT_LOG = os.environ.get("TASKPIT_VM_LOG", "")
#: A guest hangs that takes so many times as long as on a quiet machine: on a busy one all take long.
BUSY = 6
#: Commands that live where ordinary users don't look.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

INIT = """#!/bin/sh
export PATH={path} PYTHONPATH={work}/src:{here}:{support} PYTHONDONTWRITEBYTECODE=1 HOME={work} TMPDIR=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mountpoint -q /dev || mount -t devtmpfs dev /dev
mount -t tmpfs tmp /mnt &&
{python} {here}/guest.py {work}/job.json
echo o > /proc/sysrq-trigger
sleep 60
"""


class Failed(Exception):
    """The guest did not come to its end; the message has the last it said."""


def missing(*commands):
    """What this machine lacks of what a test needs, by the names of the commands."""
    wanted = ("linux.uml", "modprobe", *commands)
    found = [command for command in wanted if shutil.which(command, path=PATH) is None]
    return found if os.path.isdir(MODULES) else [*found, MODULES]


class Machine:
    """One guest to be: its disks, then one job. A context manager, so that its files go away with it."""

    def __init__(self, memory="512M"):
        self.work = tempfile.mkdtemp(prefix="taskpit-vm-")
        self._memory = memory
        self._disks = []
        # A copy: the guest must see one version of the code from beginning to end.
        shutil.copytree(SOURCE, f"{self.work}/src", ignore=shutil.ignore_patterns("__pycache__"))
        os.makedirs(f"{self.work}/lib/modules")
        for release in os.listdir(MODULES):
            os.symlink(f"{MODULES}/{release}", f"{self.work}/lib/modules/{release}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.work, ignore_errors=True)

    def disk(self, megabytes):
        """Another empty disk; where the guest finds it."""
        path = f"{self.work}/disk{len(self._disks)}"
        with open(path, "wb") as file:
            file.truncate(megabytes << 20)
        self._disks.append(path)
        return f"/dev/ubd{'abcdefgh'[len(self._disks) - 1]}"

    def run(self, module, job, limit):
        """What `module.inside(job)` returns in a freshly booted guest, within so many seconds of a quiet machine."""
        said, log = f"{self.work}/said.json", f"{self.work}/log"
        job = {"module": module, "job": job, "said": said, "modules": self.work, "work": self.work}
        with open(f"{self.work}/job.json", "w", encoding="utf-8") as file:
            json.dump(job, file)
        self._write_init()
        if os.path.exists(said):
            os.unlink(said)
        with open(log, "wb") as output:
            self._boot(output, limit * BUSY)
        if KEPT_LOG:
            shutil.copyfile(log, KEPT_LOG)
        if not os.path.exists(said):
            with open(log, encoding="utf-8", errors="replace") as file:
                raise Failed("".join(file.readlines()[-60:]))
        with open(said, encoding="utf-8") as file:
            return json.load(file)

    def _write_init(self):
        text = INIT.format(
            path=PATH, work=self.work, here=HERE, support=SUPPORT, python=os.path.realpath(sys.executable)
        )
        with open(f"{self.work}/init", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(f"{self.work}/init", 0o755)

    def _boot(self, output, limit):
        command = ["linux.uml", f"mem={self._memory}", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw"]
        command += [f"init={self.work}/init", f"uml_dir={self.work}", "quiet", "con=null", "con0=null,fd:1"]
        command += [f"ubd{number}={path}" for number, path in enumerate(self._disks)]
        env = {**os.environ, "PATH": PATH, "TMPDIR": "/dev/shm" if os.path.isdir("/dev/shm") else "/tmp"}
        guest = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=self.work,
            start_new_session=True,
        )
        try:
            guest.wait(limit)
        except subprocess.TimeoutExpired:
            output.write(f"the guest was still at it after {limit:.0f} s\n".encode())
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(guest.pid, signal.SIGKILL)
            guest.wait()


def arguments(about):
    """The options every command here has."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--json", metavar="FILE", help="write what was found here, too")
    parser.add_argument("--require", action="store_true", help="fail instead of skipping where something is missing")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def skip(args, *commands):
    """Whether this machine can't do it; says so."""
    lacking = missing(*commands)
    if lacking:
        print(f"SKIPPED: missing {', '.join(lacking)}; scripts/system-packages vm installs what this needs")
        if args.require:
            sys.exit(1)
    return bool(lacking)


def conclude(args, report, failures):
    """Print the failures or that there were none, keep the report, and end accordingly."""
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({**report, "failures": failures}, file, indent=2)
    for failure in failures:
        print(f"FAILED: {failure}")
    sys.exit(1 if failures else 0)
