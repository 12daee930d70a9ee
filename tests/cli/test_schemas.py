"""The schemas in the package describe what the program prints: every key, of every verb that they list."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry, Resource

from taskpit import errors
from taskpit.cli import table

FOLDER = files("taskpit") / "schemas"
SCHEMAS = {entry.name: json.loads(entry.read_text(encoding="utf-8")) for entry in FOLDER.iterdir()}


def closed(schema, *, apart=True):
    """The same schema, for which a key that it does not describe is a mistake; whole files are closed by who refers."""
    if isinstance(schema, list):
        return [closed(one, apart=apart) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value, apart=key != "allOf") for key, value in schema.items()}
    if apart and "$schema" not in made and ("$ref" in made or "properties" in made):
        made["unevaluatedProperties"] = False
    return made


REGISTRY = Registry().with_resources(
    (name, Resource.from_contents(schema if name == "envelope.json" else closed(schema)))
    for name, schema in SCHEMAS.items()
)


def judge(value, schema):
    Draft202012Validator(schema, registry=REGISTRY).validate(value)


def data_of(verb):
    return closed({**SCHEMAS["data.json"]["$defs"][verb], "$id": f"data-{verb}.json"})


def strict(name):
    """A schema by its name, closed."""
    return closed({"$ref": name})


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_schema_is_one(name):
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$id"] == name


def test_what_they_list_exists():
    assert {verb for verb in SCHEMAS["data.json"]["$defs"] if table.find(verb) is None} == set()


def scenes(run):
    """A day in a queue: what each verb said."""
    Path("children.jsonl").write_text('{"title": "part"}\n', encoding="utf-8")
    words = """
        init pit | add one --check true | add two --needs 1 --tag web | add three | edit 3 --priority 2 | list | ready
        show 1 | show 1 2 | why 1 | stats | log | claim 1 --lease 1h | renew 1 | note 1 hello | done 1 | done 1 | show 1
        claim 3 | fail 3 --error no | show 3 | claim 2 | release 2 | claim 2 | split 2 -F children.jsonl | show 2
        claim 4 | ask 4 what | answer 4 yes | block 4 because | unblock 4 | cancel 4 | retry 4 | pause lunch | resume
        lock name | locks | unlock name | lock name -- true | import children.jsonl | sweep --dry-run | sweep | doctor
        doctor --fix | doctor --system | search one | archive | status | down | completion fish
        convert box --layout mailbox
    """
    for line in words.replace("|", "\n").split("\n"):
        if line.strip():
            verb, *rest = line.split()
            at = rest.index("--") if "--" in rest else len(rest)
            yield verb, line.strip(), run(verb, *rest[:at], "--json", *rest[at:])


def test_what_every_verb_prints(run):
    seen = set()
    for verb, line, answer in scenes(run):
        judge(answer.envelope, strict("envelope.json"))
        try:
            judge(answer.data, data_of(verb))
        except ValidationError as error:
            pytest.fail(f"pit {line}: {error.json_path}: {error.message}")
        seen.add(verb)
    assert set(SCHEMAS["data.json"]["$defs"]) - seen == set()


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
