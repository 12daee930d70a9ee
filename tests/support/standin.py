"""A model that stands in for the real ones: on loopback, in four protocols, saying what a test has scripted.

Anthropic messages, OpenAI responses, OpenAI chat completions and Gemini, streamed where the client streams.
A prompt names its script (`SCRIPT: fix`); which of its steps comes next is read off the conversation itself:
the number of tool results since that prompt. So any number of agents may talk to one server at once, and a
resumed session begins its script again. Requests without tools (titles, summaries) get a word of no meaning, but for
the model of an agent that has none: its files are written as blocks in the answer.
"""

from __future__ import annotations

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

SCRIPT = re.compile(r"SCRIPT: ([\w-]+)")
#: What every answer costs, and how many times that it costs now.
INPUT, OUTPUT, CACHED = 1000, 50, 100
TIMES = [1]


def _counts():
    return (one * TIMES[0] for one in (INPUT, OUTPUT, CACHED))


class Say(NamedTuple):
    """It says this, and its turn is over."""

    text: str


class Shell(NamedTuple):
    """It runs this command with the agent's own tool."""

    command: str


class Write(NamedTuple):
    """It writes this file with the agent's own tool."""

    path: str
    text: str


class Call(NamedTuple):
    """It calls the tool of ours whose name ends like this."""

    name: str
    arguments: dict


class Refuse(NamedTuple):
    """The API answers with this status."""

    status: int
    type: str = "rate_limit_error"
    message: str = "Number of requests has exceeded your rate limit"
    headers: tuple = ()


class Cut(NamedTuple):
    """The connection breaks in the middle of an answer."""


class Heard(NamedTuple):
    """One request for a scripted step."""

    protocol: str
    script: str
    step: int
    model: str
    #: All that people and tools have said so far.
    text: str
    tools: tuple
    at: float


#: Tools by which agents run a command, and what their argument is called.
SHELLS = {
    "Bash": "command",
    "run_shell_command": "command",
    "bash": "command",
    "exec_command": "cmd",
    "shell_command": "command",
    "shell": "command",
}
#: Tools by which they write a file, with the names of their arguments.
WRITERS = {
    "Write": ("file_path", "content"),
    "write_file": ("file_path", "content"),
    "write": ("filePath", "content"),
    "create": ("path", "file_text"),
}


#: The models of agents that have no tools.
TOOLLESS = ("gpt-4.1-mini",)


def edit(path, text):
    """The block by which an agent without tools is told to write a file."""
    return f"{path}\n```\n{text}\n```\n"


class Talk(NamedTuple):
    """A request, whatever protocol it came by."""

    protocol: str
    model: str
    stream: bool
    #: What was said, in order: ("user", text) or ("result", text).
    said: list
    #: Tools by name, with their schema.
    tools: dict


def _texts(content):
    """Every text in it."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for one in content:
            yield from _texts(one)
    elif isinstance(content, dict):
        for key in ("text", "content", "output", "response"):
            if key in content:
                yield from _texts(content[key])


def _text(content):
    return "\n".join(_texts(content))


def read_anthropic(body):
    said = []
    for message in body.get("messages", ()):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "user":
            for block in blocks:
                kind = "result" if block.get("type") == "tool_result" else "user"
                said.append((kind, _text(block)))
    tools = {tool["name"]: tool.get("input_schema", {}) for tool in body.get("tools", ())}
    return Talk("anthropic", body.get("model", ""), bool(body.get("stream")), said, tools)


def read_responses(body):
    said = []
    found = body.get("input", ())
    for item in [{"role": "user", "content": found}] if isinstance(found, str) else found:
        if str(item.get("type", "")).endswith("_output"):
            said.append(("result", _text(item.get("output"))))
        elif item.get("role") == "user":
            said.append(("user", _text(item.get("content"))))
    tools = {}
    for tool in body.get("tools") or ():
        for one in tool["tools"] if tool.get("type") == "namespace" else [tool]:
            space = f"{tool['name']}/" if one is not tool else ""
            tools[space + one.get("name", one.get("type"))] = one.get("parameters", {})
    return Talk("responses", body.get("model", ""), bool(body.get("stream")), said, tools)


def read_chat(body):
    kinds = {"user": "user", "tool": "result"}
    heard = [message for message in body.get("messages", ()) if message["role"] in kinds]
    said = [(kinds[message["role"]], _text(message.get("content"))) for message in heard]
    tools = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in body.get("tools") or ()}
    return Talk("chat", body.get("model", ""), bool(body.get("stream")), said, tools)


def read_gemini(body, model, stream):
    said = []
    for content in body.get("contents", ()):
        for part in content.get("parts", ()):
            if "functionResponse" in part:
                said.append(("result", json.dumps(part["functionResponse"])))
            elif content.get("role", "user") == "user":
                said.append(("user", part.get("text", "")))
    tools = {
        one["name"]: one.get("parametersJsonSchema", one.get("parameters", {}))
        for tool in body.get("tools") or ()
        for one in tool.get("functionDeclarations", ())
    }
    return Talk("gemini", model, stream, said, tools)


class Model:
    """The server, its scripts, and what it has heard."""

    def __init__(self, **scripts):
        self.scripts = dict(scripts)
        TIMES[0] = 1
        self.heard = []
        #: Paths that were asked for and are not known, for whoever writes these tests.
        self.unknown = []
        self._turn = threading.Lock()
        #: Set once nobody needs it any more.
        self.closing = threading.Event()
        model = self

        class Handler(_Handler):
            owner = model

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def of(self, script):
        """What was asked for this script, in order."""
        return [one for one in self.heard if one.script == script]

    def next_step(self, talk):
        """The step that this conversation is at."""
        named = [SCRIPT.findall(text) if kind == "user" else [] for kind, text in talk.said]
        at = max((index for index, found in enumerate(named) if found), default=-1)
        if at < 0 or not (talk.tools or talk.model in TOOLLESS):
            return Say("All is well.")
        name = named[at][-1]
        count = sum(kind == "result" for kind, _ in talk.said[at:])
        text = "\n".join(text for _, text in talk.said)
        heard = Heard(talk.protocol, name, count, talk.model, text, tuple(talk.tools), time.monotonic())
        with self._turn:
            self.heard.append(heard)
        steps = self.scripts.get(name, [Say(f"There is no script {name}.")])
        step = steps[min(count, len(steps) - 1)]
        return step(heard) if callable(step) else step

    def arguments(self, step, talk):
        """The tool to call for this step and its arguments."""
        if isinstance(step, Call):
            name = next((name for name in talk.tools if "taskpit" in name and name.endswith(step.name)), step.name)
            return name, step.arguments
        if isinstance(step, Write):
            for name, (path, text) in WRITERS.items():
                if name in talk.tools:
                    named = talk.tools[name].get("properties", {})
                    return name, {path if path in named else "path": step.path, text: step.text}
            step = Shell(f"printf '%s' '{step.text}' > '{step.path}'")
        for name, key in SHELLS.items():
            if name in talk.tools:
                schema = talk.tools[name].get("properties", {})
                command = step.command
                made = {key: ["bash", "-lc", command] if schema.get(key, {}).get("type") == "array" else command}
                if "description" in schema:
                    made["description"] = "as asked"
                if "is_background" in schema:
                    made["is_background"] = False
                return name, made
        raise LookupError(f"no tool for {step} among {sorted(talk.tools)}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner = None

    def log_message(self, *_):
        pass

    def _json(self, status, body, headers=()):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for key, value in headers:
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, lines, *, cut=False):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for line in lines:
            self.wfile.write(line.encode())
            self.wfile.flush()
            if cut:
                break
        self.close_connection = True
        if cut:
            import socket
            import struct

            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def do_HEAD(self):
        self._json(200, {})

    def do_GET(self):
        if self.path.split("?")[0].endswith("/models"):
            self._json(200, {"object": "list", "data": [{"id": "stand-in", "object": "model"}], "models": []})
        else:
            self.owner.unknown.append(f"GET {self.path}")
            self._json(404, {"error": {"message": "there is nothing here"}})

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        path = self.path.split("?")[0]
        found = re.search(r"/models/([^/:]+):(\w+)$", path)
        if path.endswith("/count_tokens") or (found and found[2] == "countTokens"):
            self._json(200, {"input_tokens": INPUT, "totalTokens": INPUT})
            return
        if path.endswith("/messages"):
            talk = read_anthropic(body)
        elif path.endswith("/responses"):
            talk = read_responses(body)
        elif path.endswith("/chat/completions"):
            talk = read_chat(body)
        elif found:
            talk = read_gemini(body, found[1], found[2].startswith("stream"))
        else:
            self.owner.unknown.append(f"POST {self.path}")
            self._json(404, {"error": {"message": "there is nothing here"}})
            return
        try:
            self._answer(talk)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _answer(self, talk):
        step = self.owner.next_step(talk)
        if isinstance(step, Refuse):
            self._json(step.status, _error(talk.protocol, step), step.headers)
            return
        if isinstance(step, Cut):
            begun = list(_ANSWERS[talk.protocol][0](talk.model, "Well, let me", None, {}))
            self._stream([line.replace('"finishReason": "STOP", ', "") for line in begun], cut=True)
            return
        if isinstance(step, Write) and not talk.tools:
            step = Say(edit(step.path, step.text))
        text, name, arguments = "", None, {}
        if isinstance(step, Say):
            text = step.text
        else:
            name, arguments = self.owner.arguments(step, talk)
        streamed, whole = _ANSWERS[talk.protocol]
        if talk.stream:
            self._stream(streamed(talk.model, text, name, arguments))
        else:
            self._json(200, whole(talk.model, text, name, arguments))


def _error(protocol, step):
    if protocol == "anthropic":
        return {"type": "error", "error": {"type": step.type, "message": step.message}}
    if protocol == "gemini":
        return {"error": {"code": step.status, "message": step.message, "status": step.type}}
    return {"error": {"message": step.message, "type": step.type, "code": step.type}}


def _event(name, data):
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


_count = iter(range(1, 10**9))


def _fresh(prefix):
    return f"{prefix}{next(_count):08d}"


def _anthropic(model, text, name, arguments):
    input_, output, cached = _counts()
    content = [{"type": "text", "text": text}] if not name else []
    if name:
        content.append({"type": "tool_use", "id": _fresh("toolu_"), "name": name, "input": arguments})
    return {
        "id": _fresh("msg_"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if name else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": input_ - cached,
            "output_tokens": output,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": 0,
        },
    }


def _anthropic_stream(model, text, name, arguments):
    whole = _anthropic(model, text, name, arguments)
    yield _event("message_start", {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}})
    for index, block in enumerate(whole["content"]):
        empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
        yield _event("content_block_start", {"type": "content_block_start", "index": index, "content_block": empty})
        if block["type"] == "text":
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield _event("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta})
        yield _event("content_block_stop", {"type": "content_block_stop", "index": index})
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", {"type": "message_delta", "delta": delta, "usage": whole["usage"]})
    yield _event("message_stop", {"type": "message_stop"})


def _responses(model, text, name, arguments):
    input_, output, cached = _counts()
    if name:
        item = {
            "type": "function_call",
            "id": _fresh("fc_"),
            "call_id": _fresh("call_"),
            "name": name.rpartition("/")[2],
            "arguments": json.dumps(arguments),
            "status": "completed",
        }
        item |= {"namespace": name.rpartition("/")[0]} if "/" in name else {}
    else:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        item = {"type": "message", "id": _fresh("msg_"), "role": "assistant", "content": content, "status": "completed"}
    return {
        "id": _fresh("resp_"),
        "object": "response",
        "created_at": int(time.time()),
        "model": model,
        "status": "completed",
        "output": [item],
        "usage": {
            "input_tokens": input_,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input_ + output,
        },
    }


def _responses_stream(model, text, name, arguments):
    whole = _responses(model, text, name, arguments)
    (item,) = whole["output"]
    yield _event(
        "response.created",
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}},
    )
    yield _event("response.output_item.added", {"type": "response.output_item.added", "output_index": 0, "item": item})
    if not name:
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        yield _event("response.output_text.delta", {"type": "response.output_text.delta", **place, "delta": text})
    yield _event("response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item})
    yield _event("response.completed", {"type": "response.completed", "response": whole})


def _chat(model, text, name, arguments, *, key="message"):
    input_, output, cached = _counts()
    message = {"role": "assistant", "content": text or None}
    if name:
        called = {"name": name, "arguments": json.dumps(arguments)}
        message["tool_calls"] = [{"index": 0, "id": _fresh("call_"), "type": "function", "function": called}]
    return {
        "id": _fresh("chatcmpl-"),
        "object": "chat.completion" if key == "message" else "chat.completion.chunk",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, key: message, "finish_reason": "tool_calls" if name else "stop"}],
        "usage": {
            "prompt_tokens": input_,
            "completion_tokens": output,
            "total_tokens": input_ + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }


def _chat_stream(model, text, name, arguments):
    chunk = _chat(model, text, name, arguments, key="delta")
    usage = chunk.pop("usage")
    finish = chunk["choices"][0]["finish_reason"]
    chunk["choices"][0]["finish_reason"] = None
    yield f"data: {json.dumps(chunk)}\n\n"
    ended = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    yield f"data: {json.dumps(ended)}\n\n"
    yield f"data: {json.dumps({**chunk, 'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"


def _gemini(model, text, name, arguments):
    input_, output, cached = _counts()
    part = {"functionCall": {"name": name, "args": arguments}} if name else {"text": text}
    return {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": input_,
            "candidatesTokenCount": output,
            "cachedContentTokenCount": cached,
            "totalTokenCount": input_ + output,
        },
        "modelVersion": model,
    }


def _gemini_stream(model, text, name, arguments):
    yield f"data: {json.dumps(_gemini(model, text, name, arguments))}\r\n\r\n"


_ANSWERS = {
    "anthropic": (_anthropic_stream, _anthropic),
    "responses": (_responses_stream, _responses),
    "chat": (_chat_stream, _chat),
    "gemini": (_gemini_stream, _gemini),
}
