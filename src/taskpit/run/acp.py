"""The client's side of the Agent Client Protocol: JSON-RPC by the line. Pure: lines in, lines out; opens nothing.

initialize, then session/load or session/resume (where the agent can, and there is a session to go on in) or
session/new, then session/prompt, and after it one more for each note that has come meanwhile. Permissions are answered
by policy, or become a question for a person: then the turn is cancelled, and goes on in its session once there is an
answer. What the agent asks of an editor (files, terminals) it is told we have not: it has the place it works in.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from taskpit.decode import read_json
from taskpit.text import fit

VERSION = 1
#: What is answered when an agent asks whether it may use a tool.
PERMISSIONS = ("allow", "deny", "ask")
NOT_FOUND = -32601
#: How a question for a person begins, how much of what it is about and of its name is told, and what means yes.
QUESTION, LONGEST, LONGEST_NAME = "may its agent do this:", 400, 100
YES = frozenset(("yes", "y", "ok", "okay", "allow", "allowed", "sure"))
#: So many changed files and tool calls are remembered.
MOST_FILES, MOST_TOOLS = 1000, 10_000


class Client:
    """One conversation. `note` gives what else is to be said once a turn is over; empty: nothing.

    `answers` are what people have said to its questions, by question, where permissions are asked for.
    """

    def __init__(
        self,
        cwd: str,
        prompt: str,
        *,
        session: str = "",
        permissions: str = "allow",
        answers: Mapping[str, str] | None = None,
        note: Callable[[], str] = str,
    ) -> None:
        self.session = session
        #: What a person must answer before it goes on; empty: nothing.
        self.question = ""
        #: Lines added and removed by file, as the agent's diffs have them.
        self.changed: dict[str, tuple[int, int]] = {}
        #: Tool calls it has told of. Some tell of one only once it is over.
        self.tools: set[str] = set()
        #: Lines that tell of this run, and not of what its session was before; the reader takes them out.
        self.news: list[bytes] = []
        self._answers = answers or {}
        self._loading = False
        #: Whether everything is said: its input may be closed.
        self.over = False
        self._cwd = cwd
        self._prompt = prompt
        self._permissions = permissions
        self._note = note
        self._asked: dict[int, str] = {}

    def begin(self) -> bytes:
        """The first thing to say."""
        able = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        return self._ask("initialize", {"protocolVersion": VERSION, "clientCapabilities": able})

    def hear(self, lines: Iterable[bytes]) -> bytes:
        """What to say to these lines."""
        said = b""
        for line in lines:
            try:
                message = read_json(line)
            except ValueError:
                message = None  # an agent's log on its standard output
            update = isinstance(message, dict) and message.get("method") == "session/update"
            if not (update and self._loading):  # else it tells again what was said before
                self.news.append(line)
                if update:
                    self._see_tool(message)
            if isinstance(message, dict):
                said += self._answer(message)
        return said

    def _see_tool(self, message: Any) -> None:
        """Which tool it uses, and what that has changed, as far as it says."""
        update = message["params"].get("update") if isinstance(message.get("params"), dict) else None
        tool = update.get("toolCallId") if isinstance(update, dict) else None
        if isinstance(tool, str) and len(self.tools) < MOST_TOOLS:
            self.tools.add(tool[:LONGEST])
        content = update.get("content") if isinstance(update, dict) else None
        for one in content if isinstance(content, list) else ():
            if not isinstance(one, dict) or one.get("type") != "diff" or not isinstance(one.get("path"), str):
                continue
            old, new = (one[key] if isinstance(one.get(key), str) else "" for key in ("oldText", "newText"))
            before, after = Counter(old.splitlines()), Counter(new.splitlines())
            if one["path"] in self.changed or len(self.changed) < MOST_FILES:
                self.changed[one["path"]] = ((after - before).total(), (before - after).total())

    def cancel(self) -> bytes:
        """The turn is to end."""
        return _line({"method": "session/cancel", "params": {"sessionId": self.session}}) if self.session else b""

    def _ask(self, method: str, params: dict[str, Any]) -> bytes:
        number = len(self._asked) + 1
        self._asked[number] = method
        return _line({"id": number, "method": method, "params": params})

    def _answer(self, message: dict[str, Any]) -> bytes:
        if "method" in message:
            return self._permit(message) if "id" in message else b""
        method = self._asked.get(message.get("id", 0), "") if isinstance(message.get("id"), int) else ""
        if "error" in message:
            if method in ("session/load", "session/resume"):  # it is forgotten: a new one does as well
                self._loading = False
                return self._open()
            self.over = self.over or bool(method)
            return b""
        found = message.get("result")
        result = found if isinstance(found, dict) else {}
        if method == "initialize":
            able = result.get("agentCapabilities")
            way = _way_to_go_on(able) if self.session and isinstance(able, dict) else ""
            self._loading = bool(way)
            return self._ask(way, {"sessionId": self.session, **self._place()}) if way else self._open()
        if method == "session/new":
            self.session = str(result.get("sessionId", ""))
        if method in ("session/new", "session/load", "session/resume"):
            self._loading = False
            return self._say(self._prompt)
        if method == "session/prompt":
            more = self._note() if result.get("stopReason") == "end_turn" else ""
            self.over = not more
            return self._say(more) if more else b""
        return b""

    def _place(self) -> dict[str, Any]:
        return {"cwd": self._cwd, "mcpServers": []}

    def _open(self) -> bytes:
        return self._ask("session/new", self._place())

    def _say(self, text: str) -> bytes:
        return self._ask("session/prompt", {"sessionId": self.session, "prompt": [{"type": "text", "text": text}]})

    def _permit(self, message: dict[str, Any]) -> bytes:
        """The answer to a question of the agent's."""
        if message["method"] != "session/request_permission":
            text = f"this client has no {message['method']}"
            return _line({"id": message["id"], "error": {"code": NOT_FOUND, "message": text}})
        params = message.get("params")
        options = params.get("options") if isinstance(params, dict) else None
        wanted = "allow" if self._permissions == "allow" else "reject"
        if self._permissions == "ask":
            question = _question(params)
            said = self._answers.get(question, "").split()
            if not said:
                self.question = self.question or question
                refused = {"id": message["id"], "result": {"outcome": {"outcome": "cancelled"}}}
                return self.cancel() + _line(refused)
            wanted = "allow" if said[0].strip(".,;:!").lower() in YES else "reject"
        fitting = [
            one
            for one in (options if isinstance(options, list) else [])
            if isinstance(one, dict) and str(one.get("kind", "")).startswith(wanted)
        ]
        fitting.sort(key=lambda one: not str(one.get("kind")).endswith("_once"))
        chosen = (
            {"outcome": "selected", "optionId": fitting[0].get("optionId")} if fitting else {"outcome": "cancelled"}
        )
        return _line({"id": message["id"], "result": {"outcome": chosen}})


def _way_to_go_on(able: dict[str, Any]) -> str:
    """By which method a session goes on; empty if this agent cannot. What was loaded is surely known to its model."""
    if able.get("loadSession"):
        return "session/load"
    sessions = able.get("sessionCapabilities")
    return "session/resume" if isinstance(sessions, dict) and isinstance(sessions.get("resume"), dict) else ""


def _question(params: object) -> str:
    """What a person is asked about this tool: what the agent calls it, and what it is really given.

    An answer is found again by its question, so each call has one of its own: where not all of it is shown as it is, a
    digest of the whole stands at the end.
    """
    call = params.get("toolCall") if isinstance(params, dict) else None
    tool = call if isinstance(call, dict) else {}
    whole = [str(tool[key]) for key in ("title", "kind") if isinstance(tool.get(key), str)]
    shown = [fit(word, LONGEST_NAME) for word in whole]
    if given := tool.get("rawInput"):
        whole.append(json.dumps(given, ensure_ascii=False))
        shown.append(fit(whole[-1], LONGEST))
    if not whole:
        return f"{QUESTION} something it does not name"
    if shown != whole or not "".join(shown).isprintable():
        from hashlib import blake2b

        everything = json.dumps(whole).encode()
        shown.append(f"[{blake2b(everything, digest_size=8).hexdigest()}]")
    return f"{QUESTION} {' '.join(' '.join(shown).split())}"


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
