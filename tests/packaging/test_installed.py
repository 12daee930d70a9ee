"""The wheel and its two dependencies in an empty environment: `pit` works, and names the extra that a verb needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from waits import PATIENCE
from world import once

import taskpit

from .conftest import ROOT

#: Other Pythons to try, as paths with colons between; each costs some seconds.
PYTHONS = [sys.executable, *filter(None, os.environ.get("TASKPIT_PYTHONS", "").split(":"))]


def answer(*words, cwd=None, env=None):
    ran = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, cwd=cwd, env=env, check=False, timeout=PATIENCE
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.fixture(scope="session", params=PYTHONS, ids=lambda path: Path(path).parent.parent.name)
def programs(request, built, tmp_path_factory):
    """Return the `bin` of an environment with the wheel and its dependencies."""
    name = f"clean-{PYTHONS.index(request.param)}"
    return once(tmp_path_factory, name, lambda place: install(request.param, built["wheel"], place)) / "bin"


def install(python, wheel, folder):
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=PATIENCE)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    subprocess.run(
        [*pip, "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt"), str(wheel)],
        check=True,
        timeout=PATIENCE,
        capture_output=True,
    )


def test_it_is_all_there(programs, tmp_path):
    code, said = answer(programs / "pit", "--version")
    assert (code, said) == (0, f"pit {taskpit.__version__}\n")
    assert answer(programs / "python", "-m", "taskpit", "--version")[1] == said

    code, where = answer(programs / "python", "-c", "import taskpit; print(taskpit.__file__)")
    assert str(programs.parent) in where
    assert (programs.parent / "share/man/man1/pit.1").exists()


def test_a_verb_that_needs_more_says_what(programs, tmp_path):
    code, said = answer(programs / "pit", "init", tmp_path / "items", "--layout", "activities", "--json")

    assert code == 1
    assert '"missing_extra"' in said
    assert "pip install 'taskpit[yaml]'" in said


@pytest.mark.parametrize("verb", ["web", "mcp", "board"])
def test_a_surface_that_is_not_installed_says_how_to_have_it(programs, tmp_path, verb):
    extra = {"board": "tui"}.get(verb, verb)
    assert answer(programs / "pit", "init", tmp_path / "pit")[0] == 0
    if verb == "board":  # it looks for a terminal first
        words = ["script", "-qec", f"'{programs}/pit' -C '{tmp_path}/pit' board", "/dev/null"]
        if shutil.which("script") is None:
            pytest.skip("there is no script(1) here to give it a terminal")
    else:
        words = [programs / "pit", "-C", tmp_path / "pit", verb]
    code, said = answer(*words, env={**os.environ, "TERM": "xterm"})

    assert code == 1, said
    assert f"pip install 'taskpit[{extra}]'" in said


def test_the_machine_is_told_of(programs, tmp_path):
    code, said = answer(programs / "pit", "doctor", "--system", cwd=tmp_path)

    assert code == 0, said
    assert "missing: ruamel" in said
