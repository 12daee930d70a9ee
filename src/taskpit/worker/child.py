"""A command behind its reaper, as the process that starts it sees it: begun, watched, ended with all it has started.

fork      a copy of this process is the reaper: at once, where this process has no threads
serve     a copy of a fork server is, which a pool keeps while it runs: about a millisecond a command
spawn     a new interpreter is: fifteen milliseconds
"""

from __future__ import annotations

import os
import sys
import time

from taskpit.worker import reaper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

#: How often a process is looked at where the kernel does not tell of its end, at most and at least; and where it does.
SHORTEST, LOOK, TICK = 0.002, 0.02, 0.5
#: What of our own environment an interpreter needs to begin; the commands have theirs.
NEEDED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


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
    ) -> None:
        """It waits for its first word. OSError: the machine has no room for it.

        It prints to the two `streams`, and reads the file `stdin`. What it leaves behind has `grace` seconds to end by
        itself. The reaper has the descriptors `keep` open until all is gone, should we be killed.
        """
        self._status: int | None = None
        self._server: ForkServer | None = None
        #: A descriptor that can be read once the reaper has ended; -1 where there are none.
        self.waker = -1
        hears, self._pipe = os.pipe()
        order, files = (f"{grace:g}", stdin or os.devnull, cwd, *argv), (hears, *streams, *keep)
        try:
            self.pid = self._start(order, env, files)
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            os.close(hears)

    def _start(self, order: tuple[str, ...], env: Mapping[str, str] | None, files: tuple[int, ...]) -> int:
        """The number of its reaper."""
        if env is None and "threading" not in sys.modules:
            return _fork(order, files)
        number = self._start_elsewhere(order, os.environ if env is None else env, files)
        self.waker = _waker(number)
        return number

    def _start_elsewhere(self, order: tuple[str, ...], env: Mapping[str, str], files: tuple[int, ...]) -> int:
        server = _serving.server
        if server is not None:
            try:
                number = server.start(order, env, files)
            except ConnectionError:  # it was killed
                _serving.server = None
                server.close()
            else:
                self._server = server
                return number
        return _spawn(order, env, files)

    def tell(self, word: bytes) -> None:
        """The reaper has been told."""
        try:
            os.write(self._pipe, word)
        except OSError:
            return  # it was ended before

    def ended(self) -> bool:
        """Whether it has ended. Where possible it is left unreaped: until then nobody else gets its number."""
        if self.waker >= 0:
            return sleep(0, self.waker)
        if hasattr(os, "waitid"):
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        if self._status is None:
            number, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if number else None
        return self._status is not None

    def wait(self, deadline: float) -> bool:
        """True once it has ended, False at the deadline."""
        pause = SHORTEST
        while not self.ended():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if self.waker >= 0:
                sleep(min(left, TICK), self.waker)
            else:
                time.sleep(min(left, pause))
                pause = min(pause * 2, LOOK)
        return True

    def end(self) -> int:
        """Nothing of the command is left; its exit code: negative is the signal that killed it."""
        if not self.ended():
            self.tell(reaper.KILL)
            if not self.wait(time.monotonic() + reaper.LAST_CALL):
                os.kill(self.pid, 9)
        os.close(self._pipe)
        if self.waker >= 0:
            os.close(self.waker)
        if self._server is not None:
            self._status = self._server.wait(self.pid)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1] if self._status is None else self._status)


def sleep(seconds: float, *wakers: int) -> bool:
    """Until one of these descriptors can be read, or that many seconds; whether one can."""
    import select

    poll = select.poll()
    for fd in wakers:
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(seconds, 0) * 1000))


def _waker(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _fork(order: tuple[str, ...], files: tuple[int, ...]) -> int:
    number = os.fork()
    if number:
        return number
    try:
        os.setsid()
        for here, fd in enumerate(files[:3]):
            os.dup2(fd, here)
        os.closerange(3, reaper.MOST_FILES)
        reaper.main(*order)
    finally:
        os._exit(1)


def _spawn(order: tuple[str, ...], env: Mapping[str, str], files: tuple[int, ...]) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(files[:3])]
    for fd in files[3:]:
        if sys.platform != "linux":
            os.set_inheritable(fd, True)  # there a descriptor that is copied to itself stays closed for the new one
        actions.append((os.POSIX_SPAWN_DUP2, fd, fd))
    return os.posix_spawn(sys.executable, (*reaper.COMMAND, *order), env, file_actions=actions, setsid=True)


class ForkServer:
    """A process that has a reaper loaded and nothing else: each of its copies is one, with a session of its own."""

    def __init__(self) -> None:
        import socket
        import threading

        ours, theirs = socket.socketpair()
        actions = [
            (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        env = {name: os.environ[name] for name in NEEDED if name in os.environ}
        try:
            self._pid = os.posix_spawn(sys.executable, reaper.SERVER, env, file_actions=actions, setsid=True)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._channel = ours
        self._turn = threading.Lock()

    def start(self, order: tuple[str, ...], env: Mapping[str, str], files: Sequence[int]) -> int:
        """The number of a new reaper. ConnectionError: the server is gone; another OSError: there is no room."""
        import socket

        words = [*order, *(f"{name}={value}" for name, value in env.items())]
        data = b"\0".join(map(os.fsencode, (str(len(files)), str(len(order)), *words)))
        with self._turn:
            if self._channel.fileno() < 0:
                raise ConnectionResetError("the fork server is gone")
            socket.send_fds(self._channel, [reaper.number_as_bytes(len(data))], list(files))
            self._channel.sendall(data)
            number = self._answer()
        if number < 0:
            raise OSError(-number, os.strerror(-number))
        return number

    def wait(self, pid: int) -> int:
        """How a reaper that has ended did so; as if it was killed, where the server was, who alone could tell."""
        try:
            with self._turn:
                self._channel.sendall(reaper.number_as_bytes(-pid))
                return self._answer()
        except OSError:
            return 9

    def _answer(self) -> int:
        said = b""
        while len(said) < reaper.NUMBER:
            more = self._channel.recv(reaper.NUMBER - len(said))
            if not more:
                raise ConnectionResetError("the fork server is gone")
            said += more
        return reaper.number_from_bytes(said)

    def close(self) -> None:
        """Its input ends, and so does it."""
        with self._turn:
            if self._channel.fileno() >= 0:
                self._channel.close()
                os.waitpid(self._pid, 0)


class _Serving:
    """Who uses the fork server of this process, of which there is one at most."""

    def __init__(self) -> None:
        self.server: ForkServer | None = None
        self._users = 0

    def __enter__(self) -> None:
        self._users += 1
        if self._users == 1 and hasattr(os, "pidfd_open"):
            try:
                self.server = ForkServer()
            except OSError:
                self.server = None  # each command has an interpreter of its own, then

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._users -= 1
        if not self._users and self.server is not None:
            server, self.server = self.server, None
            server.close()


_serving = _Serving()


def serving() -> _Serving:
    """While this is entered, commands are started by a fork server where the system has what that takes."""
    return _serving
