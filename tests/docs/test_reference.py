"""The reference says what the program does: it is written by it, and a page that is out of date is refused."""

from __future__ import annotations

import pytest
import reference
import sessions

from taskpit.cli import verbs


@pytest.mark.parametrize("name", reference.PAGES)
def test_the_page_is_up_to_date(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")  # it must not matter who looks
    kept = (sessions.ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")

    assert kept == reference.PAGES[name](), f"docs/reference/{name} is stale: `make reference` writes it anew"


def test_every_verb_and_setting_is_there():
    commands, settings = reference.commands(), reference.configuration()

    assert [verb.name for verb in verbs.VERBS if f"### {verb.name}\n" not in commands] == []
    assert "| `lease` |" in settings
    assert "| `stagger` |" in settings
    assert "| `durability` |" in settings


def test_every_setting_says_what_it_is_for():
    from taskpit.config import SAMPLE, Config

    assert [key for key, told in reference.fields(Config).items() if not told] == []
    assert [key for key in Config.__struct_fields__ if f"# {key} = " not in SAMPLE and f"# [{key}]" not in SAMPLE] == []
