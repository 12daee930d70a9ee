"""The world a test lives in, the same on every machine: a plugin of pytest that tests/conftest.py loads.

Before anything is imported: an environment of a few names, no git configuration but the test's own, UTC, UTF-8,
umask 022, signals as a shell in the foreground leaves them. Around each test: a home of its own, the working
directory, umask, time zone and signal handlers as before, and no child that outlives the test.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import os
import shutil
import signal
import tempfile
import threading
import time

import pytest
import rotation
from waits import PATIENCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: What a test may know of the machine: where programs and temporary files are, and how to reach a package index.
KEPT = {"PATH", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CI", "COLUMNS", "LINES"}
KEPT_PREFIXES = ("PYTEST_", "COV", "COVERAGE_", "HYPOTHESIS_", "PIP_", "SSL_", "NODE_EXTRA_", "npm_config_")
PROXIES = {f"{scheme}_proxy" for scheme in ("http", "https", "no", "all")}
#: What tests are told by whoever starts them; everything else that begins so is for the program.
KNOBS = {
    f"TASKPIT_{name}"
    for name in (
        "LONG",
        "STATES",
        "LOCK_ROUNDS",
        "FUZZ",
        "HOSTILE",
        "HOSTILE_SEED",
        "PYTHONS",
        "SCREENS",
        "VM_LOG",
        "AGENTS",
        "NO_PAGE",
        "RENEW",
    )
}
GIVEN = {"LANG": "C.UTF-8", "TZ": "UTC", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
UMASK = 0o022
MEMORY, DISK = "/dev/shm", "/var/tmp"
#: So many bytes must be free there: a container often has 64 MB.
ROOM = 3 << 30
#: And so many files.
FILES = 500_000
#: Signals that are ignored in a suite started by `&`, by nohup or by a supervisor.
INHERITED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
#: Python's own, one for the whole process.
LASTING = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "from multiprocessing.")

_rooms: list[str] = []


def begin() -> None:
    """Make this process and all it starts forget the machine they run on."""
    kept = {name: value for name, value in os.environ.items() if _known(name)}
    os.environ.clear()
    os.environ.update({**kept, **GIVEN})
    time.tzset()
    os.umask(UMASK)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in INHERITED:
        if signal.getsignal(number) is signal.SIG_IGN:  # a handler of ours is the default in whatever we start
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else _unmoved)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans become children of ours
    tempfile.tempdir = os.environ["TMPDIR"] = _ground()
    room = tempfile.mkdtemp(prefix="taskpit-world-")
    _rooms.append(room)
    os.environ["HOME"] = room


def _ground() -> str:
    """Where TMPDIR says, or else in memory or where temporary files are; not in a git checkout or below a queue.

    What a command finds above its folder is for the test to decide.
    """
    places = (*(() if "TMPDIR" in os.environ else memory()), tempfile.gettempdir(), "/tmp", "/var/tmp", MEMORY)
    for place in places:
        if os.access(place, os.W_OK | os.X_OK) and not _found_above(os.path.realpath(place)):
            return place
    raise pytest.UsageError(f"there is a .git or a queue above each of {', '.join(places)}: name a folder with TMPDIR")


def memory() -> Iterator[str]:
    """The place for files in memory, if it has room: a directory made on a disk costs more than most tests."""
    with contextlib.suppress(OSError):
        status = os.statvfs(MEMORY)
        if status.f_bavail * status.f_frsize >= ROOM and status.f_favail >= FILES:
            yield MEMORY


def _found_above(folder: str) -> bool:
    while not any(os.path.exists(f"{folder}/{name}") for name in (".git", ".taskpit", "pit/.taskpit")):
        if folder == os.path.dirname(folder):
            return False
        folder = os.path.dirname(folder)
    return True


def end() -> None:
    """Nothing stays behind."""
    while _rooms:
        shutil.rmtree(_rooms.pop(), ignore_errors=True)


def keep(name: str) -> str:
    """A folder for what the tests of this process share."""
    return tempfile.mkdtemp(prefix=f"{name}-", dir=_rooms[0])


def once(folders: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that `make` has filled, for all processes of a run."""
    base = folders.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"once-{name}"
    with open(f"{place}.lock", "a", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.fstat(lock.fileno()).st_size:  # another may have made it since the file was opened
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            make(place)
            lock.write("made")
    return place


def _known(name: str) -> bool:
    return name in KEPT or name in KNOBS or name.startswith(KEPT_PREFIXES) or name.lower() in PROXIES


def _unmoved(*_: object) -> None:
    """As if it were ignored."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*programs): skipped where one of them is not on the path")
    config.addinivalue_line("markers", "races: kills, hammers, outages, pools under load; by `make test-races` only")
    config.addinivalue_line("markers", "mechanism: pins an inside that is to go; by `make test-races`, without effect")
    config.addinivalue_line("markers", "long(why): by `make test-all` only; why says what `make test` has in its place")
    begin()


def pytest_sessionstart(session: pytest.Session) -> None:
    rotation.TURN = getattr(session.config.option, "randomly_seed", 0)  # known by now, the same in every process


def pytest_collection() -> None:
    gc.disable()  # thousands of tests are made, and none is garbage


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)  # a test makes much and leaves little


def pytest_unconfigure() -> None:
    end()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if hasattr(metafunc.cls, "KINDS"):
        kinds = rotation.kinds(metafunc.cls, metafunc.function.__name__)
        metafunc.parametrize("kind", kinds, ids="-".join, indirect=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept = {item for item in rotation.layouts(items) if rotation.LONG or not item.get_closest_marker("long")}
    left = [item for item in items if item not in kept]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item in kept]


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        require(*mark.args)


def require(*programs: str) -> None:
    """Skip the test where one of them is missing."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing: sh scripts/system-packages {program}")


@pytest.fixture(autouse=True)
def world(request: pytest.FixtureRequest):
    """A home for this test alone; what it leaves behind of itself is put right, children it leaves are its failure."""
    home = tempfile.mkdtemp(dir=_rooms[-1])
    before, cwd, lasting = dict(os.environ), os.getcwd(), children()
    handlers = {number: signal.getsignal(number) for number in INHERITED}
    os.environ["HOME"] = home
    yield home
    for thread in threading.enumerate():
        if thread.name == "lander":  # begun by a board's approval: its queue must not go before it
            thread.join(PATIENCE)
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)
    os.chdir(cwd)
    os.umask(UMASK)
    if time.tzname[0] != GIVEN["TZ"]:
        time.tzset()
    for number, handler in handlers.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)
    left = outlived(lasting)
    shutil.rmtree(home, ignore_errors=True)
    assert not left, f"these outlived their test, and were ended: {left}"


@pytest.fixture
def on_disk() -> Iterator[str]:
    """A folder that is not in memory, for what only a disk's filesystem does."""
    with tempfile.TemporaryDirectory(prefix="taskpit-", dir=DISK) as folder:
        yield folder


def children(pid: int | str = "self") -> set[int]:
    """The processes whose parent is this one."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file,
            ):
                found.update(int(word) for word in file.read().split())
    return found


def outlived(lasting: set[int]) -> list[str]:
    """End the children that are still there after a while; what they were."""
    deadline = time.monotonic() + PATIENCE
    while living := [pid for pid in children() - lasting if _lives(pid)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    said = [f"{pid} {_command(pid)}" for pid in living]
    for pid in living:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    return said


def _lives(pid: int) -> bool:
    """Whether it runs. One that has ended is taken away: it may be an orphan, which nobody else waits for."""
    with contextlib.suppress(ChildProcessError):
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return False
    command = _command(pid)  # empty while it becomes another program, too
    return os.path.exists(f"/proc/{pid}") and not any(word in command for word in LASTING)


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
