"""`pit doctor --fix`: every broken state is told, put right, told no more; not a byte is lost, the work goes on."""

from __future__ import annotations

import hashlib
import os
import stat

import pytest
from boxes import LAYOUTS, pit
from pits import drain
from rotation import in_turn
from ruins import ASIDE, BREAKS, House

from taskpit import fs, keeper
from taskpit.model import Done, Release, Said, State, Task
from taskpit.store import doctor
from taskpit.store.folder import Folder

CASES = in_turn([(layout, broken) for layout in LAYOUTS for broken in BREAKS])


def ids(value):
    return getattr(value, "__name__", str(value))


def fixed(queue, **how):
    return keeper.fix(queue, ended=lambda _queue, _claim: True, **how)


def contents(root):
    """What every file holds, wherever it lies and whatever it is called; nothing is followed."""
    paths = [os.path.join(folder, name) for folder, _, files in os.walk(root) for name in files]
    return {mark(path) for path in paths if os.path.isfile(path) and not os.path.islink(path)}


def mark(path):
    mode = os.stat(path).st_mode
    os.chmod(path, mode | stat.S_IRUSR)  # it may be shut, and we not root
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    finally:
        os.chmod(path, mode)


#: Written anew all the time; never the only place of anything.
DERIVED = (".taskpit/changelog.log", ".taskpit/sightings", "manifest.json", ".taskpit/workers/snake", ".taskpit/next")


def derived(root):
    return {mark(f"{root}/{name}") for name in DERIVED if os.path.isfile(f"{root}/{name}")}


def tree(root):
    """Every entry with its inode and times: what a dry run must leave as it was."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            status = os.lstat(os.path.join(folder, name))
            found[os.path.relpath(os.path.join(folder, name), root)] = (
                status.st_ino,
                status.st_mtime_ns,
                status.st_mode,
            )
    return found


def goes_on(house, queue):
    """Every task that was there is still known, or lies aside; a new one comes in; all that is free gets done."""
    queue.put([Task(id="", title="new")])
    drain(queue)
    counts = queue.store.counts()
    assert counts[State.READY] == 0
    assert counts[State.DONE] >= 2
    for task_id in (house.claimed, house.done, house.failed):
        assert queue.card(task_id).task.id == task_id


@pytest.mark.parametrize(("layout", "broken"), CASES, ids=ids)
def test_it_is_told_and_put_right(layout, broken, tmp_path):
    house = House(tmp_path / "queue", layout)
    kind = broken(house)
    queue = house.queue()
    before = contents(tmp_path) - derived(house.root)
    assert kind in {found.kind for found in queue.store.check()}
    picture = tree(house.root)
    assert fixed(queue, dry_run=True) != []
    assert {path for path, seen in tree(house.root).items() if seen != picture.get(path)} <= SEEN
    assert fixed(queue) != []
    assert fixed(queue) == []
    assert {found.kind for found in queue.store.check()} <= ASIDE
    assert before <= contents(tmp_path)
    goes_on(house, queue)
    queue.close()


#: Looking leaves these: what was seen when, and the lock under which it is noted.
SEEN = {".taskpit", ".taskpit/sightings", ".taskpit/sightings.lock", ".taskpit/tmp", ".tmp"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_is_put_right_that_is_right(layout, tmp_path):
    house = House(tmp_path / "queue", layout)
    queue = house.queue()
    before = {path: seen for path, seen in tree(house.root).items() if path not in (*SEEN, *DERIVED)}
    assert fixed(queue) == []
    assert {path: seen for path, seen in tree(house.root).items() if path not in (*SEEN, *DERIVED)} == before
    queue.close()


# -- the command -----------------------------------------------------------------------------------


def test_the_command_says_what_it_did(tmp_path):
    house = House(tmp_path / "queue", "pit")
    os.remove(house.at(house.file("food", house.ready)))
    would = pit("-C", house.root, "doctor", "--fix", "--dry-run")
    assert (would.code, os.listdir(house.at("food"))) == (1, [])
    assert would.out.startswith("would do:\nvanished  0001: its file is gone")
    answer = pit("-C", house.root, "doctor", "--fix")
    assert answer.code == 0
    assert answer.out.startswith("vanished  0001: put back as food/food-0001-ready.md")
    assert "all is in order" in answer.out
    again = pit("-C", house.root, "doctor", "--fix", "--json")
    assert (again.code, again.data["did"], again.data["clean"]) == (0, [], True)


def test_what_lies_aside_is_for_a_person_to_look_at(tmp_path):
    house = House(tmp_path / "queue", "pit")
    house.write("food/shopping list.txt", b"milk")
    answer = pit("-C", house.root, "doctor", "--fix", "--json")
    assert (answer.code, answer.data["needs_person"]) == (1, True)
    assert [found["kind"] for found in answer.data["findings"]] == ["quarantined"]


def test_dry_run_goes_with_fix(tmp_path):
    house = House(tmp_path / "queue", "pit")
    assert pit("-C", house.root, "doctor", "--dry-run").code == 2


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("said", [None, b"", b"snakepit\n", b"\xff\0"])
def test_a_queue_that_no_longer_says_what_it_is(said, layout, tmp_path):
    house = House(tmp_path / "queue", layout)
    os.remove(house.at(".taskpit/layout"))
    if said is not None:
        house.write(".taskpit/layout", said)
    found = pit("-C", house.root, "doctor", "--json")
    assert (found.code, [one["what"] for one in found.data["findings"]]) == (1, [".taskpit/layout"])
    assert pit("-C", house.root, "doctor", "--fix", "--dry-run").code == 1
    assert pit("-C", house.root, "list").code != 0
    before = contents(house.root) - derived(house.root)
    did = pit("-C", house.root, "doctor", "--fix", "--json")
    assert did.data["queue"]["layout"] == layout
    assert before <= contents(house.root)
    assert len(pit("-C", house.root, "list", "--json").data) == 4


# -- while others work -----------------------------------------------------------------------------


def test_a_task_put_back_by_mistake_is_never_run_beside_itself(tmp_path):
    """The doctor looked while it moved: what it put back is a copy, and no claim takes it."""
    house = House(tmp_path / "queue", "pit")
    queue = house.queue()
    assert doctor.put_back(queue.store.folder, house.claimed).startswith("put back")
    taken = [claim.task.id for claim in queue.claim("other", count=9)]
    assert taken == [house.ready]
    assert {found.kind for found in queue.store.check()} == {"quarantined"}
    queue.close()


def test_a_task_that_was_put_back_meanwhile_is_left_alone(tmp_path):
    house = House(tmp_path / "queue", "pit")
    queue = house.queue()
    before = tree(house.root)["food/food-0001-ready.md"]
    assert doctor.put_back(queue.store.folder, house.ready) == ""
    assert tree(house.root)["food/food-0001-ready.md"] == before
    assert fs.names(house.at(".taskpit/tmp")) == []
    queue.close()


def test_one_file_on_its_way_is_not_two(tmp_path):
    """Seen ready, then claimed; when the ready name is to go it is the only one: it comes back."""
    house = House(tmp_path / "queue", "pit")
    queue = house.queue()
    name, other = "food/food-0001-ready.md", "claimed/snake.food-0001-ready.md"
    os.link(house.at(name), house.at(other))
    step = Folder.set_aside

    def moving(self, *args, **kwargs):
        os.remove(house.at(other))
        return step(self, *args[:2], **kwargs)

    Folder.set_aside = moving
    try:
        assert doctor.one_name(queue.store.folder, name, other) == ""
    finally:
        Folder.set_aside = step
    assert os.path.exists(house.at(name))
    queue.close()


# -- cures broken on purpose -----------------------------------------------------------------------


def test_a_cure_that_deletes_is_seen(tmp_path, monkeypatch):
    house = House(tmp_path / "queue", "pit")
    house.write("food/shopping list.txt", b"milk")
    before = contents(house.root) - derived(house.root)
    queue = house.queue()
    monkeypatch.setattr(doctor, "aside", lambda folder, name, why, _: fs.remove(folder.at(name)) and why)
    fixed(queue)
    assert not before <= contents(house.root)
    queue.close()


@pytest.mark.parametrize("layout", ["pit", "workspace"])
@pytest.mark.parametrize("attempts", [0, 1])
def test_a_task_that_is_worked_on_is_not_run_from_a_second_name_of_its_file(layout, attempts, tmp_path):
    """A backup made of hard links was put back: the very file, but it stands elsewhere, too."""
    house = House(tmp_path / "queue", layout)
    queue = house.queue()
    claim = queue.holding(house.claimed, queue.card(house.claimed).worker)
    for _ in range(attempts):  # then it is not the registered file any more
        assert queue.finish(claim, Release(task=claim.task.replace(priority=3)))[0] is Said.OK
        (claim,) = queue.claim("snake", ids=(house.claimed,))
    os.link(house.at(house.file(house.layout.claimed, house.claimed)), house.at(house.ready_name(house.claimed)))
    assert house.claimed not in [taken.task.id for taken in queue.claim("other", count=9)]
    assert queue.finish(claim, Done(output="once"))[0] is Said.OK
    assert queue.card(house.claimed).result.output == "once"
    queue.close()
