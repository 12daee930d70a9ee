"""Charts as SVG, drawn here and read by anybody: each has a title, a description and a table. Pure.

Colours are classes; the style sheet knows what they look like by day and by night.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil, floor, log10

from markupsafe import Markup

from taskpit.board import Slip
from taskpit.clock import iso, say_duration
from taskpit.history import ClaimSpan
from taskpit.records import Value
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


class Series(Value):
    """One line, or one sort of bar: a value for each step, None where there is none."""

    name: str
    values: tuple[float | None, ...]


class Chart(Value):
    """A drawing with what it says in words."""

    title: str
    svg: Markup
    #: Names of the series with the class of their colour.
    legend: tuple[tuple[str, str], ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


class _Frame:
    """The axes: how times and values become places."""

    def __init__(self, start: float, end: float, top: float, say: Callable[[float], str]) -> None:
        self.start, self.end, self.say = start, max(end, start + 1), say
        self.left, self.width, self.height = LEFT, WIDTH, HEIGHT
        self.ticks = nice(top, CLOCK if say is say_duration else (1, 2) if isinstance(top, int) else ())

    def x(self, at: float) -> float:
        """Where a time is."""
        part = (min(max(at, self.start), self.end) - self.start) / (self.end - self.start)
        return self.left + (self.width - self.left - RIGHT) * part

    def y(self, value: float) -> float:
        """Where a value is."""
        return self.height - BOTTOM - (self.height - TOP - BOTTOM) * value / self.ticks[-1]

    def grid(self) -> Markup:
        """Lines at round values, and when along the bottom."""
        drawn = [self.rule(self.y(tick)) + self._value(tick) for tick in self.ticks]
        return Markup().join(drawn) + self.times()

    def rule(self, y: float) -> Markup:
        """A line from left to right."""
        return Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
            self.left, self.width - RIGHT, y, y
        )

    def _value(self, tick: float) -> Markup:
        return Markup('<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>').format(
            self.left - 8, self.y(tick) + 4, self.say(tick)
        )

    def times(self) -> Markup:
        """When, along the bottom."""
        places = [(self.x(at), at) for at in hours(self.start, self.end)]
        return Markup().join(
            Markup('<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
                x, self.height - 5, say_time(at, self.end - self.start)
            )
            for x, at in places
            if self.left + 20 <= x <= self.width - RIGHT - 20
        )

    def draw(self, title: str, about: str, inner: Markup) -> Markup:
        """The whole drawing."""
        key = "".join(letter for letter in title.lower() if letter.isalnum())
        return Markup(
            '<svg class="chart" viewBox="0 0 {} {}" role="{}" aria-labelledby="{}-t {}-d">'
            '<title id="{}-t">{}</title><desc id="{}-d">{}</desc>{}</svg>'
        ).format(self.width, self.height, "group" if "<a " in inner else "img", key, key, key, title, key, about, inner)


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
    frame = _Frame(times[0], times[-1], top, say)
    drawn = []
    for index, (start, end) in enumerate(pairwise(times)):
        below = 0.0
        x, width = frame.x(start) + 0.75, max(frame.x(end) - frame.x(start) - 1.5, 1)
        for one in series:
            value = one.values[index] or 0
            if value:
                y, height = frame.y(below + value), frame.y(below) - frame.y(below + value)
                drawn.append(
                    Markup(
                        '<rect class="fill {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1.5"/>'
                    ).format(one.name, x, y, width, height)
                )
                below += value
    svg = frame.draw(title, _words(series, say), frame.grid() + Markup().join(drawn))
    names = tuple((one.name, one.name) for one in series)
    return Chart(
        title=title,
        svg=svg,
        legend=names,
        head=("from", *(one.name for one in series)),
        rows=_table(times[:-1], series, say),
    )


def line(
    title: str, times: Sequence[float], one: Series, say: Callable[[float], str], *, filled: bool = False
) -> Chart:
    """A line through the values there are, `filled` down to nothing or not."""
    known = [(at, value) for at, value in zip(times, one.values, strict=False) if value is not None]
    frame = _Frame(times[0], times[-1], max((value for _, value in known), default=0), say)
    points = [(frame.x(at), frame.y(value)) for at, value in known]
    path = " ".join(f"{'L' if place else 'M'}{x:.1f} {y:.1f}" for place, (x, y) in enumerate(points))
    drawn = Markup()
    if filled and points:
        floor = frame.y(0)
        closed = f"{path} L{points[-1][0]:.1f} {floor:.1f} L{points[0][0]:.1f} {floor:.1f} Z"
        drawn += Markup('<path class="wash {}" d="{}"/>').format(one.name, closed)
    drawn += Markup('<path class="stroke {}" d="{}"/>').format(one.name, path)
    if not filled:
        drawn += Markup().join(
            Markup('<circle class="fill {}" cx="{:.1f}" cy="{:.1f}" r="2.2"/>').format(one.name, x, y)
            for x, y in points
        )
    svg = frame.draw(title, _words([one], say), frame.grid() + drawn)
    return Chart(title=title, svg=svg, head=("at", one.name), rows=_table(times, [one], say))


def area(title: str, times: Sequence[float], one: Series, say: Callable[[float], str]) -> Chart:
    """A line with all below it filled."""
    return line(title, times, one, say, filled=True)


def gantt(title: str, spans: Sequence[ClaimSpan], start: float, end: float, link: Callable[[str], str]) -> Chart:
    """Who worked on what, when: a row for each worker, a bar for each claim."""
    workers = list(dict.fromkeys(span.worker for span in reversed(spans[-MOST_SPANS:])))[:MOST_ROWS]
    rows = {worker: row for row, worker in enumerate(sorted(workers, key=natural))}
    shown = [span for span in spans[-MOST_SPANS:] if span.worker in rows]
    frame = _Frame(start, end, 1, say_duration)
    frame.left, frame.width, frame.height = NAMES, WIDER, TOP + BOTTOM + ROW * max(len(rows), 1)
    names = Markup().join(
        Markup('<text class="who" x="0" y="{}">{}</text>').format(TOP + ROW * row + 17, fit(worker, 20))
        + frame.rule(TOP + ROW * (row + 1))
        for worker, row in rows.items()
    )
    drawn = Markup().join(_bar(span, rows[span.worker], frame, link) for span in shown)
    text = f"{len(shown)} claims by {len(rows)} workers" if shown else "No worker held a task in this time"
    return Chart(
        title=title,
        svg=frame.draw(title, text, names + frame.times() + drawn),
        legend=tuple(dict.fromkeys((_how(span), _how(span)) for span in shown)),
        head=("worker", "task", "from", "for", "ended"),
        rows=tuple(
            (one_line(span.worker), span.id, iso(span.start), _long(span, end), _how(span)) for span in shown[-200:]
        ),
    )


def _how(span: ClaimSpan) -> str:
    return span.how or "running"


def _long(span: ClaimSpan, end: float) -> str:
    return say_duration((span.end or end) - span.start)


def _bar(span: ClaimSpan, row: int, frame: _Frame, link: Callable[[str], str]) -> Markup:
    x, width = frame.x(span.start), max(frame.x(span.end or frame.end) - frame.x(span.start) - 1, 2)
    text = one_line(f"{span.worker}: {span.id}, {_how(span)}, {_long(span, frame.end)}")
    return Markup(
        '<a href="{}"><rect class="span {}" x="{:.1f}" y="{}" width="{:.1f}" height="{}" rx="3">'
        "<title>{}</title></rect></a>"
    ).format(link(span.id), _how(span), x, TOP + ROW * row + 4, width, ROW - 8, text)


# -- what a task waits for -------------------------------------------------------------------------


#: How far away relatives are drawn, and how many of them.
FAR, MOST = 3, 40
BOX, GAP, BOX_ROW = 168, 46, 52


class Kin(Value):
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


def draw(task_id: str, found: Kin, slips: Mapping[str, Slip], link: Callable[[str], str]) -> Markup:
    """The drawing; nothing if the task has no relatives."""
    if len(found.levels) < 2:
        return Markup()
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
    width, height = (max(columns) + 1) * (BOX + GAP) - GAP, tallest * BOX_ROW - 10
    lines = Markup().join(_edge(spots[one], spots[other]) for one, other in found.edges)
    boxes = Markup().join(_box(one, spots[one], slips.get(one), task_id, link) for one in found.levels)
    text = _kin_words(found, task_id)
    return Markup('<svg class="graph" viewBox="-2 -2 {} {}" width="{}" role="group" aria-label="{}">{}{}</svg>').format(
        width + 4, height + 4, width + 4, text, lines, boxes
    )


def _kin_words(found: Kin, task_id: str) -> str:
    def of(ids: Iterable[str]) -> str:
        return ", ".join(ids) or "nothing"

    before = [one for one, other in found.edges if other == task_id]
    after = [other for one, other in found.edges if one == task_id]
    return f"{task_id} comes after {of(before)} and before {of(after)}"


def _edge(start: tuple[float, float], end: tuple[float, float]) -> Markup:
    x1, y1, x2, y2 = start[0] + BOX, start[1] + 21, end[0], end[1] + 21
    half = max(abs(x2 - x1) / 2, 20)
    return Markup('<path class="edge" d="M{:.0f} {:.0f} C{:.0f} {:.0f} {:.0f} {:.0f} {:.0f} {:.0f}"/>').format(
        x1, y1, x1 + half, y1, x2 - half, y2, x2, y2
    )


def _box(one: str, spot: tuple[float, float], slip: Slip | None, task_id: str, link: Callable[[str], str]) -> Markup:
    column = slip.column if slip else "unknown"
    title = one_line(slip.title) if slip else "it does not exist yet"
    return Markup(
        '<a href="{}"><g class="node {}{}" transform="translate({:.0f} {:.0f})"><title>{}</title>'
        '<rect width="{}" height="42" rx="6"/><circle cx="14" cy="14" r="4"/>'
        '<text class="id" x="24" y="18">{}</text><text x="10" y="34">{}</text></g></a>'
    ).format(
        link(one),
        column,
        " here" if one == task_id else "",
        *spot,
        title,
        BOX,
        f"{fit(one, 14)} · {LABELS.get(column, column).lower()}",
        fit(title, 23),
    )
