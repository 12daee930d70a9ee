"""What a command may see, reach and leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from waits import PATIENCE, Leap, until
from workshop import alive, read_pid

from taskpit.model import State
from taskpit.run import process
from taskpit.run.allowed import allowed, is_allowed, without_secrets
from taskpit.run.process import TIMED_OUT, run_check
from taskpit.run.runner import CommandRunner
from taskpit.run.sandbox import NoSandbox, Sandbox
from taskpit.run.usage import amount, model_name, session_name

#: Its own session, deaf to SIGTERM, its parent gone: nothing but the tree knows of it.
ESCAPED = (
    '(setsid sh -c \'trap "" TERM HUP; echo $$ > "{0}"; while :; do sleep 1; done\' &) ; '
    'until test -s "{0}"; do sleep 0.01; done'
)


def test_what_escapes_its_group_ends_with_the_command(pit, tmp_path):
    pit.put("escape")
    runner = CommandRunner(["sh", "-c", ESCAPED.format(tmp_path / "pid")], cwd=pit.root)
    over = pit.work_once(runner)
    assert over.word == "done"
    assert not alive(read_pid(tmp_path / "pid"))


def test_what_escapes_its_group_ends_at_the_limit(pit, tmp_path, monkeypatch):
    pit.put("escape")
    monkeypatch.setattr(process, "time", Leap(lambda: os.path.exists(tmp_path / "begun")))
    argv = ["sh", "-c", ESCAPED.format(tmp_path / "pid") + f"; touch '{tmp_path}/begun'; sleep 600"]
    over = pit.work_once(CommandRunner(argv, cwd=pit.root, limit=3600.0, grace=0.1))
    assert "longer than 1h" in over.details
    assert not alive(read_pid(tmp_path / "pid"))


def test_what_escapes_its_group_ends_soon_after_its_pool_was_killed(pit, tmp_path):
    (task,) = pit.put("escape")
    pool = pit.start("--", "sh", "-c", ESCAPED.format(tmp_path / "pid") + "; sleep 600")
    escaped = read_pid(tmp_path / "pid", pool)
    os.kill(pool.pid, signal.SIGKILL)
    until(lambda: not alive(escaped))
    assert pit.card(task).task.attempts == 0


def test_what_a_check_starts_ends_with_it(tmp_path):
    evidence = run_check(ESCAPED.format(tmp_path / "pid"), str(tmp_path), 30.0)
    assert evidence.green
    assert not alive(read_pid(tmp_path / "pid"))


def test_exit_codes_and_signals_pass_through(tmp_path):
    assert run_check("exit 7", str(tmp_path), 30.0).exit_code == 7
    assert run_check("kill -USR1 $$", str(tmp_path), 30.0).exit_code == -signal.SIGUSR1


#: A check as `pit done` runs it, in a process of its own.
ALONE = """
import sys
from taskpit.run.process import run_check
evidence = run_check(sys.argv[1], sys.argv[2], float(sys.argv[3]))
print(evidence.exit_code, evidence.tail)
"""


def alone(command, cwd, limit=60.0):
    words = [sys.executable, "-c", ALONE, command, str(cwd), str(limit)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo hello; exit 7", "7 hello"),
        ("kill -USR1 $$", f"{-signal.SIGUSR1} "),
        ("ls /proc/self/fd | tr '\\n' ' '", "0 0 1 2 3 "),  # the last one is its own look
        ("kill -XFSZ $$", f"{-signal.SIGXFSZ} "),
        ("pwd", "0 {cwd}"),
        (ESCAPED.format("{cwd}/pid"), "0 "),
    ],
)
def test_a_check_that_a_copy_of_us_watches_over(tmp_path, command, said):
    with alone(command.replace("{cwd}", str(tmp_path)), tmp_path) as ran:
        assert ran.communicate(timeout=PATIENCE)[0].strip() == said.format(cwd=tmp_path).strip()
    if "pid" in command:
        assert not alive(read_pid(tmp_path / "pid"))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_check_ends_with_who_was_killed_while_it_ran(tmp_path, how):
    with alone(f"echo $$ > '{tmp_path}/pid'; sleep 600", tmp_path) as ran:
        pid = read_pid(tmp_path / "pid")
        ran.send_signal(how)
        ran.communicate(timeout=PATIENCE)
    until(lambda: not alive(pid))


def test_a_check_beyond_its_limit_in_a_process_without_threads(tmp_path):
    with alone(f"echo $$ > '{tmp_path}/pid'; sleep 600", tmp_path, 0.5) as ran:
        assert ran.communicate(timeout=PATIENCE)[0].startswith(f"{TIMED_OUT} ")
    if (tmp_path / "pid").exists():  # it had begun by then
        assert not alive(read_pid(tmp_path / "pid"))


# -- what it sees ----------------------------------------------------------------------------------


def test_an_agent_sees_what_is_on_the_list_and_never_our_doors():
    env = {"PATH": "/bin", "LC_ALL": "C", "AWS_SECRET": "x", "TASKPIT_TOKEN": "t", "PGPASSWORD": "p", "NPM_TOKEN": "n"}
    assert allowed(env) == {"PATH": "/bin", "LC_ALL": "C"}
    assert allowed(env, "NPM_*", "TASKPIT_*", "PG*") == {"PATH": "/bin", "LC_ALL": "C", "NPM_TOKEN": "n"}
    assert without_secrets(env).keys() == env.keys() - {"TASKPIT_TOKEN", "PGPASSWORD"}


def test_a_command_does_not_see_our_token(pit, monkeypatch):
    monkeypatch.setenv("TASKPIT_TOKEN", "secret")
    monkeypatch.setenv("PGPASSWORD", "secret")
    (task,) = pit.put("look")
    pit.work_once(CommandRunner(["sh", "-c", "env > env"], cwd=pit.root))
    with open(f"{pit.root}/env", encoding="utf-8") as file:
        seen = file.read()
    assert "secret" not in seen
    assert f"TASKPIT_TASK={task}\n" in seen


def test_pit_is_on_the_path_of_a_command(pit):
    (task,) = pit.put("look")
    over = pit.work_once(CommandRunner(["sh", "-c", "pit show $TASKPIT_TASK > shown"], cwd=pit.root))
    assert over.word == "done"
    with open(f"{pit.root}/shown", encoding="utf-8") as file:
        assert task in file.read()


# -- what it says of itself ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said", ["--dangerously-skip-permissions", "-x", "", "a b", "a\nb", "x" * 200, None, 3, "../a"]
)
def test_no_session(said):
    assert session_name(said) == ""


def test_sessions_and_models():
    assert session_name("ses_e1b2cfd7dffek1vYhSGbc3hL9i") == "ses_e1b2cfd7dffek1vYhSGbc3hL9i"
    assert model_name("claude-opus-4-8[1m]") == "claude-opus-4-8[1m]"
    assert model_name("--model") == ""


@pytest.mark.parametrize("said", [-1, -1e-9, float("inf"), float("nan"), 1e400, True, "3", None, 10**400])
def test_no_amount(said):
    assert amount(said) is None


# -- which checks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "pattern", "allowed"),
    [
        ("make test", "make *", True),
        ("make test -j 2", "make *", True),
        ("make 'a b'", "make *", True),
        ("make test; id", "make *", False),
        ("make test && id", "make *", False),
        ("make test | id", "make *", False),
        ("make $(id)", "make *", False),
        ("make `id`", "make *", False),
        ("make test\nid", "make *", False),
        ("make > /etc/passwd", "make *", False),
        ("PATH=/evil make test", "make *", False),
        ("make", "make *", False),
        ("makeup test", "make *", False),
        ("make 'test", "make *", False),
        ("make test; id", "make test; id", True),
        ("", "*", False),
    ],
)
def test_which_checks_are_allowed(check, pattern, allowed):
    assert is_allowed(check, [pattern]) is allowed


# -- the sandbox -----------------------------------------------------------------------------------


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("network", ["on", "off"])
def test_a_sandbox_lets_it_write_where_it_works_and_nowhere_else(pit, tmp_path, network):
    home = os.environ["HOME"]
    for name in ("secret", ".agent/kept"):
        os.makedirs(os.path.dirname(f"{home}/{name}"), exist_ok=True)
        with open(f"{home}/{name}", "w", encoding="utf-8") as file:
            file.write("mine")
    place, outside = tmp_path / "place", tmp_path / "outside"
    place.mkdir()
    outside.mkdir()
    sandbox = Sandbox(network=network, home=(".agent",))
    sandbox.check()
    script = (
        f"echo a > here; echo b > $TASKPIT_RUN_DIR/result.md; touch {outside}/x; touch {pit.root}/y; cat ~/secret;"
        "cat ~/.agent/kept > kept; pit --version > version; tail -n +3 /proc/net/dev | wc -l > links; exit 0"
    )
    (task,) = pit.put("shut in", check=f"test -s here && ! touch {outside}/z")
    runner = CommandRunner(["sh", "-c", script], cwd=str(place))
    over = pit.work_once(runner, sandbox=sandbox, check_in=str(place))
    assert (over.word, pit.card(task).result.output) == ("done", "b")
    assert not os.listdir(outside)
    assert not os.path.exists(f"{pit.root}/y")
    assert (place / "kept").read_text() == "mine"
    assert "pit " in (place / "version").read_text()
    with open("/proc/net/dev", encoding="ascii") as file:
        ours = len(file.readlines()) - 2
    assert int((place / "links").read_text()) == (1 if network == "off" else ours)


def test_without_bubblewrap_nothing_is_run(pit, monkeypatch):
    (task,) = pit.put("shut in")
    empty = f"{pit.root}/bin"
    os.mkdir(empty)
    os.symlink("/bin/true", f"{empty}/true")
    monkeypatch.setenv("PATH", empty)
    assert pit.start("--sandbox", "--until", "empty", "--", "true").wait(PATIENCE) == 1
    assert pit.card(task).state is State.READY
    assert "apt install bubblewrap" in pit.said()
    with pytest.raises(NoSandbox, match="not installed"):
        Sandbox().check()
