"""The schemas of the package, closed, as judges of what the program really printed.

Published schemas are open: new keys may come at any time. Here a key that none of them describes is a mistake,
so that nothing is printed which the reference does not tell of.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry, Resource

from taskpit.cli import verbs

FOLDER = files("taskpit") / "schemas"
SCHEMAS = {entry.name: json.loads(entry.read_text(encoding="utf-8")) for entry in FOLDER.iterdir()}


def closed(schema, *, apart=True):
    """The same schema, for which a key that it does not describe is a mistake; whole files are closed by who refers."""
    if isinstance(schema, list):
        return [closed(one, apart=apart) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value, apart=key != "allOf") for key, value in schema.items()}
    if apart and "$schema" not in made and {"$ref", "properties", "allOf"} & set(made):
        made["unevaluatedProperties"] = False
    return made


REGISTRY = (
    Registry()
    .with_resources(
        (name, Resource.from_contents(schema if name == "envelope.json" else closed(schema)))
        for name, schema in SCHEMAS.items()
    )
    .crawl()
)


def judge(value, schema):
    """ValidationError if the value is not as the schema says."""
    Draft202012Validator(schema, registry=REGISTRY).validate(value)


@cache
def data_of(verb):
    """What a verb prints, closed."""
    return closed({**SCHEMAS["data.json"]["$defs"][verb], "$id": f"data-{verb}.json"})


def strict(name):
    """A schema by its name, closed."""
    return closed({"$ref": name})


def judge_command(words, data):
    """Data of `pit WORDS --json` is as published for its verb; a command without a verb is nobody's business."""
    words = list(map(str, words))
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] == "-C" else 1]
    verb = verbs.find(words[0]) if words else None
    if verb is None or verb.name not in SCHEMAS["data.json"]["$defs"] or "--help" in words:
        return
    try:
        judge(data, data_of(verb.name))
    except ValidationError as error:
        raise AssertionError(f"pit {' '.join(words)}: {error.json_path}: {error.message}\n{data}") from None
