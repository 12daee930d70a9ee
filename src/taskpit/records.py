"""Immutable records and closed sets of words. Knows nothing about tasks; stands where `dataclasses` and `enum`
would if they were free.

Importing `dataclasses` costs a command about ten milliseconds, as much as starting Python, because it
pulls in `inspect`; `enum` costs half of that. A `Value` gives what we use of the one: keyword construction
from the annotations, defaults, equality, a readable `repr`, no assignment, and `replace`. A `Word` gives
what we use of the other: members by name, by value and in order, each there once. Type checkers see a
frozen keyword-only dataclass, and a `StrEnum`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from enum import StrEnum as Word
    from typing import Any, ClassVar, Self, dataclass_transform
else:

    class _Words(type):
        """A set of words: iterable, and callable with a value."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, object]) -> type:
            """Strings among the attributes become members."""
            words = {key: value for key, value in body.items() if key.isupper() and isinstance(value, str)}
            made = super().__new__(cls, name, bases, {key: one for key, one in body.items() if key not in words})
            made._words = {}
            for key, value in words.items():
                made._words[value] = word = str.__new__(made, value)
                word.name, word.value = key, value
                setattr(made, key, word)
            return made

        def __iter__(cls) -> Iterator[Word]:
            return iter(cls._words.values())

        def __len__(cls) -> int:
            return len(cls._words)

        def __contains__(cls, value: object) -> bool:
            return value in cls._words

    class Word(str, metaclass=_Words):
        """One word of a closed set."""

        __slots__ = ("name", "value")

        def __new__(cls, value: str) -> Self:
            """The member with this value; ValueError if there is none."""
            try:
                return cls._words[value]
            except (KeyError, TypeError):
                raise ValueError(f"{value!r} is not a valid {cls.__name__}") from None

        def __repr__(self) -> str:
            return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

        def __str__(self) -> str:
            return self.value

        def __format__(self, spec: str) -> str:
            return format(self.value, spec)

    def dataclass_transform(**_: object) -> Callable[[type], type]:
        """At run time there is nothing to transform."""
        return lambda cls: cls


__all__ = ["Value", "Word"]

#: A process that makes so many values of a kind has a constructor written for that kind, if it has few fields: it takes
#: half as long, but to write it takes as long as a hundred values.
MANY, FEW = 32, 12


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=True)
class Value:
    """A record whose fields are its annotations; two are equal when type and fields are."""

    _fields: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}
    #: Every field with its default, and those that have none and must be given.
    _blank: ClassVar[dict[str, Any]] = {}
    _required: ClassVar[frozenset[str]] = frozenset()
    _kinds: ClassVar[dict[str, str]] = {}
    #: How many were made without a constructor of their own.
    _count: ClassVar[int] = 0

    def __init_subclass__(cls) -> None:
        annotations = cls.__dict__.get("__annotations__", {})  # noqa: RUF063 - inspect is what we avoid
        own = [name for name in annotations if not name.startswith("_")]
        cls._fields = (*cls._fields, *(name for name in own if name not in cls._fields))
        given = {name: cls.__dict__[name] for name in own if name in cls.__dict__}
        cls._defaults = {**cls._defaults, **given}
        cls._blank = {name: cls._defaults.get(name) for name in cls._fields}
        cls._required = frozenset(cls._fields) - cls._defaults.keys()
        cls._kinds = {**cls._kinds, **{name: annotations[name] for name in own}}
        if not TYPE_CHECKING:
            cls.__init__, cls._count = Value.__init__, 0  # not what was written for the kind above

    if not TYPE_CHECKING:

        def __init__(self, **given: object) -> None:
            fields, blank = self.__dict__, self._blank
            fields |= blank
            fields |= given
            if len(fields) != len(blank) or not given.keys() >= self._required:
                self._refuse(given)
            if len(blank) <= FEW:
                cls = type(self)
                cls._count += 1
                if cls._count >= MANY:
                    cls.__init__ = cls._constructor()

        @classmethod
        def _constructor(cls) -> Callable[..., None]:
            """The same, with each field by its name."""
            given = (name if name in cls._required else f"{name}=_blank[{name!r}]" for name in cls._fields)
            stored = (f"    _fields[{name!r}] = {name}" for name in cls._fields)
            lines = (f"def __init__(_self, *, {', '.join(given)}):", "    _fields = _self.__dict__", *stored)
            made = {"_blank": cls._blank}
            code = compile("\n".join(lines), f"{__file__}: {cls.__name__}", "exec")
            exec(code, made)  # noqa: S102 - names that stand in our own source, as `dataclasses` does it
            return made["__init__"]

    def _refuse(self, given: dict[str, object]) -> None:
        unknown = sorted(given.keys() - self._blank.keys())
        missing = sorted(self._required - given.keys())
        raise TypeError(f"{type(self).__name__}: unknown fields {unknown}, missing {missing}")

    @classmethod
    def kinds(cls) -> dict[str, str]:
        """What each field is, in the words of its annotation."""
        return cls._kinds

    @classmethod
    def with_fields(cls, fields: dict[str, Any]) -> Self:
        """One with these fields, as whoever read them has them; all others are blank."""
        made = object.__new__(cls)
        own = made.__dict__
        own |= cls._blank
        own |= fields
        if len(own) != len(cls._blank) or not fields.keys() >= cls._required:
            made._refuse(fields)
        return made

    def replace(self, **changes: Any) -> Self:
        """A copy with these fields changed."""
        copy = object.__new__(type(self))
        fields = copy.__dict__
        fields |= self.__dict__
        fields |= changes
        if len(fields) != len(self._blank):
            self._refuse({**self.__dict__, **changes})
        return copy

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, in order of declaration."""
        return {name: self.__dict__[name] for name in self._fields}

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)  # marks that are no fields are not copied

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
