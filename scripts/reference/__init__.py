"""Writes docs/reference/ from the program itself: its parsers, settings, errors, schemas and docstrings."""

from __future__ import annotations

import os

from reference.commands import commands, exit_codes
from reference.data import json_page
from reference.names import fields, python
from reference.settings import configuration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PAGES", "commands", "configuration", "fields", "stale", "write"]

TARGET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "reference")
PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "configuration.md": configuration,
    "exit-codes.md": exit_codes,
    "json.md": json_page,
    "python.md": python,
}


def stale() -> list[str]:
    """The pages that are not as the program would write them."""
    found = []
    for name, make in PAGES.items():
        try:
            with open(os.path.join(TARGET, name), encoding="utf-8") as file:
                same = file.read() == make()
        except FileNotFoundError:
            same = False
        if not same:
            found.append(name)
    return found


def write() -> None:
    """Every page is as the program would write it."""
    os.makedirs(TARGET, exist_ok=True)
    for name, make in PAGES.items():
        with open(os.path.join(TARGET, name), "w", encoding="utf-8") as file:
            file.write(make())
