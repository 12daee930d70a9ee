"""What keys do to tasks: each through the queue, what it refuses is said and nothing else happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pits import reopened

from taskpit.errors import Unavailable
from taskpit.model import State
from taskpit.store.opening import init
from taskpit.testing import FakeClock
from taskpit.tui.keys import ACTS, HELP

COLUMN = {"needs_you": "1", "ready": "2", "running": "4", "done": "5", "failed": "6"}


def test_answer_hold_unblock_retry_give_back_cancel_note_priority(drive, full):
    """One after the other, as a person would."""

    async def act(board):
        await board.press("1", "a")
        assert "tabs or spaces?" in board.text
        await board.write("tabs")
        await board.press("enter")
        assert "tabs" in full.card("0003").task.body
        assert "0003 goes on" in board.toasts

        await board.press("u")
        assert full.card("0004").held == ""
        assert board.ids("needs_you") == []

        await board.press("6", "r")
        assert full.card("0002").state is State.READY

        await board.press("4", "down", "g")
        assert full.card("0006").state is State.READY

        await board.press("2", "home", "b")
        assert board.picked == "0002"
        await board.write("not yet")
        await board.press("enter")
        assert full.card("0002").held == "not yet"

        picked = board.picked
        await board.press("plus", "plus", "minus")
        assert full.card(picked).task.priority == 1

        await board.press("m")
        await board.write("look here")
        await board.press("enter")
        assert "look here" in full.card(picked).notes

        await board.press("x")
        await board.write("superseded")
        await board.press("enter")
        card = full.card(picked)
        assert (card.state, card.result.reason) == (State.FAILED, "superseded")

    drive(full, act)


def test_what_was_done_last_is_undone(drive, full):
    async def act(board):
        await board.press("x", "enter")
        assert full.card("0007").state is State.FAILED
        await board.press("z")
        assert full.card("0007").state is State.READY
        assert "0007 is ready again" in board.toasts
        await board.press("plus", "z")  # in memory there is no folder
        assert any("no folder to keep what it was before" in toast for toast in board.toasts)

    drive(full, act)


def test_cancelling_needs_a_second_key_and_no_reason(drive, full):
    async def act(board):
        await board.press("x", "escape")
        assert full.card("0007").state is State.READY
        await board.press("x", "enter")
        assert full.card("0007").state is State.FAILED
        await board.press("4", "x", "enter")  # another's claim: asked to stop, not torn away
        assert full.card("0005").state is State.CLAIMED
        assert "0005: its worker was asked to stop" in board.toasts
        await board.press("down", "x", "enter")  # one's own
        assert full.card("0006").state is State.FAILED

    drive(full, act)


def test_holding_needs_a_reason_and_esc_leaves_all_as_it_is(drive, full):
    async def act(board):
        await board.press("b", "enter")
        assert "Why is it blocked?" in board.text
        await board.press("escape")
        assert full.card("0007").held == ""

    drive(full, act)


def test_what_the_queue_refuses_is_told(drive, full):
    async def act(board):
        await board.press("4", "g")  # another's claim
        assert any("your own claims" in toast for toast in board.toasts)  # B10
        assert full.card("0005").state is State.CLAIMED
        await board.press("5", "r")
        assert any("retry is for tasks that are: failed or cancelled" in toast for toast in board.toasts)
        await board.press("2")
        full.claim("quick", ids=["0007"])  # while the board still shows it as ready
        await board.press("plus")
        assert any("0007 is claimed by quick" in toast for toast in board.toasts)
        assert full.card("0007").task.priority == 0

    drive(full, act)


def test_trouble_with_the_disk_is_told(drive, full, monkeypatch):
    async def act(board):
        def broken(*_):
            raise Unavailable("the disk is away", hint="Wait for it.")

        with monkeypatch.context() as patch:
            patch.setattr(full, "note", broken)
            await board.press("m")
            await board.write("x")
            await board.press("enter")
        assert "the disk is away\nWait for it." in board.toasts

    drive(full, act)


def test_a_word_for_the_agent_that_works(drive, full):
    async def act(board):
        await board.press("4", "s")
        await board.write("mind the gap")
        await board.press("enter")
        assert any("0005: no agent is working on it; the next attempt will read it" in toast for toast in board.toasts)
        assert "told: mind the gap" in full.card("0005").notes

    drive(full, act)


def test_a_new_task(drive, full):
    async def act(board):
        await board.press("n", "enter")
        assert "a task needs a title" in board.toasts
        await board.write("Greet them")
        await board.press("tab")
        await board.write("make test")
        await board.press("tab")
        await board.write("much")
        await board.press("enter")
        assert any("whole number" in toast for toast in board.toasts)
        await board.press("ctrl+u")
        await board.write("7")
        await board.press("tab")
        await board.write("web, new")
        await board.press("tab")
        await board.write("0001")
        await board.press("tab")
        await board.write("be kind")
        await board.press("ctrl+s")
        slip = next(slip for slip in board.app.column("ready").slips if slip.title == "Greet them")
        task = full.card(slip.id).task
        assert (task.check, task.priority, task.tags, task.needs) == ("make test", 7, ("web", "new"), ("0001",))
        assert (task.body, task.by) == ("be kind", "me@here")

    drive(full, act, size=(80, 24))


def test_a_task_that_cannot_be_is_refused(drive, full):
    async def act(board):
        await board.press("n")
        await board.write("x")
        await board.press("tab", "tab", "tab", "tab")
        await board.write("no#id")
        await board.press("enter")
        assert len(board.toasts) == 1
        assert not any(card.task.title == "x" for card in full.store.page().cards)
        await board.press("n", "escape")
        assert board.app.focused is board.app.column("ready")

    drive(full, act)


def test_pause_and_resume(drive, full):
    async def act(board):
        await board.press("p")
        await board.write("lunch")
        await board.press("enter")
        assert "lunch" in full.store.paused()
        assert "lunch" in board.lines[0]
        await board.press("p")
        assert full.store.paused() == ""

    drive(full, act)


def test_a_pause_that_is_over_already_is_not_begun_anew(drive, full):
    """The board shows it for a moment longer: who ends it means what is shown."""

    async def act(board):
        board.app.view = board.app.view.replace(paused="paused by ann: lunch")
        await board.press("p")
        assert full.store.paused() == ""

    drive(full, act)


@pytest.mark.parametrize("how", ["changed", "refused"])
def test_an_editor_needs_a_terminal_of_its_own(drive, full, monkeypatch, how):
    import contextlib

    def edit(task_id):
        if how == "refused":
            raise Unavailable("no editor")
        full.edit(task_id, "me", lambda task: task.replace(title="Edited by hand"))
        return f"{task_id} is changed"

    async def act(board):
        await board.press("e")
        assert any("pit edit" in toast for toast in board.toasts)  # no terminal can be lent here
        monkeypatch.setattr(board.app, "suspend", contextlib.nullcontext)
        await board.press("e")
        assert board.toasts[-1] == {"changed": "0007 is changed", "refused": "no editor"}[how]
        assert ("Edited by hand" in board.text) is (how == "changed")

    drive(full, act, edit=edit)


def test_read_only_changes_nothing(drive, full):
    before = full.store.page().cards

    async def act(board):
        for column in ("1", "2", "3"):
            await board.press(column)
            for key in ("a", "b", "u", "r", "g", "x", "m", "plus", "minus", "n", "p", "e"):
                await board.pilot.press(key)
                assert len(board.app.screen_stack) == 1
            await board.settle()
        assert "read-only" in board.lines[0]
        assert "hold" not in board.lines[-1]
        assert full.store.page().cards == before
        assert any("is read-only" in toast for toast in board.toasts)

    drive(full, act, read_only=True)


def test_every_act_is_in_the_help_and_no_key_has_two_meanings():
    spelt = {"plus": "+ -", "minus": "+ -"}
    told = {key for _, rows in HELP for key, _ in rows}
    assert {spelt.get(act.key, act.key) for act in ACTS} <= told
    assert len({act.key for act in ACTS}) == len(ACTS)


def test_the_page_has_the_keys_that_help_has():
    page = (Path(__file__).parents[2] / "docs" / "boards.md").read_text(encoding="utf-8")
    written = set(re.findall(r"`([^`\s]+)`", page.partition("## Less: watch")[0]))
    keys = {key for _, rows in HELP for words, _ in rows for key in words.split() if key.isascii()}
    assert len(keys) > 20
    assert keys - {"1-7"} <= written
    shown = re.findall(r"^\| (.*?) \| .* \|$", page.partition("| key | |")[2].partition("\n\n")[0], re.MULTILINE)
    table = {key for row in shown for key in re.findall(r"`([^`]+)`", row)}
    assert table - {"1", "7", "?"} <= keys


def test_the_bottom_line_offers_what_can_be_done(drive, full):
    async def act(board):
        offered = {}
        for name, key in COLUMN.items():
            await board.press(key, *(["down"] if name == "running" else []))  # one's own claim is the second
            offered[name] = board.lines[-1]
        assert "answer" in offered["needs_you"]
        assert "retry" in offered["failed"]
        assert "give back" in offered["running"]
        assert "priority" in offered["ready"]
        assert "cancel" not in offered["done"]
        assert all(line.endswith("/ filter  ? help  q quit") for line in offered.values())

    drive(full, act, size=(80, 24))


def test_q_ends_it(drive, full):
    async def act(board):
        await board.pilot.press("q")
        await board.pilot.pause()
        assert not board.app.is_running

    drive(full, act)


def test_a_template_is_filled_in(tmp_path, drive):
    root = str(tmp_path / "pit")
    init(root)
    (tmp_path / "pit" / "templates").mkdir()
    (tmp_path / "pit" / "templates" / "bug.md").write_text("- **fields:** area\n\n# Fix {area}\n\n# Tell of it\n")
    queue = reopened(root, FakeClock())

    async def scenario(board):
        await board.press("n", *["tab"] * 5)
        assert "instead: bug, with fields, area=api" in board.text
        await board.write("bug aera=api")
        await board.press("enter")
        assert any("Did you mean 'area'?" in toast for toast in board.toasts)
        await board.press("n", *["tab"] * 5)
        await board.write("bug area='the api'")
        await board.press("enter")
        assert "0001, 0002 is in the queue" in board.toasts

    drive(queue, scenario)
    assert [card.task.title for card in queue.store.page().cards] == ["Fix the api", "Tell of it"]
    queue.close()
