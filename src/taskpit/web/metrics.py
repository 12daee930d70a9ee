"""Numbers for Prometheus, in its text format: by its own client where the extra `otel` is there, else by us."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from taskpit.worker.traces import Metric

__all__ = ["TYPE", "text_of"]

TYPE = "text/plain; version=0.0.4; charset=utf-8"


def text_of(metrics: Sequence[Metric]) -> str:
    """All of them, in their order."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    except ModuleNotFoundError:
        return "\n".join([*(line for one in metrics for line in _lines(one)), ""])

    class Ours:
        """What the client asks for its metrics."""

        def collect(self) -> Iterable[Any]:
            for one in metrics:
                family = GaugeMetricFamily if one.kind == "gauge" else CounterMetricFamily
                made = family(one.name, one.told, labels=[one.label] if one.label else [])
                for key, value in one.values.items():
                    made.add_metric([key] if one.label else [], value)
                yield made

    registry = CollectorRegistry()
    registry.register(Ours())
    return generate_latest(registry).decode()


def _lines(one: Metric) -> Iterable[str]:
    yield f"# HELP {one.name} {one.told}"
    yield f"# TYPE {one.name} {one.kind}"
    for key, value in one.values.items():
        label = f'{{{one.label}="{_escape(key)}"}}' if one.label else ""
        yield f"{one.name}{label} {value:.15g}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
