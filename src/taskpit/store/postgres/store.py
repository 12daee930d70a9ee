"""The port on PostgreSQL: each verb is one call of a function in the queue's schema. Decides nothing itself.

Safe to use from many threads. The server's clock counts; a test hands in its own.
"""

from __future__ import annotations

import os
import threading
import time

from taskpit.clock import Clock, iso
from taskpit.errors import Invalid, Lost, TaskpitError, TooLarge
from taskpit.layouts.layout import check_word, check_worker
from taskpit.model import Claim, End, Said
from taskpit.store.port import Info, Lapse
from taskpit.store.postgres import locks, run_files, schema, upkeep
from taskpit.store.postgres.archive import Archive
from taskpit.store.postgres.cards import Look
from taskpit.store.postgres.changelog import Changelog
from taskpit.store.postgres.connection import Wire
from taskpit.store.postgres.contact import ContactKeeper
from taskpit.store.postgres.opening import leave_address, leave_place, papers_of
from taskpit.store.postgres.row_text import UNREADABLE, Lapsed, as_ending, as_item, as_json, as_row, is_plain, read_task
from taskpit.store.postgres.wakeup import Listening
from taskpit.store.postgres.workers import PostgresMember, born, here, is_dead
from taskpit.store.run_files import none_of
from taskpit.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from taskpit.config import Config
    from taskpit.model import Card, Event, Lock, Page, State, Task, Want
    from taskpit.store.port import Artifact, Mend
    from taskpit.store.postgres.address import PostgresAddress

#: Tasks and ends that go over the wire at once, so that no call is larger than the server likes.
TOGETHER = 500
#: What is told of tasks that nothing holds: of one, and of many in columns, one for each word of `as_row`.
PLAIN = ("id", "big", "key", "wish", "doc", "worker", "details")
PUT_ONE = (
    "SELECT said, rings FROM {s}.put_one(%(id)s, %(big)s, %(key)s, %(wish)s, %(doc)s, %(worker)s, %(details)s, %(now)s)"
)
PUT_PLAIN = PUT_ONE.replace("put_one", "put_plain")
PUT = "SELECT said, rings FROM {s}.put(%(items)s::json, %(now)s)"
REOPEN = "SELECT said, rings FROM {s}.reopen(%(items)s::json, %(again)s, %(now)s)"
FINISH = "SELECT said, rings FROM {s}.finish(%(ends)s::json, %(again)s, %(now)s)"
CLAIM_ONE = """
    SELECT id, doc, fence, since FROM {s}.claim_one(
        %(worker)s, %(bigs)s, %(lease)s, %(call)s, %(member)s, %(limits)s, %(again)s, %(now)s)
"""
TURN_ONE = """
    SELECT said, rings, id, doc, fence, since FROM {s}.turn_one(
        %(id)s, %(fence)s, %(mark)s, %(seen)s, %(verdict)s, %(result)s, %(attempt)s, %(action)s, %(details)s,
        %(worker)s, %(bigs)s, %(lease)s, %(call)s, %(member)s, %(limits)s, %(again)s, %(now)s)
"""
#: What an end may bring along, or go back with, for which there is no short way.
MORE = ("children", "note", "back")
#: The largest priority that can be sorted by.
LARGEST_PRIORITY = (1 << 62) - 1
#: How often it is looked whether dead rows lie in the way of claims, in seconds, and how many that takes.
FLOOR_EVERY, DEAD = 1.0, 2000
#: A worker that stays says so again after this part of its lease.
SIGN_OF_LIFE = 4


class ServerClock(Clock):
    """The server's wall clock, as far as this machine knows how much its own is off."""

    def __init__(self, offset: float) -> None:
        self.ahead = offset

    def now(self) -> float:
        """Seconds since 1970 on the server."""
        return time.time() + self.ahead


class PostgresStore:
    """A queue in a schema of a database."""

    def __init__(
        self, address: PostgresAddress, *, clock: Clock | None = None, config: Config | None = None, papers: str = ""
    ) -> None:
        self.address = address
        self.wire = Wire(address)
        try:
            self._meta = meta = schema.look(self.wire)
            self._papers = papers or papers_of(meta.space, meta.place, address.whole)
            self._place = "" if papers else meta.place
        except BaseException:
            self.wire.close()
            raise
        self.config = config or meta.config
        self.clock: Clock = clock or ServerClock(meta.offset)
        self._given = clock

        self._archive = Archive(self._papers)
        self._look = Look(self.wire, self.config.limits, self._archive)
        self._log = Changelog(self.wire, meta.space)
        self._bell = Listening(self.wire, meta.space)
        self._limits = as_json(dict(self.config.limits))
        self._members: dict[str, PostgresMember] = {}
        self._signed = 0.0
        self._contact = ContactKeeper(self._note_contact, self._leases)
        #: When it was last looked whether dead rows lie in the way; a process that comes and goes never looks.
        self._raised = time.monotonic()
        self._turn = threading.Lock()

    def _now(self) -> float | None:
        """What the server is told of the time: nothing, it knows better; but a test's clock counts for all."""
        return self._given.now() if self._given else None

    def _ask(
        self, sql: str, *, repeat: bool = True, fetch: bool = True, slow: bool = False, **words: Any
    ) -> list[tuple[Any, ...]]:
        told = {"now": self._now(), **words} if fetch else None
        return self.wire.ask(sql, told, repeat=repeat, slow=slow)

    def _tell(self, sql: str, **words: Any) -> list[Said]:
        """A verb that may bring news: what it said of each, after whoever sleeps was woken."""
        said, rings = self._ask(sql, **words)[0]
        if rings:
            self._ring()
        return [Said(word) for word in said]

    def _ring(self) -> None:
        try:
            self._ask("SELECT {s}.ring(%(channel)s)", channel=self._bell.channel)
        except TaskpitError:
            return  # it is in; whoever sleeps looks again soon

    # -- in ----------------------------------------------------------------------------------------

    def allot(self, parents: Sequence[str]) -> list[str]:
        """The next numbers."""
        return [row[0] for row in self._ask("SELECT {s}.allot(%(count)s)", count=len(parents))] if parents else []

    def vet(self, tasks: Sequence[Task]) -> None:
        """Ids as on any layout, numbers that sort, and no more text than the settings allow."""
        for task in tasks:
            check_word(task.id, "id")
            for need in task.needs:
                check_word(need, "need")
            if abs(task.priority) > LARGEST_PRIORITY:
                raise Invalid(f"priority {task.priority} is out of reach", id=task.id)
            self._items([task])

    def _fits(self, task_id: str, doc: str) -> None:
        """TooLarge for a text that is longer than the settings allow."""
        most = self.config.largest_task
        if 4 * len(doc) > most:  # no letter has more bytes than that
            size = len(doc.encode("utf-8", "replace"))
            if size > most:
                raise TooLarge(f"the task is {size} bytes; {most} is the most", id=task_id, size=size)

    def _items(self, tasks: Sequence[Task], **told: str) -> str:
        items = [as_item(task, number) | told for number, task in enumerate(tasks)]
        for item in items:
            self._fits(item["id"], item["doc"])
        return as_json(items)

    def put(self, tasks: Sequence[Task]) -> list[Said]:
        """Each batch is one transaction; tasks that nothing holds are told in fewer words."""
        said: list[Said] = []
        for start in range(0, len(tasks), TOGETHER):
            batch = tasks[start : start + TOGETHER]
            if not all(map(is_plain, batch)) or len({task.id for task in batch}) < len(batch):
                said += self._tell(PUT, items=self._items(batch))
                continue
            rows = [as_row(task) for task in batch]
            for task_id, _, _, _, doc, _, _ in rows:
                self._fits(task_id, doc)
            columns = rows[0] if len(rows) == 1 else [list(column) for column in zip(*rows, strict=True)]
            sql = PUT_ONE if len(rows) == 1 else PUT_PLAIN
            said += self._tell(sql, **dict(zip(PLAIN, columns, strict=True)))
        return said

    # -- out ---------------------------------------------------------------------------------------

    def claim(self, want: Want) -> list[Claim]:
        """One function call, however many there are."""
        self._sign()
        if _is_plain(want):
            rows = self._ask(CLAIM_ONE, **self._wish(want))
        else:
            rows = self._ask(
                "SELECT * FROM {s}.claim(%(want)s::jsonb, %(again)s, %(now)s)", want=as_json(self._full_wish(want))
            )
        claims = [self._claim(want, *row) for row in rows if row[1] is not None]  # a row of no task: doctor tells of it
        broken = [claim for claim in claims if claim.task.title == UNREADABLE]
        if broken:  # set aside for a person: nobody works on what cannot be read
            self.finish([End(claim=one, task=one.task, action="blocked", details=one.task.hold) for one in broken])
            claims = [claim for claim in claims if claim not in broken]
            return claims if claims or want.ids else self.claim(want)
        return claims

    def turn(self, ends: Sequence[End], wants: Sequence[Want]) -> tuple[list[Said], list[list[Claim]]]:
        """Ends and claims of several workers in one call and one transaction; a worker's own in fewer words."""
        last = max(0, (len(ends) - 1) // TOGETHER * TOGETHER)
        said = self.finish(ends[:last]) if last else []
        now = self.clock.now()
        told = [as_ending(end, number, now) for number, end in enumerate(ends[last:])]
        self._sign()
        claims: list[list[Claim]] = [[] for _ in wants]
        if len(told) == len(wants) == 1 and _is_plain(wants[0]) and not any(told[0].get(more) for more in MORE):
            ((word, rings, *claim),) = self._ask(TURN_ONE, **told[0], **self._wish(wants[0]))
            rows = [(-1, ["ok" if word == "woke" else word], rings), (0, None, None, *claim)]
        else:
            rows = self._ask(
                "SELECT * FROM {s}.turn(%(ends)s::json, %(wants)s::jsonb, %(again)s, %(now)s)",
                ends=as_json(told),
                wants=as_json([self._full_wish(want) for want in wants]),
            )
        for number, words, rings, *claim in rows:
            if number < 0:
                said += [Said(word) for word in words]
                if rings:
                    self._ring()
            elif claim[1] is not None:
                claims[number].append(self._claim(wants[number], *claim))
        return said, claims

    def _wish(self, want: Want) -> dict[str, Any]:
        """What the server is told of a wish for one task of any sort."""
        check_worker(want.worker)
        member = self._members.get(want.worker)
        return {
            "worker": want.worker,
            "bigs": [False, True] if want.big is None else [want.big],
            "lease": want.lease,
            "call": want.call or _fresh(),
            "member": member.number if member and not want.verbatim else None,
            "limits": self._limits,
        }

    def _full_wish(self, want: Want) -> dict[str, Any]:
        """The same of any wish."""
        return {
            **self._wish(want),
            "count": want.count,
            "ids": [task_id.replace("\0", "\ufffd") for task_id in want.ids],  # which nobody is called
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
        """All in one statement that touches no index."""
        if not held:
            return []
        ids, fences = [claim.task.id for claim in held], [claim.fence for claim in held]
        sql = "SELECT {s}.renew(%(ids)s, %(fences)s, %(lease)s, %(now)s)"
        self._sign()
        return [Said(word) for word in self._ask(sql, ids=ids, fences=fences, lease=lease)[0][0]]

    def finish(self, ends: Sequence[End]) -> list[Said]:
        """Each batch is one transaction; one lost claim spoils no other."""
        said: list[Said] = []
        for start in range(0, len(ends), TOGETHER):
            now = self.clock.now()
            told = [as_ending(end, number, now) for number, end in enumerate(ends[start : start + TOGETHER])]
            said += self._tell(FINISH, ends=as_json(told))
        return said

    def reopen(self, tasks: Sequence[Task]) -> list[Said]:
        """Failed ones become ready."""
        if not tasks:
            return []
        return self._tell(REOPEN, items=self._items(tasks, worker="keeper"))

    def stop(self, ids: Sequence[str]) -> None:
        """Seen at the next renewal, by this holder or the next."""
        for task_id in ids:
            check_word(task_id, "id")
        self._ask(
            "INSERT INTO {s}.stop SELECT t.id FROM {s}.task t WHERE t.id = ANY (%(ids)s) AND t.state = 'o' "
            "ON CONFLICT DO NOTHING RETURNING id",
            ids=list(ids),
        )

    # -- pausing -----------------------------------------------------------------------------------

    def pause(self, reason: str, seconds: float, worker: str) -> None:
        """Until then."""
        upkeep.pause(self._ask, self.clock, reason, seconds, worker)

    def resume(self, worker: str) -> bool:
        """No longer."""
        was = upkeep.resume(self._ask, self.clock, worker)
        if was:
            self._ring()
        return was

    def paused(self) -> str:
        """What was said, unless its time has passed."""
        return upkeep.paused(self._ask, self.clock)

    # -- who works ---------------------------------------------------------------------------------

    def join(self, worker: str, lease: float, *, patience: float = 1.0) -> PostgresMember:  # noqa: ARG002 - no judge is in the way
        """A row with the worker's name and process; it lasts while the store is used."""
        check_worker(worker)
        row = self._ask(
            "SELECT {s}.join_as(%(worker)s, %(host)s, %(pid)s, %(born)s, %(lease)s, %(dead)s::bigint[], "
            "%(again)s, %(now)s)",
            worker=worker,
            host=here(),
            pid=os.getpid(),
            born=born(os.getpid()),
            lease=lease,
            dead=self._dead(),
        )[0]
        if row[0] is None:
            raise Lost(f"a living process already works here as {worker}", worker=worker)
        member = PostgresMember(worker, row[0], lease, self._leave)
        if self._given is None:  # a test's clock knows no outage
            self._contact.start()
        self._own_papers()
        leave_address(self._papers, self.address.whole)  # what it runs finds the queue by its papers
        with self._turn:
            self._members[worker] = member
        return member

    def _own_papers(self) -> None:
        """They say whose they are, unless a person has named the folder: a copy of the queue leaves them alone."""
        if self._place:
            leave_place(self._papers, self._place)

    def _leave(self, member: PostgresMember) -> None:
        with self._turn:
            if self._members.get(member.worker) is member:
                del self._members[member.worker]
        self._ask("DELETE FROM {s}.member m WHERE m.id = %(number)s RETURNING 1", number=member.number)

    def _leases(self) -> list[float]:
        """The leases of our workers that stay."""
        with self._turn:
            return [member.lease for member in self._members.values()]

    def _note_contact(self) -> None:
        # Not waiting for the disk: a note lost in a crash makes the gap longer, never shorter.
        self._ask("SELECT set_config('synchronous_commit', 'off', true), {s}.note_contact(%(now)s)")
        self._sign()

    def _dead(self) -> list[int]:
        """Workers of this machine whose process is gone."""
        rows = self._ask("SELECT m.id, m.host, m.pid, m.born FROM {s}.member m WHERE m.host = %(host)s", host=here())
        return [number for number, host, pid, birth in rows if is_dead(host, pid, birth)]

    def _sign(self) -> None:
        """Our workers that stay live, and say so now and then; and claims begin to look where it is worth it."""
        now = time.monotonic()
        with self._turn:
            raises = now - self._raised >= FLOOR_EVERY
            self._raised = now if raises else self._raised
        if raises:
            self._ask("SELECT {s}.raise_floor(%(many)s)", many=DEAD)
        with self._turn:
            members = list(self._members.values())
            if not members or time.monotonic() - self._signed < min(one.lease for one in members) / SIGN_OF_LIFE:
                return
            self._signed = time.monotonic()
        self._ask(
            "UPDATE {s}.member m SET until = {s}.time_of(%(now)s) + %(lease)s, lease = %(lease)s, graced = 0 "
            "WHERE m.id = ANY (%(ids)s) RETURNING 1",
            ids=[one.number for one in members],
            lease=max(one.lease for one in members),
        )

    def lapsed(self, *, dry_run: bool = False) -> list[Lapse]:
        """Those past their end that could have been renewed, and those of workers that stayed and are gone.

        After a break in our own contact, those whose lease is shorter than the time since then are left alone.
        """
        schema.look(self.wire)  # a sweep comes often: whether this program may still work here is asked again
        dead = self._dead()
        rows = self._ask("SELECT * FROM {s}.lapsed(%(dead)s::bigint[], %(dry)s, %(now)s)", dead=dead, dry=dry_run)
        if dead and not dry_run:
            self._ask("DELETE FROM {s}.member m WHERE m.id = ANY (%(dead)s) RETURNING 1", dead=dead)
        lasts = self.wire.contact.lasts
        return [
            self._lapse(*row, gone=gone, called_off=called_off)
            for *row, seconds, gone, called_off in rows
            if gone or self._given or lasts(seconds)
        ]

    def _lapse(
        self, task_id: str, doc: str, worker: str, fence: str, until: float, *, gone: bool, called_off: bool
    ) -> Lapse:
        task = read_task(doc, task_id)
        reason = f"{worker} is dead" if gone else f"{fence} did not renew"
        claim = Lapsed(task=task, worker=worker, fence=fence, attempt=task.attempts + 1, ended=until)
        return Lapse(claim=claim, reason=reason, called_off=called_off, until=until)

    # -- keeping -----------------------------------------------------------------------------------

    def mend(self, *, dry_run: bool = False) -> list[Mend]:  # noqa: ARG002 - a transaction leaves nothing half done
        """Nothing to repair; sweeps come often, so nothing is searched for either."""
        return []

    def fix(self, *, dry_run: bool = False) -> list[Mend]:
        """What a hand in the tables left nowhere is ready again: looks at every task."""
        return upkeep.mend(self._ask, dry_run=dry_run)

    def check(self) -> list[Mend]:
        """What stands nowhere, or waits for nothing; and what on the server is in the way of cleaning up."""
        return [*upkeep.mend(self._ask, dry_run=True), *upkeep.hindrances(self._ask, self.address.schema)]

    def compost(self, *, dry_run: bool = False) -> list[Mend]:
        """Old logs leave a line each, old results how they ended, where settings say so; dead rows are cleaned away."""
        if not dry_run:
            upkeep.vacuum(self._ask, self.address.schema)
        return upkeep.compost(self._ask, self.config, dry_run=dry_run)

    def archive(self, older: float, *, dry_run: bool = False) -> list[Mend]:
        """Done tasks that ended so many seconds ago leave for files among the papers, by which they are still found."""
        if not dry_run:
            self._own_papers()
        return self._archive.put_away(self._ask, older, dry_run=dry_run)

    # -- looking -----------------------------------------------------------------------------------

    def read(self, ids: Sequence[str]) -> list[Card | None]:
        """Each with everything known."""
        return self._look.cards(ids, self.clock.now())

    def resolve(self, text: str) -> list[str]:
        """Itself, its number, or what begins with it."""
        return self._look.resolve(text)

    def page(
        self,
        state: State | None = None,
        after: str = "",
        limit: int = 1000,
        *,
        tied: bool = False,  # noqa: ARG002 - all of them
    ) -> Page:
        """In the order of taking, then by state."""
        return self._look.page(state, after, limit, self.clock.now())

    def counts(self) -> dict[State, int]:
        """How many are in each state."""
        return self._look.counts()

    def events(self, after: str = "", limit: int = 1000) -> tuple[list[Event], str]:
        """In the order of their transactions, none skipped."""
        return self._log.read(after, limit)

    def latest(self, limit: int) -> tuple[list[Event], str]:
        """The last of them that no other can come before."""
        return self._log.latest(limit)

    def unsettled(self, after: str) -> list[Event]:
        """Those that `events` does not show yet, since others may come before them."""
        return self._log.unsettled(after)

    def record(self, events: Sequence[Event]) -> None:
        """Told from outside."""
        self._log.record(events, self.clock.now())

    def note(self, task_id: str, text: str, worker: str) -> None:
        """One more line."""
        now = self.clock.now()
        line = f"- {iso(now)} {one_line(worker)}: {text.rstrip()}\n"
        upkeep.note(self._ask, task_id, text, line, worker, now)

    def keep_log(self, worker: str, data: bytes) -> str:
        """In a table of its own."""
        check_worker(worker)
        sql = "INSERT INTO {s}.log (worker, at, data) VALUES (%(worker)s, %(at)s, %(data)s) RETURNING n"
        number = self._ask(sql, repeat=False, worker=worker, at=self.clock.now(), data=data)[0][0]
        return f"{run_files.PLACE}{number}"

    def add_log(self, claim: Claim, start: int, data: bytes) -> int:
        """A row for each piece."""
        return run_files.add_log(self._ask, claim, start, data)

    def end_log(self, claim: Claim) -> str:
        """With all others."""
        return run_files.end_log(self._ask, claim)

    def read_log(self, task_id: str, start: int, size: int) -> tuple[bytes, int]:
        """Of the claim that has it, or of the last."""
        card = self.read([task_id])[0]
        if card is None:
            raise none_of(task_id)
        return run_files.read_log(self._ask, card, start, size)

    def keep_artifact(self, claim: Claim, name: str, data: bytes, sha256: str) -> None:
        """In a table of its own."""
        run_files.keep_artifact(self._ask, claim, name, data, sha256)

    def artifacts(self, task_id: str) -> list[Artifact]:
        """By name."""
        return run_files.artifacts(self._ask, task_id)

    def read_artifact(self, task_id: str, name: str) -> bytes:
        """One of them."""
        return run_files.read_artifact(self._ask, task_id, name)

    # -- locks -------------------------------------------------------------------------------------

    def lock(self, name: str, worker: str, seconds: float, kind: str = "") -> Lock:
        """A row whose number only grows, across fail-overs too."""
        return locks.take(self._ask, name, worker, seconds, kind)

    def relock(self, lock: Lock, seconds: float) -> Said:
        """It lasts longer, if it is still the same."""
        return locks.keep(self._ask, lock, seconds)

    def unlock(self, lock: Lock) -> Said:
        """It is free, if it was still the same."""
        return locks.free(self._ask, lock)

    def locks(self) -> list[Lock]:
        """By name."""
        return locks.held(self._ask)

    # -- the rest ----------------------------------------------------------------------------------

    def wait(self, timeout: float) -> bool:
        """Until somebody rings, or that many seconds."""
        self._sign()
        return self._bell.wait(timeout)

    def info(self) -> Info:
        """What this store is, and how durable the server was set to be when we came."""
        return Info(
            kind="postgres",
            layout="table",
            where=self.address.shown,
            durability=self._meta.durability,
            largest_task=self.config.largest_task,
            wake_bound=self._bell.bound,
            papers=self._papers,
            warnings=self._meta.warnings,
        )

    def close(self) -> None:
        """No connection is open."""
        self._contact.close()
        self._bell.close()
        self.wire.close()


def _is_plain(want: Want) -> bool:
    """Whether it is a wish for one task of any sort."""
    return want.count == 1 and not (want.ids or want.tags or want.even_held or want.verbatim)


def _fresh() -> str:
    """A few letters that nobody else has: the name of one request."""
    return f"{int.from_bytes(os.urandom(5), 'big'):08x}"[-8:].translate(_LETTERS)


#: Hexadecimal digits as letters, so that what follows a number can be told from it.
_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
