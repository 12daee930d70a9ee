"""Filesystems of any kind to try things on, made where the rights allow and gone afterwards. Knows mount and loop."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import tempfile

#: What makes each filesystem in a file, and the smallest size in megabytes it makes without being asked twice.
IMAGES = {
    "ext4": (("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"), 64),
    "xfs": (("mkfs.xfs", "-q", "-f"), 320),
    "btrfs": (("mkfs.btrfs", "-q", "-f"), 128),
}
KINDS = ("here", "tmpfs", "overlay", *IMAGES)
NEW_MOUNTS = 0x00020000
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


class Unable(Exception):
    """This machine or this user cannot do it; says why."""


def run(*command):
    """What the command printed; Unable says what it complained of."""
    if shutil.which(command[0], path=PATH) is None:
        raise Unable(f"there is no {command[0]} here")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": PATH})
    if done.returncode:
        raise Unable(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def alone():
    """What this process and its children mount is theirs alone, and gone with the last of them. Needs the right to."""
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_MOUNTS):
        raise Unable(f"no mounts of our own: {os.strerror(ctypes.get_errno())}")
    run("mount", "--make-rprivate", "/")


@contextlib.contextmanager
def mounted(kind, *, megabytes=0, options=""):
    """An empty directory on a filesystem of this kind; `here` is wherever temporary files lie."""
    base = tempfile.mkdtemp(prefix="taskpit-")
    where = f"{base}/mnt"
    os.mkdir(where)
    try:
        if kind == "here":
            yield where
            return
        if os.geteuid():
            raise Unable("only root may mount")
        with contextlib.ExitStack() as stack:
            if kind == "overlay":
                stack.enter_context(_on(f"{base}/under", "-t", "tmpfs", "tmpfs"))
                parts = {name: f"{base}/under/{name}" for name in ("lowerdir", "upperdir", "workdir")}
                for path in parts.values():
                    os.mkdir(path)
                told = ",".join(f"{name}={path}" for name, path in parts.items())
                stack.enter_context(_on(where, "-t", "overlay", "-o", told, "overlay"))
            elif kind == "tmpfs":
                stack.enter_context(_on(where, "-t", "tmpfs", *(("-o", options) if options else ()), "tmpfs"))
            else:
                stack.enter_context(
                    _on(where, "-o", f"loop{',' if options else ''}{options}", _image(kind, base, megabytes))
                )
            yield where
    finally:
        shutil.rmtree(base)


@contextlib.contextmanager
def mounted_image(image, kind):
    """The filesystem in this file, a copy of one that is or was mounted, too."""
    base = tempfile.mkdtemp(prefix="taskpit-")
    try:
        with _on(f"{base}/mnt", "-o", "loop,nouuid" if kind == "xfs" else "loop", image):
            yield f"{base}/mnt"
    finally:
        shutil.rmtree(base)


def _image(kind, base, megabytes):
    make, least = IMAGES[kind]
    path = f"{base}/image"
    with open(path, "wb") as file:
        file.truncate((megabytes or least) << 20)
    run(*make, path)
    return path


@contextlib.contextmanager
def _on(where, *words):
    os.makedirs(where, exist_ok=True)
    run("mount", *words, where)
    try:
        yield
    finally:
        run("umount", where)
