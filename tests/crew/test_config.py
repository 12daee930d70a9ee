"""Bad `agents.toml`: every complaint has the file, the line and what was probably meant; nothing is started."""

from __future__ import annotations

import os

import pytest

from taskpit.crew import file
from taskpit.crew.state import Post
from taskpit.errors import Invalid, NotFound
from taskpit.store.opening import init
from taskpit.toml_checker import key_lines

GOOD = """\
[defaults]
backend = "sh"

[backend.sh]
command = ["sh", "-c", "true"]

[[agent]]
name = "snake"
count = 2

[[service]]
name = "bell"
command = ["sleep", "100"]
"""

#: What is changed in the good one, the line it must be told with, words of the message, and of the hint.
BAD = {
    "unknown key of an agent": ("count = 2", "counts = 2", 9, "no key 'counts' in agent", "'count'"),
    "unknown key of the defaults": (
        'backend = "sh"',
        'backends = "sh"',
        2,
        "no key 'backends' in defaults",
        "'backend'",
    ),
    "unknown key of a backend": ('command = ["sh"', 'comand = ["sh"', 5, "no key 'comand' in backend", "'command'"),
    "unknown key of a service": ('command = ["sleep"', 'cmd = ["sleep"', 13, "no key 'cmd' in service", "command"),
    "unknown table": ("[[service]]", "[[servise]]", 11, "no table 'servise'", "'service'"),
    "not TOML": ("count = 2", "count = ", 9, "Invalid value", ""),
    "missing binary of a backend": ('["sh", "-c"', '["no-such-agent", "-c"', 5, "no command 'no-such-agent'", ""),
    "missing binary of a service": ('["sleep",', '["no-such-bell",', 13, "no command 'no-such-bell'", ""),
    "missing bin": ('"true"]', '"true"]\nbin = "./nowhere"', 6, "no command './nowhere'", ""),
    "duplicate names": ('name = "bell"', 'name = "snake-2"', 12, "two of the crew would be called 'snake-2'", ""),
    "bad duration": ("count = 2", 'count = 2\nlease = "soon"', 10, "lease is a duration", ""),
    "no duration": ("count = 2", "count = 2\nlimit = 5", 10, "limit is a duration", ""),
    "unknown backend": ("count = 2", 'count = 2\nbackend = "ssh"', 10, "no backend 'ssh'", "'sh'"),
    "unknown default backend": ('backend = "sh"', 'backend = "shh"', 2, "no backend 'shh'", "'sh'"),
    "no backend": ('backend = "sh"', "", 8, "agent 'snake' has no backend", "sh"),
    "missing prompt": (
        "count = 2",
        'prompt = "agents/snak.md"',
        9,
        "no prompt file 'agents/snak.md'",
        "agents/snake.md",
    ),
    "neither preset nor command": (
        'command = ["sh", "-c", "true"]',
        'model = "x"',
        4,
        "needs a preset or a command",
        "",
    ),
    "unknown preset": ('command = ["sh", "-c", "true"]', 'preset = "cloude"', 5, "no preset 'cloude'", "'claude'"),
    "bad watch": ("count = 2", 'watch = "always"', 9, "watch is one of none, heal, heal+stall", ""),
    "bad count": ("count = 2", "count = 0", 9, "count is a number, at least 1", ""),
    "bad name": ('name = "snake"', 'name = "sna.ke"', 8, "the name 'sna.ke' may have", ""),
    "our own name": ('name = "bell"', 'name = "supervisor"', 12, "the name 'supervisor' is reserved", ""),
    "no name": ('name = "bell"\n', "", 11, "this service has no name", ""),
    "bad budget": ("count = 2", 'budget = "5 apples"', 9, "budget is a limit", ""),
    "how it lands and not that": (
        "count = 2",
        'review = "person"',
        9,
        "'snake' says review, and not that its work",
        "land",
    ),
    "bad worktree": ("count = 2", 'worktree = "yes"', 9, "worktree is true or false", ""),
    "bad delivery": ('"true"]', '"true"]\nprompt = "by hand"', 6, "prompt is one of file, stdin, argument", ""),
    "bad limit of a backend": ('"true"]', '"true"]\nlimit = "1h"', 6, "limit is a number", ""),
    "no folder": ("count = 2", 'cwd = "nowhere"', 9, "there is no folder 'nowhere'", ""),
    "bad name of a backend": ("[backend.sh]", '[backend."../sh"]', 4, "the name '../sh' may have", ""),
    "agent is no list": ("[[agent]]", "[agent]", 7, "write [[agent]]", ""),
    "nobody": (GOOD, "[defaults]\n", 1, "no [[agent]] and no [[service]]", ""),
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "snake.md").write_text("You are a snake.\n")
    return tmp_path


def load(folder, text):
    path = folder / "agents.toml"
    path.write_text(text)
    return file.load(str(path), str(folder), os.environ)


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_told_with_file_and_line(folder, case):
    old, new, line, message, hint = BAD[case]
    assert old in GOOD
    with pytest.raises(Invalid) as told:
        load(folder, GOOD.replace(old, new, 1))
    assert told.value.message.startswith(f"{folder}/agents.toml:{line}: "), told.value.message
    assert message in told.value.message
    assert hint in told.value.hint
    assert told.value.details["line"] == line


def test_nothing_is_started(zoo):
    zoo.crew(GOOD.replace("count = 2", "counts = 2"))
    error = zoo.pit("up", code=6).error
    assert error["message"].startswith(f"{zoo.root}/agents.toml:9: ")
    assert error["hint"].startswith("Did you mean 'count'? There are: ")
    assert not zoo.files.plan()
    assert not zoo.files.living("supervisor")


def test_no_file(zoo):
    assert "agents.toml" in zoo.pit("up", code=5).error["message"]
    assert zoo.pit("status").data["agents"] == []
    with pytest.raises(NotFound):
        file.load(f"{zoo.root}/other.toml", zoo.root, os.environ)


def test_a_file_beside_the_queue_and_one_that_is_named(zoo, tmp_path):
    (tmp_path / "agents.toml").write_text(GOOD)
    assert [row["name"] for row in zoo.pit("status").data["agents"]] == ["snake-1", "snake-2"]
    (tmp_path / "other.toml").write_text(GOOD.replace("snake", "adder"))
    found = zoo.pit("status", "--config", tmp_path / "other.toml").data["agents"]
    assert [row["name"] for row in found] == ["adder-1", "adder-2"]


def test_one_that_another_hand_has_changed_is_not_obeyed(zoo):
    zoo.crew(GOOD)
    (zoo.path / "agents.toml").write_text(GOOD.replace('"true"', '"touch x"'))
    assert zoo.pit("up", code=9).error["code"] == "untrusted"
    assert not zoo.files.plan()


def test_what_comes_out(folder):
    text = GOOD.replace(
        "count = 2", 'count = 2\ntags = ["a"]\nlease = "1m30s"\nbudget = ["$5/day", "30m/task"]\nreview = "none"'
    )
    one, two, bell = load(folder, text).posts
    assert (one.name, two.name, bell.name) == ("snake-1", "snake-2", "bell")
    assert one.replace(name="snake-2") == two
    assert (one.kind, one.role, one.tags, one.lease, one.watch) == ("tasks", "worker", ("a",), 90.0, "heal")
    assert one.prompt == f"{folder}/agents/snake.md"
    assert one.cwd == str(folder)
    assert one.backend.command == ("sh", "-c", "true")
    assert (bell.kind, bell.command) == ("service", ("sleep", "100"))
    for post in (one, bell):
        assert Post.read(post.facts()) == post


def test_roles_that_are_built_in_need_no_backend(folder):
    role = '\n[[agent]]\nname = "keeper"\nrole = "keeper"\n'
    assert load(folder, GOOD + role).posts[2].kind == "rounds"
    assert load(folder, GOOD + role + 'backend = "sh"\n').posts[2].kind == "session"


def test_in_a_workspace_the_files_in_agents_are_the_roles(tmp_path):
    init(str(tmp_path / "space"), "workspace")
    (tmp_path / "space" / "agents" / "coder.md").write_text("You write code.\n")
    (tmp_path / "agents.toml").write_text(GOOD.replace("count = 2", 'role = "coder"'))
    crew = file.load(file.find(str(tmp_path / "space")), str(tmp_path / "space"), os.environ)
    assert crew.posts[0].prompt == f"{tmp_path}/space/agents/coder.md"


def test_lines_of_keys_that_are_not_simple():
    text = '''\
title = """
[not.a.table]
key = 1
"""
[[agent]]   # the first
list = [
  "a = 1",  # b = 2 ]
  "]",
]
name = 'x'
[[agent]]
"name" = "y"
[backend."my own"]
command = ["a"]
'''
    found = key_lines(text)
    assert found["agent", 0, ""] == 5
    assert found["agent", 0, "name"] == 10
    assert found["agent", 1, "name"] == 12
    assert found["backend.my own", 0, "command"] == 14
    assert ("not.a.table", 0, "") not in found
    assert len(found) == 8
