"""What a worker is told about its task, as Markdown. Pure: a claim and earlier tries in, text out."""

from __future__ import annotations

from collections.abc import Sequence

from taskpit.model import Claim, Try
from taskpit.text import plain

#: How much of an earlier attempt's error is told again.
LONGEST_ERROR = 2000
#: How much of the notes beside it is told.
LONGEST_NOTES = 8000


def task_text(claim: Claim) -> bytes:
    """The task as it was written, or as one would write it."""
    task = claim.task
    return task.source or f"# {task.title}\n\n{task.body}".rstrip().encode() + b"\n"


def make_prompt(claim: Claim, tries: Sequence[Try], result_file: str, notes: str = "") -> str:
    """The task, how it will be judged, what people have noted, and what went wrong before."""
    noted = [f"## Notes\n\n{_quoted(notes[-LONGEST_NOTES:])}"] if notes.strip() else []
    parts = [*_asked(claim), *_judged(claim), *noted, *_failed(tries)]
    parts.append("If only a person can decide something, run `pit ask 'your question'` and stop.")
    parts.append(f"When you are finished, write what you did and found to `{result_file}`.")
    return "\n\n".join(parts) + "\n"


def _asked(claim: Claim) -> list[str]:
    task = claim.task
    parts = [f"# {task.title}"]
    if task.body.strip():
        parts.append(task.body.strip())
    facts = [f"- {key}: {value}" for key, value in task.extra.items() if key != "done-when"]
    return [*parts, "\n".join(facts)] if facts else parts


def _judged(claim: Claim) -> list[str]:
    wish = claim.task.extra.get("done-when")
    parts = [f"It is done when: {wish}"] if wish else []
    if claim.task.check:
        parts.append(f"It is done when this command is green; it will be run for you:\n\n    {claim.task.check}")
    return parts


def _failed(tries: Sequence[Try]) -> list[str]:
    """The last attempt that failed by its own fault; workers that died or gave it back have nothing to teach."""
    counted = [one for one in tries if one.counted]
    if not counted:
        return []
    last = counted[-1]
    times = "once" if len(counted) == 1 else f"{len(counted)} times"
    parts = [
        f"## What went wrong before\n\nThis was tried {times}. The last attempt failed ({last.kind}):",
        _quoted(last.error[:LONGEST_ERROR]),
    ]
    if last.evidence is not None:
        parts.append(f"The check `{last.evidence.command}` ended with exit code {last.evidence.exit_code} and said:")
        parts.append(_quoted(last.evidence.tail or "(nothing)"))
    parts.append("Don't do the same again: find out why, then do it differently.")
    return parts


def _quoted(text: str) -> str:
    """Indented, so that nothing in it can be taken for ours."""
    return "\n".join(f"    {line}" for line in plain(text).strip().splitlines())
