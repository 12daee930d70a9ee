"""The completion scripts of shells (`completion`). Reads the parsers, so it cannot be out of date."""

from __future__ import annotations

import os

from taskpit.cli.context import Args, Context, Reply, arg, takes
from taskpit.cli.parser import make_parser
from taskpit.cli.verbs import VERBS, Verb

GLOBAL = ("-C", "--json", "--help", "--version")


@takes(arg("shell", "which shell", choices=("bash", "zsh", "fish")))
def _completion(args: Args, _: Context) -> Reply:
    """Print a completion script for your shell; load it from the shell's start-up file.

    eval "$(pit completion bash)"                            # in ~/.bashrc
    eval "$(pit completion zsh)"                             # in ~/.zshrc, after compinit
    pit completion fish > ~/.config/fish/completions/pit.fish
    """
    script = scripts()[args.shell]
    return Reply(data={"shell": args.shell, "script": script}, text=script)


def scripts() -> dict[str, str]:
    """The script of each shell."""
    names = [name for verb in VERBS for name in (verb.name, *verb.aliases)]
    listed = "\n".join(f"    {_quoted(f'{verb.name}:{verb.summary}')}" for verb in VERBS)
    return {
        "bash": _filled("bash", " ".join((*names, *GLOBAL)), "    {names}) words='{options}' ;;"),
        "zsh": _filled("zsh", listed, "    {names}) options=({options}) ;;"),
        "fish": _fish(),
    }


def _options(verb: Verb) -> list[tuple[str, str]]:
    """The verb's options and what each does; none if this verb is not installed."""
    try:
        parser = make_parser(verb)
    except ImportError:
        return []
    actions = (action for action in parser._actions if action.option_strings)  # noqa: SLF001 - there is no other way
    return [(option, str(action.help or "")) for action in actions for option in action.option_strings]


def _filled(shell: str, verbs: str, case: str) -> str:
    """The script in the file beside this one, with the verbs and a line for each verb with its names and options."""
    cases = []
    for verb in VERBS:
        options = " ".join(option for option, _ in _options(verb))
        cases.append(case.format(names="|".join((verb.name, *verb.aliases)), options=options))
    with open(f"{os.path.splitext(__file__)[0]}.{shell}", encoding="utf-8") as file:
        return file.read().replace("@VERBS@", verbs).replace("@CASES@", "\n".join(cases))


def _fish() -> str:
    lines = ["complete -c pit -n __fish_use_subcommand -l json -d 'one JSON envelope'"]
    lines.append("complete -c pit -n __fish_use_subcommand -s C -r -d 'the queue, or a folder below it'")
    for verb in VERBS:
        lines.append(f"complete -c pit -f -n __fish_use_subcommand -a {verb.name} -d {_quoted(verb.summary)}")
        seen = f"'__fish_seen_subcommand_from {' '.join((verb.name, *verb.aliases))}'"
        for option, text in _options(verb):
            flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            lines.append(f"complete -c pit -n {seen} {flag} -d {_quoted(text)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """The text between single quotes, as all three shells read it."""
    return "'" + text.replace("'", "`") + "'"
