"""Whether a queue's folder may run and connect: this user is asked once, as direnv asks.

A folder that came by clone, copy or another hand can name commands (hooks, presets, `agents.toml`, plug-ins,
tasks' checks) and a server to connect to (`address`). None of it is used before this user has trusted the folder:
a record in the user's own state directory, for this folder at this path, with a digest of what the folder can
start by itself. Another folder, or another digest, and the user is asked again.

Looking at a queue needs no trust.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from hashlib import blake2b
from shlex import quote
from typing import Any

from taskpit import fs, layouts
from taskpit.config import plain_settings
from taskpit.decode import read_json, read_toml
from taskpit.errors import Untrusted
from taskpit.model import Value

#: Where a folder says what it is, where it leads, what it runs, who works in it.
LAYOUT, ADDRESS, CONFIG = ".taskpit/layout", ".taskpit/address", ".taskpit/config.toml"
PRESETS, CREW = ".taskpit/presets", "agents.toml"
#: Whom a gateway of this folder would let in.
TOKENS = ".taskpit/tokens.json"
#: Nothing of this is longer.
LARGEST = 4 * 1024 * 1024
#: In scripts: whatever queue this command is about is trusted, and nothing is written down.
VARIABLE = "TASKPIT_TRUST"


#: What ends a word of a command or of a script; in quotes there may be one with blanks.
QUOTES = str.maketrans(dict.fromkeys("\"'`", "\n"))
ENDS = str.maketrans(dict.fromkeys("\"'`;|&<>()[]{}$=,", " "))
#: What a file that commands name is a program by, beside its mode and its first two letters.
PROGRAMS = (".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".mjs", ".cjs", ".ts", ".pl", ".rb", ".php", ".lua", ".awk")
#: A folder whose commands name more programs than this is never trusted.
MOST_SCRIPTS = 500
LONGEST_PATH = 4096


class Start(Value, frozen=True, kw_only=True):
    """One thing that a folder can start or connect to by itself."""

    #: hook, preset, crew, script, address, plug-in, or tokens by which others come in.
    kind: str
    name: str
    text: str


class Look(Value, frozen=True, kw_only=True):
    """A folder as it was read once: what was shown of it is what is recorded."""

    starts: tuple[Start, ...]
    #: The record that says that this user trusts the folder as it was read.
    record: dict[str, Any]


# -- the user's own state --------------------------------------------------------------------------


def state_path(*names: str) -> str:
    """Where something lies among this user's own state."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "taskpit", *names)


def config_path(name: str, env: Mapping[str, str]) -> str:
    """Where something lies among this user's own settings."""
    home = env.get("HOME") or os.path.expanduser("~")
    return f"{env.get('XDG_CONFIG_HOME') or os.path.join(home, '.config')}/taskpit/{name}"


def from_home(path: str) -> str:
    """The path as people write it, and as it may be shown to others: a home has its owner's name in it."""
    home = os.path.expanduser("~").rstrip("/")
    for known in (home, os.path.realpath(home) if home else ""):
        if known and (path == known or path.startswith(f"{known}/")):
            return f"~{path[len(known) :]}"
    return path


def state_dir(*names: str) -> str:
    """A directory among this user's own state, made if it is missing and closed to others."""
    path = state_path(*names)
    for made in (state_path(), path):
        if not os.path.lexists(made):
            fs.make_dir(made)
            fs.set_mode(made, 0o700)
        why = fs.foreign(made)
        if why:
            message = f"Set XDG_STATE_HOME to a directory of yours, or {VARIABLE}=1 for this command."
            raise Untrusted(f"{made} {why}, so it cannot keep what you trust", hint=message, path=made)
    return path


# -- what a folder can start -----------------------------------------------------------------------


def starts(root: str) -> list[Start]:
    """What the folder can start or connect to by itself, in a fixed order. Reads, runs nothing."""
    return list(_starts(os.path.realpath(root)))


def look(root: str) -> Look:
    """Read the folder once, to show it and to record just that."""
    root = os.path.realpath(root)
    found = tuple(_starts(root))
    return Look(starts=found, record=_facts(root, found))


def _starts(root: str) -> Iterator[Start]:
    top, commands = _project(root), []
    for one in _named(root, top):
        yield one
        if one.kind in ("hook", "preset", "crew"):
            commands += [one.text, *_strings(one)]
    yield from _scripts(root, top, commands)


def _strings(start: Start) -> list[str]:
    """The texts that stand in TOML or JSON, which may be spelled with escapes there."""
    try:
        if start.kind == "hook":
            todo: list[Any] = [read_json(start.text)] if start.text.startswith("[") else []
        else:
            todo = [read_toml(start.text)]
    except ValueError:
        return []
    found: list[Any] = []
    while todo:
        one = todo.pop()
        inside = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        todo += inside
        found.append(one)
    return [one for one in found if isinstance(one, str)]


def _scripts(root: str, top: str, texts: list[str]) -> Iterator[Start]:
    """The programs of the folder, or of the project around it, that these texts name, and those that they name in turn.

    Each word is looked for where commands run and beside who names it. What a program uses without naming its file
    (a Makefile, a module) is not found.
    """
    known: set[str] = set()
    todo = [(text, root) for text in texts]
    while todo:
        text, folder = todo.pop()
        for word in dict.fromkeys((*text.translate(QUOTES).split("\n"), *text.translate(ENDS).split())):
            for path in _meant(word, dict.fromkeys((root, top, folder)), top):
                if path in known or not _is_program(path):
                    continue
                known.add(path)
                found = _text(path, root, top)
                yield Start(kind="script", name=path, text=found)
                todo.append((found, os.path.dirname(path)))
        if len(known) > MOST_SCRIPTS:
            message = f"and more: so many cannot be looked at ({os.urandom(8).hex()})"
            yield Start(kind="script", name="", text=message)  # another one each time, so it is never what was trusted
            return


def _project(root: str) -> str:
    """The checkout that the folder lies in; without git the folder around it, if it is not one for everything."""
    above, home = os.path.dirname(root), os.path.realpath(os.path.expanduser("~"))
    if top := fs.above(above, ".git"):
        return top
    return root if f"{home}/".startswith(f"{above.rstrip('/')}/") else above


def _own(real: str, path: str, root: str, top: str) -> bool:
    """Whether a file that is reached by this path is the folder's own, or its checkout's, wherever links lead."""
    return real == path or real.startswith((f"{root}/", f"{top}/" if os.path.lexists(f"{top}/.git") else f"{root}/"))


def _meant(word: str, folders: Iterable[str], top: str) -> Iterator[str]:
    """The paths beneath `top` that this word may mean, seen from these folders: `$HERE/x.sh` ends with one."""
    while word and len(word) < LONGEST_PATH and "\0" not in word:
        for folder in folders:
            path = os.path.normpath(os.path.join(folder, word))
            if path.startswith(f"{top}/"):
                yield path
        word = word.partition("/")[2]


def _is_program(path: str) -> bool:
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return False
        first = fs.piece(os.path.realpath(path), 0, 2)
    except OSError:
        return False
    return first == b"#!" or bool(status.st_mode & 0o111) or path.endswith(PROGRAMS)


def _named(root: str, top: str) -> Iterator[Start]:
    """What the folder itself says that it runs or connects to."""
    name = _text(f"{root}/{LAYOUT}", root, top).strip()
    if name and name not in layouts.NAMES:
        yield Start(kind="plug-in", name=name, text=name)
    address = _text(f"{root}/{ADDRESS}", root, top).strip()
    if address and not name:
        yield Start(kind="address", name=ADDRESS, text=address)
    if tokens := _text(f"{root}/{TOKENS}", root, top):
        yield Start(kind="tokens", name=TOKENS, text=tokens)
    for event, command in _hooks(_text(f"{root}/{CONFIG}", root, top)).items():
        yield Start(
            kind="hook",
            name=event,
            text=command if isinstance(command, str) else json.dumps(command, ensure_ascii=False),
        )
    for file in _presets(f"{root}/{PRESETS}"):
        yield Start(kind="preset", name=file.removesuffix(".toml"), text=_text(f"{root}/{PRESETS}/{file}", root, top))
    for folder in (root, os.path.dirname(root)):
        if os.path.lexists(f"{folder}/{CREW}"):
            yield Start(kind="crew", name=f"{folder}/{CREW}", text=_text(f"{folder}/{CREW}", root, top))
            return


def _presets(folder: str) -> list[str]:
    try:
        return sorted(name for name in fs.names(folder) if name.endswith(".toml"))
    except OSError:
        return []


def _text(path: str, root: str, top: str) -> str:
    """The text that is read there, through links too; a few words instead if it is no plain file.

    Of what lies elsewhere, or is none, only a digest: what is shown is nothing but the project's own.
    """
    real = os.path.realpath(path)
    try:
        data, _ = fs.read(real, LARGEST)
    except FileNotFoundError:
        return ""
    except fs.TooBig:
        status = os.stat(real)
        return f"({status.st_size} bytes, of {status.st_mtime_ns} and {status.st_ctime_ns})"
    except OSError as error:
        return f"({error.strerror})"
    if b"\0" in data or not _own(real, path, root, top):
        return f"({real}, {len(data)} bytes: {blake2b(data, digest_size=32).hexdigest()})"
    return data.decode("utf-8", "backslashreplace")


def _hooks(text: str) -> dict[str, Any]:
    """The commands in `[hooks]`; the whole text if that cannot be told, so that any change of it counts."""
    try:
        found = plain_settings(text)
        hooks = (read_toml(text) if found is None else found).get("hooks", {})
    except ValueError:
        return {"config.toml": text}
    if not isinstance(hooks, dict):
        return {"config.toml": text}
    return {key: hooks[key] for key in sorted(hooks) if key not in ("timeout", "parallel")}


# -- the record ------------------------------------------------------------------------------------


def _record_of(root: str) -> str:
    return f"{state_dir('trust')}/{name_for(root)}"


def name_for(path: str) -> str:
    """A file name that stands for this path, however long that is."""
    return blake2b(os.fsencode(path), digest_size=16).hexdigest()


def _facts(root: str, found: Iterable[Start]) -> dict[str, Any]:
    """The folder, and what it can start, as a record has them."""
    status = os.stat(root)
    digest = blake2b(digest_size=32)
    for one in found:
        digest.update(json.dumps([one.kind, one.name, one.text], ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return {
        "path": root,
        # Devices without a major number (btrfs, NFS, overlays) are numbered afresh with every mount.
        "device": status.st_dev if os.major(status.st_dev) else 0,
        "inode": status.st_ino,
        # Numbers of inodes are used again: this tells the folder from a later one at the same path.
        "born": _born(root),
        "digest": digest.hexdigest(),
    }


def _born(root: str) -> int:
    for name in (LAYOUT, ADDRESS):
        found = fs.status(f"{root}/{name}")
        if found is not None:
            return found.st_mtime_ns
    return 0


def remember(root: str) -> bool:
    """Trust the folder as it is now. Return False if that could not be written down."""
    try:
        return record(look(root))
    except OSError:
        return False


def record(seen: Look) -> bool:
    """Trust the folder as it was read. Return False if that could not be written down.

    If the folder has changed since then, the record does not fit it and trusts nothing.
    """
    try:
        path = _record_of(seen.record["path"])
        data = json.dumps(seen.record, ensure_ascii=False).encode("utf-8", "surrogateescape")
        fs.replace(path, data, sync=False, mode=0o600)
    except (OSError, Untrusted):
        return False
    return True


def carry_over(before: Look, root: str, wrote: Collection[str] = ()) -> bool:
    """Trust a folder that was trusted before this process wrote these texts into it.

    Anything else that another program changed in the meantime is not trusted with it: then nothing is recorded, and
    the user is asked.
    """
    after = look(root)
    return all(one in before.starts or one.text in wrote for one in after.starts) and record(after)


def known() -> list[str]:
    """The folders that this user has made or trusted here and that are still the same, by path."""
    found = []
    for name in fs.names(state_path("trust")):
        try:
            facts = read_json(fs.read(state_path("trust", name), LARGEST)[0].decode("utf-8", "surrogateescape"))
            root = facts["path"]
            if isinstance(root, str) and os.stat(root).st_ino == facts["inode"] and facts["born"] == _born(root):
                found.append(root)
        except (OSError, ValueError, TypeError, KeyError):
            continue  # gone, moved, or no record of ours
    return sorted(found)


def forget(root: str) -> bool:
    """The folder is not trusted any more; whether it was."""
    return fs.remove(_record_of(os.path.realpath(root)))


def is_given(root: str) -> bool:
    """Whether the folder may run and connect."""
    return not why_not(root)


def trusted_look(root: str) -> Look | None:
    """Return the folder as it was read, if a record trusts it like that; not if it is trusted for one command only."""
    try:
        seen = look(root)
        return None if _unrecorded(seen) else seen
    except (OSError, Untrusted):
        return None


def why_not(root: str) -> str:
    """Why the folder may not run or connect yet, in words; empty if it may."""
    return "" if os.environ.get(VARIABLE) == "1" else _unrecorded(look(root))


def _unrecorded(seen: Look) -> str:
    facts = seen.record
    try:
        path = _record_of(facts["path"])
        known = read_json(fs.read(path, LARGEST)[0].decode("utf-8", "surrogateescape"))
        mine = isinstance(known, dict) and not fs.foreign(path)
    except FileNotFoundError:
        return "it was cloned, copied, or created by someone else"
    except (OSError, ValueError):
        return "the record of it cannot be read"
    if not mine or any(known.get(key) != facts[key] for key in ("path", "device", "inode", "born")):
        return "another folder has taken the place of the one that you trusted"
    return "" if known.get("digest") == facts["digest"] else "what it can start has changed since you trusted it"


def require(root: str) -> None:
    """Untrusted unless this user has trusted the folder: something that it names is about to run."""
    why = why_not(root)
    if why:
        raise untrusted(root, why)


def untrusted(root: str, why: str) -> Untrusted:
    """The refusal, with the one thing to do about it."""
    hint = f"`pit -C {quote(root)} trust` shows what it would run, and asks; {VARIABLE}=1 trusts it for one command."
    return Untrusted(f"you have not trusted {root} yet: {why}", hint=hint, path=root)


# -- what this user's own processes tell each other -------------------------------------------------


def seal(root: str, data: bytes) -> str:
    """What only a process of this user can put under these bytes, and only for this folder."""
    return sealer(root)(data)


def sealer(root: str) -> Callable[[bytes], str]:
    """The same for many: the folder and the secret are looked at once."""
    begun = blake2b(os.fsencode(os.path.realpath(root)) + b"\0", key=_key(), digest_size=16)

    def seal(data: bytes) -> str:
        one = begun.copy()
        one.update(data)
        return one.hexdigest()

    return seal


def _key() -> bytes:
    """A secret of this user's; made when it is first asked for."""
    path = f"{state_dir()}/key"
    scratch = f"{path}~{fs.fresh_name()}"
    if not os.path.lexists(path):
        fs.create(scratch, os.urandom(32), sync=False, mode=0o600)
        try:
            fs.link(scratch, path)  # the first one counts
        finally:
            fs.remove(scratch)
    why = fs.foreign(path)
    if why:
        raise Untrusted(f"{path} {why}", hint="Move it away; a new one is made.", path=path)
    return fs.read(path, LARGEST)[0]
