"""Hostile directory entries: every verb goes on, nothing is followed or deleted, what can't be a task is set aside."""

from __future__ import annotations

import os
import time

import pytest
from boxes import LAYOUTS, make_fast, pit
from entries import everything, folders_of, plant
from monsters import Late, patience

from taskpit import fs
from taskpit.clock import Clock
from taskpit.store.folder import QUARANTINE, Folder

PLACES = [(layout, folder) for layout in LAYOUTS for folder in folders_of(layout)]
LOOKING = ("list", "ready", "status", "stats", "log", "doctor", "sweep --dry-run", "doctor --fix --dry-run", "export")
#: Nothing to claim, something for a person to look at, all well.
FINE = (0, 1, 3)


class Yard:
    """A queue with something in it that should not be there, and a file outside that nobody may touch."""

    def __init__(self, tmp_path, layout, folder):
        self.outside = tmp_path / "outside"
        self.outside.write_text("- **task:** not yours\n")
        self.untouched = self.outside.stat()
        self.root = make_fast(tmp_path / "queue", layout)
        for title in ("good", "better"):
            assert pit("-C", self.root, "add", title).code == 0
        self.made = plant(self.root, layout, folder)

    def run(self, *words, seconds=20):
        with patience(seconds):
            answer = pit("-C", self.root, *words)
        assert "unexpected" not in answer.out + answer.err, (words, answer.err)
        return answer

    def fine(self, *words):
        answer = self.run(*words)
        assert answer.code in FINE, (words, answer.code, answer.err)
        return answer

    def work(self):
        """Both tasks can be had and finished."""
        done = 0
        while (claimed := self.fine("claim", "--as", "snake", "--json")).code == 0:
            task_id = claimed.data["task"]["id"]
            assert self.run("done", task_id, "--as", "snake").code == 0
            done += 1
        return done

    def lost(self):
        """Entries that are nowhere any more."""
        here = everything(self.root)
        return [path for inode, path in self.made.items() if inode not in here]

    def check_outside(self):
        now = self.outside.stat()
        assert self.outside.read_text() == "- **task:** not yours\n"
        assert (now.st_mtime_ns, now.st_ctime_ns) == (self.untouched.st_mtime_ns, self.untouched.st_ctime_ns)


@pytest.mark.parametrize(("layout", "folder"), PLACES)
def test_every_verb_goes_on(layout, folder, tmp_path):
    yard = Yard(tmp_path, layout, folder)
    for words in LOOKING:
        yard.fine(*words.split())
    yard.fine("sweep")
    assert yard.work() >= 2
    for words in LOOKING:
        yard.fine(*words.split())
    assert yard.lost() == []
    yard.check_outside()


@pytest.mark.parametrize(("layout", "folder"), PLACES)
def test_the_doctor_puts_it_right(layout, folder, tmp_path):
    """Whatever it was: gone from where it was in the way, and still there to be looked at."""
    yard = Yard(tmp_path, layout, folder)
    yard.fine("doctor", "--fix")
    assert yard.lost() == []
    assert yard.run("doctor", "--fix", "--json").data["did"] == []
    kinds = {found["kind"] for found in yard.run("doctor", "--json").data["findings"]}
    assert kinds <= {"being written", "quarantined", "late result", "sweep will do"}
    assert yard.work() >= 2
    yard.check_outside()


@pytest.mark.parametrize(("layout", "folder"), PLACES)
def test_in_the_end_only_retention_takes_anything(layout, folder, tmp_path, monkeypatch):
    """Long after: logs, a mailbox's results and left-over temporary files go as documented, and nothing else."""
    yard = Yard(tmp_path, layout, folder)
    now, monotonic = time.time, time.monotonic
    monkeypatch.setattr(Clock, "now", lambda _: now() + 1e6)
    monkeypatch.setattr(Clock, "monotonic", lambda _: monotonic() + 1e6)
    for _ in range(2):
        yard.fine("sweep")
    for words in LOOKING:
        yard.fine(*words.split())
    assert yard.work() >= 2
    pruned = {"waste", ".taskpit/logs", ".taskpit/tmp", ".tmp", "outbox", "failed"}
    assert folder in pruned or yard.lost() == []
    yard.check_outside()


@pytest.mark.parametrize(("layout", "folder"), [("pit", "food"), ("mailbox", "inbox"), ("workspace", "tasks")])
def test_what_cannot_be_a_task_is_set_aside_with_its_reason(layout, folder, tmp_path):
    yard = Yard(tmp_path, layout, folder)
    yard.fine("sweep")
    yard.work()
    aside = os.listdir(f"{yard.root}/{QUARANTINE}")
    things = [name for name in aside if not name.endswith(".reason")]
    assert len(things) >= 8
    for name in things:
        with open(f"{yard.root}/{QUARANTINE}/{name}.reason", encoding="utf-8") as file:
            assert f"{folder}/" in file.read()


# -- broken on purpose: the tests above must tell --------------------------------------------------


def test_whoever_waits_for_a_fifo_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(fs, "READ", os.O_RDONLY | os.O_NOFOLLOW)
    yard = Yard(tmp_path, "pit", "food")
    with pytest.raises(Late):
        yard.run("list", seconds=3)


def test_whoever_follows_a_link_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(fs, "READ", os.O_RDONLY | os.O_NONBLOCK)
    yard = Yard(tmp_path, "pit", "food")
    assert "not yours" in yard.run("list").out


def test_whoever_deletes_instead_of_setting_aside_is_seen(tmp_path, monkeypatch):
    def delete(self, relative, reason, judged=None, step=None):
        try:
            return relative if fs.remove(self.at(relative)) else None
        except OSError:
            return None

    monkeypatch.setattr(Folder, "set_aside", delete)
    yard = Yard(tmp_path, "pit", "food")
    yard.run("sweep")
    assert yard.lost() != []
