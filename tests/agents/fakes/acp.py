"""An agent that speaks the Agent Client Protocol: asks for permission, writes a file, remembers its sessions."""

from __future__ import annotations

import json
import signal
import sys

from trick import mode_of, note, remember


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def hear():
    line = sys.stdin.readline()
    return json.loads(line) if line else None


def update(session, **fields):
    say({"method": "session/update", "params": {"sessionId": session, "update": fields}})


def turn(message):
    session = message["params"]["sessionId"]
    prompt = message["params"]["prompt"][0]["text"]
    remember("acp", prompt)
    mode = mode_of(prompt)
    if mode == "limit":
        say({"id": message["id"], "error": {"code": -32603, "message": "429 Too Many Requests: rate limit"}})
        return
    update(session, sessionUpdate="tool_call", toolCallId="1", title="write")
    if mode == "cancelled":
        signal.signal(signal.SIGTERM, lambda *_: note("signalled", "yes"))
        note("going", "yes")
        note("cancelled", hear()["params"]["sessionId"])
        say({"id": message["id"], "result": {"stopReason": "cancelled"}})
        return
    options = [{"optionId": "yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]
    about = {"sessionId": session, "toolCall": {"title": "write", "kind": "edit", "rawInput": {"path": "x"}}}
    say({"id": 900, "method": "session/request_permission", "params": {**about, "options": options}})
    answer = hear()
    if answer.get("method") == "session/cancel":
        note("cancelled", answer["params"]["sessionId"])
        assert hear()["result"]["outcome"] == {"outcome": "cancelled"}
        say({"id": message["id"], "result": {"stopReason": "cancelled"}})
        if mode == "lingers":
            signal.pause()
        return
    note("permission", answer["result"]["outcome"]["optionId"])
    say({"id": 901, "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}})
    note("refused", str(hear()["error"]["code"]))
    diff = [
        {"type": "diff", "path": "x", "oldText": None, "newText": "y"},
        {"type": "diff", "path": "y", "oldText": "a\nb\n", "newText": "a\n"},
    ]
    update(session, sessionUpdate="tool_call_update", toolCallId="1", content=diff)
    if mode == "steered":
        import os
        import time

        note("going", "yes")
        while not os.path.exists("go"):
            time.sleep(0.02)
    for part in ("All is ", f"well {len(prompt.split())}."):
        update(session, sessionUpdate="agent_message_chunk", content={"type": "text", "text": part})
    say({"id": message["id"], "result": {"stopReason": "refusal" if mode == "fails" else "end_turn"}})
    if mode == "chatty":
        update(session, sessionUpdate="session_info_update", title="All is well.")
        signal.pause()


def main():
    print("a line of its log")
    while message := hear():
        method = message.get("method")
        if method == "initialize":
            say({"id": message["id"], "result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}})
        elif method == "session/new":
            say({"id": message["id"], "result": {"sessionId": "sess-1"}})
        elif method == "session/load":
            note("loaded", message["params"]["sessionId"])
            update("sess-1", sessionUpdate="tool_call", toolCallId="0", title="read")
            update("sess-1", sessionUpdate="agent_message_chunk", content={"type": "text", "text": "long ago"})
            say({"id": message["id"], "result": None})
        elif method == "session/prompt":
            turn(message)
    return 0


if __name__ == "__main__":
    sys.exit(main())
