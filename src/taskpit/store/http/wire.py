"""The verbs of a store as messages. Their types are the annotations of the port: what one end writes, the other reads.

A request is one JSON object: the arguments of the verb by name, the name of the call, and who asks. An answer is
`Reply`. Neither end trusts the other: kinds and ranges are checked by decoding, free mappings by `check`.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping
from typing import Any, Protocol, get_type_hints

import msgspec

from taskpit import errors
from taskpit.config import Config
from taskpit.decode import check_plain
from taskpit.errors import Invalid, TaskpitError
from taskpit.model import Claim, Count, Event, Seconds, Task, Value, Want
from taskpit.store.port import Info, Store

#: A gateway and its callers have the same number, or do not understand each other.
VERSION = 2
#: Items in one call, and bytes of one call. A single task may be larger than its share.
TOGETHER, LARGEST_BODY = 500, 32 * 1024 * 1024
#: Bytes of a log or a file in one call: as base64 they are a third more.
LARGEST_BYTES = LARGEST_BODY * 5 // 8
#: Verbs with another outcome when they are repeated: only the gateway that was asked first knows whether they happened.
ONCE = ("note", "record", "resume", "reopen", "unlock", "relock", "keep_log", "end_log")
#: Seconds that a caller waits at the gateway: proxies cut what is silent for a minute.
LONGEST_POLL = 25.0
#: The port's plain numbers, as they may be when they come from a caller.
LIMITED: dict[Any, Any] = {int: Count, float: Seconds}
#: Verbs of the port that are served, each by one call.
SERVED = (
    *("allot", "vet", "put", "claim", "renew", "finish", "reopen", "stop", "pause", "resume", "paused"),
    *("lapsed", "mend", "fix", "check", "compost", "read", "resolve", "page", "counts", "events", "latest"),
    *("record", "note", "keep_log", "add_log", "end_log", "read_log", "keep_artifact", "artifacts", "read_artifact"),
    *("lock", "relock", "unlock", "locks"),
)


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway tells of its queue."""

    version: int
    info: Info
    #: Without hooks and limits: commands stay where they are, and the store there decides.
    config: Config
    #: Its time, in Unix seconds.
    now: float


class GatewayVerbs(Protocol):
    """What a gateway answers besides the port."""

    def hello(self) -> Hello:
        """Introduce the queue."""

    def unsettled(self, after: str) -> list[Event]:
        """Return lines of the changelog that are not shown yet."""

    def join(self, worker: str, lease: float, place: str) -> None:
        """Register a worker that stays."""

    def leave(self, worker: str, held: list[tuple[str, str]]) -> None:
        """Free a worker's name and give back its claims."""

    def wait(self, want: Want, news: int, seconds: float) -> bool:
        """Wait until something may have become ready for this wish."""


class Envelope(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What every request has."""

    #: The name of the call; empty for one that only looks.
    call: str = ""
    #: The caller's process, and the workers that stay in it.
    who: str = ""
    stays: list[str] = []


class Reply(msgspec.Struct, kw_only=True):
    """What every answer has."""

    ok: bool
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: dict[str, Any] | None = None
    #: How often something became ready at this gateway until now.
    news: int = 0


def _message(verb: str, function: Any) -> tuple[Any, Any, tuple[str, ...]]:
    """Make the type of a verb's request, the type of its answer, and the names of its arguments."""
    kinds = get_type_hints(function)
    answer = kinds.pop("return")
    usual = {name: one.default for name, one in inspect.signature(function).parameters.items()}
    kinds = {name: LIMITED.get(kind, kind) for name, kind in kinds.items()}
    fields = [
        (name, kind) if usual[name] is inspect.Parameter.empty else (name, kind, usual[name])
        for name, kind in kinds.items()
    ]
    made = msgspec.defstruct(verb, fields, bases=(Envelope,), kw_only=True, forbid_unknown_fields=True)
    return made, answer, tuple(kinds)


_PORTS = dict.fromkeys(SERVED, Store) | dict.fromkeys(("hello", "unsettled", "join", "leave", "wait"), GatewayVerbs)
_MESSAGES = {verb: _message(verb, getattr(port, verb)) for verb, port in _PORTS.items()}
_DECODERS = {verb: msgspec.json.Decoder(made) for verb, (made, _, _) in _MESSAGES.items()}
_ANSWERS = {verb: msgspec.json.Decoder(kind) for verb, (_, kind, _) in _MESSAGES.items()}
_REPLY = msgspec.json.Decoder(Reply)


def encode(value: object) -> bytes:
    """Return a value as JSON; letters that no text may have are replaced. Raises Invalid."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value)
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"this cannot be written as JSON: {error}") from None


def request(verb: str, envelope: Envelope, arguments: Mapping[str, Any]) -> bytes:
    """Return a request of this verb."""
    made = _MESSAGES[verb][0]
    return encode(made(call=envelope.call, who=envelope.who, stays=envelope.stays, **arguments))


def names(verb: str) -> tuple[str, ...]:
    """Return the names of a verb's arguments."""
    return _MESSAGES[verb][2]


def read_request(verb: str, data: bytes) -> tuple[Envelope, dict[str, Any]]:
    """Return a request and its arguments. Raises Invalid."""
    if verb not in _DECODERS:
        raise Invalid(f"there is no verb {verb[:40]!r}")
    message = _decoded(_DECODERS[verb], data)
    arguments = {name: getattr(message, name) for name in _MESSAGES[verb][2]}
    for name, value in arguments.items():
        check(value, name)
    if message.call and not is_call(message.call):
        raise Invalid("the call has a name that no call has", field="call")
    return message, arguments


def reply(data: object, news: int = 0) -> bytes:
    """Return the answer to a call that was carried out."""
    return encode({"ok": True, "data": data, "news": news})


def read_reply(data: bytes) -> Reply:
    """Return an answer of any verb. Raises Invalid."""
    found: Reply = _decoded(_REPLY, data)
    return found


def read_answer(verb: str, data: bytes) -> Any:
    """Return what an answer of this verb says. Raises Invalid."""
    return _decoded(_ANSWERS[verb], data)


def _decoded(decoder: msgspec.json.Decoder[Any], data: bytes) -> Any:
    try:
        return decoder.decode(data)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise Invalid(f"this is not what it should be: {error}") from None
    except (RecursionError, UnicodeDecodeError):
        raise Invalid("this is not JSON that can be read") from None


def is_call(text: str) -> bool:
    """Whether this can name a call: a letter, then letters and digits, few enough for the name of a file."""
    return 8 <= len(text) <= 20 and text.isascii() and text.isalnum() and text[0].isalpha()


def light(claim: Claim) -> Claim:
    """Return a claim that is only to be known again: with the name of its task, without its text."""
    return claim.replace(task=Task(id=claim.task.id, title="", slug=claim.task.slug, big=claim.task.big))


def check(value: object, name: str = "") -> None:
    """Raise Invalid for a mapping in a value that has too many values inside, or too deep ones."""
    if isinstance(value, Value):
        for field in value.__struct_fields__:
            found = getattr(value, field)
            if found and not isinstance(found, str):
                check(found, field)
    elif isinstance(value, list | tuple):
        for item in value:
            if not isinstance(item, str):
                check(item, name)
    elif isinstance(value, Mapping):
        check_plain(name, value)


# -- errors ----------------------------------------------------------------------------------------

_ERRORS = {kind.code: kind for name in errors.__all__ if (kind := getattr(errors, name))}
#: Facts of an error that callers are told: of the task and the caller, never a path of the server.
_TOLD = ("id", "ids", "holder", "worker", "state", "field", "size", "name", "circle", "cursor", "retry_after")
#: An error with one of these is about the serving machine: its words are for people who have that machine.
_OF_THE_SERVER = ("path", "address")
_LONGEST = 2000


def is_of_the_server(error: TaskpitError) -> bool:
    """Whether it is about a file or a database there, which it names."""
    return any(name in error.details for name in _OF_THE_SERVER)


def write_error(error: TaskpitError) -> dict[str, Any]:
    """Return an error as the other end reads it."""
    message, hint, number = error.message, error.hint, error.details.get("errno")
    if is_of_the_server(error):
        why = f": {os.strerror(number)}" if isinstance(number, int) else ""
        message, hint = f"the gateway cannot use its queue{why}", "The gateway's log says more."
    details = {name: value for name, value in error.details.items() if name in _TOLD}
    return {"code": error.code, "message": message[:_LONGEST], "hint": hint[:_LONGEST], "details": details}


def error_of(value: object) -> TaskpitError:
    """Return the error that the other end wrote."""
    fields = value if isinstance(value, dict) else {}
    kind = _ERRORS.get(str(fields.get("code")), TaskpitError)
    words = {name: fields[name][:_LONGEST] for name in ("message", "hint") if isinstance(fields.get(name), str)}
    details = fields.get("details")
    known = {name: one for name, one in details.items() if name in _TOLD} if isinstance(details, dict) else {}
    error: TaskpitError = kind(words.get("message", ""), hint=words.get("hint", ""), **known)
    return error
