"""Completion in shells, by argcomplete (`completion`)."""

from __future__ import annotations

import argparse
import os

from taskpit.cli.context import Args, Context, Reply, arg, takes
from taskpit.cli.parser import COMMON, declared, make_parser
from taskpit.cli.verbs import VERBS, meant
from taskpit.errors import MissingExtra


@takes(arg("shell", "which shell", choices=("bash", "zsh", "fish")))
def _completion(args: Args, _: Context) -> Reply:
    """Print a completion script for your shell; load it from the shell's start-up file.

    eval "$(pit completion bash)"                            # in ~/.bashrc
    eval "$(pit completion zsh)"                             # in ~/.zshrc, after compinit
    pit completion fish > ~/.config/fish/completions/pit.fish
    """
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        hint = "Install it: pip install 'taskpit[completion]'."
        raise MissingExtra("completion needs the package argcomplete", hint=hint) from None
    script = shellcode(["pit"], shell=args.shell)
    return Reply(data={"shell": args.shell, "script": script}, text=script)


def complete() -> None:
    """Answer a shell that asks for completions, and end the process. Shells set `_ARGCOMPLETE`."""
    import argcomplete

    argcomplete.autocomplete(_whole_parser(os.environ.get("COMP_LINE", "").split()[1:]))


def _whole_parser(words: list[str]) -> argparse.ArgumentParser:
    """Return a parser of all verbs. Only the verb on the line has its options: others would load their modules."""
    parser = argparse.ArgumentParser(prog="pit", add_help=False)
    for row in COMMON:
        flags, known = declared(row)
        parser.add_argument(*flags, **known)
    verbs = parser.add_subparsers()
    asked = {word for start in range(len(words)) for word in meant(words[start:])[:1]}
    for verb in VERBS:
        names = (verb.name, *verb.aliases)
        try:
            parents = [make_parser(verb)] if asked.intersection(names) else []
        except ImportError:  # an extra that is not installed
            parents = []
        for name in names:
            verbs.add_parser(name, help=verb.summary, parents=parents, add_help=False)
    return parser
