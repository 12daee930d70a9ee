"""What a wheel carries beside the package: the manual page, written by the program itself.

Nothing of this is kept in the repository, so nothing of it can be out of date.
"""

from __future__ import annotations

import os
import sys
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class ShellFiles(BuildHookInterface[Any]):
    """Puts `pit.1` where `man` looks for it, below the prefix."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Write them, and say where each goes."""
        self.folder = mkdtemp(prefix="taskpit-build-")
        for place, text in written().items():
            path = os.path.join(self.folder, place.replace("/", "-"))
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            build_data["shared_data"][path] = place

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was written on the way."""
        from shutil import rmtree

        rmtree(self.folder, ignore_errors=True)


def written() -> dict[str, str]:
    """Every file and its text."""
    sys.path[:0] = [os.path.join(ROOT, "src"), os.path.join(ROOT, "scripts")]
    try:
        from manual import man_page
    finally:
        del sys.path[:2]
    return {"share/man/man1/pit.1": man_page()}
