"""The entry point: finds the verb, runs it, says how it went. Knows words and exit codes, no verb's business.

Only the invoked verb's module is imported, and only its parser is built: the time a command takes before
it does anything is paid by every claim of every worker.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from collections.abc import Sequence
from typing import TextIO

from taskpit import __version__, access, errors
from taskpit.cli import output, parser, verbs
from taskpit.cli.context import Context, Reply, Usage

#: Ends by a signal have the exit codes that shells give them.
INTERRUPTED, BROKEN_PIPE = 130, 141
#: Garbage is looked for after so many new objects: most commands are over before that.
UNCOLLECTED = 50_000


class Unwritten(errors.Storage):
    """What was asked for has happened, and standard output has no room for the answer."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Without words this process is the command, and mostly ends here."""
    if "_ARGCOMPLETE" in os.environ and argv is None:
        from taskpit.cli.completion import complete

        complete()
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _open_streams()
    if argv is not None:
        return _main(list(argv), last=False)
    gc.set_threshold(UNCOLLECTED)
    code = _main(sys.argv[1:], last=True)
    _leave(code)
    return code


def _main(words: list[str], *, last: bool) -> int:
    screen = output.Screen(os.environ)
    as_json = "--json" in (words[: words.index("--")] if "--" in words else words)
    try:
        try:
            return _run(words, last=last)
        except errors.TaskpitError as error:
            _report(error, screen, as_json=as_json)
            return error.exit_code
    except BrokenPipeError:
        _silence()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(words: list[str], *, last: bool) -> int:
    given, rest = _globals(words)
    context = Context(os.environ, directory=given.get("directory"), json="json" in given)
    try:
        reply = _answer(given, rest, context)
        _say(reply, context)
        return reply.exit_code
    except errors.TaskpitError as error:
        context.call_by_name(error)
        error.hint = error.hint or _where_to_look(rest)
        raise
    except BrokenPipeError:
        raise
    except OSError as error:
        from taskpit.store.disk_errors import storage_error

        raise storage_error(error) from error
    except Exception as error:
        raise _unexpected(error) from error
    finally:
        context.close(last=last)
        if last:
            gc.freeze()  # what is left goes with the process


def _globals(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The options before the verb, and the rest from the verb on."""
    given: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "-C" and rest:
            given["directory"] = rest.pop(0)
        elif word.startswith("-C") and len(word) > 2:
            given["directory"] = word[2:]
        elif word in ("--json", "--help", "--version"):
            given[word[2:]] = "yes"
        elif word == "-h":
            given["help"] = "yes"
        elif word == "-V":
            given["version"] = "yes"
        else:
            raise Usage(
                "-C needs a folder after it" if word == "-C" else f"there is no option {word}",
                hint="`pit --help` lists the verbs.",
            )
    return given, rest


def _answer(given: dict[str, str], rest: list[str], context: Context) -> Reply:
    if "version" in given or rest == ["version"]:
        return Reply(data={"version": __version__}, text=f"pit {__version__}")
    if rest == ["help", "all"]:
        return Reply(data=[_row(verb) for verb in verbs.VERBS], text=lambda: _all_verbs(context))
    if rest[:1] == ["help"]:
        rest, given = rest[1:], {**given, "help": "yes"}
    rest = verbs.meant(rest)
    if not rest:
        return Reply(data=[_row(verb) for verb in verbs.VERBS], text=_overview)
    verb = verbs.find(rest[0])
    if verb is None:
        near = verbs.suggest(rest[0])
        hint = f"Did you mean `pit {near}`?" if near else "`pit --help` lists the verbs."
        raise Usage(f"there is no verb {rest[0]!r}", hint=hint, suggestion=near)
    words = [*rest[1:], "--help"] if "help" in given else rest[1:]
    access.need_verb(verb.name, context.env)
    handler = verbs.handler(verb)
    args = parser.read(verb, words)
    if args is None:
        context.json = False  # help was asked for, and shown: an envelope after it would be a line too many
        return Reply()
    context.directory = getattr(args, "directory", context.directory)
    context.json = getattr(args, "json", context.json)
    return handler.run(args, context)


def _where_to_look(rest: list[str]) -> str:
    """The next step where nobody knows a better one."""
    verb = verbs.find(verbs.meant(rest)[0]) if rest else None
    return f"`pit {verb.name} --help` shows its arguments." if verb else "`pit --help` lists the verbs."


def _row(verb: verbs.Verb) -> dict[str, object]:
    return {"verb": verb.name, "aliases": verb.aliases, "group": verb.group, "summary": verb.summary}


def _overview() -> str:
    """What people use daily, with an example each: it fits a screen."""
    daily = [verb for verb in verbs.VERBS if verb.example]
    lines = ["usage: pit [-C DIR] [--json] VERB ...", "", "A task queue in a folder, for people and coding agents."]
    for group in verbs.GROUPS:
        mine = [verb for verb in daily if verb.group == group]
        lines += [output.paint("bold", group)] if mine else []
        for verb in mine:
            lines.append(f"  {verb.name:<8} {verb.summary:<29} {output.paint('dim', verb.example)}")
    others = sum(verb.group != verbs.LAYOUT_GROUP for verb in verbs.VERBS) - len(daily)
    return "\n".join(
        [
            *lines,
            "",
            f"`pit VERB --help` explains a verb, and `pit help all` lists the other {others}.",
            "The queue is the nearest one above this folder, -C DIR or TASKPIT_DIR.",
        ]
    )


def _all_verbs(context: Context) -> str:
    """Every verb; those of a layout only in a queue of that layout."""
    lines: list[str] = []
    for group in verbs.GROUPS:
        if group == verbs.LAYOUT_GROUP and _layout(context) != "activities":
            continue
        lines.append(output.paint("bold", group))
        for verb in verbs.VERBS:
            if verb.group == group:
                also = output.paint("dim", f"  ({', '.join(verb.aliases)})") if verb.aliases else ""
                lines.append(f"  {verb.name:<12}{verb.summary}{also}")
        lines.append("")
    return "\n".join([*lines, "`pit VERB --help` explains a verb and shows an example."])


def _layout(context: Context) -> str:
    """The layout of the queue we are in; empty if there is none."""
    try:
        return context.queue.store.info().layout
    except (errors.TaskpitError, OSError):
        return ""


def _say(reply: Reply, context: Context) -> None:
    text = "" if context.json else reply.text if isinstance(reply.text, str) else reply.text()
    try:
        if context.json:
            output.envelope(reply.data)
        elif text:
            context.screen.write(text, sys.stdout)
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence()
        message = f"the command succeeded, but its output could not be written: {error.strerror or error}"
        raise Unwritten(
            message, hint="Make room, and do not repeat the command; `pit log` shows what it did."
        ) from error


def _report(error: errors.TaskpitError, screen: output.Screen, *, as_json: bool) -> None:
    """Say what went wrong: as an envelope on stdout, or in words on stderr, also where the envelope has no room."""
    if as_json and not isinstance(error, Unwritten):
        try:
            output.failure(error)
        except BrokenPipeError:
            raise
        except OSError:
            _silence()
        else:
            return
    tail = str(error.details.get("tail", ""))
    lines = [*([tail] if tail else []), f"pit: {error.message}", *([f"  hint: {error.hint}"] if error.hint else [])]
    try:
        screen.write("\n".join(lines), sys.stderr)
    except BrokenPipeError:
        raise
    except OSError:
        _silence(sys.stderr)  # the exit code tells it


def _unexpected(error: Exception) -> errors.TaskpitError:
    """Something nobody thought of: one clear line, and how to see more."""
    if os.environ.get("TASKPIT_DEBUG"):
        import traceback

        traceback.print_exception(error)
    text = f"unexpected error: {type(error).__name__}: {error}"
    return errors.TaskpitError(text, hint="Set TASKPIT_DEBUG=1 for a traceback. Nothing acknowledged is lost.")


def _open_streams() -> None:
    """A standard stream that was closed when we began (`>&-`) leads nowhere; else the next file that is opened has its
    number, and what a check prints would be written into a task.
    """
    fd = os.open(os.devnull, os.O_RDWR)
    while fd < 2:
        fd = os.dup(fd)
    if fd > 2:
        os.close(fd)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _leave(code: int) -> None:
    """End the process at once: to take down all modules would take as long as a claim."""
    if threading.active_count() > 1 or atexit._ncallbacks():  # noqa: SLF001 - there is no public way to ask
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return  # as Python tells it
    os._exit(code)


def _silence(stream: TextIO | None = None) -> None:
    """Nobody reads our output any more: let Python's last flush go nowhere instead of complaining."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, (stream or sys.stdout).fileno())
    os.close(nowhere)
