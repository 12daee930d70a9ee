"""What the judge knows of a history: each verb that was called, and each file that a stranger wrote."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field

from scheduler import Killed, Stuck

from taskpit.errors import TaskpitError
from taskpit.model import Claim, End


def brief(answer: object) -> str:
    """An answer without the values that the arguments tell already."""
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], End):
        return f"{answer[0]} ({answer[1].action})"
    if isinstance(answer, list):
        return f"[{', '.join(map(brief, answer))}]"
    if isinstance(answer, Claim):
        return f"{answer.task.id} as {answer.fence}"
    return str(answer)


@dataclass(eq=False)
class Call:
    """One verb: when it began and ended (in steps and nanoseconds), and its answer."""

    actor: str
    process: int
    verb: str
    args: tuple
    began: int
    started: int
    epoch: int
    ended: int | None = None
    stopped: int | None = None
    answer: object = None
    error: Exception | None = None
    #: The place of an unexpected error.
    trace: str = ""
    #: Whether an error of the disk, a full disk or a stopped process reached it.
    hurt: bool = False
    killed: bool = False

    def __str__(self) -> str:
        outcome = "killed" if self.killed else repr(self.error) if self.error else brief(self.answer)
        return f"{self.actor} {self.verb}{self.args} -> {outcome}"


@dataclass
class Stranger:
    """Something that a program did that knows no lock."""

    actor: str
    what: str
    task_id: str
    step: int
    time: int
    epoch: int
    #: A text that is found nowhere else.
    words: str = ""


@dataclass
class Book:
    """All that happened, in order."""

    calls: list[Call] = field(default_factory=list)
    strange: list[Stranger] = field(default_factory=list)
    #: Steps at which the machine lost power, and at which clocks leaped.
    outages: list[int] = field(default_factory=list)
    leaps: list[int] = field(default_factory=list)
    #: Tasks that were put, by id.
    tasks: dict = field(default_factory=dict)
    #: Each broken rule: its name, a text, and the steps between which it happened.
    broken: list[tuple[str, str, int, int]] = field(default_factory=list)
    words: int = 0

    def word(self, actor: str) -> str:
        """A text that is found nowhere else."""
        self.words += 1
        return f"words-{actor}-{self.words}-"

    def breaks(self, rule: str, text: str, *calls: Call) -> None:
        begin = min((call.began for call in calls), default=0)
        end = max((call.ended or call.began for call in calls), default=0)
        self.broken.append((rule, text, begin, end))

    def of(self, *verbs: str) -> list[Call]:
        return [call for call in self.calls if call.verb in verbs]

    def note(self, host, what: str, task_id: str, words: str = "") -> None:
        world = host.world
        name = host.actor.name
        self.strange.append(Stranger(name, what, task_id, world.steps, world.monotonic, len(self.outages), words))

    def call(self, host, verb: str, args: tuple, act):
        """Carry out a verb and write down its answer. None if it was refused."""
        world, process = host.world, host.process
        process.hurt = host.machine.disk.room < 1 << 30
        host.actor.doing = f"{verb}{args}"
        call = Call(host.actor.name, process.number, verb, args, world.steps, world.monotonic, len(self.outages))
        self.calls.append(call)
        try:
            world.step(process, verb, " ".join(map(str, args)))
            call.answer = act()
        except (Killed, Stuck):
            call.killed = True
            raise
        except TaskpitError as error:
            call.error = error
        except Exception as error:
            call.error = error
        if call.error is not None:
            if not process.alive:
                call.killed = True
                raise Killed
            call.trace = "".join(traceback.format_exception(call.error)[-6:])
        world.steps += 1
        call.ended, call.stopped = world.steps, world.monotonic
        call.hurt = process.hurt or host.machine.disk.room < 1 << 30
        world.note(f"= {call.error!r}" if call.error else f"= {brief(call.answer)}")
        return call.answer
