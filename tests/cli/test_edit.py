"""`edit`, by options and in an editor."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _texts(tmp_path, monkeypatch):
    """What a person wrote and could not be taken is kept with the temporary files: here, with those of the test."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def on_a_terminal(monkeypatch):
    """The next command believes that a person is there."""

    def pretend(editor):
        monkeypatch.setenv("EDITOR", str(editor))
        monkeypatch.setattr("taskpit.cli.edit._has_person", lambda: True)

    return pretend


def test_options_replace_what_was_there(pit, place):
    pit("add", "old", "--tag", "a", "--needs", "y", "--body", "old text", "--priority", "1")
    (place / "new.md").write_text("new text")
    answer = pit(
        "edit", "1", "--title", "new", "--tag", "b,c", "--needs", "", "-F", "new.md", "--priority", "9", "--big"
    )
    task = pit("show", "1", "--json").data

    assert answer.out == "0001 is changed\n"
    assert (task["title"], task["tags"], task["needs"], task["body"]) == ("new", ["b", "c"], [], "new text")
    assert (task["priority"], task["big"]) == (9, True)
    assert pit("edit", "1", "--no-big", "--json").data["big"] is False
    assert pit("edit", "1", "--set", "type=bug", "--json").data["extra"] == {"type": "bug"}


def test_edit_keeps_what_a_person_wrote(pit, place):
    path = place / "pit/food/food-7-mine.md"
    path.write_text("# food-7-mine\n- **task:** mine\n- **mood:** good   # today\n\nText.\n")
    pit("edit", "7", "--priority", "5")

    assert (
        path.read_text() == "# food-7-mine\n- **task:** mine\n- **mood:** good   # today\n- **priority:** 5\n\nText.\n"
    )


def test_edit_refuses_what_is_wrong(pit):
    pit("add", "x")
    pit("add", "y", "--needs", "1")

    assert pit("edit", "1").code == 2
    assert pit("edit", "1", "--title", "").code == 6
    assert pit("edit", "1", "--needs", "2").code == 6
    assert pit("edit", "1", "--needs", "../x").code == 6
    assert pit("edit", "1", "--not-before", "soon").code == 6
    assert pit("edit", "nosuch", "--title", "x").code == 5
    pit("claim", "1", "--as", "other")
    assert pit("edit", "1", "--title", "x").code == 4
    assert pit("show", "1", "--json").data["title"] == "x"


def test_edit_warns_of_missing_needs(pit):
    pit("add", "x")

    assert "nobody" in pit("edit", "1", "--needs", "nobody").err


def test_in_an_editor(pit, on_a_terminal):
    pit("add", "old title", "--body", "text")
    on_a_terminal("sed -i 's/old title/new title/'")

    assert pit("edit", "1").out == "0001 is changed\n"
    assert pit("show", "1", "--json").data["title"] == "new title"


def test_an_editor_that_changes_nothing(pit, on_a_terminal):
    pit("add", "title")
    on_a_terminal("true")

    assert pit("edit", "1").out == "0001 is unchanged\n"


def test_an_editor_that_fails_or_writes_nonsense(pit, on_a_terminal):
    pit("add", "title")
    for editor in ("false", "no-such-editor-here", "sed -i 's/created:.*/created:** soon/'", "'"):
        on_a_terminal(editor)
        assert pit("edit", "1").code == 6, editor
    assert pit("claim", "--json").data["task"]["title"] == "title"


def test_somebody_else_was_faster(pit, place, on_a_terminal):
    pit("add", "title")
    path = place / "pit/food/food-0001-title.md"
    (place / "editor").write_text(f"#!/bin/sh\necho mine >> \"$1\"\necho theirs >> '{path}'\n")
    (place / "editor").chmod(0o755)
    on_a_terminal(f"'{place}/editor'")

    assert pit("edit", "1", "--json").error["code"] == "conflict"
    assert pit("show", "1", "--json").data["body"].endswith("theirs")


def test_a_mistake_opens_the_editor_again_with_the_text(pit, on_a_terminal, tmp_path):
    """B3: `priority: soon` printed `invalid literal for int()`, and what was typed was gone."""
    pit("add", "one", "--priority", "2")
    script = tmp_path / "editor"
    script.write_text(
        "#!/bin/sh\n"
        f'cd "{tmp_path}"; cp "$1" seen-$(ls | grep -c seen)\n'
        'if [ -e twice ]; then sed -i "s/soon/7/" "$1"; else\n'
        'touch twice; sed -i "s/priority:.*/priority:** soon/" "$1"; echo "many words" >> "$1"; fi\n'
    )
    script.chmod(0o755)
    on_a_terminal(f"'{script}'")
    answer = pit("edit", "1")
    again = (tmp_path / "seen-1").read_text()
    assert "'soon' is not a whole number" in again.splitlines()[0]
    assert "many words" in again
    assert (answer.code, answer.out) == (0, "0001 is changed\n")
    task = pit("show", "1", "--json").data
    assert (task["priority"], task["body"].strip()) == (7, "many words")


def test_who_gives_up_finds_the_text_in_a_file(pit, on_a_terminal, tmp_path):
    pit("add", "one", "--priority", "2")
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\nsed -i "s/priority:.*/priority:** soon/" "$1"\n')
    script.chmod(0o755)
    on_a_terminal(f"'{script}'")
    answer = pit("edit", "1")
    assert answer.code == 6
    kept = answer.err.split("what you wrote is in ")[1].rstrip(".\n")
    with open(kept, encoding="utf-8") as file:
        assert "priority:** soon" in file.read()


def test_tags_are_added_and_removed(pit):
    pit("add", "one", "--tag", "web", "--tag", "old")
    pit("edit", "1", "--add-tag", "new,web", "--remove-tag", "old")
    assert pit("show", "1", "--json").data["tags"] == ["web", "new"]


def test_ones_own_claim_is_called_so(pit):
    """B11: it said that somebody else holds it."""
    pit("add", "one")
    pit("claim", "1")
    answer = pit("edit", "1", "--title", "two")
    assert "0001 is your own claim" in answer.err
    assert "pit release 0001" in answer.err
