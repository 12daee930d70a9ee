"""The plain folder store keeps the contract, in every layout."""

from __future__ import annotations

import pytest

from taskpit import layouts
from taskpit.config import Config
from taskpit.store.plain import opening
from taskpit.store.plain.files import Files
from taskpit.store.plain.store import FolderStore
from taskpit.testing import StoreContract


class TestFolderStore(StoreContract):
    #: Layout and durability of each kind of folder.
    KINDS, ALWAYS = (("pit", "process"), ("pit", "power"), ("mailbox", "process"), ("workspace", "power")), 3

    @pytest.fixture(autouse=True)
    def kind(self, request, tmp_path):
        """The kind of folder, known before the store is made."""
        self.layout, self.durability = request.param
        self.numbers_are_ids = self.layout == "pit"
        self.places = (str(tmp_path / f"pit-{number}") for number in range(10))
        super().setup_method()

    def setup_method(self):
        """The fixture does it, once it knows the kind."""

    def kept(self, task):
        """A mailbox always says how many attempts there may be."""
        return task.replace(max_attempts=task.max_attempts or 3) if self.layout == "mailbox" else task

    def make_store(self, clock):
        files, layout = Files(next(self.places)), layouts.get(self.layout)
        opening.make(files, layout, clock)
        return FolderStore(files.root, layout, Config(durability=self.durability), clock, files)
