"""Claims end: the rows from *done* to *reopen* of the protocol (see `pending`)."""

from __future__ import annotations

import json
from binascii import crc32
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from taskpit.clock import JUMP, iso
from taskpit.errors import Invalid
from taskpit.layouts import Spot
from taskpit.model import Claim, End, Said, State, Task
from taskpit.store.plain import conflicts, paths
from taskpit.store.plain.changelog import CHANGE, DIGEST, digest
from taskpit.store.plain.files import NotAFile, TooBig
from taskpit.store.plain.folder import FULL, Folder
from taskpit.store.plain.leases import load_record
from taskpit.store.plain.paths import LARGEST_RESULT, SLACK, Part, Token, part_of
from taskpit.store.plain.pending import Change
from taskpit.store.plain.put import CHUNK, settings_digest

#: A holder's file that was changed this much later than it was stamped was taken back and claimed by another program.
STRANGE = 900.0


class Draft:
    """One end: its token, its parts and the line that tells of it."""

    def __init__(self, folder: Folder, end: End) -> None:
        self.folder = folder
        self.end = end
        claim = end.claim
        self.kind = str(end.result.verdict) if end.result else "next"
        content = self._content()
        if end.result is None and "next" not in content:
            self.kind = "back"
        said = [self.kind.encode(), *(data for kind, data in content.items() if kind not in ("next", "beside"))]
        self.begins = f"{paths.claim_nonce(claim.fence)}.{crc32(bytes(1).join(said)):08x}."
        nonce = f"{self.begins}{folder.clock.chance(6)}"
        name = folder.ready_name(claim.task)
        self.parts = [(part_of(name, nonce, kind, data), data) for kind, data in content.items()]
        self.parts += self._children(nonce)
        self.token = Token(name, nonce, self.kind)
        self.path = folder.layout.claimed_path(claim.task, claim.fence)

    @property
    def change(self) -> Change:
        """Return the token with its parts."""
        named = {part.kind: part for part, _ in self.parts}
        children = tuple(part for kind, part in named.items() if kind.startswith("child"))
        return Change(self.token, {kind: part for kind, part in named.items() if part not in children}, children)

    @property
    def line(self) -> bytes:
        """Spell the line that tells of it."""
        end, more = self.end, {CHANGE: self.token.nonce}
        shown = "result" if end.result else "next"
        more.update((DIGEST, digest(data)) for part, data in self.parts if part.kind == shown)
        more["settings"] = settings_digest(end.task or end.claim.task)
        action = end.action or "released_task"
        return self.folder.line(action, end.claim.task.id, end.claim.fence, end.details, **more)

    @property
    def stays(self) -> Task:
        """Return the task as it stays with its result, under the name it has."""
        claimed = self.end.claim.task
        return claimed if self.end.task is None else self.end.task.replace(slug=claimed.slug)

    def _content(self) -> dict[str, bytes]:
        folder, layout, end = self.folder, self.folder.layout, self.end
        content: dict[str, bytes] = {}
        if end.result is not None:
            content["result"] = layout.dump_result(self.stays, end.result)
            if folder.in_place:
                content["shown"] = content["result"]
            if end.task is not None:
                content["next"] = folder.spell(self.stays, SLACK)
            if end.task is not None and layout.rewritten:
                content["beside"] = layout.beside(self.stays)
        elif end.task is not None or end.delay or layout.guarded:
            now = folder.clock.now()
            after = (end.task or end.claim.task).replace(updated=now)
            after = after.replace(not_before=now + end.delay) if end.delay else after
            content["next"] = folder.spell(after.replace(slug=end.claim.task.slug), SLACK)
            if layout.rewritten:  # also if it is empty: what was kept before must not come back
                content["beside"] = layout.beside(after)
        if end.attempt is not None:
            evidence = end.attempt.evidence
            fields = {**end.attempt.as_dict(), "evidence": evidence and evidence.as_dict()}
            content["try"] = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
        if end.note is not None:
            content[f"note.{end.note[0]}"] = end.note[1].encode("utf-8", "replace")
        return content

    def _children(self, nonce: str) -> list[tuple[Part, bytes]]:
        named = [self.folder.layout.named(child) for child in self.end.children]
        spelt = [(self.folder.ready_name(child), self.folder.spell(child)) for child in named]
        return [(part_of(name, nonce, f"child{at}", data), data) for at, (name, data) in enumerate(spelt)]


class Finisher:
    """Ends claims of one queue."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        #: The mtime of lapsed claims as this process judged them: one that was renewed since is not reclaimed.
        self.judged: dict[tuple[str, str], float] = {}

    def finish(self, ends: Sequence[End]) -> list[Said]:
        """End claims; each is OK, ALREADY or LOST."""
        said: list[Said] = []
        rest = iter(ends)
        while chunk := list(islice(rest, CHUNK)):
            said += self._finish_chunk([Draft(self._folder, end) for end in chunk])
        return said

    def _finish_chunk(self, drafts: Sequence[Draft]) -> list[Said]:
        folder, pending = self._folder, self._folder.pending
        parts = [one for draft in drafts for one in draft.parts]
        since = pending.clocks()
        self._write(parts)
        said: dict[int, Said] = {}
        with folder.lock.hold("end"):
            pending.write_missing(parts, since)
            decided = [at for at, draft in enumerate(drafts) if self._decide(draft)]
            at_once = [at for at in decided if not folder.durable or not drafts[at].parts]
            for at in at_once:
                said[at] = self._show(drafts[at], fresh=True)
        if len(at_once) < len(decided):
            waiting = [at for at in decided if at not in said]
            pending.settle([one for at in waiting for one in drafts[at].parts], folder.layout.claimed)
            with folder.lock.hold("end"):
                for at in waiting:
                    said[at] = self._show(drafts[at])
        late = [at for at in range(len(drafts)) if at not in said]
        if late:
            with folder.lock.hold("end"):
                for at in late:
                    said[at] = self._answer(drafts[at])
        return [said[at] for at in range(len(drafts))]

    def _write(self, parts: Sequence[tuple[Part, bytes]]) -> None:
        try:
            self._folder.pending.write(parts)
        except OSError as error:
            if error.errno not in FULL or not self._folder.files.remove(paths.RESERVE):
                raise
            self._folder.pending.write(parts)

    def _decide(self, draft: Draft) -> bool:
        """Take the claimed file: the one call that decides. False if the claim is over."""
        folder, claim = self._folder, draft.end.claim
        judged = self.judged.pop((claim.task.id, claim.fence), None) if not claim.since else None
        if folder.layout.guarded and not self._is_held(claim, draft.path):
            return False
        if folder.layout.guarded and judged is None and self._is_strange(claim, draft.path):
            return False
        if not folder.files.move(draft.path, draft.token.path):
            return False
        taken = folder.files.stat(draft.token.path)
        renewed = judged is not None and taken is not None and taken.st_mtime != judged
        if renewed or (folder.layout.guarded and not self._is_held(claim, draft.token.path)):
            with suppress(FileExistsError):
                folder.files.move(draft.token.path, draft.path)
            return False
        return True

    def _is_held(self, claim: Claim, path: str) -> bool:
        """Mailbox: tell whether the file names this claim."""
        try:
            data = self._folder.files.read(path, LARGEST_RESULT)[0]
        except (FileNotFoundError, NotAFile, TooBig):
            return False
        return self._folder.layout.holder(data) == claim.fence

    def _is_strange(self, claim: Claim, path: str) -> bool:
        """Mailbox: tell whether another program took this claim back and claimed it: that leaves inode and bytes.

        Where the clock was set since its worker came, times tell nothing.
        """
        status, record = self._folder.files.stat(path), load_record(self._folder, claim.fence)
        if record is not None and abs(record.offset - self._folder.clock.offset()) >= JUMP:
            return False
        return status is not None and status.st_ctime > status.st_mtime + self._folder.cleaned_after + STRANGE

    def _show(self, draft: Draft, *, fresh: bool = False) -> Said:
        end = draft.end
        if end.action == "recovered_task":
            self._note_reclaim(draft)
        stands = self._folder.pending.show(draft.change, draft.line, draft.stays, fresh=fresh)
        return Said.OK if stands else Said.LOST

    def _note_reclaim(self, draft: Draft) -> None:
        folder, place = self._folder, self._folder.layout.reclaims
        if place:
            text = f"{iso(folder.clock.now())} {draft.path.rpartition('/')[2]}: {draft.end.details}\n"
            folder.make_place(place)
            folder.files.append(place, f"- {text}".encode("utf-8", "replace"))

    # -- ends that were not decided ----------------------------------------------------------------------------------

    def _answer(self, draft: Draft) -> Said:
        """Answer for a claim that is over: this very end has happened before, or its words are late."""
        folder, claim = self._folder, draft.end.claim
        if any(change.token.nonce.startswith(draft.begins) for change in folder.pending.listing()[0]):
            folder.pending.recover()
        if self._has_happened(draft):
            folder.pending.remove(part for part, _ in draft.parts)
            return Said.ALREADY
        where = ""
        for part, _ in draft.parts:
            if part.kind in ("result", "try"):
                where = folder.keep_late(part.path, claim.task.id, draft.token.nonce)
        folder.pending.remove(part for part, _ in draft.parts if part.kind not in ("result", "try"))
        if where:
            folder.tell("late_result", claim.task.id, claim.fence, f"kept in {where}")
        return Said.LOST

    def _has_happened(self, draft: Draft) -> bool:
        folder, claim, result = self._folder, draft.end.claim, draft.end.result
        for event in folder.log.recent(claim.task.id):
            if str(event.extra.get(CHANGE, "")).startswith(draft.begins):
                return True
        if result is None or folder.verdict(claim.task.id) is not result.verdict:
            return False
        spot = Spot(state=result.verdict.state, id=claim.task.id, verdict=result.verdict)
        with suppress(OSError, Invalid):
            data = folder.files.read(paths.ended_path(claim.task.id, f"~{result.verdict}"), LARGEST_RESULT)[0]
            return folder.layout.load_result(spot, data)[0].worker == claim.fence
        return False

    # -- what people do ----------------------------------------------------------------------------------------------

    def reopen(self, task: Task) -> Said:
        """Make a failed task ready again with these bytes; LOST if it has not failed."""
        folder, nonce = self._folder, self._folder.nonce()
        task = folder.layout.named(task)
        data, name = folder.spell(task, SLACK), folder.ready_name(task)
        content = {"next": data}
        if folder.layout.rewritten:
            content["beside"] = folder.layout.beside(task)
        parts = [(part_of(name, nonce, kind, one), one) for kind, one in content.items()]
        since = folder.pending.clocks()
        folder.pending.write(parts)
        with folder.lock.hold("reopen"):
            folder.pending.write_missing(parts, since)
            token = self._withdrawn(task, name, nonce)
            if token is None:
                folder.pending.remove(part for part, _ in parts)
                return Said.LOST
            change = Change(token, {part.kind: part for part, _ in parts})
            more = {DIGEST: digest(data), "settings": settings_digest(task), CHANGE: nonce}
            line = folder.line("reopened_task", task.id, **more)
            folder.files.remove(paths.open_path(task.id, "~stop"))
            if not folder.durable:
                folder.pending.show(change, line)
        if folder.durable:
            folder.pending.settle(parts, paths.ENDED)
            with folder.lock.hold("reopen"):
                folder.pending.show(change, line)
        return Said.OK

    def _withdrawn(self, task: Task, name: str, nonce: str) -> Token | None:
        """Take the failed result: the one call that decides."""
        folder = self._folder
        end = folder.foreign_end(Spot(state=State.READY, id=task.id, slug=task.slug))
        if end is not None and folder.verdict(task.id) is None:
            conflicts.learn(folder, end)
        for verdict in conflicts.FAILURES:
            token = Token(name, nonce, f"reopen.{verdict}")
            if folder.verdict(task.id) is verdict:
                taken = folder.files.move(paths.ended_path(task.id, f"~{verdict}"), token.path)
                return token if taken else None
        return None
