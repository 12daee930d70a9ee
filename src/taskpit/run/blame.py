"""Decide whether an error that an agent's backend reported is charged to the task after all. Pure.

A backend rests after an error that it reports about itself, and the task spends no attempt. An error that follows one
task around is not the backend's, whatever it looks like. So the error of a task is charged to it

    the next time     if a run of another task began after its last error here and succeeded
    the third time    if no other task met an error here since its first; the third one counts only if another task ran
                      since the second, or if the backend had rested for the longest time before
    from then on      until the task is done

A limit whose end the backend named in an event is charged only if the task meets it again within `RESTARTED` seconds
of its start while another task's run began in between and succeeded.
"""

from __future__ import annotations

import msgspec

#: A limit that a task meets so soon after its start, although another task ran in between, is the task's.
RESTARTED = 600.0
#: Errors in a row after which other tasks go first.
PATIENT = 2
#: What is older is forgotten, in seconds; so many tasks are remembered.
REMEMBERED, MOST = 7 * 86400.0, 500


class Errors(msgspec.Struct, frozen=True, kw_only=True):
    """The errors in a row of one task on one backend."""

    count: int = 0
    first: float = 0.0
    last: float = 0.0
    #: Whether the last one named the time at which it ends.
    exact: bool = False
    #: Whether further errors are the task's own.
    charged: bool = False


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What happened on one backend, by task: its errors in a row, when its last run began, and its last good one."""

    errors: dict[str, Errors] = {}
    began: dict[str, float] = {}
    good: dict[str, float] = {}

    def starting(self, task_id: str, now: float) -> History:
        """Note that a run of this task begins."""
        return msgspec.structs.replace(self, began=_recent({**self.began, task_id: now}, now))

    def succeeded(self, task_id: str, began: float, now: float) -> History:
        """Note that a run of this task has succeeded."""
        errors = {name: errors for name, errors in self.errors.items() if name != task_id}
        return msgspec.structs.replace(self, errors=errors, good=_recent({**self.good, task_id: began}, now))

    def ended(self, task_id: str) -> History:
        """Note that a run of this task ended without an error of the backend, which breaks its row of errors."""
        errors = self.errors.get(task_id)
        if errors is None or errors.charged:
            return self
        return msgspec.structs.replace(self, errors={n: e for n, e in self.errors.items() if n != task_id})

    def failed(self, task_id: str, began: float, now: float, *, exact: bool, rested: bool) -> History:
        """Note that the backend reported an error for this task's run.

        `exact`: the error is a limit that named its end; `rested`: the backend rested for the longest time before.
        """
        before = self.errors.get(task_id, Errors())
        charged = before.charged or self._is_charged(task_id, before, began, now, exact=exact, rested=rested)
        waits = before.count >= PATIENT and not charged and not (rested or self._ran_since(task_id, before.last))
        errors = Errors(
            count=before.count + (not waits),
            first=before.first or now,
            last=now,
            exact=exact,
            charged=charged,
        )
        kept = {name: one for name, one in self.errors.items() if now - one.last < REMEMBERED}
        return msgspec.structs.replace(self, errors={**dict(list(kept.items())[-MOST:]), task_id: errors})

    def _is_charged(self, task_id: str, before: Errors, began: float, now: float, *, exact: bool, rested: bool) -> bool:
        if not before.count:
            return False
        others_succeeded = any(at > before.last for name, at in self.good.items() if name != task_id)
        if exact:
            return before.exact and now - began <= RESTARTED and others_succeeded
        if others_succeeded:
            return True
        alone = all(one.last < before.first for name, one in self.errors.items() if name != task_id)
        return before.count >= PATIENT and alone and (rested or self._ran_since(task_id, before.last))

    def _ran_since(self, task_id: str, when: float) -> bool:
        """Whether a run of another task began after this."""
        return any(at > when for name, at in self.began.items() if name != task_id)

    def is_charged(self, task_id: str) -> bool:
        """Whether this task's last error is its own."""
        return task_id in self.errors and self.errors[task_id].charged

    def lets_others_go_first(self, task_id: str) -> bool:
        """Whether another ready task should run before this one is tried again."""
        errors = self.errors.get(task_id)
        return errors is not None and errors.count >= PATIENT and not errors.charged


def _recent(times: dict[str, float], now: float) -> dict[str, float]:
    kept = {name: at for name, at in times.items() if now - at < REMEMBERED}
    return dict(list(kept.items())[-MOST:])
