"""Exclusive locks by name, until a time: `lock`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from taskpit import errors
from taskpit.cli.context import Args, Context, Reply, Usage, arg, takes
from taskpit.cli.options import AS, a_duration, said_any
from taskpit.cli.output import table
from taskpit.clock import iso, local, say_duration
from taskpit.held_lock import NamedLock, one_of
from taskpit.model import Lock, Said

#: How long a lock lasts unless renewed.
TTL = 1800.0
FOR_EVER = float("inf")
#: Seconds between asking the command to stop, once its lock is lost, and killing it.
GRACE = 5.0
#: Signals that ask us to end.
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@takes(
    arg("NAME", "letters, digits, dot, underscore and dash", nargs="?"),
    arg("--release", "let go of it: exits 4 if it is not yours, 5 if free"),
    arg("--ttl 30m", "how long it lasts unless renewed (default 30m)", type=a_duration),
    arg(
        "--wait 10s",
        "wait for it this long; without a time, for ever",
        nargs="?",
        type=a_duration,
        const=FOR_EVER,
    ),
    AS,
    arg("--human", "the holder is a person, whatever the name says"),
    usage="pit lock [NAME] [--release] [--ttl 30m] [--wait [10s]] [--as W] [--human] [-- CMD ...]",
    command=True,
)
def _lock(args: Args, context: Context) -> Reply:
    """Take an exclusive lock. Exits 4 and says who holds it if another worker does.
    Without NAME: the locks that are held.

    Without CMD the lock stays until `pit lock NAME --release`, or until its time is over; its number is printed,
    larger than that of every holder before. Locking what is yours already renews it.

    With CMD the command runs under the lock, which is renewed meanwhile and let go afterwards; two commands
    of one user keep each other out. CMD has TASKPIT_LOCK (the name) and TASKPIT_FENCE (the number). The exit
    code is that of CMD; 4 if the lock was lost, and CMD was ended for it.

    pit lock deploy --ttl 10m --wait 5m -- make deploy
    pit lock database --as ada --ttl 2h
    pit lock database --release --as ada
    pit lock
    """
    if args.name is None:
        if args.command or said_any(args, "release", "ttl", "wait", "worker", "human"):
            raise Usage("which lock? pit lock NAME ...", hint="`pit lock` alone shows the locks that are held.")
        return _held(context)
    if args.release and args.command:
        raise Usage("--release runs no command", hint="`pit lock NAME -- CMD` lets go by itself once CMD has ended.")
    if args.release and said_any(args, "ttl", "wait", "human"):
        raise Usage("--ttl, --wait and --human are for taking a lock", hint="`pit lock NAME --release` lets go of it.")
    if args.release:
        return _release(args, context)
    if args.command == []:
        raise Usage("say what to run: pit lock NAME -- CMD ...", hint="`pit lock --help` shows examples.")
    if args.command:
        return _run(args, context)
    lock = _named(args, context, context.worker(args)).acquire()
    return Reply(data=_facts(lock, context.queue.clock.now()), text=str(lock.number))


def _named(args: Args, context: Context, holder: str, command: _Command | None = None) -> NamedLock:
    return NamedLock(
        context.queue.store,
        context.queue.clock,
        args.name,
        holder,
        ttl=args.ttl or TTL,
        wait=args.wait or 0.0,
        kind="human" if args.human else "",
        when_lost=command.end if command else None,
    )


def _run(args: Args, context: Context) -> Reply:
    """The command has run under the lock, which is let go."""
    command = _Command(args.command, context.env)
    named = _named(args, context, one_of(context.worker(args)), command)
    try:
        with command.forwarding(), named:
            command.run({"TASKPIT_LOCK": named.name, "TASKPIT_FENCE": str(named.number)})
    except errors.Lost as error:
        if command.code is not None:
            error.message += f"; the command ended with {command.code}"
            error.details["command_exit_code"] = command.code
        raise
    data = {"name": named.name, "number": named.number, "command_exit_code": command.code}
    return Reply(data=data, exit_code=command.code or 0)


class _Command:
    """A command that has our terminal, and gets the signals that we get.

    It stays in our process group, so that keys pressed at the terminal, and a signal to the group we are
    in, reach it too.
    """

    def __init__(self, argv: list[str], env: Mapping[str, str]) -> None:
        from taskpit.run.process import check_command

        check_command(argv[0], os.getcwd(), env)
        self._argv = argv
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = False
        self._asked = 0
        self._lost = False
        #: What it exited with, as a shell has it; None before.
        self.code: int | None = None

    @contextmanager
    def forwarding(self) -> Iterator[None]:
        """Signals that end us are for the command, once there is one."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread gets signals
            return
        before = {number: signal.signal(number, self._hear) for number in FORWARDED}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, _frame: object) -> None:
        self._asked = number
        if self._process is not None:
            if number == signal.SIGTERM or not _at_the_terminal():  # else the keys have reached it already
                self._process.send_signal(number)
        elif not self._starting:
            sys.exit(128 + number)

    def run(self, more: Mapping[str, str]) -> None:
        """It has ended."""
        self._starting = True
        self._process = subprocess.Popen(self._argv, env={**self._env, **more})
        if self._lost:  # while it was being started, or before
            _end(self._process)
        elif self._asked:
            self._process.send_signal(self._asked)
        code = self._process.wait()
        self.code = 128 - code if code < 0 else code

    def end(self) -> None:
        """It is asked to stop, and killed if it does not, now or once it begins. For another thread than its own."""
        self._lost = True
        if self._process is not None:
            _end(self._process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()


def _at_the_terminal() -> bool:
    """Whether what is pressed at the terminal reaches our whole process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _facts(lock: Lock, now: float) -> dict[str, object]:
    return {
        "name": lock.name,
        "holder": lock.holder,
        "holder_type": lock.kind,
        "number": lock.number,
        "acquired": iso(lock.acquired) if lock.acquired else None,
        "expires": iso(lock.expires),
        "seconds_left": max(round(lock.expires - now), 0),
        "expired": lock.expires < now,
        "task_id": lock.task_id,
    }


def _release(args: Args, context: Context) -> Reply:
    store, worker = context.queue.store, context.worker(args)
    if store.unlock(Lock(name=args.name, holder=worker)) is Said.OK:
        return Reply(data={"name": args.name, "holder": worker}, text=f"{args.name} is free")
    holders = [lock.holder for lock in store.locks() if lock.name == args.name]
    if not holders:
        hint = "`pit lock` shows the locks that are held."
        raise errors.NotFound(f"the lock {args.name} is free", hint=hint, name=args.name)
    holder = holders[0] or "a worker whose record cannot be read"
    hint = (
        f"If that is you, say so: `pit lock {args.name} --release --as {holders[0]}`."
        if holders[0]
        else "Look at the file."
    )
    raise errors.Lost(f"{args.name} is held by {holder}, not by {worker}", hint=hint, name=args.name, holder=holders[0])


def _held(context: Context) -> Reply:
    """Which locks are held: by whom, with which number, since when, for how long."""
    now = context.queue.clock.now()
    locks = context.queue.store.locks()

    def text() -> str:
        if not locks:
            return "No lock is held."
        return table(("NAME", "HOLDER", "KIND", "NUMBER", "SINCE", "LEFT"), [_row(lock, now) for lock in locks])

    return Reply(data=[_facts(lock, now) for lock in locks], text=text)


def _row(lock: Lock, now: float) -> tuple[str, ...]:
    left = say_duration(lock.expires - now) if lock.expires > now else "expired"
    since = local(lock.acquired) if lock.acquired else ""
    return lock.name, lock.holder or "(cannot be read)", lock.kind, str(lock.number or ""), since, left
