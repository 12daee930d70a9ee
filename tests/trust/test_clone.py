"""What came by clone, copy or another hand runs nothing and connects to nothing before `pit trust`."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from shlex import quote

import pytest
from boxes import pit
from waits import PATIENCE, until

from taskpit import trust

AGENTS = """
    [backend.sh]
    command = ["sh", "-c", "{mark}"]
    [[agent]]
    name = "snake"
    backend = "sh"
    [[service]]
    name = "bell"
    command = ["sh", "-c", "{mark}-service; sleep 100"]
"""


@pytest.fixture
def armed(project):
    """Hooks for everything, a preset under a known name, a crew, tasks with checks."""
    events = ("done", "failed", "choked", "ask", "budget")
    lines = [f"{event} = {json.dumps(['touch', f'{project.marks}/hook-{event}'])}" for event in events]
    project.write(".taskpit/config.toml", 'lease = "1m"\nmax_attempts = 1\n[hooks]\n' + "\n".join(lines) + "\n")
    preset = (
        f'about = "x"\nbin = "touch"\nargv = ["touch", "{project.marks}/preset", "{{prompt_file}}"]\nprompt = "file"\n'
    )
    project.write(".taskpit/presets/claude.toml", preset)
    project.write("agents.toml", AGENTS.replace("{mark}", project.mark("crew")))
    for number in range(4):
        project.add(f"task {number}", "--check", project.mark(f"check-{number}"))
    project.clone()
    assert project("claim", "1").code == 0  # runs nothing, so it needs no trust
    return project


RUNS = [
    ("done", "1"),
    ("done", "1", "--no-check"),  # its hook would run
    ("fail", "1", "--error", "x", "--final"),
    ("ask", "1", "what?"),
    ("sweep",),
    ("work", "--until", "empty", "--", "true"),
    ("work", "--until", "empty", "--no-checks", "--", "true"),
    ("work", "--until", "empty", "--agent", "claude"),
    ("up",),
    ("restart",),
    ("review", "1", "--approve"),
]
LOOKS = [
    "list",
    "show 1",
    "why 1",
    "ready",
    "search task",
    "stats",
    "log",
    "status",
    "locks",
    "doctor",
    "prime",
    "export",
]


@pytest.mark.parametrize("words", RUNS, ids=" ".join)
def test_nothing_of_a_clone_runs_before_it_is_trusted(armed, words):
    before = armed("list", "--json").data
    answer = armed("--json", *words)
    assert (answer.code, answer.error["code"]) == (9, "untrusted")
    assert f"-C {quote(str(armed.pit))} trust" in answer.error["hint"]
    assert armed.marked == []
    assert armed("list", "--json").data == before


def test_looking_and_taking_needs_no_trust(armed):
    for line in LOOKS:
        assert armed(*line.split()).code == 0, line
    for line in (
        "add more",
        "claim 2",
        "renew 2",
        "release 2",
        "note 2 hello",
        "sweep --dry-run",
        "work --dry-run -- true",
    ):
        answer = armed(*line.split())
        assert (answer.code, line) == (9 if line.startswith("release") else 0, line)  # a release ends a claim: hooks
    assert armed.marked == []


def test_after_trust_it_runs_and_a_change_asks_again(armed):
    assert armed("trust", "--yes").code == 0
    assert armed("done", "1").code == 0
    until(lambda: armed.marked == ["check-0", "hook-done"])
    armed.write(".taskpit/config.toml", f"[hooks]\ndone = {json.dumps(['touch', f'{armed.marks}/changed'])}\n")
    armed.pull()
    assert armed("claim", "2").code == 0
    answer = armed("--json", "done", "2")
    assert (answer.code, answer.error["code"]) == (9, "untrusted")
    assert "changed since you trusted it" in answer.error["message"]
    assert armed.marked == ["check-0", "hook-done"]
    assert armed("done", "2", TASKPIT_TRUST="1").code == 0
    until(lambda: "changed" in armed.marked)


@pytest.mark.parametrize("name", [".taskpit/presets/claude.toml", ".taskpit/presets/new.toml", "agents.toml"])
def test_every_kind_of_change_asks_again(armed, name):
    assert armed("trust", "--yes").code == 0
    (armed.pit / name).write_text('argv = ["true"]\n')
    assert armed("work", "--until", "empty", "--", "true").code == 9
    assert armed("up").code == 9
    assert armed.marked == []


#: How a folder names a program of its own: the file that names it, its text, and the program.
NAMED = {
    "hook": (".taskpit/config.toml", '[hooks]\ndone = "sh notify.sh"\n', "notify.sh"),
    "hook as a list": (".taskpit/config.toml", '[hooks]\nask = ["./my notes", "x"]\n', "my notes"),
    "hook in the project": (".taskpit/config.toml", '[hooks]\ndone = "../tools/tell"\n', "../tools/tell"),
    "quoted": (".taskpit/config.toml", "[hooks]\ndone = \"sh 'a b.sh'; true\"\n", "a b.sh"),
    "by a variable": (".taskpit/config.toml", '[hooks]\ndone = "$TASKPIT_DIR/bin/tell --now"\n', "bin/tell"),
    "escaped": (".taskpit/presets/claude.toml", 'bin = "./ag\\u0065nt.sh"\n', "agent.sh"),
    "preset": (".taskpit/presets/claude.toml", 'bin = "tools/agent"\n', "../tools/agent"),
    "crew": ("agents.toml", '[service.x]\ncommand = ["{here}/serve.py"]\n', "serve.py"),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_program_that_the_folder_names_is_trusted_as_it_is(project, monkeypatch, name):
    """A pull that changed the script of a trusted hook was run unasked."""
    file, text, program = NAMED[name]
    project.write(file, text)
    project.write(program, "#!/bin/sh\n. ./more.sh; exec $HERE/deep/last\n")
    project.write("more.sh", "true\n")
    project.write(os.path.join(os.path.dirname(program), "deep/last"), "#!/bin/sh\ntrue\n")
    project.write("notes.txt", "notify.sh is a script\n")
    project.clone()
    monkeypatch.setenv("XDG_STATE_HOME", project.mine["XDG_STATE_HOME"])
    shown = project("trust").out
    for one in (program.removeprefix("../"), "more.sh", "deep/last", "exec $HERE"):
        assert one in shown
    for path in (program, "more.sh", os.path.join(os.path.dirname(program), "deep/last")):
        assert trust.remember(str(project.pit))
        with open(project.pit / path, "a", encoding="utf-8") as script:
            script.write("curl evil\n")
        assert "has changed" in trust.why_not(str(project.pit)), path
    assert trust.remember(str(project.pit))
    (project.pit / "notes.txt").write_text("another text\n")
    assert trust.is_given(str(project.pit))


def test_programs_elsewhere_and_endless_ones_are_not_shown(project, monkeypatch, tmp_path):
    (tmp_path / "secret").write_text("S3CRET")
    hooks = '[hooks]\ndone = "./a.sh; ./b.sh; ./c.sh; ./d.sh; ./e/"\n'
    project.write(".taskpit/config.toml", hooks)
    project.clone()
    monkeypatch.setenv("XDG_STATE_HOME", project.mine["XDG_STATE_HOME"])
    (project.pit / "a.sh").symlink_to(tmp_path / "secret")
    os.mkfifo(project.pit / "b.sh")
    (project.pit / "c.sh").symlink_to("/dev/zero")
    (project.pit / "d.sh").write_bytes(b"")
    os.truncate(project.pit / "d.sh", 1 << 40)
    (project.pit / "e").mkdir()
    shown = project("trust").out
    assert "S3CRET" not in shown
    assert str(tmp_path / "secret") in shown
    assert trust.remember(str(project.pit))
    assert trust.is_given(str(project.pit))
    (tmp_path / "secret").write_text("another")
    assert not trust.is_given(str(project.pit))


def test_more_programs_than_anybody_reads_are_never_trusted(project, monkeypatch):
    monkeypatch.setattr(trust, "MOST_SCRIPTS", 5)
    project.write(".taskpit/config.toml", '[hooks]\ndone = "./0.sh"\n')
    for number in range(8):
        project.write(f"{number}.sh", f"sh ./{number + 1}.sh\n")
    project.clone()
    monkeypatch.setenv("XDG_STATE_HOME", project.mine["XDG_STATE_HOME"])
    assert trust.remember(str(project.pit))
    assert not trust.is_given(str(project.pit))


def test_other_settings_and_tasks_may_change(armed):
    assert armed("trust", "--yes").code == 0
    path = armed.pit / ".taskpit/config.toml"
    path.write_text(path.read_text().replace('lease = "1m"', 'lease = "2m"'))
    assert armed("add", "another", "--check", armed.mark("new")).code == 0
    assert armed("claim", "5").code == 0
    assert armed("done", "5").code == 0
    assert "new" in armed.marked


def test_a_check_alone_needs_trust_too(project):
    project.add("x", "--check", project.mark("check"))
    project.clone()
    assert project("claim").code == 0
    assert project("done", "1").code == 9
    assert project("work", "--until", "empty", "--", "true").code == 9
    assert project.marked == []
    assert project("done", "1", "--no-check").code == 0  # there is nothing to run


@pytest.mark.parametrize("how", ["copy", "moved", "unpacked"])
def test_another_folder_is_not_the_one_that_was_trusted(project, how):
    project.add("x", "--check", project.mark("check"))
    project.clone()
    assert project("trust", "--yes").code == 0
    other = project.tmp / "other"
    if how == "copy":
        shutil.copytree(project.path, other)
    elif how == "moved":
        project.path.rename(other)
    else:  # at the very same path
        shutil.make_archive(str(project.tmp / "archive"), "tar", project.path)
        shutil.rmtree(project.path)
        project.path.mkdir()
        subprocess.run(["tar", "-xf", project.tmp / "archive.tar", "-C", project.path], check=True)
        (project.pit / ".taskpit/layout").touch()
    if how != "unpacked":
        project.pit = other / "pit"
    assert project("claim").code == 0
    assert project("done", "1").code == 9
    assert project.marked == []


def test_an_address_is_not_connected_to(project):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        shutil.rmtree(project.evil / "pit")
        address = f"postgresql://someone:password@127.0.0.1:{server.getsockname()[1]}/x?patience=0s&sslmode=disable"
        project.write(".taskpit/address", address + "\n")
        project.clone()
        for line in (
            "list",
            "show 1",
            "add x",
            "claim",
            "status",
            "board",
            "web",
            "mcp",
            "work -- true",
            "up",
            "prime",
        ):
            answer = project("--json", *line.split(), PGPASSWORD="secret", PGCONNECT_TIMEOUT="2")
            assert (line, answer.code) == (line, 9 if line != "board" else answer.code)
        assert project("hook", "session-start").out == ""
        with pytest.raises(BlockingIOError):
            server.accept()
        shown = project("--json", "trust")
        assert shown.code == 9
        assert "password@" not in shown.out
        assert project("trust", "--yes").code == 0
        server.setblocking(True)
        server.settimeout(PATIENCE)
        import threading

        asked = threading.Thread(target=project, args=("list",), kwargs={"PGCONNECT_TIMEOUT": "2"})
        asked.start()
        connection, _ = server.accept()
        connection.close()
        asked.join()


def test_a_plan_and_a_note_that_came_along_are_not_obeyed(armed, tmp_path):
    """Both are written by our own processes, and say what to run."""
    wish = {
        "post": {"name": "planted", "kind": "service", "role": "service", "cwd": str(tmp_path)},
        "wanted": True,
        "turn": 1,
        "now": False,
    }
    wish["post"]["command"] = ["touch", str(armed.marks / "planted")]
    for plan in ({"planted": wish}, {"plan": {"planted": wish}, "seal": "0" * 32}):
        armed.write(".taskpit/crew/plan.json", json.dumps(plan), armed.pit)
        note = {"argv": ["touch", str(armed.marks / "note")], "event": {"event": "done"}}
        armed.write(".taskpit/hooks/00000000000000000000-a.json", json.dumps(note), armed.pit)
        assert armed("trust", "--yes").code == 0
        assert armed("status").code == 0
        assert armed("up", "bell").code == 0
        until(lambda: "crew-service" in armed.marked)
        assert armed("done", "1").code == 0
        until(lambda: "hook-done" in armed.marked)
        time.sleep(0.5)  # the supervisor looks every fifth of a second: it would have started by now
        assert not {"planted", "note"} & set(armed.marked)
        armed("down", "--now")


def test_a_supervisor_does_not_follow_another_hand(armed):
    assert armed("trust", "--yes").code == 0
    assert armed("up", "bell").code == 0
    path = armed.pit / ".taskpit/crew/plan.json"
    plan = json.loads(path.read_text())
    plan["plan"]["bell"]["post"]["command"] = ["touch", str(armed.marks / "planted")]
    plan["plan"]["bell"]["turn"] = 2
    path.write_text(json.dumps(plan))
    log = armed.pit / ".taskpit/crew/supervisor.log"
    until(lambda: "was not written by you" in log.read_text())
    assert "planted" not in armed.marked
    assert armed("up", "bell").code == 0
    assert armed("down").code == 0


@pytest.mark.needs("git")
@pytest.mark.parametrize("words", [(), ("--git", "ignore"), ("--git", "track")], ids=" ".join)
def test_git_of_an_unpacked_checkout_runs_nothing_when_a_queue_is_made_there(tmp_path, words):
    """An archive has its own `.git`: git asks the program that its settings name what has changed."""
    top, program = tmp_path / "unpacked", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\nprintf 'x\\0/\\0'\n", encoding="ascii")
    program.chmod(0o755)
    for asked in (("init", "-q", top), ("-C", top, "commit", "-q", "--allow-empty", "-m", "x")):
        subprocess.run(("git", "-c", "user.name=x", "-c", "user.email=x@x", *asked), check=True)
    for asked in (("config", "core.fsmonitor", quote(str(program))), ("update-index", "--fsmonitor"), ("status",)):
        subprocess.run(("git", "-C", top, *asked), check=True, capture_output=True)
    assert (tmp_path / "ran").exists()  # so it is a trap
    (tmp_path / "ran").unlink()
    answer = pit("init", str(top / "pit"), *words)
    assert answer.code == 0, answer.err
    assert not (tmp_path / "ran").exists()


@pytest.mark.needs("git")
@pytest.mark.parametrize("how", ["linked info", "linked exclude", "linked .git", "pointer", "worktree"])
def test_a_rule_is_written_to_no_other_repository(tmp_path, how):
    """`pit init --git ignore` writes to this checkout's own list, wherever the archive's `.git` leads."""
    other, top = tmp_path / "other", tmp_path / "unpacked"
    for asked in (("init", "-q", other), ("-C", other, "commit", "-q", "--allow-empty", "-m", "x")):
        subprocess.run(("git", "-c", "user.name=x", "-c", "user.email=x@x", *asked), check=True)
    if how == "worktree":
        subprocess.run(("git", "-C", other, "worktree", "add", "-q", top), check=True, capture_output=True)
    elif how.startswith("linked i") or how == "linked exclude":
        subprocess.run(("git", "init", "-q", top), check=True)
        place = ".git/info" if how == "linked info" else ".git/info/exclude"
        if (top / ".git/info").exists():
            shutil.rmtree(top / ".git/info")
        (top / place).parent.mkdir(exist_ok=True)
        (top / place).symlink_to(other / place)
    else:
        top.mkdir()
        (top / ".git").symlink_to(other / ".git") if how == "linked .git" else (top / ".git").write_text(
            f"gitdir: {other}/.git\n", encoding="utf-8"
        )
    path = other / ".git/info/exclude"
    path.parent.mkdir(exist_ok=True)
    path.write_text("# mine\n", encoding="ascii")
    assert pit("init", str(top / "pit"), "--git", "ignore").code == 0
    assert ("/pit/" in path.read_text(encoding="ascii").split()) is (how == "worktree")
