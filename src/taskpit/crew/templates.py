"""Crews to begin with: folders of files that come with the package. Copies them, never over what is there."""

from __future__ import annotations

import os

from taskpit.errors import NotFound

__all__ = ["Template"]

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "templates")


class Template:
    """One of them; NotFound if there is none of that name."""

    def __init__(self, name: str) -> None:
        known = sorted(os.listdir(FOLDER))
        if name not in known:
            raise NotFound(f"there is no template {name!r}", hint=f"There are: {', '.join(known)}.", name=name)
        self.folder = os.path.join(FOLDER, name)

    def files(self) -> list[str]:
        """What it is made of."""
        found = (os.path.join(folder, name) for folder, _, names in os.walk(self.folder) for name in names)
        return sorted(os.path.relpath(path, self.folder) for path in found)

    def write(self, root: str) -> tuple[list[str], list[str]]:
        """All of it is in this folder; what was written, and what was there and is left alone."""
        written, kept = [], []
        for name in self.files():
            target = os.path.join(root, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                text = file.read()
            try:
                with open(target, "x", encoding="utf-8") as file:
                    file.write(text)
            except FileExistsError:
                kept.append(name)
            else:
                written.append(name)
        return written, kept
