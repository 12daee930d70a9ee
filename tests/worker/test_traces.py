"""Traces: what is made of the changelog, what a collector here receives, and that nothing of it is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from collectors import Collector
from workshop import Pit, pit_work

from taskpit.cli.main import main
from taskpit.model import Ask, Done, Failed, Task
from taskpit.run.traces import trace_of, traceparent, trails


@pytest.fixture
def pit(tmp_path):
    made = Pit(tmp_path / "pit")
    yield made
    made.close()


@pytest.fixture
def queue(pit):
    return pit.queue


def trace(queue, task_id):
    return trace_of(queue.store.info().where, queue.card(task_id), trails(queue)[task_id])


def tree(spans):
    names = {span.span_id: span.name for span in spans}
    return [(names.get(span.parent_id, ""), span.name, bool(span.error)) for span in spans]


def test_a_task_that_failed_asked_and_was_done(queue):
    queue.put([Task(id="0001", title="one")])
    queue.finish(queue.claim("snake")[0], Failed(error="no", kind="task"))
    queue.edit("0001", "ann", lambda task: task.replace(not_before=0.0))
    queue.finish(queue.claim("snake")[0], Ask(question="blue?"))
    queue.answer("0001", "yes", "ann")
    queue.finish(queue.claim("snake")[0], Done(seconds=1.5))
    spans = trace(queue, "0001")
    assert tree(spans) == [
        ("", "task", False),
        *(row for red in (True, False, False) for row in (("task", "claim", red), ("claim", "run", False))),
    ]
    assert len({span.trace_id for span in spans}) == 1
    assert len({span.span_id for span in spans}) == len(spans)
    assert all(spans[0].start <= span.start <= span.end <= spans[0].end for span in spans)
    assert [span.attributes["taskpit.ended"] for span in spans if span.name == "claim"] == ["retried", "asked", "done"]


def test_a_run_is_handed_the_ids_of_its_own_span(pit, queue, tmp_path):
    """What an agent finds in its environment is the run of its claim in the trace that is made afterwards."""
    queue.put([Task(id="0001", title="one")])
    handed = tmp_path / "handed"
    pit_work(pit, "--until", "empty", "--", "sh", "-c", f"echo $TRACEPARENT > '{handed}'")
    version, trace_id, span_id, flags = handed.read_text().strip().split("-")
    run = next(span for span in trace(queue, "0001") if span.name == "run")
    assert (version, trace_id, span_id, flags) == ("00", run.trace_id, run.span_id, "01")
    assert traceparent("a", "b", "c") != traceparent("a", "b", "d")


@pytest.fixture
def collector(monkeypatch):
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is missing: pip install 'taskpit[otel]'")
    made = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.address)
    yield made
    made.shutdown()
    made.server_close()


def test_a_collector_receives_whole_traces_and_numbers(queue, collector, pit):
    queue.put([Task(id="0001", title="one"), Task(id="0002", title="two")])
    queue.finish(queue.claim("snake", ids=["0001"])[0], Done(cost={"usd": 0.5}))
    queue.finish(queue.claim("snake", ids=["0002"])[0], Failed(error="no", final=True))
    assert main(["-C", pit.root, "trace", "--since", "1h"]) == 0
    sent = {(span.trace_id.hex(), span.span_id.hex()): span for span in collector.spans}
    wanted = [span for task_id in ("0001", "0002") for span in trace(queue, task_id)]
    assert set(sent) == {(span.trace_id, span.span_id) for span in wanted}
    for span in wanted:
        told = sent[span.trace_id, span.span_id]
        assert (told.name, told.parent_span_id.hex()) == (span.name, span.parent_id)
        assert told.start_time_unix_nano == int(span.start * 1e9)
        assert (told.status.code == 2) is bool(span.error)
    assert main(["-C", pit.root, "trace", "-f", "--for", "0.01s"]) == 0
    numbers = {one.name: one for one in collector.metrics}
    assert set(numbers) == {"taskpit_tasks", "taskpit_paused", "taskpit_cost_usd_total"}
    points = {p.attributes[0].value.string_value: p.as_double for p in numbers["taskpit_tasks"].gauge.data_points}
    assert (points["done"], points["failed"]) == (1.0, 1.0)


def test_who_takes_no_trace_is_told_of(queue, collector, pit, capsys):
    queue.put([Task(id="0001", title="one")])
    collector.status = 400
    assert main(["-C", pit.root, "trace", "1"]) != 0
    assert "did not take the trace" in capsys.readouterr().err


def test_without_a_collector_it_is_shown_and_following_is_refused(queue, pit, monkeypatch, capsys):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    queue.put([Task(id="0001", title="one")])
    assert main(["-C", pit.root, "trace", "1"]) == 0
    assert capsys.readouterr().out.startswith("task  ")
    assert main(["-C", pit.root, "trace", "-f"]) != 0
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("add", "x"), ("status",), ("trace", "1"), ("work", "--until", "empty", "--", "true")]
)
def test_nothing_of_it_is_loaded_where_nothing_is_sent(queue, pit, words):
    queue.put([Task(id="0001", title="one")])
    program = "import sys; from taskpit.cli.main import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    env = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    ran = subprocess.run(
        [sys.executable, "-c", program, "-C", pit.root, *words], capture_output=True, text=True, env=env, check=True
    )
    assert not [name for name in ran.stderr.split() if name.startswith(("opentelemetry", "prometheus", "requests"))]
