"""Run the stories and write down what a user or a program sees of them, without ids, times and paths."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import io
import json
import os
import re
import shlex
import sys
import time
from enum import Enum
from unittest import mock

from boxes import pit, read, write
from story import EVERYDAY

from taskpit.clock import Clock

#: What differs from run to run, and its name in a record.
VARYING = (
    (re.compile(r"(?<=seconds:\*\* )\d[\de.-]*|(?<=\bseconds: )\d[\de.-]*"), "<number>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(T[\d:]*)?"), "<date>"),
    (re.compile(r"\b1[6-9]\d{8}(\.\d+)?\b"), "<moment>"),
    (re.compile(r"\b([0-9a-f]{16,}|\d+-[0-9a-f]{8})\b|(?<=builder\.)[\w-]{32,}"), "<digest>"),
    (re.compile(r"\b\d\d:\d\d to \d\d:\d\d\b"), "<hour> to <hour>"),
    (re.compile(r"~[0-9a-z]{6,}(\.[0-9a-z-]+)?"), "~<id>"),
    (re.compile(r"\b(\d+(\.\d+)?(ms|s|m|h|d))+\b"), "<span>"),
)
#: In text, where columns are as wide as what is in them.
IN_TEXT = ((re.compile(r"\b\d\d:\d\d(:\d\d)?\b"), "<hour>"), (re.compile(r"(?<=\S) {3,}"), "  "))
#: Numbers in JSON that are a moment or how long something took.
MOMENTS = re.compile(r"(?!lease_seconds$)(.*_)?(seconds|at|left|pid|ms|start|end|finished)")
#: Each command is so many seconds after the last: rows that are sorted by whole seconds have one order.
STEP = 2.0


class Place:
    """A queue of one layout in a folder of its own, and what is recorded of it."""

    def __init__(self, work, layout, *, text):
        self.work, self.layout, self.text = str(work), layout, text
        self.root = f"{work}/queue"
        self.record = []
        self.ids = []

    def play(self, story):
        """The record of a story."""
        os.mkdir(self.root)
        environment = {"HOME": f"{self.work}/home", "TASKPIT_AS": "me", "COLUMNS": "100"}
        with mock.patch.dict(os.environ, environment), contextlib.chdir(self.root):
            now = time.time
            for number, line in enumerate(filter(None, story.splitlines())):
                later = staticmethod(functools.partial(_later, now, number * STEP))
                with mock.patch.object(Clock, "now", later):
                    self.step(line)
        return "\n".join(self.record) + "\n"

    def step(self, line):
        if line.startswith("= "):
            _, name, text = shlex.split(line)
            write(f"{self.root}/{name}", text.replace(r"\n", "\n") + "\n")
            return
        if line.startswith("? "):
            self.note(line, {"files": self.files, "changelog": self.changelog}[line[2:]]())
            return
        words = [self.given(word) for word in shlex.split(line)]
        shown = self.text and words[0] in EVERYDAY
        with mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())):
            answer = pit(*words) if shown else pit("--json", *words)
        if not self.text:
            self.note(f"$ pit {line}", f"exit {answer.code}\n{_shape(answer.out)}")
        elif shown:
            self.note(f"$ pit {line}", f"exit {answer.code}\n{answer.out}{answer.err}")

    def note(self, head, body):
        self.record.append(f"{head}\n{self.plain(body).rstrip()}\n")

    def given(self, word):
        """A word of the story with this queue's names."""
        for number in re.findall(r"@(\d)", word):
            word = word.replace(f"@{number}", self.id(int(number)))
        return word.replace("{work}", self.work).replace("{layout}", self.layout)

    def id(self, number):
        """The id that the queue gave to the task of this number."""
        form = {"pit": "{:04d}", "workspace": "task_{:03d}", "activities": "WI-{:03d}-A1"}.get(self.layout)
        return form.format(number) if form else self.ids[number - 1]

    def plain(self, text):
        """The text without what differs from run to run."""
        text = text.replace(self.root, "{queue}").replace(self.work, "{work}")
        # A long path is cut to the width of the screen.
        text = re.sub(
            r"/\S[^\n]*…$",
            lambda cut: "{queue}" if self.root.startswith(cut[0][:-1]) else cut[0],
            text,
            flags=re.MULTILINE,
        )
        for found in re.findall(r"\btask_\d{9,}", text):
            if found not in self.ids:
                self.ids.append(found)
        for number, name in enumerate(self.ids, 1):
            text = text.replace(name, f"task_<{number}>")
        for pattern, name in (*VARYING, *(IN_TEXT if self.text else ())):
            text = pattern.sub(name, text)
        return text

    def files(self):
        """Every visible file and its text."""
        shown = []
        for folder, below, names in os.walk(self.root):
            below[:] = sorted(name for name in below if not name.startswith("."))
            for name in sorted(name for name in names if not name.startswith(".")):
                text = read(f"{folder}/{name}") if os.path.isfile(f"{folder}/{name}") else "a pipe"
                if name.endswith(".json"):
                    text = _lines(json.loads(text))
                shown.append(f"== {os.path.relpath(f'{folder}/{name}', self.root)}\n{text.rstrip()}")
        return "\n".join(shown)

    def changelog(self):
        """The lines of the changelog that are for readers."""
        lines = []
        for folder, _, names in sorted(os.walk(self.root)):
            for name in sorted(names):
                if name == "changelog.log":
                    lines += read(f"{folder}/{name}").splitlines()
        return "\n".join(map(_for_readers, filter(None, lines)))


def _later(now, seconds):
    return now() + seconds


def _shape(out):
    """What `--json` printed: of an envelope what is in it, and anything else as it is."""
    shown = []
    for line in out.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            shown.append(line)
            continue
        envelope = found.keys() in ({"schema", "ok", "data"}, {"schema", "ok", "error"})
        shown.append(_lines(found.get("data", found.get("error"))) if envelope else _flat(_still(found)))
    return "\n".join(shown)


def _lines(value):
    """JSON with a line for each key and each row."""
    value = _still(value)
    if isinstance(value, dict):
        return "\n".join(_nested(key, value[key]) for key in sorted(value))
    return "\n".join(map(_flat, value)) if isinstance(value, list) else _flat(value)


def _nested(key, value):
    if isinstance(value, list) and any(isinstance(row, dict) for row in value):
        return "\n".join([f"{key}:", *(f"  {_flat(row)}" for row in value)])
    return f"{key}: {_flat(value)}"


def _flat(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _still(value):
    """The same without moments and durations."""
    if isinstance(value, dict):
        return {key: 0 if _is_moment(key, one) else _still(one) for key, one in value.items()}
    return [_still(one) for one in value] if isinstance(value, list) else value


def _is_moment(key, value):
    return isinstance(value, int | float) and not isinstance(value, bool) and MOMENTS.fullmatch(key)


def _for_readers(line):
    """A line of a changelog, without the rows that a store keeps for itself."""
    row = json.loads(line)
    return _flat({key: row[key] for key in row if key != "ready"})


def api():
    """The public names of the package: parameters, fields, members and methods."""
    lines = []
    for room in ("taskpit", "taskpit.aio", "taskpit.errors", "taskpit.testing"):
        module = importlib.import_module(room)
        for name in sorted(module.__all__):
            lines += [f"{room}.{name}{shown}" for shown in _shown(getattr(module, name))]
    return "\n".join(lines) + "\n"


def _shown(thing):
    if not isinstance(thing, type):
        return [_signature(thing)] if callable(thing) else [""]
    if issubclass(thing, Enum):
        return [f".{member.name} = {member.value!r}" for member in thing]
    bases = ", ".join(base.__name__ for base in thing.__mro__[1:] if base.__module__.startswith("taskpit"))
    members = {
        name: member
        for base in reversed(thing.__mro__)
        if base.__module__.startswith("taskpit")
        for name, member in vars(base).items()
        if not name.startswith(("_", "test_"))
    }
    head = _signature(thing) + (f": {bases}" if bases else "")
    return [head, *(f".{name}{_signature(members[name])}" for name in sorted(members))]


def _signature(thing):
    thing = getattr(thing, "__func__", thing)
    if not callable(thing):
        return ""
    try:
        found = inspect.signature(thing)
    except ValueError:
        return "(...)"
    return "(" + ", ".join(map(_parameter, found.parameters.values())) + ")"


def _parameter(one):
    """Its name, kind and default; a default that is not plain is only said to be there."""
    mark = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    plain = isinstance(one.default, str | int | float | tuple | None | bool)
    default = "" if one.default is one.empty else f"={one.default!r}" if plain else "=..."
    return f"{mark}{one.name}{default}" + (" (by name)" if one.kind == one.KEYWORD_ONLY else "")
