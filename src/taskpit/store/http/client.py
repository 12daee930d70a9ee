"""A store behind a gateway: each verb is one call. Safe to use from many threads."""

from __future__ import annotations

import contextlib
import http.client
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from taskpit import fs, ids, layouts, trust, workers
from taskpit.clock import Clock
from taskpit.errors import Invalid, Lost, Storage, TaskpitError, TooLarge, Unknown
from taskpit.model import Card, Claim, End, Event, Said, Task, Want
from taskpit.store.http import wire
from taskpit.store.http.address import GatewayAddress, parse
from taskpit.store.http.connection import Connections, PendingCall, Request, new_call
from taskpit.store.port import LOOKS, Info, Store

#: Bytes of a list that go in one call, as they are guessed from what is written.
SHARE = wire.LARGEST_BODY // 4
#: Lines of the changelog in one call.
LINES = 5000
#: Seconds between two looks of a caller that waits for no wish.
REST = 1.0


def open_gateway(
    text: str, env: Mapping[str, str] | None = None, clock: Clock | None = None, papers: str = ""
) -> HttpStore:
    """Open the queue at this address; pools keep their papers in that folder, or among the user's own state."""
    return HttpStore(parse(text, os.environ if env is None else env, papers), clock=clock, papers=papers)


class GatewayClock(Clock):
    """The wall clock of the queue's machine, as far as this machine knows the difference."""

    def __init__(self, ahead: float) -> None:
        self.ahead = ahead

    def now(self) -> float:
        """Return seconds since 1970, there."""
        return time.time() + self.ahead


def _one_call(verb: str) -> Any:
    """Make the method of a verb whose arguments and answer fit into one call."""

    def method(self: HttpStore, *given: Any, **named: Any) -> Any:
        return self.ask(verb, **dict(zip(wire.names(verb), given, strict=False)), **named)

    method.__name__, method.__doc__ = verb, getattr(Store, verb).__doc__
    return method


class HttpStore:
    """A queue behind a gateway."""

    stop, pause, resume, paused = (_one_call(verb) for verb in ("stop", "pause", "resume", "paused"))
    lapsed, mend, fix, check = (_one_call(verb) for verb in ("lapsed", "mend", "fix", "check"))
    compost, resolve, page, counts = (_one_call(verb) for verb in ("compost", "resolve", "page", "counts"))
    latest, note, read_log, artifacts = (_one_call(verb) for verb in ("latest", "note", "read_log", "artifacts"))
    read_artifact, lock, relock, unlock = (_one_call(verb) for verb in ("read_artifact", "lock", "relock", "unlock"))
    locks = _one_call("locks")

    def __init__(self, address: GatewayAddress, *, clock: Clock | None = None, papers: str = "") -> None:
        self.address = address
        self._line = Connections(address)
        #: This process, as the gateway knows it, and its workers that stay.
        self._who = new_call()
        self._members: set[str] = set()
        began = time.time()
        try:
            hello: wire.Hello = self.ask("hello")
            self._check_hello(hello)
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
        #: Claims that were made here and have not ended: what a worker that leaves gives back.
        self._held: dict[tuple[str, str], None] = {}
        #: Claims that were never answered, by their wish: the next claim has their name, and finds what they made.
        self._unanswered: dict[Want, str] = {}
        #: The last wish that found nothing, and the count of news then; the wait for it.
        self._missed: tuple[Want, int] | None = None
        self._pending: tuple[Want, PendingCall] | None = None
        self._turn = threading.Lock()
        self._is_closed = threading.Event()

    def _check_hello(self, hello: wire.Hello) -> None:
        if hello.version != wire.VERSION:
            raise self._nonsense(f"it speaks version {hello.version}, this is version {wire.VERSION}")
        if hello.info.layout not in (*layouts.NAMES, "table"):
            raise self._nonsense(f"the queue's layout {hello.info.layout[:40]!r} is none that is known here")

    def _nonsense(self, why: object) -> Storage:
        message = f"{self.address.whole} answers what no gateway of this version says: {str(why)[:200]}"
        return Storage(message, hint="Is it of another version?")

    # -- calls -------------------------------------------------------------------------------------

    def ask(self, verb: str, **arguments: Any) -> Any:
        """Return the answer of one call."""
        return self._told(verb, arguments)[0]

    def _told(self, verb: str, arguments: Mapping[str, Any], call: str = "", *, again: bool = False) -> Any:
        """Return the answer, whether it is that of a repetition, and the count of news."""
        name = call or ("" if verb in LOOKS else new_call())
        data = self._request(verb, arguments, name)
        request = Request(verb, data, changes=bool(name), repeat=verb not in wire.ONCE)
        answer, repeated = self._line.ask(request, "unknown" if again else None)
        return self._read(verb, answer), repeated, answer.news

    def _request(self, verb: str, arguments: Mapping[str, Any], call: str = "") -> bytes:
        envelope = wire.Envelope(call=call, who=self._who, stays=sorted(self._members))
        data = wire.request(verb, envelope, arguments)
        if len(data) > wire.LARGEST_BODY:
            raise TooLarge(f"it takes {len(data)} bytes to send; {wire.LARGEST_BODY} is the most", size=len(data))
        return data

    def _read(self, verb: str, answer: wire.Reply) -> Any:
        try:
            return wire.read_answer(verb, bytes(answer.data))
        except Invalid as error:
            raise self._nonsense(error) from None

    def _each(self, verb: str, name: str, values: Sequence[Any], **more: Any) -> Iterator[tuple[Said, bool]]:
        """Yield one answer for each value, from as many calls as it takes, and whether it is a repetition's."""
        start, size = 0, 0
        for at, value in enumerate(values):
            bytes_more = len(wire.encode(value))
            if at > start and (size + bytes_more > SHARE or at - start >= wire.TOGETHER):
                yield from self._some(verb, {name: values[start:at], **more}, at - start)
                start, size = at, 0
            size += bytes_more
        if start < len(values):
            yield from self._some(verb, {name: values[start:], **more}, len(values) - start)

    def _some(self, verb: str, arguments: Mapping[str, Any], count: int) -> Iterator[tuple[Said, bool]]:
        answers, repeated, _ = self._told(verb, arguments)
        if len(answers) != count:
            raise self._nonsense(f"{len(answers)} answers to {count} of {verb}")
        for answer in answers:
            yield answer, repeated

    # -- tasks -------------------------------------------------------------------------------------

    def allot(self, parents: Sequence[str]) -> list[str]:
        """Return ids as the store there gives them."""
        ids: list[str] = self.ask("allot", parents=parents) if parents else []
        return ids

    def vet(self, tasks: Sequence[Task]) -> None:
        """Check tasks against the limits of the store there."""
        for task in tasks:
            size = len(task.body.encode("utf-8", "replace"))
            if size > self._info.largest_task:
                raise TooLarge(f"the task is {size} bytes; {self._info.largest_task} is the most", id=task.id)
        for start in range(0, len(tasks), wire.TOGETHER // 10):
            self.ask("vet", tasks=tasks[start : start + wire.TOGETHER // 10])

    def put(self, tasks: Sequence[Task]) -> list[Said]:
        """Put tasks, many in one call."""
        return [said for said, _ in self._each("put", "tasks", tasks)]

    def claim(self, want: Want) -> list[Claim]:
        """Claim by one call, whose name is part of the claim."""
        with self._turn:
            before = self._unanswered.pop(want, "")
        call = before or new_call()
        wish = want.replace(call=want.call or call)
        try:
            claims, _, news = self._told("claim", {"want": wish}, call, again=bool(before))
        except Unknown:
            with self._turn:
                self._unanswered[want] = call
            raise
        with self._turn:
            self._held.update(dict.fromkeys((claim.task.id, claim.fence) for claim in claims))
            if not claims and not want.ids:
                self._missed = (want, news)
            pending, self._pending = (self._pending, None) if claims else (None, self._pending)
        if pending is not None:  # its place in line is free for others
            pending[1].give_up()
        found: list[Claim] = claims
        return found

    def wait(self, timeout: float) -> bool:
        """Wait in line at the gateway for the last wish that found nothing."""
        with self._turn:
            missed = self._missed
            pending, self._pending = self._pending, None
        if missed is None:
            return not self._is_closed.wait(min(timeout, REST))
        if pending is None or pending[0] != missed[0]:
            want, news = missed
            arguments = {"want": want, "news": news, "seconds": wire.LONGEST_POLL}
            try:
                begun = self._line.begin(Request("wait", self._request("wait", arguments), changes=False))
            except (OSError, http.client.HTTPException):  # the next claim says what is wrong
                return not self._is_closed.wait(min(timeout, REST))
            pending = (want, begun)
        with self._turn:
            self._pending = None if self._is_closed.is_set() else pending
        is_answered = pending[1].is_answered(timeout)
        with self._turn:
            if not is_answered or self._pending is not pending:
                return False  # later, or another thread has the answer
            self._pending = None
        answer = pending[1].answer()
        return answer is None or bool(self._read("wait", answer))

    def renew(self, held: Sequence[Claim], lease: float) -> list[Said]:
        """Renew by a call of its own, whatever else is in flight."""
        return [said for said, _ in self._each("renew", "held", [wire.light(claim) for claim in held], lease=lease)]

    def finish(self, ends: Sequence[End]) -> list[Said]:
        """End claims; an end that a repetition finds made was made by the first call."""
        said = [Said.OK if again and one is Said.ALREADY else one for one, again in self._each("finish", "ends", ends)]
        with self._turn:
            for end in ends:
                self._held.pop((end.claim.task.id, end.claim.fence), None)
        return said

    def reopen(self, tasks: Sequence[Task]) -> list[Said]:
        """Make failed tasks ready."""
        return [said for said, _ in self._each("reopen", "tasks", tasks)]

    # -- workers -----------------------------------------------------------------------------------

    def join(self, worker: str, lease: float, *, patience: float = 1.0) -> HttpMember:
        """Register a worker that stays: here by a lock for life, there as long as the gateway hears of this process."""
        from taskpit.store.http.address import leave_address  # noqa: PLC0415

        leave_address(self._info.papers, self.address)  # commands of its runs find the queue by its papers
        folder = f"{self._info.papers}/.taskpit/names"
        fs.make_dir(folder)
        record = workers.LocalMember(ids.path_of(folder, worker.replace("@", ".at.")))
        if not record.join(workers.describe(worker, lease, Clock(), stays=True), Clock(), patience=patience):
            raise Lost(f"a living process already works here as {worker}", worker=worker)
        try:
            self.ask("join", worker=worker, lease=lease, place=f"{workers.host()}:{trust.name_for(folder)}")
        except BaseException:
            record.leave()
            raise
        with self._turn:
            self._members.add(worker)
        return HttpMember(self, worker, record)

    def leave(self, worker: str) -> None:
        """Free the worker's name; its claims lapse at once."""
        with self._turn:
            self._members.discard(worker)
            held = [key for key in self._held if key[1].partition("~")[0] == worker and "~" in key[1]]
        self.ask("leave", worker=worker, held=held)

    # -- looking -----------------------------------------------------------------------------------

    def read(self, ids: Sequence[str]) -> list[Card | None]:
        """Return the cards of these tasks, with everything known."""
        cards: list[Card | None] = []
        for start in range(0, len(ids), wire.TOGETHER):
            some = ids[start : start + wire.TOGETHER]
            found: list[Card | None] = self.ask("read", ids=some)
            if len(found) != len(some) or any(
                card and card.task.id != asked for card, asked in zip(found, some, strict=True)
            ):
                raise self._nonsense("other tasks than were asked for")
            cards += found
        return cards

    def events(self, after: str = "", limit: int = 1000) -> tuple[list[Event], str]:
        """Return lines of the changelog, some thousands in one call."""
        found: list[Event] = []
        while len(found) < limit:
            some = min(limit - len(found), LINES)
            events, after = self.ask("events", after=after, limit=some)
            found += events
            if len(events) < some:
                break
        return found, after

    def unsettled(self, after: str) -> list[Event]:
        """Return lines that the store there does not show yet."""
        events: list[Event] = self.ask("unsettled", after=after)
        return events

    def record(self, events: Sequence[Event]) -> None:
        """Write lines into the changelog."""
        for start in range(0, len(events), wire.TOGETHER):
            self.ask("record", events=events[start : start + wire.TOGETHER])

    # -- files -------------------------------------------------------------------------------------

    def keep_log(self, worker: str, data: bytes) -> str:
        """Keep a log, or the end of a long one, which tells how it came out."""
        return str(self.ask("keep_log", worker=worker, data=data[-wire.LARGEST_BYTES :]))

    def add_log(self, claim: Claim, start: int, data: bytes) -> int:
        """Add a piece to the log of a run."""
        return int(self.ask("add_log", claim=wire.light(claim), start=start, data=data))

    def end_log(self, claim: Claim) -> str:
        """Return where the log is kept there."""
        return str(self.ask("end_log", claim=wire.light(claim)))

    def keep_artifact(self, claim: Claim, name: str, data: bytes, sha256: str) -> None:
        """Keep a file with its task; the store there compares the digest."""
        if len(data) > wire.LARGEST_BYTES:
            raise TooLarge(f"{name} has {len(data)} bytes; {wire.LARGEST_BYTES} is the most", size=len(data))
        self.ask("keep_artifact", claim=wire.light(claim), name=name, data=data, sha256=sha256)

    # -- the rest ----------------------------------------------------------------------------------

    def info(self) -> Info:
        """Return what the queue there is, as it was when it was opened."""
        return self._info

    def close(self) -> None:
        """Close every connection; a wait ends."""
        self._is_closed.set()
        with self._turn:
            pending, self._pending = self._pending, None
        if pending is not None:
            pending[1].give_up()
        self._line.close()


class HttpMember:
    """A worker that stays."""

    def __init__(self, store: HttpStore, worker: str, record: workers.LocalMember) -> None:
        self.worker = worker
        self._store = store
        self._record = record

    def leave(self) -> None:
        """End in good order; a gateway that is gone forgets the name in time."""
        with contextlib.suppress(TaskpitError):
            self._store.leave(self.worker)
        self._record.leave()
