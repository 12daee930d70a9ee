"""`pit` in a fork of the test's own process: a server that has imported all it needs already."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from contextlib import contextmanager

from taskpit.cli.main import main

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO


@contextmanager
def forked(*words: str) -> Iterator[TextIO]:
    """What `pit WORDS` prints; it is ended as by Ctrl-C."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads beside us none holds what it will need
        pid = os.fork()
    if not pid:
        try:
            os.dup2(writing, 1)
            os.close(2)
            os.open(os.devnull, os.O_WRONLY)
            sys.stdout, sys.stderr = open(1, "w", encoding="utf-8"), open(2, "w", encoding="utf-8")  # noqa: SIM115
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os._exit(main(list(words)))
        finally:
            os._exit(70)
    os.close(writing)
    try:
        with os.fdopen(reading, encoding="utf-8") as said:
            yield said
    finally:
        os.kill(pid, signal.SIGINT)
        os.waitpid(pid, 0)
