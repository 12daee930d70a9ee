"""`pit notify`: told once, to whom the user's own file names, never in quiet hours; against a local server."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from waits import until

from taskpit import fs, schedule
from taskpit.cli.main import main
from taskpit.errors import Invalid, Unavailable
from taskpit.run import notify
from taskpit.run.notify import read_channels, tell

NOON = time.mktime((2026, 11, 16, 12, 0, 0, 0, 0, -1))
NIGHT = time.mktime((2026, 11, 16, 23, 30, 0, 0, 0, -1))
EVENT = {
    "event": "ask",
    "queue": "/home/ada/shop/pit",
    "id": "0007",
    "title": "Paint it",
    "details": "blue or <!channel>?",
}


class Hearer(ThreadingHTTPServer):
    """Keeps what it was sent, and answers as it is told to."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.heard, self.status = [], 200
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def address(self, name):
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Answer(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.server.heard.append((self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        self.send_header("location", "/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_):
        pass


@pytest.fixture
def hearer():
    server = Hearer()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in [name for name in os.environ if name.startswith("TASKPIT_NOTIFY")]:
        monkeypatch.delenv(name)
    (tmp_path / "config" / "taskpit").mkdir(parents=True)
    return tmp_path


def write(home, text):
    (home / "config" / "taskpit" / "notify.toml").write_text(text)


def channels():
    return read_channels(os.environ)[0]


def test_each_service_gets_its_shape_and_nobody_is_mentioned(home, hearer):
    kinds = ("ntfy", "slack", "discord", "webhook")
    write(home, "".join(f'{kind} = "{hearer.address(kind)}"\n' for kind in kinds) + 'token = "sesame"\n')
    assert tell(channels(), EVENT, NOON) == list(kinds)
    heard = {path[1:]: (headers, body) for path, headers, body in hearer.heard}
    headers, body = heard["ntfy"]
    assert body == "shop: 0007 Paint it asks\nblue or <!channel>?"
    assert (headers["Authorization"], headers["Priority"]) == ("Bearer sesame", "high")
    assert json.loads(heard["slack"][1]) == {"text": "shop: 0007 Paint it asks\nblue or &lt;!channel&gt;?"}
    assert "Authorization" not in heard["slack"][0]
    assert json.loads(heard["discord"][1])["allowed_mentions"] == {"parse": []}
    assert json.loads(heard["webhook"][1])["id"] == "0007"


def test_a_reason_is_told_once_and_another_again(home, hearer):
    write(home, f'webhook = "{hearer.address("x")}"\n')
    assert tell(channels(), EVENT, NOON) == ["webhook"]
    assert tell(channels(), EVENT, time.time()) == []
    assert tell(channels(), {**EVENT, "details": "red?"}, time.time()) == ["webhook"]
    assert tell(channels(), EVENT, time.time() + 90_000) == ["webhook"]  # a day later it is news
    assert len(hearer.heard) == 3


def test_what_comes_at_night_is_told_in_the_morning(home, hearer):
    write(home, f'webhook = "{hearer.address("x")}"\nquiet = "22:00-07:00"\n')
    assert tell(channels(), EVENT, NIGHT) == []
    assert tell(channels(), {**EVENT, "id": "0008"}, NIGHT + 60) == []
    assert hearer.heard == []
    assert tell(channels(), None, NIGHT + 8 * 3600) == ["webhook", "webhook"]
    assert [json.loads(body)["id"] for _, _, body in hearer.heard] == ["0007", "0008"]
    assert tell(channels(), None, NIGHT + 8 * 3600) == []


def test_a_night_with_long_results_is_told_whole(home, hearer):
    """And what is told at once has all that its task brought."""
    write(home, f'webhook = "{hearer.address("x")}"\nquiet = "22:00-07:00"\n')
    events = [{**EVENT, "event": "done", "id": f"{n:04}", "result": {"output": "x" * 65_536}} for n in range(40)]
    for event in events:
        assert tell(channels(), event, NIGHT) == []
    assert tell(channels(), {**events[0], "id": "last"}, NIGHT + 8 * 3600) == ["webhook"] * 41
    heard = [json.loads(body) for _, _, body in hearer.heard]
    assert [one["id"] for one in heard] == [*(event["id"] for event in events), "last"]
    assert [len(one["result"].get("output", "")) for one in heard] == [*[0] * 40, 65_536]


def test_what_is_too_much_for_a_night_is_counted(home, hearer, monkeypatch):
    monkeypatch.setattr(notify, "MOST", 3)
    write(home, f'webhook = "{hearer.address("x")}"\nquiet = "22:00-07:00"\n')
    for number in range(7):
        tell(channels(), {**EVENT, "id": str(number)}, NIGHT)
    tell(channels(), None, NIGHT + 8 * 3600)
    first, *rest = [json.loads(body) for _, _, body in hearer.heard]
    assert first["text"] == "taskpit: notices were left out\n4 older notices than those that follow"
    assert [one["id"] for one in rest] == ["4", "5", "6"]


def test_what_two_keep_at_once_is_kept_by_both(home, hearer, monkeypatch):
    """The other comes when one has read what is kept and not yet written it."""
    write(home, f'webhook = "{hearer.address("x")}"\nquiet = "22:00-07:00"\n')
    read, take, waiting = notify._kept, fs.Flock.take, []
    other = threading.Thread(target=tell, args=(channels(), {**EVENT, "id": "0008"}, NIGHT))

    def kept():
        found = read()
        if other.ident is None:
            other.start()
            until(lambda: not other.is_alive() or other in waiting)
        return found

    def noted(lock, **how):
        waiting.append(threading.current_thread())
        return take(lock, **how)

    monkeypatch.setattr(fs.Flock, "take", noted)
    monkeypatch.setattr(notify, "_kept", kept)
    tell(channels(), EVENT, NIGHT)
    other.join()
    assert tell(channels(), None, NIGHT + 8 * 3600) == ["webhook", "webhook"]


def test_what_cannot_be_read_is_set_aside_and_told(home, hearer):
    write(home, f'webhook = "{hearer.address("x")}"\n')
    folder = home / "state" / "taskpit" / "notify"
    tell(channels(), EVENT, NOON)
    (folder / "kept.json").write_text("{torn")
    tell(channels(), {**EVENT, "id": "0008"}, NOON)
    (aside,) = folder.glob("kept.json~*")
    assert aside.read_text() == "{torn"
    assert str(aside) in hearer.heard[1][2]
    assert json.loads(hearer.heard[2][2])["id"] == "0008"


def test_only_the_events_that_are_wanted(home, hearer):
    write(home, f'webhook = "{hearer.address("x")}"\nevents = ["failed"]\n')
    assert tell(channels(), EVENT, NOON) == []
    assert tell(channels(), {**EVENT, "event": "failed"}, NOON) == ["webhook"]


@pytest.mark.parametrize("status", [500, 302, 404])
def test_who_refuses_or_leads_elsewhere_is_told_of_and_tried_again(home, hearer, status):
    write(home, f'webhook = "{hearer.address("secret-word")}"\nntfy = "{hearer.address("fine")}"\n')
    hearer.status = status
    with pytest.raises(Unavailable) as caught:
        tell(channels(), EVENT, NOON)
    assert f"webhook: it answered {status}" in str(caught.value)
    assert "secret-word" not in str(caught.value)
    assert {path for path, _, _ in hearer.heard} == {"/secret-word", "/fine"}  # nobody followed
    hearer.status = 200
    assert tell(channels(), None, NOON) == ["ntfy", "webhook"]
    assert tell(channels(), None, NOON) == []


def test_nobody_there(home, hearer):
    write(home, f'webhook = "{hearer.address("x")}"\n')
    hearer.shutdown()
    hearer.server_close()
    with pytest.raises(Unavailable, match="refused"):
        tell(channels(), EVENT, NOON)


def test_the_desktop(home, monkeypatch):
    bin_dir = home / "bin"
    bin_dir.mkdir()
    program = bin_dir / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > "{home}/said"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_dir}:{os.environ['PATH']}")
    write(home, "desktop = true\n")
    assert tell(channels(), {**EVENT, "title": "--help"}, NOON) == ["desktop"]
    said = (home / "said").read_text()
    assert said == "--app-name=taskpit|--|shop: 0007 --help asks|blue or &lt;!channel&gt;?|"


@pytest.mark.parametrize(
    ("text", "told", "hint"),
    [
        ('slak = "https://x"\n', "notify.toml:1: there is no key 'slak'", "Did you mean 'slack'?"),
        ('slack = "file:///etc/passwd"\n', "slack must be an address that begins with https://", ""),
        (
            'events = ["aks"]\n',
            "events is one of done, failed, choked, ask, review, budget, stopped, not 'aks'",
            "Did you mean 'ask'?",
        ),
        ('quiet = "22-7"\n', "quiet is hours of the day", "22:00-07:00"),
        ("desktop = 3\n", "desktop is true or false, not 3", ""),
        ("desktop\n", "notify.toml:1: Expected '='", ""),
    ],
)
def test_a_wrong_file_is_told_with_its_place(home, text, told, hint):
    write(home, text)
    with pytest.raises(Invalid) as caught:
        channels()
    assert told in caught.value.message
    assert hint in caught.value.hint


def test_the_environment_goes_before_the_file(home, monkeypatch):
    write(home, 'slack = "https://one.example"\n')
    monkeypatch.setenv("TASKPIT_NOTIFY_SLACK", "https://two.example")
    monkeypatch.setenv("TASKPIT_NOTIFY_EVENTS", "ask,failed")
    assert channels().addresses == {"slack": "https://two.example"}
    assert channels().events == ("ask", "failed")


def test_quiet_hours_end_when_they_say():
    assert schedule.quiet_until("22:00-07:00", NOON) == 0.0
    assert schedule.quiet_until("22:00-07:00", NIGHT) == NIGHT + 7.5 * 3600
    assert schedule.quiet_until("11:00-13:00, 12:00-14:30", NOON) == NOON + 2.5 * 3600
    assert schedule.quiet_until("", NOON) == 0.0


def test_a_hook_of_a_real_queue_tells(home, hearer, monkeypatch):
    """From the verb that asks to the server that hears: the queue's files name nobody."""
    root = str(home / "shop" / "pit")
    write(home, f'webhook = "{hearer.address("heard")}"\n')
    assert main(["init", root]) == 0
    (home / "shop" / "pit" / ".taskpit" / "config.toml").write_text(
        f'[hooks]\nask = ["{sys.executable}", "-m", "taskpit", "notify"]\n'
    )
    monkeypatch.setenv("TASKPIT_DIR", root)
    for words in (["trust", "--yes"], ["add", "Paint the fence"], ["claim"], ["ask", "1", "blue?"]):
        assert main(words) == 0
    until(lambda: hearer.heard)
    told = json.loads(hearer.heard[0][2])
    assert (told["title"], told["id"]) == ("Paint the fence", "0001")


def test_nobody_named_and_no_event_are_refused(home, hearer, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert main(["notify"]) != 0
    assert "no notification is set up" in capsys.readouterr().err
    write(home, f'webhook = "{hearer.address("x")}"\n')
    monkeypatch.setattr(sys, "stdin", io.StringIO("[1]"))
    assert main(["notify"]) != 0
    assert "standard input is no event" in capsys.readouterr().err
    assert main(["notify", "--test"]) == 0
    assert len(hearer.heard) == 1
