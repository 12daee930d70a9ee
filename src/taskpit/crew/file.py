"""`agents.toml`: who works here. Reads and checks it as a whole; starts nothing.

Every complaint names the file, the line and, where there is one, what was probably meant. What comes out is
a list of posts, one for each process to run: agents with their count multiplied out, and services.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from taskpit import fs, toml_checker
from taskpit.crew.state import BackendSettings, Crew, Post
from taskpit.errors import Invalid, NotFound, TaskpitError
from taskpit.landing.values import HOW_IT_LANDS, LANDS, REVIEWS
from taskpit.run import checkout, preset
from taskpit.run.budget import parse as parse_budget
from taskpit.run.process import find_program
from taskpit.text import did_you_mean, nearest
from taskpit.toml_checker import Checker, Place, Wrong, flag, number, one_of, quiet_hours, seconds, texts, word

# -- what may stand in `agents.toml` ---------------------------------------------------------------

WATCHES = ("none", "heal", "heal+stall")
DELIVERIES = ("file", "stdin", "argument")
MERGES = ("none", "ff")
#: Settings of a backend that mean nothing any more.
IGNORED = ("stagger", "quiet")
#: As many agents of one kind as one machine could ever run; more is a slip of the pen.
LARGEST_CROWD = 10_000


def _command(value: Any) -> tuple[str, ...]:
    words = texts(value)
    if not words or not words[0]:
        raise Wrong.kind("a command with at least one word", value)
    return words


def _crowd(value: Any) -> int:
    if number(value) > LARGEST_CROWD:
        raise Wrong.kind(f"a number from 1 to {LARGEST_CROWD}", value)
    return number(value)


def _budget(value: Any) -> tuple[str, ...]:
    words = (value,) if isinstance(value, str) else texts(value)
    for one in words:
        try:
            parse_budget(one)
        except Invalid as error:
            raise Wrong.kind(f'a limit such as "$5/day", or a list of them ({error.message})', value) from None
    return words


_SHARED: dict[str, Checker] = {
    "role": word,
    "backend": word,
    "model": word,
    "prompt": word,
    "tags": texts,
    "lease": seconds,
    "limit": seconds,
    "stall": seconds,
    "every": seconds,
    "budget": _budget,
    "land": one_of(*LANDS),
    "onto": word,
    "setup": word,
    "setup_key": texts,
    "copy": texts,
    "env": texts,
    "land_check": word,
    "pr_command": word,
    "review": one_of(*REVIEWS),
    "review_tags": texts,
    "frozen": texts,
    "red_first": flag,
    "review_limit": number,
    "worktree": flag,
    "merge": one_of(*MERGES),
    "sandbox": one_of("on", "off"),
    "watch": one_of(*WATCHES),
    "cwd": word,
}
KEYS: dict[str, dict[str, Checker]] = {
    "defaults": _SHARED,
    "agent": {"name": word, "count": _crowd, **_SHARED},
    "service": {
        "name": word,
        "command": _command,
        "watch": one_of(*WATCHES),
        "stall": seconds,
        "cwd": word,
    },
    "backend": {
        "preset": word,
        "command": _command,
        "bin": word,
        "flags": texts,
        "model": word,
        "prompt": one_of(*DELIVERIES),
        "limit": number,
        "stagger": seconds,
        "quiet": quiet_hours,
    },
}


# -- `agents.toml` ---------------------------------------------------------------------------------


FILE = "agents.toml"
#: No crew's file is larger.
LARGEST = 1024 * 1024
#: Names that the crew's own files have.
RESERVED = ("plan", "supervisor")
#: Roles that are built in: without a backend of their own they sweep.
ROUNDS = ("keeper", "cleanup")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}\Z")


def find(root: str) -> str:
    """The crew's file for this queue: in its folder, or beside it."""
    for folder in (root, os.path.dirname(root)):
        path = f"{folder}/{FILE}"
        if os.path.isfile(path):
            return path
    raise NotFound(
        f"there is no {FILE} in {root} or beside it",
        hint="`pit init DIR --template snakepit` makes a pit with one; --config FILE names another.",
        path=f"{root}/{FILE}",
    )


def load(path: str, root: str, env: Mapping[str, str]) -> Crew:
    """The crew in this file, checked: what it names is there. Invalid says where and what is wrong."""
    path = os.path.abspath(path)
    try:
        text = fs.read(os.path.realpath(path), LARGEST)[0].decode("utf-8")
    except FileNotFoundError:
        hint = "--config names an agents.toml; `pit init DIR --template snakepit` makes one."
        raise NotFound(f"there is no file {path}", hint=hint, path=path) from None
    except (OSError, ValueError) as error:
        raise Invalid(f"{path}:1: {error}", path=path, line=1) from None
    return _Reader(path, root, env, toml_checker.key_lines(text)).crew(toml_checker.parse(text, path))


def require_landing(crew: Crew, names: Sequence[str] = ()) -> None:
    """Raise Invalid if an agent would work in a git checkout, and neither the file nor its post says how it lands."""
    for post in crew.posts:
        agent = post.kind == "tasks" and post.role != "reviewer" and post.backend is not None and post.backend.preset
        if not agent or post.land or post.worktree or (names and post.name not in names):
            continue
        if fs.above(post.cwd, ".git"):
            raise Invalid(
                f"{crew.path}: {post.name} runs an agent in the git repository {post.cwd}, and the file does not say "
                "how its changes land",
                hint='Write one of these lines in [defaults]: land = "merge" gives each task a clone and lands its '
                'change on your branch; land = "none" lets agents work on your files.',
                path=crew.path,
                name=post.name,
            )


def posts_of(root: str, env: Mapping[str, str], path: str | None = None) -> tuple[dict[str, Post], TaskpitError | None]:
    """Who is in the crew's file of this queue, by name. What is wrong with the file comes beside that: what runs can be
    shown without it.
    """
    try:
        path = path or find(root)
    except NotFound:
        return {}, None
    try:
        return {post.name: post for post in load(path, root, env).posts}, None
    except TaskpitError as error:
        return {}, error


class _Reader:
    """One reading of one file."""

    def __init__(self, path: str, root: str, env: Mapping[str, str], lines: Mapping[Place, int]) -> None:
        self.path = path
        self.folder = os.path.dirname(path)
        self.root = root
        self.env = env
        self.lines = lines
        self.backends: dict[str, BackendSettings] = {}

    def crew(self, data: dict[str, Any]) -> Crew:
        """All of it."""
        for name in data:
            if name not in KEYS:
                where = (name, 0, "") if (name, 0, "") in self.lines else ("", 0, name)
                raise self._wrong(where, f"there is no table {name!r}", name, KEYS)
        defaults = self._fields("defaults", 0, self._table(data, "defaults"))
        for name, given in self._table(data, "backend").items():
            self.backends[name] = self._backend(name, given)
        posts: dict[str, Post] = {}
        for index, given in enumerate(self._list(data, "agent")):
            self._add(posts, ("agent", index, "name"), self._agents(index, given, defaults))
        for index, given in enumerate(self._list(data, "service")):
            self._add(posts, ("service", index, "name"), [self._service(index, given)])
        if not posts:
            raise self._wrong(("", 0, ""), "there is no [[agent]] and no [[service]]")
        return Crew(path=self.path, posts=tuple(posts.values()))

    # -- tables ------------------------------------------------------------------------------------

    def _table(self, data: dict[str, Any], name: str) -> dict[str, Any]:
        given = data.get(name, {})
        if not isinstance(given, dict):
            raise self._wrong((name, 0, ""), f"{name} is a table: write [{name}]")
        return given

    def _list(self, data: dict[str, Any], name: str) -> list[dict[str, Any]]:
        given = data.get(name, [])
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            raise self._wrong((name, 0, ""), f"{name} is a list of tables: write [[{name}]]")
        return given

    def _fields(self, place: str, index: int, given: object) -> dict[str, Any]:
        """The keys of one table with their values read."""
        name = place.partition(".")[0]
        try:
            fields: dict[str, Any] = toml_checker.table(KEYS[name], named=name)(given)
        except Wrong as wrong:
            text = str(wrong) if wrong.key else f"{place} {wrong}"
            known = KEYS[name] if wrong.key not in KEYS[name] else ()
            raise self._wrong((place, index, wrong.key), text, wrong.key, known, "" if known else wrong.hint) from None
        return fields

    def _backend(self, name: str, given: object) -> BackendSettings:
        table = f"backend.{name}"
        if _NAME.match(name) is None:
            raise self._wrong((table, 0, ""), f"the name {name!r} may have letters, digits, - and _ only")
        fields = {key: value for key, value in self._fields(table, 0, given).items() if key not in IGNORED}
        if ("preset" in fields) == ("command" in fields):
            raise self._wrong((table, 0, ""), f"backend {name!r} needs a preset or a command, one of the two")
        backend = BackendSettings(name=name, **fields)
        return (
            backend.replace(command=(backend.bin, *backend.command[1:])) if backend.bin and backend.command else backend
        )

    def _agents(self, index: int, given: object, defaults: dict[str, Any]) -> list[Post]:
        """The posts of one `[[agent]]`: as many as its count says."""
        own = self._fields("agent", index, given)
        name = self._name("agent", index, own)
        fields = {**defaults, **own}
        count, role = fields.pop("count", 0), fields.pop("role", "worker")
        asked = own.get("backend", "" if role in ROUNDS else fields.get("backend", ""))
        fields.pop("backend", None)
        kind = "tasks" if role not in ROUNDS else "session" if asked else "rounds"
        fields["cwd"] = self._folder("agent", index, fields.get("cwd") or fs.above(self.folder, ".git"))
        fields["prompt"] = self._prompt(index, fields.get("prompt"), (name, role))
        fields["backend"] = self._proved(index, asked, "" if kind == "rounds" else name)
        if (role == "reviewer" or fields.get("land", "none") != "none") and not fs.above(fields["cwd"], ".git"):
            what = "reviews changes" if role == "reviewer" else "is to land its work"
            raise self._wrong(
                self._said("agent", index, "land"), f"{name!r} {what}, and {fields['cwd']} is in no git repository"
            )
        how = next((key for key in (*HOW_IT_LANDS, "review_tags") if own.get(key, "none") != "none"), "")
        if how and role not in ("reviewer", *ROUNDS) and "land" not in fields and not fields.get("worktree"):
            raise self._wrong(
                ("agent", index, how),
                f"{name!r} says {how}, and not that its work lands: nobody would look at it",
                hint='Add land = "merge" or the like; land = "none" if it is for tasks that say it themselves.',
            )
        names = [f"{name}-{number}" for number in range(1, count + 1)] if count else [name]
        return [Post(**{**fields, "name": one, "kind": kind, "role": role}) for one in names]

    def _service(self, index: int, given: object) -> Post:
        fields = self._fields("service", index, given)
        name = self._name("service", index, fields)
        if "command" not in fields:
            raise self._wrong(("service", index, ""), f"service {name!r} needs a command")
        fields["command"] = self._runnable(("service", index, "command"), fields["command"])
        fields["cwd"] = self._folder("service", index, fields.get("cwd"))
        return Post(**{**fields, "name": name, "kind": "service", "role": "service"})

    def _add(self, posts: dict[str, Post], where: Place, new: list[Post]) -> None:
        for post in new:
            if post.name in posts:
                raise self._wrong(where, f"two of the crew would be called {post.name!r}")
            posts[post.name] = post

    # -- what they name ----------------------------------------------------------------------------

    def _name(self, table: str, index: int, fields: dict[str, Any]) -> str:
        name = str(fields.get("name", ""))
        if not name:
            raise self._wrong((table, index, ""), f"this {table} has no name")
        if _NAME.match(name) is None or name in RESERVED:
            text = (
                "is reserved for the crew's own files" if name in RESERVED else "may have letters, digits, - and _ only"
            )
            raise self._wrong((table, index, "name"), f"the name {name!r} {text}")
        return name

    def _folder(self, table: str, index: int, given: str | None) -> str:
        folder = os.path.normpath(os.path.join(self.folder, given or "."))
        if not os.path.isdir(folder):
            raise self._wrong(self._said(table, index, "cwd"), f"there is no folder {given!r}")
        return folder

    def _prompt(self, index: int, given: str | None, names: tuple[str, str]) -> str:
        """The file that says what the agent is to be; empty if there is none."""
        folders = (self.folder, self.root)
        wanted = [given] if given else [f"agents/{name}.md" for name in names]
        for path in (os.path.join(folder, one) for one in wanted for folder in folders):
            if os.path.isfile(path):
                return os.path.abspath(path)
        if not given:
            return ""
        place = os.path.join(self.folder, os.path.dirname(given))
        files = [
            os.path.join(os.path.dirname(given), one) for one in (os.listdir(place) if os.path.isdir(place) else ())
        ]
        raise self._wrong(self._said("agent", index, "prompt"), f"there is no prompt file {given!r}", given, files)

    def _proved(self, index: int, name: str, whose: str) -> BackendSettings | None:
        """The backend of this name, with a program that is there; `whose` is empty for those that need none."""
        if not name and not whose:
            return None
        if not name:
            raise self._wrong(("agent", index, "name"), f"agent {whose!r} has no backend", "", self.backends)
        if name not in self.backends:
            where = self._said("agent", index, "backend")
            raise self._wrong(where, f"there is no backend {name!r}", name, self.backends)
        backend, table = self.backends[name], f"backend.{name}"
        if backend.preset:
            self._preset(table, backend)
            return backend
        key = "bin" if backend.bin else "command"
        return backend.replace(command=self._runnable((table, 0, key), backend.command))

    def _preset(self, table: str, backend: BackendSettings) -> None:
        """There is such a preset, and its program is installed."""
        folders = preset.places(self.root)
        known = preset.names(folders)
        if backend.preset not in known:
            where = (table, 0, "preset")
            raise self._wrong(where, f"there is no preset {backend.preset!r}", backend.preset, known)
        self._runnable(
            (table, 0, "bin" if backend.bin else "preset"), (backend.bin or preset.find(backend.preset, folders).bin,)
        )

    def _runnable(self, where: Place, command: tuple[str, ...]) -> tuple[str, ...]:
        """The command as it will be run; Invalid if there is no such program."""
        words = {"{python}": sys.executable, "{here}": self.folder}
        argv = tuple(re.sub(r"\{(?:python|here)\}", lambda found: words[found[0]], word) for word in command)
        name = argv[0]
        if not find_program(name, self.folder, self.env):
            raise self._wrong(where, f"there is no command {name!r}, or it may not be executed")
        return argv

    # -- what is wrong -----------------------------------------------------------------------------

    def _said(self, table: str, index: int, key: str) -> Place:
        """Where this key was said: in its own table, or in the defaults."""
        own = (table, index, key)
        return own if own in self.lines else ("defaults", 0, key)

    def _wrong(self, where: Place, text: str, word: str = "", known: Iterable[str] = (), hint: str = "") -> Invalid:
        place, index, _ = where
        line = self.lines.get(where) or self.lines.get((place, index, "")) or 1
        names = sorted(known)
        there = f"There are: {', '.join(names)}." if names else ""
        hint = " ".join(filter(None, (hint or did_you_mean(word, names), there))) or "Nothing was started."
        return Invalid(
            f"{self.path}:{line}: {text}", hint=hint, path=self.path, line=line, nearest=nearest(word, names)
        )


# -- crews to begin with ---------------------------------------------------------------------------


FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "templates")


#: How a template says that nothing lands, and the same in a git checkout.
IN_CHECKOUT = (b'land = "none" ', b'land = "merge"')


def _can_land(root: str) -> bool:
    """Whether changes could land on a branch of the checkout that this folder is in."""
    found = checkout.find(root) if fs.above(root, ".git") else None
    return found is not None and found.has_commit and bool(found.branch)


def write_template(name: str, root: str) -> tuple[list[str], list[str]]:
    """All of this template is in the folder; what was written, and what was there and is left alone."""
    source = template_folder(name)
    found = (os.path.join(folder, one) for folder, _, names in os.walk(source) for one in names)
    written, kept = [], []
    for one in sorted(os.path.relpath(path, source) for path in found):
        target = os.path.join(root, one)
        fs.make_dir(os.path.dirname(target))
        try:
            data = fs.read(os.path.join(source, one), LARGEST)[0]
            if one == FILE and _can_land(root):
                data = data.replace(*IN_CHECKOUT)
            fs.create(target, data, sync=False)
        except FileExistsError:
            kept.append(one)
        else:
            written.append(one)
    return written, kept


def texts_of(name: str) -> set[str]:
    """Return the text of every file of this template."""
    source = template_folder(name)
    paths = (os.path.join(folder, file) for folder, _, names in os.walk(source) for file in names)
    return {fs.read(path, LARGEST)[0].decode("utf-8", "backslashreplace") for path in paths}


def template_folder(name: str) -> str:
    """Where this template is; NotFound if there is none of that name."""
    known = sorted(os.listdir(FOLDER))
    if name not in known:
        raise NotFound(f"there is no template {name!r}", hint=f"There are: {', '.join(known)}.", name=name)
    return os.path.join(FOLDER, name)
