"""Completion: the script that a shell loads, and the answers that it is given."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

SHELLS = ["bash", "zsh", "fish"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed_for_people_and_programs(run, shell):
    script = run("completion", shell).out

    assert "_ARGCOMPLETE" in script
    assert run("completion", shell, "--json").data["script"] == script


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_accepts_it(run, place, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is missing: sh scripts/system-packages {shell}")
    (place / "script").write_text(run("completion", shell).out)

    subprocess.run([shell, "-n", "script"], check=True)


ASKED = [
    ("pit cla", ["claim "]),
    ("pit -C somewhere cla", ["claim "]),
    ("pit add --prio", ["--priority "]),
    ("pit ls --st", ["--state "]),
    ("pit completion f", ["fish "]),
    ("pit nonsense --x", [""]),
]


@pytest.mark.parametrize(("line", "answers"), ASKED)
def test_a_shell_is_answered(place, line, answers):
    """As the script asks: by the environment, with a file for the answer."""
    words = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "IFS": "\013"}
    env = {**os.environ, **words, "_ARGCOMPLETE_STDOUT_FILENAME": str(place / "answer")}
    asked = subprocess.run([sys.executable, "-m", "taskpit"], env=env, capture_output=True, text=True, check=False)

    assert (asked.stdout, asked.stderr) == ("", "")
    assert (place / "answer").read_text().split("\013") == answers


def test_an_unknown_shell(run):
    assert run("completion", "tcsh").code == 2
