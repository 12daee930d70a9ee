"""The board in a real browser: Debian's Chromium, driven by playwright; the one without windows where it is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from boards import AllServed, Served, fill, open_queue
from ground import git
from rotation import LONG, part
from waits import PATIENCE, until

from taskpit.board import COLUMNS, Board
from taskpit.model import Ask, Done, Failed, State, Task

api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: make .venv/dev")

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: scripts/system-packages browser")
#: No calls home, no sandbox where we are root.
FLAGS = [
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", *(["--no-sandbox"] if os.geteuid() == 0 else [])),
]
HOSTILE = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>"


@pytest.fixture(scope="module")
def chrome():
    api.expect.set_options(timeout=1000 * PATIENCE)
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=1000 * PATIENCE)
        yield browser
        browser.close()


def opened(page):
    """The page is there: the door has let it in, or says why not."""
    page.wait_for_function(
        """() => document.readyState === 'complete'
           && (document.body.dataset.csrf || document.querySelector('#told:not([hidden])'))""",
        polling=50,  # the default asks at every frame, and has every frame painted
    )


@pytest.fixture
def visit(chrome):
    """Opens pages, each in a browser profile of its own; what they complain about fails the test."""
    contexts, complaints = [], []

    def go(link, **options):
        options = {"viewport": {"width": 1440, "height": 900}, **options}
        context = chrome.new_context(**options)
        context.set_default_timeout(1000 * PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(link)
        opened(page)
        page.evaluate("window.loadedOnce = true")
        return page

    @contextmanager
    def leaving():
        """Pages are closed before their server is: one that loses it complains."""
        try:
            yield
        finally:
            while contexts:
                contexts.pop().close()

    go.complaints, go.leaving = complaints, leaving
    with leaving():
        yield go
    assert complaints == []


def pit(root, *words):
    ran = subprocess.run(
        [sys.executable, "-m", "taskpit", "-C", root, *words], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def card(page, task_id, column):
    return page.locator(f'ol[data-column="{column}"] #t-{task_id}')


def shown(page):
    js = "(c) => [...document.querySelectorAll(`ol[data-column='${c}'] .card`)].map((one) => one.dataset.id)"
    return {column: page.evaluate(js, column) for column in COLUMNS}


def truth(root):
    queue = open_queue(root)
    board = Board(queue).load()
    queue.close()
    return {column: [slip.id for slip in board.column(column)] for column in COLUMNS}


def until_shown(page, wanted):
    """The page shows this by and by."""
    js = """(wanted) => Object.entries(wanted).every(([column, ids]) => ids.join() ===
        [...document.querySelectorAll(`ol[data-column='${column}'] .card`)].map((one) => one.dataset.id).join())"""
    try:
        page.wait_for_function(js, arg=wanted, polling=50)
    except api.TimeoutError:
        assert shown(page) == wanted


def test_what_happens_elsewhere_moves_the_cards(queue, root, board, visit):
    page = visit(board.link)
    api.expect(page.get_by_text("No tasks yet")).to_be_visible()
    assert pit(root, "add", "Paint the fence", "--attempts", "1") == "0001"
    card(page, "0001", "ready").wait_for()
    api.expect(page.get_by_text("No tasks yet")).to_be_hidden()
    pit(root, "claim", "1", "--as", "snake")
    card(page, "0001", "running").wait_for()
    pit(root, "done", "1", "--as", "snake")
    card(page, "0001", "done").wait_for()
    pit(root, "add", "Paint the sky", "--attempts", "1")
    pit(root, "claim", "2", "--as", "snake")
    pit(root, "fail", "2", "--as", "snake", "--error", "out of reach")
    api.expect(card(page, "0002", "failed")).to_contain_text("out of reach")
    counts = dict(zip(COLUMNS, page.locator("#board [data-count]").all_inner_texts(), strict=True))
    assert {column: count for column, count in counts.items() if count != "0"} == {"done": "1", "failed": "1"}
    assert page.evaluate("window.loadedOnce")
    until_shown(page, truth(root))


def test_a_file_is_dropped(queue, board, visit):
    page = visit(board.link)
    page.evaluate(
        """() => {
            const data = new DataTransfer();
            data.items.add(new File(["# Build a boat\\n\\nwith oars\\n"], "boat.md", { type: "text/markdown" }));
            data.items.add(new File(["no"], "boat.exe"));
            document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
        }"""
    )
    api.expect(card(page, "0001", "ready")).to_contain_text("Build a boat")
    api.expect(page.locator(".toast.good")).to_contain_text("boat.md: 0001 is added")
    api.expect(page.locator(".toast.bad")).to_contain_text("boat.exe: can't tell what it is")
    assert queue.card("0001").task.by == "ada@home"
    assert [line for line in visit.complaints if "400" not in line] == []
    visit.complaints.clear()


def test_a_card_is_dragged_where_it_may_go_and_back_again(queue, root, board, visit):
    fill(queue, 3)
    queue.claim("snake", ids=["0003"])
    page = visit(board.link)
    column = {name: page.locator(f"#c-{name}") for name in COLUMNS}
    card(page, "0001", "ready").drag_to(column["running"])  # nobody's work begins like that
    card(page, "0003", "running").drag_to(column["ready"])  # nor ends
    api.expect(column["needs_you"]).to_be_hidden()
    page.mouse.move(*centre(card(page, "0001", "ready")))
    page.mouse.down()
    page.mouse.move(600, 600, steps=4)
    api.expect(column["needs_you"]).to_be_visible()  # empty columns that take it are there meanwhile
    page.mouse.move(*centre(column["needs_you"]), steps=4)
    page.mouse.up()
    reason = page.get_by_role("textbox", name="Why is it blocked?")
    reason.fill("after the holidays")
    reason.press("Enter")
    api.expect(card(page, "0001", "needs_you")).to_contain_text("after the holidays")
    for _ in range(2):
        card(page, "0001", "needs_you").drag_to(column["ready"])
        card(page, "0001", "ready").wait_for()
        page.keyboard.press("z")
        card(page, "0001", "needs_you").wait_for()
    card(page, "0001", "needs_you").drag_to(column["ready"])
    card(page, "0001", "ready").wait_for()
    page.mouse.move(*centre(card(page, "0002", "ready")))
    page.mouse.down()
    page.mouse.move(600, 600, steps=4)
    page.mouse.move(*centre(column["cancelled"]), steps=4)
    page.mouse.up()
    card(page, "0002", "cancelled").wait_for()
    page.locator(".toast", has_text="0002 is cancelled").get_by_role("button", name="Undo").click()
    card(page, "0002", "ready").wait_for()
    assert {card.task.id: card.state for card in queue.store.page().cards} == {
        "0001": State.READY,
        "0002": State.READY,
        "0003": State.CLAIMED,
    }


def centre(locator):
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + min(box["height"] / 2, 40)


def test_a_card_is_answered(queue, board, visit):
    fill(queue, 1)
    queue.finish(queue.claim("snake", ids=["0001"])[0], Ask(question="blue or green?"))
    page = visit(board.link)
    asking = card(page, "0001", "needs_you")
    api.expect(asking).to_contain_text("blue or green?")
    answer = asking.get_by_label("Answer 0001")
    answer.fill("half an ans")
    queue.edit("0001", "ann", lambda task: task.replace(priority=4))  # the card changes under their hands
    queue.put([Task(id="0002", title="a sign that it was told")])
    card(page, "0002", "ready").wait_for()
    assert answer.input_value() == "half an ans"
    answer.fill("green")
    answer.press("Enter")
    card(page, "0001", "ready").wait_for()
    assert "green" in queue.card("0001").task.body


def test_two_browsers_stay_in_step(queue, root, board, visit):
    fill(queue, 30)
    pages = [visit(board.link), visit(board.link)]
    for number, task_id in enumerate(f"{n:04d}" for n in range(1, 31)):
        if number % 5 == 4:
            queue.block(task_id, "ann", "later")
            continue
        claim = queue.claim("snake", ids=[task_id])[0]
        if number % 5 < 3:
            queue.finish(claim, Done() if number % 5 else Failed(error="no", final=True))
    for page in pages:
        until_shown(page, truth(root))
    first = pages[0]
    first.goto(first.url + "task/0005")
    first.get_by_role("button", name="Unblock").click()
    api.expect(first.locator(".chip.ready")).to_be_visible()  # the page of the task follows too
    card(pages[1], "0005", "ready").wait_for()


def test_the_server_dies_and_comes_back(queue, root, visit):
    fill(queue, 2)
    with Served(root) as board:
        page = visit(board.link)
        card(page, "0001", "ready").wait_for()
        port = board.port
    api.expect(page.locator("#live")).to_have_text("not connected")
    queue.put([Task(id="0003", title="put while it was away")])
    queue.finish(queue.claim("snake", ids=["0001"])[0], Done())
    with Served(root, port=port), visit.leaving():
        card(page, "0003", "ready").wait_for()
        card(page, "0001", "done").wait_for()
        api.expect(page.locator("#live")).to_be_hidden()
        queue.put([Task(id="0004", title="and it goes on")])
        card(page, "0004", "ready").wait_for()
        assert page.evaluate("window.loadedOnce")
    visit.complaints.clear()  # a browser says that nobody was there


def test_thousands_of_tasks(root, queue, visit):
    store, many = queue.store, 5000 if LONG else 1500
    store.put([Task(id=f"{n:04d}", title=f"task number {n}", by="ann", created=1e9 + n) for n in range(1, many + 1)])
    with Served(root) as board, visit.leaving():
        page = visit(board.link)
        api.expect(page.locator("#board [data-count=ready]")).to_have_text(str(many))
        api.expect(page.locator("#notice")).to_be_hidden()
        assert page.locator(".card").count() == 50
        page.locator('ol[data-column="ready"]').hover()
        for _ in range(3):
            before = page.locator(".card").count()
            page.mouse.wheel(0, 20_000)
            page.wait_for_function("(n) => document.querySelectorAll('.card').length > n", arg=before)
        assert shown(page)["ready"] == [f"{n:04d}" for n in range(1, page.locator(".card").count() + 1)]
        page.get_by_role("searchbox").fill("number 1321")
        until_shown(page, {"ready": ["1321"]})
        page.get_by_role("searchbox").fill("")
        page.wait_for_function("() => document.querySelectorAll('.card').length === 50")
        for claim in store.claim(_want(60)):
            queue.finish(claim, Done())
        until_shown(page, {"running": [], "done": truth(root)["done"][:60]})
        page.wait_for_function("() => document.querySelectorAll('ol[data-column=ready] .card').length >= 40")
        ready = shown(page)["ready"]
        assert ready == [f"{n:04d}" for n in range(61, 61 + len(ready))]
        assert page.locator("[data-count=ready]").all_inner_texts() == 2 * [str(many - 60)]  # one is for phones
        queue.put(
            [Task(id="6000", title="far below what is shown", created=2e9), Task(id="6001", title="top", priority=9)]
        )
        card(page, "6001", "ready").wait_for()
        assert card(page, "6000", "ready").count() == 0
        assert shown(page)["ready"][:2] == ["6001", "0061"]


def test_what_moves_while_more_is_fetched_is_there_once(queue, root, board, visit):
    """More of a column was read, then a card of it moved, then it arrived: forced by holding the answer back."""
    fill(queue, 120)
    page = visit(board.link)
    held, released = [], []

    def hold(route):
        if released:
            route.continue_()
        else:
            held.append((route, route.fetch()))

    page.route("**/column/ready*", hold)
    page.locator('ol[data-column="ready"] .more').scroll_into_view_if_needed()
    until(lambda: held or page.wait_for_timeout(20))
    queue.finish(queue.claim("snake", ids=["0060"])[0], Done())
    queue.put([Task(id="0500", title="came meanwhile", created=queue.card("0070").task.created - 0.5)])
    card(page, "0060", "done").wait_for()
    released.append(True)
    for route, answer in held:
        route.fulfill(response=answer)
    page.wait_for_function("() => document.querySelectorAll('ol[data-column=ready] .card').length > 90")
    wanted = truth(root)
    shown_now = shown(page)
    assert shown_now["done"] == ["0060"]
    assert shown_now["ready"] == wanted["ready"][: len(shown_now["ready"])]
    assert page.locator("#t-0060").count() == 1


def _want(count):
    from taskpit.model import Want

    return Want(worker="snake", lease=900, count=count)


def test_with_the_keyboard_alone(queue, board, visit):
    fill(queue, 3)
    queue.finish(queue.claim("snake", ids=["0003"])[0], Done())
    page = visit(board.link)
    keys = page.keyboard

    def focused():
        return page.evaluate("document.activeElement.closest('.card')?.dataset.id")

    for number, column in (("0001", "ready"), ("0002", "ready"), ("0003", "done")):
        card(page, number, column).wait_for()
    keys.press("ArrowDown")
    assert focused() == "0001"
    keys.press("j")
    assert focused() == "0002"
    keys.press("ArrowRight")  # past columns with nothing in them
    assert focused() == "0003"
    keys.press("ArrowLeft")
    keys.press("Enter")
    page.wait_for_url(re.compile(r"/task/0001$"))
    opened(page)
    keys.press("Escape")
    page.wait_for_url(re.compile(r"/$"))
    opened(page)
    keys.press("?")
    api.expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    keys.press("Escape")
    keys.press("n")
    api.expect(page.get_by_label("Title")).to_be_focused()
    keys.type("typed, not clicked")
    keys.press("Enter")
    card(page, "0004", "ready").wait_for()
    api.expect(page.get_by_role("dialog")).to_have_count(0)
    api.expect(page.locator("#said")).to_contain_text("0004 Ready")  # a screen reader hears of it
    keys.press("/")
    keys.type("typed")
    until_shown(page, {"ready": ["0004"]})
    keys.press("Escape")
    until_shown(page, {"ready": ["0001", "0002", "0004"]})
    keys.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    keys.press("p")
    page.wait_for_url(re.compile(r"/plots$"))
    opened(page)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


NAMELESS = """() => [...document.querySelectorAll('a, button, input:not([type=hidden]), textarea, [role=img]')]
    .filter((one) => !(one.textContent.trim() || one.labels?.length || one.title
        || one.getAttribute('aria-label') || one.getAttribute('aria-labelledby')))
    .map((one) => one.outerHTML)"""


def test_on_a_phone_and_by_ear(queue, board, visit):
    fill(queue, 3)
    queue.finish(queue.claim("snake", ids=["0001"])[0], Ask(question="well?"))
    queue.claim("snake", ids=["0002"])
    size = {"width": 390, "height": 844}
    page = visit(board.link, viewport=size, color_scheme="dark", reduced_motion="reduce")
    for path in ("", "task/0001", "task/0002", "agents", "plots"):
        page.goto(f"http://{board.host}/{path}")
        opened(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        assert page.evaluate(NAMELESS) == [], path
        assert page.evaluate("document.querySelectorAll('h1').length") == 1, path
    page.goto(f"http://{board.host}/")
    page.get_by_role("navigation", name="Columns").get_by_role("link", name="Running").click()
    api.expect(card(page, "0002", "running")).to_be_in_viewport()


def test_what_a_task_says_does_nothing(queue, board, visit):
    queue.put(
        [
            Task(
                id="0001",
                title=HOSTILE,
                body=f"{HOSTILE}\n\n[x](javascript:window.pwned=1) ![p](http://127.0.0.1:9/p.png)",
            )
        ]
    )
    asked = []
    page = visit(board.link)
    page.on("request", lambda request: asked.append(request.url))
    queue.put([Task(id="0002", title=HOSTILE)])
    api.expect(card(page, "0002", "ready")).to_contain_text(HOSTILE)
    page.goto(f"http://{board.host}/task/0001")
    api.expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    assert page.evaluate("window.pwned") is None
    assert asked
    assert all(url.startswith(f"http://{board.host}/") for url in asked)
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel task").click()
    api.expect(page.locator(".chip.cancelled").first).to_be_visible()
    assert queue.card("0001").state is State.FAILED


class Eavesdropper:
    """Another server on this machine, as anybody may start one: it remembers all it is sent."""

    def __init__(self, board):
        outer = self
        self.heard = []
        script = f"""
            const targets = ["", "task/0001", "events", "columns"].map((path) => "http://{board.host}/" + path);
            const ask = (mode) => (target) =>
              fetch(target, {{ credentials: "include", mode }}).then((answer) => answer.text(), String);
            Promise.all([...targets.map(ask("cors")), ...targets.map(ask("no-cors"))])
              .then((all) => {{ document.title = "tried"; window.got = all; }});
        """

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.heard.append(dict(self.headers))
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(f"<title>trap</title><script>{script}</script>".encode())

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.link = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def test_another_local_server_receives_nothing_it_can_use(queue, board, visit):
    """Browsers send cookies to every port of a host: it gets one, and with that alone sees and changes nothing."""
    fill(queue, 2)
    page = visit(board.link)
    api.expect(card(page, "0001", "ready")).to_be_visible()
    assert page.url == f"http://{board.host}/"
    trap = Eavesdropper(board)
    try:
        page.goto(trap.link)
        page.wait_for_function("document.title === 'tried'")
        got = page.evaluate("window.got")
    finally:
        trap.close()
    visit.complaints.clear()  # the browser's own words about what it has refused the trap
    cookies = {one["Cookie"] for one in trap.heard if one.get("Cookie")}
    assert any(f"taskpit-{board.port}=" in one for one in cookies), (
        "the trap must get the cookie, or this shows nothing"
    )
    assert "task number" not in str(got)
    for cookie in cookies:
        for value in (cookie, cookie.partition("=")[2]):
            for path in ("/", "/task/0001", "/columns", "/events", "/metrics", f"/?word={value}", f"/?token={value}"):
                for accept in ("text/html", "*/*"):
                    answer = board.get(path, authorization="", cookie=cookie, accept=accept)
                    assert "task number" not in answer.text
                    assert "data-csrf" not in answer.text
                    assert answer.status in ((200, 401) if accept == "text/html" else (401,))
            assert board.get("/", authorization=f"Bearer {value}").status == 401
            stolen = {"authorization": "", "cookie": cookie, "x_csrf_token": value}
            assert board.post("/tasks", {"title": "pwned", "check": "id", "csrf": value}, **stolen).status == 403
    assert queue.store.counts()[State.READY] == 2
    page.goto(f"http://{board.host}/")  # and the board is still there for its own pages, without the link
    api.expect(card(page, "0001", "ready")).to_be_visible()
    page.reload()
    api.expect(card(page, "0001", "ready")).to_be_visible()
    assert board.link.rpartition("=")[2] not in str(page.context.cookies())


def test_without_the_link_the_door_says_so(board, visit):
    page = visit(f"http://{board.host}/")
    api.expect(page.locator("#told")).to_contain_text("Use the whole address that was printed")
    assert [line for line in visit.complaints if "401" not in line] == []
    visit.complaints.clear()


def test_from_a_page_of_another_site_the_link_works(queue, board, visit, tmp_path):
    """As `pit web --open` does it: a file that leads to the link. Strict cookies are not sent then; the door copes."""
    fill(queue, 1)
    file = tmp_path / "board.html"
    file.write_text(f'<meta http-equiv="refresh" content="0; url={board.link}">')
    page = visit(f"file://{file}")
    api.expect(card(page, "0001", "ready")).to_be_visible()
    assert [line for line in visit.complaints if "401" not in line] == []
    visit.complaints.clear()


AXE = os.path.join(sys.prefix, "axe.min.js")
#: What axe finds on a page, as rule and element.
LOOK = """(chosen) => axe.run(document, {runOnly: chosen})
    .then((found) => found.violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 120)}`))"""
RULES = ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"]
#: By night the page is the same but for its colours.
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}


def lets_everybody_in(page):
    """Axe finds nothing on it, by day and by night."""
    opened(page)
    if page.evaluate("typeof axe") == "undefined":
        with open(AXE, encoding="utf-8") as file:
            page.evaluate(file.read())
    for scheme, rules in (("light", RULES), ("dark", COLOURS)):
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate(LOOK, rules) and page.evaluate(LOOK, rules)  # not what stood there while it was drawn
        assert found == [], f"{page.url}, {scheme}"


@pytest.mark.skipif(not os.path.exists(AXE), reason="axe-core is missing: sh scripts/axe .venv")
def test_nobody_is_kept_out_of_a_review(ground, visit):
    ground.commit("a.py", "import os\n\n\ndef one():\n    # old\n    return 'x' + str(1)\n")
    task = ground.put("Say hello", check="true")
    ground.work(task, a_dot_py="import os\n\n\nclass A:\n    # new\n    b = 'x', 12, None\n", b_dot_toml="[a]\nb = 1\n")
    with Served(ground.root) as board, visit.leaving():
        page = visit(board.link, bypass_csp=True)
        looked_at = part(("board", "task", "sides"), 3)
        if "board" in looked_at:
            lets_everybody_in(page)
        page.goto(f"http://{board.host}/task/{task}")
        api.expect(page.locator('.file[data-path="a.py"] tr').nth(4)).to_be_visible()
        if "task" in looked_at:
            lets_everybody_in(page)
        rows = page.locator('.file[data-path="a.py"] tr').count()
        page.get_by_role("button", name="Side by side").click()
        if "sides" in looked_at:
            lets_everybody_in(page)
        sides = page.locator('.file[data-path="a.py"] tr')
        api.expect(sides.nth(4).locator("td")).to_have_text(["4", "def one():", "4", "class A:"])
        assert sides.count() == rows - 3  # three lines stand beside those they became
        whole, new = (page.locator(one).first.bounding_box() for one in (".diff.sides", ".diff.sides td.code.add"))
        assert new["x"] > whole["x"] + whole["width"] / 2  # what came in stands on the right
        assert new["width"] > whole["width"] / 3
        page.reload()
        api.expect(page.locator(".diff.sides")).to_have_count(2)  # it is remembered
        page.get_by_role("button", name="Side by side").click()
        api.expect(page.locator('.file[data-path="a.py"] tr')).to_have_count(rows)


@pytest.mark.skipif(not os.path.exists(AXE), reason="axe-core is missing: sh scripts/axe .venv")
def test_nobody_is_kept_out(queue, board, visit):
    """B9: contrast under 4.5; measured by axe on seven pages, by day and by night."""
    queue.put([Task(id=f"000{number}", title=f"task {number}", tags=("web",), priority=3) for number in range(1, 8)])
    (claim,) = queue.claim("w", ids=["0001"])
    queue.finish(claim, Ask(question="blue or green?"))
    (claim,) = queue.claim("w", ids=["0002"])
    queue.finish(claim, Failed(error="step 1\nerror: no such module", final=True))
    (claim,) = queue.claim("w", ids=["0003"])
    queue.finish(claim, Done(output="fine", seconds=3.0))
    queue.cancel("0004", "ada", "no")
    queue.claim("w", ids=["0005"])
    page = visit(board.link, bypass_csp=True)
    lets_everybody_in(page)
    for path in part(("task/0001", "task/0002", "agents", "report", "plots", "search?q=task"), 3):
        page.goto(f"http://{board.host}/{path}")
        lets_everybody_in(page)


def test_a_change_is_sent_back_with_a_comment_on_a_line_and_then_approved(ground, visit):
    """The comment is in the agent's next prompt; what was typed survives what happens meanwhile."""
    task = ground.put("Say hello", check="test -s a.py")
    ground.work(task, a_dot_py="def one():\n    return '<img src=x onerror=window.pwned=1>'\n")
    with Served(ground.root) as board, visit.leaving():
        page = visit(board.link)
        card(page, task, "needs_you").get_by_role("link", name=f"Review {task}").click()
        page.wait_for_url("**#review")
        opened(page)
        api.expect(page.locator(".diff .code").nth(1)).to_have_text("    return '<img src=x onerror=window.pwned=1>'")
        text = page.get_by_label("What should be different")
        text.fill("not like this")
        page.get_by_role("button", name="Side by side").click()
        api.expect(page.locator(".diff.sides tr").nth(1).locator("td")).to_have_text(["", "", "1", "def one():"])
        page.locator(".diff").get_by_role("button", name="2", exact=True).click()
        page.keyboard.type("use the helper")
        assert text.input_value() == "not like this\na.py:2: use the helper"
        page.locator("h1").click()
        ground.queue.edit(task, "ann", lambda one: one.replace(tags=("told",)))  # the page is read again
        api.expect(page.locator(".aside .tag")).to_have_text("told")
        assert text.input_value() == "not like this\na.py:2: use the helper"
        page.get_by_role("button", name="Send back").click()
        api.expect(page.locator(".review")).to_have_count(0)

        ground.pool("cp \"$TASKPIT_RUN_DIR/prompt.md\" prompt; printf 'def one(): pass\\n' > a.py")
        api.expect(page.locator(".review")).to_be_visible()
        prompt = page.locator('.file[data-path="prompt"]')
        api.expect(prompt).to_contain_text("not like this")
        api.expect(prompt).to_contain_text("- `a.py:2`: use the helper")
        page.get_by_role("button", name="Approve").click()
        api.expect(page.locator(".task-head .chip")).to_contain_text("Done")
        api.expect(page.locator(".review")).to_contain_text("def one(): pass")
        assert not page.evaluate("window.pwned")
    until(lambda: ground.log() == ["Say hello", "begin"])
    assert git(ground.top, "show", "main:a.py") == "def one(): pass"


def test_a_filter_is_in_the_address_and_survives_back(queue, board, visit):
    """B9: it was lost on Back; tags did not filter; every tab was called pit, whatever it asked."""
    queue.put([Task(id="0001", title="one", tags=("web",)), Task(id="0002", title="web two")])
    page = visit(board.link)
    assert not page.title().startswith("(")
    page.locator("a.tag", has_text="web").click()
    api.expect(card(page, "0002", "ready")).to_have_count(0)
    assert page.url.endswith("/?q=%23web")
    page.locator("#t-0001 a.title").click()
    page.go_back()
    opened(page)
    assert page.locator("#filter").input_value() == "#web"
    api.expect(card(page, "0001", "ready")).to_have_count(1)
    api.expect(card(page, "0002", "ready")).to_have_count(0)
    queue.block("0002", "ada", "no")
    page.wait_for_function("() => document.title.startsWith('(1) ')")


def test_a_task_is_edited_and_a_complaint_stands_above_the_form(queue, board, visit):
    """B9: nothing but the priority could be edited; an error was shown behind the dialog, the text was gone."""
    queue.put([Task(id="0001", title="one", body="old")])
    page = visit(board.link)
    page.goto("/".join(page.url.split("/")[:3]) + "/task/0001")
    opened(page)
    page.keyboard.press("e")
    page.locator("#edit [name=title]").fill("two")
    page.locator("#edit [name=tags]").fill("web, new")
    page.locator("#edit [name=needs]").fill("0099")
    page.locator("#edit button.main").click()
    toast = page.locator("#toasts .toast.bad")
    toast.wait_for()
    assert page.locator("#toasts").evaluate("one => one.matches(':popover-open')")  # in the top layer, opened last
    assert page.locator("#edit [name=title]").input_value() == "two"
    page.locator("#edit [name=needs]").fill("")
    page.locator("#edit button.main").click()
    api.expect(page.locator("h1")).to_have_text("two")
    task = queue.card("0001").task
    assert (task.title, task.tags, task.body.strip()) == ("two", ("web", "new"), "old")
    assert [line for line in visit.complaints if "404" not in line] == []
    visit.complaints.clear()  # the browser's own line about the refusal


def test_five_queues_on_one_page_live(five, visit):
    """What any of them does shows; an answer goes to its own queue; a card leads there, and Esc back."""
    with AllServed() as board, visit.leaving():
        page = visit(board.link)
        expect = api.expect
        expect(page.locator(".queue")).to_have_count(6)
        for name in ("api", "docs", "web"):
            fill(five[name], 1)
        five["api"].claim("builder-1")
        expect(page.locator(".queue").first).to_contain_text("builder-1")
        for name in ("docs", "web"):
            five[name].finish(five[name].claim("snake")[0], Ask(question=f"what about the {name}?"))
        expect(page.locator(".question")).to_have_count(2)
        expect(page).to_have_title("(2) All queues")
        docs = page.locator(".queue", has_text="what about the docs?")
        words = docs.get_by_label("Answer 0001")
        words.fill("half an ans")
        fill(five["shop"], 1)
        with page.expect_response(lambda answer: "/queues?" in answer.url and answer.status == 200):
            pass  # the page is told of the new task, and what is being written stays
        expect(words).to_have_value("half an ans")
        words.fill("burn them")
        words.press("Enter")
        expect(page.locator(".toast.good")).to_contain_text("0001")
        expect(page.locator(".question")).to_have_count(1)
        assert "burn them" in five["docs"].card("0001").task.body
        assert page.evaluate("window.loadedOnce")
        page.locator(".queue", has_text="what about the web?").locator("a.title").click()
        opened(page)
        expect(page.locator(".brand")).to_contain_text("web")
        page.get_by_label("Answer", exact=True).fill("yes")
        page.keyboard.press("Enter")
        expect(page.locator(".toast.good")).to_be_visible()
        for wanted in (r"/q/\w+/$", r"\d/$"):
            page.locator("body").click(position={"x": 700, "y": 800})
            page.keyboard.press("Escape")
            page.wait_for_url(re.compile(wanted))
            opened(page)
        expect(page.locator(".question")).to_have_count(0)
        page.locator("h2 a", has_text="shop").click()
        opened(page)
        card(page, "0001", "ready").wait_for()
        five["shop"].claim("builder-2")
        card(page, "0001", "running").wait_for()
