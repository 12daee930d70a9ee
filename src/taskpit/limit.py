"""How often something scarce may be used, as people write it. Pure."""

from __future__ import annotations

from taskpit.records import Value

#: What the key of a limit is made of, how long it may be, and how often a thing may be allowed.
OF_KEYS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/@-"
LONGEST_KEY, MOST_ALLOWED = 64, 1_000_000


class Limit(Value):
    """How often something scarce may be used: by so many tasks at once, or begun so often in any minute."""

    key: str
    count: int = 1
    per_minute: bool = False

    @classmethod
    def of(cls, text: str) -> Limit:
        """What `staging=1`, `api=10/min` or a key alone says; ValueError if it says nothing."""
        key, equals, said = text.partition("=")
        number, slash, unit = (said if equals else "1").partition("/")
        wrong = not 0 < len(key) <= LONGEST_KEY or bool(key.strip(OF_KEYS)) or (slash and unit != "min")
        if wrong or not number.isascii() or not number.isdecimal():
            raise ValueError(f"{text[:80]!r} is no limit; write KEY=N, or KEY=N/min")
        if not 0 < (count := int(number[:9])) <= MOST_ALLOWED:
            raise ValueError(f"the limit {text[:80]!r} must have a number from 1 to {MOST_ALLOWED}")
        return cls(key=key, count=count, per_minute=bool(slash))

    def __str__(self) -> str:
        return f"{self.key}={self.count}{'/min' if self.per_minute else ''}"
