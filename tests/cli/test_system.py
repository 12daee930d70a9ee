"""`pit doctor --system`: what a machine can do is tried, not assumed; the folder is as it was."""

from __future__ import annotations

import os

import pytest

from taskpit.cli import upkeep


def told(answer):
    return {finding["name"]: finding for finding in answer.data["findings"]}


def test_everything_a_queue_asks_for_is_tried(run, place):
    found = told(run("doctor", "--system", "--json"))

    tried = {
        "hard links",
        "rename without replacing",
        "unnamed files",
        "flock",
        "times in the future",
        "fsync",
        "inotify",
    }
    assert tried | {"taskpit", "python", "filesystem", "room", "boot id", "git", "agents"} <= set(found)
    assert all(found[name]["works"] for name in ("hard links", "flock", "times in the future", "fsync"))
    assert found["folder"]["told"] == str(place)
    assert os.listdir(place) == []


def test_people_read_the_same(run):
    answer = run("doctor", "--system")

    assert answer.code == 0
    assert "hard links" in answer.out
    assert "ms for a file and its directory" in answer.out


def test_where_the_queue_is(pit, place):
    assert told(pit("doctor", "--system", "--json"))["folder"]["told"] == str(place / "pit" / ".taskpit")
    assert pit("doctor").code == 0


def test_it_can_be_shown_to_others(pit, place, monkeypatch):
    """A home has its owner's name in it."""
    monkeypatch.setenv("HOME", str(place))
    pit("add", "the secret plan")
    answer = pit("doctor", "--system")
    assert "~/pit/.taskpit\n" in answer.out
    assert str(place) not in answer.out
    assert "secret" not in answer.out
    monkeypatch.setenv("HOME", str(place)[:-1])
    assert str(place) in pit("doctor", "--system").out, "a name that begins like ours is another's"


def test_it_looks_at_one_thing(pit):
    answer = pit("doctor", "--system", "--fix", "--json")

    assert answer.code == 2
    assert answer.error["hint"]


def test_a_disk_without_hard_links(run, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    answer = run("doctor", "--system", "--json")

    assert answer.code == 1
    finding = told(answer)["hard links"]
    assert finding["works"] is False
    assert "Operation not permitted" in finding["told"]
    assert finding["hint"]


def test_a_folder_nobody_may_write_to(run, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    answer = run("doctor", "--system", "--json")

    assert answer.code == 1
    assert told(answer)["writing"]["works"] is False


def test_a_machine_whose_inotify_is_used_up(run, monkeypatch):
    monkeypatch.setattr("taskpit.watch.Watch._open", lambda _: None)
    answer = run("doctor", "--system", "--json")

    assert answer.code == 0
    assert told(answer)["inotify"]["works"] is None
    assert told(answer)["inotify"]["hint"]


@pytest.mark.parametrize(("path", "kind"), [("/data/x/y", "ext4"), ("/data/nfs/q", "nfs4"), ("/database", "overlay")])
def test_the_nearest_mount_counts(monkeypatch, tmp_path, path, kind):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - overlay overlay rw\n2 1 8:2 / /data rw - ext4 /dev/a rw\n"
        "3 2 0:9 / /data/nfs rw shared:1 - nfs4 server:/x rw\n"
    )
    read = open
    monkeypatch.setattr("builtins.open", lambda name, *rest, **more: read(str(mounts), *rest, **more))

    assert upkeep._filesystem(path) == kind


def test_extras_are_what_the_package_says():
    assert "ruamel-yaml" in {name.replace(".", "-") for name in upkeep.extras()["yaml"]}
