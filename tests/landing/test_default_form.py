"""Agents in a git checkout: their changes land by default, and they never share its files unasked."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from ground import git, read, write
from waits import PATIENCE, until

from taskpit import trust
from taskpit.model import State

#: An agent that writes a file named after its task.
AGENT = """#!/bin/sh
cat > /dev/null
echo x > "made-$TASKPIT_TASK.txt"
echo '{"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "Write"}]}}'
echo '{"type": "result", "is_error": false, "num_turns": 2, "result": "Written.", "session_id": "s"}'
"""


@pytest.fixture
def work(ground, tmp_path, monkeypatch):
    """`pit work` in the repository, with an agent on the path; its exit code, its reply, what it printed besides."""
    write(f"{tmp_path}/bin/claude", AGENT)
    os.chmod(f"{tmp_path}/bin/claude", 0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")

    def run(*words, cwd=""):
        argv = [sys.executable, "-m", "taskpit", "-C", ground.root, "--json", "work", *words]
        done = subprocess.run(
            argv, cwd=cwd or ground.top, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        return done.returncode, json.loads(done.stdout or "null"), done.stderr

    return run


def test_an_agents_change_lands_by_default(ground, work):
    task = ground.put()
    code, reply, _ = work("--agent", "claude", "--until", "empty")
    assert (code, reply["data"]["ended"]) == (0, {"done": 1})
    assert ground.card(task).result.reason.startswith("landed on main")
    assert ground.log() == ["do it", "begin"]


def test_with_land_none_several_agents_get_only_tasks_that_declare_their_paths(ground, work):
    bare = ground.put("bare")
    declared = ground.put("declared", touches=("made-*",))
    code, _, printed = work("-n", "2", "--agent", "claude", "--land", "none", "--until", "empty")
    assert code == 0
    assert (ground.card(declared).state, ground.card(bare).state) == (State.DONE, State.READY)
    assert "only tasks that declare the paths they touch are claimed" in printed
    assert (
        work("--agent", "claude", "--land", "none", "--until", "empty")[0] == 0
    )  # one at a time has the files for itself
    assert ground.card(bare).state is State.DONE


def test_why_says_that_a_running_pool_leaves_it_alone(ground, work):
    bare = ground.put("bare")
    argv = [sys.executable, "-m", "taskpit", "-C", ground.root, "work", "-n", "2", "--agent", "claude"]
    with subprocess.Popen(
        [*argv, "--land", "none"], cwd=ground.top, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pool:
        assert "only tasks that declare" in pool.stdout.readline()
        printed = ground.pit("why", bare)
        pool.terminate()
        pool.wait(PATIENCE)
    assert "does not declare the paths it touches" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("checkout", "-q", "--detach"), "no branch is checked out"),
        (("config", "user.email", ""), "git knows no author"),
        (("update-ref", "-d", "HEAD"), "has no commit yet"),
    ],
)
def test_where_nothing_can_land_it_refuses_and_names_both_ways_out(ground, work, words, message):
    git(ground.top, *words)
    task = ground.put()
    code, reply, _ = work("--agent", "claude", "--until", "empty")
    assert (code, message in reply["error"]["message"]) == (6, True)
    assert "--land none" in reply["error"]["hint"]
    assert ground.card(task).state is State.READY
    assert work("--agent", "claude", "--until", "empty", "--land", "none")[0] == 0


def test_outside_of_git_and_for_commands_nothing_lands(ground, work, tmp_path):
    task = ground.put()
    assert work("--agent", "claude", "--until", "empty", cwd=str(tmp_path))[0] == 0
    assert ground.card(task).state is State.DONE
    other = ground.put()
    assert work("--until", "empty", "--", "true")[0] == 0
    assert ground.card(other).state is State.DONE
    assert ground.log() == ["begin"]


def test_before_it_begins_it_names_the_options_that_clones_need(ground, work):
    ground.commit("package-lock.json", "{}\n")
    ground.commit(".gitignore", ".env\nnode_modules/\n")
    write(f"{ground.top}/.env", "KEY=1\n")
    ground.put(check="test -s .env || true")
    _, _, printed = work("--agent", "claude", "--until", "empty")
    assert "--setup 'npm ci'" in printed
    assert "--copy .env" in printed
    _, _, printed = work("--agent", "claude", "--until", "empty", "--setup", "true", "--copy", ".env")
    assert "--setup" not in printed


def test_a_check_that_cannot_start_in_the_clone_says_so(ground, work):
    ground.commit(".gitignore", "tools/\n")
    write(f"{ground.top}/tools/check", "#!/bin/sh\ntrue\n")
    os.chmod(f"{ground.top}/tools/check", 0o755)
    task = ground.put(check="tools/check", max_attempts=1)
    work("--agent", "claude", "--until", "empty")
    reason = ground.card(task).result.reason
    assert reason.startswith("the check could not start in its clone: tools/check is in your checkout, but not in the")
    assert "--copy tools/check" in reason


def test_a_shell_that_expands_a_pattern_is_noticed(ground, work):
    """`--frozen tests/*` without quotes: all but the first file would be words for the agent."""
    task = ground.put()
    code, reply, _ = work("--agent", "claude", "--frozen", "tests/a.py", "tests/b.py", "--until", "empty")
    assert (code, "words for the agent follow `--`" in reply["error"]["message"]) == (2, True)
    assert ground.card(task).state is State.READY


def test_a_pool_leaves_when_and_why_it_ended(ground, work):
    ground.put()
    work("--agent", "claude", "--until", "empty")
    for verb in ("status", "report"):
        assert "worker: " in ground.pit(verb)
        assert "ended: no task was left" in ground.pit(verb)
    assert read(f"{ground.top}/README") == "hello\n"


def test_a_change_that_waits_for_review_reaches_a_hook(ground, work, tmp_path):
    script, heard = f"{tmp_path}/hook", f"{tmp_path}/heard"
    write(script, f'#!/bin/sh\ncat > "{heard}.new"; mv "{heard}.new" "{heard}"\n')
    os.chmod(script, 0o755)
    write(f"{ground.root}/.taskpit/config.toml", f'durability = "process"\n[hooks]\nreview = ["{script}"]\n')
    assert trust.remember(ground.root)
    task = ground.put()
    work("--agent", "claude", "--review", "person", "--until", "empty")
    until(lambda: os.path.exists(heard))
    event = json.loads(read(heard))
    assert (event["event"], event["id"]) == ("review", task)
