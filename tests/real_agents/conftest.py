"""The real agent CLIs against the stand-in model, for `make test-agents`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import realagents
from standin import Model

from taskpit.model import Task
from taskpit.queue import Queue
from taskpit.store.opening import init

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Without the CLIs there is nothing to see here.
collect_ignore_glob = [] if realagents.installed() else ["test_*.py"]

CONFIG = 'durability = "process"\nlease = "5s"\nbackoff = "0.1s"\nbackoff_longest = "0.2s"\nmax_attempts = 3\n'


#: What an agent is not for, by test.
CANNOT = {
    ("test_trouble", "goose", "cut"): "it takes the beginning of an answer for the answer",
    ("test_refused", "goose"): "without its tools it has none to refuse",
    ("test_refused", "aider"): "it has no tools",
    ("test_mcp", "goose"): "its servers are in its own settings",
    ("test_mcp", "aider"): "it has no tools",
    ("test_talk", "aider"): "it does not tell whether it worked",
    ("test_acp", "aider"): "it does not speak it",
    ("test_acp_goes_on", "aider"): "it does not speak it",
    ("test_acp_asks", "aider"): "it does not speak it",
}


def pytest_generate_tests(metafunc):
    if "agent" in metafunc.fixturenames:
        metafunc.parametrize("agent", realagents.installed())


class Bench:
    """A repository with a queue in it, a home of its own, a model, and one CLI."""

    def __init__(self, path, agent, model):
        self.agent, self.model = agent, model
        self.repo, self.pit = f"{path}/repo", f"{path}/repo/pit"
        os.makedirs(self.repo)
        self.git("init", "-q", "-b", "main")
        with open(f"{self.repo}/.gitignore", "w", encoding="utf-8") as file:
            file.write("pit/\n")
        self.git("add", ".")
        self.git("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "first")
        init(self.pit, "pit")
        with open(f"{self.pit}/.taskpit/config.toml", "w", encoding="utf-8") as file:
            file.write(CONFIG)
        kept = {key: os.environ[key] for key in ("LANG", "TERM", "USER", "PYTHONPATH") if key in os.environ}
        self.env = {
            **kept,
            **realagents.furnish(f"{path}/home", model.url),
            "TASKPIT_TOKEN": "secret",
            "TASKPIT_TRUST": "1",
        }
        self.env["PATH"] = f"{os.path.dirname(sys.executable)}:{self.env['PATH']}"  # for `pit` as an MCP server
        self.queue = Queue.open(self.pit)
        self.processes = []

    def git(self, *words):
        return subprocess.run(["git", *words], cwd=self.repo, check=True, capture_output=True, text=True).stdout

    def put(self, script, title="Do it", **fields):
        body = f'Mind "quotes", `code` and $HOME.\n\nSCRIPT: {script}'
        return self.queue.put([Task(id="", title=title, body=body, **fields)])[0][0]

    def card(self, task):
        return self.queue.card(task)

    def argv(self, *words):
        return [sys.executable, "-m", "taskpit", "-C", self.pit, "--json", *words]

    def pit_(self, *words):
        done = subprocess.run(
            self.argv(*words), cwd=self.repo, env=self.env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def start(self, *words):
        model = ["--model", realagents.MODELS[self.agent]] if self.agent in realagents.MODELS else []
        argv = self.argv("work", "--agent", self.agent, *model, *words)
        with open(f"{self.pit}/said", "ab") as said:
            process = subprocess.Popen(argv, cwd=self.repo, env=self.env, stdout=said, stderr=said)
        self.processes.append(process)
        return process

    def work(self, *words, code=0):
        process = self.start("--until", "empty", *words)
        assert process.wait(240) == code, self.said()
        return process

    def said(self):
        with open(f"{self.pit}/said", encoding="utf-8", errors="replace") as file:
            return file.read()

    def preset(self, text, name=""):
        name = name or self.agent
        os.makedirs(f"{self.pit}/.taskpit/presets", exist_ok=True)
        with open(f"{self.pit}/.taskpit/presets/{name}.toml", "w", encoding="utf-8") as file:
            file.write(f'extends = "{name}"\n{text}\n')

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGINT)  # two of a kind may become one
                process.wait(60)
        self.queue.close()
        self.model.close()


@pytest.fixture
def bench(tmp_path, agent):
    made = Bench(tmp_path, agent, Model())
    yield made
    made.close()
    unknown = [one for one in made.model.unknown if not one.startswith("GET")]
    assert not unknown, f"the stand-in does not know {unknown}"


@pytest.fixture(autouse=True)
def _cannot(request):
    """Skip a test that this agent cannot pass, with the reason."""
    if "agent" in request.fixturenames:
        test = (request.function.__name__, request.getfixturevalue("agent"))
        why = [request.getfixturevalue("why")] if "why" in request.fixturenames else []
        if cannot := CANNOT.get(test) or CANNOT.get((*test, *why)):
            pytest.skip(cannot)
