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
import sys

__all__ = ["LONGEST", "WAYS", "offer", "say_to", "take", "way_of"]

#: What one may say at once, in letters.
LONGEST = 20_000
#: How the sender is told what becomes of it.
WAYS = {
    "hook": "its agent reads it after the next step",
    "acp": "its agent reads it next",
    "resume": "its agent reads it in the same session, as soon as it would be finished",
    "": "its agent takes no messages while it runs: the next attempt reads it",
}
#: How it is put to the agent.
HEAD = "A note from the person who watches this task; do as it says:"


def offer(run_dir: str, way: str) -> None:
    """The agent of this run can be told something this way."""
    with open(f"{run_dir}/steer", "w", encoding="ascii") as file:
        file.write(way)


def way_of(run_dir: str) -> str:
    """How the agent of this run can be told something; empty: not at all."""
    try:
        with open(f"{run_dir}/steer", encoding="ascii", errors="replace") as file:
            way = file.read(16)
    except OSError:
        return ""
    return way if way in WAYS else ""


def say_to(run_dir: str, text: str) -> None:
    """It waits for the agent; what waited before is still there."""
    with open(f"{run_dir}/told", "a", encoding="utf-8", errors="replace") as file:
        file.write(text[:LONGEST].strip() + "\n\n")


def take(run_dir: str) -> str:
    """All that waits, which waits no longer; empty if nothing does."""
    path, taken = f"{run_dir}/told", f"{run_dir}/told.{os.getpid()}"
    try:
        os.rename(path, taken)
        with open(taken, encoding="utf-8", errors="replace") as file:
            text = file.read(1024 * 1024).strip()
        os.unlink(taken)
    except OSError:
        return ""
    return f"{HEAD}\n\n{text}" if text else ""


def main() -> None:
    """As an agent's hook: what waits, as that agent wants it."""
    text = take(sys.argv[1])
    if text:
        told = {"hookEventName": "PostToolUse", "additionalContext": text}
        print(json.dumps({"hookSpecificOutput": told}))


if __name__ == "__main__":
    main()
