"""The tools as data: what each is called, what it wants, what it answers. Pure; kept short, since every agent
that connects reads all of it.
"""

from __future__ import annotations

from taskpit.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["INSTRUCTIONS", "TOOLS", "ToolRow", "find", "input_schema"]

INSTRUCTIONS = (
    "A queue of tasks shared with other agents and people. Work: `claim` a task under one worker name of your own, "
    "do it, `done` with a summary; its check must be green. `renew` before the lease ends when you need longer. "
    "If you can't finish, `give_back`; if a person must decide, `note` with ask=true. Pass the same worker every time."
)


class ToolRow(Value):
    """One tool."""

    name: str
    told: str
    #: Its arguments as JSON schema properties.
    takes: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    #: What is always in its answer, likewise.
    gives: Mapping[str, Any]
    #: Changes nothing; may be repeated with the same effect.
    reads: bool = False
    repeats: bool = False


def _text(told: str = "") -> dict[str, Any]:
    return {"type": "string", "description": told} if told else {"type": "string"}


def _texts(told: str = "") -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}} | ({"description": told} if told else {})


def _seconds(most: int, told: str = "") -> dict[str, Any]:
    return {"type": "number", "minimum": 0, "maximum": most} | ({"description": told} if told else {})


TEXT, TEXTS, FLAG, NUMBER = _text(), _texts(), {"type": "boolean"}, {"type": "number"}
OBJECT = {"type": "object"}
ID = {"id": TEXT}
WORKER = {"worker": _text("your name, always the same")}
LEASE = {"lease_seconds": _seconds(7 * 24 * 3600)}
WISH = {
    "title": TEXT,
    "body": TEXT,
    "check": _text("shell command that proves it done"),
    "priority": {"type": "integer", "description": "higher first"},
    "tags": TEXTS,
    "touches": _texts("globs it will change"),
    "limits": _texts("KEY=N at once, KEY=N/min"),
}

TOOLS: tuple[ToolRow, ...] = (
    ToolRow(
        name="add",
        told="Put a task into the queue.",
        takes={
            **WISH,
            "needs": _texts("ids it waits for"),
            "parent": TEXT,
            "id": _text("default: next free"),
            **WORKER,
        },
        needs=("title",),
        gives={**ID, "created": FLAG},
    ),
    ToolRow(
        name="list",
        told="Tasks, ready ones in the order they will be taken. state `held`: not to be taken yet, with the reason.",
        takes={
            "state": {"enum": ["ready", "held", "claimed", "failed", "done", "all"], "default": "ready"},
            "tag": TEXT,
            "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 20},
        },
        gives={"tasks": {"type": "array", "items": OBJECT}, "more": FLAG, "counts": OBJECT},
        reads=True,
    ),
    ToolRow(
        name="show",
        told="One task with its result, tries, notes and why it is where it is.",
        takes={**ID},
        needs=("id",),
        gives={**ID, "title": TEXT, "state": TEXT, "why": TEXTS},
        reads=True,
    ),
    ToolRow(
        name="claim",
        told="Take the next task, or the one named; it is yours until the lease ends. task is null if there is none.",
        takes={
            **WORKER,
            **ID,
            "tags": _texts("only with one of these"),
            **LEASE,
            "wait_seconds": _seconds(50, "wait for one"),
        },
        needs=("worker",),
        gives={"task": {"type": ["object", "null"]}, "worker": TEXT},
    ),
    ToolRow(
        name="renew",
        told="Keep a claim for another lease. stop=true: you are asked to stop.",
        takes={**ID, **WORKER, **LEASE},
        needs=("id", "worker"),
        gives={**ID, "lease_seconds": NUMBER, "stop": FLAG},
        repeats=True,
    ),
    ToolRow(
        name="done",
        told="Finish your task: runs its check, then publishes the result. If the check is red the task stays yours.",
        takes={**ID, **WORKER, "result": _text("what you did and found"), "cwd": _text("folder to run the check in")},
        needs=("id", "worker"),
        gives={**ID, "state": TEXT},
        repeats=True,
    ),
    ToolRow(
        name="give_back",
        told=(
            "End your claim unfinished. fail: it did not work, the queue decides what is next. release: as it was. "
            "split: replace it by parts; with wait=true come back to it when they are done."
        ),
        takes={
            **ID,
            **WORKER,
            "how": {"enum": ["fail", "release", "split"]},
            "reason": _text("fail: what went wrong"),
            "final": {**FLAG, "description": "fail: no further attempt"},
            "parts": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        **WISH,
                        "after": {
                            "type": "array",
                            "items": {"type": "integer"},
                            "description": "positions of earlier parts it needs, from 0",
                        },
                    },
                    "required": ["title"],
                    "additionalProperties": False,
                },
            },
            "wait": FLAG,
        },
        needs=("id", "worker", "how"),
        gives={**ID, "state": TEXT},
    ),
    ToolRow(
        name="note",
        told="Leave a note beside a task. ask=true: put your task back until a person has answered the text.",
        takes={**ID, **WORKER, "text": TEXT, "ask": FLAG},
        needs=("id", "worker", "text"),
        gives={**ID},
    ),
)


def find(name: str) -> ToolRow | None:
    """The tool of this name."""
    return next((row for row in TOOLS if row.name == name), None)


def input_schema(row: ToolRow, worker: str = "") -> dict[str, Any]:
    """What it wants; where the server speaks for one worker, the worker need not be said."""
    needs = [name for name in row.needs if not (name == "worker" and worker)]
    required = {"required": needs} if needs else {}
    return {"type": "object", "properties": dict(row.takes), **required, "additionalProperties": False}
