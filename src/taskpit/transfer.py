"""Moving tasks between queues, whatever their layouts or stores: as JSON lines, or straight across.

Works through the Store port alone, so it serves every pair of stores. Nothing is lost: what a layout has
no word for is carried along; ids it can't carry are mapped, and the old one is kept. Headers of work items
go where there are such; elsewhere, what they barred is held. Every step can be repeated, so a transfer that
was interrupted is resumed by running it again.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from taskpit import errors, layouts
from taskpit.clock import instant, iso
from taskpit.decode import convert, read_json
from taskpit.events import new_events, unsettled
from taskpit.explain import ENDING
from taskpit.layouts.activities import item_of
from taskpit.layouts.progress import Progress
from taskpit.model import (
    LISTS,
    UNREAD,
    Card,
    Claim,
    End,
    Event,
    Result,
    Said,
    State,
    Task,
    Try,
    Value,
    Verdict,
    Want,
)
from taskpit.store import changelog
from taskpit.store.port import Looking, Store

#: The version of the JSON lines.
SCHEMA = 1
#: Who the steps of a transfer are done by.
WORKER = "transfer"
LEASE = 600.0
#: How long what was interrupted a moment ago may take to be carried out, in seconds.
PATIENCE = 5.0
#: How ids are mapped where no layout says more.
LIKE = layouts.get("pit").like


#: Headers of work items, as plain values.
Heads = Mapping[str, dict[str, Any]]
_PAUSED = re.compile(r"paused by (.+?): (.*?)(?:, until (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ))?\Z", re.DOTALL)


class Cargo(Value, frozen=True, kw_only=True):
    """All that is moved of a queue."""

    cards: tuple[Card, ...] = ()
    events: tuple[Event, ...] = ()
    layout: str = ""
    heads: Heads = {}
    #: Who paused it, why and until when.
    paused: str = ""
    #: Work items that nobody can read, in sentences.
    unread: tuple[str, ...] = ()


class Moved(Value, frozen=True, kw_only=True):
    """What a transfer did."""

    tasks: int = 0
    already: int = 0
    #: Tasks that a worker had: they are ready in the new place.
    released: tuple[str, ...] = ()
    #: Ids that had to be mapped: old and new.
    mapped: tuple[tuple[str, str], ...] = ()
    #: Tasks that are held there by words that were not their own, and those words.
    held: tuple[tuple[str, str], ...] = ()
    #: What was not carried, in sentences.
    left: tuple[str, ...] = ()


def cargo_of(store: Store) -> Cargo:
    """Everything."""
    unread: list[str] = []
    return Cargo(
        cards=tuple(_readable_cards(store, unread.append)),
        events=tuple(events_of(store)),
        layout=store.info().layout,
        heads=heads_of(store),
        paused=store.paused(),
        unread=tuple(unread),
    )


def heads_of(store: Looking) -> Heads:
    """Headers of work items, where there are some."""
    look = getattr(store, "heads", None)
    return look() if look is not None else {}


def cards_of(store: Looking) -> Iterator[Card]:
    """Every task with everything known about it, page by page."""
    cursor = ""
    while True:
        page = store.page(after=cursor, limit=500)
        yield from (card for card in store.read([card.task.id for card in page.cards]) if card is not None)
        cursor = page.cursor
        if not cursor:
            return


def unread(card: Card) -> str:
    """What of this task nobody can read, and so is not carried; empty if all of it is."""
    ended, barred = card.result.reason if card.result else "", card.barred
    if ended.startswith(UNREAD):
        return f"the result of {card.task.id} cannot be read, and is not carried{ended.removeprefix(UNREAD)}"
    if barred.startswith(UNREAD):
        return f"{card.task.id} cannot be read, and only its name is carried{barred.removeprefix(UNREAD)}"
    return ""


def _readable_cards(store: Store, tell: Callable[[str], None]) -> Iterator[Card]:
    """Every task; of a work item that nobody can read, whose tasks nobody knows, `tell` hears instead."""
    items = store.info().layout == "activities"
    for card in cards_of(store):
        if items and card.barred.startswith(UNREAD):
            tell(f"{card.task.id} cannot be read, and nothing of it is carried{card.barred.removeprefix(UNREAD)}")
        else:
            yield card


def events_of(store: Looking) -> list[Event]:
    """The whole changelog, as it stands."""
    events, cursor = new_events(store, "")
    return events + unsettled(store, cursor)


# -- as JSON lines ---------------------------------------------------------------------------------


def dump(store: Store, tell: Callable[[str], None] = lambda _: None) -> Iterator[str]:
    """The queue as JSON lines: a head, then a line for each work item's header, each task and each event. `tell` hears
    what cannot be read.
    """
    paused = store.paused()
    yield _line(kind="queue", schema=SCHEMA, layout=store.info().layout, **({"paused": paused} if paused else {}))
    for item, document in heads_of(store).items():
        yield _line(kind="work_item", id=item, document=document)
    for card in _readable_cards(store, tell):
        if said := unread(card):
            tell(said)
        yield _line(kind="task", **_facts(card))
    for event in events_of(store):
        yield _line(kind="event", **{key: value for key, value in event.as_dict().items() if value})


def _line(**fields: object) -> str:
    return json.dumps(fields, ensure_ascii=False)


def _facts(card: Card) -> dict[str, Any]:
    task = {key: value for key, value in card.task.as_dict().items() if value or key in ("id", "title")}
    source = task.pop("source", b"")
    for key in ("created", "updated", "not_before"):
        if key in task:
            task[key] = iso(task[key])
    facts: dict[str, Any] = {"task": task, "state": str(card.state)}
    if source:
        facts["text"] = source.decode("utf-8", "surrogateescape")
    if card.result is not None:
        facts["result"] = _plain(card.result)
    if card.tries:
        facts["tries"] = [_plain(one) for one in card.tries]
    if card.notes:
        facts["notes"] = card.notes
    if card.barred:
        facts["barred"] = card.barred
    return facts


def _plain(value: Result | Try) -> dict[str, Any]:
    fields = {key: field for key, field in value.as_dict().items() if field or key in ("id", "verdict", "counted")}
    if value.evidence is not None:
        fields["evidence"] = value.evidence.as_dict()
    return fields


def load(lines: Iterable[str]) -> Cargo:
    """What is in JSON lines made by `dump`; Invalid names a bad line."""
    cards: list[Card] = []
    events: list[Event] = []
    heads: dict[str, dict[str, Any]] = {}
    layout = paused = ""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            fields = read_json(line)
            kind = fields.pop("kind")
            if kind == "queue":
                layout, paused = _layout(fields), str(fields.get("paused") or "")
            elif kind == "work_item":
                heads[_item(fields)] = fields["document"]
            elif kind == "task":
                cards.append(_card(fields))
            elif kind == "event":
                events.append(Event.of(fields))
        except (ValueError, TypeError, KeyError, AttributeError, errors.Invalid) as error:
            raise errors.Invalid(f"line {number} is not from `pit export`: {error}", line=number) from None
    return Cargo(cards=tuple(cards), events=tuple(events), layout=layout, heads=heads, paused=paused)


def _item(fields: dict[str, Any]) -> str:
    """The work item of a line; ValueError or Invalid if what follows is no header of one."""
    item = str(fields["id"])
    if item_of(item) != item or not isinstance(fields["document"], dict) or fields["document"].get("activities"):
        raise ValueError("it is no header of a work item")
    return Progress(item, fields["document"]).item


def _layout(head: dict[str, Any]) -> str:
    if head["schema"] > SCHEMA:
        raise ValueError("it was made by a newer taskpit")
    return str(head["layout"])


def _card(fields: dict[str, Any]) -> Card:
    task = dict(fields["task"])
    for key in LISTS:
        task[key] = tuple(task.get(key, ()))
    for key in ("created", "updated", "not_before"):
        if key in task:
            task[key] = instant(str(task[key]), 0.0)
    task.pop("source", None)
    source = str(fields.get("text") or "").encode("utf-8", "surrogateescape")
    result = fields.get("result")
    return Card(
        task=convert(task, Task).replace(source=source),
        state=State(fields["state"]),
        result=convert(result, Result) if result else None,
        tries=tuple(convert(one, Try) for one in fields.get("tries", ())),
        notes=str(fields.get("notes", "")),
        barred=str(fields.get("barred", "")),
    )


# -- straight across -------------------------------------------------------------------------------


def copy(
    cargo: Cargo,
    into: Store,
    check_id: Callable[[str], str],
    *,
    step: Callable[[int], None] = lambda _: None,
) -> Moved:
    """These tasks are in the other queue, with results, tries and events. `step` hears how far it is.

    Their own bytes are used only where the layout is the same.
    """
    left = _bring_pause(cargo.paused, into)
    if cargo.heads and not hasattr(into, "put_under"):
        named = ", ".join(cargo.heads)
        left += (f"there are no work items there: what {named} had beside activities was not carried",)
    left += (*filter(None, map(unread, cargo.cards)), *cargo.unread)
    carried = _carried(cargo.heads, into)
    cards = [_kept(card, carried) for card in cargo.cards]
    if cargo.layout != into.info().layout:
        cards = [card.replace(task=card.task.replace(source=b"")) for card in cards]
    new_ids = map_ids([card.task.id for card in cards], check_id, _like(into))
    now_held = (one for one, was in zip(cards, cargo.cards, strict=True) if one.task.hold != was.task.hold)
    moved = Moved(
        mapped=tuple((old, new) for old, new in new_ids.items() if old != new),
        held=tuple((new_ids[card.task.id], card.barred) for card in now_held),
        left=left,
    )
    for number, card in enumerate(cards, start=1):
        fresh = _renamed(_under(card, carried), new_ids)
        already = place(fresh, into, cargo.heads.get(item_of(card.task.id)))
        released = (fresh.task.id,) if card.state is State.CLAIMED else ()
        moved = moved.replace(
            tasks=moved.tasks + 1, already=moved.already + already, released=moved.released + released
        )
        step(number)
    _copy_events(cargo.events, new_ids, into)
    return moved


def _bring_pause(paused: str, into: Store) -> tuple[str, ...]:
    """A new queue is paused as the old one is. One with tasks of its own is not: that is told."""
    said = _PAUSED.match(paused)
    by, reason, until = said.groups() if said else (WORKER, paused, None)
    seconds = 0.0
    with contextlib.suppress(ValueError):  # a time that is none ends nothing
        seconds = instant(until, 0.0) - time.time() if until else 0.0
    if not paused or seconds < 0 or into.paused():
        return ()
    if any(into.counts().values()):
        return (f"the queue was {paused}; here, tasks are given out",)
    into.pause(reason, seconds, by)
    return ()


def _carried(heads: Heads, into: Store) -> dict[str, Progress]:
    """Headers that say the same there, or come with their first activity: what they bar is barred."""
    same = getattr(into, "same_heads", None)
    there = same(heads) if same is not None and heads else set()
    return {item: Progress(item, document) for item, document in heads.items() if item in there}


def _kept(card: Card, carried: Mapping[str, Progress]) -> Card:
    """What was barred by more than its own words is held there, unless those words are there, too."""
    if not card.barred or item_of(card.task.id) in carried:
        return card
    return card.replace(task=card.task.replace(hold="; ".join(filter(None, (card.task.hold, card.barred)))))


def _under(card: Card, carried: Mapping[str, Progress]) -> Card:
    """What blocks its whole work item stands in the header, and holds it once."""
    head = carried.get(item_of(card.task.id))
    shared = head.hold(card.task.id, {}) if head else ""
    return card.replace(task=card.task.replace(hold="")) if shared and shared == card.task.hold else card


def _like(into: Store) -> Callable[[str], Iterator[str]]:
    """How the layout there spells ids that are like others."""
    name = into.info().layout
    return layouts.get(name).like if name else LIKE


def map_ids(
    ids: Sequence[str], check_id: Callable[[str], str], like: Callable[[str], Iterator[str]] = LIKE
) -> dict[str, str]:
    """Old ids and new: the same where the layout can carry it, else the nearest it can. Always the same answer."""
    mapped: dict[str, str] = {}
    for old in ids:
        try:
            mapped[old] = check_id(old)
        except errors.Invalid:
            continue
    taken = set(mapped.values())
    for old in sorted(set(ids) - mapped.keys()):
        mapped[old] = next(new for new in like(old) if new not in taken and _fits(new, check_id))
        taken.add(mapped[old])
    return mapped


def _fits(text: str, check_id: Callable[[str], str]) -> bool:
    try:
        check_id(text)
    except errors.Invalid:
        return False
    return True


def _renamed(card: Card, new_ids: dict[str, str]) -> Card:
    """The card as it is there. Logs stay where they were printed: their names would be those of other tasks' logs."""
    task = card.task
    fresh = task.renamed(new_ids)
    if fresh.id != task.id:
        fresh = fresh.replace(extra={**task.extra, "original-id": task.id}, source=b"")
    result = card.result and card.result.replace(
        id=fresh.id, children=tuple(new_ids.get(child, child) for child in card.result.children), log=""
    )
    return card.replace(task=fresh, result=result, tries=tuple(one.replace(log="") for one in card.tries))


def place(card: Card, into: Store, header: Mapping[str, Any] | None = None) -> bool:
    """Bring one task to where it was; True if it was there already. One with a past is nobody's to take before that.

    A work item that is not there yet comes with its first activity: without any, it would be one to take.
    """
    task = card.task
    finished = card.state in (State.DONE, State.FAILED)
    asked = task.arriving() if finished or card.tries else task
    put_under = getattr(into, "put_under", None) if header else None
    said = put_under(asked, header) if put_under is not None else into.put([asked])[0]
    there = _settled(task.id, into)
    if there is None or (said is Said.CONFLICT and there.task.wish() != task.wish()):
        raise errors.Conflict(f"{task.id} exists in the new place with other content", id=task.id)
    if there.state is card.state and finished:
        return True
    if card.notes and not there.notes:
        into.note(task.id, card.notes, WORKER)
    for number, one in enumerate(card.tries[len(there.tries) :], start=len(there.tries) + 1):
        after = task if number == len(card.tries) and not finished else task.arriving()
        into.finish([End(claim=_take(task, into), task=after, attempt=one, action="transferred")])
    if finished:
        result = card.result or Result(id=task.id, verdict=Verdict(str(card.state)))
        claim, told = _take(task, into), str(card.state)
        into.finish([End(claim=claim, task=task, result=result, action="transferred", details=told)])
    return said is not Said.CREATED


def _settled(task_id: str, into: Store) -> Card | None:
    """The task in the new place, once what an interrupted transfer left half done is carried out."""
    deadline = time.monotonic() + PATIENCE
    while True:
        card = into.read([task_id])[0]
        if card is not None and card.worker != ENDING:
            return card
        if time.monotonic() >= deadline:
            return card
        into.mend()
        into.wait(0.1)


def _take(task: Task, into: Store) -> Claim:
    """Under one name for all transfers: what an interrupted one had taken is ours again."""
    claims = into.claim(Want(worker=WORKER, lease=LEASE, ids=(task.id,), even_held=True, verbatim=True))
    if claims:
        return claims[0]
    card = _settled(task.id, into)
    if card is None or card.state is not State.CLAIMED or card.worker not in (WORKER, ""):
        raise errors.Lost(f"a worker holds {task.id} in the new queue", id=task.id)
    return Claim(task=card.task, worker=WORKER, fence=card.worker, lease=LEASE, attempt=card.task.attempts + 1)


def _copy_events(events: Sequence[Event], new_ids: dict[str, str], into: Store) -> None:
    """The old changelog behind the new one, each line once, and a last line that tells of them."""
    renamed = [
        changelog.marked(event, "").replace(  # its result is written anew there, and differently
            task_id=new_ids.get(event.task_id, event.task_id),
            activity_id=new_ids.get(event.activity_id, event.activity_id),
        )
        for event in events
    ]
    known = {repr(changelog.marked(event, "")) for event in events_of(into)}  # a queue may be brought back into itself
    renamed = [event for event in renamed if repr(event) not in known]
    if not renamed:
        return
    last = Event(
        timestamp=renamed[-1].timestamp,
        worker=WORKER,
        worker_type="system",
        action="transferred_events",
        details=f"{len(renamed)} earlier events",
    )
    into.record([*renamed, last])


def verify(cargo: Cargo, into: Store, check_id: Callable[[str], str]) -> list[str]:
    """What is not the same in the new place, in sentences; empty is what one wants."""
    carried = _carried(cargo.heads, into)
    cards = [_kept(card, carried) for card in cargo.cards]
    new_ids = map_ids([card.task.id for card in cards], check_id, _like(into))
    heads = cargo.heads if hasattr(into, "same_heads") else {}
    wrong = [f"{item} stands otherwise there" for item in heads if item not in carried]
    for card in cards:
        fresh = _renamed(card, new_ids)
        there = into.read([fresh.task.id])[0]
        if there is None:
            wrong.append(f"{fresh.task.id} is not there")
            continue
        # What was ready or claimed may have been taken in the new place by now: it is there, and that counts.
        finished = card.state in (State.DONE, State.FAILED)
        if finished and there.state is not card.state:
            wrong.append(f"{fresh.task.id} is {there.state}, not {card.state}")
        wrong += [f"{fresh.task.id}: {what} differs" for what in _differences(fresh, there)]
    return wrong


def _differences(one: Card, other: Card) -> Iterator[str]:
    for field in Task.__struct_fields__:
        asked = getattr(one.task, field)
        if field in ("source", "updated") or (not asked and field in ("slug", "max_attempts", "parent")):
            continue  # what nobody asked for a layout may choose
        if not _same(asked, getattr(other.task, field)):
            yield field
    if len(one.tries) > len(other.tries):
        yield "tries"
    if one.result is not None and (
        other.result is None
        or (one.result.verdict, one.result.output.rstrip("\n"), one.result.children)
        != (other.result.verdict, other.result.output.rstrip("\n"), other.result.children)
    ):
        yield "result"


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return int(one) == int(other)
    if isinstance(one, str) and isinstance(other, str):
        return one.strip() == other.strip()
    return one == other
