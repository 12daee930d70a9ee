"""A change that waits for review, on its task's page: shown, never obeyed; approved, sent back, taken over."""

from __future__ import annotations

import os
import re
import sys

import pytest
from boards import Served
from ground import write
from waits import until

from taskpit import trust
from taskpit.model import State
from taskpit.policy import REVIEW

HOSTILE = "</table><script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{7*7}}\u202e\x1b[31m"


@pytest.fixture
def board(ground):
    with Served(ground.root) as served:
        yield served


def act(board, task_id, verb, **form):
    answer = board.post(f"/task/{task_id}/{verb}", form, hx_request="true")
    return answer.status, re.sub(r"<[^>]+>", "", answer.text).strip()


def test_the_page_shows_summary_check_and_diff(ground, board):
    ground.commit("src/a.py", "def one():\n    return 1\n")
    task = ground.put("Say two", check="grep -q 2 src/a.py")
    ground.work(task, src__a_dot_py="def one():\n    return 2\n", b_dot_txt="new\n")
    commit = ground.pipe.hand_in_of(task).commit
    page = board.get(f"/task/{task}").text
    assert "Review the change" in page
    assert commit[:12] in page
    assert "by snake-1, attempt 1" in page
    assert "grep -q 2 src/a.py" in page
    assert "did it" in page
    assert [re.sub(r"<[^>]+>", "", row) for row in re.findall(r'<tr class="(?:add|del)">(.*?)</tr>', page)] == [
        "1new",
        "2    return 1",
        "2    return 2",
    ]
    assert '<span class="s-k">return</span>' in page  # colours
    assert f'name="commit" value="{commit}"' in page
    assert "Unblock" not in page
    home = board.get("/").text
    assert f'href="/task/{task}#review"' in home
    assert "2 files, +2 -1" in home


def test_what_a_change_says_is_only_shown(ground, board):
    task = ground.put("hostile", check="true")
    claim, path = ground.enter(task)
    lines = f"{HOSTILE}\nx = '{HOSTILE}'\n"
    for name in ("a.py", "a.js", "a.html", "a.md", "a.unknown", "<img src=x onerror=alert(1)>.py", "a'\"`b.py"):
        write(f"{path}/{name}", lines)
    ground.hand_in(claim, output=HOSTILE)
    for where in ("/", f"/task/{task}", f"/task/{task}/part"):
        text = board.get(where).text
        for tag in re.findall(r"<[a-zA-Z][^>]*>", text):
            assert not re.match(r"<script(?! src=\"/static/)", tag), tag
            assert not re.match(r"<img(?! src=\"/static/)", tag), tag
            assert not re.search(r"\son\w+\s*=", re.sub(r'"[^"]*"', "", tag)), tag
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "`49" not in text
    assert text.count("</table>") == 7
    assert text.count("alert(1)") > 7


def test_a_long_diff_is_bounded(ground, board):
    task = ground.put("long")
    ground.work(task, a_dot_py="x = 1\n" * 9000, b_dot_txt="y" * 300_000 + "\n", c_dot_txt="z\n")
    page = board.get(f"/task/{task}").text
    assert len(page) < 1_000_000
    assert "6001 more lines" in page
    assert 'data-path="c.txt"' in page


def test_without_pygments_it_is_plain(ground, board, monkeypatch):
    task = ground.put()
    ground.work(task, a_dot_py="return '<b>'\n")
    monkeypatch.setitem(sys.modules, "pygments", None)
    page = board.get(f"/task/{task}").text
    assert "return &#39;&lt;b&gt;&#39;" in page
    assert "s-k" not in page


def test_approved_what_was_seen_lands(ground, board):
    task = ground.put("Say hello", check="grep -q hi a.txt")
    ground.work(task, a_dot_txt="hi\n")
    commit = ground.pipe.hand_in_of(task).commit
    assert act(board, task, "approve")[0] == 400
    assert act(board, task, "approve", commit="0" * 40)[0] == 409
    assert ground.card(task).held.startswith(REVIEW)
    assert act(board, task, "approve", commit=commit) == (200, f"{task} is approved; it lands on main now")
    until(lambda: ground.card(task).state is State.DONE)
    until(lambda: ground.log() == ["Say hello", "begin"])
    page = board.get(f"/task/{task}").text
    assert "The change" in page
    assert "Approve" not in page


def test_what_an_approval_leaves_open_is_noted_beside_the_task(ground, board):
    task = ground.put("one")
    ground.work(task, README="landed\n")
    write(f"{ground.top}/README", "dirty\n")
    act(board, task, "approve", commit=ground.pipe.hand_in_of(task).commit)
    until(lambda: "not in your checkout yet" in ground.card(task).notes)
    assert ground.card(task).state is State.DONE


def test_sent_back_with_a_comment_on_a_line(ground, board):
    task = ground.put("one", body="Do it well.\n")
    ground.work(task, src__a_dot_py="first\nsecond\n")
    assert act(board, task, "send_back", text=" ")[0] == 400
    assert act(board, task, "send_back", text="src/a.py:9: ?")[0] == 400
    assert ground.card(task).held.startswith(REVIEW)
    told = act(board, task, "send_back", text="not like this\r\nsrc/a.py:2: use the helper")
    assert told == (200, f"{task} goes back to its agent")
    body = ground.card(task).task.body
    assert "not like this" in body
    assert "- `src/a.py:2`: use the helper\n  > second" in body
    assert ground.card(task).held == ""
    assert act(board, task, "send_back", text="again")[0] == 404


def test_taken_over(ground, board):
    task = ground.put()
    ground.work(task, a_dot_txt="x\n")
    assert act(board, task, "take_over") == (200, f"{task} is yours; its change is on the branch pit/{task}")
    assert ground.card(task).worker == "ada@home"
    assert "a.txt" in ground.files(f"pit/{task}")


def test_nobody_else_judges(ground, board, monkeypatch):
    task = ground.put(check="touch ran")
    ground.work(task, a_dot_txt="x\n")
    commit = ground.pipe.hand_in_of(task).commit
    form = {"commit": commit, "text": "no"}
    for verb in ("approve", "send_back", "take_over"):
        assert board.post(f"/task/{task}/{verb}", form, authorization="").status in (401, 403)
        assert board.post(f"/task/{task}/{verb}", form, origin="https://evil.example").status == 403
        assert board.get(f"/task/{task}/{verb}").status == 405
    monkeypatch.setenv("TASKPIT_RUN_DIR", "/somewhere")
    for verb in ("approve", "take_over"):
        status, told = act(board, task, verb, **form)
        assert (status, "A worker's run may not use" in told.replace("&#39;", "'")) == (403, True)
    with Served(ground.root, read_only=True) as looking:
        page = looking.get(f"/task/{task}").text
        assert "Review the change" in page
        assert "Approve" not in page
        section = page.partition('class="review"')[2].partition("</section>")[0]
        assert all(
            "data-sides" in button for button in re.findall("<button[^>]*>", section)
        )  # how it is shown, no more
        assert looking.post(f"/task/{task}/approve", form).status == 403
    assert ground.card(task).held.startswith(REVIEW)


def test_approving_runs_a_check_and_so_needs_trust(ground, board, monkeypatch):
    task = ground.put(check="true")
    ground.work(task, a_dot_txt="x\n")

    def refuse(root):
        raise trust.untrusted(root, "is nobody's")

    monkeypatch.setattr(trust, "require", refuse)
    status, told = act(board, task, "approve", commit=ground.pipe.hand_in_of(task).commit)
    assert status == 403
    assert "trust" in told
    assert ground.card(task).held.startswith(REVIEW)


def test_a_candidate_of_another_machine_says_where(ground, board):
    task = ground.put()
    ground.work(task, a_dot_txt="x\n")
    ground.pipe.forget(task)
    told = {**ground.card(task).task.extra["candidate"], "host": "elsewhere"}
    ground.queue.edit(task, "ada", lambda one: one.replace(extra={**one.extra, "candidate": told}))
    page = board.get(f"/task/{task}").text
    assert "is on elsewhere" in page
    assert "Approve" not in page
    assert not os.path.exists(f"{ground.top}/a.txt")
