"""Histories of the production store on the simulated disk: no rule of the judge is broken.

`make simulate SEED=7` prints one; `make test-races` runs new seeds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from history import History
from knobs import drawn
from simulate import corpus, rules

#: So many histories of fixed seeds in each run, and of new ones in `make test-races`.
FIXED, NEW = 500, int(os.environ.get("TASKPIT_HISTORIES", "5000"))
PARTS = 10
HERE = os.path.dirname(__file__)


@pytest.mark.parametrize("part", range(PARTS))
def test_histories_break_no_rule(part: int) -> None:
    for seed in range(1 + part, 1 + FIXED, PARTS):
        assert not rules(drawn(seed)), f"make simulate SEED={seed}"


@pytest.mark.races
@pytest.mark.parametrize("part", range(PARTS))
def test_histories_of_new_seeds_break_no_rule(part: int) -> None:
    first = int(time.time()) // 3600 * NEW
    for seed in range(first + part, first + NEW, PARTS):
        assert not rules(drawn(seed)), f"make simulate SEED={seed}"


def test_histories_that_broke_a_rule_once_break_none_now() -> None:
    for knobs in corpus():
        assert not rules(knobs), knobs


def test_a_seed_repeats_its_history_whatever_the_hash_seed() -> None:
    seeds = range(1, 7)
    here = []
    for seed in seeds:
        history = History(drawn(seed))
        history.run()
        here.append(f"{seed} {history.digest}")
    env = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, f"{HERE}/simulate.py", "1", "--count", str(len(seeds)), "--digest"]
    there = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False).stdout
    assert there.splitlines()[: len(here)] == here
