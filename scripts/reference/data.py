"""What verbs print for programs: from the schemas of the package."""

from __future__ import annotations

import json
import os

import taskpit
from reference.markdown import code, page, prose, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


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
        "`pit log -f` and `pit status -f` print an envelope for every line; `pit board --web` and `pit mcp --http` print one with the",
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
