"""Logs as they grow, and files that are kept with a task, in tables."""

from __future__ import annotations

from hashlib import sha256 as digest_of
from typing import Any

from taskpit.errors import Invalid, Lost
from taskpit.layouts.layout import check_worker
from taskpit.model import Claim, State
from taskpit.store import run_files
from taskpit.store.port import Artifact
from taskpit.store.postgres.look import Looking

#: The place of a log in a result: its number follows.
PLACE = "the table log, number "


class Files(Looking):
    """The part of the store that keeps logs and artifacts."""

    def keep_log(self, worker: str, data: bytes) -> str:
        """Keep a log, and return its place."""
        check_worker(worker)
        number = self._ask("keep_log", repeat=False, worker=worker, at=self.clock.now(), data=data)[0][0]
        return f"{PLACE}{number}"

    def add_log(self, claim: Claim, start: int, data: bytes) -> int:
        """Append a piece to the log of a claim, and return its length."""
        run_files.check_piece(start, data)
        size: int | None = self._ask("add_log", id=claim.task.id, fence=claim.fence, start=start, data=data)[0][0]
        if size is None:
            raise _lost(claim)
        return size

    def end_log(self, claim: Claim) -> str:
        """Keep the log of a claim as a log, and return its place."""
        values: dict[str, Any] = {"id": claim.task.id, "fence": claim.fence, "worker": claim.worker}
        number = self._ask("end_log", repeat=False, **values)[0][0]
        return f"{PLACE}{number}" if number is not None else ""

    def read_log(self, task_id: str, start: int, size: int) -> tuple[bytes, int]:
        """Return a part of the log of the claim that has the task, or of its last attempt."""
        card = self.read([task_id])[0]
        if card is None:
            raise run_files.none_of(task_id)
        piece: dict[str, Any] = {"start": start + 1, "size": min(size, run_files.LARGEST_PIECE)}
        number = run_files.last_log(card).removeprefix(PLACE)
        rows = []
        if card.state is State.CLAIMED:
            rows = self._ask("printed", id=task_id, fence=card.worker, **piece)
        elif number.isascii() and number.isdecimal() and len(number) < 19:
            rows = self._ask("log", number=int(number), **piece)
        return (rows[0][0], rows[0][1]) if rows and rows[0][0] is not None else (b"", 0)

    def keep_artifact(self, claim: Claim, name: str, data: bytes, sha256: str) -> None:
        """Keep a file with the task while the claim lasts."""
        run_files.check_artifact(name, data, sha256, self.artifacts(claim.task.id))
        values: dict[str, Any] = {
            "id": claim.task.id,
            "fence": claim.fence,
            "name": name,
            "sha256": sha256,
            "data": data,
        }
        if not self._ask("keep_artifact", **values):
            raise _lost(claim)

    def artifacts(self, task_id: str) -> list[Artifact]:
        """Return the files of a task, by name."""
        rows = self._ask("artifacts", id=task_id)
        return [Artifact(name=name, size=size, sha256=digest) for name, size, digest in rows]

    def read_artifact(self, task_id: str, name: str) -> bytes:
        """Return the bytes of a file, if they are still those that were kept."""
        rows = self._ask("artifact", id=task_id, name=name) if "\0" not in task_id + name else []
        if not rows:
            raise run_files.none_of(task_id, name)
        data: bytes = rows[0][0]
        if digest_of(data).hexdigest() != rows[0][1]:
            raise Invalid(f"the bytes of {name} are not those that were kept with {task_id}", id=task_id, name=name)
        return data


def _lost(claim: Claim) -> Lost:
    return Lost(f"{claim.task.id} is not {claim.worker}'s any more", id=claim.task.id)
