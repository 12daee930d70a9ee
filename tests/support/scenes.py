"""Every verb as a scene: what is there before, what is done, whose task it is about."""

from __future__ import annotations

from pits import LEASE, files, make, picture, put, root_of, take, task

from taskpit.keeper import sweep
from taskpit.model import Ask, Done, Evidence, Failed, Release, Retry, Split, Want
from taskpit.queue import EDIT_LEASE

ID = "0001"


class Scene:
    """One verb. `words` are what the changelog may say of it; `composed` is made of several verbs, `batch` of many."""

    def __init__(self, name, prepare, act, words=(), *, composed=False, batch=False):
        self.name = name
        self.prepare = prepare
        self.act = act
        self.words = words
        self.composed = composed
        self.batch = batch

    def __repr__(self):
        return self.name

    def forget(self):
        """Tries that a composed verb, given back half way, may have or not."""
        return ("lost", "reset") if self.composed else ()

    def stage(self, root, clock, config, layout="pit"):
        """A queue with everything in place, bystanders included, and what `act` needs."""
        queue = make(root, clock, config, layout)
        bystanders(queue)
        return queue, self.prepare(queue)

    def settle(self, queue):
        """Let a half-made composed verb be given back."""
        if self.composed:
            queue.clock.advance(max(EDIT_LEASE, queue.config.abandoned) + 1)
            sweep(queue)

    def picture(self, queue):
        return picture(queue, self.forget())


def bystanders(queue):
    """Tasks in every state that have nothing to do with the verb."""
    put(queue, task(100), task(101), task(102), task(103), task(104, needs=(ID,)))
    take(queue, "0101", "other")
    queue.finish(take(queue, "0102", "other"), Done(output="bystander"))
    queue.finish(take(queue, "0103", "other"), Failed(error="bystander", final=True))


def nothing(queue):
    return None


def ready(queue):
    put(queue, task(1, body="do it"))


def held(queue):
    put(queue, task(1, hold="look first"))


def claimed(queue):
    ready(queue)
    return take(queue, ID)


def third_time(queue):
    """Claimed, and failed twice the same way."""
    ready(queue)
    for _ in range(2):
        queue.finish(take(queue, ID), Failed(error="boom"))
        queue.clock.advance(100)
    return take(queue, ID)


def last_time(queue):
    """Claimed for its last attempt."""
    put(queue, task(1, max_attempts=1))
    return take(queue, ID)


def expired(queue):
    claim = claimed(queue)
    queue.clock.advance(LEASE + 1)
    queue.store.renew([take(queue, "0100", "other")], LEASE)
    return claim


def expired_often(queue):
    """Its fifth worker is gone."""
    ready(queue)
    for _ in range(4):
        queue.finish(take(queue, ID), Failed(error="gone", kind="lost"))
    take(queue, ID)
    queue.clock.advance(LEASE + 1)


def failed(queue):
    put(queue, task(1, body="do it"))
    queue.finish(take(queue, ID), Failed(error="broken", final=True))
    return queue.card(ID).task


def write(queue, name, text):
    with open(f"{root_of(queue)}/{name}", "w", encoding="utf-8") as file:
        file.write(text)


def by_hand(queue):
    write(queue, "food/food-0001-by-hand.md", "# food-0001-by-hand\n- **task:** by hand\n")


def bad_file(queue):
    ready(queue)
    write(queue, "food/food-0002-bad.md", "- **priority:** high\n")


def foreign_result(queue):
    claimed(queue)
    write(queue, "done/food-0001-task-1.result.md", "all done\n")


def old_log(queue):
    ready(queue)
    queue.store.keep_log("snake", b"line one\nerror: two\n")
    queue.clock.advance(queue.config.compost + 10)
    queue.store.renew([take(queue, "0100", "other")], LEASE)


CHILDREN = (task(2, id="0002"), task(3, id="0003", needs=("0002",)))
GREEN = Evidence(command="make test", exit_code=0, seconds=1.5, tail="ok")


def ending(outcome):
    return lambda queue, claim: queue.finish(claim, outcome)


def sweeping(queue, _):
    sweep(queue)


SCENES = [
    Scene("put", nothing, lambda queue, _: queue.store.put([task(1)]), ("added_task",)),
    Scene("put two", nothing, lambda queue, _: queue.store.put([task(1), task(1)]), ("added_task",)),
    Scene("claim", ready, lambda queue, _: queue.claim("snake", tags=()), ()),
    Scene("claim by id", ready, lambda queue, _: queue.claim("snake", ids=(ID,)), ()),
    Scene("renew", claimed, lambda queue, claim: queue.store.renew([claim], LEASE)),
    Scene("done", claimed, ending(Done(output="yes", evidence=GREEN)), ("completed_task",)),
    Scene("failed for good", last_time, ending(Failed(error="no")), ("failed_task",)),
    Scene("cancelled", claimed, ending(Failed(error="no", cancelled=True)), ("cancelled_task",)),
    Scene("failed, again later", claimed, ending(Failed(error="no")), ("retried_task", "released_task")),
    Scene("retry", claimed, ending(Retry(reason="quota", after=60.0)), ("retried_task", "released_task")),
    Scene("choke", third_time, ending(Failed(error="boom")), ("choked_task", "released_task")),
    Scene("release", claimed, ending(Release()), ("released_task",)),
    Scene("ask", claimed, ending(Ask(question="which one?")), ("asked", "released_task")),
    Scene("split", claimed, ending(Split(children=CHILDREN)), ("split_task", "completed_task")),
    Scene("split and wait", claimed, ending(Split(children=CHILDREN, wait=True)), ("split_task", "released_task")),
    Scene(
        "reopen",
        failed,
        lambda queue, old: queue.store.reopen([old.replace(priority=3)]),
        ("reopened_task", "released_task"),
    ),
    Scene("reclaim", expired, sweeping, ("recovered_task", "released_task")),
    Scene("the fifth reclaim", expired_often, sweeping, ("recovered_task", "released_task")),
    Scene("register", by_hand, sweeping, ("added_task",)),
    Scene("set aside", bad_file, sweeping),
    Scene("learn of a foreign result", foreign_result, sweeping, ("completed_task",)),
    Scene("compost", old_log, sweeping),
    Scene("edit", ready, lambda q, _: q.edit(ID, "ann", lambda t: t.replace(priority=9)), composed=True),
    Scene("block", ready, lambda q, _: q.block(ID, "ann", "not now"), composed=True),
    Scene("unblock", held, lambda q, _: q.unblock(ID, "ann"), composed=True),
    Scene("retry what failed", failed, lambda q, _: q.retry(ID, "ann"), composed=True),
    Scene("cancel what is ready", ready, lambda q, _: q.cancel(ID, "ann", "no longer"), composed=True),
    Scene("note", ready, lambda q, _: q.note(ID, "mind the gap", "ann")),
    Scene("ask to stop", claimed, lambda q, _: q.cancel(ID, "ann")),
    Scene("join", ready, lambda q, _: q.store.join("snake", LEASE).leave()),
    Scene("give out ids", nothing, lambda q, _: q.store.allot(["", ""])),
]

#: Three tasks, and the same verbs on all of them at once.
THREE = (task(1, body="do it"), task(2, id="0002"), task(3, id="0003"))


def three_ready(queue):
    put(queue, *THREE)


def three_claimed(queue):
    three_ready(queue)
    return [take(queue, one.id) for one in THREE]


def ending_all(*outcomes):
    return lambda queue, claims: queue.finish_many(list(zip(claims, outcomes, strict=True)))


BATCHES = [
    Scene("put three", nothing, lambda queue, _: queue.put(THREE), ("added_task",), batch=True),
    Scene("claim three", three_ready, lambda queue, _: queue.claim("snake", count=3), batch=True),
    Scene(
        "three done",
        three_claimed,
        ending_all(Done(output="yes"), Done(output="and"), Done(output="amen")),
        ("completed_task",),
        batch=True,
    ),
    Scene(
        "three ends",
        three_claimed,
        ending_all(Done(output="yes"), Failed(error="no"), Release()),
        ("completed_task",),
        batch=True,
    ),
]

#: Scenes that write files of their own into a pit; all others play in any layout.
PIT_ONLY = ("register", "set aside", "learn of a foreign result", "compost")
ANYWHERE = [scene for scene in SCENES if scene.name not in PIT_ONLY]

__all__ = ["ANYWHERE", "BATCHES", "ID", "SCENES", "Scene", "Want", "files"]
