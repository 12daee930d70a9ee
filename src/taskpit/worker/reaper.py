"""Stands between us and the commands of one slot: when a command is over, so is everything it has started.

    python -c START main()      one reaper, asked over its standard input, which is a socket
    python -c START serve()     a server whose copies are reapers; it gets a socket for each

Tool shells of agents have groups and sessions of their own, so a signal to a group does not reach them. A reaper
is the subreaper of its command: whatever loses its parent becomes its child, and nothing can leave its tree. One
order at a time comes over its socket, with descriptors; STOP asks everything to stop, KILL kills everything; the
answer is how the command ended, given when nothing of it is left. When the socket closes, whoever started us is
gone (kill -9), and so is everything after ORPHANED seconds. SIGTERM while a command runs, from a worker that the
task is given to, does the same. Should a reaper be killed itself, the server adopts its tree and kills it.
Imported by itself, it needs next to nothing. Where there is no /proc, only the command's own group is ended.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    import _signal as signal  # the other brings seven modules

#: What starts one, before its own words. A module that is imported is compiled once, a script every time.
START = f"import sys; sys.path[:0] = [{os.path.dirname(__file__)!r}]; import reaper; del sys.path[0]; reaper."
COMMAND = (sys.executable, "-I", "-S", "-c", f"{START}main()")
SERVER = (sys.executable, "-I", "-S", "-c", f"{START}serve()")
#: Bytes of a number that is said on a socket. Above zero: the length of an order; else a word.
NUMBER = 8
STOP, KILL = 0, -1
#: Added to an answer by a reaper that takes no further order.
LEAVES = 1 << 32
#: How many descriptors come along at most.
MOST_PASSED = 16
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
#: The exit code of a command that could not be begun, as shells have it.
CANNOT_RUN = 126
#: What we or Python ignore, and commands should not.
DEFAULTS = tuple(
    getattr(signal, name)
    for name in ("SIGCHLD", "SIGTERM", "SIGINT", "SIGHUP", "SIGPIPE", "SIGXFZ", "SIGXFSZ")
    if hasattr(signal, name)
)
#: The machine has no room for another process just now: EAGAIN of Linux and of others, ENOMEM, ENFILE, EMFILE.
EXHAUSTED = (11, 35, 12, 23, 24)
#: States of processes that nobody has reaped.
DEAD = (b"Z", b"X")
#: From linux/prctl.h.
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
#: What the kernel calls a reaper: while its command is no run of a task, and while it is one, with the descriptor
#: whose own name says which. What descends from the command cannot change either (`workers.run_around` reads them).
NAME, NAME_OF_RUN = b"pit-reaper", b"pit-run %d"
#: A command with this variable is a run.
RUN_DIR = b"TASKPIT_RUN_DIR"
#: The function, once it was looked up.
_prctl: list[Any] = []


def ask_kernel(what: int, value: int | bytes) -> bool:
    """Whether the kernel does this to our own process (prctl)."""
    try:
        if not _prctl:
            from _ctypes import FUNCFLAG_CDECL, CFuncPtr, dlopen, dlsym  # the rest of ctypes takes five milliseconds

            class Function(CFuncPtr):
                _flags_ = FUNCFLAG_CDECL

            _prctl.append(Function(dlsym(dlopen(None, 0), "prctl")))  # type: ignore[arg-type]
        return bool(_prctl[0](what, value, 0, 0, 0) == 0)
    except (ImportError, OSError):
        return False


def adopt() -> bool:
    """Whether the kernel gives us whatever loses its parent below us, from now on."""
    return ask_kernel(PR_SET_CHILD_SUBREAPER, 1)


def stat_of(number: int) -> list[bytes]:
    """What the kernel says of a process behind its name: state, parent, group, ...; empty if there is none."""
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def born(number: int) -> int:
    """When a process began, in the kernel's own count; 0 if there is none, or nobody tells."""
    told = stat_of(number)
    return int(told[19]) if told else 0


def processes() -> dict[int, list[bytes]]:
    """All there are, with what the kernel says of each; none where it says nothing."""
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return {}
    return {number: stat for number in numbers if (stat := stat_of(number))}


def family(of: int, without: frozenset[int] = frozenset()) -> list[int]:
    """Every living process that descends from this one, but for these and theirs; empty where nobody tells."""
    known = processes()
    children: dict[int, list[int]] = {}
    for number, stat in known.items():
        children.setdefault(int(stat[1]), []).append(number)
    found: list[int] = []
    todo = [of]
    while todo:
        mine = [number for number in children.get(todo.pop(), []) if number not in without]
        todo.extend(mine)
        found.extend(number for number in mine if known[number][0] not in DEAD)
    return found


def send_signal(number: int, to: list[int]) -> None:
    """Each of these processes has this signal, if it is there and may have it."""
    for pid in to:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


class Ears:
    """A socket, and a pipe that wakes whoever polls when a child ends or SIGTERM comes."""

    def __init__(self, channel: Any) -> None:
        import _socket
        import select

        self.channel = channel
        self._space = _socket.CMSG_SPACE(4 * MOST_PASSED)
        #: What closes descriptors that come along for the commands, where the system has that.
        self._closed = getattr(_socket, "MSG_CMSG_CLOEXEC", 0)
        self.asked = False
        self._awake, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._ask)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._poll = select.poll()
        self._poll.register(channel.fileno(), select.POLLIN)
        self._poll.register(self._awake, select.POLLIN)

    def _ask(self, *_: object) -> None:
        self.asked = True

    def wait(self) -> bool:
        """Sleep until something is said or a signal has come; whether something is said."""
        told = [fd for fd, _ in self._poll.poll()]
        if self._awake in told:
            os.read(self._awake, 4096)
        return self.channel.fileno() in told

    def number(self) -> tuple[int, list[int]]:
        """The next number, and the descriptors that came with it. OSError at the end of the socket."""
        head, parts, _, _ = self.channel.recvmsg(NUMBER, self._space, self._closed)
        files = [fd for _, _, data in parts for fd in memoryview(data[: len(data) // 4 * 4]).cast("i")]
        if not self._closed:
            for fd in files:
                os.set_inheritable(fd, False)
        return number_from_bytes(head + self.data(NUMBER - len(head))), files

    def data(self, size: int) -> bytes:
        """So many bytes; OSError at their end."""
        found = b""
        while len(found) < size:
            more = self.channel.recv(min(size - len(found), 1 << 20))
            if not more:
                raise OSError
            found += more
        return found

    def say(self, number: int) -> None:
        """A number. OSError if nobody listens any more."""
        self.channel.sendall(number_as_bytes(number))


class Reaper:
    """One command after another, each with its tree."""

    def __init__(self, channel: Any) -> None:
        self.ears = Ears(channel)
        #: Whether whatever loses its parent becomes our child: then without a child there is nobody left.
        self._adopts = adopt()
        self._pid = 0
        self._status: int | None = None
        #: The open file whose name says of which task and claim the run is; -1 without one.
        self._told = -1
        #: What a command reads that has no input.
        self._nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def serve(self) -> None:
        """Until the socket closes, or something is left of a command that nothing ends."""
        try:
            self.ears.say(os.getpid())
            while True:
                size, files = self.ears.number()
                if size <= 0:
                    continue  # a word for a command that has just ended
                answer = self._run(self.ears.data(size), files)
                for fd in files:
                    os.close(fd)
                self.ears.say(answer)
                if answer & LEAVES:
                    return
        except OSError:
            return  # whoever asked is gone

    def _run(self, order: bytes, files: list[int]) -> int:
        """The command has run and nothing of it is left; how it ended, or below zero the error of a full machine."""
        passed, reads, words, grace, *rest = order.split(b"\0")
        if len(files) != int(passed):
            return -EXHAUSTED[-1]
        source = files[2] if int(reads) else self._nothing
        try:
            self._start(rest[: int(words)], rest[int(words) :], (source, *files[:2]))
        except (OSError, ValueError) as error:
            number: int = getattr(error, "errno", None) or 0
            if number in EXHAUSTED:
                return -number
            told = getattr(error, "strerror", None) or str(error)
            os.write(files[1], rest[2] + b" cannot be run: " + told.encode("utf-8", "replace") + b"\n")
            return CANNOT_RUN << 8
        left = self._attend(float(grace))
        status = int(signal.SIGKILL) if self._status is None else self._status
        return status + LEAVES if left or self.ears.asked else status

    def _start(self, words: list[bytes], env: list[bytes], streams: tuple[int, ...]) -> None:
        """The command runs, in a session of its own; `env` are the names of its variables, then their values."""
        directory, program, *argv = words
        half = len(env) // 2
        variables = dict(zip(env[:half], env[half:], strict=True))
        self.ears.asked, self._status = False, None
        self._tell_run(variables)
        os.chdir(directory)
        try:
            self._pid = os.posix_spawn(
                program,
                argv,
                variables,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, stream) for stream, fd in enumerate(streams)],
                setsid=True,
                setsigmask=(),
                setsigdef=DEFAULTS,
            )
        finally:
            os.chdir("/")

    def _tell_run(self, variables: dict[bytes, bytes]) -> None:
        """Whoever looks at us sees whether our command is a run, and of what: also what lost its parent and has us for
        one now, and what has changed its own variables.
        """
        if self._told >= 0:
            os.close(self._told)
        self._told = -1
        if not variables.get(RUN_DIR):
            ask_kernel(PR_SET_NAME, NAME)
            return
        said = b" ".join(variables.get(name, b"") for name in (b"TASKPIT_TASK", b"TASKPIT_AS", b"TASKPIT_ROLE"))
        try:
            self._told = os.memfd_create(os.fsdecode(said))  # nobody gives it another name
        except (AttributeError, OSError):
            self._told = -1  # then it is a run of nobody knows what
        ask_kernel(PR_SET_NAME, NAME_OF_RUN % self._told)

    def _attend(self, grace: float) -> bool:
        """Until the command and all it has started are gone; whether something is left nevertheless."""
        while self._status is None:
            if self.ears.wait():
                try:
                    word = self.ears.number()[0]
                except OSError:
                    self._end(ORPHANED)
                    raise
                if word == KILL:
                    return self._end(0.0)
                if word == STOP:
                    self._tell(signal.SIGTERM)
            left = self._reap()
            if self.ears.asked:
                return self._end(ORPHANED)
        return left and self._end(grace)

    def _reap(self) -> bool:
        """The dead are buried; how the command itself ended is kept. Whether a process may be left."""
        while True:
            try:
                number, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not self._adopts
            if number == 0:
                return True
            if number == self._pid:
                self._status = status

    def _tell(self, number: int) -> bool:
        """Everything has this signal; False if nothing is left."""
        found = family(os.getpid())
        send_signal(number, found)
        if not found and not os.path.isdir("/proc/self"):
            try:
                os.killpg(self._pid, number)
            except (ProcessLookupError, PermissionError):
                return False
            return self._status is None
        return bool(found)

    def _end(self, grace: float) -> bool:
        """Nothing is left of it: asked first, if there is time for that, then killed. Whether something is left."""
        if not self._reap():  # nobody is looked for among all processes of the machine
            return False
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
        return left


def number_as_bytes(number: int) -> bytes:
    """As it is said on a socket."""
    return number.to_bytes(NUMBER, "little", signed=True)


def number_from_bytes(data: bytes) -> int:
    """The number that was said."""
    return int.from_bytes(data, "little", signed=True)


def main() -> None:
    """A reaper, by the socket that is its input."""
    from _socket import socket

    os.closerange(3, MOST_FILES)  # a lock, say, that a process above us left open for whatever it starts
    Reaper(socket(fileno=0)).serve()


def serve() -> None:
    """Each socket that comes is the socket of a new reaper, until the input ends. What a reaper leaves behind that
    was killed becomes our child, and is killed: no command is nobody's.
    """
    import gc
    from _socket import socket

    os.closerange(3, MOST_FILES)
    gc.disable()  # whatever it looks at is copied
    adopt()
    ears = Ears(socket(fileno=0))
    reapers: set[int] = set()
    while True:
        try:
            if ears.wait():
                (fd,) = ears.number()[1]
                reapers.add(_copy(ears, fd))
        except (OSError, ValueError):
            break  # whoever asked is gone
        _bury(reapers, os.WNOHANG)
    while reapers:
        _bury(reapers, 0)


def _copy(ears: Ears, fd: int) -> int:
    """The number of a copy of this process that is a reaper with a session of its own; 0 if there is no room."""
    from _socket import socket

    channel = socket(fileno=fd)
    try:
        number = os.fork()
        if number == 0:
            try:
                os.setsid()
                os.dup2(1, ears.channel.detach())  # nothing that comes has a number below three
                Reaper(channel).serve()
            finally:
                os._exit(0)
    except OSError as error:
        number = 0
        channel.sendall(number_as_bytes(-(error.errno or EXHAUSTED[0])))
    channel.close()
    return number


def _bury(reapers: set[int], how: int) -> None:
    """The dead are no reapers any more. After one that was killed nothing is left of what it watched over."""
    killed = False
    try:
        while reapers and not killed:
            number, status = os.waitpid(-1, how)
            if number == 0:
                break
            killed = status != 0
            reapers.discard(number)
    except ChildProcessError:
        reapers.clear()
    deadline = time.monotonic() + PATIENCE
    while killed and time.monotonic() < deadline and (strays := family(os.getpid(), frozenset(reapers))):
        send_signal(signal.SIGKILL, strays)
        time.sleep(LOOK / 4)
