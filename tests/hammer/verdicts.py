"""What the ledger and the folder say about the promises, looked at by names and words and not by our own store.

A claim is certainly later than another if it was begun after that one had been had; an end is certainly that of a
superseded claimant if such a later claim was had before it began. Times are of one clock, and taken on the safe side
of the calls, so nothing is called broken that is not.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict

from pits import misplaced, wrong

from taskpit.model import State
from taskpit.store.folder import IDS, LATE, QUARANTINE, TRIES

MARK = re.compile(r"mark=([a-z0-9._]*[a-z0-9])")
TRIED = re.compile(r"tried=([0-9.]*[0-9])")
#: Where results lie, and how a name tells whose it is.
RESULTS = {
    "pit": (("done", "scraps"), re.compile(r"food-([a-z0-9]+)-")),
    "mailbox": (("outbox", "failed"), re.compile(r"(.+?)_(?:result|error)")),
    "workspace": (("outputs",), re.compile(r"(.+?)_result")),
}
FINAL = ("done", "failed", "split")
YES = ("ok", "already")


class Ledger:
    """What was told, by the claim it was told of."""

    def __init__(self, path):
        self.put = set()
        self.claims = {}
        self.endings = {}
        self.ended = {}
        self.published = defaultdict(list)
        self.robbed = []
        self.trouble = []
        self.mended = Counter()
        self.late_renewals = 0
        with open(path, encoding="utf-8") as file:
            for line in file:
                when, word, *rest = line.rstrip("\n").split("\t")
                getattr(self, "_" + word.replace(" ", "_"))(float(when), *rest)

    def _put(self, when, task_id, mark, said):
        if said != "conflict":
            self.put.add(task_id)

    def _claimed(self, when, task_id, mark, begun, since):
        self.claims[mark] = task_id, float(begun), float(since)

    def _ending(self, when, task_id, mark, kind):
        self.endings[mark] = when, task_id, kind

    def _ended(self, when, task_id, mark, kind, said, children):
        self.ended[mark] = task_id, kind, said, children.split(",") if children else []

    def _published(self, when, task_id, mark):
        self.published[task_id].append((when, mark))

    def _robbed(self, when, task_id, mark):
        self.robbed.append(f"{mark} renewed {task_id} in time and lost it")

    def _renewed_too_late(self, when, task_id, mark):
        self.late_renewals += 1

    def _mended(self, when, what, kind):
        self.mended[kind] += 1

    def _cleaned(self, when, name, mark):
        self.mended["cleaned by a stranger"] += 1

    def _trouble(self, when, who, mark, *words):
        self.trouble.append(f"{who} fell over: {' '.join(words)}")

    def accepted(self):
        """Ends that somebody was told are in force: claim, task, kind, children."""
        return [(mark, *rest[:2], rest[3]) for mark, rest in self.ended.items() if rest[2] in YES]

    def later(self):
        """For each claim that had begun to end: who had certainly been given the task since."""
        of_task, found = defaultdict(list), {}
        for mark, (task_id, begun, since) in self.claims.items():
            of_task[task_id].append((mark, begun, since))
        for mark, (when, task_id, _) in self.endings.items():
            mine = self.claims[mark][2]
            others = [other for other, begun, since in of_task[task_id] if begun > mine and since < when]
            if others:
                found[mark] = others[0]
        return found


def visible_results(root, layout):
    """Every visible result: whose, where, and by which claim."""
    folders, name_of = RESULTS[layout]
    found = defaultdict(list)
    for folder in folders:
        for name in os.listdir(f"{root}/{folder}"):
            named = name_of.match(name)
            with open(f"{root}/{folder}/{name}", encoding="utf-8") as file:
                marks = MARK.findall(file.read())
            if named and marks:
                found[named[1]].append((f"{folder}/{name}", marks[0]))
    return found


def judge(queue, ledger, layout, *, strangers):
    """What is broken, and the counts."""
    root = queue.store.folder.root
    results, later = visible_results(root, layout), ledger.later()
    finals = {}
    broken = [*ledger.trouble, *(ledger.robbed if not strangers else [])]
    for mark, task_id, kind, _ in ledger.accepted():
        if mark in later:
            broken.append(f"{kind} of {task_id} was accepted from {mark} after {later[mark]} had been given it")
        if kind in FINAL and finals.setdefault(task_id, mark) != mark:
            broken.append(f"{task_id} was finished by {finals[task_id]} and by {mark}")
    broken += [*_results(results, finals, ledger, later), *_lost(root, ledger, results), *_tries(root, ledger)]
    broken += [f"{task_id} is in {places or 'no place'}" for task_id, places in misplaced(queue).items()]
    broken += [one for one in wrong(queue) if not one.startswith("quarantined")]
    aside = _reasons(root)
    if not strangers:
        broken += [f"set aside: {reason}" for reason in aside]
    runs = Counter(task_id for _, task_id, kind in ledger.endings.values() if kind in FINAL)
    counts = {
        "tasks": len(os.listdir(f"{root}/{IDS}")),
        "claims": len(ledger.claims),
        "ends accepted": len(ledger.accepted()),
        "ends refused": sum(1 for rest in ledger.ended.values() if rest[2] == "lost"),
        "double executions": sum(runs.values()) - len(runs),
        "late results set aside": len(os.listdir(f"{root}/{LATE}")),
        "results by strangers": sum(len(told) for told in ledger.published.values()),
        "late renewals": ledger.late_renewals,
        "quarantined": len(aside),
        **dict(ledger.mended),
    }
    return broken, counts


def _results(results, finals, ledger, later):
    """One result for each task, that of whoever was told so, from somebody who had the task."""
    for task_id, found in results.items():
        if len(found) > 1:
            yield f"{task_id} has the results {found}"
        place, mark = found[0]
        if mark in later:
            yield f"{place} is by {mark}, after {later[mark]} had been given {task_id}"
        if finals.get(task_id, mark) != mark:
            yield f"{finals[task_id]} was told that {task_id} is finished; {place} is by {mark}"
    for task_id, mark in finals.items():
        before = [other for when, other in ledger.published[task_id] if when < ledger.endings[mark][0]]
        if before:
            yield f"{task_id} had a result by {before[0]} when {mark} began to end it, and was told yes"


def _lost(root, ledger, results):
    """What was acknowledged is there: tasks, children, and in the end a result for each."""
    known = set(os.listdir(f"{root}/{IDS}"))
    children = {child for _, _, _, children in ledger.accepted() for child in children}
    yield from (f"{task_id} was put and is not known" for task_id in (ledger.put | children) - known)
    yield from (f"{task_id} has no result" for task_id in known - results.keys())


def _tries(root, ledger):
    """An attempt that somebody was told is counted is counted, once."""
    for mark, task_id, kind, _ in ledger.accepted():
        if kind == "again":
            told = 0
            folder = f"{root}/{TRIES}/{task_id}"
            for name in os.listdir(folder) if os.path.isdir(folder) else ():
                with open(f"{folder}/{name}", encoding="utf-8") as file:
                    told += TRIED.findall(file.read())[:1] == [mark]
            if told != 1:
                yield f"the attempt {mark} at {task_id} is counted {told} times"


def _reasons(root):
    """Why things were set aside."""
    found = []
    for name in os.listdir(f"{root}/{QUARANTINE}"):
        if name.endswith(".reason"):
            with open(f"{root}/{QUARANTINE}/{name}", encoding="utf-8") as file:
                found.append(file.read().strip())
    return found


__all__ = ["Ledger", "State", "judge"]
