"""`pit web` as people start it: a link, a server that listens here only, an end that comes at once."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import boxes
import pytest
from boards import TOKEN, Listener, Served, fill
from schemata import judge_command
from waits import PATIENCE, until

from taskpit.errors import Invalid
from taskpit.store.http.listening import listen

PIT = [sys.executable, "-m", "taskpit"]


def pit_env(**more):
    env = {key: value for key, value in os.environ.items() if not key.startswith("TASKPIT_")}
    return {**env, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", **more}


class Started:
    """`pit web` in a process of its own."""

    def __init__(self, root, *words, **env):
        self.process = subprocess.Popen(
            [*PIT, "-C", root, "web", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=pit_env(**env),
        )
        self.line = self.process.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def run(root, *words):
    """`pit web` that is refused: there is nothing to serve, and no process to do it."""
    return boxes.pit("-C", root, "web", *words)


def test_the_link_works_and_ctrl_c_ends_it_at_once(queue, root):
    """Although somebody listens: nobody waits for a browser to go away."""
    fill(queue, 1)
    with socket.create_server(("127.0.0.1", 0)) as spare:
        port = spare.getsockname()[1]
    with Started(root, "--port", str(port)) as web:
        link = re.search(rf"http://127\.0\.0\.1:{port}/\?token=([\w-]{{30,}})", web.line)
        assert link, web.line
        board = type("There", (), {"port": port})()
        listener = Listener(board, "/events", authorization=f"Bearer {link[1]}")
        with listener:
            assert listener.event()[0] == "anew"
            web.process.send_signal(signal.SIGINT)
            with pytest.raises(EOFError):
                listener.event()
            out, err = web.process.communicate(timeout=PATIENCE)
        assert "Traceback" not in out + err
        assert web.process.returncode in (0, 130)


def test_every_start_has_a_token_of_its_own(queue, root):
    tokens = set()
    for _ in range(2):
        with Started(root, "--json", "--port", str(_free())) as web:
            told = json.loads(web.line)
            assert told["ok"] is True
            judge_command(["web"], told["data"])
            tokens.add(told["data"]["token"])
            assert told["data"]["url"].endswith(told["data"]["token"])
    assert len(tokens) == 2


def test_a_token_of_ones_own_lasts(queue, root):
    with Started(root, "--port", str(_free()), TASKPIT_TOKEN=TOKEN) as web:
        assert web.line.strip().endswith(f"/?token={TOKEN}")


def test_a_browser_is_not_given_the_token_on_its_command_line(queue, root, tmp_path):
    """Every user of the machine can read command lines."""
    told = tmp_path / "told"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > "{told}.part"; mv "{told}.part" "{told}"\n')
    browser.chmod(0o755)
    with Started(root, "--port", str(_free()), "--open", TASKPIT_TOKEN=TOKEN, BROWSER=f"'{browser}' %s") as web:
        until(told.exists)
        address = told.read_text().strip()
        assert TOKEN not in address
        page = Path(address.removeprefix("file://"))
        assert web.line.split()[-1] in page.read_text()
        assert stat.S_IMODE(page.stat().st_mode) == 0o600


def _free():
    with socket.create_server(("127.0.0.1", 0)) as spare:
        return spare.getsockname()[1]


def test_it_listens_to_this_machine_only(board):
    assert board.server._socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("words", [["--host", "0.0.0.0"], ["--host", "0.0.0.0", "--expose"], ["--host", "::"]])
def test_others_reach_it_only_if_somebody_said_so_twice(queue, root, words):
    ran = run(root, *words)
    assert ran.code == 6
    assert "--expose" in ran.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--port", "0"], 2, "not a port"),
        (["--port", "http"], 2, "not a port"),
        (["--port", "70000"], 2, "not a port"),
        (["--token-file", "short"], 6, "16 or more"),
        (["--token-file", "missing"], 5, "there is no file"),
        (["--token", TOKEN], 2, "--token"),  # a command line can be read by every user
        (["--host", "no.such.host.invalid", "--expose", "--token-file", "good"], 6, "cannot listen"),
    ],
)
def test_what_cannot_be_served_is_told(queue, root, words, code, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short").write_text("short\n")
    (tmp_path / "good").write_text(f"{TOKEN}\n")
    ran = run(root, *words)
    assert ran.code == code, ran.err
    assert told in ran.err
    assert "Traceback" not in ran.err


def test_a_port_that_is_taken(queue, root):
    with Served(root) as board:
        ran = run(root, "--port", str(board.port))
        assert ran.code == 6
        assert "already" in ran.err
        assert "--port" in ran.err


def test_the_usual_port_gives_way_unless_it_was_asked_for():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        usual = taken.getsockname()[1]
        with listen("127.0.0.1", [usual, 0]) as line:
            assert line.getsockname()[1] != usual
        with pytest.raises(Invalid, match="already"):
            listen("127.0.0.1", [usual])


def test_without_the_extra_it_says_how_to_get_it(queue, root):
    hide = (
        "import sys; sys.modules['starlette'] = None\nfrom taskpit.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", hide, "-C", root, "--json", "web"],
        capture_output=True,
        text=True,
        env=pit_env(),
        check=False,
    )
    error = json.loads(ran.stdout)["error"]
    assert (ran.returncode, error["code"]) == (1, "missing_extra")
    assert "pip install 'taskpit[web]'" in error["hint"]


def test_where_there_is_no_queue(tmp_path):
    ran = run(str(tmp_path))
    assert ran.code in (5, 8)
    assert "Traceback" not in ran.err
