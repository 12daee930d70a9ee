"""A change that waits for review, in the terminal: read, approved, sent back with a comment on a line."""

from __future__ import annotations

import pytest
from ground import Ground, own_state
from waits import until

from taskpit.model import State
from taskpit.policy import REVIEW


@pytest.fixture
def ground(tmp_path, monkeypatch):
    own_state(tmp_path, monkeypatch)
    made = Ground(tmp_path / "ground", review="person")
    yield made
    made.close()


def test_it_is_shown_and_sent_back_with_a_comment_on_a_line_and_then_approved(drive, ground):
    task = ground.put("Say hello", check="true")
    ground.work(task, src__a_dot_py="first\n\tsecond \x1b[31m[bold]\n")

    async def judge(board):
        await board.press("1")
        assert "v review" in board.lines[-1]
        assert "u unblock" not in board.lines[-1]
        await board.press("v")
        assert "check green" in board.text
        assert "src/a.py" in board.text
        assert "    2 +    second \\x1b[31m[bold]" in board.text
        await board.press("s", "escape")
        assert "src/a.py" in board.text
        await board.press("s")
        await board.write("src/a.py:2: use the helper")
        await board.press("enter")
        assert f"{task} goes back to its agent" in board.toasts
        assert "- `src/a.py:2`: use the helper\n  > second" in ground.card(task).task.body
        await board.press("2", "v")
        assert "v is for tasks that wait for review" in board.toasts

        ground.work(task, src__a_dot_py="better\n")
        await board.follow()
        await board.press("1")
        await board.press("v")
        await board.press("a")
        await board.press("enter")
        assert f"{task} is approved; it lands on main now" in board.toasts
        until(lambda: ground.card(task).state is State.DONE)
        until(lambda: ground.log() == ["Say hello", "begin"])

    drive(ground.queue, judge, size=(120, 36))


def test_who_only_looks_changes_nothing_and_long_changes_scroll(drive, ground):
    task = ground.put("long")
    ground.work(task, a_dot_txt="".join(f"line {n}\n" for n in range(3000)))

    async def look(board):
        await board.press("1")
        await board.press("v")
        assert "approve" not in board.text
        assert "line 5" in board.text
        await board.press("pagedown")
        assert "line 5\n" not in board.text
        await board.press("end")
        assert f"more: `pit diff {task}` shows all" in board.text
        for key in "aso":
            await board.press(key)
            assert "this board is read-only" in board.toasts[-1]
            await board.press("v")
        assert ground.card(task).held.startswith(REVIEW)

    drive(ground.queue, look, read_only=True)
