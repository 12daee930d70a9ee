"""What a run of an agent was, judged by all that is known of it: exit code, events, words. Pure.

Good is: the exit code says so, the last event says so, and there is something to show. The one exception
is a run that we ended because it would not leave after its last event: then its exit code is ours. A run that
we ended at its limit, or because it was silent for too long, is never good by itself, whatever it says last.
Of a run that was not good, the most telling sign counts: a limit, a login, a wrong call, a broken network;
only what none of these explains is the task's own failure. Words are searched only then: an agent that
works on rate limits may speak of them, unless its preset says that these count `always`.
"""

from __future__ import annotations

from taskpit.records import Value
from taskpit.worker.quota_reset import moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from taskpit.worker.preset import Message
    from taskpit.worker.process import Ended
    from taskpit.worker.transcript import Transcript

__all__ = ["Finding", "judge"]

#: Signs in the order in which they explain a failure.
ORDER = ("no-session", "quota", "auth", "usage", "infra")
#: How much of what was printed beside the events is searched for signs, from the end.
SEARCHED = 4096


#: Reasons for which we end a run that is not finished.
CUT_SHORT = ("limit", "stall")


class Finding(Value):
    """What a run was."""

    #: done, failed (it says so), crashed (its exit code does), silent (it said nothing at all), unfinished
    #: (it never said that it was done), or a sign.
    means: str
    #: The words that showed it.
    told: str = ""
    #: Unix seconds at which a limit ends; 0 if nobody said.
    resets: float = 0.0


def judge(transcript: Transcript, ended: Ended, *, result: bool, resumed: bool, now: float) -> Finding:
    """The finding. `result`: it left a result file; `resumed`: it was to go on in a session."""
    preset, words, end = transcript.preset, transcript.words, transcript.end
    by_code = preset.exit.get(ended.code, "failed" if ended.code else "done")
    over = end is not None and end.means == "done"
    whole = over or not (preset.must_end or end)
    last = words[-SEARCHED:]
    spoilt = next((found for one in preset.message if one.always and (found := one.pattern.search(last))), None)
    if whole and spoilt is None and ended.why not in CUT_SHORT and (by_code == "done" or (ended.why and over)):
        said = result or bool(transcript.text("text").strip()) or (preset.events == "none" and bool(words.strip()))
        if said or preset.empty == "done":
            return Finding(means="done")
        missing = Finding(means="silent")
    else:
        said_so = spoilt is not None or (end is not None and not over)
        missing = Finding(means="failed" if said_so else "crashed" if ended.code else "unfinished")
    error = transcript.text("error")
    signs = dict(_signs(transcript, by_code, last, error, now))
    for means in ORDER if resumed else ORDER[1:]:  # who begins a session cannot miss one
        if means in signs:
            return signs[means]
    return missing.replace(told=error or (_line(last, spoilt.start()) if spoilt else ""))


def _signs(transcript: Transcript, by_code: str, last: str, error: str, now: float) -> Iterator[tuple[str, Finding]]:
    """All signs there are; of two of a kind the later is the better one."""
    if by_code in ORDER:
        yield by_code, Finding(means=by_code, told=error or last.strip())
    seen: dict[str, float] = {}
    for text in (last, error):
        for message in transcript.preset.message:
            found = message.pattern.search(text)
            if found:
                seen[message.means] = _reset(message, found.groupdict(), text, now) or seen.get(message.means, 0.0)
                yield (
                    message.means,
                    Finding(means=message.means, told=_line(text, found.start()), resets=seen[message.means]),
                )
                break
    for means, resets in transcript.meant.items():
        at = moment(resets, now) or seen.get(means, 0.0)
        yield means, Finding(means=means, told=error or f"it reports {means}", resets=at)


def _reset(message: Message, groups: dict[str, str | None], text: str, now: float) -> float:
    """When the limit ends, as these words say."""
    found = message.resets.search(text) if message.resets else None
    for name, said in {**groups, **(found.groupdict() if found else {})}.items():
        if said and name in ("at", "in", "unix"):
            at = moment(said, now)
            if at:
                return at
    return 0.0


def _line(text: str, place: int) -> str:
    """The line in which something was found."""
    begin = text.rfind("\n", 0, place) + 1
    end = text.find("\n", place)
    return text[begin : end if end >= 0 else len(text)].strip()
