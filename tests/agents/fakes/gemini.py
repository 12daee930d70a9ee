"""gemini -o stream-json, traps included: its errors are JSON over many lines, on stderr."""

from __future__ import annotations

import json
import sys

from trick import mode_of, option, remember, say


def refuse(message, code):
    error = {"session_id": option("--session-id"), "error": {"type": "Error", "message": message, "code": code}}
    print("Loaded cached credentials.", file=sys.stderr)
    print(json.dumps(error, indent=2), file=sys.stderr)
    return code


def main():
    prompt, session = sys.stdin.read(), option("--session-id") or option("--resume")
    remember("gemini", prompt)
    mode = mode_of(prompt)
    if mode == "logged out":
        return refuse("Please set an Auth method in your settings", 41)
    if mode == "limit":
        refuse("[429] RESOURCE_EXHAUSTED: Quota exceeded. Your quota will reset after 2h39m52s.", 429)
        return 1
    if mode == "empty":
        return 0
    say({"type": "init", "session_id": session, "model": "fake"})
    say({"type": "message", "role": "user", "content": prompt})
    say({"type": "message", "role": "assistant", "content": "Thinking.", "delta": True})
    say({"type": "tool_use", "tool_name": "ls"})
    if mode == "fails":
        say({"type": "result", "status": "error", "error": {"type": "Loop", "message": "a loop was found"}})
        return 0
    say({"type": "message", "role": "assistant", "content": "All is ", "delta": True})
    say({"type": "message", "role": "assistant", "content": "well.", "delta": True})
    stats = {"total_tokens": 35, "input_tokens": 30, "output_tokens": 3, "cached": 1}
    print(json.dumps({"type": "result", "status": "success", "stats": stats}), end="", flush=True)  # no line end
    return 0


if __name__ == "__main__":
    sys.exit(main())
