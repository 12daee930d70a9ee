"""A plan as people and agents write it: a Markdown list with boxes becomes tasks, its order becomes needs.

## Phase 1: Storage                   a heading is a tag of what stands below it; numbered ones (Phase 2, 3. ...,
- [ ] Choose a database               Step 4) come one after the other: what is below waits for all that came before
- [ ] Write the schema                items with bullets are independent of each other
  - [ ] users                         an item waits for the items inside it
  - [x] sessions                      what is ticked off is left out, and nothing waits for it
1. [ ] Migrate                        items with numbers come one after the other
2. [ ] Switch over (needs: users)     or wait for what they name
   check: `make smoke`                the command that proves it; other indented text is the body

Plans have items of the same title, so the file's name belongs to an item's id.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from taskpit.importers.importer import Bad, Found, Importer
from taskpit.model import Task
from taskpit.text import fence_after

_ITEM = re.compile(r"(\s*)(?:[-*+]|(\d+)[.)])\s+\[([ xX~-])\]\s+(.+)")
_HEADING = re.compile(r"#{1,6}\s+(.+)")
_IN_ORDER = re.compile(
    r"(?:(?:phase|step|stage|milestone|part|sprint|week|day)\s+)?\d+\b|(?:phase|stage)\b", re.IGNORECASE
)
_NEEDS = re.compile(r"\((?:needs|after|depends on)[: ]([^()]+)\)\s*$", re.IGNORECASE)
_CHECK = re.compile(r"(?:check|done-when|done when|verify)\s*:\s*`([^`]+)`", re.IGNORECASE)


class _Item:
    """One line with a box, and what belongs to it."""

    def __init__(self, line: int, depth: int, number: str, title: str, *, ticked: bool) -> None:
        self.line, self.depth, self.number, self.title, self.ticked = line, depth, number, title, ticked
        self.body: list[str] = []
        self.check = ""
        self.tags: tuple[str, ...] = ()
        self.needs: list[_Item] = []
        self.named: list[str] = []
        self.name = ""
        self.above: _Item | None = None
        #: What comes before it in the order of numbers; its parts wait for that, too.
        self.after: list[_Item] = []


class Checklist(Importer):
    """Plans in Markdown."""

    name = "checklist"
    places = (("*.md",),)

    def recognises(self, name: str, text: str) -> bool:  # noqa: ARG002 - no text is surely a plan
        """Nothing tells a plan from another text with boxes: it has to be said."""
        return False

    def earlier(self, task_id: str) -> str:
        """Once the name of the file was no part of it."""
        return f"#{task_id.rpartition('#')[2]}"

    def read(self, name: str, text: str) -> Iterator[Found | Bad]:
        """The items, in the order they are written."""
        items = _items(text)
        if not items:
            yield Bad(where=name, why="there is no line with a box in it, such as `- [ ] Write the schema`")
            return
        _name(items, " ".join(os.path.splitext(os.path.basename(name))[0].split()))
        titles = {_plain(item.title): item for item in items}
        for item in items:
            unknown = [one for one in item.named if _plain(one) not in titles]
            if unknown:
                yield Bad(where=f"{name}:{item.line}", why=f"it needs {unknown[0]!r}, and no item is called that")
                continue
            needs = [*item.needs, *(titles[_plain(one)] for one in item.named)]
            task = Task(
                id=item.name,
                title=item.title,
                body="\n".join(item.body).strip("\n"),
                check=item.check,
                needs=tuple(dict.fromkeys(need.name for need in needs if not need.ticked)),
                parent=item.above.name if item.above and not item.above.ticked else "",
                tags=item.tags,
            )
            yield Found(task=task, where=f"{name}:{item.line}", over="done" if item.ticked else "")


def _items(text: str) -> list[_Item]:
    """All items, each with what it waits for."""
    items: list[_Item] = []
    open_items: list[_Item] = []  # the one we are in, and those it is in
    section: list[_Item] = []  # what stands below the present heading
    before: list[_Item] = []  # what a section in order waits for
    tags: tuple[str, ...] = ()
    in_order, fence = False, ""
    for line, raw in enumerate(text.splitlines(), 1):
        fence = fence_after(raw, fence)
        heading, found = _HEADING.match(raw), _ITEM.match(raw)
        if heading and not fence:
            name = heading[1].rstrip().rstrip("#").rstrip()
            in_order = bool(_IN_ORDER.match(name))
            before = [*before, *section] if section and not in_order else section or before
            section, open_items, tags = [], [], (_slug(name),)
        elif found and not fence:
            item = _item(line, found, tags)
            while open_items and open_items[-1].depth >= item.depth:
                open_items.pop()
            _place(item, open_items, items, before if in_order else [])
            items.append(item)
            section.append(item)
            open_items.append(item)
        elif open_items and raw.strip() and not raw.startswith((" ", "\t")):
            open_items = []  # a paragraph of its own ends the list
        elif open_items:
            _belongs(open_items[-1], raw)
    return items


def _item(line: int, found: re.Match[str], tags: tuple[str, ...]) -> _Item:
    title, named = found[4].strip(), _NEEDS.search(found[4])
    if named:
        title = title[: named.start()].strip()
    ticked = found[3] in "xX~-"
    item = _Item(line, len(found[1].expandtabs(4)), found[2] or "", title.strip("* "), ticked=ticked)
    item.named = [one.strip() for one in re.split(r",|;| and ", named[1])] if named else []
    item.tags = tags
    return item


def _place(item: _Item, open_items: list[_Item], items: list[_Item], before: list[_Item]) -> None:
    """The item knows what it is a part of, and what comes before it."""
    item.above = open_items[-1] if open_items else None
    if item.above:
        item.above.needs.append(item)
    sisters = [one for one in items if one.above is item.above and one.tags == item.tags and one.depth == item.depth]
    if item.number and int(item.number) > 1 and sisters:
        item.after = [sisters[-1]]
    elif item.above:
        item.after = item.above.after
    item.needs += [*item.after, *before]


def _belongs(item: _Item, raw: str) -> None:
    """A line below an item says how it is proven, or is text."""
    check = _CHECK.search(raw)
    if check and not item.check:
        item.check = check[1]
    elif raw.strip() or item.body:
        item.body.append(raw.strip())


def _name(items: list[_Item], plan: str) -> None:
    """Each has a name made of its plan's and of its words, the same whenever the plan is read again."""
    taken: dict[str, int] = {}
    for item in items:
        base = _slug(item.title)
        taken[base] = taken.get(base, 0) + 1
        number = f"-{taken[base]}" if taken[base] > 1 else ""
        item.name = f"{plan}#{base}{number}"  # no queue has such an id: it gets one


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:48].strip("-") or "item"


def _plain(text: str) -> str:
    return re.sub(r"[^\w]+", " ", text.lower()).strip()


IMPORTER = Checklist()
