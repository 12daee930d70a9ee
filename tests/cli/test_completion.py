"""Completion scripts: every verb is in them, and the shells accept them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from taskpit.cli import verbs


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_verb_is_there(run, shell):
    script = run("completion", shell).out

    for verb in verbs.VERBS:
        assert verb.name in script
    assert "not-before" in script
    assert run("completion", shell, "--json").data["script"] == script


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_accepts_it(run, place, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is missing: sh scripts/system-packages {shell}")
    (place / "script").write_text(run("completion", shell).out)

    subprocess.run([shell, "-n", "script"], check=True)


def test_bash_completes(run, place):
    (place / "script").write_text(run("completion", "bash").out)
    asked = """
        source ./script
        ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pit; echo "${COMPREPLY[@]}"; }
        ask pit cla
        ask pit -C somewhere cla
        ask pit add --prio
        ask pit ls --st
    """
    said = subprocess.run(["bash", "-c", asked], check=True, capture_output=True, text=True).stdout

    assert said.splitlines() == ["claim", "claim", "--priority", "--state"]


def test_an_unknown_shell(run):
    assert run("completion", "tcsh").code == 2
