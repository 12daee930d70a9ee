"""Every parser of something that others wrote, as a function of bytes, with texts to begin from.

A parser returns, or raises what it says it raises; nothing else may come out of it, whatever goes in.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from taskpit import layouts, transfer, workers
from taskpit.cli import import_records
from taskpit.clock import Clock, duration, instant, iso, say_duration
from taskpit.config import Config
from taskpit.crew import file as crewfile
from taskpit.errors import Invalid, NotFound
from taskpit.layouts import Spot
from taskpit.model import State, Verdict
from taskpit.run import preset
from taskpit.run.agent_limits import moment
from taskpit.run.budget import Ledger
from taskpit.run.transcript import Transcript
from taskpit.store import changelog, opening
from taskpit.store.cards import tries
from taskpit.store.folder import Folder
from taskpit.store.folder_store import paused
from taskpit.store.leases import lapsed
from taskpit.store.manifest import Manifest
from taskpit.text import fit, one_line, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PIT, MAILBOX, WORKSPACE = (layouts.get(name) for name in ("pit", "mailbox", "workspace"))
LAYOUTS = (PIT, MAILBOX, WORKSPACE)
PRESETS = [preset.find(name, preset.places()) for name in preset.names(preset.places()[:1])]
#: Nothing a parser of this size may take longer than a moment for.
MEGABYTE = 1 << 20


class Parser(NamedTuple):
    """One parser: what it makes of bytes, what it may raise, and texts it understands."""

    name: str
    run: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    raises: tuple[type[Exception], ...] = (Invalid,)
    #: How much is read at once at most; streams are read line by line, and tried with less.
    largest: int = MEGABYTE

    def __call__(self, data: bytes) -> object:
        """What it makes of it; None if it refuses as it says it does."""
        try:
            return self.run(data)
        except self.raises:
            return None


@contextmanager
def scratch() -> Iterator[str]:
    """A folder for one file."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        yield folder


def in_file(name: str, read: Callable[[str, str], object]) -> Callable[[bytes], object]:
    """A parser that reads a file of this name; `read` gets the folder and the path."""

    def run(data: bytes) -> object:
        with scratch() as folder:
            path = f"{folder}/{name}"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(data)
            return read(folder, path)

    return run


def spot(layout: layouts.Layout, state: State = State.READY) -> Spot:
    """A ready or finished task `0001`, by its name."""
    verdict = {State.DONE: Verdict.DONE, State.FAILED: Verdict.FAILED}.get(state)
    slug = "x" if layout.slugged else ""
    return Spot(state=state, id="0001", slug=slug, verdict=verdict, path=f"{layout.ready}/any")


def load_task(layout: layouts.Layout) -> Callable[[bytes], object]:
    """Reads a task; what parses is written back as it was, and can be shown."""

    def run(data: bytes) -> object:
        task = layout.load(spot(layout), data)
        assert unclaimed(layout, layout.dump(task)) == unclaimed(layout, data or layout.dump(task))
        for when in (task.created, task.updated, task.not_before):
            assert len(iso(when)) >= 17
        say_duration(task.not_before)
        assert task.priority + task.attempts + task.max_attempts < float("inf")
        return task

    return run


def unclaimed(layout: layouts.Layout, data: bytes) -> object:
    """The bytes as they must be again; a mailbox's without the claim, which does not outlive its end."""
    if layout is not MAILBOX:
        return data
    claim = ("status", "claimed_by", "claimed_at")
    return {key: repr(value) for key, value in json.loads(data).items() if key not in claim}


def load_result(layout: layouts.Layout) -> Callable[[bytes], object]:
    """Reads a result; what parses is published and read again as the same."""

    def run(data: bytes) -> object:
        result, task = layout.load_result(spot(layout, State.DONE), data)
        iso(result.finished)
        say_duration(result.seconds)
        json.dumps(dict(result.cost))
        own = layout.named(task.replace(id="0001")) if task else layouts_task()
        again, _ = layout.load_result(spot(layout, State.DONE), layout.dump_result(own, result))
        assert again.verdict == result.verdict
        assert again.children == result.children
        return result

    return run


def layouts_task():
    """A task to publish a result of."""
    from taskpit.model import Task

    return Task(id="0001", title="x", slug="x")


def names(data: bytes) -> object:
    """A directory entry, in every folder of every layout; what it is read as leads back to it."""
    name = os.fsdecode(data).replace("/", "?").replace("\0", "?")
    for layout in LAYOUTS:
        for folder in layout.folders:
            try:
                found = layout.spot(folder, name)
            except Invalid:
                continue
            if found is not None:
                assert found.path == f"{folder}/{name}"
                assert layout.check_id(found.id) == found.id
    return None


def beside(data: bytes) -> object:
    """What is kept beside a mailbox's task."""
    task = MAILBOX.load(spot(MAILBOX), b"{}", data)
    MAILBOX.dump(task)
    MAILBOX.beside(task)
    return task


def worker_record(folder: str, path: str) -> object:
    """A record, and the judgement by it."""
    record = workers.load(path)
    if record is not None:
        workers.lives(path, record)
        say_duration(record.lease)
    return record


def in_queue(place: str, look: Callable[[Folder], object], layout: str = "pit") -> Callable[[bytes], object]:
    """A parser of a file of the queue's own, read by a verb."""

    def run(data: bytes) -> object:
        with scratch() as root:
            kind = layouts.get(layout)
            for name in (*kind.folders, ".taskpit/tmp", ".taskpit/workers", ".taskpit/tries/0001"):
                os.makedirs(f"{root}/{name}", exist_ok=True)
            for path, content in ((place, data), ("claimed/snake~a1.food-0001-x.md", b"- **task:** x\n")):
                if os.path.isdir(os.path.dirname(f"{root}/{path}")):
                    with open(f"{root}/{path}", "wb") as file:
                        file.write(content)
            return look(Folder(root, kind, Config(durability="process"), Clock()))

    return run


def stream(data: bytes) -> object:
    """An agent's events, heard by every preset there is."""
    lines = data.splitlines(keepends=True)
    for one in PRESETS:
        heard = Transcript(one)
        heard.hear(lines)
        heard.close()
        for fact in heard.facts:
            heard.text(fact)
        for said in heard.meant.values():
            moment(said, 1_780_000_000.0)
    return None


def a_duration(data: bytes) -> object:
    """A duration can be said again, and is a span of time."""
    seconds = duration(data.decode())
    assert 0 <= seconds < float("inf")
    return say_duration(seconds)


def an_instant(data: bytes) -> object:
    """A time can be written again, and is one that a file can carry."""
    return iso(instant(data.decode(), 1_780_000_000.0))


def shown(data: bytes) -> object:
    """What is shown to people has no letters that a terminal obeys."""
    text = data.decode("utf-8", "surrogateescape")
    for told in (plain(text), one_line(text), fit(text, 40)):
        assert not any(letter < " " and letter not in "\n\t" for letter in told)
        assert "\x7f" not in told
        assert not any("\x80" <= letter <= "\x9f" for letter in told)
    return None


def crew(folder: str, path: str) -> object:
    """`agents.toml`."""
    return crewfile.load(path, folder, {"PATH": "/bin"})


PIT_TASK = b"""# food-0001-x
- **task:** do it  # a comment
  and more
- **done-when:** `make test` is green.
- **tossed-by:** ann
- **created:** 2026-01-24T10:00:00Z
- **priority:** 5
- **needs:** 0002, food-0003-y
- **attempts:** 1 of 3
- **not-before:** 2026-01-24T10:00:00+01:00
- **big:** true
- **mood:** json {"a": [1, 2]}
- **carried:** json {"task": {"title": ["do it and more", "a\\nb"]}, "extra": {"k": 1}}

<!-- body -->
# Body
"""
WORKSPACE_TASK = b"# A title\n- **priority:** 5\n- **slug:** x\n- **hold:** wait\n\nText.\n"
REPORT = b"""# food-0001-x: done
- **verdict:** done
- **attempt:** 2
- **finished:** 2026-01-24T10:00:00Z
- **seconds:** 1.5
- **check:** `make test` exited 0 after 1.250s
- **children:** 0002, 0003
- **cost:** {"usd": 0.5}
- **carried:** {"reason": "a\\nb", "children": ["x"], "check": "y"}

## Output
<!-- taskpit:output -->
fine

## Task
<!-- taskpit:task -->
"""
ENVELOPE = b"""{"id": "0001", "title": "x", "description": "y", "priority": 5, "attempts": 1, "max_attempts": 3,
"created_at": 1780000000, "claimed_at": null, "claimed_by": "w", "test_command": "make",
"metadata": {"dependencies": ["0002"], "worktree": "w"}, "tags": ["a"], "hold": "h", "carried": {"id": 1}, "k": [1]}"""
DROVER = b"""{"task_id": "0001", "status": "completed", "verdict": "pass", "output": "o", "duration_ms": 1500,
"completed_at": 1780000000, "attempts": 2, "outcome": "done", "evidence": {"command": "make", "exit_code": 0,
"seconds": 1.5, "tail": "t"}, "cost": {"usd": 1}, "children": ["a"], "log": "l"}"""
CREW = b"""[defaults]
lease = "5m"
[backend.sh]
command = ["sh", "-c", "true"]
[[agent]]
name = "snake"
role = "worker"
count = 2
backend = "sh"
[[service]]
name = "web"
command = ["true"]
"""
PRESET = b"""argv = ["{bin}", "-p", ["--model", "{model}"]]
prompt = "stdin"
events = "stdout"
exit = {1 = "failed"}
[[event]]
when = {type = "result"}
means = "done"
ends = true
[[error]]
pattern = "limit"
means = "quota"
"""
EVENTS = b"""{"type": "result", "subtype": "success", "is_error": false, "result": "ok", "total_cost_usd": 0.1}
words {"type": "error", "error": {"message": "limit reached, resets 3pm"}}
{"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 2}}
[{"type": "thread.started", "thread_id": "t"}]
"""
RECORDS = (
    b'{"id": 1, "title": "x", "priority": "P1", "needs": [{"depends_on_id": 2}], "created": "2026-01-24T10:00:00Z"}\n'
)
TRANSFER = (
    b'{"kind": "queue", "schema": 1, "layout": "pit", "paused": "paused by ann: lunch"}\n'
    b'{"kind": "work_item", "id": "WI-001", "document": {"title": "x", "blockers": [], "pivots": {"a": {}}}}\n'
    b'{"kind": "task", "task": {"id": "0001", "title": "x", "created": "2026-01-24T10:00:00Z"}, "state": "done",'
    b' "result": {"id": "0001", "verdict": "done", "evidence": {"command": "c", "exit_code": 0}},'
    b' "tries": [{"at": 1.0, "worker": "w", "kind": "task"}]}\n'
    b'{"kind": "event", "timestamp": "t", "worker": "w", "worker_type": "agent", "action": "a"}\n'
)
TRY = b'{"at": 1.0, "worker": "w", "kind": "task", "evidence": {"command": "c", "exit_code": 1}, "counted": true}'
RECORD = b'{"worker": "snake", "host": "h", "pid": 1, "boot": "b", "offset": 1.5, "lease": 60.0, "stays": true}'
SIGHTINGS = json.dumps(
    {Clock().boot(): {"offset": 1.0, "since": 2.0, "claims": {"claimed/snake~a1.food-0001-x.md": [1, 2, 3.0]}}}
).encode()
MANIFEST = b'{"tasks": [{"id": "task_001", "status": "done", "owner": "a", "created_at": null, "output": "o"}], "k": 1}'

PARSERS = (
    Parser("pit task", load_task(PIT), (PIT_TASK,)),
    Parser("workspace task", load_task(WORKSPACE), (WORKSPACE_TASK, PIT_TASK)),
    Parser("mailbox task", load_task(MAILBOX), (ENVELOPE,)),
    Parser("mailbox beside", beside, (ENVELOPE,)),
    Parser("pit result", load_result(PIT), (REPORT + PIT_TASK,)),
    Parser("workspace result", load_result(WORKSPACE), (REPORT + WORKSPACE_TASK,)),
    Parser("mailbox result", load_result(MAILBOX), (DROVER,)),
    Parser("mailbox holder", MAILBOX.holder, (ENVELOPE,), ()),
    Parser(
        "file name",
        names,
        (b"food-0001-x.md", b"snake~a1.food-0001-x.md", b"t_inprogress_a.md", b"t_error.json", b"food-0001.result.md"),
        (),
    ),
    Parser(
        "changelog line",
        changelog.decode,
        (b'{"timestamp": "t", "worker": "w", "worker_type": "agent", "action": "a", "task_id": "0001"}',),
        (),
    ),
    Parser("worker record", in_file("snake", worker_record), (RECORD,), (), largest=65536),
    Parser("claim by its record", in_queue(".taskpit/workers/snake", lapsed), (RECORD,), ()),
    Parser("sightings", in_queue(".taskpit/sightings", lapsed), (SIGHTINGS,), ()),
    Parser(
        "try",
        in_queue(".taskpit/tries/0001/n", lambda folder: [iso(one.at) for one in tries(folder, "0001")]),
        (TRY,),
        (),
    ),
    Parser(
        "pause", in_queue(".taskpit/paused", paused), (b'{"reason": "r", "until": 9e9, "by": "b"}',), (), largest=65536
    ),
    Parser(
        "manifest", in_queue("manifest.json", lambda folder: Manifest(folder).refresh(), "workspace"), (MANIFEST,), ()
    ),
    Parser(
        "config.toml",
        in_file(".taskpit/config.toml", lambda folder, _: check_config(opening._written(folder, Config()))),
        (b'lease = "15m"\nabandoned = 900\nmax_attempts = 3\ndurability = "process"\n',),
    ),
    Parser("agents.toml", in_file("agents.toml", crew), (CREW,), (Invalid, NotFound)),
    Parser(
        "preset", in_file("mine.toml", lambda folder, _: preset.find("mine", [folder])), (PRESET,), (Invalid, NotFound)
    ),
    Parser("agent events", stream, (EVENTS,), (), MEGABYTE // 8),
    Parser(
        "end of a limit", lambda data: moment(data.decode("utf-8", "replace"), 1.78e9), (b"Oct 6 at 2pm (UTC)",), ()
    ),
    Parser("duration", a_duration, (b"1h30m", b"30", b"0.5d"), (ValueError,)),
    Parser("instant", an_instant, (b"2026-01-24T10:00:00Z", b"+30m", b"1780000000.5"), (ValueError,)),
    Parser("import jsonl", in_file("a.jsonl", lambda _, path: import_records.collect([path], MEGABYTE)), (RECORDS,)),
    Parser("import json", in_file("a.json", lambda _, path: import_records.collect([path], MEGABYTE)), (RECORDS,)),
    Parser(
        "import md", in_file("food-0001-x.md", lambda _, path: import_records.collect([path], MEGABYTE)), (PIT_TASK,)
    ),
    Parser("export", lambda data: transfer.load(data.decode("utf-8", "replace").splitlines()), (TRANSFER,)),
    Parser(
        "spending",
        in_file("spent", lambda _, path: spending(path)),
        (b'{"at": 1.0, "usd": 0.5, "tokens": 10, "task": "0001"}\n{"at": 2.0, "allow": "day"}\n',),
        (),
        MEGABYTE // 64,
    ),
    Parser("shown text", shown, (b"\x1b[31mred\x1b[0m \x1b]0;title\x07 \xc2\x9b31m", "a\u202eb\u2028c".encode()), ()),
)


def spending(path: str) -> object:
    """What was spent, by a ledger of this file."""
    ledger = Ledger.__new__(Ledger)
    ledger._path = path
    return ledger.of_task("0001"), ledger.of_day(1.78e9), ledger.total()


def check_config(config: Config) -> Config:
    """Settings that can be worked with: spans of time and counts."""
    for key in Config.__struct_fields__:
        value = getattr(config, key)
        assert not isinstance(value, float) or 0 <= value < float("inf"), key
    return config
