"""Making and opening queues in a database, and the folder on this machine that leads to one.

A pool keeps its papers in a folder; so does a crew. That of a database queue lies among the user's own state
and has the address in `.taskpit/address`, readable by nobody else: opening the folder opens the queue.
"""

from __future__ import annotations

import os

from taskpit import fs, trust
from taskpit.errors import Invalid, MissingExtra, install_hint
from taskpit.schema import is_word
from taskpit.store.disk_errors import storage_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from taskpit.clock import Clock
    from taskpit.store.postgres.store import PostgresStore

#: Where a folder keeps the address it leads to.
ADDRESS = ".taskpit/address"
#: Where papers say whose they are: a queue's place, by which a copy is told from it.
PLACE = ".taskpit/place"
#: How addresses begin.
SCHEMES = ("postgresql://", "postgres://")
#: PostgreSQL cuts longer names.
LONGEST_NAME = 63
#: No address is longer.
LONGEST = 64 * 1024


def is_address(text: str) -> bool:
    """Whether this names a queue in a database rather than a folder."""
    return text.startswith(SCHEMES)


def address_in(root: str) -> str | None:
    """The address a folder leads to, if it does."""
    return _line_in(root, ADDRESS)


def _line_in(root: str, name: str) -> str | None:
    """What a file there says, if it says anything."""
    try:
        return fs.read(f"{root}/{name}", LONGEST)[0].decode("utf-8", "replace").strip() or None
    except OSError:
        return None


def leave_address(root: str, address: str, *, trusted: bool = True) -> None:
    """The folder leads to this queue; only its owner may read how."""
    if address_in(root) == address and trust.is_given(root):
        return
    try:
        fs.make_dir(f"{root}/.taskpit")
        scratch = f"{root}/.taskpit/.{fs.fresh_name()}"
        fs.replace(f"{root}/{ADDRESS}", f"{address}\n".encode(), scratch, sync=False, mode=0o600)
    except OSError as error:
        raise storage_error(error) from error
    if trusted:  # who writes the address here means it
        trust.remember(root)


def papers_of(space: str, place: str, address: str) -> str:
    """The folder of this machine's user for this queue. A copy of it, which has the same name, has one of its own.

    The first to come has the folder with the plain name; it is still theirs after a restore to the same address.
    """
    if not is_word(space):
        raise Invalid(
            f"the queue's own name in the database is {space[:80]!r}, which cannot be the name of a folder",
            hint="The database's owner can mend the column `space` of the table `meta`.",
        )
    usual = trust.state_path("queues", space)
    whose, known = _line_in(usual, PLACE), address_in(usual)
    if whose == place or not (whose or known) or (known and _is_same_place(known, address)):
        return usual
    return f"{usual}-{place}"


def leave_place(papers: str, place: str) -> None:
    """These papers are of the queue in this place."""
    if _line_in(papers, PLACE) == place:
        return
    try:
        fs.make_dir(f"{papers}/.taskpit")
        fs.replace(f"{papers}/{PLACE}", f"{place}\n".encode(), f"{papers}/.taskpit/.{fs.fresh_name()}", sync=False)
    except OSError as error:
        raise storage_error(error) from error


def _is_same_place(one: str, other: str) -> bool:
    """Whether both addresses name the same server, database and schema, whoever asks and however."""
    from taskpit.store.postgres.address import place_of

    try:
        return place_of(one) == place_of(other)
    except Invalid:
        return False


def open_database(text: str, clock: Clock | None = None, papers: str = "") -> PostgresStore:
    """The queue at this address; pools keep their papers in that folder, or among the user's own state."""
    _need_driver()
    from taskpit.store.postgres.address import parse
    from taskpit.store.postgres.store import PostgresStore

    return PostgresStore(parse(text), clock=clock, papers=papers)


def init_database(text: str, settings: Mapping[str, object]) -> list[int]:
    """The queue at this address is there and up to date; the versions it went through."""
    _need_driver()
    from taskpit.store.postgres.address import parse
    from taskpit.store.postgres.connection import Wire
    from taskpit.store.postgres.schema import bring_up

    return bring_up(Wire(parse(text)), settings)


def upgrade_script(text: str) -> tuple[list[int], str]:
    """The versions that `init_database` would go through, and the SQL it would run; nothing is changed."""
    _need_driver()
    from taskpit.store.postgres.address import parse, quoted
    from taskpit.store.postgres.connection import Wire
    from taskpit.store.postgres.schema import PINNED, missing, texts

    address = parse(text)
    steps = missing(Wire(address))
    if not steps:
        return [], ""
    told = ["BEGIN;", PINNED, f"CREATE SCHEMA IF NOT EXISTS {quoted(address.schema)};"][: 2 + (steps[0].version == 1)]
    for step in steps:
        told += [f"-- version {step.version}", *texts(step, address.schema)]
    return [step.version for step in steps], "\n".join([*told, "COMMIT;"])


def roles_script(schema: str) -> tuple[str, list[str]]:
    """The SQL that makes an owner, workers and readers of the queue in this schema, and what they are called."""
    names = [f"{schema}_{role}" for role in ("owner", "worker", "reader")]
    if any(len(name) > LONGEST_NAME for name in names):
        raise Invalid(f"the schema's name {schema!r} is too long for names of roles made of it")
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sql", "roles.sql")
    with open(path, encoding="utf-8") as file:
        script = file.read()
    for role, name in zip(("owner", "worker", "reader"), names, strict=True):
        script = script.replace(f"{{{role}}}", f'"{name}"').replace(f"{{{role}_text}}", name)
    return script.replace("{s}", f'"{schema}"').replace("{q}", f'"{schema}"'), names


def _need_driver() -> None:
    from taskpit.store.postgres.libpq import load

    try:
        load()
    except OSError as error:
        raise MissingExtra(
            f"a queue in PostgreSQL needs its client library, which is not installed or cannot be loaded ({error})",
            hint=install_hint("postgres"),
        ) from None
