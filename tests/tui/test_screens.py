"""Whole screens, letter by letter. When a change is meant: TASKPIT_SCREENS=write pytest tests/tui/test_screens.py"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from taskpit.tui.app import PitBoard
from taskpit.tui.queue_access import QueueAccess

SCREENS = Path(__file__).parent / "screens"


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_screen_looks_as_it_did(drive, full, size):
    kept = SCREENS / f"{size[0]}x{size[1]}.txt"

    async def look(board):
        await board.press("1")
        shown = board.text + "\n"
        if os.environ.get("TASKPIT_SCREENS") == "write":
            kept.write_text(shown, encoding="utf-8")
        assert shown == kept.read_text(encoding="utf-8")

    drive(full, look, size=size)


@pytest.mark.parametrize(
    ("colours", "light", "theme"),
    [("truecolor", False, "pit-dark"), ("truecolor", True, "pit-light"), ("", False, "pit-sixteen")],
)
def test_a_terminal_of_few_colours_has_a_theme_of_its_own(queue, monkeypatch, colours, light, theme):
    monkeypatch.setenv("COLORTERM", colours)
    monkeypatch.setenv("TERM", "xterm")

    async def look():
        app = PitBoard(QueueAccess(queue, "me@here"), pace=0, light=light)
        async with app.run_test():
            assert app.theme == theme
            assert app.screen.styles.background.hex.lower() == app.current_theme.background

    asyncio.run(look())
