"""A pool whose reaper and guard are killed with it: nothing of its command is left when its task is given back."""

from __future__ import annotations

import os
import signal

from waits import until
from workshop import alive, read_pid

from taskpit.keeper import sweep
from taskpit.model import State
from taskpit.run import reaper
from taskpit.run.run_directory import end_commands_of


def test_a_task_is_given_back_only_when_its_processes_are_gone(pit):
    (task,) = pit.put("slow")
    pool = pit.start("--", "sh", "-c", f"setsid sleep 600 & echo $! > '{pit.root}/escaped'; sleep 600")
    escaped = read_pid(f"{pit.root}/escaped")
    above = []
    number = escaped
    while number != pool.pid:
        number = int(reaper.stat_of(number)[1])
        above.append(number)
    family = [*above, escaped]
    for number in (pool.pid, *above[::-1]):  # the pool, its guard, its reaper, the command
        os.kill(number, signal.SIGKILL)
    pool.wait()
    assert alive(escaped)  # nothing watches over it
    seen = []

    def ended(queue, claim):
        assert end_commands_of(queue, claim)
        seen.append(alive(escaped))
        return True

    until(lambda: sweep(pit.queue, ended=ended) or pit.card(task).state is State.READY)
    assert seen == [False]
    assert not any(map(alive, family))
    assert (pit.card(task).state, pit.card(task).task.attempts) == (State.READY, 0)
