"""The entry point: verbs, help, exit codes, ends of every kind."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import taskpit
from taskpit import __version__
from taskpit.cli import verbs
from taskpit.cli.main import main

NAMES = [verb.name for verb in verbs.VERBS]


def test_the_overview_fits_a_screen_and_shows_what_people_use(run):
    for words in ([], ["--help"], ["-h"], ["help"]):
        answer = run(*words)
        assert answer.code == 0
        assert len(answer.out.splitlines()) <= 30
        for verb in ("init", "add", "list", "show", "why", "claim", "done", "work", "status", "answer", "board"):
            assert verbs.find(verb).example in answer.out
    assert [row["verb"] for row in run("--json").data] == NAMES


def test_help_all_shows_every_verb_those_of_a_layout_only_there(run):
    told = run("help", "all").out
    assert all(verb.summary in told for verb in verbs.VERBS if verb.group != "work items")
    assert "Replan" not in told
    run("init", "items", "--layout", "activities")
    assert "Replan" in run("-C", "items", "help", "all").out


@pytest.mark.parametrize(("old", "new"), sorted(verbs.MEANT.items()))
def test_earlier_spellings_mean_the_same(run, old, new):
    assert run(old, "--help").out == run(*new[:1], "--help").out


def test_every_verb_has_help_with_a_description_and_an_example(run):
    for name, words in ((name, words) for name in NAMES for words in ("{0} --help", "help {0}", "--help {0}")):
        answer = run(*words.format(name).split())
        assert answer.code == 0, name
        assert f"usage: pit {name}" in answer.out
        assert "Example:\n  " in answer.out, name
        assert f"pit {name}" in answer.out.partition("Example:")[2] or name == "import"
        description = answer.out.partition("\n\n")[2].partition("\n\n")[0]
        assert len(description) > 20, name
        assert not description.startswith(("options", "positional"))


def test_every_verb_and_alias_is_found_and_none_twice():
    words = [word for verb in verbs.VERBS for word in (verb.name, *verb.aliases)]

    assert len(words) == len(set(words))
    for verb in verbs.VERBS:
        assert verbs.find(verb.name) is verb
        for alias in verb.aliases:
            assert verbs.find(alias) is verb
        assert callable(verbs.handler(verb).run)
        assert verb.group in verbs.GROUPS


def test_expected_aliases():
    wanted = {
        "create": "add",
        "ls": "list",
        "next": "claim",
        "pick": "claim",
        "complete": "done",
        "close": "done",
        "finish": "done",
        "heartbeat": "renew",
        "reclaim": "sweep",
        "gc": "sweep",
    }
    for alias, name in wanted.items():
        found = verbs.find(alias)
        assert found is not None
        assert found.name == name


def test_version(run):
    assert run("--version").out == f"pit {__version__}\n"
    assert run("-V").out == run("version").out == run("--version").out
    assert run("--version", "--json").data == {"version": __version__}


def test_an_unknown_verb_is_answered_with_the_nearest(run):
    answer = run("clam")

    assert answer.code == 2
    assert answer.err == "pit: there is no verb 'clam'\n  hint: Did you mean `pit claim`?\n"
    assert run("clam", "--json").error["details"] == {"suggestion": "claim"}
    assert "pit --help" in run("zzzzzzz").err


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("lst", "list"),
        ("stop", "crew down"),
        ("restrat", "crew restart"),
        ("history", "log"),
        ("claude", "work --agent"),
        ("frobnicate", ""),
        ("qwertz", ""),
    ],
)
def test_a_suggestion_is_near_or_there_is_none(pit, word, near):
    hint = f"Did you mean `pit {near}`?" if near else "`pit --help` lists the verbs."
    assert pit(word).err.endswith(f"hint: {hint}\n")


@pytest.mark.parametrize(
    ("word", "verb"),
    [("new", "add"), ("rm", "cancel"), ("remove", "cancel"), ("start", "claim"), ("reopen", "retry"), ("run", "work")],
)
def test_words_that_people_type_are_the_verb(word, verb):
    """B11: `remove` gave `resume`, `new` gave `renew`, `start` gave `restart`."""
    assert verbs.find(word).name == verb


@pytest.mark.parametrize(
    "words",
    [["--nonsense"], ["-C"], ["add"], ["list", "--nonsense"], ["list", "--limit", "x"], ["list", "--sta", "done"]],
)
def test_usage_errors(run, words):
    text, data = run(*words), run("--json", *words)

    assert (text.code, data.code) == (2, 2)
    assert text.out == ""
    assert text.err.startswith("pit: ")
    assert data.error["code"] == "usage"
    assert data.err == ""


def test_global_options_before_and_after_the_verb(pit):
    pit("add", "x")

    for words in (["--json", "-C", "pit", "list"], ["list", "--json", "-C", "pit"], ["-C", "pit", "list", "--json"]):
        assert [task["id"] for task in pit(*words).data] == ["0001"]


def test_options_may_stand_between_arguments(pit):
    pit("add", "x")

    assert pit("note", "1", "--as", "bob", "text").code == 0
    pit("add", "y")
    assert len(pit("show", "1", "--json", "2").data) == 2


def test_something_unexpected_is_one_line_and_a_hint(pit, monkeypatch):
    monkeypatch.setattr("taskpit.queue.Queue.why", _broken)
    pit("add", "x")
    answer = pit("why", "1")

    assert answer.code == 1
    assert answer.err.splitlines() == [
        "pit: unexpected error: ZeroDivisionError: no luck",
        "  hint: Set TASKPIT_DEBUG=1 for a traceback. Nothing acknowledged is lost.",
    ]
    monkeypatch.setenv("TASKPIT_DEBUG", "1")
    assert "Traceback" in pit("why", "1").err
    assert pit("why", "1", "--json").error["code"] == "error"


def _broken(*_):
    raise ZeroDivisionError("no luck")


def test_what_the_disk_refuses_is_storage(pit, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "somewhere")

    pit("add", "x")
    monkeypatch.setattr("taskpit.queue.Queue.why", full)
    answer = pit("why", "1", "--json")

    assert (answer.code, answer.error["code"]) == (8, "storage")
    assert "full" in answer.error["hint"]


def test_help_is_for_people_whatever_else_is_said(run):
    plain = run("add", "--help").out
    for words in (["--json", "add", "--help"], ["add", "--help", "--json"], ["--json", "help", "add"]):
        assert run(*words).out == plain


def test_no_message_suggests_anything_destructive():
    """No text in the whole package does, whatever it is for; comments are for us.

    One option of a command that we run ourselves is let through: it makes git refuse what others have pushed.
    """
    sources = sorted(Path(taskpit.__file__).parent.rglob("*.py"))
    assert len(sources) > 100
    words = ("rm -", "`rm ", "--force", "reset --hard", "git reset", "git checkout ", "unlink ")
    for path in sources:
        source = path.read_text(encoding="utf-8")
        if not any(word in source for word in words):
            continue
        texts = [
            node.value.removeprefix("--force-with-lease=")
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and not node.value.startswith("--force-with-lease=")  # refuses where a plain push would, too
        ]
        for word in words:
            assert not [text for text in texts if word in text], (path.name, word)


# -- as a process ----------------------------------------------------------------------------------


def _pit(*words, **options):
    env = {key: value for key, value in os.environ.items() if not key.startswith("TASKPIT")}
    return subprocess.run(
        [sys.executable, "-m", "taskpit", *words], capture_output=True, text=True, env=env, check=False, **options
    )


def test_as_a_module(place):
    assert _pit("init").returncode == 0
    assert _pit("add", "x").stdout == "0001\n"
    claimed = _pit("claim", "--json")
    assert "@" in json.loads(claimed.stdout)["data"]["worker"]
    assert _pit("done", "1").returncode == 0
    assert _pit("claim").returncode == 3


def test_text_that_is_not_utf8_on_the_command_line(pit):
    words = [sys.executable, "-m", "taskpit", "add", b"caf\xe9"]
    answer = subprocess.run(words, capture_output=True, check=False)

    assert answer.returncode == 6
    assert b"UTF-8" in answer.stderr


def test_a_reader_that_goes_away_ends_it_quietly(pit):
    pit("import", "-", stdin="".join(f'{{"title": "{"x" * 100} {n}"}}\n' for n in range(2000)))
    words = [sys.executable, "-m", "taskpit", "list", "--limit", "0"]
    env = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}  # that hides broken pipes
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()

    assert process.returncode == 141
    assert said == b""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_leads_nowhere(pit, closed):
    """Its number would be the next file's otherwise: what a check prints must not be written into a task."""
    pit("add", "one", "--check", "echo out; echo err >&2; cat")
    pit("claim", "1")
    words = ["/bin/sh", "-c", f"{sys.executable} -m taskpit done 1 {closed}"]
    ended = subprocess.run(words, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (ended.returncode, "unexpected" in ended.stderr) == (0, False)
    assert "Done" in pit("list", "--state", "done").out
    assert pit("doctor").code == 0


def test_an_interrupt_ends_it_quietly(pit):
    words = [sys.executable, "-m", "taskpit", "log", "-f"]
    pit("add", "x")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()  # it runs, and follows
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()

    assert process.returncode == 130
    assert said == b""


def test_main_reads_the_command_line_of_its_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pit", "--version"])

    assert main() == 0
    assert capsys.readouterr().out == f"pit {__version__}\n"


def test_a_mailbox_calls_errors_by_its_own_names(run):
    run("init", "box", "--layout", "mailbox")

    for words, name in ((["claim"], "ErrNoTasks"), (["show", "nosuch"], "ErrTaskNotFound")):
        answer = run("-C", "box", *words, "--json")
        assert answer.error["details"]["name"] == name
        assert answer.error["message"].startswith(f"{name}: ")


def test_an_agent_alone_is_no_command(pit):
    """B11: `work claude` did not suggest `--agent`."""
    answer = pit("work", "claude")
    assert answer.code == 2
    assert "pit work --agent claude" in answer.err
