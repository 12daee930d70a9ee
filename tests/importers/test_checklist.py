"""Plans in Markdown: twenty as people and agents write them, each with what waits for what."""

from __future__ import annotations

import pytest

from taskpit import importers
from taskpit.importers import Bad

#: A plan, and for each item what it waits for, by title.
PLANS = {
    "bullets": ("- [ ] a\n- [ ] b\n", {"a": [], "b": []}),
    "stars and pluses": ("* [ ] a\n+ [ ] b\n", {"a": [], "b": []}),
    "numbers": ("1. [ ] a\n2. [ ] b\n3. [ ] c\n", {"a": [], "b": ["a"], "c": ["b"]}),
    "brackets behind numbers": ("1) [ ] a\n2) [ ] b\n", {"a": [], "b": ["a"]}),
    "parts": ("- [ ] all\n  - [ ] one\n  - [ ] two\n", {"all": ["one", "two"], "one": [], "two": []}),
    "parts by tab": ("- [ ] all\n\t- [ ] one\n- [ ] other\n", {"all": ["one"], "one": [], "other": []}),
    "parts of parts": ("- [ ] a\n  - [ ] b\n    - [ ] c\n  - [ ] d\n", {"a": ["b", "d"], "b": ["c"], "c": [], "d": []}),
    "numbers inside bullets": ("- [ ] a\n  1. [ ] b\n  2. [ ] c\n", {"a": ["b", "c"], "b": [], "c": ["b"]}),
    "ticked": ("1. [x] a\n2. [ ] b\n3. [X] c\n4. [ ] d\n", {"b": [], "d": []}),
    "given up": ("- [ ] a\n- [-] b\n- [~] c\n", {"a": []}),
    "phases": ("## Phase 1\n- [ ] a\n- [ ] b\n## Phase 2\n- [ ] c\n", {"a": [], "b": [], "c": ["a", "b"]}),
    "numbered headings": (
        "### 1. Plan\n- [ ] a\n### 2. Build\n- [ ] b\n### 3. Ship\n- [ ] c\n",
        {"a": [], "b": ["a"], "c": ["b"]},
    ),
    "a phase with parts": (
        "## Step 1\n- [ ] a\n## Step 2\n- [ ] b\n  - [ ] c\n",
        {"a": [], "b": ["a", "c"], "c": ["a"]},
    ),
    "plain headings": ("## Backend\n- [ ] a\n## Frontend\n- [ ] b\n", {"a": [], "b": []}),
    "named needs": ("- [ ] Schema\n- [ ] Import (needs: Schema)\n", {"Schema": [], "Import": ["Schema"]}),
    "several named": ("- [ ] a\n- [ ] b\n- [ ] c (after: a and b)\n", {"a": [], "b": [], "c": ["a", "b"]}),
    "the same twice": ("- [ ] test\n- [ ] test\n", {"test": []}),
    "bold titles": ("- [ ] **Write the API**\n", {"Write the API": []}),
    "code between": ("```\n- [ ] no item\n```\n- [ ] a\n", {"a": []}),
    "text between": ("We begin.\n\n- [ ] a\n\nThen we go on.\n\n- [ ] b\n", {"a": [], "b": []}),
}


def read(text):
    return list(importers.get("checklist").read("plan.md", text))


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan(plan):
    text, wanted = PLANS[plan]
    found = read(text)
    titles = {one.task.id: one.task.title for one in found}
    assert len(titles) == len(found)
    left = {one.task.title: [titles[need] for need in one.task.needs] for one in found if not one.over}
    assert left == wanted


def test_what_belongs_to_an_item():
    text = "## API\n- [ ] Write it\n  check: `make smoke`\n\n  In small steps.\n  - [ ] part\n"
    task = read(text)[0].task
    assert (task.check, task.body, task.tags) == ("make smoke", "In small steps.", ("api",))
    assert read(text)[1].task.parent == task.id


def test_a_need_that_is_nowhere_is_told_with_its_line():
    bad = read("- [ ] a\n- [ ] b (needs: nothing)\n")[1]
    assert isinstance(bad, Bad)
    assert (bad.where, "'nothing'" in bad.why) == ("plan.md:2", True)


def test_a_text_without_boxes_is_no_plan():
    assert "box" in read("# hello\n- item\n")[0].why


def test_it_comes_in_once(tmp_path, monkeypatch, capsys):
    from taskpit.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.md").write_text("1. [ ] First\n2. [ ] Second\n", encoding="utf-8")
    assert main(["init"]) == 0
    for wanted in ("2 in", "0 in, 2 there already"):
        capsys.readouterr()
        assert main(["import", "plan.md", "--from", "checklist"]) == 0
        assert wanted in capsys.readouterr().out
    assert main(["list"]) == 0
    assert "Waiting  Second  needs 0001" in capsys.readouterr().out
