"""What tests cost: processor time of each, with all processes below its own. A plugin of pytest, `--costs`.

Processor time says what a test does; how long it takes says how busy the machine is. `--keep-costs=FILE` has the figure
of every test, by its name, and so has `--junitxml=FILE`.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter

import pytest
from world import children

SLOWEST = 10
TICK = os.sysconf("SC_CLK_TCK")


def spent() -> float:
    """Seconds of this process and all below it, those that have ended included."""
    return sum(os.times()[:4]) + sum(_spent_by(pid) for pid in children())


def _spent_by(pid: int) -> float:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        ticks = sum(map(int, file.read().rpartition(")")[2].split()[11:15]))
        return ticks / TICK + sum(_spent_by(one) for one in children(pid))
    return 0.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", action="store_true", help="processor time of the ten dearest tests and each directory")
    parser.addoption("--keep-costs", metavar="FILE", help="the same of every test, as JSON in this file")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("costs") or config.getoption("keep_costs"):
        config.pluginmanager.register(Costs(), "costs-of-tests")


class Costs:
    """Measures in the process of the test, adds up in the one that reports."""

    def __init__(self) -> None:
        self._began = 0.0
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self):
        self._began = spent()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]):
        report = yield
        if call.when == "teardown":
            report.user_properties.append(("cpu", round(spent() - self._began, 2)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self._seconds[report.nodeid] = dict(report.user_properties)["cpu"]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if config.option.keep_costs:
            with open(config.option.keep_costs, "w", encoding="utf-8") as file:
                json.dump(self._seconds, file)
        rooms: Counter[str] = Counter()
        for name, seconds in self._seconds.items():
            rooms[name.partition("::")[0].rpartition("/")[0]] += seconds
        terminalreporter.section("processor time in seconds")
        for name, seconds in Counter(self._seconds).most_common(SLOWEST):
            terminalreporter.write_line(f"{seconds:8.1f}  {name}")
        said = ", ".join(f"{name} {seconds:.0f}" for name, seconds in rooms.most_common() if seconds >= 1)
        terminalreporter.write_line(f"{sum(rooms.values()):8.0f}  in all: {said}")
