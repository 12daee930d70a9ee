"""Agent presets: how an agent CLI is called, heard and understood. Files in, one checked value out.

A preset is a TOML file. Three places are looked at, and what a later one says goes before what an earlier
one said: the package, `~/.config/taskpit/presets`, the queue's `.taskpit/presets`. A file that `extends`
another preset begins with all of that one; of its own name, with what the earlier places say. Lists of
`event` and `error` grow in front, everything else is replaced. Runs nothing.
"""

from __future__ import annotations

import os
import re
import warnings

from taskpit import fs, toml_checker
from taskpit.clock import duration
from taskpit.errors import Invalid, NotFound, Storage
from taskpit.model import Value
from taskpit.run.acp import PERMISSIONS
from taskpit.text import did_you_mean, nearest
from taskpit.toml_checker import Wrong, count, flag, free, many, one_of, table, text, texts
from taskpit.trust import config_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from taskpit.toml_checker import Checker

# -- the keys of a preset file ---------------------------------------------------------------------
# Which there are, and what each may hold; not what the keys are for.

#: What an event, an exit code or some words can mean.
MEANINGS = ("done", "failed", "quota", "auth", "usage", "infra", "no-session", "goes-on", "noise")
#: What a command may ask for.
PLACEHOLDERS = (
    *("bin", "prompt", "prompt_file", "task_file", "result_file", "run_dir", "worktree", "queue"),
    *("session", "model", "id", "title", "flags", "hook", "extra"),
)
_WORD = re.compile(r"\{([a-z_]+)\}")
#: Streams on which events may come; other names are files.
STREAMS = frozenset(("stdout", "stderr"))
#: No preset is longer.
LARGEST = 1024 * 1024


def read(path: str) -> dict[str, Any]:
    """What the file says, checked key by key but not yet converted."""
    text = _text(path)
    fields = toml_checker.parse(text, path)
    toml_checker.checked(table(_KEYS), fields, text, path)
    return fields


def _text(path: str) -> str:
    try:
        return fs.read(os.path.realpath(path), LARGEST)[0].decode("utf-8")
    except ValueError as error:
        raise Invalid(f"{path}: {error}", path=path) from None
    except OSError as error:
        raise Storage(f"{path} cannot be read: {error.strerror}", path=path) from None


# -- what a key may hold ---------------------------------------------------------------------------


def _seconds(value: Any) -> float:
    """How long, in words or as a number; also no time."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    try:
        return duration(text(value))
    except (Wrong, ValueError):
        raise Wrong.kind('a duration such as "30s" or "15m"', value) from None


def _pattern(value: Any) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():  # what may mean another thing in a later Python means this here
            warnings.simplefilter("ignore")
            return re.compile(text(value), re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise Wrong(f"is no regular expression: {error}") from None


def _resets(value: Any) -> re.Pattern[str]:
    pattern = _pattern(value)
    if not {"at", "in", "unix"} & pattern.groupindex.keys():
        raise Wrong("needs a group `(?P<at>...)`, `(?P<in>...)` or `(?P<unix>...)`")
    return pattern


def _argv(value: Any) -> tuple[str | tuple[str, ...], ...]:
    """Words; a list among them is left out as a whole when what it asks for is empty."""
    if not isinstance(value, list) or not value:
        raise Wrong.kind("a list of words", value)
    try:
        made = tuple(texts(part) if isinstance(part, list) else text(part) for part in value)
    except Wrong:
        raise Wrong.kind("a list of words", value) from None
    for part in made:
        for word in (part,) if isinstance(part, str) else part:
            for name in _WORD.findall(word):
                if name not in PLACEHOLDERS:
                    raise Wrong(f"has no word {{{name}}}", hint=did_you_mean(name, PLACEHOLDERS, "Keys are"))
    return made


def _flags(value: Any) -> tuple[str | tuple[str, ...], ...]:
    """The same, but there may be none."""
    return _argv(value) if value != [] else ()


def _events(value: Any) -> tuple[str, ...]:
    """Read where events come from: streams, and files in the run directory."""
    names = (value,) if isinstance(value, str) else texts(value)
    if any("/" in name or name.startswith(".") or not name for name in names):
        raise Wrong.kind('"stdout", "stderr", the name of a file in the run directory, or a list of these', value)
    return tuple(names)


def _path(value: Any) -> tuple[str, ...]:
    return tuple(text(value).split("."))


def _paths(value: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(map(_path, texts(value)))


def _when(value: Any) -> tuple[tuple[tuple[str, ...], tuple[object, ...]], ...]:
    if not isinstance(value, dict):
        raise Wrong.kind("a table of paths and values", value)
    for want in value.values():
        for one in want if isinstance(want, list) else [want]:
            if isinstance(one, str) and one.startswith("~"):
                _pattern(one[1:])
    return tuple((_path(path), tuple(want) if isinstance(want, list) else (want,)) for path, want in value.items())


def _code(value: Any) -> int:
    if not value.isdecimal() or len(value) > 3:
        raise Wrong("is no exit code")
    return int(value)


def _sources(value: Any) -> list[dict[str, Any]]:
    hows = one_of("last", "first", "sum", "join", "count", "total")
    one = table({"when": _when, "path": _path, "plus": _paths, "how": hows, "per": _path})
    found: list[dict[str, Any]] = many(one)(value if isinstance(value, list) else [value])
    if any("path" not in source and source.get("how") != "count" for source in found):
        raise Wrong("needs `path`")
    if any("per" in source and source.get("how") != "sum" for source in found):
        raise Wrong('has `per` without how = "sum"')
    return found


_MEANS = one_of(*MEANINGS)
_KEYS: dict[str, Checker] = {
    "extends": text,
    "bin": text,
    "argv": _argv,
    "resume": _argv,
    "prompt": one_of("stdin", "argument", "file"),
    "session": one_of("ours", "theirs", "none"),
    "flags": _flags,
    "sandboxed": _flags,
    "env": texts,
    "home": texts,
    "steer": one_of("", "hook"),
    "protocol": one_of("", "acp"),
    "permissions": one_of(*PERMISSIONS),
    "events": _events,
    "event": many(
        table({"when": _when, "means": _MEANS, "ends": flag, "loops": count, "resets": _path}, "when", "means")
    ),
    "take": free(_sources),
    "exit": free(_MEANS, _code),
    "error": many(table({"pattern": _pattern, "means": _MEANS, "resets": _resets, "always": flag}, "pattern", "means")),
    "grace": _seconds,
    "stall": _seconds,
    "limit": count,
    "window": _seconds,
}


# -- agent presets ---------------------------------------------------------------------------------


#: A name that can be a file's.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

Path = tuple[str, ...]


class Rule(Value, frozen=True, kw_only=True):
    """What an event means."""

    when: tuple[tuple[Path, tuple[object, ...]], ...]
    means: str
    #: Whether nothing of importance follows.
    ends: bool = False
    #: So many in a row, and it goes round in a circle: the run is ended; 0: never.
    loops: int = 0
    #: Where in it the time stands at which a limit ends.
    resets: Path = ()


class Source(Value, frozen=True, kw_only=True):
    """Where in which events a fact stands."""

    when: tuple[tuple[Path, tuple[object, ...]], ...] = ()
    path: Path = ()
    #: Numbers elsewhere in the event that belong to it.
    plus: tuple[Path, ...] = ()
    #: last, first, sum, join (what follows each other is one text), count, or total: what the whole session has
    #: had so far, of which a resumed run pays only what is new.
    how: str = "last"
    #: Where an event of a sum says what it counts: of several with one name there, only the last one counts.
    per: Path = ()


class MessageRule(Value, frozen=True, kw_only=True):
    """What some words mean."""

    pattern: re.Pattern[str]
    means: str
    #: Finds when a limit ends: a group `at`, `in` or `unix`.
    resets: re.Pattern[str] | None = None
    #: Whether they count even if all else is good: for those who end well whatever happened.
    always: bool = False


class Backend(Value, frozen=True, kw_only=True):
    """What all that run on one agent CLI share."""

    name: str
    #: How many may run at once on this host; 0 is any number.
    limit: int = 0
    #: How long a window of its quota lasts, from the first start in it; 0 is unknown: then no spare task runs.
    window: float = 0.0


class Preset(Backend, frozen=True, kw_only=True):
    """One agent CLI."""

    argv: tuple[str | tuple[str, ...], ...]
    bin: str = ""
    #: The same for going on with an earlier session; empty if it cannot.
    resume: tuple[str | tuple[str, ...], ...] = ()
    #: How the prompt goes in: stdin, argument or file.
    prompt: str = "stdin"
    #: Who names the session: ours, theirs, or none.
    session: str = "none"
    #: What stands for `{flags}` in both commands: its permissions and modes.
    flags: tuple[str | tuple[str, ...], ...] = ()
    #: The same where `--sandbox` shuts it in, if it needs others there: for its own sandbox there is no room inside. A
    #: file that says `flags` inherits none.
    sandboxed: tuple[str | tuple[str, ...], ...] = ()
    #: Variables it may see besides those that every agent may see, as patterns; `NAME=value` sets one.
    env: tuple[str, ...] = ()
    #: How it can be told something while it runs: hook, or not at all (then its session goes on with it).
    steer: str = ""
    #: What is spoken on its standard input and output: nothing, or acp (the Agent Client Protocol).
    protocol: str = ""
    #: What it is told when it asks whether it may use a tool, by the protocol: allow, deny, or ask (a person).
    permissions: str = "allow"
    #: What it needs of the home when it is shut in: its settings and sessions, as paths beneath it.
    home: tuple[str, ...] = ()
    #: Where its events come from: stdout, stderr, and files that it leaves in the run directory: each is one event, or
    #: as many as it has lines (`.jsonl`). Without a stream it is judged by exit code and words.
    events: tuple[str, ...] = ()
    event: tuple[Rule, ...] = ()
    take: Mapping[str, tuple[Source, ...]] = {}
    #: What exit codes mean; 0 is done and all others are failed unless this says otherwise.
    exit: Mapping[int, str] = {}
    #: What a line means that begins like this, outside tracebacks; `noise` is left out of the answer.
    error: tuple[MessageRule, ...] = ()
    #: How long it may take to leave after its last event.
    grace: float = 30.0
    #: How long it may be silent before that; 0 is any time.
    stall: float = 1200.0

    @property
    def has_stream(self) -> bool:
        """Whether events come on stdout or stderr."""
        return not STREAMS.isdisjoint(self.events)

    @property
    def must_end(self) -> bool:
        """Whether a good run has an event that says so."""
        return any(rule.ends and rule.means == "done" for rule in self.event)


# -- finding ---------------------------------------------------------------------------------------


def places(where: str = "", env: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The folders presets are looked for in; the last one has the last word."""
    env = os.environ if env is None else env
    package = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "presets")
    mine = (f"{where}/.taskpit/presets",) if where and os.path.isdir(where) else ()
    return (package, config_path("presets", env), *mine)


def names(folders: Sequence[str]) -> list[str]:
    """All presets there are."""
    found = {name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)}
    return sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml"))


def find(name: str, folders: Sequence[str]) -> Preset:
    """The preset of this name; NotFound, or Invalid with the file, the line and what was probably meant."""
    fields, files = _gather(name, folders, ())
    where = files[-1]
    made = toml_checker.checked(table(_KEYS), fields, _text(where), where)
    made.pop("extends", None)
    made["event"] = tuple(Rule(**one) for one in made.get("event", ()))
    made["error"] = tuple(MessageRule(**one) for one in made.get("error", ()))
    taken = made.get("take", {})
    made["take"] = {fact: tuple(Source(**one) for one in sources) for fact, sources in taken.items()}
    preset = Preset(**{"argv": (), **made, "name": name})
    _check(preset, where)
    return preset.replace(bin=preset.bin or name)


def speaking(command: str, folders: Sequence[str]) -> Preset:
    """The preset for any command that speaks the Agent Client Protocol."""
    import shlex

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Invalid(f"acp:{command}: {error}") from None
    if not words:
        raise Invalid("acp: needs a command that speaks the protocol", hint="Write --agent 'acp:gemini --acp'.")
    known = find("acp", folders)
    name = "acp-" + re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(words[0]))
    return known.replace(name=name, bin=words[0], argv=("{bin}", *words[1:]))


def _gather(name: str, folders: Sequence[str], seen: tuple[str, ...]) -> tuple[dict[str, Any], list[str]]:
    """All that is said about it, and the files that say it."""
    if name in seen:
        raise Invalid(f"these presets extend each other: {' -> '.join((*seen, name))}")
    fields: dict[str, Any] = {}
    files: list[str] = []
    for folder in folders if _NAME.fullmatch(name) else ():
        path = f"{folder}/{name}.toml"
        if not os.path.isfile(path):
            continue
        mine = read(path)
        base = mine.pop("extends", "")
        if base and base != name:
            fields, _ = _gather(str(base), folders, (*seen, name))
        fields = _merged(fields, mine)
        files.append(path)
    if not files:
        near = nearest(name, known := names(folders))
        hint = f"Presets are: {', '.join(known)}; yours go to {folders[-1]}."
        hint = f"Did you mean {near!r}? {hint}" if near else hint
        raise NotFound(f"there is no preset {name!r}", hint=hint, name=name)
    return fields, files


def _merged(old: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(old)
    if "flags" in new:
        made.pop("sandboxed", None)
    for key, value in new.items():
        if key in ("event", "error"):
            made[key] = [*value, *old.get(key, [])]
        elif isinstance(value, dict) and isinstance(old.get(key), dict):
            made[key] = {**old[key], **value}
        else:
            made[key] = value
    return made


def _check(preset: Preset, path: str) -> None:
    """What keys need of each other."""
    if not preset.argv:
        raise Invalid(f"{path}: a preset needs `argv`, the command to run", key="argv")
    for key in ("argv", "resume"):
        words = _words(getattr(preset, key))
        if words and preset.prompt == "argument" and "prompt" not in words:
            raise Invalid(f'{path}: prompt = "argument" needs {{prompt}} in {key}', key=key)
        if words and preset.prompt == "file" and "prompt_file" not in words:
            raise Invalid(f'{path}: prompt = "file" needs {{prompt_file}} in {key}', key=key)
    if preset.resume and "session" not in _words(preset.resume):
        raise Invalid(f"{path}: `resume` must say {{session}}", key="resume")
    if preset.session == "theirs" and "session" not in preset.take:
        raise Invalid(f'{path}: session = "theirs" needs `take.session`', key="session")


def _words(argv: Sequence[str | tuple[str, ...]]) -> set[str]:
    """The placeholders in a command; one without any is still a command."""
    flat = [word for part in argv for word in ((part,) if isinstance(part, str) else part)]
    return {name for word in flat for name in _WORD.findall(word)} | ({""} if flat else set())


# -- filling ---------------------------------------------------------------------------------------


def fill(
    argv: Sequence[str | tuple[str, ...]],
    values: Mapping[str, str],
    extra: Sequence[str] = (),
    flags: Sequence[str | tuple[str, ...]] = (),
) -> tuple[str, ...]:
    """The command with its placeholders filled in; what hangs on an empty one is left out as a whole."""

    def put(word: str) -> str:
        return _WORD.sub(lambda found: values.get(found[1], found[0]), word)

    made: list[str] = []
    for part in argv:
        if part == "{flags}":
            made.extend(fill(flags, values))
        elif part == "{extra}":
            made.extend(extra)
        elif isinstance(part, str):
            made.append(put(part))
        elif all(values.get(name, name) for word in part for name in _WORD.findall(word)):
            made.extend(map(put, part))
    return tuple(made)
