"""The real agent CLIs against the stand-in model, for `make test-agents`: it writes what works into the docs."""

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
PAGE = f"{ROOT}/docs/agents-tried.md"
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


# -- the page --------------------------------------------------------------------------------------

_seen: dict[tuple[str, str], str] = {}
#: What earlier runs have found: a page may be made in several.
FOUND = f"{ROOT}/.cache/agents/tried.json"


def pytest_runtest_logreport(report):
    what = dict(report.user_properties)
    if "row" in what and (report.when == "call" or not report.passed):
        key = (what["row"], what["agent"])
        if report.skipped:
            _seen[key] = f"no: {what['cannot']}" if "cannot" in what else "not tried"
        else:
            good = f"yes; {what['but']}" if "but" in what else "yes"
            _seen[key] = good if report.passed and _seen.get(key, good) == good else "**no**"


@pytest.fixture(autouse=True)
def _row(request, record_property):
    """The row of the page that a test stands for: its first line."""
    if "agent" in request.fixturenames:
        row = request.function.__doc__.splitlines()[0].rstrip(".")
        agent = request.getfixturevalue("agent")
        why = [request.getfixturevalue("why")] if "why" in request.fixturenames else []
        record_property("row", f"{row} ({why[0]})" if why else row)
        record_property("agent", agent)
        test = (request.function.__name__, agent)
        cannot = CANNOT.get(test) or CANNOT.get((*test, *why))
        if cannot:
            record_property("cannot", cannot)
            pytest.skip(cannot)


def _remembered(versions):
    """What was found now, and before with the same version."""
    try:
        with open(FOUND, encoding="utf-8") as file:
            before = json.load(file)
    except (OSError, ValueError):
        before = []
    kept = {(row, agent): found for row, agent, version, found in before if versions.get(agent) == version}
    kept |= _seen
    with open(FOUND, "w", encoding="utf-8") as file:
        json.dump(
            [[row, agent, versions[agent], found] for (row, agent), found in sorted(kept.items())], file, indent=1
        )
    return kept


def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput") or not _seen or os.environ.get("TASKPIT_NO_PAGE"):
        return
    versions = {name: realagents.version(name) for name in realagents.installed()}
    seen = _remembered(versions)
    agents = [name for name in versions if any(agent == name for _, agent in seen)]
    rows = sorted({row for row, _ in seen})
    lines = [
        "# Agents that were tried",
        "",
        "Made by `make test-agents`: it installs the agents from npm (aider from PyPI) and runs every preset against",
        "a stand-in model on loopback, in a network that has nothing else. `yes` is a test that passed with that",
        "version.",
        "",
        "| | " + " | ".join(f"{name} {versions[name]}" for name in agents) + " |",
        "|---|" + "---|" * len(agents),
    ]
    lines += [f"| {row} | " + " | ".join(seen.get((row, name), "") for name in agents) + " |" for row in rows]
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
