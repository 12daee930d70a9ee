"""A command behind its reaper, as the process that starts it sees it: begun, watched, ended with all it has started.

Where a reaper comes from:

kept      one that has served before: while this process is `serving`, as a pool is, reapers stay
served    a copy of a server that has a reaper loaded and nothing else: a millisecond
forked    a copy of this process, where it has no threads
spawned   a new interpreter: fifteen milliseconds
"""

from __future__ import annotations

import errno
import os
import sys
import time
from _thread import allocate_lock

from taskpit.worker import reaper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from taskpit.worker.process import Bell

#: What of our own environment an interpreter needs to begin; the commands have theirs.
NEEDED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
#: How long a look at the clock may be away, in seconds: it may leap.
TICK = 0.5
#: How a command has ended whose reaper was killed, which alone could tell.
KILLED = 9


class NoProgram(OSError):
    """There is no such command, or it may not be executed."""


class Child:
    """A command and its reaper. Without `subprocess`, which brings thirty modules to a `pit done`."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str] | None,
        streams: tuple[int, int],
        *,
        stdin: str = "",
        grace: float = 0.0,
        keep: tuple[int, ...] = (),
        started: Callable[[int], None] | None = None,
    ) -> None:
        """It has begun. NoProgram: there is no such command. OSError: the machine has no room for it.

        It prints to the two `streams`, and reads the file `stdin`. What it leaves behind has `grace` seconds to end by
        itself. The reaper has the descriptors `keep` open until all is gone, should we be killed. `started` hears the
        reaper's number before anything begins: should we be killed before others know it, nothing does.
        """
        self._answer: int | None = None
        seen = os.environ if env is None else env
        program = find_program(argv[0], cwd, seen)
        if not program:
            raise NoProgram(errno.ENOENT, "there is no such command, or it may not be executed", argv[0])
        words = [cwd, program, *argv]
        passed = len(streams) + bool(stdin) + len(keep)
        parts = [f"{passed}", f"{bool(stdin):d}", f"{len(words)}", f"{grace:g}", *words]
        parts += [*seen.keys(), *seen.values()]
        order = os.fsencode("\0".join(parts))
        if order.count(b"\0") >= len(parts):
            raise ValueError("there is a NUL in its words or its environment")
        source = [os.open(os.path.join(cwd, stdin), os.O_RDONLY | os.O_CLOEXEC)] if stdin else []
        try:
            self._reaper = _order(order, (*streams, *source, *keep), started)
        finally:
            for fd in source:
                os.close(fd)

    @property
    def pid(self) -> int:
        """The number of its reaper."""
        return self._reaper.pid

    @property
    def waker(self) -> int:
        """A descriptor that can be read once it has ended."""
        number: int = self._reaper.channel.fileno()
        return number

    def tell(self, word: int) -> None:
        """The reaper has been told STOP or KILL."""
        try:
            self._reaper.channel.sendall(reaper.number_as_bytes(word))
        except OSError:
            return  # it was ended before

    def ended(self) -> bool:
        """Whether it has ended."""
        return self._hear(0.0)

    def wait(self, deadline: float, bell: Bell | None = None) -> bool:
        """True once it has ended, False at the deadline or when the bell rings."""
        while (left := deadline - time.monotonic()) > 0 and not (bell and bell.rung):
            pause = min(left, TICK)
            if bell is not None:
                bell.wait(pause, self.waker)
            if self._hear(pause if bell is None else 0.0):
                return True
        return self.ended()

    def _hear(self, seconds: float) -> bool:
        if self._answer is None:
            try:
                self._answer = self._reaper.answer(seconds)
            except (TimeoutError, BlockingIOError):
                return False
            except ConnectionError:
                self._answer = KILLED + reaper.LEAVES
        return True

    def end(self) -> int:
        """Nothing of the command is left; its exit code: negative is the signal that killed it.

        OSError: the machine had no room for it.
        """
        if not self.ended():
            self.tell(reaper.KILL)
            if not self.wait(time.monotonic() + reaper.LAST_CALL):
                os.kill(self._reaper.pid, 9)
        answer = KILLED + reaper.LEAVES if self._answer is None else self._answer
        if answer >= reaper.LEAVES:
            self._reaper.close()
        else:
            _reapers.give_back(self._reaper)
        if answer < 0:
            raise OSError(-answer, os.strerror(-answer))
        return os.waitstatus_to_exitcode(answer % reaper.LEAVES)


def _order(order: bytes, files: Sequence[int], started: Callable[[int], None] | None) -> Link:
    """The reaper that has it."""
    while True:
        link = _reapers.take()
        try:
            if started is not None:
                started(link.pid)
            link.send(len(order), files, order)
        except ConnectionError:
            link.close()  # it was killed while it waited: the next one
        except BaseException:
            link.close()
            raise
        else:
            return link


def sleep(seconds: float, *wakers: int) -> bool:
    """Until one of these descriptors can be read, or that many seconds; whether one can."""
    import select

    poll = select.poll()
    for fd in wakers:
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(seconds, 0) * 1000))


# -- programs --------------------------------------------------------------------------------------

#: So many programs are remembered.
MOST_FOUND = 64
_found: dict[tuple[str, str], str] = {}


def find_program(name: str, cwd: str, env: Mapping[str, str]) -> str:
    """The file of a command that begins with this word and runs there; empty if there is none."""
    if "/" in name:
        return name if _is_program(os.path.join(cwd, name)) else ""
    path = env.get("PATH", os.defpath)
    known = _found.get((name, path), "")
    if known and _is_program(known):
        return known
    for folder in path.split(os.pathsep):
        file = os.path.join(cwd, folder, name)
        if _is_program(file):
            if folder.startswith("/"):
                if len(_found) >= MOST_FOUND:  # each run may have a path of its own
                    _found.clear()
                _found[name, path] = file
            return file
    return ""


def _is_program(file: str) -> bool:
    return os.access(file, os.X_OK) and not os.path.isdir(file)


# -- reapers ---------------------------------------------------------------------------------------


#: When each of our reapers began; a number that a new one has by now is the new one's.
_births: dict[int, int] = {}


def birth_of(number: int) -> int:
    """When this reaper began, in the kernel's own count."""
    return _births.get(number) or reaper.born(number)


class Link:
    """A reaper, or the server that makes them, as we see it."""

    def __init__(self, channel: Any, pid: int = 0, *, ours: bool = False) -> None:
        """`ours`: it is a child of this process."""
        from _socket import MSG_DONTWAIT, SCM_RIGHTS, SOL_SOCKET

        self._at_once, self._rights = MSG_DONTWAIT, (SOL_SOCKET, SCM_RIGHTS)
        self.channel = channel
        self.pid = pid
        self._ours = ours

    def send(self, number: int, files: Sequence[int], data: bytes = b"") -> None:
        """A number with descriptors, and what follows it. ConnectionError: nobody is there."""
        passed = b"".join(fd.to_bytes(4, sys.byteorder) for fd in files)
        whole = reaper.number_as_bytes(number) + data  # in one piece: it wakes up once
        sent = self.channel.sendmsg([whole], [(*self._rights, passed)])
        if sent < len(whole):
            self.channel.sendall(whole[sent:])

    def answer(self, seconds: float | None = None) -> int:
        """What it says next. ConnectionError: it is gone. TimeoutError, or BlockingIOError if we do not wait at all:
        it has said nothing for so long.
        """
        if seconds:
            self.channel.settimeout(seconds)
        try:
            said = self.channel.recv(reaper.NUMBER, self._at_once if seconds == 0 else 0)
        finally:
            if seconds:
                self.channel.settimeout(None)
        if len(said) < reaper.NUMBER:
            raise ConnectionResetError("the reaper is gone")
        return reaper.number_from_bytes(said)

    def greeted(self) -> Link:
        """Itself, once it has said its number. OSError: there is no room for it."""
        try:
            number = self.answer()
        except OSError:
            self.close()
            raise
        if number < 0:
            self.close()
            raise OSError(-number, os.strerror(-number))
        self.pid = number
        _births[number] = reaper.born(number)
        return self

    def close(self) -> None:
        """Its input ends, and so does it."""
        self.channel.close()
        if self._ours:
            os.waitpid(self.pid, 0)


class Reapers:
    """The reapers of this process. While this is entered they stay, and a server makes them."""

    def __init__(self) -> None:
        self.server: Link | None = None
        self._idle: list[Link] = []
        self._users = 0
        self._turn = allocate_lock()

    def __enter__(self) -> None:
        self._users += 1
        if self._users == 1:
            try:
                self.server = _spawn(reaper.SERVER)
            except OSError:
                self.server = None  # each reaper has an interpreter of its own, then

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._users -= 1
        if self._users:
            return
        while self._idle:
            self._idle.pop().close()
        if self.server is not None:
            self.server.close()
            self.server = None

    def take(self) -> Link:
        """One that waits for an order. OSError: there is no room for it."""
        with self._turn:
            if self._idle:
                return self._idle.pop()
            if self.server is not None:
                try:
                    return self._copy(self.server)
                except ConnectionError:  # it was killed
                    self.server.close()
                    self.server = None
        return _fork() if "threading" not in sys.modules else _spawn(reaper.COMMAND).greeted()

    def _copy(self, server: Link) -> Link:
        from _socket import socketpair

        ours, theirs = socketpair()
        try:
            server.send(reaper.STOP, (theirs.fileno(),))
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        return Link(ours).greeted()

    def give_back(self, link: Link) -> None:
        """It has served; where reapers stay, it waits for another order."""
        if self._users:
            self._idle.append(link)
        else:
            link.close()


def _fork() -> Link:
    from _socket import socketpair

    ours, theirs = socketpair()
    number = os.fork()
    if number:
        theirs.close()
        return Link(ours, number, ours=True).greeted()
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        os.closerange(3, theirs.fileno())
        os.closerange(theirs.fileno() + 1, reaper.MOST_FILES)
        reaper.Reaper(theirs).serve()
    finally:
        os._exit(0)


def _spawn(words: tuple[str, ...]) -> Link:
    from _socket import socketpair

    ours, theirs = socketpair()
    actions = [
        (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    env = {name: os.environ[name] for name in NEEDED if name in os.environ}
    try:
        number = os.posix_spawn(sys.executable, words, env, file_actions=actions, setsid=True)
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return Link(ours, number, ours=True)


_reapers = Reapers()


def serving() -> Reapers:
    """While this is entered, reapers stay from one command to the next."""
    return _reapers
