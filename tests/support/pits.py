"""Pits to try things on, and what can be seen of one: pictures, tokens, what is wrong."""

from __future__ import annotations

import os
import re

from taskpit import fs, layouts
from taskpit.config import Config
from taskpit.model import Claim, Done, Said, State, Task, Want
from taskpit.queue import Queue
from taskpit.store.files import FileStore
from taskpit.store.folder import IDS, OUTCOMES, SEALED
from taskpit.store.opening import init

LEASE = 900.0
CONFIG = Config(durability="process", backoff=10.0, lease=LEASE, compost=1800.0)
POWER = CONFIG.replace(durability="power")


def make(root, clock, config=CONFIG, layout="pit") -> Queue:
    """An empty queue."""
    init(root, layout, clock)
    return reopened(root, clock, config)


def reopened(root, clock, config=CONFIG) -> Queue:
    """The queue as another process sees it, one that leaves nobody time to finish."""
    with open(f"{root}/.taskpit/layout", encoding="utf-8") as file:
        layout = layouts.get(file.read().strip())
    store = FileStore(root, layout, config, clock, grace=0.0)
    return Queue(store, config, clock)


def root_of(queue: Queue) -> str:
    return queue.store.folder.root


def task(number: int, **fields) -> Task:
    return Task(**{"id": f"{number:04d}", "title": f"task {number}", "slug": f"task-{number}", "by": "ann", **fields})


def put(queue: Queue, *tasks: Task) -> None:
    assert queue.store.put(tasks) == [Said.CREATED] * len(tasks)


def take(queue: Queue, task_id: str, worker: str = "snake", **want) -> Claim:
    (claim,) = queue.store.claim(Want(**{"worker": worker, "lease": LEASE, "ids": (task_id,), **want}))
    return claim


def files(root: str, *folders: str) -> list[str]:
    """What lies in these directories."""
    return sorted(f"{folder}/{name}" for folder in folders for name in os.listdir(f"{root}/{folder}"))


def visible(queue: Queue) -> list[str]:
    """What a person sees, without what makes one claim unique, and without the reclaims' diary."""
    layout = queue.store.folder.layout
    names = files(root_of(queue), *(name for name in layout.folders if name != layout.tmp))
    timeless = [re.sub(r"\d{8}T\d{6}Z", "<ts>", plain(name)) for name in names]
    return sorted(name for name in timeless if name != "scraps/reclaims.md")


def plain(text: str) -> str:
    """Without what makes one claim unique, and however its silence was noticed."""
    return re.sub(r"(gave no sign for|did not renew within)", "was silent", re.sub(r"~[0-9a-z]{6,20}", "", text))


def picture(queue: Queue, forget: tuple[str, ...] = ()) -> dict[str, object]:
    """Everything a person could tell apart, without times and fences; tries of kinds in `forget` left out."""
    shown: dict[str, object] = {"files": visible(queue)}
    for task_id in sorted(os.listdir(queue.store.folder.at(IDS))):
        card = queue.store.read([task_id])[0]
        shown[task_id] = card and {
            "state": str(card.state),
            "held": plain(card.held).partition("not before")[0],
            # Where the holder is written inside the file, that comes a moment after the claim.
            "worker": "" if queue.store.folder.layout.guarded else card.worker.partition("~")[0],
            "task": (*card.task.wish()[:9], plain(card.task.hold), card.task.big, card.task.attempts),
            "waits": card.task.not_before > 0,
            "result": card.result and (str(card.result.verdict), card.result.reason, card.result.output),
            "children": card.result and card.result.children,
            "tries": [(one.kind, plain(one.error)) for one in card.tries if one.kind not in forget],
            "late": len(card.late),
            "notes": card.notes.partition(" ann:")[2],
        }
    return shown


def tokens(queue: Queue) -> dict[str, list[str]]:
    """Where each known id stands: exactly one place is right once everything is swept."""
    folder = queue.store.folder
    places: dict[str, list[str]] = {task_id: [] for task_id in fs.names(folder.at(IDS))}
    for name, state in ((folder.layout.ready, State.READY), (folder.layout.claimed, State.CLAIMED)):
        for spot in folder.spots(name, state):
            places.setdefault(spot.id, []).append(spot.path)
    for spot, nonce, end in folder.sealed():
        places.setdefault(spot.id, []).append(f"{SEALED}/{spot.path}~{nonce}~{end}")
    for name in fs.names(folder.at(OUTCOMES)):
        places.setdefault(name.partition("~")[0], []).append(f"{OUTCOMES}/{name}")
    return places


def misplaced(queue: Queue) -> dict[str, list[str]]:
    """Ids that are nowhere or in two places."""
    return {task_id: places for task_id, places in tokens(queue).items() if len(places) != 1}


def wrong(queue: Queue) -> list[str]:
    """What the doctor finds, save results kept aside on purpose."""
    return [f"{m.kind}: {m.what}: {m.details}" for m in queue.store.check() if m.kind != "late result"]


def actions(queue: Queue, task_id: str) -> list[str]:
    return [event.action for event in queue.store.events()[0] if event.task_id == task_id]


def drain(queue: Queue, worker: str = "last") -> None:
    """Do everything that may be done."""
    while claims := queue.claim(worker, count=10):
        for claim in claims:
            assert queue.finish(claim, Done(output="drained"))[0] is Said.OK
