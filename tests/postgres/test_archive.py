"""Done tasks that leave the database for a file: found as before, whatever crashes in between."""

from __future__ import annotations

import gzip
import json
import os

import pytest

from taskpit.model import End, Result, Said, State, Task, Try, Verdict, Want
from taskpit.store.postgres import archive
from taskpit.store.postgres.address import parse
from taskpit.store.postgres.store import PostgresStore
from taskpit.testing import FakeClock

DAY = 86400.0
#: The tenth of November 2026, the third of December.
NOVEMBER, DECEMBER = 1794268800.0, 1796256000.0


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def store(server):
    store = server.queue(FakeClock())
    store.clock.advance(NOVEMBER - store.clock.now())
    yield store
    store.close()


def finish(store, task_id, **fields):
    (claim,) = store.claim(Want(worker="w", lease=60.0, ids=(task_id,)))
    result = Result(
        id=task_id,
        verdict=Verdict.DONE,
        worker=claim.fence,
        output=f"did {task_id}",
        finished=store.clock.now(),
        **fields,
    )
    assert store.finish([End(claim=claim, result=result, action="completed_task")]) == [Said.OK]


def filled(store):
    """Two of November, one with a try and a note; one of December; one that needs the first."""
    store.put([Task(id=f"000{n}", title=f"task {n}", body=f"text {n}", tags=("x",)) for n in (1, 2, 3)])
    (claim,) = store.claim(Want(worker="w", lease=60.0, ids=("0001",)))
    store.finish([End(claim=claim, attempt=Try(at=1.0, worker="w", kind="task", error="no"), action="retried_task")])
    store.note("0001", "look", "ann")
    finish(store, "0001")
    finish(store, "0002")
    store.clock.advance(DECEMBER - store.clock.now())
    finish(store, "0003")
    store.put([Task(id="0004", title="after", needs=("0001",))])


def seen(store):
    return [card.as_dict() | {"since": 0} for card in store.read(["0001", "0002", "0003", "0004"])]


def test_archived_tasks_are_found_as_before(server, store):
    filled(store)
    before = seen(store)
    assert [(one.what, one.details) for one in store.archive(20 * DAY, dry_run=True)] == [
        ("0001", ".taskpit/archive/2026-11.jsonl.gz"),
        ("0002", ".taskpit/archive/2026-11.jsonl.gz"),
    ]
    assert seen(store) == before
    assert len(store.archive(20 * DAY)) == 2
    assert store.archive(20 * DAY) == []
    assert seen(store) == before
    assert store.counts()[State.DONE] == 3
    assert store.put([Task(id="0001", title="other")]) == [Said.CONFLICT]
    assert [claim.task.id for claim in store.claim(Want(worker="w", lease=60.0))] == ["0004"]
    kept = server.sql(f"SELECT doc, result FROM {store.database.schema}.task WHERE id = '0001'")[0]
    assert "text 1" not in kept[0]
    assert "did" not in kept[1]
    with gzip.open(
        f"{store.info().papers}/.taskpit/archive/2026-11.jsonl.gz", "rt", encoding="utf-8", errors="replace"
    ) as file:
        assert [json.loads(line)["id"] for line in file] == ["0001", "0002"]


def test_a_crash_between_file_and_database_leaves_it_in_both(store, monkeypatch):
    filled(store)
    before = seen(store)
    ask = store._ask

    def crashes(name, **words):
        if name == "archive":
            raise KeyboardInterrupt
        return ask(name, **words)

    monkeypatch.setattr(store, "_ask", crashes)
    with pytest.raises(KeyboardInterrupt):
        store.archive(20 * DAY)
    monkeypatch.undo()
    assert seen(store) == before
    assert len(store.archive(20 * DAY)) == 2
    assert seen(store) == before


def test_in_pieces_and_by_another_process(store, monkeypatch):
    monkeypatch.setattr(archive, "TOGETHER", 1)
    filled(store)
    store.clock.advance(1.0)
    before = seen(store)
    assert len(store.archive(0.0)) == 3
    other = PostgresStore(parse(store.address.whole), clock=store.clock)
    assert [card.as_dict() | {"since": 0} for card in other.read(["0001", "0002", "0003", "0004"])] == before
    other.close()


def test_where_the_file_is_not_it_says_so(store):
    filled(store)
    store.archive(20 * DAY)
    folder = f"{store.info().papers}/.taskpit/archive"
    for name in os.listdir(folder):
        os.remove(f"{folder}/{name}")
    card = store.read(["0001"])[0]
    assert (card.state, card.task.title) == (State.DONE, "task 1")
    assert "archived in 2026-11.jsonl.gz, which is not on this machine" in card.result.output
    with open(f"{folder}/2026-11.index", "w", encoding="utf-8") as file:
        file.write("0 0001\nx y\n99999 0002\n")
    with open(f"{folder}/2026-11.jsonl.gz", "wb") as file:
        file.write(b"no such thing")
    assert "not on this machine" in store.read(["0002"])[0].result.output


def test_the_verb(store, capsys):
    from taskpit.cli.main import main

    filled(store)
    assert main(["-C", store.address.whole, "archive", "--older", "0s"]) == 0
    assert "2 results now in .taskpit/archive/2026-11.jsonl.gz" in capsys.readouterr().out
    assert main(["-C", store.address.whole, "show", "0001"]) == 0
    assert "did 0001" in capsys.readouterr().out
