"""What each agent is given: which files, which words, which entry. Pure data; says nothing that `pit prime` says."""

from __future__ import annotations

import json

from taskpit.setup.blocks import HASH, MARKDOWN
from taskpit.setup.stamped import stamped
from taskpit.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from taskpit.setup.blocks import Comment

__all__ = ["AGENTS", "ALLOW", "BlockPart", "EntryPart", "FilePart", "Part", "by_hand"]

NAME = "taskpit"


class BlockPart(Value):
    """A marked block in a text file."""

    path: str
    text: str
    comment: Comment = MARKDOWN


class EntryPart(Value):
    """An entry in a JSON file; `paths` are tried in order, the last is made if none is there."""

    paths: tuple[str, ...]
    group: str
    entry: Mapping[str, Any]


class FilePart(Value):
    """A file that is ours as a whole."""

    path: str
    text: str


Part = BlockPart | EntryPart | FilePart

WORDS = """\
## Tasks

The work of this project is in a taskpit queue. Before you start, run `pit prime`: it says what you hold, what is
next, and how to finish, split or ask. The tools of the MCP server `taskpit` do the same.
"""
CODEX = """\
[mcp_servers.taskpit]
command = "pit"
args = ["mcp"]
"""
SKILL = stamped("""\
---
name: taskpit
description: Take, do, add, split and finish tasks of this project's taskpit queue. Use it when tasks come up.
---

<!-- pit setup v1 00000000 -->

Run `pit prime`. It tells the queue, your name in it, what you hold, what is next, and the commands. Then:

1. Claim one task and do exactly what it asks. Keep to the files it names in `touches`.
2. Run its check. Only a green check makes it done.
3. Finish with a short result: what you did, what you found, what is left.
4. If it is several tasks, split it. If a person must decide, ask. If it did not work, fail it and say why.

Never work on a task that is not yours, and never edit the queue's files by hand while you hold a claim.
""")
PLUGIN = stamped(
    json.dumps(
        {
            "name": NAME,
            "version": "1.0.0",
            "description": "Shows the claimed task when a session starts, keeps its claim, and reminds of it before "
            "the session ends. Written by pit setup v1 00000000.",
            "author": {"name": NAME},
        },
        indent=2,
    )
    + "\n"
)


def _hook(event: str) -> list[dict[str, Any]]:
    """A command that says nothing and ends well when there is no `pit` or no queue."""
    command = f"pit hook {event} 2>/dev/null || true"
    return [{"hooks": [{"type": "command", "command": command, "timeout": 20}]}]


HOOKS = stamped(
    json.dumps(
        {
            "description": "Written by pit setup v1 00000000.",
            "hooks": {
                "SessionStart": _hook("session-start"),
                "PostToolUse": _hook("tool-used"),
                "Stop": _hook("stop"),
            },
        },
        indent=2,
    )
    + "\n"
)
SERVER = {"command": "pit", "args": ["mcp"]}
AGENTS_MD = BlockPart(path="AGENTS.md", text=WORDS)
PLACE = ".claude/skills/taskpit"

AGENTS: Mapping[str, tuple[Part, ...]] = {
    "claude": (
        BlockPart(path="CLAUDE.md", text=WORDS),
        EntryPart(paths=(".mcp.json",), group="mcpServers", entry=SERVER),
        FilePart(path=f"{PLACE}/SKILL.md", text=SKILL),
        FilePart(path=f"{PLACE}/.claude-plugin/plugin.json", text=PLUGIN),
        FilePart(path=f"{PLACE}/hooks/hooks.json", text=HOOKS),
    ),
    "codex": (AGENTS_MD, BlockPart(path=".codex/config.toml", text=CODEX, comment=HASH)),
    "gemini": (
        BlockPart(path="GEMINI.md", text=WORDS),
        EntryPart(paths=(".gemini/settings.json",), group="mcpServers", entry=SERVER),
    ),
    "opencode": (
        AGENTS_MD,
        EntryPart(
            paths=("opencode.jsonc", "opencode.json"),
            group="mcp",
            entry={"type": "local", "command": ["pit", "mcp"], "enabled": True},
        ),
    ),
    "cursor": (AGENTS_MD, EntryPart(paths=(".cursor/mcp.json",), group="mcpServers", entry=SERVER)),
    "agents-md": (AGENTS_MD,),
}


#: What a person must do themselves before an agent uses what was written.
ALLOW: Mapping[str, str] = {
    "claude": "it asks once before it uses the server; to allow it for good, add mcp__taskpit to its permissions",
    "codex": "it reads .codex/config.toml only in a folder that it trusts: start codex here once and say yes",
    "gemini": "it starts the server only in a folder that it trusts: start gemini here once and say yes",
}


def by_hand(part: Part) -> str:
    """What somebody would write who does it by hand."""
    if isinstance(part, EntryPart):
        return json.dumps({part.group: {NAME: dict(part.entry)}}, indent=2) + "\n"
    return part.text
