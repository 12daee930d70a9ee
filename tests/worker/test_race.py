"""Racers as real processes: the first that is done wins, the others are stopped, in every layout with fields."""

from __future__ import annotations

import os
from glob import glob

import pytest
from faults import Killed
from lockers import Shifted
from waits import PATIENCE, until
from workshop import CONFIG, Pit, alive, read_pid

from taskpit import race
from taskpit.keeper import sweep
from taskpit.layouts import Spot
from taskpit.model import Done, End, Said, State, Task, Verdict, Want
from taskpit.queue import Queue, cards
from taskpit.race import Race
from taskpit.run import heartbeat
from taskpit.run.pool import Pool
from taskpit.run.pool_options import PoolOptions, Show
from taskpit.run.runner import CommandRunner
from taskpit.store import finish
from taskpit.store.opening import init, open_store

RACES = 100 if os.environ.get("TASKPIT_LONG") else 6
#: The second racer is done once the two others run; these never are.
SCRIPT = """case $TASKPIT_TASK in
*.r2) while ! [ -s "{root}/pid-1" ] || ! [ -s "{root}/pid-3" ]; do sleep 0.02; done
  echo second > "$TASKPIT_RUN_DIR/result.md";;
*.r1) echo $$ > "{root}/pid-1"; exec sleep 600;;
*.r3) echo $$ > "{root}/pid-3"; exec sleep 600;;
esac"""


@pytest.fixture
def pit(tmp_path):
    pit = Pit(tmp_path / "pit")
    yield pit
    pit.close()


def racers(queue, task):
    return {card.task.id: card for card in cards(queue.store) if card.task.extra.get("race-of") == task}


def test_the_winner_seals_the_task_and_the_others_are_stopped(pit, monkeypatch):
    """At once, and also those that do not listen to a signal."""
    monkeypatch.setattr(heartbeat, "RENEW_AT_MOST", PATIENCE)  # so that no renewal and no look tells them
    monkeypatch.setattr(heartbeat, "RACE_LOOK", PATIENCE)
    pit.configure('durability = "process"\nlease = "1h"\n')
    pit.queue.close()
    pit.queue = Queue.open(pit.root)
    task = pit.put("race", extra={"race": 3}, check="test -s pid-3")[0]
    deaf = f"trap '' TERM\n{SCRIPT.format(root=pit.root)}"
    runner = CommandRunner(("sh", "-c", deaf), cwd=pit.root, grace=PATIENCE)
    orders = PoolOptions(slots=3, until_empty=True, check_in=pit.root)
    report = Pool(pit.queue, runner, orders, Show()).run()
    assert report.seconds < PATIENCE
    card = pit.card(task)
    assert card.state is State.DONE
    assert card.result.output == "second"
    assert card.result.reason.startswith(f"{task}.r2 won")
    assert card.checked == "yes"
    found = racers(pit.queue, task)
    assert [found[f"{task}.r{n}"].result.verdict for n in (1, 2, 3)] == [
        Verdict.CANCELLED,
        Verdict.DONE,
        Verdict.CANCELLED,
    ]
    assert found[f"{task}.r1"].result.reason.startswith(f"the race is over: {task}.r2 won")
    assert not any(alive(read_pid(f"{pit.root}/pid-{n}")) for n in (1, 3))
    assert report.tally == {"done": 1, "cancelled": 2}
    assert [event.task_id for event in pit.events("completed_task")].count(task) == 1


def test_racers_in_pools_of_their_own_are_stopped_too(pit):
    task = pit.put("race", extra={"race": 3})[0]
    for _ in range(3):
        pit.start("--", "sh", "-c", SCRIPT.format(root=pit.root))
    until(lambda: pit.card(task).state is State.DONE)
    until(lambda: not any(alive(read_pid(f"{pit.root}/pid-{n}")) for n in (1, 3)))
    until(lambda: all(card.result is not None for card in racers(pit.queue, task).values()))


@pytest.mark.races
def test_many_races_whose_pools_are_killed_have_one_result_each(pit):
    """The second racer wins, once it is left in peace; each pool that has begun a second one may be killed for it.

    The others make room for it after a while, should they have all slots; no person is asked about so many kills.
    """
    pit.configure(f"{CONFIG}losses = 1000\n")
    script = f"""case $TASKPIT_TASK in
*.r2) echo $PPID >> "{pit.root}/ran"; sleep 0.1;;
*) trap 'date +%s.%N > "{pit.root}/end-'$TASKPIT_TASK'"' TERM; sleep 5; exit 75;;
esac"""
    tasks = [pit.put(f"race {number}", extra={"race": 3})[0] for number in range(RACES)]
    pools, kills = [], 0
    while pit.queue.store.counts()[State.DONE] < 2 * RACES:
        pools = [pool for pool in pools if pool.poll() is None]
        pools += [pit.start("-n", "4", "--", "sh", "-c", script) for _ in range(2 - len(pools))]
        seen = began(pit)
        waited(pit, lambda seen=seen: began(pit) > seen or pit.queue.store.counts()[State.DONE] == 2 * RACES)
        if kills < RACES // 2 and pools[0].poll() is None:
            pools[0].kill()
            pools[0].wait()
            pools, kills = pools[::-1], kills + 1
    over = {State.READY: 0, State.CLAIMED: 0, State.DONE: 2 * RACES, State.FAILED: 2 * RACES}
    waited(pit, lambda: pit.queue.store.counts() == over)
    assert sorted(event.task_id for event in pit.events("completed_task")) == sorted(
        name for task in tasks for name in (task, f"{task}.r2")
    )
    assert all(pit.card(task).result.reason.startswith(f"{task}.r2 won") for task in tasks)
    ends = {task: os.stat(glob(f"{pit.root}/done/*-{task}-*.result.md")[0]).st_mtime for task in tasks}
    late = sorted(told_to_stop(pit, f"{task}.{loser}") - ends[task] for task in tasks for loser in ("r1", "r3"))
    print(f"{kills} kills; losers were stopped {late[RACES]:.2f}s after the result (median), at most {late[-1]:.2f}s")
    assert kills == RACES // 2


def test_a_keeper_that_dies_with_a_loser_in_its_hands_keeps_nobody_waiting(pit, monkeypatch):
    """It has no lock that is gone with it, only a lease: another is there before a racer gives up waiting for it."""
    task = pit.put("race", extra={"race": 2})[0]
    (one,) = pit.queue.claim("snake-1")
    with monkeypatch.context() as patch:
        patch.setattr(Race, "stop", lambda *_: [])  # its pool dies when the race has its result
        pit.queue.finish(one, Done(output="mine"))
    with monkeypatch.context() as patch:
        patch.setattr(Race, "late", killed)
        with pytest.raises(Killed):
            pit.queue.look_after_race(pit.card(task).task)
    assert pit.card(f"{task}.r2").state is State.CLAIMED
    store = open_store(pit.root, clock=Shifted(race.PATIENCE))
    later = Queue(store, store.folder.config, Shifted(race.PATIENCE))
    assert [mend.what for mend in sweep(later)] == [f"{task}.r2"]
    assert pit.card(f"{task}.r2").result.verdict is Verdict.CANCELLED
    later.close()


def killed(*_):
    raise Killed


def waited(pit, met):
    """It happened; else what stands in its way is told."""
    try:
        until(met)
    except AssertionError:
        stand = [
            (card.task.id, card.state, card.worker, card.held) for card in cards(pit.queue.store) if not card.result
        ]
        said = [pit.said(number)[-2000:] for number, pool in enumerate(pit.processes) if pool.poll() is None]
        ended = [(number, pool.poll()) for number, pool in enumerate(pit.processes)]
        raise AssertionError(f"{pit.queue.store.counts()}: {stand}, {ended}, {said}") from None


def began(pit):
    """How many racers that can win have begun."""
    try:
        with open(f"{pit.root}/ran", encoding="ascii") as file:
            return len(file.read().split())
    except FileNotFoundError:
        return 0


def told_to_stop(pit, name):
    """When a loser was; 0 if it never ran."""
    try:
        with open(f"{pit.root}/end-{name}", encoding="ascii") as file:
            return float(file.read())
    except FileNotFoundError:
        return 0.0


@pytest.mark.parametrize("layout", ["pit", "mailbox", "workspace"])
def test_every_layout_with_fields_has_races(tmp_path, layout):
    init(str(tmp_path / "pit"), layout)
    queue = Queue.open(str(tmp_path / "pit"))
    task = queue.put([Task(id="", title="race", extra={"race": "claude, codex"}, touches=("src/*",))])[0][0]
    one = queue.claim("snake-1")[0]
    two = queue.claim("snake-2")[0]
    assert [claim.task.extra["agent"] for claim in (one, two)] == ["claude", "codex"]
    assert queue.claim("snake-3") == []
    assert queue.finish(two, Done(output="two's"))[0] is Said.OK
    assert queue.renew(one) is Said.CANCEL
    queue.finish(one, Done(output="one's"))
    assert queue.card(task).result.output.strip() == "two's"
    assert {name: card.state for name, card in racers(queue, task).items()} == {
        one.task.id: State.FAILED,
        two.task.id: State.DONE,
    }
    queue.close()


@pytest.mark.parametrize("layout", ["pit", "mailbox", "workspace"])
def test_a_racer_that_is_done_while_the_task_is_on_its_way_back_to_its_place_wins(tmp_path, layout, monkeypatch):
    """Another racer has just failed, and had the task in its hands for an instant."""
    init(str(tmp_path / "pit"), layout)
    queue = Queue.open(str(tmp_path / "pit"))
    task = queue.put([Task(id="", title="race", extra={"race": 2})])[0][0]
    one, _ = queue.claim("snake-1", count=2)
    store = queue.store
    (parent,) = store.claim(Want(worker="snake-2", lease=5.0, ids=(task,), even_held=True))
    spot = Spot(state=State.CLAIMED, id=task, slug=parent.task.slug, worker=parent.fence)
    claimed = store.folder.layout.claimed_path(parent.task, parent.fence)
    sealed, committed = finish.seal(store.folder, spot.replace(path=claimed), End(claim=parent))
    assert committed
    assert store.read([task])[0].task.extra["racers"] == f"{task}.r1, {task}.r2"
    monkeypatch.setattr(store, "wait", lambda _: finish.roll(sealed))
    assert queue.finish(one, Done(output="mine"))[0] is Said.OK
    assert queue.card(task).result.output.strip() == "mine"
    queue.close()
