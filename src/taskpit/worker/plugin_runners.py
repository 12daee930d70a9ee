"""Runners that other packages bring, by the entry points in `taskpit.runners`.

An entry point names something that makes a runner when it is called with what `pit work` was told:

    def make(*, cwd: str, model: str, limit: float, args: Sequence[str]) -> Runner
"""

from __future__ import annotations

from taskpit import plugins
from taskpit.errors import TaskpitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from taskpit.task import Claim, Outcome
    from taskpit.worker.runner import Run, Runner

__all__ = ["PluggedRunner", "find"]


class PluggedRunner:
    """Somebody else's runner, as the command line wants one."""

    def __init__(self, name: str, runner: Runner, cwd: str) -> None:
        self.name = name
        self.runner = runner
        self.cwd = cwd

    def check(self, env: Mapping[str, str]) -> None:
        """It can run: it was made."""

    def command(self, run: Run, prompt: str = "") -> tuple[str, ...]:  # noqa: ARG002 - there is no command
        """What stands for the command it does not have."""
        return (self.name, run.claim.task.id)

    def __call__(self, claim: Claim, run: Run) -> Outcome:
        """It has run."""
        return self.runner(claim, run)


def find(name: str, *, cwd: str, model: str, limit: float, args: Sequence[str]) -> PluggedRunner | None:
    """The runner of this name; None if no package brings one."""
    make = plugins.find("runners", name)
    if make is None:
        return None
    if not callable(make):
        raise TaskpitError(f"the runner {name!r} is {make!r}, which cannot be called", hint="Mend its package.")
    return PluggedRunner(name, make(cwd=cwd, model=model, limit=limit, args=tuple(args)), cwd)
