"""`pit board` where it cannot be: no terminal, no Textual."""

from __future__ import annotations

import sys

import pytest


def test_without_a_terminal_it_says_what_else_there_is(pit):
    answer = pit("board")
    assert answer.code == 6
    assert "pit status -f" in answer.err
    assert pit("board", "--json").error["code"] == "invalid"


def test_without_textual_it_says_what_to_install(pit, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("taskpit.tui")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.setitem(sys.modules, "textual.app", None)
    from taskpit.cli import board
    from taskpit.cli.context import Context
    from taskpit.errors import MissingExtra

    class Args:
        read_only = light = web = all = port = expose = token_file = open = False
        worker = None

    class Terminal:
        isatty = staticmethod(lambda: True)

    class Streams:
        stdin = stdout = stderr = Terminal()

    monkeypatch.setattr(board, "sys", Streams)
    with pytest.raises(MissingExtra, match="not installed") as caught:
        board._board.run(Args, Context({}))
    assert "taskpit[tui]" in caught.value.hint
    assert caught.value.exit_code == 1
