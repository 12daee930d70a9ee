"""What is wrong with a disk that lost its power, given what had been acknowledged. Guest side.

Recovery is what a person does after a boot: a sweep, and another; then everything is looked at.
"""

from __future__ import annotations

import os

from load import children_of, task, text
from pits import drain, misplaced, reopened

from taskpit import fs
from taskpit.clock import Clock
from taskpit.config import Config
from taskpit.keeper import sweep
from taskpit.model import State
from taskpit.store.folder import IDS, QUARANTINE

#: No further fsync: what is judged is thrown away.
CONFIG = Config(durability="process", backoff=0.0)
#: What a sweep rightly sets aside: a token whose last moves were lost beside a result that was not, and names
#: that an interrupted rename left or brought back.
RIGHT = (" is finished (", "a power loss left it in two places", "a power loss brought its name back")


def folder(root, acknowledged, *, thorough):
    """What is wrong with a queue; also whether it goes on, if `thorough`."""
    queue = reopened(root, Clock(), CONFIG)
    try:
        sweep(queue)
        wrong = [f"a second sweep still found {mend.kind}: {mend.details}" for mend in sweep(queue)]
        wrong += [f"{task_id} is in {places or 'no place'}" for task_id, places in misplaced(queue).items()]
        wrong += [*_torn(queue), *_set_aside(queue)]
        promises = [line.split(":") for line in acknowledged]
        seen = Seen(queue, promises)
        for promise in promises:
            wrong += _broken(seen, *promise)
        if thorough and not wrong:
            wrong += _stuck(queue)
    finally:
        queue.close()
    return wrong


def _torn(queue):
    """Tasks that are not, to the letter, what was put."""
    for task_id in fs.names(queue.store.folder.at(IDS)):
        found = queue.store.folder.original(task_id)
        if found is None or (found.title, found.body.strip()) != (task(task_id).title, text(task_id)):
            yield f"{task_id} is torn"
    for name, state in (("food", State.READY), ("claimed", State.CLAIMED)):
        for spot in queue.store.folder.spots(name, state):
            found = queue.store.folder.load(spot, queue.store.folder.at(spot.path))
            if found.body.strip() != text(spot.id):
                yield f"{spot.path} is torn"


def _set_aside(queue):
    for name in fs.names(queue.store.folder.at(QUARANTINE)):
        if name.endswith(".reason"):
            reason = fs.read(queue.store.folder.at(f"{QUARANTINE}/{name}"), 65536)[0].decode()
            if not any(words in reason for words in RIGHT):
                yield f"set aside: {reason}"


class Seen:
    """What is there after recovery, looked at once for all promises: cards, and names of results."""

    def __init__(self, queue, promises):
        split = [child.id for word, task_id, *_ in promises if word == "split" for child in children_of(task_id)]
        ids = list(dict.fromkeys([task_id for _, task_id, *_ in promises] + split))
        self.cards = dict(zip(ids, queue.store.read(ids), strict=True))
        #: Where a person finds results: done ones, and notes of what failed for good.
        self.results = [
            f"{place}/{name}" for place in ("done", "scraps") for name in fs.names(queue.store.folder.at(place))
        ]


def _broken(seen, word, task_id, fence=""):
    """Whether one acknowledgement no longer holds."""
    card = seen.cards[task_id]
    if card is None:
        return [f"{word} {task_id} was acknowledged and the task is gone"]
    if word == "put":
        return []
    if word == "retry":
        told = card.state is not State.READY or card.task.attempts >= 1
        return [] if told else [f"{task_id} was given back with an attempt spent, which is forgotten"]
    state = State.FAILED if word == "failed" else State.DONE
    if card.state is not state or card.result is None:
        return [f"{word} {task_id} was acknowledged and it is {card.state}"]
    wrong = []
    if card.result.output.strip() != text(f"{task_id} by {fence}"):
        wrong.append(f"the result of {task_id} is not what {fence} wrote")
    results = [name for name in seen.results if f"/food-{task_id}-" in name]
    if len(results) != 1:
        wrong.append(f"{task_id} has the results {results}")
    children = children_of(task_id) if word == "split" else ()
    return wrong + [f"{task_id} was split and {one.id} is gone" for one in children if seen.cards[one.id] is None]


def _stuck(queue):
    """What can't be done although nothing holds it."""
    for spot in queue.store.folder.claims():  # their workers died with the machine
        ready = queue.store.folder.layout.ready_path(task(spot.id))
        fs.move(queue.store.folder.at(spot.path), queue.store.folder.at(ready))
    drain(queue)
    left = [card for state in (State.READY, State.CLAIMED) for card in queue.store.page(state).cards if not card.held]
    return [f"{card.task.id} is free and could not be done" for card in left]


def plain(root, acknowledged, *, thorough):
    """The same for the original's folders: whatever was acknowledged is there and whole."""
    wrong = []
    for line in acknowledged:
        word, task_id, *name = line.split(":")
        result = f"{root}/outbox/{task_id}_result.json"
        if word == "done":
            wrong += _not_whole(result, text(f"{task_id} by {name[0]}"), line)
        elif not os.path.exists(result):
            places = [f"{root}/{place}/{task_id}.json" for place in ("inbox", "processing")]
            wrong += _not_whole(next(filter(os.path.exists, places), places[0]), text(task_id), line)
    return wrong


def _not_whole(path, content, line):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = file.read()
    except FileNotFoundError:
        return [f"{line}: missing"]
    return [] if found == content else [f"{line}: {'empty' if not found.strip(chr(0)) else 'torn'}"]
