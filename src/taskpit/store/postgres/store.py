"""The port on PostgreSQL: each verb is one call of a function in the queue's schema, which decides.

A store is safe to use from many threads. The server's clock counts; a test hands in its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from taskpit.clock import Clock, iso
from taskpit.config import Config
from taskpit.decode import amount
from taskpit.errors import Invalid, Lost, TaskpitError, TooLarge
from taskpit.layouts.layout import check_word, check_worker
from taskpit.model import Claim, End, Lock, Said, Task, Want, worker_type
from taskpit.store.port import Info, Lapse, Mend
from taskpit.store.postgres import schema
from taskpit.store.postgres.address import PostgresAddress
from taskpit.store.postgres.archive import Archive
from taskpit.store.postgres.changelog import Changelog
from taskpit.store.postgres.contact import ContactKeeper
from taskpit.store.postgres.database import Database, Row
from taskpit.store.postgres.listen import Listener
from taskpit.store.postgres.opening import leave_address, leave_place, papers_of
from taskpit.store.postgres.rows import (
    PLAIN,
    UNREADABLE,
    Lapsed,
    as_json,
    end_item,
    is_plain,
    plain_row,
    read_task,
    task_item,
)
from taskpit.store.postgres.run_files import Files
from taskpit.store.postgres.upkeep import Upkeep
from taskpit.store.postgres.workers import PostgresMember, born, here, is_dead

#: Tasks and ends of one transaction.
BATCH = 500
#: Parts of an end for which there is no short way.
EXTRAS = ("children", "note", "back")
#: The sizes that a claim may have, as an array of the server.
SIZES = {None: "{f,t}", True: "{t}", False: "{f}"}
#: The largest priority that has a place in the order.
LARGEST_PRIORITY = (1 << 62) - 1
#: Dead rows are looked for this often, in seconds, and so many of them move the place where claims begin to look.
FLOOR_EVERY, DEAD = 1.0, 2000
#: A worker that stays signs again after this part of its lease.
SIGN_SHARE = 4
#: Hexadecimal digits as letters, which differ from the digits of a number before them.
_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")


class ServerClock(Clock):
    """The server's wall clock, as far as its difference from ours is known."""

    def __init__(self, offset: float) -> None:
        self.ahead = offset

    def now(self) -> float:
        """Return seconds since 1970 on the server."""
        return time.time() + self.ahead


class PostgresStore(Files, Changelog, Upkeep):
    """A queue in a schema of a database."""

    def __init__(
        self, address: PostgresAddress, *, clock: Clock | None = None, config: Config | None = None, papers: str = ""
    ) -> None:
        self.address = address
        self.database = Database(address)
        try:
            self._meta = meta = schema.look(self.database)
            self._papers = papers or papers_of(meta.space, meta.place, address.whole)
            self._home = "" if papers else meta.place
        except BaseException:
            self.database.close()
            raise
        self.config = config or meta.config
        self.clock: Clock = clock or ServerClock(meta.offset)
        self._given = clock
        self._space = meta.space
        self._archive = Archive(self._papers)
        self._listener = Listener(self.database, meta.space)
        self._contact = ContactKeeper(self._note_contact, self._leases)
        self._limits = as_json(dict(self.config.limits))
        self._members: dict[str, PostgresMember] = {}
        self._signed = 0.0
        #: The sweeps of this process: one that sweeps again and again keeps contact for others.
        self._sweeps = 0
        #: A process that comes and goes never looks for dead rows.
        self._raised = time.monotonic()
        self._turn = threading.Lock()

    def _answers(self, rows: Sequence[Row]) -> list[Said]:
        """Return the answers of a verb that may have made tasks ready, after waking sleeping processes."""
        answers = [Said(word) for words, _ in rows for word in words]
        if any(rings for _, rings in rows):
            self._ring()
        self._fold()
        return answers

    def _ring(self) -> None:
        try:
            self._ask("ring", channel=self._listener.channel)
        except TaskpitError:
            return  # the verb is done; a sleeping process looks again soon

    def _fold(self) -> None:
        """Fold the tally now and then, so that counting stays cheap."""
        if os.urandom(1) == b"\0":  # one call of 256
            try:
                self._ask("fold")
            except TaskpitError:
                return  # the verb is done; another call folds

    # -- in ----------------------------------------------------------------------------------------

    def allot(self, parents: Sequence[str]) -> list[str]:
        """Return the next numbers."""
        return [row[0] for row in self._ask("allot", count=len(parents))] if parents else []

    def vet(self, tasks: Sequence[Task]) -> None:
        """Raise Invalid or TooLarge for a bad id, a priority out of range, or too much text."""
        for task in tasks:
            check_word(task.id, "id")
            for need in task.needs:
                check_word(need, "need")
            if abs(task.priority) > LARGEST_PRIORITY:
                raise Invalid(f"priority {task.priority} is out of reach", id=task.id)
            self._items([task])

    def _check_size(self, task_id: str, doc: str) -> None:
        most = self.config.largest_task
        if 4 * len(doc) > most:  # no letter has more than four bytes
            size = len(doc.encode("utf-8", "replace"))
            if size > most:
                raise TooLarge(f"the task is {size} bytes; {most} is the most", id=task_id, size=size)

    def _items(self, tasks: Sequence[Task], **changes: str) -> str:
        items = [task_item(task, number) | changes for number, task in enumerate(tasks)]
        for item in items:
            self._check_size(item["id"], item["doc"])
        return as_json(items)

    def put(self, tasks: Sequence[Task]) -> list[Said]:
        """Put up to 500 tasks in one transaction."""
        if len(tasks) == 1 and is_plain(tasks[0]):
            row = plain_row(tasks[0])
            self._check_size(row[0], row[4])
            columns: dict[str, Any] = dict(zip(PLAIN, row, strict=True))
            return self._answers(self._ask("put_one", **columns))
        plain = all(map(is_plain, tasks)) and len({task.id for task in tasks}) == len(tasks)
        items = self._plain_items if plain else self._items
        batches: list[dict[str, Any]] = [
            {"items": items(tasks[start : start + BATCH])} for start in range(0, len(tasks), BATCH)
        ]
        return self._each("put_plain" if plain else "put", batches)

    def _plain_items(self, tasks: Sequence[Task]) -> str:
        rows = [plain_row(task) for task in tasks]
        for task_id, _, _, _, doc, _, _ in rows:
            self._check_size(task_id, doc)
        return as_json([(row[0], row[1], row[2].hex(), row[3].hex(), *row[4:]) for row in rows])

    # -- out ---------------------------------------------------------------------------------------

    def claim(self, want: Want) -> list[Claim]:
        """Claim in one call, however many tasks."""
        self._sign()
        if _is_plain(want):
            rows = self._ask("claim_one", **self._plain_want(want))
        else:
            rows = self._ask("claim", want=as_json(self._full_want(want)))
        claims = [self._claim(want, *row) for row in rows if row[1] is not None]  # doctor reports rows of no task
        broken = [claim for claim in claims if claim.task.title == UNREADABLE]
        if broken:  # a person must look at them
            self.finish([End(claim=one, task=one.task, action="blocked", details=one.task.hold) for one in broken])
            claims = [claim for claim in claims if claim not in broken]
            return claims if claims or want.ids else self.claim(want)
        return claims

    def turn(self, ends: Sequence[End], wants: Sequence[Want]) -> tuple[list[Said], list[list[Claim]]]:
        """End and claim for several workers in one transaction."""
        last = max(0, (len(ends) - 1) // BATCH * BATCH)
        answers = self.finish(ends[:last]) if last else []
        now = self.clock.now()
        items = [end_item(end, number, now) for number, end in enumerate(ends[last:])]
        self._sign()
        claims: list[list[Claim]] = [[] for _ in wants]
        if len(items) == len(wants) == 1 and _is_plain(wants[0]) and not any(items[0].get(more) for more in EXTRAS):
            ((word, rings, *claim),) = self._ask("turn_one", **items[0], **self._plain_want(wants[0]))
            rows: list[Row] = [(-1, ["ok" if word == "woke" else word], rings), (0, None, None, *claim)]
        else:
            wishes = as_json([self._full_want(want) for want in wants])
            rows = self._ask("turn", ends=as_json(items), wants=wishes)
        for number, words, rings, *claim in rows:
            if number < 0:
                answers += self._answers([(words, rings)])
            elif claim[1] is not None:
                claims[number].append(self._claim(wants[number], *claim))
        return answers, claims

    def _plain_want(self, want: Want) -> dict[str, Any]:
        """Return the parameters of a claim of one task of any sort."""
        check_worker(want.worker)
        member = self._members.get(want.worker)
        return {
            "worker": want.worker,
            "bigs": SIZES[want.big],
            "lease": want.lease,
            "call": want.call or _fresh(),
            "member": member.number if member and not want.verbatim else None,
            "limits": self._limits,
        }

    def _full_want(self, want: Want) -> dict[str, Any]:
        return {
            **self._plain_want(want),
            "count": want.count,
            "ids": list(want.ids),
            "tags": list(want.tags),
            "big": want.big,
            "even_held": want.even_held,
            "verbatim": want.verbatim,
            "limits": dict(self.config.limits),
        }

    def _claim(self, want: Want, task_id: str, doc: str, fence: str, since: float) -> Claim:
        task = read_task(doc, task_id)
        return Claim(
            task=task, worker=want.worker, fence=fence, lease=want.lease, attempt=task.attempts + 1, since=since
        )

    def renew(self, held: Sequence[Claim], lease: float) -> list[Said]:
        """Renew all in one statement that touches no index."""
        if not held:
            return []
        self._sign()
        pairs = as_json([(claim.task.id, claim.fence) for claim in held])
        return [Said(word) for word in self._ask("renew", held=pairs, lease=lease)[0][0]]

    def finish(self, ends: Sequence[End]) -> list[Said]:
        """End up to 500 claims in one transaction; a lost claim does not affect the others."""
        now = self.clock.now()
        batches = [
            [end_item(end, number, now) for number, end in enumerate(ends[start : start + BATCH])]
            for start in range(0, len(ends), BATCH)
        ]
        return self._each("finish", [{"ends": as_json(batch)} for batch in batches])

    def _each(self, name: str, batches: Sequence[dict[str, Any]]) -> list[Said]:
        """Run a verb for each batch; several are sent before the first answer comes."""
        if not batches:
            return []
        if len(batches) == 1:
            return self._answers(self._ask(name, **batches[0]))
        now = self._now()
        rows = self.database.ask_each(name, [{**batch, "now": now} for batch in batches])
        return self._answers([row for batch in rows for row in batch])

    def reopen(self, tasks: Sequence[Task]) -> list[Said]:
        """Make failed tasks ready again."""
        return self._answers(self._ask("reopen", items=self._items(tasks, worker="keeper"))) if tasks else []

    def stop(self, ids: Sequence[str]) -> None:
        """Ask the holders of these tasks to stop; they learn of it when they renew."""
        for task_id in ids:
            check_word(task_id, "id")
        self._ask("stop", ids=as_json(ids))

    # -- pausing -----------------------------------------------------------------------------------

    def pause(self, reason: str, seconds: float, worker: str) -> None:
        """Grant no claims for so long."""
        now, reason = self.clock.now(), reason.replace("\0", "")
        self._ask(
            "pause",
            reason=f"paused by {worker}: {reason}",
            until=now + seconds if seconds else 0.0,
            at=now,
            worker=worker,
            action="paused",
            details=reason,
        )

    def resume(self, worker: str) -> bool:
        """Grant claims again; return False if the queue was not paused."""
        resumed = bool(self._ask("resume", at=self.clock.now(), worker=worker, action="resumed"))
        if resumed:
            self._ring()
        return resumed

    def paused(self) -> str:
        """Return why and until when the queue is paused."""
        rows = self._ask("paused", at=self.clock.now())
        if not rows:
            return ""
        reason, until = rows[0]
        return f"{reason}, until {iso(amount(until))}" if until else str(reason)

    # -- workers -----------------------------------------------------------------------------------

    def join(self, worker: str, lease: float, *, patience: float = 1.0) -> PostgresMember:  # noqa: ARG002
        """Register a worker by its name and process; it stays while the store is used."""
        check_worker(worker)
        process: dict[str, Any] = {"host": here(), "pid": os.getpid(), "born": born(os.getpid())}
        number = self._ask("join", worker=worker, lease=lease, dead=as_json(self._dead()), **process)[0][0]
        if number is None:
            raise Lost(f"a living process already works here as {worker}", worker=worker)
        self._own_papers()
        leave_address(self._papers, self.address.whole)  # its commands find the queue by its papers
        member = PostgresMember(worker, number, lease, self._leave)
        with self._turn:
            self._members[worker] = member
        self._keep_contact()
        return member

    def _keep_contact(self) -> None:
        if self._given is None:  # a test's clock knows no outage
            self._contact.start()

    def _own_papers(self) -> None:
        """Note the queue in its papers, unless a person named the folder. A copy of the queue leaves them alone."""
        if self._home:
            leave_place(self._papers, self._home)

    def archive(self, older: float, *, dry_run: bool = False) -> list[Mend]:
        """Move done tasks that ended so many seconds ago to files, where they are still found."""
        if not dry_run:
            self._own_papers()
        return self._archive.put_away(self._ask, older, dry_run=dry_run)

    def _leave(self, member: PostgresMember) -> None:
        with self._turn:
            if self._members.get(member.worker) is member:
                del self._members[member.worker]
        self._ask("leave", number=member.number)

    def _dead(self) -> list[int]:
        """Return the registered workers of this machine whose process is gone."""
        rows = self._ask("neighbours", host=here())
        return [number for number, host, pid, birth in rows if is_dead(host, pid, birth)]

    def _leases(self) -> list[float]:
        """Return the leases that contact is kept for."""
        with self._turn:
            leases = [member.lease for member in self._members.values()]
        return [*leases, self.config.lease] if self._sweeps > 1 else leases

    def _note_contact(self) -> None:
        self._ask("note_contact")
        self._sign()

    def _sign(self) -> None:
        """Sign for our workers, and look for dead rows, when it is time."""
        now = time.monotonic()
        with self._turn:
            raises = now - self._raised >= FLOOR_EVERY
            self._raised = now if raises else self._raised
            members = list(self._members.values())
            signs = bool(members) and now - self._signed >= min(one.lease for one in members) / SIGN_SHARE
            self._signed = now if signs else self._signed
        if raises:
            self._ask("raise_floor", many=DEAD)
        if signs:
            numbers = as_json([one.number for one in members])
            self._ask("sign", numbers=numbers, lease=max(one.lease for one in members))

    def lapsed(self, *, dry_run: bool = False) -> list[Lapse]:
        """Return claims that were not renewed although they could have been, and those of workers that are gone.

        After a break in our own contact, a claim is left alone for as long as its lease.
        """
        schema.look(self.database)  # sweeps come often: a newer schema may no longer serve this program
        dead = self._dead()
        rows = self._ask("lapsed", dead=as_json(dead), dry=dry_run)
        if dead and not dry_run:
            self._ask("bury", numbers=as_json(dead))
        self._sweeps += not dry_run
        if self._sweeps > 1:
            self._keep_contact()
        lasts = self.database.contact.lasts
        return [
            _lapse(*row, gone=gone, called_off=called_off)
            for *row, seconds, gone, called_off in rows
            if gone or self._given or lasts(seconds)
        ]

    # -- locks -------------------------------------------------------------------------------------

    def lock(self, name: str, worker: str, seconds: float, kind: str = "") -> Lock:
        """Take a name; its number only grows, across fail-overs too."""
        check_word(name, "name of a lock")
        check_worker(worker)
        if seconds <= 0:
            raise Invalid("a lock must last some time", name=name)
        kind = kind or worker_type(worker)
        lock = _lock(*self._ask("take_lock", name=name, worker=worker, kind=kind, seconds=seconds)[0])
        if lock.holder != worker:
            message = f"{name} is held by {lock.holder} until {iso(lock.expires)}"
            raise Lost(message, hint="`pit lock` shows all of them.", holder=lock.holder, id=name)
        return lock

    def relock(self, lock: Lock, seconds: float) -> Said:
        """Extend a lock, if it is still the same."""
        values: dict[str, Any] = {"name": lock.name, "holder": lock.holder, "number": lock.number, "seconds": seconds}
        return Said.OK if self._ask("keep_lock", **values)[0][0] else Said.LOST

    def unlock(self, lock: Lock) -> Said:
        """Free a lock, if it is still the same."""
        values: dict[str, Any] = {"name": lock.name, "holder": lock.holder, "number": lock.number}
        return Said.OK if self._ask("free_lock", **values)[0][0] else Said.LOST

    def locks(self) -> list[Lock]:
        """Return the locks that are held, by name."""
        return [_lock(*row) for row in self._ask("locks")]

    # -- the rest ----------------------------------------------------------------------------------

    def wait(self, timeout: float) -> bool:
        """Sleep until a notification comes, or that many seconds."""
        self._sign()
        return self._listener.wait(timeout)

    def info(self) -> Info:
        """Return what this store is, and how durable the server was set to be when it was opened."""
        return Info(
            kind="postgres",
            layout="table",
            where=self.address.shown,
            durability=self._meta.durability,
            largest_task=self.config.largest_task,
            wake_bound=self._listener.bound,
            papers=self._papers,
            warnings=self._meta.warnings,
        )

    def close(self) -> None:
        """Close every connection."""
        self._contact.close()
        self._listener.close()
        self.database.close()


def _is_plain(want: Want) -> bool:
    """Whether it is a claim of one task of any sort."""
    return want.count == 1 and not (want.ids or want.tags or want.even_held or want.verbatim)


def _fresh() -> str:
    """Return the name of one request: a few random letters."""
    return f"{int.from_bytes(os.urandom(5), 'big'):08x}"[-8:].translate(_LETTERS)


def _lapse(task_id: str, doc: str, worker: str, fence: str, until: float, *, gone: bool, called_off: bool) -> Lapse:
    task = read_task(doc, task_id)
    reason = f"{worker} is dead" if gone else f"{fence} did not renew"
    claim = Lapsed(task=task, worker=worker, fence=fence, attempt=task.attempts + 1, ended=until)
    return Lapse(claim=claim, reason=reason, called_off=called_off, until=until)


def _lock(name: str, holder: str, kind: str, number: int, acquired: object, expires: object) -> Lock:
    return Lock(name=name, holder=holder, kind=kind, number=number, acquired=amount(acquired), expires=amount(expires))
