"""What a value read back from a file, a database or an agent may be: checked here before anything acts on it. Pure.

Each noun is a `Value` whose annotations say what its fields are; this is the one place that reads JSON, YAML and rows
against them: no other fields, every element of the right kind, numbers finite and in range, texts of bounded length,
nothing nested beyond reason. Also here: what an id is, since an id becomes part of a path.
"""

from __future__ import annotations

from taskpit.clock import FIRST, LAST
from taskpit.config import Limit
from taskpit.errors import Invalid
from taskpit.model import Evidence, Result, Try, Verdict
from taskpit.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Any, TypeVar

    from taskpit.model import Value

    V = TypeVar("V", bound=Value)

#: What every id is made of, whatever the layout; each may allow less.
ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#: Bytes an id or a worker's name may have, so that every name built from them fits a directory entry.
LONGEST_WORD = 64
OF_WORDS = f"{ALNUM}._-"

#: The largest whole number that every reader of JSON reads as it is.
LARGEST = 2**53
#: Letters of a text that is a line or a paragraph, and of one that is a whole page.
LONGEST_TEXT, LONGEST_PAGE = 1 << 20, 1 << 26
PAGES = frozenset(("body", "output", "tail"))
#: How many values a list may have, how many there may be in all, and how deeply they may be nested.
MOST, MOST_INSIDE, DEEPEST = 100_000, 1_000_000, 100
#: Whole numbers and numbers that may be below zero, by their field; all others count something.
BELOW_ZERO = frozenset(("priority", "exit_code", "offset"))
#: Numbers that are times: people write some before 1970.
TIMES = frozenset(("created", "updated", "not_before", "at", "finished", "since"))


def is_word(text: str) -> bool:
    """Whether any layout could have a task of this id: what else is written for one is nobody's."""
    return 0 < len(text) <= LONGEST_WORD and ".." not in text and text[0] in ALNUM and not text.strip(OF_WORDS)


def name_of(task_id: str, rest: str = "", before: str = "") -> str:
    """The name of what is called after a task. No id becomes part of a name but here.

    Invalid if the name would lead anywhere else.
    """
    name = f"{before}{task_id}{rest}"
    if (task_id not in _seen and not _see(task_id)) or "/" in name or "\0" in name:
        raise Invalid(f"{task_id[:80]!r} cannot be part of a file's name", hint="Use the id that `pit list` shows.")
    return name


#: Ids that were found to be words lately: each verb makes several names of the same one.
_seen: set[str] = set()


def _see(task_id: str) -> bool:
    """Whether it is a word, which is remembered."""
    if not is_word(task_id):
        return False
    if len(_seen) >= 1024:
        _seen.clear()
    _seen.add(task_id)
    return True


def path_of(folder: str, task_id: str, rest: str = "", before: str = "") -> str:
    """The path of what is called after a task, in this folder; Invalid if it would lead anywhere else."""
    return f"{folder}/{name_of(task_id, rest, before)}"


def amount(value: object, most: float = LAST) -> float:
    """A number that counts something: finite, not below zero, at most `most`; 0 for what is none of that."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return 0.0
    return float(value) if value <= most else most


def is_number(value: object) -> bool:
    """Whether it is a number at all, also one without end."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value  # noqa: PLR0124 - NaN


def fits(kind: type[Value], name: str, value: object) -> bool:
    """Whether this field of such a value may have this value."""
    try:
        field(name, value, kind.kinds()[name])
    except Invalid:
        return False
    return True


def place(cursor: str, *shapes: tuple[type, ...]) -> tuple[int, list[Any]]:
    """Where a cursor points in a listing: at a rank, behind a key of that rank's shape. Invalid otherwise."""
    try:
        rank, key = read_json(cursor)
        shape = shapes[whole("rank", rank)]
        kinds = [
            float if kind is float and type(one) is int else type(one) for one, kind in zip(key, shape, strict=True)
        ]
        if kinds == list(shape):
            return rank, key
    except (ValueError, TypeError, IndexError, Invalid):
        pass
    raise Invalid(f"{cursor[:40]!r} is not a place in a listing", hint="Begin again without it.")


def word(text: str) -> str:
    """A name that may be part of a path; Invalid if it may not."""
    if not is_word(text):
        raise Invalid(f"{text[:80]!r} cannot be part of a file's name")
    return text


def load_result(fields: object) -> Result:
    """A result with its evidence, as JSON has them; Invalid names what is wrong."""
    return with_evidence(Result, fields)


def load_try(fields: object) -> Try:
    """An attempt with its evidence, as JSON has them; Invalid names what is wrong."""
    return with_evidence(Try, fields)


def with_evidence(kind: type[V], fields: object) -> V:
    """A value that has evidence, as JSON has both; Invalid names what is wrong."""
    evidence = fields.get("evidence") if isinstance(fields, dict) else None
    return load(kind, fields, evidence=load(Evidence, evidence) if evidence else None)


def load(kind: type[V], fields: object, **given: object) -> V:
    """The value these fields say, as they were read; `given` are known already. Invalid names what is wrong."""
    if given and isinstance(fields, dict):
        fields = {name: value for name, value in fields.items() if name not in given}
    checked = check(kind, fields)
    try:
        return kind(**checked, **given)
    except TypeError as error:
        raise Invalid(str(error)) from None


def check(kind: type[Value], fields: object, only: Collection[str] = ()) -> dict[str, Any]:
    """These fields, each as this kind of value has it; `only` these if some are named. Invalid names what is wrong."""
    if not isinstance(fields, dict):
        raise Invalid(f"it is not a JSON object but {_shown(fields)}")
    kinds = kind.kinds()
    for name in fields:
        if kinds.get(name, "").partition(" | ")[0] not in _READERS or (only and name not in only):
            raise Invalid(f"{name!r:.80} is no field that may stand here", field=str(name)[:80])
    return {name: field(name, value, kinds[name]) for name, value in fields.items()}


def field(name: str, value: object, kind: str) -> object:
    """One field by the words of its annotation; Invalid names it."""
    kind, _, other = kind.partition(" | ")
    if value is None and other == "None":
        return None
    try:
        return _READERS[kind](name, value)
    except (TypeError, ValueError) as error:
        raise Invalid(f"{name!r} is {_shown(value)}: {error}", field=name) from None


def whole(name: str, value: object) -> int:
    """A whole number that can be written anywhere; TypeError or ValueError if it is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("it should be a whole number")
    if not (-LARGEST if name in BELOW_ZERO else 0) <= value <= LARGEST:
        raise ValueError("the number is too small or too large")
    return int(value)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("it should be a number")
    least = FIRST if name in TIMES else -LAST if name in BELOW_ZERO else 0
    if not least <= value <= LAST:  # also if it is none
        raise ValueError("the number is too small or too large")
    return float(value)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("it should be text")
    if len(value) > (LONGEST_PAGE if name in PAGES else LONGEST_TEXT):
        raise ValueError("it is too long")
    return str(value)


def _words(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError("it should be a list of texts")
    if len(value) > MOST:
        raise ValueError(f"it has more than {MOST} entries")
    for one in value:
        if not isinstance(one, str):
            raise TypeError(f"{_shown(one)} stands where text should")
        if name == "limits":
            Limit.of(one)
    return tuple(_text(name, one) for one in value)


def _verdict(_: str, value: object) -> Verdict:
    return Verdict(value)  # type: ignore[arg-type] # ValueError, whatever it is


def _flag(_: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("it should be true or false")
    return value


def _mapping(_: str, value: object) -> dict[str, Any]:
    """Fields we have no word for: any plain values, finite, not too many and not too deep."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise TypeError("it should be a JSON object")
    count, level = 0, list(value.values())
    for _deep in range(DEEPEST):
        inside: list[Any] = level
        count += len(inside)
        if count > MOST_INSIDE:
            raise ValueError("it has too many values inside")
        if not all(isinstance(one, PLAIN) for one in inside):
            raise TypeError("it has values that are no text, number, list or object")
        if any(isinstance(one, float) and one - one != 0 for one in inside):
            raise ValueError("it has a number without end")
        outer = [one for one in inside if isinstance(one, dict | list | tuple)]
        level = [one for many in outer for one in (many.values() if isinstance(many, dict) else many)]
        if not outer:
            return dict(value)
    raise ValueError("it is nested too deeply")


def _shown(value: object) -> str:
    text = repr(value) if not isinstance(value, dict | list) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:60]}..."


#: What may stand in a field that we have no word for.
PLAIN = (str, int, float, dict, list, tuple, type(None))

_READERS: Mapping[str, Callable[[str, object], object]] = {
    "str": _text,
    "int": whole,
    "float": _number,
    "bool": _flag,
    "Verdict": _verdict,
    "tuple[str, ...]": _words,
    "Mapping[str, object]": _mapping,
}


def several(name: str, given: Iterable[str]) -> tuple[str, ...]:
    """A text is a sequence of letters, which no type checker minds: taken as such it would need task 0, 0, 0 and 1."""
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise Invalid(f"{name} is several texts, not one", hint=f"Write {name}=[{given!r}].")
    texts = tuple(given)
    field(name, texts, "tuple[str, ...]")
    return texts
