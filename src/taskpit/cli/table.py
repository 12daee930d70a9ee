"""Every verb in one line: what it is called, what it does, where it is. Imports none of them."""

from __future__ import annotations

from taskpit.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from taskpit.cli.context import Context, Reply

    #: What a verb's module says of each of its verbs: how to add its arguments, and how to run it.
    Handlers = dict[str, tuple[Callable[[ArgumentParser], None], Callable[[Namespace, Context], Reply]]]

__all__ = ["GROUPS", "VERBS", "Verb", "find", "handlers", "suggest"]


class Verb(Value):
    """A row of the table."""

    name: str
    summary: str
    group: str
    module: str
    aliases: tuple[str, ...] = ()


#: Groups in the order `pit --help` shows them.
GROUPS = ("make", "look", "work on a task", "steer", "lock", "run agents", "keep", "more")


def _group(group: str, *rows: tuple[str, str, str, tuple[str, ...]]) -> tuple[Verb, ...]:
    return tuple(
        Verb(name=name, summary=summary, group=group, module=f"taskpit.cli.{module}", aliases=aliases)
        for name, module, summary, aliases in rows
    )


VERBS: tuple[Verb, ...] = (
    *_group(
        "make",
        ("init", "make", "make a folder a queue", ()),
        ("add", "make", "put a task into the queue", ("create",)),
        ("every", "every", "put a task in again and again: schedules, and when they are due", ("schedules",)),
        ("edit", "edit", "change a task that nobody works on", ()),
        ("export", "move", "write the whole queue as JSON lines", ()),
        ("convert", "move", "make a queue of another layout with all that is here", ()),
        ("import", "bring", "bring in tasks: Markdown, JSON, or what another tracker keeps", ()),
    ),
    *_group(
        "look",
        ("list", "look", "tasks and where they are", ("ls",)),
        ("show", "look", "one task with its result, tries and notes", ()),
        ("ready", "look", "what may be taken now, best first", ()),
        ("why", "look", "why a task is where it is", ()),
        ("diff", "review", "what a task's agent changed", ()),
        ("search", "find", "tasks that mention these words", ("find", "grep")),
        ("stats", "past", "counts, throughput, what ran twice", ()),
        ("log", "past", "what happened, line by line", ()),
    ),
    *_group(
        "work on a task",
        ("claim", "hold", "take the next task, or this one", ("next", "pick")),
        ("renew", "hold", "keep a claim for another lease", ("heartbeat",)),
        ("done", "finish", "finish: run the check, publish the result", ("complete", "close", "finish")),
        ("fail", "finish", "it did not work; policy decides what is next", ()),
        ("release", "finish", "give it back as it was", ()),
        ("split", "finish", "replace it by several smaller tasks", ()),
        ("ask", "people", "put it back until a person has answered", ()),
        ("task", "activity", "one task inside your activity: start, done, wait", ()),
    ),
    *_group(
        "steer",
        ("tell", "steer", "say something to the agent that works on a task", ()),
        ("note", "steer", "leave a note beside a task", ()),
        ("tell", "steer", "say something to the agent that works on a task", ()),
        ("block", "steer", "keep a task from being taken", ()),
        ("unblock", "steer", "let it go on, its failures forgiven", ()),
        ("retry", "steer", "start a failed task anew", ()),
        ("cancel", "steer", "it will not be done", ()),
        ("answer", "people", "answer a task that asks", ()),
        ("review", "review", "what waits for a look before it lands: approve, send back, take over", ()),
        ("pivot", "activity", "replan a work item: start, finish", ()),
        ("pause", "people", "give out no task for a while", ()),
        ("resume", "people", "give out tasks again", ()),
    ),
    *_group(
        "lock",
        ("lock", "lock", "have a name alone, or run a command under it", ()),
        ("unlock", "lock", "let go of a name", ()),
        ("locks", "lock", "which names are held, by whom, until when", ()),
    ),
    *_group(
        "run agents",
        ("work", "run", "run a pool of workers on a command", ()),
        ("up", "crew", "start the crew of agents.toml, and keep it up", ()),
        ("down", "crew", "end it, once running tasks are finished", ()),
        ("restart", "crew", "start some of it anew", ()),
        ("status", "status", "one screen: counts, crew, what is stuck and why", ()),
        ("watch", "watch", "the same, live; in a pipe one line per change", ()),
        ("logs", "crew", "what one of the crew has printed", ()),
    ),
    *_group(
        "keep",
        ("sweep", "keep", "give back what was abandoned, finish what was left undone", ("reclaim", "gc")),
        ("doctor", "keep", "look for what is out of order, change nothing", ()),
        ("archive", "keep", "put old results into a folder of their month", ()),
        ("trust", "trust", "show what this queue can run or connect to, and let it", ()),
    ),
    *_group(
        "more",
        ("board", "board", "the board in the terminal: look and steer", ("tui",)),
        ("web", "web", "a board in the browser", ()),
        ("demo", "demo", "watch a pit at work", ()),
        ("bench", "bench", "measure this machine: our verbs beside bare system calls", ()),
        ("mcp", "mcp", "serve the queue to agents over MCP", ()),
        ("prime", "prime", "what an agent must know: what you hold, what is next, how", ()),
        ("setup", "setup", "tell an agent of the queue, in its own files", ()),
        ("hook", "hook", "what an agent's session calls as it goes on", ()),
        ("pipe", "pipe", "send and receive messages between agents", ()),
        ("completion", "completion", "print a completion script for bash, zsh or fish", ()),
    ),
)


def find(word: str) -> Verb | None:
    """The verb of this name or alias."""
    for verb in VERBS:
        if word == verb.name or word in verb.aliases:
            return verb
    return None


def handlers(verb: Verb) -> tuple[Callable[[ArgumentParser], None], Callable[[Namespace, Context], Reply]]:
    """How to add the verb's arguments, and how to run it; loads its module."""
    from importlib import import_module

    table: Handlers = import_module(verb.module).VERBS
    return table[verb.name]


#: What other tools call what we have a verb for, though they don't mean quite the same.
ELSEWHERE = {
    **dict.fromkeys(("rm", "remove", "delete"), "cancel"),
    **dict.fromkeys(("new", "push", "enqueue", "submit"), "add"),
    **dict.fromkeys(("take", "pop", "get"), "claim"),
    **dict.fromkeys(("run", "worker"), "work"),
    **dict.fromkeys(("stop", "kill"), "down"),
    **dict.fromkeys(("ps", "top"), "status"),
    **dict.fromkeys(("cat", "view", "info"), "show"),
}


def suggest(word: str) -> str:
    """The verb that was probably meant, or nothing."""
    from difflib import get_close_matches

    words = [known for verb in VERBS for known in (verb.name, *verb.aliases)]
    near = get_close_matches(word.lower(), words, n=1, cutoff=0.65)
    return near[0] if near else ELSEWHERE.get(word.lower(), "")
