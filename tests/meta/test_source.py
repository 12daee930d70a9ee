"""The source keeps its own rules: public names, rooms for system calls, sizes, docstrings."""

from __future__ import annotations

import ast

import pytest
from sources import MODULES, tree

import taskpit
from taskpit import testing

#: Calls that change a folder.
CHANGING = {
    *("rename", "renames", "replace", "link", "symlink", "unlink", "remove", "rmdir", "utime", "mkdir", "makedirs"),
    *("open", "truncate", "ftruncate", "mkfifo", "chmod", "write", "pwrite"),
}
#: Rooms that make system calls: the fs room, and those that keep files of their own outside the queue's protocol.
MAY_CHANGE = (
    "fs.py",
    "held_directories.py",
    "watch.py",
    "store/plain/files.py",
    "pipes.py",
    "hooks/",
    "landing/",
    "run/",
    "crew/",
    "demo/",
    "cli/",
    "setup/plan.py",
)
LONGEST_FUNCTION = 60


def test_there_is_something_to_look_at():
    assert {"fs.py", "store/files.py", "testing/clock.py"} <= set(MODULES)


def test_public_names():
    assert sorted(taskpit.__all__) == [
        "Ask",
        "Claim",
        "Done",
        "Failed",
        "Job",
        "Queue",
        "Release",
        "Result",
        "Retry",
        "Split",
        "State",
        "Task",
        "TaskpitError",
        "__version__",
    ]
    assert all(getattr(taskpit, name) is not None for name in taskpit.__all__)
    assert testing.__all__ == ["FakeClock", "StoreContract"]


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="nonsense"):
        taskpit.nonsense  # noqa: B018 - the look itself is the test


def test_a_module_says_what_it_is():
    assert [module for module in MODULES if not ast.get_docstring(tree(module))] == []


def test_functions_are_short():
    found = [
        f"{module}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for module in MODULES
        for node in ast.walk(tree(module))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION
    ]
    assert found == []


def test_only_the_fs_room_changes_files():
    found = [
        f"{module}, line {node.lineno}: {ast.unparse(node)}"
        for module in MODULES
        if not module.startswith(MAY_CHANGE)
        for node in ast.walk(tree(module))
        if _changes_files(node)
    ]
    assert found == []


def _changes_files(node):
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        return (node.func.value.id == "os" and node.func.attr in CHANGING) or node.func.value.id == "shutil"
    return isinstance(node.func, ast.Name) and node.func.id == "open" and _mode(node) not in ("r", "rb")


def _mode(call):
    words = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
    return words[0].value if words else "r"


def test_the_scan_sees_what_it_should():
    bad = ast.parse('os.rename("a", "b")\nopen("a", "w")\nopen("a", mode="a")\nshutil.move("a", "b")\nos.open("a", 0)')
    good = ast.parse('open("a")\nopen("a", "rb")\nos.listdir("a")\nfs.move("a", "b")\ntext.replace("a", "b")')
    assert sum(_changes_files(node) for node in ast.walk(bad)) == 5
    assert sum(_changes_files(node) for node in ast.walk(good)) == 0


# -- one function makes a path of an id ------------------------------------------------------------

#: Where an id beside a slash is no path of a queue that others write: addresses of pages, and the demo's own folder.
NO_PATHS = ("web/", "mcp/", "demo/run.py")


def ids_in_paths(node):
    """Every f-string in which an id follows a slash without a blank between: the line, and what it reads."""
    for one in ast.walk(node):
        if not isinstance(one, ast.JoinedStr):
            continue
        before = ""
        for part in one.values:
            if isinstance(part, ast.Constant):
                before += str(part.value)
                continue
            name = ast.unparse(part.value)
            tail = before.rpartition("/")
            if tail[1] and " " not in tail[2] and (name.endswith((".id", "_id")) or name in ("id", "task_id")):
                yield one.lineno, ast.unparse(one)
            before += "x"


def test_no_id_becomes_part_of_a_path_but_in_one_place():
    found = [
        (module, told)
        for module in MODULES
        if not module.startswith(NO_PATHS)
        for _, told in ids_in_paths(tree(module))
        if "pit/" not in told
    ]
    assert found == []  # `ids.name_of` makes the name, without a slash in it


def test_an_id_in_a_path_is_seen():
    careless = 'def path(folder, task): return folder.at(f"{IDS}/{task.id}~x")\nprint(f"{task.id} is in / out")'
    assert len(list(ids_in_paths(ast.parse(careless)))) == 1


# -- one module runs git ---------------------------------------------------------------------------


def commands_of_git(node):
    """Every list or tuple of words that begins with git: who runs one lets a repository's settings name programs."""
    for one in ast.walk(node):
        if isinstance(one, ast.List | ast.Tuple) and one.elts and len(one.elts) > 1:
            first = one.elts[0]
            if isinstance(first, ast.Constant) and first.value == "git":
                yield ast.unparse(one)


def test_git_is_run_by_one_module_with_settings_of_ours():
    found = [module for module in MODULES for _ in commands_of_git(tree(module))]
    assert found == ["landing/git.py"]
    assert len(list(commands_of_git(ast.parse('subprocess.run(["git", "status"])\nWORDS = ("pit", "git")')))) == 1
