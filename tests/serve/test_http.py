"""HTTP as a gateway reads it: what could be read in two ways is refused, and nobody keeps another out."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import pytest
from waits import PATIENCE, until

from taskpit.model import Task
from taskpit.queue import cards
from taskpit.store.http.limits import Limits


def connect(served):
    return socket.create_connection(("127.0.0.1", served.server.port), timeout=PATIENCE)


def request(served, verb="paused", body=b"{}", *headers, version="HTTP/1.1", length=None):
    lines = [
        f"POST /q/v1/{verb} {version}",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {served.owner}",
        "Content-Type: application/json",
        *([f"Content-Length: {len(body)}"] if length is None else length),
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def answer(line):
    """Status and JSON of the next answer; None if they hung up."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = line.recv(1)
        if not more:
            return None
        data += more
    head = data.decode().lower()
    size = int(head.partition("content-length:")[2].partition("\r\n")[0])
    body = b""
    while len(body) < size:
        body += line.recv(size - len(body))
    return int(head.split(" ")[1]), json.loads(body)


def hung_up(line):
    try:
        while line.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize(
    ("status", "raw"),
    [
        (400, b"GET\r\n\r\n"),
        (400, b"\x16\x03\x01\x02\x00\r\n\r\n"),
        (400, b"POST /q/v1/hello HTTP/2\r\n\r\n"),
        (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (400, b"POST /q/v1/hello HTTP/1.2\r\nHost: 127.0.0.1\r\n\r\n"),
        (400, b"POST  /q/v1/hello HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        (400, b"POST\t/q/v1/hello HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        (400, b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        (400, b"CONNECT other:1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        (400, b"\r\n\r\nGET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        (400, b"GET /healthz HTTP/1.1\nHost: 127.0.0.1\n\r\n\r\n"),
        (400, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\rb\r\n\r\n"),
        (400, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\0b\r\n\r\n"),
        (400, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n: x\r\n\r\n"),
        (400, "GET /\u00e9 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()),
        (400, b"GET /healthz HTTP/1.1\r\n\r\n"),
        (411, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0"),
        (411, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: xchunked\r\n\r\n0"),
        (400, b"POST http://other/q/v1/hello HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        (400, b"GET /healthz HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n"),
        (400, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n folded: yes\r\n\r\n"),
        (400, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\nX: y\r\n\r\n"),
        (400, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: localhost\r\n\r\n"),
        (400, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 0\r\n\r\n"),
        (400, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: +1\r\n\r\n"),
        (400, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1, 1\r\n\r\n"),
        (400, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: ²\r\n\r\n".encode("latin-1")),
        (411, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (431, b"GET /healthz HTTP/1.1\r\nX: " + b"x" * Limits().head + b"\r\n\r\n"),
        (413, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n"),
    ],
)
def test_what_can_be_read_in_two_ways_is_not_read(served, status, raw):
    with connect(served) as line:
        line.sendall(raw)
        assert answer(line)[0] == status
        line.sendall(request(served))  # nothing after it is taken for a request
        line.shutdown(socket.SHUT_WR)
        assert answer(line) is None


def test_requests_in_a_row_are_answered_in_their_order_and_by_bytes(served):
    with connect(served) as line:
        line.sendall(request(served) + request(served, "counts") + request(served))
        assert [type(answer(line)[1]["data"]) for _ in range(3)] == [str, dict, str]
        for byte in request(served, "counts"):
            line.sendall(bytes([byte]))
        assert answer(line)[0] == 200


def test_who_waits_for_a_word_before_the_body_gets_it(served):
    with connect(served) as line:
        whole = request(served, "counts", b"{}", "Expect: 100-continue")
        line.sendall(whole[:-2])
        assert line.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        line.sendall(whole[-2:])
        assert answer(line)[0] == 200


@pytest.mark.parametrize(("version", "headers"), [("HTTP/1.0", ()), ("HTTP/1.1", ("Connection: close",))])
def test_who_wants_one_answer_gets_one(served, version, headers):
    with connect(served) as line:
        line.sendall(request(served, "counts", b"{}", *headers, version=version))
        assert answer(line)[0] == 200
        assert hung_up(line)


@pytest.mark.parametrize("said", [b"", b"POST /q/v1/hello HT", "half"])
def test_who_dawdles_is_hung_up_on(served, said):
    served.restart(limits=Limits(patience=0.2, slowest=1 << 30))
    with connect(served) as line:
        line.sendall(request(served, "counts", b"{}  ")[:-2] if said == "half" else said)
        assert hung_up(line)


@pytest.mark.races
def test_who_shows_a_token_is_no_dawdler(served):
    served.restart(limits=Limits(patience=0.2))
    with connect(served) as line:
        line.sendall(request(served))
        assert answer(line)[0] == 200
        with connect(served) as other:  # its time ends later than the other's would
            assert hung_up(other)
        line.sendall(request(served))
        assert answer(line)[0] == 200


def test_an_answer_that_is_not_taken_ends(served):
    """A caller that never reads holds no memory for ever."""
    served.restart(limits=Limits(taking=0.2, untaken_of_client=1 << 30))
    served.gateway.store.paused = lambda: "x" * 30_000_000
    with connect(served) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.sendall(request(served))
        table = served.server.server.table
        until(lambda: table.connections)
        until(lambda: not table.connections)


def test_answers_that_one_client_does_not_take_are_few(served):
    served.restart(limits=Limits(untaken_of_client=1_000_000))
    served.gateway.store.paused = lambda: "x" * 8_000_000
    lines = [connect(served) for _ in range(4)]
    for line in lines:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.sendall(request(served))
    until(lambda: len(served.server.server.table.connections) == 1)
    for line in lines:
        line.close()


def pipeline(line, data, most):
    """Send the same bytes again and again without reading; how many were taken before nobody took more."""
    sent, line_is_open = 0, True
    line.settimeout(1.0)
    while sent < most and line_is_open:
        try:
            sent += line.send(data)
        except TimeoutError:
            break
        except OSError:
            line_is_open = False
    return sent, line_is_open


def test_a_caller_that_pipelines_and_does_not_read_is_stopped_and_hung_up_on(served):
    """One took all memory: each answered request of 48 bytes let in 256 KiB more."""
    served.restart(limits=Limits(taking=3.0))
    with connect(served) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        piece = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000
        sent, is_open = pipeline(line, piece, 200_000_000)
        assert sent < 50_000_000  # what the buffers of the kernel hold, and a little more
        until(lambda: not served.server.server.table.connections)
        assert is_open or sent < 50_000_000
    with connect(served) as line:
        line.sendall(request(served))
        assert answer(line)[0] == 200


def test_a_client_has_so_many_connections_and_no_more(served):
    served.restart(limits=Limits(connections_of_client=3))
    lines = [connect(served) for _ in range(3)]
    for line in lines:
        line.sendall(request(served))
        assert answer(line)[0] == 200
    with connect(served) as one_more:
        assert hung_up(one_more)
    for line in lines:
        line.close()


def busy(served, monkeypatch, wait):
    """The loop of the gateway does nothing else while it is asked for something."""
    call = served.gateway.call

    async def blocked(*words):
        wait()
        return await call(*words)

    monkeypatch.setattr(served.gateway, "call", blocked)
    return lambda: monkeypatch.setattr(served.gateway, "call", call)


@pytest.mark.races
def test_a_gateway_that_could_not_listen_hangs_up_on_nobody_for_it(served, monkeypatch):
    """Its machine has too much to do: who was in the middle of a request then has its whole time afterwards."""
    served.restart(limits=Limits(patience=2.0))
    slow, half = connect(served), connect(served)
    whole = request(served)
    half.sendall(whole[:20])
    until(lambda: len(served.server.server.table.connections) == 2)
    free = busy(served, monkeypatch, lambda: time.sleep(3.0))
    slow.sendall(whole)
    assert answer(slow)[0] == 200
    free()
    slow.sendall(whole)
    assert answer(slow)[0] == 200  # by now it has looked at who dawdles
    half.sendall(whole[20:])
    assert answer(half)[0] == 200
    slow.close()
    half.close()


def test_a_herd_that_asks_at_once_is_not_silent(served, monkeypatch):
    """After an outage thousands connect while the gateway is busy with the first of them: none is hung up on."""
    served.restart(limits=Limits(silent=3))
    let_go, held = threading.Event(), threading.Event()
    busy(served, monkeypatch, lambda: held.set() or let_go.wait(PATIENCE))
    lines = [connect(served)]
    lines[0].sendall(request(served))
    held.wait(PATIENCE)
    lines += [connect(served) for _ in range(20)]
    for line in lines[1:]:
        line.sendall(request(served))
    let_go.set()
    assert [answer(line)[0] for line in lines] == [200] * 21
    for line in lines:
        line.close()


def test_the_client_with_most_silent_connections_loses_its_oldest(served):
    served.restart(limits=Limits(silent=3))
    lines = [connect(served) for _ in range(6)]
    assert hung_up(lines[0])
    assert hung_up(lines[1])
    assert hung_up(lines[2])
    lines[5].sendall(request(served))
    assert answer(lines[5])[0] == 200
    for line in lines:
        line.close()


def test_large_cards_come_in_short_pages(served):
    """A page of a thousand large cards was read whole before it was found too large for an answer."""
    body = "x" * 500_000
    for start in range(0, 30, 5):
        served.queue.store.put([Task(id=f"{n:04d}", title="t", slug="t", body=body) for n in range(start, start + 5)])
    with connect(served) as line:
        line.sendall(request(served, "page", b'{"limit": 1000}'))
        assert len(answer(line)[1]["data"]["cards"]) < 10
    store = served.store()
    assert len(list(cards(store))) == 30
    store.close()


def test_the_proxys_word_for_who_asks_is_the_last_one(served):
    """The first of two lines is what the caller wrote itself."""
    served.restart(behind_proxy=True)
    with connect(served) as line:
        head = b"POST /q/v1/paused HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer ann.wrong\r\n"
        line.sendall(
            head + b"X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2, 3.3.3.3\r\nContent-Length: 0\r\n\r\n"
        )
        assert answer(line)[0] == 401
    log = Path(served.queue.store.info().papers, ".taskpit/refusals.log")
    assert json.loads(log.read_text(encoding="utf-8"))["from"] == "3.3.3.3"
