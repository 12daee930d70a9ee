"""What the tests of a room notice: one small change to its code at a time, and whether a test fails.

    python scripts/mutants.py --count 30 src/taskpit/policy.py -- tests/policy

Which changes are tried is decided by --seed. Prints those that no test noticed: a hole in the tests, or a change
that means nothing. Each runs in a process of its own that never outlives its time.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import signal
import sys
import time
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType, ModuleType

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
    """A change to one line of a file, and the file's code with it."""

    path: str
    line: int
    what: str
    tree: ast.Module


def changed(node: ast.AST) -> ast.AST | None:
    """The node with one small change; None if there is none to make."""
    new = copy.deepcopy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in SWAPS:
        new.ops[0] = SWAPS[type(new.ops[0])]()  # type: ignore[call-overload]
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
    """Every change of that kind to what a function does."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    nodes = {id(node): node for function in functions for part in function.body for node in ast.walk(part)}
    for parent in nodes.values():
        for field, value in list(ast.iter_fields(parent)):
            places = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
            for index, node in places:
                new = changed(node) if isinstance(node, ast.expr | ast.stmt) and field != "annotation" else None
                if new is None:
                    continue
                _put(parent, field, index, new)
                yield Mutant(path, node.lineno, f"{ast.unparse(node)}  ->  {ast.unparse(new)}", copy.deepcopy(tree))
                _put(parent, field, index, node)


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


def noticed(mutant: Mutant | None, words: Sequence[str], limit: float) -> bool:
    """Whether a test fails, or none of them ends."""
    child = os.fork()
    if not child:
        os._exit(_tested(mutant, words))
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status != 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def _tested(mutant: Mutant | None, words: Sequence[str]) -> int:
    """In a process of its own: the tests with that change."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    if mutant is not None:
        sys.meta_path.insert(0, Finder(mutant))
    plain = ("-x", "-q", *(word for name in ("randomly", "cacheprovider", "xdist") for word in ("-p", f"no:{name}")))
    return int(pytest.main([*plain, *words]))


def main() -> int:
    """Try so many, and tell of those that nobody noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", help="modules")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one")
    ours = sys.argv[1:]
    words = ours[ours.index("--") + 1 :] if "--" in ours else []
    options = parser.parse_args(ours[: ours.index("--")] if "--" in ours else ours)
    os.chdir(ROOT)
    all_of_them = [one for path in options.paths for one in mutants(os.path.realpath(path))]
    chosen = random.Random(options.seed).sample(all_of_them, min(options.count, len(all_of_them)))  # noqa: S311
    if noticed(None, words, 10 * options.limit):
        print("the tests fail without any change")
        return 2
    killed = 0
    for mutant in chosen:
        if noticed(mutant, words, options.limit):
            killed += 1
        else:
            print(f"{os.path.relpath(mutant.path)}:{mutant.line}: {mutant.what}", flush=True)
    print(f"{killed} of {len(chosen)} noticed, {len(all_of_them)} there are")
    return 0


if __name__ == "__main__":
    sys.exit(main())
