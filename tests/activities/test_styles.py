"""A `progress.yaml` in every style people and tools write: a claim changes its own lines, and not a byte besides."""

from __future__ import annotations

import difflib

import pytest
from rotation import part
from workitems import FIRST, by_hand, take

from taskpit.model import Done, Failed, Release, State
from taskpit.store.activities import steps

TOOL = """\
# Progress tracking
# See the guide for the fields

schema_version: 2
version: 1
last_modified: null
last_modified_by: null

work_item:
  id: WI-001
  title: "Ship it"
  type: development

  # planning | in_progress | done
  status: in_progress
  owner: null

activities:

  - id: WI-001-A1
    title: "First"
    status: pending

    depends_on: []
    claimed_by: null
    completed_at: null

    tasks:

      - id: WI-001-A1-T1
        title: "One"
        status: pending
        notes: null

      - id: WI-001-A1-T2
        title: "Two"
        status: pending
        notes: ~

blockers: []

metrics:
  estimate: null
  actual: null
"""
RULES = ("work_item:", "# =======\n# WORK ITEM\n# =======\n\nwork_item:")
#: The tool's own template, and what others make of it: what is replaced by what.
STYLES = {
    "as the tool writes it": ("", ""),
    "a comment behind nothing": ("owner: null", "owner: null  # who"),
    "an example in comments": ("blockers: []", "# Example:\n#  - id: X\n#    title: y\n\nblockers: []"),
    "sections": RULES,
    "two empty lines": ("\n\nwork_item", "\n\n\nwork_item"),
    "spaces at the end of a line": ('title: "First"', 'title: "First"  '),
    "a comment before the tasks": ("    completed_at: null\n", "    completed_at: null\n    # tasks follow\n\n"),
    "a comment between tasks": ("        notes: null\n\n", "        notes: null\n\n      # the second\n"),
    "null for an empty list": ("depends_on: []", "depends_on: null"),
    "nothing for null": ("claimed_by: null", "claimed_by:"),
    "a document's start": ("# Progress tracking\n", "---\n# Progress tracking\n"),
    "a document's end": ("  actual: null\n", "  actual: null\n...\n"),
    "no newline at the end": ("  actual: null\n", "  actual: null"),
    "a folded title": ('title: "First"', "title: >-\n      a long\n      title"),
    "a title over two lines": ('title: "First"', 'title: "a long\n      title over lines"'),
    "a list over many lines": ("depends_on: []", "depends_on: [\n    ]"),
    "a dash on a line of its own": ("  - id: WI-001-A1\n", "  -\n    id: WI-001-A1\n"),
    "times": ("completed_at: null", "completed_at: 2026-01-24T10:00:00.000Z"),
    "a literal text": ("  owner: null", "  owner: null\n  description: |\n    some text\n\n    more\n"),
    "a literal text with its end": ("  owner: null", "  owner: null\n  description: |+\n    some text\n\n"),
    "comments at the end": ("  actual: null\n", "  actual: null\n\n# the end\n\n# really\n"),
    "other quotes": ('"', "'"),
    "from windows": ("\n", "\r\n"),
    "a list of comments": ("blockers: []", "blockers:\n\n  # none yet\n"),
}
#: What a claim says.
CLAIM = ("version", "last_modified", "last_modified_by", "status", "started_at")


@pytest.mark.parametrize("style", STYLES)
def test_a_claim_changes_its_own_lines_and_not_a_byte_besides(style, queue):
    before = TOOL.replace(*STYLES[style]) if STYLES[style][0] else TOOL
    assert style == "as the tool writes it" or before != TOOL
    path = by_hand(queue, before)
    take(queue, FIRST)
    told = path.read_bytes().decode()
    lines = difflib.ndiff(before.splitlines(keepends=True), told.splitlines(keepends=True))
    changed = [(line[0], line[2:].partition(":")[0].strip()) for line in lines if line[0] in "+-"]
    assert sorted(key for sign, key in changed if sign == "-") == sorted(CLAIM[:4])
    assert sorted(key for sign, key in changed if sign == "+") == sorted(CLAIM)


#: What the rest of a life changes of what stood there: the result and its parts are new lines.
LIFE = {*CLAIM, "completed_at", "notes"}


@pytest.mark.parametrize("style", part(STYLES, 6))
def test_nor_does_the_rest_of_its_life(style, queue):
    """Given back, blocked and unblocked, its first task done, failed, tried again and done."""
    before = TOOL.replace(*STYLES[style]) if STYLES[style][0] else TOOL
    path = by_hand(queue, before)
    queue.finish(take(queue, FIRST), Release())
    queue.block(FIRST, "ann", "no access")
    queue.unblock(FIRST, "ann")
    steps.finish(queue.store.items, f"{FIRST}-T1", "agent-1", "agent")
    queue.finish(take(queue, FIRST), Failed(error="no", final=True))
    queue.retry(FIRST, "ann")
    queue.finish(take(queue, FIRST), Done(output="x"))
    told = path.read_bytes().decode()
    lines = difflib.ndiff(before.splitlines(keepends=True), told.splitlines(keepends=True))
    gone = {line[2:].partition(":")[0].strip() for line in lines if line[0] == "-"}
    assert gone <= LIFE | {"blockers"}
    assert queue.card(FIRST).state is State.DONE


@pytest.mark.parametrize("mode", [0o600, 0o660])
def test_it_keeps_its_mode(queue, mode):
    path = by_hand(queue, TOOL)
    path.chmod(mode)
    queue.finish(take(queue, FIRST), Release())
    assert path.stat().st_mode & 0o777 == mode
