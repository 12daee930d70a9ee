"""Directory entries that nobody would call a task, and where they may lie."""

from __future__ import annotations

import os
import socket
import time

from taskpit import layouts
from taskpit.store.folder import OURS


def fifo(path):
    os.mkfifo(path)


def door(path):
    """A socket; bound from its own directory, since addresses are short."""
    back = os.getcwd()
    os.chdir(os.path.dirname(path))
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(os.path.basename(path))
    finally:
        os.chdir(back)


def device(path):
    os.mknod(path, 0o020600, os.makedev(1, 5))  # /dev/zero: never at its end


def directory(path):
    os.mkdir(path)
    with open(os.path.join(path, b"inside"), "wb") as file:
        file.write(b"kept")


def link_out(path):
    os.symlink(os.path.join(os.path.dirname(path), b"../../outside"), path)


def link_to_folder(path):
    os.symlink(b"/usr", path)


def loop(path):
    os.symlink(os.path.basename(path), path)


def nowhere(path):
    os.symlink(b"/nowhere/at/all", path)


def nothing(path):
    with open(path, "wb"):
        pass


def binary(path):
    with open(path, "wb") as file:
        file.write(b"\x7fELF\x00\xff" + os.path.basename(path))


KINDS = (fifo, door, device, directory, link_out, link_to_folder, loop, nowhere, nothing, binary)
#: Names no protocol gives: they are put on empty files, directories and FIFOs.
STRANGE = (
    b"a\nb",
    b"\x1b[31mred\x1b[0m",
    b"x" * 255,
    b"\xff\xfe",
    b".hidden",
    b"..md",
    b"-rf",
    b"$(touch pwned)",
    b" ",
)
#: What an entry of each directory is called that a verb would look at; `{}` is an id.
CALLED = {
    "pit": {
        "food": "food-{}-x.md",
        "claimed": "snake.food-{}-x.md",
        "done": "food-{}-x.result.md",
        "scraps": "food-{}-x-needs-keeper.md",
        "waste": "snake-{}.log",
        ".taskpit/ids": "{}",
        ".taskpit/sealed": "food-{}-x.md~aaaaaa~done.r",
        ".taskpit/outcomes": "{}~done",
        ".taskpit/tries": "{}",
        ".taskpit/late": "{}~aaaaaa",
        ".taskpit/workers": "snake-{}",
        ".taskpit/stops": "{}",
        ".taskpit/notes": "{}.md",
        ".taskpit/tmp": "{}~aaaaaa~result",
        ".taskpit/logs": "{}.log",
        ".taskpit/quarantine": "{}",
    },
    "mailbox": {
        "inbox": "{}.json",
        "processing": "{}.json",
        "outbox": "{}_result.json",
        "failed": "{}_error.json",
        ".tmp": "{}~aaaaaa~put~{}.json",
        ".taskpit/beside": "{}",
        ".taskpit/guard": "{}",
        ".taskpit/ids": "{}",
    },
    "workspace": {
        "tasks": "{}_pending.md",
        "agents": "{}.md",
        "outputs": "{}_result.md",
        "pipes": "orchestrator_to_{}",
        ".taskpit/sealed": "{}_pending.md~aaaaaa~ready.n",
    },
}


def plant(root, layout, folder):
    """Every kind of entry under a name that counts, then strange names; the inodes of all that could be made."""
    place = os.path.join(os.fsencode(root), folder.encode())
    os.makedirs(place, exist_ok=True)
    made = {}
    for number, kind in enumerate(KINDS, 70):
        name = CALLED[layout][folder].format(*[f"{number:04d}"] * 2).encode()
        try_to_make(kind, os.path.join(place, name), made)
    for number, name in enumerate(STRANGE):
        try_to_make((nothing, directory, fifo)[number % 3], os.path.join(place, name), made)
    return made


def try_to_make(kind, path, made):
    try:
        kind(path)
    except PermissionError:  # devices are for root
        return
    past = time.time() - 60  # nobody is writing it any more, and it is too young to be pruned
    os.utime(path, (past, past), follow_symlinks=False)
    made[os.lstat(path).st_ino] = path


def everything(root):
    """The inodes below a folder, no link followed."""
    found = set()
    for folder, folders, files in os.walk(os.fsencode(root)):
        found |= {os.lstat(os.path.join(folder, name)).st_ino for name in (*folders, *files)}
    return found


def folders_of(layout):
    """Every directory of a layout and of our own that is in the table, so that none is forgotten."""
    shown = layouts.get(layout).folders
    return [*CALLED[layout], *(name for name in shown if name not in CALLED[layout])]


__all__ = ["OURS", "everything", "folders_of", "plant"]
