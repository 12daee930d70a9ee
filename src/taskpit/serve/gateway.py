"""The verbs of a gateway: from a request that was let in to an answer. Knows the store and its callers, no HTTP.

Calls of one verb that come while the store is busy with that verb go to it together. Renewals have a thread of their
own. The keeper runs here.

| verb           | is carried out by                    | when it is asked twice                                     |
|----------------|--------------------------------------|------------------------------------------------------------|
| put, finish, renew, claim | one call of the store for many callers | the first answer                              |
| any with a name | one call of the store               | the first answer                                           |
| the same at another gateway, `wire.ONCE` | nothing    | Unknown                                                    |
| claim at another gateway | a look for the claims of its name | those claims, renewed                                |
| `LOOKS`        | one call of the store                | another look                                               |
| wait           | a place in line                      | another place                                              |
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from taskpit import keeper
from taskpit.config import Hooks
from taskpit.errors import Invalid, TaskpitError, Unknown
from taskpit.events import unsettled
from taskpit.hooks import tell_ends
from taskpit.model import NOTE_KINDS, Card, Claim, End, Said, State, Want
from taskpit.nonces import fresh_name
from taskpit.queue import Queue, cards
from taskpit.serve import rights
from taskpit.serve.calls import Batch, Calls
from taskpit.serve.line import Line
from taskpit.serve.members import Members
from taskpit.store.http import wire
from taskpit.store.http.tokens import Grant
from taskpit.store.port import LOOKS, Lapse, Mend, Store, turn
from taskpit.workers import MARK, base

#: Threads by purpose: renewals wait for nothing else.
THREADS = {"renew": 1, "put": 1, "turn": 1, "look": 4, "slow": 2}
SLOW = (
    *("mend", "fix", "compost", "check"),
    *("keep_log", "add_log", "end_log", "read_log", "keep_artifact", "artifacts", "read_artifact"),
)
#: Cards of one page and lines of the changelog, at most, and the bytes an answer may have.
CARDS, LINES, LARGEST_ANSWER = 1000, 5000, 4 * 1024 * 1024
#: Cards of the first page, and how much longer the next one may be: cards differ in size.
FIRST_CARDS, GROWTH = 4, 4
#: Sweeps are so many seconds apart, at least and at most; a whole one takes no larger part of the time.
SWEEP_AT_LEAST, SWEEP_AT_MOST, SWEEP_SHARE = 2.0, 30.0, 20.0
#: The word for the end of a claim that lapsed, and how many lapsed claims are remembered.
RECOVERED, MOST_LAPSED = "recovered_task", 10_000


class Asked(NamedTuple):
    """One call that was let in."""

    grant: Grant
    verb: str
    given: dict[str, Any]
    #: The caller's process.
    process: str
    #: Whether a claim of this name may have been made by another gateway.
    again: bool
    #: Ends when the caller hangs up.
    hung_up: Callable[[], Awaitable[Any]]


class CallerTurn(NamedTuple):
    """What one caller ends and wants."""

    ends: tuple[End, ...]
    want: Want | None


class Gateway:
    """A store, for many callers at once. To be used inside one event loop."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.store: Store = queue.store
        #: By this callers know whether they were answered by this gateway or by one before it.
        self.name = f"g{fresh_name(10)}"
        self.members = Members(queue.config.lease)
        self.line = Line(self.store, personal=self.store.info().layout == "activities")
        self.calls = Calls()
        self._threads = {
            name: ThreadPoolExecutor(count, thread_name_prefix=f"gateway-{name}") for name, count in THREADS.items()
        }
        self.batches = {
            "put": Batch(self._threads["put"], self.store.put),
            "turn": Batch(self._threads["turn"], self._turns, self._turns_alone),
            "renew": Batch(self._threads["renew"], self._renew_each),
            "find": Batch(self._threads["slow"], self._find),
        }
        self._lapsed: dict[tuple[str, str], Claim] = {}
        #: How many cards of the size of the last ones fit an answer.
        self._cards = FIRST_CARDS
        self._quit = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)
        #: Verbs that are not just one call of the store.
        self._special: dict[str, Callable[[Asked], Awaitable[Any]]] = {
            "hello": self._hello,
            "put": self._put,
            "reopen": self._reopen,
            "claim": self._claim,
            "wait": self._wait,
            "renew": self._renew,
            "finish": self._finish,
            "join": self._join,
            "leave": self._leave,
            "lapsed": self._upkeep,
            "mend": self._upkeep,
            "compost": self._upkeep,
            "page": self._page,
            "events": self._events,
            "latest": self._events,
            "unsettled": self._unsettled,
        }

    def start(self) -> None:
        """Start the keeper."""
        self._keeper.start()

    async def dismiss(self) -> None:
        """Let those in line go."""
        self.line.close()

    def close(self) -> None:
        """End the threads when their calls do."""
        self._quit.set()
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, threads: str, act: Callable[..., Any], *words: Any, **named: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads[threads], partial(act, *words, **named))

    # -- one call ----------------------------------------------------------------------------------

    async def call(
        self, grant: Grant, verb: str, body: bytes, before: str, hung_up: Callable[[], Awaitable[Any]]
    ) -> bytes:
        """Carry out a call and return its answer. `before`: the gateway that may have been asked first."""
        rights.check_verb(grant, verb)
        envelope, given = wire.read_request(verb, body)
        process = f"{grant.name}/{envelope.who[:40]}" if envelope.who else ""
        mine = [name for name in envelope.stays[:1000] if rights.acts_as(grant, name)]
        self.members.hear(process, mine, self.queue.config.lease)
        again = bool(before) and not self.calls.has(grant.name, envelope.call)
        if again and verb in wire.ONCE and before != self.name:
            hint = "It may have happened: look, then repeat."
            raise Unknown("the gateway was started again before it answered", hint=hint)
        asked = Asked(grant, verb, rights.check(grant, verb, given), process, again, hung_up)
        if not envelope.call or verb in LOOKS or verb == "wait":
            return await self._answer(asked)
        return await self.calls.ask(grant.name, envelope.call, lambda: self._answer(asked))

    async def _answer(self, asked: Asked) -> bytes:
        news = self.line.news
        special = self._special.get(asked.verb)
        if special is not None:
            return wire.reply(await special(asked), news)
        threads = "slow" if asked.verb in SLOW else "look"
        return wire.reply(await self._run(threads, getattr(self.store, asked.verb), **asked.given))

    async def _hello(self, _: Asked) -> wire.Hello:
        info = self.store.info().replace(kind="remote", where="", papers="", kept=False)
        config = self.queue.config.replace(hooks=Hooks(), limits={})
        return wire.Hello(version=wire.VERSION, info=info, config=config, now=self.queue.clock.now())

    async def _put(self, asked: Asked) -> list[Said]:
        tasks = asked.given["tasks"]
        said = await self.batches["put"].ask(tasks)
        self.line.tell(len(tasks))
        return said

    async def _reopen(self, asked: Asked) -> list[Said]:
        said: list[Said] = await self._run("put", self.store.reopen, asked.given["tasks"])
        self.line.tell(len(said))
        return said

    # -- claims ------------------------------------------------------------------------------------

    async def _claim(self, asked: Asked) -> list[Claim]:
        want, grant = asked.given["want"], asked.grant
        if want.call and not wire.is_call(want.call):
            raise Invalid("the claim has a name that no call has", field="call")
        if want.ids and not rights.is_owner(grant) and (want.even_held or grant.tags):
            found = await self._run("look", self.store.read, want.ids)
            if want.even_held:
                rights.check_held(grant, found)
            if grant.tags:
                rights.check_tagged(grant, found)
        if asked.again:
            if want.verbatim and not want.ids:
                hint = "`pit list --state running` shows what you have."
                raise Unknown("the gateway was started again before it answered", hint=hint)
            made: list[Claim] = (await self.batches["find"].ask([want]))[0] if want.call else []
            if made:
                await self.batches["renew"].ask([(claim, want.lease) for claim in made])
                return made
        claims: list[Claim] = (await self.batches["turn"].ask([CallerTurn((), want)]))[0][1]
        self.line.claimed(want, found=bool(claims))
        return claims

    async def _wait(self, asked: Asked) -> bool:
        want, news, seconds = (asked.given[name] for name in ("want", "news", "seconds"))
        want = rights.check(asked.grant, "claim", {"want": want})["want"]
        return await self.line.wait(want, news, min(seconds, wire.LONGEST_POLL), asked.hung_up)

    def _find(self, wants: list[Want]) -> list[list[Claim]]:
        """Return the claims that calls of these names have made, by one look for all of them."""
        found: list[list[Claim]] = [[] for _ in wants]
        for card in cards(self.store, State.CLAIMED):
            for made, want in zip(found, wants, strict=True):
                if base(card.worker) == want.worker and card.worker.partition(MARK)[2].endswith(want.call):
                    made.append(_claim_of(card, want.lease))
        return found

    # -- renewals and ends -------------------------------------------------------------------------

    async def _renew(self, asked: Asked) -> list[Said]:
        lease = asked.given["lease"]
        return await self.batches["renew"].ask([(claim, lease) for claim in asked.given["held"]])

    def _renew_each(self, items: list[tuple[Claim, float]]) -> list[Said]:
        said: dict[int, Said] = {}
        for lease in {lease for _, lease in items}:
            some = [at for at, item in enumerate(items) if item[1] == lease]
            said.update(zip(some, self.store.renew([items[at][0] for at in some], lease), strict=True))
        self.members.saw(item[0] for at, item in enumerate(items) if said[at] is not Said.LOST)
        return [said[at] for at in range(len(items))]

    async def _finish(self, asked: Asked) -> list[Said]:
        ends: list[End] = asked.given["ends"]
        for end in ends:
            if end.note is not None and end.note[0] not in NOTE_KINDS:
                raise Invalid(f"there is no note of kind {end.note[0][:40]!r}", field="note")
        if ends and not rights.is_owner(asked.grant):  # a task that comes back asks for what it asked for before
            found = await self._run("look", self.store.read, [end.claim.task.id for end in ends])
            ends = [rights.check_end(asked.grant, end, card) for end, card in zip(ends, found, strict=True)]
        if not ends:
            return []
        said: list[Said] = (await self.batches["turn"].ask([CallerTurn(tuple(ends), None)]))[0][0]
        self.line.tell()
        return said

    def _turns(self, turns: list[CallerTurn]) -> list[tuple[list[Said], list[Claim]]]:
        """Carry out everybody's ends, then everybody's claims, in one call of the store."""
        ends = [end for one in turns for end in one.ends]
        wants = [one.want for one in turns if one.want is not None]
        words, dealt = self._end_and_claim(ends, wants)
        said, claims = iter(words), iter(dealt)
        return [([next(said) for _ in one.ends], next(claims) if one.want is not None else []) for one in turns]

    def _turns_alone(self, turns: list[CallerTurn]) -> list[tuple[list[Said], list[Claim]]]:
        """Repeat one caller's part of a call that was refused: what has ended or was claimed since was its own."""
        repeated: list[tuple[list[Said], list[Claim]]] = []
        for one in turns:
            found = self._find([one.want])[0] if one.want is not None and one.want.call else []
            said, claims = self._turns([one._replace(want=None) if found else one])[0]
            repeated.append(([Said.OK if word is Said.ALREADY else word for word in said], found or claims))
        return repeated

    def _end_and_claim(self, ends: list[End], wants: list[Want]) -> tuple[list[Said], list[list[Claim]]]:
        """End and claim. A claim that lapsed ends as its judge saw it: only if it has not been renewed since."""
        judged = [self._as_judged(end) for end in ends]
        kept = [end for end in judged if end is not None]
        answers, claims = turn(self.store, kept, wants)
        words = iter(answers)
        said = [Said.LOST if end is None else next(words) for end in judged]
        self.members.ended((end.claim.task.id, end.claim.fence) for end in kept)
        self.members.saw(claim for some in claims for claim in some)
        hooks = self.queue.config.hooks
        if hooks.commands and kept:
            tell_ends(self.store, hooks, [end for end, one in zip(judged, said, strict=True) if end and one is Said.OK])
        return said, claims

    def finish(self, ends: Sequence[End]) -> list[Said]:
        """End claims for the keeper, which has a thread of its own."""
        return self._end_and_claim(list(ends), [])[0]

    def _as_judged(self, end: End) -> End | None:
        """Return the end with its claim as the judge saw it lapse; None if no judge here did."""
        if end.action != RECOVERED:
            return end
        seen = self._lapsed.pop((end.claim.task.id, end.claim.fence), None)
        return None if seen is None else end.replace(claim=seen)

    # -- workers -----------------------------------------------------------------------------------

    async def _join(self, asked: Asked) -> None:
        worker, lease, place = (asked.given[name] for name in ("worker", "lease", "place"))
        claimed = await self._run("look", self._claims_of, worker)
        self.members.join(worker, asked.process, f"{asked.grant.name}/{place}", lease, claimed)

    def _claims_of(self, worker: str) -> list[tuple[str, str]]:
        held = cards(self.store, State.CLAIMED)
        return [(card.task.id, card.worker) for card in held if base(card.worker) == worker and MARK in card.worker]

    async def _leave(self, asked: Asked) -> None:
        self.members.leave(asked.given["worker"], asked.process, asked.given["held"])

    async def _upkeep(self, asked: Asked) -> list[Any]:
        """Judge and repair for the queue's owner; for others the keeper here does it."""
        if not rights.is_owner(asked.grant):
            return []
        act = self.lapsed if asked.verb == "lapsed" else getattr(self.store, asked.verb)
        found: list[Any] = await self._run("slow", act, **asked.given)
        return found

    def lapsed(self, *, dry_run: bool = False) -> list[Lapse]:
        """Return the store's lapsed claims without those in grace, and the claims of workers that have left."""
        found = [lapse for lapse in self.store.lapsed(dry_run=dry_run) if not self.members.in_grace(lapse.claim)]
        known = {(lapse.claim.task.id, lapse.claim.fence) for lapse in found}
        left = [(key, why) for key, why in self.members.left().items() if key not in known]
        ended = []
        for (key, why), card in zip(left, self.store.read([key[0] for key, _ in left]), strict=True):
            if card is None or card.state is not State.CLAIMED or card.worker != key[1]:
                ended.append(key)
            else:
                claim = _claim_of(card)
                found.append(Lapse(claim=claim, reason=why, called_off=self.queue.is_called_off(claim)))
        self.members.ended(ended)
        if not dry_run:
            if len(self._lapsed) > MOST_LAPSED:
                self._lapsed.clear()
            self._lapsed.update({(lapse.claim.task.id, lapse.claim.fence): lapse.claim for lapse in found})
        return [lapse.replace(claim=_plain(lapse.claim)) for lapse in found]

    # -- looking -----------------------------------------------------------------------------------

    async def _page(self, asked: Asked) -> Any:
        """Return as many cards as probably fit an answer, by the size of the last ones."""
        limit = max(1, min(asked.given["limit"], self._cards))
        page = await self._run("look", self.store.page, **{**asked.given, "limit": limit})
        size = sum(len(card.task.body) + len(card.task.source) + len(card.notes) for card in page.cards)
        fitting = LARGEST_ANSWER * max(1, len(page.cards)) // max(1, size)
        self._cards = max(1, min(CARDS, GROWTH * limit, fitting))
        return page

    async def _events(self, asked: Asked) -> Any:
        given = {**asked.given, "limit": min(asked.given["limit"], LINES)}
        return await self._run("look", getattr(self.store, asked.verb), **given)

    async def _unsettled(self, asked: Asked) -> Any:
        return await self._run("look", unsettled, self.store, asked.given["after"])

    async def is_ready(self) -> bool:
        """Whether the store answers."""
        try:
            await asyncio.wait_for(self._run("look", self.store.paused), 5.0)
        except (TaskpitError, TimeoutError, OSError):
            return False
        return True

    # -- the keeper --------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Give back what was abandoned, in a thread of its own."""
        kept: Any = _Kept(self)
        queue = Queue(kept, self.queue.config, self.queue.clock)
        period = min(max(self.queue.config.lease / 4, SWEEP_AT_LEAST), SWEEP_AT_MOST)
        whole_at = 0.0
        slept = time.monotonic()
        while not self._quit.wait(period):
            now = time.monotonic()
            if now - slept > 2 * period + SWEEP_AT_LEAST:
                self.members.begin_grace()  # this process did not run, so no worker could renew
            is_whole = now >= whole_at
            try:
                step: Callable[..., list[Mend]] = keeper.sweep if is_whole else keeper.give_back
                step(queue, ended=lambda _queue, _claim: True)
            except Exception:  # noqa: S110 - the store is away: the next sweep tries again
                pass
            self.members.forget()
            slept = time.monotonic()
            if is_whole:
                whole_at = slept + SWEEP_SHARE * (slept - now)


class _Kept:
    """The store as the gateway's own keeper sees it: what is in grace has not lapsed."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.lapsed, self.finish = gateway.lapsed, gateway.finish

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway.store, name)


def _claim_of(card: Card, lease: float = 0.0) -> Claim:
    return Claim(
        task=card.task,
        worker=base(card.worker),
        fence=card.worker,
        lease=lease,
        attempt=card.task.attempts + 1,
        since=card.since,
    )


def _plain(claim: Claim) -> Claim:
    """Return a claim without what only its judge knows."""
    return Claim(**{name: getattr(claim, name) for name in Claim.__struct_fields__})
