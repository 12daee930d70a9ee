"""Own the process tree of one command at a time: when a command has ended, so has everything it started.

    python -c START main()      asked over its standard input, which is a socket

Two processes. The reaper is the subreaper of its command: whatever loses its parent becomes its child, so nothing
leaves its tree. The guard is the parent of the reaper, and a subreaper as well.

    killed                      ends the tree
    nothing (end, stop)         the reaper: SIGTERM, grace, SIGKILL until no child is left
    the process that asked      the reaper: its socket closes; SIGTERM, one second, SIGKILL
    the reaper                  the guard: SIGKILL until no child is left
    reaper and guard            the process that asked, or the next sweep: `process.end_marked`

One JSON line with descriptors starts a command; the words `stop` and `kill` end it; one JSON line answers when
nothing is left of it. SIGTERM while a command runs, from a worker that is given its task, ends it as well.
The module imports nothing of taskpit, so an interpreter without site packages runs it.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

#: What starts one. A module that is imported is compiled once, a script every time.
START = f"import sys; sys.path[:0] = [{os.path.dirname(__file__)!r}]; import reaper; del sys.path[0]; reaper.main()"
COMMAND = (sys.executable, "-I", "-S", "-c", START)
#: No request is longer, and none passes more descriptors.
LARGEST, MOST_PASSED, PIECE = 1 << 26, 16, 1 << 16
#: Seconds between asking everything to stop and killing it, when the process that asked was killed.
ORPHANED = 1.0
#: How long a killed process may take to be gone; one that takes longer hangs in the kernel.
PATIENCE = 20.0
#: How often the tree is looked at while it ends.
LOOK = 0.01
#: No descriptor has a higher number.
MOST_FILES = 1 << 20
#: The exit code of a command that could not be started, as shells have it.
CANNOT_RUN = 126
#: Signals that Python or we ignore, and commands should not.
DEFAULTS = (
    *(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE),
    *(getattr(signal, name) for name in ("SIGXFZ", "SIGXFSZ") if hasattr(signal, name)),
)
#: The machine has no room for another process just now.
EXHAUSTED = (errno.EAGAIN, errno.ENOMEM, errno.ENFILE, errno.EMFILE)
#: States of processes that have ended.
DEAD = (b"Z", b"X")
#: From linux/prctl.h.
PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 15, 36
#: The kernel's name of a reaper, and of one whose command is a run: then with the descriptor whose own name says which
#: (`workers.run_around` reads both; nothing below the reaper can change them).
NAME, NAME_OF_RUN = b"pit-reaper", b"pit-run %d"
LIBC = ctypes.CDLL(None)
#: A command with this variable is a run.
RUN_DIR = "TASKPIT_RUN_DIR"


def stat_of(number: int) -> list[bytes]:
    """Fields of a process behind its name (state, parent, group, ...); empty if there is none."""
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def born(number: int) -> int:
    """When a process began, in the kernel's own count; 0 if there is none."""
    stat = stat_of(number)
    return int(stat[19]) if stat else 0


def processes() -> dict[int, list[bytes]]:
    """Every process, with its fields."""
    numbers = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    return {number: stat for number in numbers if (stat := stat_of(number))}


def family(of: int) -> list[int]:
    """Every living process that descends from this one, found in one look."""
    known = processes()
    children: dict[int, list[int]] = {}
    for number, stat in known.items():
        children.setdefault(int(stat[1]), []).append(number)
    found: list[int] = []
    todo = [of]
    while todo:
        mine = children.get(todo.pop(), [])
        todo.extend(mine)
        found.extend(number for number in mine if known[number][0] not in DEAD)
    return found


def send_signal(number: int, to: list[int]) -> None:
    """Signal each of these processes that is there and may be signalled."""
    for pid in to:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _prctl(what: int, value: int | bytes) -> None:
    LIBC.prctl(what, value, 0, 0, 0)


class Channel:
    """The socket, and a pipe that wakes a poll when a child ends or SIGTERM comes."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._data = b""
        self.asked = False
        awake, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._ask)
        self._awake = awake
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._poll.register(awake, select.POLLIN)

    def _ask(self, *_: object) -> None:
        self.asked = True

    def wait(self) -> bool:
        """Sleep until a message or a signal comes; whether a message did."""
        if b"\n" in self._data:
            return True
        ready = [fd for fd, _ in self._poll.poll()]
        if self._awake in ready:
            os.read(self._awake, 4096)
        return self._socket.fileno() in ready

    def line(self) -> tuple[bytes, list[int]]:
        """Return the next line, with the descriptors that came along. EOFError once the other side is gone."""
        files: list[int] = []
        while b"\n" not in self._data:
            data, passed, _, _ = socket.recv_fds(self._socket, PIECE, MOST_PASSED)
            for fd in passed:
                os.set_inheritable(fd, False)
            files += passed
            if not data or len(self._data) > LARGEST:
                raise EOFError
            self._data += data
        line, _, self._data = self._data.partition(b"\n")
        return line, files

    def answer(self, **fields: object) -> None:
        """Send an answer."""
        self._socket.sendall(json.dumps(fields).encode() + b"\n")


class Reaper:
    """One command after another, each with its tree."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._pid = 0
        self._status: int | None = None
        #: The open file whose name says which run the command is; -1 without one.
        self._named = -1
        #: The input of a command that has none.
        self._nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def serve(self) -> None:
        """Run commands until the socket closes, or something is left that nothing ends."""
        self._channel.answer(pid=os.getpid())
        while True:
            line, files = self._channel.line()
            if line in (b"stop", b"kill"):
                continue  # for a command that has just ended
            answer = self._run(json.loads(line), files)
            for fd in files:
                os.close(fd)
            self._channel.answer(**answer)
            if answer.get("leaves"):
                return

    def _run(self, order: dict[str, Any], files: list[int]) -> dict[str, object]:
        """Run a command until nothing of it is left; how it ended, or the error of a full machine."""
        if len(files) != order["files"]:
            return {"errno": errno.EMFILE}
        try:
            self._start(order, files)
        except (OSError, ValueError) as error:
            if getattr(error, "errno", 0) in EXHAUSTED:
                return {"errno": error.errno}  # type: ignore[union-attr]
            why = getattr(error, "strerror", None) or str(error)
            os.write(files[1], f"{order['argv'][0]} cannot be run: {why}\n".encode("utf-8", "replace"))
            return {"status": CANNOT_RUN << 8}
        left = self._attend(float(order["grace"]))
        status = int(signal.SIGKILL) if self._status is None else self._status
        return {"status": status, "leaves": left or self._channel.asked}

    def _start(self, order: dict[str, Any], files: list[int]) -> None:
        """Start the command in a session of its own."""
        env: dict[str, str] = order["env"]
        self._channel.asked, self._status = False, None
        self._name_run(env)
        streams = (files[2] if order["stdin"] else self._nothing, *files[:2])
        os.chdir(os.fsencode(order["cwd"]))
        try:
            self._pid = os.posix_spawn(
                os.fsencode(order["program"]),
                [os.fsencode(word) for word in order["argv"]],
                {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, stream) for stream, fd in enumerate(streams)],
                setsid=True,
                setsigmask=(),
                setsigdef=DEFAULTS,
            )
        finally:
            os.chdir("/")

    def _name_run(self, env: dict[str, str]) -> None:
        """Let the kernel's name of this process say whether its command is a run, and which."""
        if self._named >= 0:
            os.close(self._named)
        self._named = -1
        if not env.get(RUN_DIR):
            _prctl(PR_SET_NAME, NAME)
            return
        try:
            words = " ".join(env.get(name, "") for name in ("TASKPIT_TASK", "TASKPIT_AS", "TASKPIT_ROLE"))
            self._named = os.memfd_create(words)
        except (OSError, ValueError):
            self._named = -1
        _prctl(PR_SET_NAME, NAME_OF_RUN % self._named)

    def _attend(self, grace: float) -> bool:
        """Wait until the command and all it started are gone; whether something is left nevertheless."""
        while self._status is None:
            if self._channel.wait():
                try:
                    word, _ = self._channel.line()
                except (EOFError, OSError):
                    self._end(ORPHANED)
                    raise EOFError from None
                if word == b"kill":
                    return self._end(0.0)
                send_signal(signal.SIGTERM, family(os.getpid()))
            left = self._reap()
            if self._channel.asked:
                return self._end(ORPHANED)
        return left and self._end(grace)

    def _reap(self) -> bool:
        """Collect ended children and keep the command's status; whether a child is left."""
        while True:
            try:
                number, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if number == 0:
                return True
            if number == self._pid:
                self._status = status

    def _end(self, grace: float) -> bool:
        """End everything below: SIGTERM if there is a grace, then SIGKILL. Whether something is left."""
        if not self._reap():
            return False
        deadline = time.monotonic() + grace
        if grace:
            send_signal(signal.SIGTERM, family(os.getpid()))
        while self._reap() and time.monotonic() < deadline:
            time.sleep(LOOK)
        return kill_below(self._reap)


def kill_below(reap: Any) -> bool:
    """SIGKILL every descendant of this process until no child is left; whether one is left nevertheless."""
    deadline = time.monotonic() + PATIENCE
    while reap() and time.monotonic() < deadline:
        send_signal(signal.SIGKILL, family(os.getpid()))
        time.sleep(LOOK / 4)
    return bool(reap())


def guard(reaper: int) -> None:
    """Wait for the reaper; if it was killed, end what it watched over."""
    status = 0
    number = 0
    while number != reaper:
        number, status = os.waitpid(-1, 0)
    if status:
        kill_below(_reap_all)


def _reap_all() -> bool:
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return True
        except ChildProcessError:
            return False


def main() -> None:
    """Become guard and reaper, with the socket that is the standard input."""
    os.closerange(3, MOST_FILES)  # a lock, say, that a process above left open for its children
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _prctl(PR_SET_NAME, NAME)
    reaper = os.fork()
    if reaper:
        os.close(0)
        guard(reaper)
        return
    try:
        os.setsid()
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        sock = socket.socket(fileno=os.dup(0))
        os.set_inheritable(sock.fileno(), False)
        os.dup2(1, 0)
        Reaper(Channel(sock)).serve()
    except (EOFError, OSError):
        pass  # the process that asked is gone
    finally:
        os._exit(0)
