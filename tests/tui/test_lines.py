"""What a slip looks like: never wider than its room, the age at the right edge, whatever its text is."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len as width

from taskpit.board import COLUMNS, Slip
from taskpit.clock import say_age
from taskpit.tui.column import shared
from taskpit.tui.drawing import cut, table_line, two_lines

WORDS = st.text(max_size=60) | st.text(alphabet="\x1b[31m\u202e\u200d漢字👩e\u0301 ab\n\t", max_size=80)
SLIPS = st.builds(
    Slip,
    id=st.text("abc123-", min_size=1, max_size=40),
    title=WORDS,
    column=st.sampled_from(COLUMNS),
    priority=st.integers(-99, 9999),
    tags=st.tuples(WORDS),
    held=WORDS,
    question=WORDS,
    worker=WORDS,
    since=st.floats(0, 2e9),
    until=st.floats(0, 2e9),
    created=st.floats(0, 2e9),
    finished=st.floats(0, 2e9),
    alive=st.sampled_from(["yes", "no", "unknown", ""]),
    reason=WORDS,
    seconds=st.floats(0, 1e7),
    usd=st.floats(0, 1e4),
)


def text_of(parts):
    return "".join(text for text, _ in parts)


def room_of(parts):
    """As a strip of segments counts it: each by itself."""
    return sum(width(text) for text, _ in parts)


@settings(max_examples=40, deadline=None)
@given(slip=SLIPS, room=st.integers(8, 90))
@example(slip=Slip(id="1", title="", column="done", worker="\u200d\u200d", usd=1.0), room=8)
def test_two_lines_fit(slip, room):
    top, below = two_lines(slip, room, 2e9)
    assert room_of(top) == room
    assert room_of(below) <= room
    assert not set("\x1b\u202e\n\t") & set(text_of(top) + text_of(below))


@settings(max_examples=40, deadline=None)
@given(slip=SLIPS, room=st.integers(60, 200), id_width=st.integers(4, 14))
def test_a_line_of_a_table_fills_its_room(slip, room, id_width):
    parts = table_line(slip, room, id_width, 2e9)
    assert room_of(parts) == room
    assert not set("\x1b\u202e\n\t") & set(text_of(parts))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (5999, "99m"), (6000, "1h"), (172_799, "47h"), (172_800, "2d")],
)
def test_ages(seconds, said):
    assert say_age(seconds) == said


@settings(max_examples=50)
@given(seconds=st.floats(0, 1e12))
def test_every_age_is_short(seconds):
    assert len(say_age(seconds)) <= 4


@settings(max_examples=50)
@given(text=WORDS, room=st.integers(0, 30))
def test_what_is_cut_fits(text, room):
    assert width(cut(text, room)) <= room


def test_life_needs_no_colour():
    signs = {
        alive: text_of(
            two_lines(Slip(id="1", title="x", column="running", worker="w~1", alive=alive), 30, 0.0)[1]
        ).rstrip()
        for alive in ("yes", "no", "unknown")
    }
    assert signs == {"yes": "1 ● w", "no": "1 ✗ w dead", "unknown": "1 ○ w"}


def test_no_column_is_too_narrow_while_another_has_more_than_it_needs():
    """B10: titles were cut to eleven letters, or to two, beside columns with room to spare."""
    wishes = {"needs_you": 49, "ready": 52, "waiting": 28, "running": 52, "done": 45, "failed": 38}
    widths = shared(wishes, "running", 120)
    assert sum(widths.values()) == pytest.approx(120)
    assert min(widths.values()) >= 17
    assert widths["running"] == max(widths.values())
    assert shared({"ready": 24, "done": 24}, "ready", 120) == {"ready": 24, "done": 24}
