"""Calls that Python has no word for say when they cannot be had, and when they failed."""

from __future__ import annotations

import errno
import os

import pytest

from taskpit import fs, kernel


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="this is not Linux")
def test_only_filesystems_that_are_known_for_it_are_synced_as_a_whole(tmp_path, monkeypatch):
    assert not kernel.syncs_filesystems("/proc")
    assert not kernel.syncs_filesystems(str(tmp_path / "missing"))
    kind = kernel._kind(str(tmp_path))
    assert kind
    monkeypatch.setattr(kernel, "TRUSTED", frozenset((kind,)))
    assert kernel.syncs_filesystems(str(tmp_path))
    monkeypatch.setattr(os, "uname", type("Name", (), {"release": "5.4.0-generic"}))
    assert not kernel.syncs_filesystems(str(tmp_path)), "an old kernel does not tell when something was not written"


def test_a_sync_that_fails_is_an_error():
    with pytest.raises(OSError, match="Bad file descriptor"):
        kernel.sync_filesystem(-1)


def test_a_rename_that_must_not_replace(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    assert kernel.rename_new(str(tmp_path / "one"), str(tmp_path / "two")) in (errno.EEXIST, errno.ENOSYS, errno.EINVAL)
    with pytest.raises(FileExistsError):
        fs.move_new(str(tmp_path / "one"), str(tmp_path / "two"))
    assert (tmp_path / "two").read_text() == "two"


def test_without_the_call_a_taken_name_is_seen_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel, "call", lambda _name: None)
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    with pytest.raises(FileExistsError):
        fs.move_new(str(tmp_path / "one"), str(tmp_path / "two"))
    assert fs.move_new(str(tmp_path / "one"), str(tmp_path / "three"))
    assert not fs.move_new(str(tmp_path / "one"), str(tmp_path / "four"))
