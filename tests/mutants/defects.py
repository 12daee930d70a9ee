"""Defects that are put back into the folder store: what each does, and the text of a module that is changed for it.

`python tests/mutants/control.py` measures how many histories it takes to find each; the medians are in the table of
its last run (`--write`).
"""

from __future__ import annotations

from typing import NamedTuple

PACKAGE = "taskpit.store.plain"


class Defect(NamedTuple):
    """One defect."""

    name: str
    module: str
    old: str
    new: str
    layout: str = "pit"


DEFECTS = {
    defect.name: defect
    for defect in (
        # Put
        Defect(
            "a put replaces the id of another",
            "pending",
            "        if not self._files.link(part.path, paths.open_path(task_id)):\n            return False\n",
            "        self._files.remove(paths.open_path(task_id))\n"
            "        self._files.link(part.path, paths.open_path(task_id))\n",
        ),
        Defect(
            "a put does not look for an ended task",
            "pending",
            "        if self._files.stat(paths.ended_path(task_id)) is not None:\n            return False\n",
            "",
        ),
        Defect(
            "recovery enters the put of an ended task",
            "pending",
            "        if ended or self._is_part_torn(part):",
            "        if self._is_part_torn(part):",
        ),
        Defect(
            "recovery enters a torn put",
            "pending",
            "        if ended or self._is_part_torn(part):",
            "        if ended:",
        ),
        Defect(
            "an error of reading is a torn part",
            "pending",
            "        except (NotAFile, TooBig):",
            "        except OSError:",
        ),
        Defect("parts are not written again", "pending", "        if missing:\n", "        if missing and False:\n"),
        Defect(
            "the first text is not kept", "pending", "            conflicts.keep_wish(self._folder, task_id)\n",
            "            self._files.remove(paths.open_path(task_id))\n",
        ),
        # Durability
        Defect(
            "nothing is flushed after the decision",
            "pending",
            "        if not folder.durable:\n            return\n        try:\n",
            "        if folder.durable or True:\n            return\n        try:\n",
        ),
        Defect(
            "parts are not flushed before the decision",
            "pending",
            "        early, now = folder.durable and not folder.ordered, folder.clock.now()\n",
            "        early, now = False, folder.clock.now()\n",
        ),
        Defect(
            "the decision is not flushed on a disk without order",
            "pending",
            "                folder.sync_dirs(paths.PENDING, paths.OPEN, *folders)\n",
            "                pass\n",
        ),
        Defect(
            "what was shown is not flushed",
            "pending",
            "        if self._folder.durable and not self._folder.ordered:\n            layout",
            "        if False:\n            layout",
        ),
        Defect(
            "an edit is registered without a flush",
            "conflicts",
            "    if folder.durable:\n        folder.files.sync(spot.path)\n    opened",
            "    opened",
        ),
        Defect(
            "a folder made on first use is not flushed", "folder",
            '        self.sync_dirs(folder.rpartition("/")[0])\n', "",
        ),
        # Recovery and the lock
        Defect("nothing is recovered before own work", "lock", "        if not clean:\n", "        if False:\n"),
        Defect("an empty text of the lock is clean", "lock", "        if not clean:\n", "        if not clean and words:\n"),
        Defect("the lock holds no process off", "lock", "            if handle.take():\n", "            if handle.take() or True:\n"),
        Defect(
            "a claim completes nothing",
            "claim",
            "        if not taken and self._left_by_others():\n",
            "        if False:\n",
        ),
        # Claim
        Defect(
            "a ready file is not compared with the registered one",
            "claim",
            "        plain = here and opened and here.st_nlink == 2 and here.st_size and opened.st_ino == here.st_ino\n",
            "        plain = here and opened\n",
        ),
        Defect(
            "a result of another program is not looked for",
            "claim",
            "(folder.in_place or folder.foreign_end(task or spot) is None)",
            "True",
        ),
        Defect(
            "what was claimed is not what was judged",
            "claim",
            "        same = folder.layout.guarded or read.st_ino == taken.judged.st_ino\n",
            "        same = True\n",
        ),
        Defect(
            "a claim is not stamped",
            "claim",
            "                folder.files.set_times(spot.path, until)\n",
            "                pass\n",
        ),
        Defect(
            "needs are not looked at", "claim",
            "        if rules.held(task, self._folder.clock.now(), self.state_of):\n            return False\n", "",
        ),
        Defect("limits are not looked at", "claim", "and excluded(task, self._used))", "and False)"),
        Defect("a pause is not looked at", "claim", "            if not want.even_held and paused(folder):\n", "            if False:\n"),
        # Ends
        Defect(
            "a claim that was renewed is reclaimed",
            "finish",
            "        renewed = judged is not None and taken is not None and taken.st_mtime != judged\n",
            "        renewed = False\n",
        ),
        Defect(
            "an end that has happened is lost",
            "finish",
            "        if self._has_happened(draft):\n",
            "        if False:\n",
        ),
        Defect(
            "late words are dropped",
            "finish",
            "                where = folder.keep_late(part.path, claim.task.id, draft.token.nonce)\n",
            "                folder.files.remove(part.path)\n",
        ),
        Defect(
            "an attempt of a claim that goes back is dropped",
            "pending",
            "            self._show_what_came(change)\n            self._tell(change, line)\n",
            "            self._tell(change, line)\n",
        ),
        Defect(
            "the task stays open after its end", "pending",
            "        else:\n            self._files.replace(opened, ended)\n", "        else:\n            pass\n",
        ),
        Defect(
            "the holder is not asked again after the rename",
            "finish",
            "        if renewed or (folder.layout.guarded and not self._is_held(claim, draft.token.path)):\n",
            "        if renewed:\n",
            "mailbox",
        ),
        Defect(
            "the holder is not asked",
            "finish",
            "        if folder.layout.guarded and not self._is_held(claim, draft.path):\n            return False\n",
            "",
            "mailbox",
        ),
        Defect(
            "a sweep judges as a holder",
            "finish",
            "        if folder.layout.guarded and judged is None and self._is_strange(claim, draft.path):\n",
            "        if folder.layout.guarded and self._is_strange(claim, draft.path):\n",
            "mailbox",
        ),
        Defect(
            "a late end does not see that it was taken back",
            "finish",
            "        if folder.layout.guarded and judged is None and self._is_strange(claim, draft.path):\n            return False\n",
            "",
            "mailbox",
        ),
        Defect(
            "an output that is there stays",
            "pending",
            '                folder.keep_late(path, task.id, f"{change.token.nonce}.draft")\n',
            "                pass\n",
            "workspace",
        ),
        # Other programs
        Defect(
            "a copy of a claimed task is registered",
            "conflicts",
            "    if claims or folder.pending.is_pending(spot.id):\n",
            "    if False:\n",
        ),
        Defect("young files are taken", "folder", "        return 0 <= self.clock.now() - status.st_mtime < paths.YOUNG\n", "        return False\n"),
        Defect(
            "a ready file of a finished task is tried again", "conflicts",
            "    if verdict in FAILURES and here.st_size and", "    if here.st_size and",
        ),
        Defect(
            "quarantine does not compare",
            "folder",
            "        if judged is not None and moved is not None and moved.st_ino != judged.st_ino:\n",
            "        if False:\n",
        ),
        Defect(
            "an edit frees the id", "conflicts",
            "        folder.files.replace(name, opened)\n",
            "        folder.files.remove(opened)\n        folder.files.link(spot.path, opened)\n"
            "        folder.files.remove(name)\n",
        ),
        # Leases
        Defect(
            "a lease ends at once", "leases",
            "                if clocks.wall > self._end(spot, status, record.lease):\n", "                if True:\n",
        ),
        Defect("a set clock counts", "leases", "        if record.boot != self._folder.clock.boot() or not even:\n", "        if record.boot != self._folder.clock.boot():\n"),
        Defect(
            "a younger record vouches for a claim", "leases",
            "        if written is None or not written.st_mtime - GRAIN <= status.st_ctime <= clocks.wall + GRAIN:\n",
            "        if written is None:\n",
        ),
        Defect("the dead are not found", "leases", "lives(folder, record) is False:\n                found", "False:\n                found"),
        # Named locks
        Defect("a lock that is held is given out", "locks", "        if seen is not None and not named.expired(seen):\n", "        if False:\n"),
        Defect("numbers of locks do not grow", "locks", 'named.set(wanted, named.record["number"] + 1, seen)', 'named.set(wanted, named.record["number"] or 1, seen)'),
        Defect(
            "another's lock is freed", "locks",
            "        if seen is None or seen.lock.holder != lock.holder:\n            return None\n",
            "        if seen is None:\n            return None\n",
        ),
    )
}  # fmt: skip
