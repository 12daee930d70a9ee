"""config.toml, agents.toml and presets: keys, defaults and checks are the program's, and the comments above them."""

from __future__ import annotations

import json

from reference.markdown import code, page, prose, table
from reference.names import fields
from taskpit import config
from taskpit.clock import say_duration
from taskpit.crew import file as crewkeys
from taskpit.run import preset
from taskpit.toml_checker import Wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


#: What each key of agents.toml is for; the keys themselves and their values are the program's.
CREW = {
    "agent": {
        "name": "what it is called; with `count`, `name-1`, `name-2`, ...",
        "count": "how many of this kind",
        "role": "`worker` takes tasks; `planner` only those marked big; `reviewer` none, it judges changes that wait for review by an agent; `keeper` and `cleanup` sweep in rounds, and a keeper with a backend is run in each",
        "backend": "which `[backend.NAME]` runs it",
        "model": "the model, as the agent calls it",
        "prompt": "a file that says who it is; stands before every task",
        "tags": "only tasks with one of these tags",
        "lease": "how long a claim lasts unless renewed",
        "limit": "the time a task may take",
        "stall": "how long it may be silent",
        "every": "how long between two rounds of a keeper or cleanup",
        "budget": "what it may cost, per task or day",
        "land": "where its changes go: nowhere, a branch for each task, merged, or a pull request",
        "onto": "the branch work begins from and is merged into; the one checked out unless said otherwise",
        "setup": "the command that makes a fresh clone ready",
        "setup_key": "files, such as lock files, that decide what the set-up makes: while they are the same, that is copied instead",
        "copy": "files that no commit has and every clone needs",
        "env": "further variables that the agent and its checks may see; patterns such as `NPM_*`",
        "sandbox": "`on` or `off`: shut in by bubblewrap, with a network or without; not said: not shut in",
        "land_check": "what must be green, beside the task's check, on what would land",
        "pr_command": "opens a pull request where neither `gh` nor `glab` does",
        "review": "who looks at each change before it lands",
        "review_tags": "tags of tasks whose changes a person looks at, whatever `review` says",
        "frozen": "path globs that agents cannot change",
        "review_limit": "nothing is begun while this many changes wait for a person's look",
        "red_first": "ask about tasks whose check is green before the work",
        "worktree": 'the same as `land = "branch"`',
        "merge": '`ff`, with `worktree`: the same as `land = "merge"`',
        "watch": "what the supervisor does: nothing, start again what died, or also what hangs",
        "cwd": "where it runs; relative to the file",
    },
    "service": {
        "name": "what it is called",
        "command": "what is run; `{python}` is the Python that runs `pit`",
        "watch": "as above",
        "stall": "how long it may be silent",
        "cwd": "where it runs",
    },
    "backend": {
        "preset": "a preset's name",
        "command": "or a command of your own, with placeholders",
        "bin": "where the program is, if not on the path",
        "flags": "words added to its command",
        "model": "the model, as the agent calls it",
        "prompt": "how a command gets the prompt",
        "limit": "how many at once on this machine",
        "stagger": "ignored",
        "quiet": "ignored",
    },
}


_PRESET = {
    "bin": "the program, if it is not called as the preset is",
    "argv": "its command, word by word; a list among the words is left out when what it asks for is empty",
    "event": "what an event means: `when` (paths and values), `means`, `ends`, `loops` (so many in a row end the run), `resets`",
    "take": "where session, cost, tokens, turns and output stand: `when`, `path`, `plus` (what is added to it), `how`, `per` (what one part of a sum belongs to)",
    "error": "what a line means that begins with `pattern`, outside tracebacks: `means`, `resets`, `always` (even if all else is good)",
}


def _default(value: object) -> str:
    if isinstance(value, float):  # every number that is not whole is a duration
        return f'"{say_duration(value)}"'
    return json.dumps(value)


def configuration() -> str:
    """config.toml, agents.toml and presets."""
    about = fields(config.Config)
    hooks = fields(config.Hooks)
    usual = config.Config()
    settings = [
        (code(key), code(_default(getattr(usual, key))), about[key])
        for key in config.Config.__struct_fields__
        if key != "hooks"
    ]
    lines = [
        "## A queue's settings",
        "",
        "`.taskpit/config.toml`. Every line is optional. Durations are written `30s`, `15m`, `1h30m`, `7d`. Layouts change some defaults: activities",
        "have leases of 1 hour, a mailbox prunes results after 7 days and errors after 30.",
        "",
        *table(("key", "default", "meaning"), settings),
        "",
        "## Hooks: the table [hooks]",
        "",
        f"In the same file: a command for each of {', '.join(map(code, config.EVENTS))}; see [hooks](../hooks.md).",
        "",
        *table(
            ("key", "default", "meaning"),
            [(code(key), code(str(getattr(config.Hooks(), key))), hooks[key]) for key in ("timeout", "parallel")],
        ),
        "",
        "## A crew: agents.toml",
        "",
        "In the queue's folder or beside it; `pit crew up` starts what it says. `[defaults]` may have any key of `[[agent]]` but `name` and `count`.",
    ]
    for name, keys in crewkeys.KEYS.items():
        if name == "defaults":
            continue
        missing = set(keys) ^ set(CREW[name])
        if missing:
            raise SystemExit(f"scripts/reference: say what these keys of [{name}] are for: {sorted(missing)}")
        rows = [(code(key), prose(_wanted(check)), CREW[name][key]) for key, check in keys.items()]
        head = "[backend.NAME]" if name == "backend" else f"[[{name}]]"
        lines += ["", f"### {head.strip('[]').split('.')[0].capitalize()}", "", f"`{head}`", ""]
        lines += table(("key", "value", "meaning"), rows)
    lines += ["", "## Presets", "", *_presets()]
    return page("Configuration", *lines)


def _wanted(check: Callable[[object], object]) -> str:
    """What a key's value must be, in the words the program refuses others with."""
    for wrong in ("?", object()):
        try:
            check(wrong)
        except Wrong as error:
            return error.wanted.partition(" (")[0]
    raise SystemExit("scripts/reference: a key takes anything")


def _presets() -> list[str]:
    about = fields(preset.Preset)
    own = [key for key in preset._KEYS if key != "extends"]  # noqa: SLF001
    rows = [(code("extends"), "the preset whose keys count where this one says nothing")]
    rows += [(code(key), prose(about.get(key) or _PRESET.get(key, ""))) for key in own]
    silent = [key for key, meaning in rows if not meaning]
    if silent:
        raise SystemExit(f"scripts/reference: say what these keys of a preset are for: {silent}")
    return [
        "`NAME.toml` in `~/.config/taskpit/presets/` or the queue's `.taskpit/presets/`. Placeholders: "
        + ", ".join(f"`{{{word}}}`" for word in preset.PLACEHOLDERS)
        + ".",
        "",
        *table(("key", "meaning"), rows),
        "",
        "Meanings of events, exit codes and messages: " + ", ".join(f"`{word}`" for word in preset.MEANINGS) + ".",
    ]
