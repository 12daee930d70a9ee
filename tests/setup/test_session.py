"""A real session of Claude Code with our plugin, its model played by a server of ours. Fetches the agent from npm."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading

import pytest

from taskpit.model import State, Task
from taskpit.queue import Queue
from taskpit.store.opening import init

pytestmark = pytest.mark.skipif(not os.environ.get("TASKPIT_LONG"), reason="fetches the agent from npm: TASKPIT_LONG=1")


def told(kind, **fields):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


def answer(asked):
    """What the model says: first it claims a task, from then on it is finished."""
    if any(message["role"] == "assistant" for message in asked["messages"]):
        block, delta, stop = {"type": "text", "text": ""}, {"type": "text_delta", "text": "Finished."}, "end_turn"
    else:
        command = json.dumps({"command": "pit claim", "description": "take a task"})
        block, stop = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}, "tool_use"
        delta = {"type": "input_json_delta", "partial_json": command}
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    return (
        told("message_start", message={**message, "stop_reason": None, "stop_sequence": None})
        + told("content_block_start", index=0, content_block=block)
        + told("content_block_delta", index=0, delta=delta)
        + told("content_block_stop", index=0)
        + told("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage=usage)
        + told("message_stop")
    )


@pytest.fixture
def model():
    """A model that answers as above; what it was asked."""
    asked = []

    class Model(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            body = answer(asked[-1]).encode()
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1], asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_session_shows_keeps_and_minds_its_claim(project, setup, model, tmp_path):
    port, asked = model
    setup("claude")
    init(str(project / "pit"), "pit")
    queue = Queue.open(str(project / "pit"))
    queue.put([Task(id="", title="Try it")])
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    trusted = {"projects": {str(project): {"hasTrustDialogAccepted": True}}, "hasCompletedOnboarding": True}
    (home / ".claude.json").write_text(json.dumps(trusted))
    env = {
        "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
        "HOME": str(home),
        "npm_config_cache": str(tmp_path / "npm"),
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "IS_SANDBOX": "1",
    }
    words = ["-p", "work", "--output-format", "stream-json", "--verbose", "--include-hook-events"]
    words += ["--allowedTools", "Bash", "--settings", json.dumps({"enabledMcpjsonServers": ["taskpit"]})]
    command = ["npx", "--yes", "@anthropic-ai/claude-code", *words]
    ran = subprocess.run(
        command,
        env=env,
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    events = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    hooks = [(one["hook_event"], one["stdout"]) for one in events if one.get("subtype") == "hook_response"]
    (begin,) = [one for one in events if one.get("subtype") == "init"]
    name = f"claude-{begin['session_id'][:8]}"
    assert [hook for hook, _ in hooks] == ["SessionStart", "PostToolUse", "Stop", "Stop"], ran.stdout + ran.stderr
    assert "- 0001 Try it" in hooks[0][1]
    assert json.loads(hooks[2][1])["decision"] == "block"
    assert hooks[3][1] == ""
    assert "taskpit" in begin["skills"]
    (card,) = queue.store.page(State.CLAIMED).cards
    assert card.worker == name  # `pit claim` in the session's shell had the session's name
    assert f"You still hold 0001 (Try it) as {name}" in json.dumps(asked[-1]["messages"][-1])
    queue.close()
