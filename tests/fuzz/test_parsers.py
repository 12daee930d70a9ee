"""Whatever is put into a parser, it returns or refuses as it says it does: no other error, no end to wait for.

`TASKPIT_FUZZ=10` tries ten times as much, other texts in every run, and whole megabytes.
"""

from __future__ import annotations

import os
import re
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from monsters import SHAPES, Late, anything, huge, one_word_wrong, patience
from parsers import MEGABYTE, PARSERS, Parser, load_task
from rotation import examples, part
from waits import PATIENCE

from taskpit import clock, decode, layouts
from taskpit.layouts import markdown, markdown_task
from taskpit.layouts.markdown import Sheet
from taskpit.store import leases

TIMES = int(os.environ.get("TASKPIT_FUZZ", "1"))
#: What anything but a parser that goes over its text again and again has done long before, in seconds.
BY_NAME = {parser.name: parser for parser in PARSERS}

fuzz = settings(
    max_examples=examples(120, 5) * TIMES,
    deadline=None,
    derandomize=TIMES == 1,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_any_text_is_read_or_refused(parser):
    @fuzz
    @given(anything(parser.seeds))
    def read(data):
        with patience(PATIENCE):
            parser(data)

    read()


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_any_word_may_be_wrong(parser):
    for seed in parser.seeds:
        for data in part(one_word_wrong(seed), 8):
            with patience(PATIENCE):
                parser(data)


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_what_it_should_understand_is_understood(parser):
    """Or the fuzzing would only try how well nothing is refused."""
    for seed in parser.seeds:
        parser.run(seed)


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_a_great_deal_of_the_same(parser):
    size = parser.largest if TIMES > 1 else parser.largest // 32
    for head, piece in SHAPES:
        with patience(PATIENCE):
            parser(huge(head, piece, size))


# -- parsers broken on purpose: the tests above must tell ------------------------------------------


def naive_command(value):
    match = re.search(r"(`+)(.+?)(?<!`)\1(?!`)", value)
    return match[2] if match else ""


def naive_head(self, read=Sheet._read_head):
    end = read(self)
    for bullet in self._bullets:
        bullet.value = ""
        for line in self._lines[bullet.line : bullet.line + bullet.count]:
            bullet.value = f"{bullet.value} {line.strip()}".strip()
    return end


SLOW = {
    "commands by backtracking": (markdown, "_between_ticks", naive_command, "pit task"),
    "values line by line": (Sheet, "_read_head", naive_head, "workspace task"),
}


@pytest.mark.skipif(not os.environ.get("TASKPIT_LONG"), reason="runs until the clock stops it: TASKPIT_LONG=1")
@pytest.mark.parametrize("name", SLOW)
def test_a_parser_that_goes_over_it_again_and_again_is_seen(name, monkeypatch):
    where, attribute, naive, victim = SLOW[name]
    monkeypatch.setattr(where, attribute, naive)
    with pytest.raises(Late):  # noqa: PT012 - any of the shapes will do
        for head, piece in SHAPES:
            with patience(3):
                BY_NAME[victim](huge(head, piece, MEGABYTE))


def careless(data):
    import json

    return json.loads(data)


#: So much of it is nested more deeply than Python goes, which from 3.14 on goes as deep as there is memory for it.
DEEP = MEGABYTE // (64 if sys.version_info < (3, 14) else 4)
CARELESS = ["pit task", "changelog line", "worker record", "sightings", "try", "pause", "manifest"]


@pytest.mark.parametrize("name", CARELESS)
def test_json_read_without_care_is_seen(name, monkeypatch):
    """Each of these fell over what is nested deeply."""
    if BY_NAME[name].largest < DEEP:
        pytest.skip("what fits into it is not nested more deeply than this Python goes")
    careful = decode.read_json
    for module in [one for key, one in sys.modules.items() if key.startswith("taskpit.")]:
        if getattr(module, "read_json", None) is careful:
            monkeypatch.setattr(module, "read_json", careless)
    with pytest.raises(RecursionError):  # noqa: PT012 - any of the shapes will do
        for head, piece in SHAPES:
            BY_NAME[name](huge(head, piece, DEEP))


BELIEVED = {
    "sightings": (leases, "_checked", lambda mine: mine, "sightings"),
    "numbers of a result": (
        markdown_task,
        "_number",
        lambda said, default: float(said) if said else default,
        "pit result",
    ),
    "spans without end": (clock, "_in_time", lambda seconds, _: seconds, "duration"),
}


@pytest.mark.parametrize("name", BELIEVED)
def test_what_is_believed_unseen_is_seen(name, monkeypatch):
    """Each of these fell over a word of the wrong kind."""
    where, attribute, credulous, victim = BELIEVED[name]
    monkeypatch.setattr(where, attribute, credulous)
    parser = BY_NAME[victim]
    with pytest.raises((TypeError, ValueError, OverflowError, AssertionError)):  # noqa: PT012 - any will do
        for seed in parser.seeds:
            for data in one_word_wrong(seed):
                parser(data)


def test_a_layout_that_does_not_give_back_what_it_read_is_seen():
    class Tidy(type(layouts.get("pit"))):
        def dump(self, task):
            return super().dump(task).rstrip() + b"\n"

    tidy = Parser("tidy", load_task(Tidy()), BY_NAME["pit task"].seeds)

    @settings(fuzz, report_multiple_bugs=False)
    @given(anything(tidy.seeds))
    def read(data):
        tidy(data)

    with pytest.raises(AssertionError):
        read()
