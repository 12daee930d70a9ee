"""The original's five errors: an exit code, a name in the text and in the JSON."""

from __future__ import annotations

import os

import pytest
from boxes import make_fast, pit, write


@pytest.fixture
def box(tmp_path):
    return make_fast(tmp_path / "box", "mailbox")


def told(answer, code, name):
    """Both ways of telling it."""
    plain, as_json = answer
    assert (plain.code, as_json.code) == (code, code), plain.err + as_json.out
    assert name in plain.err
    assert as_json.error["details"]["name"] == name


def both(*words):
    return pit(*words), pit(*words, "--json")


def test_no_tasks(box):
    told(both("-C", box, "claim"), 3, "ErrNoTasks")


def test_task_not_found(box):
    told(both("-C", box, "show", "nobody"), 5, "ErrTaskNotFound")
    told(both("-C", box, "done", "nobody"), 5, "ErrTaskNotFound")


def test_task_exists(box):
    assert pit("-C", box, "add", "one", "--id", "x").code == 0
    told(both("-C", box, "add", "two", "--id", "x"), 6, "ErrTaskExists")


def test_invalid_task(box):
    told(both("-C", box, "add", "x", "--set", "priority=high"), 6, "ErrInvalidTask")
    told(both("-C", box, "add", "x", "--id", "../../x"), 6, "ErrInvalidTask")
    assert not os.path.lexists(f"{box}/../../x.json")


def test_a_mailbox_that_is_not_there(box, tmp_path):
    env = {"DROVER_MAILBOX_ENABLED": "true", "DROVER_MAILBOX_DIR": str(tmp_path / "nowhere")}
    for words in (("list",), ("list", "--json")):
        answer = pit(*words, env=env)
        assert answer.code == 8
        assert "ErrMailboxDir" in answer.err + answer.out


def test_a_mailbox_with_a_file_for_a_directory(box):
    os.rename(f"{box}/.tmp", f"{box}/elsewhere")
    write(f"{box}/.tmp", "no directory")
    told(both("-C", box, "add", "x"), 8, "ErrMailboxDir")


def test_a_mailbox_whose_directory_is_gone_has_it_again(box):
    os.rename(f"{box}/.tmp", f"{box}/elsewhere")
    assert pit("-C", box, "add", "x").code == 0
    assert os.path.isdir(f"{box}/.tmp")


def test_other_queues_have_no_such_names(tmp_path):
    root = make_fast(tmp_path / "pit", "pit")
    plain, as_json = both("-C", root, "claim")
    assert "Err" not in plain.err
    assert "name" not in as_json.error["details"]


def test_what_has_no_name_in_the_original_has_none_here(box):
    pit("-C", box, "add", "one", "--id", "x")
    pit("-C", box, "claim", "x", "--as", "ann")
    answer = pit("-C", box, "done", "x", "--as", "bob", "--json")
    assert (answer.code, answer.error["code"]) == (4, "lost")
    assert "name" not in answer.error["details"]


def test_a_file_with_invalid_json_is_told_of(box):
    write(f"{box}/inbox/bad.json", "{")
    os.utime(f"{box}/inbox/bad.json", (1, 1))
    pit("-C", box, "sweep")
    assert "bad.json" in pit("-C", box, "doctor").out
