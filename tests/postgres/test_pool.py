"""Pools and the command line on a queue in a database: what a pit passes, through a folder that leads there."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
from pathlib import Path

import pytest
from waits import PATIENCE, until
from workshop import Pit, alive, read_pid

from taskpit import trust
from taskpit.cli.main import main
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, State, Task
from taskpit.queue import Queue
from taskpit.store.postgres.opening import leave_address
from taskpit.transfer import cargo_of, copy, events_of

SETTINGS = {"lease": "1m", "backoff": "0.1s", "backoff_longest": "0.2s"}


def _module(name):
    path = Path(__file__).parents[1] / "worker" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"postgres_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class DatabasePit(Pit):
    """A folder that leads to a queue in a database, where a test expects a pit."""

    def __init__(self, root, server):
        self.root, self.server = str(root), server
        self.address = server.new()
        leave_address(self.root, self.address)
        self.settings(**SETTINGS)
        self.queue = Queue.open(self.root)
        self.processes = []

    def settings(self, **settings):
        name = self.address.partition("schema=")[2]
        self.server.sql(f"UPDATE {name}.meta SET config = %s", json.dumps(settings))

    def configure(self, text):
        pairs = [line.partition(" = ") for line in text.splitlines()]
        self.settings(**{key: json.loads(value) for key, _, value in pairs if key != "durability"})


@pytest.fixture
def pit(server, tmp_path):
    pit = DatabasePit(tmp_path / "pit", server)
    yield pit
    pit.close()


#: These reach into the folder that a pit is.
FILES = {
    "test_a_lost_claim_stops_the_run_and_publishes_nothing",
    "test_an_idle_pool_ends_at_once",
    "test_a_disk_that_refuses_for_a_moment_is_no_loss",
    "test_a_pool_in_memory",
    "test_orders_that_make_no_sense",
    "test_dry_run_shows_and_changes_nothing",
}
_pool = _module("test_pool")
for _name in dir(_pool):
    if _name.startswith("test_") and _name not in FILES:
        globals()[_name] = getattr(_pool, _name)


def test_most_of_them_are_run():
    taken = [name for name in globals() if name.startswith("test_") and hasattr(_pool, name)]
    assert len(taken) >= 14
    assert all(hasattr(_pool, name) for name in FILES)


def test_a_race_has_one_result_and_its_losers_are_stopped(pit):
    _module("test_race").test_racers_in_pools_of_their_own_are_stopped_too(pit)


def test_a_claim_taken_away_stops_the_run(pit):
    ids = pit.put("slow")
    pit.start("--", "sh", "-c", "echo $$ > pid; exec sleep 600")
    pid = read_pid(f"{pit.root}/pid")
    fence = pit.card(ids[0]).worker
    name = pit.queue.store.database.schema
    pit.server.sql(f"UPDATE {name}.lease SET fence = 'thief'")
    until(lambda: not alive(pid))
    assert pit.card(ids[0]).worker == "thief"
    assert pit.card(ids[0]).result is None
    assert fence != "thief"


def test_what_cannot_be_put_in_order_keeps_no_pool_from_work(pit):
    """The first sweep is told to have had trouble; tasks are worked on."""
    pit.settings(**SETTINGS, keep_results="1s")
    name = pit.queue.store.database.schema
    pit.server.sql(
        f"INSERT INTO {name}.task (id, state, key, wish, doc, result) VALUES ('old', 'd', 'k', '', '{{}}', 'no JSON')"
    )
    pit.server.sql(f"INSERT INTO {name}.event (at, worker, action, id) VALUES (1, 'w', 'completed_task', 'old')")
    (task_id,) = pit.put("one")
    assert pit.start("--until", "empty", "--", "true").wait(PATIENCE) == 0
    assert "the keeper had trouble" in pit.said()
    assert pit.card(task_id).state is State.DONE


def test_a_killed_pool_is_known_to_be_dead_at_once(pit):
    """No lease to wait for on the same machine; elsewhere its lease ends first."""
    pit.settings(lease="1h")
    ids = pit.put("slow")
    process = pit.start("--", "sh", "-c", "echo $$ > pid; exec sleep 600")
    pid = read_pid(f"{pit.root}/pid", process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [mend.what for mend in sweep(pit.queue) if mend.kind == "reclaimed"] == ids
    assert pit.card(ids[0]).state is State.READY
    os.kill(pid, signal.SIGKILL) if alive(pid) else None


def test_the_life_of_a_task_by_hand(pit, capsys, monkeypatch):
    monkeypatch.setenv("TASKPIT_DIR", pit.address)
    monkeypatch.setenv("TASKPIT_AS", "ann")

    def run(*words):
        code = main(list(words))
        return code, capsys.readouterr().out.strip()

    assert run("add", "one", "--tag", "web", "--touches", "src/*") == (0, "0001")
    assert run("add", "two", "--needs", "1", "--id", "a-b.c") == (0, "a-b.c")
    assert run("claim")[0] == 0
    assert run("claim")[0] == 3
    assert run("renew", "1")[0] == 0
    assert run("note", "1", "half way")[0] == 0
    assert run("fail", "1", "--error", "oh no")[0] == 0
    assert run("retry", "1")[0] == 0
    assert run("edit", "1", "--priority", "5")[0] == 0
    assert run("block", "1", "ask Ann")[0] == 0
    assert run("unblock", "1")[0] == 0
    assert run("claim", "1")[0] == 0
    assert run("done", "1")[0] == 0
    assert run("claim", "a-b.c")[0] == 0
    assert run("release", "a-b.c")[0] == 0
    for words in (
        ("list",),
        ("show", "1"),
        ("why", "a-b.c"),
        ("status",),
        ("stats",),
        ("log",),
        ("sweep",),
        ("ready",),
    ):
        assert run(*words)[0] == 0, words
    assert run("doctor")[0] == 0


def test_a_crew_on_a_database(pit, capsys):
    """Its papers lie in the folder that leads there."""
    script = Path(pit.root) / "agents.toml"
    text = '[backend.plain]\ncommand = ["true"]\n\n[[agent]]\nname = "worker"\nbackend = "plain"\n'
    script.write_text(text, encoding="utf-8")
    assert trust.remember(pit.root)
    ids = pit.put("one", "two")
    assert main(["-C", pit.root, "up"]) == 0
    try:
        until(lambda: pit.queue.store.counts()[State.DONE] == len(ids))
        assert main(["-C", pit.root, "status"]) == 0
        assert "worker" in capsys.readouterr().out
    finally:
        assert main(["-C", pit.root, "down"]) == 0


# -- moving ----------------------------------------------------------------------------------------


def _pit_at(path):
    from taskpit.store.opening import init

    init(str(path), "pit")
    return Queue.open(str(path))


def test_there_and_back(pit, tmp_path, capsys):
    """A folder into a database, and that into a folder: each compared, and resumed by doing it again."""
    folder = _pit_at(tmp_path / "old")
    from taskpit.model import Failed, Task

    folder.put([Task(id="", title=f"task {n}", body="some\ntext", tags=("a",), extra={"x": [1, 2]}) for n in range(4)])
    folder.put([Task(id="", title="waits", needs=("0003",), not_before=4e9)])
    (one,) = folder.claim("w", ids=("0001",))
    folder.finish(one, Done(output="it works\n"))
    (two,) = folder.claim("w", ids=("0002",))
    folder.finish(two, Failed(error="no", final=True))
    folder.note("0003", "mind the gap", "ann")
    folder.close()
    assert main(["-C", str(tmp_path / "old"), "convert", pit.address]) == 0
    assert main(["-C", str(tmp_path / "old"), "convert", pit.address]) == 0  # as after an interruption
    assert pit.queue.store.counts() == {State.READY: 3, State.CLAIMED: 0, State.DONE: 1, State.FAILED: 1}
    assert pit.card("0001").result.output == "it works\n"
    assert pit.card("0003").task.extra["x"] == [1, 2]
    assert pit.card("0001").task.hold == ""
    assert [event.action for event in events_of(pit.queue.store)].count("transferred_events") == 1
    capsys.readouterr()
    assert main(["-C", pit.address, "export", "-o", str(tmp_path / "queue.jsonl")]) == 0
    back = _pit_at(tmp_path / "new")
    for _ in range(2):
        assert main(["-C", str(tmp_path / "new"), "import", str(tmp_path / "queue.jsonl")]) == 0
    assert back.store.counts() == pit.queue.store.counts()
    assert back.card("0001").result.output.strip() == "it works"
    assert "mind the gap" in back.card("0003").notes
    assert back.card("0005").held
    back.close()


def test_what_moves_shows_no_log_of_another_task(pit, server):
    """Logs stay behind: the same name is another's in the new place."""
    for queue, said in ((pit.queue, b"ours"), (other := Queue.open(server.new()), b"theirs")):
        for task_id, more in (("first", ""), ("second", " again")):
            queue.put([Task(id=f"{said.decode()}-{task_id}", title="x")])
            claim = queue.claim("w")[0]
            log = queue.store.keep_log("w", said + more.encode())
            queue.finish(claim, Failed(error="no", log=log) if more else Done(log=log))
    moved = copy(cargo_of(other.store), pit.queue.store, lambda text: text)
    assert moved.tasks == 2
    logs = {name: pit.queue.store.read_log(name, 0, 100) for name in ("ours-first", "theirs-first", "theirs-second")}
    assert logs == {"ours-first": (b"ours", 4), "theirs-first": (b"", 0), "theirs-second": (b"", 0)}
    other.close()


def test_a_folder_that_leads_there(server, tmp_path, capsys, monkeypatch):
    """Whoever works below it finds the queue; only its owner can read how."""
    address = server.new()
    monkeypatch.delenv("TASKPIT_DIR", raising=False)
    assert main(["init", str(tmp_path / "pit"), "--address", address]) == 0
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert main(["add", "from below"]) == 0
    assert os.stat(tmp_path / "pit" / ".taskpit" / "address").st_mode & 0o777 == 0o600
    _pit_at(tmp_path / "other").close()
    assert main(["init", str(tmp_path / "other"), "--address", address]) == 6
    assert capsys.readouterr().err
