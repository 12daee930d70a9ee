"""Making a queue's folder and its store."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress

from taskpit.clock import Clock
from taskpit.config import SAMPLE, Config
from taskpit.errors import Invalid, Storage
from taskpit.layouts import Layout
from taskpit.store.plain import paths
from taskpit.store.plain.files import Files
from taskpit.store.plain.leases import Judge
from taskpit.store.plain.pending import open_folder
from taskpit.store.plain.sweep import RESERVE

#: Folders of queues that an earlier version made.
EARLIER = (".taskpit/ids", ".taskpit/sealed", ".taskpit/outcomes")


def make(files: Files, layout: Layout, clock: Clock | None = None, mode: int | None = None) -> list[str]:
    """Make a folder a queue of this layout; what is there already is left alone. The folders that were made."""
    refuse_earlier(files)
    files.make_dir("")
    made = [name for name in (*layout.folders, paths.HIDDEN, *paths.FOLDERS) if files.stat(name) is None]
    for name in made:
        files.make_dir(name, mode)
    _check_links(files)
    for path, data in _first_files(layout):
        with suppress(FileExistsError):
            files.create(path, data, sync=path == paths.LAYOUT)
    Judge(open_folder(files, layout, Config(), clock or Clock())).begin()
    return made


def _first_files(layout: Layout) -> Iterator[tuple[str, bytes]]:
    yield paths.LAYOUT, f"{layout.name}\n".encode()
    yield paths.CONFIG, SAMPLE.encode()
    yield f"{paths.HIDDEN}/.gitignore", b"*\n"
    yield paths.RESERVE, bytes(RESERVE)


def refuse_earlier(files: Files) -> None:
    """Invalid for a queue that an earlier version made: its hidden folder has another meaning."""
    if any(files.stat(name) is not None for name in EARLIER):
        raise Invalid(
            f"{files.root} was made by an earlier version of taskpit, which this one does not read",
            hint="Export it with that version and import it here; its visible files are not touched.",
            path=files.root,
        )


def _check_links(files: Files) -> None:
    one, two = f"{paths.PENDING}/links.1", f"{paths.PENDING}/links.2"
    try:
        files.create(one, b"")
        files.link(one, two)
    except FileExistsError:
        return  # another process looks at the same moment
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS):
            raise Storage(
                f"this filesystem cannot do hard links: {files.root}",
                hint="Put the queue on a local Linux or macOS filesystem, or use `pit serve` or PostgreSQL.",
                errno=error.errno,
            ) from error
        raise
    finally:
        for path in (one, two):
            with suppress(OSError):
                files.remove(path)
