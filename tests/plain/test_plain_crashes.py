"""A process dies before each call that changes the disk: the next ones lose nothing and double nothing."""

from __future__ import annotations

import os

import pytest

from taskpit import layouts
from taskpit.config import Config
from taskpit.errors import TaskpitError
from taskpit.model import End, Result, Said, State, Task, Try, Verdict, Want
from taskpit.store.plain.files import Files
from taskpit.store.plain.opening import make
from taskpit.store.plain.store import FolderStore
from taskpit.testing import FakeClock

CHANGING = (
    "create",
    "append",
    "write_at",
    "link",
    "move",
    "replace",
    "exchange",
    "remove",
    "set_times",
    "sync",
    "make_dir",
)
KINDS = (("pit", "process"), ("pit", "power"), ("mailbox", "process"), ("workspace", "power"))
READY = {"pit": "food/food-{}-task.md", "mailbox": "inbox/{}.json", "workspace": "tasks/{}_pending.md"}


class DeathError(BaseException):
    """The process is gone."""


class Mortal(Files):
    """Files of a process that dies before its n-th changing call; nothing it does afterwards has an effect."""

    def __init__(self, root, left):
        super().__init__(root)
        self.left = left

    def _step(self):
        self.left -= 1
        if self.left < 0:
            for handle in list(self._opened):
                handle.close()
            raise DeathError


def _mortal(name):
    def call(self, *args, **kwargs):
        self._step()
        return getattr(super(Mortal, self), name)(*args, **kwargs)

    return call


for _name in CHANGING:
    setattr(Mortal, _name, _mortal(_name))


class Scene:
    def __init__(self, root, kind, clock):
        self.root, self.layout, self.clock = root, layouts.get(kind[0]), clock
        self.config = Config(durability=kind[1])
        make(Files(root), self.layout, clock)
        self.store = self.open()
        self.acknowledged = []

    def open(self, files=None):
        return FolderStore(self.root, self.layout, self.config, self.clock, files)

    def id(self, number):
        return self.layout.new_id(number)

    def task(self, number, **fields):
        return Task(**{"id": self.id(number), "title": f"task {number}", "slug": "task", **fields})

    def take(self, store, number, **want):
        found = store.claim(Want(**{"worker": "w", "lease": 60.0, "ids": (self.id(number),), **want}))
        return found[0] if found else None


def done(claim, output="ok", **more):
    result = Result(id=claim.task.id, verdict=Verdict.DONE, worker=claim.fence, attempt=1, output=output)
    return End(claim=claim, result=result, action="completed_task", **more)


def failed(claim):
    result = Result(id=claim.task.id, verdict=Verdict.FAILED, worker=claim.fence, attempt=1, reason="no")
    return End(claim=claim, result=result, action="failed_task")


def attempt(claim):
    return Try(at=5.0, worker=claim.fence, kind="task", error="it broke", mark="it broke")


def put_one(scene, store):
    return lambda: store.put([scene.task(1)])


def put_many(scene, store):
    return lambda: store.put([scene.task(n) for n in (1, 2, 3)])


def claim_one(scene, store):
    scene.store.put([scene.task(1)])
    return lambda: scene.take(store, 1)


def _claimed(scene, store):
    scene.store.put([scene.task(1)])
    return scene.take(scene.store, 1)


def done_one(scene, store):
    end = done(_claimed(scene, store))
    return lambda: store.finish([end])


def done_with_text(scene, store):
    claim = _claimed(scene, store)
    end = done(claim, task=claim.task.replace(priority=7))
    return lambda: store.finish([end])


def failed_one(scene, store):
    end = failed(_claimed(scene, store))
    return lambda: store.finish([end])


def retried(scene, store):
    claim = _claimed(scene, store)
    end = End(claim=claim, task=claim.task.replace(attempts=1), attempt=attempt(claim), action="retried_task")
    return lambda: store.finish([end])


def released(scene, store):
    end = End(claim=_claimed(scene, store), action="released_task")
    return lambda: store.finish([end])


def split(scene, store):
    end = done(_claimed(scene, store), children=(scene.task(2), scene.task(3)))
    return lambda: store.finish([end])


def waits(scene, store):
    claim = _claimed(scene, store)
    end = End(
        claim=claim, task=claim.task.replace(needs=(scene.id(2),)), children=(scene.task(2),), action="split_task"
    )
    return lambda: store.finish([end])


def reopened(scene, store):
    scene.store.finish([failed(_claimed(scene, store))])
    return lambda: store.reopen([scene.task(1, priority=3)])


def put_back_by_hand(scene, store):
    claim = _claimed(scene, store)
    scene.store.finish([failed(claim)])
    path = f"{scene.root}/{READY[scene.layout.name].format(scene.id(1))}"
    if scene.layout.name == "workspace":
        os.rename(f"{scene.root}/tasks/{scene.id(1)}_failed.md", path)
    else:
        with open(path, "wb") as file:
            file.write(claim.task.source)
        os.utime(path, (scene.clock.now() - 60, scene.clock.now() - 60))
    return lambda: scene.take(store, 1)


def written_by_others(scene, store):
    """Another program has claimed the task and written its result."""
    _claimed(scene, store)
    path = scene.layout.finished_paths(scene.task(1))[0]
    with open(f"{scene.root}/{path}", "w") as file:
        file.write('{"task_id": "x", "status": "completed"}' if scene.layout.name == "mailbox" else "theirs")
    os.utime(f"{scene.root}/{path}", (scene.clock.now() - 60, scene.clock.now() - 60))
    return store.mend


def swept(scene, store):
    """A reclaim."""
    claim = _claimed(scene, store)
    scene.clock.advance(61)

    def sweep():
        store.mend()
        for lapse in store.lapsed():
            lost = Try(at=0.0, worker=lapse.claim.fence, kind="lost", error=lapse.reason, counted=False)
            store.finish([End(claim=lapse.claim, attempt=lost, action="recovered_task", details=lapse.reason)])

    assert claim
    return sweep


def edited(scene, store):
    """An editor saved the ready task by a rename."""
    scene.store.put([scene.task(1)])
    path = f"{scene.root}/{READY[scene.layout.name].format(scene.id(1))}"
    with open(path, "rb") as file:
        data = file.read()
    with open(f"{path}.new", "wb") as file:
        file.write(data.replace(b"task 1", b"other 1"))
    os.rename(f"{path}.new", path)
    os.utime(path, (scene.clock.now() - 60, scene.clock.now() - 60))
    return lambda: scene.take(store, 1)


SCENES = (
    *(put_one, put_many, claim_one, done_one, done_with_text, failed_one, retried, released, split, waits),
    *(reopened, put_back_by_hand, written_by_others, swept, edited),
)


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_nothing_is_lost_whenever_a_process_dies(scene, kind, tmp_path):
    for left in range(200):
        clock = FakeClock()
        place = Scene(str(tmp_path / str(left)), kind, clock)
        mortal = Mortal(place.root, 10**9)
        store = place.open(mortal)
        act = scene(place, store)
        mortal.left = left
        try:
            act()
            survived = True
        except DeathError:
            survived = False
        judge(place, scene, survived=survived, left=left)
        if survived:
            return
    raise AssertionError("it never survives")


def judge(place, scene, *, survived, left):
    where = f"{scene.__name__}, death before call {left}"
    place.store.close()
    place.clock.advance(120)
    store = place.open()
    for _ in range(3):
        store.mend()
        for lapse in store.lapsed():
            store.finish([End(claim=lapse.claim, action="recovered_task")])
    known = set()
    for number in (1, 2, 3):
        card = store.read([place.id(number)])[0]
        if card is not None:
            known.add(number)
            assert card.state is not State.CLAIMED, where
    if scene not in (put_one, put_many):
        assert 1 in known, where
    if survived and scene in (put_many, split):
        assert known == {1, 2, 3}, where
    assert wrong(store.check()) == [], where
    drain(place, store, where)
    counts = store.counts()
    assert counts[State.READY] == counts[State.CLAIMED] == 0, (where, counts)
    assert counts[State.DONE] + counts[State.FAILED] == len(known), (where, counts, known)
    assert wrong(store.check()) == [], where
    assert wrong(store.mend()) == [], where
    assert not os.listdir(f"{place.root}/.taskpit/pending") or scene in (put_one, put_many, claim_one) or not survived
    store.close()


def wrong(found):
    return [one for one in found if one.kind not in ("late result", "quarantined", "swept")]


def drain(place, store, where):
    for _ in range(20):
        claims = store.claim(Want(worker="d", lease=60.0, count=5))
        if not claims:
            return
        for claim in claims:
            assert store.finish([done(claim, "drained")]) == [Said.OK], where
    raise AssertionError(f"{where}: it never ends")


def test_a_wrong_path_is_refused(tmp_path):
    """The strict names of the port: a wrong path is refused before anything is done."""
    place = Scene(str(tmp_path / "q"), KINDS[0], FakeClock())
    with pytest.raises(TaskpitError):
        place.store.put([place.task(1, id="../x")])
