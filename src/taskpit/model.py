"""The base of all values: immutable records with keyword fields, compared by type and fields."""

from __future__ import annotations

import inspect
from typing import Any, Self

from msgspec import NODEFAULT, Struct, structs


class Value(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """An immutable record; `replace` makes a changed copy."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with these fields changed."""
        return structs.replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, in order of declaration; values inside stay values."""
        return structs.asdict(self)

    def changed_fields(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults."""
        usual = defaults(type(self))
        return {
            name: value for name, value in structs.asdict(self).items() if name not in usual or value != usual[name]
        }

    @classmethod
    def kinds(cls) -> dict[str, str]:
        """Return the annotation of each field."""
        known: dict[str, str] = {}
        for base in cls.__mro__:
            known |= {name: kind for name, kind in inspect.get_annotations(base).items() if name not in known}
        return {name: known[name] for name in cls.__struct_fields__}


def defaults(kind: type[Value]) -> dict[str, Any]:
    """Return the default of each field that has one; a default that is made for each value is an empty mapping."""
    names, found = kind.__struct_fields__, kind.__struct_defaults__
    pairs = zip(names[len(names) - len(found) :], found, strict=True)
    return {
        name: usual.factory() if hasattr(usual, "factory") else usual for name, usual in pairs if usual is not NODEFAULT
    }
