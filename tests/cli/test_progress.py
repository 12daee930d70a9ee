"""A bar on a terminal, silence in a pipe; and nothing of it is left on the screen."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import sys
import threading

import pytest
from waits import PATIENCE

from taskpit.cli import progress
from taskpit.cli.context import Context
from taskpit.cli.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def hours(monkeypatch):
    """A clock that stands still until it is told to move."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def last(screen):
    return screen.getvalue().rpartition("\r\x1b[K")[2]


def test_a_bar_says_how_far_it_is_and_is_gone_at_the_end(hours):
    screen = Terminal()
    with ProgressBar(Context({}), "importing", 400, stream=screen) as bar:
        hours[0] += 10
        bar.step(100)
        assert last(screen) == f"importing [{'#' * 6:<24}] 100 of 400, 31s left"
        hours[0] += 1
        bar.step(400)
        assert last(screen) == f"importing [{'#' * 24}] 400 of 400"
    assert last(screen) == ""


def test_what_is_quick_shows_nothing(hours):
    screen = Terminal()
    with ProgressBar(Context({}), "importing", 400, stream=screen) as bar:
        hours[0] += 0.5
        bar.step(399)
    assert screen.getvalue() == ""


def test_without_a_total_it_counts(hours):
    screen = Terminal()
    with ProgressBar(Context({}), "reading", stream=screen) as bar:
        hours[0] += 2
        bar.step(12_345)
        assert last(screen)[2:] == "reading 12,345"


@pytest.mark.parametrize(
    ("context", "stream"),
    [
        (Context({}), io.StringIO()),
        (Context({}, json=True), Terminal()),
        (Context({"TERM": "dumb"}), Terminal()),
    ],
    ids=["pipe", "json", "dumb"],
)
def test_silence_where_nobody_looks(hours, context, stream):
    with ProgressBar(context, "importing", 400, stream=stream, turns=True) as bar:
        hours[0] += 10
        bar.step(100)
    assert stream.getvalue() == ""


def test_a_wheel_turns_by_itself(hours):
    drawn = threading.Event()

    class Watched(Terminal):
        def flush(self):
            drawn.set()

    screen = Watched()
    hours[0] += 5
    with ProgressBar(Context({}), "sweeping", turns=True, stream=screen) as wheel:
        hours[0] += 5
        assert drawn.wait(PATIENCE)
        assert "sweeping, 5s" in screen.getvalue()
    assert last(screen) == ""
    assert not wheel._wheel.is_alive()


@pytest.mark.parametrize("verb", ["sweep", "doctor", "search", "import"])
def test_verbs_show_it_on_a_terminal(pit, monkeypatch, verb, place):
    """On a real terminal, with no patience at all."""
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setattr(progress, "PACE", -1.0)
    shown = []
    monkeypatch.setattr(ProgressBar, "step", _noting(ProgressBar.step, shown))
    (place / "some.jsonl").write_text('{"title": "a"}\n{"title": "b"}\n', encoding="utf-8")
    ours, theirs = pty.openpty()
    threading.Thread(target=_read_all, args=(ours,), daemon=True).start()  # one that nobody reads is full soon
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        words = {"search": ["x"], "import": ["some.jsonl"]}.get(verb, [])
        assert pit(verb, *words).code == 0
    assert shown or verb in ("sweep", "doctor")  # these may be over before their wheel has turned once
    assert all(live for live in shown)


def _read_all(terminal):
    with os.fdopen(terminal, "rb", 0) as screen, contextlib.suppress(OSError):
        while screen.read(4096):
            pass


def _noting(step, shown):
    def noted(self, count, total=0, what=""):
        shown.append(self._lives)
        step(self, count, total, what)

    return noted
