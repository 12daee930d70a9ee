"""A pit at work, to be watched: the tasks of the demo, the workers, one murder, and whether all came out right.

Everything is real: the workers are processes of `pit work`, one of them is killed with -9, and at the end
the folder itself is asked what happened.
"""

from __future__ import annotations

import glob
import os
import random
import signal
import subprocess
import sys
import time

from taskpit.queue import Queue
from taskpit.store.opening import init
from taskpit.task import State, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

    from taskpit.task import Card

__all__ = ["CONFIG", "Demo", "tasks"]

CONFIG = 'lease = "8s"\nbackoff = "0.3s"\nbackoff_longest = "1s"\n'
#: The demo is over after this many seconds, or something is wrong.
LIMIT = 60.0
#: Bites the first worker has had of the elephant when it is killed.
BITES = 5

WORDS = ["python", "anaconda", "viper", "cobra", "mamba", "adder", "boa", "taipan", "krait", "rattler"]
FOOD = ["mouse", "egg", "frog", "cricket", "vole", "lizard", "gecko", "toad", "newt", "rat"]


def tasks(seed: int) -> list[Task]:
    """Two dozen small tasks and what some of them need."""
    dice = random.Random(seed)  # noqa: S311 - the demo is meant to repeat itself
    found = [_elephant(), *_haiku_diary_feast()]
    found += [_small("reverse", f"Reverse the word {word}", word[::-1]) for word in dice.sample(WORDS, 6)]
    for _ in range(4):
        words = dice.sample(FOOD, 3)
        letters = sum(map(len, words))
        found.append(_small("count", f"Count the letters of: {' '.join(words)}", str(letters)))
    for _ in range(4):
        numbers = [dice.randrange(2, 100) for _ in range(4)]
        found.append(_small("sum", f"Add up {' '.join(map(str, numbers))}", str(sum(numbers))))
    for _ in range(3):
        words = dice.sample(FOOD, 4)
        found.append(_small("sort", f"Sort: {' '.join(words)}", " ".join(sorted(words))))
    for top in dice.sample(range(20, 60), 2):
        primes = " ".join(str(n) for n in range(2, top) if all(n % d for d in range(2, n)))
        found.append(_small("primes", f"List the primes below {top}", primes))
    numbered = [task.replace(id=f"{number:04d}") for number, task in enumerate(found, 1)]
    numbered = [
        task.replace(body=task.body.replace("%", task.id), check=task.check.replace("%", task.id)) for task in numbered
    ]
    return [*numbered, *_joins(numbered)]


def _small(kind: str, title: str, answer: str) -> Task:
    path = f"out/{kind}-%.txt"
    return Task(
        id="", title=title, body=f"Write the answer to `{path}`.", check=f"grep -qx '{answer}' {path}", tags=(kind,)
    )


def _elephant() -> Task:
    body = "Chew well. When it is gone, say so to `out/elephant.txt`."
    return Task(
        id="", title="Digest the elephant", body=body, check="test -s out/elephant.txt", priority=9, tags=("huge",)
    )


def _haiku_diary_feast() -> list[Task]:
    lines = "$(wc -l < out/haiku.txt)"
    proof = f'test {lines} -eq 3 || {{ echo "a haiku has 3 lines, this one has {lines}"; exit 1; }}'
    return [
        Task(id="", title="Write a haiku about this pit", body="Write it to `out/haiku.txt`.", check=proof, priority=5),
        Task(id="", title="Read the diary of the mouse", body="Tell me what is in it.", priority=5),
        Task(id="", title="Prepare the feast", body="Split it if it is too much for you.", priority=3),
    ]


def _joins(before: list[Task]) -> list[Task]:
    """Tasks that need others."""
    sorts = [task.id for task in before if task.title.startswith("Sort")]
    paths = "\n".join(f"- out/sort-{need}.txt" for need in sorts)
    menu = Task(
        id=f"{len(before) + 1:04d}",
        title="Write the menu",
        body=f"Put these together, one below the other, and write that to `out/menu.txt`:\n\n{paths}",
        check=f"test $(wc -l < out/menu.txt) -eq {len(sorts)}",
        needs=tuple(sorts),
        priority=2,
    )
    diary = Task(
        id=f"{len(before) + 2:04d}",
        title="Write the story of the day",
        body="Put these together and write that to `out/story.txt`:\n\n"
        "- out/menu.txt\n- out/haiku.txt\n- out/elephant.txt",
        check="grep -q elephant out/story.txt",
        needs=(menu.id, before[0].id, before[1].id),
        priority=-1,
    )
    return [menu, diary]


class Demo:
    """One showing, in a folder of its own: the pit, and beside it `out/` for what the workers make."""

    def __init__(self, folder: str, seed: int) -> None:
        self.folder = folder
        self.pit = f"{folder}/pit"
        self.tasks = tasks(seed)
        self._env = {**os.environ, "TASKPIT_DIR": self.pit, "DEMO_SEED": str(seed)}

    def prepare(self) -> None:
        """The pit is there and the food is in it."""
        init(self.pit, "pit")
        os.makedirs(f"{self.folder}/out")
        with open(f"{self.pit}/.taskpit/config.toml", "w", encoding="utf-8") as file:
            file.write(CONFIG)
        queue = Queue.open(self.pit)
        try:
            queue.put(self.tasks)
        finally:
            queue.close()

    def show(self, tell: Callable[[str], None]) -> None:
        """Workers work, one is killed, the others carry on. Ends when nothing is left that could be done."""
        deadline = time.monotonic() + LIMIT
        with open(f"{self.folder}/hatchling.log", "wb") as log:
            doomed = self._start("-n", "1", "--as", "hatchling", "--tag", "huge", out=log)
        crew = None
        try:
            self._await(deadline, lambda: self._bites() > 0)
            crew = self._start("-n", "4", "--until", "empty")
            self._await(deadline, lambda: self._bites() >= BITES or crew.poll() is not None)
            doomed.send_signal(signal.SIGKILL)
            doomed.wait()
            tell(f"kill -9 {doomed.pid}: hatchling-1 is dead, the elephant half eaten")
            crew.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            tell(f"this takes longer than {LIMIT:.0f} seconds; the workers are stopped")
        finally:
            for process in (doomed, crew):
                if process is not None and process.poll() is None:
                    process.kill()
                    process.wait()

    def _start(self, *options: str, out: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        agent = [sys.executable, os.path.join(os.path.dirname(__file__), "demo_agent.py")]
        pit = [sys.executable, "-m", "taskpit", "-C", self.pit, "work", *options, "--", *agent]
        return subprocess.Popen([*pit, "{prompt_file}", "{result_file}"], cwd=self.folder, env=self._env, stdout=out)

    def _bites(self) -> int:
        """How much of the elephant is gone, by what its eater has printed."""
        for path in glob.glob(f"{self.pit}/.taskpit/runs/{self.tasks[0].id}~*/log"):
            try:
                with open(path, encoding="utf-8") as file:
                    return file.read().count("bite")
            except OSError:
                continue
        return 0

    @staticmethod
    def _await(deadline: float, met: Callable[[], bool]) -> None:
        while not met() and time.monotonic() < deadline:
            time.sleep(0.02)

    # -- afterwards --------------------------------------------------------------------------------

    def verify(self) -> tuple[list[str], list[str]]:
        """What came out as promised, and what did not: sentences for people."""
        queue = Queue.open(self.pit)
        try:
            cards = {task.title: queue.card(task.id) for task in self.tasks}
            children = cards["Prepare the feast"].result
            born = [queue.card(child) for child in children.children] if children else []
            events, _ = queue.store.events(limit=1 << 20)
        finally:
            queue.close()
        ends = [event.task_id for event in events if event.action in ("completed_task", "split_task")]
        everybody = [*cards.values(), *born]
        done = [card.task.id for card in everybody if card.state is State.DONE]
        files = [os.path.basename(path).split("-")[1] for path in glob.glob(f"{self.pit}/done/food-*.md")]
        once = sorted(ends) == sorted(done) == sorted(files) and len(done) == len(everybody) - 1
        claims = [
            (once, f"{len(done)} tasks done, each with exactly one result"),
            *self._scenes(cards, born),
        ]
        return [text for held, text in claims if held], [text for held, text in claims if not held]

    def _scenes(self, cards: dict[str, Card], born: list[Card]) -> Iterator[tuple[bool, str]]:
        elephant, haiku = cards["Digest the elephant"], cards["Write a haiku about this pit"]
        diary = cards["Read the diary of the mouse"]
        lost = any(one.kind == "lost" and one.worker.startswith("hatchling") for one in elephant.tries)
        saved = elephant.result is not None and not elephant.result.worker.startswith("hatchling")
        yield (
            lost and saved,
            f"{elephant.task.id}: its worker was killed with -9; another one took it up and finished it",
        )
        taught = haiku.result is not None and haiku.result.attempt == 2 and haiku.tries[0].kind == "check"
        yield taught, f"{haiku.task.id}: its check was red, the next attempt was told why, and was green"
        feast = cards["Prepare the feast"]
        whole = len(born) == 3 and all(card.state is State.DONE for card in born)
        yield whole, f"{feast.task.id}: was too large, split into {', '.join(card.task.id for card in born)}, all done"
        note = glob.glob(f"{self.pit}/scraps/food-{diary.task.id}-*choked.md")
        choked = diary.task.hold.startswith("choked") and len(diary.tries) == 3 and bool(note)
        yield choked, f"{diary.task.id}: failed the same way three times, so it waits for you, with a note in scraps/"
