"""A reviewer agent: its verdict is a structured answer, the builder has none, and no answer is a person's business."""

from __future__ import annotations

import io
import json
import os
import re

import pytest
from faults import Killed
from ground import Ground, git, read

from taskpit.errors import Invalid
from taskpit.landing import review
from taskpit.landing.reviewer import conclude, read_answer, to_review
from taskpit.model import Release, State
from taskpit.policy import LANDING, REVIEW, REVIEWER
from taskpit.run import pool_display, review_thread
from taskpit.run.landing_thread import pipe_for
from taskpit.run.pool import Pool
from taskpit.run.pool_options import PoolOptions
from taskpit.run.runner import CommandRunner
from taskpit.status import Status, status_of

APPROVE = {"verdict": "approve", "summary": "ran it, it holds"}
BACK = {"verdict": "send-back", "summary": "not like this", "comments": [{"path": "a.txt", "line": 1, "text": "bad"}]}
#: Writes a file; once a review is in its task, a better one.
BUILDER = 'grep -q "Review" "$TASKPIT_FILE" && echo good > a.txt || echo bad > a.txt; echo built'


@pytest.fixture
def judged(tmp_path):
    made = Ground(tmp_path / "judged", review="agent")
    yield made
    made.close()


def says(*answers):
    """A reviewer that gives these answers, one after the other, the last one for ever; each is a shell script."""
    script = 'n=$(ls "$TASKPIT_DIR"/../asked-* 2>/dev/null | wc -l); cp "$TASKPIT_RUN_DIR/prompt.md" '
    script += '"$TASKPIT_DIR/../asked-$n"; case $n in '
    for number, answer in enumerate(answers):
        script += f"{number if number < len(answers) - 1 else '*'}) {_script(answer)};; "
    return script + "esac"


def _script(answer):
    return answer if isinstance(answer, str) else f"echo '{json.dumps(answer)}' > $TASKPIT_RUN_DIR/result.md"


def asked(ground):
    names = sorted(name for name in os.listdir(ground.folder) if name.startswith("asked-"))
    return [read(f"{ground.folder}/{name}") for name in names]


def run(ground, reviewer, builder=BUILDER, slots=1, **orders):
    """A pool with a reviewer has run until nothing was left; what it printed."""
    runner = CommandRunner(("sh", "-c", builder), cwd=ground.top, limit=600.0)
    judge = CommandRunner(("sh", "-c", reviewer), cwd=ground.top, limit=600.0)
    pipe = pipe_for(ground.queue, ground.top, ground.terms)
    told = PoolOptions(slots=slots, until_empty=True, check_in=ground.top, landing=pipe, **orders)
    printed = io.StringIO()
    Pool(ground.queue, runner, told, pool_display.Lines(printed), judge).run()
    return printed.getvalue()


def test_what_a_reviewer_sends_back_is_built_again_and_lands_once_it_approves(judged):
    task = judged.put("Say it", body="Say it well.\n", check="test -s a.txt")
    printed = run(judged, says(BACK, f"grep -q good a.txt && {_script(APPROVE)}"))
    card = judged.card(task)
    assert card.state is State.DONE, printed
    assert git(judged.top, "show", "main:a.txt") == "good"
    assert card.task.attempts == 0
    assert "- `a.txt:1`: bad\n  > bad" in card.task.body
    first, second = asked(judged)
    assert "Say it well." in first
    assert "`test -s a.txt` was green on exactly this commit" in first
    assert "+bad" in first
    assert "    built" in first
    assert "not like this" in second  # what was asked for stands in the task
    told = [(event.action, event.worker.partition("~")[0]) for event in judged.queue.store.events(limit=1000)[0]]
    assert ("sent_back", "reviewer-1") in told
    assert ("approved", "reviewer-1") in told
    words = [line.split()[1] for line in printed.splitlines()]
    assert words == ["claimed", "handed", "reviews", "sent", "claimed", "handed", "reviews", "approved", "done"]
    assert not os.path.exists(f"{judged.pipe.workspace(task)}~review")


def test_two_agents_that_never_agree_are_a_persons_in_the_end(judged):
    """They went on for as long as there was money: sending back spends no attempt."""
    task = judged.put("one")
    run(judged, says(*[BACK] * 8, APPROVE), builder="echo x >> a.txt")
    assert len(asked(judged)) == 4
    card = judged.card(task)
    assert card.held == f"{REVIEW} by a person: it was sent back 3 times, and would be again: not like this"
    assert card.task.body.count("not like this") == 4
    assert "landed on main" in judged.pit("review", task, "--approve")


def test_whatever_a_reviewer_does_to_its_files_the_candidate_lands(judged):
    task = judged.put("one")
    hostile = "echo mine > a.txt; echo more > b.txt; git add -A; git commit -qm mine; pit fail $TASKPIT_TASK --error no"
    run(judged, says(f"{hostile}; pit review $TASKPIT_TASK --approve; {_script(APPROVE)}"))
    assert judged.card(task).state is State.DONE
    assert judged.files() == {"README", "a.txt"}
    assert git(judged.top, "show", "main:a.txt") == "bad"


@pytest.mark.parametrize(
    ("answer", "told"), [("echo looks fine to me", "there is no JSON object"), ("exit 3", "exit code 3")]
)
def test_a_bad_verdict_is_asked_for_once_more_and_then_a_person_is(judged, answer, told):
    task = judged.put("one")
    run(judged, says(answer))
    first, second = asked(judged)
    assert "could not be used" not in first
    assert told in second
    card = judged.card(task)
    assert card.held.startswith(f"{REVIEW} by a person: no reviewer could judge it: ")
    assert status_of(card) is Status.NEEDS_YOU
    assert judged.log() == ["begin"]
    review.approve(judged.queue, task, "ada")
    judged.land(task)
    assert judged.log() == ["one", "begin"]


def test_a_second_answer_that_can_be_read_counts(judged):
    judged.put("one")
    run(judged, says("echo hm", f"echo 'Sure:'; echo '```json'; echo '{json.dumps(APPROVE)}'; echo '```'"))
    assert judged.log() == ["one", "begin"]


def test_who_built_it_is_no_reviewer_of_it(judged):
    task = judged.put("one")
    judged.work(task, a_dot_txt="x")
    assert to_review(judged.queue, judged.pipe, "snake-1") == []
    assert [one.task for one in to_review(judged.queue, judged.pipe, "reviewer-1")] == [task]
    assert to_review(judged.queue, judged.pipe, "reviewer-1", tags=("other",)) == []


def test_a_limit_or_a_worker_that_dies_costs_the_task_nothing(judged, monkeypatch):
    monkeypatch.setattr(review_thread, "LATER", 0.0)
    task = judged.put("one")
    run(judged, says("exit 75", APPROVE))
    assert judged.log() == ["one", "begin"]
    assert judged.card(task).task.attempts == 0


def test_a_reviewer_killed_after_its_word_was_noted_is_not_asked_again(judged, monkeypatch):
    task = judged.put("one")
    judged.work(task, a_dot_txt="x")
    handed = judged.pipe.hand_in_of(task)
    judged.pipe.approve(handed, "reviewer-1~gone")
    assert judged.card(task).held.startswith(REVIEWER)
    run(judged, says("exit 1"), builder="false")
    assert asked(judged) == []
    assert judged.log() == ["one", "begin"]


def test_killed_between_its_answer_and_the_end_nothing_is_lost(judged, monkeypatch):
    """Before the note nothing has happened; after it the next one only lets it land."""
    for where in ("note", "finish"):
        task = judged.put(where)
        judged.work(task, **{where: "x"})
        reviews = review_thread.Reviews(judged.queue, judged.pipe, None, ())
        claim = reviews.take("reviewer-1", 60.0)
        handed = judged.pipe.hand_in_of(task)
        answer = read_answer(judged.pipe, handed, json.dumps(APPROVE))
        with monkeypatch.context() as patch:
            patch.setattr(type(judged.pipe) if where == "note" else type(judged.queue), where, _killed)
            with pytest.raises(Killed):
                judged.queue.finish(claim, conclude(judged.pipe, claim, handed, answer, {}, 3))
        judged.queue.finish(claim, Release())  # as the keeper gives it back
        assert judged.card(task).held.startswith(REVIEWER)
        assert judged.lander().waiting() == []
        assert bool(judged.pipe.hand_in_of(task).approved) == (where == "finish")
    run(judged, says(APPROVE), builder="false")
    assert len(asked(judged)) == 1
    assert sorted(judged.log()) == ["begin", "finish", "note"]


def _killed(*_):
    raise Killed


def test_questions_are_a_persons_also_where_an_agent_reviews(judged):
    task = judged.put("one")
    run(judged, says(APPROVE), builder="echo k > id_rsa")
    assert judged.card(task).held == f"{REVIEW} by a person: id_rsa looks like a secret"
    assert asked(judged) == []


def test_its_session_is_not_the_builders(judged):
    from taskpit.model import Claim
    from taskpit.run.agent_runner import Session, Sessions

    claim = Claim(task=judged.queue.card(judged.put("one")).task, worker="w", fence="w~1")
    Sessions(judged.root).keep(claim, Session(preset="p", session="builds", cwd="/a"))
    Sessions(judged.root, "review").keep(claim, Session(preset="p", session="judges", cwd="/a"))
    assert Sessions(judged.root).find(claim, "p", "/a").session == "builds"
    assert Sessions(judged.root, "review").find(claim, "p", "/a").session == "judges"


def test_what_is_no_answer(judged):
    judged.work(judged.put("one"), a_dot_txt="x\n")
    handed = judged.pipe.hand_in_of("0001")
    answers = {
        '{"verdict": "approve", "summary": "x", "other": 1}': "no field",
        "[1]": "no JSON object",
        '{"verdict": 1, "summary": "x"}': "verdict",
        "": "no JSON object",
        "{" * 9: "no JSON object",
        '{"verdict": "maybe", "summary": "x"}': "verdict is one of approve, send-back",
        '{"verdict": "approve", "summary": " "}': "it is empty",
        '{"verdict": "send-back", "summary": "x", "comments": 3}': "comments is a list",
        '{"verdict": "send-back", "summary": "x", "comments": [{"path": "b", "line": 1, "text": "?"}]}': "no file b",
        '{"verdict": "send-back", "summary": "x", "comments": [{"path": "a.txt", "line": 2, "text": "?"}]}': "1 lines",
        json.dumps({**BACK, "verdict": "approve"}): "what you approve lands as it is",
    }
    for text, told in answers.items():
        with pytest.raises(Invalid, match=re.escape(told)):
            read_answer(judged.pipe, handed, text)


def test_status_counts_it_as_waiting_for_a_reviewer_and_asks_for_one_where_none_is(judged):
    task = judged.put("one")
    judged.work(task, a_dot_txt="x")
    assert status_of(judged.card(task)) is Status.WAITING
    standing = review.standing(judged.queue)
    assert (standing.judged, standing.review, standing.reviewer) == ((task,), (), False)
    assert "none runs" in standing.sentences()[0]
    there = judged.pipe.presence("reviewer-1")
    there.take()
    try:
        assert review.standing(judged.queue).sentences() == ["1 waits for a reviewer agent"]
    finally:
        there.drop()
    assert not review.standing(judged.queue).reviewer


def test_the_command_line_has_one_pool_that_builds_and_judges_or_one_that_only_judges(judged):
    judged.put("one", check="test -s a.txt")
    judged.terms = judged.terms.replace(review="none")
    words = ("work", "--until", "empty", "--land", "merge", "--review", "agent")
    judged.pit(*words, "--", "sh", "-c", BUILDER)
    assert judged.card("0001").held.startswith(REVIEWER)
    seen = json.loads(judged.pit("status", "--json"))["data"]
    assert [one["id"] for one in seen["stuck"]] == ["0001"]
    said = judged.pit("work", "--until", "empty", "--reviewer", f"sh -c '{_double(says(APPROVE))}'")
    assert "1 done, 1 approved" in said
    judged.put("two")
    said = judged.pit(*words, "--reviewer", f"sh -c '{_double(says(APPROVE))}'", "--", "sh", "-c", "echo 2 > b.txt")
    assert "landed on main" in said
    assert judged.log() == ["two", "one", "begin"]


def _double(script):
    """The same script inside single quotes."""
    return script.replace("'", "'\"'\"'")


def test_only_the_hold_of_this_candidate_counts(judged):
    task = judged.put("one")
    judged.work(task, a_dot_txt="x")
    judged.queue.edit(task, "ada", lambda one: one.replace(hold=f"{LANDING} on main"))
    assert to_review(judged.queue, judged.pipe, "reviewer-1") == []
