"""Make and open queues in a database, and the folder on this machine that leads to one.

A pool and a crew keep their papers in a folder. That of a database queue is in the user's own state and has the address
in `.taskpit/address`, which only its owner can read: opening the folder opens the queue.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from taskpit import fs, trust
from taskpit.errors import Invalid, MissingExtra, install_hint
from taskpit.ids import is_word
from taskpit.store.disk_errors import storage_error
from taskpit.store.postgres.address import PostgresAddress, parse, place_of, quoted

if TYPE_CHECKING:
    from taskpit.clock import Clock
    from taskpit.store.postgres.store import PostgresStore

#: Where a folder keeps the address it leads to.
ADDRESS = ".taskpit/address"
#: Where papers name the place of their queue: a copy of it has another.
PLACE = ".taskpit/place"
#: How addresses begin.
SCHEMES = ("postgresql://", "postgres://")
#: PostgreSQL cuts longer names.
LONGEST_NAME = 63
#: No address is longer.
LONGEST = 64 * 1024


def is_address(text: str) -> bool:
    """Whether this is the address of a queue in a database."""
    return text.startswith(SCHEMES)


def address_in(root: str) -> str | None:
    """Return the address that a folder leads to, if it does."""
    return _line_in(root, ADDRESS)


def _line_in(root: str, name: str) -> str | None:
    """Return the text of a file there, if it has any."""
    try:
        return fs.read(f"{root}/{name}", LONGEST)[0].decode("utf-8", "replace").strip() or None
    except OSError:
        return None


def leave_address(root: str, address: str, *, trusted: bool = True) -> None:
    """Let the folder lead to this queue; only its owner may read the address."""
    if address_in(root) == address and trust.is_given(root):
        return
    _leave(root, ADDRESS, address)
    if trusted:  # the user who writes the address here means it
        trust.remember(root)


def leave_place(papers: str, place: str) -> None:
    """Note that these papers are of the queue in this place."""
    if _line_in(papers, PLACE) != place:
        _leave(papers, PLACE, place)


def _leave(root: str, name: str, line: str) -> None:
    try:
        fs.make_dir(f"{root}/.taskpit")
        scratch = f"{root}/.taskpit/.{fs.fresh_name()}"
        fs.replace(f"{root}/{name}", f"{line}\n".encode(), scratch, sync=False, mode=0o600)
    except OSError as error:
        raise storage_error(error) from error


def papers_of(space: str, place: str, address: str) -> str:
    """Return the folder of this machine's user for this queue. A copy of it has the same name, and another folder.

    The first queue of a name has the folder of that name; it keeps it after a restore to the same address.
    """
    if not is_word(space):
        raise Invalid(
            f"the queue's own name in the database is {space[:80]!r}, which cannot be the name of a folder",
            hint="The owner of the database can repair the column `space` of the table `meta`.",
        )
    usual = trust.state_path("queues", space)
    whose, known = _line_in(usual, PLACE), address_in(usual)
    if whose == place or not (whose or known) or (known and _is_same_place(known, address)):
        return usual
    return f"{usual}-{place}"


def _is_same_place(one: str, other: str) -> bool:
    """Whether both addresses name the same server, database and schema."""
    try:
        return place_of(one) == place_of(other)
    except Invalid:
        return False


def _parse(text: str) -> PostgresAddress:
    """Return the address; MissingExtra without the driver."""
    if find_spec("psycopg") is None:
        raise MissingExtra("a queue in PostgreSQL needs psycopg", hint=install_hint("postgres"))
    return parse(text)


def open_database(text: str, clock: Clock | None = None, papers: str = "") -> PostgresStore:
    """Open the queue at this address. Pools keep their papers in that folder, or among the user's own state."""
    address = _parse(text)
    from taskpit.store.postgres.store import PostgresStore

    return PostgresStore(address, clock=clock, papers=papers)


def init_database(text: str, settings: Mapping[str, object]) -> list[int]:
    """Make the queue at this address or bring it up to date; return the versions it went through."""
    address = _parse(text)
    from taskpit.store.postgres.database import Database
    from taskpit.store.postgres.schema import bring_up

    return bring_up(Database(address), settings)


def upgrade_script(text: str) -> tuple[list[int], str]:
    """Return the versions that `init_database` would go through, and its SQL. Changes nothing."""
    address = _parse(text)
    from taskpit.store.postgres.database import Database
    from taskpit.store.postgres.schema import PINNED, missing, texts

    steps = missing(Database(address))
    if not steps:
        return [], ""
    lines = ["BEGIN;", PINNED, f"CREATE SCHEMA IF NOT EXISTS {quoted(address.schema)};"]
    for step in steps:
        lines += [f"-- version {step.version}", *texts(step, address.schema)]
    return [step.version for step in steps], "\n".join([*lines, "COMMIT;"])


def roles_script(schema: str) -> tuple[str, list[str]]:
    """Return the SQL that makes an owner, workers and readers of the queue in this schema, and their names."""
    roles = {role: f"{schema}_{role}" for role in ("owner", "worker", "reader")}
    if any(len(name) > LONGEST_NAME for name in roles.values()):
        raise Invalid(f"the schema's name {schema!r} is too long for names of roles made of it")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "sql", "roles.sql"), encoding="utf-8") as file:
        script = file.read().replace("{s}", f'"{schema}"').replace("{q}", f'"{schema}"')
    for role, name in roles.items():
        script = script.replace(f"{{{role}}}", f'"{name}"').replace(f"{{{role}_text}}", name)
    return script, list(roles.values())
