"""The power goes off in the middle of a verb: whatever the disk may have kept is recovered and judged."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from copy import copy

from crashes import AGES, difference, each_has_happened_or_not
from pits import CONFIG, LEASE, POWER, drain, files, make, misplaced, picture, reopened, root_of, take, task
from powerloss import Disk, recorded
from scenes import ANYWHERE, ID, PIT_ONLY, SCENES, Scene, ready

from taskpit.keeper import sweep
from taskpit.model import Done, Said, State
from taskpit.store.folder import BESIDE, LATE, OUTCOMES, SEALED
from taskpit.testing import FakeClock

#: Verbs after which nobody was promised anything: what they did may be lost whole, never by half.
UNPROMISED = ("claim", "claim by id", "renew", "note", "ask to stop", "join", "give out ids")
#: The fifth loss of a worker is told by claims, and claims don't outlive the power.
LEFT_OUT = ("the fifth reclaim",)
#: Until it has its next bytes, the token of a task that is reopened is its old result: where moves have two halves,
#: that may be seen as a task before the verb is acknowledged.
REOPENING = ("reopen", "retry what failed")
#: What a power loss may take: notes for people, results nobody published.
PASSING = ("notes", "late")


#: What a mailbox keeps beside the file.
TAGGED = Scene("edit tags", ready, lambda q, _: q.edit(ID, "ann", lambda t: t.replace(tags=("red",))), composed=True)


def scenes_of(layout):
    """The verbs to try in a layout."""
    scenes = SCENES if layout == "pit" else ANYWHERE
    return [scene for scene in (*scenes, TAGGED) if scene.name not in LEFT_OUT]


class Outage:
    """One verb in one layout: its operations, recorded, and what recovery must make of each state they may leave.

    The queue lies safely on the disk before; what the verb needs is prepared while it is recorded, since a
    claim is not settled when its end begins.
    """

    def __init__(self, scene, where, layout, config=POWER, *, once=False):
        self.scene = scene
        self._where = str(where)
        self._numbers = itertools.count()
        self._config = config
        queue = make(f"{where}/stage", FakeClock(), config, layout)
        queue.store.folder._ordered = once  # whatever filesystem this is
        bystanders(queue)
        given = scene.prepare(queue) if scene.name in PIT_ONLY else None
        with recorded(root_of(queue)) as self.trace:
            if scene.name not in PIT_ONLY:
                given = scene.prepare(queue)
            self.trace.begin()
            scene.act(queue, given)
        queue.close()
        self._clock = queue.clock
        shutil.rmtree(root_of(queue))
        self.promised = scene.name not in UNPROMISED and scene.act.__name__ != "sweeping"
        self.before = self._undisturbed(self.trace.start)
        self.after = self._undisturbed(len(self.trace.ops))
        whole = self.trace.undisturbed(len(self.trace.ops))
        self.late = {name for name in whole.names if name.startswith(LATE) and not name.endswith(".task")}
        self.beside = beside(whole)
        self.notes = self._notes(whole, queue.store.folder.layout)
        self.vanished = 0

    def _notes(self, disk, layout):
        """What the verb wrote for people: each note's path and bytes."""
        about = task(1, id=ID)
        paths = [layout.note_path(about, kind) for kind in ("choked", "lost", "ask")]
        return {path: disk.data[disk.names[path]] for path in paths if path in disk.names}

    def _undisturbed(self, moment):
        queue = self._laid_out(self.trace.undisturbed(moment))
        self._recover(queue)
        return self._strike(queue, self._picture(queue))

    def _laid_out(self, disk):
        """The machine starts anew with this disk."""
        root = f"{self._where}/{next(self._numbers)}"
        disk.lay_out(root)
        clock = copy(self._clock)
        clock.reboot("the next boot")
        return reopened(root, clock, self._config.replace(durability="process"))

    def _strike(self, queue, value=None):
        queue.close()
        shutil.rmtree(root_of(queue))
        return value

    def _recover(self, queue):
        """Sweep, and let what was claimed before the outage be given back."""
        sweep(queue)
        queue.clock.advance(max(LEASE, CONFIG.abandoned) + 1)
        sweep(queue)

    def _picture(self, queue):
        shown = picture(queue, ("lost", "reset"))
        del shown["files"]
        return {name: {key: card[key] for key in card if key not in PASSING} for name, card in shown.items() if card}

    def judge(self, disk, *, acknowledged, model):
        """AssertionError says what was lost, torn, doubled or stuck."""
        queue = self._laid_out(disk)
        try:
            must = acknowledged and self.promised
            if must:
                self._ids_are_known(queue)
            self._recover(queue)
            if model == "folders":
                self._bring_back(queue, must=must)
            assert (more := sweep(queue)) == [], f"the next sweep still found {more}"
            self._notes_are_whole(queue)
            seen = self._picture(queue)
            if must:
                assert seen == self.after, difference(seen, self.before, self.after)
                kept = Disk.of(root_of(queue))
                assert kept.names.keys() >= self.late, "a result that was withdrawn is kept nowhere"
                assert beside(kept) == self.beside, "what others drop from the file is not kept beside it"
            elif model != "folders":
                possible = self.scene.batch and each_has_happened_or_not(seen, self.before, self.after)
                assert possible or seen in (self.before, self.after), difference(seen, self.before, self.after)
            elif self.scene.name not in REOPENING:
                self._nothing_is_torn(seen)
            assert misplaced(queue) == {}, "not in exactly one place"
            self._goes_on(queue)
        finally:
            self._strike(queue)

    def _ids_are_known(self, queue):
        """Nobody else is given the id of an acknowledged task, also before any sweep."""
        for task_id in self.after:
            said = queue.store.put([task(0, id=task_id, slug="other", title="other")])
            assert said == [Said.CONFLICT], f"the id {task_id} was forgotten"

    def _bring_back(self, queue, *, must):
        """A file that was moved and is in neither directory: the doctor tells, and puts back what was asked for."""
        for _ in range(3):  # as long as something of it lies in tmp, the doctor waits
            queue.clock.advance(AGES)
            sweep(queue)
        vanished = [finding.what for finding in queue.store.check() if finding.kind == "vanished"]
        assert not (must and vanished), f"acknowledged, and vanished: {vanished}"
        if vanished:
            queue.store.fix()
            self.vanished += len(vanished)
        self._recover(queue)

    def _notes_are_whole(self, queue):
        """A note for people may be lost; if it is there, all of it is."""
        for path, text in self.notes.items():
            if os.path.exists(queue.store.folder.at(path)):
                with open(queue.store.folder.at(path), "rb") as file:
                    assert file.read() == text, f"{path} is torn"

    def _nothing_is_torn(self, seen):
        """Moves of two halves: an end that nobody acknowledged may be seen in part, each part whole."""
        for task_id, card in seen.items():
            known = [side[task_id] for side in (self.before, self.after) if task_id in side]
            for key in ("state", "result"):
                assert card[key] in [one[key] for one in known], f"{task_id} has {key} {card[key]}"
            assert card["task"][:2] in [one["task"][:2] for one in known], f"{task_id} asks for {card['task']}"
        assert self.before.keys() <= seen.keys(), "what was there before is gone"

    def _goes_on(self, queue):
        """All work can be done, and nothing is left over."""
        queue.clock.advance(AGES)
        sweep(queue)
        drain(queue)
        for card in queue.store.page(State.READY).cards:
            assert card.held, f"{card.task.id} is free and was not done"
        assert misplaced(queue) == {}, "drained: not in exactly one place"
        for _ in range(2):
            queue.clock.advance(AGES)
            sweep(queue)
        assert files(root_of(queue), queue.store.folder.layout.tmp, SEALED) == [], "left over"


def bystanders(queue):
    """One is ready, one is done, one waits for the task: none may be disturbed."""
    assert set(queue.store.put([task(100), task(101), task(102, needs=(ID,))])) == {Said.CREATED}
    queue.finish(take(queue, "0101", "other"), Done(output="bystander"))


def beside(disk):
    """What is kept beside the task's file, since others who write it drop it."""
    return disk.data.get(disk.names.get(f"{BESIDE}/{ID}"))


#: Where claimed files lie in one layout or another.
CLAIMED = ("claimed", "processing", "tasks")
#: Functions that only pass an fsync on.
PASSING_ON = (
    "create_at",
    "create",
    "replace",
    "append",
    "sync_dir",
    "sync_all",
    "_sync",
    "sync_filesystem",
    "sync",
    "settle",
)
PASSING_ON += (
    "<listcomp>",
    "<lambda>",
    "_write",
    "write",
    "_bring_in",
    "sync_path",
    "sync_file",
    "_settle",
    "_settle_seal",
)


def kind_of(op):
    """Which fsync this is: the function that asked for it, and the part or directory it settles."""
    asker = next(name for name in op.site if name not in PASSING_ON)
    if op.file:
        return f"{asker}: bytes of {op.path.split('~')[2] if '~' in op.path else os.path.dirname(op.path)}"
    if asker == "roll" and op.path in (SEALED, OUTCOMES, *CLAIMED):
        return "roll: the seal"  # where it went and where it came from: either settles a move that is one step
    return f"{asker}: {re.sub('tries/.*', 'tries/<id>', op.path)}"


def fsyncs(trace):
    """The kinds of fsync of the verb itself, in their order."""
    return list(dict.fromkeys(kind_of(op) for op in trace.ops[trace.start :] if op.kind == "fsync"))


LAYOUTS = ("pit", "mailbox", "workspace")
