"""What reaches a terminal."""

from __future__ import annotations

import io
import sys
from contextlib import ExitStack

import pytest

from taskpit import text
from taskpit.cli import output
from taskpit.cli.main import main
from taskpit.queue import Queue, cards


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def written(text, env, stream):
    output.Screen(env).write(text, stream)
    return stream.getvalue()


def test_colour_is_for_terminals_that_want_it():
    text = output.paint("red", "stop")

    assert written(text, {}, Terminal()) == "\x1b[31mstop\x1b[0m\n"
    assert written(text, {"NO_COLOR": "1"}, Terminal()) == "stop\n"
    assert written(text, {"TERM": "dumb"}, Terminal()) == "stop\n"
    assert written(text, {}, io.StringIO()) == "stop\n"


@pytest.mark.parametrize(
    ("evil", "left"),
    [
        ("a\x1b[31mb", "ab"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]8;;http://x\x1b\\b", "ab"),
        ("a\x1bPq\x1b\\b", "ab"),
        ("a\x1bcb", "ab"),
        ("a\x1b", "a"),
        ("a\x9b31mb", "a31mb"),
        ("a\x00\x07\x08\x7fb", "ab"),
        ("a\rb", "ab"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("a\u202eb\u2066c", "abc"),
        ("äöü 漢字", "äöü 漢字"),
    ],
)
def test_clean(evil, left):
    assert text.plain(evil) == left


def test_a_task_cannot_forge_our_colours_into_commands():
    assert written("\ufdd3x\x1b[2J", {}, Terminal()) == "\x1b[31mx\n"


def test_a_stream_that_cannot_say_it_all():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    output.Screen({}).write("ä…", stream)
    output.envelope("ä", stream)
    stream.seek(0)

    assert stream.read() == '??\n{"schema": 1, "ok": true, "data": "\\u00e4"}\n'


def test_json_escapes_what_a_terminal_would_obey():
    stream = Terminal()
    output.envelope("\x1b\x9b\x7f\u202eä\udcff", stream)

    assert stream.getvalue() == '{"schema": 1, "ok": true, "data": "\\u001b\\u009b\\u007f\\u202eä\\udcff"}\n'


def test_tables_align_and_fit(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    rows = [
        ("1", "", "short"),
        ("22", "", "a long title that does not fit at all"),
        ("3", "", "漢字漢字漢字漢字漢字漢字"),
    ]

    assert output.table(("ID", "EMPTY", "TITLE"), rows).splitlines()[1:] == [
        "1   short",
        "22  a long title that does no…",
        "3   漢字漢字漢字漢字漢字漢字",
    ]
    assert text.fit("漢字漢字", 5) == "漢字…"


@pytest.fixture
def full(monkeypatch):
    """`full("stdout")`: what is printed there has no room. At its end what is left is written, as by a process."""
    with ExitStack() as opened:

        def full(*names):
            for name in names:
                monkeypatch.setattr(sys, name, opened.enter_context(open("/dev/full", "w", encoding="utf-8")))

        yield full
        monkeypatch.undo()


@pytest.mark.parametrize("words", [["add", "x"], ["add", "x", "--json"]])
def test_an_answer_that_cannot_be_written_says_that_the_work_is_done(pit, full, capsys, words):
    """Whoever was told to repeat it had the task twice."""
    full("stdout")
    assert main(words) == 8
    first, hint = capsys.readouterr().err.splitlines()
    assert first == "pit: the command succeeded, but its output could not be written: No space left on device"
    assert "do not repeat the command" in hint
    assert len(list(cards(Queue.open("pit").store))) == 1


def test_an_error_that_cannot_be_written_is_told_in_words_or_by_its_exit_code(pit, full, capsys):
    full("stdout")
    assert main(["show", "99", "--json"]) == 5
    assert capsys.readouterr().err.startswith("pit: there is no task 99\n")
    full("stdout", "stderr")
    assert main(["show", "99"]) == 5
    assert main(["add", "x", "--json"]) == 8
