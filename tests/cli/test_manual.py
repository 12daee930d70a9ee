"""The manual is the help of every verb, and nothing in it is left to man's own reading."""

from __future__ import annotations

import manual

from taskpit import errors
from taskpit.cli import verbs


def test_every_verb_and_option_is_there():
    page = manual.man_page()

    for verb in verbs.VERBS:
        told = manual.describe(verb)
        assert told.about, verb.name
        assert told.examples, verb.name
        assert all(meaning for _, meaning in (*told.words, *told.options)), verb.name
        assert f".SS pit {verb.name}" in page
    assert r"\fB\-\-not\-before T\fR" in page


def test_no_line_is_taken_for_a_request():
    known = (".TH", ".SH", ".SS", ".TP", ".PP", ".EX", ".EE")
    for line in manual.man_page().splitlines():
        assert not line.startswith("'")
        assert not line.startswith(".") or line.split()[0] in known, line


def test_every_exit_code_is_explained():
    codes = {getattr(errors, name).exit_code for name in errors.__all__}

    assert codes | {0, 2} <= set(manual.EXIT_CODES)
