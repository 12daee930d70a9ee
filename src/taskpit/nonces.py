"""Names that nobody else has. Standard library only; knows processes, nothing of what is named."""

from __future__ import annotations

import itertools
import os

_ALPHABET = b"0123456789abcdefghjkmnpqrstvwxyz" * 8


class _Names:
    """What makes names unique: thirty random bits of this process, drawn again after a fork, and a count."""

    def __init__(self) -> None:
        self.begin()
        os.register_at_fork(after_in_child=self.begin)

    def begin(self) -> None:
        """Nobody else begins so."""
        self.first = os.urandom(6).translate(_ALPHABET).decode()
        self.counts = itertools.count()


#: Those of this process; `first` are its letters and digits, other ones after a fork.
own = _Names()


def fresh_name(letters: int = 0) -> str:
    """Letters and digits nobody else has; so many random ones if asked for."""
    if letters:
        return os.urandom(letters).translate(_ALPHABET).decode()
    return f"{own.first}{next(own.counts):x}"
