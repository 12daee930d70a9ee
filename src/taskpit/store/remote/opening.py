"""Opening a queue behind a gateway, and the folder on this machine that leads to one."""

from __future__ import annotations

import os

from taskpit import fs
from taskpit.store.disk_errors import storage_error
from taskpit.store.remote.address import TOKEN, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from taskpit.clock import Clock
    from taskpit.store.remote.address import RemoteAddress
    from taskpit.store.remote.store import RemoteStore


def open_remote(
    text: str, env: Mapping[str, str] | None = None, clock: Clock | None = None, papers: str = ""
) -> RemoteStore:
    """The queue at this address; pools keep their papers in that folder, or among the user's own state."""
    from taskpit.store.remote.store import RemoteStore

    return RemoteStore(parse(text, os.environ if env is None else env, papers), clock=clock, papers=papers)


def leave_address(root: str, address: RemoteAddress, *, trusted: bool = True) -> None:
    """The folder leads to this queue, with the token that opens it; only its owner may read that."""
    from taskpit.store.postgres.opening import leave_address as leave

    leave(root, address.whole, trusted=trusted)
    path = f"{root}/{TOKEN}"
    try:
        if fs.exists(path) and fs.read(path, 4096)[0].decode("ascii", "replace").strip() == address.token:
            return
        scratch = f"{root}/.taskpit/.{fs.fresh_name()}"
        fs.replace(path, f"{address.token}\n".encode(), scratch, sync=False, mode=0o600)
    except OSError as error:
        raise storage_error(error) from error
