"""A command per event: told whatever happened, run beside the work, and never in its way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from waits import until
from workshop import alive, read_pid

from taskpit import Queue, hooks, trust
from taskpit.config import Config, Hooks
from taskpit.errors import Invalid
from taskpit.keeper import sweep
from taskpit.model import Ask, Done, Event, Failed
from taskpit.run.budget import parse
from taskpit.store import changelog
from taskpit.store.memory import MemoryStore

BASE = 'durability = "process"\nbackoff = "0s"\nbackoff_longest = "0s"\nlosses = 1\n'


class Place:
    """A queue with hooks, and what they wrote."""

    def __init__(self, tmp_path):
        self.root = tmp_path / "pit"
        self.heard = tmp_path / "heard"
        self.heard.mkdir()
        self.queue = Queue.create(self.root)

    def hooks(self, **commands):
        """These are the hooks from now on."""
        lines = [f"{key} = {json.dumps(value)}" for key, value in commands.items()]
        (self.root / ".taskpit/config.toml").write_text(BASE + "[hooks]\n" + "\n".join(lines) + "\n")
        assert trust.remember(str(self.root))
        self.queue.close()
        self.queue = Queue.open(self.root)

    @property
    def spool(self):
        """Where what the hooks are to hear lies meanwhile."""
        return Path(hooks.spool_of(str(self.root)))

    def script(self, text):
        """A shell script that is somewhere; in it, $H is where to write."""
        path = self.heard / f"script-{len(list(self.heard.iterdir()))}"
        path.write_text(f"#!/bin/sh\nH='{self.heard}'\n{text}\n")
        path.chmod(0o755)
        return [str(path)]

    def end(self, outcome, title="a task", **fields):
        """A task that ends this way; its id."""
        task_id = self.queue.add(title, **fields)
        (claim,) = self.queue.claim("snake", ids=[task_id])
        self.queue.finish(claim, outcome)
        return task_id

    def settled(self):
        """Every hook has ended and is accounted for."""
        until(lambda: not list(self.spool.glob("*.json")))
        lock = hooks.lock_of(str(self.spool))
        until(lambda: lock.take(wait=False))
        lock.drop()

    def complaints(self):
        self.settled()
        return [event.details for event in self.queue.events() if event.action == "hook_failed"]

    def told(self, count=1):
        """What the hook that `tells` has heard, in order of its ids."""
        self.settled()
        found = sorted(self.heard.glob("*.told"))
        assert len(found) == count
        return [json.loads(path.read_text()) for path in found]


#: Writes what it is told, whole or not at all.
TELLS = 'cat > "$H/$$.part" && mv "$H/$$.part" "$H/$TASKPIT_ID-$TASKPIT_EVENT.told"'


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    yield place
    place.settled()
    place.queue.close()


def test_done_is_told_with_its_result(place):
    place.hooks(done=place.script(TELLS))
    task_id = place.end(Done(output="what came out"), "greet", tags=["web"])
    (told,) = place.told()

    assert (told["schema"], told["event"], told["id"], told["title"]) == (1, "done", task_id, "greet")
    assert (told["worker"], told["tags"], told["queue"]) == ("snake", ["web"], str(place.root))
    assert (told["result"]["verdict"], told["result"]["output"]) == ("done", "what came out")


@pytest.mark.parametrize(
    ("event", "outcome", "details"),
    [
        ("failed", Failed(error="no way", final=True), "no way"),
        ("ask", Ask(question="which one?"), "which one?"),
    ],
)
def test_other_ends_are_told(place, event, outcome, details):
    place.hooks(**{event: place.script(TELLS)})
    place.end(outcome)

    assert [(told["event"], told["details"]) for told in place.told()] == [(event, details)]


def test_choking_is_told_once(place):
    place.hooks(choked=place.script(TELLS), failed=place.script(TELLS))
    task_id = place.queue.add("stubborn", max_attempts=9)
    for _ in range(3):
        (claim,) = place.queue.claim("snake", ids=[task_id])
        place.queue.finish(claim, Failed(error="the same"))
    (told,) = place.told()

    assert told["event"] == "choked"
    assert "3 times the same way" in told["details"]


def test_a_task_that_keeps_losing_its_worker_is_told(place):
    place.hooks(choked=place.script(TELLS))
    place.queue.add("deadly")
    member = place.queue.store.join("mortal", 60.0)
    place.queue.claim("mortal")
    member.leave()
    sweep(place.queue)

    assert "lost its worker" in place.told()[0]["details"]


def test_the_environment_and_the_folder_are_as_documented(place):
    names = ("EVENT", "ID", "TITLE", "WORKER", "DETAILS", "DIR")
    told = "; ".join(f'printf "%s\\n" "$TASKPIT_{name}"' for name in names)
    place.hooks(failed=place.script(f'{{ {told}; pwd; }} > "$H/seen"'))
    task_id = place.end(Failed(error="no way", final=True), "greet")
    place.settled()

    root = str(place.root)
    assert (place.heard / "seen").read_text().splitlines() == [
        "failed",
        task_id,
        "greet",
        "snake",
        "no way",
        root,
        root,
    ]


def test_what_nobody_asked_for_is_not_told(place):
    place.hooks(failed=place.script(TELLS))
    place.end(Done())

    assert not list(place.spool.iterdir())


def test_a_spent_budget_is_told(place):
    place.hooks(budget=place.script(TELLS), ask=place.script(TELLS))
    task_id = place.queue.add("dear")

    def costly(claim, run):
        run.cost = {"usd": 5.0}
        return Failed(error="and for nothing")

    pool = place.queue.pool(
        costly, 1, worker="w", tags=(), checks=None, max_tasks=1, budget=(parse("$1/task"), parse("$2/day"))
    )
    pool.run()
    day, asked, task = place.told(3)

    assert [told["event"] for told in (day, asked, task)] == ["budget", "ask", "budget"]
    assert ("the budget is spent" in day["details"], day["worker"]) == (True, "w")
    assert (task["id"], "it has cost" in task["details"]) == (task_id, True)


def test_no_verb_waits_for_a_hook(place):
    """The hook cannot end before the verb has returned: it waits for what comes after."""
    os.mkfifo(place.heard / "go")
    place.hooks(done=place.script(f'read word < "$H/go"; {TELLS}'))
    place.end(Done())
    assert list(place.heard.glob("*.told")) == []
    (place.heard / "go").write_text("on\n")

    assert len(place.told()) == 1


def test_a_hook_that_hangs_is_killed_with_its_children(place):
    ends = []
    for timeout in ("1s", "10s", "1m"):  # so long that it has begun, on a busy machine, too
        place.hooks(done=place.script('sleep 1000 & echo $! > "$H/pid"; wait'), timeout=timeout)
        ends.append((place.end(Done()), f"the hook for done: it took longer than {timeout} and was killed"))
        complaints = place.complaints()
        if (place.heard / "pid").exists():
            break

    assert not alive(read_pid(place.heard / "pid"))
    assert complaints == [told for _, told in ends]
    failed = [event.task_id for event in place.queue.events() if event.action == "hook_failed"]
    assert failed == [task_id for task_id, _ in ends]


def test_a_hook_that_fails_is_a_line_in_the_changelog(place):
    place.hooks(done=place.script("echo it went wrong >&2; exit 3"))
    place.end(Done())

    assert place.complaints() == ["the hook for done: exit code 3: it went wrong"]


def test_that_a_hook_failed_is_no_end_of_a_claim(place):
    """The keeper, who makes up for lines that a crash swallowed, must not take it for one."""
    event = Event(timestamp="2026-01-01T00:00:00Z", worker="w", worker_type="agent", action="claimed_task", task_id="7")
    place.queue.store.record([event, event.replace(action="hook_failed", worker="hooks")])
    path = str(place.root / ".taskpit/changelog.log")

    assert not changelog.tells_end(path, "7", since=event.timestamp, final=False)
    place.queue.store.record([event.replace(action="retried_task")])
    assert changelog.tells_end(path, "7", since=event.timestamp, final=False)


def test_a_missing_command_is_a_line_in_the_changelog(place):
    place.hooks(done="/no/such/command now")
    place.end(Done())

    assert place.complaints() == ["the hook for done: /no/such/command cannot be run: No such file or directory"]


def test_a_hook_may_print_as_much_as_it_likes(place):
    place.hooks(
        done=place.script(f"head -c 20000000 /dev/zero; {TELLS}"), failed=place.script("yes | head -c 9000000; exit 1")
    )
    place.end(Done())
    place.end(Failed(error="x", final=True))

    assert len(place.told()) == 1
    (complaint,) = place.complaints()
    assert len(complaint) < 2500


def test_a_hook_that_reads_nothing(place):
    place.hooks(done="true")
    place.end(Done(output="x" * 500_000))

    assert place.complaints() == []


NASTY = '$(touch "$H/pwned"); `touch pwned`; "\'; touch pwned #'


def test_nothing_a_task_says_is_obeyed(place):
    place.hooks(done=place.script(f'printf %s "$TASKPIT_TITLE" > "$H/title"; {TELLS}'))
    place.end(Done(output=NASTY), NASTY)
    (told,) = place.told()

    assert (told["title"], told["result"]["output"]) == (NASTY, NASTY)
    assert (place.heard / "title").read_text() == NASTY
    assert [path for folder in (place.heard, place.root) for path in folder.rglob("pwned")] == []


def test_a_hook_acts_for_no_worker(place, monkeypatch):
    for name in ("TASKPIT_AS", "TASKPIT_TASK"):
        monkeypatch.setenv(name, "somebody")
    place.hooks(done=place.script(f'env > "$H/env"; {TELLS}'))
    place.end(Done())
    place.told()
    env = dict(line.split("=", 1) for line in (place.heard / "env").read_text().splitlines() if "=" in line)

    assert (env["TASKPIT_DIR"], env["TASKPIT_EVENT"], env["TASKPIT_ID"]) == (str(place.root), "done", "0001")
    assert not {"TASKPIT_AS", "TASKPIT_TASK"} & env.keys()


def test_no_more_run_at_once_than_the_settings_say(place):
    place.hooks(done=place.script('mkdir "$H/alone" || exit 9; sleep 0.05; rmdir "$H/alone"'), parallel=1)
    for number in range(5):
        place.end(Done(), f"task {number}")

    assert place.complaints() == []


def test_several_run_at_once(place):
    """Each waits until the other has begun."""
    meets = 'touch "$H/$TASKPIT_ID"; while ! { [ -e "$H/0001" ] && [ -e "$H/0002" ]; }; do sleep 0.01; done'
    place.hooks(done=place.script(meets), parallel=2)
    place.end(Done())
    place.end(Done())

    assert place.complaints() == []


def test_what_a_killed_runner_left_is_run_by_the_next(place, monkeypatch):
    place.hooks(done=place.script(TELLS))
    with monkeypatch.context() as patch:
        patch.setattr(hooks, "_run", lambda _spool: None)
        place.end(Done())
    place.end(Done())

    assert [told["id"] for told in place.told(2)] == ["0001", "0002"]


def test_who_is_about_to_end_looks_again(place, monkeypatch):
    """A note left between a runner's last look and its letting go of the lock is not forgotten."""
    from taskpit.hooks import run

    place.hooks(done=place.script(TELLS))
    monkeypatch.setattr(hooks, "_run", lambda _spool: None)
    place.end(Done())
    rounds = []

    def late(one, run_round=run._Round.run):
        run_round(one)
        if not rounds:
            place.end(Done())
        rounds.append(one)

    monkeypatch.setattr(run._Round, "run", late)
    monkeypatch.setattr(os, "setsid", lambda: None)
    run.main([str(place.spool)])

    assert len(rounds) == 2
    assert len(place.told(2)) == 2


def test_a_spoilt_note_stops_no_other(place):
    place.hooks(done=place.script(TELLS))
    (place.spool / "0-spoilt.json").write_text("{")
    place.end(Done())

    assert len(place.told()) == 1


def test_a_spool_that_cannot_be_written_is_no_reason_to_fail(place):
    place.hooks(done=place.script(TELLS))
    spool = place.spool
    spool.rmdir()
    spool.write_text("in the way")
    task_id = place.end(Done())
    spool.unlink()

    assert place.queue.card(task_id).result.verdict == "done"


def test_the_command_line_runs_hooks_too(place):
    script = Path(*place.script(TELLS))
    place.hooks(done=f"../heard/{script.name}")  # as plain as settings can be: no list, no space, no quotes
    task_id = place.queue.add("by hand")
    run = [sys.executable, "-m", "taskpit", "-C", str(place.root)]
    for verb in ("claim", "done"):
        subprocess.run([*run, verb, task_id, "--as", "me"], check=True, capture_output=True)
    assert place.told()[0]["worker"] == "me"


def test_where_there_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    queue = Queue(MemoryStore(), Config(hooks=Hooks(commands={"done": ("touch", str(tmp_path / "heard"))})))
    queue.add("anywhere")
    with queue.take():
        pass

    assert until((tmp_path / "heard").exists)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[hooks]\nfinished = 'x'", "no hook 'finished'"),
        ("[hooks]\ndone = 3", "is a command"),
        ("[hooks]\ndone = ''", "is a command"),
        ("[hooks]\ndone = []", "is a command"),
        ("[hooks]\ndone = ['a', 3]", "is a command"),
        ('[hooks]\ndone = "it\'s"', "No closing quotation"),
        ("[hooks]\ntimeout = '0s'", "must be more than 0"),
        ("[hooks]\nparallel = 0", "must be more than 0"),
        ("hooks = 3", "is a table"),
    ],
)
def test_bad_settings_are_refused(place, text, told):
    (place.root / ".taskpit/config.toml").write_text(text)
    with pytest.raises(Invalid, match=told):
        Queue.open(place.root)


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ('done = "notify done now"', ("notify", "done", "now")),
        ("done = 'say \"two words\" one'", ("say", "two words", "one")),
        ('done = ["say", "two words"]', ("say", "two words")),
    ],
)
def test_a_command_is_words_or_a_line(place, text, argv):
    (place.root / ".taskpit/config.toml").write_text(f'[hooks]\n{text}\ntimeout = "5s"\n')
    with Queue.open(place.root) as queue:
        assert queue.config.hooks == Hooks(commands={"done": argv}, timeout=5.0)
