"""Broken variants of the lock protocol: each must be caught by a test that is there to catch it.

Unchanged, the same tests pass where they stand. Those that need many processes are in `test_takeover`.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import pkgutil
from functools import partial

import lockers
import pytest
from rotation import part

import taskpit.store
from taskpit.store import flock
from taskpit.store.memory import MemoryStore
from taskpit.testing import FakeClock, StoreContract

# What the store loads when it first needs it must be loaded before anything is broken.
for found in pkgutil.walk_packages(taskpit.store.__path__, "taskpit.store."):
    importlib.import_module(found.name)

HERE = os.path.dirname(__file__)


def module(name):
    spec = importlib.util.spec_from_file_location(f"victims_{name}", f"{HERE}/{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


paused, strangers, clocks, written, faults = map(
    module, ("test_paused_holder", "test_strangers", "test_clocks", "test_hand_written", "test_faults")
)


def contract(test, tmp_path):
    """A chapter's test, over a pit."""
    victim = StoreContract()
    victim.clock = FakeClock()
    victim.store = lockers.make(tmp_path / "pit", victim.clock)
    getattr(victim, f"test_{test}")()


def by_hand(test, *words):
    """A test of hand-written locks, over its own kind of queue."""

    def victim(tmp_path):
        test(lockers.make(tmp_path / "pit", FakeClock(), written.CONFIG), *words)

    victim.__name__ = test.__name__
    return victim


CASES = [
    (lockers.unlink_and_link, strangers.test_a_name_is_never_free_while_it_is_taken_over),
    (lockers.number_stands_still, partial(contract, "numbers_only_grow")),
    (lockers.fence_forgotten, partial(contract, "numbers_only_grow")),
    (lockers.anybodys, partial(paused.test_what_another_has_taken_is_left_alone, paused.renew)),
    (lockers.anybodys, partial(paused.test_what_another_has_taken_is_left_alone, paused.free)),
    (lockers.anybodys, partial(contract, "anothers_lock_is_never_freed")),
    (lockers.freed_unseen, partial(paused.test_what_another_has_taken_is_left_alone, paused.free)),
    (lockers.freed_unseen, strangers.test_who_writes_over_ours_is_found_out),
    (lockers.number_not_compared, partial(paused.test_even_under_the_same_name, paused.renew)),
    (lockers.number_not_compared, partial(paused.test_even_under_the_same_name, paused.free)),
    (lockers.not_looked_at_again, partial(paused.test_what_a_stranger_has_taken_is_left_alone, paused.renew)),
    (lockers.not_looked_at_again, partial(paused.test_what_a_stranger_has_taken_is_left_alone, paused.free)),
    (lockers.kernel_not_asked, partial(clocks.test_an_observer_a_day_off_ends_no_live_lock, 1, "a stranger's")),
    (lockers.own_clock_only, partial(clocks.test_an_observer_a_day_off_ends_no_live_lock, 1, "ours")),
    (lockers.clock_believed, partial(clocks.test_a_clock_that_is_set_ends_nothing_early, 2)),
    (lockers.clock_believed, partial(clocks.test_after_a_jump_one_lease_is_enough, -2, 0)),
    (lockers.clock_believed, clocks.test_a_strangers_lock_that_was_watched_across_a_jump_is_watched_on),
    (lockers.never_watched, partial(clocks.test_an_observer_a_day_off_ends_a_dead_one_after_a_lease, -1, "ours")),
    (lockers.never_watched, partial(clocks.test_a_reboot, 0)),
    (lockers.watched_since_the_beginning, partial(clocks.test_after_a_jump_one_lease_is_enough, 2, 20)),
    (lockers.unread_count_begins_anew, partial(faults.test_refused, faults.take_free, errno.EIO)),
    (lockers.unread_count_begins_anew, partial(faults.test_refused, faults.free, errno.EIO)),
    (lockers.the_dead_count, clocks.test_whoever_locks_under_the_name_of_a_dead_worker_is_not_dead),
    (lockers.unreadable_is_stale, strangers.test_a_half_written_lock_is_live),
    (lockers.unreadable_is_stale, by_hand(written.test_what_is_no_file_is_a_lock_nobody_can_read, os.mkfifo)),
    (lockers.unreadable_is_dropped, by_hand(written.test_what_cannot_be_read_lasts_as_long_as_any_lock_may, b"")),
]


def name(case):
    mutant, victim = case
    words = [str(getattr(word, "__name__", word)) for word in getattr(victim, "args", ())]
    of = getattr(victim, "func", victim).__name__.removeprefix("test_")
    return f"{mutant.__name__} by {' '.join([of, *words])}"


@pytest.mark.parametrize("case", part(CASES, 3), ids=name)
def test_the_mutant_is_caught(case, tmp_path, monkeypatch):
    mutant, victim = case
    monkeypatch.setattr(flock, "TURN", 0.005)
    mutant(monkeypatch)
    # A wrong value; a refusal too many, or one too few; a file that is gone; a count that is off.
    with pytest.raises((AssertionError, lockers.Lost, pytest.fail.Exception, FileNotFoundError, ValueError)):
        victim(tmp_path=tmp_path)


def test_the_victims_live_where_nothing_is_broken(tmp_path, monkeypatch):
    """Called the same way, each passes: it is the mutant that they die of."""
    monkeypatch.setattr(flock, "TURN", 0.005)
    for number, (_, victim) in enumerate(CASES):
        place = tmp_path / str(number)
        place.mkdir()
        victim(tmp_path=place)


def test_the_model_passes_its_own_chapter():
    """The mutants break the folder's locks only."""
    victim = StoreContract()
    victim.clock = FakeClock()
    victim.store = MemoryStore(victim.clock)
    victim.test_numbers_only_grow()
