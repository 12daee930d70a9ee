"""`sweep` and `doctor`."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from taskpit.clock import Clock


def test_sweep_with_nothing_to_do(pit):
    assert pit("sweep").out == "nothing to do\n"
    assert pit("gc", "--json").data == {"dry_run": False, "did": []}


def test_sweep_gives_back_what_was_abandoned(pit, monkeypatch):
    pit("add", "x")
    pit("claim")
    monkeypatch.setattr(Clock, "now", lambda _: time.time() + 3600)
    monkeypatch.setattr(Clock, "monotonic", lambda _: time.monotonic() + 3600)
    would = pit("sweep", "--dry-run")
    still = pit("show", "1", "--json").data["state"]
    did = pit("reclaim", "--json").data["did"]

    assert would.out.startswith("would do:\nreclaimed  0001: me did not renew")
    assert still == "claimed"
    assert did[0]["kind"] == "reclaimed"
    assert pit("show", "1", "--json").data["state"] == "ready"
    assert pit("stats", "--json").data["given_back"] == 1


def test_doctor_finds_nothing(pit, place):
    pit("add", "x")
    answer = pit("doctor")

    assert answer.code == 0
    assert answer.out == f"{place}/pit: layout pit, durability power\nall is in order\n"
    assert pit("doctor", "--json").data["clean"] is True


def test_doctor_groups_what_needs_a_person(pit, place):
    (place / "pit/food/shopping list.txt").write_text("milk")
    (place / "pit/food/food-1-x.md").write_bytes(b"caf\xe9")
    os.utime(place / "pit/food/food-1-x.md", (1, 1))
    pit("sweep")
    answer = pit("doctor")
    data = pit("doctor", "--json")

    assert answer.code == 1
    assert "stranger (1)" in answer.out
    assert (data.code, data.data["needs_person"]) == (1, True)
    assert {finding["kind"] for finding in data.data["findings"]} >= {"stranger"}


def test_doctor_is_content_when_sweep_can_do_it(pit, place):
    path = place / "pit/food/food-1-by-hand.md"
    path.write_text("# by hand\n")
    os.utime(path, (1, 1))
    answer = pit("doctor", "--json")

    assert answer.code == 0
    assert answer.data["needs_person"] is False


def test_doctor_sees_missing_directories(pit, place):
    (place / "pit/waste").rmdir()
    answer = pit("doctor")

    assert answer.code == 1
    assert "pit init" in answer.out


def test_archive(pit, place):
    pit("add", "x")
    pit("claim")
    pit("done", "1")
    assert pit("archive").out == "nothing to archive\n"
    would = pit("archive", "--older", "0s", "--dry-run", "--json").data
    assert would["dry_run"] is True
    assert os.listdir(place / "pit/done") == ["food-0001-x.result.md"]
    assert pit("archive", "--older", "0s", "--json").data["did"] == would["did"]
    assert os.listdir(place / "pit/done") == []
    assert pit("show", "1", "--json").data["state"] == "done"
    assert pit("doctor").code == 0
    assert pit("archive", "--older", "soon").code == 2


def test_without_an_age_what_is_older_than_thirty_days_is_archived(pit, place):
    pit("add", "x")
    pit("claim")
    pit("done", "1")
    (name,) = os.listdir(place / "pit/done")
    for days, did in ((29, 0), (31, 1)):
        os.utime(place / "pit/done" / name, (time.time() - days * 86400,) * 2)
        assert len(pit("archive", "--dry-run", "--json").data["did"]) == did


def test_status_tells_of_a_worker_that_died_with_a_task(pit, place):
    """And what happens next: nobody need wait for the lease."""
    pit("add", "one")
    dies = (
        "import os; from taskpit.queue import Queue; queue = Queue.open('pit');"
        "queue.store.join('snake', 900.0); queue.claim('snake', lease=900.0); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", dies], cwd=place, check=False).returncode == 9
    (stuck,) = pit("status", "--json").data["stuck"]
    assert stuck["id"] == "0001"
    assert stuck["why"].endswith(" is dead: the next worker, or `pit sweep`, gives it back")
    pit("sweep")
    assert pit("status", "--json").data["stuck"] == []
