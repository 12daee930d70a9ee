"""`pit setup`: tell an agent of the queue, in its own files; see whether that is up to date; take it back."""

from __future__ import annotations

import os

from taskpit.cli.context import Reply
from taskpit.cli.options import example
from taskpit.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from taskpit.cli.context import Context
    from taskpit.cli.verbs import Handlers
    from taskpit.setup.plan import PartPlan

__all__ = ["VERBS"]

#: What `--check` exits with when something is not as it should be.
DRIFT = 7


def _setup_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Tell an agent of the queue: a short marked block in its instructions, the MCP server in its project\n"
        "settings, a skill, for claude and codex also hooks. All else in those files stays as it is, and --remove\n"
        "gives back what was there. --check also asks the agent itself which servers it has, if it is installed,\n"
        "and exits 7 if something is not as it should be.\n"
        "Agents: claude, codex, gemini, qwen, copilot, opencode, cursor, antigravity, agents-md."
    )
    parser.epilog = example("pit setup claude", "pit setup codex --check", "pit setup gemini --remove")
    parser.add_argument("agents", metavar="AGENT", nargs="+", help="one or several of the above")
    parser.add_argument("--check", action="store_true", help="only say whether all is as it should be")
    parser.add_argument("--remove", action="store_true", help="take it out again")
    parser.add_argument("--print", dest="show", action="store_true", help="only show what would be written")
    told = "the project's folder (default: that of the repository around you, else this one)"
    parser.add_argument("--project", metavar="DIR", help=told)


def _setup(args: Namespace, _: Context) -> Reply:
    from taskpit.setup import plan
    from taskpit.setup.agent_files import AGENTS, by_hand
    from taskpit.setup.plan import listed
    from taskpit.setup.project_files import ProjectFolder

    unknown = [name for name in args.agents if name not in AGENTS]
    if unknown:
        raise Invalid(f"there is no agent {unknown[0]!r}", hint=f"There are {', '.join(AGENTS)}.")
    if args.check + args.remove + args.show > 1:
        raise Invalid("--check, --remove and --print cannot be combined", hint="Choose one.")
    if args.show:
        shown = {_where(part): by_hand(part) for name in args.agents for part in AGENTS[name]}
        return Reply(data=shown, text="\n".join(f"--- {path}\n{text}" for path, text in shown.items()))
    place = ProjectFolder(_project(args.project))
    data: list[dict[str, object]] = []
    lines: list[str] = []
    drift = False
    for name in dict.fromkeys(args.agents):  # one after the other: they share files
        steps = (plan.plan_removal if args.remove else plan.plan_setup)(place, AGENTS[name], name)
        changed = [] if args.check else plan.carry_out(place, steps)
        drift = drift or any(step.changes or step.standing is plan.PartState.REFUSED for step in steps)
        asked = listed(name, place.root) if args.check else None
        drift = drift or (asked is not None and asked.listed == "no")
        data.append({"agent": name, "changed": changed, "parts": [_facts(step) for step in steps]})
        lines += _told(name, steps, changed, check=args.check, remove=args.remove)
        if asked is not None:
            data[-1] |= {"listed": asked.listed, "told": asked.told}
            lines += [f"{name}: {asked.told}"] if asked.told else []
    code = DRIFT if args.check and drift else 0
    return Reply(data=data[0] if len(data) == 1 else data, text="\n".join(lines), exit_code=code)


def _where(part: object) -> str:
    paths: Sequence[str] = getattr(part, "paths", ())
    return paths[-1] if paths else str(getattr(part, "path", ""))


def _facts(step: PartPlan) -> dict[str, object]:
    return {"path": step.name, "standing": str(step.standing), "why": step.why}


def _project(given: str | None) -> str:
    if given is not None:
        if not os.path.isdir(given):
            raise Invalid(f"there is no folder {given}", path=given)
        return given
    here = folder = os.getcwd()
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return here
        folder = above
    return folder


def _told(agent: str, steps: Sequence[PartPlan], changed: Sequence[str], *, check: bool, remove: bool) -> list[str]:
    from taskpit.setup.agent_files import ALLOW

    allow = [f"{agent}: {ALLOW[agent]}"] if agent in ALLOW and not remove else []
    if check:
        told = [f"{agent}: {step.name} is {step.standing}" + (f" ({step.why})" if step.why else "") for step in steps]
        return [*told, *allow]
    notes = [f"{agent}: {step.why}" for step in steps if step.why]
    if not changed:
        return [*notes, f"{agent}: {'there is nothing of ours' if remove else 'all is as it should be'}"]
    return [*notes, *(f"{agent}: {'took it out of' if remove else 'wrote'} {name}" for name in changed), *allow]


VERBS: Handlers = {"setup": (_setup_arguments, _setup)}
