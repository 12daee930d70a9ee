"""Parts of the suite: together they are all of it, and what a circumstance could touch is found through helpers."""

from __future__ import annotations

import json
from unittest.mock import Mock

import choice


def chosen(items, share=None, matching=None, turn=None):
    config, left = Mock(option=Mock(share=share, matching=matching, turn=turn)), list(items)
    choice.pytest_collection_modifyitems(config, left)
    return left


def sends():
    return "a signal that is sent"


def through_a_helper():
    return sends()


def without():
    return "nothing"


def collected(function):
    return Mock(nodeid=function.__name__, function=function, _fixtureinfo=Mock(name2fixturedefs={}))


def test_the_shares_are_the_suite_and_each_test_is_in_one():
    tests = [Mock(nodeid=f"test_{number}") for number in range(100)]
    shares = [chosen(tests, f"{number}/4") for number in range(4)]
    assert sorted(test.nodeid for share in shares for test in share) == sorted(test.nodeid for test in tests)
    assert all(shares)
    assert chosen(tests) == tests


def test_what_a_helper_does_counts():
    tests = [collected(one) for one in (sends, through_a_helper, without)]
    assert chosen(tests, matching=r"a sig[n]al") == tests[:2]
    assert chosen(tests, "0/1", "nowhere") == tests, "or its share"


def test_in_turn_a_dear_test_is_in_one_part_and_all_others_in_each(tmp_path):
    tests = [Mock(nodeid=f"test_{number}") for number in range(100)]
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps({test.nodeid: choice.DEAR for test in tests[:50]} | {"test_60": choice.DEAR / 2}))
    turns = [chosen(tests, turn=f"{number}/4:{costs}") for number in range(4)]
    assert all(turn[-50:] == tests[50:] for turn in turns)
    assert sorted(test.nodeid for turn in turns for test in turn[:-50]) == sorted(test.nodeid for test in tests[:50])
    assert all(len(turn) < 100 for turn in turns)
