"""Which queue a command is about, and whom it trusts."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def where(run, *words):
    answer = run(*words, "doctor", "--json")
    assert answer.envelope["ok"], answer.envelope
    return answer.data["queue"]["where"]


def test_the_nearest_queue_upwards(pit, place, monkeypatch):
    deep = place / "a/b/c"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)

    assert where(pit) == f"{place}/pit"
    pit("init", str(place / "a" / "pit"))
    assert where(pit) == f"{place}/a/pit"


def test_inside_the_queue_itself(pit, place, monkeypatch):
    monkeypatch.chdir(place / "pit/food")

    assert where(pit) == f"{place}/pit"


def test_named_by_a_variable_and_by_hand(run, place, monkeypatch):
    for name in ("one", "two", "three/pit"):
        run("init", name)
    monkeypatch.setenv("TASKPIT_DIR", str(place / "one"))

    assert where(run) == f"{place}/one"
    assert where(run, "-C", "two") == f"{place}/two"
    assert where(run, "-Cthree") == f"{place}/three/pit"
    assert run("list", "-C", "two").code == 0


@pytest.mark.needs("git")
def test_a_worktree_uses_the_main_checkout(pit, place, tmp_path, monkeypatch):
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com"]
    subprocess.run([*git, "init", "-q", "."], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "tree")], check=True)
    (tmp_path / "tree/deep").mkdir()
    monkeypatch.chdir(tmp_path / "tree/deep")

    assert where(pit) == f"{place}/pit"


def test_no_queue_anywhere(run, place):
    answer = run("list", "--json")

    assert (answer.code, answer.error["code"]) == (5, "not_found")
    assert "pit init" in answer.error["hint"]


def test_folders_that_cannot_be_queues(run, place, monkeypatch):
    (place / "file").write_text("x")
    (place / "plain").mkdir()

    assert run("-C", "missing", "list").code == 8
    assert run("-C", "file", "list").code == 8
    assert run("-C", "plain", "list").code == 5
    monkeypatch.setenv("TASKPIT_DIR", str(place / "missing"))
    assert run("list", "--json").error["code"] == "storage"


def test_a_directory_of_the_queue_is_missing(pit, place):
    (place / "pit/.taskpit/ids").rmdir()
    answer = pit("add", "x", "--json")

    assert (answer.code, answer.error["code"]) == (8, "storage")
    assert "pit init" in answer.error["hint"]


def test_settings_that_cannot_be_read(pit, place):
    (place / "pit/.taskpit/config.toml").write_text("leese = '15m'\n")
    answer = pit("list", "--json")

    assert answer.code == 6
    assert "lease" in answer.error["hint"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_queue_of_another_user_is_refused_until_trusted(pit, place, monkeypatch, tmp_path):
    os.chown(place / "pit/.taskpit", 12345, -1)
    assert pit("trust", "--revoke").code == 0
    answer = pit("list", "--json")

    assert (answer.code, answer.error["code"]) == (9, "untrusted")
    assert f"{place}/pit" in answer.error["hint"]
    assert pit("-C", place / "pit", "list").code == 0  # it was named: looking needs no trust
    assert pit("trust", "--yes").code == 0
    assert pit("list").code == 0


@pytest.mark.parametrize("where", [".", "pit"])
def test_a_queue_that_has_lost_its_hidden_folder(pit, place, where):
    pit("add", "kept")
    shutil.rmtree(place / "pit" / ".taskpit")
    answer = pit("-C", where, "list")

    assert answer.code == 5
    assert "pit` adopts it as it is" in answer.err
    assert pit("init", "pit").code == 0
    assert [task["title"] for task in pit("list", "--json").data] == ["kept"]
