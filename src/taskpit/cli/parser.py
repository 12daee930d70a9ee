"""Command lines, read with argparse. A verb declares its arguments once, as rows."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from taskpit.cli import output, verbs
from taskpit.cli.context import Arg, Usage

#: What every verb has.
COMMON: tuple[Arg, ...] = (
    (
        "-C DIR",
        "the queue, or a folder in it",
        {"dest": "directory", "default": argparse.SUPPRESS, "group": "every verb"},
    ),
    ("--json", "print one JSON object", {"default": argparse.SUPPRESS, "group": "every verb"}),
    ("-h --help", "show this help", {"action": "help", "group": "every verb"}),
)


class _Shown(Exception):
    """Help was asked for and printed; there is nothing to run."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help as it is written. Told the width, argparse need not import a dozen modules to find it out."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=min(output.terminal_width() - 2, 98))


class _Parser(argparse.ArgumentParser):
    """A parser that raises instead of ending the process."""

    #: What is being read, so that a mistake is named by its own word.
    words: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        text, hint = self._plainly(message)
        raise Usage(text, hint=f"{hint} `{self.prog} --help` shows how.".lstrip())

    def _plainly(self, message: str) -> tuple[str, str]:
        """What argparse complains about, in plain words, and what was probably meant."""
        known = self._option_string_actions
        mine = self.words[: self.words.index("--")] if "--" in self.words else self.words
        option = next((word for word in mine if word[:1] == "-" != word and word.partition("=")[0] not in known), "")
        what, _, which = message.partition(": ")
        if what in ("unrecognized arguments", "the following arguments are required") and option.startswith("--"):
            from difflib import get_close_matches

            names = {one.lstrip("-"): one for one in known}  # dashes make everything look alike
            near = get_close_matches(option.lstrip("-"), names, n=1)
            return f"there is no option {option}", f"Did you mean {names[near[0]]}?" if near else ""
        if what == "unrecognized arguments" and not which.startswith("-"):
            return f"too many words: {which}", "Put quotes around words that belong together."
        if what == "unrecognized arguments":
            return f"there is no option {which}", ""
        if what == "the following arguments are required":
            shown = (self.epilog or "").partition("\n")[2].partition("\n")[0].strip()
            return f"missing: {self._spelled(which)}", f"For example: `{shown}`." if shown else ""
        return message.removeprefix("argument ").replace("invalid choice: ", "not "), ""

    def _spelled(self, names: str) -> str:
        """Arguments by name; one that has no name is spelled by what it may be."""
        words = {action.dest: "|".join(action.choices) for action in self._actions if action.choices}
        return ", ".join(words.get(name, name) for name in names.split(", "))

    def usage_line(self) -> str:
        """How it is called, without what every verb has."""
        text = " ".join(self.format_usage().split()).removeprefix("usage: ")
        return text.replace(" [-C DIR] [--json] [-h]", "", 1)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:  # noqa: ARG002 - argparse's signature
        raise _Shown


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


def read(verb: verbs.Verb, words: list[str]) -> argparse.Namespace | None:
    """The arguments; None if help was asked for and shown."""
    parser = make_parser(verb)
    parser.words = words
    try:
        return _parse(parser, words)
    except _Shown:
        return None


def make_parser(verb: verbs.Verb) -> _Parser:
    """The parser of one verb, with what all verbs have."""
    handler = verbs.handler(verb)
    about, examples = handler.help()
    parser = _Parser(prog=f"pit {verb.name}", formatter_class=_Formatter, allow_abbrev=False, add_help=False)
    parser.usage = handler.usage or None
    parser.description, parser.epilog = about, "\n  ".join(["Example:", *examples])
    places: dict[str, Any] = {}
    for row in (*COMMON, *handler.rows):
        flags, said = declared(row)
        group, rival = row[2].get("group", ""), row[2].get("either", "")
        if group and group not in places:
            places[group] = parser.add_argument_group(group)
        elif rival and rival not in places:
            places[rival] = parser.add_mutually_exclusive_group()
        places.get(group or rival, parser).add_argument(*flags, **said)
    if handler.command:
        parser.set_defaults(command=())
    return parser


def _parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """The arguments; options may stand between them. What stands after `--` is a command, for verbs that have one."""
    if parser.get_default("command") is not None and "--" in words:
        end = words.index("--")
        args = _parse(parser, words[:end])
        args.command = words[end + 1 :]
        return args
    args, unknown = parser.parse_known_args(words)
    if not unknown:
        return args
    try:
        return parser.parse_intermixed_args(words)
    except TypeError:  # this verb passes the rest of its line on to a command
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
