"""`pit work --agent`: what it runs, what it shows, and what it says when it cannot."""

from __future__ import annotations

import os
import signal

from waits import PATIENCE, until
from workshop import alive, own, pit_work

from taskpit.model import State
from taskpit.queue import Queue
from taskpit.run.run_directory import RunPlaces
from taskpit.run.runner import Run
from taskpit.run.sandbox import Sandbox


def test_a_pool_on_a_preset(pit):
    ids = pit.put("good: one", "good: two", "good: three")
    code, reply = pit_work(
        pit, "-n", "2", "--agent", "claude", "--model", "opus", "--until", "empty", "--", "--max-turns", "9"
    )
    assert (code, reply["data"]["ended"]) == (0, {"done": 3})
    assert all(pit.card(task).result.cost["usd"] == 0.25 for task in ids)
    argv = pit.calls()[0]["argv"]
    assert argv[argv.index("--model") + 1] == "opus"
    assert argv[-2:] == ["--max-turns", "9"]
    assert not os.listdir(f"{pit.root}/.taskpit/runs")


def test_dry_run_shows_prompt_and_argv(pit):
    (task,) = pit.put("good: look", body="Mind the step.")
    code, reply = pit_work(pit, "--agent", "gemini", "--dry-run", "--", "--sandbox")
    assert code == 0
    assert reply["data"]["id"] == task
    assert "Mind the step." in reply["data"]["prompt"]
    assert reply["data"]["argv"][0] == "gemini"
    assert reply["data"]["argv"][-1] == "--sandbox"
    assert pit.card(task).state is State.READY
    assert not pit.calls()


def test_a_missing_program_is_named_and_how_to_say_where_it_is(pit):
    code, reply = pit_work(pit, "--agent", "copilot")
    assert code == 1
    assert "'copilot'" in reply["error"]["message"]
    assert 'bin = "/path/to/copilot" in ~/.config/taskpit/presets/copilot.toml' in reply["error"]["hint"]


def test_a_preset_of_the_queue(pit):
    own(pit, "mine", 'argv = ["sh", "-c", "cat > got; echo done"]\nbin = "sh"\n')
    (task,) = pit.put("anything")
    code, _ = pit_work(pit, "--agent", "mine", "--until", "empty")
    assert (code, pit.card(task).result.output) == (0, "done")
    with open(f"{pit.root}/got", encoding="utf-8") as file:
        assert file.read().startswith("# anything\n")


def test_a_bad_preset_starts_nothing(pit):
    own(pit, "claude", "grase = 3\n")
    (task,) = pit.put("good: one")
    code, reply = pit_work(pit, "--agent", "claude", "--until", "empty")
    assert (code, reply["error"]["hint"]) == (6, "Did you mean 'grace'?")
    assert f"{pit.root}/.taskpit/presets/claude.toml:1:" in reply["error"]["message"]
    assert pit.card(task).state is State.READY


def test_unknown_presets_and_contradictions(pit):
    code, reply = pit_work(pit, "--agent", "claud")
    assert (code, "Did you mean 'claude'?" in reply["error"]["hint"]) == (5, True)
    assert pit_work(pit)[0] == 2
    assert pit_work(pit, "--model", "x", "--", "true")[0] == 2


def test_who_is_not_logged_in_stops_the_pool(pit):
    ids = pit.put("logged out: one", "logged out: two")
    code, reply = pit_work(pit, "--agent", "claude", "--until", "empty")
    assert (code, reply["error"]["code"]) == (1, "cannot_run")
    assert "log in" in reply["error"]["hint"]
    assert len(pit.calls()) == 1
    assert all(pit.card(task).task.attempts == 0 for task in ids)


def test_a_killed_pool_leaves_no_agent_and_the_next_one_goes_on_in_its_session(pit):
    (task,) = pit.put("hangs: a task")
    pool = pit.start("--agent", "claude")
    until(pit.has_children, pool)
    os.kill(pool.pid, signal.SIGKILL)
    pool.wait()
    until(lambda: not any(map(alive, pit.children())))
    pit.queue.close()
    pit.queue = Queue.open(pit.root)
    second = pit.start("--agent", "claude")
    until(lambda: len(pit.calls()) == 2, second)
    first, again = (call["argv"] for call in pit.calls())
    assert again[again.index("--resume") + 1] == first[first.index("--session-id") + 1]
    until(lambda: len(pit.children()) == 2)
    second.send_signal(signal.SIGTERM)
    second.send_signal(signal.SIGINT)
    second.wait(PATIENCE)
    assert not any(map(alive, pit.children()))
    assert pit.card(task).task.attempts == 0


def test_in_a_sandbox_an_agent_makes_none_of_its_own(pit):
    runner = pit.runner("codex")
    (claim,) = pit.queue.claim("snake-1", ids=pit.put("do it"))
    run = Run(claim, RunPlaces(pit.queue.store).of(claim), pit.root)
    assert "workspace-write" in runner.command(run, "do it")
    run.sandbox = Sandbox()
    assert "danger-full-access" in runner.command(run, "do it")
    assert "danger-full-access" in runner.command(run, "do it", "a-session", resumed=True)
    assert "--permission-mode" in pit.runner("claude").command(run, "do it")
