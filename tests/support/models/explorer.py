"""Every order in which actors can take their steps, crash, and see leases run out. Knows no protocol.

An actor runs a *program*: a generator that yields system calls (`disk`) and is sent their answers. Since a
program is deterministic, where it stands is told by the answers it had so far; a program that returns another one
(`method, arguments...`) goes on as that, with no memory but the arguments. So a state of the world is: the disk,
where each actor stands, and how many may still crash. All of them are small numbers here, and what follows from a
disk and a place is worked out once.

Breadth first: the first violation found has a shortest trace. On every distinct disk everybody is also stopped for
ever and a keeper runs alone (`World.recovery`): whatever was left must become good.
"""

from __future__ import annotations

import itertools

from models.disk import age, apply, crash

#: Bits for one actor's place.
PLACE = 16
#: A program alone that makes more calls than this does not end.
ENDLESS = 10_000


class World:
    """What is explored: who acts, on what, and what must be true of every disk. Models fill this in."""

    #: Actor's name to its program: a method and its arguments.
    actors = {}
    #: How many actors may die.
    crashes = 0

    def start(self):
        """The disk at first."""
        return {}

    def aging(self, disk, alive):
        """Files whose lease may run out now, given who is alive."""
        return ()

    def wrong(self, disk):
        """What must never be, in words; empty if all is well."""
        return ""

    def recovery(self):
        """A program that puts right whatever was left, run alone; None if there is none."""
        return

    def aged_for_recovery(self, disk):
        """The disk after a long time in which nobody did anything."""
        return disk

    def unfinished(self, disk):
        """What must not be left after recovery, in words."""
        return ""


class Found:
    """What an exploration found: how much there was, and the first violation with the way to it."""

    def __init__(self, world, states, steps, disks, violation="", trace=(), *, whole=True):
        self.world = world
        self.states = states
        self.steps = steps
        self.disks = disks
        self.violation = violation
        self.trace = trace
        #: Whether every reachable state was seen: neither a violation nor the limit ended it.
        self.whole = whole

    def __str__(self):
        seen = f"{self.states:,} states, {self.steps:,} steps, {self.disks:,} disks"
        if not self.violation:
            return f"{seen}: {'no violation' if self.whole else 'no violation so far; stopped at the limit'}"
        return "\n".join([f"{seen}: {self.violation}", *(f"  {n:2} {line}" for n, line in enumerate(self.trace, 1))])


class Violation(Exception):
    """Found one."""

    def __init__(self, text, state, last=()):
        super().__init__(text)
        self.state = state
        self.last = last


def explore(world, limit=0):
    """Look at every state that can be reached, or at `limit` of them."""
    return _Explorer(world).run(limit)


def run_alone(program, disk):
    """Let one program run on this disk with nobody else about: the disk after it, and the calls made."""
    history, calls = (), []
    while True:
        call, following = _next(program, history)
        if call is None:
            if following is None:
                return disk, calls
            program, history = following, ()
            continue
        ways = apply(disk, call)
        if not ways or len(calls) > ENDLESS:
            raise RuntimeError(f"a program that runs alone waits or never ends: {call}")
        answer, disk = ways[0]
        history = (*history, answer)
        calls.append((call, answer))


def _next(program, history):
    """The call a program makes after these answers, or (None, what it goes on as)."""
    method, *arguments = program
    running = method(*arguments)
    try:
        call = next(running)
        for answer in history:
            call = running.send(answer)
    except StopIteration as end:
        return None, end.value
    finally:
        running.close()
    return call, None


class _Places:
    """Where programs can stand, as numbers. 0 is dead, 1 is at its end."""

    DEAD, ENDED = 0, 1

    def __init__(self):
        self._numbers = {}
        self._where = [None, None]
        self.calls = [None, None]

    def of(self, program, history=()):
        """The number of this place."""
        key = (program, history)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._learn(program, history)
        return number

    def _learn(self, program, history):
        call, following = _next(program, history)
        if call is None:
            return self.of(following) if following is not None else self.ENDED
        self._where.append((program, history))
        self.calls.append(call)
        if len(self.calls) >= 1 << PLACE:
            raise OverflowError("too many places")
        return len(self.calls) - 1

    def after(self, place, answer):
        """The place where this answer leads."""
        program, history = self._where[place]
        return self.of(program, (*history, answer))


class _Explorer:
    """One exploration."""

    def __init__(self, world):
        self.world = world
        self.names = tuple(world.actors)
        self.places = _Places()
        self._disks = []
        self._disk_numbers = {}
        #: (disk, place) to the steps it allows: (disk, place, what happened).
        self._steps = {}
        self._crashed = {}
        self._aged = {}

    def disk(self, mapping):
        """The number of this disk; a new one is judged at once."""
        key = tuple(sorted(mapping.items()))
        number = self._disk_numbers.get(key)
        if number is None:
            number = self._disk_numbers[key] = len(self._disks)
            self._disks.append(mapping)
        return number

    def run(self, limit):
        start = (
            self.disk(self.world.start()),
            self.world.crashes,
            *(self.places.of(p) for p in self.world.actors.values()),
        )
        self.came = {self._pack(start): None}
        self.judged, self.count = set(), 0
        layer, whole = [start], True
        try:
            self._judge(start)
            while layer and whole:
                layer, whole = self._advance(layer, limit)
        except Violation as found:
            trace = [*self._trace(found.state), *found.last]
            return Found(self.world, len(self.came), self.count, len(self._disks), str(found), trace, whole=False)
        return Found(self.world, len(self.came), self.count, len(self._disks), whole=whole)

    def _advance(self, layer, limit):
        came, following = self.came, []
        for state in layer:
            packed = self._pack(state)
            for after, _ in self._after(state):
                self.count += 1
                key = self._pack(after)
                if key not in came:
                    came[key] = packed
                    if after[0] not in self.judged:
                        self._judge(after)
                    following.append(after)
            if limit and len(came) >= limit:
                return following, False
        return following, True

    def _judge(self, state):
        number = state[0]
        self.judged.add(number)
        disk = self._disks[number]
        wrong = self.world.wrong(disk)
        if wrong:
            raise Violation(wrong, self._pack(state))
        recovery = self.world.recovery()
        if recovery is None:
            return
        aged = crash_all(self.world.aged_for_recovery(disk), self.names)
        after, calls = run_alone(recovery, aged)
        wrong = self.world.wrong(after) or self.world.unfinished(after)
        if wrong:
            told = [f"then a keeper alone: {say(call)} -> {answer}" for call, answer in calls if call[0] in CHANGING]
            raise Violation(f"after recovery: {wrong}", self._pack(state), ["everybody stops for ever", *told])

    def _after(self, state):
        """Every state that follows at once, with what happened."""
        disk, crashes, *places = state
        for index, place in enumerate(places):
            if place <= _Places.ENDED:
                continue
            steps = self._steps.get((disk, place))
            if steps is None:
                steps = self._steps[disk, place] = self._step(disk, place)
            head, tail = state[2 : 2 + index], state[3 + index :]
            for new, there, what in steps:
                yield (new, crashes, *head, there, *tail), (index, what)
            if crashes:
                gone = self._crashed.get((disk, index))
                if gone is None:
                    gone = self._crashed[disk, index] = self.disk(crash(self._disks[disk], self.names[index]))
                yield (gone, crashes - 1, *head, _Places.DEAD, *tail), (index, "dies")
        alive = frozenset(name for name, place in zip(self.names, places, strict=True) if place != _Places.DEAD)
        aged = self._aged.get((disk, alive))
        if aged is None:
            files = self.world.aging(self._disks[disk], alive)
            aged = self._aged[disk, alive] = [(self.disk(age(self._disks[disk], file)), file) for file in files]
        for new, file in aged:
            yield (new, *state[1:]), (None, f"a lease goes by: {file} is old")

    def _step(self, disk, place):
        call = self.places.calls[place]
        ways = apply(self._disks[disk], call)
        return [(self.disk(after), self.places.after(place, answer), (call, answer)) for answer, after in ways]

    def _pack(self, state):
        disk, crashes, *places = state
        packed = disk << 4 | crashes
        for place in places:
            packed = packed << PLACE | place
        return packed

    def _unpack(self, packed):
        places = []
        for _ in self.names:
            places.append(packed & ((1 << PLACE) - 1))
            packed >>= PLACE
        return (packed >> 4, packed & 15, *reversed(places))

    def _trace(self, packed):
        way = [packed]
        while self.came[way[-1]] is not None:
            way.append(self.came[way[-1]])
        way.reverse()
        for before, after in itertools.pairwise(way):
            target = self._unpack(after)
            index, what = next(what for state, what in self._after(self._unpack(before)) if state == target)
            if index is None:
                yield what
            elif isinstance(what, str):
                yield f"{self.names[index]} {what}"
            else:
                yield f"{self.names[index]}: {say(what[0])} -> {what[1]}"


#: Calls that change something: what a recovery is told by.
CHANGING = frozenset(("create", "create_numbered", "link", "move", "move_new", "remove", "tell"))


def crash_all(disk, names):
    """Everybody is dead."""
    for name in names:
        disk = crash(disk, name)
    return disk


def say(call):
    """A call in a line of a trace."""
    kind, *words = call
    return f"{kind} {' '.join(map(str, words))}"
