"""One of the crew in the supervisor's care: started, watched, healed, stopped. Knows processes, no tasks.

It looks every moment, and each look does one step: nothing here waits. What it knows is in `<name>.json`, so
that the next supervisor goes on where a killed one stopped.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from taskpit import fs
from taskpit.clock import say_duration
from taskpit.crew.state import Papers, Seen, environment, waiting_until
from taskpit.text import last_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taskpit.crew.settings import Post
    from taskpit.crew.state import Wish

__all__ = ["TAKEN", "Charge"]

#: What one of the crew exits with when another process has its name.
TAKEN = 79
#: Seconds before the first restart; doubles with every further one, up to the longest.
FIRST, LONGEST = 0.5, 300.0
#: Who has run this long was well: its earlier ends are forgotten.
CALM = 60.0
#: What is noted of one that was asked to end.
TOLD = "asked to stop"
#: Seconds between being told to stop now and being killed.
KILL_AFTER = 10.0


class Charge:
    """One of the crew."""

    def __init__(self, name: str, papers: Papers) -> None:
        self.name = name
        self.papers = papers
        self.seen = papers.seen(name)
        self.process: subprocess.Popen[bytes] | None = None
        #: How the last child ended; None if it was not ours, and nobody told us.
        self.code: int | None = None
        #: When it was told to stop; by a supervisor that was killed since, if its papers say so.
        self._told: list[float] = [time.monotonic()] if self.seen.why == TOLD else []

    def look(self, wish: Wish) -> bool:
        """One step towards what is wished; True while it lives or is wanted."""
        pid = self._pid()
        if not pid and self.seen.state == "up":
            self._ended(wish)
        if pid and self.seen.state != "up":  # it was there before us
            self._note(state="up", since=time.time(), why="", turn=self.seen.turn or wish.turn)
        if pid and (not wish.wanted or wish.turn > self.seen.turn):
            self._stop(pid, wish)
        elif pid:
            self._watch(pid, wish.post)
        elif wish.wanted and self._is_due(wish):
            self._start(wish)
        elif not wish.wanted and self.seen.state != "down":
            self._note(state="down", why="stopped", until=0.0, since=time.time())
        return bool(pid) or wish.wanted

    def _pid(self) -> int:
        """Its process, 0 if it has none."""
        if self.process is not None:
            self.code = self.process.poll()
            if self.code is None:
                return self.process.pid
            self.process = None
        return self.papers.living(self.name)

    def _note(self, **changes: object) -> None:
        self.seen = self.seen.replace(**changes)
        self.papers.note(self.name, self.seen)

    # -- starting ----------------------------------------------------------------------------------

    def _is_due(self, wish: Wish) -> bool:
        return wish.turn > self.seen.turn or time.time() >= self.seen.until

    def _start(self, wish: Wish) -> None:
        fresh = wish.turn > self.seen.turn
        healed = 0 if fresh or self.seen.state == "waiting" else 1
        base = Seen() if fresh else self.seen
        self._told = []
        self.seen = base.replace(
            state="up", since=time.time(), until=0.0, why="", restarts=base.restarts + healed, turn=wish.turn
        )
        try:
            self.process = self._spawn(wish.post)
        except OSError as error:
            self._give_up(f"it could not be started: {error.strerror or error}")
            return
        self.papers.note(self.name, self.seen)
        self._say(f"started as {self.process.pid}" + (f", restart {self.seen.restarts}" if healed else ""))

    def _spawn(self, post: Post) -> subprocess.Popen[bytes]:
        with open(fs.open_file(self.papers.log(self.name)), "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "taskpit.crew.member", self.papers.root, self.name],
                cwd=post.cwd,
                env=environment(os.environ, self.papers.root),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    # -- ending ------------------------------------------------------------------------------------

    def _ended(self, wish: Wish) -> None:
        """It is gone: why, and when it is started again."""
        now, seen, code = time.time(), self.seen, self.code
        self.code = None
        if self._told:
            self._told = []
            self._say("stopped")
            self._note(state="down", why="stopped", since=now, until=0.0)
            return
        until = self._paces_itself(now)
        if until:
            self._say(f"waits for {say_duration(until - now)}, as it said")
            self._note(state="waiting", why="asked to wait", since=now, until=until, failures=0)
        elif wish.post.kind == "session" and code == 0:
            self._note(state="waiting", why="its session is over", since=now, until=now + wish.post.every, failures=0)
        elif wish.post.watch == "none":
            self._note(
                state="down", why=f"{_how(code)}; it is not restarted (watch = none)", since=now, until=float(2**40)
            )
        else:
            self._give_up(seen.why or _how(code), "stalled" if seen.why else "down")

    def _give_up(self, why: str, state: str = "down") -> None:
        """For now: it is started again after a pause that grows."""
        now = time.time()
        failures = 1 if now - self.seen.since > CALM else self.seen.failures + 1
        pause = min(FIRST * 2 ** min(failures - 1, 20), LONGEST)
        self._say(f"{why}; started again in {say_duration(pause)}")
        self._note(state=state, why=why, since=now, until=now + pause, failures=failures)

    def _paces_itself(self, now: float) -> float:
        """Until when it asked to be left alone; 0 if it did not."""
        path = self.papers.log(self.name)
        try:
            words = last_lines(fs.tail(path, 4096), 1).splitlines()
            status = fs.status(path)
        except OSError:
            return 0.0
        said = status.st_mtime if status else 0.0
        until = waiting_until(words, said)
        return max(until, now + FIRST) if until else 0.0

    # -- watching and stopping ---------------------------------------------------------------------

    def _watch(self, pid: int, post: Post) -> None:
        """One that is silent for too long is killed, if it is to be watched for that: its task finds another."""
        if post.watch != "heal+stall" or self.seen.why:
            return
        silence = self.papers.silent(post, self.seen.since)
        if silence > post.patience:
            why = f"silent for {say_duration(silence)}, so it was killed"
            self._say(why)
            self._note(why=why)
            _tell(pid, signal.SIGKILL)

    def _stop(self, pid: int, wish: Wish) -> None:
        """Asked once, it finishes its task; asked again, it gives it back; then it is killed."""
        now = time.monotonic()
        if not self._told:
            self._say("asked to stop")
            self._note(why=TOLD)
            _tell(pid, signal.SIGTERM)
            self._told.append(now)
        elif wish.now and len(self._told) == 1:
            _tell(pid, signal.SIGTERM)
            self._told.append(now)
        elif wish.now and now - self._told[-1] > KILL_AFTER:
            self._say("does not stop; killed")
            _tell(pid, signal.SIGKILL)
            self._told.append(now)

    def _say(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {self.name}: {text}", flush=True)


def _how(code: int | None) -> str:
    if code is None:
        return "it is gone"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _tell(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it was faster
