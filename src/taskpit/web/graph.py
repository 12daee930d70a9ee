"""What a task waits for, what waits for it, and its parts, as a drawing from left to right. Pure."""

from __future__ import annotations

from markupsafe import Markup

from taskpit.records import Value
from taskpit.status import LABELS
from taskpit.text import fit, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from taskpit.board import Slip

__all__ = ["Kin", "draw", "kin"]

#: How far away relatives are drawn, and how many of them.
FAR, MOST = 3, 40
BOX, GAP, ROW = 168, 46, 52


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
        one: (column * (BOX + GAP), (row + (tallest - len(ids)) / 2) * ROW)
        for column, ids in columns.items()
        for row, one in enumerate(ids)
    }
    width, height = (max(columns) + 1) * (BOX + GAP) - GAP, tallest * ROW - 10
    lines = Markup().join(_edge(spots[one], spots[other]) for one, other in found.edges)
    boxes = Markup().join(_box(one, spots[one], slips.get(one), task_id, link) for one in found.levels)
    told = _words(found, task_id)
    return Markup('<svg class="graph" viewBox="-2 -2 {} {}" width="{}" role="group" aria-label="{}">{}{}</svg>').format(
        width + 4, height + 4, width + 4, told, lines, boxes
    )


def _words(found: Kin, task_id: str) -> str:
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
