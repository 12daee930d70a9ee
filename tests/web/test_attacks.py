"""What strangers try: refused or harmless, and the board stays up."""

from __future__ import annotations

import os
import re
import resource
import socket

import pytest
from boards import TOKEN, Served, fill
from waits import PATIENCE

from taskpit.model import Ask, Done, State, Task
from taskpit.store.http.limits import Limits

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{7*7}}\u202e\x1b[31m"


def well(board):
    return board.get("/").status == 200 and board.get("/healthz", authorization="").status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost@evil"])
def test_another_name_is_not_ours(shared, host):
    assert shared.get("/", host=host or " ").status in (400, 421)
    assert shared.get("/healthz", host=host or " ").status in (400, 421)
    assert well(shared)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "file://"])
def test_a_page_of_somebody_else_gets_nothing(shared, origin):
    assert shared.post("/task/0001/cancel", origin=origin).status == 403
    assert shared.get("/events", origin=origin).status == 403
    assert shared.queue.card("0001").state is State.READY


@pytest.mark.parametrize("path", ["/", "/events", "/task/0001", "/metrics", "/plots", "/nowhere"])
def test_nothing_without_the_token(shared, path):
    for wrong in ("", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"):
        answer = shared.get(path, authorization=wrong)
        assert answer.status == 401
        assert "task number" not in answer.text
    assert shared.get(f"{path}?token=wrong", authorization="").status == 401


def test_the_token_leaves_the_address_at_once(shared):
    moved = shared.get(f"/?token={TOKEN}", authorization="", accept="text/html")
    assert (moved.status, moved.headers["location"].partition("word=")[0]) == (303, "/#")
    cookie = moved.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert moved.headers["referrer-policy"] == "no-referrer"


def test_what_a_task_says_is_only_shown(queue, board):
    links = "[a](javascript:alert(1)) [b](data:text/html,x) [c](https://ok.example) ![p](http://evil.example/p.png)"
    queue.put(
        [
            Task(
                id="0001",
                title=HOSTILE,
                body=f"{HOSTILE}\n\n{links}\n",
                tags=("<b>",),
                check=HOSTILE.partition("\u202e")[0],
            )
        ]
    )
    queue.note("0001", HOSTILE, "ann")
    queue.finish(queue.claim("snake", ids=["0001"])[0], Ask(question=HOSTILE))
    queue.put([Task(id="0002", title="done", needs=())])
    queue.finish(queue.claim("snake", ids=["0002"])[0], Done(output=f"{HOSTILE} {links}", reason=HOSTILE))
    for path in (
        "/",
        "/task/0001",
        "/task/0001/part",
        "/task/0002",
        "/search?q=alert",
        "/plots?span=all",
        "/agents",
        "/columns?q=%3Cscript%3E",
    ):
        text = board.get(path).text
        for tag in re.findall(r"<[a-zA-Z][^>]*>", text):
            assert not re.match(r"<script(?! src=\"/static/)", tag), (path, tag)
            assert not re.match(r"<img(?! src=\"/static/)", tag), (path, tag)
            assert not re.search(r"\son\w+\s*=", re.sub(r'"[^"]*"', "", tag)), (path, tag)
        assert 'href="javascript' not in text
        assert 'href="data' not in text
        assert 'evil.example/p.png"' not in re.sub(r'title="[^"]*"', "", text)
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "49" not in re.findall(r"`(\d+)", text)  # nothing of it is a template
    page = board.get("/task/0001").text
    assert '<a href="https://ok.example" rel="noopener noreferrer nofollow" target="_blank">c</a>' in page
    with board.listen("/events?after=x") as ear:
        ear.event()
        queue.put([Task(id="0003", title=HOSTILE)])
        card = ear.until(lambda name, data: name == "board" and data["set"])["set"][0]["html"]
    assert "<script" not in card
    assert "<img" not in card


@pytest.mark.parametrize(
    "path",
    [
        "/task/..%2f..%2f..%2fetc%2fpasswd",
        "/task/../../etc/passwd",
        "/task/%2e%2e",
        "/task/.taskpit",
        "/task/%00",
        "/task/" + "9" * 5000,
        "/task/%F0%9F%98%80",
        "/agent/..%2f..%2fconfig",
        "/agent/..",
        "/agent/.plan",
        "/static/../paper.py",
        "/static/..%2fpaper.py",
        "/static//etc/passwd",
        "/column/..",
    ],
)
def test_a_path_leads_nowhere(shared, path):
    for address in (path, f"{path}/events", f"{path}/part"):
        answer = shared.get(address)
        assert answer.status in (400, 404)
        assert "root:" not in answer.text
    assert well(shared)


def test_a_result_cannot_show_other_files(queue, root, board, tmp_path):
    """A result names its log; one that names a file elsewhere, or a link to one, gets nothing."""
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    os.symlink(secret, f"{root}/waste/link.log")
    for task_id, log in zip(fill(queue, 4), (str(secret), "../secret", "waste/link.log", "waste"), strict=True):
        queue.finish(queue.claim("snake", ids=[task_id])[0], Done(log=log))
        assert 'id="log-section" hidden' in board.get(f"/task/{task_id}").text


def test_a_kept_log_is_shown(queue, board):
    (task_id,) = fill(queue, 1)
    kept = queue.store.keep_log("snake", b"what it said\n")
    queue.finish(queue.claim("snake", ids=[task_id])[0], Done(log=kept))
    assert 'id="log-section" aria' in board.get(f"/task/{task_id}").text
    with board.listen(f"/task/{task_id}/events") as ear:
        assert ear.until(lambda name, _: name == "log")["text"] == "what it said\n"


def send(board, head, chunks):
    """Whatever is answered before the sender has finished, or after."""
    with socket.create_connection(("127.0.0.1", board.port), timeout=PATIENCE) as line:
        line.sendall(head.encode())
        sent = 0
        try:
            for chunk in chunks:
                line.sendall(chunk)
                sent += len(chunk)
        except OSError:
            pass  # they have hung up: that is an answer too
        try:
            return sent, line.recv(4096)
        except OSError:
            return sent, b""


def test_a_hundred_megabytes_are_not_taken(shared):
    board = shared
    head = f"POST /files?name=x.md HTTP/1.1\r\nHost: {board.host}\r\nAuthorization: Bearer {TOKEN}\r\n"
    piece = b"x" * 65536
    told, answer = send(board, f"{head}Content-Length: 104857600\r\n\r\n", (piece for _ in range(1600)))
    assert answer == b"" or b" 413 " in answer.split(b"\r\n")[0]
    assert told < 50_000_000
    chunk = b"10000\r\n" + piece + b"\r\n"
    told, answer = send(board, f"{head}Transfer-Encoding: chunked\r\n\r\n", (chunk for _ in range(1600)))
    assert answer == b"" or b" 411 " in answer.split(b"\r\n")[0]
    assert told < 50_000_000
    assert well(board)
    assert sum(shared.queue.store.counts().values()) == 60


def test_a_thousand_who_dawdle_keep_nobody_out(queue, board):
    """More half requests than a server has room for: the oldest of them go, whoever asks properly is served."""
    fill(queue, 3)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    lines = []
    try:
        for number in range(1000):
            lines.append(socket.create_connection(("127.0.0.1", board.port), timeout=PATIENCE))
            lines[-1].sendall(b"GET / HTTP/1.1\r\nHost: 127" if number % 2 else b"POST /tasks HTTP/1.1\r\n")
            if number % 200 == 199:
                assert well(board)
    finally:
        for line in lines:
            line.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert well(board)


def test_two_hundred_who_dawdle(queue, board):
    """Half a request each; everybody else is served."""
    fill(queue, 3)
    lines = [socket.create_connection(("127.0.0.1", board.port), timeout=PATIENCE) for _ in range(200)]
    try:
        for number, line in enumerate(lines):
            line.sendall(b"GET / HTTP/1.1\r\nHost: 127" if number % 2 else b"POST /tasks HTTP/1.1\r\n")
        for _ in range(5):
            assert well(board)
        with board.listen("/events") as ear:
            ear.event()
            queue.put([Task(id="0009", title="still alive")])
            assert ear.until(lambda name, data: name == "board" and data["set"])["set"][0]["id"] == "0009"
    finally:
        for line in lines:
            line.close()
    assert well(board)


@pytest.mark.races
def test_who_dawdles_is_not_waited_for(queue, root):
    half = [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127",
        b"POST /tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n"
        + f"Authorization: Bearer {TOKEN}\r\n\r\nx".encode(),
    ]
    with Served(root, limits=Limits(patience=0.3)) as board, board.listen("/events") as ear:
        for sent in half:
            with socket.create_connection(("127.0.0.1", board.port), timeout=PATIENCE) as line:
                line.sendall(sent)
                assert line.recv(4096) == b""  # they have hung up
        ear.event()
        queue.put([Task(id="0001", title="x")])  # who listens is not one who dawdles
        assert ear.until(lambda name, _: name == "board")["set"][0]["id"] == "0001"


@pytest.mark.parametrize(
    "junk",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\0" * 5000,
        b"GET " + b"/" * 200_000 + b" HTTP/1.1\r\n\r\n",
    ],
    ids=["tls", "version", "zeros", "long"],
)
def test_what_is_no_http(shared, junk):
    send(shared, "", [junk])
    assert well(shared)
