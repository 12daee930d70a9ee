"""Command lines read with argparse: help, and whatever is not plain. Loaded only then."""

from __future__ import annotations

import argparse

from taskpit.cli import output
from taskpit.cli.context import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from taskpit.cli import table

__all__ = ["make_parser", "read"]


class _Shown(Exception):
    """Help was asked for and printed; there is nothing to run."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help as it is written. Told the width, argparse need not import a dozen modules to find it out."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=min(output.terminal_width() - 2, 98))


class _Parser(argparse.ArgumentParser):
    """A parser that raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise Usage(message, hint=f"`{self.prog} --help` shows how.")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:  # noqa: ARG002 - argparse's signature
        raise _Shown


def read(verb: table.Verb, arguments: Callable[[Any], None], words: list[str]) -> argparse.Namespace | None:
    """The arguments; None if help was asked for and shown."""
    parser = make_parser(verb)
    arguments(parser)
    try:
        return _parse(parser, words)
    except _Shown:
        return None


def make_parser(verb: table.Verb) -> argparse.ArgumentParser:
    """The parser of one verb, with what all verbs have."""
    parser = _Parser(prog=f"pit {verb.name}", formatter_class=_Formatter, allow_abbrev=False, add_help=False)
    common = parser.add_argument_group("every verb")
    none = argparse.SUPPRESS
    common.add_argument("-C", dest="directory", metavar="DIR", default=none, help="the queue, or a folder below it")
    common.add_argument("--json", action="store_true", default=none, help="one JSON envelope on standard output")
    common.add_argument("-h", "--help", action="help", help="show this and end")
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
