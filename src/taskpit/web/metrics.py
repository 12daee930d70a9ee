"""Numbers for Prometheus, in its text format. Pure: values in, text out."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["TYPE", "Numbers"]

TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Numbers:
    """Metrics, in the order they are said."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def gauge(self, name: str, told: str, values: float | Mapping[str, float], label: str = "") -> None:
        """A number that goes up and down, or one for each value of a label."""
        self._say(name, told, "gauge", values, label)

    def counter(self, name: str, told: str, values: float | Mapping[str, float], label: str = "") -> None:
        """A number that only grows, or one for each value of a label."""
        self._say(name, told, "counter", values, label)

    def _say(self, name: str, told: str, kind: str, values: float | Mapping[str, float], label: str) -> None:
        self._lines += [f"# HELP taskpit_{name} {told}", f"# TYPE taskpit_{name} {kind}"]
        rows: Iterable[tuple[str, float]] = (
            [(f'{{{label}="{_escape(key)}"}}', value) for key, value in values.items()]
            if not isinstance(values, int | float)
            else [("", values)]
        )
        self._lines += [f"taskpit_{name}{labels} {value:.15g}" for labels, value in rows]

    def text(self) -> str:
        """All of it."""
        return "\n".join([*self._lines, ""])


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
