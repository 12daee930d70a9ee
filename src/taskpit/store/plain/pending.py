"""Changes under way: parts, tokens, and completing what was decided.

The protocol. *Parts* are written to pending/ before the lock. Under the lock one call *decides*: from then on the
change happens, whatever dies. What follows (*show*) is repeatable, so any process can complete it, after any crash.

verb             deciding call                   shown by         a crash leaves, before the decision / after it
put              link(part, open/<id>)           `show_put`       part, removed after an hour / part to move
claim            rename(ready, claimed)          nothing          a stamped ready file / reclaimed when it lapses
claim (mailbox)  rename(inbox, token claim)      `_show_claim`    as above / holder's copy shown, or given back
done failed      rename(claimed, token verdict)  `_show_end`      parts / result to show, task to end
cancelled        the same                        the same         the same
retry hold wait  rename(claimed, token next)     `_show_next`     the same / new bytes to show
release reclaim  rename(claimed, token back)     `_show_back`     nothing / file to move to the ready ones
reopen           rename(ended/<id>~failed, ...)  `_show_reopen`   parts / new bytes to show, old result late
put there again  the same, token tossed          `_show_tossed`   nothing / file registered where it is

A process that dies after the decision leaves the token (of a put: the part that is `open/<id>`) in pending/. The
next holder of the lock, if its text is not idle, completes it; so does a sweep, and a claim that finds nothing. The
process that decided may find its change completed: then it only answers.

Durability. On a disk that keeps the order of names (ext4, XFS) one fsync of a part after the decision commits both,
and what is shown later needs none: after a power loss it is shown again. Elsewhere parts and pending/ are flushed
before the decision, pending/, open/ and the old folder of the token after it, the shown folders before the token goes.
So bytes and decision are on the disk before anything is visible.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from taskpit.clock import Clock
from taskpit.config import Config
from taskpit.errors import Invalid
from taskpit.ids import path_of
from taskpit.layouts import Layout, Spot
from taskpit.model import SPLIT_FROM, State, Task, Verdict
from taskpit.store.plain import conflicts, paths
from taskpit.store.plain.changelog import CHANGE, DIGEST, digest
from taskpit.store.plain.files import Files, NotAFile, TooBig
from taskpit.store.plain.folder import Folder
from taskpit.store.plain.lock import QueueLock
from taskpit.store.plain.paths import LARGEST_RESULT, Part, Token, stub

#: Parts of changes that were never decided are removed after so many seconds.
LEFT_OVER = 3600.0
#: What the changelog says of a change that another process completed.
ACTIONS = {
    "done": "completed_task",
    "failed": "failed_task",
    "cancelled": "cancelled_task",
    "reopen": "reopened_task",
    "tossed": "reopened_task",
    "back": "released_task",
}
CARRIED_OUT = "carried out after its worker had gone"
#: Tokens whose deciding call took a claimed file; those of a result took one from ended/.
VERDICTS = tuple(map(str, Verdict))


class Change(NamedTuple):
    """A token with its parts, by kind; children apart, in order."""

    token: Token
    parts: dict[str, Part]
    children: tuple[Part, ...] = ()


def open_folder(files: Files, layout: Layout, config: Config, clock: Clock, young: float = paths.YOUNG) -> Folder:
    """Return the folder of a queue, with its lock and what completes unfinished changes."""
    folder = Folder(files, layout, config, clock, young)
    folder.pending = pending = Pending(folder)
    folder.lock = QueueLock(files, clock, pending.recover)
    return folder


class Pending:
    """Everything in pending/ of one queue. Its methods are called under the lock, except `write` and `settle`."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._files = folder.files

    # -- parts -------------------------------------------------------------------------------------------------------

    def write(self, parts: Sequence[tuple[Part, bytes]]) -> None:
        """Write parts; on a disk that keeps no order they are flushed before the decision."""
        folder = self._folder
        early, now = folder.durable and not folder.ordered, folder.clock.now()
        try:
            for part, data in parts:
                self._files.create(part.path, data, modified=paths.dated(now, data), sync=early)
            if early and parts:
                self._files.sync_dir(paths.PENDING)
        except OSError:
            self.remove(part for part, _ in parts)
            raise

    def write_missing(self, parts: Sequence[tuple[Part, bytes]], since: tuple[float, float]) -> None:
        """Write those again that a sweep removed while their process was suspended."""
        if max(now - then for now, then in zip(self.clocks(), since, strict=True)) < LEFT_OVER / 2:
            return
        missing = [(part, data) for part, data in parts if self._files.stat(part.path) is None]
        if missing:
            self.write(missing)

    def clocks(self) -> tuple[float, float]:
        """Return both clocks: one of them counts while the machine sleeps, the other cannot be set."""
        return self._folder.clock.now(), self._folder.clock.monotonic()

    def remove(self, parts: Iterable[Part]) -> None:
        """Remove parts that are of no use."""
        for part in parts:
            with suppress(OSError):
                self._files.remove(part.path)

    def settle(self, parts: Sequence[tuple[Part, bytes]], *folders: str) -> None:
        """Flush what was decided. A part that is gone was used by another process, which had flushed it.

        Parts that the disk refused are written again in place before the error is raised: asked to flush them once more
        it would claim success.
        """
        folder = self._folder
        if not folder.durable:
            return
        try:
            if folder.ordered:
                for part, data in parts:
                    self._files.sync(part.path, touch=paths.dated(folder.clock.now(), data))
            else:
                folder.sync_dirs(paths.PENDING, paths.OPEN, *folders)
        except OSError:
            for part, data in parts:
                with suppress(OSError):
                    if self._files.stat(part.path) is not None:
                        self._files.write_at(part.path, 0, data, cut=True)
            raise

    # -- completing what others left ---------------------------------------------------------------------------------

    def listing(self) -> tuple[list[Change], list[Part]]:
        """List the changes under way, and the parts that belong to none."""
        found = [one for file in self._files.names(paths.PENDING) if (one := paths.parse_pending(file)) is not None]
        parts = sorted(one for one in found if isinstance(one, Part))
        changes = []
        for token in sorted(one for one in found if isinstance(one, Token)):
            own = [part for part in parts if part.nonce == token.nonce]
            children = tuple(part for part in own if part.kind.startswith("child"))
            changes.append(Change(token, {part.kind: part for part in own if part not in children}, children))
        used = {change.token.nonce for change in changes}
        return changes, [part for part in parts if part.nonce not in used]

    def recover(self) -> list[str]:
        """Complete every change that was decided; return the ids of the tasks."""
        self._folder.log.doubtful = True
        changes, parts = self.listing()
        puts = [part for part in parts if part.kind == "put" or part.kind.startswith("child")]
        besides = {part.nonce: part for part in parts if part.kind == "beside"}
        done = [self._id(part.name) for part in puts if self._recover_put(part, besides.get(part.nonce))]
        for change in changes:
            self._flush(change)
            if self._is_torn(change):
                self._undo(change)
            else:
                self.show(change)
            done.append(self._id(change.token.name))
        return done

    def complete(self, token: Token, details: str, *parts: Part) -> None:
        """Show a change that this process has just decided in the same hold of the lock."""
        change = Change(token, {part.kind: part for part in parts})
        self._flush(change)
        more = {CHANGE: token.nonce, **self._digest_of(change)}
        line = self._folder.line(ACTIONS[token.kind.partition(".")[0]], self._id(token.name), details=details, **more)
        self.show(change, line)

    def is_pending(self, task_id: str) -> bool:
        """Tell whether a change of this task is under way."""
        return any(self._id(change.token.name) == task_id for change in self.listing()[0])

    def left_over(self, now: float) -> list[Part]:
        """List parts that were never decided and are old enough that their process will not use them."""
        statuses = ((part, self._files.stat(part.path)) for part in self.listing()[1])
        return [part for part, status in statuses if status is not None and now - status.st_ctime > LEFT_OVER]

    def _recover_put(self, part: Part, beside: Part | None) -> bool:
        """Complete a put that was decided; False if it was not."""
        task_id = self._id(part.name)
        mine, known = self._files.stat(part.path), self._files.stat(paths.open_path(task_id)) if task_id else None
        if mine is None or known is None or mine.st_ino != known.st_ino:
            return False
        ended = self._files.stat(paths.ended_path(task_id)) is not None
        if ended or self._is_part_torn(part):  # of an ended task, or never acknowledged: the id is not taken by it
            self._files.remove(paths.open_path(task_id))
            self._files.remove(part.path)
            return True
        if self._folder.durable:
            self._files.sync(part.path)
            self._folder.sync_dirs(paths.OPEN)
        if beside is not None:
            self.show_beside(beside)
        self.show_put(part)
        return True

    def _flush(self, change: Change) -> None:
        """Flush the bytes and names of a change that another process decided."""
        if not self._folder.durable:
            return
        for part in (*change.parts.values(), *change.children):
            self._files.sync(part.path)
        self._files.sync(change.token.path)
        self._folder.sync_dirs(paths.PENDING, paths.OPEN, paths.ENDED, self._folder.layout.claimed)

    def _is_torn(self, change: Change) -> bool:
        """Tell whether bytes that were not yet shown are missing: then the end was never acknowledged.

        `shown` is a copy of the result, never checked: agents write into it.
        """
        for kind, part in change.parts.items():
            if kind in ("result", "next") and self._is_part_torn(part):
                return True
        if any(map(self._is_part_torn, change.children)):
            return True
        if change.token.kind in VERDICTS and "result" not in change.parts:
            return self._folder.verdict(self._id(change.token.name)) is None
        return False

    def _is_part_torn(self, part: Part) -> bool:
        try:
            data, _ = self._files.read(part.path, part.size)
        except FileNotFoundError:
            return False
        except (NotAFile, TooBig):
            return True  # any other error says nothing of the bytes: recovery is tried again
        return (len(data), crc32(data)) != (part.size, part.crc)

    def _undo(self, change: Change) -> None:
        """Give the task back: nothing of this end was shown."""
        token = change.token
        kind, _, verdict = token.kind.partition(".")
        if kind in ("reopen", "tossed"):
            target = paths.ended_path(self._id(token.name), f"~{verdict}")
            with suppress(FileExistsError):
                self._files.move(token.path, target)
        else:
            self._show_back(token)
        self.remove((*change.parts.values(), *change.children))

    # -- showing -----------------------------------------------------------------------------------------------------

    def show(self, change: Change, line: bytes = b"", task: Task | None = None, *, fresh: bool = False) -> bool:
        """Carry out a change that was decided, as far as it is not yet. False if another program's result stands.

        The process that decided it passes the line to log; another one logs only what was not logged. `fresh`: it was
        decided in this very hold of the lock.
        """
        kind = change.token.kind.partition(".")[0]
        if not fresh and self._files.stat(change.token.path) is None:
            return True  # another process has completed it
        if kind in VERDICTS:
            return self._show_end(change, line, task)
        if kind == "next":
            self._show_next(change, line)
        elif kind == "reopen":
            self._show_reopen(change, line)
        elif kind == "tossed":
            self._show_tossed(change, line)
        elif kind == "claim":
            self._show_claim(change)
        else:
            self._show_what_came(change)
            self._tell(change, line)
            self._show_back(change.token)
        return True

    def show_put(self, part: Part, line: bytes = b"", *, logged: bool = False) -> None:
        """Log a put that was decided and move its file to the ready ones."""
        task_id = self._id(part.name)
        if not logged and not (line or self._folder.log.is_logged(part.nonce)):
            line = self._folder.line("added_task", task_id, details="found half way", **self._marks(part))
        if line:
            self._folder.log.append(line)
        self._enter(part.path, part.name)

    def show_beside(self, part: Part) -> None:
        """Keep next to a task what other programs drop from it."""
        self._files.replace(part.path, paths.open_path(self._id(part.name), "~beside"))

    def admit(self, part: Part) -> bool:
        """Decide a put: the id is this part's from now on. False if it is known."""
        task_id = self._id(part.name)
        if self._files.stat(paths.ended_path(task_id)) is not None:
            return False
        if not self._files.link(part.path, paths.open_path(task_id)):
            return False
        if self._files.disk().local or self._files.stat(paths.ended_path(task_id)) is None:
            return True
        self._files.remove(paths.open_path(task_id))  # it ended between the two looks
        return False

    def _show_end(self, change: Change, line: bytes, task: Task | None) -> bool:
        token, parts = change.token, change.parts
        task_id, verdict = self._id(token.name), Verdict(token.kind)
        self._show_what_came(change)
        stands = self._publish(change, verdict, task or self._task(token))
        opened, ended = paths.open_path(task_id), paths.ended_path(task_id)
        if "next" in parts:
            with suppress(FileNotFoundError):
                self._files.link(opened, paths.ended_path(task_id, "~put"))
            self._folder.supersede(opened, ended)
            self._show_text(parts["next"], token, verdict)
        else:
            self._folder.supersede(opened, ended)
        if stands:
            self._tell(change, line)
        self._sync_shown()
        self._retire(token, verdict)
        return stands

    def _show_text(self, part: Part, token: Token, verdict: Verdict) -> None:
        """Make the bytes of an end the task's own, also where they stay visible."""
        task_id = self._id(token.name)
        mine = self._files.stat(part.path)
        if mine is None:
            return
        ended = self._files.stat(paths.ended_path(task_id))
        if ended is None or ended.st_ino != mine.st_ino:
            self._files.remove(paths.ended_path(task_id))
            self._files.link(part.path, paths.ended_path(task_id))
        visible = self._folder.layout.ended_path(Spot(state=State.READY, id=task_id), verdict)
        if visible:
            with suppress(FileExistsError):
                self._files.move(part.path, visible)
        self._files.remove(part.path)

    def _retire(self, token: Token, verdict: Verdict) -> None:
        """Take the token away; where the task's own file stays visible, it becomes that."""
        visible = self._folder.layout.ended_path(Spot(state=State.READY, id=self._id(token.name)), verdict)
        if visible:
            with suppress(FileExistsError):
                if self._files.move(token.path, visible):
                    return
        self._files.remove(token.path)

    def _publish(self, change: Change, verdict: Verdict, task: Task) -> bool:
        """Show the result; False if another program's stands: then ours is kept with the late ones."""
        folder, part, task_id = self._folder, change.parts.get("result"), task.id
        known = folder.verdict(task_id) if self._files.stat(paths.ended_path(task_id)) else None
        mine = self._files.stat(part.path) if part is not None else None
        if part is None or mine is None:
            stands = folder.verdict(task_id) is verdict  # also where a process died before ended/<id> was there
            again = folder.layout.result_path(task, verdict, change.token.nonce[-6:])
            path = folder.layout.result_path(task, verdict)
            if stands and self._files.stat(path) is None and self._files.stat(again) is None:
                folder.show_kept(path, paths.ended_path(task_id, f"~{verdict}"))  # a power loss took the visible name
            return stands
        if known is None and verdict is not Verdict.DONE and self._is_done_by_others(task):
            return self._too_late(change, part)
        if known not in (None, verdict) or not self._show_result(change, part, verdict, task):
            return self._too_late(change, part)
        try:
            self._files.move(part.path, paths.ended_path(task_id, f"~{verdict}"))
        except FileExistsError:
            there = self._files.stat(paths.ended_path(task_id, f"~{verdict}"))
            if there is None or there.st_ino != mine.st_ino:
                return self._too_late(change, part)
            self._files.remove(part.path)
        if "shown" in change.parts:
            self._files.remove(change.parts["shown"].path)
        return True

    def _is_done_by_others(self, task: Task) -> bool:
        """Learn that another program has done the task while we fail: what is done stays done."""
        end = self._folder.foreign_end(task)
        return end is not None and end.verdict is Verdict.DONE and conflicts.learn(self._folder, end, patient=False)

    def _show_result(self, change: Change, part: Part, verdict: Verdict, task: Task) -> bool:
        """Give the result its visible name. False if another program's result has that name.

        Where agents overwrite results in place, a copy is shown; an output that is there already is a draft.
        """
        folder, path = self._folder, self._folder.layout.result_path(task, verdict)
        shown = change.parts.get("shown")
        if folder.in_place:
            if shown is not None and not self._link(shown, path):
                folder.keep_late(path, task.id, f"{change.token.nonce}.draft")
                self._link(shown, path)
            return True
        if self._link(part, path):
            return True
        if path not in folder.layout.finished_paths(task):
            return self._link(part, folder.layout.result_path(task, verdict, change.token.nonce[-6:]))
        spot = folder.spot(*path.rsplit("/", 1))
        if spot is not None:
            conflicts.learn(folder, spot, patient=False)
        return False

    def _link(self, part: Part, path: str) -> bool:
        """Give a part its visible name; True also if it has it already."""
        try:
            if self._files.link(part.path, path):
                return True
        except FileNotFoundError:
            if self._files.stat(part.path) is None:
                return True  # shown before
            self._folder.make_place(path)
            return self._link(part, path)
        there, mine = self._files.stat(path), self._files.stat(part.path)
        return there is not None and mine is not None and there.st_ino == mine.st_ino

    def _too_late(self, change: Change, part: Part) -> bool:
        task_id = self._id(change.token.name)
        where = self._folder.keep_late(part.path, task_id, change.token.nonce)
        self._folder.tell("late_result", task_id, self._worker(change.token), f"kept in {where}")
        if "shown" in change.parts:
            self._files.remove(change.parts["shown"].path)
        return False

    def _show_next(self, change: Change, line: bytes) -> None:
        self._show_what_came(change)
        part = change.parts.get("next")
        mine = self._files.stat(part.path) if part is not None else None
        if part is not None and mine is not None:
            self._open(part.path, mine.st_ino, self._id(part.name))
            self._tell(change, line)
            self._enter(part.path, part.name)
        self._sync_shown()
        self._files.remove(change.token.path)

    def _open(self, path: str, inode: int, task_id: str) -> None:
        """Make this file the open task's own; the first one is kept as the task was put."""
        opened = self._files.stat(paths.open_path(task_id))
        if opened is not None and opened.st_ino == inode:
            return
        if opened is not None:
            conflicts.keep_wish(self._folder, task_id)
        self._files.link(path, paths.open_path(task_id))

    def _show_back(self, token: Token) -> None:
        with suppress(OSError, Invalid):
            data, _ = self._folder.read(token.path)
            self._date(token.path, data)
        self._sync_shown(claimed=True)
        self._enter(token.path, token.name)

    def _date(self, path: str, data: bytes) -> None:
        try:
            self._files.set_times(path, paths.dated(self._folder.clock.now(), data))
        except PermissionError:
            return  # another user's file: it waits two seconds more

    def _show_reopen(self, change: Change, line: bytes) -> None:
        token = change.token
        task_id = self._id(token.name)
        self._show_what_came(change)
        self._withdraw(token)
        part = change.parts.get("next")
        mine = self._files.stat(part.path) if part is not None else None
        if part is not None and mine is not None:
            self._reopen(part.path, mine.st_ino, task_id)
            self._tell(change, line)
            self._enter(part.path, part.name)
        self._sync_shown()
        self._folder.keep_late(token.path, task_id, token.nonce)

    def _show_tossed(self, change: Change, line: bytes) -> None:
        token = change.token
        task_id = self._id(token.name)
        path = self._folder.ready_path(token.name)
        there = self._files.stat(path)
        claimed = self._folder.claims_of(task_id)
        if there is None and claimed:
            path = claimed[0].path
            there = self._files.stat(path)
        if there is None:  # it is gone again: the task has failed as before
            self._undo(change)
            return
        self._withdraw(token)
        self._reopen(path, there.st_ino, task_id)
        self._tell(change, line)
        self._sync_shown()
        self._folder.keep_late(token.path, task_id, token.nonce)

    def _reopen(self, path: str, inode: int, task_id: str) -> None:
        """Make this file the task's own again; how it was put stays known."""
        with suppress(FileExistsError):
            self._files.move(paths.ended_path(task_id), paths.ended_path(task_id, "~put"))
        self._files.remove(paths.ended_path(task_id))
        self._open(path, inode, task_id)

    def _withdraw(self, token: Token) -> None:
        """Take the old result from where people read it, before the task is ready again."""
        folder, task = self._folder, stub(self._spot(token.name))
        mine = self._files.stat(token.path)
        for verdict in (Verdict.FAILED, Verdict.CANCELLED):
            ended = folder.layout.ended_path(task, verdict)
            if ended and self._files.stat(ended) is not None:
                folder.keep_late(ended, task.id, f"{token.nonce}.task")
            path = folder.layout.result_path(task, verdict)
            there = self._files.stat(path)
            if there is not None and mine is not None and (there.st_ino == mine.st_ino or ended):
                self._files.remove(path)

    def _show_claim(self, change: Change) -> None:
        """Mailbox: show the holder's copy; if it is gone and no copy is shown, give the task back."""
        token, held = change.token, change.parts.get("held")
        task_id = self._id(token.name)
        claimed = self._folder.layout.claimed_path(Task(id=task_id, title=""), "")
        if held is not None and self._files.stat(held.path) is not None:
            with suppress(FileExistsError):
                self._files.move(held.path, claimed)
            self._files.remove(held.path)
        if self._files.stat(claimed) is not None:
            self._files.remove(token.path)
        else:
            self._show_back(token)

    def _show_what_came(self, change: Change) -> None:
        """Show children, the try, notes, and what is kept next to the task."""
        task_id = self._id(change.token.name)
        for part in change.children:
            if self._files.stat(part.path) is None:
                continue
            known = self._files.stat(paths.open_path(self._id(part.name)))
            mine = self._files.stat(part.path)
            if (known is not None and mine is not None and known.st_ino == mine.st_ino) or self.admit(part):
                details = f"{SPLIT_FROM}{task_id}"
                nonce = f"{part.nonce}.{self._id(part.name)}"
                logged = self._folder.log.is_logged(nonce)
                more = {DIGEST: f"{part.size}-{part.crc:08x}", CHANGE: nonce}
                line = b"" if logged else self._folder.line("added_task", self._id(part.name), details=details, **more)
                self.show_put(part, line, logged=True)
            else:
                self._files.remove(part.path)
        for kind, part in change.parts.items():
            if kind == "try":
                with suppress(FileExistsError):
                    self._folder.move(part.path, path_of(paths.TRIES, task_id, f"~{change.token.nonce}"))
                self._files.remove(part.path)
            elif kind == "beside":
                self.show_beside(part)
            elif kind.startswith("note."):
                note = self._folder.layout.note_path(stub(self._spot(change.token.name)), kind[5:])
                self._folder.make_place(note)
                self._files.replace(part.path, note)

    # -- small steps -------------------------------------------------------------------------------------------------

    def _enter(self, path: str, name: str) -> None:
        """Move a file to the ready ones. The registered file wins its name: another one there is pushed aside."""
        target = self._folder.ready_path(name)
        for _ in range(100):
            try:
                self._folder.move(path, target)
            except FileExistsError:
                mine, there = self._files.stat(path), self._files.stat(target)
                if mine is None:
                    return
                if there is not None and mine.st_ino == there.st_ino:  # a power loss left both names
                    self._files.remove(path)
                    return
                if there is not None:
                    conflicts.push_aside(self._folder, name, there)
            else:
                return

    def _tell(self, change: Change, line: bytes) -> None:
        if not line and not self._folder.log.is_logged(change.token.nonce):
            kind = change.token.kind.partition(".")[0]
            action = ACTIONS.get(kind, "retried_task" if "try" in change.parts else "released_task")
            more = {CHANGE: change.token.nonce, **self._digest_of(change)}
            worker = self._worker(change.token)
            line = self._folder.line(action, self._id(change.token.name), worker, CARRIED_OUT, **more)
        if line:
            self._folder.log.append(line)

    def _digest_of(self, change: Change) -> dict[str, str]:
        """Return size and checksum of the bytes that a change shows, also if they are in their place by now."""
        token, part = change.token, change.parts.get("result" if change.token.kind in VERDICTS else "next")
        if part is not None:
            return {DIGEST: f"{part.size}-{part.crc:08x}"}
        if token.kind in VERDICTS:
            with suppress(OSError):
                kept = paths.ended_path(self._id(token.name), f"~{token.kind}")
                return {DIGEST: digest(self._files.read(kept, LARGEST_RESULT)[0])}
        return {}

    def _worker(self, token: Token) -> str:
        """Find the fence of a claim whose end begins with its nonce."""
        nonce = token.nonce.partition(".")[0]
        for event in reversed(self._folder.log.recent(self._id(token.name))):
            if paths.claim_nonce(event.worker) == nonce:
                return event.worker
        return "keeper"

    def _marks(self, part: Part) -> dict[str, str]:
        return {DIGEST: f"{part.size}-{part.crc:08x}", CHANGE: part.nonce}

    def _sync_shown(self, *, claimed: bool = False) -> None:
        """Flush what was shown before the token goes; an ordered disk brings the names in order by itself."""
        if self._folder.durable and not self._folder.ordered:
            layout = self._folder.layout
            results = layout.result_path(stub(Spot(state=State.READY, id="0")), Verdict.DONE).partition("/")[0]
            places = (paths.OPEN, paths.ENDED, layout.ready, results, *layout.results)
            self._folder.sync_dirs(*places, *((layout.claimed,) if claimed else ()))

    def _spot(self, name: str) -> Spot:
        return self._folder.ready_spot(name) or Spot(state=State.READY, id="unknown")

    def _id(self, name: str) -> str:
        return self._spot(name).id

    def _task(self, token: Token) -> Task:
        spot = self._spot(token.name)
        try:
            data, _ = self._files.read(token.path, LARGEST_RESULT)
            return self._folder.parse(spot, data)
        except (OSError, Invalid):
            return stub(spot)
