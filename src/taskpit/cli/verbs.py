"""Every verb in one line: what it is called, what it does, where it is. Imports none of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from taskpit.cli.context import Handler
from taskpit.model import Value


class Verb(Value, frozen=True, kw_only=True):
    """A row of the table."""

    name: str
    summary: str
    group: str
    module: str
    aliases: tuple[str, ...] = ()
    #: How it is used; only what people use daily has one, and stands in the short help.
    example: str = ""


#: Groups in the order `pit help all` shows them; those of a layout only where that layout is.
LAYOUT_GROUP = "work items"
GROUPS = ("begin", "look", "work", "steer", "run agents", "keep", "more", LAYOUT_GROUP)


def _group(group: str, *rows: tuple[str, str, str, tuple[str, ...], str]) -> tuple[Verb, ...]:
    return tuple(
        Verb(name=name, summary=summary, group=group, module=f"taskpit.cli.{module}", aliases=aliases, example=example)
        for name, module, summary, aliases, example in rows
    )


VERBS: tuple[Verb, ...] = (
    *_group(
        "begin",
        ("init", "add", "Make a folder a queue", (), "pit init"),
        ("add", "add", "Add a task", ("create", "new"), "pit add 'Fix login' --check 'make test'"),
        ("every", "every", "Add a task on a schedule", ("schedules",), ""),
        ("import", "import_files", "Import tasks: Markdown, JSON, or from another tracker", (), ""),
        ("export", "export", "Write the whole queue as JSON lines", (), ""),
        ("convert", "export", "Copy everything into a new queue of another layout", (), ""),
    ),
    *_group(
        "look",
        ("status", "status", "Show the queue on one screen", (), "pit status -f"),
        ("list", "show", "List tasks", ("ls",), "pit list --state needs-you"),
        ("show", "show", "Show a task and its result", ("view", "cat"), "pit show 7"),
        ("why", "show", "Explain why a task waits", (), "pit why 7"),
        ("board", "board", "Open the board", ("tui",), "pit board --web"),
        ("diff", "review", "Show what a task's agent changed", (), ""),
        ("report", "log", "Summarise the last day", (), "pit report"),
        ("search", "show", "Find tasks that contain these words", ("find", "grep"), ""),
        ("log", "log", "Show the changelog, or the output of a crew member", (), ""),
        ("stats", "log", "Show counts, throughput and duplicate runs", (), ""),
        ("trace", "log", "Show or send a task as an OpenTelemetry trace", (), ""),
    ),
    *_group(
        "work",
        ("claim", "claim", "Take a task", ("next", "pick", "take", "start"), "pit claim"),
        ("done", "finish", "Check and finish your task", ("complete", "close", "finish"), "pit done 7"),
        ("fail", "finish", "Report a failure; the queue retries or stops", (), ""),
        ("release", "finish", "Give a task back", (), ""),
        ("renew", "claim", "Renew the lease of your claim", ("heartbeat",), ""),
        ("split", "finish", "Split a task into smaller ones", (), ""),
        ("ask", "task_verbs", "Ask a person, and put your task back until then", (), ""),
    ),
    *_group(
        "steer",
        ("answer", "task_verbs", "Answer a task's question", (), "pit answer 7 'PostgreSQL'"),
        ("review", "review", "Approve a change or return it", (), "pit review 7"),
        ("edit", "edit", "Change a task", (), "pit edit 7 --priority 5"),
        ("retry", "task_verbs", "Run a task again", ("reopen",), "pit retry 7"),
        ("cancel", "task_verbs", "Cancel a task", ("rm", "remove", "delete"), "pit cancel 7 'not needed'"),
        ("undo", "task_verbs", "Undo your last action", (), "pit undo"),
        ("block", "task_verbs", "Hold a task", ("hold",), ""),
        ("unblock", "task_verbs", "Release a hold and reset the attempts", ("unhold",), ""),
        ("tell", "task_verbs", "Send a message to the agent that works on a task", (), ""),
        ("note", "task_verbs", "Add a note to a task", ("comment",), ""),
        ("pause", "task_verbs", "Stop handing out tasks", (), ""),
        ("resume", "task_verbs", "Hand out tasks again", (), ""),
    ),
    *_group(
        "run agents",
        ("work", "work", "Run agents on the tasks", ("run", "worker"), "pit work --agent claude --land merge"),
        ("crew", "crew", "Start and stop the crew of agents.toml", (), ""),
        ("lock", "lock", "Take a lock, or run a command under one", (), ""),
        ("prime", "agent_verbs", "Print what an agent needs to know here", (), ""),
        ("setup", "agent_verbs", "Configure an agent to use this queue", (), ""),
        ("lessons", "agent_verbs", "Show and correct what agents learned from red checks", (), ""),
        ("notify", "agent_verbs", "Notify a person: desktop, ntfy, Slack, Discord, webhook", (), ""),
        ("hook", "agent_verbs", "Handle events of an agent's session", (), ""),
        ("mcp", "serve", "Serve the queue to agents over MCP", (), ""),
        ("serve", "serve", "Serve the queue to workers on other machines", ("gateway",), ""),
        ("pipe", "pipe", "Send and receive messages between agents", (), ""),
    ),
    *_group(
        "keep",
        ("sweep", "upkeep", "Give back abandoned tasks and complete interrupted steps", ("reclaim", "gc"), ""),
        ("doctor", "upkeep", "Find problems, and repair them with --fix", (), ""),
        ("archive", "upkeep", "Move old results to a folder per month", (), ""),
        ("trust", "trust", "Show what this queue can run, and allow it", (), ""),
        ("roles", "trust", "Print SQL for owner, worker and reader roles", (), ""),
    ),
    *_group(
        "more",
        ("demo", "demo", "Watch a queue at work", (), ""),
        ("bench", "bench", "Measure this machine", (), ""),
        ("completion", "completion", "Print a completion script for bash, zsh or fish", (), ""),
    ),
    *_group(
        "work items",
        ("task", "activity", "Work on one task inside your activity", (), ""),
        ("pivot", "activity", "Replan a work item", (), ""),
    ),
)

#: Spellings of earlier versions, and of people who know other tools; each means exactly this.
MEANT: dict[str, tuple[str, ...]] = {
    "ready": ("list", "--ready"),
    "watch": ("status", "-f"),
    "queues": ("status", "--all"),
    "logs": ("log",),
    "locks": ("lock",),
    "unlock": ("lock", "--release"),
    "up": ("crew", "up"),
    "down": ("crew", "down"),
    "restart": ("crew", "restart"),
    "token": ("serve", "token"),
    "tokens": ("serve", "token"),
    "web": ("board", "--web"),
}


def meant(words: Sequence[str]) -> list[str]:
    """The command line with an older spelling replaced by the one of today."""
    return [*MEANT.get(words[0], words[:1]), *words[1:]] if words else []


def find(word: str) -> Verb | None:
    """The verb of this name or alias."""
    for verb in VERBS:
        if word == verb.name or word in verb.aliases:
            return verb
    return None


def handler(verb: Verb) -> Handler:
    """The verb as its module declares it, which is loaded: `done` is called `_done` there."""
    __import__(verb.module)  # importlib would bring warnings, and both their time
    found: Handler = getattr(sys.modules[verb.module], f"_{verb.name}")
    return found


#: What other tools call what we have a verb for, though they don't mean quite the same.
ELSEWHERE = {
    **dict.fromkeys(("push", "enqueue", "submit", "todo", "task-add"), "add"),
    **dict.fromkeys(("pop", "get", "begin", "dequeue"), "claim"),
    **dict.fromkeys(("drop", "kill", "abort", "del"), "cancel"),
    **dict.fromkeys(("stop", "halt"), "crew down"),
    **dict.fromkeys(("ps", "top", "st", "overview"), "status"),
    **dict.fromkeys(("info", "describe", "get-task"), "show"),
    **dict.fromkeys(("update", "set", "modify", "prioritize", "tag"), "edit"),
    **dict.fromkeys(("template", "templates"), "add --from"),
    **dict.fromkeys(("cron", "schedule", "schedules", "repeat"), "every"),
    **dict.fromkeys(("diff-review", "approve", "pr"), "review"),
    **dict.fromkeys(("revert", "restore"), "undo"),
    **dict.fromkeys(("agent", "agents", "claude", "codex"), "work --agent"),
    **dict.fromkeys(("history", "changelog", "events"), "log"),
    **dict.fromkeys(("ui", "dashboard", "kanban"), "board --web"),
}


def suggest(word: str) -> str:
    """What was probably meant: what other tools call it, else the nearest verb, or nothing."""
    from difflib import get_close_matches

    if word.lower() in ELSEWHERE:
        return ELSEWHERE[word.lower()]
    words = [known for verb in VERBS for known in (verb.name, *verb.aliases)]
    near = get_close_matches(word.lower(), [*words, *MEANT], n=1, cutoff=0.65)
    return " ".join(meant(near)) if near else ""
