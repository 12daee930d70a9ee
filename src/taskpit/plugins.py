"""What other packages add: layouts, runners and importers, by their entry points. Knows groups and names only.

Looking through the installed packages takes longer than most commands, so nobody looks here for a name
that taskpit has itself.
"""

from __future__ import annotations

from taskpit.errors import TaskpitError

__all__ = ["find", "names"]


def find(group: str, name: str) -> object | None:
    """What an installed package offers under this name in `taskpit.<group>`; None if none does."""
    from importlib.metadata import entry_points

    for point in entry_points(group=f"taskpit.{group}", name=name):
        try:
            found: object = point.load()
        except Exception as error:  # somebody else's code: whatever it throws, the message says whose it is
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
