"""What is left, and what could still come by itself."""

from __future__ import annotations

import time

from taskpit.run.pool_options import survey


def coming(pit, *tags):
    return survey(pit.queue, tags).coming


def test_an_empty_pit(pit):
    assert coming(pit) == 0


def test_needs_are_followed(pit):
    (base,) = pit.put("base")
    (middle,) = pit.put("middle", needs=(base,))
    pit.put("top", needs=(middle,))
    pit.put("needs nobody knows", needs=("9999",))
    found = survey(pit.queue)
    assert (found.coming, found.ready, found.held) == (3, 1, 3)


def test_what_a_person_holds_and_what_needs_it_does_not_come(pit):
    (held,) = pit.put("held", hold="look at it")
    pit.put("on top", needs=(held,))
    assert coming(pit) == 0


def test_a_claimed_need_may_still_be_done(pit):
    (base,) = pit.put("base")
    pit.put("top", needs=(base,))
    pit.queue.claim("snake-1")
    found = survey(pit.queue)
    assert (found.claimed, found.coming) == (1, 1)


def test_pauses_count_and_appointments_do_not(pit):
    pit.configure('backoff_longest = "1m"\n')
    pit.put("soon", not_before=time.time() + 30)
    pit.put("next week", not_before=time.time() + 7 * 86400)
    from taskpit.queue import Queue

    queue = Queue.open(pit.root)
    found = survey(queue)
    queue.close()
    assert found.coming == 1


def test_only_ones_own_tags(pit):
    pit.put("mine", tags=("a",))
    pit.put("theirs", tags=("b",))
    assert (coming(pit), coming(pit, "a"), coming(pit, "c")) == (2, 1, 0)
