"""YAML that was read or written before is remembered: tests that repeat a scene for each of its calls spend most of
their time on parsing the same few files.

Whoever asks gets a copy of their own, as from the parser. What cannot be read is parsed each time.
"""

from __future__ import annotations

import pickle
from functools import lru_cache

from taskpit.layouts import yamltext

_load, _dump = yamltext.load, yamltext.dump


@lru_cache(maxsize=1000)
def _loaded(data: bytes) -> bytes:
    return pickle.dumps(_load(data))


@lru_cache(maxsize=1000)
def _dumped(document: bytes, before: bytes) -> bytes:
    return _dump(pickle.loads(document), before)


def load(data):
    """As `yamltext.load`."""
    return pickle.loads(_loaded(bytes(data)))


def dump(document, before=b""):
    """As `yamltext.dump`."""
    return _dumped(pickle.dumps(document), before)


def remember():
    """From now on, in this process."""
    yamltext.load, yamltext.dump = load, dump
