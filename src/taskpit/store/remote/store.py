"""The port behind a gateway: each verb is one call. Decides nothing itself; safe to use from many threads."""

from __future__ import annotations

import threading
import time

from taskpit import fs, ids, layouts, trust, workers
from taskpit.clock import Clock
from taskpit.errors import Invalid, Lost, Storage, TaskpitError, TooLarge, Unknown
from taskpit.model import End, Said
from taskpit.store.remote import wire
from taskpit.store.remote.connection import Connections, new_call
from taskpit.store.remote.polling import Polling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from taskpit.model import Card, Claim, Event, Lock, Page, State, Task, Want
    from taskpit.store.port import Artifact, Info, Lapse, Mend
    from taskpit.store.remote.address import RemoteAddress

#: Verbs that are not the same done twice: only the gateway that was asked first can tell whether it happened.
ONCE = ("note", "record", "resume", "reopen", "unlock", "relock", "keep_log", "end_log")
#: Bytes of a list that go in one call, as they are guessed from what is written.
SHARE = wire.LARGEST_BODY // 4
#: Lines of the changelog that are asked for at once.
LINES = 5000


class GatewayClock(Clock):
    """The wall clock where the queue is, as far as this machine knows how much its own is off."""

    def __init__(self, ahead: float) -> None:
        self.ahead = ahead

    def now(self) -> float:
        """Seconds since 1970, there."""
        return time.time() + self.ahead


class RemoteStore:
    """A queue behind a gateway."""

    def __init__(self, address: RemoteAddress, *, clock: Clock | None = None, papers: str = "") -> None:
        self.address = address
        self._line = Connections(address)
        began = time.time()
        try:
            hello = self._checked(self._line.ask("hello", {})[0])
        except BaseException:
            self._line.close()
            raise
        self._info = hello.info.replace(
            kind="remote",
            kept=True,
            where=address.whole,
            papers=papers or trust.state_path("queues", f"at-{trust.name_for(address.whole)}"),
        )
        self.config = hello.config
        self.clock: Clock = clock or GatewayClock(hello.now - (began + time.time()) / 2)
        #: This process, as the gateway knows it; other ones after a fork are others.
        self._who = new_call()
        self._members: set[str] = set()
        #: What was claimed here and has not ended: by it a gateway knows what a worker that leaves had.
        self._held: dict[tuple[str, str], None] = {}
        #: Calls for these wishes that nobody answered: what they claimed would be nobody's until its lease ends.
        self._unanswered: dict[Want, str] = {}
        self._turn = threading.Lock()
        self._polling = Polling(self._line, self._about, self._return, self._was_unanswered)

    def _checked(self, answer: object) -> wire.Hello:
        try:
            hello: wire.Hello = wire.HELLO.read(answer)
        except Invalid as error:
            raise self._nonsense(error) from None
        if hello.info.layout not in (*layouts.NAMES, "table"):
            told = f"the queue's layout {hello.info.layout[:40]!r} is none that is known here"
            raise self._nonsense(Invalid(told))
        return hello

    def _nonsense(self, error: TaskpitError) -> Storage:
        told = f"{self.address.whole} answers what no gateway of this version says: {error.message}"
        return Storage(told, hint="Is it of another version?")

    def _about(self) -> dict[str, object]:
        return {"who": self._who, "stays": sorted(self._members)}

    def _ask(self, verb: str, **fields: Any) -> Any:
        return self._told(verb, **fields)[0]

    def _told(self, verb: str, **fields: Any) -> tuple[Any, bool]:
        """The answer, checked; and whether it is that of a repetition."""
        kinds, kind = wire.VERBS[verb]
        written = {name: kinds[name].write(value) for name, value in fields.items()}
        call = "" if verb in wire.LOOKS else new_call()
        answer, again = self._line.ask(verb, {**self._about(), **written}, call=call, repeat=verb not in ONCE)
        try:
            return kind.read(answer), again
        except Invalid as error:
            raise self._nonsense(error) from None

    def _each(self, verb: str, name: str, values: Sequence[Any], **fields: Any) -> Iterator[tuple[Said, bool]]:
        """One answer for each of these, asked for in as many calls as it takes."""
        kind = wire.VERBS[verb][0][name]
        start, size = 0, 0
        for at, value in enumerate(values):
            more = len(wire.dump(kind.write([value])))
            if more > wire.LARGEST_BODY:
                raise TooLarge(f"it takes {more} bytes to send; {wire.LARGEST_BODY} is the most", size=more)
            if at > start and (size + more > SHARE or at - start >= wire.TOGETHER):
                yield from self._some(verb, name, values[start:at], **fields)
                start, size = at, 0
            size += more
        if start < len(values):
            yield from self._some(verb, name, values[start:], **fields)

    def _some(self, verb: str, name: str, values: Sequence[Any], **fields: Any) -> Iterator[tuple[Said, bool]]:
        said, again = self._told(verb, **{name: values}, **fields)
        if len(said) != len(values):
            raise self._nonsense(Invalid(f"{len(said)} answers to {len(values)} of {verb}"))
        for one in said:
            yield one, again

    # -- in ----------------------------------------------------------------------------------------

    def allot(self, parents: Sequence[str]) -> list[str]:
        """As the store there gives them."""
        ids: list[str] = self._ask("allot", parents=parents) if parents else []
        return ids

    def vet(self, tasks: Sequence[Task]) -> None:
        """The store there knows what it can carry."""
        for task in tasks:
            size = len(task.body.encode("utf-8", "replace"))
            if size > self._info.largest_task:
                raise TooLarge(f"the task is {size} bytes; {self._info.largest_task} is the most", id=task.id)
        for start in range(0, len(tasks), wire.TOGETHER // 10):
            self._ask("vet", tasks=tasks[start : start + wire.TOGETHER // 10])

    def put(self, tasks: Sequence[Task]) -> list[Said]:
        """Lists go over the wire in one call each."""
        return [said for said, _ in self._each("put", "tasks", tasks)]

    # -- out ---------------------------------------------------------------------------------------

    def claim(self, want: Want) -> list[Claim]:
        """What was dealt while we waited; else one call, whose name is part of the claim."""
        dealt = self._polling.take(want)
        if dealt is not None:
            return self._hold(dealt)
        with self._turn:
            before = self._unanswered.pop(want, "")
        call = before or new_call()
        written = wire.WANT.write(want.replace(call=want.call or call))
        asked = {**self._about(), "want": written}
        try:
            answer = self._line.ask("claim", asked, call=call, again=bool(before))[0]
        except Unknown:
            self._was_unanswered(want, call)
            raise
        try:
            claims: list[Claim] = wire.CLAIMS.read(answer)
        except Invalid as error:
            raise self._nonsense(error) from None
        if not claims and not want.ids:
            self._polling.missed(want)
        return self._hold(claims)

    def _was_unanswered(self, want: Want, call: str) -> None:
        """Something may have been claimed by this call: the next for the same wish has its name, and finds that."""
        with self._turn:
            self._unanswered[want] = call

    def _hold(self, claims: list[Claim]) -> list[Claim]:
        with self._turn:
            self._held.update(dict.fromkeys((claim.task.id, claim.fence) for claim in claims))
        return claims

    def _return(self, claim: Claim) -> None:
        """What was dealt and is not wanted any more goes back as it was."""
        try:
            self.finish([End(claim=claim, details="not wanted any more")])
        except TaskpitError:
            return  # its lease ends

    def renew(self, held: Sequence[Claim], lease: float) -> list[Said]:
        """A call of its own, whatever else is under way."""
        return [said for said, _ in self._each("renew", "held", held, lease=lease)]

    def finish(self, ends: Sequence[End]) -> list[Said]:
        """What a repetition finds ended this very way was ended by the first."""
        said = [Said.OK if again and one is Said.ALREADY else one for one, again in self._each("finish", "ends", ends)]
        with self._turn:
            for end in ends:
                self._held.pop((end.claim.task.id, end.claim.fence), None)
        return said

    def reopen(self, tasks: Sequence[Task]) -> list[Said]:
        """Failed ones become ready."""
        return [said for said, _ in self._each("reopen", "tasks", tasks)]

    def stop(self, ids: Sequence[str]) -> None:
        """Seen at the next renewal."""
        self._ask("stop", ids=ids)

    def pause(self, reason: str, seconds: float, worker: str) -> None:
        """For everybody."""
        self._ask("pause", reason=reason, seconds=seconds, worker=worker)

    def resume(self, worker: str) -> bool:
        """No longer."""
        return bool(self._ask("resume", worker=worker))

    def paused(self) -> str:
        """As the store there says it."""
        return str(self._ask("paused"))

    # -- who works ---------------------------------------------------------------------------------

    def join(self, worker: str, lease: float, *, patience: float = 1.0) -> RemoteMember:
        """Here by a record that is held for life; elsewhere the gateway knows the name while it hears of us."""
        from taskpit.store.remote.opening import leave_address

        leave_address(self._info.papers, self.address)  # what it runs finds the queue by its papers
        folder = f"{self._info.papers}/.taskpit/names"
        fs.make_dir(folder)
        record = workers.LocalMember(ids.path_of(folder, worker.replace("@", ".at.")))
        if not record.join(workers.describe(worker, lease, Clock(), stays=True), Clock(), patience=patience):
            raise Lost(f"a living process already works here as {worker}", worker=worker)
        place = f"{workers.host()}:{trust.name_for(folder)}"
        try:
            asked = {**self._about(), "worker": worker, "lease": lease, "place": place}
            self._line.ask("join", asked, call=new_call())
        except BaseException:
            record.leave()
            raise
        with self._turn:
            self._members.add(worker)
        return RemoteMember(self, worker, record)

    def leave(self, worker: str) -> None:
        """Its name is free, and what it held lapses at once."""
        with self._turn:
            self._members.discard(worker)
            mine = [list(key) for key in self._held if key[1].partition("~")[0] == worker and "~" in key[1]]
        self._line.ask("leave", {**self._about(), "worker": worker, "held": mine}, call=new_call())

    def lapsed(self, *, dry_run: bool = False) -> list[Lapse]:
        """As the gateway judges; nothing for those who may not give back what others have."""
        found: list[Lapse] = self._ask("lapsed", dry_run=dry_run)
        return found

    # -- keeping -----------------------------------------------------------------------------------

    def mend(self, *, dry_run: bool = False) -> list[Mend]:
        """The gateway's keeper does it; a person may ask for it."""
        return self._mends("mend", dry_run=dry_run)

    def fix(self, *, dry_run: bool = False) -> list[Mend]:
        """Needs the right to do everything."""
        return self._mends("fix", dry_run=dry_run)

    def check(self) -> list[Mend]:
        """As the store there finds it."""
        return self._mends("check")

    def compost(self, *, dry_run: bool = False) -> list[Mend]:
        """As `mend`."""
        return self._mends("compost", dry_run=dry_run)

    def _mends(self, verb: str, **fields: Any) -> list[Mend]:
        found: list[Mend] = self._ask(verb, **fields)
        return found

    # -- looking -----------------------------------------------------------------------------------

    def read(self, ids: Sequence[str]) -> list[Card | None]:
        """Each with everything known."""
        cards: list[Card | None] = []
        for start in range(0, len(ids), wire.TOGETHER):
            some = ids[start : start + wire.TOGETHER]
            found = self._ask("read", ids=some)
            if len(found) != len(some) or any(
                one and one.task.id != asked for one, asked in zip(found, some, strict=True)
            ):
                raise self._nonsense(Invalid("other tasks than were asked for"))
            cards += found
        return cards

    def resolve(self, text: str) -> list[str]:
        """As the store there reads it."""
        ids: list[str] = self._ask("resolve", text=text)
        return ids

    def page(self, state: State | None = None, after: str = "", limit: int = 1000, *, tied: bool = False) -> Page:
        """A page is no longer than the gateway likes; its cursor goes on."""
        page: Page = self._ask("page", state=state, after=after, limit=limit, tied=tied)
        return page

    def counts(self) -> dict[State, int]:
        """How many are in each state."""
        counts: dict[State, int] = self._ask("counts")
        return counts

    def events(self, after: str = "", limit: int = 1000) -> tuple[list[Event], str]:
        """Some thousand lines at a time."""
        found: list[Event] = []
        while len(found) < limit:
            some = min(limit - len(found), LINES)
            events, after = self._ask("events", after=after, limit=some)
            found += events
            if len(events) < some:
                break
        return found, after

    def latest(self, limit: int) -> tuple[list[Event], str]:
        """The newest ones."""
        news: tuple[list[Event], str] = self._ask("latest", limit=limit)
        return news

    def unsettled(self, after: str) -> list[Event]:
        """What the store there does not show yet; a gateway of before tells of none."""
        try:
            events: list[Event] = self._ask("unsettled", after=after)
        except Invalid:
            return []
        return events

    def record(self, events: Sequence[Event]) -> None:
        """Told from outside."""
        for start in range(0, len(events), wire.TOGETHER):
            self._ask("record", events=events[start : start + wire.TOGETHER])

    def note(self, task_id: str, text: str, worker: str) -> None:
        """One more line."""
        self._ask("note", task_id=task_id, text=text, worker=worker)

    def keep_log(self, worker: str, data: bytes) -> str:
        """Up to a limit: of a longer one its end, which tells how it came out."""
        return str(self._ask("keep_log", worker=worker, data=data[-wire.LARGEST_BYTES :]))

    def add_log(self, claim: Claim, start: int, data: bytes) -> int:
        """A piece."""
        return int(self._ask("add_log", claim=claim, start=start, data=data))

    def end_log(self, claim: Claim) -> str:
        """Where it is kept there."""
        return str(self._ask("end_log", claim=claim))

    def read_log(self, task_id: str, start: int, size: int) -> tuple[bytes, int]:
        """A piece of it."""
        found: tuple[bytes, int] = self._ask("read_log", task_id=task_id, start=start, size=size)
        return found

    def keep_artifact(self, claim: Claim, name: str, data: bytes, sha256: str) -> None:
        """The store there looks whether they are the bytes that were meant."""
        if len(data) > wire.LARGEST_BYTES:
            raise TooLarge(f"{name} has {len(data)} bytes; {wire.LARGEST_BYTES} is the most", size=len(data))
        self._ask("keep_artifact", claim=claim, name=name, data=data, sha256=sha256)

    def artifacts(self, task_id: str) -> list[Artifact]:
        """As the store there lists them."""
        found: list[Artifact] = self._ask("artifacts", task_id=task_id)
        return found

    def read_artifact(self, task_id: str, name: str) -> bytes:
        """Its bytes."""
        data: bytes = self._ask("read_artifact", task_id=task_id, name=name)
        return data

    # -- locks -------------------------------------------------------------------------------------

    def lock(self, name: str, worker: str, seconds: float, kind: str = "") -> Lock:
        """As the store there gives it."""
        lock: Lock = self._ask("lock", name=name, worker=worker, seconds=seconds, kind=kind)
        return lock

    def relock(self, lock: Lock, seconds: float) -> Said:
        """It lasts longer, if it is still the same."""
        return Said(self._ask("relock", lock=lock, seconds=seconds))

    def unlock(self, lock: Lock) -> Said:
        """It is free, if it was still the same."""
        return Said(self._ask("unlock", lock=lock))

    def locks(self) -> list[Lock]:
        """By name."""
        locks: list[Lock] = self._ask("locks")
        return locks

    # -- the rest ----------------------------------------------------------------------------------

    def wait(self, timeout: float) -> bool:
        """Stand in line at the gateway for what was last asked for in vain."""
        return self._polling.wait(timeout)

    def info(self) -> Info:
        """What the queue there is, as it was when we came."""
        info: Info = self._info
        return info

    def close(self) -> None:
        """No connection is open."""
        self._polling.close()
        self._line.close()


class RemoteMember:
    """A worker that stays."""

    def __init__(self, store: RemoteStore, worker: str, record: workers.LocalMember) -> None:
        self.worker = worker
        self._store = store
        self._record = record

    def leave(self) -> None:
        """It ends in good order; where the gateway is gone, its names are forgotten there in time."""
        try:
            self._store.leave(self.worker)
        except TaskpitError:
            pass
        finally:
            self._record.leave()
