"""What goes over the wire between a store and its gateway: each verb's arguments and answer as JSON. Pure.

One table for both ends: what one writes the other reads. Whatever is read is checked here, field by field, before
anything acts on it; neither end believes the other.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from typing import NamedTuple

from taskpit import errors
from taskpit.config import Config, parse
from taskpit.decode import convert, read_json
from taskpit.errors import Invalid, TaskpitError
from taskpit.model import (
    Card,
    Claim,
    Count,
    End,
    Event,
    Lock,
    LongText,
    Page,
    Said,
    Seconds,
    State,
    Task,
    Text,
    Want,
    fields_of,
)
from taskpit.store.port import Artifact, Info, Lapse, Mend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


#: Items that go over the wire in one call, and bytes of one call. A single task may be larger than its share.
TOGETHER, LARGEST_BODY = 500, 32 * 1024 * 1024
#: Bytes of a log or a file that go in one call: written as JSON they are a third more.
LARGEST_BYTES = LARGEST_BODY * 5 // 8
#: Verbs that only look: asked twice, they look twice.
LOOKS = (
    *("hello", "paused", "read", "resolve", "page", "counts", "events", "latest", "locks", "check"),
    "unsettled",
    *("read_log", "artifacts", "read_artifact"),
)
#: Items of one list.
MOST = 100_000
#: How long a claim waits at the gateway, in seconds: proxies cut what is silent for a minute.
LONGEST_POLL = 25.0


class Kind(NamedTuple):
    """How one kind of value is written, and how it is read back."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def dump(value: object) -> bytes:
    """As JSON, in ASCII: whatever letters a text has come through."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"this cannot be written as JSON: {error}") from None


def load(data: bytes) -> dict[str, Any]:
    """The JSON object in these bytes; Invalid if there is none."""
    try:
        value = read_json(data)
    except (ValueError, RecursionError):
        raise Invalid("this is not JSON") from None
    if not isinstance(value, dict):
        raise Invalid("this is not a JSON object")
    return value


def is_call(text: object) -> bool:
    """Whether this can name a call: a letter, then letters and digits, few enough for the name of a file."""
    return isinstance(text, str) and 8 <= len(text) <= 20 and text.isascii() and text.isalnum() and text[0].isalpha()


# -- plain values ----------------------------------------------------------------------------------


def _plain(kind: Any, name: str = "value") -> Kind:
    return Kind(lambda value: value, lambda value: convert(value, kind, name))


TEXT, FLAG, SECONDS = _plain(Text), _plain(bool), _plain(Seconds)
COUNT, BODY = _plain(Count), _plain(LongText, "body")


def _read_word(words: type[Any]) -> Callable[[object], Any]:
    def read(value: object) -> Any:
        try:
            return words(value)
        except (ValueError, TypeError):
            raise Invalid(f"{str(value)[:40]!r} is no {words.__name__.lower()}") from None

    return read


SAID, STATE = Kind(str, _read_word(Said)), Kind(str, _read_word(State))


def _nothing(value: object) -> None:
    if value is not None:
        raise Invalid("there should be no value")


NOTHING = Kind(lambda _: None, _nothing)


def many(kind: Kind) -> Kind:
    """A list of these."""

    def read(value: object) -> list[Any]:
        if not isinstance(value, list):
            raise Invalid("a list should stand here")
        if len(value) > MOST:
            raise Invalid(f"the list has more than {MOST} entries")
        return [kind.read(one) for one in value]

    return Kind(lambda values: [kind.write(one) for one in values], read)


def maybe(kind: Kind) -> Kind:
    """One of these, or none."""
    return Kind(
        lambda value: None if value is None else kind.write(value),
        lambda value: None if value is None else kind.read(value),
    )


def _pair(first: Kind, second: Kind) -> Kind:
    def read(value: object) -> tuple[Any, Any]:
        if not isinstance(value, list) or len(value) != 2:
            raise Invalid("a list of two should stand here")
        return first.read(value[0]), second.read(value[1])

    return Kind(lambda value: [first.write(value[0]), second.write(value[1])], read)


# -- the nouns -------------------------------------------------------------------------------------


def _noun(noun: type[Any]) -> Kind:
    """A value of `model` as its fields."""
    return Kind(fields_of, lambda value: convert(value, noun))


def _write_bytes(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _read_bytes(text: object) -> bytes:
    try:
        return b64decode(str(BODY.read(text)), validate=True)
    except ValueError:
        raise Invalid("the bytes of a file are not written as base64") from None


BYTES = Kind(_write_bytes, _read_bytes)
TASK, CLAIM, WANT, END = _noun(Task), _noun(Claim), _noun(Want), _noun(End)
EVENT, LOCK, MEND, LAPSE = _noun(Event), _noun(Lock), _noun(Mend), _noun(Lapse)
CARD, PAGE = _noun(Card), _noun(Page)


def _light(claim: Claim) -> dict[str, Any]:
    """A claim that is only to be known again: the name of its task, not the text."""
    named = Task(id=claim.task.id, title="", slug=claim.task.slug, big=claim.task.big)
    written: dict[str, Any] = CLAIM.write(claim.replace(task=named))
    return written


def _read_counts(value: object) -> dict[State, int]:
    if not isinstance(value, dict):
        raise Invalid("counts should stand here")
    return {state: COUNT.read(value.get(str(state), 0)) for state in State}


COUNTS = Kind(lambda counts: {str(state): number for state, number in counts.items()}, _read_counts)
TEXTS, SAIDS, CLAIMS, ENDS, MENDS = many(TEXT), many(SAID), many(CLAIM), many(END), many(MEND)
PAIR = _pair(TEXT, TEXT)
LIGHT = Kind(_light, CLAIM.read)
HELD = many(LIGHT)
NEWS = _pair(many(EVENT), TEXT)
_DRY = {"dry_run": FLAG}

#: Every verb that is one call of the store: its arguments by name, and its answer.
VERBS: Mapping[str, tuple[Mapping[str, Kind], Kind]] = {
    "allot": ({"parents": TEXTS}, TEXTS),
    "vet": ({"tasks": many(TASK)}, NOTHING),
    "put": ({"tasks": many(TASK)}, SAIDS),
    "claim": ({"want": WANT}, CLAIMS),
    "renew": ({"held": HELD, "lease": SECONDS}, SAIDS),
    "finish": ({"ends": ENDS}, SAIDS),
    "reopen": ({"tasks": many(TASK)}, SAIDS),
    "stop": ({"ids": TEXTS}, NOTHING),
    "pause": ({"reason": TEXT, "seconds": SECONDS, "worker": TEXT}, NOTHING),
    "resume": ({"worker": TEXT}, FLAG),
    "paused": ({}, TEXT),
    "lapsed": (_DRY, many(LAPSE)),
    "mend": (_DRY, MENDS),
    "fix": (_DRY, MENDS),
    "check": ({}, MENDS),
    "compost": (_DRY, MENDS),
    "read": ({"ids": TEXTS}, many(maybe(CARD))),
    "resolve": ({"text": TEXT}, TEXTS),
    "page": ({"state": maybe(STATE), "after": TEXT, "limit": COUNT, "tied": FLAG}, PAGE),
    "counts": ({}, COUNTS),
    "events": ({"after": TEXT, "limit": COUNT}, NEWS),
    "latest": ({"limit": COUNT}, NEWS),
    "unsettled": ({"after": TEXT}, many(EVENT)),
    "record": ({"events": many(EVENT)}, NOTHING),
    "note": ({"task_id": TEXT, "text": BODY, "worker": TEXT}, NOTHING),
    "keep_log": ({"worker": TEXT, "data": BYTES}, TEXT),
    "add_log": ({"claim": LIGHT, "start": COUNT, "data": BYTES}, COUNT),
    "end_log": ({"claim": LIGHT}, TEXT),
    "read_log": ({"task_id": TEXT, "start": COUNT, "size": COUNT}, _pair(BYTES, COUNT)),
    "keep_artifact": ({"claim": LIGHT, "name": TEXT, "data": BYTES, "sha256": TEXT}, NOTHING),
    "artifacts": ({"task_id": TEXT}, many(_noun(Artifact))),
    "read_artifact": ({"task_id": TEXT, "name": TEXT}, BYTES),
    "lock": ({"name": TEXT, "worker": TEXT, "seconds": SECONDS, "kind": TEXT}, LOCK),
    "relock": ({"lock": LOCK, "seconds": SECONDS}, SAID),
    "unlock": ({"lock": LOCK}, SAID),
    "locks": ({}, many(LOCK)),
}


def read_fields(fields: Mapping[str, Kind], given: Mapping[str, Any]) -> dict[str, Any]:
    """These arguments and no others; Invalid names what is wrong."""
    missing = [name for name in fields if name not in given]
    if missing:
        raise Invalid(f"{missing[0]!r} is missing", field=missing[0])
    return {name: kind.read(given[name]) for name, kind in fields.items()}


# -- how a queue introduces itself -----------------------------------------------------------------


class Hello(NamedTuple):
    """What a gateway says of the queue behind it."""

    info: Info
    config: Config
    #: What time it is there, in Unix seconds.
    now: float
    #: This gateway from its start to its end: what it remembers of calls, no other does.
    gateway: str


def _write_hello(hello: Hello) -> dict[str, Any]:
    config = hello.config.as_dict()
    del config["hooks"], config["limits"]  # commands stay where they are, and the store there decides
    info = hello.info
    shown = {name: getattr(info, name) for name in ("layout", "durability", "largest_task", "wake_bound")}
    return {
        "info": {**shown, "warnings": list(info.warnings)},
        "config": config,
        "now": hello.now,
        "gateway": hello.gateway,
    }


def _read_hello(value: object) -> Hello:
    fields = value if isinstance(value, dict) else {}
    told = {"kind": "remote", "where": "", **_object(fields.get("info"))}
    config = {name: one for name, one in _object(fields.get("config")).items() if name in Config.__struct_fields__}
    config.pop("hooks", None)
    config.pop("limits", None)
    return Hello(
        info=convert({name: one for name, one in told.items() if name in Info.__struct_fields__}, Info),
        config=parse(config),
        now=SECONDS.read(fields.get("now")),
        gateway=TEXT.read(fields.get("gateway")),
    )


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid("a JSON object should stand here")
    return value


HELLO = Kind(_write_hello, _read_hello)

# -- errors ----------------------------------------------------------------------------------------

_ERRORS = {kind.code: kind for name in errors.__all__ if (kind := getattr(errors, name))}
#: Facts that are told of an error: of the task and the caller, never a path of the server.
_TOLD = ("id", "ids", "holder", "worker", "state", "field", "size", "name", "circle", "cursor", "retry_after")
#: What an error has that is about the machine which serves the queue: its words are for those who have that machine.
_OF_THE_SERVER = ("path", "address")
#: Letters of a message.
_LONGEST = 2000


def is_of_the_server(error: TaskpitError) -> bool:
    """Whether it is about a file or a database there, which it names."""
    return any(name in error.details for name in _OF_THE_SERVER)


def write_error(error: TaskpitError) -> dict[str, Any]:
    """What went wrong, as the other end is told it."""
    message, hint, number = error.message, error.hint, error.details.get("errno")
    if is_of_the_server(error):
        why = f": {os.strerror(number)}" if isinstance(number, int) else ""
        message, hint = f"the gateway cannot use its queue{why}", "The gateway's log says more."
    details = {name: value for name, value in error.details.items() if name in _TOLD}
    try:
        dump(details)
    except Invalid:
        details = {}
    return {"code": error.code, "message": message[:_LONGEST], "hint": hint[:_LONGEST], "details": details}


def error_of(value: object) -> TaskpitError:
    """The error that the other end tells of."""
    fields = value if isinstance(value, dict) else {}
    kind = _ERRORS.get(str(fields.get("code")), TaskpitError)
    told = {name: fields[name][:_LONGEST] for name in ("message", "hint") if isinstance(fields.get(name), str)}
    details = fields.get("details")
    known = {name: one for name, one in details.items() if name in _TOLD} if isinstance(details, dict) else {}
    error: TaskpitError = kind(told.get("message", ""), hint=told.get("hint", ""), **known)
    return error
