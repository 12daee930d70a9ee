"""Which agent and which model a task gets."""

from __future__ import annotations

from waits import PATIENCE, until
from workshop import own, pit_work

from taskpit.explain import costs
from taskpit.model import State
from taskpit.run.budget import Ledger

SAYS = 'bin = "sh"\nargv = ["sh", "-c", \'echo "$0 by {0} with $1"\', "{{id}}", "{{model}}"]\nlimit = 2\n'
LIMITED = """\
bin = "sh"
argv = ["sh", "-c", "echo usage limit reached; exit 1"]
[[error]]
pattern = "usage limit"
means = "quota"
"""


def output(pit, task):
    return pit.card(task).result.output


def test_a_task_names_its_agent_and_its_model(pit):
    own(pit, "one", SAYS.format("one"))
    own(pit, "two", SAYS.format("two"))
    (plain,) = pit.put("plain")
    (other,) = pit.put("other", extra={"agent": "two", "model": "opus"})
    code, _ = pit_work(pit, "--agent", "one", "--model", "sonnet", "--until", "empty")
    assert code == 0
    assert output(pit, plain) == f"{plain} by one with sonnet"
    assert output(pit, other) == f"{other} by two with opus"


def test_what_a_task_names_and_there_is_not_waits_for_a_person(pit):
    own(pit, "one", SAYS.format("one"))
    (unknown,) = pit.put("unknown", extra={"agent": "zwei"})
    (option,) = pit.put("option", extra={"model": "--dangerous"})
    assert pit_work(pit, "--agent", "one", "--until", "empty")[0] == 0
    assert "there is no preset 'zwei'" in pit.card(unknown).held
    assert "cannot be the name of a model" in pit.card(option).held
    assert pit.card(option).task.attempts == 0


def test_the_next_agent_works_while_the_first_rests(pit):
    own(pit, "tired", LIMITED)
    own(pit, "fresh", SAYS.format("fresh"))
    tasks = pit.put("a", "b", "c")
    code, reply = pit_work(pit, "--agent", "tired,fresh", "--until", "empty")
    assert (code, reply["data"]["ended"]) == (0, {"done": 3})
    assert all(output(pit, task) == f"{task} by fresh with" for task in tasks)
    assert all(not pit.card(task).tries for task in tasks)


def test_a_budget_in_dollars_that_cannot_be_kept_is_refused_before_anything_starts(pit):
    own(pit, "silent", SAYS.format("silent"))
    (task,) = pit.put("a")
    code, reply = pit_work(pit, "--agent", "silent", "--model", "gpt-5", "--budget", "$1/day", "--until", "empty")
    assert (code, reply["error"]["code"]) == (1, "cannot_run")
    assert "cannot be kept" in reply["error"]["message"]
    assert pit.card(task).state is State.READY


def test_stats_tell_what_each_model_has_cost(pit):
    pit.put("good: a", "good: b")
    assert pit_work(pit, "--agent", "claude", "--model", "opus", "--until", "empty")[0] == 0
    (row,) = Ledger(pit.root).by_model().values()
    assert (row["runs"], row["done"], row["usd"]) == (2, 2, 0.5)


def test_show_tells_agent_model_cost_and_session(pit):
    (task,) = pit.put("good: a")
    assert pit_work(pit, "--agent", "claude", "--model", "opus", "--until", "empty")[0] == 0
    told = costs(pit.card(task).result.cost)
    assert told.startswith("claude opus: $0.25, 157 tokens, 3 turns, session ")
    assert costs({}) == ""
    assert costs({"agent": "x", "usd": "much", "refused": 2}) == "x: 2 tools refused"


def test_an_agent_without_a_word_since_its_start_waits_for_its_model(pit):
    own(pit, "dumb", 'bin = "sh"\nargv = ["sh", "-c", "sleep 100"]\nstall = "0.5s"\n')
    (task,) = pit.put("a")
    pool = pit.start("--agent", "dumb")
    until(lambda: "rests until" in pit.said(), pool)
    pool.terminate()
    pool.wait(PATIENCE)
    (one,) = pit.card(task).tries[:1]
    assert (one.kind, pit.card(task).task.attempts) == ("infra", 0)
    assert "no answer from its model" in one.error
