"""The store behind a gateway keeps the contract, like every other: over folders of each layout in turn."""

from __future__ import annotations

import pytest
from gateways import Served

from taskpit import layouts
from taskpit.config import Config
from taskpit.queue import Queue
from taskpit.store.files import FileStore
from taskpit.store.opening import init
from taskpit.testing import StoreContract


class TestRemoteStore(StoreContract):
    KINDS, ALWAYS = (("pit",), ("mailbox",), ("workspace",)), 0

    @pytest.fixture(autouse=True)
    def kind(self, request, tmp_path):
        """The kind of folder, known before the store is made."""
        (self.layout,) = request.param
        self.numbers_are_ids = self.layout == "pit"
        self.places = (str(tmp_path / f"pit-{number}") for number in range(10))
        self.papers = str(tmp_path / "papers")
        self.served = []
        super().setup_method()
        yield
        for one in self.served:
            one.close()

    def setup_method(self):
        """The fixture does it, once it knows the kind."""

    def teardown_method(self):
        """The fixture does it, after the store was closed."""

    def kept(self, task):
        """A mailbox always says how many attempts there may be."""
        return task.replace(max_attempts=task.max_attempts or 3) if self.layout == "mailbox" else task

    def make_store(self, clock):
        root = next(self.places)
        init(root, self.layout, clock)
        config = Config(durability="process")
        served = Served(Queue(FileStore(root, layouts.get(self.layout), config, clock), config, clock))
        self.served.append(served)
        store = served.store(clock=clock, papers=self.papers)
        close = served.close
        served.close = lambda: (store.close(), close())
        return store
