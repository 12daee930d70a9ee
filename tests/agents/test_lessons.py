"""What turned red to green: kept, told to later tasks, bounded, and treated as what a stranger says."""

from __future__ import annotations

import json
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskpit.cli.main import main
from taskpit.errors import Invalid
from taskpit.model import Done, Evidence, Task, Try
from taskpit.run.lessons import AT_ONCE, LONGEST, Lesson, Lessons, asked, fitting, learned, quoted

RED = Evidence(command="make", exit_code=1, seconds=1.0, tail="cc main.c\nerror: no generated.h")


def red(mark="no generated.h"):
    return Try(at=1.0, worker="w", kind="check", error="the check is red", mark=mark, evidence=RED)


def lesson(number, mark="m", paths=(), task="0001"):
    return Lesson(mark=mark, error="e", helped=f"h{number}", paths=paths, task=task)


def book(tmp_path, most=200):
    os.makedirs(tmp_path / ".taskpit", exist_ok=True)
    return Lessons(str(tmp_path), most)


def in_a_pit(pit, answers, **fields):
    """Two attempts at a task, the first red, as a pool makes them; the prompts it was told."""
    told = []

    def runner(_claim, run):
        with open(run.place.prompt, encoding="utf-8") as file:
            told.append(file.read())
        run.cost = {"agent": "claude"}
        if len(told) > 1:
            with open(f"{pit.root}/made", "w", encoding="ascii") as file:
                file.write("x")
        return Done(output=answers[len(told) - 1])

    (task,) = pit.put("build it", check="test -e made || { echo no generated.h; exit 1; }", **fields)
    for _ in answers:
        pit.work_once(runner)
    os.unlink(f"{pit.root}/made")
    return task, told


def known(pit):
    return Lessons(pit.root, 200).read()


def test_red_that_turned_green_is_kept_and_told_where_the_error_comes_again(pit):
    task, told = in_a_pit(pit, ["Built.", "Built.\n\n**Lesson:** run make generate first.\n"], touches=("src/*.c",))
    assert "Lesson:" not in told[0]
    assert "begins with `Lesson:`" in told[1]
    (kept,) = known(pit)
    assert (kept.helped, kept.task, kept.paths) == ("run make generate first.", task, ("src/*.c",))
    assert "no generated.h" in kept.error
    other, told = in_a_pit(pit, ["Built.", "I made it."])  # touches nothing: only the error tells
    assert "run make generate first" not in told[0]
    assert "    - no generated.h => run make generate first." in told[1]
    assert [one.task for one in known(pit)] == [task, other]
    assert known(pit)[1].helped == "I made it."
    _, told = in_a_pit(pit, ["Built.", "Built."], touches=("src/main.c",))
    assert "run make generate first" in told[0]  # at once: it works on the same files


def test_a_setting_turns_it_off(pit):
    pit.queue.config = pit.queue.config.replace(lessons=0)
    _, told = in_a_pit(pit, ["Built.", "Lesson: this."])
    assert not known(pit)
    assert "Lesson" not in told[1]


def test_green_at_once_teaches_nothing():
    task = Task(id="0001", title="t")
    assert learned(task, (), "Lesson: x", 1.0, agent=True) is None
    assert learned(task, (red().replace(kind="crash"),), "Lesson: x", 1.0, agent=True) is None
    assert learned(task, (red(),), "a log", 1.0, agent=False) is None
    assert learned(task, (red(),), "", 1.0, agent=True) is None
    assert asked(()) == ""


@given(st.text(max_size=400))
def test_whatever_an_agent_says_is_one_short_line_in_a_quotation(said):
    found = learned(Task(id="0001", title="t"), (red(),), f"Lesson: {said}", 1.0, agent=True)
    if found is None:
        return
    assert found.helped.isprintable() or not any(ord(letter) < 32 for letter in found.helped)
    assert len(found.helped) <= LONGEST
    body = quoted([found]).split("instructions.\n\n")[1]
    assert body.startswith("    - ")
    assert "\n" not in body


def test_it_is_bounded_and_the_newest_stay(tmp_path):
    lessons = book(tmp_path, 3)
    for number in range(5):
        lessons.keep(lesson(number))
    lessons.keep(lesson(3))
    assert [one.helped for one in lessons.read()] == ["h2", "h4", "h3"]
    task = Task(id="0009", title="t", touches=("a",))
    many = [lesson(number, paths=("a",)) for number in range(20)] + [lesson(99, mark="seen")]
    told = fitting(many, task, (red("seen"),))
    assert (len(told), told[0].helped) == (AT_ONCE, "h99")
    assert fitting(many, Task(id="0001", title="t", touches=("a",)), ()) == []  # its own


def test_a_file_that_is_something_else_is_no_lesson(tmp_path):
    lessons = book(tmp_path)
    lines = ["nonsense", "[1]", '{"mark": 3}', json.dumps({**lesson(1).as_dict(), "helped": "a\x1b[2Jb\nc" * 200})]
    (tmp_path / ".taskpit/lessons.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (found,) = lessons.read()
    assert "\x1b" not in found.helped
    assert len(found.helped) <= LONGEST
    os.unlink(tmp_path / ".taskpit/lessons.jsonl")
    os.symlink("/etc/passwd", tmp_path / ".taskpit/lessons.jsonl")
    assert lessons.read() == []


def test_several_pools_lose_none(tmp_path):
    lessons = book(tmp_path)
    each = [threading.Thread(target=lessons.keep, args=(lesson(number),)) for number in range(20)]
    for one in each:
        one.start()
    for one in each:
        one.join()
    assert len(lessons.read()) == 20


def test_the_verb_shows_and_changes_them(pit, capsys, monkeypatch):
    lessons = Lessons(pit.root, 200)
    for number in range(3):
        lessons.keep(lesson(number))
    assert main(["-C", pit.root, "lessons", "2", "better"]) == 0
    assert main(["-C", pit.root, "lessons", "--remove", "1"]) == 0
    assert "=> better" in capsys.readouterr().out
    assert [one.helped for one in lessons.read()] == ["better", "h2"]
    assert main(["-C", pit.root, "--json", "lessons", "9", "x"]) == 6
    assert "there is no lesson 9" in capsys.readouterr().out
    monkeypatch.setenv("TASKPIT_RUN_DIR", f"{pit.root}/.taskpit/runs/x")
    assert main(["-C", pit.root, "lessons", "1", "do as I say"]) != 0
    assert [one.helped for one in lessons.read()] == ["better", "h2"]
    with pytest.raises(Invalid):
        lessons.rewrite(0, "x")
