"""What happened to a task as a trace of OpenTelemetry: from put to landed, with its claims, runs, checks and landing.

Nothing is instrumented: a trace is made from the changelog, the attempts and the result, once the task has ended. Its
ids are made from the queue, the task and the claim, so that a run knows its own before it begins (`traceparent`), and
a trace that is sent twice is the same one.

    task
      claim           from claim to its end
        run             the agent; what it sends by itself belongs below this one
        check           the command that proves it
      review          from hand-in to a verdict
      landing         from hand-in or approval to the branch
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

from taskpit.errors import MissingExtra, Unavailable, install_hint
from taskpit.events import new_events
from taskpit.history import ENDS, moment, who
from taskpit.model import Card, Event, Evidence, Value
from taskpit.queue import Queue
from taskpit.run.budget import Ledger

#: A task has ended with one of these, until a person begins it again.
OVER = ("completed_task", "failed_task", "cancelled_task", "split_task")
#: A claim ends with one of these.
_CLAIM_ENDS = frozenset((*ENDS, "handed_in"))
HANDED, JUDGED = "handed_in", ("approved", "sent_back", "taken_over")


class TraceSpan(Value, frozen=True, kw_only=True):
    """A part of a trace; times are Unix seconds."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str = ""
    start: float = 0.0
    end: float = 0.0
    attributes: Mapping[str, str | int | float | bool] = {}
    #: What went wrong; empty if nothing did.
    error: str = ""


def _digest(size: int, *words: str) -> str:
    return blake2b("\0".join(words).encode("utf-8", "replace"), digest_size=size).hexdigest()


def traceparent(where: str, task_id: str, fence: str) -> str:
    """What the run of a claim hands to whatever it starts, as W3C spells it."""
    trace = _digest(16, where, task_id)
    return f"00-{trace}-{_digest(8, trace, 'run', fence)}-01"


# -- making ----------------------------------------------------------------------------------------


def trails(queue: Queue, wanted: Iterable[str] = ()) -> dict[str, list[Event]]:
    """What the changelog tells of each task, or of those that are wanted."""
    found: dict[str, list[Event]] = {}
    only = frozenset(wanted)
    for event in new_events(queue.store, "", lambda event: event.about in only if only else bool(event.about))[0]:
        found.setdefault(event.about, []).append(event)
    return found


def trace_of(where: str, card: Card, trail: Sequence[Event]) -> list[TraceSpan]:
    """The spans of this task, its own first; what the changelog has forgotten is missing."""
    task, result = card.task, card.result
    trace = _digest(16, where, task.id)
    root = _digest(8, trace, "task")
    times = [moment(event.timestamp) for event in trail] or [task.created]
    inner = _Inner(trace, root, card).read(trail)
    facts: dict[str, str | int | float | bool] = {
        "taskpit.task": task.id,
        "taskpit.title": task.title,
        "taskpit.queue": where,
        "taskpit.state": str(card.state),
    }
    usd = result.cost.get("usd") if result else None
    if isinstance(usd, int | float):
        facts["taskpit.cost_usd"] = float(usd)
    failed = result.reason or "failed" if result and str(result.verdict) != "done" else ""
    start, end = min(task.created or times[0], *times), max(*times, *(span.end for span in inner), 0.0)
    own = TraceSpan(name="task", trace_id=trace, span_id=root, start=start, end=end, attributes=facts, error=failed)
    return [own, *inner]


class _Inner:
    """The spans below a task's own, as its lines are read one after the other."""

    def __init__(self, trace: str, root: str, card: Card) -> None:
        self._trace, self._root, self._card = trace, root, card
        self._claimed: Event | None = None
        self._waits = ("", 0.0)
        self._spans: list[TraceSpan] = []

    def read(self, trail: Sequence[Event]) -> list[TraceSpan]:
        for event in trail:
            at, did = moment(event.timestamp), event.did
            if did == "claimed_task":
                self._claimed = event
            elif did in _CLAIM_ENDS and self._claimed is not None:
                self._close(self._claimed, event, at)
                self._claimed = None
            if did == HANDED:
                self._waits = ("review" if "review" in event.details else "landing", at)
            elif did in JUDGED and self._waits[0]:
                self._wait("review", at, event)
                self._waits = ("landing", at) if did == "approved" else ("", 0.0)
            elif did in OVER and self._waits[0]:
                self._wait("landing", at, event)
                self._waits = ("", 0.0)
        return self._spans

    def _add(self, name: str, key: str, start: float, end: float, parent: str, error: str = "", **facts: str) -> str:
        span_id = _digest(8, self._trace, name, key)
        fields = {f"taskpit.{word}": value for word, value in facts.items() if value}
        self._spans.append(
            TraceSpan(
                name=name,
                trace_id=self._trace,
                span_id=span_id,
                parent_id=parent,
                start=start,
                end=max(start, end),
                attributes=fields,
                error=error,
            )
        )
        return span_id

    def _wait(self, name: str, at: float, event: Event) -> None:
        key = f"{self._waits[1]} {event.worker}"
        own = self._add(name, key, self._waits[1], at, self._root, verdict=event.action, worker=event.worker)
        _, evidence = self._attempt(event.worker)
        if evidence is not None:  # what lands is checked once more
            self._check(evidence, event.worker, self._waits[1], at, own)

    def _check(self, evidence: Evidence, key: str, start: float, at: float, parent: str) -> None:
        red = "" if evidence.green else f"exit code {evidence.exit_code}"
        self._add("check", key, max(at - evidence.seconds, start), at, parent, red, command=evidence.command)

    def _close(self, claimed: Event, event: Event, at: float) -> None:
        """A claim with its run and its check, as far as its attempt is known."""
        start, fence = moment(claimed.timestamp), claimed.worker
        how = ENDS.get(event.did, "handed in")
        error = event.details if how in ("failed", "retried", "lost", "held") else ""
        claim = self._add("claim", fence, start, at, self._root, error, worker=who(fence), ended=how)
        seconds, evidence = self._attempt(fence)
        checking = evidence.seconds if evidence else 0.0
        begun = max(start, at - seconds - checking) if seconds else start
        self._add("run", fence, begun, max(at - checking, begun), claim, worker=fence)
        if evidence is not None:
            self._check(evidence, fence, start, at, claim)

    def _attempt(self, fence: str) -> tuple[float, Evidence | None]:
        """How long the run of this claim took, and its check."""
        found = next((one for one in self._card.tries if one.worker == fence), None)
        result = self._card.result
        if found is not None:
            return found.seconds, found.evidence
        return (result.seconds, result.evidence) if result is not None and result.worker == fence else (0.0, None)


# -- numbers ---------------------------------------------------------------------------------------


class Metric(Value, frozen=True, kw_only=True):
    """A number, or one for each value of a label, under the name that every surface has for it."""

    name: str
    about: str
    #: gauge or counter.
    kind: str
    values: Mapping[str, float] = {}
    label: str = ""


def metric(name: str, about: str, kind: str, values: float | Mapping[str, float], label: str = "") -> Metric:
    """A number of ours, or one for each value of a label."""
    each = {"": float(values)} if isinstance(values, int | float) else dict(values)
    return Metric(name=f"taskpit_{name}", about=about, kind=kind, values=each, label=label)


def metrics_of(queue: Queue, tasks: Mapping[str, int]) -> list[Metric]:
    """What every surface tells of a queue in numbers."""
    folder = queue.store.info().papers
    spent = Ledger(folder).total().usd if folder else 0.0
    return [
        metric("tasks", "Tasks by state.", "gauge", {name: float(count) for name, count in tasks.items()}, "state"),
        metric("paused", "1 while no task is given out.", "gauge", bool(queue.store.paused())),
        metric("cost_usd_total", "Dollars that agents have reported.", "counter", spent),
    ]


# -- sending ---------------------------------------------------------------------------------------


def _missing(error: ModuleNotFoundError) -> MissingExtra:
    return MissingExtra(f"traces need {error.name}, which is not installed", hint=install_hint("otel"))


def send_spans(spans: Sequence[TraceSpan]) -> None:
    """They are with the collector that OTEL_EXPORTER_OTLP_ENDPOINT names; Unavailable if it did not take them."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.trace.export import SpanExportResult
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    resource = Resource.create({"service.name": "taskpit"})

    def context(span: TraceSpan, span_id: str) -> SpanContext:
        return SpanContext(int(span.trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(1))

    made = [
        ReadableSpan(
            name=span.name,
            context=context(span, span.span_id),
            parent=context(span, span.parent_id) if span.parent_id else None,
            resource=resource,
            attributes=dict(span.attributes),
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.OK),
            start_time=int(span.start * 1e9),
            end_time=int(span.end * 1e9),
        )
        for span in spans
    ]
    exporter = OTLPSpanExporter()
    try:
        if exporter.export(made) is not SpanExportResult.SUCCESS:
            raise Unavailable("the collector did not take the trace", hint="Is OTEL_EXPORTER_OTLP_ENDPOINT right?")
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]


def _seen(seen: list[Any], _: object) -> list[Any]:
    return seen


def send_metrics(metrics: Sequence[Metric]) -> None:
    """They are with the collector."""
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.metrics import Observation
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(), export_interval_millis=float("inf"))
    provider = MeterProvider([reader], resource=Resource.create({"service.name": "taskpit"}), shutdown_on_exit=False)
    meter = provider.get_meter("taskpit")
    for one in metrics:
        seen = [Observation(value, {one.label: key} if one.label else {}) for key, value in one.values.items()]
        make = meter.create_observable_gauge if one.kind == "gauge" else meter.create_observable_counter
        make(one.name, [partial(_seen, seen)], description=one.about)
    try:
        provider.force_flush()
    finally:
        provider.shutdown()
