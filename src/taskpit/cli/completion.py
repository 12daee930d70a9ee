"""The completion scripts of shells (`completion`). Reads the parsers, so it cannot be out of date."""

from __future__ import annotations

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
    return {"bash": _bash(), "zsh": _zsh(), "fish": _fish()}


def _options(verb: Verb) -> list[tuple[str, str]]:
    """The verb's options and what each does; none if this verb is not installed."""
    try:
        parser = make_parser(verb)
    except ImportError:
        return []
    actions = (action for action in parser._actions if action.option_strings)  # noqa: SLF001 - there is no other way
    return [(option, str(action.help or "")) for action in actions for option in action.option_strings]


def _names() -> list[str]:
    return [name for verb in VERBS for name in (verb.name, *verb.aliases)]


def _cases(form: str) -> str:
    """One line for each verb, with its names and its options."""
    lines = []
    for verb in VERBS:
        options = " ".join(option for option, _ in _options(verb))
        lines.append(form.format(names="|".join((verb.name, *verb.aliases)), options=options))
    return "\n".join(lines)


def _bash() -> str:
    return f"""\
_pit() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} verb= skip= at
  for ((at = 1; at < COMP_CWORD; at++)); do
    if [[ $skip ]]; then skip=; continue; fi
    case ${{COMP_WORDS[at]}} in
      -C) skip=yes ;;
      -*) ;;
      *) verb=${{COMP_WORDS[at]}}; break ;;
    esac
  done
  local words=
  case $verb in
    '') words='{" ".join((*_names(), *GLOBAL))}' ;;
{_cases("    {names}) words='{options}' ;;")}
  esac
  COMPREPLY=()
  if [[ -z $verb || $word == -* ]]; then COMPREPLY=($(compgen -W "$words" -- "$word")); fi
}}
complete -o default -F _pit pit
"""


def _zsh() -> str:
    verbs = "\n".join(f"    {_quoted(f'{verb.name}:{verb.summary}')}" for verb in VERBS)
    return f"""\
#compdef pit
_pit() {{
  local -a verbs options
  verbs=(
{verbs}
  )
  local verb= skip= word
  for word in ${{words[2,CURRENT-1]}}; do
    if [[ -n $skip ]]; then skip=; continue; fi
    case $word in
      -C) skip=yes ;;
      -*) ;;
      *) verb=$word; break ;;
    esac
  done
  case $verb in
    '') _describe verb verbs; return ;;
{_cases("    {names}) options=({options}) ;;")}
  esac
  if [[ $PREFIX == -* ]]; then compadd -- $options; else _files; fi
}}
if [[ $funcstack[1] == _pit ]]; then _pit; else compdef _pit pit; fi
"""


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
