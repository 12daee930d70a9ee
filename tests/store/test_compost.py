"""Retention: only what is old enough goes, logs leave a line, and results stay for ever unless settings say so."""

from __future__ import annotations

import os
from hashlib import sha256

import pytest
from pits import CONFIG, make, put, root_of, take, task

from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Said, State, Task, Verdict

DAY = 86400.0


def log(queue, name, text, age):
    path = f"{root_of(queue)}/waste/{name}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.utime(path, (queue.clock.now() - age,) * 2)
    return path


def composted(queue, **options):
    return [mend.what for mend in queue.store.compost(**options)]


def test_a_log_is_kept_for_its_time_and_leaves_a_line(tmp_path, clock):
    queue = make(str(tmp_path / "pit"), clock, CONFIG.replace(compost=1800.0))
    young = log(queue, "young.log", "still warm\n", 1790)
    old = log(queue, "old.log", "one\nTraceback: no mice\nlast \x1bwords\n\n", 1810)
    other = log(queue, "README.md", "not a log", 10 * DAY)

    assert composted(queue, dry_run=True) == ["waste/old.log"]
    assert os.path.exists(old)
    assert composted(queue) == ["waste/old.log"]
    assert [os.path.exists(path) for path in (young, old, other)] == [True, False, True]
    with open(f"{root_of(queue)}/waste/COMPOST.md", encoding="utf-8") as file:
        digest = file.read()
    assert digest.count("**old.log**") == 1
    assert "3 lines, 1 lines of trouble" in digest
    assert "Last line: last ?words" in digest
    assert "young" not in digest
    assert composted(queue) == []
    queue.close()


def test_a_log_that_a_program_has_open_is_left_until_it_is_closed(tmp_path, clock):
    """Agents that print all they have to say at their end: it was gone, and its line said that it was empty."""
    queue = make(str(tmp_path / "pit"), clock, CONFIG.replace(compost=1800.0))
    path = log(queue, "snake-2-20260614T175042Z.log", "", 1810)
    with open(path, "a", encoding="utf-8") as trace:
        assert composted(queue) == []
        trace.write("the whole trace\n")
    os.utime(path, (queue.clock.now() - 1810,) * 2)
    assert composted(queue) == ["waste/snake-2-20260614T175042Z.log"]
    with open(f"{root_of(queue)}/waste/COMPOST.md", encoding="utf-8") as file:
        assert "Last line: the whole trace" in file.read()
    queue.close()


def test_another_log_of_the_same_name_leaves_its_line_too(tmp_path, clock, monkeypatch):
    """The same log again, since we were killed before it was removed, leaves one."""
    queue = make(str(tmp_path / "pit"), clock, CONFIG.replace(compost=1800.0))
    for text in ("first", "other"):
        log(queue, "snake-2-.log", f"{text} words\n", 1810)
        with monkeypatch.context() as patch:
            patch.setattr("taskpit.fs.remove", lambda path: None)
            composted(queue)
        clock.advance(100)
        composted(queue)
    with open(f"{root_of(queue)}/waste/COMPOST.md", encoding="utf-8") as file:
        last = [line.rpartition("Last line: ")[2] for line in file.read().splitlines()]
    assert last == ["first words", "other words"]
    queue.close()


def finished(root, clock, **config):
    """One task done, one failed, one ready that needs the first."""
    queue = make(root, clock, CONFIG.replace(**config))
    put(queue, task(1), task(2), task(3, needs=("0001",)))
    queue.finish(take(queue, "0001"), Done(output="did it"))
    queue.finish(take(queue, "0002"), Failed(error="no", final=True))
    for spot in list(queue.store.folder.finished()):
        os.utime(queue.store.folder.at(spot.path), (clock.now(),) * 2)
    return queue


def test_nothing_is_pruned_unless_settings_say_so(tmp_path, clock):
    queue = finished(str(tmp_path / "pit"), clock)
    clock.advance(10_000 * DAY)
    sweep(queue)
    assert queue.card("0001").result.output == "did it"
    assert queue.card("0002").result.reason == "no"
    queue.close()


def test_files_that_are_kept_with_a_task_go_when_its_result_does(tmp_path, clock):
    """And what a run elsewhere had printed when its worker was lost goes when a log would."""
    queue = make(str(tmp_path / "pit"), clock, CONFIG.replace(keep_results=7 * DAY, compost=DAY))
    put(queue, task(1), task(2))
    first, second = take(queue, "0001"), take(queue, "0002")
    for claim in (first, second):
        queue.store.keep_artifact(claim, "a.txt", b"x", sha256(b"x").hexdigest())
        queue.store.add_log(claim, 0, b"printed")
    queue.finish(first, Done(output="did it", log=queue.store.end_log(first)))
    folder = f"{root_of(queue)}/.taskpit"
    (run,) = os.listdir(f"{folder}/runs")
    for path in (f"{folder}/runs/{run}/log", *(f"{root_of(queue)}/{one}" for one in ("waste", "scraps"))):
        names = [path] if path.endswith("/log") else [f"{path}/{name}" for name in os.listdir(path)]
        for name in names:
            os.utime(name, (clock.now(),) * 2)
    clock.advance(DAY - 60)
    assert composted(queue) == []
    clock.advance(120)
    assert f".taskpit/runs/{run}/log" in composted(queue, dry_run=True)
    assert f".taskpit/runs/{run}/log" in composted(queue)
    assert os.listdir(f"{folder}/runs") == []
    assert [one.name for one in queue.store.artifacts("0001")] == ["a.txt"]
    clock.advance(7 * DAY)
    assert "0001" in composted(queue)
    assert queue.store.artifacts("0001") == []
    assert os.listdir(f"{folder}/artifacts") == ["0002"]
    queue.close()


def test_results_have_their_time(tmp_path, clock):
    queue = finished(str(tmp_path / "pit"), clock, keep_results=7 * DAY)
    clock.advance(7 * DAY - 60)
    assert composted(queue) == []
    clock.advance(120)
    assert composted(queue, dry_run=True) == ["0001"]
    assert composted(queue) == ["0001"]
    assert composted(queue) == []
    queue.close()


@pytest.mark.parametrize(("layout", "pruned"), [("workspace", ["task_001"]), ("mailbox", ["task_001"])])
def test_failures_have_a_time_of_their_own(tmp_path, clock, layout, pruned):
    queue = make(str(tmp_path / "queue"), clock, CONFIG.replace(keep_failed=7 * DAY), layout)
    put(queue, Task(id="task_001", title="x"))
    queue.finish(take(queue, "task_001"), Failed(error="no", final=True))
    clock.advance(7 * DAY - 60)
    assert composted(queue) == []
    clock.advance(3600)
    assert composted(queue) == pruned
    assert queue.card("task_001").state is State.FAILED
    queue.close()


def test_a_pit_keeps_what_failed_in_its_scraps(tmp_path, clock):
    queue = finished(str(tmp_path / "pit"), clock, keep_failed=DAY)
    clock.advance(30 * DAY)
    assert composted(queue) == []
    assert queue.card("0002").result.reason == "no"
    queue.close()


def test_how_it_ended_outlives_its_result(tmp_path, clock):
    """What needs it may run, and its id is never given out again."""
    queue = finished(str(tmp_path / "pit"), clock, keep_results=DAY)
    clock.advance(2 * DAY)
    assert composted(queue) == ["0001"]
    card = queue.card("0001")
    assert (card.state, card.result.verdict) == (State.DONE, Verdict.DONE)
    assert "did it" not in card.result.output
    assert queue.card("0003").held == ""
    assert queue.store.put([task(1, title="another")]) == [Said.CONFLICT]
    assert [mend for mend in queue.store.check() if mend.what == "0001"] == []
    queue.close()
