"""A log as it grows: whole letters, whole lines, and events as what they say."""

from __future__ import annotations

from taskpit.web.tail import Tail


def test_events_are_told_in_words_once_they_are_whole(tmp_path):
    path = tmp_path / "events"
    path.write_text('{"type": "tool_use", "name": "Read", "input": {"file_path": "src/a.py"}}\n{"type": "assi')
    tail = Tail(str(path))
    assert tail.more().split() == ["Read", "src/a.py"]
    assert tail.more() == ""
    with path.open("a") as file:
        file.write('stant", "message": {"content": [{"type": "text", "text": "Green."}]}}\n')
    assert "Green." in tail.more()


def test_a_letter_in_two_halves_comes_whole(tmp_path):
    path = tmp_path / "out.log"
    path.write_bytes("ä".encode()[:1])
    tail = Tail(str(path))
    path.write_bytes(b"x" + "ä".encode()[:1])
    assert tail.more() == "x"
    path.write_bytes(b"x" + "ä".encode())
    assert tail.more() == "ä"
