"""Many workers: nothing lost, nothing twice, and every way to stop them."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time

import pytest
from waits import PATIENCE, until
from workshop import alive, read_pid

from taskpit.errors import Storage
from taskpit.held_directories import NotADirectory
from taskpit.model import Done, Failed, Retry, State, Task
from taskpit.queue import Queue
from taskpit.run import attempt, heartbeat, pool
from taskpit.run.pool import Pool
from taskpit.run.pool_options import PoolOptions, Show
from taskpit.run.run_directory import RunDirectory, prune
from taskpit.run.runner import CannotRun
from taskpit.store.disk_errors import storage_error
from taskpit.store.memory import MemoryStore


class Heard(Show):
    """A show that remembers."""

    def __init__(self):
        self.words = []
        self.said = []

    def over(self, over):
        self.words.append((over.claim.task.id, over.word))

    def say(self, text):
        self.said.append(text)


def run_pool(pit, runner, **orders):
    show = Heard()
    pool = Pool(pit.queue, runner, PoolOptions(**{"until_empty": True, **orders}), show)
    return pool.run(), show


def test_all_done_exactly_once(pit):
    ids = pit.put(*(f"task {n}" for n in range(40)))
    ran = []
    report, _ = run_pool(pit, lambda claim, _run: ran.append(claim.task.id) or Done(), slots=8)
    assert sorted(ran) == ids
    assert report.tally == {"done": 40}
    assert sorted(event.task_id for event in pit.events("completed_task")) == ids


def test_needs_and_priorities_are_kept(pit):
    first = pit.put("base")[0]
    last = pit.put("roof", needs=(first,), priority=9)[0]
    ran = []
    run_pool(pit, lambda claim, _run: ran.append(claim.task.id) or Done(), slots=2)
    assert ran == [first, last]


def test_a_task_is_shown_as_claimed_after_what_it_needs_is_shown_as_done(pit, monkeypatch):
    """B8: the pool printed a task as claimed before it printed that its need was done."""
    first = pit.put("base")[0]
    last = pit.put("roof", needs=(first,))[0]
    begun, shown, seen = threading.Event(), threading.Event(), []

    def late(*args, **kwargs):
        over = attempt.perform(*args, **kwargs)
        if over.claim.task.id == first:
            assert begun.wait(PATIENCE)  # its end is published, and heard of only when the other has begun
        return over

    class Order(Show):
        def claimed(self, claim):
            seen.append((claim.task.id, "claimed"))

        def over(self, over):
            seen.append((over.claim.task.id, over.word))
            shown.set()

    def runner(claim, _run):
        if claim.task.id == last:
            begun.set()
            assert shown.wait(PATIENCE)  # its own end comes after the other's
        return Done()

    monkeypatch.setattr(pool, "perform", late)
    Pool(pit.queue, runner, PoolOptions(until_empty=True, slots=2), Order()).run()

    assert seen == [(first, "claimed"), (first, "done"), (last, "claimed"), (last, "done")]


def test_a_raising_runner_does_not_cost_the_slot(pit):
    pit.put("throws", max_attempts=1)
    (good,) = pit.put("works")

    def runner(claim, _run):
        if claim.task.title == "throws":
            raise RuntimeError("boom")
        return Done()

    report, _ = run_pool(pit, runner)
    assert report.tally == {"failed": 1, "done": 1}
    assert pit.card(good).state is State.DONE


def test_until_empty_waits_for_a_back_off_but_not_for_a_person(pit):
    pit.configure('backoff = "1s"\n')
    pit.queue.close()
    pit.queue = Queue.open(pit.root)
    (flaky,) = pit.put("flaky")
    (held,) = pit.put("held", hold="ask me")
    (stuck,) = pit.put("needs the held one", needs=(held,))
    seen = []

    def runner(claim, _run):
        seen.append(time.monotonic())
        return Retry(reason="not yet", after=1.5) if len(seen) == 1 else Done()

    run_pool(pit, runner)
    assert pit.card(flaky).state is State.DONE
    assert seen[1] - seen[0] > 0.4  # not-before is kept in whole seconds
    assert pit.card(held).state is pit.card(stuck).state is State.READY


def test_max_tasks(pit):
    pit.put("one", "two", "three")
    report, _ = run_pool(pit, lambda _claim, _run: Done(), slots=2, max_tasks=2, until_empty=False)
    assert report.tally == {"done": 2}
    assert pit.queue.store.counts()[State.READY] == 1


def test_only_tasks_with_the_tag(pit):
    (mine,) = pit.put("mine", tags=("py",))
    (other,) = pit.put("other", tags=("rust",))
    run_pool(pit, lambda _claim, _run: Done(), tags=("py",))
    assert (pit.card(mine).state, pit.card(other).state) == (State.DONE, State.READY)


def test_renewing_keeps_a_long_task_from_being_taken_away(pit, monkeypatch):
    monkeypatch.setattr(heartbeat, "RENEW_AT_MOST", 0.05)
    (task,) = pit.put("long")
    ends = []

    def runner(_claim, _run):
        ends.append(pit.card(task).until)
        until(lambda: pit.card(task).until > ends[-1] + 0.2)  # its lease ends later and later
        ends.append(pit.card(task).until)
        return Done()

    report, _ = run_pool(pit, runner, lease=60.0, slots=3)
    assert report.tally == {"done": 1}
    assert len(ends) == 2
    assert not pit.card(task).tries


def test_a_disk_that_refuses_for_a_moment_is_no_loss(pit, monkeypatch):
    pit.put("long")
    monkeypatch.setattr(heartbeat, "RENEW_AT_MOST", 0.05)
    renew, refusals = pit.queue.store.renew, []

    def refusing(claims, lease):
        if len(refusals) < 3:
            refusals.append(1)
            raise Storage("no space")
        return renew(claims, lease)

    monkeypatch.setattr(pit.queue.store, "renew", refusing)
    report, _ = run_pool(pit, lambda _claim, _run: until(lambda: len(refusals) == 3) and Done())
    assert report.tally == {"done": 1}


def test_a_cancel_is_heard_soon_however_long_the_lease(pit, monkeypatch):
    monkeypatch.setattr(heartbeat, "RENEW_AT_MOST", 0.05)
    (task,) = pit.put("endless")
    heard = []

    def wait(_claim, run):
        pit.queue.cancel(task, "me@here")
        heard.append(until(lambda: run.stopping))
        return Failed(error="told to stop")

    report, _ = run_pool(pit, wait, lease=3600.0)
    assert heard == ["cancel"]
    assert report.tally == {"cancelled": 1}
    assert str(pit.card(task).result.verdict) == "cancelled"


def refuse_to_finish(monkeypatch, pit, refused, error=None):
    """The disk takes no end of a claim on a task that is refused."""
    finish = pit.queue.finish

    def refusing(claim, outcome):
        if refused(claim.task.id):
            raise error or Storage("No space left on device")
        return finish(claim, outcome)

    monkeypatch.setattr(pit.queue, "finish", refusing)
    monkeypatch.setattr(attempt, "TRIES", 1)
    monkeypatch.setattr(attempt, "LONGEST_PAUSE", 0.1)


def test_a_result_waits_for_room_and_nothing_is_begun_meanwhile(pit, monkeypatch):
    """Every further run on a full disk would be in vain, and cost what an agent costs."""
    first, second, *others = pit.put(*(f"task {n}" for n in range(4)))
    show, begun, refusals = Heard(), [], []
    monkeypatch.setattr("taskpit.run.pool.LOOK_AGAIN", 0.05)

    def full():
        return len(refusals) < 10  # each a tenth of a second after the last: the pool looks for work meanwhile

    def refused(task):
        if (second, "done") in show.words:
            refusals.append(task)
        return task == first and full()

    refuse_to_finish(monkeypatch, pit, refused)

    def runner(claim, _run):
        begun.append((claim.task.id, full()))
        if claim.task.id == second:
            until(lambda: show.said)
        return Done()

    report = Pool(pit.queue, runner, PoolOptions(until_empty=True, slots=2, lease=3600), show).run()
    assert report.tally == {"done": 4}
    assert sorted(begun) == [(first, True), (second, True), *((task, False) for task in others)]
    assert show.said == [f"No space left on device: {first} waits for room, nothing else is begun"]


def test_a_pool_ends_when_there_is_no_room_for_a_result(pit, monkeypatch):
    ids = pit.put("first", "second", "third")
    refuse_to_finish(monkeypatch, pit, lambda _task: True)
    monkeypatch.setattr(attempt, "WAIT_FOR_ROOM", 0.3)
    ran = []
    report, show = run_pool(pit, lambda claim, _run: ran.append(claim.task.id) or Done(output="dear"), slots=1)
    assert ran == ids[:1]
    assert report.tally == {"unsaved": 1}
    assert report.error.exit_code == 8
    assert "Mend that" in report.error.hint
    assert any("no further task is claimed" in line for line in show.said)
    monkeypatch.undo()
    pit.queue.close()
    pit.queue = Queue.open(pit.root)
    report, _ = run_pool(pit, lambda _claim, _run: Done())
    assert report.tally == {"done": 3}


def test_a_result_does_not_wait_for_what_no_time_moves_away(pit, monkeypatch):
    """A file in the place of a directory was waited for like room on the disk: five minutes for each result."""
    (first,) = pit.put("first")
    in_the_way = NotADirectory(errno.ENOTDIR, "a link or a file stands there", f"{pit.root}/.taskpit/late")
    refuse_to_finish(monkeypatch, pit, lambda _task: True, storage_error(in_the_way))
    report, show = run_pool(pit, lambda _claim, _run: Done(), slots=1)
    assert report.tally == {"unsaved": 1}
    assert not any("waits for room" in line for line in show.said)
    assert first in report.error.message


def test_a_pool_that_waits_says_what_for(pit, monkeypatch):
    pit.put("first")
    looks, real = [], pit.queue.claim
    monkeypatch.setattr(pit.queue, "claim", lambda *args, **wish: looks.append(args) or real(*args, **wish))
    pit.queue.store.pause("lunch", 3600.0, "ada")
    show = Heard()
    pool = Pool(pit.queue, lambda _claim, _run: Done(), PoolOptions(until_empty=True), show)
    thread = threading.Thread(target=pool.run)
    thread.start()
    until(lambda: show.said)
    seen = len(looks)
    pit.put("second")
    until(lambda: len(looks) > seen)  # it has looked again, and says nothing twice
    pit.queue.store.resume("ada")
    thread.join()
    assert [line.partition(":")[0] for line in show.said] == ["the queue is paused by ada"]

    pit.put("somebody else's")
    (claim,) = pit.queue.claim("bob")
    show = Heard()
    pool = Pool(pit.queue, lambda _claim, _run: Done(), PoolOptions(until_empty=True), show)
    thread = threading.Thread(target=pool.run)
    thread.start()
    until(lambda: show.said)
    pit.queue.finish(claim, Done())
    thread.join()
    assert show.said == ["waiting for 1 that others have; `pit list --state running` shows them"]


def test_cancel_stops_a_run(pit):
    (task,) = pit.put("endless")
    process = pit.start("--until", "empty", "--", "sh", "-c", "echo $$ > pid; sleep 600")
    pid = read_pid(f"{pit.root}/pid", process)
    assert pit.queue.cancel(task, "me@here") is False
    assert process.wait(PATIENCE) == 0
    assert str(pit.card(task).result.verdict) == "cancelled"
    assert not alive(pid)


def test_a_lost_claim_stops_the_run_and_publishes_nothing(pit):
    (task,) = pit.put("stolen")
    os.mkdir(f"{pit.root}/elsewhere")
    process = pit.start("--max-tasks", "1", "--", "sh", "-c", "echo $$ > pid; sleep 600; echo no")
    pid = read_pid(f"{pit.root}/pid", process)
    (claimed,) = os.listdir(f"{pit.root}/claimed")
    os.rename(f"{pit.root}/claimed/{claimed}", f"{pit.root}/claimed/thief.{claimed.partition('.')[2]}")
    assert process.wait(PATIENCE) == 0
    assert not alive(pid)
    assert pit.card(task).worker == "thief"
    assert "lost" in pit.said()


def test_a_command_that_vanishes_stops_the_pool_not_the_queue(pit):
    ids = pit.put(*(f"task {n}" for n in range(5)))

    def runner(_claim, _run):
        raise CannotRun("the agent is gone")

    report, show = run_pool(pit, runner, slots=2)
    assert isinstance(report.error, CannotRun)
    assert len(show.words) <= 2
    assert all(pit.card(task).task.attempts == 0 for task in ids)


def test_workers_take_numbers_nobody_has(pit):
    pit.put("a", "b")
    member = pit.queue.store.join("worker-1", 5.0)
    workers = []
    run_pool(pit, lambda claim, _run: workers.append(claim.worker) or Done())
    member.leave()
    assert set(workers) == {"worker-2"}


def test_a_pool_in_memory():
    queue = Queue(MemoryStore())
    queue.put([Task(id="", title=f"task {n}") for n in range(5)])
    report = Pool(queue, lambda _c, _r: Done(), PoolOptions(slots=2, until_empty=True), Show()).run()
    assert report.tally == {"done": 5}


def test_a_pool_in_a_thread_leaves_signals_alone(pit):
    pit.put("one")
    reports = []
    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=lambda: reports.append(run_pool(pit, lambda _c, _r: Done())[0]))
    thread.start()
    thread.join(PATIENCE)
    assert reports[0].tally == {"done": 1}
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_lets_running_tasks_finish(pit, number, code):
    first, second = pit.put("running", "waiting")
    process = pit.start("--", "sh", "-c", "echo $$ > pid; until test -e go; do sleep 0.05; done")
    read_pid(f"{pit.root}/pid", process)
    process.send_signal(number)
    until(lambda: "will be finished" in pit.said())
    with open(f"{pit.root}/go", "w", encoding="ascii"):
        pass
    assert process.wait(PATIENCE) == code
    assert (pit.card(first).state, pit.card(second).state) == (State.DONE, State.READY)


def test_the_second_signal_gives_them_back(pit):
    (task,) = pit.put("running")
    process = pit.start("--", "sh", "-c", "sleep 600 & echo $! > child; echo $$ > pid; wait")
    pid, child = read_pid(f"{pit.root}/pid", process), read_pid(f"{pit.root}/child", process)
    process.send_signal(signal.SIGINT)
    until(lambda: "will be finished" in pit.said())
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    card = pit.card(task)
    assert (card.state, card.task.attempts, card.tries) == (State.READY, 0, ())
    assert not alive(pid)
    assert not alive(child)


def test_an_idle_pool_ends_at_once(pit):
    process = pit.start("--", "true")
    until(lambda: os.path.exists(f"{pit.root}/.taskpit/workers/worker-1"), process)  # it listens before it joins
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 143


def test_a_killed_pool_leaves_no_command_and_another_finishes_all(pit):
    ids = pit.put(*(f"task {n}" for n in range(12)))
    script = "echo $$ > pid-$TASKPIT_TASK; sleep 600"
    doomed = pit.start("-n", "3", "--", "sh", "-c", script)
    pids = [read_pid(f"{pit.root}/pid-{task}", doomed) for task in ids[:3]]
    doomed.kill()
    doomed.wait()
    other = pit.start("-n", "6", "--until", "empty", "--", "sh", "-c", "true")
    assert other.wait(PATIENCE) == 0
    until(lambda: not any(map(alive, pids)))
    assert all(pit.card(task).state is State.DONE for task in ids)
    assert sorted(event.task_id for event in pit.events("completed_task")) == ids
    assert all([one.kind for one in pit.card(task).tries] == ["lost"] for task in ids[:3])
    assert not [mend for mend in pit.queue.store.check() if "task" in mend.kind]


def test_two_pools_share_the_work(pit):
    ids = pit.put(*(f"task {n}" for n in range(20)))
    meet = 'echo "${TASKPIT_AS%~*}" >> seen; until [ "$(sort -u seen | wc -l)" -gt 2 ]; do sleep 0.05; done'
    command = ("-n", "2", "--until", "empty", "--", "sh", "-c", meet)
    pools = [pit.start(*command) for _ in range(2)]
    assert [pool.wait(PATIENCE) for pool in pools] == [0, 0]
    assert all(pit.card(task).state is State.DONE for task in ids)
    assert len(pit.events("completed_task")) == 20
    workers = {pit.card(task).result.worker.partition("~")[0] for task in ids}
    assert len(workers) > 2


def test_a_self_ended_claim_is_not_cut_short_by_the_renewer(pit):
    (task,) = pit.put("early")
    script = '"$0" -m taskpit fail $TASKPIT_TASK --error no --final && sleep 1 && touch after'
    process = pit.start("--max-tasks", "1", "--", "sh", "-c", script, sys.executable)
    assert process.wait(PATIENCE) == 0
    assert os.path.exists(f"{pit.root}/after")
    assert pit.card(task).state is State.FAILED
    assert not pit.events("late_result")


def test_papers_of_a_killed_pool_are_cleared_once_they_are_old(pit):
    (task,) = pit.put("left behind")
    claim = pit.queue.claim("snake-1")[0]
    runs = f"{pit.root}/.taskpit/runs"
    held, dead, with_more = (f"{runs}/{task}.1.{word}" for word in (claim.fence.partition("~")[2], "dead01", "dead02"))
    for path in (held, dead, with_more):
        RunDirectory(path).make()
        with open(f"{path}/log", "w", encoding="ascii") as file:
            file.write("x")
    with open(f"{with_more}/precious", "w", encoding="ascii"):
        pass
    prune(pit.queue.store, 600.0)
    assert len(os.listdir(runs)) == 3
    for path in (held, dead, with_more):
        os.utime(path, (1, 1))
    prune(pit.queue.store, 600.0)
    assert sorted(os.listdir(runs)) == sorted(os.path.basename(path) for path in (held, with_more))
    assert os.listdir(with_more) == ["precious"]


def test_dry_run_shows_and_changes_nothing(pit):
    pit.put("low")
    (task,) = pit.put("high", priority=5, body="Do it well.", check="make test")
    process = pit.start("--dry-run", "--", "agent-that-is", "{prompt_file}")
    assert process.wait(PATIENCE) == 1  # there is no such agent, and that is said
    process = pit.start("--dry-run", "--", "cat", "{prompt_file}", "{id}")
    assert process.wait(PATIENCE) == 0
    assert "Do it well." in pit.said(1)
    assert f"would run for {task}: cat" in pit.said(1)
    assert pit.queue.store.counts()[State.READY] == 2
    assert not pit.events("claimed_task")
    assert not os.path.exists(f"{pit.root}/.taskpit/runs")


@pytest.mark.parametrize("words", [(), ("-n", "0", "--", "true"), ("--until", "noon", "--", "true")])
def test_orders_that_make_no_sense(pit, words):
    assert pit.start(*words).wait(PATIENCE) == 2
