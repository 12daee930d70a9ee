"""From a post to the runner that serves it: which command or preset, told what, how many at once.

Knows how backends are spelled; nothing of queues, and nothing of who else is in the crew.
"""

from __future__ import annotations

import os
import time

from taskpit import fs
from taskpit.task import Release
from taskpit.worker.runner import CommandRunner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.task import Claim, Outcome
    from taskpit.worker.post import Backend, Post
    from taskpit.worker.runner import Run, Runner

__all__ = ["make_runner", "presets", "program"]

#: How a command is started so that its prompt reaches it; the shell is replaced by the command.
DELIVERY = {
    "file": (),
    "stdin": ("/bin/sh", "-c", 'exec "$@" <"$0"', "{prompt_file}"),
    "argument": ("/bin/sh", "-c", 'exec "$@" "$(cat "$0")"', "{prompt_file}"),
}
#: How often a full backend is looked at.
LOOK = 0.1


def presets() -> tuple[str, ...]:
    """The presets there are."""
    return ()


def program(backend: Backend) -> str:
    """The program that a backend with a preset runs."""
    return backend.bin or backend.preset


def make_runner(post: Post, papers: str) -> Runner:
    """What runs one task, or one session, of this post. `papers` is where the crew keeps its files."""
    backend = post.backend
    if backend is None:
        raise ValueError(f"{post.name} has no backend")
    runner = _plain(post, backend)
    if backend.limit or backend.stagger:
        runner = Turns(runner, backend, papers)
    return Briefed(runner, post.prompt) if post.prompt else runner


def _plain(post: Post, backend: Backend) -> Runner:
    model = post.model or backend.model
    argv = [word.replace("{model}", model) for word in (*backend.command, *backend.flags)]
    return CommandRunner([*DELIVERY[backend.prompt or "file"], *argv], cwd=post.cwd, limit=post.limit)


class Briefed:
    """A runner whose prompts begin with what its agent is told to be."""

    def __init__(self, runner: Runner, prompt: str) -> None:
        self.runner = runner
        self.prompt = prompt

    def __call__(self, claim: Claim, run: Run) -> Outcome:
        """The runner has run, with the longer prompt."""
        with open(self.prompt, encoding="utf-8", errors="replace") as file:  # anew each time: people edit it
            brief = file.read().strip()
        with open(run.place.prompt, "r+", encoding="utf-8", errors="replace") as file:
            asked = file.read()
            file.seek(0)
            file.write(f"{brief}\n\n---\n\n{asked}")
        return self.runner(claim, run)


class Turns:
    """A runner that waits for its turn: so many at once on one backend, and so far apart, in all processes."""

    def __init__(self, runner: Runner, backend: Backend, papers: str) -> None:
        self.runner = runner
        self.backend = backend
        self.papers = papers

    def __call__(self, claim: Claim, run: Run) -> Outcome:
        """The runner has run, in its turn; Release if it was told to stop before."""
        place = self._place(run)
        try:
            if not self._staggered(run):
                return Release(reason="its worker was told to stop")
            return self.runner(claim, run)
        finally:
            if place is not None:
                place.drop()

    def _place(self, run: Run) -> fs.Flock | None:
        """One of the places there are; None if there is no end of them, or it was told to stop."""
        while self.backend.limit and not run.stopping:
            for number in range(self.backend.limit):
                place = fs.Flock(f"{self.papers}/.turn-{self.backend.name}-{number}")
                if place.take(wait=False):
                    return place
            run.bell.wait(LOOK)
        return None

    def _staggered(self, run: Run) -> bool:
        """The last start is long enough ago; False if it was told to stop."""
        path = f"{self.papers}/.start-{self.backend.name}"
        while not run.stopping:
            with fs.Flock(path):
                left = os.stat(path).st_mtime + self.backend.stagger - time.time()
                if left <= 0 or left > self.backend.stagger or os.stat(path).st_size == 0:
                    with open(path, "w", encoding="ascii") as file:
                        file.write("started\n")
                    return True
            run.bell.wait(min(left, 1.0))
        return False
