"""Every surface against an address: the command line, a crew, agents' tools, the board, and a queue of activities."""

from __future__ import annotations

import urllib.request

import pytest
from boards import TOKEN
from boards import Served as Board
from gateways import Served
from waits import until

from taskpit import trust
from taskpit.cli.main import main
from taskpit.clock import Clock
from taskpit.library import Queue as Library
from taskpit.mcp.tools import ToolCalls
from taskpit.model import Done, Said, State, Task
from taskpit.queue import Queue
from taskpit.store.opening import init, open_store


@pytest.fixture
def there(served, tmp_path, monkeypatch):
    """As on another machine: a home of its own, the owner's token."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TASKPIT_TOKEN", served.owner)
    monkeypatch.setenv("TASKPIT_DIR", served.address)
    monkeypatch.setenv("TASKPIT_AS", "owner-1")
    monkeypatch.chdir(tmp_path)
    return served


@pytest.fixture
def pit(there, capsys):
    def run(line, *more):
        code = main([*line.split(), *more])
        out, err = capsys.readouterr()
        assert code == 0, (line, out, err)
        return out + err

    return run


#: What people do with a queue, in an order in which each has something to do.
LINES = """
add one
add two --tag x --needs 1
edit 2 --priority 3
list
status
show 1
why 2
search one
claim 1
renew 1
note 1 hello
done 1
claim 2
fail 2 --error no
block 2 why
unblock 2
cancel 2
retry 2
log
stats
report
trace 1
lock deploy
pause
resume
sweep
doctor
export
prime
"""


def test_every_verb_of_a_day(pit, there):
    for line in filter(None, LINES.splitlines()):
        pit(line)
    assert there.queue.store.counts()[State.DONE] == 1


def test_a_crew_works_through_an_address(pit, there, tmp_path):
    folder = tmp_path / "far"
    pit(f"init far --address {there.address}")
    (folder / "agents.toml").write_text(
        '[defaults]\nbackend = "sh"\n[backend.sh]\ncommand = ["sh", "-c", "true"]\n'
        '[[agent]]\nname = "owner"\ncount = 2\n'
    )
    for number in range(4):
        pit("add", f"task {number}")
    pit("-C far trust --yes")
    pit("-C far crew up")
    try:
        until(lambda: there.queue.store.counts()[State.DONE] == 4)
    finally:
        pit("-C far crew down")
    workers = {card.result.worker.partition("~")[0] for card in there.queue.store.page(State.DONE).cards}
    assert workers <= {"owner-1", "owner-2"}


def test_a_folder_that_leads_there_is_trusted_by_that_with_nothing_else(pit, there, tmp_path, monkeypatch):
    """`pit init --address` made a record of the hooks, too, whoever had written them."""
    line = f"init far --address {there.address}"
    assert "trusted" not in pit(line)
    hooks = tmp_path / "far/.taskpit/config.toml"
    hooks.write_text('[hooks]\ndone = "curl evil"\n')
    assert "it contains address address, hook done" in pit(line)
    pit("-C far trust --yes")
    assert "trusted" not in pit(line)
    hooks.write_text('[hooks]\ndone = "true"\n')
    monkeypatch.setenv("TASKPIT_RUN_DIR", "/somewhere")
    assert "have not trusted" in pit(line)
    assert "have not trusted" in pit(line.replace("far", "new"))
    assert not any(trust.is_given(str(tmp_path / name)) for name in ("far", "new"))


def test_agents_tools(there):
    desk = ToolCalls(lambda: Queue.open(there.address), "owner-1", ".")
    made = desk.answer("add", {"title": "by a tool"})
    assert desk.answer("claim", {})["task"]["id"] == made["id"]
    desk.answer("done", {"id": made["id"], "result": "ok"})
    desk.close()
    assert there.queue.store.read([made["id"]])[0].result.output == "ok"


def test_the_board_and_the_library(there):
    with Library.open(there.address) as queue:
        made = queue.add("seen on the board")
    with Board(there.address, opened=Queue.open) as board:
        ask = urllib.request.Request(f"http://{board.host}/", headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(ask) as answer:
            assert "seen on the board" in answer.read().decode()
    with Library.open(there.address) as queue, queue.take("owner-1") as job:
        assert job.task.id == made
    assert there.queue.store.counts()[State.DONE] == 1


def test_a_queue_of_activities_behind_a_gateway(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    root = str(tmp_path / "activities")
    init(root, "activities")
    store = open_store(root, {}, Clock())
    served = Served(Queue(store, store.config, store.clock))
    monkeypatch.setenv("TASKPIT_TOKEN", served.owner)
    far = Queue.open(served.address)
    (made, said), *_ = far.put([Task(id="", title="an item")])
    (claim,) = far.claim("owner")
    said_last = far.finish(claim, Done(output="ok"))[0]
    card = store.read([claim.task.id])[0]
    far.close()
    served.close()
    assert (claim.task.id.startswith(made), said, said_last) == (True, Said.CREATED, Said.OK)
    assert card.state is State.DONE
