"""`pit prime` and the hooks of a session: short, true, cheap, and never in the way."""

from __future__ import annotations

import json

import pytest

from taskpit.cli import verbs
from taskpit.cli.agent_verbs import LARGEST, NEEDED
from taskpit.store.opening import init

SESSION = json.dumps({"session_id": "ABCD-ef01-2345", "hook_event_name": "Stop"})
NAME = "claude-abcdef01"


@pytest.fixture
def session(pit, monkeypatch):
    """A session of an agent that nobody has named."""
    monkeypatch.delenv("TASKPIT_AS")
    monkeypatch.chdir("pit")
    return pit


def test_it_says_what_you_hold_and_what_is_next(pit):
    pit("add", "one", "--check", "make")
    pit("add", "two")
    pit("add", "three", "--needs", "2")
    assert "You hold nothing." in pit("prime").out
    pit("claim", "1")

    told = pit("prime").out
    assert "(pit): 1 ready, 1 waiting, 1 running.\n" in told
    assert "You are `me` here" in told
    assert "\nYou hold, and must finish or give back:\n- 0001 one (lease ends in " in told
    assert "\nNext:\n- 0002 two\n" in told
    assert "three" not in told  # nobody can take it yet
    assert "You hold nothing." in pit("prime", "--as", "other").out
    data = pit("prime", "--json").data
    assert [row["id"] for row in data["holding"]] == ["0001"]
    assert [row["id"] for row in data["next"]] == ["0002"]
    assert data["holding"][0]["check"] == "make"


def test_what_is_ready_is_found_behind_all_that_waits(pit):
    """An agent that is told that nothing is ready takes nothing."""
    for number in range(60):
        pit("add", f"waits {number}", "--needs", "y", "--priority", "5")
    pit("add", "free")
    assert "\nNext:\n- 0061 free\n" in pit("prime").out
    assert "(pit): 1 ready, 60 waiting.\n" in pit("prime").out


def test_the_verbs_are_the_programs_own(pit, monkeypatch):
    told = pit("prime").out
    for name in NEEDED:
        verb = verbs.find(name)
        assert verb is not None, name
        if name != "task":
            assert f"  # {verb.summary}\n" in told
    assert "\npit fail ID [REASON]" in told
    assert "\npit split ID [TITLE]  #" in told
    renamed = tuple(verb.replace(summary="something new") if verb.name == "ask" else verb for verb in verbs.VERBS)
    monkeypatch.setattr(verbs, "VERBS", renamed)
    assert "something new" in pit("prime").out


@pytest.mark.parametrize("layout", ["pit", "mailbox", "workspace", "activities"])
def test_it_is_true_to_the_layout(run, place, layout):
    init(str(place / "q"), layout)

    told = run("-C", "q", "prime").out
    assert f"({layout})" in told
    assert ("pit task " in told) == (layout == "activities")


def test_it_is_never_long(pit):
    """Also with long names, long titles and many claims."""
    for number in range(8):
        pit("add", f"{number} " + "wörter und mehr " * 12)
    worker = "w" * 60
    for _ in range(5):
        pit("claim", "--as", worker)
    pit("pause", "because " * 30)

    told = pit("prime", "--as", worker).out
    assert "- and 2 more" in told
    assert len(told.encode()) < LARGEST


def test_a_long_way_to_the_queue_is_cut(run, place):
    where = place.joinpath(*["d" * 200] * 9)
    where.mkdir(parents=True)
    assert run("init", where / "pit").code == 0
    told = run("-C", where / "pit", "prime").out
    assert "pit claim" in told
    assert len(told.encode()) < LARGEST


def test_there_must_be_a_queue(run):
    assert run("prime").code == 5


# -- hooks -----------------------------------------------------------------------------------------


def test_a_session_learns_its_name_and_its_task(session, place, monkeypatch):
    remembered = place / "session-env"
    monkeypatch.setenv("CLAUDE_ENV_FILE", str(remembered))
    session("add", "one")
    session("claim", "--as", NAME)

    told = session("hook", "session-start", stdin=SESSION)
    assert told.code == 0
    assert f"You are `{NAME}` here" in told.out
    assert "- 0001 one (lease" in told.out
    assert remembered.read_text() == f"export TASKPIT_AS={NAME}\n"
    assert "--as claude" not in told.out


def test_a_session_whose_commands_cannot_have_its_name_is_told_to_say_it(session):
    session("add", "one")
    told = session("hook", "session-start", "--agent", "codex", stdin=SESSION)
    assert "add `--as codex-abcdef01` to each" in told.out
    assert session("claim", "1", "--as", "codex-abcdef01").code == 0
    assert "0001 (one)" in session("hook", "stop", "--agent", "codex", stdin=SESSION).out


def test_a_session_that_was_named_keeps_its_name(pit, place, monkeypatch):
    remembered = place / "session-env"
    monkeypatch.setenv("CLAUDE_ENV_FILE", str(remembered))

    assert "You are `me` here" in pit("hook", "session-start", stdin=SESSION).out
    assert not remembered.exists()


def test_a_session_does_not_stop_with_a_claim(session):
    session("add", "one")
    assert session("hook", "stop", stdin=SESSION).out == ""
    session("claim", "--as", NAME)

    refused = session("hook", "stop", stdin=SESSION)
    assert refused.code == 0
    said = json.loads(refused.out)
    assert said["decision"] == "block"
    assert f"0001 (one) as {NAME}" in said["reason"]
    again = json.dumps({**json.loads(SESSION), "stop_hook_active": True})
    assert session("hook", "stop", stdin=again).out == ""  # once is enough: nobody is held for ever
    other = json.dumps({"session_id": "another-session"})
    assert session("hook", "stop", stdin=other).out == ""  # another session's claim is not ours
    session("done", "1", "--as", NAME)
    assert session("hook", "stop", stdin=SESSION).out == ""


def test_claims_are_kept_while_tools_are_used(session):
    session("add", "one")
    session("claim", "--as", NAME, "--lease", "1h")
    before = session("show", "1", "--json").data["until"]
    assert session("hook", "tool-used", stdin=SESSION).out == ""
    assert session("show", "1", "--json").data["until"] == before  # most of the lease is left: nothing to do
    session("renew", "1", "--as", NAME, "--lease", "2m")

    assert session("hook", "tool-used", stdin=SESSION).out == ""
    assert session("prime", "--as", NAME, "--json").data["holding"][0]["lease_seconds_left"] > 800
    session("cancel", "1")
    session("renew", "1", "--as", NAME, "--lease", "2m")
    told = json.loads(session("hook", "tool-used", stdin=SESSION).out)["hookSpecificOutput"]
    assert (
        f"asked to stop working on 0001: give it back with `pit cancel 0001 --as {NAME}`" in told["additionalContext"]
    )
    assert session("cancel", "0001", "--as", NAME).code == 0
    assert session("show", "1", "--json").data["state"] == "failed"


@pytest.mark.parametrize("event", ["session-start", "tool-used", "stop"])
@pytest.mark.parametrize("stdin", [SESSION, "", "{", "[]", '{"session_id": 7}', '{"session_id": "a.b/../c"}'])
def test_without_a_queue_nothing_is_said(run, monkeypatch, event, stdin):
    monkeypatch.delenv("TASKPIT_AS")

    said = run("hook", event, stdin=stdin)
    assert (said.code, said.out, said.err) == (0, "", "")


def test_a_broken_queue_breaks_no_session(session, place):
    session("add", "one")
    session("claim", "--as", NAME)
    (place / "pit/.taskpit/layout").write_text("nonsense")

    said = session("hook", "stop", stdin=SESSION)
    assert (said.code, said.out, said.err) == (0, "", "")


def test_where_a_pool_has_the_claim_the_pool_minds_it(session, monkeypatch):
    session("add", "one")
    session("claim", "--as", NAME)
    monkeypatch.setenv("TASKPIT_RUN_DIR", "/somewhere")

    assert session("hook", "stop", stdin=SESSION).out == ""


def test_the_session_says_where_it_is(session, place, monkeypatch):
    session("add", "one")
    session("claim", "--as", NAME)
    monkeypatch.chdir("/")
    there = json.dumps({**json.loads(SESSION), "cwd": str(place / "pit")})

    assert "0001" in session("hook", "stop", stdin=there).out
    assert session("hook", "stop", stdin=SESSION).out == ""
