"""Stopping, failing and killing at any system call of `fs`. Knows calls and threads, nothing about tasks.

A promise about crashes is worth what has been tried at every place where one can happen:

    with record() as calls:
        queue.finish(claim, Done())
    for number in range(1, len(calls) + 1):
        ...
        with killed_at(number):
            queue.finish(claim, Done())

Each of these concerns the thread that asks for it, so that one thread can stand still in the middle of
a verb while another goes on.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading

from taskpit import fs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    T = TypeVar("T")

__all__ = [
    "CHANGES",
    "Killed",
    "Stopped",
    "fail_at",
    "instants",
    "kill_at",
    "killed_at",
    "record",
    "short_at",
    "stranger_at",
]

#: Calls that change something: a crash before any other one leaves what the last of these left.
CHANGES = frozenset(("create", "write", "link", "rename", "unlink", "utime", "mkdir"))
#: What a short write stores, in bytes.
FEW = 7
#: How long anything here waits for another thread, in seconds, before it calls that a failure.
PATIENCE = 60.0

_hooks: dict[int, Callable[[str, str], int | None]] = {}


def _dispatch(call: str, path: str) -> int | None:
    hook = _hooks.get(threading.get_ident())
    return None if hook is None else hook(call, path)


@contextlib.contextmanager
def _hooked(hook: Callable[[str, str], int | None]) -> Iterator[None]:
    """Calls of this thread go through `hook`."""
    me = threading.get_ident()
    before = _hooks.get(me)
    _hooks[me] = hook
    fs.set_hook(_dispatch)
    try:
        yield
    finally:
        if before is None:
            del _hooks[me]
        else:
            _hooks[me] = before
        if not _hooks:
            fs.set_hook(None)


class Killed(BaseException):
    """The process died here. Not an Exception: nothing that mends errors may catch it."""


@contextlib.contextmanager
def record() -> Iterator[list[tuple[str, str]]]:
    """The calls made meanwhile, each with its path."""
    calls: list[tuple[str, str]] = []
    with _hooked(lambda call, path: calls.append((call, path))):
        yield calls


@contextlib.contextmanager
def kill_at(number: int) -> Iterator[None]:
    """Die before call `number` (the first is 1) and before every later one: the dead make no calls."""
    count = 0

    def hook(call: str, path: str) -> None:
        nonlocal count
        count += 1
        if count >= number:
            raise Killed(f"before call {count}: {call} {path}")

    with _hooked(hook):
        yield


@contextlib.contextmanager
def killed_at(number: int) -> Iterator[None]:
    """Like `kill_at`, and the death stays inside."""
    with contextlib.suppress(Killed), kill_at(number):
        yield


@contextlib.contextmanager
def fail_at(number: int, code: int) -> Iterator[None]:
    """Call `number` is refused with this errno; all others work."""
    count = 0

    def hook(call: str, path: str) -> None:
        nonlocal count
        count += 1
        if count == number:
            raise OSError(code, f"{os.strerror(code)} (call {count}: {call})", path)

    with _hooked(hook):
        yield


@contextlib.contextmanager
def short_at(number: int, code: int = 0) -> Iterator[None]:
    """Call `number`, if it writes, stores a few bytes only; with `code`, the next write is refused with it."""
    count, full = 0, False

    def hook(call: str, path: str) -> int | None:
        nonlocal count, full
        count += 1
        if full and call == "write":
            full = False
            raise OSError(code, f"{os.strerror(code)} (call {count}: {call})", path)
        if count == number and call == "write":
            full = bool(code)
            return FEW
        return None

    with _hooked(hook):
        yield


def instants(calls: list[tuple[str, str]], concerns: Callable[[str], bool]) -> list[int]:
    """Numbers of the calls before which a stranger's act can matter: all of them, told once.

    A call on a path that does not concern what the stranger changes is the same before the act and after it.
    """
    return [number for number in range(1, len(calls) + 1) if number == 1 or concerns(calls[number - 2][1])]


@contextlib.contextmanager
def stranger_at(number: int, act: Callable[[], str]) -> Iterator[None]:
    """Another program does something just before call `number`; a path it returns may not be opened any more."""
    count, shut = 0, ""

    def hook(call: str, path: str) -> None:
        nonlocal count, shut
        count += 1
        if count == number:
            shut = act()
        if shut and call == "open" and path == shut and os.path.lexists(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    with _hooked(hook):
        yield


class Stopped:
    """Work in a thread of its own that stands still before one of its calls until it is told to go on.

    `number` counts the calls of that thread from 1. `there` says whether it stands there; False if it
    ended before. `go_on` lets it run to its end and hands back what it returned or raises what it raised.
    """

    def __init__(self, work: Callable[[], T], number: int) -> None:
        self._work = work
        self._number = number
        self._count = 0
        self._arrived = threading.Event()
        self._go = threading.Event()
        self._value: object = None
        self._error: BaseException | None = None
        self.there = False
        #: The call it stands before.
        self.call = ("", "")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        if not self._arrived.wait(PATIENCE):
            raise TimeoutError("the stopped thread neither arrived nor ended")

    def _run(self) -> None:
        try:
            with _hooked(self._hook):
                self._value = self._work()
        except BaseException as error:
            self._error = error
        finally:
            self._arrived.set()

    def _hook(self, call: str, path: str) -> None:
        self._count += 1
        if self._count == self._number:
            self.call = (call, path)
            self.there = True
            self._arrived.set()
            if not self._go.wait(PATIENCE):
                raise TimeoutError("nobody let the stopped thread go on")

    def go_on(self) -> object:
        """It runs to its end; what came of it."""
        self._go.set()
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            raise TimeoutError("the stopped thread did not end")
        if self._error is not None:
            raise self._error
        return self._value
