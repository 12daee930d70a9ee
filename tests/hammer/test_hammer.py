"""The hammer for some seconds: the promises hold, and each broken variant of the protocol is noticed.

The long runs, on other filesystems and with strangers, are the program's own: `python tests/hammer/hammer.py --help`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from waits import PATIENCE

pytestmark = pytest.mark.races

HAMMER = f"{os.path.dirname(__file__)}/hammer.py"
LAYOUTS = ("pit", "mailbox")
#: Noticed by tests/mutants, too, in forced orders: here by chance, so that no short run can promise it.
MUTANTS = ("seal skipped", "publish by rename", "seal by link and unlink", "fixed name")
LONG = bool(os.environ.get("TASKPIT_LONG"))
#: A round lasts so long at least, and each mutant is noticed in one of so many: most in the first.
SECONDS, ROUNDS = 6 if LONG else 2, 20


def hammers(tmp_path, flag, values, *words):
    """One run for each value of a flag, all at once, since they mostly wait: what each found."""
    running = {}
    for number, value in enumerate(values):
        command = [sys.executable, HAMMER, "--seconds", SECONDS, "--workers", 12, "--keepers", 3, flag, value, *words]
        command += ["--json", tmp_path / f"{number}.json"]
        running[value] = subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    for value, process in running.items():
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode in (0, 1), f"{value}: {out}{err}"
        print(out)
    return {value: json.loads((tmp_path / f"{number}.json").read_text()) for number, value in enumerate(values)}


def test_nothing_is_lost_and_nothing_happens_twice(tmp_path):
    for layout, found in hammers(tmp_path, "--layout", LAYOUTS).items():
        assert found["broken"] == [], layout
        assert found["kills"] > 0
        assert found["freezes"] > 0
        assert found["ends accepted"] > 0
        assert found.get("carried out", 0) + found.get("reclaimed", 0) > 0


@pytest.mark.skipif(not LONG, reason="rounds until chance has found each: TASKPIT_LONG=1")
def test_the_hammer_notices_what_is_broken(tmp_path):
    unnoticed = set(MUTANTS)
    for _ in range(ROUNDS):
        found = hammers(tmp_path, "--mutant", sorted(unnoticed))
        unnoticed -= {mutant for mutant in unnoticed if found[mutant]["broken"]}
        if not unnoticed:
            break
    assert unnoticed == set()
