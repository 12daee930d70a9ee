"""A board that is really served, and a client that speaks plain HTTP to it."""

from __future__ import annotations

import http.client
import json
import threading
from urllib.parse import urlencode

from pits import reopened
from waits import PATIENCE

from taskpit.cli.import_files import bring_file
from taskpit.clock import Clock
from taskpit.model import Task
from taskpit.queue import Queue
from taskpit.run.user_queues import Queues
from taskpit.store.opening import init
from taskpit.web import serve
from taskpit.web import shared as hubs
from taskpit.web.app import QueuesPages
from taskpit.web.html import Paper

TOKEN = "a-token-nobody-would-guess"


def make_queue(root: str, layout: str = "pit") -> Queue:
    """An empty queue that does not wait for the disk."""
    init(root, layout)
    return open_queue(root)


def open_queue(root: str) -> Queue:
    return reopened(root, Clock())


def fill(queue: Queue, count: int, **fields) -> list[str]:
    return [
        task_id for task_id, _ in queue.put([Task(id="", title=f"task number {n}", **fields) for n in range(count)])
    ]


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)


class Served:
    """A board in a thread of its own; `with Served(root) as board`."""

    def __init__(self, root: str, port: int = 0, opened=open_queue, limits=None, **wish):
        self.root = str(root)
        self._limits = limits
        self._opened = opened
        self._wish = {"token": TOKEN, "port": port, **wish}

    def _desk(self, root, paper):
        bring = lambda queue, name, data: bring_file(queue, name, data, "ada@home")  # noqa: E731
        return serve.open_desk(lambda: self._opened(root), paper, "ada@home", bring)

    def _made(self):
        return self._desk(self.root, Paper(title="the pit", read_only=self._wish.get("read_only", False)))

    def __enter__(self):
        hubs.FIRST = PATIENCE  # a page shows the board as it was read, however slow the machine is
        usual, serve.PORT = serve.PORT, 0
        try:
            self.server = serve.BoardServer(self._made, serve.WebOptions(**self._wish), self._limits)
        finally:
            serve.PORT = usual
        self.port, self.host = self.server.port, f"127.0.0.1:{self.server.port}"
        listens = threading.Event()
        self.thread = threading.Thread(target=self.server.run, args=(listens.set,), name="served", daemon=True)
        self.thread.start()
        assert listens.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()

    @property
    def hub(self):
        return self.server.desk.hub

    @property
    def link(self) -> str:
        return f"http://{self.host}/?token={TOKEN}"

    def ask(self, method: str, path: str, body: bytes | None = None, **headers) -> Answer:
        """One request; the token is shown unless an `authorization` is given (empty: none)."""
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        headers.setdefault("authorization", f"Bearer {TOKEN}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, {key: value for key, value in headers.items() if value})
            answer = connection.getresponse()
            return Answer(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, form: dict | None = None, **headers) -> Answer:
        headers.setdefault("content_type", "application/x-www-form-urlencoded")
        return self.ask("POST", path, urlencode(form or {}).encode(), **headers)

    def listen(self, path: str) -> Listener:
        return Listener(self, path)


class AllServed(Served):
    """The board of all queues of this user."""

    def __init__(self, **wish):
        super().__init__("", opened=Queue.open, **wish)

    def _made(self):
        return QueuesPages(Queues({}), self._desk, read_only=self._wish.get("read_only", False))


class Listener:
    """Somebody who hears a stream of events."""

    def __init__(self, board: Served, path: str, **headers: str):
        self._connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=PATIENCE)
        self._connection.request("GET", path, headers={"authorization": f"Bearer {TOKEN}", **headers})
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200
        assert self._answer.getheader("content-type") == "text/event-stream"

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self._answer.close()
        self._connection.close()

    def event(self) -> tuple[str, dict, str]:
        """The next event: its name, its data, its id. Ends with EOFError when the stream does."""
        fields: dict[str, str] = {}
        while line := self._answer.readline():
            text = line.decode().rstrip("\n")
            if not text and "data" in fields:
                return fields.get("event", "message"), json.loads(fields["data"]), fields.get("id", "")
            key, _, value = text.partition(": ")
            if key:
                fields[key] = value
        raise EOFError

    def until(self, wanted) -> dict:
        """The first event of the board for which this is true."""
        while True:
            name, data, _ = self.event()
            if wanted(name, data):
                return data
