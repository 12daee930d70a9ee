"""Who works here, and the past as plots. Reads, changes nothing."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse

from taskpit import fs
from taskpit.board import Board, Slip
from taskpit.clock import say_duration
from taskpit.crew import status
from taskpit.crew.file import posts_of
from taskpit.crew.log_tail import log_of_agent
from taskpit.crew.state import CrewFiles
from taskpit.crew.status import MemberRow
from taskpit.history import who
from taskpit.ids import is_word
from taskpit.model import Value
from taskpit.run.budget import Ledger
from taskpit.run.traces import Metric, metric, metrics_of
from taskpit.web import charts
from taskpit.web.charts import Chart
from taskpit.web.shared import BoardThreads

TYPE = "text/plain; version=0.0.4; charset=utf-8"


def text_of(metrics: Sequence[Metric]) -> str:
    """All of them, in their order, as Prometheus reads them."""
    return "\n".join([*(line for one in metrics for line in _lines(one)), ""])


def _lines(one: Metric) -> Iterable[str]:
    yield f"# HELP {one.name} {one.about}"
    yield f"# TYPE {one.name} {one.kind}"
    for key, value in one.values.items():
        label = f'{{{one.label}="{_escape(key)}"}}' if one.label else ""
        yield f"{one.name}{label} {value:.15g}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


# -- who works here --------------------------------------------------------------------------------


#: How far back the plots may reach, in seconds; 0 is all there is.
SPANS = {"1h": 3600.0, "6h": 21600.0, "1d": 86400.0, "7d": 604800.0, "all": 0.0}
#: So many steps a plot has.
STEPS = 48


class CrewFigures(Value, frozen=True, kw_only=True):
    """Who there is, and what each has cost."""

    rows: tuple[MemberRow, ...] = ()
    usd: dict[str, float] = {}
    #: Who has printed something.
    logs: tuple[str, ...] = ()
    trouble: str = ""


class CrewPages:
    """The pages about workers and the past."""

    def __init__(self, desk: BoardThreads) -> None:
        self.desk = desk

    def _root(self) -> str:
        """The folder of the crew's files; empty if there is none."""
        folder = self.desk.queue.store.info().papers
        return os.path.abspath(folder) if folder else ""

    def _costs(self) -> list[tuple[float, str, float]]:
        root = self._root()
        return Ledger(root).entries() if root else []

    def _standing(self) -> CrewFigures:
        root = self._root()
        if not root:
            return CrewFigures()
        posts, trouble = posts_of(root, os.environ)
        usd: dict[str, float] = {}
        for _, worker, cost in self._costs():
            usd[who(worker)] = usd.get(who(worker), 0.0) + cost
        rows = status.rows(CrewFiles(root), posts, self.desk.queue.store.paused())
        logs = tuple(name.removesuffix(".log") for name in fs.names(CrewFiles(root).folder) if name.endswith(".log"))
        return CrewFigures(rows=tuple(rows), usd=usd, logs=logs, trouble=trouble.message if trouble else "")

    # -- agents ------------------------------------------------------------------------------------

    async def agents(self, request: Request, template: str = "agents.html") -> HTMLResponse:
        """The crew, and everybody else at work; or the part of it that changes."""
        desk = self.desk
        found = await desk.do(self._standing)
        theirs = {row.task for row in found.rows}

        def others(board: Board) -> list[Slip]:
            return [slip for slip in board.column("running") if slip.id not in theirs]

        slips = await desk.hub.look(others)
        return HTMLResponse(desk.write(request, template, page="agents", standing=found, others=slips))

    async def log(self, request: Request) -> HTMLResponse:
        """What one of the crew has printed, as it grows."""
        name = request.path_params["name"]
        await self.desk.do(lambda: log_of_agent(self.desk.queue.store, name))
        return HTMLResponse(self.desk.write(request, "agent.html", page="agents", name=name))

    # -- plots -------------------------------------------------------------------------------------

    async def plots(self, request: Request) -> HTMLResponse:
        """The past as drawings."""
        asked = request.query_params.get("span", "")
        span = asked if asked in SPANS else "1d"
        drawn = await self.desk.do(lambda: self._draw(SPANS[span]))
        values = {"page": "plots", "charts": drawn, "spans": list(SPANS), "span": span}
        return HTMLResponse(self.desk.write(request, "plots.html", **values))

    def _draw(self, span: float) -> list[Chart]:
        history, end = self.desk.past.read().history, self.desk.queue.clock.now()
        began = history.began()
        if not began:
            return []
        start = max(end - span, began - 1) if span else began - 1
        end = max(end, start + 60)
        flow = history.flow(start, end, STEPS)
        times, ends = [step.start for step in flow] + [end], [step.end for step in flow]

        def series(name: str, values: Sequence[float | None]) -> charts.Series:
            return charts.Series(name=name, values=tuple(values))

        done = [series("done", [one.done for one in flow]), series("failed", [one.failed for one in flow])]
        waited = series("waiting", [one.waited for one in flow])
        running = series("running", [one.running for one in flow])
        drawn = [
            charts.bars("Finished", times, done, _count),
            charts.line("Waiting before the first claim", ends, waited, say_duration),
            charts.line("Being worked on", ends, running, _count, filled=True),
        ]
        spent = self._spent(ends)
        if any(spent):
            drawn.append(charts.line("Cost so far", ends, series("cost", spent), _dollars, filled=True))
        return [*drawn, charts.gantt("Who worked on what", history.recent(start), start, end, self.desk.paper.link)]

    def _spent(self, times: Sequence[float]) -> list[float | None]:
        """What had been spent by each of these times."""
        costs = sorted((at, usd) for at, _, usd in self._costs())
        sums = [0.0, *accumulate(usd for _, usd in costs)]
        return [sums[bisect_right(costs, time, key=lambda cost: cost[0])] for time in times]

    # -- for programs ------------------------------------------------------------------------------

    async def metrics(self, _: Request) -> PlainTextResponse:
        """Numbers for Prometheus."""
        desk, now = self.desk, self.desk.queue.clock.now()

        def look(board: Board) -> tuple[dict[str, int], float]:
            oldest = min((slip.created for slip in board.column("ready") if slip.created), default=now)
            return dict(board.counts), now - oldest

        counts, oldest = await desk.hub.look(look)
        tally, found, common = await desk.do(
            lambda: (desk.past.read().tally, self._standing(), metrics_of(desk.queue, counts))
        )
        workers: dict[str, float] = dict.fromkeys(("up", "waiting", "paused", "stalled", "down"), 0)
        for row in found.rows:
            workers[row.state] = workers.get(row.state, 0) + 1
        facts: dict[str, float] = {}
        for key in sorted(tally):  # what others wrote there need not be a word that anybody can be shown
            name = key if is_word(key) else "other"
            facts[name] = facts.get(name, 0.0) + tally[key]
        ours = [
            *common,
            metric("oldest_ready_seconds", "How long the oldest ready task has waited.", "gauge", max(oldest, 0.0)),
            metric("events_total", "Lines of the changelog.", "counter", facts, "action"),
            metric("workers", "The crew by state.", "gauge", workers, "state"),
            metric("listeners", "Browsers that look at this board.", "gauge", desk.hub.listeners),
        ]
        return PlainTextResponse(text_of(ours), headers={"content-type": TYPE})


def _count(value: float) -> str:
    return f"{value:g}"


def _dollars(value: float) -> str:
    return f"${value:.2f}" if value >= 0.1 or not value else f"${value:.3f}"
