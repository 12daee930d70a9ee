"""One of the crew as a process: `python -m taskpit.crew.member ROOT NAME`. Finds its post in the plan and fills it.

    tasks     a pool of one, under the agent's own name
    rounds    sweeps now and then: gives back what was abandoned, composts, tells what waits for a person
    session   runs its prompt once; when the next session is due, its own last words or its post say
    service   runs a plain command

It holds the lock of its name for as long as it lives, so there is never a second one. SIGTERM asks it to end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from taskpit import fs, keeper, trust
from taskpit.clock import iso
from taskpit.crew.state import WAITING, CrewFiles, Now, waiting_until
from taskpit.crew.supervisor import TAKEN
from taskpit.errors import Storage, TaskpitError, Untrusted
from taskpit.model import Claim, Done, Release, Retry, State, Task
from taskpit.queue import Queue, cards
from taskpit.run import pool_display, preset, process
from taskpit.run.agent_limits import gate_for
from taskpit.run.agent_runner import AgentRunner
from taskpit.run.budget import parse
from taskpit.run.landing_thread import pipe_for
from taskpit.run.lost import settle
from taskpit.run.pool import Pool
from taskpit.run.pool_options import PoolOptions
from taskpit.run.run_directory import RunDirectory
from taskpit.run.runner import LARGEST_PROMPT, TEMPFAIL, CannotRun, CommandRunner, Run
from taskpit.run.sandbox import shut_in
from taskpit.status import Status, status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from taskpit.crew.state import BackendSettings, Post
    from taskpit.model import Outcome
    from taskpit.run.pool_options import Survey
    from taskpit.run.preset import Backend
    from taskpit.run.runner import Runner
    from taskpit.workers import LocalMember

#: How often a sign of life is left.
PULSE = 1.0
#: How a command is started so that its prompt reaches it; the shell is replaced by the command.
DELIVERY = {
    "file": (),
    "stdin": ("/bin/sh", "-c", 'exec "$@" <"$0"', "{prompt_file}"),
    "argument": ("/bin/sh", "-c", 'exec "$@" "$(cat "$0")"', "{prompt_file}"),
}


# -- what runs its tasks ---------------------------------------------------------------------------


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
    return Briefed(command, post.prompt, config.shared())


def _preset(post: Post, config: BackendSettings, root: str) -> preset.Preset:
    """The preset with what the crew's file says otherwise."""
    found = preset.find(config.preset, preset.places(root))
    said = {"bin": config.bin, "prompt": config.prompt, "limit": config.limit}
    return found.replace(**{key: value for key, value in {**said, "stall": post.stall}.items() if value})


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
        try:
            with open(self.prompt, encoding="utf-8", errors="replace") as file:  # each time: people edit it
                brief = file.read().strip()
        except OSError as error:  # no task's fault
            text = f"its prompt file {self.prompt} cannot be read: {error.strerror or error}"
            raise CannotRun(text, hint="Put it back, or change agents.toml and run `pit crew restart`.") from None
        asked = fs.read(run.place.prompt, LARGEST_PROMPT)[0]
        fs.write(run.place.prompt, f"{brief}\n\n---\n\n".encode("utf-8", "replace") + asked)


# -- what it does ----------------------------------------------------------------------------------


class Pulse(pool_display.Lines):
    """A pool's events as lines, and its state in the crew's files."""

    def __init__(self, files: CrewFiles, name: str) -> None:
        super().__init__(sys.stdout)
        self._files = files
        self._name = name
        self._now = Now()
        self._next = 0.0
        files.say_now(name, self._now)

    def look(self, runs: dict[str, Run], survey: Survey | None) -> None:  # noqa: ARG002 - a Show is called so
        """Say what runs; at least that we live."""
        run = next(iter(runs.values()), None)
        now = Now()
        if run is not None:
            claim = run.claim
            now = Now(task=claim.task.id, title=claim.task.title, since=claim.since, log=run.place.log)
        if now != self._now:
            self._now = now
            self._files.say_now(self._name, now)
        elif time.monotonic() > self._next:
            self._next = time.monotonic() + PULSE
            self._files.touch(self._name)

    def say(self, text: str) -> None:
        """Under our own name."""
        self._line("note", self._name, "", text)

    def claimed(self, claim: Claim) -> None:
        """It begins."""
        super().claimed(claim)
        self._now = Now(task=claim.task.id, title=claim.task.title, since=claim.since)
        self._files.say_now(self._name, self._now)


def tasks(queue: Queue, files: CrewFiles, post: Post) -> int:
    """Takes tasks until told to stop."""
    reviews = post.role == "reviewer"
    options = PoolOptions(
        name=post.name,
        exact=True,
        slots=0 if reviews else 1,
        big=post.role == "planner",
        tags=post.tags,
        lease=post.lease,
        check_in=post.cwd,
        sandbox=shut_in(None, post.sandbox),
        budget=tuple(parse(limit) for limit in post.budget),
        red_first=post.red_first,
        review_limit=post.review_limit,
        landing=pipe_for(queue, post.cwd, post.terms()),
        env=post.seen_by_checks,
    )
    show = Pulse(files, post.name)
    show.say("is there")
    runner = make_runner(post, files.root)
    report = Pool(queue, runner, options, show, runner if reviews else None).run()
    print(pool_display.summary(report), flush=True)
    if report.error is not None:
        raise report.error
    return 0


def _when_told_to_stop(call: Callable[[], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: call())


def rounds(queue: Queue, files: CrewFiles, post: Post) -> int:
    """Sweeps until told to stop."""
    quit_ = threading.Event()
    _when_told_to_stop(quit_.set)
    show = Pulse(files, post.name)
    show.say(f"sweeps every {post.every:g} seconds")
    known: set[str] = set()
    due = 0.0
    while not quit_.wait(PULSE if due else 0.0):
        show.look({}, None)
        if time.monotonic() < due:
            continue
        due = time.monotonic() + post.every
        try:
            for mend in keeper.sweep(queue, ended=settle):
                show.mended(mend)
            if post.role == "keeper":
                known = _tell_waiting(queue, show, known)
        except TaskpitError as error:  # the next round may find the disk in a better mood
            show.say(error.message)
    return 0


def _tell_waiting(queue: Queue, show: Pulse, known: set[str]) -> set[str]:
    """Tasks that wait for a person are told once; all that wait now."""
    ready = cards(queue.store, State.READY, tied=True)
    held = {card.task.id: card for card in ready if card.task.hold and status_of(card) is Status.NEEDS_YOU}
    for task_id in held.keys() - known:
        show.say(f"{task_id} waits for a person: {held[task_id].held}")
    return set(held)


def session(queue: Queue, files: CrewFiles, post: Post) -> int:
    """Its prompt has been run once; the last line says when it wants to be run again, if it does."""
    for mend in keeper.sweep(queue, ended=settle):
        print(*pool_display.mend_words(mend), flush=True)
    runner = make_runner(post, files.root)
    gate = gate_for(queue, runner)
    if gate.rests():
        print(gate.rests(), flush=True)
        return TEMPFAIL
    outcome = _round(queue, files, post, runner)
    if isinstance(outcome, Retry):
        print(gate.put_off(outcome).reason, flush=True)
        return TEMPFAIL
    output = outcome.output if isinstance(outcome, Done) else ""
    until = waiting_until(output.splitlines(), time.time())
    if until:
        print(f"{WAITING} {iso(until)}", flush=True)
    return 0 if isinstance(outcome, Done | Release) else 1


def _round(queue: Queue, files: CrewFiles, post: Post, runner: Runner) -> Outcome:
    """The runner has run once, on a task that is only the role itself."""
    where = queue.store.info().where
    asked = f"Look after the queue in {where}, as your instructions say. `pit status` shows how it stands."
    claim = Claim(task=Task(id=post.name, title=f"{post.role}: a round", body=asked), worker=post.name, fence=post.name)
    place = RunDirectory(files.at(f"{post.name}.run"))
    place.log = files.log(post.name)  # what it says is what we say
    info = queue.store.info()
    run = Run(claim, place, info.papers or info.where)
    run.variables["TASKPIT_ROLE"] = post.role
    _when_told_to_stop(lambda: run.stop("stop"))
    run.prepare()
    run.write_prompt(())
    return runner(claim, run)


def service(files: CrewFiles, post: Post, me: LocalMember) -> int:
    """Runs its command until that ends, or we are told to stop; its exit code, or 128 and its signal."""
    bell = process.Bell()
    _when_told_to_stop(bell.ring)
    order = process.Command(
        argv=post.command,
        cwd=post.cwd,
        env=dict(os.environ),
        log=files.log(post.name),
        grace=5.0,
        keep=(me.fd,),  # should we be killed, our name is free once the command is gone too
    )
    ended = process.run(order, bell)
    return ended.code if ended.code >= 0 else 128 - ended.code


def main() -> int:
    """Fill the post."""
    root, name = sys.argv[1:3]
    files = CrewFiles(root)
    try:
        trust.require(root)
        wish = files.plan().get(name)
    except (Untrusted, Storage) as error:
        print(f"{name}: {error.message}. {error.hint}", flush=True)
        return error.exit_code
    me = files.enter(name)
    if me is None:
        return TAKEN
    if wish is None:
        print(f"{name} is not in the plan", flush=True)
        return 1
    post = wish.post
    if post.kind == "service":
        return service(files, post, me)
    queue = Queue.open(root, os.environ)
    try:
        return {"tasks": tasks, "rounds": rounds, "session": session}[post.kind](queue, files, post)
    except TaskpitError as error:
        print(f"{name}: {error.message}", flush=True)
        return error.exit_code
    finally:
        queue.close()


if __name__ == "__main__":
    sys.exit(main())
