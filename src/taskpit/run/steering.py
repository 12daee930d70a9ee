"""Words for an agent that runs: where they wait for it, and how it hears of them. Files; knows no process.

<run directory>/steer    how the agent of this run can be told something while it works: hook, acp or resume
<run directory>/told     what was said to it and has not been heard yet

By `hook` the agent's own hook runs this file after each of its tool calls, and what waits is added to the model's
next request. By `acp` its runner sends it as a further prompt. By `resume` the session goes on with it when the run
would be over. An agent that can do none of this is told in the next attempt's prompt. Run by its path it is the hook.
"""

from __future__ import annotations

import json
import os
import stat
import sys

#: What one may say at once, and how much is read of what waits, in letters.
LONGEST, LARGEST = 20_000, 1024 * 1024
#: How the sender is told what becomes of it.
WAYS = {
    "hook": "its agent reads it after the next step",
    "acp": "its agent reads it next",
    "resume": "its agent reads it in the same session, as soon as it would be finished",
    "": "its agent takes no messages while it runs: the next attempt reads it",
}
#: How it is put to the agent.
HEAD = "A note from the person who watches this task; do as it says:"


def _open(path: str, flags: int) -> int:
    """A plain file in a directory that an agent writes to: no link is followed, nothing is waited for; OSError."""
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path} is not a regular file")
    return fd


def offer(run_dir: str, way: str) -> None:
    """The agent of this run can be told something this way; not if its run has something else in that place."""
    try:
        fd = _open(f"{run_dir}/steer", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    except OSError:
        return
    with open(fd, "w", encoding="ascii") as file:
        file.write(way)


def way_of(run_dir: str) -> str:
    """How the agent of this run can be told something; empty: not at all."""
    try:
        with open(_open(f"{run_dir}/steer", os.O_RDONLY), encoding="ascii", errors="replace") as file:
            way = file.read(16)
    except OSError:
        return ""
    return way if way in WAYS else ""


def say_to(run_dir: str, text: str) -> bool:
    """It waits for the agent, after what waited before; False if its run has something else in that place."""
    try:
        fd = _open(f"{run_dir}/told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError:
        return False
    with open(fd, "a", encoding="utf-8", errors="replace") as file:
        file.write(text[:LONGEST].strip() + "\n\n")
    return True


def take(run_dir: str) -> str:
    """All that waits, which waits no longer; empty if nothing does."""
    path, taken = f"{run_dir}/told", f"{run_dir}/told.{os.getpid()}"
    try:
        os.rename(path, taken)
        try:
            with open(_open(taken, os.O_RDONLY), encoding="utf-8", errors="replace") as file:
                text = file.read(LARGEST).strip()
        finally:
            os.unlink(taken)
    except OSError:
        return ""
    return f"{HEAD}\n\n{text}" if text else ""


def main() -> None:
    """As an agent's hook: what waits, as that agent wants it."""
    text = take(sys.argv[1])
    if text:
        facts = {"hookEventName": "PostToolUse", "additionalContext": text}
        print(json.dumps({"hookSpecificOutput": facts}))


if __name__ == "__main__":
    main()
