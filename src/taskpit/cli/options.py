"""Arguments that several verbs share, and how their words are read. Knows spellings, decides nothing."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Callable

from taskpit import errors, layouts
from taskpit.cli.context import Arg, Args, Context, Reply, Usage, arg
from taskpit.clock import duration, instant
from taskpit.model import State, Task
from taskpit.queue import Queue
from taskpit.status import Status, read_status

#: What others write as P0 (drop everything) to P4 (some day), in our numbers: higher first.
PRIORITIES = {"P0": 40, "P1": 30, "P2": 20, "P3": 10, "P4": 0}


def refusal(message: str) -> Exception:
    """Why a word cannot be what an argument wants; argparse is loaded only to say so."""
    return ArgumentTypeError(message)


def an_age(text: str) -> float:
    """Seconds in `30s`, `15m`, `1h30m`; also none."""
    try:
        return duration(text)
    except ValueError as error:
        raise refusal(str(error)) from None


def a_duration(text: str) -> float:
    """The same, more than none."""
    seconds = an_age(text)
    if seconds <= 0:
        raise refusal(f"{text!r} is not a duration above zero; write 30s, 15m or 1h30m")
    return seconds


def a_priority(text: str) -> int:
    """An integer, or P0 to P4."""
    if text.upper() in PRIORITIES:
        return PRIORITIES[text.upper()]
    try:
        return int(text)
    except ValueError:
        raise refusal(f"{text!r} is not a priority; write an integer (higher first) or P0 to P4") from None


def a_status(text: str) -> frozenset[Status]:
    """Where tasks stand: ready, waiting, needs-you, running, done, failed, cancelled, or all."""
    try:
        return read_status(text)
    except ValueError as error:
        raise refusal(str(error)) from None


def a_count(text: str) -> int:
    """A whole number, not below none."""
    if not (text.isascii() and text.isdecimal()):
        raise refusal(f"{text!r} is not a number; write 0, 1, 2, ...")
    return int(text)


def a_port(text: str) -> int:
    """Where a server may listen."""
    if text.isascii() and text.isdecimal() and 0 < int(text) < 65536:
        return int(text)
    raise refusal(f"{text!r} is not a port; write a number from 1 to 65535")


def past_moment(text: str, now: float) -> float:
    """Unix seconds of a time, or of so long ago."""
    try:
        return now - duration(text)
    except ValueError:
        pass
    try:
        return instant(text, now)
    except (ValueError, OverflowError):
        raise Usage(f"--since {text!r} is neither a time nor a duration; write 2026-01-24T10:00:00Z or 2h") from None


def words(given: list[str] | None) -> tuple[str, ...]:
    """The words of an option that may be repeated or hold several, with commas between."""
    parts = [part.strip() for text in given or () for part in text.split(",")]
    return tuple(dict.fromkeys(part for part in parts if part))


def only_tags(given: list[str] | None, option: str = "--tag") -> tuple[str, ...]:
    """The tags that limit what is taken or shown. An empty one, as of an unset variable, would limit nothing."""
    if given and not words(given):
        raise Usage(f"{option} is empty", hint="Leave it out for any tag.")
    return words(given)


#: Arguments of many verbs; `reason_words` also takes the reason from behind the ids.
ID = arg("ID", "task id, its number, or an unambiguous beginning")
IDS = arg("ID", f"{ID[1]}; may be repeated", dest="ids", nargs="+")
REASON = arg("--reason TEXT", "the reason; you can also write it after the ids, in quotes; - is standard input")
AS = arg("--as W", "your name as a worker (default: TASKPIT_AS, else user@host)", dest="worker")


def token_option(about: str, **more: str) -> Arg:
    """`--token-file FILE`. Never the token itself: every user of the machine can read a command line."""
    return arg("--token-file FILE", f"a file with {about} (default: TASKPIT_TOKEN, else a new one)", **more)


def given_token(args: Args, context: Context) -> str:
    """The token of one's own for a server; empty if there is none. What opens a gateway is none: links are shown."""
    if args.token_file:
        return read_text(args.token_file, 4096).strip()
    from taskpit.store.http.address import is_address

    named = context.directory or context.env.get("TASKPIT_DIR", "")
    return "" if is_address(named) else context.env.get("TASKPIT_TOKEN", "")


def reason_words(args: Args, context: Context, *, needed: bool = False) -> str | None:
    """The reason that was given: by its option, or behind the ids; where none is needed, only what can be no id."""
    reason: str | None = args.reason
    if reason is None and len(args.ids) > 1 and (needed or args.ids[-1] == "-" or len(args.ids[-1].split()) != 1):
        reason = args.ids.pop()
    if reason is None and len(args.ids) > 1:
        _is_a_task(context, args.ids[-1])
    return read_text("-", context.queue.config.largest_task) if reason == "-" else reason


def _is_a_task(context: Context, word: str) -> None:
    """NotFound of the last of several words says that it may have been meant for a reason."""
    try:
        context.queue.resolve(word)
    except errors.NotFound as error:
        error.hint = f"{error.hint} If it is the reason: `--reason {word}`.".lstrip()
        raise


def named(context: Context, ids: list[str]) -> list[str]:
    """The ids these words mean, each once."""
    return list(dict.fromkeys(context.queue.resolve(text) for text in ids))


def to_each(ids: list[str], act: Callable[[str], tuple[object, str]]) -> Reply:
    """It is done to each of these that it can be done to: facts and a line of each. If it could not be done to some,
    the error of the first names all of them, and says what was done to the others.
    """
    data: list[object] = []
    lines: list[str] = []
    refused: list[errors.TaskpitError] = []
    for task_id in ids:
        try:
            facts, line = act(task_id)
        except errors.TaskpitError as error:
            refused.append(error)
            continue
        data.append(facts)
        lines.append(line)
    if refused:
        first = refused[0]
        first.message = "; ".join(error.message for error in refused)
        if lines:
            first.message += f". Of the others, {', '.join(lines)}"
            first.details["done"] = data
        raise first
    return Reply(data=data[0] if len(data) == 1 else data, text="\n".join(lines))


def read_input(path: str, limit: int) -> bytes:
    """The bytes of a file, or of standard input for `-`; never more than the limit."""
    try:
        if path == "-":
            data = _standard_input(limit + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(limit + 1)
    except FileNotFoundError:
        hint = "Check the name; paths are relative to the current folder."
        raise errors.NotFound(f"there is no file {path}", hint=hint, path=path) from None
    except OSError as error:
        raise errors.Invalid(f"{path} cannot be read: {error.strerror}", path=path) from None
    if len(data) > limit:
        raise errors.TooLarge(
            f"{'the input' if path == '-' else path} is larger than {limit} bytes",
            hint="Keep the long part in a file, and name that file in the task.",
            path=path,
        )
    return data


def _standard_input(limit: int) -> bytes:
    buffer = getattr(sys.stdin, "buffer", None)
    if buffer is not None:
        data: bytes = buffer.read(limit)
        return data
    return sys.stdin.read(limit).encode("utf-8", "replace")


def read_text(path: str, limit: int) -> str:
    """The text of a file, or of standard input for `-`; Invalid if it is none."""
    return as_text(path, read_input(path, limit))


def as_text(path: str, data: bytes) -> str:
    """The text in the bytes of a file of this name; Invalid if it is none."""
    if b"\0" in data:
        raise errors.Invalid(f"{path} is binary, not text", hint="Name the file in the task instead.", path=path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        hint = "Save it as UTF-8."
        raise errors.Invalid(f"{path} is not UTF-8 (byte {error.start})", hint=hint, path=path) from None


def said_any(args: Args, *names: str) -> bool:
    """Whether one of these arguments was given: where it would mean nothing, leaving it out would fool who wrote it."""
    return any(getattr(args, name) not in (None, "", ()) and getattr(args, name) is not False for name in names)


def one_input(args: Args, *names: str) -> None:
    """Only one of these options may read standard input: there is only one."""
    readers = [name for name in names if getattr(args, name, None) == "-"]
    if len(readers) > 1:
        raise errors.Invalid(f"only one of {' and '.join(f'--{name}' for name in readers)} can read standard input")


def vet(queue: Queue, task: Task) -> None:
    """Whether this queue can carry the task as it is; Invalid says what it can't."""
    layout = layouts.get(queue.store.info().layout)
    for word in filter(None, (task.id, task.parent, *task.needs)):
        layout.check_id(word)
    queue.check(task)
    if not task.extra:
        return
    spot = layouts.Spot(state=State.READY, id=task.id or layout.new_id(1), slug=task.slug)
    named_task = task.replace(id=spot.id)
    carried = layout.load(spot, layout.dump(named_task), layout.beside(named_task))
    for key, value in task.extra.items():
        if carried.extra.get(key) != value:
            raise errors.Invalid(
                f"the field {key!r} cannot be carried by this queue",
                hint="Keys are small letters, digits, dot, dash and underscore, and no word the queue has a use for.",
                field=key,
            )
