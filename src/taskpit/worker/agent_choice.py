"""Which agent a task gets: the one it names, else the first of the pool's that does not rest. Knows gates, no CLI.

A task may say `agent: codex` or `agent: claude, codex`, and `model: opus`. A pool may have several agents
(`--agent claude,codex`): where the first has reached a limit, the task goes to the next within the same claim, and no
attempt is spent. A task that names what there is not, or what the budget cannot count, waits for a person.
"""

from __future__ import annotations

from taskpit.agents.reported import model_name
from taskpit.errors import Invalid, NotFound
from taskpit.task import Done, Release, Retry
from taskpit.worker.agent_limits import Gate
from taskpit.worker.process import CannotRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from taskpit.clock import Clock
    from taskpit.task import Claim, Outcome, Task
    from taskpit.worker.agent_limits import Backend
    from taskpit.worker.agent_runner import AgentRunner
    from taskpit.worker.budget import Limit
    from taskpit.worker.runner import Run

__all__ = ["Choosing"]

#: How long a task waits that found every agent busy, in seconds.
BUSY = 5.0


class Choosing:
    """Runs each task by the agent that it names, or by the first of these that can.

    `make` gives the runner of an agent's name and a model; `root` is the queue's folder.
    """

    def __init__(
        self,
        names: Sequence[str],
        make: Callable[[str, str], AgentRunner],
        *,
        root: str,
        clock: Clock,
        budget: Sequence[Limit] = (),
    ) -> None:
        self.names = tuple(names)
        self._make = make
        self._root = root
        self._clock = clock
        self._budget = tuple(budget)
        self._runners = {name: make(name, "") for name in self.names}
        self._gates: dict[str, Gate] = {}
        self.first = self._runners[self.names[0]]
        self.cwd = self.first.cwd
        self.preset = self.first.preset
        #: With one agent the pool itself waits at its gate before it claims.
        self.backend: Backend | None = self.first.backend if len(self.names) == 1 else None

    def check(self, env: Mapping[str, str]) -> None:
        """CannotRun if a program is not there, or a budget could not be kept, before any task is taken."""
        for runner in self._runners.values():
            runner.check(env)
            runner.check_budget(self._budget, self._root)

    def command(self, run: Run, prompt: str) -> tuple[str, ...]:
        """The command for this run by the agent that comes first."""
        return self._runner(self._named(run.claim.task)[0], run.claim.task).command(run, prompt)

    def _named(self, task: Task) -> tuple[str, ...]:
        """The agents for this task, best first."""
        said = task.extra.get("agent", "")
        return tuple(str(said).replace(",", " ").split()) if isinstance(said, str) and said.strip() else self.names

    def _runner(self, name: str, task: Task) -> AgentRunner:
        """The runner of this agent with the model that the task names; Invalid if it names what there is not."""
        said = task.extra.get("model", "")
        model = model_name(said)
        if said and not model:
            raise Invalid(f"model: {str(said)[:80]!r} cannot be the name of a model")
        if name in self._runners and not model:
            return self._runners[name]
        runner = self._make(name, model)
        runner.check_budget(self._budget, self._root)
        return runner

    def __call__(self, claim: Claim, run: Run) -> Outcome:
        """One of them has run on this task."""
        task, told, soonest = claim.task, "", BUSY
        names = self._named(task)
        for name in names:
            try:
                runner = self._runner(name, task)
            except (Invalid, NotFound, CannotRun) as error:
                return Release(reason=error.message, task=task.replace(hold=error.message[:400]), action="blocked")
            if self.backend is not None and name == self.names[0]:
                return runner(claim, run)  # the pool has asked its gate, and hears how it went
            gate = self._gates.setdefault(name, Gate(runner.backend, self._root, self._clock))
            way = gate.enter()
            if way is None:
                told = gate.rests() or f"{name} is busy"
                continue
            way.started(self._clock.now())
            try:
                outcome = runner(claim, run)
            except CannotRun as error:
                if name == names[-1]:
                    raise
                told = error.message
                continue
            finally:
                way.leave()
            if not isinstance(outcome, Retry):
                if isinstance(outcome, Done):
                    gate.worked()
                return outcome
            told, soonest = outcome.reason, gate.put_off(outcome).after or soonest
            run.say(f"{name}: {told}")
        return Retry(reason=told, after=soonest, kind="infra")
