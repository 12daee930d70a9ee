"""Charts as places of lines and boxes, which templates draw as SVG; each has a description and a table. Pure.

Colours are classes; the style sheet knows what they look like by day and by night.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import ceil, floor, log10

from taskpit.board import Slip
from taskpit.clock import iso, say_duration
from taskpit.history import ClaimSpan
from taskpit.model import Value
from taskpit.rules import natural
from taskpit.status import LABELS
from taskpit.text import fit, one_line

#: A drawing and its margins, about as large as it is shown; the one of who worked is wider, for their names too.
WIDTH, HEIGHT, WIDER = 480, 190, 1056
LEFT, RIGHT, TOP, BOTTOM, NAMES = 46, 8, 12, 24, 150
ROW = 26
#: Round amounts of time.
CLOCK = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
#: Who worked on what: so many workers, and so many spans.
MOST_ROWS, MOST_SPANS = 40, 2000


class Series(Value, frozen=True, kw_only=True):
    """One line, or one sort of bar: a value for each step, None where there is none."""

    name: str
    values: tuple[float | None, ...]


class Chart(Value, frozen=True, kw_only=True):
    """What a drawing shows and says, in the places of its `frame`; `chart.html` draws it."""

    title: str
    about: str
    frame: Frame
    #: Bars by kind, place and size, some with a link and a text; names of rows; a line through points.
    bars: Sequence[Mapping[str, object]] = ()
    names: Sequence[tuple[int, str]] = ()
    kind: str = ""
    points: Sequence[tuple[float, float]] = ()
    filled: bool = False
    #: Names of the series with the class of their colour.
    legend: tuple[tuple[str, str], ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


class Frame:
    """The axes: how times and values become places."""

    def __init__(self, start: float, end: float, top: float, say: Callable[[float], str]) -> None:
        self.start, self.end = start, max(end, start + 1)
        self.left, self.width, self.height = LEFT, WIDTH, HEIGHT
        self.ticks = nice(top, CLOCK if say is say_duration else (1, 2) if isinstance(top, int) else ())
        #: Lines from left to right, each with what stands before it.
        self.rules = [(self.y(tick), say(tick)) for tick in self.ticks]

    @property
    def right(self) -> int:
        """Where lines end."""
        return self.width - RIGHT

    def x(self, at: float) -> float:
        """Where a time is."""
        part = (min(max(at, self.start), self.end) - self.start) / (self.end - self.start)
        return self.left + (self.right - self.left) * part

    def y(self, value: float) -> float:
        """Where a value is."""
        return self.height - BOTTOM - (self.height - TOP - BOTTOM) * value / self.ticks[-1]

    @property
    def times(self) -> list[tuple[float, str]]:
        """When, along the bottom."""
        places = [(self.x(at), say_time(at, self.end - self.start)) for at in hours(self.start, self.end)]
        return [(x, text) for x, text in places if self.left + 20 <= x <= self.right - 20]


def nice(top: float, steps: Sequence[float] = ()) -> list[float]:
    """Round values from nothing to at least this, at most three steps apart: one of these steps, if it will do."""
    step = next((step for step in steps if step * 3 >= top), 0.0 if top > 0 else 1.0)
    if not step:
        size = 10.0 ** floor(log10(top))
        step = next(size * part for part in (0.1, 0.2, 0.5, 1, 2, 5) if size * part * 3 >= top)
    count = max(ceil(round(top / step, 9)), 1)
    return [round(step * number, 10) for number in range(count + 1)]


def hours(start: float, end: float) -> list[float]:
    """Round times between these two, some six of them."""
    step = next((step for step in CLOCK if (end - start) / step <= 7), 2592000)
    first = int(start // step + 1) * step
    return [float(at) for at in range(first, int(end) + 1, step)][:12]


def say_time(at: float, span: float) -> str:
    """A time as one says it next to others in so long a span; here, not in Greenwich."""
    form = "%H:%M:%S" if span <= 600 else "%H:%M" if span <= 86400 * 1.5 else "%d %b"
    return time.strftime(form, time.localtime(at))


def _table(
    times: Sequence[float], series: Sequence[Series], say: Callable[[float], str]
) -> tuple[tuple[str, ...], ...]:
    rows = []
    for index, at in enumerate(times):
        values = [one.values[index] for one in series]
        if any(values) or (len(values) == 1 and values[0] is not None):
            rows.append((iso(at), *("" if value is None else say(value) for value in values)))
    return tuple(rows)


def _words(series: Sequence[Series], say: Callable[[float], str]) -> str:
    lines = [
        f"{one.name}: at most {say(max(known))}, last {say(known[-1])}"
        for one in series
        if (known := [value for value in one.values if value is not None])
    ]
    return "; ".join(lines) or "There is nothing to show yet"


def bars(title: str, times: Sequence[float], series: Sequence[Series], say: Callable[[float], str]) -> Chart:
    """Steps beside each other, the series on top of each other; `times` has one more: the end."""
    top = max((sum(one.values[index] or 0 for one in series) for index in range(len(times) - 1)), default=0)
    frame = Frame(times[0], times[-1], top, say)
    drawn = []
    for index, (start, end) in enumerate(pairwise(times)):
        below = 0.0
        x, width = frame.x(start) + 0.75, max(frame.x(end) - frame.x(start) - 1.5, 1)
        for one in series:
            if value := one.values[index] or 0:
                y = frame.y(below + value)
                drawn.append({"kind": one.name, "x": x, "y": y, "width": width, "height": frame.y(below) - y})
                below += value
    return Chart(
        title=title,
        about=_words(series, say),
        frame=frame,
        bars=drawn,
        legend=tuple((one.name, one.name) for one in series),
        head=("from", *(one.name for one in series)),
        rows=_table(times[:-1], series, say),
    )


def line(
    title: str, times: Sequence[float], one: Series, say: Callable[[float], str], *, filled: bool = False
) -> Chart:
    """A line through the values there are, `filled` down to nothing or not."""
    known = [(at, value) for at, value in zip(times, one.values, strict=False) if value is not None]
    frame = Frame(times[0], times[-1], max((value for _, value in known), default=0), say)
    return Chart(
        title=title,
        about=_words([one], say),
        frame=frame,
        kind=one.name,
        points=[(frame.x(at), frame.y(value)) for at, value in known],
        filled=filled,
        head=("at", one.name),
        rows=_table(times, [one], say),
    )


def gantt(title: str, spans: Sequence[ClaimSpan], start: float, end: float, link: Callable[[str], str]) -> Chart:
    """Who worked on what, when: a row for each worker, a bar for each claim."""
    workers = list(dict.fromkeys(span.worker for span in reversed(spans[-MOST_SPANS:])))[:MOST_ROWS]
    rows = {worker: row for row, worker in enumerate(sorted(workers, key=natural))}
    shown = [span for span in spans[-MOST_SPANS:] if span.worker in rows]
    frame = Frame(start, end, 1, say_duration)
    frame.left, frame.width, frame.height = NAMES, WIDER, TOP + BOTTOM + ROW * max(len(rows), 1)
    frame.rules = [(TOP + ROW * (row + 1), "") for row in range(len(rows))]
    drawn, table = [], []
    for span in shown:
        x, how = frame.x(span.start), span.how or "running"
        long = say_duration((span.end or frame.end) - span.start)
        place = {"x": x, "y": TOP + ROW * rows[span.worker] + 4, "height": ROW - 8}
        place["width"] = max(frame.x(span.end or frame.end) - x - 1, 2)
        text = one_line(f"{span.worker}: {span.id}, {how}, {long}")
        drawn.append({"kind": how, "link": link(span.id), "text": text, **place})
        table.append((one_line(span.worker), span.id, iso(span.start), long, how))
    return Chart(
        title=title,
        about=f"{len(shown)} claims by {len(rows)} workers" if shown else "No worker held a task in this time",
        frame=frame,
        bars=drawn,
        names=[(TOP + ROW * row + 17, fit(worker, 20)) for worker, row in rows.items()],
        legend=tuple(dict.fromkeys((how, how) for *_, how in table)),
        head=("worker", "task", "from", "for", "ended"),
        rows=tuple(table[-200:]),
    )


# -- what a task waits for -------------------------------------------------------------------------


#: How far away relatives are drawn, and how many of them.
FAR, MOST = 3, 40
BOX, GAP, BOX_ROW = 168, 46, 52


class Kin(Value, frozen=True, kw_only=True):
    """A task's relatives: in which column each is drawn (its own is 0), and who leads to whom."""

    levels: dict[str, int]
    edges: tuple[tuple[str, str], ...] = ()
    #: More of them than are drawn.
    more: bool = False


def kin(task_id: str, slips: Mapping[str, Slip]) -> Kin:
    """Those near this task: needs and parent before it, dependants and parts after it."""
    after: dict[str, list[str]] = {}
    before: dict[str, list[str]] = {}
    for slip in slips.values():
        sources = {*slip.needs, *([slip.parent] if slip.parent else [])}
        for source in sources:
            after.setdefault(source, []).append(slip.id)
            before.setdefault(slip.id, []).append(source)
    levels, more = {task_id: 0}, False
    for step, ways in ((-1, before), (1, after)):
        edge = [task_id]
        for _ in range(FAR):
            near = [other for one in edge for other in sorted(ways.get(one, ())) if other not in levels]
            near = list(dict.fromkeys(near))
            room = max(MOST - len(levels), 0)
            more = more or len(near) > room
            for other in near[:room]:
                levels[other] = levels[next(one for one in edge if other in ways.get(one, ()))] + step
            edge = near[:room]
    edges = sorted((one, other) for one in levels for other in after.get(one, ()) if other in levels)
    return Kin(levels=levels, edges=tuple(edges), more=more)


class Graph(Value, frozen=True, kw_only=True):
    """A task between its relatives, in the places of a drawing; `graph.html` draws it."""

    width: float
    height: float
    #: What it says in words.
    about: str
    edges: Sequence[tuple[float, float, float, float, float]]
    boxes: Sequence[Mapping[str, object]]


def draw(task_id: str, found: Kin, slips: Mapping[str, Slip], link: Callable[[str], str]) -> Graph | None:
    """The drawing; none if the task has no relatives."""
    if len(found.levels) < 2:
        return None
    first = min(found.levels.values())
    columns: dict[int, list[str]] = {}
    for one, level in found.levels.items():
        columns.setdefault(level - first, []).append(one)
    tallest = max(map(len, columns.values()))
    spots = {
        one: (column * (BOX + GAP), (row + (tallest - len(ids)) / 2) * BOX_ROW)
        for column, ids in columns.items()
        for row, one in enumerate(ids)
    }
    ends = [
        (spots[one][0] + BOX, spots[one][1] + 21, spots[other][0], spots[other][1] + 21) for one, other in found.edges
    ]
    before = ", ".join(one for one, other in found.edges if other == task_id) or "nothing"
    after = ", ".join(other for one, other in found.edges if one == task_id) or "nothing"
    return Graph(
        width=(max(columns) + 1) * (BOX + GAP) - GAP,
        height=tallest * BOX_ROW - 10,
        about=f"{task_id} comes after {before} and before {after}",
        edges=[(*each, max(abs(each[2] - each[0]) / 2, 20)) for each in ends],
        boxes=[_box(one, spot, slips.get(one), link(one), here=one == task_id) for one, spot in spots.items()],
    )


def _box(one: str, spot: tuple[float, float], slip: Slip | None, link: str, *, here: bool) -> dict[str, object]:
    column = slip.column if slip else "unknown"
    title = one_line(slip.title) if slip else "it does not exist yet"
    head = f"{fit(one, 14)} · {LABELS.get(column, column).lower()}"
    place = {"link": link, "column": column, "here": here, "x": spot[0], "y": spot[1], "width": BOX}
    return {**place, "title": title, "head": head, "line": fit(title, 23)}
