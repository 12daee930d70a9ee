"""Plans in Markdown: twenty as people and agents write them, each with what waits for what."""

from __future__ import annotations

from pathlib import Path

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
    "parts of a later number": (
        "1. [ ] plan\n2. [ ] build\n   - [ ] api\n   - [ ] web\n3. [ ] ship\n",
        {"plan": [], "build": ["plan", "api", "web"], "api": ["plan"], "web": ["plan"], "ship": ["build"]},
    ),
    "the same twice": ("- [ ] test\n- [ ] test\n", {"test": []}),
    "bold titles": ("- [ ] **Write the API**\n", {"Write the API": []}),
    "code between": ("```\n- [ ] no item\n```\n- [ ] a\n", {"a": []}),
    "code inside code": ("````\n```\n- [ ] no item\n```\n~~~\n````\n- [ ] a\n", {"a": []}),
    "code inside a line": ("- [ ] a\n```x``` y\n- [ ] b\n", {"a": [], "b": []}),
    "text between": ("We begin.\n\n- [ ] a\n\nThen we go on.\n\n- [ ] b\n", {"a": [], "b": []}),
}

#: The plans of the folder `plans`, as people, issue forms and agents write them: how many tasks are left to do,
#: and one of them with what it waits for.
WRITTEN = {
    "agent": (3, "Fix the race", ["Add a failing test"]),
    "api": (7, "Client", ["Design"]),
    "code-in-between": (2, "Remove the flag", ["Add the flag"]),
    "dependencies": (3, "Major versions", ["Minor versions"]),
    "docs-plan": (4, "NFS", []),
    "done-already": (1, "four", []),
    "incident": (3, "Try it in a drill", ["Write a runbook"]),
    "issue": (5, "Fix", ["backend", "frontend"]),
    "long-titles": (2, "Test it", []),
    "migration": (5, "Stop writes", ["Take a backup", "Upgrade the replica"]),
    "mixed": (4, "Send the mail", ["Draft the mail"]),
    "onboarding": (5, "First change", ["Git", "Read the handbook"]),
    "refactoring": (6, "billing", ["invoices", "cards"]),
    "release": (3, "Tag and publish", ["Bump the version"]),
    "requirements": (4, "1.0 Stream exports", ["1.2 Write rows as they come", "1.3 Test with a million rows"]),
    "security": (3, "Second audit", ["Rotate the signing keys", "Pin the actions"]),
    "spec": (5, "T004 Integration test", ["T001 Create the project structure", "T002 Configure linting"]),
    "sprint": (4, "Compare the traces", ["Cache prices", "Fewer queries"]),
    "unicode": (3, "Veröffentlichen (nach Prüfung)", ["Größe prüfen"]),
    "wiki": (3, "Redirect the old links", ["Move the pages"]),
}


def test_every_plan_is_tried():
    assert sorted(path.stem for path in (Path(__file__).parent / "plans").iterdir()) == sorted(WRITTEN)


@pytest.mark.parametrize("plan", WRITTEN)
def test_a_plan_as_it_is_written(plan):
    count, title, needs = WRITTEN[plan]
    found = read((Path(__file__).parent / "plans" / f"{plan}.md").read_text(encoding="utf-8"))
    titles = {one.task.id: one.task.title for one in found}
    left = {one.task.title: [titles[need] for need in one.task.needs] for one in found if not one.over}
    assert (len(left), left.get(title)) == (count, needs), left


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


def test_a_plan_that_became_one_task_is_told(tmp_path, monkeypatch, capsys):
    from taskpit.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.md").write_text("# Plan\n\n1. [ ] First\n2. [ ] Second\n", encoding="utf-8")
    assert main(["init"]) == main(["import", "plan.md"]) == 0
    assert "`pit import plan.md --from checklist` makes a task of each box" in capsys.readouterr().err


def test_it_comes_in_once(tmp_path, monkeypatch, capsys):
    from taskpit.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.md").write_text("1. [ ] First\n2. [ ] Second\n", encoding="utf-8")
    assert main(["init"]) == 0
    for wanted in ("2 added", "0 added, 2 already there"):
        capsys.readouterr()
        assert main(["import", "plan.md", "--from", "checklist"]) == 0
        assert wanted in capsys.readouterr().out
    assert main(["list"]) == 0
    assert "Waiting  Second  needs 0001" in capsys.readouterr().out


def test_plans_with_items_of_the_same_title_lose_none(tmp_path, monkeypatch, capsys):
    from taskpit.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "api.md").write_text("- [ ] Design\n- [ ] Write the tests\n", encoding="utf-8")
    (tmp_path / "web.md").write_text("- [ ] Write the tests\n- [ ] Ship (needs: Write the tests)\n", encoding="utf-8")
    assert main(["init"]) == 0
    for plan, wanted in (("api.md", "2 added"), ("web.md", "2 added"), ("web.md", "0 added, 2 already there")):
        capsys.readouterr()
        assert main(["import", plan, "--from", "checklist"]) == 0
        told = capsys.readouterr()
        assert (wanted in told.out, told.err) == (True, "")
    assert main(["list"]) == 0
    assert "needs 0003, which is not done yet" in capsys.readouterr().out


def test_what_came_in_without_the_name_of_its_plan_is_known_and_told(tmp_path, monkeypatch, capsys):
    from taskpit.cli.main import main
    from taskpit.importers.checklist import Checklist

    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.md").write_text("1. [ ] First\n2. [ ] Second\n", encoding="utf-8")
    assert main(["init"]) == 0
    with monkeypatch.context() as before:
        before.setattr("taskpit.importers.checklist.os.path.basename", lambda _: "")
        assert [one.task.id for one in Checklist().read("plan.md", "- [ ] First\n")] == ["#first"]
        assert main(["import", "plan.md", "--from", "checklist"]) == 0
    (tmp_path / "plan.md").write_text("1. [ ] First\n2. [ ] Second\n3. [ ] Third\n", encoding="utf-8")
    for wanted in ("1 added, 2 already there", "0 added, 3 already there"):
        capsys.readouterr()
        assert main(["import", "plan.md", "--from", "checklist"]) == 0
        told = capsys.readouterr()
        assert wanted in told.out
        assert "'First', 'Second'" in told.err
        assert "--name NAME" in told.err
    assert main(["import", "plan.md", "--from", "checklist", "--name", "other"]) == 0
    assert "3 added" in capsys.readouterr().out
