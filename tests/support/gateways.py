"""Gateways to try things on: in a thread of this process, or in a process of their own that can be killed."""

from __future__ import annotations

import threading

from waits import PATIENCE

from taskpit.serve.serving import GatewayServer, Place
from taskpit.serve.tokens import Tokens
from taskpit.store.remote.address import parse
from taskpit.store.remote.store import RemoteStore


class Served:
    """A queue that is served by a thread, and a token of its owner's."""

    def __init__(self, queue, papers=None, **place):
        self.queue = queue
        self.tokens = Tokens(queue.store.info().papers)
        self.owner = next((None for grant in self.tokens.all() if grant.name == "owner"), None) or self.tokens.add(
            "owner", ["all"]
        )
        self.server = GatewayServer(queue, Place(**{"port": 0, **place}))
        self.address = self.server.address
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self.server.run, args=(self._ready.set,), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    @property
    def gateway(self):
        return self.server.gateway

    def token(self, name, *rights, **more):
        return self.tokens.add(name, rights or ("work",), **more)

    def store(self, token="", clock=None, papers="", **changes):
        address = parse(self.address, {"TASKPIT_TOKEN": token or self.owner, "TASKPIT_CA": changes.pop("ca", "")})
        return RemoteStore(address.replace(**changes), clock=clock, papers=papers)

    def close(self):
        self.server.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self.queue.close()
