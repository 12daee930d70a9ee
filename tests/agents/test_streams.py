"""What the real CLIs printed against the stand-in model, understood by the shipped presets.

Recorded by `make test-agents`, without what tells nothing (lists of tools, pieces of texts that follow whole).
"""

from __future__ import annotations

import os

import pytest

from taskpit.run.preset import find, places
from taskpit.run.process import Ended
from taskpit.run.transcript import Transcript, judge
from taskpit.run.usage import amount, session_name

STREAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "streams")
NOW = 1794840000.0


def heard(name):
    made = find(name.partition("-")[0], places("", {"HOME": "/nowhere"}))
    transcript = Transcript(made)
    with open(f"{STREAMS}/{name}", "rb") as file:
        transcript.hear(file.readlines())
    transcript.close()
    return made, transcript


@pytest.mark.parametrize("name", sorted(os.listdir(STREAMS)))
def test_each_means_what_its_name_says(name):
    means = name.removesuffix(".log").split("-")[1]
    made, transcript = heard(name)
    code = 0 if means == "done" or made.name in ("qwen", "opencode", "aider", "goose") else 1
    found = judge(transcript, Ended(code=code, seconds=1.0), result=False, resumed=False, now=NOW)
    assert found.means == means


@pytest.mark.parametrize("name", sorted(name for name in os.listdir(STREAMS) if name.endswith("-done.log")))
def test_what_a_good_run_tells(name):
    _, transcript = heard(name)
    assert "Done." in transcript.text("text")
    assert session_name(transcript.facts["session"])
    assert transcript.facts["tools"] == 1
    counted = [transcript.facts.get(key) for key in ("input_tokens", "output_tokens")]
    assert all(amount(one) for one in counted) or "copilot" in name  # that one leaves them in a file


@pytest.mark.parametrize(("name", "counted"), [("claude", 2200), ("opencode", 2000), ("gemini", 2000), ("codex", 2000)])
def test_what_came_from_a_cache_is_part_of_the_input(name, counted):
    _, transcript = heard(f"{name}-done.log")
    assert (transcript.facts["input_tokens"], transcript.facts["cached_tokens"]) == (counted, 200)
    assert transcript.facts["output_tokens"] == 100


def test_words_that_count_whatever_the_exit_code_says():
    made, transcript = heard("aider-auth.log")
    words = "Applied edit to hello.txt\n    litellm.RateLimitError is what we catch here\n"
    told = [(transcript.words, "auth"), (words, "done"), ("litellm.BadRequestError: no such model\n", "failed")]
    for said, means in told:
        transcript = Transcript(made)
        transcript.words = said
        found = judge(transcript, Ended(code=0, seconds=1.0), result=False, resumed=False, now=NOW)
        assert found.means == means, said


def test_an_answer_that_breaks_off_again_and_again_is_a_circle():
    _, transcript = heard("opencode-infra.log")
    assert transcript.circling
    _, transcript = heard("opencode-done.log")
    assert not transcript.circling
