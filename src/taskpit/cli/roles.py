"""`pit roles`: SQL that gives a queue in PostgreSQL an owner, workers and readers. Prints it, connects to nothing."""

from __future__ import annotations

from taskpit.cli.context import Reply
from taskpit.cli.options import example
from taskpit.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from taskpit.cli.context import Context
    from taskpit.cli.verbs import Handlers

__all__ = ["VERBS"]


def _roles_arguments(parser: ArgumentParser) -> None:
    parser.description = """\
Print the SQL that makes three roles for a queue in PostgreSQL: an owner who changes its settings, workers who work on
tasks and change no settings, readers who only look. Nothing is run: read it, then give it to psql."""
    parser.epilog = example(
        "pit roles 'postgresql://localhost/work?schema=queue' | psql work", "psql work -c 'GRANT queue_worker TO ann'"
    )
    parser.add_argument("address", metavar="URL", nargs="?", help="the queue (default: TASKPIT_DIR)")


def _roles(args: Namespace, context: Context) -> Reply:
    from taskpit.store.postgres.address import parse
    from taskpit.store.postgres.opening import is_address, roles_script

    text = args.address or context.directory or context.env.get("TASKPIT_DIR", "")
    if not is_address(text):
        raise Invalid("roles are for queues in a database", hint="Name one: pit roles postgresql://HOST/DATABASE.")
    script, names = roles_script(parse(text).schema)
    return Reply(data={"roles": names, "sql": script}, text=script)


VERBS: Handlers = {"roles": (_roles_arguments, _roles)}
