"""Immutable records. Knows nothing about tasks; stands where `dataclasses` would if it were free.

Importing `dataclasses` costs a command about ten milliseconds, as much as starting Python, because it
pulls in `inspect`. A `Value` gives what we use of it: keyword construction from the annotations,
defaults, equality, a readable `repr`, no assignment, and `replace`. Type checkers see a frozen
keyword-only dataclass.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, Self, dataclass_transform
else:

    def dataclass_transform(**_: object) -> Callable[[type], type]:
        """At run time there is nothing to transform."""
        return lambda cls: cls


__all__ = ["Value"]


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=True)
class Value:
    """A record whose fields are its annotations; two are equal when type and fields are."""

    _fields: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        annotations = cls.__dict__.get("__annotations__", {})  # noqa: RUF063 - inspect is what we avoid
        own = [name for name in annotations if not name.startswith("_")]
        cls._fields = (*cls._fields, *(name for name in own if name not in cls._fields))
        given = {name: cls.__dict__[name] for name in own if name in cls.__dict__}
        cls._defaults = {**cls._defaults, **given}

    if not TYPE_CHECKING:

        def __init__(self, **given: object) -> None:
            fields = self.__dict__
            fields.update(self._defaults)
            fields.update(given)
            if len(fields) != len(self._fields) or not fields.keys() <= set(self._fields):
                self._refuse(given)

    def _refuse(self, given: dict[str, object]) -> None:
        unknown = sorted(given.keys() - set(self._fields))
        missing = sorted(set(self._fields) - self.__dict__.keys())
        raise TypeError(f"{type(self).__name__}: unknown fields {unknown}, missing {missing}")

    def replace(self, **changes: Any) -> Self:
        """A copy with these fields changed."""
        return type(self)(**{**self.__dict__, **changes})

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, in order of declaration."""
        return {name: self.__dict__[name] for name in self._fields}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; use replace({name}=...)")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *(str(value) for value in self.__dict__.values())))

    def __repr__(self) -> str:
        shown = (
            f"{name}={self.__dict__[name]!r}"
            for name in self._fields
            if name not in self._defaults or self.__dict__[name] != self._defaults[name]
        )
        return f"{type(self).__name__}({', '.join(shown)})"
