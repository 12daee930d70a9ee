"""What each agent is given: which files, which words, which entry. Pure data; says nothing that `pit prime` says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from taskpit.model import Value
from taskpit.setup.text_edits import HASH, MARKDOWN, CommentStyle, stamped

NAME = "taskpit"


class BlockPart(Value, frozen=True, kw_only=True):
    """A marked block in a text file."""

    path: str
    text: str
    comment: CommentStyle = MARKDOWN
    #: A file that some read only where this one is not: where it is there, the block names it, so that it is read too.
    beside: str = ""


class EntryPart(Value, frozen=True, kw_only=True):
    """An entry in a JSON file; `paths` are tried in order, the last is made if none is there."""

    paths: tuple[str, ...]
    group: str
    entry: Mapping[str, Any]
    #: What else stands in a file that is made for it, because the agent would put it there.
    head: Mapping[str, str] = {}


class FilePart(Value, frozen=True, kw_only=True):
    """A file that is ours as a whole."""

    path: str
    text: str
    #: A text file whose block says for whom else it is there; empty: for nobody else.
    shared: str = ""
    #: What a file that another hand wrote must say to do the same; where nothing is named, it is not asked.
    says: tuple[str, ...] = ()


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


def _hook(event: str, agent: str) -> list[dict[str, Any]]:
    """A command that says nothing and ends well when there is no `pit` or no queue."""
    whose = "" if agent == "claude" else f" --agent {agent}"
    command = f"pit hook {event}{whose} 2>/dev/null || true"
    return [{"hooks": [{"type": "command", "command": command, "timeout": 20}]}]


EVENTS = {"SessionStart": "session-start", "PostToolUse": "tool-used", "Stop": "stop"}


def _hooks(agent: str) -> str:
    """Claude Code and Codex spell them alike."""
    facts = {
        "description": "Written by pit setup v1 00000000.",
        "hooks": {name: _hook(event, agent) for name, event in EVENTS.items()},
    }
    return stamped(json.dumps(facts, indent=2) + "\n")


SERVER = {"command": "pit", "args": ["mcp"]}
AGENTS_MD = BlockPart(path="AGENTS.md", text=WORDS)
#: Where the skill lies for all who read it there; Claude Code has a place of its own.
SKILLS = FilePart(path=".agents/skills/taskpit/SKILL.md", text=SKILL, shared=AGENTS_MD.path)
PLACE = ".claude/skills/taskpit"

AGENTS: Mapping[str, tuple[Part, ...]] = {
    "claude": (
        BlockPart(path="CLAUDE.md", text=WORDS, beside=AGENTS_MD.path),
        EntryPart(paths=(".mcp.json",), group="mcpServers", entry=SERVER),
        FilePart(path=f"{PLACE}/SKILL.md", text=SKILL),
        FilePart(path=f"{PLACE}/.claude-plugin/plugin.json", text=PLUGIN),
        FilePart(path=f"{PLACE}/hooks/hooks.json", text=_hooks("claude")),
    ),
    "codex": (
        AGENTS_MD,
        SKILLS,
        BlockPart(path=".codex/config.toml", text=CODEX, comment=HASH),
        FilePart(
            path=".codex/hooks.json",
            text=_hooks("codex"),
            says=tuple(f"pit hook {event}" for event in EVENTS.values()),
        ),
    ),
    "gemini": (
        BlockPart(path="GEMINI.md", text=WORDS, beside=AGENTS_MD.path),
        EntryPart(paths=(".gemini/settings.json",), group="mcpServers", entry=SERVER),
    ),
    "qwen": (
        BlockPart(path="QWEN.md", text=WORDS, beside=AGENTS_MD.path),
        EntryPart(paths=(".qwen/settings.json",), group="mcpServers", entry=SERVER),
    ),
    "copilot": (
        AGENTS_MD,
        SKILLS,
        EntryPart(paths=(".github/mcp.json",), group="mcpServers", entry={"type": "local", **SERVER, "tools": ["*"]}),
    ),
    "opencode": (
        AGENTS_MD,
        SKILLS,
        EntryPart(
            paths=("opencode.jsonc", "opencode.json"),
            group="mcp",
            entry={"type": "local", "command": ["pit", "mcp"], "enabled": True},
            head={"$schema": "https://opencode.ai/config.json"},
        ),
    ),
    "cursor": (AGENTS_MD, SKILLS, EntryPart(paths=(".cursor/mcp.json",), group="mcpServers", entry=SERVER)),
    "antigravity": (AGENTS_MD, SKILLS),
    "agents-md": (AGENTS_MD, SKILLS),
}


#: What a person must do themselves before an agent uses what was written.
ALLOW: Mapping[str, str] = {
    "claude": "it asks once before it uses the server; to allow it for good, add mcp__taskpit to its permissions",
    "codex": "it reads .codex only in a folder that it trusts: start codex here once and say yes; "
    "its hooks run once `/hooks` allows them",
    "gemini": "it starts the server only in a folder that it trusts: start gemini here once and say yes",
    "copilot": "it starts the server only in a folder that it trusts: start copilot here once and say yes",
    "cursor": "it asks once before it uses the server: `cursor-agent mcp enable taskpit` allows it",
    "antigravity": "its servers are in its own settings: add taskpit there with the command `pit mcp`",
}
#: How each says which servers it has, and whether it reaches them.
LISTS: Mapping[str, tuple[str, ...]] = {
    **{name: (name, "mcp", "list") for name in ("claude", "codex", "gemini", "opencode", "qwen", "copilot")},
    "cursor": ("cursor-agent", "mcp", "list"),
}


def by_hand(part: Part) -> str:
    """What a person would write by hand."""
    if isinstance(part, EntryPart):
        return json.dumps({part.group: {NAME: dict(part.entry)}}, indent=2) + "\n"
    return part.text
