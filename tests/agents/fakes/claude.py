"""Claude Code as it speaks with --output-format stream-json, traps included."""

from __future__ import annotations

import os
import sys

from trick import calls, deaf, hang, leave_child, mode_of, note, option, remember, say

LIMIT = "You've hit your limit · resets 3pm (Europe/Berlin)"


def result(text, session, **changes):
    say(
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "num_turns": 3,
            "result": text,
            "session_id": session,
            "total_cost_usd": 0.25,
            "usage": {
                "input_tokens": 100,
                "output_tokens": 20,
                "cache_creation_input_tokens": 30,
                "cache_read_input_tokens": 7,
            },
            "permission_denials": [],
            **changes,
        }
    )


def main():
    prompt = sys.stdin.read()  # to its end, as the real one: an open input would hold it for ever
    remember("claude", prompt)
    mode, session = mode_of(prompt), option("--session-id") or option("--resume")
    assert option("--output-format") == "stream-json"
    assert "--verbose" in sys.argv
    assert "CLAUDECODE" not in os.environ
    assert "CLAUDE_CODE_ENTRYPOINT" not in os.environ
    assert os.environ.get("CLAUDE_CODE_OAUTH_TOKEN") in (None, "kept")
    if mode == "forgetful" and "--resume" in sys.argv:
        print(f"No conversation found with session ID: {session}", file=sys.stderr)
        return 1
    if mode == "logged out":
        result("Not logged in · Please run /login", session, is_error=True, num_turns=1, total_cost_usd=0)
        return 1
    refused = {
        "bad flag": "error: unknown option '--nonsense'",
        "as root": "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons",
    }
    if mode in refused:
        print(refused[mode], file=sys.stderr)
        return 1
    say({"type": "system", "subtype": "init", "session_id": session, "tools": ["Bash"], "model": "fake"})
    say({"type": "rate_limit_event", "rate_limit_info": {"status": "allowed", "resetsAt": 4102444800}})
    say({"type": "never_heard_of", "session_id": session, "deep": [{"er": None}]})
    print("a line that is no event")
    if mode != "mute":
        say({"type": "assistant", "message": {"content": [{"type": "text", "text": "Looking at rate limits (429)."}]}})
    if mode not in ("mute", "talks", "traceback"):
        say({"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "Bash"}]}})
    return (globals().get(mode.replace(" ", "_").replace("-", "_")) or good)(session) or 0


def good(session):
    result("All is well.", session)


def lying(session):
    result("It did not work.", session, is_error=True)


def api_error(session):
    result("API Error: 529 Overloaded", session, is_error=True)
    return 0


def talks(session):
    result("All of that is done already.", session)


def traceback(session):
    """As a wrapper that is broken: a module is missing, whose name holds a code of the network."""
    print("Traceback (most recent call last):", file=sys.stderr)
    print("  File \"wrapper.py\", line 1, in <module>\nModuleNotFoundError: No module named 'x'", file=sys.stderr)
    return 1


def overloaded(session):
    result("API Error: 503 The model is overloaded.", session, is_error=True, api_error_status=503)
    return 1


def unpaid(session):
    result("Credit balance is too low", session, is_error=True)
    return 1


def per_minute(session):
    """Once; then it goes on."""
    if calls() > 1:
        return good(session)
    refused = "API Error: Request rejected (429) · This would exceed your limit of 50 requests per minute"
    result(refused, session, is_error=True, api_error_status=429)
    return 1


def exits_1(session):
    result("All is well.", session)
    return 1


def no_turns(session):
    result("All is well.", session, num_turns=0)


def mute(session):
    result("", session)


def cut_off(session):
    return 0


def spends(session):
    """It ends before its result, and has said of a message twice what that has cost."""
    for name, fresh, output in (("m1", 10, 1), ("m2", 20, 2), ("m1", 10, 5)):
        usage = {"input_tokens": fresh, "output_tokens": output, "cache_read_input_tokens": 1000}
        usage["cache_creation_input_tokens"] = 100
        message = {"id": name, "model": "claude-opus-4-5", "content": [{"type": "tool_use"}], "usage": usage}
        say({"type": "assistant", "message": message, "session_id": session})


def spends_and_hangs(session):
    spends(session)
    hangs(session)


def hangs_after(session):
    leave_child()
    result("All is well.", session)
    deaf()
    hang()


def hangs(session):
    deaf()
    leave_child()
    hang()


def orphans(session):
    leave_child()
    result("All is well.", session)


def limit_event(session):
    """Once; then it goes on."""
    if calls() > 1:
        return good(session)
    reset = int(os.environ["FAKE_RESET"])
    info = {"status": "rejected", "resetsAt": reset, "rateLimitType": "five_hour", "isUsingOverage": False}
    say({"type": "rate_limit_event", "rate_limit_info": info})
    result(LIMIT, session, is_error=True, num_turns=1)
    return 1


def limit_words(session):
    result(LIMIT, session, is_error=True, num_turns=1)
    return 1


def limit_unix(session):
    result("Claude AI usage limit reached|" + os.environ["FAKE_RESET"], session, is_error=True, num_turns=1)
    return 0


def second_time(session):
    """The check is red after the first session and green once it was gone on with."""
    if "--resume" in sys.argv:
        note("proof", "resumed")
    result("I think it is done.", session)


def forgetful(session):
    result("I have no memory.", session)


if __name__ == "__main__":
    sys.exit(main())
