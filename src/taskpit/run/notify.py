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
from typing import Any
from urllib.parse import urlsplit

from taskpit import fs, trust
from taskpit.config import EVENTS
from taskpit.decode import read_json
from taskpit.errors import Invalid, Unavailable, Untrusted
from taskpit.model import Value
from taskpit.run.user_queues import project_name
from taskpit.schedule import quiet_until
from taskpit.text import one_line
from taskpit.toml_checker import Checker, checked, flag, many, one_of, parse, quiet_hours, table, text

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
    "review": "waits for your review",
    "budget": "reached its budget",
    "stopped": "stopped",
}
#: The same reason is told again after so long, in seconds; sending may take this long; so much of a text is sent.
AGAIN, PATIENCE, LONGEST = 86_400.0, 10.0, 1500
LARGEST = 1024 * 1024
#: So many are kept, and so many bytes of them; and so much of each of their texts.
MOST, MOST_BYTES, LONGEST_KEPT = 500, LARGEST // 2, 8192
#: How it begins why somebody who is there was not told.
ANSWERED = "it answered"
#: What is kept instead of an event: how many there were before those that are kept.
LEFT_OUT = "left_out"


class Channels(Value, frozen=True, kw_only=True):
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


class Notice(Value, frozen=True, kw_only=True):
    """What is told."""

    title: str
    text: str = ""
    #: For programs.
    event: Mapping[str, Any] = {}

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Notice:
        """What a hook was told, in words."""
        if event.get("event") == LEFT_OUT:
            return cls(title="taskpit: notices were left out", text=str(event.get("details", "")), event=event)
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
    mine = _lean(event) if event is not None and event.get("event") in channels.events else None
    with _lock("kept"):  # whatever becomes of us: others tell it, if we can't
        kept = _kept()
        _keep([*kept, mine] if mine is not None else kept)
    if quiet_until(channels.quiet, now):
        return []
    sent, trouble, done, away = list[str](), list[str](), [], dict[str, str]()
    with _lock("sending"):
        with _lock("kept"):
            kept = _kept()
        for one in kept:
            known = {name: fs.status(_mark(name, one)) for name in channels.names}
            fresh = [name for name, found in known.items() if found is None or now - found.st_mtime > AGAIN]
            message = Notice.of(event if event is not None and one == mine else one)
            failed = {name: why for name in fresh if (why := away.get(name) or _try(channels, name, message))}
            away |= {name: why for name, why in failed.items() if not why.startswith(ANSWERED)}  # not waited for again
            for name in (name for name in fresh if name not in failed):
                fs.replace(_mark(name, one), b"", sync=False)
                sent.append(name)
            trouble += [f"{name}: {why}" for name, why in failed.items()]
            done += [] if failed else [one]
        with _lock("kept"):
            _keep([one for one in _kept() if one not in done])
    if trouble:
        raise Unavailable("; ".join(dict.fromkeys(trouble)), hint="It is kept, and sent again with the next one.")
    return sent


def _mark(name: str, event: Mapping[str, Any]) -> str:
    """The file that stands for: this was told there."""
    reason = [name, *(str(event.get(key, "")) for key in ("queue", "event", "id", "details"))]
    return f"{trust.state_dir('notify')}/{trust.name_for(json.dumps(reason))}"


def _lock(name: str) -> fs.Flock:
    """Several hooks run at once: one at a time changes what is kept, and one at a time tells it."""
    return fs.Flock(f"{trust.state_dir('notify')}/{name}.lock")


def _lean(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event without what a task has brought, which may be long and is told to programs only."""

    def cut(fields: Mapping[str, Any]) -> dict[str, Any]:
        return {key: one[:LONGEST_KEPT] if isinstance(one, str) else one for key, one in fields.items()}

    made, result = cut(event), event.get("result")
    if isinstance(result, dict):
        made["result"] = cut({key: one for key, one in result.items() if key != "output"})
    return made


def _kept() -> list[dict[str, Any]]:
    """What could not be told yet. What cannot be read is set aside, and that is told."""
    path = f"{trust.state_dir('notify')}/kept.json"
    try:
        found = read_json(fs.read(path, LARGEST)[0])
        if isinstance(found, list):
            return [one for one in found if isinstance(one, dict)]
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        pass
    aside = f"{path}~{fs.fresh_name()}"
    fs.move(path, aside)
    return [{"event": LEFT_OUT, "details": f"What was kept could not be read: it is in {aside}."}]


def _count(event: Mapping[str, Any]) -> int:
    """How many it stands for that were left out."""
    count = event.get("count")
    return count if event.get("event") == LEFT_OUT and isinstance(count, int) else 0


def _keep(events: list[dict[str, Any]]) -> None:
    """These are kept, the newest of them if they are too many, and how many those before them were."""
    path, size, counted = f"{trust.state_dir('notify')}/kept.json", 0, [one for one in events if _count(one)]
    rest, first = [one for one in events if not _count(one)], 0
    for place in range(len(rest) - 1, -1, -1):
        size += len(json.dumps(rest[place])) + 2
        if size > MOST_BYTES or len(rest) - place > MOST:
            first = place + 1
            break
    missing = first + sum(map(_count, counted))
    if missing:
        told = f"{missing} older notice{'' if missing == 1 else 's'} than those that follow"
        rest = [{"event": LEFT_OUT, "count": missing, "details": told}, *rest[first:]]
    if rest or os.path.exists(path):
        fs.replace(path, json.dumps(rest).encode(), sync=False, mode=0o600)


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
        urgent = {"Priority": "high"} if message.event.get("event") in ("ask", "choked", "review", "budget") else {}
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
            return f"{ANSWERED} {error.code}"
