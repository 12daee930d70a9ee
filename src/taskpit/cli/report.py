"""The morning view: `report`."""

from __future__ import annotations

from taskpit.cli.context import Reply
from taskpit.cli.options import example, past_moment
from taskpit.cli.output import cut, paint, terminal_width
from taskpit.clock import say_duration
from taskpit.report import PARTS, make_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from taskpit.cli.context import Context
    from taskpit.cli.verbs import Handlers
    from taskpit.report import Report, Row

__all__ = ["VERBS"]

COLOURS = {"needs_you": "yellow", "landed": "green", "done": "green", "failed": "red", "running": "blue"}
#: So many tasks of each part people see; Markdown and programs see all.
SCREENFUL = 20


def _arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "What happened since yesterday, or since a time: what landed, what is done, what needs you, what failed\n"
        "and why, what it cost, and the commands that bring on what waits. The board in the browser has it as a page."
    )
    parser.epilog = example("pit report", "pit report --since 12h", "pit report --markdown > morning.md")
    parser.add_argument("--since", metavar="T", default="24h", help="a time or so long ago (default: 24h)")
    parser.add_argument("--markdown", action="store_true", help="as Markdown, with every task")


def _report(args: Namespace, context: Context) -> Reply:
    queue = context.queue
    report = make_report(queue, past_moment(args.since, queue.clock.now()))
    text = report.markdown() if args.markdown else lambda: _screen(report, context)
    return Reply(data=report.facts(), text=text)


def _screen(report: Report, context: Context) -> str:
    width = terminal_width()
    lines = [paint("bold", f"The last {say_duration(report.until - report.since)}: {report.headline()}")]
    for name, word in PARTS:
        rows: tuple[Row, ...] = getattr(report, name)
        if rows:
            lines += ["", paint(COLOURS.get(name, "bold"), word)]
            lines += [
                cut(f"  {row.id}  {row.title}{f': {row.what}' if row.what else ''}", width) for row in rows[:SCREENFUL]
            ]
            lines += [f"  and {len(rows) - SCREENFUL} more"] if len(rows) > SCREENFUL else []
    if any(cost[3] for cost in report.costs):
        lines += ["", paint("bold", "cost")]
        lines += [f"  ${usd:.2f}  {by}: {count} in {say_duration(took)}" for by, count, took, usd in report.costs]
    if report.next_steps():
        lines += [
            "",
            paint("bold", "next"),
            *(f"  {context.called(step.removeprefix('pit '))}" for step in report.next_steps()),
        ]
    return "\n".join(lines)


VERBS: Handlers = {"report": (_arguments, _report)}
