"""Retrying what failed, and the original's cleanup routine."""

from __future__ import annotations

import json
import os

import pytest
from boxes import FAST, load, make, make_fast, pit, read, reopened, write

from taskpit.keeper import sweep
from taskpit.model import Done, Failed, Said, State, Task, Verdict

DAY = 86400.0


def put(queue, task_id="x", **fields):
    assert queue.store.put([Task(id=task_id, title=task_id, **fields)]) == [Said.CREATED]


def end(queue, outcome, task_id="x"):
    (claim,) = queue.claim("w", ids=(task_id,))
    assert queue.finish(claim, outcome)[0] is Said.OK


# -- retry -----------------------------------------------------------------------------------------


def test_a_failed_task_is_retried_from_disk(queue, box):
    """With everything it was: what stands in failed/ has no room for it."""
    extra = {"epic_id": "e", "x_new": [1], "metadata": {"worktree": "/w"}}
    put(queue, priority=4, tags=("web",), body="at length", extra=extra)
    end(queue, Failed(error="broken", final=True))
    assert load(f"{box}/failed/x_error.json")["error"] == "broken"
    queue.retry("x", "ann")
    assert os.listdir(f"{box}/failed") == []
    task = queue.card("x").task
    assert (task.priority, task.tags, task.body, task.extra) == (4, ("web",), "at length", extra)
    fields = load(f"{box}/inbox/x.json")
    assert (fields["status"], fields["attempts"], fields["claimed_by"], fields["x_new"]) == ("ready", 0, "", [1])
    end(queue, Done(output="at last"))
    assert load(f"{box}/outbox/x_result.json")["output"] == "at last"


def test_what_another_tool_failed_is_retried_too(queue, box):
    """It wrote the error, as the original says, and removed the task."""
    put(queue, priority=4, tags=("web",))
    os.rename(f"{box}/inbox/x.json", f"{box}/processing/x.json")
    write(f"{box}/failed/x_error.json", '{"task_id": "x", "status": "failed", "error": "theirs", "attempts": 3}')
    os.unlink(f"{box}/processing/x.json")
    assert queue.card("x").result.reason == "theirs"
    sweep(queue)
    queue.retry("x", "ann")
    assert os.listdir(f"{box}/failed") == []
    card = queue.card("x")
    assert (card.state, card.task.priority, card.task.tags) == (State.READY, 4, ("web",))
    end(queue, Done(output="ours"))
    assert sweep(queue) == []
    assert queue.card("x").state is State.DONE


def test_what_another_tool_failed_is_retried_at_once(tmp_path):
    """From the shell, without waiting for a sweep."""
    box = make_fast(tmp_path / "box", "mailbox")
    assert pit("-C", box, "add", "one", "--id", "x").code == 0
    os.unlink(f"{box}/inbox/x.json")
    write(f"{box}/failed/x_error.json", '{"task_id": "x", "status": "failed", "error": "theirs"}')
    assert pit("-C", box, "retry", "x").code == 0
    assert os.listdir(f"{box}/inbox") == ["x.json"]
    assert os.listdir(f"{box}/failed") == []


def test_a_task_we_never_saw_and_another_tool_failed(queue, box):
    """There is only its error: enough to know of it, and to try it again by its id."""
    write(f"{box}/failed/x_error.json", '{"task_id": "x", "status": "failed", "error": "theirs"}')
    sweep(queue)
    assert queue.card("x").state is State.FAILED
    assert queue.store.put([Task(id="x", title="again")]) == [Said.CONFLICT]


def test_attempts_are_counted_as_the_original_does(queue, box):
    put(queue, max_attempts=2)
    end(queue, Failed(error="once"))
    fields = load(f"{box}/inbox/x.json")
    assert (fields["attempts"], fields["max_attempts"], fields["last_error"]) == (1, 2, "once")
    assert fields["not_before"] > queue.clock.now()
    queue.clock.advance(100)
    end(queue, Failed(error="twice"))
    error = load(f"{box}/failed/x_error.json")
    assert (error["error"], error["attempts"], error["status"]) == ("twice", 2, "failed")
    assert os.listdir(f"{box}/inbox") == []


def test_both_failed_it_and_one_error_stands(queue, box):
    """Another tool's error lies there when ours comes: ours is the outcome, theirs is kept, no third task appears."""
    put(queue)
    (claim,) = queue.claim("w", ids=("x",))
    write(f"{box}/failed/x_error.json", '{"task_id": "x", "status": "failed", "error": "theirs"}')
    queue.finish(claim, Failed(error="ours", final=True))
    sweep(queue)
    assert sweep(queue) == []
    assert queue.store.counts()[State.FAILED] == 1
    assert sorted(os.listdir(queue.store.folder.at(".taskpit/ids"))) == ["x"]
    assert queue.card("x").result.verdict is Verdict.FAILED


# -- cleanup ---------------------------------------------------------------------------------------


def test_results_go_after_seven_days_and_errors_after_thirty(queue, clock, box):
    for task_id, outcome in (("good", Done(output="yes")), ("bad", Failed(error="no", final=True))):
        put(queue, task_id)
        end(queue, outcome, task_id)
    clock.advance(7 * DAY - 60)
    assert sweep(queue) == []
    clock.advance(120)
    assert [mend.kind for mend in sweep(queue)] == ["pruned"]
    assert os.listdir(f"{box}/outbox") == []
    assert os.listdir(f"{box}/failed") == ["bad_error.json"]
    clock.advance(23 * DAY - 240)
    assert sweep(queue) == []
    clock.advance(240)
    assert [mend.kind for mend in sweep(queue)] == ["pruned"]
    assert os.listdir(f"{box}/failed") == []
    assert sweep(queue) == []


def test_what_was_pruned_is_still_known(queue, clock, box):
    """Ids are for ever, and what needs it may go on."""
    put(queue, "good")
    put(queue, "next", needs=("good",))
    end(queue, Done(output="yes"), "good")
    clock.advance(8 * DAY)
    sweep(queue)
    assert queue.store.put([Task(id="good", title="another")]) == [Said.CONFLICT]
    assert queue.card("good").state is State.DONE
    end(queue, Done(), "next")


def test_results_of_other_tools_go_too(queue, clock, box):
    write(f"{box}/outbox/x_result.json", '{"task_id": "x", "status": "completed", "output": "theirs"}')
    sweep(queue)
    assert queue.card("x").result.output == "theirs"
    clock.advance(8 * DAY)
    assert "pruned" in [mend.kind for mend in sweep(queue)]
    assert os.listdir(f"{box}/outbox") == []
    assert queue.card("x").state is State.DONE


def test_stale_temporary_files_go_after_an_hour(queue, clock, box):
    """Ours and the original's own `{task_id}.json.tmp`."""
    for name in ("task_1.json.tmp", "task_1_result.json.tmp", "x~abc~claim", "whatever"):
        write(f"{box}/.tmp/{name}", "{}")
    clock.advance(3500)
    assert sweep(queue) == []
    clock.advance(200)
    assert {mend.kind for mend in sweep(queue)} == {"swept"}
    assert os.listdir(f"{box}/.tmp") == []


def test_old_by_their_own_times(tmp_path):
    """With the machine's clock: what lies there longest goes, what is young stays."""
    queue = make(tmp_path / "box", "mailbox")
    box = queue.store.folder.root
    for name, days in (("old", 8), ("young", 6)):
        path = f"{box}/outbox/{name}_result.json"
        write(path, json.dumps({"task_id": name, "status": "completed"}))
        then = queue.clock.now() - days * DAY
        os.utime(path, (then, then))
    sweep(queue)
    assert os.listdir(f"{box}/outbox") == ["young_result.json"]
    queue.close()


@pytest.mark.parametrize("dry", [True, False])
def test_the_retentions_are_settings(tmp_path, clock, dry):
    queue = make(tmp_path / "box", "mailbox", clock)
    queue.close()
    config = FAST.replace(keep_results=DAY)
    queue = reopened(tmp_path / "box", "mailbox", clock, config)
    queue.store.folder.config = queue.store.folder.config.replace(keep_results=DAY)
    put(queue)
    end(queue, Done(output="yes"))
    clock.advance(DAY + 1)
    assert [mend.kind for mend in sweep(queue, dry_run=dry)] == ["pruned"]
    assert os.listdir(f"{tmp_path}/box/outbox") == (["x_result.json"] if dry else [])
    queue.close()


def test_notes_and_logs_stay_out_of_sight(queue, box):
    put(queue)
    end(queue, Failed(error="no"))
    queue.note("x", "mind the gap", "ann")
    shown = {name for folder in ("inbox", "processing", "outbox", "failed") for name in os.listdir(f"{box}/{folder}")}
    assert shown == {"x.json"}
    assert "mind the gap" in read(f"{box}/.taskpit/notes/x.md")


def test_ids_that_were_reserved_are_not_given_out_once_the_clock_has_gone_past_them(queue, clock, box):
    """A process that puts one after the other reserves some seconds; what it puts later is numbered by later ones."""
    ids = [queue.put([Task(id="", title=f"t {number}")])[0][0] for number in range(4)]
    assert ids == [f"task_{int(clock.now()) + number}" for number in range(4)]
    clock.advance(3600)
    assert queue.put([Task(id="", title="later")])[0][0] == f"task_{int(clock.now())}"
    other = reopened(box, "mailbox", clock)
    given = other.put([Task(id="", title="another process")])[0][0]
    assert given not in ids
    assert queue.put([Task(id="", title="last")])[0][0] != given
    other.close()
