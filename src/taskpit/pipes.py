"""Messages between two peers through a FIFO: the message is a file first, the pipe is its bell.

Belongs to the fs room; knows nothing about tasks. A peer may be ours, or a program that only writes into
the FIFO and closes it, or opens it and reads to the end. Between two of ours the pipe carries nothing:
that a process opened and closed it is the bell, and the message goes as a file, so none is lost, mixed or
cut short, however a peer dies. A foreign reader gets the text itself, and a foreign writer's text becomes
a file as soon as we have read it.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import select
import stat
import termios
import time

from taskpit import fs, kernel
from taskpit.held_directories import at
from taskpit.model import Value

#: How often a peer that is not there is looked for.
LOOK = 0.02
#: How long a foreign reader may take to close before the next message is sent, and how long that takes
#: at most where the kernel does not tell.
SETTLE, PAUSE = 2.0, 0.1
#: How long a foreign writer may be silent in the middle of a message once our time is over.
SILENCE = 5.0
#: The largest message.
LARGEST = 256 * 1024 * 1024
#: inotify's word for a reader that closes.
CLOSE_NOWRITE = 0x10


class Message(Value, frozen=True, kw_only=True):
    """A message that has arrived; it stays on the disk until `Pipe.acknowledge`."""

    data: bytes
    file: str


class Pipe:
    """One direction between two peers."""

    def __init__(self, fifo: str, spool: str) -> None:
        self.fifo = fifo
        self.spool = spool

    def make(self) -> None:
        """The FIFO and the spool exist. NotAFile if something else stands in the FIFO's place."""
        fs.make_dir(f"{self.spool}/sent")
        status = fs.status(self.fifo)
        if status is None:
            try:
                make_fifo(self.fifo)
            except FileExistsError:
                status = fs.status(self.fifo)
        if status is not None and not stat.S_ISFIFO(status.st_mode):
            raise fs.NotAFile(errno.EEXIST, "it is in the way of a pipe", self.fifo)

    # -- sending -----------------------------------------------------------------------------------

    def post(self, data: bytes) -> str:
        """The message is on the disk and will be the next reader's; its file."""
        name = f"{time.time_ns():020d}~{fs.fresh_name()}"
        fs.create(f"{self.spool}/.{name}", data, sync=True)
        fs.move(f"{self.spool}/.{name}", f"{self.spool}/{name}")
        fs.sync_dir(self.spool)
        return name

    def send(self, data: bytes, timeout: float) -> bool:
        """Post the message and wake the reader, or hand it over if the reader knows only the pipe.

        False if nobody read within `timeout` seconds: the message is kept for the next reader of ours.
        """
        name = self.post(data)
        deadline = time.monotonic() + timeout
        turn = fs.Flock(f"{self.spool}/.send")  # one sender at a time: a plain reader reads to the end
        try:
            while not turn.take(wait=False) or not self._deliver(name, deadline):
                turn.drop()
                if not fs.exists(f"{self.spool}/{name}"):
                    return True  # a reader of ours found it by itself
                if time.monotonic() >= deadline:
                    return False
                time.sleep(LOOK)
        finally:
            turn.drop()
        return True

    def _open_for_writing(self) -> int | None:
        try:
            return open_fifo(self.fifo, os.O_WRONLY)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None  # nobody has it open for reading
            raise

    def _deliver(self, name: str, deadline: float) -> bool:
        fd = self._open_for_writing()
        if fd is None:
            return False
        if self._reader_is_ours():
            os.close(fd)  # the bell
            return True
        leaving = _Leaving(self.fifo)
        try:
            handed = self._hand_over(fd, name, deadline)
        finally:
            os.close(fd)
            # A plain reader reads to the end: the next sender must not begin before it has seen one.
            leaving.wait()
        return handed

    def _reader_is_ours(self) -> bool:
        lock = fs.Flock(f"{self.spool}/.reader")
        if not lock.take(wait=False):
            return True
        lock.drop()
        return False

    def _hand_over(self, fd: int, name: str, deadline: float) -> bool:
        """Write the text itself to a reader that knows only the pipe. It comes back if the reader dies."""
        handed = f"{self.spool}/sent/{name}"
        if not fs.move(f"{self.spool}/{name}", handed):
            return True  # a reader of ours was faster
        data, _ = fs.read(handed, LARGEST)
        try:
            _write_until(fd, data, deadline)
            _wait_until_read(fd, deadline)
        except (BrokenPipeError, TimeoutError):
            fs.move(handed, f"{self.spool}/{name}")
            return False
        return True

    # -- receiving ---------------------------------------------------------------------------------

    def receive(self, timeout: float) -> Message | None:
        """The next message, or None after `timeout` seconds. Repeated until it is acknowledged."""
        deadline = time.monotonic() + timeout
        reader = fs.Flock(f"{self.spool}/.reader")
        while not reader.take(wait=False):
            if time.monotonic() >= deadline:
                return None
            time.sleep(LOOK)
        try:
            while True:
                message = self._oldest()
                if message is not None:
                    return message
                if time.monotonic() >= deadline:
                    return None
                self._listen(deadline)
        finally:
            reader.drop()

    def _oldest(self) -> Message | None:
        for name in sorted(fs.names(self.spool)):
            if name[:1].isdecimal():
                try:
                    return Message(data=fs.read(f"{self.spool}/{name}", LARGEST)[0], file=name)
                except FileNotFoundError:
                    continue
        return None

    def _listen(self, deadline: float) -> None:
        """Wait for the bell, or for a foreign writer's text, which becomes a file at once."""
        fd = open_fifo(self.fifo, os.O_RDONLY)
        try:
            waits = self._oldest() is None  # else it came before we listened
            while waits or _has_text(fd):  # what was written while the pipe is open would be gone with it
                text = _read_until_closed(fd, deadline)
                if text:
                    self.post(text)
                waits = False
        finally:
            os.close(fd)

    def acknowledge(self, message: Message) -> None:
        """The message has been dealt with and will not be seen again."""
        fs.move(f"{self.spool}/{message.file}", f"{self.spool}/sent/{message.file}")


def make_fifo(path: str) -> None:
    """A FIFO stands under this name; FileExistsError if something did already."""
    there, name = at(path)
    os.mkfifo(name, dir_fd=there.fd)


def open_fifo(path: str, flags: int) -> int:
    """The open FIFO, which nobody waits for: OSError with ENXIO if nobody reads what should be written to it."""
    there, name = at(path)
    try:
        fd = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=there.fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise fs.NotAFile(errno.ELOOP, "this is no FIFO", path) from None
        raise
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        os.close(fd)
        raise fs.NotAFile(errno.EINVAL, "this is no FIFO", path)
    return fd


class _Leaving:
    """Notices that a reader closes the FIFO. To look by opening it would be a bell that rings for nothing."""

    def __init__(self, fifo: str) -> None:
        self._fd = -1
        begin, add = kernel.call("inotify_init1"), kernel.call("inotify_add_watch")
        if begin is not None and add is not None:
            self._fd = begin(os.O_CLOEXEC | os.O_NONBLOCK)
            if self._fd >= 0 and add(self._fd, os.fsencode(fifo), CLOSE_NOWRITE) < 0:
                self._close()

    def wait(self) -> None:
        """A reader has closed it, or has had its time to."""
        if self._fd < 0:
            time.sleep(PAUSE)
            return
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.poll(SETTLE * 1000)
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _write_until(fd: int, data: bytes, deadline: float) -> None:
    view = memoryview(data)
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    while view:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise TimeoutError
        try:
            view = view[os.write(fd, view[:65536]) :]
        except BlockingIOError:
            continue


def _wait_until_read(fd: int, deadline: float) -> None:
    """All that was written has been read. BrokenPipeError if the reader is gone, TimeoutError if it is too slow."""
    unread = array.array("i", [0])
    poll = select.poll()
    poll.register(fd, 0)  # a reader that is gone is told unasked
    while True:
        fcntl.ioctl(fd, termios.FIONREAD, unread)
        if not unread[0]:
            return
        if poll.poll(LOOK * 100):
            raise BrokenPipeError
        if time.monotonic() >= deadline:
            raise TimeoutError


def _has_text(fd: int) -> bool:
    """Whether something is written there that nobody has read."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(event & select.POLLIN for _, event in poll.poll(0))


def _read_until_closed(fd: int, deadline: float) -> bytes:
    """What is written until the last writer closes; nothing if that was only the bell, or nobody came in time."""
    chunks: list[bytes] = []
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    until = deadline
    while True:
        left = until - time.monotonic()
        if not poll.poll(max(left, 0.0) * 1000):
            if left > 0:
                continue
            return b"".join(chunks)  # what is there is read first, however late it is
        try:
            chunk = os.read(fd, 65536)
        except BlockingIOError:
            continue
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        # Who has begun is heard to the end, unless it falls silent: half a message helps nobody.
        until = max(deadline, time.monotonic() + SILENCE)
