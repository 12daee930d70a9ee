"""Every verb, and how it ends: from the parsers and the errors of the program."""

from __future__ import annotations

from manual import EXIT_CODES, VARIABLES, describe

from reference.markdown import code, page, prose, table
from reference.names import first_sentence
from taskpit import errors
from taskpit.cli.verbs import GROUPS, VERBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from manual import Described


def commands() -> str:
    """Every verb with its options and an example."""
    lines = [
        "`pit [-C DIR] [--json] VERB ...`. The queue is the nearest one upwards from the working directory, in a git worktree",
        "that of the main checkout. `pit VERB --help` says the same as this page.",
        "",
        *table(("for every verb", ""), [("`-C DIR`", "the queue, or a folder below it")]),
        "| `--json` | one [JSON envelope](json.md) on standard output |",
        "| `-h`, `--help` | help; `pit --version` is the version |",
        "",
        *table(("variable", ""), ((code(name), told) for name, told in VARIABLES.items())),
    ]
    for group in GROUPS:
        lines += ["", f"## {group[0].upper()}{group[1:]}"]
        for verb in VERBS:
            if verb.group == group:
                lines += _verb(describe(verb))
    return page("Commands", *lines)


def _verb(told: Described) -> list[str]:
    also = f"Also called: {', '.join(f'`{alias}`' for alias in told.verb.aliases)}." if told.verb.aliases else ""
    lines = ["", f"### {told.verb.name}", "", f"```\n{told.usage}\n```", "", prose(told.about)]
    lines += ["", also] if also else []
    rows = [(code(term), prose(meaning)) for term, meaning in (*told.words, *told.options)]
    lines += ["", *table(("argument", ""), rows)] if rows else []
    return [*lines, "", "```sh", *told.examples, "```"]


def exit_codes() -> str:
    """Exit codes, and every error by its code."""
    kinds = sorted({getattr(errors, name) for name in errors.__all__}, key=lambda kind: (kind.exit_code, kind.code))
    rows = [(code(kind.code), str(kind.exit_code), code(kind.__name__), first_sentence(kind)) for kind in kinds]
    rows.append((code("usage"), "2", "", "The command was not understood."))
    return page(
        "Exit codes and errors",
        *table(("exit code", "meaning"), ((str(number), told) for number, told in EXIT_CODES.items())),
        "",
        "`pit lock` with a command ends with that command's own code, or with 128 and the signal's number. `pit work` ends with 0 once it has nothing more to do, whatever became of its tasks.",
        "",
        "With `--json` the error's code says more than the exit code. Codes are stable across releases; messages are not.",
        "",
        *table(("code", "exit code", "in Python", "meaning"), rows),
    )
