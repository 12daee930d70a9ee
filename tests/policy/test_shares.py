"""Shares of tags: whoever has much does not keep out who has little, and nothing waits for ever."""

from __future__ import annotations

import random

import pytest
from pits import make, task

from taskpit.config import Config, parse, plain_settings
from taskpit.errors import Invalid
from taskpit.model import Done
from taskpit.rules import ANY, drawn
from taskpit.testing import FakeClock


def simulated(shares, backlog, claims, seed=1, arrivals=()):
    """So many claims over these backlogs: how many each tag had, and the longest run of claims one of them waited."""
    dice = random.Random(seed)
    left, had = dict(backlog), dict.fromkeys(backlog, 0)
    last, longest = dict.fromkeys(backlog, 0), dict.fromkeys(backlog, 0)
    for number in range(claims):
        for tag in arrivals:
            left[tag] += dice.random() < 0.05
        for tag in drawn(shares, dice.random):
            taken = max(left, key=left.get) if tag == ANY else tag  # of all together, the one with most is next
            if left.get(taken, 0):
                left[taken] -= 1
                had[taken] += 1
                last[taken] = number
                break
        for tag, many in left.items():
            if many:
                longest[tag] = max(longest[tag], number - last[tag])
            else:
                last[tag] = number
    return had, longest


def test_each_has_its_share_however_much_others_have():
    had, longest = simulated({"a": 3, "b": 2, "c": 1}, {"a": 10**6, "b": 10**4, "c": 10**4}, 7000)
    whole = sum(had.values())
    # `*` has one of seven, and the one with most gets it.
    assert abs(had["a"] / whole - 4 / 7) < 0.03
    assert abs(had["b"] / whole - 2 / 7) < 0.03
    assert abs(had["c"] / whole - 1 / 7) < 0.03
    assert max(longest.values()) < 100


def test_a_tenant_that_comes_seldom_is_served_at_once():
    had, longest = simulated({"loud": 1, "quiet": 1}, {"loud": 10**6, "quiet": 0}, 5000, arrivals=["quiet"])
    assert had["quiet"] > 200
    assert longest["quiet"] < 40


def test_without_shares_the_quiet_one_waits_for_all_the_others():
    """What it is for: by age alone, who came late to a long line is at its end."""
    had, _ = simulated({}, {"loud": 10**6, "quiet": 10}, 5000)
    assert had["quiet"] == 0


def test_every_order_ends_with_all_together():
    for seed in range(50):
        order = drawn({"a": 2, "b": 1}, random.Random(seed).random)
        assert order[-1] == ANY
        assert len(order) == len(set(order))


def test_claims_of_a_queue_are_shared(tmp_path, monkeypatch):
    queue = make(str(tmp_path / "pit"), FakeClock(), Config(durability="process", shares={"docs": 1, "*": 1}), "pit")
    queue.put([task(n, tags=("web",)) for n in range(1, 31)])
    queue.put([task(n, tags=("docs",)) for n in range(31, 41)])
    monkeypatch.setattr(random, "random", random.Random(7).random)
    taken = [queue.claim("w")[0] for _ in range(20)]
    docs = [claim for claim in taken if "docs" in claim.task.tags]
    assert 5 <= len(docs) <= 10
    assert [claim.task.id for claim in docs] == sorted(claim.task.id for claim in docs)
    assert queue.claim("w", tags=["web"])[0].task.tags == ("web",)
    for claim in taken:
        queue.finish(claim, Done())
    while queue.claim("w"):
        pass
    queue.close()


def test_shares_in_the_settings():
    assert plain_settings("[shares]\nweb = 2\n") == {"shares": {"web": 2}}
    assert parse({"shares": {"web": 2, "*": 1}}).shares == {"web": 2, "*": 1}
    for wrong in (0, -1, "2", True, 1.5, 10**9):
        with pytest.raises(Invalid, match="shares"):
            parse({"shares": {"web": wrong}})
    with pytest.raises(Invalid, match="table"):
        parse({"shares": 3})
