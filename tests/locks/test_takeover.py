"""Eight processes want one lock that has expired: one gets it, with a number nobody had. Whoever is killed meanwhile.

The same contest, run by the protocols this one grew out of and by broken variants of it, finds several
holders: that is what it is worth.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest
from faults import record
from lockers import LONG, NAME, Shifted, holder_of, make, path_of, spelled, start, store, write
from rotation import part
from waits import PATIENCE

from taskpit.errors import Lost
from taskpit.keeper import sweep
from taskpit.queue import Queue
from taskpit.store.folder import FENCES

HERE = os.path.dirname(__file__)
#: Rounds of the contest; a longer one is asked for by the environment.
ROUNDS = int(os.environ.get("TASKPIT_LOCK_ROUNDS", "25"))
#: Chance has found what can be found after so many.
MOST = 3000
CONTENDERS = 8


class Contest:
    """Processes that contend in rounds, all let go at once."""

    def __init__(self, root, protocol="ours", mutant=""):
        self.root = str(root)
        self.store = make(root)
        self.before = store(root, Shifted(-LONG))
        self.path = path_of(self.store)
        self.protocol, self.mutant = protocol, mutant
        self.processes = [self._start(f"worker-{number}") for number in range(CONTENDERS)]
        self.numbers = []
        self.several = 0
        self.together = 0

    def _start(self, worker):
        contender = f"{HERE}/actors/contender.py"
        return start(sys.executable, contender, self.root, self.protocol, worker, self.mutant)

    def expire(self, turn):
        """The name has an expired lock: a stranger's, or one of ours."""
        if turn % 2:
            write(self.path, spelled(f"stranger-{turn}", time.time() - 7200, time.time() - 3600))
        else:
            if os.path.exists(self.path):
                os.unlink(self.path)
            self.numbers.append(self.before.lock(NAME, f"gone-{turn}", 60.0).number)

    def round(self, turn, victim_dies_at=0):
        """One round; who won, as pairs of worker and number."""
        self.expire(turn)
        for number, process in enumerate(self.processes):
            process.stdin.write(f"{victim_dies_at if number == 0 else 0}\n")
            process.stdin.flush()
        winners, self.died = [], False
        for number, process in enumerate(self.processes):
            words = process.stdout.readline().split()
            self.died = self.died or not words
            if words and words[0] == "won":
                winners.append((number, int(words[1])))
                self.together += words[2] == "together"
        self.several += len(winners) > 1
        self.numbers += [number for _, number in sorted(winners, key=lambda pair: pair[1])]
        return winners

    def replace_the_dead(self):
        """The first of them starts anew."""
        process = self.processes[0]
        process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGKILL
        self.processes[0] = self._start("worker-0")

    def close(self):
        """All end, and end well."""
        for process in self.processes:
            _, errors = process.communicate(timeout=PATIENCE)
            assert (process.returncode, errors) == (0, "")


@pytest.mark.races
@pytest.mark.timeout(600)
def test_an_expired_lock_has_one_taker(tmp_path):
    contest = Contest(tmp_path / "pit")
    for turn in range(ROUNDS):
        winners = contest.round(turn)
        assert len(winners) == 1, f"round {turn}: {winners}"
        assert holder_of(contest.path).startswith(f"worker-{winners[0][0]}-")
    contest.close()
    assert contest.together == 0
    assert contest.numbers == sorted(set(contest.numbers)), "numbers grow, and nobody has another's"
    assert len(contest.numbers) == ROUNDS + (ROUNDS + 1) // 2


@pytest.mark.races
def test_who_is_killed_at_any_call_stops_nobody(tmp_path):
    """One of eight dies before its first call, before its second, and so on, on its way to the lock."""
    contest = Contest(tmp_path / "pit")
    later = store(tmp_path / "pit", Shifted(LONG))
    turn = 0
    for kind in ("ours", "a stranger's"):
        for step in part(range(1, len(calls_of_a_takeover(tmp_path / kind, kind)) + 1), 3):
            for _ in range(MOST):  # it may lose the race, and then it makes fewer calls
                turn += 2
                winners = contest.round(turn + (kind != "ours"), victim_dies_at=step)
                # Whoever died had the name already, or one of the others got it; never both.
                had_it = contest.died and holder_of(contest.path).startswith("worker-0-")
                assert len(winners) == (0 if had_it else 1), f"{kind}, before call {step}: {winners}"
                contest.numbers.append(later.lock(NAME, f"later-{turn}", 60.0).number)
                if contest.died:
                    contest.replace_the_dead()
                    break
            else:
                raise AssertionError(f"{kind}: never killed before call {step}")
    contest.close()
    assert contest.numbers == sorted(set(contest.numbers))


def calls_of_a_takeover(root, kind):
    """The calls of one who has nobody beside it."""
    found = make(root)
    if kind == "ours":
        store(root, Shifted(-LONG)).lock(NAME, "gone", 60.0)
    else:
        write(path_of(found), spelled("stranger", time.time() - 7200, time.time() - 3600))
    with record() as calls:
        found.lock(NAME, "ann", 60.0)
    return [call for call, _ in calls if call != "flock"]


@pytest.mark.races
@pytest.mark.parametrize("protocol", ["delete_and_create", "write_and_read_again"])
def test_the_protocols_it_grew_out_of_let_several_in(protocol, tmp_path):
    """The proof that the contest can be lost."""
    contest = Contest(tmp_path / "pit", protocol)
    turns = iter(range(MOST))
    while not (contest.several and contest.together):  # several in one round, and at the same time
        contest.round(2 * next(turns) + 1)
    contest.close()


@pytest.mark.races
@pytest.mark.parametrize("mutant", ["no_turns", "number_stands_still"])
def test_broken_variants_are_found_out(mutant, tmp_path):
    contest = Contest(tmp_path / "pit", "ours", mutant)
    turns = iter(range(MOST))
    while not contest.several and contest.numbers == sorted(set(contest.numbers)):
        contest.round(next(turns))
    contest.close()


def test_nothing_is_left_over(tmp_path):
    """What a killed taker leaves is swept like any other left-over; the number stays."""
    found = make(tmp_path / "pit")
    assert found.lock(NAME, "ann", 60.0).number == 1
    write(found.folder.tmp(NAME, "abcdef", "lock"), b"half")
    later = Queue(store(tmp_path / "pit", Shifted(LONG)), found.config, Shifted(LONG))
    sweep(later)
    assert os.listdir(f"{tmp_path}/pit/.taskpit/tmp") == []
    assert os.listdir(found.folder.at(FENCES)) == [NAME]
    with pytest.raises(Lost):
        found.lock(NAME, "bob", 60.0)
