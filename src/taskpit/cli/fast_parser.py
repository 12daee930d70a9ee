"""Plain command lines, read without loading `argparse`: it costs a claim as much as the claim itself.

A verb declares its arguments once, to whatever parser it is given. This one understands options that are
written out in full, each with its value after it, and positional words. Anything else (help, `--a=b`,
`-xVALUE`, a value that is refused, a word too many) is left to argparse, which then says what is wrong.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

#: A default that is none: what argparse calls so.
SUPPRESS = "==SUPPRESS=="


class NotPlain(Exception):
    """This line needs a real parser."""


class Plain:
    """The arguments by name, as `argparse.Namespace` has them."""

    def __init__(self, **known: Any) -> None:
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class _Option:
    """One declared argument."""

    __slots__ = ("action", "choices", "const", "default", "dest", "flags", "nargs", "read", "required")

    def __init__(self, flags: Sequence[str], said: dict[str, Any]) -> None:
        self.flags = [flag for flag in flags if flag.startswith("-")]
        long = next((flag for flag in self.flags if flag.startswith("--")), flags[0])
        self.dest: str = said.get("dest") or long.lstrip("-").replace("-", "_")
        self.action: str = said.get("action", "store")
        self.nargs: Any = said.get("nargs")
        self.default: Any = said.get("default", False if self.action == "store_true" else None)
        self.const: Any = said.get("const")
        self.choices: Any = said.get("choices")
        self.required: bool = said.get("required", False)
        self.read: Callable[[str], Any] = said.get("type") or str

    def value(self, text: str) -> Any:
        """What the text means to this argument."""
        try:
            value = self.read(text)
        except Exception as error:
            raise NotPlain from error
        if self.choices is not None and value not in self.choices:
            raise NotPlain
        return value


class Quick:
    """Takes the same declarations as `argparse.ArgumentParser` does, and reads plain lines."""

    def __init__(self) -> None:
        self.description = ""
        self.epilog = ""
        self._flags: dict[str, _Option] = {}
        self._words: list[_Option] = []
        self._defaults: dict[str, Any] = {}
        self._exclusive: list[_Exclusive] = []

    def add_argument(self, *flags: str, **said: Any) -> str:
        """Declare one; the name it goes by."""
        option = _Option(flags, said)
        if option.action not in ("store", "store_true", "append") or option.nargs not in (None, "?", "+", "*"):
            raise NotPlain
        if option.default != SUPPRESS:
            self._defaults[option.dest] = option.default
        if option.flags:
            self._flags.update(dict.fromkeys(option.flags, option))
        else:
            self._words.append(option)
        return option.dest

    def add_argument_group(self, *_: object) -> Quick:
        """Groups only matter to help texts."""
        return self

    def add_mutually_exclusive_group(self, **_: object) -> _Exclusive:
        """Arguments that exclude each other."""
        self._exclusive.append(_Exclusive(self))
        return self._exclusive[-1]

    def set_defaults(self, **_: object) -> None:
        """Verbs that pass a command on are not for us."""
        raise NotPlain

    def parse(self, words: Sequence[str]) -> Plain:
        """The arguments of a plain line."""
        found = dict(self._defaults)
        loose: list[str] = []
        given: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if not word.startswith("-") or word == "-":
                loose.append(word)
                continue
            option = self._flags.get(word)
            if option is None:
                raise NotPlain
            given.append(option.dest)
            self._give(option, rest, found)
        if any(option.required and option.dest not in given for option in self._flags.values()):
            raise NotPlain
        if any(sum(dest in group.dests for dest in given) > 1 for group in self._exclusive):
            raise NotPlain
        self._place(loose, found)
        return Plain(**found)

    def _give(self, option: _Option, rest: list[str], found: dict[str, Any]) -> None:
        if option.action == "store_true":
            found[option.dest] = True
            return
        if option.nargs is not None or not rest or rest[0].startswith("-"):
            raise NotPlain
        value = option.value(rest.pop(0))
        if option.action == "append":
            found[option.dest] = [*(found.get(option.dest) or []), value]
        else:
            found[option.dest] = value

    def _place(self, loose: list[str], found: dict[str, Any]) -> None:
        for option in self._words:
            if option.nargs in ("+", "*"):
                if not (loose or option.nargs == "*") or option is not self._words[-1]:
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


class _Exclusive:
    """Arguments of which a plain line has one at most."""

    def __init__(self, whole: Quick) -> None:
        self._whole = whole
        self.dests: set[str] = set()

    def add_argument(self, *flags: str, **said: Any) -> None:
        """Declare one."""
        self.dests.add(self._whole.add_argument(*flags, **said))
