"""Layouts, runners and importers from another package: found by name, whole, and only when asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from waits import PATIENCE

from taskpit import Queue, State, importers, layouts, plugins
from taskpit.config import Config
from taskpit.errors import Invalid, TaskpitError
from taskpit.keeper import sweep
from taskpit.store.files import FileStore
from taskpit.store.opening import init
from taskpit.testing import StoreContract


@pytest.fixture
def installed(site, monkeypatch):
    monkeypatch.syspath_prepend(str(site))
    yield site
    sys.modules.pop("taskpit_kanban", None)


def pit(site, *words, stdin=""):
    env = {**os.environ, "PYTHONPATH": str(site), "TASKPIT_AS": "me", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "taskpit", *words],
        cwd=site.parent,
        env=env,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_whole_life_in_another_packages_layout(site):
    (site.parent / "tasks.csv").write_text(
        "id,title,needs,done,colour\na,First,,,red\nb,Second,a,,\nc,Third,,yes,\n,None,,,\n"
    )
    assert pit(site, "init", "board", "--layout", "kanban").returncode == 0
    brought = pit(site, "-C", "board", "import", "tasks.csv", "--from", "csv")
    worked = pit(site, "-C", "board", "work", "--agent", "echo", "--until", "empty", "--", "Hello")
    cards = {task["id"]: task for task in json.loads(pit(site, "-C", "board", "list", "--json").stdout)["data"]}

    assert (brought.returncode, brought.stdout) == (
        6,
        "from csv: 2 added, 1 left out (closed; --closed brings them in as done), 1 could not be read\n",
    )
    assert "tasks.csv:5: it has no id" in brought.stderr
    assert worked.returncode == 0, worked.stderr
    assert {task_id: card["state"] for task_id, card in cards.items()} == {"a": "done", "b": "done"}
    assert cards["a"]["extra"] == {"colour": "red", "origin": "csv:a"}
    assert "Hello First" in (site.parent / "board/done/a.md").read_text()


def test_a_store_of_another_package_is_opened_by_its_scheme(installed):
    queue = Queue.open("ram://anything")
    task_id = queue.add("A task that is kept nowhere")
    assert queue.store.read([task_id])[0].state is State.READY
    with pytest.raises(Invalid, match="rum:// is no address of a queue"):
        Queue.open("rum://anything")


def test_the_command_line_opens_it_too(site):
    told = pit(site, "-C", "ram://anything", "add", "x", "--json")
    assert (told.returncode, json.loads(told.stdout)["data"]["id"]) == (0, "0001"), told.stdout + told.stderr


class TestKanban(StoreContract):
    """The layout on the page keeps the contract every store must keep."""

    TURNS = 2
    numbers_are_ids = False

    @pytest.fixture(autouse=True)
    def _installed(self, installed, tmp_path):
        self.places = (str(tmp_path / f"board-{number}") for number in range(10))
        super().setup_method()

    def setup_method(self):
        """The fixture does it, once the package is there."""

    def make_store(self, clock):
        root = next(self.places)
        init(root, "kanban", clock)
        return FileStore(root, layouts.get("kanban"), Config(durability="process"), clock)


def test_the_library_and_the_keeper_know_it(installed, tmp_path):
    with Queue.create(tmp_path / "board", "kanban") as queue:
        task_id = queue.add("one")
        with queue.take():
            assert (tmp_path / "board/todo").exists()
        assert sweep(queue) == []
        assert queue.card(task_id).state is State.DONE


def test_what_nobody_brings_is_refused_with_what_there_is(installed):
    with pytest.raises(Invalid, match="no layout 'nonsense'") as caught:
        layouts.get("nonsense")
    assert "kanban" in caught.value.hint
    with pytest.raises(Invalid, match="no importer 'nonsense'") as caught:
        importers.get("nonsense")
    assert "csv" in caught.value.hint


def test_a_package_that_breaks_is_named(installed):
    (installed / "taskpit_kanban.py").write_text("raise RuntimeError('half installed')")
    with pytest.raises(TaskpitError, match="taskpit-kanban cannot be loaded: RuntimeError: half installed"):
        layouts.get("kanban")


def test_a_package_that_brings_something_else_is_refused(installed):
    (installed / "taskpit_kanban.py").write_text("Kanban = Csv = dict\nmake_echo = 3\n")
    with pytest.raises(Invalid, match="makes no layout"):
        layouts.get("kanban")
    with pytest.raises(Invalid, match="makes no importer"):
        importers.get("csv")
    from taskpit.run import runner

    with pytest.raises(TaskpitError, match="cannot be called"):
        runner.find_plugged("echo", cwd=".", model="", limit=1.0, args=())


def test_a_layout_of_another_name_is_refused(installed):
    (installed / "taskpit_kanban.py").write_text("from taskpit.layouts.pit import Pit as Kanban\n")
    with pytest.raises(Invalid, match="no layout called 'kanban'"):
        layouts.get("kanban")


def test_an_importer_that_cannot_read_and_a_layout_without_ids_are_not_made():
    with pytest.raises(TypeError, match="abstract"):
        importers.Importer()
    with pytest.raises(TypeError, match="abstract"):
        layouts.Layout()


def test_our_own_names_never_look_through_the_installed_packages(monkeypatch):
    def refuse(*_):
        pytest.fail("somebody looked")

    monkeypatch.setattr(plugins, "find", refuse)
    monkeypatch.setattr(plugins, "names", refuse)
    for name in layouts.NAMES:
        assert layouts.get(name).name == name
        assert layouts.is_known(name)
    for name in importers.NAMES:
        assert importers.get(name).name == name


@pytest.mark.parametrize("group", ["layouts", "importers"])
def test_one_that_lacks_something_is_told(group, monkeypatch):
    kind = {"layouts": layouts.Layout, "importers": importers.Importer}[group]
    monkeypatch.setattr(plugins, "find", lambda *_: type("Half", (kind,), {}))
    with pytest.raises(Invalid, match=r"'half' cannot be made: .*abstract") as told:
        plugins.make(group, "half", kind, ())
    assert told.value.hint == "Mend or upgrade its package."
