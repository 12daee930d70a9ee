"""The benchmark runs: laps, a whole quick run, and `pit bench`. How fast is nobody's business here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rotation import part
from schemata import judge_command

BENCH = Path(__file__).parents[2] / "bench"


def pit(*words, cwd):
    env = {key: value for key, value in os.environ.items() if key not in ("TASKPIT_DIR", "DROVER_MAILBOX_ENABLED")}
    return subprocess.run(
        [sys.executable, "-m", "taskpit", *words], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )


def test_pit_bench_measures_and_leaves_nothing_behind(tmp_path):
    ran = pit("bench", "--seconds", "1", "--json", cwd=tmp_path)

    assert ran.returncode == 0, ran.stderr
    data = json.loads(ran.stdout)["data"]
    judge_command(["bench"], data)
    assert set(data["ratios"]) == {"life", "batches", "life_synced", "batches_synced", "one_shot"}
    assert all(ratio > 0 for ratio in data["ratios"].values())
    assert data["rounds"] >= 1
    assert {"life", "bare life", "pit claim", "put to claimed", "fsync of a file"} <= set(data["measures"])
    assert all(0 < each["low"] <= each["median"] <= each["high"] for each in data["measures"].values())
    assert list(tmp_path.iterdir()) == []


def test_pit_bench_uses_the_disk_of_the_queue_and_not_the_queue(tmp_path):
    assert pit("init", "queue", cwd=tmp_path).returncode == 0
    before = sorted(path.name for path in (tmp_path / "queue").rglob("*"))

    ran = pit("-C", "queue", "bench", "--seconds", "0.1", cwd=tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert "x bare speed" in ran.stdout
    assert "queue" in ran.stdout.splitlines()[0]
    assert sorted(path.name for path in (tmp_path / "queue").rglob("*")) == before


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan"])
def test_pit_bench_refuses_what_is_no_time(tmp_path, seconds):
    ran = pit("bench", f"--seconds={seconds}", cwd=tmp_path)

    assert ran.returncode == 2
    assert "not a number of seconds" in ran.stderr


#: Those that need nothing installed, and with how many workers each runs.
HERE = {
    **dict.fromkeys(("taskpit", "taskpit power", "bare calls", "bare calls + fsync"), (1, 2)),
    **dict.fromkeys(("plain protocol", "plain protocol + fsync", "SQLite NORMAL", "SQLite FULL"), (1, 2)),
    **dict.fromkeys(("Maildir", "Maildir popitem"), (1,)),
}


@pytest.mark.parametrize(
    ("name", "workers", "batch"),
    part([(name, each, batch) for name, counts in HERE.items() for each in counts for batch in (1, 5)], 3),
)
def test_every_life_of_a_lap_is_lived(tmp_path, name, workers, batch):
    from arena.race import race
    from arena.scenes import all_entrants

    entrant = all_entrants()[name]
    assert entrant.most_workers == (0 if 2 in HERE[name] else 1)
    entrant.start(str(tmp_path / "queue"))
    lap = race(entrant, workers, 10, batch, limit=20)
    entrant.stop()

    assert (lap.finished, lap.partial) == (10, False)
    assert lap.rate > 0
    assert not (tmp_path / "queue").exists()


def test_a_lap_that_fails_says_what_of(tmp_path):
    from arena.entrants import Entrant
    from arena.race import Failure, race

    class Broken(Entrant):
        def open(self):
            if os.path.exists(f"{self.root}/second"):
                raise OSError("the cable is out")
            os.mkdir(f"{self.root}/second")
            return super().open()

    entrant = Broken()
    entrant.start(str(tmp_path / "queue"))

    with pytest.raises(Failure, match=r"the cable is out|NotImplementedError"):
        race(entrant, 2, 10, 1, limit=5)


def drawing_python():
    """A Python that has matplotlib: this one, or the benchmark's own; None if neither has."""
    for python in (sys.executable, str(BENCH / ".venv/bin/python")):
        if os.path.exists(python):
            found = subprocess.run([python, "-c", "import matplotlib"], capture_output=True, check=False)
            if found.returncode == 0:
                return python
    return None


def test_a_quick_run_writes_results_with_plots_or_without(tmp_path):
    disk, out = tmp_path / "disk", tmp_path / "out"
    disk.mkdir()
    words = ["--quick", "--only", "wake,SQLite NORMAL", "--disk", str(disk), "--out", str(out)]
    ran = subprocess.run([sys.executable, str(BENCH / "run.py"), *words], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert {path.name for path in out.iterdir()} - {"latency.png"} == {"results.json", "results.md"}
    data = json.loads((out / "results.json").read_text())
    measured = {(each["scene"], each["entrant"]) for each in data["measures"] if each["values"]}
    assert measured == {
        (f"wake-{part}", name) for part in ("p50", "p90", "p99") for name in ("taskpit", "SQLite NORMAL")
    }
    assert "## What must be shown" in (out / "results.md").read_text()
    assert list(disk.iterdir()) == []


DRAW = """
import sys
from arena.plots import draw
from arena.stats import Book

book = Book()
book.add("life-1", "taskpit", 0, 100.0)
book.add("claim", "1,000 ready", 0, 0.3, "ms")
book.samples["wake", "taskpit"] = [1.0, 2.0, 3.0]
draw(book, sys.argv[1])
"""


def test_plots_are_drawn_of_what_was_measured(tmp_path):
    python = drawing_python()
    if python is None:
        pytest.skip("matplotlib is missing: make bench/.venv/ready")
    env = {**os.environ, "PYTHONPATH": f"{BENCH}:{BENCH.parent / 'src'}"}
    ran = subprocess.run([python, "-c", DRAW, str(tmp_path)], env=env, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backlog.png", "latency.png", "workers.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())


def test_a_peer_nobody_knows_is_refused(tmp_path):
    words = ["--only", "rabbit", "--out", str(tmp_path)]
    ran = subprocess.run([sys.executable, str(BENCH / "run.py"), *words], capture_output=True, text=True, check=False)

    assert ran.returncode == 2
    assert "there is no rabbit" in ran.stderr
