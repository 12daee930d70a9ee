"""What every verb is given and what it gives back. Finds the queue; knows nothing of any verb."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from textwrap import dedent
from typing import Any

from taskpit import layouts
from taskpit.cli.output import Screen, envelope, quoted
from taskpit.errors import TaskpitError
from taskpit.held_directories import leave_open
from taskpit.model import Value
from taskpit.queue import Queue
from taskpit.store.opening import discover

#: The arguments of a verb.
Args = argparse.Namespace
#: One argument as it is declared: how it is spelled, its help, and further words for `argparse`.
Arg = tuple[str, str, dict[str, Any]]


class Usage(TaskpitError):
    """The command was not understood."""

    code = "usage"
    exit_code = 2


class Reply(Value, frozen=True, kw_only=True):
    """What a verb has to say."""

    #: For programs: goes into the envelope's `data`.
    data: object = None
    #: For people: the text, or a function that makes it, so that `--json` does not pay for it.
    text: str | Callable[[], str] = ""
    exit_code: int = 0


def arg(spelled: str, about: str, **more: Any) -> Arg:
    """An argument as help spells it: `TITLE`, `--dry-run` (a flag), `-F --file FILE` (an option that has a value).

    `more` is what `argparse` calls so, and `group`: the heading under which help shows it.
    """
    return spelled, about, more


def either(*rows: Arg) -> tuple[Arg, ...]:
    """Arguments of which a line may have one."""
    return tuple((spelled, about, {**more, "either": rows[0][0]}) for spelled, about, more in rows)


class Handler:
    """A verb as its module declares it: its arguments, its help, and the function that runs it."""

    def __init__(
        self, run: Callable[[Args, Context], Reply], rows: tuple[Arg, ...], usage: str, *, command: bool
    ) -> None:
        self.run = run
        self.rows = rows
        self.usage = usage
        #: Whether what stands after `--` is a command for it.
        self.command = command

    def help(self) -> tuple[str, list[str]]:
        """What it does, and examples: the function's docstring, of which the last paragraph is the examples."""
        first, _, rest = (self.run.__doc__ or "").partition("\n")
        about, _, examples = f"{first.strip()}\n{dedent(rest)}".strip().rpartition("\n\n")
        return about, examples.split("\n")


def takes(*rows: Arg, usage: str = "", command: bool = False) -> Callable[[Callable[[Args, Context], Reply]], Handler]:
    """The function below is a verb with these arguments; its docstring is the verb's help."""
    return lambda run: Handler(run, rows, usage, command=command)


class Context:
    """Where a command runs: its queue, its worker's name, its terminal."""

    def __init__(self, env: Mapping[str, str], *, directory: str | None = None, json: bool = False) -> None:
        self.env = env
        #: What `-C` said.
        self.directory = directory
        self.json = json
        self.screen = Screen(env)
        self._queue: Queue | None = None
        self._place = ""

    @property
    def queue(self) -> Queue:
        """The queue this command is about; found and opened when first asked for."""
        if self._queue is None:
            self._queue = Queue.open(self.find(), self.env)
        return self._queue

    def find(self) -> str:
        """Where the queue is; looked for once."""
        self._place = self._place or self._look_for()
        return self._place

    def _look_for(self) -> str:

        if self.directory is None:
            return discover(os.getcwd(), self.env)
        hidden = os.path.isdir(os.path.join(self.directory, ".taskpit"))
        if hidden or not os.path.isdir(self.directory):
            return self.directory  # named by hand; opening it says what is wrong with it, if anything
        others = ("TASKPIT_DIR", "DROVER_MAILBOX_ENABLED")  # what was named by hand goes before them
        return discover(self.directory, {key: value for key, value in self.env.items() if key not in others})

    def called(self, verb: str) -> str:
        """A command on this queue as it is to be written here: with the -C that this one was given."""
        return f"pit -C {quoted(self.directory)} {verb}" if self.directory else f"pit {verb}"

    def worker(self, args: Args) -> str:
        """Who runs this: `--as`, else TASKPIT_AS, else `user@host`; at a gateway the user is the token's."""
        from taskpit.workers import default_worker

        return args.worker or self.env.get("TASKPIT_AS") or default_worker(self.token_name())

    def token_name(self) -> str:
        """Whose token opens the queue; empty if none is needed."""
        try:
            where = self.find()
        except TaskpitError:
            return ""
        behind = where.startswith(("https://", "http://"))
        if not behind and not os.path.isfile(f"{where}/.taskpit/token"):
            return ""
        from taskpit.store.http.address import name_in, read_token

        return name_in(read_token(self.env, "" if behind else where))

    def call_by_name(self, error: TaskpitError) -> None:
        """Give the error the name that the documents of this queue's layout have for it, if they have one."""
        if self._queue is not None:
            name = layouts.get(self._queue.store.info().layout).error_names.get(error.code)
            if name:
                error.message = f"{name}: {error.message}"
                error.details["name"] = name

    def say(self, data: object, line: str) -> None:
        """One of several things a verb has to say while it runs: an envelope for programs, a line for people."""
        if self.json:
            envelope(data)
        else:
            self.tell(line)

    def tell(self, line: str) -> None:
        """Say something while the verb still runs: to people on stdout, else where diagnostics go."""
        self.screen.write(line, sys.stderr if self.json else sys.stdout)

    def warn(self, text: str, hint: str = "") -> None:
        """Something the caller should know, though it worked."""
        self.screen.write(f"pit: warning: {text}" + (f"\n  hint: {hint}" if hint else ""), sys.stderr)

    def close(self, *, last: bool = False) -> None:
        """Let go of the queue; `last` if the process ends with it."""
        if self._queue is not None:
            if last:
                leave_open()
            self._queue.close()
            self._queue = None
