"""What people see of a pool."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

from waits import PATIENCE

from taskpit.model import Claim, Task
from taskpit.run.attempt import ClaimEnd
from taskpit.run.pool_display import Lines, PoolBoard, is_drawn
from taskpit.run.pool_options import Survey
from taskpit.run.run_directory import RunDirectory
from taskpit.run.runner import Run
from taskpit.store.port import Mend
from taskpit.text import fit, last_lines, plain


def a_claim(title="count the mice"):
    return Claim(task=Task(id="0007", title=title), worker="snake-1", fence="snake-1~abc")


def test_lines_are_plain():
    out = io.StringIO()
    show = Lines(out)
    show.claimed(a_claim("evil \x1b[31mtitle\x1b]0;x\x07"))
    show.over(ClaimEnd(claim=a_claim(), word="done", seconds=1.5))
    show.mended(Mend(kind="reclaimed", what="0007", details="snake-9 is dead"))
    lines = [line[9:] for line in out.getvalue().splitlines()]
    assert not is_drawn(out, {})
    assert lines == [
        "claimed   snake-1    0007   evil title",
        "done      snake-1    0007   count the mice (1.5s)",
        "recovered keeper     0007   snake-9 is dead",
    ]


def test_nobody_listening_does_not_stop_the_work():
    class Broken(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    show = Lines(Broken())
    show.claimed(a_claim())
    show.say("still here")


def test_the_board_is_redrawn_in_place_and_the_cursor_comes_back(tmp_path):
    out = io.StringIO()
    board = PoolBoard(out, {"NO_COLOR": "1"})
    run = Run(a_claim("x" * 300), RunDirectory(str(tmp_path)), "")
    (tmp_path / "log").write_text("first\n\x1b[2Jlast words\n")
    board.claimed(run.claim)
    survey = Survey(done=0, failed=0, claimed=1, ready=3, held=1, coming=4)
    board.look({"snake-1": run}, survey)
    board.over(ClaimEnd(claim=a_claim(), word="done", seconds=1.0))
    board.look({}, survey)
    board.close()
    run.bell.close()
    text = out.getvalue()
    assert text.startswith("\x1b[?25l")
    assert text.endswith("\x1b[?25h")
    assert "\x1b[2F\x1b[J" in text
    assert "1 done, 0 failed, 0 running, 3 ready, 1 held" in text
    assert all(len(re.sub(r"\x1b\[[?0-9]*[a-zA-Z]", "", line)) < 80 for line in text.splitlines())


def test_the_last_words_are_on_the_board(tmp_path):
    out = io.StringIO()
    board = PoolBoard(out, {"NO_COLOR": "1"})
    run = Run(a_claim(), RunDirectory(str(tmp_path)), "")
    (tmp_path / "log").write_text("first\n\x1b[2Jlast words\n")
    board.claimed(run.claim)
    board.look({"snake-1": run}, None)
    run.bell.close()
    assert "count the mice   last words\n" in out.getvalue()


def test_fitting():
    assert fit("short", 10) == "short"
    assert fit("too long for it", 8) == "too lon…"
    assert fit("蛇" * 10, 7) == "蛇蛇蛇…"
    assert fit("two\nlines", 20) == "two lines"
    assert fit("anything", 0) == ""
    assert plain("a\x1b[1;31mb\x1b[0m\x07c\td") == "abc\td"
    assert last_lines(b"one\n\ntwo\n\xffthree\n", 2) == "two\n\ufffdthree"


def test_a_terminal_gets_a_board(pit):
    import pty

    pit.put("one", "two")
    leader, follower = pty.openpty()
    argv = [sys.executable, "-m", "taskpit", "-C", pit.root, "work", "-n", "2", "--until", "empty", "--", "true"]
    process = subprocess.Popen(
        argv, stdout=follower, stderr=follower, stdin=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm"}
    )
    os.close(follower)
    data = b""
    while True:
        try:
            more = os.read(leader, 65536)
        except OSError:
            break
        if not more:
            break
        data += more
    os.close(leader)
    assert process.wait(PATIENCE) == 0
    assert data.startswith(b"\x1b[?25l")
    assert b"\x1b[?25h" in data
    assert b"2 done in" in data
