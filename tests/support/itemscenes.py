"""Every verb on work items as a scene, killed before each of its calls: what is left is before or after."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import zlib
from copy import copy

from crashes import AGES, copy_tree, difference
from faults import CHANGES, record
from workitems import FAST, FIRST, ITEM, LEASE, SECOND, actions, by_hand, disorder, make, reopened, take

from taskpit.keeper import sweep
from taskpit.model import Ask, Done, Failed, Release, Said, Split, State, Task, Want
from taskpit.queue import EDIT_LEASE
from taskpit.store.activities import pivot
from taskpit.store.activities import steps as moves
from taskpit.testing import FakeClock

DOCUMENT = """\
# by hand
version: 4
title: Ship the login
activities:
  - id: A1
    title: Backend   # everybody waits for it
    owner: ann
    tasks:
      - {id: T1, title: one}
      - {id: T2, title: two, actor: human}
  - id: A2
    title: theirs
  - id: A3
    status: done
    completed_by: ben
  - {id: A4, title: after, depends_on: [A1]}
"""
T1, T2 = f"{FIRST}-T1", f"{FIRST}-T2"


class Scene:
    """One verb. `words` tell its end in the changelog, which no crash may swallow."""

    def __init__(self, name, prepare, act, words=()):
        self.name = name
        self.prepare = prepare
        self.act = act
        self.words = words

    def __repr__(self):
        return self.name


def nothing(queue):
    return None


def claimed(queue):
    return take(queue)


def person(queue):
    return take(queue, worker="ann", kind="human")


def started(queue):
    claim = take(queue)
    moves.start(queue.store.items, T1, "agent-1")
    return claim


def only_a_persons(queue):
    moves.finish(queue.store.items, T1, "ann", "human")


def last_time(queue):
    queue.edit(FIRST, "ann", lambda task: task.replace(max_attempts=1))
    return take(queue)


def failed(queue):
    queue.finish(take(queue), Failed(error="broken", final=True))
    return queue.card(FIRST).task


def blocked(queue):
    queue.block(FIRST, "ann", "no access")


def pivoting(queue):
    pivot.start(queue.store.items, ITEM, "ann", "GraphQL")


def abandoned(queue):
    claim = started(queue)
    queue.clock.advance(LEASE + 1)
    queue.store.renew([queue.holding(SECOND, "other")], LEASE)
    return claim


def taking(worker):
    """A claim that may find nothing to take."""
    want = Want(worker=worker, lease=LEASE, ids=(FIRST,), verbatim=True)
    return lambda queue, _: queue.store.claim(want)


def ending(outcome):
    return lambda queue, claim: queue.finish(claim, outcome)


def adding(task):
    return lambda queue, _: queue.store.put([task])


CHILDREN = (Task(id="WI-001-A5", title="part one"), Task(id="WI-001-A6", title="part two", needs=("WI-001-A5",)))
SCENES = [
    Scene("put a work item", nothing, adding(Task(id="WI-002", title="another", body="two\nlines", by="ann"))),
    Scene("put an activity", nothing, adding(Task(id="WI-001-A5", title="more", by="ann"))),
    Scene("put an activity of nothing yet", nothing, adding(Task(id="WI-002-A1", title="more", by="ann"))),
    Scene("put a task", nothing, adding(Task(id=f"{FIRST}-T3", title="more", by="ann"))),
    Scene("claim", nothing, taking("agent-1")),
    Scene("take over", abandoned, taking("agent-2")),
    Scene("renew", claimed, lambda queue, claim: queue.store.renew([claim], LEASE)),
    Scene("done, the rest waits for people", claimed, ending(Done(output="yes"))),
    Scene("done", person, ending(Done(output="yes")), ("completed_activity",)),
    Scene("failed for good", last_time, ending(Failed(error="no")), ("failed_activity",)),
    Scene("cancelled", claimed, ending(Failed(error="no", cancelled=True)), ("cancelled_activity",)),
    Scene("failed, again later", claimed, ending(Failed(error="no"))),
    Scene("release", started, ending(Release())),
    Scene("ask", claimed, ending(Ask(question="which one?"))),
    Scene("split", claimed, ending(Split(children=CHILDREN, wait=True))),
    Scene("split and done", person, ending(Split(children=CHILDREN)), ("split_activity", "completed_activity")),
    Scene("reopen", failed, lambda queue, old: queue.store.reopen([old.replace(priority=3)])),
    Scene("task start", claimed, lambda queue, _: moves.start(queue.store.items, T1, "agent-1")),
    Scene("task done", started, lambda queue, _: moves.finish(queue.store.items, T1, "agent-1", "agent")),
    Scene("task wait", claimed, lambda queue, _: moves.await_human(queue.store.items, T1, "agent-1", "agent")),
    Scene("task done in passing", nothing, lambda queue, _: moves.finish(queue.store.items, T1, "ann", "human")),
    Scene(
        "the last task done in passing",
        only_a_persons,
        lambda queue, _: moves.finish(queue.store.items, T2, "ann", "human"),
        ("completed_activity",),
    ),
    Scene("block", nothing, lambda queue, _: queue.block(FIRST, "ann", "no access")),
    Scene("unblock", blocked, lambda queue, _: queue.unblock(FIRST, "ann")),
    Scene("edit", nothing, lambda queue, _: queue.edit(FIRST, "ann", lambda task: task.replace(priority=9))),
    Scene("pivot start", nothing, lambda queue, _: pivoting(queue)),
    Scene(
        "pivot finish",
        pivoting,
        lambda queue, _: pivot.finish(queue.store.items, ITEM, "ann", redo=["WI-001-A3"], drop=["WI-001-A4"]),
    ),
    Scene("sweep", abandoned, lambda queue, _: sweep(queue)),
    Scene("give out ids", nothing, lambda queue, _: queue.store.allot(["", ITEM, FIRST])),
]


def picture(queue):
    """Everything a person could tell apart, without times and fences."""
    shown = {"queue": sorted(queue.store.items.folders())}
    for progress in queue.store.items.readable():
        document = {key: value for key, value in progress.document.items() if key in ("title", "pivots", "blockers")}
        shown[progress.item] = len(document.get("pivots") or []), [one["description"] for one in progress.blockers()]
        for task_id, fields in progress.entries():
            card = queue.store.read([task_id])[0]
            shown[task_id] = {
                "state": str(card.state),
                "held": re.sub(r"not before.*", "", card.held),
                "worker": card.worker.partition("~")[0],
                "task": (card.task.wish()[:9], card.task.attempts, card.task.not_before > 0, fields.get("owner")),
                # Whoever has it says so a moment later; in progress and nobody's is as good as pending.
                "status": card.state is State.CLAIMED or str(fields.get("status")).replace("in_progress", "pending"),
                "steps": [(step.id, step.status, step.completed_by) for step in progress.steps(task_id, fields)],
                "result": card.result and (str(card.result.verdict), card.result.reason, card.result.output),
                "deliverables": list(fields.get("deliverables") or ()),
                "tries": [(one.kind, one.error) for one in card.tries if one.kind not in ("lost", "reset")],
            }
    return shown


class Stages:
    """Fresh folders for one scene, and what it looks like undisturbed: before, after, and its calls."""

    def __init__(self, scene, where, config=FAST):
        self.scene = scene
        self.config = config
        self._where = str(where)
        self._numbers = itertools.count()
        self._judged = {}
        queue = make(f"{self._where}/template", FakeClock(), config)
        by_hand(queue, DOCUMENT)
        take(queue, SECOND, "other")
        self._given = scene.prepare(queue)
        self._template = queue
        queue.close()
        self.before, self._late_before = self._undisturbed(act=False)
        self.after, self._late_after = self._undisturbed(act=True)
        self._went_on = []

    def stage(self):
        """A new folder, everything in place: the queue, and what the verb needs."""
        root = f"{self._where}/{next(self._numbers)}"
        copy_tree(self._template.store.folder.root, root)
        return reopened(root, copy(self._template.clock), self.config), self._given

    def _undisturbed(self, *, act):
        queue, given = self.stage()
        if act:
            with record() as self.calls:
                self.scene.act(queue, given)
            assert self.calls, "it made no call to die before: nothing is shown"
        self._settle(queue)
        seen = picture(queue)
        self._outlive(queue)
        late = picture(queue)
        self.strike(queue)
        return seen, late

    def _outlive(self, queue):
        """The time of whoever died runs out; the bystander's does not."""
        for _ in range(2):
            queue.store.renew([queue.holding(SECOND, "other")], 9 * LEASE)
            queue.clock.advance(8 * LEASE + 1)
            sweep(queue)

    def _settle(self, queue):
        """What was taken for a moment is given back; nobody else's lease ends meanwhile."""
        queue.clock.advance(max(EDIT_LEASE, moves.MOMENT) + 1)
        sweep(queue)

    def strike(self, queue):
        queue.close()
        shutil.rmtree(queue.store.folder.root)

    def numbers(self, *, every=False):
        """Calls to die before: each that changes something, or each."""
        return [n for n, (call, _) in enumerate(self.calls, 1) if every or call in CHANGES]

    def judge(self, queue, where):
        """What comes of what was left; the same leavings are judged once."""
        left = self._leavings(queue)
        if left not in self._judged:
            self._judged[left] = self._judge(queue, where)
        else:
            self.strike(queue)
        return self._judged[left]

    def _leavings(self, queue):
        """Every file by its name and its bytes, without nonces and numbers."""
        root, found = queue.store.folder.root, []
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    data = re.sub(rb"[0-9]+|~[0-9a-z]{6}", b"", file.read())
                place = re.sub(r"~[0-9a-z]{6}", "~", os.path.relpath(path, root))
                found.append((place, zlib.crc32(data), os.lstat(path).st_nlink))
        return tuple(sorted(found))

    def _judge(self, queue, where):
        """Sweep as another process, twice, and look."""
        queue.close()
        queue = reopened(queue.store.folder.root, queue.clock, self.config)
        sweep(queue)
        self._settle(queue)
        assert sweep(queue) == [], f"{where}: the second sweep still found something"
        seen = picture(queue)
        if seen not in (
            self.before,
            self.after,
        ):  # it happened, and who did it still has the lock: until its time is over
            self._outlive(queue)
            late = picture(queue)
            pictures = self._late_before, self._late_after
            assert late in pictures, f"{where}: {difference(late, *pictures)}"
            seen = self.after if late == self._late_after else self.before
        assert disorder(queue) == [], where
        if seen == self.after != self.before and self.scene.words:
            assert set(self.scene.words) & set(actions(queue, FIRST)), f"{where}: the changelog misses it"
        now = picture(queue)
        if now not in self._went_on:
            self._went_on.append(now)
            self._goes_on(queue, where)
        self.strike(queue)
        return seen

    def _goes_on(self, queue, where):
        """Whatever was left, the work can be done, by a person if need be, and nothing is left over."""
        queue.clock.advance(AGES)
        sweep(queue)
        while claims := queue.claim("last", count=10, kind="human"):
            for claim in claims:
                assert queue.finish(claim, Done())[0] is Said.OK, where
        for card in queue.store.page(State.READY).cards:
            assert card.held, f"{where}: {card.task.id} is free and was not done"
        queue.clock.advance(AGES)
        sweep(queue)
        root = queue.store.folder.root
        assert os.listdir(f"{root}/.taskpit/tmp") == [], f"{where}: left over"
        assert [name for item in queue.store.items.folders().values() for name in _locks(root, item)] == [], where


def _locks(root, item):
    path = f"{root}/{item}/locks"
    return os.listdir(path) if os.path.isdir(path) else []


__all__ = ["SCENES", "Scene", "Stages", "picture"]
