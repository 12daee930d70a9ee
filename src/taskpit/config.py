"""A queue's settings as one checked value. Knows keys, types and defaults; reads no files itself."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from taskpit.clock import LAST, duration
from taskpit.errors import Invalid
from taskpit.model import Value
from taskpit.text import did_you_mean

DAY = 86400.0


class Hooks(Value, frozen=True, kw_only=True):
    """What is run when something has happened: the table `[hooks]` of `config.toml`."""

    #: The command of each event; an event without one is nobody's business.
    commands: Mapping[str, tuple[str, ...]] = {}
    #: How long each may run, in seconds.
    timeout: float = 30.0
    #: How many may run at once.
    parallel: int = 4


#: The largest share.
MOST_SHARES = 1000
#: What a hook may be told.
EVENTS = ("done", "failed", "choked", "ask", "review", "budget", "stopped")
#: What the key of a limit is made of, how long it may be, and how often a thing may be allowed.
OF_KEYS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/@-"
LONGEST_KEY, MOST_ALLOWED = 64, 1_000_000


class Limit(Value, frozen=True, kw_only=True):
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


class Config(Value, frozen=True, kw_only=True):
    """What a queue's `config.toml` may say."""

    #: How long a claim lasts unless renewed.
    lease: float = 900.0
    #: The same for people; 0 is no difference.
    human_lease: float = 0.0
    #: How long a task inside an activity is an agent's.
    task_lease: float = 1800.0
    #: The same for people.
    human_task_lease: float = 14400.0
    #: After how long a claim that other tools made counts as abandoned.
    abandoned: float = 900.0
    #: `power`: on the disk before it is acknowledged. `process`: survives kill -9, not power loss.
    durability: str = "power"
    #: Attempts a task has unless it says otherwise.
    max_attempts: int = 3
    #: First pause before another attempt; doubles each time.
    backoff: float = 10.0
    #: The longest such pause.
    backoff_longest: float = 3600.0
    #: This many identical failures in a row choke: the task waits for a person. So does one that is split more often.
    choke: int = 3
    #: A task that loses its worker this often waits for a person.
    losses: int = 5
    #: Working logs older than this are summarised and pruned.
    compost: float = DAY
    #: Results older than this are pruned, archived ones too; 0 keeps them for ever.
    keep_results: float = 0.0
    #: The same for results of failed tasks. A pit keeps those, in its scraps.
    keep_failed: float = 0.0
    #: Messages that went through a workspace's pipes are kept this long after they were read.
    keep_messages: float = 7 * DAY
    #: Candidates, by which `pit diff` shows what landed, are kept this long after their task is over; 0 is for ever.
    keep_candidates: float = 30 * DAY
    #: Left-over temporary files older than this are swept.
    keep_tmp: float = 3600.0
    #: The largest task file, in bytes.
    largest_task: int = 1024 * 1024
    #: How long a check may run.
    check_limit: float = 600.0
    #: How many lessons are kept, of what turned red checks green; 0: none, and none are told.
    lessons: int = 200
    #: Ids of new tasks: `number`, or `random`, which two branches or clones do not give twice.
    ids: str = "number"
    #: `track`: the tasks are in git's commits, and what a checkout or a merge changed counts. Empty: they are not.
    git: str = ""
    #: What tasks with a `limit` of such a key may use: `staging = 1`, `api = "10/min"`; the table `[limits]`.
    limits: Mapping[str, str] = {}
    #: Which part of the claims each tag has while others wait, too: `team-a = 2`, `"*" = 1` for all together; the table
    #: `[shares]`.
    shares: Mapping[str, int] = {}
    #: Commands to run when something has happened.
    hooks: Hooks = Hooks()

    def lease_of(self, kind: str) -> float:
        """How long a claim of a `human` or an `agent` lasts."""
        return self.human_lease or self.lease if kind == "human" else self.lease

    def task_lease_of(self, kind: str) -> float:
        """How long a task inside an activity is theirs."""
        return self.human_task_lease if kind == "human" else self.task_lease


#: The settings of a queue without a `config.toml`.
DEFAULTS = Config()

_NEVER_ZERO = frozenset(
    (
        "lease",
        "task_lease",
        "human_task_lease",
        "abandoned",
        "max_attempts",
        "choke",
        "losses",
        "largest_task",
        "check_limit",
    )
)

#: Settings that are one of a few words.
_CHOICES = {"durability": ("power", "process"), "ids": ("number", "random"), "git": ("", "track")}

SAMPLE = """\
# Settings of this queue. Every line is optional; these are the defaults.
#
# lease = "15m"             # how long a claim lasts unless renewed (activities: 1h)
# human_lease = "0s"        # the same for people; 0s is no difference (activities: 8h)
# task_lease = "30m"        # how long a task inside an activity is an agent's
# human_task_lease = "4h"   # the same for people
# abandoned = "15m"         # after how long a claim made by other tools counts as abandoned
# durability = "power"      # or "process": no fsync, survives kill -9 but not power loss
# ids = "number"           # or "random": ids that two branches or clones do not give twice
# git = ""                 # or "track": the tasks are in git's commits (pit init --git track)
# max_attempts = 3
# backoff = "10s"           # first pause before another attempt; doubles each time
# backoff_longest = "1h"
# choke = 3                 # identical failures in a row until a person is asked
# losses = 5                # lost workers until a person is asked
# compost = "1d"            # working logs older than this are summarised and pruned
# keep_results = "0s"       # results older than this are pruned; 0s keeps them for ever (a mailbox: 7d)
# keep_failed = "0s"        # the same for failed ones (a mailbox: 30d)
# keep_messages = "7d"      # delivered messages of a workspace's pipes
# keep_candidates = "30d"   # what `pit diff` shows of tasks that are over; 0s keeps it for ever
# keep_tmp = "1h"
# largest_task = 1048576    # bytes
# check_limit = "10m"       # how long a done-when command may run
# lessons = 200             # what turned red checks green is kept and told to later agents; 0: not at all
#
# [limits]                  # for tasks with such a limit; see docs/working.md
# staging = 1               # at once
# api = "10/min"            # begun in any minute
#
# [shares]                  # which part of the claims tasks of each tag have; see docs/working.md
# web = 2                   # twice as many as docs, while both wait
# docs = 1
#
# [hooks]                   # commands run when something has happened; see docs/hooks.md
# done = "notify-send done"
# failed = "notify-send failed"
# choked = "notify-send choked"
# ask = "notify-send question"
# review = "notify-send review"
# budget = "notify-send budget"
# stopped = "notify-send stopped"
# timeout = "30s"
# parallel = 4
"""


def plain_settings(text: str) -> dict[str, object] | None:
    """What TOML as plain as the sample says; None if it is not: then a parser must be loaded to read it."""
    whole: dict[str, object] = {}
    found = whole
    for line in text.splitlines():
        message = line.strip()
        if not message or message.startswith("#"):
            continue
        if message in ("[hooks]", "[limits]", "[shares]") and message[1:-1] not in whole:
            whole[message[1:-1]] = found = {}
            continue
        key, equals, value = (part.strip() for part in message.partition("="))
        inside = value[1:-1]
        if not equals or not key.replace("_", "").isalpha() or not key.isascii() or key in found:
            return None
        if value.isascii() and value.isdecimal() and (value == "0" or value[0] != "0"):
            found[key] = int(value)
        elif len(value) > 1 and value[0] == value[-1] == '"' and inside.isprintable() and not set(inside) & {'"', "\\"}:
            found[key] = inside
        else:
            return None
    return whole


def parse(fields: Mapping[str, object], base: Config | None = None) -> Config:
    """The settings in these fields; Invalid names the key, what is wrong, and what was probably meant."""
    known: dict[str, Any] = {}
    for key, value in fields.items():
        if key not in Config.__struct_fields__:
            raise Invalid(
                f"config.toml: there is no setting {key!r}",
                hint=did_you_mean(key, Config.__struct_fields__, "Settings are"),
                key=key,
            )
        tables = {"hooks": _hooks, "limits": _limits, "shares": _shares}
        known[key] = tables[key](value) if key in tables else _typed(key, value)
    config = (base or Config()).replace(**known)
    for key, words in _CHOICES.items():
        if getattr(config, key) not in words:
            text = " or ".join(f'"{word}"' for word in words)
            raise Invalid(f"config.toml: {key} is {text}", key=key)
    return config


def _typed(key: str, value: object) -> object:
    wanted = type(getattr(DEFAULTS, key))  # every number that is not whole is a duration
    if wanted is float and isinstance(value, str):
        try:
            value = duration(value)
        except ValueError as error:
            raise Invalid(f"config.toml: {key}: {error}", key=key) from None
    if isinstance(value, int | float) and not isinstance(value, bool) and not abs(value) <= LAST:
        raise Invalid(f"config.toml: {key} is no number to work with: {str(value)[:40]}", key=key)
    if isinstance(value, int) and not isinstance(value, bool) and wanted is float:
        value = float(value)
    if type(value) is not wanted:
        kind = 'a duration such as "15m"' if wanted is float else f"a {wanted.__name__}"
        raise Invalid(f"config.toml: {key} is {kind}, not {value!r}", key=key)
    if isinstance(value, int | float) and (value < 0 or (value == 0 and key in _NEVER_ZERO)):
        raise Invalid(f"config.toml: {key} must be more than {0 if key in _NEVER_ZERO else -1}", key=key)
    return value


def _hooks(table: object) -> Hooks:
    """What the table `[hooks]` says."""
    if not isinstance(table, dict):
        raise Invalid("config.toml: hooks is a table: [hooks]", key="hooks")
    known: dict[str, Any] = {"commands": {}}
    for key, value in table.items():
        if key in EVENTS:
            known["commands"][key] = _command(key, value)
        elif key == "timeout":
            known[key] = _typed("check_limit", value)
        elif key == "parallel":
            known[key] = _typed("max_attempts", value)
        else:
            words = (*EVENTS, "timeout", "parallel")
            raise Invalid(
                f"config.toml: there is no hook {key!r}",
                hint=did_you_mean(key, words, "Settings are"),
                key=f"hooks.{key}",
            )
    return Hooks(**known)


def _limits(table: object) -> dict[str, str]:
    """What the table `[limits]` says: each key with what a task would say behind it."""
    if not isinstance(table, dict):
        raise Invalid("config.toml: limits is a table: [limits]", key="limits")
    found = {}
    for key, value in table.items():
        said = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else "?"
        try:
            Limit.of(f"{key}={said}")
        except ValueError:
            text = f'config.toml: limits: {key} is {value!r}; write a number from 1 on, or "10/min"'
            raise Invalid(text, key=f"limits.{key}") from None
        found[key] = said
    return found


def _shares(table: object) -> dict[str, int]:
    """What the table `[shares]` says: each tag with its weight."""
    if not isinstance(table, dict):
        raise Invalid("config.toml: shares is a table: [shares]", key="shares")
    for key, value in table.items():
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_SHARES:
            text = f"config.toml: shares: {key} is {value!r}; write a number from 1 to {MOST_SHARES}"
            raise Invalid(text, key=f"shares.{key}")
    return dict(table)


def _command(key: str, value: object) -> tuple[str, ...]:
    """The words of a command; it is never given to a shell, so that nothing a task says is obeyed."""
    if isinstance(value, str) and not set(value) & set("'\"\\"):
        value = value.split()
    elif isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise Invalid(f"config.toml: hooks.{key}: {error}", key=f"hooks.{key}") from None
    words = value if isinstance(value, list) else []
    if not words or not words[0] or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise Invalid(f"config.toml: hooks.{key} is a command, or a list of its words", key=f"hooks.{key}")
    return tuple(words)
