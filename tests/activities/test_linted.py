"""What the folders' own linter accepts, and a life that changes its lines and no other byte."""

from __future__ import annotations

import difflib

import pytest
from workitems import FIRST, by_hand, file_of, load, take

from taskpit.model import Ask, Done, Failed, Release, Retry, Split, Task

TEMPLATE = """\
# Progress of one work item
schema_version: 2             # v2 = actors

version: 1                    # one more with each write
last_modified: null           # when
last_modified_by: null        # who

work_item_id: WI-001
title: "One thing"
type: development             # development | architecture | consultancy | mixed
status: in_progress           # scoping | planning | in_progress | done
initiative_id: null            # the parent
advances_kr_ids: []

activities:
  - id: WI-001-A1              # {work item}-A{N}
    title: "The first"
    status: pending            # pending | in_progress
    actor: any                 # agent | human | any
    depends_on: []             # ids
    completed_by: null         # who
    completed_at: null         # when
    \n\
    # Tasks of this activity
    tasks:
      - id: WI-001-A1-T1       # {activity}-T{N}
        title: "Step one"
        status: pending
        actor: agent           # who
        completed_by: null
        completed_at: null
        notes: null
        deliverables: []
      \n\
      - id: WI-001-A1-T2
        title: "Step two"   \n\
        status: pending
        actor: any             \n\
        completed_by: null
        completed_at: null
        notes: null
        deliverables: []

  - id: WI-001-A2
    title: "The second"
    status: pending
    actor: human               # only people
    depends_on: []
    completed_by: null
    tasks:
      - id: WI-001-A2-T1
        status: pending
        actor: human
        notes: null

blockers: []
  # - id: WI-001-B1

artifacts:
  scope_ai: null               # later
  deliverables: []
    # - id: "WI-001-D01"

# === END ===
"""
#: The keys whose lines `pit done` changes, and those it adds below the activity.
CHANGED = {"version", "last_modified", "last_modified_by", "status", "completed_by", "completed_at"}
ADDED = {
    "started_at",
    "result",
    "verdict",
    "worker",
    "attempt",
    "finished",
    "output",
    "deliverables",
    "- deliverables/",
}
STATUSES = {
    "work item": {"scoping", "discovery", "planning", "in_progress", "blocked", "review", "abandoned", "done"},
    "activity": {"pending", "in_progress", "awaiting_human", "completed", "blocked", "skipped", "abandoned"},
}
ACTORS = {"agent", "human", "any"}
TYPES = {"development", "architecture", "consultancy", "mixed"}


def issues(document):
    """What the linter finds in a progress.yaml, by its own rules."""
    head = document.get("work_item", document)
    found = [] if head["status"] in STATUSES["work item"] else [head["status"]]
    found += [] if head["type"] in TYPES else [head["type"]]
    for activity in document["activities"]:
        for part in (activity, *activity.get("tasks", ())):
            found += [] if part["status"] in STATUSES["activity"] else [part["status"]]
            found += [] if part.get("actor", "any") in ACTORS else [part["actor"]]
    return found


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_life_changes_the_lines_it_must_and_no_others(newline, queue):
    before = TEMPLATE.replace("\n", newline)
    path = by_hand(queue, before)
    queue.finish(take(queue, FIRST), Done(output="x"))
    after = path.read_bytes().decode()
    gone, new = [], []
    for line in difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True)):
        if line[0] in "-+":
            (gone if line[0] == "-" else new).append(line[2:].partition(":")[0].strip())
    assert set(gone) == CHANGED
    assert set(new) - {name for name in new if name.startswith("- deliverables/")} <= CHANGED | ADDED
    assert after.count(newline) == after.count("\n")
    assert after.count("null") == before.count("null") - 8
    assert issues(load(path)) == []


def test_the_linter_finds_nothing_in_what_we_write(queue):
    (item,) = (task_id for task_id, _ in queue.put([Task(id="", title="a work item")]))
    queue.put([Task(id="", title=title, parent=item) for title in ("one", "two", "three")])
    for outcome in (Release(), Retry(reason="later"), Ask(question="which?"), Failed(error="no")):
        claims = queue.claim("agent-1", kind="human")
        if claims:
            queue.finish(claims[0], outcome)
            assert issues(load(file_of(queue))) == []
    for card in list(queue.store.page().cards):
        if card.task.hold:
            queue.unblock(card.task.id, "ann")
    for outcome in (Split(children=(Task(id="", title="smaller"),)), Failed(error="no", final=True), Done(output="x")):
        claims = queue.claim("agent-1", kind="human")
        if claims:
            queue.finish(claims[0], outcome)
            assert issues(load(file_of(queue))) == []
    document = load(file_of(queue))
    assert (document["type"], document["schema_version"]) == ("development", 2)
