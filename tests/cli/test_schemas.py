"""The schemas in the package describe what the program prints: every key, of every verb that they list."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from schemata import SCHEMAS, data_of, judge, strict

from taskpit import errors
from taskpit.cli import verbs

#: Verbs without data: they are for a terminal, and say so to programs.
FOR_THE_EYE = {"demo"}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_schema_is_one(name):
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$id"] == name


def test_every_verb_is_listed_but_those_for_the_eye():
    assert {verb.name for verb in verbs.VERBS} - set(SCHEMAS["data.json"]["$defs"]) == FOR_THE_EYE
    assert set(SCHEMAS["data.json"]["$defs"]) <= {verb.name for verb in verbs.VERBS}


@pytest.mark.parametrize("verb", sorted(FOR_THE_EYE))
def test_a_verb_for_the_eye_refuses_programs(pit, verb):
    judge(pit(verb, "--json").error, strict("error.json"))


#: Verbs that need processes of their own: what they print is judged where those are.
ELSEWHERE = {"bench", "board", "mcp", "notify", "review", "diff"}  # tests/bench, tests/web, tests/hooks, ...

DAY = """
    init pit | add one --check true | add two --needs 1 --tag web | add three | edit 3 --priority 2 | list
    list --ready
    show 1 | show 1 2 | why 1 | why 1 2 | stats | log | prime | claim 1 --lease 1h | prime | renew 1 | note 1 hello
    tell 1 hello | lessons | trace 1
    done 1 | done 1 | log | show 1 | claim 3 | fail 3 --error no | show 3 | claim 2 | release 2 | claim 2
    split 2 -F children.jsonl | show 2 | claim 4 | ask 4 what | answer 4 yes | block 4 because | undo | unblock 4
    roles postgresql://h/d | trust | hook session-start | hook stop | cancel 4 | retry 4 | pause lunch
    prime | resume | answer budget yes
    lock name | lock | lock name --release | lock name -- true | import children.jsonl --dry-run | import children.jsonl
    import .beads --dry-run | import .beads | sweep --dry-run | sweep | doctor | doctor --fix | doctor --system
    work --dry-run -- true {id} | work --max-tasks 1 -- true | search one | status -f --for 0.01s | status | crew down
    setup claude | setup claude --check | setup claude --remove | setup claude codex | setup gemini --print
    every 7:00 chores | every | report | archive | completion fish | export -o all.jsonl | convert box --layout mailbox
    serve token add ann --tag web --expires 30d | serve token list | serve token revoke ann | -C box import all.jsonl
"""
WORK_ITEMS = """
    init items --layout activities | -C items add item | -C items add part --parent WI-001
    -C items add step --parent WI-001-A1 | -C items add other --parent WI-001-A1 --set actor=human
    -C items claim | -C items task start WI-001-A1-T1 | -C items task done WI-001-A1-T1
    -C items task wait WI-001-A1-T2 | -C items pivot start WI-001 --reason other --block | -C items status
    -C items prime | -C items pivot finish WI-001 --redo WI-001-A1-T1 | -C items status
"""
MESSAGES = "init space --layout workspace | -C space pipe make a b"


def scenes(run, words):
    """A day in a queue: what each verb said."""
    Path("children.jsonl").write_text('{"title": "part"}\n', encoding="utf-8")
    Path(".beads").mkdir()
    Path(".beads/issues.jsonl").write_text('{"id":"bd-1","title":"x","issue_type":"bug"}\n{"id":1}\n', encoding="utf-8")
    session = '{"session_id": "0123456789"}'
    for line in words.replace("|", "\n").split("\n"):
        if line.strip():
            whole = line.split()
            at = whole.index("--") if "--" in whole else len(whole)
            verb = whole[2] if whole[0] == "-C" else whole[0]
            yield verb, run(*whole[:at], "--json", *whole[at:], stdin=session if verb == "hook" else "")


def test_what_every_verb_prints(run):
    seen = set()
    for verb, answer in scenes(run, DAY + WORK_ITEMS + MESSAGES):
        judge(answer.envelope, strict("envelope.json"))
        assert answer.data or verb in ("log", "hook", "archive", "lessons")  # judged as it is looked at
        seen.add(verb)
    assert set(SCHEMAS["data.json"]["$defs"]) - seen == ELSEWHERE


def test_a_message_on_its_way(run):
    assert run("init", "--layout", "workspace").code == 0
    assert run("pipe", "send", "a", "b", "hello", "--timeout", "0.01s").code == 4
    assert run("pipe", "receive", "a", "b", "--json").data == {"text": "hello", "bytes": 5}


def test_what_an_error_is(run):
    for answer in (run("list", "--json"), run("nonsense", "--json"), run("claim", "--lease", "x", "--json")):
        judge(answer.envelope, strict("envelope.json"))
        judge(answer.error, strict("error.json"))
    assert {getattr(errors, name).code for name in errors.__all__} >= {"nothing_to_claim", "lost", "missing_extra"}


def test_a_key_too_many_is_noticed(pit):
    pit("add", "one")
    task = pit("list", "--json").data[0]
    judge(task, strict("task.json"))
    with pytest.raises(ValidationError):
        judge({**task, "colour": "red"}, strict("task.json"))
    with pytest.raises(ValidationError):
        judge({key: value for key, value in task.items() if key != "state"}, strict("task.json"))
    with pytest.raises(ValidationError):
        judge([{**task, "colour": "red"}], data_of("list"))
