# ruff: noqa: INP001 - a script, not a part of a package
"""What the board in the browser costs and how fast it is: figures, no verdicts.

    .venv/bin/python bench/board.py                          10,000 tasks, 50 changes a second for 30 seconds
    .venv/bin/python bench/board.py --tasks 1000 --seconds 5

Runs `pit web` as people do, a real Chromium on it, and somebody else who changes the queue meanwhile. Needs the
development environment and chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from playwright.sync_api import sync_playwright

from taskpit.board import COLUMNS, Board
from taskpit.model import Done, Failed, Task
from taskpit.queue import Queue
from taskpit.store.opening import init

if TYPE_CHECKING:
    from collections.abc import Callable

TICK = os.sysconf("SC_CLK_TCK")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def main() -> int:
    """Measure and print; 0 if every change was seen in the end."""
    args = _arguments()
    with tempfile.TemporaryDirectory(prefix="board-") as folder:
        root = f"{folder}/pit"
        init(root, "pit")
        with open(f"{root}/.taskpit/config.toml", "a", encoding="utf-8") as file:
            file.write('\ndurability = "process"\n')
        queue = Queue.open(root)
        queue.store.put([Task(id=f"{n:05d}", title=f"task number {n}", by="bench") for n in range(1, args.tasks + 1)])
        figures, seen = _measure(args, root, queue)
        queue.close()
    print(json.dumps(figures, indent=1))
    return 0 if seen else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=50.0, help="changes a second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--browsers", type=int, default=1)
    return parser.parse_args()


def _measure(args: argparse.Namespace, root: str, queue: Queue) -> tuple[dict[str, Any], bool]:
    command = [sys.executable, "-m", "taskpit", "-C", root, "--json", "web", "--port", "7499"]
    figures: dict[str, Any] = {"tasks": args.tasks, "browsers": args.browsers}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        link = json.loads(server.stdout.readline())["data"]["url"]  # type: ignore[union-attr]
        with sync_playwright() as playwright:
            program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
            figures["first_read_seconds"] = _read(link)
            figures["nobody_looks_cpu_percent"] = _cpu(server.pid, lambda: time.sleep(args.seconds / 3))
            pages = [_open(browser, link, figures) for _ in range(args.browsers)]
            page = pages[0]
            figures["idle_cpu_percent"] = _cpu(server.pid, lambda: page.wait_for_timeout(args.seconds * 1000))
            figures["cli_to_card_ms"] = _latencies(page, root)
            changer = subprocess.Popen([sys.executable, __file__, "--change", root, str(args.rate), str(args.seconds)])
            figures["busy_cpu_percent"] = _cpu(server.pid, lambda: page.wait_for_timeout(args.seconds * 1000))
            changer.wait()
            seen = all(_agrees(one, queue) for one in pages)
            figures["every_change_seen"] = seen
            browser.close()
    finally:
        server.terminate()
        server.wait()
    return figures, seen


def _read(link: str) -> float:
    """How long the first answer takes that needs the whole board."""
    began = time.perf_counter()
    with urlopen(link.replace("/?", "/metrics?"), timeout=600) as answer:  # noqa: S310 - our own server
        answer.read()
    return round(time.perf_counter() - began, 2)


def _open(browser: Any, link: str, figures: dict[str, Any]) -> Any:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    received = []
    page.on("response", lambda answer: received.append(int(answer.headers.get("content-length", 0))))
    began = time.perf_counter()
    page.goto(link)
    page.locator(".card").first.wait_for()
    figures["first_visit_ms"] = round((time.perf_counter() - began) * 1000)
    paint = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    page.wait_for_function(paint)
    figures["first_contentful_paint_ms"] = round(page.evaluate(paint))
    figures["first_visit_bytes"] = sum(received)
    page.reload()
    page.wait_for_function(paint)
    figures["next_paint_ms"] = round(page.evaluate(paint))
    return page


def _latencies(page: Any, root: str, count: int = 20) -> dict[str, int]:
    """From the moment `pit add` has printed an id to the card being there."""
    waits = []
    for number in range(count):
        words = ["add", f"quick {number}", "--priority", "1000"]
        task_id = subprocess.check_output([sys.executable, "-m", "taskpit", "-C", root, *words], text=True).strip()
        began = time.perf_counter()
        page.wait_for_selector(f"#t-{task_id}", state="attached")
        waits.append((time.perf_counter() - began) * 1000)
    return {"median": round(statistics.median(waits)), "worst": round(max(waits))}


def _cpu(pid: int, wait: Callable[[], object]) -> float:
    """What share of a core the process used meanwhile, in percent."""
    began, used = time.perf_counter(), _ticks(pid)
    wait()
    return round((_ticks(pid) - used) / TICK / (time.perf_counter() - began) * 100, 2)


def _ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _agrees(page: Any, queue: Queue) -> bool:
    """Whether the page comes to show what there is, as far as it shows it."""
    board = Board(queue).load()
    wanted = {name: [slip.id for slip in board.column(name)] for name in COLUMNS}
    js = """(wanted) => Object.entries(wanted).every(([column, ids]) => {
        const shown = [...document.querySelectorAll(`ol[data-column='${column}'] .card`)].map((one) => one.dataset.id);
        const count = document.querySelector(`[data-count='${column}']`).textContent;
        return shown.join() === ids.slice(0, shown.length).join() && shown.length >= Math.min(ids.length, 20)
            && Number(count) === ids.length;
    })"""
    try:
        page.wait_for_function(js, arg=wanted, timeout=10_000)
    except Exception:  # told as a figure, and what it is about
        look = """() => [...document.querySelectorAll('ol[data-column]')].map((one) => [one.dataset.column,
            document.querySelector(`[data-count='${one.dataset.column}']`).textContent,
            [...one.querySelectorAll('.card')].map((card) => card.dataset.id)])"""
        for column, count, shown in page.evaluate(look):
            ids = wanted[column]
            odd = [(at, one, ids[at : at + 1]) for at, one in enumerate(shown) if [one] != ids[at : at + 1]]
            print(column, "shows", len(shown), "of", count, "where there are", len(ids), odd[:3], file=sys.stderr)
        return False
    return True


def _change(root: str, rate: float, seconds: float) -> None:
    """Somebody else at work: tasks come, are claimed, done and failed."""
    queue = Queue.open(root)
    end, due, number = time.monotonic() + seconds, time.monotonic(), 0
    while time.monotonic() < end:
        number += 1
        if number % 3 == 1:
            queue.put([Task(id="", title=f"new {number}", by="bench")])
        elif number % 3 == 2:
            claim = queue.claim("snake")[0]
        else:
            queue.finish(claim, Failed(error="no", final=True) if number % 30 == 0 else Done())
        due += 1 / rate
        time.sleep(max(due - time.monotonic(), 0))
    queue.close()
    print(f"{number / seconds:.1f} changes a second", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--change"]:
        _change(sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
    else:
        sys.exit(main())
