"""What runs on another machine print and leave: read while they run, kept with their task, and nobody else's."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import msgspec
import pytest
from gateways import Cutter
from waits import PATIENCE, until

from taskpit.crew.log_tail import Tail, log_of_task
from taskpit.errors import Denied, Invalid, Lost, NotFound, TooLarge
from taskpit.model import Task, Want
from taskpit.run import log_stream
from taskpit.run.log_stream import LogStream
from taskpit.run.run_directory import RunDirectory
from taskpit.store import run_files
from taskpit.store.http import wire
from taskpit.store.http.connection import Request, new_call
from taskpit.store.memory import MemoryStore

LEASE = 60.0


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def put(served, *ids):
    served.queue.store.put([Task(id=one, title=one, slug=one) for one in ids])


def pit(served, *words, token):
    return subprocess.run(
        [sys.executable, "-m", "taskpit", "-C", served.address, *words],
        env={**os.environ, "TASKPIT_TOKEN": token, "NO_COLOR": "1"},
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    ).stdout


def test_a_run_elsewhere_is_read_while_it_runs_and_leaves_files(served, tmp_path):
    """Its pool has a home of its own; others see what it prints through the gateway, and its files when it is over."""
    put(served, "0001")
    go_on = tmp_path / "go-on"
    command = (
        f"echo first; while [ ! -e '{go_on}' ]; do sleep 0.05; done; echo last; mkdir -p '{{run_dir}}/artifacts'; "
        "cd '{run_dir}/artifacts'; printf '\\377\\000bytes' > a.bin; echo text > b.txt; ln -s /etc/passwd link; "
        "mkfifo pipe; mkdir folder; head -c 20000000 /dev/zero > large; echo x > '..x'"
    )
    pool = subprocess.Popen(
        [
            *(sys.executable, "-m", "taskpit", "-C", served.address, "work", "--until", "empty"),
            *("--", "sh", "-c", command),
        ],
        env={
            **os.environ,
            "TASKPIT_TOKEN": served.token("ann"),
            "XDG_STATE_HOME": str(tmp_path / "there"),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        stdout=subprocess.DEVNULL,
    )
    look, store = served.token("eve", "look"), served.store(served.token("liz", "look"))
    until(lambda: store.read_log("0001", 0, 100) == (b"first\n", 6), pool)
    assert pit(served, "show", "1", "--log", token=look) == b"first\n"
    tail = Tail(log_of_task(store, store.read(["0001"])[0]))  # as boards read it
    assert tail.more() == "first\n"
    assert tail.more() == ""
    assert tail.path == log_of_task(store, store.read(["0001"])[0])
    go_on.touch()
    assert pool.wait(PATIENCE) == 0

    assert Tail(log_of_task(store, store.read(["0001"])[0])).more().startswith("first\nlast\n")
    said = pit(served, "show", "1", "--log", token=look).decode()
    assert said.startswith("first\nlast\n")
    for name in ("link", "pipe", "folder", "large", "..x"):
        assert f"artifacts/{name} was not kept" in said
    assert pit(served, "show", "1", "--artifact", "a.bin", token=look) == b"\xff\0bytes"
    shown = json.loads(pit(served, "--json", "show", "1", token=look))["data"]
    assert [one["name"] for one in shown["artifacts"]] == ["a.bin", "b.txt"]
    kept = shown["result"]["log"]
    assert os.path.exists(f"{served.queue.store.info().where}/{kept}")
    assert os.listdir(f"{served.queue.store.info().where}/.taskpit/runs") == []  # nothing of it is left over
    store.close()


def test_pieces_whose_answers_are_lost_are_there_once(served):
    put(served, "0001")
    cutter = Cutter(served.server.port)
    remote = cutter.store(served.owner)
    (claim,) = remote.claim(Want(worker="ann", lease=LEASE))
    for start, data in ((0, b"one"), (3, b"two")):
        cutter.swallow = 1
        assert remote.add_log(claim, start, data) == start + 3
        assert cutter.swallowed.acquire(timeout=PATIENCE)
    cutter.swallow = 1
    remote.keep_artifact(claim, "a", b"x", sha256(b"x"))
    cutter.swallow = 1
    place = remote.end_log(claim)
    with open(f"{served.queue.store.info().where}/{place}", "rb") as file:
        assert file.read() == b"onetwo"
    assert [one.name for one in remote.artifacts("0001")] == ["a"]
    remote.close()
    cutter.close()


def test_nobody_adds_to_what_another_token_has(served):
    put(served, "0001", "0002")
    ann, bob, eve = (
        served.store(served.token(name, right)) for name, right in (("ann", "work"), ("bob", "work"), ("eve", "look"))
    )
    (claim,) = ann.claim(Want(worker="ann", lease=LEASE))
    ann.add_log(claim, 0, b"secret")
    ann.keep_artifact(claim, "a", b"x", sha256(b"x"))
    forged = claim.replace(worker="bob", fence=claim.fence.replace("ann", "bob"))
    for store, one, error in ((bob, claim, Denied), (eve, claim, Denied), (bob, forged, Lost)):
        for act in (
            lambda store=store, one=one: store.add_log(one, 0, b""),
            lambda store=store, one=one: store.end_log(one),
            lambda store=store, one=one: store.keep_artifact(one, "a", b"y", sha256(b"y")),
        ):
            with pytest.raises(error):
                act()
    assert eve.read_log("0001", 0, 100) == (b"secret", 6)
    assert eve.read_artifact("0001", "a") == b"x"
    with pytest.raises(NotFound):
        eve.read_log("../../etc/passwd", 0, 100)
    for store in (ann, bob, eve):
        store.close()


def test_a_result_that_names_another_file_as_its_log_shows_nothing_of_it(served):
    """A worker says where its log is: what it names is read only if it is a log."""
    put(served, "0001")
    ann = served.store(served.token("ann"))
    root = served.queue.store.info().where
    (claim,) = ann.claim(Want(worker="ann", lease=LEASE))
    os.symlink("/etc/passwd", f"{root}/waste/link.log")
    from taskpit.model import End, Result, Verdict

    for number, name in enumerate(
        (".taskpit/tokens.json", "waste/../.taskpit/tokens.json", "/etc/passwd", "waste/link.log")
    ):
        result = Result(id="0001", verdict=Verdict.FAILED, worker=claim.fence, log=name)
        assert ann.finish([End(claim=claim, result=result, action="failed_task")])
        assert ann.read_log("0001", 0, 100) == (b"", 0)
        served.queue.store.reopen([claim.task.replace(attempts=number + 1)])
        (claim,) = ann.claim(Want(worker="ann", lease=LEASE))
    ann.close()


def send(store, verb, body):
    """A call that no client of ours would make."""
    return store._line.ask(Request(verb, json.dumps({**body, "call": new_call()}).encode(), changes=True))


def test_bodies_that_are_cut_or_forged_keep_nothing(served):
    put(served, "0001")
    ann = served.store(served.token("ann"))
    (claim,) = ann.claim(Want(worker="ann", lease=LEASE))
    whole = b"the whole file"
    good = {
        "claim": msgspec.to_builtins(wire.light(claim)),
        "name": "a",
        "data": base64.b64encode(whole).decode(),
        "sha256": sha256(whole),
    }
    for changed in (
        {"data": base64.b64encode(whole[:5]).decode()},
        {"data": "not base64"},
        {"data": None},
        {"sha256": "0" * 64},
        {"sha256": ""},
        {"name": "../a"},
        {"name": 5},
        {"claim": {}},
    ):
        with pytest.raises(Invalid):
            send(ann, "keep_artifact", {**good, **changed})
    for start in (-1, 2**60, "0", None):
        body = {"claim": msgspec.to_builtins(wire.light(claim)), "start": start, "data": "eA=="}
        with pytest.raises((Invalid, TooLarge)):
            send(ann, "add_log", body)
    assert ann.artifacts("0001") == []
    assert ann.read_log("0001", 0, 10) == (b"", 0)
    ann.close()


# -- the stream itself -----------------------------------------------------------------------------


class Streamed:
    """A run whose log is sent to a store that counts what it is sent."""

    def __init__(self, folder):
        self.store = MemoryStore()
        self.store.put([Task(id="0001", title="t")])
        (claim,) = self.store.claim(Want(worker="ann", lease=LEASE))
        self.claim = claim
        self.place = RunDirectory(str(folder))
        self.sent = []
        add = self.store.add_log
        self.store.add_log = lambda claim, start, data: self.sent.append(data) or add(claim, start, data)
        self.stream = LogStream(self.store, SimpleNamespace(claim=claim, place=self.place))

    def printed(self, data, name="log"):
        with open(f"{self.place.path}/{name}", "ab") as file:
            file.write(data)
        self.stream.step()

    def live(self):
        return self.store.read_log("0001", 0, 1 << 30)[0]

    def kept(self, data):
        return self.store._logs[self.stream.end(data)]


@pytest.fixture
def streamed(tmp_path):
    return Streamed(tmp_path)


def test_only_what_is_new_is_sent(streamed):
    for piece in (b"one\n", b"two\n", b""):
        streamed.printed(piece)
    assert streamed.live() == b"one\ntwo\n"
    assert streamed.kept(b"one\ntwo\nthree\n") == b"one\ntwo\nthree\n"
    assert streamed.sent == [b"one\n", b"two\n", b"three\n"]
    streamed.printed(b"more")  # it is over
    assert streamed.stream.end(b"") == streamed.stream.end(b"x")


def test_a_log_that_was_cut_or_is_put_together_at_the_end_is_sent_again(streamed):
    streamed.printed(b"events\n", "events")
    assert streamed.live() == b"events\n"
    assert streamed.kept(b"errors\nevents\n") == b"errors\nevents\n"


def test_a_log_that_lost_its_beginning_begins_again(streamed):
    streamed.printed(b"a long beginning\n")
    with open(streamed.place.log, "wb"):
        pass
    streamed.printed(b"[cut]\n")
    assert streamed.live() == b"[cut]\n"
    assert streamed.kept(b"[cut]\nend\n") == b"[cut]\nend\n"


def test_a_store_that_lost_its_last_moments_is_sent_them_again(streamed):
    streamed.printed(b"one\n")
    streamed.store._logs[streamed.claim.fence] = b""
    streamed.printed(b"two\n")
    streamed.stream.step()
    assert streamed.live() == b"one\ntwo\n"


def test_of_a_log_that_is_too_long_the_end_is_kept(streamed, monkeypatch):
    monkeypatch.setattr(run_files, "LARGEST_LOG", 6)
    streamed.printed(b"123456")
    streamed.printed(b"789")
    assert streamed.live() == b"123456"
    assert streamed.kept(b"6789") == b"6789"


def test_what_is_short_is_sent_once_and_nothing_not_at_all(streamed):
    assert streamed.kept(b"short") == b"short"
    assert streamed.sent == []
    assert LogStream(streamed.store, SimpleNamespace(claim=streamed.claim, place=streamed.place)).end(b"") == ""


def test_logs_go_only_where_others_cannot_read_them_here(served):
    assert not log_stream.is_elsewhere(served.queue.store)
    store = served.store()
    assert log_stream.is_elsewhere(store)
    store.close()
