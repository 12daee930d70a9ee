"""`pit lock`, `unlock` and `locks`, and commands that run under a lock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from boxes import clean_environment, make_fast, pit, python
from lockers import LEASE, NAME, Shifted, path_of, read, spelled, store, write
from waits import PATIENCE, until

from taskpit.cli import lock as module

PIT = (sys.executable, "-m", "taskpit")


@pytest.fixture
def root(tmp_path):
    return make_fast(tmp_path / "pit", "pit")


#: `pit`, which renews locks so often that a long time is renewed soon.
BRISK = "import sys, taskpit.held_lock as l; from taskpit.cli.main import main; l.RENEWALS = 600; sys.exit(main())"


def start(root, *words, brisk=False, **options):
    """`pit` as a process of its own, far from any terminal."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    given = {**pipes, "env": clean_environment(), "start_new_session": True, **options}
    program = (sys.executable, "-c", BRISK) if brisk else PIT
    return subprocess.Popen([*program, "-C", root, *words], **given)


def ran(root, *words, text=""):
    """Its exit code and what it printed."""
    process = start(root, *words)
    out, err = process.communicate(text, timeout=PATIENCE)
    return process.returncode, out, err


def test_a_number_and_then_the_next(root):
    assert pit("-C", root, "lock", "deploy").out == "1\n"
    assert pit("-C", root, "lock", "deploy").out == "1\n", "what is mine stays mine"
    assert pit("-C", root, "unlock", "deploy").out == "deploy is free\n"
    assert pit("-C", root, "lock", "deploy", "--as", "bob").out == "2\n"


def test_facts_for_programs(root):
    facts = pit("-C", root, "lock", "deploy", "--ttl", "10m", "--human", "--json").data
    assert {key: facts[key] for key in ("name", "holder", "holder_type", "number", "expired")} == {
        "name": "deploy",
        "holder": "me",
        "holder_type": "human",
        "number": 1,
        "expired": False,
    }
    assert 590 <= facts["seconds_left"] <= 601
    (told,) = pit("-C", root, "locks", "--json").data
    assert {**told, "seconds_left": 0} == {**facts, "seconds_left": 0}


def test_who_has_it(root):
    pit("-C", root, "lock", "deploy", "--as", "ada")
    refused = pit("-C", root, "lock", "deploy")
    assert refused.code == 4
    assert "deploy is held by ada for another" in refused.err
    refused = pit("-C", root, "unlock", "deploy", "--json")
    assert refused.code == 4
    assert refused.error["details"]["holder"] == "ada"
    assert "--as ada" in refused.error["hint"]
    assert pit("-C", root, "unlock", "nothing").code == 5


def test_the_list(root):
    assert pit("-C", root, "locks").out == "No lock is held.\n"
    pit("-C", root, "lock", "deploy", "--as", "ada@home", "--ttl", "2h")
    store(root, Shifted(-10_000)).lock("old", "gone", 60.0)
    write(path_of(store(root), "strange"), b"")
    lines = pit("-C", root, "locks").out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "deploy", "old", "strange"]
    assert lines[1].split()[1:4] == ["ada@home", "human", "1"]
    assert lines[1].split()[-1] in ("2h", "1h59m")
    assert lines[2].split()[-1] == "expired"
    assert "(cannot be read)" in lines[3]


@pytest.mark.parametrize(
    "words",
    [
        ("lock", "--release"),
        ("lock", "x", "--"),
        ("lock", "x", "make"),
        ("lock", "x", "--ttl", "0s"),
        ("lock", "--", "true"),
    ],
    ids=" ".join,
)
def test_usage(root, words):
    assert pit("-C", root, *words).code == 2
    assert pit("-C", root, "locks", "--json").data == []


def test_bad_names(root):
    assert pit("-C", root, "lock", "a/b").code == 6
    assert pit("-C", root, "unlock", "a/b").code == 6


def test_a_command_runs_under_it(root):
    """With the number, its input, and its own options; its exit code is ours."""
    script = 'read line; echo "$line $TASKPIT_LOCK $TASKPIT_FENCE $1"; exit 7'
    words = ("lock", "deploy", "--ttl", "10m", "--", "sh", "-c", script, "sh", "--json")
    assert ran(root, *words, text="hello\n") == (7, "hello deploy 1 --json\n", "")
    assert ran(root, *words, text="again\n") == (7, "again deploy 2 --json\n", "")
    assert pit("-C", root, "locks", "--json").data == []


def test_it_is_held_while_the_command_runs(root):
    """Also against a second command of the same user, and against `unlock` of the user's own name."""
    process = start(root, "lock", "deploy", "--", "sh", "-c", "echo in; read line")
    assert process.stdout.readline() == "in\n"
    (facts,) = pit("-C", root, "locks", "--json").data
    assert facts["holder"].startswith("me~")
    assert ran(root, "lock", "deploy", "--", "echo", "in, too")[:2] == (4, "")
    assert pit("-C", root, "lock", "deploy").code == 4
    assert pit("-C", root, "unlock", "deploy").code == 4
    waiting = start(root, "lock", "deploy", "--wait", "--", "sh", "-c", "echo $TASKPIT_FENCE")
    process.communicate("\n", timeout=PATIENCE)
    assert process.returncode == 0
    out, _ = waiting.communicate(timeout=PATIENCE)
    assert (waiting.returncode, out) == (0, "2\n")


def test_a_command_that_is_killed(root):
    assert ran(root, "lock", "deploy", "--", "sh", "-c", "kill -KILL $$")[0] == 128 + signal.SIGKILL
    assert pit("-C", root, "locks", "--json").data == []


def test_a_command_that_is_none(root):
    code, out, err = ran(root, "lock", "deploy", "--", "there-is-no-such-command")
    assert (code, out) == (1, "")
    assert "there-is-no-such-command" in err
    assert pit("-C", root, "lock", "deploy").out == "1\n", "nothing was locked for it"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_are_for_the_command(root, number):
    """It ends as it likes, and the lock is let go."""
    script = f"trap 'echo told; exit 9' {number.name[3:]}; echo in; while :; do sleep 0.02; done"
    process = start(root, "lock", "deploy", "--", "sh", "-c", script)
    assert process.stdout.readline() == "in\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (9, "told\n")
    assert pit("-C", root, "locks", "--json").data == []


TERMINAL = """
import os, pty, sys
number, terminal = pty.fork()
if number == 0:
    os.execv(sys.executable, [sys.executable, "-m", "taskpit", *sys.argv[1:]])
seen = b""
def read_until(word):
    global seen
    while word not in seen:
        seen += os.read(terminal, 1024)
read_until(b"ready")
os.write(terminal, b"\\x03")
read_until(b"interrupted")
os.write(terminal, b"\\n")
read_until(b"times")
os.waitpid(number, 0)
sys.stdout.write(seen.decode())
"""
#: It waits for both at once: a signal that comes just before a read would be heard only after it.
COMMAND = """
import os, select, signal, sys
told, (wakes, wake) = [], os.pipe()
os.set_blocking(wake, False)
signal.signal(signal.SIGINT, lambda *_: (told.append(1), os.write(1, b"interrupted\\n")))
signal.set_wakeup_fd(wake)
print("ready", flush=True)
while 0 not in select.select([0, wakes], [], [])[0]:
    os.read(wakes, 1)
sys.stdin.readline()
print(len(told), "times", flush=True)
"""


def test_a_key_at_the_terminal_reaches_the_command_once(root):
    """It is in our process group: the terminal tells it, and we don't tell it again."""
    process = python(TERMINAL, "-C", root, "lock", "deploy", "--", sys.executable, "-c", COMMAND)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert "1 times" in out


def test_a_lock_that_is_lost_ends_the_command(root):
    """Exit 4, and what the thief has stays as it is."""
    process = start(root, "lock", NAME, "--ttl", "1m", "--", "sh", "-c", "echo in; exec sleep 600", brisk=True)
    assert process.stdout.readline() == "in\n"
    theirs = spelled("thief", time.time(), time.time() + LEASE)
    write(path_of(store(root)), theirs)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 4
    assert "was taken over" in err
    assert f"the command ended with {128 + signal.SIGTERM}" in err
    assert read(path_of(store(root))) == theirs


def test_a_lock_that_was_lost_unseen_is_told_at_the_end(root):
    """The command ended well, but not alone."""
    script = f"printf '%s' \"$THEIRS\" > '{path_of(store(root))}'; exit 0"
    theirs = spelled("thief", time.time(), time.time() + LEASE).decode()
    process = start(root, "lock", NAME, "--", "sh", "-c", script, env=clean_environment(THEIRS=theirs))
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 4
    assert "the command ended with 0" in err
    assert read(path_of(store(root))).decode() == theirs


def test_it_is_renewed_while_the_command_runs(root):
    """Its time ends later and later, and nobody else gets it."""
    process = start(root, "lock", NAME, "--ttl", "1m", "--", "sh", "-c", "echo in; read line", brisk=True)
    assert process.stdout.readline() == "in\n"
    first = store(root).locks()[0].expires
    until(lambda: store(root).locks()[0].expires > first + 1)
    assert pit("-C", root, "lock", NAME).code == 4
    process.communicate("\n", timeout=PATIENCE)
    assert process.returncode == 0


def test_who_does_not_stop_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "GRACE", 0.05)
    script = f"trap '' TERM; touch '{tmp_path}/ready'; exec sleep 600"
    command = module._Command(["sh", "-c", script], os.environ)
    runs = threading.Thread(target=command.run, args=({},))
    runs.start()
    until(lambda: os.path.exists(f"{tmp_path}/ready"))
    command.end()
    runs.join(PATIENCE)
    assert command.code == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("heeds", "code"), [(signal.SIG_DFL, signal.SIGTERM), (signal.SIG_IGN, signal.SIGKILL)], ids=["stops", "does not"]
)
def test_a_lock_lost_before_the_command_begins(monkeypatch, heeds, code):
    """It is asked to stop as soon as there is somebody to ask, and killed if it does not: it ran on unlocked."""
    monkeypatch.setattr(module, "GRACE", 0.05)
    command = module._Command(["sleep", "60"], os.environ)
    command.end()
    before = signal.signal(signal.SIGTERM, heeds)
    try:
        command.run({})
    finally:
        signal.signal(signal.SIGTERM, before)
    assert command.code == 128 + code
