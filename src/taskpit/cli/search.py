"""Looking for words: `search`. Changes nothing."""

from __future__ import annotations

from taskpit.cli.context import Reply
from taskpit.cli.options import a_count, a_status, example
from taskpit.cli.output import paint, terminal_width
from taskpit.cli.progress import Progress
from taskpit.cli.show import COLOURS
from taskpit.status import LABELS, read_status
from taskpit.text import fit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from taskpit.cli.context import Context
    from taskpit.cli.verbs import Handlers
    from taskpit.search import Hit

__all__ = ["VERBS"]

#: People see this many hits unless they ask for more.
SCREENFUL = 50


def _search_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Tasks that mention all these words, in id, title, tags, text, reasons, results, workers or notes; those with\n"
        'the words in the title first. Upper and lower case are the same; "a phrase" stands between double quotes.'
    )
    parser.epilog = example(
        "pit search login", "pit search '\"broken pipe\" api' --state failed", "pit search x --json"
    )
    parser.add_argument("words", metavar="WORD", nargs="+", help="all of them must occur")
    parser.add_argument("--state", type=a_status, default=read_status("all"), metavar="S", help="only among these")
    told = f"at most so many; 0 is all (default {SCREENFUL})"
    parser.add_argument("--limit", type=a_count, default=SCREENFUL, metavar="N", help=told)


def _search(args: Namespace, context: Context) -> Reply:
    from taskpit.search import search, words_of

    text = " ".join(args.words)
    # One more than is shown tells whether there are more.
    with Progress(context, "reading tasks", turns=True) as bar:
        limit = args.limit + 1 if args.limit else 0
        hits = search(context.queue, text, limit, only=args.state, progress=bar.step)
    more = bool(args.limit) and len(hits) > args.limit
    hits = hits[: args.limit] if args.limit else hits
    data = [{key: value for key, value in hit.as_dict().items() if key != "rank"} for hit in hits]
    return Reply(data=data, text=lambda: _told(hits, words_of(text), more=more))


def _told(hits: Sequence[Hit], words: Sequence[str], *, more: bool) -> str:
    if not hits:
        return "No matching tasks."
    widest = max(len(hit.id) for hit in hits)
    room = terminal_width()
    lines = []
    for hit in hits:
        state = paint(COLOURS[hit.column], f"{LABELS[hit.column]:<9}")
        title = _lit(fit(hit.title, max(room - widest - 13, 20)), words)
        lines.append(f"{paint('bold', hit.id.ljust(widest))}  {state}  {title}")
        if hit.field not in ("id", "title"):
            label = f"{' ' * widest}  {hit.field:<9}  "
            lines.append(f"{paint('dim', label)}{_lit(fit(hit.snippet, max(room - len(label), 20)), words)}")
    lines += [paint("dim", f"… and more; `--limit 0` shows all, beginning with these {len(hits)}.")] if more else []
    return "\n".join(lines)


def _lit(text: str, words: Sequence[str]) -> str:
    """The text with what was looked for standing out."""
    import re

    any_of_them = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.sub(any_of_them, lambda found: paint("bold", found[0]), text, flags=re.IGNORECASE)


VERBS: Handlers = {"search": (_search_arguments, _search)}
