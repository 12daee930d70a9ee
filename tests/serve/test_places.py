"""A caller learns nothing of the machine that serves it: no answer names a place there, come what may."""

from __future__ import annotations

import http.client
import json
from pathlib import Path

import msgspec
import pytest
from gateways import Served
from hostility import Yard, folder, link_to_folder, put_in_place
from rotation import part
from waits import PATIENCE

from taskpit.errors import Unavailable
from taskpit.model import Claim, End, Event, Lock, Result, Task, Verdict, Want
from taskpit.queue import Queue
from taskpit.store.http import wire

PLACES = (
    *("food", "claimed", "done", "changelog.log", ".taskpit/tmp", ".taskpit/ids", ".taskpit/sealed", ".taskpit/notes"),
    *(".taskpit/outcomes", ".taskpit/tries", ".taskpit/locks", ".taskpit/logs", ".taskpit/paused", ".taskpit/next"),
    *(".taskpit/quarantine", ".taskpit/workers", ".taskpit/stops", ".taskpit/guard", ".taskpit/late", ".taskpit/index"),
    *(".taskpit/runs", ".taskpit/artifacts", "waste"),
)


def bodies(ids):
    """Each verb with arguments that mean something."""
    task = Task(id="", title="new", slug="new")
    claim = Claim(task=Task(id=ids[2], title="best", slug="best"), worker="w", fence="w")
    lock = msgspec.to_builtins(Lock(name="name", holder="w"))
    result = Result(id=ids[2], verdict=Verdict.DONE, worker="w", output="ok")
    yield "hello", {}
    for verb in ("paused", "counts", "locks", "check", "mend", "fix", "compost", "lapsed"):
        yield verb, {"dry_run": True}
    yield "allot", {"parents": [""]}
    yield "vet", {"tasks": [msgspec.to_builtins(task.replace(id="0099"))]}
    yield "put", {"tasks": [msgspec.to_builtins(task.replace(id="0099"))]}
    yield "claim", {"want": msgspec.to_builtins(Want(worker="w", lease=60.0, ids=(ids[3],)))}
    yield "claim", {"want": msgspec.to_builtins(Want(worker="w", lease=60.0))}
    yield "renew", {"held": [msgspec.to_builtins(claim)], "lease": 60.0}
    yield "finish", {"ends": [msgspec.to_builtins(End(claim=claim, result=result))]}
    yield "reopen", {"tasks": [msgspec.to_builtins(task.replace(id=ids[1]))]}
    yield "stop", {"ids": ids}
    yield "read", {"ids": ids}
    yield "resolve", {"text": "000"}
    yield "page", {"state": None, "after": "", "limit": 50, "tied": False}
    yield "events", {"after": "", "limit": 50}
    yield "latest", {"limit": 50}
    yield "unsettled", {"after": ""}
    yield "record", {"events": [msgspec.to_builtins(Event(timestamp="", action="x", worker="w", worker_type="agent"))]}
    yield "note", {"task_id": ids[3], "text": "x", "worker": "w"}
    yield "keep_log", {"worker": "w", "data": "eA=="}
    yield "artifacts", {"task_id": ids[0]}
    for verb, more in (("read_log", {"start": 0, "size": 9}), ("read_artifact", {"name": "a"})):
        yield verb, {"task_id": ids[0], **more}
    yield "lock", {"name": "other", "worker": "w", "seconds": 5.0, "kind": ""}
    yield "relock", {"lock": lock, "seconds": 5.0}
    yield "unlock", {"lock": lock}
    yield "pause", {"reason": "x", "seconds": 1.0, "worker": "w"}
    yield "resume", {"worker": "w"}
    yield "join", {"worker": "w", "lease": 60.0, "place": "", "who": "x"}


def ask(line, token, path, body):
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    line.request("POST", path, body=body, headers=headers)
    answer = line.getresponse()
    return answer.status, answer.read().decode()


@pytest.mark.parametrize("thing", [link_to_folder, folder], ids=lambda one: one.__name__)
def test_no_answer_names_a_place_of_the_server(thing, tmp_path, monkeypatch):
    """What the disk refused was told with the whole path of the queue there."""
    yard = Yard(tmp_path / "srv-of-the-owner", "pit")
    monkeypatch.setenv("TASKPIT_TRUST", "1")
    refused = 0
    for place in {".taskpit/next", *part(PLACES, 3)}:  # which is refused as either
        yard.fresh()
        queue = Queue.open(yard.root)
        served = Served(queue)
        token = served.token("w", "work", "put", "all")
        put_in_place(yard, place, thing)
        line = http.client.HTTPConnection("127.0.0.1", served.server.port, timeout=PATIENCE)
        answers = [(verb, ask(line, token, f"/q/v1/{verb}", json.dumps(body))) for verb, body in bodies(yard.some)]
        for verb, (status, told) in answers:
            assert status != 500, (place, verb, told)
            assert "srv-of-the-owner" not in told, (place, verb, told)
        line.close()
        served.close()
        refusals = Path(yard.root, ".taskpit/refusals.log")
        told = refusals.read_text(encoding="utf-8") if refusals.exists() else ""
        if any(status == 503 for _, (status, _) in answers):
            assert place.rpartition("/")[2] in told, place  # who serves it learns which file it was
            refused += 1
    assert refused


def test_nor_where_its_database_is():
    said = 'connection to server at "10.0.0.7", port 5432 failed: FATAL: no pg_hba.conf entry for user "boss"'
    address = "postgresql://boss@10.0.0.7/tasks"
    written = wire.write_error(Unavailable(said, hint=f"`pit init {address}`", address=address, sqlstate="28000"))
    assert written["code"] == "unavailable"
    assert "10.0.0.7" not in json.dumps(written)
    assert "boss" not in json.dumps(written)
    assert wire.write_error(Unavailable("others were faster"))["message"] == "others were faster"
