"""What is to be done for an agent, decided before anything is: each part's standing, and the bytes it would leave."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import tomllib
from collections.abc import Sequence
from enum import StrEnum
from shutil import which

from taskpit import fs
from taskpit.errors import Invalid
from taskpit.model import Value
from taskpit.run.allowed import without_secrets
from taskpit.setup import text_edits
from taskpit.setup.agent_files import AGENTS, LISTS, NAME, BlockPart, EntryPart, FilePart, Part, by_hand
from taskpit.setup.text_edits import HASH, MARKDOWN, has_stamp, is_ours, put_block, read_block, share_block, take_block
from taskpit.text import fit, plain


class PartState(StrEnum):
    """How a part stands."""

    FINE = "fine"
    MISSING = "missing"
    OUTDATED = "outdated"
    BY_HAND = "by hand"  #: a person wrote it otherwise: left alone
    REFUSED = "refused"  #: it can't be done safely


#: How a part stands that is not there, and is not going to be.
AMISS = (PartState.MISSING, PartState.REFUSED)


class PartPlan(Value, frozen=True, kw_only=True):
    """One part, how it stands, and what would be done about it."""

    name: str
    part: Part
    standing: PartState
    seen: ReadFile | None = None
    #: What the file should hold; the same as it does if nothing is to be done, None if it should go.
    data: bytes | None = None
    why: str = ""

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return self.seen is not None and self.data != self.seen.data


def steps_for(place: ProjectFolder, agent: str, *, remove: bool) -> list[PartPlan]:
    """What would make the agent know of the queue, or all as it was before."""
    named = [(part, name) for part in AGENTS[agent] for name in _names(place, part, remove=remove)]
    return [_step(place, part, name, agent, remove=remove) for part, name in named]


def refuse(steps: Sequence[PartPlan], said: str = "") -> None:
    """Invalid says which of the steps can't be done, and what a person would write there."""
    refused = [step for step in steps if step.standing is PartState.REFUSED]
    if refused:
        text = "; ".join(step.why for step in refused)
        add = "\n".join(f"By hand, {step.name} should have:\n{by_hand(step.part)}" for step in refused)
        raise Invalid(text, hint=f"{said}{add}", paths=[one.name for one in refused])


def carry_out(place: ProjectFolder, steps: Sequence[PartPlan]) -> list[str]:
    """Every step is done, or none was begun: Invalid says which can't be. The names of the files that changed."""
    refuse(steps)
    changed = []
    for step in steps:
        if step.seen is not None and step.changes:
            place.write(step.seen, step.data)
            changed.append(step.name)
    return changed


def _step(place: ProjectFolder, part: Part, name: str, agent: str, *, remove: bool) -> PartPlan:
    try:
        seen = place.see(name)
        made = _removed(place, part, seen, agent) if remove else _wanted(place, part, seen, agent)
        if made.changes:
            place.refuse_read_only(seen)
        return made
    except (Invalid, UnicodeDecodeError) as error:
        why = error.message if isinstance(error, Invalid) else "it is not UTF-8"
        text = why if why.startswith(name) else f"{name}: {why}"
        return PartPlan(name=name, part=part, standing=PartState.REFUSED, why=text)


def _names(place: ProjectFolder, part: Part, *, remove: bool) -> Sequence[str]:
    """The files that it may be in, if it goes; else that one it belongs into."""
    if not isinstance(part, EntryPart):
        return (part.path,)
    there = [path for path in part.paths if os.path.lexists(os.path.join(place.root, path))] or [part.paths[-1]]
    return there if remove else there[:1]


# -- in --------------------------------------------------------------------------------------------


def _wanted(place: ProjectFolder, part: Part, seen: ReadFile, agent: str) -> PartPlan:
    if isinstance(part, BlockPart):
        return _wanted_block(place, part, seen, agent)
    if isinstance(part, EntryPart):
        return _wanted_entry(part, seen)
    return _wanted_file(part, seen)


def _said(part: Part, seen: ReadFile, standing: PartState, data: bytes | None, why: str = "") -> PartPlan:
    return PartPlan(name=seen.name, part=part, standing=standing, seen=seen, data=data, why=why)


def _wanted_block(place: ProjectFolder, part: BlockPart, seen: ReadFile, agent: str) -> PartPlan:
    found = read_block(seen.data or b"", part.comment)
    if part.comment == HASH and found is None and _in_toml(seen.data):
        return _said(
            part, seen, PartState.BY_HAND, seen.data, f"{seen.name} has an entry {NAME} that was written by hand"
        )
    if found is not None and not found.is_one_of(*_texts(part)):
        data = share_block(seen.data or b"", agent, part.comment)
        return _said(part, seen, PartState.BY_HAND, data, _edited(seen))
    text = _texts(part)[-1] if _hides(place, part, seen) else part.text
    data = put_block(seen.data, text, agent, part.comment)
    if part.comment == HASH:
        _check_toml(seen.data, data)
    if data == seen.data:
        return _said(part, seen, PartState.FINE, data)
    return _said(part, seen, PartState.OUTDATED if found and agent in found.people else PartState.MISSING, data)


def _texts(part: BlockPart) -> tuple[str, ...]:
    """What the block says: alone, and where it names the file beside it."""
    return (part.text, f"@{part.beside}\n\n{part.text}") if part.beside else (part.text,)


def _edited(seen: ReadFile) -> str:
    return f"the {NAME} block in {seen.name} was changed by hand and is left as it is"


def _hides(place: ProjectFolder, part: BlockPart, seen: ReadFile) -> bool:
    """Whether a file that was made by us keeps another one from being read."""
    found = read_block(seen.data or b"", part.comment)
    ours = seen.data is None or (found is not None and found.made)
    beside = os.path.join(place.root, part.beside)
    return ours and bool(part.beside) and os.path.exists(beside) and os.path.realpath(beside) != seen.path


def _in_toml(data: bytes | None) -> bool:
    servers = _toml(data or b"").get("mcp_servers", {})
    return isinstance(servers, dict) and NAME in servers


def _toml(data: bytes) -> dict[str, object]:
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"it is not TOML: {error}") from None


def _check_toml(before: bytes | None, after: bytes) -> None:
    """Everything else still says what it said."""
    old, new = _toml(before or b""), _toml(after)
    for said in (old, new):
        servers = said.get("mcp_servers")
        if isinstance(servers, dict):
            said["mcp_servers"] = {key: value for key, value in servers.items() if key != NAME}
        if not said.get("mcp_servers"):
            said.pop("mcp_servers", None)
    if old != new:
        raise Invalid("it cannot be edited safely")


def _wanted_entry(part: EntryPart, seen: ReadFile) -> PartPlan:
    entry = dict(part.entry)
    if seen.data is None:
        return _said(part, seen, PartState.MISSING, text_edits.fresh_text(part.group, NAME, entry, part.head).encode())
    text = seen.data.decode()
    found = text_edits.read_entry(text, part.group, NAME)
    if found == entry:
        return _said(part, seen, PartState.FINE, seen.data)
    if found is not None:
        if "mcp" not in json.dumps(found):
            raise Invalid(f"its entry {NAME} is something else")
        return _said(
            part, seen, PartState.BY_HAND, seen.data, f"{seen.name} has an entry {NAME} that was written by hand"
        )
    return _said(part, seen, PartState.MISSING, text_edits.put_entry(text, part.group, NAME, entry).encode())


def _wanted_file(part: FilePart, seen: ReadFile) -> PartPlan:
    data = part.text.encode()
    if seen.data is None:
        return _said(part, seen, PartState.MISSING, data)
    if seen.data == data:
        return _said(part, seen, PartState.FINE, data)
    text = seen.data.decode()
    if is_ours(text):
        return _said(part, seen, PartState.OUTDATED, data)
    if not has_stamp(text) and not all(word in text for word in part.says):
        why = f"{seen.name} is your own and is left as it is; add to it by hand:\n{part.text}"
        return _said(part, seen, PartState.MISSING, seen.data, why)
    return _said(part, seen, PartState.BY_HAND, seen.data, f"{seen.name} was changed by hand and is left as it is")


# -- out -------------------------------------------------------------------------------------------


def _removed(place: ProjectFolder, part: Part, seen: ReadFile, agent: str) -> PartPlan:
    if seen.data is None:
        return _said(part, seen, PartState.MISSING, None)
    if isinstance(part, FilePart) and (others := _others(place, part, agent)):
        return _said(part, seen, PartState.MISSING, seen.data, f"{seen.name} stays: {', '.join(others)} use it")
    if isinstance(part, BlockPart):
        return _removed_block(place, part, seen, agent)
    if isinstance(part, EntryPart):
        return _removed_entry(part, seen)
    text = seen.data.decode()
    if is_ours(text):
        return _said(part, seen, PartState.FINE, None)
    if part.says and not has_stamp(text) and not any(word in text for word in part.says):
        return _said(part, seen, PartState.MISSING, seen.data)
    return _said(part, seen, PartState.BY_HAND, seen.data, f"{seen.name} was changed by hand and is left as it is")


def _removed_block(place: ProjectFolder, part: BlockPart, seen: ReadFile, agent: str) -> PartPlan:
    before = seen.data or b""
    found, data = read_block(before, part.comment), take_block(before, agent, part.comment)
    edited = found is not None and not found.is_one_of(*_texts(part))
    if found is not None and found.people == (agent,) and (edited or (part.comment == HASH and _in_toml(data))):
        return _said(part, seen, PartState.BY_HAND, before, _edited(seen))
    if part.comment == HASH and data is not None:
        _check_toml(before, data)
    if data is None and place.has_link_to(seen):
        data = b""
    return _said(part, seen, PartState.FINE if data != before else PartState.MISSING, data)


def _others(place: ProjectFolder, part: FilePart, agent: str) -> list[str]:
    """Who else has this file, as the block beside it says."""
    found = read_block(place.see(part.shared).data or b"", MARKDOWN) if part.shared else None
    return [name for name in found.people if name != agent and part in AGENTS.get(name, ())] if found else []


def _removed_entry(part: EntryPart, seen: ReadFile) -> PartPlan:
    entry, data = dict(part.entry), seen.data or b""
    text = data.decode()
    if text == text_edits.fresh_text(part.group, NAME, entry, part.head):
        return _said(part, seen, PartState.FINE, None)
    found = text_edits.read_entry(text, part.group, NAME)
    if found is None:
        return _said(part, seen, PartState.MISSING, data)
    if found != entry:
        return _said(part, seen, PartState.BY_HAND, data, f"{seen.name} has an entry {NAME} that was written by hand")
    return _said(part, seen, PartState.FINE, text_edits.drop_entry(text, part.group, NAME, entry).encode())


# -- whether an agent itself says that it has our server -------------------------------------------


#: How long its program may take: some start every server that they list.
PATIENCE = 90.0
#: Words by which a list says that a server is there and not reached.
NOT_YET = re.compile(r"(?i)pending|disabled|disconnected|not connected|fail|error|unauthori|needs|\u2717|\u25cb")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def listed(agent: str, project: str) -> tuple[str, str]:
    """Whether the agent lists our server in this folder (yes, no, or unknown: it cannot be asked), and a sentence."""
    command = LISTS.get(agent)
    if command is None:
        return "unknown", ""
    shown = " ".join(command)
    if which(command[0]) is None:
        return "unknown", f"{command[0]} is not installed here, so its own list was not asked"
    try:
        ran = subprocess.run(
            command,
            cwd=project,
            env=without_secrets(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "unknown", f"`{shown}` gave no answer: {type(error).__name__}"
    said = (ran.stdout + b"\n" + ran.stderr).decode("utf-8", "replace")
    lines = [" ".join(plain(_COLOURS.sub("", line)).split()) for line in said.splitlines()]
    ours = next((line for line in lines if re.search(rf"\b{NAME}\b", line)), "")
    if not ours:
        return "no", f"`{shown}` does not list {NAME}"
    return "no" if NOT_YET.search(ours) else "yes", f"`{shown}` says: {fit(ours, 160)}"


# -- the folder ------------------------------------------------------------------------------------

#: Settings and notes are smaller than this.
LARGEST = 4 * 1024 * 1024


class ReadFile(Value, frozen=True, kw_only=True):
    """A file as it was when it was read."""

    #: As people call it, and where it really is.
    name: str
    path: str
    #: None if it is not there.
    data: bytes | None
    mode: int = 0o644
    mark: tuple[int, int, int] = (0, 0, 0)


class ProjectFolder:
    """One project's folder."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)

    def see(self, name: str) -> ReadFile:
        """The file of this name, or that there is none; Invalid if it is nothing we could write."""
        path = os.path.realpath(os.path.join(self.root, name))
        if os.path.commonpath((self.root, path)) != self.root:
            raise Invalid(f"{name} leads out of the project, to {path}", path=name)
        if not os.path.lexists(path):
            if os.path.islink(os.path.join(self.root, name)):
                raise Invalid(f"{name} is a link that leads nowhere", path=name)
            return ReadFile(name=name, path=path, data=None)
        try:
            data, status = fs.read(path, LARGEST)
        except OSError as error:
            raise Invalid(f"{name} cannot be read: {error.strerror or error}", path=name) from error
        mode = stat.S_IMODE(status.st_mode)
        return ReadFile(name=name, path=path, data=data, mode=mode, mark=_mark(status))

    def refuse_read_only(self, seen: ReadFile) -> None:
        """Invalid if its owner does not want it changed, or its folder can't have it."""
        if seen.data is not None and not (seen.mode & 0o222 and os.access(seen.path, os.W_OK)):
            raise Invalid(f"{seen.name} is read-only", path=seen.name)
        folder = os.path.dirname(seen.path)
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder):
            raise Invalid(f"{seen.name} cannot be made: {folder} is not a folder", path=seen.name)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise Invalid(f"{seen.name} cannot be written: {folder} is read-only", path=seen.name)

    def has_link_to(self, seen: ReadFile) -> bool:
        """Whether a link of the project's own leads to the file, and would lead nowhere without it."""
        names = {part.path for parts in AGENTS.values() for part in parts if isinstance(part, BlockPart)}
        paths = [os.path.join(self.root, name) for name in names]
        return any(os.path.islink(path) and os.path.realpath(path) == seen.path for path in paths)

    def write(self, seen: ReadFile, data: bytes | None) -> None:
        """The file holds these bytes now, or is gone; readers see the old or the new, whole."""
        status = fs.status(seen.path)
        if (_mark(status) if status else None) != (seen.mark if seen.data is not None else None):
            raise Invalid(f"{seen.name} was changed by another program meanwhile", hint="Repeat the command.")
        if data is None:
            fs.remove(seen.path)
            self._tidy(os.path.dirname(seen.path))
            return
        fs.make_dir(os.path.dirname(seen.path))
        scratch = f"{seen.path}.{fs.fresh_name()}.tmp"
        fs.create(scratch, data, sync=True)
        try:
            if seen.data is not None:
                fs.set_mode(scratch, seen.mode)
            fs.move(scratch, seen.path)
        except OSError:
            fs.remove(scratch)
            raise

    def _tidy(self, folder: str) -> None:
        """Folders that hold nothing any more go with what they held."""
        while folder != self.root and folder.startswith(self.root + os.sep):
            try:
                os.rmdir(folder)
            except OSError:
                return
            folder = os.path.dirname(folder)


def _mark(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns
