"""Every verb in full, as values, and the manual page made of them: for the wheel and the reference.

Reads the parsers, so it cannot be out of date.
"""

from __future__ import annotations

from taskpit import __version__
from taskpit.cli.parser import COMMON, make_parser
from taskpit.cli.verbs import GROUPS, VERBS, Verb, handler
from taskpit.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

#: What an exit code says, as far as it is the same for every verb.
EXIT_CODES = {
    0: "it worked",
    1: "it did not, for a reason that has no code of its own",
    2: "the command line was not understood",
    3: "there is nothing to claim, or the named task may not be taken yet; the reason is printed",
    4: "another worker holds it, or the claim is lost",
    5: "there is no such task, queue or file",
    6: "the input cannot be what it says it is",
    7: "the task's check is red",
    8: "the queue's folder is missing, not writable or full",
    9: "the queue is not trusted to run or connect to anything; `pit trust`",
    130: "interrupted",
    141: "the reader of the output went away",
}
#: The environment that every verb reads.
VARIABLES = {
    "TASKPIT_DIR": "the queue, where neither -C nor the working directory says so",
    "TASKPIT_AS": "the worker's name, where --as does not say so",
    "TASKPIT_DEBUG": "show where in the program an unexpected error happened",
    "NO_COLOR": "no colours, also on a terminal",
    "COLUMNS": "how many letters fit on a line",
}


class Described(Value, frozen=True, kw_only=True):
    """A verb as its help describes it."""

    verb: Verb
    usage: str
    about: str
    #: Words and options, each as it is written and what it means.
    words: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]
    examples: tuple[str, ...]


def describe(verb: Verb) -> Described:
    """All that the verb's own help says."""
    parser = make_parser(verb)
    about, examples = handler(verb).help()
    shown = parser._actions[len(COMMON) :]  # noqa: SLF001 - argparse has no other way to ask
    return Described(
        verb=verb,
        usage=parser.usage_line(),
        about=about,
        words=tuple((_word(action), str(action.help or "")) for action in shown if not action.option_strings),
        options=tuple((_option(action), str(action.help or "")) for action in shown if action.option_strings),
        examples=tuple(examples),
    )


def _word(action: argparse.Action) -> str:
    if action.metavar is None and action.choices is not None:
        return "|".join(map(str, action.choices))
    return str(action.metavar or action.dest)


def _option(action: argparse.Action) -> str:
    flags = ", ".join(action.option_strings)
    if action.nargs == 0:
        return flags
    value = _word(action) if action.metavar or action.choices else action.dest.upper()
    return f"{flags} [{value}]" if action.nargs == "?" else f"{flags} {value}"


# -- the manual page -------------------------------------------------------------------------------


def man_page() -> str:
    """`pit(1)`, in the language of man."""
    lines = [
        f'.TH PIT 1 "" "taskpit {__version__}" "User Commands"',
        ".SH NAME",
        r"pit \- a task queue that is a folder",
        ".SH SYNOPSIS",
        r"\fBpit\fR [\fB\-C\fR \fIDIR\fR] [\fB\-\-json\fR] \fIVERB\fR ...",
        ".SH DESCRIPTION",
        *_paragraphs(
            "People and agents hand each other work as plain files, claim it with an atomic rename and prove it done.\n"
            "The queue is the nearest one upwards from the working directory; TASKPIT_DIR or -C names another.\n"
            "Begin with `pit init`, then `pit add 'a first task'`."
        ),
        ".SH OPTIONS",
        *_terms((("-C DIR", "the queue, or a folder below it"), ("--json", "one JSON envelope on standard output"))),
        *_terms((("-h, --help", "show help and end"), ("--version", "show the version and end"))),
    ]
    for group in GROUPS:
        lines.append(f".SH VERBS: {_escaped(group.upper())}")
        for verb in VERBS:
            if verb.group == group:
                lines += _verb(describe(verb))
    lines += [".SH ENVIRONMENT", *_terms(VARIABLES.items())]
    lines += [".SH EXIT STATUS", *_terms((str(code), text) for code, text in EXIT_CODES.items())]
    return "\n".join(lines) + "\n"


def _verb(described: Described) -> list[str]:
    also = f"\n\nAlso called: {', '.join(described.verb.aliases)}." if described.verb.aliases else ""
    lines = [f".SS {_escaped(described.usage)}", *_paragraphs(described.about + also)]
    lines += _terms((*described.words, *described.options))
    if described.examples:
        lines += [".PP", ".EX", *(_escaped(line) for line in described.examples), ".EE"]
    return lines


def _paragraphs(text: str) -> list[str]:
    return [_escaped(line) if line.strip() else ".PP" for line in text.splitlines()]


def _terms(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [line for term, text in rows for line in (".TP", rf"\fB{_escaped(term)}\fR", _escaped(text) or r"\&")]


def _escaped(text: str) -> str:
    """The text as man prints it unchanged: no line is a request, no dash a hyphen."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq")
    return rf"\&{text}" if text.startswith(".") else text
