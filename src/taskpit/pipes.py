"""Messages between two peers through a FIFO: the message is a file first, the pipe is its bell.

Belongs to the fs room; knows nothing about tasks. A peer may be ours, or a program that only writes into
the FIFO and closes it, or opens it and reads to the end. Between two of ours the pipe carries a single
byte and the message goes as a file, so none is lost, mixed or cut short, however a peer dies. A foreign
reader gets the text itself, and a foreign writer's text becomes a file as soon as we have read it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
import time

from taskpit import fs
from taskpit.values import Value

__all__ = ["Message", "Pipe"]

#: How often a peer that is not there is looked for.
LOOK = 0.02
#: How long a foreign reader may take to close before the next message is sent.
SETTLE = 2.0
#: The largest message.
LARGEST = 256 * 1024 * 1024
BELL = b"\n"


class Message(Value):
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
                os.mkfifo(self.fifo)
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
        with fs.Flock(f"{self.spool}/.send"):  # one sender at a time: a plain reader reads to the end
            while not self._deliver(name, deadline):
                if not fs.exists(f"{self.spool}/{name}"):
                    return True  # a reader of ours found it by itself
                if time.monotonic() >= deadline:
                    return False
                time.sleep(LOOK)
            if fs.exists(f"{self.spool}/sent/{name}"):
                self._let_reader_leave()
        return True

    def _open_for_writing(self) -> int | None:
        try:
            return os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None  # nobody has it open for reading
            raise

    def _let_reader_leave(self) -> None:
        """A plain reader reads to the end: the next sender must not begin before it has seen one."""
        deadline = time.monotonic() + SETTLE
        while time.monotonic() < deadline and not self._reader_is_ours():
            fd = self._open_for_writing()
            if fd is None:
                return
            os.close(fd)
            time.sleep(LOOK)

    def _deliver(self, name: str, deadline: float) -> bool:
        fd = self._open_for_writing()
        if fd is None:
            return False
        try:
            if self._reader_is_ours():
                _try_write(fd, BELL)
                return True
            return self._hand_over(fd, name, deadline)
        finally:
            os.close(fd)

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
        fd = os.open(self.fifo, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if self._oldest() is not None:
                return  # it came before we listened
            text = _read_until_closed(fd, deadline)
        finally:
            os.close(fd)
        if text.strip(BELL):
            self.post(text)

    def acknowledge(self, message: Message) -> None:
        """The message has been dealt with and will not be seen again."""
        fs.move(f"{self.spool}/{message.file}", f"{self.spool}/sent/{message.file}")


def _try_write(fd: int, data: bytes) -> None:
    # A full pipe rings by itself; a reader that is gone finds the file when it comes back.
    with contextlib.suppress(BlockingIOError, BrokenPipeError):
        os.write(fd, data)


def _write_until(fd: int, data: bytes, deadline: float) -> None:
    view = memoryview(data)
    while view:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([], [fd], [], left)[1]:
            raise TimeoutError
        try:
            view = view[os.write(fd, view[:65536]) :]
        except BlockingIOError:
            continue


def _read_until_closed(fd: int, deadline: float) -> bytes:
    """What is written until the last writer closes; a bell alone ends it at once."""
    chunks: list[bytes] = []
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        if left <= 0 and not chunks:
            return b""
        # A foreign writer that has begun is heard to its end: half a message helps nobody.
        if not poll.poll(max(min(left, 1.0), 0.05) * 1000):
            continue
        try:
            chunk = os.read(fd, 65536)
        except BlockingIOError:
            continue
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        if chunks == [BELL]:
            return b""
