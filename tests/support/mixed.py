"""Pools of ours and workers written from the seeds' text on one queue, every one of them killed at random.

    python tests/support/mixed.py --seconds 600 --seed 1 [--layout mailbox]

Tasks are put by us and by `mv`. What is called red has a check that is never green; the other workers leave it to us,
and what is called own, too.
Exits 1 if after a sweep a task is lost, has two outcomes or is done without its check, or if a pool of ours ended
by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter

import boxes
import workitems
from boxes import FAST, clean_environment, write
from waits import PATIENCE

from taskpit import trust
from taskpit.clock import Clock
from taskpit.keeper import sweep
from taskpit.model import Done, Failed, State, Task
from taskpit.queue import Queue
from taskpit.store.opening import init

LITERAL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "interop", "literal")
#: Of so many tasks one has a check that is never green, and one is left to us.
ROUND = 10
NAMES = {0: "red", 5: "own"}
#: A pool takes seconds to start: it is struck so much more seldom than a worker of others.
POOLS_LIVE = 0.15
#: So many tasks are put however slow the machine is.
FEWEST = 12
#: So many tasks may wait; then no more are put.
WAITING = 100
SETTINGS = 'durability = "process"\nlease = "3s"\nabandoned = "2s"\nbackoff = "0.1s"\nbackoff_longest = "0.2s"\n'
CONFIG = FAST.replace(lease=3.0, abandoned=2.0, backoff=0.1, backoff_longest=0.2)
#: Whose worker it was, by its name; results of others name none.
WHO = re.compile("[a-z]*")
#: How long a worker that ended by itself stays away, in seconds: those that find nothing to do end.
AWAY = 0.5
LAYOUTS = (*boxes.LAYOUTS, "activities")
#: What must be installed for a language, by layouts that have a worker in it.
COMPILED = {"mailbox": ("go", "node")}


class Mixed:
    """One queue and all who work on it."""

    def __init__(self, root: str, layout: str, rng: random.Random, pools: int = 2) -> None:
        self.root, self.layout, self.rng = root, layout, rng
        init(root, layout)
        write(f"{root}/.taskpit/config.toml", SETTINGS)
        assert trust.remember(root)
        self.queue = Queue.open(root)
        self.commands = [self._pool(number) for number in range(pools)] + list(self._literal())
        self.live: dict[subprocess.Popen, list[str]] = {}
        self.away: list[tuple[float, list[str]]] = []
        self.put: list[str] = []
        self.exits: list[str] = []
        self.counts: Counter[str] = Counter()

    def _pool(self, number: int) -> list[str]:
        command = [sys.executable, "-m", "taskpit", "-C", self.root, "work", "-n", "2", "--as", f"pool{number}"]
        return [*command, "--", "true"]

    def _literal(self):
        yield ["sh", f"{LITERAL}/worker.sh", self.layout, self.root, "sh"]
        yield [sys.executable, f"{LITERAL}/worker.py", self.layout, self.root, "py"]
        for tool in COMPILED.get(self.layout, ()):
            if shutil.which(tool) is None:
                print(f"without {tool}: scripts/system-packages foreign installs it")
            elif tool == "node":
                yield ["node", f"{LITERAL}/mailbox.js", self.root]
            else:
                built = f"{os.path.dirname(self.root)}/go-worker"
                subprocess.run(["go", "build", "-o", built, f"{LITERAL}/mailbox.go"], check=True, timeout=PATIENCE)
                yield [built, self.root]

    # -- while it goes on ----------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Everything at once, for so long."""
        for command in self.commands:
            self._start(command)
        end = time.monotonic() + seconds
        strike = time.monotonic() + 1.0
        while time.monotonic() < end or len(self.put) < FEWEST or not self.counts["kills"]:
            time.sleep(0.02)
            self._feed()
            self._look_after()
            if time.monotonic() > strike and self.live:
                ends = [POOLS_LIVE if "taskpit" in command else 1.0 for command in self.live.values()]
                (victim,) = self.rng.choices(list(self.live), ends)
                victim.kill()
                self.counts["kills"] += 1
                strike = time.monotonic() + self.rng.expovariate(2.0)
        for process in self.live:
            process.kill()
            process.communicate()

    def _start(self, command: list[str]) -> None:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        self.live[subprocess.Popen(command, env=clean_environment(), text=True, **pipes)] = command

    def _look_after(self) -> None:
        """The dead are started again; a pool of ours that was not killed has no reason to end."""
        for process in [one for one in self.live if one.poll() is not None]:
            command = self.live.pop(process)
            said = process.communicate()[1]
            if "taskpit" in command and process.returncode != -9:
                self.exits.append(f"exit {process.returncode}: {said[-300:]}")
            self.away.append((time.monotonic() + (0.0 if process.returncode == -9 else AWAY), command))
        for due, command in [one for one in self.away if one[0] <= time.monotonic()]:
            self.away.remove((due, command))
            self._start(command)

    def _feed(self) -> None:
        """A few more, ours and by `mv`."""
        if self.queue.store.counts()[State.READY] > WAITING:
            return
        for number in range(len(self.put), len(self.put) + ROUND):
            kind = NAMES.get(number % ROUND, "task")
            name, check = f"{kind}{number}", "false" if kind == "red" else "true"
            self.put.append(name)
            if self.rng.random() < 0.5:
                task_id = self.id_of(name).removesuffix("-A1")
                self.queue.put([Task(id=task_id, title=name, slug=name, check=check, max_attempts=2)])
            else:
                self._move_in(name, check)

    def id_of(self, name: str) -> str:
        """What a task of this title is called."""
        return f"WI-{name.lstrip('adeknorstw'):0>4}-A1" if self.layout == "activities" else name

    def _move_in(self, name: str, check: str) -> None:
        if self.layout == "activities":
            self._move_in_item(name, check)
            return
        text = f"- **task:** {name}\n- **done-when:** `{check}`\n- **attempts:** 0 of 2\n"
        place = {"pit": f"food/food-{name}-x.md", "workspace": f"tasks/{name}_pending.md"}.get(self.layout)
        if place is None:
            place = f"inbox/{name}.json"
            now = int(time.time())
            fields = {"id": name, "title": name, "status": "ready", "test_command": check, "max_attempts": 2}
            text = json.dumps({**fields, "created_at": now, "updated_at": now})
        scratch = f"{os.path.dirname(self.root)}/coming"
        write(scratch, text)
        os.rename(scratch, f"{self.root}/{place}")

    def _move_in_item(self, name: str, check: str) -> None:
        """A work item as a person makes it: its folder with one file."""
        activity, scratch = self.id_of(name), f"{os.path.dirname(self.root)}/coming.item"
        item = activity.removesuffix("-A1")
        lines = [f"work_item_id: {item}", f"title: {name}", "status: planning", "activities:", f"  - id: {activity}"]
        lines += [f"    title: {name}", "    status: pending", f"    done_when: '{check}'", "    max_attempts: 2", ""]
        os.mkdir(scratch)
        write(f"{scratch}/progress.yaml", "\n".join(lines))
        os.rename(scratch, f"{self.root}/{item}-{name}")

    # -- afterwards ----------------------------------------------------------------------------------

    def settle(self) -> Queue:
        """Undisturbed, all that is left is swept and done; the queue."""
        self.queue.close()
        if self.layout == "activities":
            queue = workitems.reopened(self.root, Clock(), CONFIG)
        else:
            queue = boxes.reopened(self.root, self.layout, config=CONFIG)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            did, claims = sweep(queue), queue.claim("last", count=100)
            if did or claims:  # however slowly
                end = time.monotonic() + PATIENCE
            for claim in claims:
                red = claim.task.title.startswith("red")
                queue.finish(claim, Failed(error="red", final=True) if red else Done(output="last"))
            counts = queue.store.counts()
            if not (did or claims or counts[State.READY] or counts[State.CLAIMED]):
                break
            time.sleep(0.1)
        return queue

    def judge(self) -> list[str]:
        """What was promised and did not hold."""
        queue = self.settle()
        wrong = [f"a pool of ours ended by itself, {told}" for told in self.exits]
        wrong += [f"sweep is never through: {mend}" for mend in sweep(queue)]
        places = self._places(queue.store.folder)
        for name, card in zip(self.put, queue.store.read(list(map(self.id_of, self.put))), strict=True):
            if card is None or card.result is None:  # one that waits still is no loss, but the judge's own impatience
                wrong.append(f"{name} is lost" if card is None else f"{name} has not ended: {card}")
                continue
            who = WHO.match(card.result.worker)[0] or "others"
            self.counts[f"{card.state} by {who}"] += 1
            if len(places.get(name, [])) > 1:
                wrong.append(f"{name} has two outcomes: {places[name]}")
            evidence = card.result.evidence
            checked = evidence is not None and evidence.exit_code == 0
            if card.state is State.DONE and (not name.startswith("task") or who == "pool") and who != "last":
                wrong += [] if checked else [f"{name} was done without its check: {card.result}"]
        queue.close()
        return wrong

    def _places(self, folder) -> dict[str, list[str]]:
        """Where each task stands; a work item says it in one place, whatever happens."""
        places: dict[str, list[str]] = {}
        if self.layout == "activities":
            return places
        for place in dict.fromkeys((folder.layout.ready, folder.layout.claimed, *folder.layout.results)):
            for name in os.listdir(folder.at(place)):
                spot = folder.layout.spot(place, name)
                if spot is not None:
                    places.setdefault(spot.id, []).append(spot.path)
        return places


def main() -> int:
    """Each layout for its share of the time; what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--layout", choices=LAYOUTS, action="append")
    options = parser.parse_args()
    chosen, wrong = options.layout or list(LAYOUTS), []
    for layout in chosen:
        with tempfile.TemporaryDirectory() as place:
            os.environ["XDG_STATE_HOME"] = f"{place}/state"  # what is trusted here is nothing to the user
            mixed = Mixed(f"{place}/queue", layout, random.Random(options.seed))
            mixed.run(options.seconds / len(chosen))
            found = mixed.judge()
            print(f"{layout}: {len(mixed.put)} tasks, {dict(mixed.counts)}, {len(found)} promises broken", flush=True)
            wrong += found
    print("\n".join(wrong[:20]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
