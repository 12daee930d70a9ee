"""A look before it lands: approve what was seen, send it back with words, take it over. The builder has no say."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from ground import Ground, git, read, write
from schemata import data_of, judge
from waits import PATIENCE, until

from taskpit.actions import ACTIONS
from taskpit.errors import Conflict, Invalid, NotFound
from taskpit.landing import review
from taskpit.landing.git import GitTrouble
from taskpit.landing.review import ReviewComment
from taskpit.landing.values import CANDIDATE
from taskpit.model import Done, Release, State
from taskpit.policy import LANDING, REVIEW
from taskpit.queue import Queue
from taskpit.store.opening import init


@pytest.fixture
def looked(tmp_path):
    made = Ground(tmp_path / "looked", review="person")
    yield made
    made.close()


def test_nothing_lands_before_somebody_looked_and_what_was_seen_lands(looked):
    task = looked.put("Say hello", check="grep -q hi a.txt", body="\n".join(f"Word {n}" for n in range(30)))
    looked.work(task, a_dot_txt="hi\n")
    assert "Say hello" in looked.pit("review")
    page = looked.pit("review", task)
    assert "+hi" in page
    assert "green in" in page
    assert "\nAsked\n  Word 0\n" in page
    assert "  Word 19\n  … and 10 more lines\n\nsnake-1 says\n  did it\n" in page
    assert "--approve" in looked.pit("why", task)
    said = looked.pit("review", task, "--approve")
    assert "landed on main" in said
    assert looked.card(task).state is State.DONE
    assert looked.log() == ["Say hello", "begin"]
    assert "+hi" in looked.pit("diff", task)
    assert looked.pit("diff", task, "--stat") == "A  a.txt  +1 -0\n"
    assert looked.pit("review") == "Nothing waits for review.\n"


def test_what_programs_see(looked):
    one, two, three = (looked.put(title, check="true") for title in ("one", "two", "three"))
    for task in (one, two, three):
        looked.work(task, **{f"{task}_dot_txt": "x\n"})
    seen = [
        ("review",),
        ("review", one),
        ("diff", one),
        ("diff", one, "--stat"),
        ("review", one, "--approve"),
        ("review", two, "--send-back", "no"),
        ("review", three, "--take-over"),
    ]
    for words in seen:
        judge(json.loads(looked.pit(*words, "--json"))["data"], data_of(words[0]))
    assert looked.card(one).state is State.DONE


def test_send_back_with_comments_is_in_the_next_prompt_and_spends_nothing(looked):
    task = looked.put("one", body="Do it well.\n")
    looked.work(task, src__a_dot_py="first\nsecond\n")
    looked.pit("review", task, "--send-back", "not like this", "--comment", "src/a.py:2:use the helper", "--as", "ada")
    card = looked.card(task)
    assert (card.state, card.task.hold, card.task.attempts) == (State.READY, "", 0)
    assert CANDIDATE not in card.task.extra
    assert "not like this" in card.task.body
    assert "- `src/a.py:2`: use the helper\n  > second" in card.task.body
    assert looked.pipe.hand_in_of(task) is None
    claim, path = looked.enter(task)
    assert read(f"{path}/src/a.py") == "first\nsecond\n"  # it goes on from its own files
    write(f"{path}/src/a.py", "helper\n")
    looked.hand_in(claim)
    review.approve(looked.queue, task, "ada@here")
    looked.land(task)
    assert git(looked.top, "show", "main:src/a.py") == "helper"


def test_a_comment_on_what_is_not_there_is_refused_and_changes_nothing(looked):
    task = looked.put()
    looked.work(task, a_dot_txt="x\n")
    before = looked.card(task)
    for one in (ReviewComment(path="b.txt", line=1, text="?"), ReviewComment(path="a.txt", line=9, text="?")):
        with pytest.raises(Invalid):
            review.send_back(looked.queue, task, "ada", "no", [one])
    assert looked.card(task) == before
    assert "FILE:LINE:TEXT" in looked.pit("review", task, "--send-back", "no", "--comment", "nonsense", code=6)


def test_the_builder_cannot_approve_and_no_agent_can_for_a_person(looked):
    task = looked.put()
    looked.work(task, a_dot_txt="x")
    with pytest.raises(Invalid, match="cannot approve"):
        review.approve(looked.queue, task, "snake-1~other")
    assert "run may not use" in looked.pit("review", task, "--approve", code=9, TASKPIT_RUN_DIR="/somewhere")
    assert looked.card(task).held.startswith(REVIEW)


def test_an_approval_names_what_was_seen(looked):
    task = looked.put()
    looked.work(task, a_dot_txt="x")
    first = looked.pipe.hand_in_of(task).commit
    review.send_back(looked.queue, task, "ada", "again")
    claim, path = looked.enter(task)
    write(f"{path}/b.txt")
    looked.hand_in(claim)
    with pytest.raises(Conflict, match="newer candidate"):
        review.approve(looked.queue, task, "ada", first)
    assert looked.card(task).held.startswith(REVIEW)


def test_a_change_waits_on_while_the_tasks_file_is_elsewhere(looked):
    """Moved by hand, or on another branch of a tracked queue: a lander that looks just then throws nothing away."""
    task = looked.put("one")
    looked.work(task, a_dot_txt="x")
    (name,) = os.listdir(f"{looked.root}/food")
    os.rename(f"{looked.root}/food/{name}", f"{looked.folder}/{name}")
    assert looked.lander().waiting() == []
    os.rename(f"{looked.folder}/{name}", f"{looked.root}/food/{name}")
    assert "landed on main" in looked.pit("review", task, "--approve")
    assert looked.log() == ["one", "begin"]


def test_what_was_handed_in_before_its_task_was_edited_is_not_what_is_asked_for(looked):
    git(looked.top, "branch", "release")
    for option, value in (("check", "test -e b-check"), ("set", "onto=release")):
        task = looked.put(option, check="true")
        looked.work(task, **{f"{option}_dot_txt": "x"})
        looked.pit("edit", task, f"--{option}", value)
        assert "was edited since it was handed in" in looked.pit("review", task, "--approve")
        looked.pit("review", task, "--send-back", "as it says now")
        looked.work(task, **{f"b-{option}": "x"})
        looked.pit("review", task, "--approve")
        assert looked.card(task).state is State.DONE
    assert looked.log() == ["check", "begin"]
    assert looked.log(branch="release") == ["set", "begin"]


def test_a_check_that_is_added_while_a_change_waits_is_run(looked):
    """It landed without: a check that was changed was noticed, one that there had not been was not."""
    task = looked.put("one")
    looked.work(task, a_dot_txt="x")
    looked.pit("edit", task, "--check", "test -e b.txt")
    assert "was edited since it was handed in (check)" in looked.pit("review", task, "--approve")
    assert looked.log() == ["begin"]


def test_a_pool_that_runs_no_checks_is_not_said_to_have_been_given_another(looked):
    task = looked.put("one", check="false")
    claim, path = looked.enter(task)
    write(f"{path}/a.txt")
    looked.queue.finish(claim, looked.pipe.hand_in(claim, Done(), looked.hands, check=False))
    assert "landed on main" in looked.pit("review", task, "--approve")


def test_editing_the_tasks_file_approves_nothing(looked):
    """Whoever may write to the queue's folder can change the hold; what may land is noted elsewhere."""
    task = looked.put()
    looked.work(task, a_dot_txt="x")
    looked.queue.edit(task, "snake-1", lambda one: one.replace(hold=f"{LANDING} on main"))
    assert looked.lander().waiting() == []
    assert looked.log() == ["begin"]


def test_what_must_be_asked_is_asked_also_where_nobody_wants_review(ground):
    task = ground.put()
    claim, path = ground.enter(task)
    write(f"{path}/id_rsa", "x")
    ground.hand_in(claim)
    assert "id_rsa looks like a secret" in ground.pit("review")
    answer = ground.pit("review", task, "--approve", code=6)
    assert "looks like a secret" in answer
    assert "--despite secret" in answer
    ground.pit("review", task, "--approve", "--despite", "conflict", code=6)
    assert ground.files() == {"README"}
    ground.pit("review", task, "--approve", "--despite", "secret")
    assert ground.files() == {"README", "id_rsa"}


def test_taken_over_it_is_the_persons_with_the_change_on_a_branch(looked):
    task = looked.put()
    looked.work(task, a_dot_txt="x\n")
    said = looked.pit("review", task, "--take-over", "--as", "ada")
    assert f"pit/{task}" in said
    assert looked.card(task).worker == "ada"
    assert looked.files(f"pit/{task}") == {"README", "a.txt"}
    looked.pit("done", task, "--as", "ada")
    assert looked.card(task).state is State.DONE


def test_taken_over_once_more_it_is_on_another_branch(looked):
    """The branch of the first time is the person's, whatever they did with it."""
    task = looked.put()
    for number, name in enumerate((f"pit/{task}", f"pit/{task}-2"), 1):
        looked.work(task, a_dot_txt=f"{number}\n")
        for _ in range(2):  # the same once more is the same branch
            claim, branch = review.take_over(looked.queue, task, "ada")
            assert branch == name
            looked.queue.finish(claim, Release())
        assert git(looked.top, "show", f"{name}:a.txt") == str(number)
        review.send_back(looked.queue, task, "ada", "once more")


def test_a_change_that_cannot_be_given_waits_as_before(looked):
    task = looked.put()
    looked.work(task, a_dot_txt="x\n")
    git(looked.top, "branch", "pit")  # there can be no branch below one
    with pytest.raises(GitTrouble):
        review.take_over(looked.queue, task, "ada")
    assert looked.card(task).held.startswith(REVIEW)
    assert [card.task.id for card in review.waiting(looked.queue)] == [task]


def test_an_approved_change_that_conflicts_goes_back_and_is_looked_at_again(looked):
    one, two = looked.put("one"), looked.put("two")
    looked.work(one, README="mine\n")
    looked.work(two, README="yours\n")
    for task in (one, two):
        review.approve(looked.queue, task, "ada")
        looked.land(task)
    assert looked.card(two).task.hold == ""
    claim, path = looked.enter(two)
    write(f"{path}/README", "both\n")
    looked.hand_in(claim)
    assert looked.card(two).held.startswith(REVIEW)
    assert looked.lander().waiting() == []


def test_what_is_not_there_is_told(ground):
    task = ground.put()
    with pytest.raises(NotFound, match="no change that waits"):
        review.find(ground.queue, task)
    assert "no candidate" in ground.pit("diff", task, code=5)
    ground.work(task, a_dot_txt="x")
    ground.land(task)
    assert "no change that waits for review" in ground.pit("review", task, "--approve", code=5)


def test_status_doctor_and_sweep_tell_and_bring_in_what_is_not_in_the_checkout(ground):
    task, failed = ground.put("one"), ground.put("two", max_attempts=1, check="false")
    ground.work(task, README="landed\n")
    write(f"{ground.top}/README", "dirty\n")
    ground.land(task)
    ground.work(failed, b_dot_txt="b")
    assert ground.card(failed).state is State.FAILED
    told = json.loads(ground.pit("status", "--json"))["data"]["landing"]
    assert any("1 commit that landed on main is not in your checkout yet" in line and "README" in line for line in told)
    found = ground.pit("doctor")
    assert "not published" in found
    assert "kept clone" in found
    assert "not in your checkout yet" in ground.pit("sweep")
    git(ground.top, "checkout", "-q", "README")
    ground.pit("sweep")
    assert ground.log() == ["one", "begin"]
    told = json.loads(ground.pit("status", "--json"))["data"]["landing"]
    assert [line for line in told if "checkout" in line] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_approval_that_is_interrupted_blocks_nothing(looked, number):
    begun = f"{looked.folder}/begun"
    wait = f"touch '{begun}'; test -e '{begun}.go' || sleep 60"
    task = looked.put("one", check=f"! test -e person.txt || {{ {wait}; }}")
    looked.work(task, a_dot_txt="a")
    looked.commit("person.txt")  # so that what would land is checked again
    argv = [sys.executable, "-m", "taskpit", "-C", looked.root, "review", task, "--approve", "--as", "ada"]
    approving = subprocess.Popen(argv, cwd=looked.top, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        until(lambda: os.path.exists(begun), approving)
    finally:
        approving.send_signal(number)
        approving.communicate(timeout=PATIENCE)
    write(f"{begun}.go")
    looked.pit("sweep")
    assert looked.card(task).task.hold == f"{LANDING} on main"
    looked.land(task)
    assert looked.log() == ["one", "add person.txt", "begin"]


def test_a_candidate_that_came_since_another_was_chosen_is_looked_at_first(looked):
    task = looked.put("one")
    looked.work(task, a_dot_txt="a")
    handed = looked.pipe.hand_in_of(task)
    looked.queue.edit(task, "ada", lambda one: one.replace(hold=f"{LANDING} on main"))  # whatever its file says
    looked.lander().land(handed)
    assert looked.log() == ["begin"]
    assert looked.card(task).held.startswith(REVIEW)


def test_a_damaged_repository_of_ours_stops_no_look_at_the_queue(ground):
    task = ground.put("one")
    ground.work(task, a_dot_txt="a")
    ground.land(task)
    os.rename(f"{ground.pipe.git.directory}/objects", f"{ground.folder}/objects")
    assert "cannot be read" in ground.pit("status")
    assert "cannot be read" in ground.pit("doctor")
    assert "cannot be brought to its branch" in ground.pit("sweep")


def test_a_repository_that_was_moved_away_is_told_everywhere_and_goes_on_once_it_is_back(looked):
    """Its candidate was silently not shown; that nothing waits was all that was said."""
    task = looked.put("Say hello", check="grep -q hi a.txt")
    looked.work(task, a_dot_txt="hi\n")
    away = f"{looked.top}.away"
    os.rename(looked.top, away)
    os.mkdir(looked.top)
    told = f"{task} waits for a repository that was moved away: put it back at"
    assert told in looked.pit("status")  # cut to the width of the terminal
    for words, code in ((("doctor",), 1), (("review",), 0), (("review", task), 5)):
        assert f"{told} {looked.top}" in looked.pit(*words, code=code), words
    assert "is not at" in looked.pit("diff", task, code=5)
    assert "Nothing is lost" in looked.pit("review", task, "--approve", code=5)
    os.rmdir(looked.top)
    os.rename(away, looked.top)
    assert "moved away" not in looked.pit("status") + looked.pit("review")
    assert "landed on main" in looked.pit("review", task, "--approve")


def test_an_approval_stands_while_the_change_is_the_same(looked):
    """The branch moves after the approval: elsewhere in the file that is nothing, beside the change it is."""
    looked.commit("a.txt", "".join(f"{number}\n" for number in range(30)))
    task, other = looked.put("change the middle"), looked.put("another file")
    body = [f"{number}\n" for number in range(30)]
    looked.work(task, a_dot_txt="".join([*body[:15], "mine\n", *body[15:]]))
    looked.work(other, b_dot_txt="b\n")
    for one in (task, other):
        review.approve(looked.queue, one, "ada")
    looked.land(other)
    looked.commit("a.txt", "".join(["first\n", *body]))
    write(f"{looked.top}/a.txt", "".join(["first\n", *body[:13], "near\n", *body[14:]]))
    git(looked.top, "commit", "-qam", "beside it")
    looked.land(task)
    card = looked.card(task)
    assert card.held.startswith(f"{REVIEW} by a person: 1 file, +1 -0; it was approved, but with what landed on main")
    handed = looked.pipe.hand_in_of(task)
    assert " near" in review.diff(looked.pipe, handed.base, handed.commit)
    review.approve(looked.queue, task, "ada", handed.commit)
    looked.commit("c.txt")  # the branch moves again, and the change stays what it is
    looked.land(task)
    assert looked.card(task).state is State.DONE
    assert "near\n14\nmine\n15" in git(looked.top, "show", "main:a.txt")


def test_what_comes_back_unchanged_is_approved_still_unless_it_was_sent_back(looked):
    task = looked.put("one", check=f"test -e '{looked.folder}/mended' || ! test -e new.txt")
    looked.work(task, a_dot_txt="a\n")
    review.approve(looked.queue, task, "ada")
    looked.commit("new.txt")
    looked.land(task)  # red together with what is there now
    assert looked.card(task).tries[-1].kind == "check"
    write(f"{looked.folder}/mended")
    claim, _ = looked.enter(task)
    looked.hand_in(claim)
    assert looked.card(task).held == f"{LANDING} on main"
    review.send_back(looked.queue, task, "ada", "after all not")
    claim, _ = looked.enter(task)
    looked.hand_in(claim)
    assert looked.card(task).held.startswith(REVIEW)


def test_who_lands_after_an_approval_ends_quietly_where_the_queue_is_gone(tmp_path):
    init(str(tmp_path / "pit"), "pit")
    queue = Queue.open(str(tmp_path / "pit"))
    shutil.rmtree(tmp_path / "pit")
    ACTIONS["approve"].then(queue, "0001", "me@here")  # in a thread of its own: nobody would catch what it raises
    queue.close()


@pytest.mark.parametrize("verb", ["block", "unblock", "retry"])
def test_what_waits_for_review_is_not_freed_past_it(looked, verb):
    """It was worked on anew, at full price, and another change stood where the one that was looked at had been."""
    task = looked.put()
    looked.work(task, a_dot_txt="x\n")
    before = looked.card(task)
    said = looked.pit(verb, task, *(["later"] if verb == "block" else []), code=6)
    assert f"{task} has a change that waits for review by a person" in said
    assert f"`pit review {task} --approve`" in said
    assert looked.card(task).task == before.task
    looked.pit("cancel", task)
    looked.pit("retry", task)  # from scratch, as was asked for
    assert looked.card(task).held == ""


def test_the_log_of_a_change_that_waits_is_that_of_the_run_which_made_it(looked):
    """It was that of the attempt before, which had failed."""
    task = looked.put("one", check="test -e second")
    looked.pool("if test -e first; then touch second; else touch first; fi; ls")
    assert looked.card(task).held.startswith(REVIEW)
    assert looked.pit("show", task, "--log").splitlines()[:3] == ["README", "first", "second"]
