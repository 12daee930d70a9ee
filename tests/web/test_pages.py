"""What the pages show: every task once and in its order, all about one task, the past, numbers for programs."""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from boards import Served, fill, make_queue
from waits import until

from taskpit import held_directories
from taskpit.clock import Clock
from taskpit.crew.file import write_template
from taskpit.model import Ask, Done, Evidence, Failed, Split, Task
from taskpit.queue import Queue
from taskpit.run.budget import Ledger
from taskpit.run.run_directory import RunPlaces
from taskpit.store.memory import MemoryStore
from taskpit.web import charts
from taskpit.web import shared as hubs
from taskpit.web.crew import CrewPages
from taskpit.web.html import NAMES

HTML = "text/html"


def ids_in(text):
    return re.findall(r'<li class="card[^>]*data-id="([^"]+)"', text)


def column(text, name):
    return ids_in(re.search(rf'<ol data-column="{name}">(.*?)</ol>', text, re.DOTALL)[1])


def lively(queue):
    """One of each."""
    queue.put(
        [
            Task(id="0001", title="done one", check="make test", tags=("web",)),
            Task(id="0002", title="failed one"),
            Task(id="0003", title="asking one"),
            Task(id="0004", title="claimed one"),
            Task(id="0005", title="held one", needs=("0006",)),
            Task(id="0006", title="ready one", priority=3, body="## Do\n\nthe *thing* with `care`"),
        ]
    )
    evidence = Evidence(command="make test", exit_code=0, seconds=2, tail="12 passed")
    done = Done(output="All **fine**", evidence=evidence, cost={"usd": 0.5}, seconds=4)
    queue.finish(queue.claim("snake-1", ids=["0001"])[0], done)
    queue.finish(queue.claim("snake-2", ids=["0002"])[0], Failed(error="no such module", final=True))
    queue.finish(queue.claim("snake-3", ids=["0003"])[0], Ask(question="blue or green?"))
    queue.claim("snake-4", ids=["0004"])


def test_each_task_is_in_its_column(queue, board):
    lively(queue)
    text = board.get("/").text

    assert column(text, "ready") == ["0006"]
    assert column(text, "needs_you") == ["0003"]
    assert column(text, "waiting") == ["0005"]
    assert column(text, "running") == ["0004"]
    assert column(text, "done") == ["0001"]
    assert column(text, "failed") == ["0002"]
    assert re.findall(r'data-count="ready" data-n="1">(\d+)<', text) == ["1", "1"]
    assert "blue or green?" in text
    assert 'hx-post="/task/0003/answer"' in text
    assert "no such module" in text


def test_a_result_says_who_did_it_and_what_it_cost(queue, board):
    queue.put([Task(id="0001", title="a")])
    cost = {"agent": "claude", "model": "opus<5>", "usd": 0.5, "turns": 3, "refused": 2, "session": "s-1"}
    queue.finish(queue.claim("snake-1", ids=["0001"])[0], Done(cost=cost))
    told = "claude opus&lt;5&gt;: $0.50, 3 turns, 2 tools refused, session s-1"
    assert told in board.get("/task/0001").text


def test_columns_are_called_the_same_whatever_the_layout(tmp_path):
    make_queue(str(tmp_path / "box"), "mailbox").close()
    with Served(tmp_path / "box") as board:
        assert re.findall(r'<h2 id="h-\w+"><i class="dot"></i>([\w ]+) <b', board.get("/").text) == [
            "Needs you",
            "Ready",
            "Waiting",
            "Running",
            "Done",
            "Failed",
            "Cancelled",
        ]


def test_an_empty_board_says_what_to_do(board):
    text = board.get("/").text
    assert "pit add" in text
    assert "pit work" in text
    assert "agents.toml" in board.get("/agents").text
    assert "Nothing has happened yet" in board.get("/plots").text


def test_a_long_column_comes_in_pieces_each_task_once(queue, board):
    made = fill(queue, 120)
    first = board.get("/").text
    shown = column(first, "ready")
    assert len(shown) == 50
    while more := re.search(r'<li class="more"[^>]*hx-get="([^"]+)"', first):
        first = board.get(html.unescape(more[1])).text
        assert len(ids_in(first)) <= 50
        shown += ids_in(first)
    assert shown == made


@pytest.mark.parametrize("after", ["", "no", "{}", "[[]]", '["x"]', "[" * 1500, "9" * 3000, "[null]"])
def test_a_place_that_is_none_is_refused(shared, after):
    assert shared.get(f"/column/ready?after={quote(after)}").status == 400


def test_the_filter_shows_what_has_all_the_words(queue, board):
    queue.put([Task(id="0001", title="Paint the Fence", tags=("garden",)), Task(id="0002", title="paint the car")])
    assert ids_in(board.get("/columns?q=PAINT+garden").text) == ["0001"]
    assert ids_in(board.get("/columns?q=paint").text) == ["0001", "0002"]
    assert "No matching tasks" in board.get("/columns?q=moon").text


def test_a_task_page_tells_everything(queue, board):
    lively(queue)
    done = board.get("/task/0001").text
    for told in (
        "done one",
        "make test",
        "12 passed",
        "exited 0",
        "<strong>fine</strong>",
        "snake-1",
        "$0.50",
        "added",
    ):
        assert told in done, told
    ready = board.get("/task/6").text  # as the command line does, a number will do
    assert "<em>thing</em>" in ready
    assert 'action="/task/0006/block"' in ready
    assert "0005 · waiting" in ready  # what waits for it is drawn
    assert "blue or green?" in board.get("/task/0003").text
    assert board.get("/task/0099").status == 404


def test_attempts_and_notes_are_shown(queue, board):
    queue.put([Task(id="0001", title="one", max_attempts=3)])
    red = Evidence(command="make test", exit_code=2, tail="1 failed <b>badly</b>")
    queue.finish(queue.claim("snake", ids=["0001"])[0], Failed(error="the check is red", kind="check", evidence=red))
    queue.note("0001", "look at *this*", "ann")
    text = board.get("/task/0001").text
    assert "1 failed &lt;b&gt;badly&lt;/b&gt;" in text
    assert "exited 2" in text
    assert "look at <em>this</em>" in text
    assert "retried" in text


def test_a_failure_is_shown_once(queue, board):
    """The last attempt is the result: it stood there again below, with the same output."""
    queue.put([Task(id="0001", title="one")])
    red = Evidence(command="make test", exit_code=2, tail="41 passed")
    (claim,) = queue.claim("snake", ids=["0001"])
    queue.finish(claim, Failed(error="the check is red", final=True, evidence=red))
    assert board.get("/task/0001").text.count("41 passed") == 1


def test_parts_of_a_task_are_listed_and_drawn(queue, board):
    queue.put([Task(id="0001", title="big one", big=True)])
    children = (Task(id="", title="first part"), Task(id="", title="second part"))
    queue.finish(queue.claim("planner", ids=["0001"])[0], Split(children=children))
    text = board.get("/task/0001").text
    assert "<h2>Parts</h2>" in text
    assert text.count("first part") >= 2
    assert '<svg class="graph"' in text


def test_a_log_is_told_as_it_grows(queue, board):
    queue.put([Task(id="0001", title="one")])
    claim = queue.claim("snake", ids=["0001"])[0]
    place = RunPlaces(queue.store).of(claim)
    place.make()
    with open(place.log, "wb", buffering=0) as log, board.listen("/task/0001/events") as ear:
        log.write("first line\nhalf a letter: \xc3".encode("latin-1"))
        fresh = ear.until(lambda name, _: name == "log")
        assert fresh == {"fresh": True, "text": "first line\nhalf a letter: "}
        log.write(b"\xa9!\x1b[31mred\n")
        assert ear.until(lambda name, _: name == "log") == {"fresh": False, "text": "é!red\n"}
        queue.finish(claim, Done(output="x"))
        assert ear.until(lambda name, _: name == "changed") == {}


def test_what_an_agent_says_goes_before_what_it_prints(queue, board):
    queue.put([Task(id="0001", title="one")])
    place = RunPlaces(queue.store).of(queue.claim("snake", ids=["0001"])[0])
    place.make()
    with open(place.events, "w", encoding="utf-8") as events:
        events.write('{"type": "begin"}\n')
    with board.listen("/task/0001/events") as ear:
        assert ear.until(lambda name, _: name == "log")["text"] == "begin\n"
        with open(place.log, "w", encoding="utf-8") as log:
            log.write("I will look at the tests first\n")
        told = ear.until(lambda name, _: name == "log")
        assert told == {"fresh": True, "text": "I will look at the tests first\n"}


def test_the_crew_of_a_queue_that_is_no_folder_is_where_its_papers_are(tmp_path):
    class Elsewhere(MemoryStore):
        def info(self):
            return super().info().replace(papers=str(tmp_path))

    (tmp_path / ".taskpit").mkdir()
    Ledger(str(tmp_path)).enter("0001", "snake-1~abc", {"usd": 1.25}, 3.0, 0.0)
    desk = SimpleNamespace(queue=Queue(Elsewhere(Clock())))
    assert CrewPages(desk)._standing().usd == {"snake-1": 1.25}


def test_the_crew_and_everybody_else(queue, root, board):
    write_template("snakepit", root)
    Ledger(root).enter("0001", "snake-1~abc", {"usd": 1.25}, 3.0, queue.clock.now())
    fill(queue, 1)
    queue.claim("stranger", ids=["0001"])
    text = board.get("/agents").text
    assert re.search(r'<th scope="row">snake-1 ', text)
    assert "$1.25" in text
    assert re.search(r'<th scope="row">stranger</th>.*?/task/0001', text, re.DOTALL)
    assert board.get("/agent/snake-1").status == 404  # it has printed nothing yet
    os.makedirs(f"{root}/.taskpit/crew", exist_ok=True)
    with open(f"{root}/.taskpit/crew/snake-1.log", "w", encoding="utf-8") as log:
        log.write("I am here\n")
    assert '<a href="/agent/snake-1"' in board.get("/agents/part").text
    assert board.get("/agent/snake-1").status == 200
    with board.listen("/agent/snake-1/events") as ear:
        assert ear.until(lambda name, _: name == "log")["text"] == "I am here\n"


def test_plots_are_drawings_with_words_and_tables(queue, root, board):
    lively(queue)
    Ledger(root).enter("0001", "snake-1", {"usd": 0.5}, 3.0, queue.clock.now() - 2)
    text = board.get("/plots?span=1h").text
    drawings = re.findall(r'<svg class="chart".*?</svg>', text, re.DOTALL)
    titles = [re.search(r"<title[^>]*>(.*?)</title>", one)[1] for one in drawings]
    assert titles == [
        "Finished",
        "Waiting before the first claim",
        "Being worked on",
        "Cost so far",
        "Who worked on what",
    ]
    assert all(re.search(r"<desc[^>]*>[^<]+</desc>", one) for one in drawings)
    assert text.count("As a table") == 5
    assert "4 claims by 4 workers" in drawings[4]
    assert 'href="/task/0004"' in drawings[4]
    assert "done: at most 1" in drawings[0]


def test_metrics_are_what_prometheus_reads(queue, board):
    parser = pytest.importorskip("prometheus_client.parser", reason="the official client is not installed")
    lively(queue)
    with open(f"{queue.store.info().where}/.taskpit/changelog.log", "a", encoding="ascii") as file:
        line = '{{"timestamp":"2026-11-16T19:52:38Z","worker":"me","worker_type":"agent","action":"{}"}}\n'
        file.writelines(line.format(word) for word in ("\\ud800", 'x\\"} 1'))  # another program's words
    answer = board.get("/metrics")
    assert answer.text.count('action="other"} 2') == 1
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    sample = re.compile(r'taskpit_[a-z_]+(?:\{[a-z]+="[^"\\\n]*"\})? -?\d+(\.\d+)?(e[+-]\d+)?')
    lines = answer.text.splitlines()
    assert all(line.startswith(("# HELP ", "# TYPE ")) or sample.fullmatch(line) for line in lines)
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    read = [one for family in parser.text_string_to_metric_families(answer.text) for one in family.samples]
    assert len(read) == len(values)
    wanted = {"ready": 1, "needs_you": 1, "waiting": 1, "running": 1, "done": 1, "failed": 1, "cancelled": 0}
    assert {state: float(values[f'taskpit_tasks{{state="{state}"}}']) for state in wanted} == wanted
    assert float(values['taskpit_events_total{action="added_task"}']) == 6
    page = (Path(__file__).parents[2] / "docs" / "web.md").read_text(encoding="utf-8")
    promised = set(re.findall(r"`(taskpit_\w+)(?:\{\w+\})?`", page))
    assert len(promised) >= 6
    assert promised == {name.partition("{")[0] for name in values}
    assert float(values["taskpit_paused"]) == 0
    queue.store.pause("lunch", 0, "ann")
    assert re.search(r"^taskpit_paused 1(\.0)?$", board.get("/metrics").text, re.MULTILINE)
    assert "lunch" in board.get("/").text


def test_healthz_answers_anybody_and_says_little(board, root, monkeypatch):
    """Also while no browser looks."""
    monkeypatch.setattr(hubs, "SECOND", 0.0)
    monkeypatch.setattr(held_directories, "COMPARED", -1.0)

    def asked():
        answer = board.get("/healthz", authorization="")
        return answer.status, answer.text

    assert asked() == (200, "ok\n")
    os.rename(root, f"{root}-away")
    until(lambda: asked() == (503, "the queue cannot be read\n"))
    os.rename(f"{root}-away", root)
    until(lambda: asked() == (200, "ok\n"))


def test_everything_is_searched(queue, board):
    queue.put([Task(id="0001", title="one", body="the hidden treasure"), Task(id="0002", title="two")])
    text = board.get("/search?q=Treasure").text
    assert 'href="/task/0001"' in text
    assert 'href="/task/0002"' not in text
    assert "No matching tasks" in board.get("/search?q=nowhere").text


@pytest.mark.parametrize(
    ("top", "steps", "ticks"),
    [
        (0, (), [0, 1]),
        (1, (), [0, 0.5, 1]),
        (1, (1, 2), [0, 1]),
        (5, (1, 2), [0, 2, 4, 6]),
        (7, (), [0, 5, 10]),
        (30, (), [0, 10, 20, 30]),
        (0.53, (), [0, 0.2, 0.4, 0.6]),
        (569, charts.CLOCK, [0, 300, 600]),
        (10**9, charts.CLOCK, [0, 5 * 10**8, 10**9]),
    ],
)
def test_axes_have_round_numbers(top, steps, ticks):
    assert charts.nice(top, steps) == ticks


# -- what is sent along ----------------------------------------------------------------------------


def test_what_is_not_ours_is_what_it_says_it_is():
    folder = files("taskpit.web").joinpath("static/vendor")
    rows = [line.split("\t") for line in folder.joinpath("VENDOR").read_text().splitlines() if line[0] != "#"]
    assert {row[0] for row in rows} == {one.name for one in folder.iterdir() if one.name.endswith(".js")}
    for name, package, licence, digest in rows:
        assert hashlib.sha256(folder.joinpath(name).read_bytes()).hexdigest() == digest
        assert re.fullmatch(r"\S+ \d+\.\d+\.\d+", package)
        assert folder.joinpath(re.search(r"\((.*)\)", licence)[1]).is_file()


def test_files_for_browsers_are_kept_by_their_word(shared):
    page = shared.get("/").text
    links = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert {link.partition("?")[0].removeprefix("/static/") for link in links} == set(NAMES) - {
        "door.js"
    }  # of the page before the session
    for link in links:
        answer = shared.get(link)
        assert answer.status == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert shared.get("/static/app.js?v=old").headers["cache-control"] == "no-store"


def test_no_page_has_script_or_style_inside(queue, board):
    """The content security policy would refuse it, and pages that need it would be broken."""
    lively(queue)
    for path in (
        "/",
        "/task/0001",
        "/task/0006",
        "/agents",
        "/report",
        "/plots?span=all",
        "/search?q=one",
        "/task/0099",
    ):
        answer = board.get(path, accept=HTML)
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=|javascript:", answer.text), path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_errors_come_as_whoever_asks_can_use_them(shared):
    assert shared.get("/task/0999").json["error"]["code"] == "not_found"
    assert "Back to the board" in shared.get("/task/0999", accept=HTML).text
    assert 'class="toast bad"' in shared.post("/task/0999/note", {"text": "x"}, hx_request="true").text
    assert shared.get("/nowhere").status == 404
    assert json.loads(shared.ask("PUT", "/").body)["ok"] is False


def test_what_a_night_brought(board):
    page = board.get("/report?hours=72")
    assert page.status == 200
    assert "Last 3 days" in page.text
    assert board.get("/report?hours=x").status == 400
    assert board.get("/report?hours=99999").status == 400
