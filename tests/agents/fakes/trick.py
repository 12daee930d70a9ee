"""What all fake agents can do: print events, and be as troublesome as the real ones."""

from __future__ import annotations

import json
import os
import signal
import sys
import time


def say(event, stream=sys.stdout):
    print(json.dumps(event), file=stream, flush=True)


def note(name, text):
    """A line for the test to read, in the working directory."""
    with open(name, "a", encoding="utf-8") as file:
        file.write(text + "\n")


def mode_of(prompt):
    """What it is told to be: the first words of the task's title."""
    return prompt.splitlines()[0].removeprefix("# ").split(":")[0].strip()


def remember(name, prompt):
    note("calls", json.dumps({"agent": name, "argv": sys.argv[1:], "mode": mode_of(prompt), "prompt": prompt}))


def calls():
    with open("calls", encoding="utf-8") as file:
        return len(file.read().splitlines())


def hang():
    time.sleep(600)


def deaf():
    """SIGTERM means nothing to it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def leave_child():
    """A child that outlives it, and does not listen either."""
    child = os.fork()
    if child == 0:
        deaf()
        time.sleep(600)
        os._exit(0)
    note("children", str(child))


def option(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else ""
