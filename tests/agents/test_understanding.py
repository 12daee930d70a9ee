"""What agents say about time, and how their events become facts."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskpit.run import process
from taskpit.run.agent_limits import moment, seconds_in
from taskpit.run.agent_output import Listener
from taskpit.run.preset import Preset, Rule, Source, find, places
from taskpit.run.run_directory import RunDirectory
from taskpit.run.transcript import Transcript, judge, look_up

NOW = datetime(2026, 5, 11, 11, 46, 40, tzinfo=timezone.utc).timestamp()


def at(*parts):
    return datetime(*parts, tzinfo=timezone.utc).timestamp()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (NOW + 60, NOW + 60),
        ((NOW + 60) * 1000, NOW + 60),
        (str(int(NOW) + 60), int(NOW) + 60),
        ("20s", NOW + 20),
        ("11.054s", NOW + 11.054),
        ("850ms", NOW + 0.85),
        ("2 days 17 hours 14 minutes", NOW + 234840),
        ("13872", NOW + 13872),
        ("3pm (Europe/Berlin)", at(2026, 5, 11, 13, 0)),
        ("1:30pm (Europe/Berlin)", at(2026, 5, 12, 11, 30)),
        ("12am (UTC)", at(2026, 5, 12)),
        ("15:05 UTC", at(2026, 5, 11, 15, 5)),
        ("May 20 at 2pm (UTC)", at(2026, 5, 20, 14, 0)),
        ("May 12th, 2026 7:38 AM (UTC).", at(2026, 5, 12, 7, 38)),
        ("2026-05-12T07:38:00Z", at(2026, 5, 12, 7, 38)),
        ("May 10 at 2pm (UTC)", 0),  # a year away: misread
        ("February 31 (UTC)", 0),
        ("25:99 UTC", 0),
        (NOW - 60, 0),
        (9e18, 0),
        ("soon", 0),
        ("", 0),
        (None, 0),
        (True, 0),
    ],
)
def test_when_a_limit_ends(said, meant):
    assert moment(said, NOW) == pytest.approx(meant)


def test_a_clock_without_a_zone_is_the_one_here():
    found = moment("3pm", NOW)
    assert datetime.fromtimestamp(found).astimezone().strftime("%H:%M") == "15:00"
    assert 0 < found - NOW <= 86400


@given(st.one_of(st.text(), st.floats(), st.integers(), st.none(), st.booleans()))
def test_whatever_is_said_it_is_later_or_nothing(said):
    found = moment(said, NOW)
    assert found == 0 or found > NOW
    assert seconds_in(str(said)) >= 0


def preset(**fields):
    return Preset(
        **{
            "name": "x",
            "argv": ("x",),
            "events": ("stdout",),
            "event": (
                Rule(when=((("type",), ("end",)), (("ok",), (True,))), means="done", ends=True),
                Rule(when=((("type",), ("end",)),), means="failed", ends=True),
            ),
            "take": {"text": (Source(path=("text",)),)},
            **fields,
        }
    )


def heard(made, *events):
    transcript = Transcript(made)
    transcript.hear([json.dumps(event).encode() + b"\n" if isinstance(event, dict) else event for event in events])
    transcript.close()
    return transcript


def verdict(transcript, code=0, *, why="", words="", result=False):
    transcript.words = words or transcript.words
    return judge(
        transcript, process.Ended(code=code, seconds=1.0, why=why), result=result, resumed=False, now=NOW
    ).means


END = {"type": "end", "ok": True, "text": "hello"}


@pytest.mark.parametrize(
    ("events", "code", "why", "means"),
    [
        ([END], 0, "", "done"),
        ([END], 1, "", "crashed"),
        ([END], -15, "grace", "done"),  # it would not leave: its exit code is ours
        ([{**END, "ok": 1}], 0, "", "failed"),  # true and 1 are not the same
        ([{**END, "ok": False}], 0, "", "failed"),
        ([{**END, "text": ""}], 0, "", "silent"),
        ([{"type": "talk", "text": "hello"}], 0, "", "unfinished"),
        ([], 0, "", "unfinished"),
        ([], -9, "stall", "crashed"),
        ([END], 0, "limit", "unfinished"),  # what it says after its tool was killed is no proof
        ([END], -15, "stall", "crashed"),
        ([{**END, "ok": False}, END], 0, "", "done"),  # the last end counts
        ([END, {**END, "ok": False}], 0, "", "failed"),
    ],
)
def test_verdicts(events, code, why, means):
    made = preset()
    assert verdict(heard(made, *events), code, why=why) == means


def test_an_agent_without_events_is_judged_by_its_exit_code_and_words():
    made = preset(events=(), event=(), take={})
    nothing = Transcript(made)
    assert verdict(nothing, words="hello") == "done"
    assert verdict(nothing, words=" \n") == "silent"
    assert verdict(nothing, result=True) == "done"
    assert verdict(nothing, 3, words="hello") == "crashed"


def test_facts_first_last_sum_count_and_join():
    take = {
        "first": (Source(path=("n",), how="first"),),
        "last": (Source(path=("n",)),),
        "sum": (Source(path=("n",), how="sum"),),
        "count": (Source(when=((("type",), ("a", "b")),), how="count"),),
        "join": (Source(when=((("type",), ("a",)),), path=("t",), how="join"),),
    }
    made = preset(take=take, event=())
    transcript = heard(
        made,
        {"type": "a", "n": 1, "t": "old"},
        {"type": "b", "n": 2},
        {"type": "a", "n": 3, "t": "ne"},
        {"type": "a", "n": None, "t": "w"},
        {"type": "c", "n": "many"},
    )
    assert transcript.facts == {"first": 1, "last": "many", "sum": 6, "count": 4, "join": "new"}


def test_a_limit_that_did_not_keep_it_from_its_work_is_none():
    claude = find("claude", places())
    rejected = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": NOW + 60}}
    end = {"type": "result", "is_error": False, "num_turns": 2, "result": "done, with some overage"}
    assert verdict(heard(claude, rejected, end), words="429 rate_limit_error") == "done"
    assert verdict(heard(claude, rejected, {**end, "is_error": True})) == "quota"


def test_what_is_cut_from_a_long_stream_is_not_missed(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "LONGEST_LOG", 4000)
    monkeypatch.setattr(process, "KEPT_LOG", 500)
    made = preset(take={"count": (Source(when=((("type",), ("talk",)),), how="count"),)}, grace=0.0)
    place = RunDirectory(str(tmp_path))
    listener = Listener(made, place, lambda _: None)
    line = json.dumps({"type": "talk", "text": "x" * 40}).encode() + b"\n"
    for _ in range(20):
        with open(place.events, "ab") as file:
            file.write(line * 30 + line[:20])
        assert not listener()
        with open(place.events, "ab") as file:
            file.write(line[20:])
        assert not listener()
    assert os.path.getsize(place.events) <= 4000 + 31 * len(line)
    with open(place.events, "ab") as file:
        file.write(json.dumps(END).encode() + b"\n")
    assert listener() == "grace"
    listener.finish()
    listener.close()
    assert listener.transcript.facts["count"] == 20 * 31


def test_one_json_over_many_lines_after_some_words():
    made = preset()
    lines = b"Loading.\n" + json.dumps(END, indent=2).encode() + b"\ndone.\n"
    transcript = heard(made, *lines.splitlines(keepends=True))
    assert transcript.text("text") == "hello"
    assert "Loading." in transcript.words


def test_a_list_of_events_on_one_line():
    assert heard(preset(), json.dumps([{"type": "x"}, END, 7]).encode()).text("text") == "hello"


@given(
    st.lists(
        st.one_of(
            st.binary(),
            st.recursive(st.none() | st.text() | st.integers(), st.lists).map(
                lambda value: json.dumps({"type": value, "text": value}).encode()
            ),
        ),
        max_size=8,
    )
)
def test_nothing_that_is_printed_breaks_it(lines):
    made = preset()
    transcript = Transcript(made)
    transcript.hear(lines)
    transcript.close()
    assert verdict(transcript) in ("done", "failed", "unfinished", "silent")


def test_paths_into_lists():
    assert look_up({"a": [{"b": 7}]}, ("a", "0", "b")) == 7
    assert look_up({"a": [{"b": 7}]}, ("a", "1", "b")) is None
    assert look_up({"a": "text"}, ("a", "0")) is None


def test_what_qwen_calls_a_success_is_judged_by_what_it_says():
    """Its stream as it was printed by 0.15 against an API that refused."""
    made = find("qwen", places())
    event = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "session_id": "s"}
    for said, means in (("401 invalid x-api-key", "auth"), ("429 slow down", "quota"), ("503 overloaded", "infra")):
        assert verdict(heard(made, {**event, "result": f"[API Error: {said}]"})) == means
    assert verdict(heard(made, {**event, "result": "The [API Error] is gone."})) == "done"
