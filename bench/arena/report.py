"""The report: results as JSON and as Markdown. Reads the book, decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arena.goals import judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arena.entrants import Entrant
    from arena.goals import Finding
    from arena.stats import Book, Measure

__all__ = ["as_json", "as_markdown"]

#: Scenes as a reader calls them.
TITLES = {
    "life-1": "Whole lives one by one, process durability, 1 worker",
    "life-4": "Whole lives one by one, process durability, 4 workers",
    "life-2": "Whole lives one by one, process durability, 2 workers",
    "life-8": "Whole lives one by one, process durability, 8 workers",
    "life-deep-1": "Whole lives one by one with 10,000 waiting, process durability, 1 worker",
    "life-deep-4": "Whole lives one by one with 10,000 waiting, process durability, 4 workers",
    "batch-1": "Whole lives in batches of 100, process durability, 1 worker",
    "batch-4": "Whole lives in batches of 100, process durability, 4 workers",
    "power-1": "Whole lives one by one, power durability, 1 worker",
    "power-8": "Whole lives one by one, power durability, 8 workers",
    "power-batch-10": "Whole lives in batches of 10, power durability, 1 worker",
    "power-batch-100": "Whole lives in batches of 100, power durability, 1 worker",
    "wake-p50": "Put to claimed with a waiting worker, the middle one",
    "wake-p90": "Put to claimed with a waiting worker, one in ten is slower",
    "wake-p99": "Put to claimed with a waiting worker, one in a hundred is slower",
    "fill": "Filling a queue with files, by two processes",
    "claim": "One claim of a worker that stays, by how many are ready",
    "claim-first": "The first claim of a worker, by how many are ready",
    "memory": "Memory of a worker, by how many are ready",
    "oneshot": "One command",
    "looks": "Commands that look, and handing one in, by how many are ready",
    "crowd": "16 workers over 10,000 empty tasks",
    "idle": "A pool of 8 with nothing to do",
    "runner": "`true` for each of many tasks, two at a time",
    "runner-cpu": "What the processor spends on each of them, with the command's own",
    "processor": "What the processor spends on one command, with 1,000 ready",
}
INTRODUCTION = """\
Everybody took turns, round by round, on the same disk; figures are medians, the spread is from the lowest to the
highest. Ratios are taken within a round. A life is put, claimed, done with a result where there is such a thing;
a task weighs 500 bytes."""
#: Entrants that are ours, in the order they are looked for.
OURS = ("taskpit", "taskpit power")


def as_json(book: Book, machine: dict[str, str], entrants: dict[str, Entrant], *, quick: bool) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "schema": 1,
        "quick": quick,
        "machine": machine,
        "entrants": {name: {"durability": each.durability, "note": each.note} for name, each in entrants.items()},
        "missing": book.missing,
        "left_out": book.left_out,
        "measures": [measure.as_json() for measure in book],
        "samples": {f"{scene}: {entrant}": values for (scene, entrant), values in book.samples.items()},
        "goals": [_goal_json(finding) for finding in judge(book)],
    }


def _goal_json(finding: Finding) -> dict[str, Any]:
    return {
        "what": finding.goal.what,
        "goal": finding.goal.goal,
        "verdict": finding.verdict,
        "checks": [
            {
                "label": check.label,
                "bound": check.bound,
                "ratio": number and number.median,
                "low": number and number.low,
                "high": number and number.high,
                "holds": held,
            }
            for check, number, held in finding.numbers
        ],
    }


def as_markdown(
    book: Book, machine: dict[str, str], entrants: dict[str, Entrant], plots: Sequence[str] = (), *, quick: bool
) -> str:
    """Everything, for people."""
    lines = ["# Benchmark", ""]
    if quick:
        lines += ["A quick run, with a tenth of the tasks: for trying the benchmark, not for its figures.", ""]
    lines += [
        INTRODUCTION,
        "",
        *(f"- {name}: {value}" for name, value in machine.items()),
        "",
        "## What must be shown",
        "",
        _table(("what", "goal", "measured", "verdict"), [_goal_row(finding) for finding in judge(book)]),
    ]
    lines += ["## Missing", ""]
    lines += [f"- **{name}** was not measured: {reason}" for name, reason in book.missing.items()]
    lines += [f"- {scene} was left out or cut short: {reason}" for scene, reason in book.left_out.items()]
    lines += ["", ""] if book.missing or book.left_out else ["Nothing.", ""]
    for path in plots:
        lines += [f"![{path.rpartition('/')[2].partition('.')[0]}]({path.rpartition('/')[2]})", ""]
    for scene in book.scenes():
        lines += [f"## {TITLES.get(scene, scene)}", "", _scene(book, scene, entrants)]
    return "\n".join(lines).rstrip() + "\n"


def _goal_row(finding: Finding) -> tuple[str, ...]:
    told = []
    for check, number, held in finding.numbers:
        mark = {True: "", False: " **missed**", None: ""}[held]
        if held is False and check.either:  # of several one is enough; the verdict tells whether one is
            mark = " (below)"
        told.append(f"{check.label}: {number or 'not measured'} [{check.bound}]{mark}")
    verdict = finding.verdict
    return (
        finding.goal.what,
        finding.goal.goal,
        "<br>".join(told),
        f"**{verdict}**" if verdict == "missed" else verdict,
    )


def _scene(book: Book, scene: str, entrants: dict[str, Entrant]) -> str:
    measures = book.of(scene)
    ours = next((name for name in OURS if book.find(scene, name)), "")
    speed = any(measure.unit == "tasks/s" for measure in measures) and bool(ours)
    head = ("", "unit", "median", "spread", "rounds", *(("ours over it", "durability") if ours else ()), "notes")
    rows = []
    for measure in sorted(measures, key=_order if speed else lambda _: 0.0):
        entrant = entrants.get(measure.entrant)
        row = [measure.entrant, measure.unit, *_figures(measure)]
        if ours:
            row += [
                str(book.ratio((scene, ours), (scene, measure.entrant)) or "-"),
                entrant.durability if entrant else "",
            ]
        rows.append((*row, "; ".join([*([entrant.note] if entrant and entrant.note else []), *measure.notes])))
    return _table(head, rows)


def _order(measure: Measure) -> float:
    return -measure.median if measure.rounds else 0.0


def _figures(measure: Measure) -> tuple[str, str, str]:
    if not measure.rounds:
        return "-", "-", "0"
    low, high = min(measure.values), max(measure.values)
    return figure(measure.median), f"{figure(low)}..{figure(high)}", str(len(measure.values))


def figure(value: float) -> str:
    """A number with as many digits as it deserves."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines) + "\n"
