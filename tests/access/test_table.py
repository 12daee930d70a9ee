"""Every verb for every actor: the table is complete, denies by default, and each surface obeys it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from waits import PATIENCE, until
from zoo import Zoo

from taskpit import access
from taskpit.access import TABLE, Actor, Reach
from taskpit.actions import ACTIONS
from taskpit.cli.verbs import MEANT, VERBS
from taskpit.errors import Denied, Invalid
from taskpit.library import Queue
from taskpit.mcp.tools import ToolCalls
from taskpit.serve import rights
from taskpit.store.http.tokens import Grant

PIT = f'"{sys.executable}" -m taskpit'
NEVER = "never never never never"
#: What a run of each role may use each verb on. `any` is not listed: such a verb only shows, adds or sweeps.
LIMITED = {
    "done": "own own own never",
    "fail": "own own own never",
    "release": "own own own never",
    "renew": "own own own never",
    "split": "own own own never",
    "ask": "own own own never",
    "task": "own own own never",
    "pivot": "own own own never",
    "edit": "added text added never",
    "priority": "added text added never",
    "raise": "added text added never",
    "lower": "added text added never",
    "block": "own own own never",
    "unblock": "own own own never",
    "cancel": "own own own never",
    "undo": "own own own never",
    "retry": "own stuck own never",
    "send_back": "never never never any",
    **dict.fromkeys(("init", "setup", "convert", "add", "every", "import"), "any any any never"),
    **dict.fromkeys(("claim", "lock", "pipe", "work", "notify"), "any any any never"),
    **dict.fromkeys(("answer", "tell", "approve", "take_over", "take_back", "pause", "resume"), NEVER),
    **dict.fromkeys(("doctor --fix", "lessons --edit", "archive", "trust", "serve"), NEVER),
    "crew": NEVER,
}
#: Words that make a whole command of a verb that a worker's run may not use on the task 0001 of a person.
COMMANDS = {
    "done": "done 1",
    "fail": "fail 1 x",
    "release": "release 1",
    "renew": "renew 1",
    "split": "split 1 a b",
    "ask": "ask 1 x",
    "edit": "edit 1 --check true",
    "block": "block 1 x",
    "unblock": "unblock 1",
    "cancel": "cancel 1",
    "retry": "retry 1",
    "answer": "answer 1 x",
    "tell": "tell 1 x",
    "pause": "pause x",
    "resume": "resume",
    "archive": "archive",
    "trust": "trust --yes",
    "serve": "serve",
    "crew": "crew up",
    "doctor --fix": "doctor --fix",
    "lessons --edit": "lessons 1 x",
    "approve": "review 1 --approve",
    "take_over": "review 1 --take-over",
    "send_back": "review 1 --send-back x",
}


@pytest.fixture
def root(tmp_path):
    root = str(tmp_path / "pit")
    with Queue.create(root) as queue:
        queue.add("of a person", by="ann", check="false")
    return root


def pit(root, line, **env):
    words = [sys.executable, "-m", "taskpit", "-C", root, *line.split()]
    return subprocess.run(
        words, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def in_run(root, line):
    """The command in a process that its variables call the run of a worker on another task."""
    return pit(root, line, TASKPIT_RUN_DIR="/x", TASKPIT_TASK="0009", TASKPIT_AS="snake~abc")


@pytest.mark.parametrize("verb", sorted({verb.name for verb in VERBS} | {row.verb for row in ACTIONS.values()}))
def test_every_verb_has_a_row(verb):
    assert verb in TABLE


@pytest.mark.parametrize("verb", sorted(TABLE))
def test_every_row_is_what_was_decided(verb):
    expected = LIMITED.get(verb, "any any any any").split()
    assert [str(access.reach(actor, verb)) for actor in access.RUNS] == expected
    assert access.reach(Actor.PERSON, verb) is Reach.ANY


def test_a_verb_without_a_row_is_denied_in_a_run():
    assert {access.reach(actor, "explode") for actor in access.RUNS} == {Reach.NEVER}
    with pytest.raises(Denied):
        access.need_verb("explode", {"TASKPIT_RUN_DIR": "/x"})


@pytest.mark.parametrize("verb", [verb for verb in LIMITED if TABLE[verb][0] is not Reach.ANY and verb in COMMANDS])
def test_a_workers_run_may_not_act_on_the_task_of_a_person(root, verb):
    before = pit(root, "show 1 --json").stdout
    answer = in_run(root, COMMANDS[verb])
    assert (answer.returncode, "run may not use" in answer.stderr) == (9, True), answer.stderr
    assert pit(root, "show 1 --json").stdout == before


@pytest.mark.parametrize("alias", [name for name, words in MEANT.items() if TABLE[words[0]][0] is Reach.NEVER])
def test_an_older_spelling_is_the_same_verb(root, alias):
    assert in_run(root, alias).returncode == 9


def test_a_workers_run_may_change_what_it_added(root):
    assert in_run(root, "add mine").returncode == 0
    for line in ("edit 2 --check true --priority 3", "block 2 later", "unblock 2", "cancel 2", "retry 2"):
        answer = in_run(root, line)
        assert answer.returncode == 0, answer.stderr


def test_a_run_claims_under_the_name_of_its_worker_only(root):
    assert in_run(root, "claim 1 --as ann").returncode == 9
    assert in_run(root, "claim 1").returncode == 0
    assert in_run(root, "release 1").returncode == 0


def test_a_claim_of_a_person_is_out_of_reach(root):
    assert pit(root, "claim 1 --as ann").returncode == 0
    for line in ("done 1 --as ann --no-check", "fail 1 x --as ann", "release 1 --as ann", "renew 1 --as ann"):
        answer = in_run(root, line)
        assert (answer.returncode, "run may not use" in answer.stderr) == (9, True), line
    assert pit(root, "renew 1 --as ann").returncode == 0


def test_the_library_and_the_tools_of_mcp_obey(root, monkeypatch):
    for name, value in (("RUN_DIR", "/x"), ("TASK", "0009"), ("AS", "snake~abc")):
        monkeypatch.setenv(f"TASKPIT_{name}", value)
    with Queue.open(root) as queue:
        verbs = (
            lambda: queue.edit("0001", "snake", lambda task: task.replace(check="true")),
            lambda: queue.block("0001", "snake", "x"),
            lambda: queue.retry("0001", "snake"),
            lambda: queue.cancel("0001", "snake"),
            lambda: queue.answer("0001", "yes", "snake"),
        )
        for verb in verbs:
            with pytest.raises(Denied):
                verb()
    tools = ToolCalls(lambda: Queue.open(root), "ann", root)
    with pytest.raises(Denied):
        tools.answer("claim", {"worker": "ann"})
    tools.close()


def test_a_keeper_edits_text_and_nothing_else(tmp_path):
    """The role comes from the reaper of the crew member's session: a variable of the agent's cannot claim it."""
    zoo = Zoo(tmp_path / "zoo")
    try:
        with Queue.open(zoo.root) as queue:
            queue.add("of a person", by="ann", check="false")
        tries = ("edit 1 --title better", "edit 1 --priority 7", "edit 1 --check true", "cancel 1", "pause x")
        lines = "; ".join(f"{PIT} {line} >> replies 2>&1; echo $? >> codes" for line in tries)
        zoo.crew(f"""\
            [backend.sh]
            command = ["sh", "-c", '''cd {zoo.path}; rm -f codes; {lines}; touch tried; sleep 0.1''']

            [[agent]]
            name = "kim"
            role = "keeper"
            backend = "sh"
        """)
        zoo.pit("up")
        until(lambda: os.path.exists(zoo.path / "tried"))
        assert zoo.text("codes").split()[:5] == ["0", "0", "9", "9", "9"], zoo.text("replies")
        with Queue.open(zoo.root) as queue:
            task = queue.card("0001").task
        assert (task.title, task.priority, task.check) == ("better", 7, "false")
    finally:
        zoo.close()


def test_a_role_in_a_variable_counts_for_nothing(root):
    answer = pit(root, "edit 1 --title x", TASKPIT_RUN_DIR="/x", TASKPIT_AS="snake~abc", TASKPIT_ROLE="keeper")
    assert answer.returncode == 9


@pytest.mark.parametrize("right", ["look", "put", "work"])
def test_a_token_may_use_the_calls_of_its_right_and_no_others(right):
    grant = Grant(name="eve", digest="", rights=(right,))
    known = set().union(*access.TOKEN_VERBS.values()) | {"explode", "pause", "resume", "stop", "fix", "archive"}
    for verb in sorted(known):
        if verb in access.TOKEN_VERBS[right]:
            rights.check_verb(grant, verb)
        else:
            with pytest.raises(Denied):
                rights.check_verb(grant, verb)


@pytest.mark.parametrize("name", ["../../x", "a b", "\x1b[31m", "x.y", "-x"])
def test_a_tool_adds_no_task_in_a_name_that_no_worker_has(root, name):
    tools = ToolCalls(lambda: Queue.open(root), "", root)
    with pytest.raises(Invalid, match="worker name"):
        tools.answer("add", {"title": "x", "worker": name})
    tools.close()
