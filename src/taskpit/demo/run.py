"""A snake pit at work, to be watched: its crew, one murder, and whether all came out right.

Everything is real: the crew is that of `pit init --template snakepit`, one snake is killed with -9 with food in
its mouth, and at the end the folder itself is asked what happened.
"""

from __future__ import annotations

import glob
import os
import signal
import time

from taskpit import trust
from taskpit.crew import file as crewfile
from taskpit.crew.control import Orderly
from taskpit.crew.state import SUPERVISOR, Papers
from taskpit.crew.status import rows
from taskpit.crew.templates import Template
from taskpit.demo.tasks import sign, tasks
from taskpit.landing.git import GitTrouble, outside, require
from taskpit.queue import Queue
from taskpit.store.opening import init
from taskpit.task import State
from taskpit.worker.remaining import survey
from taskpit.workers import base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from taskpit.crew.status import Row
    from taskpit.demo.screen import Stage
    from taskpit.task import Card

__all__ = ["CONFIG", "Demo"]

#: Who judges the one change that lands.
REVIEWER = """
[[agent]]
name = "reviewer"
role = "reviewer"
"""
CONFIG = 'lease = "1m"\nbackoff = "0.3s"\nbackoff_longest = "1s"\n'
#: The demo is over after this many seconds, or something is wrong.
LIMIT = 150.0
#: How long a crew that was stopped may take to be gone.
LEAVING = 60.0
#: How often it is looked at.
LOOK = 0.1
#: Bites a snake has had of the elephant when it is killed.
BITES = 5


class Demo:
    """One showing, in a folder of its own: the pit, and in it `out/` for what the snakes make."""

    def __init__(self, folder: str, seed: int) -> None:
        self.pit = folder
        self.tasks = tasks(seed)
        #: The task whose change lands; None where there is no git that could do it.
        self.sign = sign(len(self.tasks) + 1) if _has_git() else None
        self.papers = Papers(folder)
        self._orderly = Orderly(
            self.papers, {"DEMO_PACE": "2", **os.environ, "DEMO_SEED": str(seed), "DEMO_ROUND": "4s"}
        )
        #: The snake that was killed, and the processes of the crew that were seen.
        self.victim = ""
        self.pids: set[int] = set()
        self.standing: list[Row] = []

    def prepare(self) -> None:
        """The pit is there and the food is in it."""
        init(self.pit, "pit")
        Template("snakepit").write(self.pit)
        os.makedirs(f"{self.pit}/out")
        with open(f"{self.pit}/.taskpit/config.toml", "w", encoding="utf-8") as file:
            file.write(CONFIG)
        if self.sign is not None:
            self.tasks.append(self.sign)
            self._make_repository()
        trust.remember(self.pit)
        self.queue = Queue.open(self.pit)
        self.queue.put(self.tasks)

    def _make_repository(self) -> None:
        """The folder is a git repository, too, without the queue's own files in it; and somebody reviews changes."""
        with open(f"{self.pit}/agents.toml", "a", encoding="utf-8") as file:
            file.write(REVIEWER)
        with open(f"{self.pit}/.gitignore", "w", encoding="utf-8") as file:
            file.writelines(f"/{name}\n" for name in sorted(os.listdir(self.pit)) if name != ".gitignore")
        outside(self.pit, "init", "--quiet", "--initial-branch=main", "--template=")
        for key, value in (("user.name", "The pit"), ("user.email", "pit@localhost")):
            outside(self.pit, "config", key, value)
        outside(self.pit, "add", ".gitignore")
        outside(self.pit, "commit", "--quiet", "--message=A door, and nothing on it yet")

    def show(self, stage: Stage) -> None:
        """The crew comes up and works, one snake is killed. Ends when nothing is left that could be done."""
        deadline = time.monotonic() + LIMIT
        crew = crewfile.load(crewfile.find(self.pit), self.pit, os.environ)
        self._orderly.await_up(self._orderly.up(crew, ())[0])
        posts = {post.name: post for post in crew.posts}
        cursor = ""
        while time.monotonic() < deadline:
            self.standing = rows(self.papers, posts)
            self.pids |= {row.pid for row in self.standing if row.pid} | {self.papers.living(SUPERVISOR)} - {0}
            events, cursor = self.queue.store.events(cursor)
            stage.tell(events, self._title)
            left = survey(self.queue, landing=[self.sign.id] if self.sign else ())
            stage.crew(self.standing, left)
            self._murder(stage)
            if self.victim and not left.coming and not left.claimed and self._is_healed():
                return
            time.sleep(LOOK)
        stage.say(f"this takes longer than {LIMIT:.0f} seconds; the crew is stopped")

    def _title(self, task_id: str) -> str:
        return self.queue.card(task_id).task.title

    def _murder(self, stage: Stage) -> None:
        """Whoever is half through the elephant dies."""
        elephant = self.queue.card(self.tasks[0].id)
        if self.victim or elephant.state is not State.CLAIMED or self._bites() < BITES:
            return
        name = base(elephant.worker)
        pid = self.papers.living(name)
        if pid:
            self.victim = name
            os.kill(pid, signal.SIGKILL)
            stage.say(f"kill -9 {pid}: {name} is dead, the elephant half eaten")

    def _is_healed(self) -> bool:
        return any(row.name == self.victim and row.pid and row.restarts for row in self.standing)

    def _bites(self) -> int:
        """How much of the elephant is gone, by what its eater has printed."""
        for path in glob.glob(f"{self.pit}/.taskpit/runs/{self.tasks[0].id}.*/log"):
            try:
                with open(path, encoding="utf-8") as file:
                    return file.read().count("bite")
            except OSError:
                continue
        return 0

    def down(self, *, now: bool = False) -> list[str]:
        """The crew has ended; who of it had to be."""
        living = self._orderly.down((), now=now)
        self._orderly.await_down(living, lambda _: None)
        return living

    # -- afterwards --------------------------------------------------------------------------------

    def verify(self) -> tuple[list[str], list[str]]:
        """What came out as promised, and what did not: sentences for people."""
        queue = self.queue
        cards = {task.title: queue.card(task.id) for task in self.tasks}
        born = [queue.card(child) for child in cards["Prepare the feast"].task.needs]
        events, _ = queue.store.events(limit=1 << 20)
        ends = [event.task_id for event in events if event.action == "completed_task"]
        self.planners = [base(event.worker) for event in events if event.action == "split_task"]
        everybody = [*cards.values(), *born]
        done = [card.task.id for card in everybody if card.state is State.DONE]
        files = [os.path.basename(path).split("-")[1] for path in glob.glob(f"{self.pit}/done/food-*.md")]
        once = sorted(ends) == sorted(done) == sorted(files) and len(done) == len(everybody) - 1
        claims = [
            (once, f"{len(done)} tasks done, each with exactly one result"),
            *self._scenes(cards, born),
            *self._crew_scenes(),
        ]
        return [text for held, text in claims if held], [text for held, text in claims if not held]

    def _scenes(self, cards: dict[str, Card], born: list[Card]) -> Iterator[tuple[bool, str]]:
        elephant, haiku = cards["Digest the elephant"], cards["Write a haiku about this pit"]
        diary = cards["Read the diary of the mouse"]
        lost = [one.worker for one in elephant.tries if one.kind == "lost" and base(one.worker) == self.victim]
        saved = elephant.result is not None and elephant.result.worker not in lost
        told = (
            f"{elephant.task.id}: {self.victim or 'nobody'} was killed with -9 while eating it; it was taken up again"
        )
        yield bool(lost) and saved, f"{told} and finished"
        taught = haiku.result is not None and haiku.result.attempt == 2 and haiku.tries[0].kind == "check"
        yield taught, f"{haiku.task.id}: its check was red, the next attempt got its output, and was green"
        feast = cards["Prepare the feast"]
        whole = len(born) == 3 and all(card.state is State.DONE for card in [feast, *born])
        planned = self.planners == ["planner"]
        parts = ", ".join(card.task.id for card in born)
        yield whole and planned, f"{feast.task.id}: was big, so the planner cut it into {parts}, all done, then itself"
        if self.sign is not None:
            yield self._landed(cards[self.sign.title])
        note = glob.glob(f"{self.pit}/scraps/food-{diary.task.id}-*choked.md")
        choked = diary.task.hold.startswith("choked") and len(diary.tries) == 3 and bool(note)
        yield choked, f"{diary.task.id}: failed the same way three times, so it waits for you, with a note in scraps/"

    def _landed(self, sign: Card) -> tuple[bool, str]:
        events, _ = self.queue.store.events(limit=1 << 20)
        said = [event.action for event in events if event.task_id == sign.task.id and base(event.worker) == "reviewer"]
        log = outside(self.pit, "log", "--format=%s", "main").text.splitlines()
        told = "was sent back by the reviewer, done better, approved, and is one commit on main"
        landed = sign.result is not None and sign.result.reason.startswith("landed on main")
        polite = landed and "Please" in outside(self.pit, "show", "main:sign.txt").text
        good = polite and {"sent_back", "approved"} <= set(said) and log.count(sign.task.title) == 1
        return good, f"{sign.task.id}: {told}"

    def _crew_scenes(self) -> Iterator[tuple[bool, str]]:
        agents = [row for row in self.standing if row.kind != "service" and row.state in ("up", "waiting")]
        services = [row for row in self.standing if row.kind == "service" and row.state == "up"]
        crew = (
            f"the crew: {len(agents)} agents and {len(services)} service, {self.victim} started again by the supervisor"
        )
        yield len(agents) == (7 if self.sign else 6) and len(services) == 1 and self._is_healed(), crew
        deadline = time.monotonic() + LEAVING  # they are on their way out: a busy machine takes a while
        while (left := [pid for pid in self.pids if _lives(pid)]) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield bool(self.pids) and not left, f"of {len(self.pids)} processes none is left"


def _has_git() -> bool:
    try:
        require()
    except GitTrouble:
        return False
    return True


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
