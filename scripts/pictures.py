"""Makes the pictures of the README and the docs from the real program, on a queue made for it.

    make pictures                          all of them, into docs/pictures
    python scripts/pictures.py board-80    only those whose name begins so
    python scripts/pictures.py --png DIR   also as PNG into DIR, for looking (needs chromium)

A picture is one function with `@shot("name")`: it gets the demo queue and returns the file's text or bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from taskpit import layouts
from taskpit.config import Config
from taskpit.model import Ask, Claim, Done, Evidence, Failed, Retry, Task
from taskpit.queue import Queue
from taskpit.run.budget import Ledger
from taskpit.run.run_directory import RunPlaces
from taskpit.store.files import FileStore
from taskpit.store.opening import init
from taskpit.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: So many seconds pass while the demo queue is made.
AFTERNOON = 5325
OUT = Path(__file__).parents[1] / "docs" / "pictures"
#: Name of the file and how it is made.
SHOTS: dict[str, Callable[[Queue], str | bytes]] = {}


def shot(name: str) -> Callable[[Callable[[Queue], str | bytes]], Callable[[Queue], str | bytes]]:
    """This function makes the picture of this name."""

    def keep(make: Callable[[Queue], str | bytes]) -> Callable[[Queue], str | bytes]:
        SHOTS[name] = make
        return make

    return keep


# -- the demo queue --------------------------------------------------------------------------------

#: Title, tags, priority and check of what there is to do.
WORK = [
    ("Fix the race in the session cache", "api urgent", 9, "pytest tests/session -q"),
    ("Rotate the signing keys without logging people out", "auth", 5, "make test-auth"),
    ("Return 429 with Retry-After when a tenant is over its limit", "api", 3, "pytest tests/limits -q"),
    ("Stream exports instead of building them in memory", "exports", 2, "pytest tests/exports -q"),
    ("Upgrade to PostgreSQL 18", "db", 2, "make test-db"),
    ("Dark mode for the invoice pages", "web", 1, "npm test -- invoices"),
    ("Write the migration guide", "docs", 0, "test -s docs/migrating.md"),
    ("Remove the feature flag `new_checkout`", "web", 0, "! grep -r new_checkout src"),
    ("Retry webhooks with a growing pause", "api", 0, "pytest tests/webhooks -q"),
    ("Show the build's version in the footer", "web", 0, "npm test -- footer"),
    ("Type the billing module", "types", 0, "mypy src/billing"),
    ("Split the settings page into sections", "web", 0, "npm test -- settings"),
    ("Log slow queries with their plan", "db", 0, "pytest tests/db -q"),
    ("Describe the event format", "docs", 0, "test -s docs/events.md"),
    ("Make the search find umlauts", "search", 0, "pytest tests/search -q"),
    ("Compress uploads on the client", "web", 0, "npm test -- upload"),
    ("Drop support for Python 3.9", "chores", 0, "make test"),
    ("Pin the actions in the workflows", "chores", 0, "make lint"),
    ("Cache the price list for a minute", "api", 0, "pytest tests/prices -q"),
    ("Delete expired carts at night", "db", 0, "pytest tests/carts -q"),
    ("Say which field is wrong when a form is refused", "web", 0, "npm test -- forms"),
    ("Measure how long a checkout takes", "metrics", 0, "pytest tests/metrics -q"),
]
BODY = """\
## What is wrong

Two requests of one session may read the cache **before** either has written it.
The second one then overwrites what the first has stored.

1. Take the lock of the session before reading (`SessionCache.load`).
2. Let `load` and `store` share it, so that nobody comes between them.
3. Keep the hot path free of it: a hit needs no lock.

```python
with self._locks[session_id]:
    value = self._read(session_id) or self._make(session_id)
```

The failing test is `tests/session/test_race.py`.
"""
PRINTED = [
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "I'll look at how the cache is read."}]}},
    {"type": "tool_use", "name": "Read", "input": {"file_path": "src/session/cache.py"}},
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "`load` reads without the lock."}]}},
    {"type": "tool_use", "name": "Edit", "input": {"file_path": "src/session/cache.py"}},
    {"type": "tool_use", "name": "Bash", "input": {"command": "pytest tests/session -q"}},
    {"type": "tool_result", "content": "..............................  30 passed in 2.41s"},
    {
        "type": "assistant",
        "message": {"content": [{"type": "text", "text": "Green. Now the hit path without a lock."}]},
    },
]


def demo_queue(root: str) -> Queue:
    """An afternoon in the life of a queue: something in every column, a question, a failure, agents at work."""
    init(root, "pit")
    clock = FakeClock(time.time() - AFTERNOON)
    config = Config(durability="process")
    queue = Queue(FileStore(root, layouts.get("pit"), config, clock), config, clock)
    for number, (title, tags, priority, check) in enumerate(WORK, 1):
        body = BODY if number == 1 else f"{title}. Keep the change small, and add a test that fails without it."
        queue.put(
            [Task(id="", title=title, body=body, tags=tuple(tags.split()), priority=priority, check=check, by="ann")]
        )
        clock.advance(55 if number % 3 else 60)
    queue.put([Task(id="", title="Announce the release", needs=("0005", "0007"), tags=("docs",), by="ann")])
    for name in ("snake-1", "snake-2", "snake-3"):
        queue.store.join(name, 900.0)
    for task_id, minutes, usd in (("0017", 9, 0.31), ("0018", 4, 0.12), ("0010", 13, 0.44), ("0013", 21, 0.9)):
        claim = _take(queue, task_id, "snake-1")
        clock.advance(minutes * 60)
        proof = Evidence(command=claim.task.check, exit_code=0, seconds=4.2, tail="all is green")
        output = "Done as described; the test fails without it."
        cost = {"usd": usd, "turns": 14}
        queue.finish(claim, Done(output=output, evidence=proof, seconds=minutes * 60, cost=cost))
        Ledger(root).enter(task_id, claim.worker, cost, minutes * 60, clock.now())
    _fail(queue, clock)
    queue.finish(_take(queue, "0005", "snake-2"), Ask(question="Is a downtime of five minutes on Sunday all right?"))
    queue.block("0008", "ann@home", "marketing wants it until Friday")
    clock.advance(300)
    claims = []
    for task_id, worker, minutes in (("0001", "snake-1", 8), ("0002", "snake-2", 3), ("0003", "snake-3", 1)):
        claim = _take(queue, task_id, worker)
        if task_id == "0001":
            _print(queue, claim)
        clock.advance(minutes * 60)
        claims.append(claim)
    queue.note("0001", "The same happened in the cart, see 0020.", "ann@home")
    clock.set_wall(time.time())
    for claim in claims:
        queue.renew(claim)
    return queue


def _take(queue: Queue, task_id: str, worker: str) -> Claim:
    return queue.claim(worker, ids=[task_id])[0]


def _fail(queue: Queue, clock: FakeClock) -> None:
    red = Evidence(command="npm test -- upload", exit_code=1, seconds=12.0, tail="upload.test.js: 1 failed, 41 passed")
    queue.finish(_take(queue, "0016", "snake-3"), Retry(reason="the model is overloaded", kind="quota"))
    clock.advance(240)
    error = "the check is red (exit code 1): npm test -- upload"
    queue.finish(_take(queue, "0016", "snake-3"), Failed(error=error, evidence=red, final=True))


def _print(queue: Queue, claim: Claim) -> None:
    place = RunPlaces(queue.store).of(claim)
    place.make()
    Path(place.events).write_text("".join(json.dumps(event) + "\n" for event in PRINTED), encoding="utf-8")


# -- the terminal board ----------------------------------------------------------------------------


def board(queue: Queue, size: tuple[int, int], *pressed: str, light: bool = False) -> str:
    """The terminal board as an SVG, after these keys."""
    from taskpit.tui.app import PitBoard
    from taskpit.tui.queue_access import QueueAccess

    async def look() -> str:
        app = PitBoard(QueueAccess(queue, "ann@home"), pace=0, light=light)
        async with app.run_test(size=size) as pilot:
            app.desk.where = "~/shop/pit"
            for key in ("", *pressed):
                if key:
                    await pilot.press(key)
                await app.workers.wait_for_complete()
                await pilot.pause()
                app._say_bar()  # noqa: SLF001 - with the name of the place as a person would have it
            await pilot.pause()
            return app.export_screenshot(title="pit board")

    return _plain_svg(asyncio.run(look()))


def _plain_svg(text: str) -> str:
    """Without fonts from elsewhere, and with the same names each time."""
    text = re.sub(r"@font-face \{.*?\}", "", text, flags=re.DOTALL)
    return re.sub(r"terminal-\d+", "terminal", text)


@shot("board-80x24-dark.svg")
def _board_small(queue: Queue) -> str:
    return board(queue, (80, 24), "4")


@shot("board-80x24-light.svg")
def _board_small_light(queue: Queue) -> str:
    return board(queue, (80, 24), "2", light=True)


@shot("board-80x24-task.svg")
def _board_small_task(queue: Queue) -> str:
    return board(queue, (80, 24), "4", "enter")


@shot("board-120x36-dark.svg")
def _board_middle(queue: Queue) -> str:
    return board(queue, (120, 36), "4")


@shot("board-120x36-light.svg")
def _board_middle_light(queue: Queue) -> str:
    return board(queue, (120, 36), "2", light=True)


@shot("board-200x50-dark.svg")
def _board_large(queue: Queue) -> str:
    return board(queue, (200, 50), "4", "l")


@shot("board-200x50-light.svg")
def _board_large_light(queue: Queue) -> str:
    return board(queue, (200, 50), "1", light=True)


@shot("board-add.svg")
def _board_add(queue: Queue) -> str:
    return board(queue, (120, 36), "n", *"Greet", "space", *"them")


@shot("board-help.svg")
def _board_help(queue: Queue) -> str:
    return board(queue, (120, 36), "question_mark")


# -- the web board ---------------------------------------------------------------------------------


@contextlib.contextmanager
def served(queue: Queue) -> Iterator[str]:
    """The address of a web board on this queue, with its token."""
    command = [sys.executable, "-m", "taskpit", "-C", queue.store.info().where, "web"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            line = server.stdout.readline() if server.stdout else ""
            yield re.findall(r"http://\S+", line)[0]
        finally:
            server.terminate()


def browser_program() -> str:
    """Chromium, with or without windows."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium") or "chromium"


def page(queue: Queue, path: str, size: tuple[int, int], *, dark: bool = False) -> bytes:
    """A page of the web board, as a browser of this size shows it."""
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"]
    with served(queue) as address, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=browser_program(), args=flags)
        shown = {"width": size[0], "height": size[1]}
        tab = browser.new_page(viewport=shown, color_scheme="dark" if dark else "light")
        tab.goto(address)
        if path:
            tab.goto(address.partition("?")[0].rstrip("/") + path)
        tab.wait_for_load_state("load")
        tab.wait_for_selector("main")
        picture = tab.screenshot()
        browser.close()
    return picture


@shot("web-board.png")
def _web_board(queue: Queue) -> bytes:
    return page(queue, "", (1280, 800))


@shot("web-board-dark.png")
def _web_board_dark(queue: Queue) -> bytes:
    return page(queue, "", (1280, 800), dark=True)


@shot("web-phone.png")
def _web_phone(queue: Queue) -> bytes:
    return page(queue, "", (390, 844))


@shot("web-task.png")
def _web_task(queue: Queue) -> bytes:
    return page(queue, "/task/0001", (1280, 1000))


@shot("web-plots.png")
def _web_plots(queue: Queue) -> bytes:
    return page(queue, "/plots", (1280, 960))


# -- a recording of the main job -------------------------------------------------------------------

#: Columns and rows of the recording, how much slower it plays, and how long its end stays, in seconds.
COLUMNS, ROWS, SLOWER, REST = 104, 26, 1.5, 9.0
#: How long a command takes to be typed, and how long its answer is read, in seconds.
TYPED, READ = 0.9, 0.6
#: The colour of a line by its first word after the time, or by its beginning.
COLOURS = {
    "$": "#f0f6fc",
    "done": "#7ee787",
    "claimed": "#79c0ff",
    "again": "#e3b341",
    "conflict": "#e3b341",
    "retry": "#e3b341",
    "Landed": "#7ee787",
}
SESSION = (
    "pit add 'Greet people by name' --check 'grep -q name greet.py'",
    "pit add 'Greet in French' --check 'grep -q Bonjour greet.py'",
    "pit add 'Explain it in the README' --check 'grep -q greet README.md'",
    "pit work -n 2 --agent claude --land merge --until empty",
    "git log --oneline",
    "pit report",
)
#: Stands in for Claude Code: it changes one file for each task, and resolves a conflict when it finds one.
STAND_IN = """#!/bin/sh
cat > /dev/null
sleep 1.$TASKPIT_TASK
if grep -q '<<<<' greet.py; then
  printf 'def greet(name):\n    return f"Hello, {name}. Bonjour, {name}."\n' > greet.py
else case $TASKPIT_TASK in
  0001) printf 'def greet(name):\n    return f"Hello, {name}."\n' > greet.py ;;
  0002) printf 'def greet():\n    return "Hello. Bonjour."\n' > greet.py ;;
  0003) echo 'Call greet() to be greeted.' > README.md ;;
esac; fi
echo '{"type":"system","subtype":"init","session_id":"s"}'
echo '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Write","input":{}}]}}'
echo '{"type":"result","is_error":false,"result":"Done.","session_id":"s","total_cost_usd":0.04,"num_turns":3}'
"""


def _repository(folder: Path) -> dict[str, str]:
    """A repository with a queue, and the environment in which an agent stands in for the real one."""
    programs, shop = folder / "bin", folder / "shop"
    programs.mkdir()
    shop.mkdir()
    (programs / "claude").write_text(STAND_IN, encoding="utf-8")
    (programs / "claude").chmod(0o755)
    (shop / "greet.py").write_text('def greet():\n    return "Hello."\n', encoding="utf-8")
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "HOME": str(folder), "COLUMNS": str(COLUMNS), "PYTHONUNBUFFERED": "1"}
    begin = "git init -q -b main && git add . && git -c user.name=Ann -c user.email=ann@example.com commit -qm Start"
    subprocess.run(["/bin/sh", "-c", f"{begin} && pit init --git ignore"], cwd=shop, env=env, check=True)
    subprocess.run(["git", "config", "user.name", "Ann"], cwd=shop, env=env, check=True)
    subprocess.run(["git", "config", "user.email", "ann@example.com"], cwd=shop, env=env, check=True)
    return env


def _session_lines(folder: Path) -> list[tuple[float, str]]:
    """What a terminal shows of the session, each line with the second in which it appears."""
    env, lines, at = _repository(folder), [], 0.0
    for command in SESSION:
        lines.append((at, f"$ {command}"))
        at += TYPED
        began = time.monotonic()
        run = subprocess.Popen(
            ["/bin/sh", "-c", command], cwd=folder / "shop", env=env, stdout=subprocess.PIPE, text=True
        )
        with run as process:
            lines += ((at + (time.monotonic() - began) * SLOWER, line.rstrip("\n")) for line in process.stdout or ())
        at = lines[-1][0] + READ
    return lines


@shot("landing.svg")
def _landing(_: Queue) -> str:
    with tempfile.TemporaryDirectory(prefix="taskpit-recording-") as folder:
        return recording(_session_lines(Path(folder)), "A recording of two agents whose changes land")


def recording(lines: list[tuple[float, str]], label: str) -> str:
    """An animated SVG that shows each line at its second."""
    high, wide, step = ROWS * 20 + 24, COLUMNS * 8 + 32, 20
    total = lines[-1][0] + REST
    texts, frames = [], {}
    for number, (at, line) in enumerate(lines):
        key = next((word for word in line.split()[:2] if word in COLOURS), "")
        shown = line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…"
        colour = f' fill="{COLOURS[key]}"' if key else ""
        texts.append(f'<text x="16" y="{number * step}"{colour}>{html.escape(shown)}</text>' if shown else "")
        frames[f"{100 * at / total:.2f}"] = (ROWS - number - 1) * step + 20
    last = (ROWS - len(lines)) * step + 20
    keys = "".join(f"{at}%{{transform:translateY({y}px)}}" for at, y in frames.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img" aria-label="{label}">'
        "<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;fill:#c9d1d9}"
        f"#s{{transform:translateY({last}px);animation:s {total:.1f}s steps(1,end) infinite}}"
        f"@keyframes s{{{keys}100%{{transform:translateY({last}px)}}}}"
        "@media (prefers-reduced-motion:reduce){#s{animation:none}}"
        + "".join(f'text[fill="{colour}"]{{fill:{colour}}}' for colour in dict.fromkeys(COLOURS.values()))
        + f'</style><rect width="{wide}" height="{high}" rx="8" fill="#0d1117"/>'
        f'<svg y="8" width="{wide}" height="{high - 16}"><g id="s">{"".join(texts)}</g></svg></svg>\n'
    )


# -- all of them -----------------------------------------------------------------------------------


def as_png(path: Path, out: Path) -> None:
    """The picture as a browser shows it."""
    head = path.read_text(encoding="utf-8")[:4000]
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', head)
    wide, high = (int(float(number)) + 2 for number in size.groups()) if size else (1440, 900)
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    flags += " --disable-component-update --disable-sync --hide-scrollbars"
    with tempfile.TemporaryDirectory() as profile:
        command = [browser_program(), *flags.split(), f"--user-data-dir={profile}", f"--window-size={wide},{high}"]
        command += [f"--screenshot={out / path.with_suffix('.png').name}", path.resolve().as_uri()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)


def main() -> int:
    """Make what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="how the names of the pictures begin (default: all)")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--png", type=Path, help="also as PNG into this folder")
    args = parser.parse_args()
    os.environ.pop("NO_COLOR", None)
    os.environ["COLORTERM"] = "truecolor"
    args.out.mkdir(parents=True, exist_ok=True)
    chosen = {name: make for name, make in SHOTS.items() if not args.names or name.startswith(tuple(args.names))}
    with tempfile.TemporaryDirectory(prefix="taskpit-pictures-") as folder:
        queue = demo_queue(os.path.join(folder, "shop", "pit"))
        for name, make in chosen.items():
            made = make(queue)
            (args.out / name).write_bytes(made.encode() if isinstance(made, str) else made)
            if args.png is not None and name.endswith(".svg"):
                args.png.mkdir(parents=True, exist_ok=True)
                as_png(args.out / name, args.png)
            print(name)
        queue.close()
    return 0 if chosen else 1


if __name__ == "__main__":
    sys.exit(main())
