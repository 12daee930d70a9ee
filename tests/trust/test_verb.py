"""`pit trust` itself: what it shows, whom it asks, where it writes the answer down."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest
from boxes import pit as run
from people import ANN, BOB
from waits import PATIENCE

from taskpit import Queue, fs, trust
from taskpit.errors import Untrusted


@pytest.fixture
def clone(project):
    project.write(".taskpit/config.toml", '[hooks]\ndone = "notify \\u001b[31mme"\n')
    project.write(".taskpit/presets/claude.toml", 'bin = "evil"\n')
    project.write("agents.toml", '[backend.x]\ncommand = ["rm", "-rf"]\n')
    project.add("x", "--check", "make test")
    project.clone()
    return project


def test_it_shows_everything_and_says_yes_to_nothing_by_itself(clone):
    answer = clone("trust")
    assert answer.code == 9
    for text in ("hook done", "notify", "preset claude", "evil", "agents.toml", '"rm", "-rf"', "make test"):
        assert text in answer.out, text
    assert "\x1b" not in answer.out
    assert "pit trust --yes" in answer.err
    kinds = [one["kind"] for one in clone("--json", "trust").error["details"]["starts"]]
    assert kinds == ["hook", "preset", "crew"]


@pytest.mark.parametrize(("said", "code"), [("y", 0), ("yes", 0), ("n", 9), ("", 9)])
def test_a_person_is_asked(clone, said, code):
    leader, follower = pty.openpty()
    env = {**{key: value for key, value in os.environ.items() if not key.startswith("TASKPIT_")}, **clone.mine}
    argv = [sys.executable, "-m", "taskpit", "-C", str(clone.pit), "trust"]
    process = subprocess.Popen(argv, stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
    os.write(leader, f"{said}\n".encode())
    out = process.communicate(timeout=PATIENCE)[0].decode()
    os.close(leader)
    os.close(follower)
    assert process.returncode == code, out
    assert "[y/N]" in out
    assert clone("--json", "trust").code == code


@pytest.mark.parametrize("file", [".taskpit/config.toml", ".taskpit/presets/claude.toml", "agents.toml"])
def test_a_change_while_the_person_reads_is_not_trusted(clone, file):
    leader, follower = pty.openpty()
    env = {**{key: value for key, value in os.environ.items() if not key.startswith("TASKPIT_")}, **clone.mine}
    argv = [sys.executable, "-m", "taskpit", "-C", str(clone.pit), "trust"]
    with subprocess.Popen(argv, stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        shown = b""
        while b"[y/N]" not in shown:
            piece = process.stdout.read1(4096)
            assert piece, process.stderr.read()
            shown += piece
        path = clone.pit / file
        path.write_text(path.read_text().replace("evil", "worse").replace("notify", "worse").replace("rm", "worse"))
        os.write(leader, b"y\n")
        trouble = process.communicate(timeout=PATIENCE)[1].decode()
    os.close(leader)
    os.close(follower)
    assert (process.returncode, "changed while you were reading" in trouble) == (6, True), trouble
    assert clone("trust").code == 9
    clone("trust", "--yes")
    assert clone("trust").code == 0


def test_a_hook_that_appears_while_a_token_is_added_is_not_trusted(clone, monkeypatch):
    """Another program writes between the look before a change and the record after it."""
    for name, value in clone.mine.items():
        monkeypatch.setenv(name, value)
    assert clone("trust", "--yes").code == 0
    before = trust.trusted_look(clone.pit)
    (clone.pit / ".taskpit/presets/new.toml").write_text('bin = "evil"\n')
    assert not trust.carry_over(before, clone.pit, ("what this process wrote",))
    assert clone("trust").code == 9
    assert trust.carry_over(before, clone.pit, ('bin = "evil"\n',))
    assert clone("trust").code == 0


def test_what_was_trusted_is_shown_and_revoked(clone):
    assert clone("trust", "--yes").code == 0
    assert "is trusted" in clone("trust").out
    assert clone("--json", "trust").data["trusted"] is True
    assert clone("trust", "--revoke").code == 0
    assert clone("trust").code == 9
    assert "was not trusted" in clone("trust", "--revoke").out
    assert clone("trust", "--yes", "--revoke").code == 2


def test_a_workers_command_cannot_say_it(clone):
    answer = clone("--json", "trust", "--yes", TASKPIT_RUN_DIR="/somewhere")
    assert (answer.code, answer.error["code"]) == (9, "denied")
    assert clone("trust").code == 9


@pytest.mark.parametrize(
    "line", ["init {pit} --template builder-reviewer", "init {pit} --git track", "-C {pit} token add eve"]
)
def test_what_is_trusted_for_one_command_is_so_for_that_one_only(clone, line):
    """What a command adds to a trusted queue is trusted with it: the variable made a record of all that was there."""
    words = [word.format(pit=clone.pit) for word in line.split()]
    assert run(*words, env={**clone.mine, "TASKPIT_TRUST": "1"}).code == 0
    assert clone("trust").code == 9
    (clone.pit / "agents.toml").unlink()
    assert clone("trust", "--yes").code == 0
    if "token" in words:
        words[-1] = "bob"
    assert run(*words, env=clone.mine).code == 0
    assert clone("trust").code == 0  # which was trusted


@pytest.mark.parametrize("trusted", ["", "1"])
def test_a_workers_command_makes_queues_and_trusts_none(clone, tmp_path, trusted):
    env = {**clone.mine, "TASKPIT_RUN_DIR": "/somewhere", "TASKPIT_TRUST": trusted}
    for words in (("new",), ("zoo", "--template", "snakepit")):
        assert run("init", tmp_path / words[0], *words[1:], env=env).code == 0
        assert run("-C", tmp_path / words[0], "trust", env=clone.mine).code == 9
    (clone.pit / "agents.toml").unlink()
    assert clone("trust", "--yes").code == 0
    assert run("init", clone.pit, "--template", "snakepit", env=env).code == 0
    assert clone("trust").code == 9


def test_what_one_makes_is_trusted_from_birth(project, tmp_path):
    root = tmp_path / "new"
    assert run("init", root, env=project.mine).err.count("trusted") == 0
    assert run("-C", root, "trust", env=project.mine).code == 0
    (tmp_path / "food-pit/food").mkdir(parents=True)
    (tmp_path / "food-pit/claimed").mkdir()
    assert run("init", tmp_path / "food-pit", env=project.mine).code == 0  # adopted
    assert run("-C", tmp_path / "food-pit", "trust", env=project.mine).code == 0
    assert run("init", tmp_path / "zoo", "--template", "snakepit", env=project.mine).code == 0
    assert run("-C", tmp_path / "zoo", "trust", env=project.mine).code == 0


def test_what_a_folder_brings_is_asked_about_even_when_it_is_adopted(clone):
    (clone.pit / ".taskpit/layout").unlink()
    answer = clone("init", clone.pit)
    assert answer.code == 0
    assert "have not trusted" in answer.err
    assert "preset claude" in answer.err
    assert clone("trust").code == 9
    assert "have not trusted" in clone("init", clone.pit).err  # and again, now that it is a queue already


#: What a folder may bring that `pit init` adopts: a file with a task, or of which one is made.
BROUGHT = [
    ("pit", "food/food-0001-look.md", "# food-0001-look\n- **title:** Look\n- **done-when:** `{check}`\n"),
    ("pit", "claimed/eve.food-0001-look.md", "# food-0001-look\n- **title:** Look\n- **done-when:** `{check}`\n"),
    ("pit", "done/food-0001-look.result.md", "# food-0001-look\n- **title:** Look\n- **done-when:** `{check}`\n"),
    ("pit", ".taskpit/sealed/food-0001-look.md~abc~ready", "# food-0001-look\n- **done-when:** `{check}`\n"),
    ("mailbox", "inbox/t1.json", '{{"task_id": "t1", "title": "Look", "check": "{check}"}}'),
    ("workspace", "tasks/t1_pending.md", "# Look\n- **done-when:** `{check}`\n"),
    ("activities", "WI-001-x/progress.yaml", "activities:\n- id: A1\n  title: Look\n  check: {check}\n"),
]


@pytest.mark.parametrize(("layout", "name", "text"), BROUGHT, ids=[name for _, name, _ in BROUGHT])
def test_tasks_that_a_folder_brings_are_asked_about_when_it_is_adopted(project, tmp_path, layout, name, text):
    """A repository with tasks and no `.taskpit` was trusted by the `pit init` that is advised there."""
    root, env = tmp_path / "up/pit", project.mine
    for folder in ("food", "claimed") if layout == "pit" else ():
        (root / folder).mkdir(parents=True)
        (root / folder / ".keep").touch()
    project.write(name, text.format(check=project.mark("check")), root)
    answer = run("init", root, "--layout", layout, env=env)
    assert answer.code == 0, answer.err
    assert "yet: it contains tasks, whose checks are commands" in answer.err
    assert "trust` shows what it would run, and asks" in answer.err
    assert run("-C", root, "trust", env=env).code == 9
    assert project.marked == []
    assert run("-C", root, "trust", "--yes", env=env).code == 0
    assert run("init", root, env=env).err.count("trusted") == 0


def test_the_check_of_a_task_that_came_along_is_not_run(project, tmp_path):
    root, env = tmp_path / "up/pit", project.mine
    (root / "claimed").mkdir(parents=True)
    _, name, text = BROUGHT[0]
    project.write(name, text.format(check=project.mark("check")), root)
    for line, code in (("init .", 0), ("claim 1", 0), ("done 1", 9), ("trust --yes", 0), ("done 1", 0)):
        assert project.marked == []
        assert run("-C", root, *line.split(), env=env).code == code, line
    assert project.marked == ["check"]


def test_a_state_directory_of_another_is_not_believed(clone, tmp_path, monkeypatch):
    assert clone("trust", "--yes").code == 0
    monkeypatch.setenv("XDG_STATE_HOME", clone.mine["XDG_STATE_HOME"])
    assert trust.is_given(str(clone.pit))
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 4711)
    if me:
        with pytest.raises(Untrusted, match="belongs to another user"):
            trust.why_not(str(clone.pit))
    else:  # what is root's is as good as one's own
        monkeypatch.setattr(os, "geteuid", lambda: me)
        os.chown(tmp_path / "mine/taskpit", 4711, -1)
        with pytest.raises(Untrusted, match="belongs to another user"):
            trust.why_not(str(clone.pit))


def test_a_home_that_cannot_be_written_stops_no_queue_from_being_made(tmp_path):
    (tmp_path / "file").write_text("x")
    env = {"XDG_STATE_HOME": str(tmp_path / "file")}
    assert run("init", tmp_path / "pit", env=env).code == 0
    for line in ("add x", "claim", "done 1", "list"):
        assert run("-C", tmp_path / "pit", *line.split(), env=env).code == 0
    answer = run("-C", tmp_path / "pit", "trust", "--yes", env=env)
    assert answer.code != 0
    assert "XDG_STATE_HOME" in answer.err


def test_hot_verbs_do_not_even_look(tmp_path):
    state = tmp_path / "state"
    env = {**os.environ, "XDG_STATE_HOME": str(state), "TASKPIT_AS": "me"}
    root = tmp_path / "pit"
    Queue.create(root).close()
    for line in ("add x --check true", "claim 1", "renew 1", "list", "done 1 --no-check"):
        argv = [sys.executable, "-m", "taskpit", "-C", str(root), *line.split()]
        ran = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, (line, ran.stderr)
    assert not state.exists()


def test_programs_need_it_for_what_the_folder_names_only(clone, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", clone.mine["XDG_STATE_HOME"])
    (clone.pit / ".taskpit/config.toml").unlink()
    with Queue.open(clone.pit) as queue:
        with queue.take(ids=[queue.add("plain")]) as job:
            job.output = "worked"
        with pytest.raises(Untrusted), queue.take(ids=["0001"]):
            pytest.fail("its check could not be run afterwards")
        card = queue.card("0001")
        assert (str(card.state), card.task.attempts) == ("ready", 0)
        with pytest.raises(Untrusted):
            queue.work(lambda _job: "done", until_empty=True)
        report = queue.work(lambda _job: "done", until_empty=True, checks=None)
        assert report.tally == {"done": 1}
    with Queue.create(clone.pit) as queue:  # there already: that is no word of trust either
        queue.add("checked", check="true")
        with pytest.raises(Untrusted):
            queue.work(lambda _job: "done", until_empty=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_whose_it_is_is_judged_by_the_name_itself(tmp_path):
    """A link of another user's to something of ours is theirs."""
    mine = tmp_path / "mine"
    mine.mkdir()
    link = tmp_path / "link"
    link.symlink_to(mine)
    assert not fs.foreign(str(link))
    os.lchown(link, ANN, -1)
    assert "belongs to another user" in fs.foreign(str(link))
    os.lchown(link, 0, -1)
    os.chown(mine, BOB, -1)
    assert "belongs to another user" in fs.foreign(str(link))


def test_an_empty_git_directory_is_no_checkout(tmp_path):
    (tmp_path / ".git").mkdir()
    assert fs.above(str(tmp_path), ".git") == ""
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    assert fs.above(str(tmp_path), ".git") == str(tmp_path)
