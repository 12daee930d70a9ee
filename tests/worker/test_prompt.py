"""What a worker is told: the task, how it is judged, and what went wrong before. Text from values."""

from __future__ import annotations

from taskpit.model import Claim, Evidence, Task, Try
from taskpit.run.prompt import LONGEST_ERROR, make_prompt, task_text

TASK = Task(id="0001", title="Count the mice", body="All of them.\n", check="test -s count", extra={"mood": "calm"})


def claim(**fields):
    return Claim(task=TASK.replace(**fields), worker="snake-1", fence="snake-1~x")


def tried(error="no mice", kind="check", *, counted=True, evidence=None):
    return Try(at=1.0, worker="snake-0", kind=kind, error=error, counted=counted, evidence=evidence)


ASK = "If only a person can decide something, run `pit ask 'your question'` and stop.\n\n"


def test_what_is_asked_and_how_it_is_judged():
    assert make_prompt(claim(), [], "/run/result") == (
        "# Count the mice\n\nAll of them.\n\n- mood: calm\n\n"
        "It is done when this command is green; it will be run for you:\n\n    test -s count\n\n"
        f"{ASK}When you are finished, write what you did and found to `/run/result`.\n"
    )
    assert make_prompt(claim(body="", check="", extra={"done-when": "The cat is fat."}), [], "r") == (
        "# Count the mice\n\nIt is done when: The cat is fat.\n\n"
        f"{ASK}When you are finished, write what you did and found to `r`.\n"
    )


def test_what_went_wrong_before():
    evidence = Evidence(command="test -s count", exit_code=3, seconds=0.1, tail="is empty\n# not a heading")
    told = make_prompt(claim(), [tried("first"), tried("second", evidence=evidence)], "r")

    assert "This was tried 2 times. The last attempt failed (check):\n\n    second\n" in told
    assert "first" not in told
    assert "The check `test -s count` ended with exit code 3 and said:" in told
    assert "\n    is empty\n    # not a heading\n" in told, "indented: nothing of it can be taken for ours"


def test_who_died_has_nothing_to_teach():
    assert "What went wrong before" not in make_prompt(claim(), [tried("gone", "lost", counted=False)], "r")
    told = make_prompt(claim(), [tried("no mice"), tried("gone", "lost", counted=False)], "r")
    assert "This was tried once" in told
    assert "    no mice" in told
    assert "gone" not in told


def test_an_error_reaches_no_terminal_raw_and_has_an_end():
    told = make_prompt(claim(), [tried("\x1b[2J" + "x" * 9000)], "r")
    assert "\x1b" not in told
    assert LONGEST_ERROR - 10 < told.count("x") < LONGEST_ERROR + 50


def test_the_tasks_own_text():
    assert task_text(claim(source=b"- **task:** as written\n")) == b"- **task:** as written\n"
    assert task_text(claim()) == b"# Count the mice\n\nAll of them.\n"
