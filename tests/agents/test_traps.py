"""Every way in which the real agents mislead ends in the right verdict, and nobody is left behind."""

from __future__ import annotations

import os

import pytest
from waits import Leap, Rush
from workshop import alive

from taskpit.model import State
from taskpit.run import agent_output, process
from taskpit.run.pool import Pool
from taskpit.run.pool_options import PoolOptions, Show
from taskpit.run.runner import CannotRun

GOOD = ("claude", "codex", "gemini", "opencode")


def run(pit, name, mode, **options):
    (task,) = pit.put(f"{mode}: a task", **options.pop("fields", {}))
    over = pit.work_once(pit.runner(name, **options))
    return over, pit.card(task)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_run_is_done_with_what_it_said(pit, name):
    over, card = run(pit, name, "good")
    assert (over.word, card.result.output) == ("done", "All is well.")
    log = pit.log(card.result.log)
    assert '{"type": ' in log  # the events as they were
    assert "All is well." in log


def test_costs_are_in_the_result(pit):
    _, card = run(pit, "claude", "good", model="opus")
    cost = dict(card.result.cost)
    session = cost.pop("session")
    assert session == pit.calls()[0]["argv"][pit.calls()[0]["argv"].index("--session-id") + 1]
    assert cost == {
        "agent": "claude",
        "model": "opus",
        "usd": 0.25,
        "turns": 3,
        "tools": 1,
        "input_tokens": 137,
        "output_tokens": 20,
        "cached_tokens": 7,
        "tokens": 157,
    }


def test_what_it_has_thought_is_output(pit):
    _, card = run(pit, "gemini", "good", model="gemini-2.5-pro")
    cost = card.result.cost
    assert (cost["input_tokens"], cost["output_tokens"], cost["tokens"]) == (30, 5, 35)
    assert "total_tokens" not in cost


def test_a_run_without_its_result_has_cost_what_its_messages_say(pit):
    _, card = run(pit, "claude", "spends")
    told = "input_tokens 2230, output_tokens 7, cached_tokens 2000, tokens 2237, usd 0.002325"
    assert told in pit.log(card.tries[0].log)


def test_costs_of_several_steps_are_added_up(pit):
    _, card = run(pit, "opencode", "good")
    assert card.result.cost["usd"] == pytest.approx(0.03)
    assert (card.result.cost["turns"], card.result.cost["input_tokens"]) == (2, 22)


#: What aider printed, and what it left in the file of its `--analytics-log`.
AIDER = """\
#!/bin/sh
while [ "$1" != --analytics-log ]; do shift; done
cat << 'END' > "$2"
{"event": "launched", "properties": {}, "user_id": "x", "time": 1794840000}
{"event": "message_send", "properties": {"main_model": "x/REDACTED", "prompt_tokens": 1000, "completion_tokens": 50}}
{"event": "message_send", "properties": {"main_model": "gpt-4.1-mini", "prompt_tokens": 2000, "completion_tokens": 10}}
END
cat << 'END'
Aider v0.86.2
Model: gpt-4.1-mini with whole edit format
Git repo: .git with 1 files
Repo-map: disabled

I wrote hello.txt.

Tokens: 1.0k sent, 50 received. Cost: $0.00045 message, $0.00045 session.
Applied edit to hello.txt
END
"""


def test_of_an_agent_without_events_the_answer_is_the_result_and_its_account_the_cost(pit):
    program = f"{pit.root}/aider"
    with open(program, "w", encoding="utf-8") as file:
        file.write(AIDER)
    os.chmod(program, 0o755)
    over, card = run(pit, "aider", "good", bin=program)
    assert (over.word, card.result.output) == ("done", "I wrote hello.txt.")
    cost = {"agent": "aider", "model": "gpt-4.1-mini", "turns": 2, "input_tokens": 3000, "output_tokens": 60}
    assert card.result.cost == {**cost, "tokens": 3060, "usd": 0.001296}


def test_costs_of_a_failure_are_in_its_log(pit):
    _, card = run(pit, "claude", "lying")
    assert "usd 0.25" in pit.log(card.tries[0].log)


FAILED = [
    ("claude", "lying", "task", "it says that it failed\nIt did not work."),
    ("claude", "no turns", "task", "it says that it failed"),
    ("claude", "exits 1", "crash", "exit code 1"),
    ("claude", "mute", "task", "it ended without a word"),
    ("claude", "cut off", "crash", "it ended without saying that it was done"),
    ("codex", "fails", "task", "it says that it failed\nthe model gave up"),
    ("codex", "empty", "crash", "it ended without saying that it was done"),
    ("gemini", "fails", "task", "it says that it failed\na loop was found"),
    ("gemini", "empty", "crash", "it ended without saying that it was done"),
    ("opencode", "fails", "task", "it says that it failed\nit is broken"),
    ("opencode", "empty", "crash", "it ended without saying that it was done\n! permission requested"),
    ("opencode", "too long", "task", "it says that it failed"),
    ("opencode", "half way", "crash", "it ended without saying that it was done"),
]


@pytest.mark.parametrize(("name", "mode", "kind", "told"), FAILED)
def test_what_is_no_success_is_a_failure_and_says_why(pit, name, mode, kind, told):
    over, card = run(pit, name, mode)
    (attempt,) = card.tries
    assert (over.word, card.task.attempts, attempt.kind) == ("retry", 1, kind)
    assert attempt.error.startswith(told)


def test_an_overloaded_service_is_nobodys_fault(pit):
    over, card = run(pit, "claude", "api-error")
    assert (over.word, card.task.attempts, card.tries[0].kind) == ("retry", 0, "infra")


@pytest.mark.parametrize(
    ("name", "mode", "told"),
    [
        ("claude", "logged out", "claude is not logged in"),
        ("gemini", "logged out", "gemini is not logged in: Please set an Auth method"),
        ("claude", "bad flag", "claude does not take this command: error: unknown option"),
        ("claude", "as root", "claude does not take this command: --dangerously-skip-permissions cannot be used"),
        ("codex", "bad flag", "codex does not take this command"),
    ],
)
def test_what_no_task_is_to_blame_for_stops_the_pool(pit, name, mode, told):
    over, card = run(pit, name, mode)
    assert isinstance(over.fatal, CannotRun)
    assert over.fatal.message.startswith(told)
    assert (card.state, card.task.attempts) == (State.READY, 0)


def test_who_does_not_leave_after_the_result_is_made_to(pit):
    over, card = run(pit, "claude", "hangs-after")
    assert (over.word, card.result.output) == ("done", "All is well.")
    assert not any(map(alive, pit.children()))


def hung(pit, mode="hangs"):
    """Whether an agent in this mode hangs just now, with a child that does."""
    calls = pit.calls()
    begun = calls and calls[-1]["mode"] == mode and pit.has_children()
    return begun and alive(pit.children()[-1])


def test_who_says_nothing_more_is_ended(pit, monkeypatch):
    monkeypatch.setattr(agent_output, "time", Rush(lambda: hung(pit)))
    over, card = run(pit, "claude", "hangs", stall=3600.0)
    assert (over.word, card.tries[0].kind) == ("retry", "timeout")
    assert card.tries[0].error.startswith("it printed nothing for 1h")
    assert not any(map(alive, pit.children()))


def test_who_takes_too_long_is_ended(pit, monkeypatch):
    monkeypatch.setattr(process, "time", Leap(lambda: hung(pit)))
    over, card = run(pit, "codex", "hangs", limit=3600.0)
    assert (over.word, card.tries[0].kind) == ("retry", "timeout")
    assert card.tries[0].error.startswith("it took longer than 1h")
    assert not any(map(alive, pit.children()))


def test_waiting_for_a_network_is_nobodys_fault(pit, monkeypatch):
    monkeypatch.setattr(agent_output, "time", Rush(lambda: hung(pit, "offline")))
    _, card = run(pit, "codex", "offline", stall=3600.0)
    assert (card.tries[0].kind, card.task.attempts) == ("infra", 0)


def test_children_left_behind_are_ended(pit):
    over, _ = run(pit, "claude", "orphans")
    assert over.word == "done"
    assert not any(map(alive, pit.children()))


def test_a_red_check_is_stronger_than_the_agents_word(pit):
    over, card = run(pit, "claude", "good", fields={"check": "false"})
    assert (over.word, card.tries[0].kind) == ("retry", "check")


def test_further_arguments_and_the_model(pit):
    pit.put("good: with arguments")
    pit.work_once(pit.runner("gemini", extra=("--do", "it"), model="pro"))
    argv = pit.calls()[0]["argv"]
    assert argv[-2:] == ["--do", "it"]
    assert argv[argv.index("-m") + 1] == "pro"


def test_a_prompt_too_long_for_an_argument_is_read_from_its_file(pit):
    (task,) = pit.put("good: long", body="x" * 150_000)
    runner = pit.runner("gemini", argv=("sh", "-c", 'echo "$0" | tee told', "{prompt}"), prompt="argument", event=())
    pit.work_once(runner.__class__(runner.preset.replace(events=()), cwd=pit.root))
    assert pit.card(task).state is State.DONE
    with open(f"{pit.root}/told", encoding="utf-8") as file:
        assert file.read().startswith("Read ")


def test_no_trap_costs_the_slot(pit, monkeypatch):
    """One worker, all traps, each once: every one gets its verdict, and the last task is done."""
    modes = ["lying", "mute", "cut off", "hangs-after", "hangs", "orphans", "exits 1", "no turns", "good"]
    ids = pit.put(*(f"{mode}: trap" for mode in modes), max_attempts=1)
    monkeypatch.setattr(agent_output, "time", Rush(lambda: hung(pit)))
    runner = pit.runner("claude", stall=3600.0)
    report = Pool(pit.queue, runner, PoolOptions(until_empty=True), Show()).run()
    done = {mode for mode, task in zip(modes, ids, strict=True) if pit.card(task).state is State.DONE}
    assert done == {"hangs-after", "orphans", "good"}
    assert report.tally == {"done": 3, "failed": 6}
    assert not any(map(alive, pit.children()))
