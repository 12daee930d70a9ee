"""What builds and publishes: pinned to bytes, without passwords, and no more rights than each step needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def read(path):
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def steps(path):
    for name, job in read(path)["jobs"].items():
        for step in job["steps"]:
            yield name, step


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_to_a_commit_and_say_which_version_that_is(path):
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.search(r"uses: [\w-]+/[\w/-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$", line), line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_few_rights_and_no_secrets(path):
    assert read(path)["permissions"] in ({}, {"contents": "read"})
    assert "secrets." not in path.read_text(encoding="utf-8")
    for _, step in steps(path):
        assert "${{" not in step.get("run", "")  # what others name must not become part of a command
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_only_what_was_built_and_tested_is_published_and_only_the_last_step_may():
    jobs = read(ROOT / ".github/workflows/release.yml")["jobs"]
    assert (jobs["attest"]["needs"], jobs["publish"]["needs"]) == ("build", "attest")
    assert jobs["publish"]["environment"] == "pypi"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["build"]["permissions"] == {"contents": "read"}
    runs = [step.get("run", "") for step in jobs["build"]["steps"]]
    assert {"make test", "make audit", "make build sbom"} <= set(runs)
    assert [step["uses"].partition("@")[0] for step in jobs["publish"]["steps"]] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]


def test_updates_are_looked_for():
    kinds = {one["package-ecosystem"] for one in read(ROOT / ".github/dependabot.yml")["updates"]}
    assert kinds == {"github-actions", "pip"}


def test_targets_that_the_release_uses_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("audit", "sbom", "build"):
        assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE), target


def test_the_tools_of_a_release_are_installed_by_hash_and_nothing_else_is():
    lines = (ROOT / "supply.txt").read_text(encoding="utf-8").replace("\\\n", "").splitlines()[1:]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+(\s+--hash=sha256:[0-9a-f]{64})+", line) for line in lines)
    names = {line.partition("==")[0] for line in lines}
    assert {"build", "hatchling", "cyclonedx-bom", "pip-audit"} <= names
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--require-hashes --requirement supply.txt" in makefile
    assert "-m build --no-isolation" in makefile


def test_the_release_has_the_list_of_what_the_extras_bring():
    jobs = read(ROOT / ".github/workflows/release.yml")["jobs"]
    assert (jobs["attach"]["needs"], jobs["attach"]["permissions"]) == ("publish", {"contents": "write"})
    fetched, attached = jobs["attach"]["steps"]
    assert fetched["with"] == {"path": "built/", "merge-multiple": True}  # all that was built, sbom.json with it
    assert "gh release create" in attached["run"]
    assert attached["run"].endswith("built/*")
    assert jobs["attest"]["steps"][1]["with"] == {"subject-path": "built/*"}
