"""What people do on the board is what the queue's verbs do; what is refused changes nothing."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from boards import TOKEN, Served, fill

from taskpit import transfer
from taskpit.errors import Lost
from taskpit.model import Ask, Done, End, Failed, Result, Said, State, Task, Verdict, Want
from taskpit.run import steering
from taskpit.store.memory import MemoryStore


@pytest.fixture
def one(queue):
    return fill(queue, 1)[0]


def act(board, task_id, verb, **form):
    answer = board.post(f"/task/{task_id}/{verb}", form, hx_request="true")
    text = re.sub(r"<button.*?</button>", "", answer.text)
    return answer.status, re.sub(r"<[^>]+>", "", text).strip()


def undo(board):
    answer = board.post("/undo", {}, hx_request="true")
    return answer.status, re.sub(r"<[^>]+>", "", answer.text).strip()


def test_a_task_from_the_form(queue, board):
    fill(queue, 1)
    form = {
        "title": "Grüße  <b>",
        "body": "line\r\ntwo",
        "check": "make test",
        "priority": "7",
        "tags": "web, ui",
        "needs": "1",
    }
    answer = board.post("/tasks", form)
    assert answer.status == 303
    assert answer.headers["location"] == "/task/0002"
    task = queue.card("0002").task
    assert (task.title, task.body.strip(), task.check) == ("Grüße <b>", "line\ntwo", "make test")
    assert (task.priority, task.tags, task.needs, task.by) == (7, ("web", "ui"), ("0001",), "ada@home")


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({}, "needs a title"),
        ({"title": "  "}, "needs a title"),
        ({"title": "x", "priority": "high"}, "not a priority"),
        ({"title": "x", "needs": "0099"}, "there is no task"),
        ({"title": "x", "needs": "../../x"}, "no such task"),
        ({"title": "x" * 3_000_000}, "is the most"),
        ({f"field{n}": "x" for n in range(200)}, "not understood"),
    ],
)
def test_a_bad_form_changes_nothing(shared, form, told):
    answer = shared.post("/tasks", form)
    assert answer.status in (400, 404, 413), answer.status
    assert told in answer.text
    assert sum(shared.queue.store.counts().values()) == 60


def test_hold_and_let_go(queue, board, one):
    assert act(board, one, "block", text="too  early") == (200, "0001 is blocked: too early")
    assert queue.card(one).held == "too early"
    assert act(board, one, "unblock") == (200, "0001 is ready")
    assert queue.card(one).held == ""


def test_priority(queue, board, one):
    assert act(board, one, "priority", priority="-4") == (200, "0001 has priority -4")
    assert queue.card(one).task.priority == -4
    assert act(board, one, "priority", priority="1e9")[0] == 400
    assert queue.card(one).task.priority == -4


def test_cancel_and_retry(queue, board, one):
    assert act(board, one, "cancel", text="no need") == (200, "0001 is cancelled")
    assert queue.card(one).state is State.FAILED
    assert act(board, one, "retry") == (200, "0001 is ready again")
    assert queue.card(one).state is State.READY
    queue.finish(queue.claim("snake", ids=[one])[0], Done())
    assert act(board, one, "retry")[0] == 409
    assert queue.card(one).state is State.DONE


def test_what_was_done_last_is_undone(queue, board, one):
    before = queue.card(one).task.wish()
    form = {"title": "another", "body": "text", "priority": "3"}
    for verb, more in (("edit", form), ("block", {"text": "later"}), ("priority", {"priority": "9"}), ("cancel", {})):
        answer = board.post(f"/task/{one}/{verb}", more, hx_request="true")
        assert 'hx-post="/undo"' in answer.text, verb
        assert queue.card(one).task.wish() != before or queue.card(one).state is State.FAILED
        assert undo(board)[0] == 200, verb
        assert (queue.card(one).task.wish(), queue.card(one).state) == (before, State.READY), verb
    assert act(board, one, "note", text="hello")[0] == 200
    queue.finish(queue.claim("ada@home", ids=[one])[0], Done())
    status, told = undo(board)
    assert status == 409
    assert "the last thing you did cannot be taken back: 0001 was completed" in told
    assert queue.card(one).state is State.DONE


def test_whoever_works_is_asked_to_stop(queue, board, one):
    claim = queue.claim("snake", ids=[one])[0]
    assert act(board, one, "cancel") == (200, "0001: its worker was asked to stop")
    assert queue.renew(claim) is Said.CANCEL


def test_a_task_taken_back_is_its_workers_no_more(queue, board, one):
    claim = queue.claim("snake", ids=[one])[0]
    assert act(board, one, "release") == (200, "0001 is given back")
    assert queue.card(one).state is State.READY
    assert queue.renew(claim) is Said.LOST
    assert queue.finish(claim, Done(output="too late"))[0] is Said.LOST
    assert act(board, one, "release")[0] == 409  # nobody has it
    with pytest.raises(Lost):
        queue.holding(one, claim.fence)


def test_an_answer_sets_it_going(queue, board, one):
    queue.finish(queue.claim("snake", ids=[one])[0], Ask(question="blue or green?"))
    assert act(board, one, "answer", text=" ")[0] == 400
    assert queue.card(one).held
    assert act(board, one, "answer", text="green") == (200, "0001 goes on")
    card = queue.card(one)
    assert not card.held
    assert "green" in card.task.body
    assert act(board, one, "answer", text="blue")[0] == 409


def test_a_note(queue, board, one):
    assert act(board, one, "note", text="first\nsecond")[0] == 200
    assert "second" in queue.card(one).notes
    assert act(board, one, "note", text="")[0] == 400


def test_a_word_for_the_agent_that_works(queue, board, one, tmp_path, monkeypatch):
    assert act(board, one, "tell", text="blue") == (
        200,
        "0001: no agent is working on it; the next attempt will read it",
    )
    assert 'formaction="/task/0001/tell"' in board.get(f"/task/{one}").text
    claim = queue.claim("snake", ids=[one])[0]
    monkeypatch.setattr("taskpit.run.run_directory.directory_for", lambda *_: str(tmp_path))
    steering.offer(str(tmp_path), "hook")
    assert act(board, one, "tell", text="mind the gap") == (200, "0001: its agent reads it after the next step")
    assert "mind the gap" in steering.take(str(tmp_path))
    assert "told: mind the gap" in queue.card(one).notes
    queue.finish(claim, Done())
    assert act(board, one, "tell", text="too late")[0] == 400
    assert "tell its agent" not in board.get(f"/task/{one}").text.lower()


def test_what_is_no_action(queue, board, one):
    assert act(board, one, "destroy")[0] == 404
    assert board.ask("GET", f"/task/{one}/cancel").status in (404, 405)
    assert queue.card(one).state is State.READY


# -- files -----------------------------------------------------------------------------------------


def drop(board, name, data, **headers):
    return board.ask("POST", f"/files?name={name}", data, hx_request="true", **headers)


def test_a_dropped_file_is_a_task(queue, board):
    answer = drop(board, "idea.md", b"# Build a boat\n\nwith **oars**\n")
    assert answer.status == 200
    card = queue.card("0001")
    assert (card.task.title, card.task.by) == ("Build a boat", "ada@home")
    assert "**oars**" in card.task.body


def test_a_dropped_file_of_many(queue, board):
    records = [{"title": "one", "priority": "P1"}, {"title": "two", "tags": ["a"]}]
    assert drop(board, "list.json", json.dumps(records).encode()).status == 200
    assert [queue.card(i).task.title for i in ("0001", "0002")] == ["one", "two"]
    lines = b'{"id": "0007", "title": "seven"}\n{"id": "0008", "title": "eight"}\n'
    assert drop(board, "more.jsonl", lines).status == 200
    assert queue.card("0008").task.title == "eight"
    assert drop(board, "more.jsonl", lines).status == 200  # again is fine


def test_a_file_that_is_dropped_again_makes_no_second_tasks(queue, board):
    for _ in range(2):
        assert drop(board, "idea.md", b"# Build a boat\n\nwith **oars**\n").status == 200
    assert "nothing new" in drop(board, "list.json", b'[{"title": "Build a boat", "body": "with **oars**"}]').text
    assert queue.store.counts()[State.READY] == 1


def test_a_trackers_file_that_is_dropped_is_read_as_pit_import_reads_it(queue, board):
    shut = '{"id":"bd-2","title":"Set up","status":"closed","issue_type":"task"}\n'
    lines = '{"id":"bd-1","title":"Log in","status":"open","issue_type":"feature","priority":0}\n' + shut
    for told in ("is added", "nothing new"):
        answer = drop(board, "issues.jsonl", lines.encode())
        assert (answer.status, told in answer.text) == (200, True), answer.text
    (card,) = queue.store.page().cards
    assert (card.task.title, card.task.extra["origin"]) == ("Log in", "beads:bd-1")
    bad = drop(board, "issues.jsonl", (lines + '{"id":"bd-3","status":"open","issue_type":"task"}\n').encode())
    assert (bad.status, "issues.jsonl" in bad.text) == (400, True)


def test_an_export_that_is_dropped_is_brought_in_whole(queue, board):
    store = MemoryStore()
    store.put([Task(id="0007", title="seven"), Task(id="0008", title="eight")])
    claim = store.claim(Want(worker="ann", lease=60, ids=("0007",)))[0]
    store.finish([End(claim=claim, result=Result(id="0007", verdict=Verdict.DONE, output="all of it"))])
    data = "\n".join(transfer.dump(store)).encode()
    for told in ("are added", "nothing new"):
        answer = drop(board, "queue.jsonl", data)
        assert (answer.status, told in answer.text) == (200, True), answer.text
    assert (queue.card("0007").state, queue.card("0007").result.output) == (State.DONE, "all of it")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.exe", b"MZ"),
        ("x.json", b"{"),
        ("x.json", b'[{"title": "good"}, {"body": "no title"}]'),
        ("x.jsonl", b'{"title": "good"}\nbroken\n'),
        ("x.md", b"\xff\xfe\x00"),
        ("x.md", b"x" * 1_100_000),
        ("..%2f..%2fetc%2fpasswd", b"x"),
        ("", b"x"),
    ],
)
def test_a_bad_file_changes_nothing(shared, name, data):
    answer = drop(shared, name, data)
    assert answer.status in (400, 413)
    assert 'class="toast bad"' in answer.text
    assert sum(shared.queue.store.counts().values()) == 60


# -- who may -----------------------------------------------------------------------------------------


def test_with_a_cookie_alone_nothing_changes(queue, board, one):
    """A browser sends its cookie with whatever any page makes it send: the word of our own pages must be there too."""
    moved = board.get(f"/?token={TOKEN}", authorization="", accept="text/html")
    assert moved.status == 303
    cookie = moved.headers["set-cookie"].partition(";")[0]
    word = moved.headers["location"].partition("#word=")[2]
    page = board.get("/", authorization="", cookie=cookie, x_csrf_token=word)
    csrf = re.search(r'data-csrf="([^"]+)"', page.text)[1]
    assert csrf == word

    def note(**more):
        form = {"text": "x", **more.pop("form", {})}
        return board.post(f"/task/{one}/note", form, authorization="", cookie=cookie, **more).status

    assert note() == 403
    assert note(x_csrf_token="wrong") == 403
    assert queue.card(one).notes == ""
    assert note(x_csrf_token=csrf) == 303
    assert note(form={"csrf": csrf}) == 303
    assert queue.card(one).notes.count("x") == 2
    denied = board.ask("POST", "/files?name=a.md", b"# a", authorization="", cookie=cookie)
    assert denied.status == 403


def test_read_only_means_it(queue, root, one):
    queue.put([Task(id="0002", title="asks")])
    queue.finish(queue.claim("snake", ids=["0002"])[0], Ask(question="well?"))
    queue.put([Task(id="0003", title="failed")])
    queue.finish(queue.claim("snake", ids=["0003"])[0], Failed(error="x", final=True))
    with Served(root, read_only=True) as board:
        for path in ("/", "/task/0001", "/task/0002", "/task/0003", "/agents"):
            text = board.get(path).text
            assert "<form method" not in text, path
            assert 'id="add"' not in text
        for path in ("/tasks", "/files?name=a.md", f"/task/{one}/cancel", "/task/0002/answer"):
            answer = board.post(path, {"title": "x", "text": "x"})
            assert (answer.status, answer.json["error"]["code"]) == (403, "read_only")
    assert queue.card(one).state is State.READY
    assert queue.card("0002").held


def test_a_template_is_listed_filled_and_refused_with_its_place(queue, root, board):
    os.makedirs(f"{root}/templates")
    text = "Find it.\n- **fields:** area, severity=low\n\n# find: Find the bug in {area}\n\n# fix: Fix it\n"
    Path(f"{root}/templates/bug.md").write_text(f"{text}- **needs:** find\n", encoding="utf-8")
    assert '<a href="/template/bug">bug</a>' in board.get("/").text
    page = board.get("/template/bug").text
    assert 'name="area" autocomplete="off" maxlength="500" required' in page
    assert 'placeholder="low"' in page
    refused = board.post("/template/bug", {"severity": "high"})
    assert (refused.status, refused.json["error"]["message"]) == (400, "bug wants area")
    refused = board.post("/template/bug", {"area": "api", "sevrity": "high"})
    assert refused.json["error"]["hint"] == "Did you mean 'severity'?"
    assert board.get("/template/bgu").json["error"]["hint"] == "Did you mean 'bug'?"
    assert queue.store.counts()[State.READY] == 0
    assert board.post("/template/bug", {"area": "<b>api"}).status == 303
    found = {card.task.title: card.task for card in queue.store.page().cards}
    assert found["Fix it"].needs == (found["Find the bug in <b>api"].id,)
    assert found["Fix it"].by == "ada@home"
