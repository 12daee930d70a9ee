"""`search`: what people and programs see of it."""

from __future__ import annotations

EVIL = "\x1b[2J\x1b]0;owned\x07plain\x9b31m\r\x08\u202etext"


def test_people_see_title_state_and_where_it_stands(pit):
    pit("add", "Mend the roof", "--body", "with slate tiles")
    pit("add", "Slate for all")
    pit("claim", "2")
    assert pit("search", "SLATE").out.splitlines() == [
        "0002  Running    Slate for all",
        "0001  Ready      Mend the roof",
        "      body       with slate tiles",
    ]


def test_programs_see_hits(pit):
    pit("add", "Mend the roof", "--body", "with slate tiles")
    (hit,) = pit("search", "tiles", "--json").data
    assert hit == {
        "id": "0001",
        "title": "Mend the roof",
        "column": "ready",
        "field": "body",
        "snippet": "with slate tiles",
    }


def test_nothing_found_is_no_error(pit):
    answer = pit("search", "unicorn")
    assert (answer.code, answer.out) == (0, "No matching tasks.\n")


def test_only_some_states_and_only_so_many(pit):
    for title in ("word one", "word two", "word three"):
        pit("add", title)
    pit("block", "2", "later")
    assert [hit["id"] for hit in pit("search", "word", "--state", "held", "--json").data] == ["0002"]
    assert "--limit 0" in pit("search", "word", "--limit", "2").out
    assert "--limit 0" not in pit("search", "word", "--limit", "3").out


def test_no_words_is_invalid(pit):
    assert pit("search", "  ").code == 6


def test_hostile_text_does_nothing(pit):
    pit("add", "innocent", "--body", f"needle {EVIL}")
    assert not set("\x1b\x9b\x07\r\u202e") & set(pit("search", "needle").out)
