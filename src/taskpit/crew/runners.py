"""From a post to the runner that serves it: which command or preset, told what, how many at once.

Knows how backends are spelled; nothing of queues, and nothing of who else is in the crew.
"""

from __future__ import annotations

import os

from taskpit import fs
from taskpit.clock import Clock
from taskpit.worker import preset
from taskpit.worker.agent_limits import Gate
from taskpit.worker.agent_runner import AgentRunner
from taskpit.worker.preset import Backend
from taskpit.worker.runner import LARGEST_PROMPT, CommandRunner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.crew.state import BackendSettings, Post
    from taskpit.task import Claim, Outcome
    from taskpit.worker.runner import Run, Runner

#: How a command is started so that its prompt reaches it; the shell is replaced by the command.
DELIVERY = {
    "file": (),
    "stdin": ("/bin/sh", "-c", 'exec "$@" <"$0"', "{prompt_file}"),
    "argument": ("/bin/sh", "-c", 'exec "$@" "$(cat "$0")"', "{prompt_file}"),
}


def presets(root: str) -> list[str]:
    """The presets there are for this queue."""
    return preset.names(preset.places(root))


def program(config: BackendSettings, root: str) -> str:
    """The program that a backend with a preset runs."""
    return config.bin or preset.find(config.preset, preset.places(root)).bin


def make_runner(post: Post, root: str) -> Runner:
    """What runs one task, or one session, of this post in this queue."""
    config = post.backend
    if config is None:
        raise ValueError(f"{post.name} has no backend")
    model = post.model or config.model
    if config.preset:
        agent = AgentRunner(
            _preset(post, config, root), cwd=post.cwd, model=model, limit=post.limit, extra=config.flags, env=post.env
        )
        return Briefed(agent, post.prompt, agent.backend)
    argv = [word.replace("{model}", model) for word in (*config.command, *config.flags)]
    command = CommandRunner([*DELIVERY[config.prompt or "file"], *argv], cwd=post.cwd, limit=post.limit)
    return Briefed(command, post.prompt, _shared(config))


def _preset(post: Post, config: BackendSettings, root: str) -> preset.Preset:
    """The preset with what the crew's file says otherwise."""
    found = preset.find(config.preset, preset.places(root))
    said = {"bin": config.bin, "prompt": config.prompt, "limit": config.limit, "stagger": config.stagger}
    said["quiet"] = config.quiet
    return found.replace(**{key: value for key, value in {**said, "stall": post.stall}.items() if value})


def _shared(config: BackendSettings) -> Backend:
    return Backend(name=config.preset or config.name, limit=config.limit, stagger=config.stagger, quiet=config.quiet)


def rests(post: Post, root: str) -> str:
    """Until when its backend takes nothing and why; empty if it does."""
    shared = _shared(post.backend) if post.backend else None
    if shared is None or not os.path.exists(f"{root}/.taskpit/backends/{shared.name}.json"):
        return ""
    return Gate(shared, root, Clock()).rests()


class Briefed:
    """A runner whose prompts begin with what its agent is told to be."""

    def __init__(self, runner: Runner, prompt: str, backend: Backend) -> None:
        self.runner = runner
        self.prompt = prompt
        #: What a pool must know before it claims for it.
        self.backend = backend

    def __call__(self, claim: Claim, run: Run) -> Outcome:
        """The runner has run, with the longer prompt."""
        if self.prompt:
            self._tell(run)
        return self.runner(claim, run)

    def _tell(self, run: Run) -> None:
        with open(self.prompt, encoding="utf-8", errors="replace") as file:  # each time: people edit it
            brief = file.read().strip()
        asked = fs.read(run.place.prompt, LARGEST_PROMPT)[0]
        fs.write(run.place.prompt, f"{brief}\n\n---\n\n".encode("utf-8", "replace") + asked)
