"""Every store we ship keeps the contract. A further layout is one more of the `KINDS`."""

from __future__ import annotations

import pytest

from taskpit import layouts
from taskpit.config import Config
from taskpit.store import index
from taskpit.store.activities.store import ActivityStore
from taskpit.store.files import FileStore
from taskpit.store.memory import MemoryStore
from taskpit.store.opening import init
from taskpit.testing import StoreContract


class TestMemoryStore(StoreContract):
    def make_store(self, clock):
        return MemoryStore(clock)


class TestFileStore(StoreContract):
    #: Layout and durability of each kind of folder.
    KINDS, ALWAYS = (("pit", "process"), ("pit", "power"), ("mailbox", "process"), ("workspace", "process")), 1

    @pytest.fixture(autouse=True)
    def kind(self, request, tmp_path):
        """The kind of folder, known before the store is made."""
        self.begin(request.param, tmp_path)

    def begin(self, kind, tmp_path):
        self.layout, self.durability = kind
        self.numbers_are_ids = self.layout == "pit"
        self.places = (str(tmp_path / f"pit-{number}") for number in range(10))
        super().setup_method()

    def setup_method(self):
        """The fixture does it, once it knows the kind."""

    def kept(self, task):
        """A mailbox always says how many attempts there may be."""
        return task.replace(max_attempts=task.max_attempts or 3) if self.layout == "mailbox" else task

    def make_store(self, clock):
        root = next(self.places)
        init(root, self.layout, clock)
        return FileStore(root, layouts.get(self.layout), Config(durability=self.durability), clock)


class TestCataloguedFileStore(TestFileStore):
    """The same where the ready tasks have a catalogue from the first one on, as large queues do."""

    KINDS, ALWAYS, TURNS = (("pit", "process"), ("mailbox", "process")), 0, 2

    @pytest.fixture(autouse=True)
    def kind(self, request, tmp_path, monkeypatch):
        """The kind of folder, known before the store is made."""
        monkeypatch.setattr(index, "SMALL", 0)
        self.begin(request.param, tmp_path)


class TestActivityStore(StoreContract):
    KINDS, ALWAYS = (("process",), ("power",)), 0
    numbers_are_ids = False

    @pytest.fixture(autouse=True)
    def kind(self, request, tmp_path):
        """How durable it is, known before the store is made."""
        (self.durability,) = request.param
        self.places = (str(tmp_path / f"work-{number}") for number in range(10))
        super().setup_method()

    def setup_method(self):
        """The fixture does it, once it knows the kind."""

    def id(self, number):
        """Ids tell what belongs where: these are all activities of one work item."""
        return f"WI-001-A{number}"

    def kept(self, task):
        """An activity belongs to its work item."""
        return task.replace(parent=task.parent or "WI-001")

    def make_store(self, clock):
        root = next(self.places)
        init(root, "activities", clock)
        return ActivityStore(root, layouts.get("activities"), Config(durability=self.durability), clock)


def test_no_two_promises_share_a_name():
    """The second would hide the first, and it would never be tried."""
    names = [name for chapter in StoreContract.__mro__ for name in vars(chapter) if name.startswith("test_")]
    assert len(names) > 80
    assert sorted(names) == sorted(set(names))
