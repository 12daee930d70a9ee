"""The store on PostgreSQL keeps the contract, like every other."""

from __future__ import annotations

import pytest

from taskpit.testing import StoreContract


class TestPostgresStore(StoreContract):
    @pytest.fixture(autouse=True)
    def begin(self, server):
        """The server, known before the store is made."""
        self.server = server
        super().setup_method()

    def setup_method(self):
        """The fixture does it, once it knows the server."""

    def make_store(self, clock):
        return self.server.queue(clock)
