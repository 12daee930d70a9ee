"""A log as it grows: whole letters, whole lines, and events as what they say."""

from __future__ import annotations

import pytest

from taskpit.crew.log_tail import END, PIECE, Tail


def test_events_are_told_in_words_once_they_are_whole(tmp_path):
    path = tmp_path / "events"
    path.write_text('{"type": "tool_use", "name": "Read", "input": {"file_path": "src/a.py"}}\n{"type": "assi')
    tail = Tail(str(path))
    assert tail.more().split() == ["Read", "src/a.py"]
    assert tail.more() == ""
    with path.open("a") as file:
        file.write('stant", "message": {"content": [{"type": "text", "text": "Green."}]}}\n')
    assert "Green." in tail.more()


def test_events_are_told_in_words_in_a_kept_log_too(tmp_path):
    """An agent's events end up in its log, among what else was printed there."""
    path = tmp_path / "snake-1.log"
    path.write_text('begin\n{"type": "tool_use", "name": "Read", "input": {"file_path": "src/a.py"}}\n')
    assert Tail(str(path)).more().split() == ["begin", "Read", "src/a.py"]


def test_an_event_that_never_ends_keeps_nothing_back(tmp_path):
    path = tmp_path / "events"
    path.write_text("")
    tail = Tail(str(path))
    path.write_text('{"text": "' + "x" * 2 * PIECE + '"}\nlast\n')
    told = "".join(tail.more() for _ in range(4))
    assert told.endswith("last\n")


def test_a_line_that_was_begun_goes_on_as_it_was_written(tmp_path):
    path = tmp_path / "out.log"
    path.write_text("answer: ")
    tail = Tail(str(path))
    assert tail.more() == "answer: "
    with path.open("a") as file:
        file.write('{"text": "x"}\n{"type": "text", "text": "y"}\n')
    assert tail.more() == '{"text": "x"}\ntext          y\n'


def test_a_letter_in_two_halves_comes_whole(tmp_path):
    path = tmp_path / "out.log"
    path.write_bytes("ä".encode()[:1])
    tail = Tail(str(path))
    path.write_bytes(b"x" + "ä".encode()[:1])
    assert tail.more() == "x"
    path.write_bytes(b"x" + "ä".encode())
    assert tail.more() == "ä"


def test_a_log_is_followed_and_begun_anew(tmp_path):
    path = tmp_path / "log"
    tail = Tail(str(path))
    assert tail.more() == ""
    path.write_bytes(b"one\ntwo\nthr")
    assert tail.more() == "one\ntwo\nthr"
    assert tail.more() == ""
    with path.open("ab") as file:
        file.write(b"ee\n\xff\x1b[31mfour\n")
    assert tail.more() == "ee\n\ufffdfour\n"
    path.write_bytes(b"anew\n")
    assert tail.more() == "anew\n"


@pytest.mark.parametrize("ending", ["last", "last\n"])
def test_of_a_long_log_the_end_is_read(tmp_path, ending):
    path = tmp_path / "log"
    path.write_text("x" * 99 + "\n" + "y" * 99 + "\n" * (END // 50) + ending)
    told = Tail(str(path)).more()
    assert told.endswith(f"\n{ending}")
    assert len(told) <= END
