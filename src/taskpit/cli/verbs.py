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
GROUPS = ("begin", "look", "work", "steer", "run agents", "keep", "more", "work items")


def _group(group: str, *rows: tuple[str, str, str, tuple[str, ...], str]) -> tuple[Verb, ...]:
    return tuple(
        Verb(name=name, summary=summary, group=group, module=f"taskpit.cli.{module}", aliases=aliases, example=example)
        for name, module, summary, aliases, example in rows
    )


VERBS: tuple[Verb, ...] = (
    *_group(
        "begin",
        ("init", "add", "make a folder a queue", (), "pit init"),
        ("add", "add", "put a task in", ("create", "new"), "pit add 'Fix the login' --check 'make test'"),
        ("every", "every", "put a task in again and again, on a schedule", ("schedules",), ""),
        ("import", "import_files", "bring in tasks: Markdown, JSON, or what another tracker keeps", (), ""),
        ("export", "export", "write the whole queue as JSON lines", (), ""),
        ("convert", "export", "make a queue of another layout with all that is here", (), ""),
    ),
    *_group(
        "look",
        ("status", "status", "what needs you, runs, waits, is done", (), "pit status -f"),
        ("list", "show", "tasks and where they stand", ("ls",), "pit list --state needs-you"),
        ("show", "show", "one task: text, result, attempts", ("view", "cat"), "pit show 7"),
        ("why", "show", "why a task is where it is", (), "pit why 7"),
        ("board", "board", "the board: terminal, or --web", ("tui",), "pit board --web"),
        ("diff", "review", "what a task's agent changed", (), ""),
        ("report", "log", "what happened since yesterday", (), "pit report"),
        ("search", "show", "tasks that mention these words", ("find", "grep"), ""),
        ("log", "log", "what happened, or what a member of the crew printed", (), ""),
        ("stats", "log", "counts, throughput, what ran twice", (), ""),
        ("trace", "log", "what happened to a task as one trace, for OpenTelemetry", (), ""),
    ),
    *_group(
        "work",
        ("claim", "claim", "take the next task, or this one", ("next", "pick", "take", "start"), "pit claim"),
        ("done", "finish", "run the check, publish the result", ("complete", "close", "finish"), "pit done 7"),
        ("fail", "finish", "report a failure; the queue retries or stops", (), ""),
        ("release", "finish", "give your claim back", (), ""),
        ("renew", "claim", "keep a claim for another lease", ("heartbeat",), ""),
        ("split", "finish", "replace a task by several smaller ones", (), ""),
        ("ask", "task_verbs", "put your task back until a person has answered", (), ""),
    ),
    *_group(
        "steer",
        ("answer", "task_verbs", "answer what a task asks", (), "pit answer 7 'PostgreSQL'"),
        ("review", "review", "approve, send back, take over", (), "pit review 7"),
        ("edit", "edit", "change a task that no worker has", (), "pit edit 7 --priority 5"),
        ("retry", "task_verbs", "run a failed task again from scratch", ("reopen",), "pit retry 7"),
        ("cancel", "task_verbs", "a task will not be done", ("rm", "remove", "delete"), "pit cancel 7 'not needed'"),
        ("undo", "task_verbs", "take back the last thing you did", (), "pit undo"),
        ("block", "task_verbs", "keep a task from being taken", ("hold",), ""),
        ("unblock", "task_verbs", "release the hold and reset attempts", ("unhold",), ""),
        ("tell", "task_verbs", "say something to the agent that works on a task", (), ""),
        ("note", "task_verbs", "leave a note beside a task", ("comment",), ""),
        ("pause", "task_verbs", "give out no task for a while", (), ""),
        ("resume", "task_verbs", "give out tasks again", (), ""),
    ),
    *_group(
        "run agents",
        ("work", "work", "run agents or commands on tasks", ("run", "worker"), "pit work --agent claude"),
        ("crew", "crew", "the crew of agents.toml: up, down, restart", (), ""),
        ("lock", "lock", "take an exclusive lock, or run a command under it", (), ""),
        ("prime", "agent_verbs", "what an agent must know: what you hold, what is next, how", (), ""),
        ("setup", "agent_verbs", "tell an agent about the queue, in its own files", (), ""),
        ("lessons", "agent_verbs", "what turned red checks green, as agents read it", (), ""),
        ("notify", "agent_verbs", "tell a person, as a hook: desktop, ntfy, Slack, Discord, webhook", (), ""),
        ("hook", "agent_verbs", "what an agent's session calls as it goes on", (), ""),
        ("mcp", "serve", "serve the queue to agents over MCP", (), ""),
        ("serve", "serve", "serve the queue to workers on other machines", ("gateway",), ""),
        ("pipe", "pipe", "send and receive messages between agents", (), ""),
    ),
    *_group(
        "keep",
        ("sweep", "upkeep", "give back abandoned tasks, finish what was left undone", ("reclaim", "gc"), ""),
        ("doctor", "upkeep", "look for what is out of order, change nothing", (), ""),
        ("archive", "upkeep", "put old results into a folder of their month", (), ""),
        ("trust", "trust", "show what this queue can run or connect to, and let it", (), ""),
        ("roles", "trust", "print the SQL of owner, worker and reader roles for PostgreSQL", (), ""),
    ),
    *_group(
        "more",
        ("demo", "demo", "watch a queue at work", (), ""),
        ("bench", "bench", "measure this machine: our verbs beside bare system calls", (), ""),
        ("completion", "completion", "print a completion script for bash, zsh or fish", (), ""),
    ),
    *_group(
        "work items",
        ("task", "activity", "one task inside your activity: start, done, wait", (), ""),
        ("pivot", "activity", "replan a work item: start, finish", (), ""),
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
