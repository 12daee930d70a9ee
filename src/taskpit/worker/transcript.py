"""What an agent has said so far: its events as they come, folded into facts. Pure, but for remembering.

Understands JSON by the line, and one JSON over many lines; whatever else is printed is kept aside as
words. Events nobody has heard of are let pass. Knows no CLI by name: the preset says what means what.
"""

from __future__ import annotations

import json
import re

from taskpit.agents.reported import amount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from taskpit.worker.preset import Preset, Rule, Source

__all__ = ["Transcript", "look_up"]

#: How much of what is no event is kept, from the end.
WORDS = 16384
#: How much of a text is kept.
LONGEST_TEXT = 1024 * 1024


def look_up(event: Any, path: Sequence[str]) -> Any:
    """What stands there; None if nothing does. Numbers count in lists; `*` is everything there, numbers added up."""
    for place, step in enumerate(path):
        if step == "*" and isinstance(event, dict | list):
            inner = event.values() if isinstance(event, dict) else event
            found = [one for one in (look_up(one, path[place + 1 :]) for one in inner) if one is not None]
            counted = [one for one in map(amount, found) if one is not None]
            return sum(counted) if counted and len(counted) == len(found) else next(iter(found), None)
        if isinstance(event, dict):
            event = event.get(step)
        elif isinstance(event, list) and step.isdecimal() and int(step) < len(event):
            event = event[int(step)]
        else:
            return None
    return event


def fits(event: Any, when: Sequence[tuple[Sequence[str], Sequence[object]]]) -> bool:
    """Whether the event is as described; `*` is anything there is, `~...` a text in which this pattern is found."""
    return all(any(_same(look_up(event, path), one) for one in wanted) for path, wanted in when)


def _same(found: object, wanted: object) -> bool:
    if wanted == "*":
        return found is not None
    if isinstance(wanted, str) and wanted.startswith("~"):
        return isinstance(found, str) and re.search(wanted[1:], found[:LONGEST_TEXT]) is not None
    return isinstance(found, bool) == isinstance(wanted, bool) and found == wanted


class Transcript:
    """One stream of events, or several that are one story."""

    def __init__(self, preset: Preset) -> None:
        self.preset = preset
        #: The last event that ends a run, as its rule has it.
        self.end: Rule | None = None
        #: Whether that was the last event of all.
        self.over = False
        #: What events along the way meant, with what they said of when a limit ends.
        self.meant: dict[str, object] = {}
        self.facts: dict[str, Any] = {}
        #: Facts that count the whole session, not this run alone.
        self.totals: set[str] = set()
        #: What was no event.
        self.words = ""
        #: Whether it goes round in a circle: one event again and again, as its rule says how often.
        self.circling = False
        self._joining: set[str] = set()
        self._last: Rule | None = None
        self._rounds = 0

    def hear(self, lines: Sequence[bytes]) -> None:
        """These lines were printed."""
        for line in lines:
            events = list(_events(line.decode("utf-8", "replace").strip()))
            for event in events:
                self._take(event)
            if not events and line.strip():
                self.words = (self.words + line.decode("utf-8", "replace"))[-WORDS:]

    def close(self) -> None:
        """Nothing follows: what looked like words may have been one JSON over many lines."""
        at = 0 if self.words.startswith(("{", "[")) else self.words.find("\n{") + 1
        if self.words[at : at + 1] not in ("{", "["):
            return
        try:
            found, end = json.JSONDecoder().raw_decode(self.words[at:])
        except (ValueError, RecursionError):
            return
        for event in found if isinstance(found, list) else [found]:
            if isinstance(event, dict):
                self._take(event)
        self.words = self.words[:at] + self.words[at + end :]

    def _take(self, event: dict[str, Any]) -> None:
        self.over = False
        for rule in self.preset.event:
            if fits(event, rule.when):
                self._apply(rule, event)
                break
        for fact, sources in self.preset.take.items():
            held = False
            for source in sources:
                if fits(event, source.when):
                    held = self._note(fact, source, event) or held
            if not held:
                self._joining.discard(fact)

    def _apply(self, rule: Rule, event: dict[str, Any]) -> None:
        self._rounds = self._rounds + 1 if rule is self._last else 1
        self._last = rule
        self.circling = self.circling or (rule.loops > 0 and self._rounds >= rule.loops)
        if rule.ends:
            self.end, self.over = rule, True
        if rule.means not in ("done", "failed", "goes-on"):
            self.meant[rule.means] = look_up(event, rule.resets) if rule.resets else self.meant.get(rule.means)

    def _note(self, fact: str, source: Source, event: dict[str, Any]) -> bool:
        """The fact, with what this event adds to it; whether it adds anything."""
        if source.how == "count":
            self.facts[fact] = self.facts.get(fact, 0) + 1
            return True
        found = look_up(event, source.path)
        if found is None or found == "":
            return False
        if source.how == "total":
            self.totals.add(fact)
        if source.how == "sum":
            counted = amount(found)
            if counted is not None:
                self.facts[fact] = self.facts.get(fact, 0) + (int(counted) if counted.is_integer() else counted)
        elif source.how == "join" and fact in self._joining:
            self.facts[fact] = (self.facts[fact] + str(found))[:LONGEST_TEXT]
        elif source.how != "first" or fact not in self.facts:
            self.facts[fact] = found
        if source.how == "join":
            self._joining.add(fact)
        return True

    def text(self, fact: str) -> str:
        """A fact as text; empty if it was not told."""
        found = self.facts.get(fact, "")
        return (found if isinstance(found, str) else json.dumps(found, ensure_ascii=False))[:LONGEST_TEXT]


def _events(text: str) -> Iterator[dict[str, Any]]:
    """The events on one line: one, or a list of them."""
    if not text.startswith(("{", "[")):
        return
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return
    yield from (one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict))
