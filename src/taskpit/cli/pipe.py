"""Messages between an orchestrator and its agents: `pipe`. The message is a file first, the pipe its bell."""

from __future__ import annotations

import sys

from taskpit import layouts
from taskpit.cli.context import Args, Context, Reply, arg, takes
from taskpit.cli.options import a_duration, read_input
from taskpit.clock import say_duration
from taskpit.errors import Invalid, Lost, Nothing
from taskpit.pipes import LARGEST, Pipe
from taskpit.text import plain


@takes(
    arg("action", "make: both FIFOs between the two", choices=("make", "send", "receive")),
    arg("FROM", "who sends: orchestrator, or an agent's name", dest="sender"),
    arg("TO", "who receives", dest="receiver"),
    arg("TEXT", "the message to send", nargs="?"),
    arg("-F --file FILE", "send a file; - is standard input"),
    arg("--timeout T", "how long to wait (default: 10s)", type=a_duration, default=10.0),
)
def _pipe(args: Args, context: Context) -> Reply:
    """Send a message to an agent, or receive one, through the FIFOs of a workspace. The other side may be
    `pit pipe`, or any program that writes to the FIFO and closes it, or opens it and reads to the end.
    A message that is not read in time is kept for the next `pit pipe receive`.

    pit pipe make orchestrator agent_a
    pit pipe send orchestrator agent_a 'do task_001' --timeout 30s
    pit pipe receive orchestrator agent_a
    pit pipe send agent_a orchestrator -F result.md
    """
    pipe = _between(args.sender, args.receiver, context)
    pipe.make()
    if args.action == "make":
        back = _between(args.receiver, args.sender, context)
        back.make()
        return Reply(data={"pipes": [pipe.fifo, back.fifo]}, text=f"{pipe.fifo}\n{back.fifo}")
    return _send(pipe, args) if args.action == "send" else _receive(pipe, args, context)


def _between(sender: str, receiver: str, context: Context) -> Pipe:
    info = context.queue.store.info()
    layout = layouts.get(info.layout)
    if not layout.pipes:
        raise Invalid(
            f"a {layout.name} has no pipes", hint="Only a workspace has them: `pit init DIR --layout workspace`."
        )
    name = f"{layout.check_worker(sender)}_to_{layout.check_worker(receiver)}"
    return Pipe(f"{info.where}/{layout.pipes}/{name}", f"{info.where}/.taskpit/pipes/{name}")


def _send(pipe: Pipe, args: Args) -> Reply:
    if (args.text is None) == (args.file is None):
        raise Invalid("give the message as TEXT, or as a file with -F")
    data = args.text.encode("utf-8", "surrogateescape") if args.file is None else read_input(args.file, LARGEST)
    if pipe.send(data, args.timeout):
        return Reply(data={"bytes": len(data), "delivered": True})
    raise Lost(
        f"no reader opened {pipe.fifo} within {say_duration(args.timeout)}",
        hint="The message is kept: the next `pit pipe receive` gets it.",
        kept=True,
        bytes=len(data),
    )


def _receive(pipe: Pipe, args: Args, context: Context) -> Reply:
    message = pipe.receive(args.timeout)
    if message is None:
        raise Nothing(f"no message came through {pipe.fifo} within {say_duration(args.timeout)}")
    # It is acknowledged only once it is out.
    if context.json:
        text = message.data.decode("utf-8", "surrogateescape")
        context.say({"text": text, "bytes": len(message.data)}, "")
    else:
        # The message as it is, for the program that reads it.
        # A person at a terminal reads it: there it obeys nothing of what the sender wrote.
        shown = plain(message.data.decode("utf-8", "replace")).encode() if sys.stdout.isatty() else message.data
        sys.stdout.buffer.write(shown)
        sys.stdout.flush()
    pipe.acknowledge(message)
    context.json = False  # it is said
    return Reply()
