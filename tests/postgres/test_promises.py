"""What a server's settings make of an acknowledged verb: docs/postgres.md says it, and so does `pit doctor`."""

from __future__ import annotations

import pytest

from taskpit.store.postgres.schema import _durability


@pytest.mark.parametrize(
    ("settings", "durability", "words"),
    [
        (("on", "on", "other", "on"), "power", []),
        (("on", "on", "", "on"), "power", ["no synchronous standby"]),
        (("on", "local", "other", "on"), "power", ["no synchronous standby"]),
        (("on", "remote_apply", "other", "off"), "power", ["full_page_writes is off"]),
        (("on", "on", "", "off"), "power", ["full_page_writes is off", "no synchronous standby"]),
        (("on", "off", "other", "on"), "process", ["synchronous_commit is off"]),
        (("off", "on", "other", "on"), "none", ["fsync is off"]),
        (("off", "off", "", "off"), "none", ["fsync is off"]),
    ],
)
def test_what_survives_where(settings, durability, words):
    """By `fsync`, `synchronous_commit`, `synchronous_standby_names` and `full_page_writes`."""
    found, warnings = _durability(*settings)
    assert found == durability
    assert len(warnings) == len(words)
    assert all(said.startswith(word) for said, word in zip(warnings, words, strict=True))


def test_a_running_server_is_asked_for_these(server):
    """The server of the tests keeps nothing: so it says."""
    store = server.queue()
    info = store.info()
    store.close()
    assert info.durability == "none"
    assert "fsync is off on the server" in " ".join(info.warnings)
