"""A snake pit at work, to be watched: its crew, one murder, and whether all came out right.

Everything is real: the crew is that of `pit init --template snakepit`, one snake is killed with -9 with food in
its mouth, and at the end the folder itself is asked what happened.
"""

from __future__ import annotations

import glob
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence

from taskpit import trust
from taskpit.clock import say_duration
from taskpit.crew import file as crewfile
from taskpit.crew.control import CrewControl
from taskpit.crew.file import write_template
from taskpit.crew.state import SUPERVISOR, CrewFiles
from taskpit.crew.status import MemberRow, rows
from taskpit.landing.git import GitTrouble, outside, require
from taskpit.model import Card, Event, State, Task
from taskpit.queue import Queue
from taskpit.run.pool_display import Lines, PoolBoard, screen_size
from taskpit.run.pool_options import Survey, survey
from taskpit.run.reaper import DEAD, stat_of
from taskpit.store.opening import init
from taskpit.text import fit
from taskpit.workers import base

# -- the food of the demo --------------------------------------------------------------------------

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


def sign(number: int) -> Task:
    """The one whose change is reviewed, and lands on the branch of a repository."""
    fields = {"land": "merge", "review": "agent"}
    return Task(
        id=f"{number:04d}",
        title="Paint a sign for the door",
        body="Visitors should knock. Write it to `sign.txt`.",
        check="grep -qi knock sign.txt",
        priority=4,
        extra=fields,
    )


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
        Task(id="", title="Prepare the feast", body="For everybody, and in style.", priority=3, big=True),
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


# -- how the demo looks ----------------------------------------------------------------------------


#: The changelog's words as people say them; others are not shown.
COLUMN_WORDS = {
    "claimed_task": "claimed",
    "completed_task": "done",
    "failed_task": "failed",
    "retried_task": "retry",
    "choked_task": "stuck",
    "split_task": "split",
    "recovered_task": "recovered",
    "released_task": "released",
    "handed_in": "handed in",
    "sent_back": "sent back",
    "approved": "approved",
}


class Stage(Lines):
    """Lines, for a pipe."""

    def tell(self, events: Sequence[Event], title: Callable[[str], str]) -> None:
        """What has happened."""
        for event in events:
            word = COLUMN_WORDS.get(event.action, "")
            if word and not (word == "claimed" and self.period):  # a board shows who has what by itself
                details = ": ".join(filter(None, (title(event.task_id), event.details)))
                self._line(word, base(event.worker), event.task_id, details)

    def say(self, text: str) -> None:
        """As it is."""
        self._line("note", "", "", text)

    def crew(self, rows: Sequence[MemberRow], survey: Survey) -> None:
        """How they stand."""

    def close(self) -> None:
        """The show is over."""


class Theatre(Stage, PoolBoard):
    """The same on a terminal, with a board of the crew."""

    def crew(self, rows: Sequence[MemberRow], survey: Survey) -> None:
        """Draw the board again."""
        width = screen_size(self._stream)[0]
        lines = [self._row(row, width) for row in rows]
        lines.append(
            fit(f"— {survey.done} done, {survey.claimed} claimed, {survey.ready} ready, {survey.held} held", width)
        )
        if lines != self._last:
            self._draw(lines)

    def _row(self, row: MemberRow, width: int) -> str:
        age = say_duration(int(row.age)) if row.task or row.until else ""
        head = f"{row.name:<10} {row.state:<8} {row.task:<5} {age:>4}  "
        doing = fit(row.title, 30)
        words = fit(row.last if row.task or row.kind != "tasks" else "", width - len(head) - len(doing) - 3)
        return f"{head}{doing}   {self._paint('2', words)}".rstrip()

    def close(self) -> None:
        """The terminal is as it was, the board gone."""
        PoolBoard.close(self)


# -- A snake pit at work ---------------------------------------------------------------------------


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
        self.files = CrewFiles(folder)
        self._orderly = CrewControl(
            self.files, {"DEMO_PACE": "2", **os.environ, "DEMO_SEED": str(seed), "DEMO_ROUND": "4s"}
        )
        #: The snake that was killed, and the processes of the crew that were seen.
        self.victim = ""
        self.pids: set[int] = set()
        self.standing: list[MemberRow] = []

    def prepare(self) -> None:
        """The pit is there and the food is in it."""
        init(self.pit, "pit")
        write_template("snakepit", self.pit)
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
        """The folder is a git repository, too, without the queue's own files in it; and a reviewer judges changes."""
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
            self.standing = rows(self.files, posts)
            self.pids |= {row.pid for row in self.standing if row.pid} | {self.files.living(SUPERVISOR)} - {0}
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
        """The snake that is half through the elephant dies."""
        elephant = self.queue.card(self.tasks[0].id)
        if self.victim or elephant.state is not State.CLAIMED or self._bites() < BITES:
            return
        name = base(elephant.worker)
        pid = self.files.living(name)
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
        text = (
            f"{elephant.task.id}: {self.victim or 'nobody'} was killed with -9 while eating it; it was taken up again"
        )
        yield bool(lost) and saved, f"{text} and finished"
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
        choked = diary.task.hold.startswith("failed 3 times") and len(diary.tries) == 3 and bool(note)
        yield choked, f"{diary.task.id}: failed the same way three times, so it waits for you, with a note in scraps/"

    def _landed(self, sign: Card) -> tuple[bool, str]:
        events, _ = self.queue.store.events(limit=1 << 20)
        said = [event.action for event in events if event.task_id == sign.task.id and base(event.worker) == "reviewer"]
        log = outside(self.pit, "log", "--format=%s", "main").text.splitlines()
        text = "was sent back by the reviewer, done better, approved, and is one commit on main"
        landed = sign.result is not None and sign.result.reason.startswith("landed on main")
        polite = landed and "Please" in outside(self.pit, "show", "main:sign.txt").text
        good = polite and {"sent_back", "approved"} <= set(said) and log.count(sign.task.title) == 1
        return good, f"{sign.task.id}: {text}"

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
    if os.path.isdir("/proc/self"):
        known = stat_of(pid)
        return bool(known) and known[0] not in DEAD
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
