"""`pit hook`: what an agent's session calls as it goes on. Cheap, and never the reason why a session breaks.

    session-start   tells the session its name in the queue, what it holds, what is next
    tool-used       keeps its claims; says so if somebody asks it to stop
    stop            refuses once, while it holds a claim

The session is told apart by its id, so that two of one person are two workers. Where a pool runs the agent,
the pool keeps the claim and ends it: then nothing is done here. Whatever goes wrong, nothing is said.
"""

from __future__ import annotations

import json
import sys

from taskpit.cli.context import Reply
from taskpit.cli.options import example
from taskpit.task import Said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from taskpit.cli.context import Context
    from taskpit.cli.verbs import Handlers
    from taskpit.task import Card

__all__ = ["VERBS"]

EVENTS = ("session-start", "tool-used", "stop")
#: What a session says of itself is shorter.
LONGEST = 1024 * 1024
#: A claim is kept once this part of its lease is over.
RENEW_AFTER = 1 / 3


def _hook_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "For the hooks of an agent's session, which `pit setup` writes for claude and codex: reads what the session\n"
        "says of itself as JSON on standard input. Says nothing and exits 0 where there is no queue."
    )
    parser.epilog = example("""echo '{"session_id": "0123456789"}' | pit hook session-start""")
    parser.add_argument("--agent", default="claude", metavar="NAME", help="whose session it is (default claude)")
    parser.add_argument("event", metavar="EVENT", choices=EVENTS, help="session-start, tool-used or stop")


def _hook(args: Namespace, context: Context) -> Reply:
    if context.env.get("TASKPIT_RUN_DIR"):
        return Reply()
    try:
        session = _session()
        worker = context.env.get("TASKPIT_AS") or _name(session, args.agent)
        if not worker:
            return Reply()
        if session.get("cwd") and context.directory is None and not context.env.get("TASKPIT_DIR"):
            context.directory = str(session["cwd"])
        if args.event == "session-start":
            text = _start(context, worker)
        elif args.event == "tool-used":
            text = _keep(context, worker)
        else:
            text = "" if session.get("stop_hook_active") else _refuse(context, worker)
    except Exception:  # a queue that is gone or broken is no reason to break a session
        return Reply()
    return Reply(data=text, text=text)


def _session() -> dict[str, Any]:
    if sys.stdin is None or sys.stdin.isatty():
        return {}
    said = json.loads(sys.stdin.read(LONGEST) or "{}")
    return said if isinstance(said, dict) else {}


def _name(session: dict[str, Any], agent: str) -> str:
    letters = "".join(letter for letter in str(session.get("session_id", "")) if letter.isascii() and letter.isalnum())
    return f"{agent}-{letters[:8].lower()}" if letters else ""


def _start(context: Context, worker: str) -> str:
    from taskpit.cli.prime import prime_text

    text = prime_text(context.queue, worker)
    remembered = context.env.get("CLAUDE_ENV_FILE")
    if remembered and not context.env.get("TASKPIT_AS"):  # commands of this session then have its name, too
        with open(remembered, "a", encoding="utf-8") as file:
            file.write(f"export TASKPIT_AS={worker}\n")
    return text


def _held(context: Context, worker: str) -> list[Card]:
    from taskpit.cli.prime import held_by

    return held_by(context.queue, worker)


def _keep(context: Context, worker: str) -> str:
    """Renew what is a good while old; what somebody wants stopped is told."""
    queue, stopped = context.queue, []
    now = queue.clock.now()
    for card in _held(context, worker):
        claim = queue.holding(card.task.id, worker)
        if card.until - now > claim.lease * (1 - RENEW_AFTER):
            continue
        if queue.renew(claim) is Said.CANCEL:
            stopped.append(card.task.id)
    if not stopped:
        return ""
    told = f"You are asked to stop working on {', '.join(stopped)}: give it back with `pit cancel {stopped[0]}`."
    return json.dumps({"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": told}})


def _refuse(context: Context, worker: str) -> str:
    held = _held(context, worker)
    if not held:
        return ""
    names = ", ".join(f"{card.task.id} ({card.task.title or card.task.slug})" for card in held[:3])
    more = f" and {len(held) - 3} more" if len(held) > 3 else ""
    first = held[0].task.id
    reason = (
        f"You still hold {names}{more} as {worker}. Finish with `pit done {first} --as {worker}`, or give it back "
        f"with pit release, pit fail, pit split or pit ask. `pit prime --as {worker}` says how."
    )
    return json.dumps({"decision": "block", "reason": reason})


VERBS: Handlers = {"hook": (_hook_arguments, _hook)}
