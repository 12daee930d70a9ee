"""Some of the tests: a plugin of pytest, `--share 3/11`, `--matching WORDS` and `--turn 3/4:COSTS`.

A share is one of so many equal parts, all of which together are the suite. What matches is every test in whose source,
or in that of the fixtures and helpers it uses, the regular expression is found. With both: what is in either. A turn
leaves out of these, of the tests that are dear by a file of `--keep-costs`, all but one of so many parts.
"""

from __future__ import annotations

import functools
import json
import linecache
import os
import re
from types import CodeType, FunctionType
from zlib import crc32

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds of processor from which on a test is dear.
DEAR = 0.1
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", metavar="K/N", help="the K-th of N parts of the tests")
    parser.addoption("--turn", metavar="K/N:FILE", help="of the tests that are dear by this file the K-th of N parts")
    parser.addoption("--matching", metavar="REGEX", help="the tests in whose source, fixtures or helpers this is found")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    share, words, turn = config.option.share, config.option.matching, config.option.turn
    found = list(items)
    if share or words:
        found = [item for item in items if (share and is_in(item, share)) or (words and matches(item, words))]
    if turn:
        part, _, path = turn.partition(":")
        with open(path, encoding="utf-8") as file:
            costs = json.load(file)
        found = [item for item in found if costs.get(item.nodeid, 0.0) < DEAR or is_in(item, part)]
    config.hook.pytest_deselected(items=list(set(items).difference(found)))
    items[:] = found


def is_in(item: pytest.Item, part: str) -> bool:
    """Whether it belongs to this part, `3/11`."""
    here, parts = map(int, part.split("/"))
    return crc32(item.nodeid.encode()) % parts == here % parts


def matches(item: pytest.Item, words: str) -> bool:
    """Whether its source, or that of what it uses, has these words."""
    used = {name: found for name, found in item._fixtureinfo.name2fixturedefs.items() if name != "world"}  # all use it
    fixtures = [one.func for found in used.values() for one in found]
    return any(
        _found(function, words, 4)
        for function in map(_bare, (item.function, *fixtures))
        if isinstance(function, FunctionType) and function.__code__.co_filename.startswith(TESTS)
    )


def _bare(function: object) -> object:
    function = getattr(function, "__func__", function)
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


@functools.cache
def _found(function: FunctionType, words: str, depth: int) -> bool:
    codes = list(_codes(function.__code__))
    first = function.__code__.co_firstlineno
    last = max(line for code in codes for *_, line in code.co_lines() if line)
    if re.search(words, "".join(linecache.getlines(function.__code__.co_filename)[first - 1 : last])):
        return True
    names = {name for code in codes for name in code.co_names}
    return depth > 0 and any(_found(one, words, depth - 1) for name in names for one in _helpers(function, name))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _helpers(function: FunctionType, name: str) -> Iterator[FunctionType]:
    """The functions of the tests that this name stands for; of a class, all of its own."""
    helper = _bare(function.__globals__.get(name))
    for one in [*map(_bare, vars(helper).values())] if isinstance(helper, type) else [helper]:
        if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(TESTS):
            yield one
