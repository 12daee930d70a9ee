"""Where the simulator touches the store: a queue is made and opened on the simulated ports."""

from __future__ import annotations

from taskpit.queue import Queue
from taskpit.store.plain import paths
from taskpit.store.plain.store import FolderStore


def init_queue(files, clock, layout, config):
    """Make an empty queue."""
    for folder in (*layout.folders, *paths.FOLDERS):
        files.make_dir(folder)
    files.create(paths.LAYOUT, f"{layout.name}\n".encode())
    files.create(paths.CONFIG, b"")


def open_queue(files, clock, layout, config):
    """Open it as another process."""
    return Queue(FolderStore(files.root, layout, config, clock, files), config, clock)
