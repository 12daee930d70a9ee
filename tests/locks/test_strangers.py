"""Lockers of other makes beside ours: `set -o noclobber`, `open(path, "x")`, write-and-read-again.

A live lock of either side is respected by the other. Where several want a free name at once, those that
create it exclusively and ours keep each other out; whoever writes over what it did not see is found out.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

import pytest
from faults import Stopped
from lockers import (
    LEASE,
    NAME,
    delete_and_create,
    make,
    ours,
    path_of,
    read,
    spelled,
    start,
    store,
    write,
    write_and_read_again,
)
from waits import PATIENCE

from taskpit.errors import Lost
from taskpit.model import Said
from taskpit.testing import FakeClock

HERE = os.path.dirname(__file__)
ROUNDS = int(os.environ.get("TASKPIT_LOCK_ROUNDS", "25"))
#: How long a stranger stands still at most, in seconds: about as long as ours take with their pauses.
SLOW = 0.02

#: Each reads a line per round, stands still for a moment as ours do, tries once, and says how it went.
SHELL = """
set -o noclobber
echo here
while read -r pause text; do
  sleep "$pause"
  if { printf '%s\\n' "$text" | sed s/somebody/"$2"/ > "$1"; } 2> /dev/null; then echo won 0; else echo lost; fi
done
"""
PYTHON = """
import sys, time
print("here", flush=True)
for line in sys.stdin:
    pause, text = line.split(" ", 1)
    time.sleep(float(pause))
    try:
        with open(sys.argv[1], "x") as file:
            file.write(text.replace("somebody", sys.argv[2]))
    except FileExistsError:
        print("lost", flush=True)
    else:
        print("won 0", flush=True)
"""


def test_a_free_name_has_one_taker_whoever_wants_it(tmp_path):
    """Two of each kind, all at once, again and again; once for each kind, those are first."""
    found = make(tmp_path / "pit")
    path, actor = path_of(found), f"{HERE}/actors/contender.py"
    crowd = {}
    for number in (1, 2):
        crowd[f"shell-{number}"] = start("sh", "-c", SHELL, "sh", path, f"shell-{number}")
        crowd[f"python-{number}"] = start(sys.executable, "-c", PYTHON, path, f"python-{number}")
        crowd[f"ours-{number}"] = start(sys.executable, actor, found.folder.root, "ours", f"ours-{number}", "")
    chance = random.Random(7)
    wins = dict.fromkeys(("shell", "python", "ours"), 0)
    first = dict(enumerate(wins))
    for turn in range(ROUNDS):
        theirs = spelled("somebody", time.time(), time.time() + LEASE).decode().replace("\n", " ")
        said = {}
        favoured = [name for name in crowd if name.startswith(first.get(turn, "nobody"))]
        for some in (favoured, [name for name in crowd if name not in favoured]):
            for name in some:
                wait = "0" if name.startswith("ours") else f"{chance.random() * SLOW:.4f} {theirs}"
                crowd[name].stdin.write(f"{wait}\n")
                crowd[name].stdin.flush()
            said |= {name: crowd[name].stdout.readline().split() for name in some}
        winners = [name for name, words in said.items() if words[0] == "won"]
        assert len(winners) == 1, f"round {turn}: {said}"
        assert winners[0].encode() in read(path), f"round {turn}: {winners[0]} won, but {read(path)}"
        wins[winners[0].partition("-")[0]] += 1
        os.unlink(path)
    for process in crowd.values():
        _, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (0, "")
    assert min(wins.values()) > 0, wins


@pytest.mark.parametrize("theirs", [delete_and_create, write_and_read_again])
def test_our_live_lock_keeps_them_out(theirs, tmp_path):
    found = make(tmp_path / "pit")
    lock = found.lock(NAME, "ann", LEASE)
    before = read(path_of(found))
    assert theirs(found, "stranger") is None
    assert read(path_of(found)) == before
    assert found.relock(lock, LEASE) is Said.OK


def test_our_live_lock_keeps_a_shell_out(tmp_path):
    found = make(tmp_path / "pit")
    found.lock(NAME, "ann", LEASE)
    before = read(path_of(found))
    command = ["sh", "-c", 'set -o noclobber; echo mine > "$1"', "sh", path_of(found)]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0
    assert read(path_of(found)) == before


@pytest.mark.parametrize("theirs", [delete_and_create, write_and_read_again])
def test_their_live_lock_keeps_us_out_until_it_ends(theirs, tmp_path):
    found = make(tmp_path / "pit")
    assert theirs(found, "stranger") == 0
    before = read(path_of(found))
    for _ in range(3):
        with pytest.raises(Lost, match="stranger"):
            found.lock(NAME, "ann", LEASE)
    assert found.unlock(found.locks()[0].replace(holder="ann", number=0)) is Said.LOST
    assert read(path_of(found)) == before
    write(path_of(found), spelled("stranger", time.time() - LEASE, time.time() - 1))
    assert found.lock(NAME, "ann", LEASE).number == 1


def test_a_name_is_never_free_while_it_is_taken_over(tmp_path):
    """At every call of the takeover somebody who creates exclusively is refused: it is one rename."""
    for number in range(1, 100):
        root, clock = f"{tmp_path}/{number}", FakeClock()
        found = make(root, clock)
        found.lock(NAME, "gone", LEASE)
        clock.advance(LEASE + 2)
        stopped = Stopped(lambda f=found: f.lock(NAME, "ann", LEASE), number)
        with pytest.raises(FileExistsError):
            os.close(os.open(path_of(found), os.O_CREAT | os.O_EXCL))
        assert stopped.go_on().number == 2
        if not stopped.there:
            assert number > 8
            return
    raise AssertionError("the takeover does not end")


def test_a_half_written_lock_is_live(tmp_path):
    """Whoever creates exclusively has an empty file first; that is a lock, and nobody knows whose."""
    found = make(tmp_path / "pit")
    with open(path_of(found), "x", encoding="utf-8") as file:
        with pytest.raises(Lost, match="cannot be read"):
            found.lock(NAME, "ann", LEASE)
        file.write(spelled("stranger", time.time(), time.time() + LEASE).decode())
    with pytest.raises(Lost, match="stranger"):
        found.lock(NAME, "ann", LEASE)


def test_who_writes_over_ours_is_found_out(tmp_path):
    """Write-and-read-again may not have seen our lock. We see that it is no longer ours, and leave theirs alone."""
    found = make(tmp_path / "pit")
    lock = found.lock(NAME, "ann", LEASE)
    theirs = spelled("stranger", time.time(), time.time() + LEASE)
    write(path_of(found), theirs)
    assert found.relock(lock, LEASE) is Said.LOST
    assert found.unlock(lock) is Said.LOST
    assert ours(store(tmp_path / "pit"), "bob") is None
    assert read(path_of(found)) == theirs


def test_a_lock_that_a_stranger_wrote_in_our_name_gets_a_number_of_its_own(tmp_path):
    """No two holders were ever given the same one."""
    found = make(tmp_path / "pit")
    assert found.unlock(found.lock(NAME, "bob", LEASE)) is Said.OK
    write(path_of(found), spelled("ann", time.time(), time.time() + LEASE, note="by hand"))
    lock = found.lock(NAME, "ann", LEASE)
    assert lock.number == 2
    assert lock.extra == {"note": "by hand"}
    assert found.lock(NAME, "ann", LEASE).number == 2
    assert found.relock(lock, LEASE) is Said.OK
