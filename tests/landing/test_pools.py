"""Pools whose work lands: slots are free while it does, dependants see it, trouble is told and never paid twice."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys

import pytest
from ground import Ground, git, read, write
from waits import PATIENCE, until
from workshop import read_pid

from taskpit.keeper import sweep
from taskpit.landing import review
from taskpit.landing.git import GitTrouble
from taskpit.landing.repository import Repository
from taskpit.model import Failed, State
from taskpit.policy import REVIEW
from taskpit.run.landing_thread import land_by_hand
from taskpit.run.runner import CommandRunner

#: Writes the body of its task as a script, and counts how often it was run.
AGENT = (
    'echo run >> "{}/runs-$TASKPIT_TASK"; do="$TASKPIT_RUN_DIR/do.sh"; '
    'sed -n "/^## do/,$ p" "$TASKPIT_FILE" | tail -n +2 > "$do"; sh "$do"'
)


def runs(ground, task):
    return len(read(f"{ground.folder}/runs-{task}").splitlines())


def agent(ground):
    return AGENT.format(ground.folder)


def put(ground, title, script, **fields):
    return ground.put(title, body=f"## do\n{script}\n", **fields)


def test_every_task_is_done_and_on_main(ground):
    one = put(ground, "one", "echo a > a.txt", check="test -s a.txt")
    two = put(ground, "two", "echo b > b.txt", check="test -s b.txt")
    three = put(ground, "three", "cat a.txt b.txt > c.txt", check="test -s c.txt", needs=(one, two))
    report, printed = ground.pool(agent(ground), slots=3)
    assert report.tally == {"done": 3}
    assert ground.log()[0] == "three"
    assert git(ground.top, "show", "main:c.txt") == "a\nb"
    assert {runs(ground, task) for task in (one, two, three)} == {1}
    assert "handed in" in printed
    assert "landed on main" in printed


def test_two_that_conflict_both_land_and_the_second_is_told_what_to_do(ground):
    script = (
        "if grep -q '<<<<<<<' README; then printf 'one\\ntwo\\n' > README; cp \"$TASKPIT_RUN_DIR/prompt.md\" ../told; "
        "else echo $TASKPIT_TASK > README; fi"
    )
    for title in ("one", "two"):
        put(ground, title, script)
    report, _ = ground.pool(agent(ground), slots=2)
    assert report.tally["done"] == 2
    assert git(ground.top, "show", "main:README") == "one\ntwo"
    folder = os.path.dirname(ground.pipe.workspace("x"))
    told = read(f"{folder}/told")
    assert "meanwhile, in: README" in told
    assert "<<<<<<< (main)" in told
    assert "has landed on main" in told
    assert "clone of your own" in told


def test_checks_that_run_what_an_agent_wrote_see_no_more_than_the_agent(ground, monkeypatch):
    for name in ("DEPLOY_KEY", "TASKPIT_TOKEN", "NPM_REGISTRY"):
        monkeypatch.setenv(name, f"value-of-{name}")
    seen = f"env >> '{ground.folder}/seen'"
    for name in ("a", "b"):  # the second is checked again on what the first has landed
        put(ground, name, f"echo {name} > {name}.txt", check=f"test -s {name}.txt && {seen}")
    ground.pool(agent(ground), slots=2, env=("NPM_*",), setup=seen, land_check=seen)
    waits = put(ground, "c", "echo c > c.txt", check=f"test -s c.txt && {seen}")
    ground.pool(agent(ground), env=("NPM_*",), review="person")
    told = read(f"{ground.folder}/seen")
    os.unlink(f"{ground.folder}/seen")
    ground.commit("d.txt", message="the person moves on")  # so that what is approved is checked once more
    pipe, handed = review.approve(ground.queue, waits, "ada")
    assert "landed" in land_by_hand(ground.queue, pipe, handed, "ada", ground.hands.say)
    for text in (told, read(f"{ground.folder}/seen")):
        assert "NPM_REGISTRY=value" in text
        assert "PATH=" in text
        assert "DEPLOY_KEY" not in text
        assert "value-of-TASKPIT_TOKEN" not in text


def cut_short(name):
    """A runner whose run is ended at its limit, with a file written by then."""

    def runner(_claim, run):
        write(f"{run.cwd}/{name}", "late\n")
        return Failed(error="it took longer than 1h", kind="timeout", output="almost", seconds=3600.0)

    return runner


def test_a_run_cut_short_whose_check_is_green_lands_and_says_so(ground):
    task = ground.put("late", check="test -s late.txt")
    report, _ = ground.pool(cut_short("late.txt"))
    card = ground.card(task)
    assert (report.tally, card.state, card.task.attempts) == ({"done": 1}, State.DONE, 0)
    assert card.result.reason.startswith("it took longer than 1h; its check is green nevertheless; landed on main")
    assert "late.txt" in ground.files()


@pytest.mark.parametrize("check", ["test -s missing.txt", ""])
def test_a_run_cut_short_without_a_green_check_is_not_handed_in(ground, check):
    task = ground.put("late", check=check, max_attempts=1)
    ground.pool(cut_short("late.txt"))
    card = ground.card(task)
    assert card.result.verdict == "failed"
    assert "it took longer than 1h" in card.result.reason
    assert ground.log() == ["begin"]


def test_a_command_beside_the_repository_is_found_from_a_clone_too(ground):
    """`../agent.sh` is the person's file; `./agent.sh` that is committed is the clone's own."""
    write(f"{ground.folder}/agent.sh", 'echo "$TASKPIT_TASK" > out.txt\n')
    ground.commit("inner.sh", 'echo "$PWD" > "$(dirname "$0")/in.txt"\n')
    for path in (f"{ground.folder}/agent.sh", f"{ground.top}/inner.sh"):
        os.chmod(path, 0o755)
        write(path, f"#!/bin/sh\n{read(path)}")
    git(ground.top, "commit", "-qam", "executable")
    for argv, name in (
        (("../agent.sh",), "out.txt"),
        (("sh", "../agent.sh"), "out.txt"),
        (("./inner.sh",), "in.txt"),
    ):
        task = ground.put()
        ground.pool(CommandRunner(argv, cwd=ground.top))
        assert ground.card(task).state is State.DONE
        assert name in ground.files()
    assert ground.top not in read(f"{ground.top}/in.txt")


def test_a_dirty_checkout_costs_no_run(ground):
    task = put(ground, "one", "echo changed > README")
    write(f"{ground.top}/README", "the person edits\n")
    report, printed = ground.pool(agent(ground))
    assert report.tally == {"done": 1}
    assert runs(ground, task) == 1
    assert read(f"{ground.top}/README") == "the person edits\n"
    assert "not in your checkout yet" in printed
    git(ground.top, "checkout", "-q", "README")
    ground.pool(agent(ground))  # the next pool brings it in before anything else
    assert ground.log() == ["one", "begin"]


def test_a_set_up_that_fails_waits_for_a_person_and_spends_nothing(ground):
    task = put(ground, "one", "true", extra={"setup": "echo no compiler; exit 2"})
    ground.pool(agent(ground))
    card = ground.card(task)
    assert card.state is State.READY
    assert "the set-up failed (exit code 2): no compiler" in card.held
    assert card.task.attempts == 0
    assert not os.path.exists(f"{ground.folder}/runs-{task}")


def test_a_branch_that_conflicts_with_what_landed_waits_for_a_person_at_once(ground):
    """It was tried again for ever, as if the disk were full, and nothing said that anybody was needed."""
    one = ground.put("one")
    write(f"{ground.top}/README", "dirty\n")
    ground.pool("echo agent > same.txt")
    git(ground.top, "checkout", "-q", "README")
    ground.commit("same.txt", "mine\n")
    two = ground.put("two")
    ground.pool("echo x > b.txt")
    card = ground.card(two)
    assert (ground.card(one).state, card.state, card.tries, card.task.attempts) == (State.DONE, State.READY, (), 0)
    wide = {"COLUMNS": "2000"}
    assert f"Needs you {two} two {card.held}" in " ".join(ground.pit("status", **wide).split())
    assert f"Needs you {two} two main has commits that conflict" in " ".join(ground.pit("report", **wide).split())
    fetch, merge = (words.partition("`")[0] for words in card.held.split("`git ")[1:])
    git(ground.top, *shlex.split(fetch))
    git(ground.top, *shlex.split(merge.replace("merge", "merge -q -X ours")))
    ground.queue.unblock(two, "ada@here")
    ground.pool("echo x > b.txt")
    assert ground.files() == {"README", "same.txt", "b.txt"}
    assert git(ground.top, "show", "main:same.txt") == "mine"


def test_trouble_of_git_that_stays_waits_for_a_person_with_what_to_do_about_it(ground, monkeypatch):
    def broken(*_):
        raise GitTrouble("git checkout: fatal: no room", hint="Make some room.")

    monkeypatch.setattr(Repository, "clone", broken)
    task = ground.put()
    ground.pool("true")
    card = ground.card(task)
    assert card.held == "git made no clone for it: git checkout: fatal: no room. Make some room."
    assert ([one.kind for one in card.tries], card.task.attempts) == (["infra", "infra"], 0)


def test_other_trouble_of_a_task_is_no_trouble_of_git(ground, monkeypatch):
    """What the disk or an agent's network does passes by itself, however often it came before."""
    real, left = Repository.clone, [OSError(28, "no room"), GitTrouble("once"), OSError(28, "no room"), GitTrouble("2")]

    def broken(self, *rest):
        if left:
            raise left.pop(0)
        real(self, *rest)

    monkeypatch.setattr(Repository, "clone", broken)
    task = ground.put()
    ground.pool("echo x > a.txt")
    assert (ground.card(task).state, len(ground.card(task).tries)) == (State.DONE, 4)


def test_a_task_that_is_to_land_is_not_done_where_nothing_can(ground, tmp_path):
    task = put(ground, "one", "true", extra={"land": "merge"})
    ground.top = str(tmp_path)
    ground.terms = ground.terms.replace(land="none", onto="")
    ground.pool(agent(ground))
    assert "in no git checkout" in ground.card(task).held


def test_only_tasks_that_ask_for_it_land_where_the_pool_does_not(ground):
    one = put(ground, "one", "echo a > a.txt", extra={"land": "merge"})
    two = put(ground, "two", "pwd")
    ground.terms = ground.terms.replace(land="none", onto="")
    report, _ = ground.pool(agent(ground))
    assert report.tally == {"done": 2}
    assert ground.log() == ["one", "begin"]
    assert ground.card(two).result.output.strip() == ground.top
    assert "landed on main" in ground.card(one).result.reason


@pytest.mark.races
def test_a_killed_pool_loses_nothing_and_the_next_attempt_goes_on(ground):
    script = (
        "if [ -e half.txt ]; then cat half.txt > whole.txt; else echo half > half.txt; echo $$ > started; sleep 600; fi"
    )
    task = put(ground, "half a job", script, check="test -s whole.txt")
    words = ("-n", "1", "--land", "merge", "--until", "empty")
    argv = [sys.executable, "-m", "taskpit", "-C", ground.root, "work", *words, "--", "sh", "-c", agent(ground)]
    path = ground.pipe.workspace(task)
    with open(os.devnull, "wb") as nowhere:
        pool = subprocess.Popen(argv, cwd=ground.top, stdout=nowhere, stderr=nowhere)
        read_pid(f"{path}/started")
        pool.kill()
        pool.wait()
        until(lambda: sweep(ground.queue))
        assert read(f"{path}/half.txt") == "half\n"
        subprocess.run(argv, cwd=ground.top, stdout=nowhere, stderr=nowhere, check=True)
    assert ground.card(task).state is State.DONE
    assert ground.files() == {"README", "half.txt", "whole.txt", "started"}


@pytest.mark.races
def test_a_pool_killed_while_it_lands_leaves_the_rest_to_the_next(ground):
    """Its check stands still in the middle of landing; the pool dies; the next one lands it and runs no agent."""
    gate = f"{ground.folder}/gate"
    task = put(ground, "one", "echo a > a.txt", check="true")
    words = (
        "-n",
        "1",
        "--land",
        "merge",
        "--until",
        "empty",
        "--land-check",
        f"test -e '{gate}' || {{ echo $$ > '{gate}.pid'; sleep 600; }}",
    )
    argv = [sys.executable, "-m", "taskpit", "-C", ground.root, "work", *words, "--", "sh", "-c", agent(ground)]
    with open(os.devnull, "wb") as nowhere:
        pool = subprocess.Popen(argv, cwd=ground.top, stdout=nowhere, stderr=nowhere)
        read_pid(f"{gate}.pid")
        pool.kill()
        pool.wait()
        write(gate)
        assert ground.card(task).state is not State.DONE
        subprocess.run(argv, cwd=ground.top, stdout=nowhere, stderr=nowhere, check=True)
    assert ground.card(task).state is State.DONE
    assert ground.log() == ["one", "begin"]
    assert runs(ground, task) == 1


@pytest.mark.races
def test_told_to_stop_twice_a_landing_is_left_to_the_next_pool(ground):
    gate = f"{ground.folder}/gate"
    task = put(ground, "one", "echo a > a.txt", check="true")
    words = ("-n", "1", "--land", "merge", "--until", "empty", "--land-check", f"echo $$ > '{gate}.pid'; sleep 600")
    argv = [sys.executable, "-m", "taskpit", "-C", ground.root, "work", *words, "--", "sh", "-c", agent(ground)]
    with open(os.devnull, "wb") as nowhere:
        pool = subprocess.Popen(argv, cwd=ground.top, stdout=nowhere, stderr=nowhere)
        read_pid(f"{gate}.pid")
        pool.send_signal(signal.SIGTERM)
        pool.send_signal(signal.SIGINT)
        assert pool.wait(PATIENCE) in (128 + signal.SIGTERM, 128 + signal.SIGINT)
    card = ground.card(task)
    assert (card.state, card.held, card.tries) == (State.READY, "waits for landing on main", ())


@pytest.mark.parametrize(
    "words", [["--worktree"], ["--worktree", "--merge", "ff"], ["--land", "branch"], ["--land", "merge"]]
)
def test_the_older_words_mean_the_new_way(ground, words):
    put(ground, "one", "echo a > a.txt", check="test -s a.txt")
    argv = [sys.executable, "-m", "taskpit", "--json", "-C", ground.root, "work", *words, "--until", "empty", "--"]
    ran = subprocess.run([*argv, "sh", "-c", agent(ground)], cwd=ground.top, capture_output=True, check=True, text=True)
    assert json.loads(ran.stdout)["data"]["ended"] == {"done": 1}
    branch = "main" if words[-1] in ("ff", "merge") else "pit/0001"
    assert ground.log(branch=branch) == ["one", "begin"]
    assert git(ground.top, "branch", "--format=%(refname:short)").split() == sorted({"main", branch})


@pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is missing: sh scripts/system-packages bubblewrap"
)
def test_a_shut_in_agent_works_in_its_clone_and_sees_nothing_of_ours(ground, monkeypatch):
    """The state directory lies in a home that is hidden; its git works all the same, and nothing else is reached."""
    from taskpit.run.sandbox import Sandbox

    script = "git log --oneline > log.txt; git add log.txt; git commit -qm mine; echo bad > $PLACE/README || true"
    monkeypatch.setenv("PLACE", ground.top)
    task = put(ground, "one", script, check="git log --oneline | grep -q one && test -s log.txt")
    report, printed = ground.pool(agent(ground).replace("echo run", "true"), sandbox=Sandbox(network="off"))
    assert report.tally == {"done": 1}, printed
    assert ground.files() == {"README", "log.txt"}
    assert read(f"{ground.top}/README") == "hello\n"
    assert "begin" in git(ground.top, "show", "main:log.txt")
    assert task


def test_a_person_who_has_enough_to_look_at_gets_no_more(tmp_path):
    ground = Ground(tmp_path / "many", review="person")
    for number in range(4):
        put(ground, f"task {number}", f"echo $TASKPIT_SLOT > {number}.txt")
    report, printed = ground.pool(agent(ground), review_limit=2)
    assert len(review.waiting(ground.queue)) == 2
    assert "2 wait for review, and the limit is 2" in printed
    for card in review.waiting(ground.queue):
        review.approve(ground.queue, card.task.id, "ada")
    ground.pool(agent(ground), review_limit=2)
    assert sorted(ground.log()) == ["begin", "task 0", "task 1"]
    assert len(review.waiting(ground.queue)) == 2
    assert git(ground.top, "show", "main:0.txt") == "1"
    assert report.tally == {}
    ground.close()


def test_a_review_by_a_person_lets_the_pool_end(tmp_path):
    ground = Ground(tmp_path / "review", review="person")
    task = put(ground, "one", "echo a > a.txt")
    ground.pool(agent(ground))
    assert ground.card(task).held.startswith(REVIEW)
    assert ground.log() == ["begin"]
    ground.close()
