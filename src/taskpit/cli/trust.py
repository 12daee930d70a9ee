"""Who may do what: `trust` shows what a folder can run, asks, and writes the answer down; `roles` prints SQL."""

from __future__ import annotations

import os
import sys

from taskpit import trust
from taskpit.cli.context import Args, Context, Reply, Usage, arg, takes
from taskpit.cli.output import paint
from taskpit.errors import Conflict, Invalid, Storage, TaskpitError, Untrusted
from taskpit.model import State
from taskpit.queue import Queue, cards
from taskpit.text import revealed

#: So many different checks are shown.
MOST_CHECKS = 20


@takes(arg("--yes", "don't ask"), arg("--revoke", "it may run and connect to nothing from now on"))
def _trust(args: Args, context: Context) -> Reply:
    """Show what the folder of this queue can run or connect to by itself (hooks, presets, agents.toml and the scripts
    that they name, an address, plug-ins, a gateway's tokens, tasks' checks), and ask whether it may. The answer is
    kept among your own state, for this folder as it is: another folder, or another hook, preset or script, and the
    verbs that would run it stop until you say so again.
    A queue that you made with `pit init` is trusted from birth, unless tasks lay there before. Looking at a queue
    needs no trust.

    pit trust
    pit -C clone/pit trust --yes
    pit trust --revoke
    """
    if args.yes and args.revoke:
        raise Usage("--yes and --revoke exclude each other")
    root = _root(context)
    if args.revoke:
        was = trust.forget(root)
        text = f"{root} is not trusted any more" if was else f"{root} was not trusted"
        return Reply(data=_facts(root, trust.look(root), trusted=False), text=text)
    trusted, seen = trust.is_given(root), trust.look(root)
    if trusted and not args.yes:
        return Reply(data=_facts(root, seen, trusted=True), text=f"{_shown(root, seen, context)}\n\n{root} is trusted")
    if not args.yes and not _asked(root, seen, context):
        refusal = trust.untrusted(root, "you have not said so")
        refusal.hint = "`pit trust --yes` says so without being asked."
        refusal.details |= _facts(root, seen, trusted=False)
        raise refusal
    if trust.look(root) != seen:
        raise Conflict(
            f"{root} changed while you were reading. Nothing was recorded.",
            hint="Run `pit trust` again to see how it is now.",
            path=root,
        )
    if not trust.record(seen):
        raise Storage(
            f"the record could not be written to {trust.state_path('trust')}",
            hint=f"Set XDG_STATE_HOME to a directory of yours, or {trust.VARIABLE}=1 for one command.",
        )
    return Reply(data=_facts(root, seen, trusted=True), text=f"{root} is trusted from now on")


def _root(context: Context) -> str:
    """The folder; one that was found and refused because it is another user's, too: here is where that is said."""
    try:
        root = context.find()
    except Untrusted as error:
        root = str(error.details["path"])
    if "://" in root:
        raise Invalid("an address that you name by hand needs no trust", hint="Folders do.")
    root = os.path.abspath(root)
    if not os.path.isdir(f"{root}/.taskpit"):
        raise Invalid(f"{root} is not a queue", hint=f"`pit init {root}` makes it one.", path=root)
    return root


def _facts(root: str, seen: trust.Look, *, trusted: bool) -> dict[str, object]:
    found = [{"kind": one.kind, "name": one.name, "text": _words(one)} for one in seen.starts]
    return {"path": root, "trusted": trusted, "starts": found}


def _words(one: trust.Start) -> str:
    """What it is, without secrets."""
    if one.kind != "address":
        return one.text
    from taskpit.store.http import address
    from taskpit.store.postgres.address import shown

    return address.shown(one.text) if address.is_address(one.text) else shown(one.text)


def _asked(root: str, seen: trust.Look, context: Context) -> bool:
    """Show what it can start and return whether the person agreed."""
    if context.json or not sys.stdin.isatty():
        if not context.json:
            context.tell(_shown(root, seen, context))
        return False
    context.tell(_shown(root, seen, context))
    context.tell(f"\nMay {root} run and connect to this? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _shown(root: str, seen: trust.Look, context: Context) -> str:
    lines = [paint("bold", root), *_whose(root)]
    for one in seen.starts:
        lines += [
            paint("bold", f"{one.kind} {revealed(one.name)}"),
            *(f"  {line}" for line in revealed(_words(one)).split("\n")),
        ]
    return "\n".join([*lines, *_checks(root, seen, context)])


def _whose(root: str) -> list[str]:
    status = os.lstat(root)
    others = "its group" * bool(status.st_mode & 0o020) or "everybody" * bool(status.st_mode & 0o002)
    lines = [] if status.st_uid == os.geteuid() else [f"  belongs to another user (uid {status.st_uid})"]
    return [
        *lines,
        *([f"  {others} may write there: anyone who may write to a queue can run commands as you"] if others else []),
    ]


def _checks(root: str, seen: trust.Look, context: Context) -> list[str]:
    """The commands of its tasks' checks, as far as they fit; a queue in a database is not asked."""
    if any(one.kind in ("address", "plug-in") for one in seen.starts):
        return [paint("bold", "checks"), "  of the tasks that are there, and of those that others put there"]
    try:
        queue = Queue.open(root, context.env)
        try:
            found = [card.task.check for card in cards(queue.store, State.READY) if card.task.check]
        finally:
            queue.close()
    except TaskpitError as error:
        return [paint("bold", "checks"), f"  cannot be read: {error.message}"]
    each = list(dict.fromkeys(found))
    lines = [f"  {revealed(check)}" for check in each[:MOST_CHECKS]]
    lines += [f"  and {len(each) - MOST_CHECKS} more"] if len(each) > MOST_CHECKS else []
    return [paint("bold", "checks"), *(lines or ["  none of the ready tasks has one; those put there later may"])]


# -- `pit roles` -----------------------------------------------------------------------------------


@takes(arg("URL", "the queue (default: TASKPIT_DIR)", dest="address", nargs="?"))
def _roles(args: Args, context: Context) -> Reply:
    """Print the SQL that makes three roles for a queue in PostgreSQL: an owner who changes its settings, workers who
    work on tasks and change no settings, readers who only look. Nothing is run: read it, then give it to psql.

    pit roles 'postgresql://localhost/work?schema=queue' | psql work
    psql work -c 'GRANT queue_worker TO ann'
    """
    from taskpit.store.postgres.address import parse
    from taskpit.store.postgres.opening import is_address, roles_script

    text = args.address or context.directory or context.env.get("TASKPIT_DIR", "")
    if not is_address(text):
        raise Invalid("roles are for queues in a database", hint="Name one: pit roles postgresql://HOST/DATABASE.")
    script, names = roles_script(parse(text).schema)
    return Reply(data={"roles": names, "sql": script}, text=script)
