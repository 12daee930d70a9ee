"""`pit` of another process against a gateway: pools, TLS, and a machine of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from gateways import Process, Served
from pits import CONFIG
from waits import PATIENCE

from taskpit.clock import Clock
from taskpit.errors import Invalid, Storage
from taskpit.model import State, Task
from taskpit.queue import Queue
from taskpit.serve.server import GatewayServer, ServeOptions
from taskpit.store.http.tokens import Tokens
from taskpit.store.opening import init, open_store


def pit(*words, env, cwd, before=(), code=0):
    ran = subprocess.run(
        [*before, sys.executable, "-m", "taskpit", *words],
        env={"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}", "NO_COLOR": "1", **env},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def there(tmp_path, token):
    """What another machine has: a home of its own, and a token."""
    home = tmp_path / "there"
    home.mkdir()
    return {"env": {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "TASKPIT_TOKEN": token}, "cwd": str(home)}


def test_a_pool_of_another_process_works_through_a_gateway(served, tmp_path):
    far = there(tmp_path, served.token("ann", "work"))
    served.queue.store.put([Task(id=f"000{n}", title=f"t{n}", slug=f"t{n}", check="true") for n in range(1, 6)])
    said = pit(
        "-C",
        served.address,
        "work",
        "-n",
        "2",
        "--until",
        "empty",
        "--",
        "sh",
        "-c",
        "pit note $TASKPIT_TASK hi",
        **far,
    )
    cards = served.queue.store.read([f"000{n}" for n in range(1, 6)])

    assert "5 done" in said
    assert {card.result.worker.partition("~")[0] for card in cards} <= {"ann-1", "ann-2"}
    assert all("hi" in card.notes and card.result.evidence.green for card in cards)
    assert "denied" not in said


def test_under_another_name_it_is_refused_and_says_what_to_do(served, tmp_path):
    far = there(tmp_path, served.token("ann", "work"))
    said = pit("-C", served.address, "claim", "--as", "bob", code=9, **far)
    assert "the token ann cannot claim as bob" in said
    assert "--as ann" in said


@pytest.mark.needs("git")
def test_what_would_land_on_that_machine_alone_is_refused(served, tmp_path):
    far = there(tmp_path, served.token("ann", "work"))
    subprocess.run(["git", "init", "-q", far["cwd"]], check=True)
    for land in ("branch", "merge"):
        said = pit("-C", served.address, "work", "--land", land, "--", "true", code=6, **far)
        assert "--land pr" in said


def test_the_boards_token_is_not_the_gateways(served, tmp_path):
    far = there(tmp_path, served.token("ann", "work"))
    code = (
        "from taskpit.cli.context import Context; from taskpit.cli.options import given_token; import argparse, os;"
        "here = Context(os.environ, directory=os.environ['WHERE']);"
        "print(repr(given_token(argparse.Namespace(token_file=None), here)))"
    )
    env = {**os.environ, **far["env"], "WHERE": served.address}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "''"


# -- TLS -------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing")
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def test_over_tls_the_certificate_is_checked(tmp_path, certificate):
    cert, key = certificate
    root = str(tmp_path / "pit")
    init(root, "pit")
    store = open_store(root, {}, Clock())
    served = Served(Queue(store, CONFIG, store.clock), cert=cert, key=key)
    assert served.address.startswith("https://")
    known = served.store(ca=cert)
    assert known.counts()[State.READY] == 0
    known.close()
    with pytest.raises(Storage, match="not trusted"):
        served.store()
    with pytest.raises(Invalid, match="TASKPIT_CA"):
        served.store(ca=key + ".missing")
    served.close()


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ({"host": "0.0.0.0"}, "in the clear"),
        ({"cert": "a"}, "go together"),
        ({"cert": "a", "key": "b"}, "no file a"),
    ],
)
def test_where_it_does_not_listen(served, place, told):
    with pytest.raises(Invalid, match=told):
        GatewayServer(served.queue, ServeOptions(port=0, **place))


def test_behind_a_proxy_it_answers_to_other_names(tmp_path):
    root = str(tmp_path / "pit")
    init(root, "pit")
    store = open_store(root, {}, Clock())
    served = Served(Queue(store, CONFIG, store.clock), behind_proxy=True)
    import http.client

    line = http.client.HTTPConnection("127.0.0.1", served.server.port, timeout=PATIENCE)
    line.request("GET", "/readyz", headers={"Host": "build.example"})
    assert line.getresponse().status == 200
    line.close()
    served.close()


# -- another machine -------------------------------------------------------------------------------


@pytest.fixture
def machines():
    """Two network namespaces with a wire between them: here, and there."""
    name = f"pit{os.getpid()}"
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and `ip`")
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no network namespace can be made here: {made.stderr.strip()}")
    ours = f"10.213.{os.getpid() % 250}"  # another suite on this machine has another one
    here, far = f"h{os.getpid()}"[:12], f"f{os.getpid()}"[:12]
    steps = [
        ["ip", "link", "add", here, "type", "veth", "peer", "name", far],
        ["ip", "link", "set", far, "netns", name],
        ["ip", "addr", "add", f"{ours}.1/30", "dev", here],
        ["ip", "link", "set", here, "up"],
        ["ip", "-n", name, "addr", "add", f"{ours}.2/30", "dev", far],
        ["ip", "-n", name, "link", "set", far, "up"],
        ["ip", "-n", name, "link", "set", "lo", "up"],
    ]
    try:
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"no wire between two namespaces can be made here: {done.stderr.strip()}")
        yield f"{ours}.1", ("ip", "netns", "exec", name)
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", here], capture_output=True, check=False)


@pytest.fixture
def gateway(machines, tmp_path):
    """A queue served over TLS on the one machine, and what the other one has."""
    address, before = machines
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=gateway", "-addext", f"subjectAltName=IP:{address}"]
    subprocess.run([*command, "-keyout", key, "-out", cert], check=True, capture_output=True)
    root = str(tmp_path / "pit")
    init(root, "pit")
    far = there(tmp_path, Tokens(root).add("ann", ["work", "put"]))
    far["env"]["TASKPIT_CA"] = cert
    one = Process(root, 0, "--host", "0.0.0.0", "--cert", cert, "--key", key)
    yield (
        root,
        lambda *words, **more: pit("-C", f"https://{address}:{one.port}/q", *words, before=before, **{**far, **more}),
    )
    one.kill()


def test_a_pool_on_another_machine(gateway):
    """TLS, a token, a pool in a network of its own."""
    _, there_pit = gateway
    there_pit("add", "over there", "--check", "true")
    assert "1 done" in there_pit("work", "--until", "empty", "--", "true")
    listed = json.loads(there_pit("--json", "list", "--state", "done"))
    assert [task["title"] for task in listed["data"]] == ["over there"]


@pytest.mark.needs("git")
def test_a_change_made_on_another_machine_is_pushed_from_there(gateway, machines, tmp_path):
    """The queue on one machine, the pool and its clone on the other, the forge reached over the network."""
    address, before = machines
    root, there_pit = gateway
    forge = str(tmp_path / "forge" / "work.git")
    git("init", "-q", "--bare", "-b", "main", forge)
    git("-C", forge, "config", "http.receivepack", "true")
    server = GitServer(str(tmp_path / "forge"), address)
    url = f"http://{address}:{server.server_address[1]}/work.git"
    work = str(tmp_path / "there" / "work")
    git("init", "-q", "-b", "main", work)
    git("-C", work, "config", "user.name", "Ann")
    git("-C", work, "config", "user.email", "ann@there.example")
    git("-C", work, "commit", "-q", "--allow-empty", "-m", "begin")
    git("-C", work, "remote", "add", "origin", url)
    git("-C", work, "push", "-q", "origin", "main", before=before)
    there_pit("add", "Say hello", "--check", "grep -q hello hello.txt")
    lands = ("work", "--land", "pr", "--pr-command", "echo http://forge.example/pull/1", "--until", "empty")
    said = there_pit(*lands, "--", "sh", "-c", "echo hello > hello.txt", cwd=work)
    (branch,) = [one for one in git("-C", forge, "branch", "--format=%(refname:short)").split() if one != "main"]

    assert branch.startswith("pit/0001-"), said
    assert git("-C", forge, "show", f"{branch}:hello.txt") == "hello\n"
    held = open_store(root, {}, Clock())
    assert held.read(["0001"])[0].task.hold.startswith("waits for the pull request")
    git("-C", forge, "update-ref", "refs/heads/main", branch)  # merged, at the forge
    there_pit("review", "0001", "--approve", cwd=work)
    assert held.read(["0001"])[0].state is State.DONE
    held.close()
    server.shutdown()
    server.server_close()


def git(*words, before=()):
    ran = subprocess.run([*before, "git", *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


class GitServer(ThreadingHTTPServer):
    """Repositories over HTTP, by git's own program for it."""

    def __init__(self, root, address):
        class Answers(BaseHTTPRequestHandler):
            def do_GET(self):
                path, _, query = self.path.partition("?")
                length = int(self.headers.get("Content-Length", 0))
                env = {
                    **os.environ,
                    "GIT_PROJECT_ROOT": root,
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "REQUEST_METHOD": self.command,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "CONTENT_LENGTH": str(length),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                }
                ran = subprocess.run(
                    ["git", "http-backend"], input=self.rfile.read(length), env=env, capture_output=True, check=False
                )
                head, _, body = ran.stdout.partition(b"\r\n\r\n")
                told = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
                self.send_response(int(told.pop("Status", "200").split()[0]))
                for name, value in told.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        super().__init__((address, 0), Answers)
        threading.Thread(target=self.serve_forever, daemon=True).start()
