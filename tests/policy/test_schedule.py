"""When a schedule is due, and that each of its runs enters once, whoever looks, dies or sets the clock."""

import contextlib
import random
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from rotation import LONG

from taskpit import keeper, schedule
from taskpit.clock import instant, iso
from taskpit.errors import Invalid, Unavailable
from taskpit.model import Done, State, Task
from taskpit.queue import Queue, cards
from taskpit.store.memory import MemoryStore
from taskpit.testing.clock import FakeClock

SUNDAY = instant("2026-03-28T23:20:00Z", 0.0)  # in Berlin half past midnight; clocks go forward at two


@pytest.mark.parametrize(
    ("words", "first", "second"),
    [
        ("mon-fri 07:00", "2026-03-30T05:00:00Z", "2026-03-31T05:00:00Z"),
        ("every 15m", "2026-03-28T23:30:00Z", "2026-03-28T23:45:00Z"),
        ("every day at 7:30", "2026-03-29T05:30:00Z", "2026-03-30T05:30:00Z"),
        ("1st,15th 03:00", "2026-04-01T01:00:00Z", "2026-04-15T01:00:00Z"),
        ("9:00 17:00", "2026-03-29T07:00:00Z", "2026-03-29T15:00:00Z"),
        ("fri-mon 8:00", "2026-03-29T06:00:00Z", "2026-03-30T06:00:00Z"),
        ("wednesday 8:00", "2026-04-01T06:00:00Z", "2026-04-08T06:00:00Z"),
        ("@daily", "2026-03-29T22:00:00Z", "2026-03-30T22:00:00Z"),
        ("hourly", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"),
        ("2:30", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"),  # left out that night: the end of the gap
    ],
)
def test_words_mean_these_times(words, first, second):
    plan = schedule.parse(words, "Europe/Berlin")
    at = plan.after(SUNDAY)
    assert (iso(at), iso(plan.after(at))) == (first, second)


def test_a_time_that_comes_twice_comes_the_first_time_and_each_hour_each_time():
    night = instant("2026-10-24T22:00:00Z", 0.0)
    once, hourly = schedule.parse("2:30", "Europe/Berlin"), schedule.parse("30 * * * *", "Europe/Berlin")
    assert [iso(at) for at in once.between(night, night + 86400)] == ["2026-10-25T00:30:00Z"]
    assert len(list(hourly.between(night, night + 25 * 3600))) == 25


@pytest.mark.parametrize("seed", range(6))
def test_cron_means_what_cron_means(seed):
    for number in range(10):
        _same_times(random.Random(10 * seed + number))


def _same_times(dice):
    """Our reading of any line of cron and another's name the same moments."""

    def field(low, high):
        a, b = sorted((dice.randint(low, high), dice.randint(low, high)))
        return dice.choice(["*", "*", f"*/{dice.randint(1, max(high // 2, 1))}", f"{a}", f"{a}-{b}", f"{a},{b}"])

    text = " ".join(field(*ends) for ends in ((0, 59), (0, 23), (1, 28), (1, 12), (0, 7)))
    zone = dice.choice(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])
    at = float(dice.randint(1577836800, 1893456000))
    wanted = CronSim(text, datetime.fromtimestamp(at, ZoneInfo(zone)))
    plan = schedule.parse(text, zone)
    for _ in range(5):
        at = plan.after(at)
        assert at == next(wanted).timestamp(), (text, zone)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "empty"),
        ("monn 07:00", "'monn'"),
        ("mon 25:00", "'25:00'"),
        ("1st mon 09:00", "days of the month and of the week"),
        ("* * * *", "cron has five"),
        ("0 7 * * 9", "bad day-of-week"),
        ("50-10 7 * * *", "bad minute"),
        ("every 3s", "once a minute"),
        ("0 0 31 2 *", "bad day-of-month"),
        ("every 99999999999999999999w", "after the year 9999"),
    ],
)
def test_what_means_nothing_is_refused_with_its_place(words, told):
    with pytest.raises(Invalid, match=told.replace("*", r"\*")) as error:
        schedule.parse(words).after(0.0)
    assert error.value.hint


def test_the_nearest_right_word_is_named():
    with pytest.raises(Invalid) as error:
        schedule.parse("mon-fry 7:00")
    assert error.value.hint == "Did you mean 'fri'?"
    with pytest.raises(Invalid) as error:
        schedule.parse("7:00", "Berlin")
    assert error.value.hint == "Did you mean 'Europe/Berlin'?"


def test_the_zone_of_the_machine():
    assert schedule.local_zone({"TZ": "Asia/Tokyo"}, "") == "Asia/Tokyo"
    assert schedule.local_zone({}, "/usr/share/zoneinfo/Europe/Berlin") == "Europe/Berlin"
    assert schedule.local_zone({"TZ": "no/such"}, "") == schedule.local_zone({}, "") == "UTC"


class World:
    """A queue in memory by a clock of its own, with one schedule."""

    def __init__(self, every="every 1h", **extra):
        self.clock = FakeClock(instant("2026-01-05T00:30:00Z", 0.0))
        self.queue = Queue(MemoryStore(self.clock), clock=self.clock)
        task = Task(id="", title="chores", tags=("x",), extra={"every": every, **extra})
        self.id = self.queue.put([schedule.first_time(task, self.clock.now())])[0][0]

    def runs(self, *states):
        found = cards(self.queue.store)
        return [card.task.id[5:] for card in found if "schedule" in card.task.extra and card.state in (states or State)]


def test_a_claim_gets_the_run_and_never_the_schedule():
    world = World()
    assert world.queue.claim("ann") == []
    world.clock.advance(1800)
    run = world.queue.claim("ann")[0].task
    assert (run.id, run.title, run.tags) == (f"{world.id}.20260105T010000Z", "chores", ("x",))
    assert run.extra == {"schedule": world.id}
    assert world.queue.claim("bob") == []
    assert "next 2026-01-05T02:00:00Z" in world.queue.card(world.id).held


def test_a_sweep_that_does_not_look_at_everything_fires_and_gives_back(monkeypatch):
    """Where much waits, a look at all of it comes seldom: what is due and what was abandoned does not wait for that."""
    world = World()
    world.clock.advance(1800)
    (claim,) = world.queue.claim("ann", lease=60.0)
    world.clock.advance(3600)
    for look in ("mend", "compost"):
        monkeypatch.setattr(world.queue.store, look, lambda **_: pytest.fail("everything is looked at"))
    kinds = {(mend.kind, mend.what) for mend in keeper.sweep(world.queue, whole=False)}
    assert ("reclaimed", claim.task.id) in kinds
    assert any(kind == "scheduled" for kind, _ in kinds)


def test_while_the_last_run_is_open_the_next_is_skipped():
    world = World()
    world.clock.advance(1800)
    claim = world.queue.claim("ann", lease=99999.0)[0]
    world.clock.advance(3600)
    world.queue.fire_schedules("keeper")
    assert world.runs() == ["20260105T010000Z"]
    world.queue.finish(claim, Done())
    world.clock.advance(3600)
    world.queue.fire_schedules("keeper")
    assert world.runs(State.READY) == ["20260105T030000Z"]


@pytest.mark.parametrize(
    ("catch_up", "after_three_hours", "wanted"),
    [
        ("one", 3.2, ["20260105T030000Z"]),
        ("none", 3.2, ["20260105T030000Z"]),
        ("all", 3.2, ["20260105T010000Z", "20260105T020000Z", "20260105T030000Z"]),
    ],
)
def test_what_was_missed(catch_up, after_three_hours, wanted):
    world = World(**{"catch-up": catch_up})
    world.clock.advance(after_three_hours * 3600 - 1800)
    world.queue.fire_schedules("keeper")
    assert sorted(world.runs()) == wanted


@pytest.mark.parametrize("verb", ["unblock", "retry", "reopen"])
def test_a_schedule_that_was_blocked_or_over_knows_what_it_missed(verb):
    """Its next time is what it knows that by: let go, it is no task that any worker may take."""
    world = World(**{"catch-up": "all"})
    if verb == "reopen":
        world.queue.cancel(world.id, "ann")
    else:
        world.queue.block(world.id, "ann", "a holiday")
    getattr(world.queue, "retry" if verb == "reopen" else verb)(world.id, "ann")
    assert world.queue.card(world.id).task.not_before == instant("2026-01-05T01:00:00Z", 0.0)
    world.queue.block(world.id, "ann", "a holiday")
    world.clock.advance(2 * 3600)
    world.queue.unblock(world.id, "ann")
    world.queue.fire_schedules("keeper")
    assert sorted(world.runs()) == ["20260105T010000Z", "20260105T020000Z"]


def test_missed_by_more_than_an_hour_and_not_wanted_later():
    world = World("daily 06:00", **{"catch-up": "none"})
    world.clock.advance(8 * 3600)
    world.queue.fire_schedules("keeper")
    assert world.runs() == []
    assert "next 2026-01-06T06:00:00Z" in world.queue.card(world.id).held


def test_jitter_spreads_and_never_changes():
    world = World(jitter="30m")
    world.clock.advance(1800)
    world.queue.fire_schedules("keeper")
    late = world.queue.card(f"{world.id}.20260105T010000Z").task.not_before - instant("2026-01-05T01:00:00Z", 0.0)
    assert 0 < late < 1800


def test_a_field_that_somebody_broke_holds_the_schedule_and_nothing_else():
    world = World()
    world.queue.edit(
        world.id, "ann", lambda task: task.replace(extra={**task.extra, "every": "mondays"}, not_before=0.0)
    )
    world.queue.put([Task(id="", title="other")])
    assert world.queue.claim("ann")[0].task.title == "other"
    assert "mondays" in world.queue.card(world.id).held


@pytest.mark.parametrize(
    "extra",
    [
        {"every": "every 99999999999999999999w"},
        {"every": "every 1h", "jitter": "99999999999999999999w"},
        {"every": "7:00", "zone": "../../etc/passwd"},
        {"every": "every 1h", "last-run": "../../etc/passwd", "catch-up": "often"},
    ],
)
def test_numbers_without_reason_hold_the_schedule_and_nothing_else(extra):
    world = World()
    due = instant("2026-01-05T00:00:00Z", 0.0)
    world.queue.put([Task(id="0900", title="by hand", extra=extra, not_before=due), Task(id="0901", title="other")])
    world.queue.fire_schedules("keeper", closely=True)
    assert world.queue.card("0900").state is State.READY
    assert "its schedule cannot be read" in world.queue.card("0900").held
    assert [claim.task.id for claim in world.queue.claim("ann", count=5)] == ["0901"]


def test_a_time_at_the_end_of_the_calendar_is_mended_like_any_that_is_too_far():
    world = World()
    last = instant("9999-12-31T00:00:00Z", 0.0)
    world.queue.put([Task(id="0900", title="by hand", extra={"every": "31st 07:00"}, not_before=last)])
    world.queue.fire_schedules("keeper", closely=True)
    assert "next 2026-01-31T07:00:00Z" in world.queue.card("0900").held


def test_a_schedule_whose_runs_could_have_no_name_is_held():
    world = World()
    long = "x" * 60
    world.queue.put([Task(id=long, title="by hand", extra={"every": "every 1h"}, not_before=1.0)])
    world.queue.fire_schedules("keeper", closely=True)
    assert "too long an id" in world.queue.card(long).held


def test_many_tasks_that_have_the_tag_stop_no_keeper():
    world = World()
    world.queue.put([Task(id=f"09{number:02}", title="work", tags=("@schedule",)) for number in range(12)])
    world.queue.edit(world.id, "ann", lambda task: task.replace(priority=9, not_before=world.clock.now() - 1))
    assert world.queue.fire_schedules("keeper") == [world.id]


def test_written_by_hand_it_waits_for_its_first_time():
    world = World()
    world.queue.put([Task(id="0900", title="by hand", extra={"every": "every 2h"})])
    assert world.queue.claim("ann") == []
    assert world.queue.card("0900").task.not_before == instant("2026-01-05T02:00:00Z", 0.0)


def test_a_task_that_happens_to_have_the_tag_stays_one():
    world = World()
    world.queue.put([Task(id="0900", title="work", tags=("@schedule",))])
    assert world.queue.fire_schedules("keeper") == []
    assert world.queue.claim("ann")[0].task.id == "0900"


def test_a_clock_that_was_ahead_stops_no_schedule():
    world = World()
    real = world.clock.now()
    world.clock.set_wall(real + 90 * 86400)
    world.queue.fire_schedules("keeper")
    world.clock.set_wall(real)
    world.queue.fire_schedules("keeper", closely=True)
    assert world.queue.card(world.id).task.not_before == instant("2026-01-05T01:00:00Z", 0.0)


def test_a_year_of_schedules_eight_pools_deaths_and_jumps():
    dice = random.Random(25)
    clock = FakeClock(instant("2026-01-01T00:00:00Z", 0.0))
    store = MemoryStore(clock)
    pools = [Queue(store, clock=clock) for _ in range(8)]
    zones = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")
    words = ("mon,thu 07:00", "sun 2:30", "1st,15th 03:00", "sat 9:00 17:00", "0 */12 * * 0", "every 100h")
    plans, count = {}, 50 if LONG else 6
    for number in range(count):
        extra = {"every": dice.choice(words), "zone": dice.choice(zones), "catch-up": "all"}
        task = schedule.first_time(Task(id=f"s{number:02d}", title="x", extra=extra), clock.now())
        pools[0].put([task])
        plans[task.id] = (schedule.parse(extra["every"], extra["zone"]), task.not_before)
    finish, deaths = store.finish, 0

    def dies_half_the_time(ends):
        nonlocal deaths
        if dice.random() < 0.2:
            deaths += 1
            raise Unavailable("killed")
        said = finish(ends)
        if dice.random() < 0.1:
            deaths += 1
            raise Unavailable("killed")
        return said

    end = clock.now() + 365 * 86400
    while clock.now() < end:
        clock.advance(dice.uniform(3600, 4 * 86400))
        if dice.random() < 0.1:
            clock.set_wall(clock.now() - dice.uniform(0, 3 * 86400))
        store.finish = dies_half_the_time
        for pool in pools:
            with contextlib.suppress(Unavailable):
                pool.fire_schedules("keeper", closely=dice.random() < 0.2)
        store.finish = finish
        keeper.give_back(pools[0], ended=lambda _queue, _claim: True)  # what the dead had
        for run in pools[0].claim("worker", count=1000):
            pools[0].finish(run, Done())
    clock.advance(3600)
    keeper.sweep(pools[0])  # gives back what the dead had
    for pool in pools:
        pool.fire_schedules("keeper", closely=True)
        pool.fire_schedules("keeper")
    last = clock.now()
    found = {card.task.id for card in cards(store) if "schedule" in card.task.extra}
    wanted = {
        f"{name}.{schedule.stamp(at)}" for name, (plan, first) in plans.items() for at in plan.between(first, last)
    }
    assert deaths > count
    assert len(wanted) > 60 * count
    assert found == wanted
