"""The verbs of a gateway: from a request that was let in to an answer. Knows the store and who asks, nothing of HTTP.

Everything of one verb that comes while the store is busy with that verb goes to it in one call. Renewals have a thread
of their own, whatever else is under way. The keeper runs here.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from taskpit import keeper
from taskpit.errors import Invalid, TaskpitError, Unknown
from taskpit.events import unsettled
from taskpit.model import Card, Claim, End, Said, State, Want
from taskpit.nonces import fresh_name
from taskpit.queue import Queue, cards
from taskpit.serve import rights
from taskpit.serve.batches import Batch
from taskpit.serve.calls import Call, Calls
from taskpit.serve.members import Members
from taskpit.serve.tokens import Grant
from taskpit.serve.waiting import Waiting
from taskpit.store.port import Lapse, Mend, Store, turn
from taskpit.store.remote import wire
from taskpit.workers import MARK, base

#: Threads by what they are for: renewals wait for nobody.
THREADS = {"renew": 1, "put": 1, "turn": 1, "look": 4, "slow": 2}
#: What another gateway may have done already, and doing it again is not the same.
ONCE = ("note", "record", "resume", "reopen", "unlock", "relock", "keep_log", "end_log")
SLOW = (
    *("mend", "fix", "compost", "check"),
    *("keep_log", "add_log", "end_log", "read_log", "keep_artifact", "artifacts", "read_artifact"),
)
#: Cards of one page, and lines of the changelog, at most; and the bytes an answer may have.
CARDS, LINES, LARGEST_ANSWER = 1000, 5000, 64 * 1024 * 1024
#: How long a claim waits for a caller that was cut off to ask again, in seconds, before it goes back.
COME_BACK = 10.0
#: How long a claim may be under way, in seconds, before a caller that does not want it looks again.
UNDER_WAY = 0.1
#: What a lease ends later than it did is renewed, in seconds.
RENEWED = 0.001
#: Sweeps are this far apart, at least and at most; and a whole one takes no larger part of the time.
SWEEP_AT_LEAST, SWEEP_AT_MOST, SWEEP_SHARE = 2.0, 30.0, 20.0

#: The word for the end of a claim that lapsed; and how many such are known that nobody has ended yet.
RECOVERED, MOST_LAPSED = "recovered_task", 10_000


class Asked:
    """One call that was let in: by whom, what, and whether it may have been asked before, of whom."""

    def __init__(self, grant: Grant, verb: str, body: dict[str, Any], again: str | None = None) -> None:
        self.grant = grant
        self.verb = verb
        self.body = body
        self.again = again
        call = body.get("call", "")
        if call and not wire.is_call(call):
            raise Invalid("the call has a name that no call has", field="call")
        self.call: str = call


class CallerTurn(NamedTuple):
    """What one caller brings and wants."""

    ends: tuple[End, ...]
    want: Want | None


class Gateway:
    """A store, for many callers at once. To be used inside one event loop."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.store: Store = queue.store
        #: By this callers know whether they were answered by us or by one before us.
        self.name = f"g{fresh_name(10)}"
        self.members = Members(queue.config.lease)
        self._threads = {
            name: ThreadPoolExecutor(count, thread_name_prefix=f"gateway-{name}") for name, count in THREADS.items()
        }
        self.calls = Calls()
        self.batches = {
            "put": Batch(self._threads["put"], self.store.put),
            "turn": Batch(self._threads["turn"], self._turns, self._turns_again),
            "renew": Batch(self._threads["renew"], self._renew),
            "find": Batch(self._threads["slow"], self._find),
        }
        self._lapsed: dict[tuple[str, str], Claim] = {}
        self._returning: set[tuple[str, str]] = set()
        self._quit = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)
        #: Verbs that are more than one call of the store.
        self._special: dict[str, Callable[[Asked], Awaitable[Any]]] = {
            "hello": self._hello,
            "put": self._put,
            "reopen": self._reopened,
            "claim": self._claim,
            "turn": self._turn,
            "drop": self._drop,
            "renew": self._renewed,
            "finish": self._ended,
            "join": self._join,
            "leave": self._leave,
            "lapsed": self._judge,
            "mend": self._keeps,
            "compost": self._keeps,
            "page": self._page,
            "events": self._news,
            "latest": self._news,
            "unsettled": self._unsettled,
        }
        self.waiting: Waiting | None = None

    def start(self) -> None:
        """The keeper runs; called inside the loop."""
        personal = self.store.info().layout == "activities"
        self.waiting = Waiting(self.store, self._take, personal=personal)
        self._keeper.start()

    def dismiss(self) -> None:
        """Whoever waits goes home with nothing."""
        if self.waiting is not None:
            self.waiting.close()

    def close(self) -> None:
        """The threads end when their calls do."""
        self._quit.set()
        self.dismiss()
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, threads: str, act: Callable[..., Any], *words: Any, **named: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads[threads], partial(act, *words, **named))

    # -- one call ----------------------------------------------------------------------------------

    def begin(self, asked: Asked) -> Call | None:
        """The call, under way or answered before; None for one that only looks."""
        rights.check_verb(asked.grant, asked.verb)
        self._hear(asked)
        if not asked.call or asked.verb in wire.LOOKS:
            return None
        if asked.again is not None and not self.calls.has(asked.grant.name, asked.call):
            if asked.verb in ONCE and asked.again != self.name:
                raise Unknown(
                    "the gateway was started again before it answered", hint="It may have happened: look, then repeat."
                )
        else:
            asked.again = None
        return self.calls.ask(asked.grant.name, asked.call, lambda: self.answer(asked))

    def _hear(self, asked: Asked) -> None:
        who, stays = asked.body.get("who", ""), asked.body.get("stays", [])
        if not isinstance(who, str) or len(who) > 40 or not isinstance(stays, list) or len(stays) > 1000:
            raise Invalid("who asks cannot be told")
        mine = [name for name in stays if isinstance(name, str) and rights.acts_as(asked.grant, name)]
        self.members.hear(f"{asked.grant.name}/{who}" if who else "", mine, self.queue.config.lease)

    async def answer(self, asked: Asked) -> Any:
        """What there is to say, as JSON has it."""
        special = self._special.get(asked.verb)
        if special is not None:
            return await special(asked)
        if asked.verb not in wire.VERBS:
            raise Invalid(f"there is no verb {asked.verb[:40]!r}")
        kind = wire.VERBS[asked.verb][1]
        given = self._given(asked, asked.verb, asked.body)
        threads = "slow" if asked.verb in SLOW else "look"
        return kind.write(await self._run(threads, getattr(self.store, asked.verb), **given))

    def _given(self, asked: Asked, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        return rights.check(asked.grant, verb, wire.read_fields(wire.VERBS[verb][0], body))

    async def _hello(self, _: Asked) -> Any:
        return wire.HELLO.write(wire.Hello(self.store.info(), self.queue.config, self.queue.clock.now(), self.name))

    async def _put(self, asked: Asked) -> Any:
        given = self._given(asked, "put", asked.body)
        said = await self.batches["put"].ask(given["tasks"])
        self._tell()
        return wire.SAIDS.write(said)

    async def _reopened(self, asked: Asked) -> Any:
        given = self._given(asked, "reopen", asked.body)
        said = await self._run("put", self.store.reopen, given["tasks"])
        self._tell()
        return wire.SAIDS.write(said)

    def _tell(self) -> None:
        if self.waiting is not None:
            self.waiting.tell()

    # -- claims ------------------------------------------------------------------------------------

    async def _claim(self, asked: Asked) -> Any:
        return wire.CLAIMS.write((await self._claims(asked, asked.body, 0.0))[1])

    async def _turn(self, asked: Asked) -> Any:
        """Renewals, then ends and a claim that may wait: one call for a pool and a period."""
        body, said = asked.body, {}
        if "renew" in body:
            lease = body.get("lease", self.queue.config.lease)
            said["renew"] = wire.SAIDS.write(await self._renewals(asked, {"held": body["renew"], "lease": lease}))
        ends = await self._given_ends(asked, {"ends": body["finish"]}) if "finish" in body else []
        if "claim" not in body:
            return {**said, "finish": wire.SAIDS.write(await self._ends(ends))} if "finish" in body else said
        wait = min(wire.SECONDS.read(body.get("wait", 0.0)), wire.LONGEST_POLL)
        ended, claims = await self._claims(asked, {"want": body["claim"]}, wait, ends)
        said["claim"] = wire.CLAIMS.write(claims)
        if "finish" in body:
            said["finish"] = wire.SAIDS.write(ended)
        return said

    async def _claims(
        self, asked: Asked, body: dict[str, Any], wait: float, ends: Sequence[End] = ()
    ) -> tuple[list[Said], list[Claim]]:
        """What these ends came to, and what there is for the wish: together in one call where nobody is in line."""
        want: Want = self._given(asked, "claim", body)["want"]
        if want.call and not wire.is_call(want.call):
            raise Invalid("the claim has a name that no call has", field="call")
        if want.even_held and not rights.is_owner(asked.grant):
            rights.check_held(asked.grant, await self._run("look", self.store.read, want.ids))
        if want.ids and asked.grant.tags:
            rights.check_tagged(asked.grant, await self._run("look", self.store.read, want.ids))
        if asked.again is not None:
            if want.verbatim and not want.ids:
                hint = "`pit list --state running` shows what you have."
                raise Unknown("the gateway was started again before it answered", hint=hint)
            found: list[Claim] = (await self.batches["find"].ask([want]))[0] if want.call else []
            if found:  # renewed at once: the gateway that made them sees that their worker has come back to another
                await self.batches["renew"].ask([(claim, want.lease) for claim in found])
                return await self._ends(ends), found
        line = self.waiting
        if line is None or wait <= 0 or want.ids or not line:
            said, claims = (await self.batches["turn"].ask([CallerTurn(tuple(ends), want)]))[0]
            self._told(ends)
            if claims or line is None or wait <= 0 or want.ids:
                return said, claims
        else:
            said = await self._ends(ends)
        return said, await line.claim(want, wait)

    async def _take(self, wants: list[Want]) -> list[list[Claim]]:
        """What there is for each of these, in their order."""
        return [claims for _, claims in await self.batches["turn"].ask([CallerTurn((), want) for want in wants])]

    def _find(self, wants: list[Any]) -> list[list[Claim]]:
        """The claims that calls of these names have made, whose answers were lost: one look for all of them."""
        found: list[list[Claim]] = [[] for _ in wants]
        for card in cards(self.store, State.CLAIMED):
            for at, want in enumerate(wants):
                if (card.task.id, card.worker) in self._returning or base(card.worker) != want.worker:
                    continue
                if card.worker.partition(MARK)[2].endswith(want.call):
                    found[at].append(_claim_of(card, want.lease))
        return found

    def give_up(self, asked: Asked, call: Call) -> None:
        """Its caller is gone: a wish leaves the line; what was claimed waits a while for the caller to ask again."""
        if asked.verb not in ("claim", "turn"):
            return
        seen, loop = call.asked, asyncio.get_running_loop()
        want = asked.body.get("claim") or asked.body.get("want")
        with contextlib.suppress(Invalid, TaskpitError):
            wanted = self._given(asked, "claim", {"want": want})["want"]
            if self.waiting is not None and self.waiting.is_waiting(wanted):
                self.calls.drop(asked.grant.name, asked.call)
                call.work.cancel()
                return
        loop.call_later(COME_BACK, lambda: asyncio.ensure_future(self._return(asked, call, seen)))

    async def _return(self, asked: Asked, call: Call, seen: int) -> None:
        """What a call claimed goes back, unless it was asked for again; a claim still under way is waited for."""
        await asyncio.wait((call.work,))
        if call.asked != seen or call.work.cancelled() or call.work.exception() is not None:
            return
        self.calls.drop(asked.grant.name, asked.call)
        answer = call.work.result()
        made: list[Claim] = wire.CLAIMS.read(answer["claim"] if isinstance(answer, dict) else answer)
        keys = {(claim.task.id, claim.fence) for claim in made}
        self._returning |= keys
        try:
            with contextlib.suppress(TaskpitError):  # their leases end
                cards = await self._run("look", self.store.read, [claim.task.id for claim in made])
                gone = [
                    claim for claim, card in zip(made, cards, strict=True) if card and not _was_renewed(claim, card)
                ]
                await self._ends([End(claim=claim, details="its worker was gone") for claim in gone])
        finally:
            self._returning -= keys
        self._tell()

    async def _drop(self, asked: Asked) -> Any:
        """The caller does not want what it waits for any more."""
        call = self.calls.drop(asked.grant.name, str(asked.body.get("drop")))
        if call is None:
            return None
        while not call.work.done():  # a claim that is just being made is waited for: cancelled, it would be nobody's
            if self.waiting is not None and self.waiting.is_in_line(call.work):
                call.work.cancel()
                return None
            await asyncio.wait((call.work,), timeout=UNDER_WAY)
        return await self._return(Asked(asked.grant, "turn", {}), call, call.asked)

    # -- renewals and ends -------------------------------------------------------------------------

    async def _renewed(self, asked: Asked) -> Any:
        return wire.SAIDS.write(await self._renewals(asked, asked.body))

    async def _renewals(self, asked: Asked, body: dict[str, Any]) -> list[Said]:
        given = self._given(asked, "renew", body)
        said: list[Said] = await self.batches["renew"].ask([(claim, given["lease"]) for claim in given["held"]])
        return said

    def _renew(self, items: list[Any]) -> list[Said]:
        said: dict[int, Said] = {}
        for lease in {lease for _, lease in items}:
            some = [at for at, item in enumerate(items) if item[1] == lease]
            said.update(zip(some, self.store.renew([items[at][0] for at in some], lease), strict=True))
        self.members.holds(item[0] for at, item in enumerate(items) if said[at] is not Said.LOST)
        return [said[at] for at in range(len(items))]

    async def _ended(self, asked: Asked) -> Any:
        return wire.SAIDS.write(await self._ends(await self._given_ends(asked, asked.body)))

    async def _given_ends(self, asked: Asked, body: dict[str, Any]) -> list[End]:
        """The ends as this token may give them: a task that comes back asks for what it asked for before."""
        ends: list[End] = self._given(asked, "finish", body)["ends"]
        if rights.is_owner(asked.grant) or not ends:
            return ends
        found = await self._run("look", self.store.read, [end.claim.task.id for end in ends])
        return [rights.check_end(asked.grant, end, card) for end, card in zip(ends, found, strict=True)]

    async def _ends(self, ends: Sequence[End]) -> list[Said]:
        if not ends:
            return []
        said: list[Said] = (await self.batches["turn"].ask([CallerTurn(tuple(ends), None)]))[0][0]
        self._told(ends)
        return said

    def _told(self, ends: Sequence[End]) -> None:
        """Something may have become ready by these."""
        if ends:
            self._tell()

    def _turns(self, turns: list[CallerTurn]) -> list[tuple[list[Said], list[Claim]]]:
        """Everybody's ends, then everybody's claims, in one call of the store."""
        ends = [end for one in turns for end in one.ends]
        wants = [one.want for one in turns if one.want is not None]
        told, dealt = self._end_and_claim(ends, wants)
        said, claims = iter(told), iter(dealt)
        return [([next(said) for _ in one.ends], next(claims) if one.want is not None else []) for one in turns]

    def _end_and_claim(self, ends: list[End], wants: list[Want]) -> tuple[list[Said], list[list[Claim]]]:
        """Claims that lapsed end as their judge saw them: only if nobody has renewed them since."""
        judged = [self._as_judged(end) for end in ends]
        over = [end for end in judged if end is not None]
        answers, claims = turn(self.store, over, wants)
        told = iter(answers)
        said = [Said.LOST if end is None else next(told) for end in judged]
        self.members.ended(end.claim for end in over)
        self.members.holds(claim for some in claims for claim in some)
        hooks = self.queue.config.hooks
        if hooks.commands and over:
            from taskpit.hooks import tell_ends

            tell_ends(self.store, hooks, [end for end, one in zip(judged, said, strict=True) if end and one is Said.OK])
        return said, claims

    def finish(self, ends: Sequence[End]) -> list[Said]:
        """For the keeper, which has a thread of its own."""
        return self._end_and_claim(list(ends), [])[0]

    def _as_judged(self, end: End) -> End | None:
        """None if no judge here has seen it lapse: another gateway has, and ours knows nothing of what it saw."""
        if end.action != RECOVERED:
            return end
        seen = self._lapsed.pop((end.claim.task.id, end.claim.fence), None)
        return None if seen is None else end.replace(claim=seen)

    def _turns_again(self, turns: list[CallerTurn]) -> list[tuple[list[Said], list[Claim]]]:
        """Together with others they were refused: what has ended or was claimed by these very calls since was ours."""
        again: list[tuple[list[Said], list[Claim]]] = []
        for one in turns:
            found = self._find([one.want])[0] if one.want is not None and one.want.call else []
            said, claims = self._turns([one._replace(want=None) if found else one])[0]
            again.append(([Said.OK if word is Said.ALREADY else word for word in said], found or claims))
        return again

    # -- who works ---------------------------------------------------------------------------------

    async def _join(self, asked: Asked) -> Any:
        worker, lease = wire.TEXT.read(asked.body.get("worker")), wire.SECONDS.read(asked.body.get("lease"))
        rights.check(asked.grant, "join", {"worker": worker})
        place = f"{asked.grant.name}/{wire.TEXT.read(asked.body.get('place', ''))}"
        claimed = await self._run("look", self._claims_of, worker)
        self.members.join(worker, f"{asked.grant.name}/{asked.body.get('who', '')}", place, lease, claimed)
        return None

    def _claims_of(self, worker: str) -> list[tuple[str, str]]:
        held = cards(self.store, State.CLAIMED)
        return [(card.task.id, card.worker) for card in held if base(card.worker) == worker and MARK in card.worker]

    async def _leave(self, asked: Asked) -> Any:
        worker = wire.TEXT.read(asked.body.get("worker"))
        rights.check(asked.grant, "leave", {"worker": worker})
        held = [(task_id, fence) for task_id, fence in wire.many(wire.PAIR).read(asked.body.get("held", []))]
        self.members.leave(worker, f"{asked.grant.name}/{asked.body.get('who', '')}", held)
        return None

    async def _judge(self, asked: Asked) -> Any:
        """What may be given to others; for those who may not end others' claims, nothing."""
        kinds, kind = wire.VERBS["lapsed"]
        dry = wire.read_fields(kinds, asked.body)["dry_run"]
        return kind.write(await self._run("slow", self.lapsed, dry_run=dry) if rights.is_owner(asked.grant) else [])

    async def _keeps(self, asked: Asked) -> Any:
        """The keeper here does it: only its owner may ask for it."""
        kinds, kind = wire.VERBS[asked.verb]
        given = wire.read_fields(kinds, asked.body)
        if not rights.is_owner(asked.grant):
            return []
        return kind.write(await self._run("slow", getattr(self.store, asked.verb), **given))

    def lapsed(self, *, dry_run: bool = False) -> list[Lapse]:
        """What the store says has lapsed, but for what is in grace; and what workers that left have left."""
        found = [lapse for lapse in self.store.lapsed(dry_run=dry_run) if not self.members.in_grace(lapse.claim)]
        known = {(lapse.claim.task.id, lapse.claim.fence) for lapse in found}
        left = [(key, why) for key, why in self.members.left().items() if key not in known]
        over = []
        for (key, why), card in zip(left, self.store.read([key[0] for key, _ in left]), strict=True):
            if card is None or card.state is not State.CLAIMED or card.worker != key[1]:
                over.append(key)
            else:
                claim = _claim_of(card)
                called_off = self.queue.is_called_off(claim)
                found.append(Lapse(claim=claim, reason=why, called_off=called_off))
        self.members.found(over)
        if not dry_run:
            if len(self._lapsed) > MOST_LAPSED:
                self._lapsed.clear()
            self._lapsed.update({(lapse.claim.task.id, lapse.claim.fence): lapse.claim for lapse in found})
        return [lapse.replace(claim=_plain(lapse.claim)) for lapse in found]

    # -- looking -----------------------------------------------------------------------------------

    async def _page(self, asked: Asked) -> Any:
        """As many cards as fit an answer."""
        given = self._given(asked, "page", asked.body)
        limit = max(1, min(given["limit"], CARDS))
        while True:
            page = await self._run("look", self.store.page, **{**given, "limit": limit})
            written = wire.VERBS["page"][1].write(page)
            if limit == 1 or sum(len(card.task.body) + len(card.task.source) for card in page.cards) < LARGEST_ANSWER:
                return written
            limit = max(1, limit // 4)

    async def _news(self, asked: Asked) -> Any:
        """Some lines at a time."""
        given = self._given(asked, asked.verb, asked.body)
        given["limit"] = min(given["limit"], LINES)
        return wire.VERBS[asked.verb][1].write(await self._run("look", getattr(self.store, asked.verb), **given))

    async def _unsettled(self, asked: Asked) -> Any:
        given = self._given(asked, asked.verb, asked.body)
        return wire.VERBS[asked.verb][1].write(await self._run("look", unsettled, self.store, given["after"]))

    async def is_ready(self) -> bool:
        """Whether the store answers."""
        try:
            await asyncio.wait_for(self._run("look", self.store.paused), 5.0)
        except (TaskpitError, TimeoutError, OSError):
            return False
        return True

    # -- keeping -----------------------------------------------------------------------------------

    def _keep(self) -> None:
        """What was abandoned is given back, in a thread of its own."""
        kept: Any = _Kept(self)
        queue = Queue(kept, self.queue.config, self.queue.clock)
        period = min(max(self.queue.config.lease / 4, SWEEP_AT_LEAST), SWEEP_AT_MOST)
        whole_at = 0.0
        slept = time.monotonic()
        while not self._quit.wait(period):
            now = time.monotonic()
            if now - slept > 2 * period + SWEEP_AT_LEAST:
                self.members.begin()  # this process stood still: nobody could renew
            whole = now >= whole_at
            try:
                step: Callable[..., list[Mend]] = keeper.sweep if whole else keeper.give_back
                step(queue, ended=lambda _queue, _claim: True)
            except Exception:  # noqa: S110 - the store is away: the next turn tells
                pass
            self.members.forget()
            slept = time.monotonic()
            if whole:
                whole_at = slept + SWEEP_SHARE * (slept - now)


class _Kept:
    """The store as the gateway's own keeper sees it: what is in grace has not lapsed."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def lapsed(self, *, dry_run: bool = False) -> list[Lapse]:
        """As the gateway judges."""
        return self._gateway.lapsed(dry_run=dry_run)

    def finish(self, ends: list[End]) -> list[Said]:
        """As the judge saw it."""
        return self._gateway.finish(ends)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway.store, name)


def _was_renewed(claim: Claim, card: Card) -> bool:
    """Whether its lease was made longer since it was claimed: its worker has it, by way of another gateway."""
    return card.worker == claim.fence and card.until > claim.since + claim.lease + RENEWED


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
    """Without what only its judge knows."""
    return Claim(**{name: getattr(claim, name) for name in Claim.__struct_fields__})
