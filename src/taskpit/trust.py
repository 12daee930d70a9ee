"""Whether a queue's folder may run and connect: this user is asked once, as direnv asks.

A folder that came by clone, copy or another hand can name commands (hooks, presets, `agents.toml`, plug-ins,
tasks' checks) and a server to connect to (`address`). None of it is used before this user has trusted the folder:
a record in the user's own state directory, for this folder at this path, with a digest of what the folder can
start by itself. Another folder, or another digest, and the user is asked again.

Looking at a queue needs no trust.
"""

from __future__ import annotations

import os

from taskpit import fs, jsontext, layouts
from taskpit.config import plain_settings
from taskpit.errors import Untrusted
from taskpit.records import Value
from taskpit.text import read_toml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from hashlib import blake2b
    from typing import Any
else:
    try:
        from _blake2 import blake2b  # what `hashlib` hands out, without loading OpenSSL
    except ImportError:
        from hashlib import blake2b

__all__ = [
    "Start",
    "forget",
    "is_given",
    "name_for",
    "remember",
    "require",
    "seal",
    "starts",
    "state_dir",
    "state_path",
    "untrusted",
    "why_not",
]

#: Where a folder says what it is, where it leads, what it runs, who works in it.
LAYOUT, ADDRESS, CONFIG = ".taskpit/layout", ".taskpit/address", ".taskpit/config.toml"
PRESETS, CREW = ".taskpit/presets", "agents.toml"
#: Nothing of this is longer.
LARGEST = 4 * 1024 * 1024
#: In scripts: whatever queue this command is about is trusted, and nothing is written down.
VARIABLE = "TASKPIT_TRUST"


class Start(Value):
    """One thing that a folder can start or connect to by itself."""

    #: hook, preset, crew, address or plug-in.
    kind: str
    name: str
    text: str


# -- the user's own state --------------------------------------------------------------------------


def state_path(*names: str) -> str:
    """Where something lies among this user's own state."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "taskpit", *names)


def state_dir(*names: str) -> str:
    """A directory among this user's own state, made if it is missing and closed to others."""
    path = state_path(*names)
    for made in (state_path(), path):
        if not os.path.lexists(made):
            fs.make_dir(made)
            fs.set_mode(made, 0o700)
        why = fs.foreign(made)
        if why:
            told = f"Set XDG_STATE_HOME to a directory of yours, or {VARIABLE}=1 for this command."
            raise Untrusted(f"{made} {why}, so it cannot keep what you trust", hint=told, path=made)
    return path


# -- what a folder can start -----------------------------------------------------------------------


def starts(root: str) -> list[Start]:
    """What the folder can start or connect to by itself, in a fixed order. Reads, runs nothing."""
    return list(_starts(os.path.realpath(root)))


def _starts(root: str) -> Iterator[Start]:
    name = _text(f"{root}/{LAYOUT}").strip()
    if name and name not in layouts.NAMES:
        yield Start(kind="plug-in", name=name, text=name)
    address = _text(f"{root}/{ADDRESS}").strip()
    if address and not name:
        yield Start(kind="address", name=ADDRESS, text=address)
    for event, command in _hooks(_text(f"{root}/{CONFIG}")).items():
        yield Start(kind="hook", name=event, text=command if isinstance(command, str) else jsontext.dumps(command))
    for file in _presets(f"{root}/{PRESETS}"):
        yield Start(kind="preset", name=file.removesuffix(".toml"), text=_text(f"{root}/{PRESETS}/{file}"))
    for folder in (root, os.path.dirname(root)):
        if os.path.lexists(f"{folder}/{CREW}"):
            yield Start(kind="crew", name=f"{folder}/{CREW}", text=_text(f"{folder}/{CREW}"))
            return


def _presets(folder: str) -> list[str]:
    try:
        return sorted(name for name in fs.names(folder) if name.endswith(".toml"))
    except OSError:
        return []


def _text(path: str) -> str:
    """The text that is read there, through links too; a few words instead if it is no plain file."""
    try:
        return fs.read(os.path.realpath(path), LARGEST)[0].decode("utf-8", "backslashreplace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"({error.strerror})"


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


def _facts(root: str) -> dict[str, Any]:
    """The folder, and what it can start, as a record has them."""
    status = os.stat(root)
    digest = blake2b(digest_size=32)
    for one in _starts(root):
        digest.update(jsontext.dumps([one.kind, one.name, one.text]).encode("utf-8", "surrogatepass"))
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
    """This user trusts the folder as it is now; False if that could not be written down."""
    root = os.path.realpath(root)
    try:
        path = _record_of(root)
        data = jsontext.dumps(_facts(root)).encode("utf-8", "surrogateescape")
        fs.replace(path, data, f"{path}~{fs.fresh_name()}", sync=False, mode=0o600)
    except (OSError, Untrusted):
        return False
    return True


def known() -> list[str]:
    """The folders that this user has made or trusted here and that are still the same, by path."""
    found = []
    for name in fs.names(state_path("trust")):
        try:
            facts = jsontext.loads(fs.read(state_path("trust", name), LARGEST)[0].decode("utf-8", "surrogateescape"))
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


def why_not(root: str) -> str:
    """Why the folder may not run or connect yet, in words; empty if it may."""
    if os.environ.get(VARIABLE) == "1":
        return ""
    root = os.path.realpath(root)
    try:
        path = _record_of(root)
        known = jsontext.loads(fs.read(path, LARGEST)[0].decode("utf-8", "surrogateescape"))
        mine = isinstance(known, dict) and not fs.foreign(path)
    except FileNotFoundError:
        return "it came by clone, copy or another hand, or was made by an older version"
    except (OSError, ValueError):
        return "the record of it cannot be read"
    facts = _facts(root)
    if not mine or any(known.get(key) != facts[key] for key in ("path", "device", "inode", "born")):
        return "another folder stands now where the one was that you trusted"
    return "" if known.get("digest") == facts["digest"] else "what it can start has changed since you trusted it"


def require(root: str) -> None:
    """Untrusted unless this user has trusted the folder: something that it names is about to run."""
    why = why_not(root)
    if why:
        raise untrusted(root, why)


def untrusted(root: str, why: str) -> Untrusted:
    """The refusal, with the one thing to do about it."""
    hint = f"`pit -C {_quoted(root)} trust` shows what it can run and asks; {VARIABLE}=1 trusts it for one command."
    return Untrusted(f"{root} is not trusted to run or connect to anything: {why}", hint=hint, path=root)


def _quoted(text: str) -> str:
    from shlex import quote

    return quote(text)


# -- what this user's own processes tell each other -------------------------------------------------


def seal(root: str, data: bytes) -> str:
    """What only a process of this user can put under these bytes, and only for this folder."""
    root = os.path.realpath(root)
    return blake2b(os.fsencode(root) + b"\0" + data, key=_key(), digest_size=16).hexdigest()


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
