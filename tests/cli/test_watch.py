"""`watch`: a block in place on a terminal, a line per change in a pipe, and a quiet end."""

from __future__ import annotations

import io
import json
import sys

import pytest
from schemata import judge_command

from taskpit.cli.main import main
from taskpit.clock import Clock


@pytest.fixture
def meanwhile(monkeypatch):
    """What happens while it sleeps, step by step; then somebody presses Ctrl-C."""
    steps = []

    def sleep(_self, _seconds):
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr(Clock, "sleep", sleep)
    return steps


def quietly(*words):
    """A command that says nothing here."""
    kept, sys.stdout = sys.stdout, io.StringIO()
    try:
        assert main(list(words)) == 0
    finally:
        sys.stdout = kept


def test_in_a_pipe_one_line_per_change(pit, meanwhile):
    pit("add", "before")
    meanwhile += [lambda: quietly("add", "one"), lambda: quietly("claim", "1"), lambda: None]
    answer = pit("watch")
    assert answer.code == 0
    assert answer.err == ""
    lines = [line.split("  ", 1)[1] for line in answer.out.splitlines()]
    assert lines == [
        "0002   added_task      me  one  (2 ready)",
        "0001   claimed_task    me  (1 ready, 1 claimed)",
    ]


def test_programs_get_an_envelope_per_change(pit, meanwhile):
    meanwhile += [lambda: quietly("add", "one")]
    (line,) = pit("watch", "--json").out.splitlines()
    data = json.loads(line)["data"]
    judge_command(["watch"], data)
    assert (data["action"], data["task_id"], data["counts"]["ready"]) == ("added_task", "0001", 1)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_on_a_terminal_one_block_rewritten(pit, meanwhile, monkeypatch):
    pit("add", "First \x1b[31mthing")
    screen = Terminal()
    meanwhile += [lambda: quietly("add", "second"), lambda: None, lambda: quietly("claim", "1")]
    monkeypatch.setattr(sys, "stdout", screen)
    assert main(["watch"]) == 0
    blocks = screen.getvalue().split("\x1b[J")
    ups = [block.rpartition("\x1b[")[2] for block in blocks[:-1]]
    assert len(blocks) == 3  # nothing new, nothing written
    assert [f"{block.count(chr(10))}A" for block in blocks[:-1]] == ups
    assert "food 2  held 0  claimed 0  done 0  scraps 0" in blocks[1]
    assert "working\n  0001  First thing" in blocks[2]
    assert "claimed     me" in blocks[2]
    assert "\x1b" not in blocks[2]


def test_what_is_stuck_and_an_empty_queue(pit, meanwhile, monkeypatch):
    screen = Terminal()
    meanwhile += [
        lambda: quietly("add", "one"),
        lambda: quietly("block", "1", "broken tool"),
    ]
    monkeypatch.setattr(sys, "stdout", screen)
    assert main(["watch"]) == 0
    blocks = screen.getvalue().split("\x1b[J")
    assert "pit add" in blocks[0]
    assert "broken tool" in blocks[-1]


def test_it_ends_by_itself(pit, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(Clock, "monotonic", lambda _: now[0])
    monkeypatch.setattr(Clock, "sleep", lambda _, seconds: now.__setitem__(0, now[0] + seconds))
    assert pit("watch", "--for", "3s").code == 0
    assert now[0] == 1003.0
    assert pit("watch", "--for", "0.2s").code == 0
    assert now[0] == pytest.approx(1003.2)  # not at the next look only


def test_a_block_is_never_taller_than_the_screen(pit):
    from taskpit.board import Board
    from taskpit.cli.watch import block
    from taskpit.queue import Queue

    for number in range(12):
        pit("add", f"task {number} " + "w" * 300)
        pit("claim")
    board = Board(Queue.open("pit")).load()
    lines = block(board, 0.0, 60, 9).splitlines()
    assert len(lines) <= 8
    assert "… and 2 more" in block(board, 0.0, 60, 60)


def test_no_line_is_wider_than_the_screen(pit):
    """A line that wraps is two on the screen, and the next block would be written over too few of them."""
    from taskpit.board import Board
    from taskpit.cli.watch import block
    from taskpit.queue import Queue
    from taskpit.text import plain, width_of

    for title in ("short", "w" * 300, "漢字" * 40):
        pit("add", title)
        pit("claim", "--as", "a-worker-with-a-long-name")
    pit("add", "held")
    pit("block", "4", "for a long reason " * 5)
    board = Board(Queue.open("pit")).load()
    for width in (20, 40, 80):
        text = "".join(letter for letter in block(board, 0.0, width, 60) if not "\ufdd0" <= letter <= "\ufdef")
        assert max(width_of(plain(line)) for line in text.splitlines()) <= width
