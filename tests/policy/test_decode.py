"""Decoding what comes from outside: JSON as the standard library reads it, and complaints that say what to write."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskpit.decode import convert, read_cursor, read_json
from taskpit.errors import Invalid
from taskpit.model import Card, Claim, Result, Task, Try, facts, fields_of

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
#: The least that each type needs.
TASK = {"id": "1", "title": "x"}
RESULT = {"id": "1", "verdict": "done"}


@settings(deadline=None)
@given(PLAIN)
def test_json_is_read_as_the_standard_library_reads_it(value):
    text = json.dumps(value)
    assert repr(read_json(text)) == repr(read_json(text.encode())) == repr(json.loads(text))


ODD = ["", "{", "[1,]", "1 2", "nul", '"a', "[1", '{"a":}', "NaN", "[1e999]", "\ufeff1", "1e-07", "-0", "[-0.0, 1e400]"]
ODD += [
    '"\\ud800"',
    '"\\ud83d\\ude00"',
    '{"a": 1, "a": 2}',
    "123456789012345678901234567890",
    "0.1e-999",
    "01",
    '"\x01"',
]


@settings(deadline=None)
@given(st.text(max_size=30) | st.sampled_from(ODD))
def test_text_that_is_no_json_is_refused(text):
    def refuse(word):
        raise ValueError(word)

    def finite(word):
        return float(word) if abs(float(word)) < float("inf") else refuse(word)

    try:
        wanted = json.loads(text.removeprefix("\ufeff"), parse_constant=refuse, parse_float=finite)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            read_json(text.encode("utf-8", "surrogatepass"))
    else:
        assert repr(read_json(text.encode())) == repr(wanted)


def test_a_lenient_reader_has_none_for_a_number_without_end():
    assert read_json('[NaN, 1e999, -Infinity, 1.5, "\\ud800"]', lenient=True) == [None, None, None, 1.5, "\ud800"]


@pytest.mark.parametrize(("open_", "close"), [("[", "]"), ('{"a":', "}")])
def test_a_hundred_levels_are_read_and_no_more(open_, close):
    read_json(open_ * 100 + "1" + close * 100)
    for levels in (101, 100_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            read_json(open_ * levels + "1" + close * levels)


# -- complaints --------------------------------------------------------------------------------------

WRONG = [
    (Task, {"id": "1"}, "title", "the field 'title' is missing"),
    (Task, {**TASK, "title": 3}, "title", "'title' is 3: it should be text"),
    (Task, {**TASK, "priority": "high"}, "priority", "'priority' is 'high': it should be a whole number"),
    (Task, {**TASK, "priority": True}, "priority", "'priority' is True: it should be a whole number"),
    (Task, {**TASK, "attempts": -1}, "attempts", "the number is too small or too large"),
    (Task, {**TASK, "priority": 2**53 + 1}, "priority", "the number is too small or too large"),
    (Task, {**TASK, "not_before": 1e300}, "not_before", "the number is too small or too large"),
    (Task, {**TASK, "not_before": float("nan")}, "not_before", "the number is too small or too large"),
    (Task, {**TASK, "needs": "a"}, "needs", "'needs' is 'a': it should be a list"),
    (Task, {**TASK, "needs": ["a", 3]}, "needs[1]", "'needs[1]' is 3: it should be text"),
    (Task, {**TASK, "limits": ["a=0"]}, "limits[0]", "it should be a limit: KEY, KEY=N or KEY=N/min"),
    (Task, {**TASK, "extra": {"a": [float("inf")]}}, "extra", "'extra' has a number without end"),
    (Task, {**TASK, "extra": {"a": b""}}, "extra", "'extra' has b'' inside"),
    (Task, {**TASK, "title": "x" * (2**20 + 1)}, "title", "it is too long"),
    (Result, {**RESULT, "verdict": "finished"}, "verdict", "it should be one of done, failed, cancelled"),
    (Result, {**RESULT, "evidence": {"command": "x"}}, "exit_code", "the field 'exit_code' of 'evidence' is missing"),
    (Result, {**RESULT, "evidence": {"command": "x", "exit_code": "?"}}, "evidence.exit_code", "a whole number"),
    (Try, [], None, "it is a list: it should be an object"),
]


@pytest.mark.parametrize(("kind", "fields", "field", "message"), WRONG)
def test_a_complaint_names_the_field_and_what_to_write(kind, fields, field, message):
    with pytest.raises(Invalid) as error:
        convert(fields, kind)
    assert message in error.value.message
    assert error.value.details.get("field") == field


@pytest.mark.parametrize(
    ("kind", "fields", "meant"),
    [(Task, {**TASK, "titel": ""}, "'title'"), (Result, {**RESULT, "verdict": "canceled"}, "'cancelled'")],
)
def test_a_complaint_says_which_word_was_probably_meant(kind, fields, meant):
    with pytest.raises(Invalid) as error:
        convert(fields, kind)
    assert error.value.hint == f"Did you mean {meant}?"


def test_numbers_of_other_programs_are_read_leniently_and_of_callers_strictly():
    assert convert({**TASK, "priority": 2.0, "attempts": "3"}, Task, lenient=True) == Task(
        id="1", title="x", priority=2, attempts=3
    )
    for priority in (2.0, "2"):
        with pytest.raises(Invalid):
            convert({**TASK, "priority": priority}, Task)


@pytest.mark.parametrize("cursor", ["", "1", "[]", "[9, []]", "[-1, [1]]", '[0, ["a"]]', "[0, [1, 2]]", "[0, {}]"])
def test_a_cursor_has_a_key_of_its_rank(cursor):
    assert read_cursor('[1, ["a", 2]]', tuple[int], tuple[str, float]) == (1, ["a", 2.0])
    with pytest.raises(Invalid, match="is not a place in a listing"):
        read_cursor(cursor, tuple[int], tuple[str, float])


# -- values as they are written ----------------------------------------------------------------------


def test_fields_are_written_and_read_again():
    task = Task(
        id="1", title="x", needs=("a",), limits=("api=10/min",), extra={"a": [1]}, not_before=5.0, source=b"\xff"
    )
    claim = Claim(task=task, worker="w", fence="f", since=1e-07)
    card = Card(task=task, state="done", result=convert(RESULT, Result), tries=(Try(at=1.0, worker="w", kind="task"),))
    for value in (task, claim, card):
        assert convert(read_json(json.dumps(fields_of(value))), type(value)) == value
    assert "since" not in fields_of(claim.replace(since=float("0.0"))), "equal values are written alike"


def test_programs_read_every_field_and_times_as_iso():
    shown = facts(Claim(task=Task(id="1", title="x", source=b"?"), worker="w", fence="f", since=5.0))
    assert (shown["since"], shown["lease"], shown["task"]["created"]) == ("1970-01-01T00:00:05Z", 0.0, None)
    assert "source" not in shown["task"]
