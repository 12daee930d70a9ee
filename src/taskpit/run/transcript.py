"""What an agent has said so far: its events as they come, folded into facts. Pure, but for remembering.

Understands JSON by the line, and one JSON over many lines; whatever else is printed is kept aside as
words. Events nobody has heard of are let pass. Knows no CLI by name: the preset says what means what.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from taskpit.decode import read_json
from taskpit.model import Value
from taskpit.run.agent_limits import moment
from taskpit.run.preset import MessageRule, Preset, Rule, Source
from taskpit.run.process import Ended
from taskpit.run.usage import amount
from taskpit.text import fit, plain

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
        self._parts: dict[tuple[str, str], float] = {}
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
        counted = amount(found) if source.plus or source.how == "sum" else None
        if counted is not None:
            counted += sum(amount(look_up(event, path)) or 0.0 for path in source.plus)
            found = int(counted) if counted.is_integer() else counted
        if source.how == "sum":
            if counted is not None:
                self.facts[fact] = self.facts.get(fact, 0) + found - self._before(fact, source, event, found)
        elif source.how == "join" and fact in self._joining:
            self.facts[fact] = (self.facts[fact] + str(found))[:LONGEST_TEXT]
        elif source.how != "first" or fact not in self.facts:
            self.facts[fact] = found
        if source.how == "join":
            self._joining.add(fact)
        return True

    def _before(self, fact: str, source: Source, event: dict[str, Any], now: float) -> float:
        """What was counted so far of the thing that this event counts anew."""
        if not source.per:
            return 0
        part = (fact, str(look_up(event, source.per))[:LONGEST])
        before, self._parts[part] = self._parts.get(part, 0), now
        return before

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


# -- what agents print -----------------------------------------------------------------------------


#: Keys under which events say something.
SAYS = frozenset(("text", "thinking", "command", "file_path", "path", "query", "pattern", "result", "error", "message"))
#: So much of one event is shown, and so many lines of it.
LONGEST, MOST = 400, 6
#: What kind of event it is stands before, so wide.
LABEL = 12


def readable(line: str) -> list[str]:
    """The line as people read it: itself, or what the event on it says."""
    text = plain(line).replace("\t", "    ").rstrip()
    if not text.startswith("{"):
        return [text]
    try:
        event = read_json(text)
    except ValueError:
        return [text]
    if not isinstance(event, dict):
        return [text]
    said = [part for words in _said(event) for part in plain(words).splitlines() if part.strip()]
    kind = next((str(event[key]) for key in ("type", "event", "kind") if isinstance(event.get(key), str)), "")
    name = fit(next(_names(event), kind), LABEL)
    if not said:
        return [name or fit(text, LONGEST)]
    heads = [f"{name:<{LABEL}}", *[" " * LABEL] * MOST]
    lines = [f"{head}  {fit(part, LONGEST)}" for head, part in zip(heads, said[:MOST], strict=False)]
    more = len(said) - MOST
    return [*lines, *([f"{heads[1]}  … {more} more lines"] if more > 0 else [])]


def _said(value: object) -> Iterator[str]:
    """Every text in it that is said, in order."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, str):
                if key in SAYS or (key == "content" and inner):
                    yield inner
            else:
                yield from _said(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _said(inner)


def _names(value: object) -> Iterator[str]:
    """What tools it speaks of."""
    if isinstance(value, dict):
        if isinstance(value.get("name"), str):
            yield value["name"]
        for inner in value.values():
            yield from _names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names(inner)


# -- what a run of an agent was --------------------------------------------------------------------
# Judged by all that is known of it: exit code, events, words. Pure.
# Good is: the exit code says so, the last event says so, and there is something to show. The one exception
# is a run that we ended because it would not leave after its last event: then its exit code is ours. A run that
# we ended at its limit, or because it was silent for too long, is never good by itself, whatever it says last.
# Of a run that was not good, the most telling sign counts: a limit, a login, a wrong call, a broken network;
# only what none of these explains is the task's own failure. Words are searched only then: an agent that
# works on rate limits may speak of them, unless its preset says that these count `always`.


#: Signs in the order in which they explain a failure.
ORDER = ("no-session", "quota", "auth", "usage", "infra")
#: How a Python traceback begins.
TRACEBACK = "Traceback (most recent call last)"
#: A limit on the rate of calls ends within a minute.
_PER_MINUTE = re.compile(r"\b[Pp]er[ -]min(?:ute)?\b|\b[RT]PM\b|\b[Rr]ate limit\b")
MINUTE = 60.0


#: Reasons for which we end a run that is not finished.
CUT_SHORT = ("limit", "stall")


class Finding(Value, frozen=True, kw_only=True):
    """What a run was."""

    #: done, failed (it says so), crashed (its exit code does), silent (it said nothing at all), unfinished
    #: (it never said that it was done), or a sign.
    means: str
    #: The words that showed it.
    told: str = ""
    #: Unix seconds at which a limit ends; 0 if the agent did not name a time.
    resets: float = 0.0
    #: Whether that time comes from a field of an event.
    exact: bool = False


def judge(transcript: Transcript, ended: Ended, *, result: bool, resumed: bool, now: float) -> Finding:
    """The finding. `result`: it left a result file; `resumed`: it was to go on in a session."""
    preset, words, end = transcript.preset, transcript.words, transcript.end
    by_code = preset.exit.get(ended.code, "failed" if ended.code else "done")
    over = end is not None and end.means == "done"
    whole = over or not (preset.must_end or end)
    lines = own_lines(words)
    spoilt = next((line for rule in preset.error if rule.always for line in lines if rule.pattern.match(line)), "")
    if whole and not spoilt and ended.why not in CUT_SHORT and (by_code == "done" or (ended.why and over)):
        said = result or bool(transcript.text("text").strip()) or (not preset.has_stream and bool(words.strip()))
        if said:
            return Finding(means="done")
        missing = Finding(means="silent")
    else:
        said_so = bool(spoilt) or (end is not None and not over)
        missing = Finding(means="failed" if said_so else "crashed" if ended.code else "unfinished")
    error = transcript.text("error")
    signs = _signs(transcript, by_code, lines, error, now)
    for means in ORDER if resumed else ORDER[1:]:  # a session that begins cannot be missing
        if means in signs:
            return signs[means]
    return missing.replace(told=error or spoilt)


def without_noise(preset: Preset, words: str) -> str:
    """Leave out the lines that are no part of the answer."""
    noise = [rule.pattern for rule in preset.error if rule.means == "noise"]
    lines = words.splitlines(keepends=True) if noise else [words]
    return "".join(line for line in lines if not any(pattern.match(line) for pattern in noise))


def own_lines(text: str) -> list[str]:
    """The lines of a text that are not part of a Python traceback."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith(TRACEBACK):
            inside = True
        elif inside:
            inside = not line or line[0].isspace()  # the first line without indentation names the exception
        else:
            lines.append(line)
    return lines


def _signs(transcript: Transcript, by_code: str, lines: Sequence[str], error: str, now: float) -> dict[str, Finding]:
    """Every sign with its finding: the exit code, then lines, then the text of error events, then events.

    A line counts if it begins as the preset says; of two of a kind the later one is kept.
    """
    signs: dict[str, Finding] = {}
    if by_code in ORDER:
        signs[by_code] = Finding(means=by_code, told=error or "\n".join(lines[-8:]).strip())
    for text in ("\n".join(lines), "\n".join(own_lines(error))):
        for line in text.splitlines():
            rule = next((rule for rule in transcript.preset.error if rule.pattern.match(line)), None)
            if rule is not None:
                before = signs[rule.means].resets if rule.means in signs else 0.0
                resets = _reset(rule, line, text, now) or before
                signs[rule.means] = Finding(means=rule.means, told=line.strip(), resets=resets)
    for means, named in transcript.meant.items():
        exact, known = moment(named, now), signs.get(means)
        at = exact or (known.resets if known else _minute(error, now))
        told = error or (known.told if known else f"it reports {means}")
        signs[means] = Finding(means=means, told=told, resets=at, exact=bool(exact))
    return signs


def _reset(rule: MessageRule, line: str, text: str, now: float) -> float:
    """When the limit ends, as this line says."""
    found, resets = rule.pattern.match(line), rule.resets.search(text) if rule.resets else None
    for groups in (found, resets):
        for name, said in groups.groupdict().items() if groups else ():
            if said and name in ("at", "in", "unix") and (at := moment(said, now)):
                return at
    return _minute(line, now) if rule.means == "quota" else 0.0


def _minute(text: str, now: float) -> float:
    """When a limit ends that is one of calls per minute; 0 if it is not."""
    return now + MINUTE if _PER_MINUTE.search(text) else 0.0
