"""What a set-up made, kept so that the next clone has it without running it again. Copied, never linked.

<state>/taskpit/landing/<name>-<digest>/setup/<key>/    the files that it added to a clone

Kept only where somebody names the files that decide it, such as lock files: the key is the command and what these are
in the commit. Made from a clone of what has landed, before an agent had it: nothing that an agent wrote gets into it. A
virtual environment works only where it was made, so a set-up that makes one is run each time.
"""

from __future__ import annotations

import glob
import hashlib
import os
import subprocess
import time

from taskpit import fs
from taskpit.landing.candidate import Candidates
from taskpit.landing.repository import remove

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.landing.repository import Repository
    from taskpit.landing.values import HandIn, Terms

__all__ = ["Setups"]

#: What nobody has used for so many seconds is removed when the next one is kept.
UNUSED = 30 * 86400.0
#: Where these stand, a directory is a virtual environment.
IN_PLACE = ("pyvenv.cfg", "*/pyvenv.cfg")


class Setups:
    """The set-ups of one repository."""

    def __init__(self, repository: Repository) -> None:
        self._git = repository.git
        self._folder = f"{repository.folder}/setup"

    def key(self, commit: str, terms: Terms | HandIn) -> str:
        """What this set-up of this commit is kept as; empty if it is not to be kept."""
        if not terms.setup or not terms.setup_key:
            return ""
        entries = self._git.run("ls-tree", "-z", "--full-tree", commit, "--", *terms.setup_key).out
        told = "\0".join((terms.setup, *terms.copy, "")).encode("utf-8", "surrogateescape")
        return hashlib.sha256(told + entries).hexdigest()[:24]

    def bring(self, key: str, path: str) -> bool:
        """The clone has what was kept; False if it has not, and then it may have some of it."""
        place = f"{self._folder}/{key}"
        if not key or not os.path.isdir(place):
            return False
        os.utime(place)
        return all(_copied(f"{place}/{name}", path, name) for name in _listed(f"{place}.names"))

    def keep(self, key: str, path: str, commit: str, terms: Terms | HandIn) -> None:
        """What the set-up added to this clone is kept; nothing if that could not be used elsewhere, or is there."""
        names = Candidates(self._git).loose(path, commit, terms)
        made_here = any(glob.glob(f"{glob.escape(f'{path}/{name}')}/{mark}") for name in names for mark in IN_PLACE)
        if made_here or not names or os.path.exists(f"{self._folder}/{key}"):
            return
        fs.make_dir(self._folder)
        self._prune()
        scratch = f"{self._folder}/.{fs.fresh_name(12)}"
        os.makedirs(scratch)
        if all(_copied(f"{path}/{name}", scratch, name) for name in names):
            data = b"\0".join(os.fsencode(name) for name in names)
            fs.replace(f"{self._folder}/{key}.names", data, f"{scratch}.names", sync=False)
            fs.move(scratch, f"{self._folder}/{key}")
        remove(scratch)

    def _prune(self) -> None:
        for name in fs.names(self._folder):
            status = fs.status(f"{self._folder}/{name}")
            if status is not None and time.time() - status.st_mtime > UNUSED and not name.endswith(".names"):
                remove(f"{self._folder}/{name}")


def _listed(path: str) -> list[str]:
    try:
        return [os.fsdecode(name) for name in fs.read(path, 1 << 24)[0].split(b"\0") if name]
    except OSError:
        return []


def _copied(source: str, root: str, name: str) -> bool:
    """`source` is in `root` under this name; False if something is there, or a link would lead elsewhere."""
    *above, last = name.rstrip("/").split("/")
    folder = root
    try:
        for part in above:
            folder = f"{folder}/{part}"
            fs.make_dir(folder)
            if os.path.islink(folder):
                return False
        target = f"{folder}/{last}"
        if os.path.lexists(target):
            return False
        for words in (("cp", "-a", "--reflink=auto"), ("cp", "-pPR")):  # the first is GNU's
            ran = subprocess.run((*words, "--", source.rstrip("/"), target), capture_output=True, check=False)
            if ran.returncode == 0:
                return True
            remove(target)
    except OSError:
        return False
    return False
