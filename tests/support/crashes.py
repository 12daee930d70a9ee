"""Kill, sweep, judge: whatever a crash leaves is the state before or the state after, and nothing else."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from copy import copy

from faults import CHANGES, record
from pits import CONFIG, LEASE, actions, drain, files, misplaced, picture, plain, reopened, root_of, wrong
from scenes import ID

from taskpit.keeper import sweep
from taskpit.model import State
from taskpit.store.folder import CLEANED, SEALED
from taskpit.testing import FakeClock

#: Long enough for every lease, pause and left-over of the scenes.
AGES = 1_000_000.0
#: What the doctor may say of a changelog whose last line a full disk cut off.
TORN = "torn"


class Stages:
    """Fresh folders for one scene, and what it looks like undisturbed: before, after, and its calls."""

    def __init__(self, scene, where, config=CONFIG, layout="pit"):
        self.scene = scene
        self.layout = layout
        self.config = config
        self._where = str(where)
        self._template = None
        self._numbers = itertools.count()
        self._judged = {}
        self._went_on = []
        self.before, self.told_before = self._undisturbed(act=False)
        self.after, self.told_after = self._undisturbed(act=True)
        self.findings = self._findings()

    def stage(self):
        """A new folder, everything in place: the queue, and what the verb needs."""
        if self._template is None:
            queue, given = self.scene.stage(f"{self._where}/template", FakeClock(), self.config, self.layout)
            queue.close()
            self._template = queue, given
        queue, given = self._template
        root = f"{self._where}/{next(self._numbers)}"
        copy_tree(root_of(queue), root)
        return reopened(root, copy(queue.clock), self.config), given

    def _undisturbed(self, *, act):
        queue, given = self.stage()
        if act:
            with record() as self.calls:
                self.scene.act(queue, given)
            assert self.calls, "it made no call to die before: nothing is shown"
        self.scene.settle(queue)
        seen = self.scene.picture(queue), self._told(queue)
        self.strike(queue)
        return seen

    def _findings(self):
        """What the doctor rightly finds after the undisturbed verb."""
        queue, given = self.stage()
        self.scene.act(queue, given)
        found = {finding.partition(":")[0] for finding in wrong(queue)}
        self.strike(queue)
        return found

    def _told(self, queue):
        return sum(1 for action in actions(queue, ID) if action in self.scene.words)

    def strike(self, queue):
        """Take the folder down."""
        queue.close()
        shutil.rmtree(root_of(queue))

    def numbers(self, *, changes=False):
        """Every call to die before; with `changes` only those where something new can be left."""
        last = len(self.calls)
        return [n for n in range(1, last + 1) if not changes or self.calls[n - 1][0] in CHANGES]

    def judge(self, queue, where):
        """What comes of what was left; the same leavings are judged once."""
        left = self._leavings(queue)
        if left not in self._judged:
            self._judged[left] = self._judge(queue, where)
        else:
            self.strike(queue)
        return self._judged[left]

    def _leavings(self, queue):
        """Every file by its name without nonces, its size and links, and whether it is stamped."""
        root, found = root_of(queue), []
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                status = os.lstat(path)
                stamped = abs(status.st_mtime + CLEANED - LEASE - queue.clock.now()) < 0.0001  # by a clock that stands
                place = re.sub(r"~[0-9a-z]{14}|~[0-9a-z]{6}(?=[~.])", "~", os.path.relpath(path, root))
                found.append((place, status.st_size, status.st_nlink, stamped))
        return tuple(sorted(found))

    def _judge(self, queue, where):
        """Sweep as another process, twice, and look."""
        queue.close()
        queue = reopened(root_of(queue), queue.clock, self.config)
        sweep(queue)
        self.scene.settle(queue)
        assert sweep(queue) == [], f"{where}: the second sweep still found something"
        seen = self.scene.picture(queue)
        assert self._is_possible(seen), f"{where}: {difference(seen, self.before, self.after)}"
        assert misplaced(queue) == {}, f"{where}: not in exactly one place"
        expected = self.findings | {TORN}
        unexpected = [finding for finding in wrong(queue) if finding.partition(":")[0] not in expected]
        assert unexpected == [], f"{where}: {unexpected}"
        if seen == self.after != self.before:
            assert self._told(queue) > self.told_before or not self.scene.words, f"{where}: the changelog misses it"
        now = seen, [plain(name) for name in self._parts(queue)]
        if now not in self._went_on:  # from the same state all goes on the same way
            self._went_on.append(now)
            self._goes_on(queue, where)
        self.strike(queue)
        return seen

    def _parts(self, queue):
        """What lies on the way from one state to another."""
        return files(root_of(queue), queue.store.folder.layout.tmp, SEALED)

    def _is_possible(self, seen):
        """A verb has happened or has not; of a batch each by itself."""
        if not self.scene.batch:
            return seen in (self.before, self.after)
        return each_has_happened_or_not(seen, self.before, self.after)

    def _goes_on(self, queue, where):
        """Whatever was left, the work can be done, and nothing is left over."""
        queue.clock.advance(AGES)
        sweep(queue)
        drain(queue)
        assert queue.store.counts()[State.CLAIMED] == 0, where
        assert misplaced(queue) == {}, f"{where}, drained: not in exactly one place"
        for card in queue.store.page(State.READY).cards:
            assert card.held, f"{where}: {card.task.id} is free and was not done"
        queue.clock.advance(AGES)
        sweep(queue)
        assert self._parts(queue) == [], f"{where}: left over"


def copy_tree(source, target):
    """The same tree again: bytes, times and which names are one file."""
    links = {}
    for folder, _, names in os.walk(source):
        there = target + folder[len(source) :]
        os.mkdir(there)
        for name in names:
            status = os.lstat(f"{folder}/{name}")
            if status.st_ino in links:
                os.link(links[status.st_ino], f"{there}/{name}")
                continue
            links[status.st_ino] = shutil.copyfile(f"{folder}/{name}", f"{there}/{name}")
            os.utime(f"{there}/{name}", (status.st_mtime, status.st_mtime))


def each_has_happened_or_not(seen, before, after):
    """Whether every task is as it was before or as it is after; what files there are follows from that."""
    tasks = (seen.keys() | before.keys() | after.keys()) - {"files"}
    return all(seen.get(task) in (before.get(task), after.get(task)) for task in tasks)


def difference(seen, before, after):
    """Where a picture differs from both it should be."""
    lines = []
    for name, wanted in (("before", before), ("after", after)):
        differing = [key for key in sorted(seen.keys() | wanted.keys()) if seen.get(key) != wanted.get(key)]
        lines += [f"\n  not {name}: {key}: {seen.get(key)}\n     instead of {wanted.get(key)}" for key in differing]
    return "".join(lines)


__all__ = ["AGES", "Stages", "each_has_happened_or_not", "picture"]
