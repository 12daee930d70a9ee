"""A worker that stays, as the file store hands it out: a record held for life."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.workers import Member

__all__ = ["FileMember"]


class FileMember:
    """A worker that stays."""

    def __init__(self, worker: str, member: Member, present: set[str]) -> None:
        self.worker = worker
        self._member = member
        self._present = present

    def leave(self) -> None:
        """Let go of the record."""
        self._member.leave()
        self._present.discard(self.worker)
