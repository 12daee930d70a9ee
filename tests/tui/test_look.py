"""What the board shows: columns, the picked task, what changes, at every size."""

from __future__ import annotations

import os

import pytest

from taskpit.board import COLUMNS, BoardChange, Slip
from taskpit.crew.status import MemberRow
from taskpit.errors import Unavailable
from taskpit.model import Done, Task
from taskpit.tui.column import Column
from taskpit.tui.queue_access import BoardView, QueueAccess


def test_every_task_is_in_its_column(drive, full):
    async def look(board):
        shown = {name: board.ids(name) for name in COLUMNS}
        assert shown == {
            "ready": ["0007", "0008"],
            "needs_you": ["0003", "0004"],
            "running": ["0005", "0006"],
            "done": ["0001"],
            "failed": ["0002"],
            "waiting": [],
            "cancelled": [],
        }
        heads = board.lines[1]
        assert heads.split() == ["Needs", "you", "2", "Ready", "2", "Running", "2", "Done", "1", "Failed", "1"]
        assert "need you" in board.lines[0]

    drive(full, look)


def test_a_slip_says_what_matters_where_it_is(drive, full):
    async def look(board):
        for words in ("? tabs or spaces?", "not before Friday", "snake-2", "snake-1 · 1m · $0.50", "the pipe broke"):
            assert words in board.text, words
        assert "12m" in board.text  # ready since ten minutes and two
        assert "2m" in board.text  # claimed since two

    drive(full, look, size=(200, 50))


def test_one_column_at_a_time_on_a_small_screen(drive, full):
    async def look(board):
        assert [line.split()[0] for line in board.lines[2:4]] == ["▌0007", "0008"]
        assert "not before Friday" not in board.text
        await board.press("left")
        assert "not before Friday" in board.text
        assert "0007" not in "".join(board.lines[2:4])
        await board.press("5")
        assert board.picked == "0001"
        await board.press("left", "left")
        assert board.picked == "0007"
        assert len(board.lines) == 24
        assert board.lines[-1].endswith("? help  q quit")

    drive(full, look, size=(80, 24))


def test_all_about_the_picked_task(drive, full):
    full.note("0001", "see also 0002", "ann")

    async def look(board):
        await board.press("5", "enter")
        words = (
            "Piece 1 of the work",
            "done by snake-1",
            "All is well.",
            "make test exited 0",
            "42 passed",
            "see also",
        )
        for each in words:
            assert each in board.text, each
        assert "*" not in board.text.replace("Write *it*.", "")  # rendered, not printed
        await board.press("escape", "6")
        assert "the pipe broke" in board.text

    drive(full, look, size=(120, 50))


def test_moving_reads_another_task(drive, full):
    async def look(board):
        assert "0007  Piece 7 of the work" in board.text
        await board.press("down")
        assert "0008  Piece 8 of the work" in board.text
        await board.press("down", "down")
        assert board.picked == "0008"
        await board.press("k")
        assert board.picked == "0007"
        await board.press("end")
        assert board.picked == "0008"
        await board.press("home", "j")
        assert board.picked == "0008"

    drive(full, look)


def test_what_changes_is_shown(drive, full):
    async def look(board):
        (claim,) = full.claim("snake-9", ids=["0007"])
        full.put([Task(id="0100", title="A late one", priority=9)])
        await board.follow()
        assert board.ids("ready") == ["0100", "0008"]
        assert "snake-9" in board.text
        assert "A late one" in board.text
        full.finish(claim, Done(output="x"))
        await board.follow()
        assert board.ids("done") == ["0001", "0007"] or board.ids("done") == ["0007", "0001"]

    drive(full, look)


def test_the_picked_task_is_read_again_when_it_changes(drive, full):
    """Also when nothing on its slip does."""

    async def look(board):
        full.note("0007", "hear hear", "ann")
        await board.follow()
        assert "hear hear" in board.text
        full.edit("0007", "ann", lambda task: task.replace(body="Now with *tests*."))
        await board.follow()
        assert "Now with tests." in board.text

    drive(full, look, size=(100, 36))


def test_only_columns_that_changed_are_laid_anew(drive, full, monkeypatch):
    laid = []
    show = Column.show

    def noted(self, slips, empty=""):
        laid.append(self.title)
        show(self, slips, empty)

    monkeypatch.setattr(Column, "show", noted)

    async def look(board):
        laid.clear()
        await board.follow()
        full.note("0007", "nothing on the slip changes", "ann")
        await board.follow()
        assert laid == []
        full.claim("a", ids=["0007"])
        await board.follow()
        assert sorted(laid) == ["ready", "running"]

    drive(full, look)


def test_whoever_is_picked_stays_picked(drive, full):
    async def look(board):
        await board.press("down")
        full.put([Task(id=f"020{number}", title="more", priority=5) for number in range(5)])
        await board.follow()
        assert board.picked == "0008"
        full.claim("a", ids=["0008"])
        await board.follow()
        assert board.picked == "0007"  # it went elsewhere: the place it had is another's

    drive(full, look)


def test_the_changelog(drive, full):
    async def look(board):
        await board.press("c")
        assert "claimed     snake-2" in board.text
        full.note("0007", "hear hear", "ann")
        await board.follow()
        assert board.text.count("hear hear") == 1

    drive(full, look, size=(120, 60))


def test_the_crew(drive, full):
    rows = [
        MemberRow(name="snake-1", role="snake", kind="tasks", state="up", pid=7, task="0005", title="Piece", last="hm")
    ]

    async def look(board):
        await board.press("w")
        assert "snake-1  up" in board.text
        rows.append(MemberRow(name="keeper", role="keeper", kind="rounds", state="stalled", pid=8, wanted=True))
        for _ in range(8):
            await board.follow()
        assert "stalled" in board.text

    drive(full, look, crew=lambda: rows)


def test_no_crew_says_what_to_do(drive, full):
    async def look(board):
        await board.press("w")
        assert "pit crew up" in board.text

    drive(full, look)


def test_an_empty_queue_says_what_to_do(drive, queue):
    async def look(board):
        assert "Press n to add a first task" in board.text
        assert "No worker runs" in " ".join(board.text.split())

    drive(queue, look, size=(200, 50))


def test_a_pause_is_shown(drive, full):
    async def look(board):
        full.store.pause("lunch", 0, "ann")
        await board.follow()
        assert "lunch" in board.lines[0]

    drive(full, look)


def test_trouble_is_told_and_over_when_it_is_over(drive, full, monkeypatch):
    async def look(board):
        def broken(*_):
            raise Unavailable("the disk is away")

        with monkeypatch.context() as patch:
            patch.setattr(full.store, "events", broken)
            await board.follow()
        assert "the disk is away" in board.lines[0]
        assert board.ids("ready") == ["0007", "0008"]
        await board.follow()
        full.claim("a", ids=["0007"])
        await board.follow()
        assert "disk" not in board.lines[0]

    drive(full, look)


# -- filter and find -------------------------------------------------------------------------------


def test_a_filter_while_it_is_written(drive, full):
    async def look(board):
        await board.press("slash")
        await board.write("piece 8")
        assert board.ids("ready") == ["0008"]
        assert "1/2" in board.lines[1]
        assert "No matching" in board.text
        await board.press("enter")
        full.put([Task(id="0300", title="another piece 8")])
        await board.follow()
        assert board.ids("ready") == ["0008", "0300"]
        await board.press("escape")
        assert board.ids("ready") == ["0007", "0008", "0300"]

    drive(full, look)


def test_letters_in_the_filter_are_no_keys(drive, full):
    async def look(board):
        await board.press("slash")
        await board.write("xqn")
        assert board.app.query_one("#words").value == "xqn"
        assert board.app.is_running

    drive(full, look)


def test_find_looks_everywhere_and_goes_there(drive, full):
    async def look(board):
        await board.press("f")
        await board.write("is well")
        await board.press("enter")
        assert "result: All **is** well. 42 passed" in board.text
        await board.press("enter")
        assert board.picked == "0001"
        await board.press("f")
        await board.write("unicorn")
        await board.press("enter")
        assert "No matching tasks." in board.text
        await board.press("escape")
        assert board.picked == "0001"

    drive(full, look)


def test_help_shows_every_key(drive, full):
    async def look(board):
        await board.press("question_mark")
        for words in ("open in your editor", "answer what it asks", "pause, resume", "find in everything"):
            assert words in board.text, words
        await board.press("escape")
        assert "open in your editor" not in board.text

    drive(full, look, size=(80, 24))


def test_the_id_is_copied(drive, full):
    async def look(board):
        await board.press("y")
        assert board.app.clipboard == "0007"

    drive(full, look)


# -- sizes -----------------------------------------------------------------------------------------


def test_a_large_screen_shows_detail_and_log_side_by_side(drive, full):
    async def look(board):
        assert board.app.panel.shows("detail")
        assert board.app.panel.shows("changelog")
        await board.press("l")
        assert board.app.panel.shows("detail")
        assert board.app.panel.shows("log")
        assert not board.app.panel.shows("changelog")

    drive(full, look, size=(200, 50))


SIZES = [(80, 24), (200, 50), (20, 6)] + [(120, 36), (60, 15), (300, 90)] * bool(os.environ.get("TASKPIT_LONG"))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_reading_and_back_at_every_size(drive, full, size):
    async def look(board):
        await board.press("enter")
        assert board.app.panel.shows("detail")
        assert "Piece 7" in board.text
        await board.press("l")
        assert board.app.panel.shows("log")
        await board.press("escape")
        assert board.app.focused is board.app.column("ready")
        assert len(board.lines) == size[1]

    drive(full, look, size=size)


def test_another_size_while_it_runs(drive, full):
    async def look(board):
        await board.pilot.resize_terminal(80, 24)
        await board.until(lambda: [line.split()[:1] for line in board.lines[2:4]] == [["▌0007"], ["0008"]])
        await board.pilot.resize_terminal(200, 50)
        await board.until(lambda: "not before Friday" in board.text)

    drive(full, look)


class Large(QueueAccess):
    """Ten thousand slips that nobody had to write to a disk."""

    def load(self, progress=None):
        slips = [Slip(id=f"{number:05d}", title=f"Piece {number}", column="ready") for number in range(10_000)]
        columns = {name: slips if name == "ready" else [] for name in COLUMNS}
        counts = {name: len(column) for name, column in columns.items()}
        return BoardView(columns=columns, counts=counts, paused="", change=BoardChange(anew=True))


def test_of_ten_thousand_only_what_is_seen_is_drawn(drive, queue, monkeypatch):
    from taskpit.tui import column as module

    drawn = set()
    draw = module.two_lines

    def noted(slip, room, now):
        drawn.add(slip.id)
        return draw(slip, room, now)

    monkeypatch.setattr(module, "two_lines", noted)

    async def look(board):
        assert "Ready 10,000" in board.lines[1]
        await board.press("end")
        assert board.picked == "09999"
        assert "Piece 9999" in board.text
        await board.press("pageup", "home", "pagedown")
        assert len(drawn) < 100

    drive(queue, look, desk=Large(queue, "me"))


# -- hostile text ----------------------------------------------------------------------------------

EVIL = "\x1b[2J\x1b]0;owned\x07[red]plain[/red] [@click=app.quit]x[/]\x9b31m\r\x08\u202etext" + "w" * 5000


@pytest.mark.parametrize("size", [(80, 24), (200, 50)] if os.environ.get("TASKPIT_LONG") else [(80, 24)], ids=str)
def test_hostile_text_is_only_text(drive, queue, size):
    body = f"{EVIL}\n\n<script>x</script> [link](javascript:alert(1)) ![i](http://127.0.0.1/x.png) http://127.0.0.1/\n"
    # Straight into the store: the queue refuses such a title, a file made by hand may have it.
    queue.store.put(
        [Task(id="0001", title=EVIL, body=body, tags=("[b]",)), Task(id="0002", title="عربي עברית 漢字 👩‍👩‍👧")]
    )
    queue.note("0001", EVIL, EVIL)
    queue.store.put([Task(id="0003", title="held", hold=EVIL)])

    async def look(board):
        for keys in (("d",), ("c",), ("l",), ("escape", "2"), ("b", "escape"), ("x",)):
            await board.press(*keys)
            assert not set("\x1b\x9b\x07\r\x08\u202e") & set(board.text)
            assert all(len(line) <= size[0] for line in board.lines)
        await board.press("escape", "2", "d")
        assert "[red]plain[/red]" in board.text
        assert board.app.is_running

    drive(queue, look, size=size)


def test_a_link_opens_nothing(drive, queue, monkeypatch):
    queue.put([Task(id="0001", title="x", body="[here](http://127.0.0.1:9/)")])
    opened = []

    async def look(board):
        from textual.widgets import Markdown

        monkeypatch.setattr(board.app, "open_url", lambda *args, **_: opened.append(args))
        widget = board.app.panel.detail.query_one("#body", Markdown)
        widget.post_message(Markdown.LinkClicked(widget, "http://127.0.0.1:9/"))
        await board.settle()
        assert opened == []

    drive(queue, look)


def test_a_huge_text_is_cut_and_not_rendered(drive, queue):
    """Each block of Markdown is a widget: a thousand of them would stop the board."""
    queue.put([Task(id="0001", title="x", body="a line of **words**\n\n" * 20_000)])

    async def look(board):
        assert "a line of **words**" in board.text
        assert len(board.app.panel.detail.query("*")) < 50
        await board.press("enter", "end")
        assert "pit show" in board.text

    drive(queue, look)


def test_light_and_dark(drive, full):
    async def look(board):
        before = board.app.current_theme.dark
        await board.press("t")
        assert board.app.current_theme.dark is not before
        assert "Piece 7" in board.text

    drive(full, look)


def test_ages_grow_and_only_then_is_anything_drawn(drive, full, clock, monkeypatch):
    async def look(board):
        column = board.app.column("running")
        column.grow_older()
        drawn = []
        monkeypatch.setattr(column, "refresh", lambda *_: drawn.append(1))
        column.grow_older()
        assert drawn == []
        clock.advance(61)
        column.grow_older()
        assert drawn == [1]

    drive(full, look)
