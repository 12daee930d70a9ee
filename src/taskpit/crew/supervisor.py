"""The crew's supervisor: one process per queue that keeps the plan. `python -m taskpit.crew.supervisor ROOT`.

It belongs to no terminal, writes to `.taskpit/crew/supervisor.log`, and ends once nobody is wanted and nobody
runs. When it is killed the crew works on; the next one finds them by their records.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from subprocess import Popen
from types import FrameType

from taskpit import fs
from taskpit.clock import say_duration
from taskpit.crew.state import SUPERVISOR, CrewFiles, MemberPlan, MemberState, Post, waiting_until
from taskpit.errors import Storage, TaskpitError, Untrusted
from taskpit.run import process
from taskpit.text import last_lines
from taskpit.workers import LocalMember

# -- one of the crew in the supervisor's care ------------------------------------------------------
# Started, watched, healed, stopped. Knows processes, no tasks.
# It looks every moment, and each look does one step: nothing here waits. What it knows is in `<name>.json`, so
# that the next supervisor goes on where a killed one stopped.

#: What one of the crew exits with when another process has its name.
TAKEN = 79
#: Seconds before the first restart; doubles with every further one, up to the longest.
FIRST, LONGEST = 0.5, 300.0
#: Who has run this long was well: its earlier ends are forgotten.
CALM = 60.0
#: What is noted of one that was asked to end.
STOPPING = "asked to stop"
#: Seconds between being told to stop now and being killed.
KILL_AFTER = 10.0


class SupervisedMember:
    """One of the crew."""

    def __init__(self, name: str, files: CrewFiles) -> None:
        self.name = name
        self.files = files
        self.seen = files.seen(name)
        self.process: Popen[bytes] | None = None
        #: How the last child ended; None if it was not ours, and nobody told us.
        self.code: int | None = None
        #: When it was told to stop; by a supervisor that was killed since, if its files say so.
        self._asked: list[float] = [time.monotonic()] if self.seen.why == STOPPING else []

    def look(self, wish: MemberPlan) -> bool:
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
        elif wish.wanted and (wish.turn > self.seen.turn or time.time() >= self.seen.until):
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
        return self.files.living(self.name)

    def _note(self, **changes: object) -> None:
        self.seen = self.seen.replace(**changes)
        self.files.note(self.name, self.seen)

    # -- starting ----------------------------------------------------------------------------------

    def _start(self, wish: MemberPlan) -> None:
        fresh = wish.turn > self.seen.turn
        healed = 0 if fresh or self.seen.state == "waiting" else 1
        base = MemberState() if fresh else self.seen
        self._asked = []
        self.seen = base.replace(
            state="up",
            since=time.time(),
            until=0.0,
            why="",
            restarts=base.restarts + healed,
            turn=wish.turn,
            post=wish.post.digest,
        )
        try:
            self.process = self.files.start(self.name, "member", self.name, cwd=wish.post.cwd, env=os.environ)
        except OSError as error:
            self._give_up(f"it could not be started: {error.strerror or error}")
            return
        self.files.note(self.name, self.seen)
        self._say(f"started as {self.process.pid}" + (f", restart {self.seen.restarts}" if healed else ""))

    # -- ending ------------------------------------------------------------------------------------

    def _ended(self, wish: MemberPlan) -> None:
        """It is gone: why, and when it is started again."""
        now, seen, code = time.time(), self.seen, self.code
        self.code = None
        if self._asked:
            self._asked = []
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
        path = self.files.log(self.name)
        try:
            words = last_lines(fs.tail(path, 4096), 1).splitlines()
            status = fs.status(path)
        except OSError:
            return 0.0
        said = status.st_mtime if status else 0.0
        until = waiting_until(words, said) if said >= self.seen.since else 0.0  # an earlier one's words
        return max(until, now + FIRST) if until else 0.0

    # -- watching and stopping ---------------------------------------------------------------------

    def _watch(self, pid: int, post: Post) -> None:
        """One that is silent for too long is killed, if it is to be watched for that: its task finds another."""
        if post.watch != "heal+stall" or self.seen.why:
            return
        silence = self.files.silent(post, self.seen.since)
        if silence > post.patience:
            why = f"silent for {say_duration(silence)}, so it was killed"
            self._say(why)
            self._note(why=why)
            _tell(pid, signal.SIGKILL)

    def _stop(self, pid: int, wish: MemberPlan) -> None:
        """Asked once, it finishes its task; asked again, it gives it back; then it is killed."""
        now = time.monotonic()
        if not self._asked:
            self._say("asked to stop")
            self._note(why=STOPPING)
            _tell(pid, signal.SIGTERM)
            self._asked.append(now)
        elif wish.now and len(self._asked) == 1:
            _tell(pid, signal.SIGTERM)
            self._asked.append(now)
        elif wish.now and now - self._asked[-1] > KILL_AFTER:
            self._say("does not stop; killed")
            _tell(pid, signal.SIGKILL)
            self._asked.append(now)

    def abandon(self) -> bool:
        """The queue was deleted: what we have started is told to end, then to end at once; True while it lives."""
        if self.process is None or self.process.poll() is not None:
            return False
        now = time.monotonic()
        if not self._asked or now - self._asked[-1] > KILL_AFTER:
            _tell(self.process.pid, signal.SIGTERM if len(self._asked) < 2 else signal.SIGKILL)
            self._asked.append(now)
        return True

    def _say(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {self.name}: {text}", flush=True)


def _how(code: int | None) -> str:
    if code is None:
        return "it is gone"
    return f"ended with {process.say_exit(code)}" if code >= 0 else process.say_exit(code)


def _tell(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it was faster


# -- the crew's supervisor -------------------------------------------------------------------------


#: How often it looks.
TICK = 0.2
#: How many looks there are between two at the length of logs, and two signs of life.
ROUND = 50


class Supervisor:
    """Keeps the plan."""

    def __init__(self, files: CrewFiles) -> None:
        self.files = files
        self.members: dict[str, SupervisedMember] = {}
        self.signals: list[int] = []
        self._looks = 0
        self._known: dict[str, MemberPlan] = {}
        self._refused = ""

    def heard(self, number: int, _: FrameType | None) -> None:
        """Told to stop: so is the crew. Told again: at once."""
        self.signals.append(number)

    def run(self, me: LocalMember) -> None:
        """Until nobody is wanted and nobody runs."""
        while self.look() or not self._leave(me):
            time.sleep(TICK)

    def look(self) -> bool:
        """One look at everybody; whether there is anybody to look at."""
        if self._is_deleted():
            living = [member for member in self.members.values() if member.abandon()]
            return bool(living)
        plan = self._plan()
        busy = False
        for name, wish in plan.items():
            member = self.members.setdefault(name, SupervisedMember(name, self.files))
            heeded = wish
            if self.signals:
                heeded = wish.replace(wanted=False, now=wish.now or len(self.signals) > 1)
            try:
                busy = member.look(heeded) or busy
            except (TaskpitError, OSError) as error:  # the disk refuses for a moment; the others go on
                print(f"{name}: {error}", flush=True)
                busy = True
        self._looks += 1
        if self._looks % ROUND == 0:
            self._trim(plan)
            self.files.touch(SUPERVISOR)
        return busy

    def _is_deleted(self) -> bool:
        """Whether the queue is gone; a disk that does not answer is not."""
        try:
            return not fs.exists(self.files.folder)
        except OSError:
            return False

    def _plan(self) -> dict[str, MemberPlan]:
        """The plan; the last one that was ours if another hand has written there, or it cannot be read."""
        try:
            self._known = self.files.plan()
            self._refused = ""
        except (Untrusted, Storage, OSError) as error:
            if str(error) != self._refused:
                print(f"{error}; the crew goes on as it was", flush=True)
            self._refused = str(error)
        return self._known

    def _leave(self, me: LocalMember) -> bool:
        """Gone, unless the plan has changed meanwhile: a command that changes it sees either us or no supervisor."""
        if self._is_deleted():
            return True  # and the folder is not made again
        lock = self.files.plan_lock()
        if not lock.take(wait=False):
            return False
        try:
            if not self.signals and any(wish.wanted for wish in self._plan().values()):
                return False
            me.leave()
            return True
        finally:
            lock.drop()

    def _trim(self, plan: dict[str, MemberPlan]) -> None:
        for name in (*plan, SUPERVISOR):
            try:
                if not fs.exists(self.files.log(name)):
                    continue
                fd = fs.open_file(self.files.log(name))
            except OSError:
                continue
            try:
                process.trim(fd)
            finally:
                os.close(fd)


def main() -> int:
    """Leave the terminal and the process that started us, then keep the plan."""
    root = sys.argv[1]
    if os.fork():
        os._exit(0)  # the starter learns that we are on our way; we lead no session and get no terminal
    os.chdir("/")
    files = CrewFiles(root)
    me = files.enter(SUPERVISOR)
    if me is None:
        return TAKEN
    supervisor = Supervisor(files)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, supervisor.heard)
    print(f"{time.strftime('%H:%M:%S')} supervisor: {os.getpid()} for {root}", flush=True)
    supervisor.run(me)
    print(f"{time.strftime('%H:%M:%S')} supervisor: no member is wanted, so it ends", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
