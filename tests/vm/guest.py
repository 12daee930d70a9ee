"""The guest's side of `machine`: the first program, and what a program here needs of its kernel.

Knows mounting, modules and devices; nothing about queues.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import subprocess
import sys
import traceback

LIBC = ctypes.CDLL(None, use_errno=True)


def run(*command, **named):
    """A command that must succeed; what it printed."""
    env = {**os.environ, "DM_DISABLE_UDEV": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False, **named)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def load(*modules):
    """These parts of the kernel are there."""
    for module in modules:
        run("modprobe", "-d", os.environ["MODULES"], module)


def mount(device, where, kind, options=""):
    """The filesystem is there."""
    os.makedirs(where, exist_ok=True)
    if LIBC.mount(device.encode(), where.encode(), kind.encode(), 0, options.encode()):
        code = ctypes.get_errno()
        raise OSError(code, f"mount {device} {kind} {options}: {os.strerror(code)}", where)


def unmount(where):
    """The filesystem is gone from there, and nothing of it is left in memory."""
    if LIBC.umount2(where.encode(), 0):
        code = ctypes.get_errno()
        raise OSError(code, f"unmount: {os.strerror(code)}", where)


def main():
    """Do the job in the file; leave what it returned, or say why it did not."""
    with open(sys.argv[1], encoding="utf-8") as file:
        order = json.load(file)
    os.environ["MODULES"] = order["modules"]
    os.environ["WORK"] = order["work"]
    try:
        said = importlib.import_module(order["module"]).inside(order["job"])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return
    with open(f"{order['said']}.new", "w", encoding="utf-8") as file:
        json.dump(said, file)
    os.rename(f"{order['said']}.new", order["said"])


if __name__ == "__main__":
    main()
