"""The Drover mailbox: `inbox/`, `processing/`, `outbox/`, `failed/`, `.tmp/`. Names and JSON, no disk.

    inbox/{task_id}.json              ready
    processing/{task_id}.json         claimed; the holder stands inside, in `claimed_by`
    outbox/{task_id}_result.json      done
    failed/{task_id}_error.json       failed

Another reader of these files exists that drops keys it does not know when it claims. What must survive
it (holds, tags, unknown keys) is therefore also kept beside, and `load` takes both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from taskpit import decode, ids
from taskpit.clock import FIRST, LAST
from taskpit.decode import read_json
from taskpit.errors import Invalid
from taskpit.ids import path_of
from taskpit.layouts.layout import NEVER, Layout, Named, Spot
from taskpit.model import Evidence, Result, State, Task, Verdict
from taskpit.text import one_line

# -- results and errors as the mailbox writes them -------------------------------------------------


def load_result(spot: Spot, data: bytes) -> Result:
    """The result or error in these bytes; one that another tool wrote has less in it."""
    fields = read_object(data)
    failed = spot.verdict is not Verdict.DONE
    said, children = fields.get("outcome"), fields.get("children")
    return Result(
        id=spot.id,
        verdict=Verdict(said) if said in tuple(Verdict) else spot.verdict or Verdict.DONE,
        reason=str(fields.get("error" if failed else "verdict_reason") or ""),
        output=str(fields.get("output") or ""),
        worker=str(fields.get("worker") or ""),
        attempt=_int(fields.get("attempts"), 1),
        finished=_moment(fields.get("failed_at" if failed else "completed_at")),
        seconds=_moment(fields.get("duration_ms")) / 1000,
        evidence=_evidence(fields.get("evidence")),
        cost=mapping(fields.get("cost")),
        children=tuple(map(str, children)) if isinstance(children, list) else (),
        log=str(fields.get("log") or ""),
    )


def dump_result(task_id: str, result: Result) -> bytes:
    """Drover's fields in Drover's order, then ours."""
    when = int(result.finished)
    if result.verdict is Verdict.DONE:
        fields: dict[str, object] = {
            "task_id": task_id,
            "status": "completed",
            "verdict": "pass",
            "verdict_reason": result.reason,
            "output": result.output,
            "duration_ms": round(result.seconds * 1000),
            "completed_at": when,
        }
        ours: dict[str, object] = {"attempts": result.attempt}
    else:
        fields = {
            "task_id": task_id,
            "status": "failed",
            "error": result.reason,
            "attempts": result.attempt,
            "last_attempt_at": when,
            "failed_at": when,
        }
        ours = {"output": result.output, "duration_ms": round(result.seconds * 1000)}
    ours |= {
        "outcome": str(result.verdict),
        "worker": result.worker,
        "evidence": result.evidence and result.evidence.as_dict(),
        "cost": dict(result.cost),
        "children": list(result.children),
        "log": result.log,
    }
    return spell({**fields, **{key: value for key, value in ours.items() if value}})


def read_object(data: bytes) -> dict[str, Any]:
    """The JSON object in these bytes; Invalid if there is none."""
    try:
        fields = read_json(data)
    except ValueError as error:
        raise Invalid(f"it is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise Invalid("it is not a JSON object")
    return fields


def spell(fields: Mapping[str, object]) -> bytes:
    """The object as it is written: two spaces, a newline at the end; half letters stay the escapes they were."""
    try:
        return json.dumps(fields, indent=2, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(fields, indent=2).encode() + b"\n"


def mapping(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return dict(value) if isinstance(value, dict) else {}


def _int(value: object, default: int) -> int:
    return int(decode.amount(value)) if decode.is_number(value) else default


def _moment(value: object) -> float:
    return float(_int(value, 0))


def _evidence(value: object) -> Evidence | None:
    """What running a check showed, if another tool's words for it are ours."""
    fields = mapping(value)
    command, code, seconds, tail = (fields.get(key) for key in ("command", "exit_code", "seconds", "tail"))
    if not isinstance(command, str) or not isinstance(code, int) or not decode.fits(Evidence, "exit_code", code):
        return None
    return Evidence(command=command, exit_code=code, seconds=decode.amount(seconds), tail=str(tail or ""))


# -- the Drover mailbox ----------------------------------------------------------------------------


DAY = 86400.0

#: The schema of Drover's mailbox: every key in its order, with the type and the value it has when nothing is said.
SCHEMA: dict[str, object] = {
    "id": "",
    "title": "",
    "description": "",
    "epic_id": "",
    "parent_id": "",
    "sequence_number": 0,
    "type": "",
    "priority": 0,
    "status": "ready",
    "attempts": 0,
    "max_attempts": 3,
    "last_error": "",
    "claimed_by": "",
    "claimed_at": 0,
    "operator": "",
    "verdict": "unknown",
    "verdict_reason": "",
    "test_mode": "strict",
    "test_scope": "diff",
    "test_command": "",
    "created_at": 0,
    "updated_at": 0,
    "metadata": {},
}
#: Schema keys that are fields of a task; the rest of the schema is carried in `extra`.
FIELDS = {
    "title": "title",
    "description": "body",
    "parent_id": "parent",
    "priority": "priority",
    "attempts": "attempts",
    "max_attempts": "max_attempts",
    "last_error": "last_error",
    "test_command": "check",
}
#: What the queue itself writes; nobody sets these.
OURS = frozenset(("id", "status", "claimed_by", "claimed_at", "created_at", "updated_at", "metadata"))
#: Fields of a task that the schema has no word for, as they are called in the file and beside it.
BESIDE = {
    name: "created_by" if name == "by" else name
    for name in Task.kinds()
    if name not in {*FIELDS.values(), "id", "needs", "created", "updated", "extra", "source"}
}
#: Where the file carries what another layout calls like a key of this one.
CARRIED = "carried"
#: Letters of a holder's name; more is none.
LONGEST_HOLDER = 200
#: Keys that are unix seconds.
TIMES = frozenset(("claimed_at", "created_at", "updated_at", "not_before"))
SUFFIXES = {"outbox": ("_result.json", Verdict.DONE), "failed": ("_error.json", Verdict.FAILED)}


class Mailbox(Layout):
    """The layout of Drover's mailbox."""

    name = "mailbox"
    folders = ("inbox", "processing", "outbox", "failed", ".tmp")
    ready = "inbox"
    claimed = "processing"
    results = ("outbox", "failed")
    archives = True
    prunes = True
    tmp = ".tmp"
    guarded = True
    rewritten = True
    defaults = {"keep_results": 7 * DAY, "keep_failed": 30 * DAY}
    error_names = {
        "storage": "ErrMailboxDir",
        "conflict": "ErrTaskExists",
        "nothing_to_claim": "ErrNoTasks",
        "not_found": "ErrTaskNotFound",
        "invalid": "ErrInvalidTask",
    }

    def first_number(self, now: float) -> int:
        """Ids are numbered by the second, as Drover numbers them."""
        return int(now)

    def new_id(self, number: int) -> str:
        """`task_1234567890`."""
        return f"task_{number}"

    def number(self, text: str) -> int:
        """The number behind an id like `task_1234567890`."""
        digits = text.removeprefix("task_")
        return int(digits) if digits.isdecimal() and digits.isascii() and digits != text else 0

    def spot(self, folder: str, file: str) -> Spot | None:
        """What a directory entry is, by its name alone; a claim's holder is inside the file."""
        path = f"{folder}/{file}"
        if folder in SUFFIXES:
            suffix, verdict = SUFFIXES[folder]
            if not file.endswith(suffix):
                return None
            task_id = file[: -len(suffix)]
            return Spot(state=verdict.state, id=task_id, verdict=verdict, path=path) if _serves(task_id) else None
        if folder not in ("inbox", "processing") or not file.endswith(".json"):
            return None
        state, task_id = State.READY if folder == "inbox" else State.CLAIMED, file.removesuffix(".json")
        return Spot(state=state, id=task_id, path=path) if _serves(task_id) else None

    def is_others(self, file: str) -> bool:
        """Ids that Drover allows and we do not serve: spaces, colons, letters beyond ASCII, more than 64 bytes."""
        return file.endswith(".json")

    def ready_path(self, task: Named) -> str:
        """`inbox/task_1234567890.json`."""
        return path_of("inbox", task.id, ".json")

    def claimed_path(self, task: Named, worker: str) -> str:  # noqa: ARG002 - the holder stands inside
        """`processing/task_1234567890.json`, whichever worker has it."""
        return path_of("processing", task.id, ".json")

    def result_path(self, task: Task, verdict: Verdict, again: str = "") -> str:
        """`outbox/task_1234567890_result.json` or `failed/task_1234567890_error.json`."""
        again = f".{again}" if again else ""  # after the suffix: it must not read as another task's result
        if verdict is Verdict.DONE:
            return path_of("outbox", task.id, f"_result{again}.json")
        return path_of("failed", task.id, f"_error{again}.json")

    def finished_paths(self, task: Named) -> tuple[str, ...]:
        """Files whose presence says that the task has ended."""
        return (path_of("outbox", task.id, "_result.json"), path_of("failed", task.id, "_error.json"))

    def load(self, spot: Spot, data: bytes, beside: bytes = b"") -> Task:
        """The task in these bytes, with what another reader may have dropped from them."""
        fields = read_object(data)
        for key, default in SCHEMA.items():
            if key in fields and fields[key] is not None:
                _check_type(key, fields[key], default)
        if fields.get("id", spot.id) != spot.id:
            raise Invalid(f"its id is {fields['id']!r}, but its file is called {spot.id}.json", field="id")
        saved = read_object(beside) if beside else {}
        kept = {**saved, **_unknown(fields)}
        metadata = {**mapping(saved.get("metadata"))}
        for key, value in mapping(fields.get("metadata")).items():
            if value is not None or key not in (*metadata, "worktree", "dependencies"):
                metadata[key] = value  # null is what others write for what they dropped
        known = {field: _whole(fields[key], key) for key, field in FIELDS.items() if fields.get(key) is not None}
        found = {
            "title": "",
            **known,
            **{field: kept[key] for field, key in BESIDE.items() if kept.get(key) is not None},
            "needs": metadata.get("dependencies") or (),
            "created": fields.get("created_at") or 0,
            "updated": fields.get("updated_at") or 0,
            "extra": _extra(fields, kept, metadata),
        }
        task = decode.convert({**found, "id": spot.id}, Task, lenient=True).replace(source=data)
        task.mark_read(self.name)
        return task

    def dump(self, task: Task) -> bytes:
        """The task's bytes while it is ready: new ones have every key of the schema in its order.

        Of bytes that were read, only what changed is changed; keys that were left out stay out.
        """
        now = self._fields(task)
        if not task.source:
            return spell(now)
        given = read_object(task.source)
        source = _whole_numbers(given)
        was = self._fields(self.load(Spot(state=State.READY, id=task.id), task.source))
        fields = {key: value for key, value in source.items() if key in now or key not in was}
        fields |= {key: value for key, value in now.items() if key not in was or value != was[key]}
        for key in ("status", "claimed_by", "claimed_at"):  # a claim that has ended leaves nothing behind
            if fields.get(key) not in (None, SCHEMA[key]):
                fields[key] = SCHEMA[key]
        return task.source if fields == given and _are_whole(given) else spell(fields)

    def _fields(self, task: Task) -> dict[str, object]:
        extra = {key: value for key, value in task.extra.items() if _sayable(key, value)}
        carried = {key: value for key, value in task.extra.items() if key not in extra}
        if carried:
            extra[CARRIED] = carried
        fields: dict[str, object] = {key: extra.pop(key, default) for key, default in SCHEMA.items()}
        fields.update({key: getattr(task, field) for key, field in FIELDS.items()})
        metadata = {"worktree": "", **mapping(fields["metadata"]), "dependencies": list(task.needs)}
        fields.update(id=task.id, created_at=int(task.created), metadata=metadata)
        fields["updated_at"] = int(task.updated or task.created)
        fields["max_attempts"] = task.max_attempts or SCHEMA["max_attempts"]
        for field, key in BESIDE.items():
            value = getattr(task, field)
            if value:
                fields[key] = list(value) if isinstance(value, tuple) else value
        return {**fields, **extra}

    def beside(self, task: Task) -> bytes:
        """What must survive a reader that drops keys it does not know; empty if nothing."""
        kept = _unknown(self._fields(task))
        metadata = task.extra.get("metadata")
        metadata = mapping(metadata) if metadata and _sayable("metadata", metadata) else {}
        if task.needs:
            metadata["dependencies"] = list(task.needs)
        if metadata:
            kept["metadata"] = metadata
        return spell(kept) if kept else b""

    def with_field(self, task: Task, key: str, text: str) -> Task:
        """Any field of the schema, typed as the schema says; `metadata.worktree` reaches into an object."""
        outer, dot, inner = key.partition(".")
        if outer == "metadata" and dot:
            if inner == "dependencies":
                return task.replace(needs=tuple(word.strip() for word in text.split(",") if word.strip()))
            metadata = {**mapping(task.extra.get("metadata")), inner: text}
            return task.replace(extra={**task.extra, "metadata": metadata})
        if key in OURS:
            raise Invalid(f"{key!r} is written by the queue itself", field=key)
        value: object = text
        if isinstance(SCHEMA.get(key), int):
            try:
                value = int(text)
            except ValueError:
                raise Invalid(f"{key!r} is a whole number, not {text!r}", field=key) from None
        if key in FIELDS:
            return task.replace(**{FIELDS[key]: value})
        extra = {**task.extra, key: value}
        if key in SCHEMA and value == SCHEMA[key]:
            del extra[key]  # it says so anyway
        return task.replace(extra=extra)

    def claimed_bytes(self, task: Task, worker: str, now: float) -> bytes:
        """The task as it lies in `processing/`: with its holder, so that a fixed name has one."""
        fields = _whole_numbers(read_object(task.source)) if task.source else self._fields(task)
        return spell({**fields, "status": "claimed", "claimed_by": worker, "claimed_at": int(now)})

    def holder(self, data: bytes) -> str:
        """Who has a claimed file, as it says itself; empty if it does not say."""
        try:
            worker = read_object(data).get("claimed_by")
        except Invalid:
            return ""
        return one_line(worker)[:LONGEST_HOLDER] if isinstance(worker, str) else ""

    def load_result(self, spot: Spot, data: bytes) -> tuple[Result, Task | None]:
        """The result or error in these bytes; the task itself is not in it."""
        return load_result(spot, data), None

    def dump_result(self, task: Task, result: Result) -> bytes:
        """Drover's fields in Drover's order, then ours."""
        return dump_result(task.id, result)


def _check_type(key: str, value: object, default: object) -> None:
    wanted = type(default)
    if wanted is dict:
        needs = value.get("dependencies") if isinstance(value, dict) else ()
        right = isinstance(value, dict) and (
            needs is None or (isinstance(needs, list) and all(isinstance(need, str) for need in needs))
        )
    else:
        right = type(value) is wanted or (wanted is int and isinstance(value, float) and value.is_integer())
    if not right:
        raise Invalid(f"{key!r} is {json.dumps(value, ensure_ascii=False)[:80]}, not {wanted.__name__}", field=key)
    if key in TIMES and isinstance(value, int | float) and not FIRST <= value <= LAST:
        raise Invalid(f"{key!r} is no time: {str(value)[:80]}", field=key)


def _sayable(key: str, value: object) -> bool:
    """Whether a field beyond a task's own can stand in the file under its own name, and be read as that again."""
    if key == "metadata":
        said = isinstance(value, dict) and "dependencies" not in value and value.get("worktree") != ""
        return said and bool(value)
    if key in SCHEMA:
        return key not in FIELDS and key not in OURS and type(value) is type(SCHEMA[key]) and value != SCHEMA[key]
    return key not in BESIDE.values() and key != CARRIED


def _serves(task_id: str) -> bool:
    """Whether an id in a file's name is one that we can have; others are Drover's own."""
    return ids.is_word(task_id) and not task_id.startswith(NEVER)


def _are_whole(fields: Mapping[str, Any]) -> bool:
    """Whether its whole numbers are spelt as such: a reader with typed fields stumbles over `1.0`."""
    return not any(isinstance(fields.get(key), float) for key, default in SCHEMA.items() if isinstance(default, int))


def _whole_numbers(fields: dict[str, Any]) -> dict[str, Any]:
    return fields if _are_whole(fields) else {key: _whole(value, key) for key, value in fields.items()}


def _whole(value: object, key: str) -> object:
    """Whole numbers are ints, also where a reader wrote them as `3.0`."""
    return int(value) if isinstance(value, float) and isinstance(SCHEMA.get(key), int) else value


def _unknown(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in SCHEMA}


def _extra(fields: Mapping[str, Any], kept: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, object]:
    """The rest of the schema where it says something, and every key that is not in it."""
    extra: dict[str, object] = {
        key: _whole(fields[key], key)
        for key, default in SCHEMA.items()
        if key not in FIELDS and key not in OURS and fields.get(key) is not None and fields[key] != default
    }
    extra |= {key: value for key, value in kept.items() if key not in BESIDE.values() and key != "metadata"}
    carried = mapping(extra.get(CARRIED))
    if carried and not any(_sayable(key, value) for key, value in carried.items()):
        del extra[CARRIED]
        extra |= carried
    rest = {key: value for key, value in metadata.items() if key != "dependencies" and (key, value) != ("worktree", "")}
    if rest:
        extra["metadata"] = rest
    return extra
