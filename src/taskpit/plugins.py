"""What other packages add: layouts, runners and importers, by their entry points. Knows groups and names only.

Looking through the installed packages takes longer than most commands, so nobody looks here for a name
that taskpit has itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskpit.errors import Invalid, TaskpitError


def make(group: str, name: str, kind: type[Any], ours: Sequence[str]) -> Any:
    """The thing of this kind that an installed package offers under this name; Invalid says what there is."""
    word, found = group.removesuffix("s"), find(group, name)
    if found is None:
        known = ", ".join((*ours, *names(group)))
        raise Invalid(f"there is no {word} {name!r}", hint=f"Choose one of: {known}.")
    try:
        made = found() if callable(found) else found
    except TypeError as error:  # it wants arguments, or lacks a method that it must have
        raise Invalid(f"the {word} {name!r} cannot be made: {error}", hint="Mend or upgrade its package.") from error
    if isinstance(made, kind):
        return made
    raise Invalid(f"{found!r} makes no {word}", hint=f"Its package must make a taskpit.{group}.{kind.__name__}.")


def find(group: str, name: str) -> object | None:
    """What an installed package offers under this name in `taskpit.<group>`; None if none does."""
    from importlib.metadata import entry_points

    for point in entry_points(group=f"taskpit.{group}", name=name):
        try:
            found: object = point.load()
        except Exception as error:  # another package's code: whatever it throws, the message says whose it is
            owner = point.dist.name if point.dist is not None else point.value
            raise TaskpitError(
                f"{name!r} of the package {owner} cannot be loaded: {type(error).__name__}: {error}",
                hint="Mend or upgrade that package.",
                package=owner,
            ) from error
        return found
    return None


def names(group: str) -> list[str]:
    """Everything that packages offer in `taskpit.<group>`."""
    from importlib.metadata import entry_points

    return sorted({point.name for point in entry_points(group=f"taskpit.{group}")})
