"""The client's side of the Agent Client Protocol: JSON-RPC by the line. Pure: lines in, lines out; opens nothing.

initialize, then session/load (where the agent can, and there is a session to go on in) or session/new, then
session/prompt, and after it one more for each note that has come meanwhile. Permissions are answered by policy. What
the agent asks of an editor (its files, its terminals) it is told we have not: it has the place it works in.
"""

from __future__ import annotations

import json

from taskpit.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["PERMISSIONS", "Client"]

VERSION = 1
#: What is answered when an agent asks whether it may use a tool.
PERMISSIONS = ("allow", "deny")
NOT_FOUND = -32601


class Client:
    """One conversation. `note` gives what else is to be said once a turn is over; empty: nothing."""

    def __init__(
        self, cwd: str, prompt: str, *, session: str = "", permissions: str = "allow", note: Callable[[], str] = str
    ) -> None:
        self.session = session
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
                continue  # an agent's log on its standard output
            if isinstance(message, dict):
                said += self._answer(message)
        return said

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
            if method == "session/load":  # it is forgotten: a new one does as well
                return self._open()
            self.over = self.over or bool(method)
            return b""
        found = message.get("result")
        result = found if isinstance(found, dict) else {}
        if method == "initialize":
            able = result.get("agentCapabilities")
            if self.session and isinstance(able, dict) and able.get("loadSession"):
                return self._ask("session/load", {"sessionId": self.session, **self._place()})
            return self._open()
        if method == "session/new":
            self.session = str(result.get("sessionId", ""))
        if method in ("session/new", "session/load"):
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
            told = f"this client has no {message['method']}"
            return _line({"id": message["id"], "error": {"code": NOT_FOUND, "message": told}})
        params = message.get("params")
        options = params.get("options") if isinstance(params, dict) else None
        wanted = self._permissions if self._permissions == "allow" else "reject"
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


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
