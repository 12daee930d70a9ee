"""Peers that are servers: Redis, beanstalkd, PostgreSQL. Each runs in a temporary folder and is ended by its pid."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import subprocess
import time
from tempfile import mkdtemp
from typing import Any

from arena.entrants import RESULT, Entrant, Session, needs_command, needs_module

__all__ = ["Beanstalkd", "Postgres", "Redis"]

#: How long a server may take to begin or to end.
PATIENCE = 30.0


class _Server(Entrant):
    """An entrant with a process of its own, begun when first needed, kept for the whole run."""

    #: The signal by which it ends at once and in good order.
    ending = signal.SIGTERM

    def __init__(self) -> None:
        super().__init__()
        self.process: subprocess.Popen[bytes] | None = None
        #: Its files, on the disk that is measured; its socket, whose path must be short.
        self.home = ""
        self.sockets = ""

    def start(self, root: str) -> None:
        """The server runs, and has nothing of us."""
        super().start(root)
        if self.process is None or self.process.poll() is not None:
            self.home = os.path.join(os.path.dirname(root), f"server-{self.name.replace(' ', '-')}")
            self.sockets = mkdtemp(prefix="bench-")
            os.makedirs(self.home, exist_ok=True)
            try:
                self.process = self._begin()
                self._until_ready()
            except BaseException:
                self.end()
                raise
        self._empty()

    def _begin(self) -> subprocess.Popen[bytes]:
        raise NotImplementedError

    def _spawn(self, argv: list[str], **more: Any) -> subprocess.Popen[bytes]:
        """The server's process, its words in a log beside its data."""
        with open(f"{self.sockets}/log", "ab") as log:
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home, **more)

    def _until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.open().close()
                return
            except Exception as error:  # its client's own errors: not there yet
                ended = self.process is not None and self.process.poll() is not None
                if ended or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} does not begin: {error}") from error
            time.sleep(0.05)

    def _empty(self) -> None:
        """Nothing of an earlier measurement is left."""

    def end(self) -> None:
        """Ask it to end, by its pid; insist after a while."""
        if self.process is not None:
            self.process.send_signal(self.ending)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
        for folder in (self.home, self.sockets):
            if folder:
                shutil.rmtree(folder, ignore_errors=True)


class _RedisSession(Session):
    """A list; claimed by LMOVE to the worker's own list; done by LREM there and SET of the result."""

    def __init__(self, socket: str) -> None:
        import redis

        self.redis = redis.Redis(unix_socket_path=socket, socket_timeout=PATIENCE)
        self.redis.ping()
        self.mine = f"claimed:{os.getpid()}"
        self._number = 0

    def items(self, first: int, count: int) -> list[bytes]:
        return [f"{number:08d}".encode() + b"x" * 492 for number in range(first, first + count)]

    def put(self, items: list[bytes]) -> None:
        self.redis.lpush("ready", *items)

    def claim(self, count: int) -> list[bytes]:
        if count == 1:
            found = [self.redis.lmove("ready", self.mine, "RIGHT", "LEFT")]
        else:
            pipe = self.redis.pipeline(transaction=False)
            for _ in range(count):
                pipe.lmove("ready", self.mine, "RIGHT", "LEFT")
            found = pipe.execute()
        return [item for item in found if item is not None]

    def take(self, timeout: float) -> list[bytes]:
        item = self.redis.blmove("ready", self.mine, timeout, "RIGHT", "LEFT")
        return [] if item is None else [item]

    def done(self, tokens: list[bytes]) -> None:
        pipe = self.redis.pipeline(transaction=True)
        for item in tokens:
            pipe.lrem(self.mine, -1, item)
            pipe.set(b"result:" + item[:8], RESULT)
        pipe.execute()

    def close(self) -> None:
        self.redis.close()


class Redis(_Server):
    """Redis with its append-only file."""

    note = "LPUSH, LMOVE, LREM + SET; no lease, no priority; a server, over a socket file"

    def __init__(self, fsync: str) -> None:
        super().__init__()
        self.fsync = fsync
        self.name = f"Redis {fsync}"
        self.durability = "power" if fsync == "always" else "about 1 s"

    def missing(self) -> str:
        """Server and client."""
        return needs_command("redis-server") or needs_module("redis")

    def _begin(self) -> subprocess.Popen[bytes]:
        options = {
            "port": "0",
            "unixsocket": f"{self.sockets}/s",
            "dir": self.home,
            "appendonly": "yes",
            "appendfsync": self.fsync,
            "save": "",
            "daemonize": "no",
            "auto-aof-rewrite-percentage": "0",
        }
        return self._spawn(["redis-server", *(word for key, value in options.items() for word in (f"--{key}", value))])

    def _empty(self) -> None:
        session = self.open()
        session.redis.flushall()
        session.close()

    def open(self) -> _RedisSession:
        """A connection."""
        return _RedisSession(f"{self.sockets}/s")


class _BeanSession(Session):
    def __init__(self, socket: str, tube: str) -> None:
        import greenstalk

        self.greenstalk = greenstalk
        self.client = greenstalk.Client(socket, encoding=None, use=tube, watch=tube)

    def put(self, items: list[bytes]) -> None:
        for item in items:
            self.client.put(item, ttr=900)

    def claim(self, count: int) -> list[Any]:
        taken: list[Any] = []
        while len(taken) < count:
            try:
                taken.append(self.client.reserve(timeout=0))
            except self.greenstalk.TimedOutError:
                break
        return taken

    def take(self, timeout: float) -> list[Any]:
        try:
            return [self.client.reserve(timeout=int(timeout))]
        except self.greenstalk.TimedOutError:
            return []

    def done(self, tokens: list[Any]) -> None:
        for job in tokens:
            self.client.delete(job)

    def close(self) -> None:
        self.client.close()


class Beanstalkd(_Server):
    """beanstalkd with its binlog."""

    note = "put, reserve, delete; no result; a server, over a socket file"

    def __init__(self, milliseconds: int) -> None:
        super().__init__()
        self.milliseconds = milliseconds
        self.name = "beanstalkd" if milliseconds else "beanstalkd synced"
        self.durability = f"about {milliseconds} ms" if milliseconds else "power"
        self._tube = 0

    def missing(self) -> str:
        """Server and client."""
        return needs_command("beanstalkd") or needs_module("greenstalk")

    def _begin(self) -> subprocess.Popen[bytes]:
        argv = ["beanstalkd", "-l", f"unix:{self.sockets}/s", "-b", self.home, "-f", str(self.milliseconds)]
        if os.geteuid() == 0:
            argv += ["-u", "root"]
        return self._spawn(argv)

    def _empty(self) -> None:
        self._tube += 1

    def open(self) -> Session:
        """A connection."""
        return _BeanSession(f"{self.sockets}/s", f"bench-{self._tube}")


SCHEMA = """
create table task (id bigserial primary key, priority int not null default 0, state smallint not null default 0,
    payload bytea not null, worker text, lease timestamptz, result bytea);
create index next on task (priority desc, id) where state = 0;
"""
PUT = "insert into task (payload) select unnest(%s::bytea[])"
CLAIM = """
update task set state = 1, worker = %s, lease = now() + interval '15 minutes' where id = any(array(
    select id from task where state = 0 order by priority desc, id limit %s for update skip locked))
returning id, payload"""
DONE = "update task set state = 2, result = %s where id = any(%s) and state = 1 and worker = %s"


class _PostgresSession(Session):
    def __init__(self, home: str) -> None:
        import psycopg

        self.db = psycopg.connect(host=home, user="bench", dbname="postgres", autocommit=True, prepare_threshold=1)
        self.worker = f"w{os.getpid()}"

    def put(self, items: list[bytes]) -> None:
        self.db.execute(PUT, (items,))

    def claim(self, count: int) -> list[int]:
        return [row[0] for row in self.db.execute(CLAIM, (self.worker, count)).fetchall()]

    def done(self, tokens: list[int]) -> None:
        self.db.execute(DONE, (RESULT, tokens, self.worker))

    def close(self) -> None:
        self.db.close()


class Postgres(_Server):
    """PostgreSQL with SKIP LOCKED."""

    name = "PostgreSQL"
    durability = "power"
    ending = signal.SIGINT
    note = "SKIP LOCKED; lease, priorities and result, one statement each; a server, over a socket file"

    def missing(self) -> str:
        """Server and client, and somebody to run it as."""
        if not _postgres("initdb"):
            return "the command initdb is not installed"
        if os.geteuid() == 0 and not _unprivileged():
            return "PostgreSQL refuses to run as root, and there is no other user"
        return needs_module("psycopg")

    def _begin(self) -> subprocess.Popen[bytes]:
        more: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = _unprivileged()
            more = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
            for folder in (self.home, self.sockets):
                os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
        data = f"{self.home}/data"
        make = [_postgres("initdb"), "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--locale=C"]
        made = subprocess.run(make, check=False, capture_output=True, text=True, cwd=self.home, timeout=120, **more)
        if made.returncode:
            raise RuntimeError(f"initdb: {made.stderr.strip()[-200:]}")
        settings = [f"unix_socket_directories={self.sockets}", "listen_addresses=", "fsync=on", "synchronous_commit=on"]
        options = [word for setting in settings for word in ("-c", setting)]
        return self._spawn([_postgres("postgres"), "-D", data, *options], **more)

    def _empty(self) -> None:
        session = self.open()
        session.db.execute("drop table if exists task")
        session.db.execute(SCHEMA)
        session.close()

    def open(self) -> _PostgresSession:
        """A connection."""
        return _PostgresSession(self.sockets)


def _postgres(command: str) -> str:
    """Where this command of PostgreSQL is; empty if nowhere."""
    found = shutil.which(command) or next(iter(sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{command}"))), "")
    return os.path.realpath(found) if found else ""


def _unprivileged() -> str:
    """Somebody who is not root; empty if there is nobody."""
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    return ""
