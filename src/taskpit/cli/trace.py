"""`pit trace`: what happened to a task, as spans; shown, or sent to a collector of OpenTelemetry."""

from __future__ import annotations

from taskpit.cli.context import Reply, Usage
from taskpit.cli.options import a_duration, example
from taskpit.clock import iso, say_duration
from taskpit.errors import CursorLost, Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from taskpit.cli.context import Context
    from taskpit.cli.verbs import Handlers
    from taskpit.queue import Queue
    from taskpit.worker.traces import Span

__all__ = ["VERBS"]

#: Where a collector is, as OpenTelemetry spells it; one of them is enough.
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
#: How often -f looks, and tells numbers, in seconds.
PACE, NUMBERS = 1.0, 60.0


def _arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "What happened to a task as one trace: put, claims, runs, checks, review, landing. Where\n"
        "OTEL_EXPORTER_OTLP_ENDPOINT is set and the extra `otel` is installed, it is sent there; else it is shown.\n"
        "With -f each task is sent as it ends, until Ctrl-C; and every minute how many tasks there are, whether the\n"
        "queue is paused and what it has cost.\n"
        "Agents are given TRACEPARENT, so that what they send belongs to their run."
    )
    parser.epilog = example("pit trace 7", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 pit trace -f")
    parser.add_argument("ids", metavar="ID", nargs="*", help="these tasks")
    parser.add_argument("--since", type=a_duration, metavar="T", help="all tasks that ended in this time: 1d")
    parser.add_argument("-f", "--follow", action="store_true", help="each task as it ends, until interrupted")
    parser.add_argument("--for", dest="seconds", type=a_duration, metavar="T", help="with -f: end after so long")


def _trace(args: Namespace, context: Context) -> Reply:
    queue, sends = context.queue, any(context.env.get(name) for name in ENDPOINTS)
    if args.follow:
        if not sends:
            raise Invalid("there is no collector to send to", hint=f"Set {ENDPOINTS[0]}=http://127.0.0.1:4318 or so.")
        return _follow(args, context)
    ids = [queue.resolve(word) for word in args.ids] + (_ended(queue, args.since) if args.since else [])
    if not ids and not args.since:
        raise Usage("missing: ID", hint="For example: `pit trace 7`, `pit trace --since 1d` or `pit trace -f`.")
    spans = _send(queue, ids, sends=sends)
    return Reply(data=[span.as_dict() for span in spans], text=lambda: _shown(spans))


def _ended(queue: Queue, seconds: float) -> list[str]:
    from taskpit.report import events_since
    from taskpit.worker.traces import OVER

    events, _ = events_since(queue.store, iso(queue.clock.now() - seconds))
    return list(dict.fromkeys(event.about for event in events if event.did in OVER))


def _send(queue: Queue, ids: Sequence[str], *, sends: bool) -> list[Span]:
    from taskpit.worker.traces import send_spans, trace_of, trails

    told, where = trails(queue, ids) if ids else {}, queue.store.info().where
    cards = [card for card in queue.store.read(list(ids)) if card is not None]
    spans = [span for card in cards for span in trace_of(where, card, told.get(card.task.id, ()))]
    if sends and spans:
        send_spans(spans)
    return spans


def _follow(args: Namespace, context: Context) -> Reply:
    from taskpit.queue import tally
    from taskpit.worker.traces import OVER, metrics_of, send_metrics

    queue, clock, sent = context.queue, context.queue.clock, 0
    _, cursor = queue.store.latest(1)
    deadline, numbers = clock.monotonic() + (args.seconds or float("inf")), 0.0
    try:
        while True:
            try:
                events, cursor = queue.store.events(cursor)
            except CursorLost:
                cursor = ""
                continue
            over = list(dict.fromkeys(event.about for event in events if event.did in OVER))
            _send(queue, over, sends=True)
            sent += len(over)
            if clock.monotonic() - numbers >= NUMBERS or clock.monotonic() >= deadline:
                numbers = clock.monotonic()
                send_metrics(metrics_of(queue, tally(queue.store)))
            if not events:
                if clock.monotonic() >= deadline:
                    break
                clock.sleep(min(PACE, max(deadline - clock.monotonic(), 0.01)))
    except KeyboardInterrupt:
        context.json = False
    return Reply(data={"sent": sent}, text=f"{sent} sent")


def _shown(spans: Sequence[Span]) -> str:
    """The spans as a tree."""
    depth: dict[str, int] = {"": -1}
    lines = []
    for span in spans:
        depth[span.span_id] = depth.get(span.parent_id, 0) + 1
        facts = "  ".join(str(value) for key, value in span.attributes.items() if key != "taskpit.queue")
        error = f"  failed: {span.error}" if span.error else ""
        lines.append(
            f"{'  ' * depth[span.span_id]}{span.name}  {iso(span.start)}  "
            f"{say_duration(round(span.end - span.start, 1))}  {facts}{error}"
        )
    return "\n".join(lines)


VERBS: Handlers = {"trace": (_arguments, _trace)}
