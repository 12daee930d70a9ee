"""Plain command lines, read without loading `argparse`: it costs a claim as much as the claim itself.

A verb declares its arguments once, as rows. Here options are understood that are written out in full, each with its
value after it, positional words, and a command after `--`. Anything else (help, `--a=b`,
`-xVALUE`, a value that is refused, a word too many) is left to argparse, which then says what is wrong.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from taskpit.cli.context import Arg, Handler

#: A default that is none: what argparse calls so.
SUPPRESS = "==SUPPRESS=="
#: All that follows, whatever it is: what argparse calls so.
REMAINDER = "..."
#: What every verb has.
COMMON: tuple[Arg, ...] = (
    ("-C DIR", "the queue, or a folder below it", {"dest": "directory", "default": SUPPRESS, "group": "every verb"}),
    ("--json", "one JSON envelope on standard output", {"default": SUPPRESS, "group": "every verb"}),
    ("-h --help", "show this and end", {"action": "help", "group": "every verb"}),
)


class NotPlain(Exception):
    """This line needs a real parser."""


class Plain:
    """The arguments by name, as `argparse.Namespace` has them."""

    def __init__(self, **known: Any) -> None:
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def declared(row: Arg) -> tuple[list[str], dict[str, Any]]:
    """The argument as `argparse` is told of it: its flags, or its one name, and all else by name."""
    spelled, about, more = row
    words = spelled.split()
    flags = [word for word in words if word.startswith("-")]
    said = {"help": about, **{key: value for key, value in more.items() if key not in ("group", "either")}}
    if not flags:
        name = said.pop("dest", words[0].lower())
        return [name], said if words[0] == name else {"metavar": words[0], **said}
    if len(flags) < len(words):
        said["metavar"] = words[-1]
    elif not ("action" in said or "choices" in said):
        said["action"] = "store_true"
    return flags, said


class _Option:
    """One declared argument."""

    __slots__ = ("action", "choices", "default", "dest", "either", "flags", "nargs", "read", "required")

    def __init__(self, row: Arg) -> None:
        flags, said = declared(row)
        self.flags = flags if flags[0].startswith("-") else []
        long = next((flag for flag in self.flags if flag.startswith("--")), flags[0])
        self.dest: str = said.get("dest") or long.lstrip("-").replace("-", "_")
        self.action: str = said.get("action", "store")
        self.nargs: Any = said.get("nargs")
        self.default: Any = said.get("default", {"store_true": False, "store_false": True}.get(self.action))
        self.choices: Any = said.get("choices")
        self.required: bool = said.get("required", False)
        self.read: Callable[[str], Any] = said.get("type") or str
        self.either: str = row[2].get("either", "")

    def value(self, text: str) -> Any:
        """What the word means; NotPlain if it means nothing."""
        try:
            value = self.read(text)
        except Exception as error:
            raise NotPlain from error
        if self.choices is not None and value not in self.choices:
            raise NotPlain
        return value


def read_plain(handler: Handler, words: Sequence[str]) -> Plain:
    """The arguments of a plain line."""
    options = [_Option(row) for row in (*COMMON[:2], *handler.rows)]
    command = next((one for one in options if one.nargs == REMAINDER), None)
    plain = [one for one in options if one is not command]
    if handler.command or any(
        one.action not in ("store", "store_true", "store_false", "append") or one.nargs not in (None, "?", "+", "*")
        for one in plain
    ):
        raise NotPlain
    flags = {flag: option for option in options for flag in option.flags}
    found = {option.dest: option.default for option in options if option.default != SUPPRESS}
    loose: list[str] = []
    given: list[_Option] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--" and command is not None:
            found[command.dest], rest = [word, *rest], []
            continue
        if not word.startswith("-") or word == "-":
            loose.append(word)
            continue
        option = flags.get(word)
        if option is None:
            raise NotPlain
        given.append(option)
        _give(option, rest, found)
    if any(option.required and option not in given for option in flags.values()):
        raise NotPlain
    rivals = [option.either for option in given if option.either]
    if len(rivals) > len(set(rivals)):
        raise NotPlain
    if command is not None and (loose or found[command.dest] is None):
        raise NotPlain
    _place([option for option in plain if not option.flags], loose, found)
    return Plain(**found)


def _give(option: _Option, rest: list[str], found: dict[str, Any]) -> None:
    if option.action in ("store_true", "store_false"):
        found[option.dest] = option.action == "store_true"
        return
    if option.nargs is not None or not rest or rest[0].startswith("-"):
        raise NotPlain
    value = option.value(rest.pop(0))
    if option.action == "append":
        found[option.dest] = [*(found.get(option.dest) or []), value]
    else:
        found[option.dest] = value


def _place(options: list[_Option], loose: list[str], found: dict[str, Any]) -> None:
    for option in options:
        if option.nargs in ("+", "*"):
            if not (loose or option.nargs == "*") or option is not options[-1]:
                raise NotPlain
            found[option.dest] = [option.value(word) for word in loose]
            loose = []
        elif loose:
            found[option.dest] = option.value(loose[0])
            loose = loose[1:]
        elif option.nargs is None:
            raise NotPlain
    if loose:
        raise NotPlain
