"""Commands behind their reapers, by each way to one: what they are given, how they end, and what is left of them."""

from __future__ import annotations

import os
import signal
import time

import pytest
from waits import PATIENCE, until
from workshop import alive, read_pid

from taskpit.run import process, reaper
from taskpit.run.process import Child, NoProgram


@pytest.fixture(params=["new", "kept"])
def kept(request):
    """Whether a reaper serves one command, or stays."""
    if request.param == "new":
        yield
        return
    with process.serving():
        yield


def ran(tmp_path, *argv, env=None, **options):
    """How it ended, and what it printed."""
    out = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        one = Child(argv, str(tmp_path), {"PATH": os.defpath} if env is None else env, (out, out), **options)
        one.wait(time.monotonic() + PATIENCE)
        code = one.end()
        return code, os.pread(out, 1 << 16, 0)
    finally:
        os.close(out)


def test_a_command_has_its_words_environment_input_and_place_and_nothing_else(tmp_path, kept):
    (tmp_path / "in").write_bytes(b"read me\n")
    env = {"PATH": os.defpath, "LETTERS": "ä\n=", "EMPTY": ""}
    script = 'cat; pwd; echo "$1"; env | sort; ls /proc/self/fd | wc -l'
    code, said = ran(tmp_path, "sh", "-c", script, "sh", "a b", env=env, stdin="in")
    assert code == 0
    lines = said.decode().splitlines()
    assert lines[:3] == ["read me", os.path.realpath(tmp_path), "a b"]
    shells = ("PWD=", "_=", "SHLVL=", "OLDPWD=", "LC_CTYPE=")  # the last is what an interpreter makes of no locale
    assert [line for line in lines[3:-1] if not line.startswith(shells)] == [
        "=",  # the value goes on in the next line
        "EMPTY=",
        "LETTERS=ä",
        f"PATH={os.defpath}",
    ]
    assert lines[-1] == "4"  # three streams, and the listing itself


def test_its_end_is_known(tmp_path, kept):
    assert ran(tmp_path, "sh", "-c", "exit 7")[0] == 7
    assert ran(tmp_path, "sh", "-c", "kill -TERM $$")[0] == -signal.SIGTERM
    with pytest.raises(NoProgram):
        ran(tmp_path, "no-such-program")
    (tmp_path / "noise").write_bytes(b"\0\1")
    (tmp_path / "noise").chmod(0o755)
    assert ran(tmp_path, "./noise") == (126, b"./noise cannot be run: Exec format error\n")


def test_what_it_left_behind_is_gone_and_what_was_kept_open_is_closed(tmp_path, kept):
    read, write = os.pipe()
    script = "setsid sleep 600 & echo $!"
    code, said = ran(tmp_path, "sh", "-c", script, keep=(write,))
    os.close(write)
    assert code == 0
    assert not alive(int(said))
    assert os.read(read, 1) == b""  # nobody else has it open
    os.close(read)


def test_very_many_words_and_many_at_once(tmp_path, kept):
    words = ["x" * 100_000, *map(str, range(1000))]
    code, said = ran(tmp_path, "sh", "-c", 'echo "$#"; echo "$1" | wc -c', "sh", *words)
    assert (code, said.split()) == (0, [b"1001", b"100001"])


def test_a_reaper_stays_and_one_that_was_killed_is_replaced(tmp_path):
    numbers = []
    with process.serving():
        for kill in (False, True, True, False):
            assert ran(tmp_path, "true", started=numbers.append)[0] == 0
            if kill:
                os.kill(numbers[-1], signal.SIGKILL)
                until(lambda: not alive(numbers[-1]))
    first, second, told, third, gone, last = numbers
    assert first == second == told  # the last time it was dead by then, and another had to be asked
    assert third == gone != first
    assert last not in (first, third)
    until(lambda: not any(map(alive, numbers)))


def test_nothing_is_left_of_a_command_that_kills_its_reaper(tmp_path):
    """`kill -9 $PPID` is all it takes; its guard ends what is left."""
    script = f"setsid sleep 600 & echo $! > '{tmp_path}/pid'; exec sleep 600"
    numbers = []
    with process.serving():
        one = Child(("sh", "-c", script), str(tmp_path), {"PATH": os.defpath}, (2, 2), started=numbers.append)
        escaped = read_pid(tmp_path / "pid")
        (command,) = [number for number in reaper.family(numbers[0]) if number != escaped]
        os.kill(numbers[0], signal.SIGKILL)
        assert one.wait(time.monotonic() + PATIENCE)
        assert one.end() == -signal.SIGKILL
        until(lambda: not alive(command) and not alive(escaped))
        assert ran(tmp_path, "sh", "-c", "exit 3")[0] == 3


def test_nothing_is_left_of_a_run_that_kills_reaper_and_guard(tmp_path):
    """Even then its processes are found by the run's directory in their environment."""
    env = {"PATH": os.defpath, "TASKPIT_RUN_DIR": str(tmp_path / "run")}
    script = f"setsid sleep 600 & echo $! > '{tmp_path}/pid'; exec sleep 600"
    numbers = []
    one = Child(("sh", "-c", script), str(tmp_path), env, (2, 2), started=numbers.append)
    escaped = read_pid(tmp_path / "pid")
    (command,) = [number for number in reaper.family(numbers[0]) if number != escaped]
    for number in (int(reaper.stat_of(numbers[0])[1]), numbers[0]):
        os.kill(number, signal.SIGKILL)
    assert one.wait(time.monotonic() + PATIENCE)
    assert one.end() == -signal.SIGKILL
    until(lambda: not alive(command) and not alive(escaped))


def test_a_reaper_has_none_of_our_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TASKPIT_TOKEN", "secret")
    numbers = []
    with process.serving():
        assert ran(tmp_path, "true", started=numbers.append)[0] == 0
        for number in (numbers[0], int(reaper.stat_of(numbers[0])[1])):
            with open(f"/proc/{number}/environ", "rb") as file:
                assert b"secret" not in file.read()
    assert not alive(numbers[0])


def test_a_reaper_whose_owner_is_killed_ends_with_all_it_has_started(tmp_path):
    """Killed between the reaper's number and the order nothing begins; later everything ends."""
    ready, say = os.pipe()
    owner = os.fork()
    if not owner:
        try:

            def hang(number):
                os.write(say, f"{begun.pid} {number}\n".encode())
                signal.pause()

            begun = Child(("sh", "-c", f"echo $$ > '{tmp_path}/begun'; exec sleep 600"), "/", {}, (2, 2))
            until(lambda: (tmp_path / "begun").exists() and (tmp_path / "begun").read_text().strip())
            Child(("sh", "-c", f"echo $$ > '{tmp_path}/waits'"), "/", {}, (2, 2), started=hang)
        finally:
            os._exit(1)
    os.close(say)
    numbers = [int(word) for word in os.read(ready, 4096).split()]
    os.close(ready)
    assert len(numbers) == 2
    assert all(map(alive, numbers))
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    sleeper = int((tmp_path / "begun").read_text())
    until(lambda: not any(map(alive, [*numbers, sleeper])))
    assert not (tmp_path / "waits").exists()


def test_a_reaper_that_is_asked_to_end_ends_its_command_and_itself(tmp_path):
    """By whoever the task is given to."""
    numbers = []
    with process.serving():
        one = Child(("sleep", "600"), str(tmp_path), {"PATH": os.defpath}, (2, 2), started=numbers.append)
        until(lambda: reaper.family(numbers[0]))
        os.kill(numbers[0], signal.SIGTERM)
        assert one.wait(time.monotonic() + PATIENCE)
        assert one.end() == -signal.SIGTERM
        until(lambda: not alive(numbers[0]))
        assert ran(tmp_path, "true", started=numbers.append)[0] == 0
    assert numbers[0] != numbers[1]


@pytest.mark.parametrize(("argv", "env"), [(("echo", "a\0b"), {}), (("echo",), {"A": "b\0C=d"})])
def test_a_nul_makes_no_two_words_of_one(tmp_path, kept, argv, env):
    with pytest.raises(ValueError, match="NUL"):
        ran(tmp_path, *argv, env=env)


def test_a_variable_without_a_name_is_no_end_of_the_reaper(tmp_path, kept):
    code, said = ran(tmp_path, "true", env={"": "x", "PATH": os.defpath})
    assert code in (0, 126), said
    assert ran(tmp_path, "true")[0] == 0
