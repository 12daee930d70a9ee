"""Drover's variables: where the mailbox is, whether it is the queue, how long things are kept."""

from __future__ import annotations

import os

import pytest
from boxes import make_fast, pit

from taskpit.errors import Invalid, Storage
from taskpit.store.opening import discover, open_store


@pytest.fixture
def box(tmp_path):
    return make_fast(tmp_path / "box", "mailbox")


def variables(box, **more):
    return {"DROVER_MAILBOX_DIR": box, "DROVER_MAILBOX_ENABLED": "true", **more}


def test_enabled_the_mailbox_is_the_queue(box):
    assert pit("add", "x", "--id", "one", env=variables(box)).code == 0
    assert os.listdir(f"{box}/inbox") == ["one.json"]


@pytest.mark.parametrize("said", ["", "false", "0", "no"])
def test_not_enabled_it_is_not(box, tmp_path, monkeypatch, said):
    monkeypatch.chdir(tmp_path)
    assert pit("list", env=variables(box, DROVER_MAILBOX_ENABLED=said)).code == 5


def test_our_own_ways_of_naming_a_queue_come_first(box, tmp_path):
    other = make_fast(tmp_path / "other", "pit")
    assert discover(str(tmp_path), variables(box, TASKPIT_DIR=other)) == other
    assert pit("-C", other, "add", "x", env=variables(box)).code == 0
    assert os.listdir(f"{box}/inbox") == []


def test_without_a_folder_it_is_where_drover_has_it(tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "isdir", lambda path: path == str(tmp_path))
    with pytest.raises(Storage, match="there is no mailbox /tmp/drover/mailbox"):
        discover(str(tmp_path), {"DROVER_MAILBOX_ENABLED": "true"})


def test_a_mailbox_that_drover_made_is_adopted(tmp_path):
    for name in ("inbox", "processing", "outbox", "failed", ".tmp"):
        (tmp_path / "box" / name).mkdir(parents=True)
    assert pit("list", "--json", env=variables(str(tmp_path / "box"))).data == []
    assert (tmp_path / "box" / ".taskpit").is_dir()


def test_the_retentions_are_days_and_orphans_minutes(box):
    env = variables(
        box,
        DROVER_MAILBOX_OUTBOX_RETENTION="2",
        DROVER_MAILBOX_FAILED_RETENTION="3",
        DROVER_MAILBOX_ORPHAN_SCAN_MINUTES="4",
    )
    config = open_store(box, env).folder.config
    # Minutes between two scans: what is scanned for is stale after a quarter of an hour, whatever that says.
    assert (config.keep_results, config.keep_failed, config.abandoned) == (2 * 86400, 3 * 86400, 15 * 60)
    config = open_store(box, {}).folder.config
    assert (config.keep_results, config.keep_failed, config.abandoned) == (7 * 86400, 30 * 86400, 15 * 60)


def test_other_layouts_do_not_listen(tmp_path):
    root = make_fast(tmp_path / "pit", "pit")
    assert open_store(root, {"DROVER_MAILBOX_OUTBOX_RETENTION": "2"}).folder.config.keep_results == 0


@pytest.mark.parametrize("text", ["0", "-1", "seven", "1.5", " ", "٣"])
@pytest.mark.parametrize(
    "variable",
    ["DROVER_MAILBOX_OUTBOX_RETENTION", "DROVER_MAILBOX_FAILED_RETENTION", "DROVER_MAILBOX_ORPHAN_SCAN_MINUTES"],
)
def test_bad_values_are_refused_by_name(box, variable, text):
    with pytest.raises(Invalid, match=variable):
        open_store(box, {variable: text})
    assert pit("list", env=variables(box, **{variable: text})).code == 6
