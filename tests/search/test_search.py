"""Full text: every field, every store, all the words, the title first."""

from __future__ import annotations

import pytest
from pits import make, task

from taskpit.errors import Invalid
from taskpit.model import Ask, Done, Evidence, Failed
from taskpit.queue import Queue
from taskpit.search import search, words_of
from taskpit.status import read_status
from taskpit.store.memory import MemoryStore
from taskpit.testing import FakeClock


@pytest.fixture(params=["pit", "mailbox", "workspace", "memory"])
def queue(request, tmp_path):
    clock = FakeClock()
    if request.param == "memory":
        made = Queue(MemoryStore(clock), clock=clock)
    else:
        made = make(str(tmp_path / "queue"), clock, layout=request.param)
    yield made
    made.close()


def ids(queue, text, **more):
    return [hit.id for hit in search(queue, text, **more)]


def test_every_field_is_searched(queue):
    queue.put([task(1, title="Mend the Roof", body="with tiles\nof slate", tags=("house",), check="test -e slate.ok")])
    queue.put([task(2), task(3), task(4)])
    queue.note("0002", "ask the mason", "ann")
    (claim,) = queue.claim("digger", ids=["0003"])
    proof = Evidence(command="true", exit_code=0, tail="42 passed")
    queue.finish(claim, Done(output="a well was dug", evidence=proof))
    (claim,) = queue.claim("digger", ids=["0004"])
    queue.finish(claim, Failed(error="the spade broke", final=True))
    fields = {"0001": "id", "roof": "title", "house": "tags", "slate.ok": "body", "mason": "notes", "dug": "result"}
    for word, field in {**fields, "spade": "reason", "42 passed": "result", "digger": "worker"}.items():
        assert [hit.field for hit in search(queue, f'"{word}"')][:1] == [field], word


def test_a_question_is_found(queue):
    queue.put([task(1)])
    (claim,) = queue.claim("a")
    queue.finish(claim, Ask(question="tabs or spaces?"))
    (hit,) = search(queue, "spaces")
    assert (hit.column, hit.field) == ("needs_you", "reason")


def test_all_words_must_occur_and_case_does_not_matter(queue):
    queue.put([task(1, title="Alpha beta"), task(2, title="alpha"), task(3, body="BETA of ALPHA")])
    assert ids(queue, "ALPHA Beta") == ["0001", "0003"]
    assert ids(queue, "alpha gamma") == []


def test_the_title_goes_before_the_text(queue):
    queue.put([task(1, body="the login page", priority=9), task(2, title="login"), task(3, tags=("login",))])
    assert ids(queue, "login") == ["0002", "0003", "0001"]


def test_a_phrase_stands_together_also_across_lines(queue):
    queue.put([task(1, body="a broken\n  pipe"), task(2, body="a pipe that is broken")])
    assert ids(queue, '"broken pipe"') == ["0001"]
    assert set(ids(queue, "broken pipe")) == {"0001", "0002"}


def test_letters_that_fold_to_more_letters_are_found(queue):
    queue.put([task(1, title="Straße kehren", body="groß")])
    assert ids(queue, "STRASSE GROSS") == ["0001"]


def test_only_among_some(queue):
    queue.put([task(1), task(2), task(3)])
    queue.block("0002", "ann", "later")
    queue.claim("a", ids=["0003"])
    found = {column: ids(queue, "task", only=read_status(column)) for column in ("ready", "held", "running", "done")}
    assert found == {"ready": ["0001"], "held": ["0002"], "running": ["0003"], "done": []}


def test_the_best_few_are_the_first_of_all(queue):
    queue.put([task(number, body="word" if number % 2 else "", title=f"word {number}") for number in range(1, 30)])
    assert ids(queue, "word", limit=5) == ids(queue, "word", limit=0)[:5]
    assert len(ids(queue, "word", limit=0)) == 29


def test_a_snippet_shows_what_was_found_and_nothing_a_terminal_obeys(queue):
    text = "much before it " * 50 + "the \x1b[31mneedle\x1b[0m is here " + "and more " * 80
    queue.put([task(1, body=text)])
    (hit,) = search(queue, "needle")
    assert "the needle is here" in hit.snippet
    assert hit.snippet.startswith("…")
    assert "\x1b" not in hit.snippet
    assert len(hit.snippet) < 130


@pytest.mark.parametrize("text", ["", "   ", '""', '" "'])
def test_nothing_to_look_for_is_refused(queue, text):
    with pytest.raises(Invalid, match="nothing to look for"):
        search(queue, text)


def test_words_and_phrases():
    assert words_of('One "Two  three" one fo"ur') == ("one", "two three", "fo", "ur")


def test_it_says_how_far_it_is(queue):
    queue.put([task(1), task(2)])
    seen = []
    search(queue, "task", progress=seen.append)
    assert seen[-1] == 2
