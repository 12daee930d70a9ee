"""Append lines to a changelog, saying each number once it is in. Run as: writer.py PATH NAME COUNT STYLE.

`ours` is the changelog's own way; `parts` writes a line and its end one after the other, as many do.
"""

from __future__ import annotations

import os
import sys

from taskpit.model import Event
from taskpit.store import changelog

path, name, count, style = sys.argv[1:]
DETAILS = 4096


def event(number):
    """A line that tells whether all of it is there."""
    text = f"{name} {number} ".ljust(DETAILS, "abcdefgh"[number % 8])
    return Event(timestamp="2026-01-24T10:00:00Z", worker=name, worker_type="agent", action="noted", details=text)


print("here", flush=True)
sys.stdin.readline()
for number in range(int(count)):
    if style == "ours":
        changelog.append(path, [event(number)])
    else:
        with open(path, "ab", buffering=0) as file:
            file.write(changelog.encode(event(number)).rstrip())
            end = file.tell()
            for _ in range(1000):  # until another has written in between, as long as there is one
                if os.stat(path).st_size > end:
                    break
                os.sched_yield()
            file.write(b"\n")
    print(number, flush=True)
