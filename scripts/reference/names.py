"""The public names of the package with their methods and fields: from signatures, docstrings and comments."""

from __future__ import annotations

import inspect
import re

import taskpit
from reference.markdown import code, page, prose, table
from taskpit.model import Value, defaults

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


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
    rows, usual = [], defaults(kind)
    for name in kind.__struct_fields__:
        default = repr(usual[name]) if name in usual else "needed"
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
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        words.append(f"{stars}{name}: {one.annotation}{default}")
    back = "" if told.return_annotation in ("None", None) else f" -> {told.return_annotation}"
    return f"({', '.join(words)}){back}"


def fields(kind: type[Value]) -> dict[str, str]:
    """What the comment right above each field of a value says of it."""
    found: dict[str, str] = {}
    comment: list[str] = []
    kinds = [one for one in reversed(kind.__mro__) if one is not Value and issubclass(one, Value)]
    for line in [line for one in kinds for line in inspect.getsource(one).splitlines()]:
        told = line.strip()
        if told.startswith("#:"):
            comment.append(told[2:].strip())
            continue
        field = re.match(r"    ([a-z_]+): ", line)
        if field and field[1] in kind.__struct_fields__:
            found[field[1]] = " ".join(comment)
        comment = []
    return found


def first_sentence(thing: object) -> str:
    """What its docstring begins with, on one line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
