"""Locks as people and other tools write them, well or badly: read as documented, none taken while it may be live."""

from __future__ import annotations

import json
import os
import stat
import time

import pytest
from faults import fail_at
from lockers import NAME, gripped, make, path_of, read, write

from taskpit.clock import iso
from taskpit.config import Config
from taskpit.errors import Lost
from taskpit.layouts import lock_text
from taskpit.store.folder import QUARANTINE
from taskpit.testing import FakeClock

HOUR = 3600.0
#: Activities' own durations, so that kinds differ.
CONFIG = Config(durability="process", lease=HOUR, human_lease=8 * HOUR)


@pytest.fixture
def found(tmp_path):
    return make(tmp_path / "pit", FakeClock(), CONFIG)


def refused(found):
    with pytest.raises(Lost) as refusal:
        found.lock(NAME, "ann", HOUR)
    return refusal.value


def lasts(found, seconds):
    """It is nobody else's for so long, and not for ever after that."""
    refused(found)
    found.clock.advance(seconds - 5)
    refused(found)
    found.clock.advance(10)
    assert found.lock(NAME, "ann", HOUR).number == 1


def kept(found):
    """What lies in quarantine, without the reasons."""
    place = found.folder.at(QUARANTINE)
    return {name: f"{place}/{name}" for name in os.listdir(place) if not name.endswith(".reason")}


def reasons(found):
    place = found.folder.at(QUARANTINE)
    return [read(f"{place}/{name}").decode() for name in os.listdir(place) if name.endswith(".reason")]


UNREADABLE = {
    "empty": b"",
    "white space": b" \n",
    "truncated": b'{"holder": "agent-abc123", "expires": "2026-01-2',
    "not an object": b'["agent-abc123"]',
    "not text": b"\xff\xfe\x00\x01",
    "no holder": b'{"expires": "2001-01-01T00:00:00Z"}',
    "an empty holder": b'{"holder": "  ", "expires": "2001-01-01T00:00:00Z"}',
    "a holder that is no name": b'{"holder": 7, "expires": "2001-01-01T00:00:00Z"}',
    "nested beyond reason": b"[" * 100_000,
    "larger than a lock": b'{"holder": "x", "expires": "2001-01-01T00:00:00Z", "pad": "' + b"x" * 70_000 + b'"}',
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_lasts_as_long_as_any_lock_may(found, data):
    """Eight hours from when it was last touched; then it is replaced, and kept aside."""
    write(path_of(found), data)
    assert "cannot be read" in refused(found).message
    lasts(found, 8 * HOUR)
    (path,) = kept(found).values()
    assert read(path) == data
    assert [reason.startswith(f"lock of {NAME}: ") for reason in reasons(found)] == [True]


def test_a_lock_we_may_not_read_is_live(found):
    write(path_of(found), b"{}")
    with fail_at(1, 13):
        seen = gripped(found).look()
    assert seen.trouble == "Permission denied (call 1: open)"
    assert gripped(found).over(seen) == ""


def make_directory(path):
    os.mkdir(path)
    write(f"{path}/inside", b"kept")


def make_symlink(path):
    write(f"{path}.target", b"untouched")
    os.symlink(f"{path}.target", path)


PLACES = {"a directory": make_directory, "a FIFO": os.mkfifo, "a symlink": make_symlink}


@pytest.mark.parametrize("put", PLACES.values(), ids=PLACES.keys())
def test_what_is_no_file_is_a_lock_nobody_can_read(found, put):
    """It stands there for a reason: it is waited for, then moved aside whole."""
    path = path_of(found)
    put(path)
    kind = stat.S_IFMT(os.lstat(path).st_mode)
    lasts(found, 8 * HOUR)
    (aside,) = kept(found).values()
    assert stat.S_IFMT(os.lstat(aside).st_mode) == kind
    assert stat.S_ISREG(os.lstat(path).st_mode)
    if put is make_directory:
        assert read(f"{aside}/inside") == b"kept"
    if put is make_symlink:
        assert read(f"{path}.target") == b"untouched"


def told(found, **fields):
    """When a lock with these fields ends, from now on."""
    write(path_of(found), json.dumps({"holder": "stranger", **fields}).encode())
    grip = gripped(found)
    return round(grip.until(grip.look()) - found.clock.now())


def written(found):
    """How long after the moment of the clock it was written: files have the machine's own, which does not stand."""
    return os.stat(path_of(found)).st_ctime - found.clock.now()


def test_without_an_end_it_lasts_as_long_as_its_kind_may(found):
    now = found.clock.now()
    assert told(found, holder_type="agent", acquired=iso(now - 600)) == pytest.approx(HOUR - 600, abs=1)
    assert told(found, holder_type="human", acquired=iso(now - 600)) == pytest.approx(8 * HOUR - 600, abs=1)
    assert told(found, acquired=iso(now - 600)) == pytest.approx(8 * HOUR - 600, abs=1)
    end = told(found, holder_type="robot")
    assert end == pytest.approx(8 * HOUR + written(found), abs=2), "from when it was written"


@pytest.mark.parametrize("value", [None, "", "soon", "+1h", [], {}, True, -5, 0, 1e300, 10**400, "9" * 400, "NaN"])
def test_an_end_that_is_none_is_not_believed(found, value):
    """A number that is no time, in whatever spelling, leaves what is known of its kind."""
    end = told(found, holder_type="agent", expires=value)
    assert end == pytest.approx(HOUR + written(found), abs=2)
    refused(found)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_nor_is_a_number_that_is_none(found, number):
    write(path_of(found), f'{{"holder": "stranger", "holder_type": "agent", "expires": {number}}}'.encode())
    lasts(found, HOUR)


def test_other_time_zones(found):
    now = found.clock.now()
    for zone, offset in (("+05:30", 19800), ("-08:00", -28800), ("+00:00", 0)):
        local = iso(now + 600 + offset).removesuffix("Z") + zone
        assert told(found, expires=local) == pytest.approx(600, abs=1), zone


@pytest.mark.parametrize("zone", ["UTC+5", "UTC-9", "UTC"])
def test_a_time_without_a_zone_is_the_later_of_what_it_may_be(found, zone, monkeypatch):
    """UTC, or the time here: whoever wrote it knew."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        now = found.clock.now()
        assert told(found, expires=iso(now + 600).removesuffix("Z")) >= 599
        here = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now + 600))
        assert told(found, expires=here) >= 599
    finally:
        monkeypatch.undo()
        time.tzset()


def test_camel_case_and_milliseconds(found):
    """As an existing tool writes it; what it adds is kept."""
    now = found.clock.now()
    fields = {
        "holder": "agent-abc123",
        "holderType": "agent",
        "acquiredAt": int(now * 1000),
        "expiresAt": int((now + 600) * 1000),
        "taskId": "WI-001-A1-T2",
        "taskExpiresAt": int((now + 300) * 1000),
        "sessionColour": "blue",
    }
    lock = lock_text.load(NAME, json.dumps(fields).encode())
    assert (lock.holder, lock.kind, lock.task_id) == ("agent-abc123", "agent", "WI-001-A1-T2")
    assert lock.acquired == pytest.approx(now, abs=0.001)
    assert lock.expires == pytest.approx(now + 600, abs=0.001)
    assert lock.task_expires == pytest.approx(now + 300, abs=0.001)
    assert lock.extra == {"sessionColour": "blue"}
    write(path_of(found), json.dumps(fields).encode())
    lasts(found, 600)


def test_seconds_since_1970(found):
    assert told(found, expires=int(found.clock.now()) + 600) == pytest.approx(600, abs=1)


def test_an_end_far_away_is_waited_for_as_long_as_it_says(found):
    """Unless it lies untouched for the whole time it was taken for."""
    now = found.clock.now()
    write(
        path_of(found),
        json.dumps({"holder": "x", "acquired": iso(now + 1e6), "expires": iso(now + 1e6 + HOUR)}).encode(),
    )
    lasts(found, HOUR)


def test_a_holder_of_any_name_is_looked_up_nowhere_else(found):
    """Who is named in a lock leads to no other file."""
    for holder in ("../../../etc/passwd", "a\x00b", "\ud800", "~", "x" * 5000):
        write(path_of(found), json.dumps({"holder": holder, "expires": iso(found.clock.now() + 600)}).encode())
        refused(found)


def test_unknown_fields_outlive_a_renewal(found):
    now = found.clock.now()
    fields = {"mood": "calm", "holder": "ann", "expires": iso(now + 60), "n": {"a": [1]}}
    write(path_of(found), json.dumps(fields).encode())
    found.lock(NAME, "ann", HOUR)
    after = json.loads(read(path_of(found)))
    assert {key: after[key] for key in ("mood", "n")} == {"mood": "calm", "n": {"a": [1]}}


def test_unreadable_locks_are_listed(found):
    """With what is known of them."""
    write(path_of(found), b"")
    (lock,) = found.locks()
    assert (lock.name, lock.holder, lock.number) == (NAME, "", 0)
    assert lock.expires == pytest.approx(found.clock.now() + 8 * HOUR, abs=5)
