"""Crews to begin with: they are whole, they run, and they overwrite nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ground import git, make_repository
from waits import PATIENCE, until

from taskpit import trust
from taskpit.crew import file
from taskpit.crew.file import FOLDER, write_template
from taskpit.model import State


def init(*words):
    argv = [sys.executable, "-P", "-m", "taskpit", "init", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.parametrize("name", sorted(os.listdir(FOLDER)))
def test_a_template_is_whole(name, tmp_path):
    ran = init(tmp_path / "zoo", "--template", name)
    assert ran.returncode == 0, ran.stderr
    make_repository(str(tmp_path))
    crew = file.load(file.find(str(tmp_path / "zoo")), str(tmp_path / "zoo"), os.environ)
    assert all(post.prompt for post in crew.posts if post.kind == "tasks")
    assert {"README.md", "agents.toml", "food", "done"} <= set(os.listdir(tmp_path / "zoo"))


def test_the_snake_pit(tmp_path):
    write_template("snakepit", str(tmp_path))
    posts = file.load(str(tmp_path / "agents.toml"), str(tmp_path), os.environ).posts
    assert [(post.name, post.role) for post in posts] == [
        ("keeper", "keeper"),
        ("planner", "planner"),
        ("snake-1", "worker"),
        ("snake-2", "worker"),
        ("snake-3", "worker"),
        ("cleanup", "cleanup"),
        ("chronicle", "service"),
    ]
    assert sorted(os.listdir(tmp_path / "agents")) == ["cleanup.md", "keeper.md", "planner.md", "snake.md"]
    table = (tmp_path / "README.md").read_text()
    assert all(word in table for word in ("devouring", "digesting", "regurgitating", "excreting", "choking"))


def test_what_is_commented_out_is_right_too(tmp_path):
    write_template("snakepit", str(tmp_path))
    path = tmp_path / "agents.toml"
    claude = tmp_path / "claude"
    claude.write_text("#!/bin/sh\n")
    claude.chmod(0o755)
    text = path.read_text().replace("# [backend.claude]", '[backend.claude]\nbin = "./claude"')
    for key in ("preset", "model", "limit"):
        text = text.replace(f"# {key} = ", f"{key} = ", 1)
    path.write_text(text.replace('backend = "demo"', 'backend = "claude"'))
    posts = file.load(str(path), str(tmp_path), os.environ).posts
    assert {post.backend.preset for post in posts if post.kind in ("tasks", "session")} == {"claude"}


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "snake.md").write_text("mine")
    (tmp_path / "README.md").write_text("mine too")
    ran = init(tmp_path, "--template", "snakepit")
    assert ran.returncode == 0
    assert "left alone: README.md, agents/snake.md" in ran.stdout
    assert (tmp_path / "agents" / "snake.md").read_text() == "mine"
    assert (tmp_path / "README.md").read_text() == "mine too"
    (tmp_path / "agents.toml").write_text("# changed")
    assert init(tmp_path, "--template", "snakepit").returncode == 0
    assert (tmp_path / "agents.toml").read_text() == "# changed"


def test_an_unknown_one_makes_nothing(tmp_path):
    ran = init(tmp_path / "zoo", "--template", "snakes")
    assert ran.returncode == 5
    assert "builder-reviewer, snakepit" in ran.stderr
    assert not (tmp_path / "zoo").exists()


def test_builder_and_reviewer_without_a_model(zoo, tmp_path):
    """What the builder brings lands on the branch once the reviewer has approved it."""
    write_template("builder-reviewer", zoo.root)
    assert trust.remember(zoo.root)
    assert f"'builder' is to land its work, and {zoo.root} is in no git repository" in zoo.pit("up", code=6).out
    make_repository(str(tmp_path))
    built = "Write the answer to `out/answer.txt`."
    (made,) = zoo.put("Reverse the word anaconda", body=built, check="test -s out/answer.txt")
    zoo.pit("up")
    until(lambda: zoo.card(made).state is State.DONE)
    until(lambda: "anaconda" in git(str(tmp_path), "log", "--format=%s", "main"))  # that follows a moment later
    assert git(str(tmp_path), "show", "main:out/answer.txt") == "adnocana"
    assert "the work of builder~" in zoo.card(made).result.output
    said = [(event.action, event.worker.partition("~")[0]) for event in zoo.queue.store.events(limit=1000)[0]]
    assert ("approved", "reviewer") in said


AGENTS = '[backend.claude]\npreset = "claude"\nbin = "true"\n\n[[agent]]\nname = "builder"\nbackend = "claude"\n'


def test_a_crew_in_a_checkout_says_how_its_agents_land(tmp_path):
    make_repository(str(tmp_path))
    zoo = tmp_path / "zoo"
    assert init(zoo).returncode == 0
    (zoo / "agents.toml").write_text(AGENTS)
    assert trust.remember(str(zoo))
    argv = [sys.executable, "-P", "-m", "taskpit", "-C", str(zoo), "crew"]
    ran = subprocess.run([*argv, "up"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 6
    assert "builder runs an agent in the git repository" in " ".join(ran.stderr.split())
    assert 'land = "merge"' in ran.stderr
    assert 'land = "none"' in ran.stderr
    (zoo / "agents.toml").write_text(f'[defaults]\nland = "none"\n\n{AGENTS}')
    assert trust.remember(str(zoo))
    file.require_landing(file.load(file.find(str(zoo)), str(zoo), os.environ))


def test_a_template_in_a_checkout_lands(tmp_path):
    make_repository(str(tmp_path))
    assert init(tmp_path / "inside", "--template", "snakepit").returncode == 0
    assert 'land = "merge"' in (tmp_path / "inside" / "agents.toml").read_text()
