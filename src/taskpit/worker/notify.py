"""Telling a person that something has happened: on the desktop, by ntfy, in Slack or Discord, to any address.

Where to is this user's own business: `~/.config/taskpit/notify.toml`, or TASKPIT_NOTIFY_SLACK and the like. Nothing of
it comes from a queue, so no clone makes us connect anywhere. What a task says is text there, whatever it looks like.
Each reason is told once. What happens in quiet hours is kept, and told with the first thing after them.
"""

from __future__ import annotations

import html
import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from taskpit import fs, trust
from taskpit.config import EVENTS
from taskpit.errors import Invalid, Unavailable, Untrusted
from taskpit.records import Value
from taskpit.schedule import quiet_until
from taskpit.text import one_line, read_json
from taskpit.toml_checker import Checker, checked, flag, many, one_of, parse, quiet_hours, table, text
from taskpit.worker.user_queues import project_name

#: What takes an address.
KINDS = ("ntfy", "slack", "discord", "webhook")
KEYS: dict[str, Checker] = {
    **dict.fromkeys((*KINDS, "token"), text),
    "desktop": flag,
    "quiet": quiet_hours,
    "events": many(one_of(*EVENTS)),
}
#: What each event is in words.
WORDS = {
    "done": "is done",
    "failed": "has failed",
    "choked": "needs you",
    "ask": "asks",
    "budget": "reached its budget",
}
#: The same reason is told again after so long, in seconds; sending may take this long; so much of a text is sent.
AGAIN, PATIENCE, LONGEST = 86_400.0, 10.0, 1500
LARGEST = 1024 * 1024


class Channels(Value):
    """Whom to tell, and when not."""

    addresses: Mapping[str, str] = {}
    desktop: bool = False
    #: What ntfy and a webhook are shown: Authorization: Bearer.
    token: str = ""
    quiet: str = ""
    events: tuple[str, ...] = EVENTS

    @property
    def names(self) -> list[str]:
        """Those there are."""
        return [*(["desktop"] if self.desktop else []), *self.addresses]


class Notice(Value):
    """What is told."""

    title: str
    text: str = ""
    #: For programs.
    event: Mapping[str, Any] = {}

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Notice:
        """What a hook was told, in words."""
        where, kind = str(event.get("queue", "")), str(event.get("event", ""))
        what = " ".join(one_line(str(event.get(key, ""))) for key in ("id", "title")).strip() or "the queue"
        result = event.get("result")
        said = str(event.get("details") or (result.get("reason") if isinstance(result, dict) else "") or "")
        title = f"{one_line(project_name(where))}: {what} {WORDS.get(kind, kind)}"
        return cls(title=title[:LONGEST], text=said[:LONGEST], event=event)


# -- whom to tell ----------------------------------------------------------------------------------


def read_channels(env: Mapping[str, str]) -> tuple[Channels, str]:
    """Whom this user wants told, and the file that says so; Invalid names the place that is wrong."""
    path = trust.config_path("notify.toml", env)
    found: dict[str, Any] = {}
    said = ""
    if os.path.lexists(path):
        why = fs.foreign(path)
        if why:
            raise Untrusted(f"{path} {why}", hint="Put a file of your own there.", path=path)
        try:
            said = fs.read(os.path.realpath(path), LARGEST)[0].decode("utf-8")
        except (OSError, ValueError) as error:
            raise Invalid(f"{path} cannot be read: {error}") from None
        found = parse(said, path)
    for key in KEYS:
        value = env.get(f"TASKPIT_NOTIFY_{key.upper()}")
        if value:
            found[key] = (
                value.split(",") if key == "events" else value not in ("0", "no") if key == "desktop" else value
            )
    return _channels(checked(table(KEYS), found, said, path), path), path


def _channels(found: dict[str, Any], path: str) -> Channels:
    addresses = {kind: found[kind] for kind in KINDS if found.get(kind)}
    for kind, address in addresses.items():
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Invalid(f"{path}: {kind} must be an address that begins with https:// or http://")
    return Channels(
        addresses=addresses,
        desktop=found.get("desktop", False),
        token=found.get("token", ""),
        quiet=found.get("quiet", ""),
        events=tuple(found.get("events", EVENTS)),
    )


# -- telling ---------------------------------------------------------------------------------------


def tell(channels: Channels, event: Mapping[str, Any] | None, now: float) -> list[str]:
    """This event is told, after what was kept; None: only what was kept. The names of those that were told.

    Unavailable says who could not be told; the others were, and nobody is told the same twice.
    """
    kept = _kept()
    if event is not None and event.get("event") in channels.events:
        kept.append(dict(event))
    if quiet_until(channels.quiet, now):
        _keep(kept)
        return []
    sent, trouble, left = [], [], []
    for one in kept:
        known = {name: fs.status(_mark(name, one)) for name in channels.names}
        fresh = [name for name, found in known.items() if found is None or now - found.st_mtime > AGAIN]
        failed = {name: why for name in fresh if (why := _try(channels, name, Notice.of(one)))}
        for name in (name for name in fresh if name not in failed):
            fs.replace(_mark(name, one), b"", sync=False)
            sent.append(name)
        trouble += [f"{name}: {why}" for name, why in failed.items()]
        left += [one] if failed else []
    _keep(left[-100:])
    if trouble:
        raise Unavailable("; ".join(dict.fromkeys(trouble)), hint="It is kept, and sent again with the next one.")
    return sent


def _mark(name: str, event: Mapping[str, Any]) -> str:
    """The file that stands for: this was told there."""
    reason = [name, *(str(event.get(key, "")) for key in ("queue", "event", "id", "details"))]
    return f"{trust.state_dir('notify')}/{trust.name_for(json.dumps(reason))}"


def _kept() -> list[dict[str, Any]]:
    """What could not be told yet."""
    with suppress(OSError, ValueError):
        found = read_json(fs.read(f"{trust.state_dir('notify')}/kept.json", LARGEST)[0])
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return []


def _keep(events: list[dict[str, Any]]) -> None:
    path = f"{trust.state_dir('notify')}/kept.json"
    if events or os.path.exists(path):
        fs.replace(path, json.dumps(events).encode(), sync=False, mode=0o600)


def _try(channels: Channels, name: str, message: Notice) -> str:
    """It is told; why not, without the address, which may be a secret."""
    try:
        if name == "desktop":
            return _pop_up(message)
        return _send(channels.addresses[name], *_shape(channels, name, message))
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", None) or error.__class__.__name__)


def _pop_up(message: Notice) -> str:
    argv = ["notify-send", "--app-name=taskpit", "--", message.title, html.escape(message.text)]
    try:
        ran = subprocess.run(argv, capture_output=True, timeout=PATIENCE, check=False)
    except FileNotFoundError:
        return "notify-send is not installed"
    except subprocess.TimeoutExpired:
        return "notify-send did not end"
    return "" if ran.returncode == 0 else f"notify-send ended with {ran.returncode}"


def _shape(channels: Channels, name: str, message: Notice) -> tuple[bytes, dict[str, str]]:
    """What is sent there, and its headers."""
    headers = {"User-Agent": "taskpit", "Content-Type": "application/json"}
    if channels.token and name in ("ntfy", "webhook"):
        headers["Authorization"] = f"Bearer {channels.token}"
    both = "\n".join(filter(None, (message.title, message.text)))
    if name == "ntfy":
        urgent = {"Priority": "high"} if message.event.get("event") in ("ask", "choked", "budget") else {}
        return both.encode(), {**headers, "Content-Type": "text/plain; charset=utf-8", **urgent}
    if name == "slack":  # an escaped < mentions nobody and links nowhere
        return json.dumps({"text": html.escape(both, quote=False)}).encode(), headers
    if name == "discord":
        return json.dumps({"content": both[:1900], "allowed_mentions": {"parse": []}}).encode(), headers
    return json.dumps({**message.event, "text": both}).encode(), headers


def _send(address: str, data: bytes, headers: dict[str, str]) -> str:
    """It is there; why not, in words. Whoever answers leads us nowhere else."""
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Stay(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    asked = Request(address, data, headers)  # noqa: S310 - an address of the user's own, http or https
    try:
        with build_opener(Stay).open(asked, timeout=PATIENCE):
            return ""
    except HTTPError as error:
        with error:
            return f"it answered {error.code}"
