"""Waiting in tests: for what happens, never for a time to pass."""

from __future__ import annotations

import time

#: The end of every wait, in seconds: only what hangs meets it, on the busiest machine, too.
PATIENCE = 300.0


def until(met, *processes, seconds=PATIENCE):
    """Poll until it holds; what it returned. Who is waited for needs the processor more than the question does.

    Without these processes it cannot happen: one that ends fails the test at once, with its output.
    """
    deadline = time.monotonic() + seconds
    while True:
        asked = time.process_time()
        ended = [process for process in processes if process.poll() is not None]
        found = met()
        if found:
            return found
        assert not ended, "\n".join(map(_last_words, ended))
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(max(0.01, 4 * (time.process_time() - asked)))


def _last_words(process):
    return f"{process.args} ended with exit code {process.returncode}: {process.communicate(timeout=PATIENCE)}"


def numbers(most=2000):
    """1, 2, 3 and so on, for a loop that ends by itself: one that needs more fails its test."""
    yield from range(1, most)
    raise AssertionError(f"The loop has not ended after {most} rounds.")


class Leap:
    """`time` for a module, far ahead from the moment at which something has happened.

    A limit that is measured with it ends then and no sooner, however slowly the command starts. It stands still for its
    first two looks, of which one says when a limit ends: what is quick may have happened before.
    """

    def __init__(self, met, seconds=100_000.0):
        self._met, self._ahead, self._by, self._looks = met, 0.0, seconds, 0

    def monotonic(self):
        self._looks += 1
        if not self._ahead and self._looks > 2 and self._met():
            self._ahead = self._by
        return time.monotonic() + self._ahead

    def __getattr__(self, name):
        return getattr(time, name)


class Rush(Leap):
    """It runs so many times as fast while something is so: a silence of hours is over soon, no other is."""

    def monotonic(self):
        now = time.monotonic()
        if self._met():
            self._ahead += (now - getattr(self, "_last", now)) * self._by
        self._last = now
        return now + self._ahead
