"""The pool says done, not the agent: inside a run `pit done` hands in, and the check as of the claim decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from waits import PATIENCE, until

from taskpit.errors import Denied, Invalid
from taskpit.mcp.tools import ToolCalls
from taskpit.model import Done, State
from taskpit.queue import Queue

PIT = f'"{sys.executable}" -m taskpit'


def run(pit, script, *words):
    """A pool has run one task with this script."""
    return pit.start("--max-tasks", "1", *words, "--", "sh", "-c", script).wait(PATIENCE)


def said(pit, *words, code=0, **env):
    """`pit` from outside any run."""
    argv = [sys.executable, "-m", "taskpit", "-C", pit.root, *words]
    ran = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **env}, check=False)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_inside_a_run_done_hands_in_and_the_pool_checks(pit):
    (task,) = pit.put("one", check="test -e proof")
    hand_in = f"echo 'what I did' | {PIT} done $TASKPIT_TASK --result -"
    run(pit, f"touch proof; {hand_in} && {PIT} show $TASKPIT_TASK --json > during")
    card = pit.card(task)
    assert card.state is State.DONE
    assert card.result.output == "what I did"
    assert card.checked == "yes"
    with open(f"{pit.root}/during", encoding="utf-8") as file:
        assert json.loads(file.read())["data"]["state"] == "claimed"


@pytest.mark.parametrize("words", ["", "--no-check", "--not-mine", "--no-check --not-mine"])
def test_inside_a_run_a_red_task_cannot_be_called_done(pit, words):
    (task,) = pit.put("one", check="false", max_attempts=1)
    run(pit, f"{PIT} done $TASKPIT_TASK {words} || true")
    assert pit.card(task).state is State.FAILED


FORGET = "env -u TASKPIT_RUN_DIR -u TASKPIT_TASK"
#: What stands before a task's end in a place where its check is green, under another name.
ELSEWHERE = f"t=$TASKPIT_TASK; {PIT} release $t; {PIT} claim $t --as bob; mkdir x; cd x; touch proof"


def orphaned(command):
    """The command in a shell that has lost its parent, and its end is awaited."""
    return f"setsid -f sh -c '{command}; touch over'; while ! [ -e over ]; do sleep 0.05; done"


@pytest.mark.parametrize(
    "trick",
    [
        f"{FORGET} {PIT} done $TASKPIT_TASK --as $TASKPIT_AS --not-mine --no-check",
        f"{FORGET} {orphaned(f'{PIT} done 1 --as $TASKPIT_AS --not-mine --no-check')}",
        f"t=$TASKPIT_TASK; {PIT} release $t; {PIT} claim $t --as bob; {PIT} done $t --as bob --no-check",
        f"{ELSEWHERE}; {FORGET} {PIT} -C .. done $t --as bob",
        f"{ELSEWHERE}; TASKPIT_TASK=x {PIT} -C .. done $t --as bob",
        f"{ELSEWHERE}; exec env TASKPIT_TASK=x {PIT} -C .. done $t --as bob",
        f"{PIT} split $TASKPIT_TASK child --no-wait",
        f"t=$TASKPIT_TASK; {PIT} release $t; {PIT} edit $t --check true",
        f"t=$TASKPIT_TASK; {PIT} release $t; TASKPIT_TASK=x {PIT} edit $t --check true",
    ],
    ids=[
        "forgets its run",
        "forgets its parents",
        "under another name",
        "in a place of its own",
        "for another task",
        "instead of its command",
        "split away",
        "asks less",
        "asks less for another task",
    ],
)
def test_no_way_around_leads_to_a_done_that_nobody_checked(pit, trick):
    (task,) = pit.put("one", check="test -e proof", max_attempts=1)
    run(pit, f"{{ {trick}; }} || true")
    card = pit.card(task)
    assert card.state is not State.DONE
    assert card.task.check == "test -e proof"


@pytest.mark.parametrize("verb", ["answer 1 yes", "trust --yes", "token add eve", "resume", "tell 1 go"])
def test_who_has_lost_its_parents_is_no_person(pit, verb):
    asks, _ = pit.put("asks") + pit.put("two")
    said(pit, "claim", asks, "--as", "ada")
    said(pit, "ask", asks, "may I?", "--as", "ada")
    orphan = orphaned(f"{PIT} {verb} 2> why; echo $? > code")
    run(pit, f"env -u TASKPIT_RUN_DIR {orphan}")
    with open(f"{pit.root}/code", encoding="ascii") as file:
        assert file.read().strip() in {"6", "9"}
    assert pit.card(asks).held


def test_who_has_lost_its_parents_still_hands_in(pit):
    """Tools of agents live on by themselves, and say done as their agents do."""
    (task,) = pit.put("one", check="test -e proof")
    run(pit, f"touch proof; echo it > it; {orphaned(f'{PIT} done 1 --result it')}")
    card = pit.card(task)
    assert (card.state, card.result.output.strip(), card.checked) == (State.DONE, "it", "yes")


@pytest.mark.parametrize("words", ["done 1", "fail 1 --final x"])
def test_a_pool_inside_a_run_has_runs_of_its_own(pit, words):
    (task,) = pit.put("one")
    inner = f"{PIT} -C q add one && {PIT} -C q work --max-tasks 1 -- sh -c '{PIT} {words} > told 2>&1'"
    trust = "export TASKPIT_TRUST=1"  # a queue that a run has made is trusted by nobody else
    run(pit, f"{trust}; mkdir q && {PIT} init q && {inner}; cp q/told . ; {PIT} -C q show 1 --json > shown")
    with open(f"{pit.root}/shown", encoding="utf-8") as file:
        state = json.loads(file.read())["data"]["state"]
    with open(f"{pit.root}/told", encoding="utf-8") as file:
        assert state == words.split()[0].replace("fail", "failed"), file.read()
    assert pit.card(task).state is State.DONE


def test_the_check_is_run_where_the_pool_decides_and_as_it_stood_at_the_claim(pit):
    (task,) = pit.put("one", check="test -e proof", max_attempts=1)
    forge = "sed -i s/proof/README/ $TASKPIT_FILE"
    script = f"mkdir -p other; touch other/proof; cd other; {PIT} -C .. done $TASKPIT_TASK; {forge}"
    run(pit, script)
    assert pit.card(task).state is State.FAILED


def test_what_said_done_and_then_fell_over_is_judged_by_its_check(pit):
    (task,) = pit.put("one", check="test -e proof")
    run(pit, f"touch proof; {PIT} done $TASKPIT_TASK; exit 3")
    assert pit.card(task).state is State.DONE


def test_another_workers_claim_is_ended_only_by_a_person_who_says_so(pit, monkeypatch):
    (task,) = pit.put("one")
    go = f"{pit.root}/go"
    script = f"echo $TASKPIT_AS > as.new; mv as.new as; while ! [ -e '{go}' ]; do sleep 0.1; done"
    pool = pit.start("--max-tasks", "1", "--", "sh", "-c", script)
    until(lambda: os.path.exists(f"{pit.root}/as"), pool)
    fence = pit.card(task).worker
    told = said(pit, "done", task, "--as", fence, code=4)
    assert "which ends it itself" in told
    for words in ([], ["--not-mine"]):
        assert said(pit, "done", task, "--as", fence, *words, code=9, TASKPIT_AS="other~1", TASKPIT_RUN_DIR="/x")
    for words in (["fail", task, "x"], ["release", task], ["split", task, "a", "b"], ["ask", task, "x"], ["undo"]):
        reply = said(pit, *words, "--as", fence, code=9, TASKPIT_AS="other~1", TASKPIT_RUN_DIR="/x")
        assert "A worker's run may not use" in reply, words
    tool = ToolCalls(lambda: Queue.open(pit.root), fence, pit.root)
    monkeypatch.setenv("TASKPIT_RUN_DIR", "/x")
    with pytest.raises(Denied, match="A worker's run may not use"):
        tool.answer("give_back", {"id": task, "how": "fail", "reason": "x"})
    monkeypatch.delenv("TASKPIT_RUN_DIR")
    tool.close()
    assert pit.card(task).state is State.CLAIMED
    said(pit, "done", task, "--as", fence, "--not-mine")
    assert pit.card(task).state is State.DONE
    with open(go, "w", encoding="ascii"):
        assert pool.wait(PATIENCE) == 0


EVE = """
if [ "$TASKPIT_TASK" = 0001 ]; then echo "$TASKPIT_AS" > as.new; mv as.new as; while ! [ -e over ]; do sleep 0.05; done
else while ! [ -e as ]; do sleep 0.05; done; V=$(cat as); {trick} > told 2>&1; touch over; fi
"""


@pytest.mark.parametrize(
    "trick",
    [
        f"TASKPIT_AS=$V {PIT} fail 1 --final x",
        f"TASKPIT_AS=$V TASKPIT_TASK=0001 {PIT} release 1",
        f"env TASKPIT_AS=$V sh -c '{PIT} ask 1 x; true'",
        f"TASKPIT_AS=$V {orphaned(f'{PIT} split 1 a b > told 2>&1').replace('over', 'then')}",
        f"{PIT} block 1 x --as $V",
        f"{PIT} cancel 1",
        f"{PIT} cancel 1 --as $V",
    ],
    ids=["fail", "release", "ask", "split", "block", "cancel", "cancel as it"],
)
def test_a_run_ends_no_other_whatever_it_calls_itself(pit, trick):
    victim, _ = pit.put("victim") + pit.put("eve")
    assert pit.start("-n", "2", "--max-tasks", "2", "--", "sh", "-c", EVE.format(trick=trick)).wait(PATIENCE) == 0
    with open(f"{pit.root}/told", encoding="utf-8") as file:
        assert "A worker's run may not use" in file.read()
    card = pit.card(victim)
    assert (card.state, card.task.attempts) == (State.DONE, 0)


def test_a_run_may_have_the_parts_of_its_own_task_stopped(pit):
    (whole,) = pit.put("whole")
    (part,) = pit.put("part", parent=whole)
    script = f"""
    if [ "$TASKPIT_TASK" = {part} ]; then touch begun; while :; do sleep 0.05; done; fi
    while ! [ -e begun ]; do sleep 0.05; done; {PIT} cancel {part}
    """
    assert pit.start("-n", "2", "--max-tasks", "2", "--", "sh", "-c", script).wait(PATIENCE) == 0
    assert [pit.card(task).result.verdict for task in (whole, part)] == ["done", "cancelled"]


@pytest.mark.parametrize("hold", ["waits for an answer: may I?", "waits for review by a person: 1 file", "is blocked"])
@pytest.mark.parametrize("verb", ["unblock 1", "retry 1", "block 1 x", "edit 1 --set hold="])
def test_what_waits_for_a_person_goes_on_by_no_run(pit, hold, verb):
    held, _ = pit.put("held", hold=hold) + pit.put("eve")
    run(pit, f"{PIT} {verb} > told 2>&1")
    with open(f"{pit.root}/told", encoding="utf-8") as file:
        assert "A worker's run may not use" in file.read()
    assert pit.card(held).task.hold == hold


def test_no_tool_call_of_a_run_splits_its_check_away(pit, monkeypatch):
    (task,) = pit.put("one", check="false")
    said(pit, "claim", task, "--as", "ada")
    tool = ToolCalls(lambda: Queue.open(pit.root), "ada", pit.root)
    given = {"id": task, "how": "split", "wait": False, "parts": [{"title": "nothing"}]}
    monkeypatch.setenv("TASKPIT_RUN_DIR", "/x")
    with pytest.raises(Invalid, match="its check runs then"):
        tool.answer("give_back", given)
    monkeypatch.delenv("TASKPIT_RUN_DIR")
    assert tool.answer("give_back", given)["state"] == "done"
    tool.close()


def test_done_without_a_check_that_ran_says_so(pit):
    checked, unchecked, none = pit.put("a", check="true") + pit.put("b", check="false") + pit.put("c")
    for task, words in ((checked, []), (unchecked, ["--no-check"]), (none, [])):
        said(pit, "claim", task, "--as", "ada")
        said(pit, "done", task, "--as", "ada", *words)
    assert [pit.card(task).checked for task in (checked, unchecked, none)] == ["yes", "no", "none"]
    assert "b      not checked" in said(pit, "list")
    assert "no: its check was not run" in said(pit, "show", unchecked)
    assert "checked" not in said(pit, "show", checked)
    assert '"checked": "no"' in said(pit, "show", unchecked, "--json")


def test_a_pool_that_runs_no_checks_says_so(pit):
    (task,) = pit.put("one", check="false")
    pit.work_once(lambda _claim, _run: Done(output="x"), checks=False)
    assert (pit.card(task).state, pit.card(task).checked) == (State.DONE, "no")
