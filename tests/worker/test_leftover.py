"""A pool that hangs: its command is ended before its task is given to somebody else."""

from __future__ import annotations

import glob
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from lockers import Shifted
from waits import until
from workshop import alive, read_pid

from taskpit import trust
from taskpit.clock import boot_id
from taskpit.keeper import sweep
from taskpit.model import State
from taskpit.queue import Queue
from taskpit.run import run_directory
from taskpit.run.reaper import born
from taskpit.store.opening import open_store


def frozen_pool(pit):
    """A pool that was stopped while its command runs; the command's number."""
    pool = pit.start("-n", "1", "--", "sh", "-c", f"echo $$ > '{pit.root}/command'; sleep 600")
    command = read_pid(f"{pit.root}/command", pool)
    until(lambda: any(map(os.path.getsize, glob.glob(f"{pit.root}/.taskpit/groups/*"))), pool)  # it is written down
    os.kill(pool.pid, signal.SIGSTOP)
    return pool, command


@contextmanager
def later(pit):
    """The queue as it is in an hour, when every lease is over."""
    store = open_store(pit.root, clock=Shifted(3600.0))
    yield Queue(store, store.config, store.clock)
    store.close()


def test_the_command_of_a_frozen_pool_is_ended_before_its_task_goes_on(pit):
    (task,) = pit.put("slow")
    pool, command = frozen_pool(pit)
    seen = []

    def ended(queue, claim):
        assert pit.card(task).state is State.CLAIMED  # not given back yet
        seen.append(run_directory.end_commands_of(queue, claim))
        return seen[-1]

    with later(pit) as queue:
        assert sweep(queue, ended=ended)
    assert seen == [True]
    assert not alive(command)
    assert pit.card(task).state is State.READY
    os.kill(pool.pid, signal.SIGCONT)


def test_what_cannot_be_ended_keeps_its_task(pit, monkeypatch):
    (task,) = pit.put("stuck in the kernel")
    pool, command = frozen_pool(pit)
    monkeypatch.setattr(run_directory, "tell_group", lambda _group, _number: True)
    monkeypatch.setattr(run_directory, "PATIENCE", 0.05)
    with later(pit) as queue:
        assert queue.store.lapsed()
        assert sweep(queue, ended=run_directory.end_commands_of) == []
        assert pit.card(task).state is State.CLAIMED
        monkeypatch.undo()
        sweep(queue, ended=run_directory.end_commands_of)
    assert (pit.card(task).state, alive(command)) == (State.READY, False)
    os.kill(pool.pid, signal.SIGCONT)


def noted(pit, claim, group):
    """What a pool writes when this group begins to work for this claim."""
    note = run_directory.GroupNote(pit.queue.store, claim.worker)
    note.write(run_directory.directory_of(pit.queue.store, claim), group)
    return note


def test_a_number_that_is_somebody_elses_by_now_is_left_alone(pit, monkeypatch):
    pit.put("old")
    claim = pit.queue.claim("snake-1")[0]
    monkeypatch.setattr(run_directory, "birth_of", lambda number: born(number) - 1)
    note = noted(pit, claim, os.getppid())
    monkeypatch.undo()
    assert run_directory.end_commands_of(pit.queue, claim)
    assert alive(os.getppid())
    note.close()


@pytest.mark.parametrize("how", ["struck", "another task"])
def test_a_worker_that_has_gone_on_is_left_alone(pit, how):
    """A keeper comes late: its reaper has another command by then, or none."""
    pit.put("old", "new")
    old, new = (pit.queue.claim("snake-1")[0] for _ in range(2))
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as reaper:
        try:
            note = noted(pit, old, reaper.pid)
            if how == "struck":
                note.strike()
            else:
                note.write(run_directory.directory_of(pit.queue.store, new), reaper.pid)
            assert run_directory.end_commands_of(pit.queue, old)
            assert reaper.poll() is None
            if how != "struck":
                assert run_directory.end_commands_of(pit.queue, new)
                assert reaper.wait() == -signal.SIGTERM
        finally:
            reaper.kill()
            note.close()


def test_what_is_left_of_a_longer_note_hides_nothing(pit):
    pit.put("work")
    claim = pit.queue.claim("snake-1")[0]
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as reaper:
        note = noted(pit, claim, reaper.pid)
        try:
            note.write(f"{'a' * 100}.1.b", reaper.pid)
            assert run_directory.reaper_of(pit.queue.store, claim) == 0
            note.strike()
            note.write(run_directory.directory_of(pit.queue.store, claim), reaper.pid)
            assert run_directory.reaper_of(pit.queue.store, claim) == reaper.pid
        finally:
            reaper.kill()
            note.close()


def test_a_worker_that_goes_on_while_its_command_is_ended_is_not_killed(pit, monkeypatch):
    """The command ends by itself between the keeper's look and its last word."""
    pit.put("old")
    claim = pit.queue.claim("snake-1")[0]
    told = []
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as reaper:
        try:
            note = noted(pit, claim, reaper.pid)

            def tell(_group, number):
                told.append(number)
                note.strike()

            monkeypatch.setattr(run_directory, "tell_group", tell)
            assert run_directory.end_commands_of(pit.queue, claim)
            assert signal.SIGKILL not in told
            assert reaper.poll() is None
        finally:
            reaper.kill()
            note.close()


@pytest.mark.parametrize("seal", ["", "0" * 32, "of another place"])
@pytest.mark.parametrize("number", ["{victim}", "9" * 40])
def test_a_run_does_not_choose_who_is_killed(pit, number, seal):
    """Where it works in the queue's own folder it can write there; whoever gives its task back reads that."""
    pit.put("evil")
    claim = pit.queue.claim("snake-1")[0]
    run = os.path.basename(run_directory.directory_of(pit.queue.store, claim))
    groups = f"{pit.root}/.taskpit/groups"
    os.makedirs(groups)
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as victim:
        try:
            line = f"{run} {number.format(victim=victim.pid)} {born(victim.pid)} {boot_id()}"
            if seal == "of another place":
                seal = trust.seal(f"{groups}.other", line.encode())
            with open(f"{groups}/{claim.worker}", "w", encoding="ascii") as file:
                file.write(f"{line} {seal}\n")
            assert run_directory.end_commands_of(pit.queue, claim)
            assert victim.poll() is None
        finally:
            victim.kill()


def test_a_command_whose_pool_dies_before_it_is_known_never_begins(tmp_path):
    code = (
        "import os, sys\n"
        "from taskpit.run import process\n"
        "def started(group):\n"
        "    print(group, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "where = sys.argv[1]\n"
        "order = process.Command(argv=('touch', 'began'), cwd=where, env=dict(os.environ), log=where + '/log')\n"
        "process.run(order, process.Bell(), started)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, capture_output=True, text=True)
    assert ran.returncode == -signal.SIGKILL
    until(lambda: not alive(int(ran.stdout)))
    assert os.listdir(tmp_path) == ["log"]


def test_a_file_among_the_runs_stops_no_sweep(pit):
    """A command in the queue's own folder may write there."""
    os.makedirs(f"{pit.root}/.taskpit/runs")
    with open(f"{pit.root}/.taskpit/runs/stray", "w", encoding="ascii"):
        pass
    assert sweep(pit.queue) == []
