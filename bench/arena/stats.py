"""Numbers: what was measured, by round, and how two of them compare. Knows nothing of what was measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

__all__ = ["Book", "Measure", "Ratio", "percentile"]


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of them lies, by nearest rank."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


@dataclass(frozen=True)
class Ratio:
    """One thing over another, round by round: the middle one and the spread."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.median:.2f}"
        return f"{self.median:.2f} ({self.low:.2f}..{self.high:.2f})"


@dataclass
class Measure:
    """What one entrant reached in one scene."""

    scene: str
    entrant: str
    unit: str
    #: By round, since only what was measured in the same round may be compared.
    rounds: dict[int, float] = field(default_factory=dict)
    #: What a reader should know: stopped early, one process only, failed because of ...
    notes: list[str] = field(default_factory=list)

    @property
    def values(self) -> list[float]:
        """One for each round."""
        return list(self.rounds.values())

    @property
    def median(self) -> float:
        """The middle one."""
        return median(self.values)

    def note(self, text: str) -> None:
        """Say this once."""
        if text not in self.notes:
            self.notes.append(text)

    def as_json(self) -> dict[str, Any]:
        """For the results file."""
        told: dict[str, Any] = {"scene": self.scene, "entrant": self.entrant, "unit": self.unit, "values": self.values}
        if self.rounds:
            told |= {"median": self.median, "low": min(self.values), "high": max(self.values)}
        return told | {"notes": self.notes}


class Book:
    """All that was measured."""

    def __init__(self) -> None:
        self._measures: dict[tuple[str, str], Measure] = {}
        #: Single values behind a measure, for plots: scene and entrant, then the values.
        self.samples: dict[tuple[str, str], list[float]] = {}
        #: Entrants that could not run, and why.
        self.missing: dict[str, str] = {}
        #: Scenes that were left out, and why.
        self.left_out: dict[str, str] = {}

    def __iter__(self):  # noqa: ANN204 - measures, in the order they were begun
        return iter(self._measures.values())

    def measure(self, scene: str, entrant: str, unit: str = "tasks/s") -> Measure:
        """This measure; begun if it is new."""
        return self._measures.setdefault((scene, entrant), Measure(scene, entrant, unit))

    def add(self, scene: str, entrant: str, number: int, value: float, unit: str = "tasks/s") -> Measure:
        """This entrant reached this in that round."""
        measure = self.measure(scene, entrant, unit)
        measure.rounds[number] = value
        return measure

    def find(self, scene: str, entrant: str) -> Measure | None:
        """This measure, if it has a value."""
        measure = self._measures.get((scene, entrant))
        return measure if measure is not None and measure.rounds else None

    def scenes(self) -> list[str]:
        """Their names, in the order they were begun."""
        return list(dict.fromkeys(measure.scene for measure in self))

    def of(self, scene: str) -> list[Measure]:
        """All measures of a scene."""
        return [measure for measure in self if measure.scene == scene]

    def ratio(self, above: tuple[str, str], below: tuple[str, str]) -> Ratio | None:
        """One measure over another, by the rounds they share; by their medians if they share none."""
        one, other = self.find(*above), self.find(*below)
        if one is None or other is None:
            return None
        shared = [one.rounds[n] / other.rounds[n] for n in one.rounds if other.rounds.get(n)]
        if not shared:
            return Ratio(*(3 * [one.median / other.median])) if other.median else None
        return Ratio(median(shared), min(shared), max(shared))
