"""Stands between us and one command: when the command is over, so is everything it has started.

    python -c START GRACE INPUT DIRECTORY CMD ...      one reaper
    python -c SERVE                                    a server whose copies are reapers, asked over its standard input

Tool shells of agents have groups and sessions of their own, so a signal to a group does not reach them. This
process is the subreaper of the command: whatever loses its parent becomes its child, and nothing can leave its
tree. It does what it reads from its standard input: a newline begins the command, `t` asks everything to stop,
`k` kills everything. When that input ends, the process that started us is gone (kill -9), and so is everything after
ORPHANED seconds; before the first newline it means that nothing is begun at all. It ends as the command ended.
Imported by itself, it needs next to nothing. Where there is no /proc, only the command's own group is ended.
"""

from __future__ import annotations

import os
import sys
import time
from errno import EMFILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    import _signal as signal  # the other brings seven modules

#: What starts one, before its own words. A module that is imported is compiled once, a script every time.
START = f"import sys; sys.path[:0] = [{os.path.dirname(__file__)!r}]; import reaper; del sys.path[0]; reaper."
COMMAND = (sys.executable, "-I", "-S", "-c", f"{START}main(*sys.argv[1:])")
SERVER = (sys.executable, "-I", "-S", "-c", f"{START}serve()")
#: What it is told. The command begins only once it is let go: should we be killed before its number is known to
#: those who would end it, the input closes and it never begins. No command is nobody's.
BEGIN, STOP, KILL = b"\n", b"t", b"k"
#: How long it may take to clear up before it is killed itself.
LAST_CALL = 30.0

#: Seconds between asking everything to stop and killing it, when the process that started us was killed.
ORPHANED = 1.0
#: How long what was killed may take to be gone: who is still there then hangs in the kernel.
PATIENCE = 20.0
#: How often the tree is looked at while it ends.
LOOK = 0.01
#: No descriptor has a higher number: none of them is the command's.
MOST_FILES = 1 << 20
#: What Python ignores, and commands should not.
IGNORED = tuple(getattr(signal, name) for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ") if hasattr(signal, name))
#: States of processes that nobody has reaped.
DEAD = (b"Z", b"X")
#: From linux/prctl.h.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


_functions: list[Any] = []


def _prctl(option: int, value: int) -> bool:
    """Whether the kernel has such a thing; where it has not, nothing happens."""
    try:
        if not _functions:
            from _ctypes import FUNCFLAG_CDECL, CFuncPtr, dlopen, dlsym  # the rest of ctypes takes five milliseconds

            class Function(CFuncPtr):
                _flags_ = FUNCFLAG_CDECL

            _functions.append(Function(dlsym(dlopen(None, 0), "prctl")))  # type: ignore[arg-type]
        return bool(_functions[0](option, value, 0, 0, 0) == 0)
    except (ImportError, OSError):
        return False


def stat_of(number: int) -> list[bytes]:
    """What the kernel says of a process behind its name: state, parent, group, ...; empty if there is none."""
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def processes() -> dict[int, list[bytes]]:
    """All there are, with what the kernel says of each; none where it says nothing."""
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return {}
    return {number: stat for number in numbers if (stat := stat_of(number))}


def family(of: int) -> list[int]:
    """Every living process that descends from this one; empty where nobody tells."""
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


class Reaper:
    """One command and its tree."""

    def __init__(self, grace: float) -> None:
        self.grace = grace
        self.pid = 0
        self.status: int | None = None
        self._asked = False
        #: Whether whatever loses its parent becomes our child: then without a child there is nobody left.
        self._adopts = False
        self._awake, self._waker = os.pipe()

    def start(self, source: str, directory: str, argv: tuple[str, ...]) -> None:
        """The command runs, in a session of its own."""
        os.set_blocking(self._waker, False)
        signal.set_wakeup_fd(self._waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._ask)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._adopts = _prctl(PR_SET_CHILD_SUBREAPER, 1)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        self.pid = os.fork()
        if self.pid == 0:
            self._become(source, directory, argv, mask)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _ask(self, *_: object) -> None:
        self._asked = True

    def _become(self, source: str, directory: str, argv: tuple[str, ...], mask: set[int]) -> None:
        """The child turns into the command; should its reaper be killed, it is killed too. Asked to stop on the way,
        it does: our own handler would keep that to itself.
        """
        try:
            os.setsid()
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, *IGNORED):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.chdir(directory)
            os.dup2(os.open(source, os.O_RDONLY), 0)
            os.closerange(3, MOST_FILES)
            os.execvp(argv[0], argv)  # noqa: S606 - the command itself, as its words stand
        except OSError as error:
            os.write(2, f"{argv[0]} cannot be run: {error.strerror}\n".encode("utf-8", "replace"))
        finally:
            os._exit(126)

    def attend(self) -> None:
        """Until the command and all it has started are gone."""
        import select

        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(self._awake, select.POLLIN)
        while self.status is None:
            for fd, _ in poll.poll():
                word = os.read(fd, 4096)
                if fd == 0 and not self._hear(word):
                    self.end(0.0 if KILL in word else ORPHANED)
                    return
            self._reap()
            if self._asked:
                self.end(ORPHANED)
                return
        self.end(self.grace)

    def _hear(self, word: bytes) -> bool:
        """Whether the command may go on."""
        if STOP in word:
            self._tell(signal.SIGTERM)
        return bool(word) and KILL not in word

    def _reap(self) -> bool:
        """The dead are buried; how the command itself ended is kept. Whether a process may be left."""
        while True:
            try:
                number, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not self._adopts
            if number == 0:
                return True
            if number == self.pid:
                self.status = status

    def _tell(self, number: int) -> bool:
        """Everything has this signal; False if nothing is left."""
        found = family(os.getpid())
        for pid in found:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue
        if not found and self.pid and not os.path.isdir("/proc/self"):
            try:
                os.killpg(self.pid, number)
            except (ProcessLookupError, PermissionError):
                return False
            return self.status is None
        return bool(found)

    def end(self, grace: float) -> None:
        """Nothing is left of it: asked first, if there is time for that, then killed."""
        if not self._reap():  # nobody is looked for among all processes of the machine
            return
        deadline = time.monotonic() + grace
        left = self._tell(signal.SIGTERM) if grace else True
        while left and time.monotonic() < deadline:
            time.sleep(LOOK)
            self._reap()
            left = bool(self._tell(0))
        deadline = time.monotonic() + PATIENCE
        while left and time.monotonic() < deadline:
            left = self._tell(signal.SIGKILL)
            time.sleep(LOOK / 4)
            self._reap()
        self._reap()

    def leave(self) -> None:
        """End as the command did."""
        status = 9 if self.status is None else self.status
        if os.WIFSIGNALED(status):
            import resource

            number = os.WTERMSIG(status)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        os._exit(os.waitstatus_to_exitcode(status) if not os.WIFSIGNALED(status) else 1)


def main(grace: str, source: str, directory: str, *argv: str) -> None:
    """Wait for the word, run, clear up."""
    if os.read(0, 1) != BEGIN:
        return
    reaper = Reaper(float(grace))
    reaper.start(source, directory, argv)
    reaper.attend()
    reaper.leave()


#: Bytes of a number that is said to the server and by it, and how many descriptors come along at most.
NUMBER, MOST_PASSED = 8, 16


def number_as_bytes(number: int) -> bytes:
    """As the server and those who ask it say it."""
    return number.to_bytes(NUMBER, "little", signed=True)


def number_from_bytes(data: bytes) -> int:
    """The number that was said."""
    return int.from_bytes(data, "little", signed=True)


def serve() -> None:
    """Answer until the input ends. A number above zero is the length of an order, which comes with descriptors: the
    answer is the number of the reaper that has it, or the error's below zero. A number below zero asks how the reaper
    of that number has ended.
    """
    import gc
    import resource  # noqa: F401 - loaded once, for all the copies
    import select  # noqa: F401
    from _socket import CMSG_SPACE, socket

    _prctl(PR_SET_CHILD_SUBREAPER, 0)
    gc.disable()  # whatever it looks at is copied
    channel = socket(fileno=0)
    while True:
        try:
            head, parts, _, _ = channel.recvmsg(NUMBER, CMSG_SPACE(4 * MOST_PASSED))
            files = [fd for _, _, data in parts for fd in memoryview(data[: len(data) // 4 * 4]).cast("i")]
            number = number_from_bytes(head + _read(channel, NUMBER - len(head)))
            answer = _copy(channel, _read(channel, number), files) if number > 0 else _wait(-number)
            channel.sendall(number_as_bytes(answer))
        except OSError:
            return  # the process that asked is gone
        for fd in files:
            os.close(fd)


def _read(channel: Any, size: int) -> bytes:
    """So many bytes; OSError at their end."""
    data = b""
    while len(data) < size:
        more = channel.recv(min(size - len(data), 1 << 20))
        if not more:
            raise OSError
        data += more
    return data


def _wait(pid: int) -> int:
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return int(signal.SIGKILL)


def _copy(channel: Any, order: bytes, files: list[int]) -> int:
    """The number of a copy of this process that is the reaper of this order; below zero, why there is none."""
    passed, count, *words = order.split(b"\0")
    if len(files) != int(passed):
        return -EMFILE
    try:
        number = os.fork()
    except OSError as error:
        return -(error.errno or EMFILE)
    if number:
        return number
    try:
        channel.detach()
        os.setsid()
        for here, fd in enumerate(files[:3]):
            os.dup2(fd, here)
            os.close(fd)
        os.environb.clear()
        for name, _, value in (word.partition(b"=") for word in words[int(count) :]):
            os.environb[name] = value
        main(*map(os.fsdecode, words[: int(count)]))
    finally:
        os._exit(1)
