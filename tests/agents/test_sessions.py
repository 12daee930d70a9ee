"""The next attempt goes on in the session of the last one, where there is one."""

from __future__ import annotations

import json
import os
import time

from taskpit.model import Claim, State, Task
from taskpit.run.agent_runner import KEPT, Session, Sessions


def option(call, name):
    argv = call["argv"]
    return argv[argv.index(name) + 1] if name in argv else ""


def kept(pit, task):
    with open(f"{pit.root}/.taskpit/sessions/{task}", encoding="utf-8") as file:
        return json.load(file)


def test_the_second_attempt_resumes_and_is_told_what_went_wrong(pit):
    (task,) = pit.put("second time: a task", check="test -f proof || { echo where is it; exit 1; }")
    assert pit.work_once(pit.runner("claude")).word == "retry"
    assert pit.work_once(pit.runner("claude")).word == "done"
    first, second = pit.calls()
    session = option(first, "--session-id")
    assert session
    assert (option(second, "--resume"), option(second, "--session-id")) == (session, "")
    assert "where is it" in second["prompt"]
    assert second["prompt"].endswith("in this very session. Go on from there.\n")
    assert "in this very session" not in first["prompt"]
    assert pit.card(task).result.cost["session"] == session


def test_the_third_attempt_begins_with_a_fresh_mind(pit):
    pit.put("lying: a task")
    for _ in range(3):
        pit.work_once(pit.runner("claude"))
    first, second, third = pit.calls()
    assert option(second, "--resume") == option(first, "--session-id")
    assert not option(third, "--resume")
    assert option(third, "--session-id") not in ("", option(first, "--session-id"))


def test_a_session_nobody_knows_is_begun_anew_in_the_same_attempt(pit):
    (task,) = pit.put("forgetful: a task", check="test -f never")
    pit.work_once(pit.runner("claude"))
    pit.work_once(pit.runner("claude"))
    first, second, third = pit.calls()
    assert option(second, "--resume") == option(first, "--session-id")
    assert option(third, "--session-id") not in ("", option(first, "--session-id"))
    assert "in this very session" not in third["prompt"]
    card = pit.card(task)
    assert [one.kind for one in card.tries] == ["check", "check"]
    assert kept(pit, task)["session"] == option(third, "--session-id")
    assert "does not know session" in pit.log(card.tries[1].log)


def test_sessions_that_the_agent_names(pit):
    pit.put("good: a task", check="test -f never")
    for _ in range(2):
        pit.work_once(pit.runner("codex"))
    assert pit.calls()[1]["argv"][-3:] == ["resume", "0199-thread", "-"]


def test_exit_0_and_silence_about_a_lost_session_is_noticed(pit):
    (task,) = pit.put("forgetful: a task", check="test -f fresh && test $(wc -l < fresh) = 2")
    for _ in range(2):
        pit.work_once(pit.runner("opencode"))
    assert [option(call, "-s") for call in pit.calls()] == ["", "ses_fake", ""]
    assert pit.card(task).state is State.DONE


def test_the_session_is_written_down_before_the_agent_starts(pit):
    (task,) = pit.put("good: a task")
    path = f"{pit.root}/.taskpit/sessions/{task}"
    pit.work_once(pit.runner("claude", argv=("sh", "-c", f'cp "{path}" seen; echo "$0"', "{session}"), bin="sh"))
    with open(f"{pit.root}/seen", encoding="utf-8") as file:
        assert json.load(file) == kept(pit, task)


def test_another_agent_or_another_place_begins_anew(tmp_path):
    (tmp_path / ".taskpit").mkdir()
    sessions = Sessions(str(tmp_path))
    claim = Claim(task=Task(id="t", title="t"), worker="w", fence="w~1", attempt=1)
    mine = Session(preset="claude", session="s", cwd="/w", attempt=1)
    sessions.keep(claim, mine)
    assert sessions.find(claim, "claude", "/w") == mine
    assert sessions.find(claim, "codex", "/w") is None
    assert sessions.find(claim, "claude", "/elsewhere") is None
    assert sessions.find(claim.replace(attempt=2), "claude", "/w") == mine
    assert sessions.find(claim.replace(attempt=3), "claude", "/w") is None
    sessions.forget(claim)
    assert sessions.find(claim, "claude", "/w") is None


def test_damaged_and_old_records(tmp_path):
    (tmp_path / ".taskpit" / "sessions").mkdir(parents=True)
    sessions = Sessions(str(tmp_path))
    claim = Claim(task=Task(id="t", title="t"), worker="w", fence="w~1")
    path = tmp_path / ".taskpit" / "sessions" / "t"
    for text in ("", "{", "[]", '{"what": 1}'):
        path.write_text(text, encoding="utf-8")
        assert sessions.find(claim, "claude", "/w") is None
    sessions.prune()
    assert path.exists()
    old = time.time() - KEPT - 60
    os.utime(path, (old, old))
    sessions.prune()
    assert not path.exists()


def test_nothing_is_kept_where_there_is_no_folder():
    sessions = Sessions("memory")
    claim = Claim(task=Task(id="t", title="t"), worker="w", fence="w~1")
    sessions.keep(claim, Session(preset="claude", session="s", cwd="/w"))
    assert sessions.find(claim, "claude", "/w") is None
