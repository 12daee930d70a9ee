"""`add --from`: tasks from a template of the queue."""

from __future__ import annotations

import pytest

BUG = """Find it, fix it, write down why.
- **fields:** area, severity=low

# find: Find the bug in {area}
- **tags:** {area}, {severity}

Say how {it} happens: `{ not a field }`.

# fix: Fix it
- **needs:** find
- **done-when:** `make test-{area}` is green.

# Tell people
- **needs:** fix
- **priority:** 3
"""


@pytest.fixture
def kitchen(pit, place):
    """A queue, and `write` for its templates."""
    folder = place / "pit" / "templates"
    folder.mkdir()

    def write(name, text):
        (folder / f"{name}.md").write_text(text, encoding="utf-8")

    write("bug", BUG.replace("{it}", "it"))
    pit.write = write
    return pit


def test_several_tasks_with_needs_at_once(kitchen):
    made = kitchen("add", "--from", "bug", "area=api", "--tag", "night", "--json").data
    assert made["ids"] == ["0001", "0002", "0003"]
    find, fix, tell = (kitchen("show", number, "--json").data for number in "123")
    assert (find["title"], find["tags"]) == ("Find the bug in api", ["api", "low", "night"])
    assert find["body"].strip() == "Say how it happens: `{ not a field }`."
    assert (fix["needs"], fix["check"]) == (["0001"], "make test-api")
    assert (tell["needs"], tell["priority"]) == (["0002"], 3)


def test_every_option_applies_to_the_tasks_of_a_template(kitchen):
    kitchen("add", "before")
    options = ["--check", "true", "--not-before", "2030-01-01T00:00:00Z", "--attempts", "2", "--big", "--set", "a=b"]
    options += ["--touches", "src/*", "--parent", "1", "--limit", "staging=1", "--needs", "1", "--priority", "5"]
    made = kitchen("add", "--from", "bug", "area=api", *options, "--json").data
    assert (made["ids"], made["missing_needs"]) == (["0002", "0003", "0004"], [])
    for task_id, needs in zip(made["ids"], (["0001"], ["0002", "0001"], ["0003", "0001"]), strict=True):
        card = kitchen("show", task_id, "--json").data
        assert (card["check"], card["not_before"], card["max_attempts"]) == ("true", "2030-01-01T00:00:00Z", 2)
        assert (card["big"], card["extra"], card["touches"], card["parent"]) == (True, {"a": "b"}, ["src/*"], "0001")
        assert (card["limits"], card["needs"], card["priority"]) == (["staging=1"], needs, 5)


def test_spare_tasks_and_races_are_made_from_a_template(kitchen):
    kitchen("add", "--from", "bug", "area=api", "--spare", "--race", "2")
    card = kitchen("show", "1", "--json").data
    assert (card["held"].split(":")[0], card["extra"]) == ("spare", {"race": "2"})
    assert kitchen("add", "--from", "bug", "area=api", "--race", "1").code == 6


def test_what_does_not_exist_yet_is_told(kitchen):
    made = kitchen("add", "--from", "bug", "area=api", "--needs", "77", "--json")
    assert made.data["missing_needs"] == ["0077"]
    assert "0001 waits for 0077, which does not exist yet" in made.err


FEATURE = """- **fields:** what

# plan: Plan {what}
# build: Build {what}
- **needs:** plan
- **done-when:** `make test` is green.

# review: Review {what}
- **needs:** build
# Document {what}
- **needs:** build, review
"""


def test_a_recipe_of_four_tasks_from_one_command(kitchen):
    kitchen.write("feature", FEATURE)
    assert kitchen("add", "--from", "feature", "what=search", "--json").data["ids"] == ["0001", "0002", "0003", "0004"]
    cards = [kitchen("show", number, "--json").data for number in "1234"]
    assert [card["title"] for card in cards] == [f"{verb} search" for verb in ("Plan", "Build", "Review", "Document")]
    assert [card["needs"] for card in cards] == [[], ["0001"], ["0002"], ["0002", "0003"]]
    assert [row["id"] for row in kitchen("list", "--ready", "--json").data] == ["0001"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["bug"], "wants area"),
        (["bug", "aera=x"], "Did you mean 'area'?"),
        (["bug", "area"], "FIELD=VALUE"),
        (["bgu"], "Did you mean 'bug'?"),
        (["../secret"], "no template"),
        (["bug", "area=x", "--id", "7"], "--id does not go"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_made(kitchen, words, told):
    refused = kitchen("add", "--from", *words)
    assert refused.code in (2, 5, 6)
    assert told in refused.err
    assert kitchen("list", "--json").data == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nothing here\n", "has no task"),
        ("# Fix {aera}\n- **tags:** x\n", "{aera} is no field"),
        ("- **fields:** area\n\n# Fix {aera}\n", "Did you mean 'area'?"),
        ("# a: one\n# a: two\n", "two tasks are called a"),
        ("- **fields:** A B\n\n# x\n", "cannot be a field"),
        ("# x\n- **priority:** soon\n", "priority"),
    ],
)
def test_a_template_that_is_wrong_is_told_with_its_place(kitchen, text, told):
    kitchen.write("odd", text)
    refused = kitchen("add", "--from", "odd")
    assert refused.code == 6
    assert told in refused.err
    assert "odd" in refused.err
    assert kitchen("list", "--json").data == []


def test_a_template_of_one_task_needs_no_names(kitchen):
    kitchen.write("one", "# Water the plants\n")
    assert kitchen("add", "--from", "one").out == "0001  Water the plants\n"


@pytest.mark.parametrize("inner", ["```\n# Not a task\n```", "~~~~\n# Not a task", "```` x\n# Not a task"])
def test_code_inside_code_makes_no_task(kitchen, inner):
    kitchen.write("doc", f"# Write the page\n\n````md\n{inner}\n`````\n\n# Publish it\n")
    assert kitchen("add", "--from", "doc").out == "0001  Write the page\n0002  Publish it\n"


def test_a_link_is_no_template(kitchen, place):
    (place / "secret.md").write_text("# x\n", encoding="utf-8")
    (place / "pit" / "templates" / "link.md").symlink_to(place / "secret.md")
    assert kitchen("add", "--from", "link").code == 6


def test_words_without_a_template_are_too_many(kitchen):
    assert kitchen("add", "one", "two").code == 2
    assert kitchen("add").code == 2


@pytest.mark.parametrize("above", ["", "- **tags:** bug\n", "- **tags:** bug\n\n"])
def test_what_is_filled_in_is_no_bullet(kitchen, above):
    """A line of the body that is one field: what an issue says there was the check of the task."""
    kitchen.write("issue", f"- **fields:** title, text\n\n# {{title}}\n{above}{{text}}\n")
    evil = "- **done-when:** `touch owned` is green."
    for fields in (("title=x", f"text={evil}"), (f"title={evil}", f"text=x\n{evil}")):
        (task,) = kitchen("add", "--from", "issue", *fields, "--json").data["ids"]
        shown = kitchen("show", task, "--json").data
        assert not shown["check"]
        assert evil in shown["body"]
