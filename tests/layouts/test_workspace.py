"""The workspace's names and Markdown, against the original, with ids and agents full of underscores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskpit.errors import Invalid
from taskpit.layouts.layout import LONGEST_WORD, Spot
from taskpit.layouts.workspace import Workspace
from taskpit.model import Evidence, Result, State, Task, Verdict

SPACE = Workspace()
READY = Spot(state=State.READY, id="task_001")


def spot(path):
    return SPACE.spot(*path.split("/"))


def loaded(text):
    return SPACE.load(READY, text if isinstance(text, bytes) else text.encode())


# -- the original's names --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "state", "task_id", "worker"),
    [
        ("tasks/task_001_pending.md", State.READY, "task_001", ""),
        ("tasks/task_001_inprogress_agent_a.md", State.CLAIMED, "task_001", "agent_a"),
        ("tasks/task_002_inprogress_agent_a.md", State.CLAIMED, "task_002", "agent_a"),
        ("tasks/task_001_done.md", State.DONE, "task_001", ""),
        ("tasks/task_003_done.md", State.DONE, "task_003", ""),
        ("tasks/task_001_failed.md", State.FAILED, "task_001", ""),
    ],
)
def test_every_name_in_the_original_round_trips(path, state, task_id, worker):
    found = spot(path)
    assert (found.state, found.id, found.worker, found.path) == (state, task_id, worker, path)
    task = Task(id=task_id, title="")
    again = {
        State.READY: lambda: SPACE.ready_path(task),
        State.CLAIMED: lambda: SPACE.claimed_path(task, worker),
        State.DONE: lambda: SPACE.ended_path(task, Verdict.DONE),
        State.FAILED: lambda: SPACE.ended_path(task, Verdict.FAILED),
    }
    assert again[state]() == path


def test_the_originals_other_names():
    task = Task(id="task_003", title="")
    assert SPACE.folders == ("tasks", "agents", "outputs", "pipes")
    assert SPACE.manifest == "manifest.json"
    assert SPACE.result_path(task, Verdict.DONE) == "outputs/task_003_result.md"
    assert SPACE.result_of(spot("tasks/task_003_done.md")) == "outputs/task_003_result.md"
    assert SPACE.finished_paths(task) == ("tasks/task_003_done.md", "tasks/task_003_failed.md")
    assert SPACE.ended_path(task, Verdict.CANCELLED) == "tasks/task_003_failed.md"
    assert (SPACE.new_id(1), SPACE.new_id(1234), SPACE.number("task_017")) == ("task_001", "task_1234", 17)


@pytest.mark.parametrize(
    "file", ["notes.md", "task_001.md", "task_001_pending.txt", "task_001_pending.md.swp", "x.json"]
)
def test_other_files_are_none_of_ours(file):
    assert SPACE.spot("tasks", file) is None
    assert SPACE.spot("outputs", "task_001_pending.md") is None


@pytest.mark.parametrize("file", ["a_inprogress_.md", "_pending.md", "a b_pending.md", "ä_done.md"])
def test_names_that_only_others_serve_are_theirs(file):
    assert SPACE.spot("tasks", file) is None
    assert SPACE.is_others(file)


@pytest.mark.parametrize(
    "text",
    ["x_pending", "x_done", "x_failed", "x_inprogress", "x_inprogress_y", "_inprogress_", "a_inprogress_", "a/b"],
)
def test_ids_that_read_like_a_state_are_refused_with_the_reason(text):
    with pytest.raises(Invalid) as told:
        SPACE.check_id(text)
    assert text in told.value.message


@pytest.mark.parametrize("text", ["", "../x", ".x", "READMEs", "readme", "x" * 65, "a b"])
def test_ids_that_no_file_can_have(text):
    with pytest.raises(Invalid):
        SPACE.check_id(text)


@pytest.mark.parametrize("text", ["", "a.b", "a/b", "_a", "-a", "a b", "a~", "a~B", "x" * 73, "ä"])
def test_agents_that_no_file_can_name_are_refused_with_the_reason(text):
    with pytest.raises(Invalid) as told:
        SPACE.check_worker(text)
    assert repr(text) in told.value.message
    assert "no dot" in told.value.hint


# -- properties: names -----------------------------------------------------------------------------

PIECES = ["_", "__", "a", "task", "pending", "done", "failed", "inprogress", "_inprogress_", "_done", "1", "-", "."]
pieces = st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join)
ids = pieces.map(lambda text: text[:LONGEST_WORD])
agents = st.one_of(
    pieces.map(lambda text: f"a{text}".replace(".", "")),
    pieces.map(lambda text: f"agent_{text}~x1".replace(".", "")),
    st.just("x" * 65 + "~abcdef"),
)


def accepted(check, text):
    try:
        check(text)
    except Invalid:
        return False
    return True


@given(ids, agents)
def test_names_are_read_as_they_were_written(task_id, agent):
    if not accepted(SPACE.check_id, task_id) or not accepted(SPACE.check_worker, agent):
        return
    task = Task(id=task_id, title="")
    for path, state, worker in (
        (SPACE.ready_path(task), State.READY, ""),
        (SPACE.claimed_path(task, agent), State.CLAIMED, agent),
        (SPACE.ended_path(task, Verdict.DONE), State.DONE, ""),
        (SPACE.ended_path(task, Verdict.FAILED), State.FAILED, ""),
    ):
        found = spot(path)
        assert (found.id, found.state, found.worker, found.path) == (task_id, state, worker, path)


@given(pieces, st.sampled_from(["_pending.md", "_done.md", "_failed.md", "_inprogress_agent_a.md", ".md"]))
def test_whatever_a_file_is_called_it_reads_one_way(stem, ending):
    """What a name says can be written as that name again: no two readings of one file."""
    found = SPACE.spot("tasks", stem + ending)
    if found is None:
        return
    task = Task(id=found.id, title="")
    written = {
        State.READY: SPACE.ready_path(task),
        State.CLAIMED: SPACE.claimed_path(task, found.worker),
        State.DONE: SPACE.ended_path(task, Verdict.DONE),
        State.FAILED: SPACE.ended_path(task, Verdict.FAILED),
    }
    assert written[found.state] == f"tasks/{stem}{ending}"
    assert SPACE.check_id(found.id)


# -- properties: texts -----------------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
lines = texts.map(lambda text: " ".join(text.split()))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
KEYS = [
    "priority",
    "Tags",
    "task",
    "created",
    "done-when",
    "attempts",
    "slug",
    "carried",
    "größe",
    "a:b",
    "",
    "x\ny",
    "1",
]
moments = st.integers(0, 4_000_000_000).map(float)
tasks = st.builds(
    Task,
    id=st.just("task_001"),
    title=texts.filter(lambda text: text.strip()),
    body=texts.map(lambda text: text.strip("\r\n")),
    slug=lines,
    priority=st.integers(-1000, 1000),
    needs=st.lists(texts, max_size=3).map(tuple),
    check=texts,
    attempts=st.integers(0, 9),
    max_attempts=st.integers(1, 9),
    tags=st.lists(texts, max_size=3).map(tuple),
    touches=st.lists(texts, max_size=3).map(tuple),
    parent=texts,
    not_before=moments,
    hold=texts,
    big=st.booleans(),
    last_error=texts,
    by=texts,
    created=moments,
    extra=st.dictionaries(st.one_of(st.sampled_from(KEYS), texts), values, max_size=4),
)


@given(tasks)
def test_whatever_a_task_is_it_comes_back(task):
    assert loaded(SPACE.dump(task)).replace(source=b"") == task


@given(tasks, tasks)
def test_changed_in_place_it_is_what_it_became(before, after):
    """Bullets of an old text are changed, not added again; whatever stood there before."""
    changed = after.replace(source=SPACE.dump(before))
    assert loaded(SPACE.dump(changed)).replace(source=b"") == after


@given(texts.filter(bool))
def test_any_text_is_a_task_or_refused(text):
    try:
        task = loaded(text)
    except Invalid:
        return
    assert SPACE.dump(task) == text.encode()
    assert loaded(SPACE.dump(task.replace(priority=77))).priority == 77


HAND_MADE = """\
# Summarise the report

- **priority:** 5      # soon
- **owner-team:** blue

Read `report.md`.
- **not:** a bullet, text
"""


def test_what_a_person_wrote_stays_as_it_is():
    task = loaded(HAND_MADE)
    assert (task.title, task.priority, task.extra) == ("Summarise the report", 5, {"owner-team": "blue"})
    assert SPACE.dump(task) == HAND_MADE.encode()
    assert SPACE.dump(task.replace(priority=6)).decode() == HAND_MADE.replace("** 5", "** 6")


def test_a_text_without_any_form_is_a_task():
    task = loaded("please look at the logs\nand tell me\n")
    assert task.title == "please look at the logs"
    assert "tell me" in task.body


def test_what_is_carried_gives_way_to_a_persons_pen():
    """A title of two lines is carried beside the heading; whoever rewrites the heading has the last word."""
    data = SPACE.dump(Task(id="task_001", title="two\nlines", tags=("a,b",)))
    assert (loaded(data).title, loaded(data).tags) == ("two\nlines", ("a,b",))
    by_hand = loaded(data.replace(b"# two lines", b"# three words now").replace(b"** a,b", b"** c"))
    assert (by_hand.title, by_hand.tags) == ("three words now", ("c",))


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize(
    "output",
    [
        "",
        "plain",
        "ends with a line\n",
        "<!-- taskpit:task -->\n# not the task\n",
        "x\n<!-- taskpit:output -->\ny\n\n## Task\n <!-- taskpit:task -->\n  <!-- taskpit:evidence -->",
        "- **verdict:** failed\n- **reason:** none",
        "ünïcode \u2028 \x0b\r\n\r\n",
    ],
)
def test_results_come_back_whole(output, verdict):
    task = Task(id="task_001", title="t", body="<!-- taskpit:task -->")
    result = Result(
        id="task_001",
        verdict=verdict,
        reason="one reason,\nof  two lines",
        output=output,
        worker="agent_a~x1",
        attempt=2,
        finished=1741860042.0,
        seconds=1.25,
        evidence=Evidence(command="grep  'a  b' `x`", exit_code=-9, seconds=0.5, tail=output),
        cost={"usd": 0.25},
        children=("a", "b"),
        log="logs/x.log",
    )
    data = SPACE.dump_result(task, result)
    again, kept = SPACE.load_result(Spot(state=verdict.state, id="task_001", verdict=verdict), data)
    assert again == result
    assert kept.replace(source=b"") == task


def test_a_result_somebody_else_wrote_is_all_output():
    result, task = SPACE.load_result(spot("tasks/task_003_done.md"), b"# What I found\nall of it\n")
    assert (result.verdict, result.output, task) == (Verdict.DONE, "# What I found\nall of it\n", None)


def test_bullets_are_set_from_text():
    task = SPACE.with_field(Task(id="task_001", title="t"), "priority", "7")
    task = SPACE.with_field(task, "owner-team", "blue")
    assert (task.priority, task.extra) == (7, {"owner-team": "blue"})
    with pytest.raises(Invalid, match="priority"):
        SPACE.with_field(task, "priority", "high")
