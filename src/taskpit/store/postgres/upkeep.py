"""What keeps a queue in order: repairs, dead rows, old logs and results; and notes."""

from __future__ import annotations

from taskpit.clock import iso
from taskpit.store.port import Mend
from taskpit.store.postgres.base import Base
from taskpit.store.postgres.rows import as_json, read_task, task_item
from taskpit.text import one_line

#: Kinds of findings, and their details.
ASTRAY = {
    "stray task": "it was in no state",
    "waits for nothing": "all it needs is done",
    "no such task": "it was among the open tasks, and is none",
    "not under its tags": "workers with tags could not find it",
    "stands aside": "no running task is in its way",
    "miscounted": "it did not have the number of tasks",
}
#: The tables that every claim reads. So many dead rows are cleaned by a sweep; so many are reported.
HOT, DEAD, MANY_DEAD = ("ready", "ready_tag", "lease", "waiting", "need", "tally"), 2000, 20_000
#: A transaction that is open for longer, in seconds, is reported.
OLD = 300.0


class Upkeep(Base):
    """The part of the store that sweeps and the doctor use."""

    def mend(self, *, dry_run: bool = False) -> list[Mend]:  # noqa: ARG002
        """Repair nothing: a transaction leaves nothing unfinished."""
        return []

    def fix(self, *, dry_run: bool = False) -> list[Mend]:
        """Repair states that a manual change left. Reads every task."""
        rows = self._ask("astray", slow=True)
        if rows and not dry_run:
            docs = [(task_id, doc) for task_id, _, doc in rows if doc is not None]
            items = [task_item(read_task(doc, task_id), number) for number, (task_id, doc) in enumerate(docs)]
            rows = self._ask("put_right", slow=True, items=as_json(items))
        return [Mend(kind=row[1], what=row[0], details=ASTRAY[row[1]]) for row in rows]

    def check(self) -> list[Mend]:
        """Report the same, and everything that keeps the server from cleaning up."""
        schema = self.address.schema
        rows = self._ask("hindrances", schema=schema, old=OLD, hot=list(HOT), many=MANY_DEAD)
        return [*self.fix(dry_run=True), *(Mend(kind=kind, what=what, details=why) for kind, what, why in rows)]

    def compost(self, *, dry_run: bool = False) -> list[Mend]:
        """Reduce old logs to a line and old results to how they ended, as the settings say; clean dead rows."""
        if not dry_run:
            self._vacuum()
        pruned = [
            Mend(kind="pruned", what=row[0], details="its result")
            for state, keep in (("d", self.config.keep_results), ("f", self.config.keep_failed))
            if keep
            for row in self._ask("prune", state=state, keep=keep, dry=dry_run)
        ]
        logs = self._ask("old_logs", age=self.config.compost)
        if logs and not dry_run:
            self._ask("digest_logs", numbers=as_json([row[0] for row in logs]))
        if not dry_run:
            self._ask("forget_artifacts", ids=as_json([mend.what for mend in pruned]))
            self._ask("forget_printed", age=self.config.compost)
        return [*pruned, *(Mend(kind="composted", what=f"log {number}", details=f"of {who}") for number, who in logs)]

    def _vacuum(self) -> None:
        """Clean hot tables with many dead rows now, instead of when the server gets to it."""
        for (table,) in self._ask("dirty", schema=self.address.schema, hot=list(HOT), dead=DEAD):
            self.database.execute(f"VACUUM (SKIP_LOCKED) {{s}}.{table}", slow=True)

    def note(self, task_id: str, text: str, worker: str) -> None:
        """Add a note to a task, and a line to the changelog."""
        now = self.clock.now()
        line = f"- {iso(now)} {one_line(worker)}: {text.rstrip()}\n".replace("\0", "")
        self._ask("note", id=task_id, at=now, worker=worker, line=line, text=text.replace("\0", ""))
