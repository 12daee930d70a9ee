"""The mailbox's names and JSON, against the original to the letter, and against readers that drop keys."""

from __future__ import annotations

import json

import pytest
from boxes import ORIGINAL_TASK
from hypothesis import given
from hypothesis import strategies as st

from taskpit.errors import Invalid
from taskpit.layouts.layout import LONGEST_WORD, Spot
from taskpit.layouts.mailbox import SCHEMA, Mailbox
from taskpit.model import Evidence, Result, State, Task, Verdict

BOX = Mailbox()

ORIGINAL_RESULT = """\
{
  "task_id": "task_1234567890",
  "status": "completed",
  "verdict": "pass",
  "verdict_reason": "Successfully implemented feature",
  "output": "Task output here...",
  "duration_ms": 45000,
  "completed_at": 1705862445
}
"""

ORIGINAL_ERROR = """\
{
  "task_id": "task_1234567890",
  "status": "failed",
  "error": "execution failed: timeout",
  "attempts": 3,
  "last_attempt_at": 1705862500,
  "failed_at": 1705862500
}
"""

THE_TASK = Task(
    id="task_1234567890",
    title="Implement feature X",
    body="Add feature X with proper error handling",
    priority=1,
    max_attempts=3,
    created=1705862400.0,
    updated=1705862400.0,
    extra={"epic_id": "epic_abc123", "type": "feature", "metadata": {"worktree": "/path/to/worktree"}},
)


def loaded(text, beside=b"", task_id="task_1234567890"):
    data = text if isinstance(text, bytes) else text.encode()
    return BOX.load(Spot(state=State.READY, id=task_id), data, beside)


def with_keys(**keys):
    return json.dumps({**json.loads(ORIGINAL_TASK), **keys})


# -- the original's examples -----------------------------------------------------------------------


def test_the_originals_task_is_written_to_the_letter():
    assert BOX.dump(THE_TASK).decode() == ORIGINAL_TASK


def test_the_originals_task_is_read():
    assert loaded(ORIGINAL_TASK) == THE_TASK.replace(source=ORIGINAL_TASK.encode())


def test_every_key_has_the_originals_place_and_type():
    written, original = json.loads(BOX.dump(Task(id="a", title="t"))), json.loads(ORIGINAL_TASK)
    assert list(written) == list(original)
    assert [type(value) for value in written.values()] == [type(value) for value in original.values()]
    assert list(written["metadata"]) == ["worktree", "dependencies"]


def test_the_originals_result():
    result = Result(
        id="task_1234567890",
        verdict=Verdict.DONE,
        reason="Successfully implemented feature",
        output="Task output here...",
        seconds=45.0,
        finished=1705862445.0,
    )
    written, original = json.loads(BOX.dump_result(THE_TASK, result)), json.loads(ORIGINAL_RESULT)
    assert list(written)[: len(original)] == list(original)
    assert {key: written[key] for key in original} == original
    assert all(type(written[key]) is type(original[key]) for key in original)
    spot = BOX.spot("outbox", "task_1234567890_result.json")
    assert BOX.load_result(spot, ORIGINAL_RESULT.encode()) == (result, None)


def test_the_originals_error():
    result = Result(
        id="task_1234567890",
        verdict=Verdict.FAILED,
        reason="execution failed: timeout",
        attempt=3,
        finished=1705862500.0,
    )
    written, original = json.loads(BOX.dump_result(THE_TASK, result)), json.loads(ORIGINAL_ERROR)
    assert list(written)[: len(original)] == list(original)
    assert {key: written[key] for key in original} == original
    assert all(type(written[key]) is type(original[key]) for key in original)
    spot = BOX.spot("failed", "task_1234567890_error.json")
    assert BOX.load_result(spot, ORIGINAL_ERROR.encode()) == (result, None)


def test_file_names_of_every_state():
    assert BOX.ready_path(THE_TASK) == "inbox/task_1234567890.json"
    assert BOX.claimed_path(THE_TASK, "anybody~x1") == "processing/task_1234567890.json"
    assert BOX.result_path(THE_TASK, Verdict.DONE) == "outbox/task_1234567890_result.json"
    assert BOX.result_path(THE_TASK, Verdict.FAILED) == "failed/task_1234567890_error.json"
    assert BOX.result_path(THE_TASK, Verdict.CANCELLED) == "failed/task_1234567890_error.json"
    assert BOX.folders == ("inbox", "processing", "outbox", "failed", ".tmp")


def test_a_claimed_file_names_its_holder_and_nothing_else_changes():
    claimed = json.loads(BOX.claimed_bytes(loaded(ORIGINAL_TASK), "drover~a1", 1705862410.9))
    changed = {"status": "claimed", "claimed_by": "drover~a1", "claimed_at": 1705862410}
    assert claimed == {**json.loads(ORIGINAL_TASK), **changed}
    assert list(claimed) == list(json.loads(ORIGINAL_TASK))
    assert BOX.holder(json.dumps(claimed).encode()) == "drover~a1"


def test_a_claim_that_has_ended_leaves_nothing_behind():
    claimed = BOX.claimed_bytes(loaded(ORIGINAL_TASK), "drover~a1", 1705862410.0)
    assert BOX.dump(loaded(claimed)).decode() == ORIGINAL_TASK


# -- what others write -----------------------------------------------------------------------------


def test_as_a_go_reader_writes_it():
    """`claimed_at: null`, and parent, sequence and test keys left out where they are empty."""
    fields = json.loads(ORIGINAL_TASK) | {"claimed_at": None, "status": "claimed", "claimed_by": "worker-1"}
    for key in ("parent_id", "sequence_number", "test_mode", "test_scope", "test_command"):
        del fields[key]
    task = loaded(json.dumps(fields))
    assert task.replace(source=b"") == THE_TASK.replace(source=b"")
    assert BOX.holder(json.dumps(fields).encode()) == "worker-1"


def test_keys_that_were_left_out_stay_out():
    small = b'{"id": "task_1234567890", "title": "small"}'
    assert BOX.dump(loaded(small)) == small
    changed = json.loads(BOX.dump(loaded(small).replace(priority=4)))
    assert changed == {"id": "task_1234567890", "title": "small", "priority": 4}


def test_every_key_may_be_null():
    task = loaded(json.dumps({**dict.fromkeys(SCHEMA), "id": "task_1234567890"}))
    assert (task.title, task.priority, task.needs, task.extra) == ("", 0, (), {})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("title", 5),
        ("priority", "high"),
        ("priority", True),
        ("priority", 1.5),
        ("attempts", []),
        ("claimed_at", "now"),
        ("created_at", 10**400),
        ("created_at", 1e300),
        ("created_at", float("nan")),
        ("not_before", 1e300),
        ("not_before", float("inf")),
        ("not_before", "soon"),
        ("metadata", []),
        ("metadata", {"dependencies": "a,b"}),
        ("metadata", {"dependencies": [1]}),
        ("tags", "a"),
        ("tags", [1]),
        ("hold", True),
        ("big", "yes"),
        ("id", "another"),
    ],
)
def test_what_has_the_wrong_type_is_invalid(key, value):
    with pytest.raises(Invalid, match=f"{key}|no number that JSON has"):
        loaded(with_keys(**{key: value}))


@pytest.mark.parametrize("text", ["", "{", "[]", "5", '"x"', "\x00", "[" * 100_000])
def test_what_is_no_object_is_invalid(text):
    with pytest.raises(Invalid, match="JSON"):
        loaded(text)


def test_ints_stay_ints():
    task = loaded(with_keys(priority=3, sequence_number=7, attempts=1.0, updated_at=1705862401))
    written = json.loads(BOX.dump(task.replace(title="new")))
    for key in ("priority", "sequence_number", "attempts", "created_at", "updated_at", "max_attempts"):
        assert type(written[key]) is int or written[key] == json.loads(task.source)[key], key
    assert type(task.priority) is type(task.attempts) is int


def test_unknown_keys_are_kept_where_they_were():
    text = with_keys(x_deadline="friday", x_deep={"a": [1, None, {"b": 2.5}]})
    task = loaded(text)
    assert task.extra["x_deep"] == {"a": [1, None, {"b": 2.5}]}
    written = json.loads(BOX.dump(task.replace(priority=9)))
    assert written == {**json.loads(text), "priority": 9}
    assert list(written) == list(json.loads(text))


def test_what_a_reader_drops_is_kept_beside():
    task = THE_TASK.replace(
        tags=("a", "b"),
        hold="look first",
        not_before=1705900000.0,
        extra={**THE_TASK.extra, "x_deadline": "friday", "metadata": {"worktree": "/w", "x_team": "blue"}},
    )
    full = json.loads(BOX.dump(task))
    known = {key: value for key, value in full.items() if key in SCHEMA}
    known["metadata"] = {"worktree": "/w", "dependencies": []}
    again = loaded(json.dumps(known), BOX.beside(task))
    assert again.replace(source=b"") == task
    assert json.loads(BOX.dump(again)) == full


# -- results of others -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"evidence": {"what": "ever"}},
        {"evidence": {"command": 5, "exit_code": "x"}},
        {"children": 5},
        {"children": {"a": 1}},
        {"attempts": -5, "duration_ms": 1e300, "completed_at": 10**400, "failed_at": 1e300},
        {"output": {"a": 1}, "verdict_reason": ["x"], "error": 7, "cost": "much", "worker": 5, "outcome": []},
    ],
)
@pytest.mark.parametrize("name", ["outbox/x_result.json", "failed/x_error.json"])
def test_any_object_is_read_as_a_result(name, fields):
    spot = BOX.spot(*name.split("/"))
    result, _ = BOX.load_result(spot, json.dumps(fields).encode())
    assert (result.id, result.verdict) == ("x", spot.verdict)
    assert BOX.dump_result(THE_TASK, result)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_our_own_results_come_back_whole(verdict):
    result = Result(
        id="task_1234567890",
        verdict=verdict,
        reason="because\nof this",
        output="ünïcode \x00 \u2028 and so on\n",
        worker="w~1",
        attempt=2,
        finished=1705862445.0,
        seconds=1.25,
        evidence=Evidence(command="make test", exit_code=1, seconds=0.5, tail="red\n"),
        cost={"usd": 0.25, "tokens": 12},
        children=("a", "b"),
        log="waste/x.log",
    )
    path = BOX.result_path(THE_TASK, verdict)
    assert BOX.load_result(BOX.spot(*path.split("/")), BOX.dump_result(THE_TASK, result)) == (result, None)


def test_another_name_for_a_result_is_not_another_task():
    """When the plain name is taken, the file must not read as the result of a task that never was."""
    for verdict in Verdict:
        path = BOX.result_path(THE_TASK, verdict, again="x1y2z3")
        assert BOX.spot(*path.split("/")) is None


# -- properties ------------------------------------------------------------------------------------

words = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
underscored = st.text("ab_", min_size=1).map(lambda text: f"a{text}"[:LONGEST_WORD])
ids = st.one_of(words, underscored, st.sampled_from(["x_result", "x_error", "a.json", "x.json.json", "task_1"]))
texts = st.text(st.characters(codec="utf-8"), max_size=40)
numbers = st.integers(-(2**53), 2**53)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
any_key = st.one_of(texts, st.sampled_from([*SCHEMA, "tags", "hold", "slug", "created_by", "carried"]))
moments = st.integers(0, 4_000_000_000).map(float)
tasks = st.builds(
    Task,
    id=st.just("x"),
    title=texts,
    body=texts,
    slug=texts,
    priority=numbers,
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
    updated=moments.filter(bool),
    extra=st.dictionaries(any_key, values, max_size=4),
)


def accepted(text):
    try:
        BOX.check_id(text)
    except Invalid as error:
        told = error.message
    else:
        return True
    assert repr(text) in told or "is empty" in told or str(LONGEST_WORD) in told
    return False


@given(ids)
def test_names_are_read_as_they_were_written(task_id):
    if not accepted(task_id):
        return
    task = Task(id=task_id, title="")
    for path, state, verdict in (
        (BOX.ready_path(task), State.READY, None),
        (BOX.claimed_path(task, "w"), State.CLAIMED, None),
        (BOX.result_path(task, Verdict.DONE), State.DONE, Verdict.DONE),
        (BOX.result_path(task, Verdict.FAILED), State.FAILED, Verdict.FAILED),
    ):
        spot = BOX.spot(*path.split("/"))
        assert (spot.id, spot.state, spot.verdict, spot.path) == (task_id, state, verdict, path)


@given(st.text(max_size=30))
def test_an_id_is_taken_or_refused_with_the_reason(text):
    if accepted(text):
        assert "/" not in text
        assert not text.startswith(".")


@pytest.mark.parametrize(
    "text", ["../../x", "a/b", "", ".x", "a b", "ä", "x" * 65, "a..b", "a~b", "README", "readme.x"]
)
def test_ids_that_no_file_here_can_have(text):
    with pytest.raises(Invalid) as told:
        BOX.check_id(text)
    assert told.value.message


@given(tasks)
def test_whatever_a_task_is_it_comes_back(task):
    """With everything inside; and with only what a strict reader leaves, if the rest is kept beside."""
    data = BOX.dump(task)
    again = BOX.load(Spot(state=State.READY, id="x"), data)
    assert again.replace(source=b"") == task
    fields = json.loads(data)
    strict = {key: value for key, value in fields.items() if key in SCHEMA}
    again = BOX.load(Spot(state=State.READY, id="x"), json.dumps(strict).encode(), BOX.beside(task))
    assert again.replace(source=b"") == task


@given(tasks)
def test_what_nobody_changed_is_written_back_byte_for_byte(task):
    for data in (BOX.dump(task), json.dumps(json.loads(BOX.dump(task)), indent=5).encode()):
        assert BOX.dump(BOX.load(Spot(state=State.READY, id="x"), data)) == data


@given(st.dictionaries(any_key, values, max_size=5))
def test_any_file_is_read_or_refused(fields):
    """Never anything but a task or Invalid, and a task can be written again."""
    try:
        task = loaded(json.dumps({**fields, "id": "x"}), task_id="x")
    except Invalid:
        return
    spelt = any(isinstance(fields.get(key), float) for key, default in SCHEMA.items() if isinstance(default, int))
    ended = {"status", "claimed_by", "claimed_at"} & fields.keys()  # a claim that has ended leaves nothing behind
    if not ended and not spelt:  # a whole number that is written as 0.0 becomes one
        assert BOX.dump(task) == task.source
    assert json.loads(BOX.dump(task.replace(priority=77)))["priority"] == 77


# -- fields from text ------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [key for key in SCHEMA if key not in ("id", "title", "metadata")])
def test_every_field_can_be_set_from_text_and_is_typed(key):
    ours = key in ("status", "claimed_by", "claimed_at", "created_at", "updated_at")
    if ours:
        with pytest.raises(Invalid, match="the queue itself"):
            BOX.with_field(THE_TASK, key, "5")
        return
    whole = isinstance(SCHEMA[key], int)
    written = json.loads(BOX.dump(BOX.with_field(THE_TASK, key, "5")))
    assert written[key] == (5 if whole else "5")
    assert list(written) == list(json.loads(ORIGINAL_TASK))
    if whole:
        with pytest.raises(Invalid, match="whole number"):
            BOX.with_field(THE_TASK, key, "five")


def test_a_field_set_to_what_it_is_anyway_changes_nothing():
    assert BOX.dump(BOX.with_field(THE_TASK, "test_mode", "strict")).decode() == ORIGINAL_TASK


def test_fields_within_metadata():
    task = BOX.with_field(THE_TASK, "metadata.worktree", "/elsewhere")
    task = BOX.with_field(task, "metadata.team", "blue")
    task = BOX.with_field(task, "metadata.dependencies", "a, b")
    assert task.needs == ("a", "b")
    metadata = json.loads(BOX.dump(task))["metadata"]
    assert metadata == {"worktree": "/elsewhere", "team": "blue", "dependencies": ["a", "b"]}


def test_numbers_of_ids():
    assert BOX.new_id(1705862400) == "task_1705862400"
    assert BOX.first_number(1705862400.7) == 1705862400
    assert [BOX.number(text) for text in ("task_17", "task_x", "17", "task_²")] == [17, 0, 0, 0]
