"""A queue whose own directory no longer says what it is: told from what is there, and said again. Deletes nothing."""

from __future__ import annotations

import os

from taskpit import fs, layouts
from taskpit.store.disk_errors import verb
from taskpit.store.folder import HIDDEN, QUARANTINE
from taskpit.store.opening import LAYOUT, detect, init
from taskpit.store.port import Mend

__all__ = ["refound"]


@verb
def refound(root: str, *, dry_run: bool) -> list[Mend]:
    """The folder says again of which layout it is, if it was ours and looks like one; what was done, or would be."""
    if not os.path.isdir(f"{root}/{HIDDEN}") or layouts.is_known(_said(root)):
        return []
    name = detect(root)
    if name is None:
        return []  # nobody can tell what it was; opening it says so
    told = f"it looks like a {name}"
    if not dry_run:
        if fs.exists(f"{root}/{LAYOUT}"):
            fs.make_dir(f"{root}/{QUARANTINE}")
            fs.move(f"{root}/{LAYOUT}", f"{root}/{QUARANTINE}/layout~{fs.fresh_name()}")
        init(root, name, trusted=False)
        told += ", and says so again"
    return [Mend(kind="missing", what=LAYOUT, details=told)]


def _said(root: str) -> str:
    try:
        return fs.read(f"{root}/{LAYOUT}", 4096)[0].decode("utf-8", "replace").strip()
    except OSError:
        return ""
