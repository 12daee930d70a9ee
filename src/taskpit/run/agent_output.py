"""Listens to an agent while it runs: reads what it prints, and says when it has hung. Knows files and time.

Called now and then by the thread that waits for the process. Three things end an agent: it has said that it is over
and does not leave, it has printed nothing at all for too long, or it says the same thing over and over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from taskpit import fs
from taskpit.run import process
from taskpit.run.acp import Client
from taskpit.run.preset import Preset
from taskpit.run.run_directory import RunDirectory
from taskpit.run.transcript import Transcript

#: How much of what is no event is looked at, from the end.
TAIL = 32768


class _Stream:
    """A file that grows."""

    def __init__(self, path: str) -> None:
        self._fd = fs.open_file(path)
        self._read = 0
        self.size = 0

    def lines(self, *, last: bool = False) -> list[bytes]:
        """The lines that have come since; the unfinished one too, if it is the last."""
        self.size = os.fstat(self._fd).st_size
        if self.size < self._read:  # it was cut: better to hear twice than not at all
            self._read = 0
        self._read = max(self._read, self.size - process.LONGEST_LOG)  # its agent may call it as long as it likes
        data = os.pread(self._fd, self.size - self._read, self._read)
        end = len(data) if last else data.rfind(b"\n") + 1
        self._read = max(self._read + end - process.trim(self._fd), 0)
        return data[:end].splitlines(keepends=True)

    def tail(self) -> str:
        """The end of it."""
        size = os.fstat(self._fd).st_size
        return os.pread(self._fd, TAIL, max(size - TAIL, 0)).decode("utf-8", "replace")

    def close(self) -> None:
        os.close(self._fd)


class Talk:
    """What an agent is told on its standard input while it runs: a pipe in the run's directory."""

    def __init__(self, path: str, client: Client) -> None:
        self.path = path
        self.client = client
        os.mkfifo(path, 0o600)
        #: Open for both, so that neither side waits for the other.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._left = client.begin()
        self._send()

    def hear(self, lines: list[bytes]) -> list[bytes]:
        """The agent has printed these lines; those that tell of this run."""
        self._left += self.client.hear(lines)
        self._send()
        news, self.client.news = self.client.news, []
        return news

    def part(self) -> None:
        """It is to stop: its turn is cancelled and its input ends, so that it can put its session away."""
        self._left += self.client.cancel()
        self._send()
        self.close()

    def _send(self) -> None:
        """As much as the pipe takes; the rest at the next look."""
        with suppress(BlockingIOError):
            while self._left and self._fd >= 0:
                self._left = self._left[os.write(self._fd, self._left[:65536]) :]
        if self.client.over and not self._left:
            self.close()

    def close(self) -> None:
        """Nothing more will be said: the agent's input ends."""
        if self._fd >= 0:
            os.close(self._fd)
            os.unlink(self.path)
            self._fd = -1


class Listener:
    """One agent's two streams and what they have told. `heard` is called after news."""

    def __init__(
        self, preset: Preset, place: RunDirectory, heard: Callable[[Transcript], None], talk: Talk | None = None
    ) -> None:
        self.preset = preset
        self.transcript = Transcript(preset)
        self._heard = heard
        self._talk = talk
        self._streams = {"stdout": _Stream(place.events), "stderr": _Stream(place.errors)}
        self._size = 0
        self._last = time.monotonic()

    def __call__(self) -> str:
        """Why it should be ended: `grace`, `stall`; empty if it should not."""
        self._hear(last=False)
        silent = time.monotonic() - self._last
        # Who is spoken with is over when its last answer is there, whatever else it tells then.
        over = self.transcript.over if self._talk is None else self._talk.client.over
        if over and silent >= self.preset.grace:
            return "grace"
        stalled = self.preset.stall and silent >= self.preset.stall
        return "stall" if stalled or self.transcript.circling else ""

    def _has_events(self, name: str) -> bool:
        """Whether events come on this stream."""
        return name in self.preset.events

    def _hear(self, *, last: bool) -> None:
        for name, stream in self._streams.items():
            lines = stream.lines(last=last)
            if self._talk is not None and name == "stdout":
                lines = self._talk.hear(lines)
            if self._has_events(name):
                self.transcript.hear(lines)
        size = sum(stream.size for stream in self._streams.values())
        if size != self._size:
            self._size, self._last = size, time.monotonic()
            self._heard(self.transcript)

    def finish(self) -> Transcript:
        """It has ended and everything is heard: all it told, and what it printed on either stream that was no event."""
        self._hear(last=True)
        self.transcript.close()
        self._heard(self.transcript)
        plain = [stream.tail() for name, stream in self._streams.items() if not self._has_events(name)]
        self.transcript.words = "\n".join(text for text in (self.transcript.words, *plain) if text.strip())
        return self.transcript

    def close(self) -> None:
        """Nobody listens any more."""
        for stream in self._streams.values():
            stream.close()
        if self._talk is not None:
            self._talk.close()
