"""Work items to try things on: queues of them, documents as people write them, and what can be seen of one."""

from __future__ import annotations

import difflib
import glob
import os
import re
from pathlib import Path

import quickyaml

from taskpit import layouts
from taskpit.config import Config
from taskpit.layouts import yamltext
from taskpit.model import Task, Want
from taskpit.queue import Queue
from taskpit.store.activities.store import ActivityStore
from taskpit.store.opening import init
from taskpit.store.port import Mend
from taskpit.testing import FakeClock

LEASE = 3600.0
quickyaml.remember()
FAST = Config(durability="process", lease=LEASE, human_lease=8 * LEASE, backoff=10.0)
ITEM, FIRST, SECOND = "WI-001", "WI-001-A1", "WI-001-A2"


def make(root, clock=None, config=FAST) -> Queue:
    """An empty queue of work items."""
    clock = clock or FakeClock()
    init(str(root), "activities", clock)
    return reopened(root, clock, config)


def reopened(root, clock, config=FAST) -> Queue:
    """The queue as another process sees it, one that leaves nobody time to finish."""
    store = ActivityStore(str(root), layouts.get("activities"), config, clock, grace=0.0)
    return Queue(store, config, clock)


def by_hand(queue, text, folder="WI-001-by-hand") -> Path:
    """A folder as a person makes it: `progress.yaml` and nothing else. The file."""
    home = Path(queue.store.folder.root, folder)
    home.mkdir()
    path = home / "progress.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def file_of(queue, item=ITEM) -> Path:
    """Its `progress.yaml`."""
    (path,) = glob.glob(f"{queue.store.folder.root}/{item}*/progress.yaml")
    return Path(path)


def load(path):
    """What the file says."""
    return yamltext.load(Path(path).read_bytes())


def home_of(queue, item=ITEM) -> Path:
    return file_of(queue, item).parent


def lock_of(queue, activity=FIRST) -> Path:
    return home_of(queue, activity[:6]) / "locks" / f"{activity}.lock"


def put(queue, *titles, parent=ITEM, **fields) -> list[str]:
    """Activities of a work item, or what `parent` says; their ids."""
    return [said[0] for said in queue.put([Task(id="", title=one, parent=parent, **fields) for one in titles])]


def take(queue, task_id=FIRST, worker="agent-1", **want):
    """The claim, under a name used as it is."""
    given = {"worker": worker, "lease": LEASE, "ids": (task_id,), "verbatim": True, **want}
    (claim,) = queue.store.claim(Want(**given))
    return claim


def entry(queue, activity=FIRST):
    """The mapping of an activity."""
    return queue.store.items.get(activity[:6]).entry(activity)


def status(queue, activity=FIRST) -> str:
    return str(entry(queue, activity)["status"])


def steps(queue, activity=FIRST) -> dict[str, str]:
    """The tasks inside an activity and where they are."""
    progress = queue.store.items.get(activity[:6])
    return {step.id: step.status for step in progress.steps(activity, progress.entry(activity))}


def disorder(queue) -> list[Mend]:
    """What doctor finds, without results that came too late: those are kept to be read."""
    return [found for found in queue.store.check() if found.kind != "late result"]


def actions(queue, about="") -> list[str]:
    """What the changelog tells, of one thing or of all."""
    return [event.action for event in queue.store.events()[0] if about in ("", event.about)]


def changed(before: str, after: str) -> tuple[list[str], list[str]]:
    """The keys on lines that went, and on lines that came, without those every change writes."""
    gone, come = [], []
    for line in difflib.ndiff(before.splitlines(), after.splitlines()):
        key = re.match(r"[-+] [\s-]*([^:\s]+)", line)
        if key and key[1] not in EVERY:
            (gone if line[0] == "-" else come).append(key[1])
    return sorted(gone), sorted(come)


#: What every change writes.
EVERY = ("version", "last_modified", "last_modified_by", "schema_version")


def comments(text: str) -> list[str]:
    return re.findall(r"# .*", text)


def save(path, text: str) -> None:
    """As an editor does: a new file in place of the old."""
    scratch = f"{path}.swp"
    Path(scratch).write_text(text, encoding="utf-8")
    os.replace(scratch, path)


NESTED = """\
# The login, replanned in January
schema_version: 2   # from the old tool
version: 7
last_modified: "2026-01-24T10:00:00Z"
last_modified_by: ann

work_item:
  id: WI-001
  title: 'Ship the login'
  status: in_progress
  owner: ann   # ask her first

activities:
  # the part everybody waits for
  - id: A1
    title: "Backend"
    status: pending
    actor: any
    estimate: 3d            # in working days
    depends_on: []
    tasks:
      - id: A1-T1
        title: Design   # with Ben
        status: pending
      - id: A1-T2
        title: Build
        status: pending
        depends_on: [A1-T1]

  - id: A2
    title: Frontend
    status: pending
    depends_on: [A1]

blockers: []
# the end
"""

FLAT = """\
---
schema_version: 2
version: 12
last_modified: 2026-01-24T10:00:00Z
last_modified_by: agent-abc123
work_item_id: WI-001
title: Ship the login
status: in_progress
links: {board: "https://example.org/1",  owner: ann}
activities:
- id: WI-001-A1
  title:   Backend
  status: pending   # nobody yet
  review: |
    two lines
    of it
  notes: ~
  tasks:
    - id: WI-001-A1-T1
      title: Design
      status: pending
    - id: WI-001-A1-T2
      title: Build
      status: pending
- id: WI-001-A2
  title: Frontend
  status: pending
  depends_on:
  - WI-001-A1
# kept by hand
notes_for_us: >
  folded
  text
"""

BY_ID = """\
version: "3"
title: Ship the login
status: active
activities:
    A1:
        title: Backend
        status: todo      # as the board says
        tasks:
            T1:
                title: Design
                status: not-started
            T2:
                title: Build
                status: not-started
    A2:
        title: Frontend
        status: planned
        depends_on: A1
blockers:
    B1:
        description: gone long ago   # history
        activity_id: A1
        resolved: true
"""

FORMS = {"nested": NESTED, "flat": FLAT, "by id": BY_ID, "from windows": "\ufeff" + NESTED.replace("\n", "\r\n")}
