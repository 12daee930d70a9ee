"""JSON by the C parts of the standard library, which promise nothing: where they have changed, `json` does the same."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from taskpit import jsontext

VALUES = [{"a": [1, 2.5, None, True], "ü": 'so "it" is\n'}, [], {}, "", 0, [[{"deep": {}}]]]
TEXTS = ['{"a": [1, 2.5e3, null]}', ' "ü\\ud800" ', "[NaN]", "[1e999]", "{} {}", "", "nul", '{"a": 1, "a": 2}']


def changed(*_):
    raise AttributeError("array_hook")  # as Python 3.15 did


def other(**parts):
    """The module with other C parts."""
    fake = ModuleType("_json")
    fake.__dict__.update(parts)
    real, sys.modules["_json"] = sys.modules["_json"], fake
    try:
        spec = importlib.util.spec_from_file_location("other_jsontext", jsontext.__file__)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.modules["_json"] = real
    return module


def read(module, text, *, lenient):
    try:
        return repr(module.loads(text, lenient=lenient))
    except ValueError:
        return "no JSON"


@pytest.mark.parametrize(
    "parts",
    [{}, {"encode_basestring": jsontext.quote, "make_scanner": changed, "make_encoder": changed}],
    ids=["none", "changed"],
)
def test_without_the_parts_as_they_are_the_texts_are_the_same(parts):
    plain = other(**parts)
    for value in VALUES:
        for how in ({}, {"tight": True}, {"ordered": True}):
            assert plain.dumps(value, **how) == jsontext.dumps(value, **how)
        assert plain.indented(value) == jsontext.indented(value)
    for text in TEXTS:
        for lenient in (False, True):
            assert read(plain, text, lenient=lenient) == read(jsontext, text, lenient=lenient)


def test_this_python_has_the_parts_as_they_are():
    assert None not in (jsontext._scan, jsontext._scan_leniently, jsontext._loose, jsontext._tight, jsontext._ordered)
