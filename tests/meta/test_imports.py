"""Who imports whom, also inside functions: no circle, and no surface knows another."""

from __future__ import annotations

import ast
import os
import sys
from functools import cache

from sources import MODULES, tree

#: The servers and screens; the command line starts them, and none of them knows it or another.
SURFACES = ("mcp", "serve", "setup", "tui", "web")


@cache
def modules():
    """Every module by its name, with its path below the package."""
    dotted = {path: path.removesuffix(".py").replace(os.sep, ".") for path in MODULES}
    return {f"taskpit.{name}".removesuffix(".__init__"): path for path, name in dotted.items()}


def named(tree):
    """Every name that is imported when the program runs: what only types need is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue  # nothing is imported by one
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                yield f"{node.module}.{one.name}", node.module
        elif isinstance(node, ast.Import):
            for one in node.names:
                yield one.name, one.name
        yield from named(node)


@cache
def graph():
    known = modules()
    found = {}
    for module, path in known.items():
        ways = {name if name in known else owner for name, owner in named(tree(path))}
        found[module] = {name for name in ways if name in known and name != module}
    return found


def reachable(start, ways):
    seen, left = set(), [start]
    while left:
        for module in ways[left.pop()] - seen:
            seen.add(module)
            left.append(module)
    return seen


def circles(ways):
    """Modules that reach each other, as sorted groups."""
    reach = {module: reachable(module, ways) for module in ways}
    return {
        tuple(sorted(other.removeprefix("taskpit.") for other in reach[module] if module in reach[other]))
        for module in ways
        if module in reach[module]
    }


def test_nothing_imports_itself_by_a_detour():
    """But two stores and what opens them."""
    opened = {tuple(f"store.{kind}.{module}" for module in ("opening", "store")) for kind in ("postgres", "remote")}
    assert circles(graph()) - opened == set()


def test_a_circle_is_seen():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {("a", "b", "c")}


def test_an_import_inside_a_function_counts_and_one_for_types_does_not():
    text = "if TYPE_CHECKING:\n    import a\ndef f():\n    if True:\n        from b import c\n"
    assert list(named(ast.parse(text))) == [("b.c", "b")]


def test_no_surface_knows_another():
    rooms = {module: module.split(".")[1] for module in graph() if "." in module}
    found = [
        f"{module} imports {other}"
        for module, room in rooms.items()
        if room in SURFACES
        for other in graph()[module]
        if rooms.get(other) in {*SURFACES, "cli"} - {room}
    ]
    assert found == []


# -- the core needs two packages -----------------------------------------------------------------------

#: Packages that need an extra, and say so when they are opened.
OF_EXTRAS = (
    "taskpit.web",
    "taskpit.tui",
    "taskpit.mcp",
    "taskpit.serve",
    "taskpit.store.http",
    "taskpit.store.postgres",
)
CORE = {"cronsim", "msgspec", "taskpit", "__future__", *sys.stdlib_module_names}


def at_import(tree):
    """Every name that is imported as soon as the module is."""
    for node in tree.body:
        if isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(node.test):
                yield from at_import(node)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def test_the_core_imports_no_package_of_an_extra():
    """`pip install taskpit` and building it must work without uvicorn, textual and the like."""
    core = [module for module in modules() if not module.startswith(OF_EXTRAS)]
    wrong = [(module, name) for module in core for name in at_import(tree(modules()[module])) if needs_an_extra(name)]
    assert wrong == []


@cache
def needs_an_extra(name):
    """Whether importing this brings in a package that the core does not have."""
    if name.partition(".")[0] not in CORE:
        return True
    path = modules().get(name)
    if path is None or not name.startswith(OF_EXTRAS):
        return False
    return any(needs_an_extra(inner) for inner in at_import(tree(path)) if inner != name)
