"""opencode run --format json, traps included."""

from __future__ import annotations

import sys

from trick import mode_of, note, option, remember, say

SESSION = "ses_fake"


def step(reason, cost):
    tokens = {"input": 10, "output": 2, "reasoning": 0, "cache": {"read": 1, "write": 0}}
    part = {"type": "step-finish", "reason": reason, "cost": cost, "tokens": tokens}
    say({"type": "step_finish", "sessionID": SESSION, "part": part})


def error(name, **data):
    say({"type": "error", "sessionID": SESSION, "error": {"name": name, "data": data}})


def main():
    prompt = sys.stdin.read()
    remember("opencode", prompt)
    mode = mode_of(prompt)
    if mode == "forgetful" and option("-s"):
        print(f"NotFoundError: Session not found: {option('-s')}", file=sys.stderr)
        return 0
    if mode == "empty":
        print("! permission requested: external_directory; auto-rejecting", file=sys.stderr)
        return 0
    say({"type": "step_start", "sessionID": SESSION, "part": {"type": "step-start"}})
    say({"type": "tool_use", "sessionID": SESSION, "part": {"type": "tool", "tool": "bash"}})
    step("tool-calls", 0.01)
    if mode == "limit":
        error("APIError", message="slow down", statusCode=429, responseHeaders={"retry-after": "90"})
        return 1
    if mode == "fails":
        error("UnknownError", message="it is broken")
        return 1
    if mode == "too long":
        step("length", 0.01)
        return 0
    if mode == "half way":
        return 0
    if mode == "forgetful":
        note("fresh", "one")
    say({"type": "text", "sessionID": SESSION, "part": {"type": "text", "text": "All is well."}})
    step("stop", 0.02)
    return 0


if __name__ == "__main__":
    sys.exit(main())
