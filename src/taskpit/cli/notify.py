"""`pit notify`: what a hook calls to tell a person. Where to is in the user's own file; see worker/notify."""

from __future__ import annotations

import sys

from taskpit.cli.context import Reply
from taskpit.cli.options import example
from taskpit.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from taskpit.cli.context import Context
    from taskpit.cli.verbs import Handlers

__all__ = ["VERBS"]

LONGEST = 16 * 1024 * 1024


def _arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Tell a person what a hook was told (JSON on standard input): on the desktop, by ntfy, in Slack or Discord,\n"
        "to any address. Whom to tell is in ~/.config/taskpit/notify.toml, or in TASKPIT_NOTIFY_SLACK and the like;\n"
        "never in a queue. Each reason is told once; what comes in quiet hours is told after them.\n"
        "With nothing on standard input: what was kept is told, if it is time."
    )
    parser.epilog = example("pit notify --test", "pit notify < /dev/null")
    parser.add_argument(
        "--test", action="store_true", help="send a trial by every way that is set up, whatever the hour"
    )


def _notify(args: Namespace, context: Context) -> Reply:
    import time

    from taskpit.config import EVENTS
    from taskpit.worker.notify import read_channels, tell

    channels, path = read_channels(context.env)
    if not channels.names:
        raise Invalid("no notification is set up", hint=f"Write for example `desktop = true` into {path}.")
    now = time.time()
    if args.test:
        channels = channels.replace(quiet="", events=EVENTS)
        event: dict[str, Any] | None = {"event": "done", "title": "a test of pit notify", "details": f"sent at {now}"}
    else:
        event = _event()
    told = tell(channels, event, now)
    return Reply(data={"told": told}, text=f"told: {', '.join(told)}" if told else "")


def _event() -> dict[str, Any] | None:
    from taskpit.text import read_json

    text = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read(LONGEST)
    if not text.strip():
        return None
    try:
        found = read_json(text.encode())
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("event"), str):
        raise Invalid("standard input is no event", hint='A hook is given one: done = "pit notify" below [hooks].')
    return found


VERBS: Handlers = {"notify": (_arguments, _notify)}
