"""Gateways to try things on: in a thread of this process, or in a process of their own that can be killed."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time

from waits import PATIENCE, until

from taskpit.clock import Clock
from taskpit.errors import Storage, TaskpitError
from taskpit.keeper import sweep
from taskpit.model import End, Event, Result, Said, State, Task, Verdict, Want
from taskpit.queue import Queue
from taskpit.serve.server import GatewayServer, ServeOptions
from taskpit.store.http.address import parse
from taskpit.store.http.client import HttpStore
from taskpit.store.http.tokens import Tokens
from taskpit.store.opening import open_store

#: Of claims that no test waits for to lapse.
LEASE = 60.0


class Served:
    """A queue that is served by a thread, and a token of its owner's."""

    def __init__(self, queue, **place):
        self.owner = Tokens(queue.store.info().papers).add("owner", ["all"])
        self.begin(queue, **place)

    def begin(self, queue, limits=None, **place):
        self.queue = queue
        self.tokens = Tokens(queue.store.info().papers)
        self.server = GatewayServer(queue, ServeOptions(**{"port": 0, **place}), limits=limits)
        self.address = self.server.address
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self.server.run, args=(self._ready.set,), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def restart(self, **place):
        """Serve the same queue with other limits or from another place."""
        self.server.stop()
        self._thread.join(PATIENCE)
        self.begin(self.queue, **place)

    @property
    def gateway(self):
        return self.server.gateway

    def token(self, name, *rights, **more):
        return self.tokens.add(name, rights or ("work",), **more)

    def store(self, token="", clock=None, papers="", **changes):
        address = parse(self.address, {"TASKPIT_TOKEN": token or self.owner, "TASKPIT_CA": changes.pop("ca", "")})
        return HttpStore(address.replace(**changes), clock=clock, papers=papers)

    def close(self):
        self.server.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self.queue.close()


class Cutter:
    """A proxy that can cut what goes through it: before an answer comes back, or at any moment.

    `swallow` counts answers that the gateway gives and nobody hears.
    """

    def __init__(self, port):
        #: Where it leads to; may be changed at any time.
        self.port = port
        self.swallow = 0
        #: Answers that are kept back on connections which stay open; `let_go` sends them after all.
        self.keep_back = 0
        self.kept = []
        self.kept_back = threading.Semaphore(0)
        #: Seconds without a word after which a connection is cut, as proxies do; 0: never.
        self.idle = 0.0
        self.swallowed = threading.Semaphore(0)
        self._pairs = set()
        self._mute, self._spoke, self.cuts = set(), {}, 0
        self._turn = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}/q"
        self._door = threading.Thread(target=self._accept, daemon=True)
        self._door.start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.port), timeout=10)
                far.settimeout(None)
            except OSError:
                near.close()
                continue
            with self._turn:
                self._pairs.add((near, far))
            threading.Thread(target=self._copy, args=(near, far, (near, far), False), daemon=True).start()
            threading.Thread(target=self._copy, args=(far, near, (near, far), True), daemon=True).start()

    def _copy(self, source, target, pair, is_answer):
        muted = False
        try:
            while data := self._heard(source, pair):
                with self._turn:
                    eaten = is_answer and self.swallow > 0
                    self.swallow -= eaten
                    if is_answer and not eaten and (self.keep_back > 0 or pair in self._mute):
                        self.keep_back -= pair not in self._mute
                        self._mute.add(pair)
                if eaten:
                    self.swallowed.release()
                    break
                if pair in self._mute:
                    muted = True
                    if is_answer:
                        self.kept.append((target, data))
                        self.kept_back.release()
                    continue
                target.sendall(data)
        except OSError:
            pass
        if not muted:
            self._drop(pair)

    def _heard(self, source, pair):
        """What comes; nothing if neither side has said a word for too long."""
        while True:
            if self.idle:
                source.settimeout(self.idle)
            self._spoke.setdefault(pair, time.monotonic())
            try:
                data = source.recv(65536)
            except TimeoutError:
                if self.idle and time.monotonic() - self._spoke[pair] >= self.idle:
                    self.cuts += 1
                    return b""
                continue
            self._spoke[pair] = time.monotonic()
            return data

    def mute(self):
        """Every connection that is open stays so, and nothing comes through it any more."""
        with self._turn:
            self._mute |= self._pairs

    def let_go(self):
        """What was kept back comes late, or finds nobody."""
        for target, data in self.kept:
            with contextlib.suppress(OSError):
                target.sendall(data)

    def _drop(self, pair):
        with self._turn:
            self._pairs.discard(pair)
        for one in pair:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def cut(self):
        """Every connection breaks."""
        with self._turn:
            pairs = list(self._pairs)
        for pair in pairs:
            self._drop(pair)

    def store(self, token, patience=None, **more):
        address = parse(self.address, {"TASKPIT_TOKEN": token})
        return HttpStore(address if patience is None else address.replace(patience=patience), **more)

    def close(self):
        """Nobody comes in any more, and who is in goes: a door that was only closed let in who stood before it."""
        self._listener.shutdown(socket.SHUT_RDWR)  # which wakes who waits there; closing it does not
        self._door.join(PATIENCE)
        self._listener.close()
        self.cut()


class Process:
    """A gateway in a process of its own, which can be killed."""

    def __init__(self, root, port=0, *words, env=None):
        port = port or free_port()
        self.port = port
        command = [sys.executable, "-m", "taskpit", "-C", root, "--json", "serve", "--port", str(port), *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=env)
        line = self.process.stdout.readline()
        said = json.loads(line or "{}")
        assert "data" in said, f"it did not start: {said}"
        self.address = said["data"]["address"]

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait(PATIENCE)
        self.process.stdout.close()


class Worker(threading.Thread):
    """Claims, renews, ends, through whatever breaks; notes what it lost while it renewed."""

    def __init__(self, cutter, token, name, over):
        super().__init__(daemon=True)
        self.store = cutter.store(token)
        self.worker, self.over = name, over
        self.robbed, self.ended, self.strange = [], [], []

    def run(self):
        while not self.over.is_set():
            try:
                claims = patiently(lambda: self.store.claim(Want(worker=self.worker, lease=LEASE)))
                if not claims:
                    self.store.wait(0.2)
                for claim in claims:
                    self._work(claim)
            except TaskpitError as error:
                self.strange.append(error)

    def _work(self, claim):
        for _ in range(2):
            if patiently(lambda: self.store.renew([claim], LEASE)) != [Said.OK]:
                self.robbed.append(claim.task.id)
        result = Result(id=claim.task.id, verdict=Verdict.DONE, worker=claim.fence)
        end = End(claim=claim, result=result, action="completed_task")
        said = patiently(lambda: self.store.finish([end]))[0]
        (self.ended if said in (Said.OK, Said.ALREADY) else self.robbed).append(claim.task.id)


def patiently(act):
    while True:
        try:
            return act()
        except Storage:
            time.sleep(0.02)


def kill_gateways(where, owner, count, kills, env=None):
    """All of so many gateways before one queue are killed at once, so often, while eight work and one puts.

    Each worker goes to one of them, whatever process that is. Nothing is lost, ended twice or taken from who renews.
    """
    running = [Process(where, env=env) for _ in range(count)]
    cutters = [Cutter(one.port) for one in running]
    over = threading.Event()
    workers = [Worker(cutters[number % count], owner, f"w{number}", over) for number in range(8)]
    for worker in workers:
        worker.start()
    source = cutters[0].store(owner)
    put = 0
    for _ in range(kills):
        for _ in range(10):
            put += 1
            task = Task(id=f"{put:04d}", title=f"task {put}", slug=f"task-{put}")
            patiently(lambda task=task: source.put([task]))
        for one in running:
            one.process.send_signal(signal.SIGKILL)
        for one, cutter in zip(running, cutters, strict=True):
            one.kill()
            cutter.cut()
        running = [Process(where, env=env) for _ in range(count)]
        for one, cutter in zip(running, cutters, strict=True):
            cutter.port = one.port
            cutter.cut()
    behind = open_store(where, env or {}, Clock())
    until(lambda: behind.counts()[State.DONE] == put)
    over.set()
    for worker in workers:
        worker.join(PATIENCE)
        worker.store.close()
    source.close()
    for cutter in cutters:
        cutter.close()
    for one in running:
        one.kill()
    events = behind.events(limit=10**6)[0]
    ends = [event.task_id for event in events if event.action == "completed_task"]

    assert [worker.strange for worker in workers if worker.strange] == []
    assert [worker.robbed for worker in workers if worker.robbed] == []
    assert sorted(ends) == [f"{number:04d}" for number in range(1, put + 1)]
    assert sorted(task_id for worker in workers for task_id in worker.ended) == sorted(ends)
    sweep(Queue(behind, behind.config, behind.clock))  # what the last kill left half done the next keeper does
    found = [one for one in behind.check() if one.kind != "late result"]
    assert found == [], found
    assert all(isinstance(event, Event) for event in events)
    behind.close()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]
