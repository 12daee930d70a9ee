"""`add --race`: what can be asked for, and what people are told of it."""

import pytest


def test_a_loser_is_told_so_and_what_it_brought_is_kept(pit):
    assert pit("add", "t", "--race", "claude,codex").out.strip() == "0001"
    assert pit("claim", "--as", "one", "--json").data["task"]["extra"] == {"agent": "claude", "race-of": "0001"}
    pit("claim", "--as", "two")
    assert pit("status", "--json").code == 0
    assert "its racers work on it: 0001.r1, 0001.r2" in pit("why", "1").out
    assert "pit unblock" not in pit("why", "1").out
    assert pit("list", "--state", "waiting", "--json").data[0]["id"] == "0001"
    assert pit("done", "0001.r2", "--as", "two", "--result", "-", stdin="mine").code == 0
    assert "stop" in pit("renew", "0001.r1", "--as", "one").err
    late = pit("done", "0001.r1", "--as", "one", "--result", "-", stdin="late")
    assert late.code == 4
    assert "the race is over: 0001.r2 won" in late.err
    assert "late" in pit("show", "0001.r1").out
    assert "pit retry" not in pit("why", "0001.r1").out  # it would be refused
    assert "mine" in pit("show", "1").out
    assert pit("doctor").code == 0


def test_a_racer_of_a_race_that_is_over_is_not_run_again(pit):
    """It was said to be ready, and cancelled once a worker wanted it; why it had failed was lost."""
    pit("add", "t", "--race", "2")
    for worker in ("one", "two"):
        pit("claim", "--as", worker)
    assert pit("fail", "0001.r1", "red", "--final", "--as", "one").code == 0
    assert pit("retry", "0001.r1").code == 0  # the race goes on
    pit("claim", "0001.r1", "--as", "one")
    for racer, worker in (("0001.r1", "one"), ("0001.r2", "two")):
        assert pit("fail", racer, "red", "--final", "--as", worker).code == 0
    refused = pit("retry", "0001.r1")
    assert refused.code == 6
    assert "`pit retry 0001` lets it race again" in refused.err
    assert pit("show", "0001.r1", "--json").data["result"]["reason"] == "red"
    assert pit("retry", "1").code == 0
    assert pit("claim", "--as", "one", "--json").data["task"]["id"] == "0001.r3"


@pytest.mark.parametrize("words", [["--race", "1"], ["--race", "claude"], ["--race", ""], ["--race", "3", "--big"]])
def test_a_race_that_cannot_be_makes_nothing(pit, words):
    refused = pit("add", "t", *words)
    assert refused.code == 6
    assert "hint" in refused.err
    assert pit("list", "--json").data == []


def test_activities_have_no_room_for_one(run):
    run("init", "pit", "--layout", "activities")
    refused = run("add", "t", "--race", "3")
    assert refused.code == 6
    assert "another layout" in refused.err
