"""codex exec --json, traps included."""

from __future__ import annotations

import sys

from trick import deaf, hang, leave_child, mode_of, remember, say


def main():
    assert sys.argv[1:3] == ["exec", "--json"]
    assert sys.argv[-1] == "-"
    prompt = sys.stdin.read()
    remember("codex", prompt)
    mode = mode_of(prompt)
    if mode == "bad flag":
        print("error: unexpected argument '--nonsense' found", file=sys.stderr)
        return 2
    if mode == "empty":
        return 0
    say({"type": "thread.started", "thread_id": "0199-thread"})
    say({"type": "turn.started"})
    say({"type": "item.completed", "item": {"id": "0", "type": "command_execution", "command": "ls", "exit_code": 0}})
    if mode == "offline":
        say({"type": "error", "message": "stream disconnected before completion; retrying 5/5"})
        deaf()
        leave_child()
        hang()
    if mode == "hangs":
        leave_child()
        hang()
    if mode == "limit":
        told = "You've hit your usage limit. Upgrade to Pro or try again in 2 hours 5 minutes."
        say({"type": "error", "message": told})
        say({"type": "turn.failed", "error": {"message": told}})
        return 1
    if mode == "too fast":
        say({"type": "turn.failed", "error": {"message": "Rate limit reached for x. Please try again in 20s."}})
        return 1
    if mode == "fails":
        say({"type": "turn.failed", "error": {"message": "the model gave up"}})
        return 1
    say({"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "All is well."}})
    say({"type": "turn.completed", "usage": {"input_tokens": 50, "cached_input_tokens": 5, "output_tokens": 9}})
    return 0


if __name__ == "__main__":
    sys.exit(main())
