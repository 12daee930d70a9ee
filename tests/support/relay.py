"""A relay between a client and a PostgreSQL server: it cuts connections after the server has done its work, or keeps
everything back, as a network does that swallows packets."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
from collections.abc import Iterator

from waits import PATIENCE

NAME = ".s.PGSQL.5432"


class Relay:
    """Listens on a socket of its own, in `place`, and passes everything on to the server in `root`."""

    def __init__(self, root: str) -> None:
        self.place = tempfile.mkdtemp(prefix="relay-")
        self._root = root
        self._cut = threading.Event()
        self._open = threading.Event()
        self._open.set()
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(f"{self.place}/{NAME}")
        os.chmod(f"{self.place}/{NAME}", 0o777)
        self._door.listen(64)
        self._start(self._accept)

    def _start(self, target, *words) -> None:
        thread = threading.Thread(target=target, args=words, daemon=True)
        self._threads.append(thread)
        thread.start()

    def next(self) -> None:
        """The next answer of the server is lost, and the connection with it."""
        self._cut.set()

    @contextlib.contextmanager
    def swallowing(self) -> Iterator[None]:
        """Nothing passes, in either direction, and nothing is closed."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    def close(self) -> None:
        """Stop listening, and close every connection."""
        self._open.set()
        for end in (self._door, *self._ends):
            _shut(end)
        for thread in self._threads:
            thread.join(PATIENCE)
        for end in (self._door, *self._ends):
            end.close()
        os.unlink(f"{self.place}/{NAME}")
        os.rmdir(self.place)

    def _accept(self) -> None:
        while True:
            try:
                client = self._door.accept()[0]
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            self._ends += (client, server)
            try:
                server.connect(f"{self._root}/{NAME}")
            except OSError:
                _shut(client)
                continue
            self._start(self._pass_on, client, server, False)
            self._start(self._pass_on, server, client, True)

    def _pass_on(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if answers and self._cut.is_set():
                    self._cut.clear()
                    break
                self._open.wait(10 * PATIENCE)
                target.sendall(data)
        _shut(source)
        _shut(target)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
