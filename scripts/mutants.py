"""What the tests of a room notice: one small change to its code at a time, and whether a test fails.

    python scripts/mutants.py --count 30 src/taskpit/policy.py -- tests/policy

Which changes are tried is decided by --seed. The tests are read once and run once, to learn which of them come by the
changed lines and what they take; each change is then tried in a forked process, by those tests, the cheapest first.
Prints for each change the test that noticed it, or that none did: a hole in the tests, or a change that means nothing.
Programs that a test starts run the code as it is.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import gc
import glob
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import pairwise
from types import FunctionType
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import CodeType, FrameType, ModuleType

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}


class Mutant(NamedTuple):
    """A change to one line of a file: in which function, which begins where, and the file's code with it."""

    path: str
    line: int
    function: int
    what: str
    tree: ast.Module

    def __str__(self) -> str:
        return f"{os.path.relpath(self.path)}:{self.line}: {self.what}"


def changed(node: ast.AST) -> ast.AST | None:
    """The node with one small change; None if there is none to make."""
    new = copy.copy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in SWAPS:
        new.ops = [SWAPS[type(new.ops[0])](), *new.ops[1:]]  # type: ignore[list-item]
    elif isinstance(new, ast.BoolOp | ast.BinOp) and type(new.op) in SWAPS:
        new.op = SWAPS[type(new.op)]()  # type: ignore[assignment]
    elif isinstance(new, ast.UnaryOp) and isinstance(new.op, ast.Not):
        return new.operand
    elif isinstance(new, ast.Constant) and isinstance(new.value, bool):
        new.value = not new.value
    elif isinstance(new, ast.Constant) and isinstance(new.value, int | float):
        new.value += 1
    elif isinstance(new, ast.Expr) and isinstance(new.value, ast.Call):
        return ast.copy_location(ast.Pass(), new)
    else:
        return None
    return new


def mutants(path: str) -> Iterator[Mutant]:
    """Every change of that kind to what a function does. Its tree is good until the next is asked for."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for function in _outermost(tree):
        begins = min(node.lineno for node in (function, *function.decorator_list))
        for parent in [node for part in function.body for node in ast.walk(part)]:
            for field, value in list(ast.iter_fields(parent)):
                places = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
                for index, node in places:
                    new = changed(node) if isinstance(node, ast.expr | ast.stmt) and field != "annotation" else None
                    if new is None:
                        continue
                    _put(parent, field, index, new)
                    what = f"{ast.unparse(node)}  ->  {ast.unparse(new)}"
                    yield Mutant(path, node.lineno, begins, what, tree)
                    _put(parent, field, index, node)


def everywhere(paths: Sequence[str]) -> Iterator[Mutant]:
    """Those of all modules, also of directories."""
    for path in paths:
        found = glob.glob(f"{path}/**/*.py", recursive=True) if os.path.isdir(path) else [path]
        for one in sorted(map(os.path.realpath, found)):
            yield from mutants(one)


def _outermost(node: ast.AST) -> Iterator[ast.FunctionDef]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield child
        elif not isinstance(child, ast.AsyncFunctionDef | ast.Lambda):
            yield from _outermost(child)


def _put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


class Loader(SourceFileLoader):
    """Loads one module from a changed tree."""

    def __init__(self, name: str, mutant: Mutant) -> None:
        super().__init__(name, mutant.path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - it has one module
        """The changed code."""
        return compile(ast.fix_missing_locations(self._mutant.tree), self._mutant.path, "exec")


class Finder(MetaPathFinder):
    """Finds the module of a mutant before anybody else does."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module if it is the changed one."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname.startswith("taskpit") else None
        if spec is None or spec.origin is None or os.path.realpath(spec.origin) != self._mutant.path:
            return None
        spec.loader = Loader(fullname, self._mutant)
        return spec


def put_in(mutant: Mutant) -> None:
    """Change the functions that are here already, and the module if it is still to be loaded."""
    sys.meta_path.insert(0, Finder(mutant))
    whole = compile(ast.fix_missing_locations(mutant.tree), mutant.path, "exec")
    new = {code.co_qualname: code for code in _codes(whole) if code.co_firstlineno == mutant.function}
    gc.unfreeze()  # what is frozen is not listed
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_firstlineno == mutant.function:
            code = new.get(one.__code__.co_qualname)
            if code is not None and os.path.realpath(one.__code__.co_filename) == mutant.path:
                one.__code__ = code


def _codes(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if hasattr(one, "co_code"):
            yield one
            yield from _codes(one)


class Trail:
    """Which of these functions and lines a test comes by."""

    def __init__(self, places: set[tuple[str, int]], functions: set[tuple[str, int]]) -> None:
        self._places, self._functions = places, functions
        self._paths: dict[str, str] = {}
        self.seen: set[tuple[str, int]] = set()

    def __enter__(self) -> set[tuple[str, int]]:
        threading.settrace(self._called)
        sys.settrace(self._called)
        return self.seen

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    def _called(self, frame: FrameType, *_: object) -> object:
        name = frame.f_code.co_filename
        path = self._paths.get(name) or self._paths.setdefault(name, os.path.realpath(name))
        first = path, frame.f_code.co_firstlineno
        if first not in self._functions:
            return None
        self.seen.add(first)

        def line(frame: FrameType, event: str, _: object) -> object:
            if event == "line" and (path, frame.f_lineno) in self._places:
                self.seen.add((path, frame.f_lineno))
            return line

        return line


class Trial:
    """A plugin: instead of running the tests once, it runs those that matter with each change."""

    def __init__(self, chosen: Sequence[Mutant], limit: float) -> None:
        self._chosen, self._limit = chosen, limit
        self.killed = 0

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """The tests as they are, then with each change."""
        places, costs = self._known(session)
        by_name = {item.nodeid: item for item in session.items}
        for mutant in self._chosen:
            names = places[mutant.path, mutant.line] or places[mutant.path, mutant.function]
            items = [by_name[name] for name in sorted(names, key=lambda name: costs[name])]
            who = self._noticed(session, mutant, items)
            self.killed += bool(who)
            print(f"{mutant}\n    {f'noticed by {who}' if who else f'not noticed by {len(items)} tests'}", flush=True)
        return True

    def _known(self, session: pytest.Session) -> tuple[dict[tuple[str, int], set[str]], dict[str, float]]:
        """Which tests come by which lines, and what each takes."""
        places, costs = defaultdict[tuple[str, int], set[str]](set), dict[str, float]()
        lines = {(mutant.path, mutant.line) for mutant in self._chosen}
        functions = {(path, number) for mutant in self._chosen for path, number in _inner(mutant)}
        for said in self._apart(lambda say: _walk(session, Trail(lines, functions), say), 100 * self._limit):
            if said["failed"]:
                print(f"left out, it fails without any change: {said['name']}", flush=True)
                continue
            costs[said["name"]] = said["seconds"]
            for path, number in said["seen"]:
                places[path, number].add(said["name"])
        return places, costs

    def _noticed(self, session: pytest.Session, mutant: Mutant, items: Sequence[pytest.Item]) -> str:
        """The test that fails with this change, or does not end; empty if there is none."""

        def tried(say: Callable[[dict[str, object]], None]) -> None:
            put_in(mutant)
            for item, _ in _run(session, items):
                say({"name": item.nodeid, "failed": session.testsfailed})
                if session.testsfailed:
                    return
            say({"name": "", "failed": 0})

        said = list(self._apart(tried, self._limit)) if items else []
        if said and said[-1]["name"]:
            return str(said[-1]["name"])
        return "a test that did not end" if items and not said else ""

    def _apart(self, run: Callable[[Callable[[dict[str, object]], None]], None], limit: float) -> Iterator[dict]:
        """What a forked process says until it ends or its time is over."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.setsid()
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
            with os.fdopen(writing, "w", 1) as file, contextlib.suppress(BaseException):
                run(lambda said: print(json.dumps(said), file=file, flush=True))
            os._exit(0)
        os.close(writing)
        timer = threading.Timer(limit, os.killpg, (child, signal.SIGKILL))
        timer.start()
        with os.fdopen(reading) as file:
            for line in file:
                yield json.loads(line)
        timer.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()


def _inner(mutant: Mutant) -> Iterator[tuple[str, int]]:
    """The function of a change, and those inside it."""
    whole = compile(ast.fix_missing_locations(mutant.tree), mutant.path, "exec")
    for code in _codes(whole):
        if code.co_firstlineno == mutant.function:
            yield mutant.path, code.co_firstlineno
            yield from ((mutant.path, one.co_firstlineno) for one in _codes(code))


def _walk(session: pytest.Session, trail: Trail, say: Callable[[dict[str, object]], None]) -> None:
    """Every test as it is, one after another."""
    for item, seconds in _run(session, session.items, trail):
        say({"name": item.nodeid, "failed": session.testsfailed, "seconds": seconds, "seen": sorted(trail.seen)})
        session.testsfailed = 0
        trail.seen.clear()


def _run(
    session: pytest.Session, items: Sequence[pytest.Item], trail: Trail | None = None
) -> Iterator[tuple[pytest.Item, float]]:
    for item, following in zip(items, [*items[1:], None], strict=True):
        began = time.process_time()
        with trail or contextlib.nullcontext():
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        yield item, time.process_time() - began


def _unnoticed(path: str) -> set[str]:
    """The changes that a run has printed, and below them that no test noticed them."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return {one for one, said in pairwise(lines) if said.startswith("    not noticed")}


def main() -> int:
    """Try so many, and tell of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", help="modules")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one")
    parser.add_argument(
        "--again", metavar="FILE", help="of those, only what was not noticed by what a run printed here"
    )
    ours = sys.argv[1:]
    words = ours[ours.index("--") + 1 :] if "--" in ours else []
    options = parser.parse_args(ours[: ours.index("--")] if "--" in ours else ours)
    os.chdir(ROOT)
    count = sum(1 for _ in everywhere(options.paths))
    numbers = set(random.Random(options.seed).sample(range(count), min(options.count, count)))  # noqa: S311
    unnoticed = _unnoticed(options.again) if options.again else None
    chosen = [
        one._replace(tree=copy.deepcopy(one.tree))
        for number, one in enumerate(everywhere(options.paths))
        if number in numbers and (unnoticed is None or str(one) in unnoticed)
    ]
    with tempfile.TemporaryDirectory(prefix="taskpit-mutants-") as base:
        trial = Trial(chosen, options.limit)
        plain = ["-qq", "-s", f"--basetemp={base}/tests", "--timeout=0"]
        without = [word for name in ("randomly", "cacheprovider", "xdist") for word in ("-p", f"no:{name}")]
        pytest.main([*plain, *without, *words], plugins=[trial])
    print(f"{trial.killed} of {len(chosen)} noticed, {count} there are")
    return 0


if __name__ == "__main__":
    sys.exit(main())
