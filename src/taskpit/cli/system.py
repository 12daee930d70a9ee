"""What works on this machine, for bug reports: `doctor --system`. Tries each thing in a scratch folder and tidies up.

Knows what a queue asks of a machine; nothing of any queue.
"""

from __future__ import annotations

import os
import sys
import time

from taskpit import __version__, fs, kernel
from taskpit.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Finding", "extras", "survey"]

#: Filesystems whose changes other machines may make unseen.
NETWORK = frozenset(("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs", "lustre", "afs"))
INOTIFY = "/proc/sys/fs/inotify"
#: This many fsyncs are timed; the middle one counts.
SYNCS = 7
NO_GIT = "not found; needed only for landing"


class Finding(Value):
    """One thing that was tried."""

    name: str
    #: What was found, in words.
    told: str
    #: False if a queue cannot work without it, None if it does, with less comfort.
    works: bool | None = True
    hint: str = ""


def survey(place: str) -> list[Finding]:
    """What this machine can do, tried in `place`."""
    return [*_machine(), *_disk(place), *_tools(), *_extras()]


def _machine() -> list[Finding]:
    from platform import platform, python_implementation, python_version

    from taskpit.clock import boot_id

    boot = boot_id()
    enough = sys.version_info >= (3, 11)
    return [
        Finding(name="taskpit", told=__version__),
        Finding(name="python", told=f"{python_implementation()} {python_version()}", works=enough),
        Finding(name="system", told=platform()),
        Finding(name="boot id", told="guessed from the boot time" if boot.startswith("boot-") else "from the kernel"),
        Finding(name="processors", told=str(len(os.sched_getaffinity(0)) if _linux() else os.cpu_count())),
    ]


def _linux() -> bool:
    return sys.platform == "linux"


# -- the disk --------------------------------------------------------------------------------------


def _disk(place: str) -> list[Finding]:
    from shutil import rmtree
    from tempfile import mkdtemp

    found = [Finding(name="folder", told=_from_home(place)), _kind(place), _room(place)]
    try:
        folder = mkdtemp(prefix=".taskpit-system-", dir=place)
    except OSError as error:
        hint = "Name a folder you may write to with -C, or run it where the queue will be."
        return [*found, Finding(name="writing", told=_reason(error), works=False, hint=hint)]
    try:
        return [*found, *(_tried(name, trial, folder) for name, trial in _TRIALS.items())]
    finally:
        rmtree(folder, ignore_errors=True)


def _from_home(path: str) -> str:
    """The path as one may show it to others: a home has its owner's name in it."""
    home = os.path.expanduser("~").rstrip("/")
    for known in (home, os.path.realpath(home) if home else ""):
        if known and (path == known or path.startswith(f"{known}/")):
            return f"~{path[len(known) :]}"
    return path


def _kind(place: str) -> Finding:
    kind = _filesystem(os.path.realpath(place))
    if kind in NETWORK:
        return Finding(
            name="filesystem", told=f"{kind}, a network filesystem", works=None, hint="See docs/howto/nfs.md."
        )
    return Finding(name="filesystem", told=kind or "unknown")


def _filesystem(path: str) -> str:
    """The kind of the filesystem that is mounted nearest above the path; empty if nobody tells."""
    best, kind = "", ""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                mount = before.split()[4].replace(r"\040", " ")
                inside = path == mount or path.startswith(mount.rstrip("/") + "/")
                if inside and len(mount) >= len(best):
                    best, kind = mount, after.split()[0]
    except (OSError, IndexError):
        return ""
    return kind


def _room(place: str) -> Finding:
    try:
        told = os.statvfs(place)
    except OSError as error:
        return Finding(name="room", told=_reason(error), works=None)
    free = told.f_bavail * told.f_frsize
    files = f", {told.f_favail:,} more files" if told.f_files else ""
    full = free < 1 << 20 or (told.f_files and not told.f_favail)
    hint = "Make room; finished tasks can be archived." if full else ""
    return Finding(name="room", told=f"{free / (1 << 30):.1f} GiB free{files}", works=not full, hint=hint)


def _tried(name: str, trial: Callable[[str], Finding], folder: str) -> Finding:
    try:
        return trial(folder)
    except OSError as error:
        return Finding(
            name=name, told=_reason(error), works=False, hint="The queue must be on a disk that can do this."
        )


def _reason(error: OSError) -> str:
    return f"no: {error.strerror or error}"


def _links(folder: str) -> Finding:
    fs.create(f"{folder}/one", b"x", sync=False)
    fs.link(f"{folder}/one", f"{folder}/two")
    same = os.path.samefile(f"{folder}/one", f"{folder}/two") and not fs.link(f"{folder}/one", f"{folder}/two")
    return Finding(name="hard links", told="yes" if same else "no: a taken name is not refused", works=same)


def _no_replace(folder: str) -> Finding:
    fs.create(f"{folder}/from", b"x", sync=False)
    if kernel.rename_new(f"{folder}/from", f"{folder}/to") == 0:
        return Finding(name="rename without replacing", told="yes, by the kernel")
    told = "no; names are looked at first, which leaves a gap only to other programs"
    return Finding(name="rename without replacing", told=told, works=None)


def _unnamed(folder: str) -> Finding:
    flag = getattr(os, "O_TMPFILE", 0)
    try:
        if flag:
            os.close(os.open(folder, flag | os.O_WRONLY, 0o600))
            return Finding(name="unnamed files", told="yes (O_TMPFILE)")
    except OSError:
        pass
    return Finding(name="unnamed files", told="no; files get a temporary name first", works=None)


def _flock(folder: str) -> Finding:
    mine, theirs = fs.Flock(f"{folder}/lock"), fs.Flock(f"{folder}/lock")
    mine.take()
    refused = not theirs.take(wait=False)
    mine.drop()
    theirs.drop()
    return Finding(name="flock", told="yes" if refused else "no: two may have it at once", works=refused)


def _times(folder: str) -> Finding:
    ahead = int(time.time()) + 86400
    fs.create(f"{folder}/lease", b"", sync=False)
    fs.set_times(f"{folder}/lease", float(ahead))
    kept = int(os.stat(f"{folder}/lease").st_mtime) == ahead
    return Finding(name="times in the future", told="yes" if kept else "no: leases cannot be kept", works=kept)


def _fsync(folder: str) -> Finding:
    took = []
    for number in range(SYNCS):
        start = time.perf_counter()
        fs.create(f"{folder}/sync-{number}", b"x" * 500, sync=True)
        fs.sync_dir(folder)
        took.append(time.perf_counter() - start)
    return Finding(name="fsync", told=f"{sorted(took)[SYNCS // 2] * 1000:.2f} ms for a file and its directory")


def _inotify(folder: str) -> Finding:
    from taskpit.watch import Watch

    limits = ", ".join(f"{name[9:]} {_limit(name)}" for name in ("max_user_instances", "max_user_watches"))
    watch = Watch([folder])
    try:
        if not watch.told:
            told = f"no ({limits}); directories are looked at now and then"
            hint = "All instances may be in use: `sysctl fs.inotify.max_user_instances` is the limit."
            return Finding(name="inotify", told=told, works=None, hint=hint if _linux() else "")
        fs.create(f"{folder}/seen", b"", sync=False)
        woke = watch.wait(1.0)
    finally:
        watch.close()
    return Finding(
        name="inotify", told=f"yes ({limits})" if woke else "no: changes are not reported", works=woke or None
    )


def _limit(name: str) -> str:
    try:
        with open(f"{INOTIFY}/{name}", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


_TRIALS: dict[str, Callable[[str], Finding]] = {
    "hard links": _links,
    "rename without replacing": _no_replace,
    "unnamed files": _unnamed,
    "flock": _flock,
    "times in the future": _times,
    "fsync": _fsync,
    "inotify": _inotify,
}


# -- what is installed -----------------------------------------------------------------------------


def _tools() -> list[Finding]:
    from shutil import which

    from taskpit.worker.preset import names, places

    found = [name for name in names(places()) if which(name)]
    git = which("git")
    return [
        Finding(name="git", told=_from_home(git) if git else NO_GIT, works=True if git else None),
        Finding(name="agents", told=", ".join(found) or "none of those with a preset; any command can be run"),
    ]


def extras() -> dict[str, dict[str, str]]:
    """Each optional part, what it needs, and the version that is installed; empty if it is not."""
    from importlib.metadata import PackageNotFoundError, requires, version
    from re import match

    try:
        needed = requires("taskpit") or []
    except PackageNotFoundError:
        return {}
    found: dict[str, dict[str, str]] = {}
    for line in needed:
        told = match(r"""([A-Za-z0-9._-]+).*extra == ['"]([^'"]+)['"]""", line)
        if told is None or told[1].lower() == "taskpit":
            continue
        try:
            installed = version(told[1])
        except PackageNotFoundError:
            installed = ""
        found.setdefault(told[2], {})[told[1]] = installed
    return found


def _extras() -> list[Finding]:
    found = []
    for extra, packages in sorted(extras().items()):
        if extra == "all":
            continue
        missing = [name for name, version in packages.items() if not version]
        told = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
        hint = f"pip install 'taskpit[{extra}]' adds it."
        told = f"{told}; missing: {', '.join(missing)}".lstrip("; ") if missing else told
        found.append(
            Finding(name=f"extra {extra}", told=told, works=None if missing else True, hint=hint * bool(missing))
        )
    return found
