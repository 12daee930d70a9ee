"""Writes docs/reference/ from the program itself: its parsers, settings, errors, schemas and docstrings.

`python scripts/reference.py` writes; `--check` only says whether what is there is up to date.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import taskpit
from taskpit import config, errors
from taskpit.cli.manual import EXIT_CODES, VARIABLES, describe
from taskpit.cli.table import GROUPS, VERBS
from taskpit.clock import say_duration
from taskpit.values import Value
from taskpit.worker import crewkeys, preset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.path.join(ROOT, "docs", "reference")
MADE = "<!-- Written by scripts/reference.py; `make reference` writes it anew. -->"

#: What each key of agents.toml is for; the keys themselves and their values are the program's.
CREW = {
    "defaults": {},
    "agent": {
        "name": "what it is called; with `count`, `name-1`, `name-2`, ...",
        "count": "how many of this kind",
        "role": "`worker` takes tasks; `planner` only those marked big; `keeper` and `cleanup` sweep in rounds, and a keeper with a backend is run in each",
        "backend": "which `[backend.NAME]` runs it",
        "model": "the model, as the agent calls it",
        "prompt": "a file that says who it is; stands before every task",
        "tags": "only tasks with one of these tags",
        "lease": "how long a claim lasts unless renewed",
        "limit": "the time a task may take",
        "stall": "how long it may be silent",
        "every": "how long between two rounds of a keeper or cleanup",
        "budget": "what it may cost, per task or day",
        "worktree": "a git worktree for each task",
        "merge": "`ff`: merge a green task's branch",
        "watch": "what the supervisor does: nothing, start again what died, or also what hangs",
        "cwd": "where it runs; relative to the file",
    },
    "service": {
        "name": "what it is called",
        "command": "what is run; `{python}` is the Python that runs `pit`",
        "watch": "as above",
        "stall": "how long it may be silent",
        "cwd": "where it runs",
    },
    "backend": {
        "preset": "a preset's name",
        "command": "or a command of your own, with placeholders",
        "bin": "where the program is, if not on the path",
        "flags": "words added to its command",
        "model": "the model, as the agent calls it",
        "prompt": "how a command gets the prompt",
        "limit": "how many at once on this machine",
        "stagger": "how far apart they begin",
    },
}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table."""
    titles = list(head)
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    return [*lines, *(f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows)]


def code(text: str) -> str:
    """The text as code in a table's cell."""
    return f"<code>{_html(text)}</code>" if "`" in text or "|" in text else f"`{text}`"


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "&#124;")


def prose(text: str) -> str:
    """Help text in Markdown: what looks like a tag or a glob is none."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([<*_{}\[\]])", r"\\\1", part) for part in parts)


def page(title: str, *lines: str) -> str:
    """A whole page."""
    return "\n".join([MADE, "", f"# {title}", "", *lines]).rstrip() + "\n"


# -- commands --------------------------------------------------------------------------------------


def commands() -> str:
    """Every verb with its options and an example."""
    lines = [
        "`pit [-C DIR] [--json] VERB ...`. The queue is the nearest one upwards from the working directory, in a git worktree",
        "that of the main checkout. `pit VERB --help` says the same as this page.",
        "",
        *table(("for every verb", ""), [("`-C DIR`", "the queue, or a folder below it")]),
        "| `--json` | one [JSON envelope](json.md) on standard output |",
        "| `-h`, `--help` | help; `pit --version` is the version |",
        "",
        *table(("variable", ""), ((code(name), told) for name, told in VARIABLES.items())),
    ]
    for group in GROUPS:
        lines += ["", f"## {group[0].upper()}{group[1:]}"]
        for verb in VERBS:
            if verb.group == group:
                lines += _verb(describe(verb))
    return page("Commands", *lines)


def _verb(told: Any) -> list[str]:
    also = f"Also called: {', '.join(f'`{alias}`' for alias in told.verb.aliases)}." if told.verb.aliases else ""
    lines = ["", f"### {told.verb.name}", "", f"```\n{told.usage}\n```", "", prose(told.about)]
    lines += ["", also] if also else []
    rows = [(code(term), prose(meaning)) for term, meaning in (*told.words, *told.options)]
    lines += ["", *table(("argument", ""), rows)] if rows else []
    return [*lines, "", "```sh", *told.examples, "```"]


# -- settings --------------------------------------------------------------------------------------


def fields(kind: type[Value]) -> dict[str, str]:
    """What the comment right above each field of a value says of it."""
    found: dict[str, str] = {}
    comment: list[str] = []
    for line in inspect.getsource(kind).splitlines():
        told = line.strip()
        if told.startswith("#:"):
            comment.append(told[2:].strip())
            continue
        field = re.match(r"    ([a-z_]+): ", line)
        if field and field[1] in kind._fields:
            found[field[1]] = " ".join(comment)
        comment = []
    return found


def _default(key: str, value: object) -> str:
    if key in config._DURATIONS:  # noqa: SLF001 - a reference knows the room it describes
        return f'"{say_duration(float(str(value)))}"'
    return json.dumps(value)


def configuration() -> str:
    """config.toml, agents.toml and presets."""
    about = fields(config.Config)
    hooks = fields(config.Hooks)
    settings = [
        (code(key), code(_default(key, getattr(config.Config, key))), about[key])
        for key in config.Config._fields
        if key != "hooks"
    ]
    lines = [
        "## A queue's settings",
        "",
        "`.taskpit/config.toml`. Every line is optional. Durations are written `30s`, `15m`, `1h30m`, `7d`. Layouts change some defaults: activities",
        "have leases of 1 hour, a mailbox prunes results after 7 days and errors after 30.",
        "",
        *table(("key", "default", "meaning"), settings),
        "",
        "## Hooks: the table [hooks]",
        "",
        f"In the same file: a command for each of {', '.join(map(code, config.EVENTS))}; see [hooks](../hooks.md).",
        "",
        *table(
            ("key", "default", "meaning"),
            [(code(key), code(str(getattr(config.Hooks, key))), hooks[key]) for key in ("timeout", "parallel")],
        ),
        "",
        "## A crew: agents.toml",
        "",
        "In the queue's folder or beside it; `pit up` starts what it says. `[defaults]` may have any key of `[[agent]]` but `name` and `count`.",
    ]
    for name, keys in crewkeys.KEYS.items():
        if name == "defaults":
            continue
        missing = set(keys) ^ set(CREW[name])
        if missing:
            raise SystemExit(f"scripts/reference.py: say what these keys of [{name}] are for: {sorted(missing)}")
        rows = [(code(key), prose(_wanted(check)), CREW[name][key]) for key, check in keys.items()]
        head = "[backend.NAME]" if name == "backend" else f"[[{name}]]"
        lines += ["", f"### {head.strip('[]').split('.')[0].capitalize()}", "", f"`{head}`", ""]
        lines += table(("key", "value", "meaning"), rows)
    lines += ["", "## Presets", "", *_presets()]
    return page("Configuration", *lines)


def _wanted(check: Callable[[object], object]) -> str:
    """What a key's value must be, in the words the program refuses others with."""
    for wrong in ("?", object()):
        try:
            check(wrong)
        except ValueError as error:
            return str(error).partition(": ")[0]
    raise SystemExit("scripts/reference.py: a key takes anything")


def _presets() -> list[str]:
    about = fields(preset.Preset)
    own = [key for key in preset.keys._KEYS if key != "extends"]  # noqa: SLF001
    rows = [(code("extends"), "the preset whose keys count where this one says nothing")]
    rows += [(code(key), prose(about.get(key) or _PRESET.get(key, ""))) for key in own]
    silent = [key for key, meaning in rows if not meaning]
    if silent:
        raise SystemExit(f"scripts/reference.py: say what these keys of a preset are for: {silent}")
    return [
        "`NAME.toml` in `~/.config/taskpit/presets/` or the queue's `.taskpit/presets/`. Placeholders: "
        + ", ".join(f"`{{{word}}}`" for word in preset.keys.PLACEHOLDERS)
        + ".",
        "",
        *table(("key", "meaning"), rows),
        "",
        "Meanings of events, exit codes and messages: " + ", ".join(f"`{word}`" for word in preset.keys.MEANINGS) + ".",
    ]


_PRESET = {
    "about": "one line about it",
    "bin": "the program, if it is not called as the preset is",
    "argv": "its command, word by word; a list among the words is left out when what it asks for is empty",
    "set_env": "variables it gets",
    "event": "what an event means: `when` (paths and values), `means`, `ends`, `resets`",
    "take": "where session, cost, tokens, turns and output stand: `when`, `path`, `how`",
    "message": "what words in its output mean: `pattern`, `means`, `resets`",
}


# -- exit codes, JSON, Python ----------------------------------------------------------------------


def exit_codes() -> str:
    """Exit codes, and every error by its code."""
    kinds = sorted({getattr(errors, name) for name in errors.__all__}, key=lambda kind: (kind.exit_code, kind.code))
    rows = [(code(kind.code), str(kind.exit_code), code(kind.__name__), _first(kind)) for kind in kinds]
    rows.append((code("usage"), "2", "", "The command was not understood."))
    return page(
        "Exit codes and errors",
        *table(("exit code", "meaning"), ((str(number), told) for number, told in EXIT_CODES.items())),
        "",
        "`pit work` and `pit lock` with a command may end with that command's own code, or with 128 and the signal's number.",
        "",
        "With `--json` the error's code says more than the exit code. Codes are stable across releases; messages are not.",
        "",
        *table(("code", "exit code", "in Python", "meaning"), rows),
    )


def _first(thing: object) -> str:
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def schemas() -> dict[str, dict[str, Any]]:
    """The schemas of the package by name."""
    folder = os.path.join(os.path.dirname(taskpit.__file__), "schemas")
    found = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            found[name.removesuffix(".json")] = json.load(file)
    return found


def json_page() -> str:
    """The envelope and what stands in it."""
    known = schemas()
    lines = [
        "With `--json` a verb prints one line on standard output and nothing else; diagnostics go to standard error.",
        "",
        "```json",
        '{"schema": 1, "ok": true, "data": {"id": "0001", "created": true, "missing_needs": []}}',
        '{"schema": 1, "ok": false, "error": {"code": "not_found", "message": "...", "hint": "...", "details": {}}}',
        "```",
        "",
        "`schema` grows when something that programs rely on goes away or changes its meaning. New keys may come at any time: ignore what you",
        "do not know. Times are ISO 8601 in UTC, or `null`. Verbs that take several ids print an object for one and a list for several.",
        "`pit log -f`, `pit logs -f` and `pit watch` print an envelope for every line; `pit web` and `pit mcp --http` print one with the",
        "address once they listen. `pit export` without `-o` prints its own lines and no envelope.",
        "",
        "The schemas (JSON Schema 2020-12) are files of the package, in `taskpit/schemas/`.",
    ]
    lines += ["", "## What each verb prints", "", *table(("verb", "`data`"), _data_rows(known["data"]["$defs"]))]
    for name, schema in known.items():
        if name not in ("data", "envelope"):
            lines += ["", f"## {name.capitalize()}", "", schema["description"], "", *_properties(schema)]
    return page("JSON", *lines)


def _data_rows(verbs: Mapping[str, dict[str, Any]]) -> list[tuple[str, str]]:
    return [(f"[{name}](commands.md#{name})", _shape(schema)) for name, schema in verbs.items()]


def _shape(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].removesuffix(".json")
        return f"[{name}](#{name})"
    if "anyOf" in schema:
        return ", or ".join(_shape(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"a list of {_shape(schema['items'])}" if schema["items"] else "a list"
    if "properties" in schema:
        return "{" + ", ".join(f"`{key}`" for key in schema["properties"]) + "}"
    if "allOf" in schema:
        return " and ".join(_shape(one) for one in schema["allOf"])
    return prose(schema.get("description", "")) or _kind(schema)


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    kinds = schema.get("type", "anything")
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)


def _properties(schema: dict[str, Any]) -> list[str]:
    parts = schema.get("allOf", [schema])
    refs = [
        f"All of [{part['$ref'].removesuffix('.json')}](#{part['$ref'].removesuffix('.json')}), and:"
        for part in parts
        if "$ref" in part
    ]
    rows = []
    for part in parts:
        for key, told in part.get("properties", {}).items():
            shape = _shape(told) if {"$ref", "anyOf"} & set(told) or told.get("type") == "array" else _kind(told)
            rows.append((code(key), shape, prose(told.get("description", ""))))
    return [*refs, *([""] if refs else []), *table(("key", "value", "meaning"), rows)]


def python() -> str:
    """The public names with their methods and fields."""
    lines = [
        "`import taskpit` gives these names, loaded when first used. Everything else may change between releases, except",
        "`taskpit.testing`, the contract that every store keeps.",
    ]
    for name in sorted(taskpit.__all__):
        thing = getattr(taskpit, name)
        if not inspect.isclass(thing):
            continue
        lines += ["", f"## {name}", "", prose(_about(thing))]
        if issubclass(thing, Value):
            lines += ["", *_value(thing)]
        elif issubclass(thing, str):
            lines += ["", ", ".join(f"`{word}`" for word in thing)]
        lines += _methods(thing)
    return page("Python", *lines)


def _about(thing: object) -> str:
    return inspect.getdoc(thing) or ""


def _value(kind: type[Value]) -> list[str]:
    about = {
        name: told
        for base in reversed(kind.__mro__)
        if issubclass(base, Value) and base is not Value
        for name, told in fields(base).items()
    }
    rows = []
    for name in kind._fields:
        default = repr(kind._defaults[name]) if name in kind._defaults else "needed"  # noqa: SLF001
        rows.append((code(name), code(default) if default != "needed" else default, prose(about.get(name, ""))))
    return table(("field", "default", "meaning"), rows) if rows else []


def _methods(kind: type) -> list[str]:
    lines: list[str] = []
    for name, member in vars(kind).items():
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if name.startswith("_") or name in ("replace", "as_dict"):
            continue
        if isinstance(plain, property):
            lines += ["", f"### {kind.__name__}.{name}", "", prose(_about(plain))]
        elif inspect.isfunction(plain):
            lines += [
                "",
                f"### {kind.__name__}.{name}",
                "",
                f"```python\n{name}{_signature(plain)}\n```",
                "",
                prose(_about(plain)),
            ]
    return lines


def _signature(function: Callable[..., object]) -> str:
    """As one writes it: annotations without quotes, without `self`."""
    told = inspect.signature(function)
    words = []
    starred = False
    for name, one in told.parameters.items():
        if name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        default = "" if one.default is one.empty else f" = {one.default!r}"
        words.append(f"{name}: {one.annotation}{default}")
    back = "" if told.return_annotation in ("None", None) else f" -> {told.return_annotation}"
    return f"({', '.join(words)}){back}"


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "configuration.md": configuration,
    "exit-codes.md": exit_codes,
    "json.md": json_page,
    "python.md": python,
}


def stale() -> list[str]:
    """The pages that are not as the program would write them."""
    found = []
    for name, write in PAGES.items():
        try:
            with open(os.path.join(TARGET, name), encoding="utf-8") as file:
                same = file.read() == write()
        except FileNotFoundError:
            same = False
        if not same:
            found.append(name)
    return found


def main() -> int:
    """Write the pages, or look at them."""
    importlib.invalidate_caches()
    if "--check" in sys.argv:
        found = stale()
        print(f"stale: {', '.join(found)}; `make reference` writes them" if found else "the reference is up to date")
        return 1 if found else 0
    os.makedirs(TARGET, exist_ok=True)
    for name, write in PAGES.items():
        with open(os.path.join(TARGET, name), "w", encoding="utf-8") as file:
            file.write(write())
    return 0


if __name__ == "__main__":
    sys.exit(main())
