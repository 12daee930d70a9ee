"""What is built: the right files, the same bytes each time, one version, extras that exist."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import taskpit

from .conftest import ROOT, build

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SHARE = f"taskpit-{taskpit.__version__}.data/data/share"


@pytest.fixture(scope="session")
def names(built):
    with zipfile.ZipFile(built["wheel"]) as wheel:
        return set(wheel.namelist())


def test_the_version_stands_in_one_place(built):
    assert "version" not in PROJECT["project"]
    assert version("taskpit") == taskpit.__version__
    assert built["wheel"].name.startswith(f"taskpit-{taskpit.__version__}-py3-none-any")
    found = [
        path.relative_to(ROOT)
        for path in (ROOT / "src").rglob("*.py")
        if re.search(r"__version__ = ", path.read_text(encoding="utf-8"))
    ]
    assert found == [Path("src/taskpit/__init__.py")]


def test_the_core_needs_two_packages():
    assert [re.split("[<>=]", need)[0] for need in PROJECT["project"]["dependencies"]] == ["cronsim", "msgspec"]


def test_a_build_has_what_the_program_imports():
    """The build hook runs the program to write its manual page, in an environment with these and nothing else."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    assert set(pyproject["project"]["dependencies"]) <= set(pyproject["build-system"]["requires"])


def test_every_extra_that_a_message_names_exists():
    named = {
        extra
        for path in (ROOT / "src").rglob("*.py")
        for extra in re.findall(r"install_hint\(['\"]([a-z,]+)['\"]\)", path.read_text(encoding="utf-8"))
    }
    extras = PROJECT["project"]["optional-dependencies"]

    assert named
    assert {one for extra in named for one in extra.split(",")} <= set(extras)
    everything = "".join(extras["all"])
    assert [extra for extra in extras if extra != "all" and extra not in everything] == []


def test_all_of_the_package_is_in_the_wheel(names):
    ours = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "taskpit").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert ours <= names
    assert {"taskpit/py.typed", "taskpit/presets/claude.toml"} <= names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "scripts/"))]


def test_the_shells_files_are_in_the_wheel(built, names):
    shell = {
        f"{SHARE}/man/man1/pit.1": ".TH PIT 1",
    }
    assert {name for name in names if name.startswith(SHARE)} == set(shell)
    with zipfile.ZipFile(built["wheel"]) as wheel:
        for name, line in shell.items():
            assert line in wheel.read(name).decode()


def test_built_again_from_the_sdist_it_is_the_same_bytes(built, tmp_path):
    """Elsewhere, at another time, with files of another age."""
    with tarfile.open(built["sdist"]) as sdist:
        sdist.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    inside = next(tmp_path.iterdir())
    for name in ("src", "tests", "docs", "examples", "scripts", "Makefile", "constraints.txt", "CHANGELOG.md"):
        assert (inside / name).exists(), name
    for path in inside.rglob("*.py"):
        os.utime(path, (1_000_000_000, 1_000_000_000))

    again = build(tmp_path / "dist", source=inside)

    for kind in ("wheel", "sdist"):
        assert again[kind].read_bytes() == built[kind].read_bytes(), kind


def test_man_reads_the_page(built, tmp_path):
    if shutil.which("groff") is None:
        pytest.skip("groff is missing: sh scripts/system-packages groff")
    with zipfile.ZipFile(built["wheel"]) as wheel:
        page = wheel.read(f"{SHARE}/man/man1/pit.1")
    said = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=page, capture_output=True, check=True)

    assert said.stderr == b""
    text = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", said.stdout.decode())
    assert "pit claim" in text
    assert "EXIT STATUS" in text
