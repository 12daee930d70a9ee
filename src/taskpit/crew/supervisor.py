"""The crew's supervisor: one process per queue that keeps the plan. `python -m taskpit.crew.supervisor ROOT`.

It belongs to no terminal, writes to `.taskpit/crew/supervisor.log`, and ends once nobody is wanted and nobody
runs. When it is killed the crew works on; the next one finds them by their records.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from taskpit import fs
from taskpit.crew.state import SUPERVISOR, Papers
from taskpit.crew.supervised import TAKEN, Charge
from taskpit.errors import TaskpitError, Untrusted
from taskpit.worker import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from taskpit.crew.state import Wish
    from taskpit.workers import Member

__all__ = ["Supervisor"]

#: How often it looks.
TICK = 0.2
#: How many looks there are between two at the length of logs, and two signs of life.
ROUND = 50


class Supervisor:
    """Keeps the plan."""

    def __init__(self, papers: Papers) -> None:
        self.papers = papers
        self.charges: dict[str, Charge] = {}
        self.signals: list[int] = []
        self._looks = 0
        self._known: dict[str, Wish] = {}
        self._refused = ""

    def heard(self, number: int, _: FrameType | None) -> None:
        """Told to stop: so is the crew. Told again: at once."""
        self.signals.append(number)

    def run(self, me: Member) -> None:
        """Until nobody is wanted and nobody runs."""
        while self.look() or not self._leave(me):
            time.sleep(TICK)

    def look(self) -> bool:
        """One look at everybody; whether there is anybody to look at."""
        plan = self._plan()
        busy = False
        for name, wish in plan.items():
            charge = self.charges.setdefault(name, Charge(name, self.papers))
            try:
                busy = charge.look(self._heeded(wish)) or busy
            except (TaskpitError, OSError) as error:  # the disk refuses for a moment; the others go on
                print(f"{name}: {error}", flush=True)
                busy = True
        self._looks += 1
        if self._looks % ROUND == 0:
            self._trim(plan)
            self.papers.touch(SUPERVISOR)
        return busy

    def _plan(self) -> dict[str, Wish]:
        """The plan; the last one that was ours if another hand has written there."""
        try:
            self._known = self.papers.plan()
            self._refused = ""
        except Untrusted as error:
            if error.message != self._refused:
                print(f"{error.message}; the crew goes on as it was", flush=True)
            self._refused = error.message
        return self._known

    def _heeded(self, wish: Wish) -> Wish:
        """The wish, as far as we are not told to stop."""
        return wish.replace(wanted=False, now=wish.now or len(self.signals) > 1) if self.signals else wish

    def _leave(self, me: Member) -> bool:
        """Gone, unless the plan has changed meanwhile: whoever changes it sees either us or nobody."""
        lock = self.papers.plan_lock()
        if not lock.take(wait=False):
            return False
        try:
            if not self.signals and any(wish.wanted for wish in self._plan().values()):
                return False
            me.leave()
            return True
        finally:
            lock.drop()

    def _trim(self, plan: dict[str, Wish]) -> None:
        for name in (*plan, SUPERVISOR):
            try:
                if not fs.exists(self.papers.log(name)):
                    continue
                fd = fs.open_file(self.papers.log(name))
            except OSError:
                continue
            try:
                process.trim(fd)
            finally:
                os.close(fd)


def main() -> int:
    """Leave the terminal and whoever started us, then keep the plan."""
    root = sys.argv[1]
    if os.fork():
        os._exit(0)  # the starter learns that we are on our way; we lead no session and get no terminal
    os.chdir("/")
    papers = Papers(root)
    me = papers.enter(SUPERVISOR)
    if me is None:
        return TAKEN
    supervisor = Supervisor(papers)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, supervisor.heard)
    print(f"{time.strftime('%H:%M:%S')} supervisor: {os.getpid()} for {root}", flush=True)
    supervisor.run(me)
    print(f"{time.strftime('%H:%M:%S')} supervisor: no member is wanted, so it ends", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
