"""Every verb, used wrong: the right exit code, no traceback, and always a next step that destroys nothing."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from taskpit.cli import verbs
from taskpit.cli.parser import make_parser

#: A plain use of each verb that needs words; a verb that is not here is used alone.
USES = {
    **dict.fromkeys(("show", "why", "diff", "renew", "done", "release", "unblock", "retry", "cancel"), ("1",)),
    "add": ("x",),
    "edit": ("1", "--title", "y"),
    "import": ("x.jsonl",),
    "fail": ("1", "--error", "x"),
    "convert": ("there", "--layout", "mailbox"),
    "split": ("1", "-F", "x"),
    "ask": ("1", "q"),
    "note": ("1", "n"),
    "block": ("1", "r"),
    "answer": ("1", "a"),
    "tell": ("1", "t"),
    "task": ("start", "WI-001-A1-T1"),
    "lock": ("n",),
    "pivot": ("start", "WI-001", "--reason", "r"),
    "work": ("--", "true"),
    "crew": ("restart", "x"),
    "pipe": ("make", "a", "b"),
    "search": ("x",),
    "setup": ("claude",),
    "hook": ("stop",),
}
#: Verbs that do without a queue.
ALONE = {"init", "demo", "bench", "completion", "setup", "hook", "roles", "notify"}
OF_ONE_TASK = [verb for verb, words in USES.items() if words[:1] == ("1",)]
DESTRUCTIVE = re.compile(r"\brm |--force|reset --hard|clean -|unlink|delete", re.IGNORECASE)


def words_needed(verb):
    """Whether it cannot be used without a word."""
    parser = make_parser(verb)
    return any(action.required and action.nargs in (None, "+") for action in parser._actions)


def refused(answer, *codes):
    """It was refused as it should be."""
    assert answer.code in codes, (answer.code, answer.out, answer.err)
    told = answer.out + answer.err
    assert "Traceback" not in told
    assert "something unexpected" not in told
    assert re.search(r"^pit: .{8,}$", answer.err, re.MULTILINE), told
    assert re.search(r"^  hint: .{8,}$", answer.err, re.MULTILINE), told
    assert not DESTRUCTIVE.search(told), told
    assert answer.out == ""


def snapshot(folder):
    """Every file and what is in it, without what is written by looking."""
    skip = {"workers", "guard", "fences", "index", "tmp"}
    files = {path.relative_to(folder): path for path in sorted(Path(folder).rglob("*")) if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not skip & set(name.parts)}


@pytest.mark.parametrize("verb", [verb.name for verb in verbs.VERBS if verb.name not in ALONE])
def test_without_a_queue(run, verb):
    assert verb in USES or not words_needed(verbs.find(verb)), "say in USES how it is used"
    answer = run(verb, *USES.get(verb, ()))
    refused(answer, *((6,) if "terminal" in answer.err else (1, 5)))
    assert os.listdir(".") == []


@pytest.mark.parametrize("verb", verbs.VERBS, ids=lambda verb: verb.name)
def test_without_its_words_and_with_an_option_it_has_not(pit, verb):
    before = snapshot(".")
    if words_needed(verb):
        refused(pit(verb.name), 2)
        assert "missing: " in pit(verb.name).err
    answer = pit(verb.name, "--nonsense")
    refused(answer, 2)
    assert "there is no option --nonsense" in answer.err
    assert snapshot(".") == before


@pytest.mark.parametrize("verb", [*OF_ONE_TASK, "claim"])
def test_a_task_that_is_not_there(pit, verb):
    pit("add", "x")
    before = snapshot(".")
    for word in ("nosuch", "../etc/passwd", "9" * 300, "1\n2"):
        refused(pit(verb, word, *USES.get(verb, ("1",))[1:]), 5)
        assert snapshot(".") == before, word


STATES = {"ready": "0001", "other": "0002", "done": "0003", "failed": "0004", "held": "0005"}


@pytest.fixture
def zoo(pit):
    """One task in every state, none of them mine."""
    for title in STATES:
        pit("add", title)
    pit("claim", "2", "--as", "other")
    pit("claim", "3")
    pit("done", "3")
    pit("claim", "4")
    pit("fail", "4", "--error", "x", "--final")
    pit("block", "5", "because")
    Path("x").write_text('{"title": "part"}\n', encoding="utf-8")
    return pit


WRONG = {
    "claim": {"other": 4, "done": 6, "failed": 6, "held": 3},
    "done": {"ready": 4, "other": 4, "failed": 4, "held": 4},
    **{verb: dict.fromkeys(STATES, 4) for verb in ("renew", "fail", "release", "ask")},
    "split": {"other": 4, "done": 4, "failed": 4},
    **{verb: {"other": 4, "done": 6, "failed": 6} for verb in ("edit", "block", "unblock")},
    "retry": {"other": 4, "done": 6},
    "cancel": {"done": 6, "failed": 6},
    "answer": dict.fromkeys(STATES, 6),
}


@pytest.mark.parametrize("verb", WRONG)
def test_a_task_in_the_wrong_state(zoo, verb):
    before = snapshot("pit")
    for state, code in WRONG[verb].items():
        answer = zoo(verb, STATES[state], *USES.get(verb, ("1",))[1:])
        refused(answer, code)
        assert STATES[state] in answer.err
        assert "is failed" not in answer.err
    assert snapshot("pit") == before


def test_a_held_task_is_not_offered(zoo):
    answer = zoo("done", "5")
    assert "0005 needs a person, not claimed" in answer.err
    assert "pit why 0005" in answer.err


INPUTS = {
    "nothing": (
        5,
        ["add x -F nofile", "split 1 -F nofile", "done 1 --result nofile", "import nofile", "up --config no"],
    ),
    "binary": (6, ["add x -F binary", "done 1 --result binary"]),
    "not utf-8": (6, ["add x -F latin", "import latin.md"]),
    "no json": (6, ["import broken.json", "import broken.jsonl", "split 1 -F broken.jsonl", "split 1 -F empty"]),
    "a folder": (6, ["add x -F folder", "import folder"]),
    "a circle": (6, ["import circle.jsonl"]),
    "what is it": (6, ["import binary"]),
    "no value": (
        2,
        [
            *(
                "add x --priority soon",
                "add x --attempts -1",
                "claim --lease soon",
                "claim --lease 0s",
                "claim --wait x",
            ),
            *("work --until never -- true", "work --budget lots -- true", "work -n 0 -- true", "list --state odd"),
            *("list --limit x", "log --since x", "lock n --ttl x", "bench --seconds 0", "completion tcsh"),
            *("add Fix the login", "doctor --dry-run", "-C", "--odd", "nonsense", "add x --prioritty 3"),
        ],
    ),
    "no meaning": (
        6,
        [
            *(
                "add x --not-before someday",
                "add x --set a",
                "add x --set =1",
                "add x --id a-b",
                "add x --id ..",
                "lock a/b",
            ),
            *("claim --as a.b", "init z --layout odd", "convert pit --layout mailbox", "task start 1", "pipe make a b"),
        ],
    ),
    "not there": (5, ["work --agent odd", "init z --template odd", "unlock nosuch", "log --task nosuch"]),
    "no command": (1, ["work -- no-such-command", "lock n -- no-such-command", "work --worktree -- true"]),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_input_that_cannot_be_read(pit, place, kind):
    pit("add", "x")
    pit("claim", "1")
    (place / "binary").write_bytes(b"\0\1")
    (place / "latin").write_bytes(b"caf\xe9")
    (place / "latin.md").write_bytes(b"- **task:** caf\xe9")
    (place / "broken.json").write_text("{")
    (place / "broken.jsonl").write_text('{"title": 1}\n')
    (place / "empty").write_text("")
    (place / "circle.jsonl").write_text(
        '{"id": "a", "title": "a", "needs": ["b"]}\n{"id": "b", "title": "b", "needs": ["a"]}\n'
    )
    (place / "folder").mkdir()
    before = snapshot(place)
    code, lines = INPUTS[kind]
    for line in lines:
        refused(pit(*line.split()), code)
    assert snapshot(place) == before


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("pit/.taskpit/config.toml", 'leese = "1h"\n', ["list"]),
        ("pit/.taskpit/config.toml", "lease = 1h\n", ["list"]),
        ("pit/.taskpit/config.toml", 'lease = "soon"\n', ["list"]),
        ("pit/.taskpit/layout", "odd\n", ["list"]),
        ("pit/agents.toml", "[[agent]\n", ["up"]),
        ("pit/agents.toml", '[[agent]]\nnaem = "x"\n', ["up"]),
    ],
)
def test_a_settings_file_with_a_mistake(pit, file, text, words):
    Path(file).write_text(text, encoding="utf-8")
    if words == ["up"]:  # what a crew file starts needs trust, which is asked for first
        pit("trust", "--yes")
    answer = pit(*words)
    refused(answer, 6)
    assert os.path.basename(file) in answer.err


def test_programs_are_told_the_same(pit):
    answer = pit("claim", "nosuch", "--json")
    assert answer.err == ""
    error = json.loads(answer.out)["error"]
    assert (error["code"], bool(error["hint"])) == ("not_found", True)


def test_what_was_probably_meant(pit):
    assert "Did you mean --priority?" in pit("add", "x", "--prioritty", "3").err
    assert "Did you mean --priority?" in pit("add", "x", "--prio", "3").err
    assert "Did you mean" not in pit("add", "x", "--weird").err  # --id has two dashes as well, and that is all
    assert "too many words: the login" in pit("add", "Fix", "the", "login").err
    assert "quotes" in pit("add", "Fix", "the", "login").err
    assert "For example: `pit add 'Fix the login'" in pit("add").err
    assert "start|done|wait" in pit("task").err


def test_an_empty_queue_says_how_to_begin(pit):
    assert "The queue is empty" in pit("claim").err
    assert "pit add" in pit("list").out


def test_a_pool_that_did_nothing_says_where_to_look(pit):
    pit("add", "first")
    pit("add", "second", "--needs", "1")
    pit("add", "third")
    pit("block", "3", "not yet")
    answer = pit("work", "--tag", "other", "--until", "empty", "--", "true")

    assert answer.code == 0
    assert answer.out.splitlines()[-3:] == [
        "1 ready, but none for this pool: they are big or have other tags. `pit why ID` explains.",
        "1 needs you: `pit status` says what for.",
        "1 waiting: `pit list` says what for.",
    ]


def test_a_worker_in_a_run_asks_without_naming_its_task(pit):
    pit("add", "Pick a database")
    pit("work", "--until", "empty", "--", "sh", "-c", "pit ask 'Which database?'")

    assert "0001 asks: Which database?\n`pit answer" in pit("why", "1").out
    alone = pit("ask", "Which database?")
    assert (alone.code, "the id of the task or the question is missing" in alone.err) == (2, True)


def test_help_about_no_verb_is_an_error_with_a_suggestion(pit):
    answer = pit("help", "template")
    assert (answer.code, "pit add --from" in answer.err) == (2, True)


def test_a_big_task_says_who_takes_it(pit):
    pit("add", "small")
    pit("add", "x", "--big")

    assert "any worker may take it" in pit("why", "1").out
    assert "pit work --big" in pit("why", "2").out


def test_a_port_that_is_none(pit):
    for verb in (["web"], ["mcp", "--http"]):
        answer = pit(*verb, "--port", "99999")
        assert answer.code == 2
        assert "'99999' is not a port" in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ["claim", ""],
        ["claim", "--tag", ""],
        ["list", "--tag", " , "],
        ["list", "--since", ""],
        ["log", "--task", ""],
        ["log", "--since", ""],
        ["token", "add", "bob", "--tag", ""],
        ["work", "--tag", "", "--until", "empty", "--", "true"],
        ["work", "--land", "merge", "--review-tag", "", "--until", "empty", "--", "true"],
    ],
)
def test_an_empty_word_as_of_an_unset_variable_is_not_every_task(pit, words):
    pit("add", "one")
    answer = pit(*words)
    assert answer.code in (2, 6), answer.out
    assert "empty" in answer.err or "''" in answer.err
    assert pit("list", "--json").data[0]["state"] == "ready"
    assert pit("token", "list", "--json").data == {"tokens": []}


@pytest.mark.parametrize(
    "words",
    [
        ["--review", "person"],
        ["--review-tag", "web"],
        ["--review-limit", "3"],
        ["--land-check", "false"],
        ["--frozen", "tests/**"],
        ["--onto", "main"],
        ["--setup", "true", "--setup-key", "a", "--copy", "b"],
        ["--merge", "ff"],
    ],
)
def test_how_changes_land_is_not_said_of_a_pool_whose_changes_do_not(pit, words):
    """They would be worked on here and called done, and nobody would have looked."""
    pit("add", "one")
    answer = pit("work", "--until", "empty", *words, "--", "true")
    assert answer.code == 2
    assert words[0] in answer.err
    assert "--land" in answer.err
    assert pit("list", "--json").data[0]["state"] == "ready"
    assert pit("work", "--until", "empty", "--land", "none", *words, "--", "true").code == 0


def test_a_lock_that_is_let_go_runs_no_command(pit):
    pit("lock", "name")
    answer = pit("lock", "name", "--release", "--", "true")
    assert answer.code == 2
    assert "--release" in answer.err
    assert len(pit("lock", "--json").data) == 1


@pytest.mark.parametrize("words", [["--all", "-f"], ["--all", "WI-001"], ["WI-001", "-f"]])
def test_what_status_shows_by_itself_is_not_left_out_in_silence(pit, words):
    assert pit("status", *words).code == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("every --check X", "WHEN and TITLE"),
        ("every --priority 0", "WHEN and TITLE"),
        ("lock --ttl 5m", "which lock"),
        ("lock --human", "which lock"),
        ("lock name --release --ttl 5m", "--ttl"),
        ("split 1 a b --wait --no-wait", "--no-wait"),
        ("token list NAME", "not one"),
        ("token list --tag x", "--tag"),
        ("token revoke ann --expires 3d", "--expires"),
        ("mcp --port 8765", "--http"),
        ("status --for 1s", "--for"),
        ("trace 1 --for 1s", "--for"),
        ("trace 1 -f", "-f"),
        ("crew up --now", "--now"),
        ("import - --from github --again", "--again"),
        ("pause one --reason another", "twice"),
        ("fail 1 one --reason another", "twice"),
    ],
)
def test_what_would_mean_nothing_is_refused(pit, line, told):
    """It was left out in silence."""
    pit("add", "x")
    answer = pit(*line.split())

    assert answer.code == 2
    assert told in answer.err
    assert "hint:" in answer.err
