"""A disk that is full to the last block or the last inode: nothing is lost, and work that is done can be handed in.

Real filesystems, small and filled; needs the right to mount. Errors at each single call are tried in tests/crash.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil

import disks
import pytest
from boxes import LAYOUTS, pit, reopened, write
from pits import misplaced

from taskpit.model import Done, State
from taskpit.store import disk_reserve

#: Small ones of each kind: how they are made, and what of them is filled.
DISKS = {
    "tmpfs, blocks": ("tmpfs", {"options": "size=2m"}, "blocks"),
    "tmpfs, inodes": ("tmpfs", {"options": "size=4m,nr_inodes=150"}, "inodes"),
    "ext4, blocks": ("ext4", {"megabytes": 8}, "blocks"),
    "ext4, inodes": ("ext4", {"megabytes": 8}, "inodes"),
}
#: Verbs that hand in or keep what somebody has: they work on a full disk.
WORK = {
    "renew": ["renew", "{id}"],
    "done": ["done", "{id}", "--result", "{result}"],
    "fail": ["fail", "{id}", "--error", "no"],
}
#: Verbs that need room for something new: they say so, and work once there is room.
NEED_ROOM = {"add": ["add", "new"], "note": ["note", "{id}", "look"], "lock": ["lock", "door"]}
#: Verbs that may need room or not: whatever they say is true.
EITHER = {"claim": ["claim", "--as", "other"], "split": ["split", "{id}", "-F", "{children}"], "sweep": ["sweep"]}
LOOK = (
    ["list"],
    ["show", "{id}"],
    ["why", "{id}"],
    ["ready"],
    ["stats"],
    ["doctor"],
    ["locks"],
    ["sweep", "--dry-run"],
)
RESULT = "what came of it\n" * 200


class Disk:
    """A small filesystem with a queue on it: three tasks, one of them claimed."""

    def __init__(self, where, what, layout, desk):
        self.where = where
        self.what = what
        self.layout = layout
        self.root = f"{where}/queue"
        assert pit("init", self.root, "--layout", layout).code == 0
        self.ids = [self.pit("add", f"task {number}").out.strip() for number in range(3)]
        self.words = {"id": self.ids[0], "result": f"{desk}/result", "children": f"{desk}/children.jsonl"}
        write(self.words["result"], RESULT)
        write(self.words["children"], '{"title": "one part"}\n{"title": "another"}\n')
        assert self.pit("claim", "{id}").code == 0

    def pit(self, *words):
        return pit("-C", self.root, *(word.format(**self.words) if "{" in word else word for word in words))

    def fill(self):
        """Nothing fits any more: not one byte, or not one name."""
        os.mkdir(f"{self.where}/fill")
        numbers = itertools.count()
        for size in (0,) if self.what == "inodes" else (1 << 16, 1024, 1):
            with contextlib.suppress(OSError):
                while True:
                    self._stuff(f"{self.where}/fill/{next(numbers)}", size)
        with pytest.raises(OSError, match="No space left"):
            self._stuff(f"{self.where}/fill/last", 1)

    @staticmethod
    def _stuff(path, size):
        """A file as large as fits, in pieces of this size; complains unless one piece fits."""
        with open(path, "wb", buffering=0) as file:
            file.write(b"x" * size)
            with contextlib.suppress(OSError):
                while size:
                    file.write(b"x" * size)

    def free(self):
        shutil.rmtree(f"{self.where}/fill")

    def queue(self):
        return reopened(self.root, self.layout)

    def is_whole(self):
        """Every task is in exactly one place and readable, and the doctor agrees."""
        queue = self.queue()
        assert misplaced(queue) == {}
        assert all(card is not None and card.task.title for card in queue.store.read(self.ids))
        queue.close()
        assert "all is in order" in self.pit("doctor").out


#: Every layout where disks are cheap; what a real disk does differently it does for each of them.
CASES = [(name, layout) for name in DISKS for layout in (LAYOUTS if "tmpfs" in name else ("pit",))]


@pytest.fixture(params=CASES, ids=", ".join)
def disk(request, tmp_path):
    name, layout = request.param
    kind, how, what = DISKS[name]
    try:
        with disks.mounted(kind, **how) as where:
            yield Disk(where, what, layout, tmp_path)
    except disks.Unable as error:
        pytest.skip(str(error))


def refused(answer):
    """It says what is wrong, what to do, and that nothing is lost."""
    assert answer.code == 8, answer.out + answer.err
    assert "No space left" in answer.err
    assert "make room, then repeat: nothing was lost" in answer.err


def test_what_is_done_can_be_handed_in(disk):
    """Renew, done and fail of what was claimed before the disk was full; and looking works."""
    disk.fill()
    assert disk.pit(*WORK["renew"]).code == 0
    for words in LOOK:
        assert disk.pit(*words).code == 0, words
    assert disk.pit(*WORK["done"]).code == 0
    assert RESULT.strip() in disk.pit("show", "{id}").out
    disk.free()
    assert disk.pit("sweep").code == 0
    disk.is_whole()


def test_an_attempt_can_be_given_back(disk):
    disk.fill()
    answer = disk.pit(*WORK["fail"])
    assert answer.code == 0, answer.err
    queue = disk.queue()
    card = queue.card(disk.ids[0])
    queue.close()
    assert (card.state, card.task.attempts, len(card.tries)) == (State.READY, 1, 1)
    disk.free()
    disk.is_whole()


@pytest.mark.parametrize("verb", NEED_ROOM)
def test_what_needs_room_says_so_and_goes_on_when_there_is_some(verb, disk):
    disk.fill()
    refused(disk.pit(*NEED_ROOM[verb]))
    assert [card.task.id for card in cards(disk)] == sorted(disk.ids)
    disk.free()
    assert disk.pit(*NEED_ROOM[verb]).code == 0
    disk.is_whole()


@pytest.mark.parametrize("verb", EITHER)
def test_whatever_is_said_is_true(verb, disk):
    """What was refused is undone, or is carried out once there is room; what was not refused holds."""
    disk.fill()
    answer = disk.pit(*EITHER[verb])
    if answer.code:
        refused(answer)
    disk.free()
    queue = disk.queue()
    for mend in queue.store.mend():
        assert mend.kind == "carried out"
    queue.close()
    disk.is_whole()
    again = disk.pit(*EITHER[verb])
    assert again.code in (0, 3, 4), again.err  # carried out meanwhile, or anew
    if verb == "split":
        assert len(cards(disk)) == len(disk.ids) + 2
    disk.is_whole()


def cards(disk):
    """All tasks there are."""
    queue = disk.queue()
    found = [card for state in State for card in queue.store.page(state).cards]
    queue.close()
    return sorted(found, key=lambda card: card.task.id)


def test_the_room_is_held_back_again(disk):
    """A sweep on the full disk takes nothing from anybody; one with room makes the next full disk harmless, too."""
    held = {f"ballast.{number}" for number in range(1, disk_reserve.PIECES + 1)}
    assert held <= set(os.listdir(f"{disk.root}/.taskpit"))
    assert disk.pit("claim", disk.ids[1]).code == 0
    disk.fill()
    assert disk.pit(*WORK["done"]).code == 0
    assert not held <= set(os.listdir(f"{disk.root}/.taskpit"))
    disk.free()
    assert disk.pit("sweep").code == 0
    assert held <= set(os.listdir(f"{disk.root}/.taskpit"))
    disk.fill()
    assert disk.pit("done", disk.ids[1]).code == 0


def test_without_what_is_held_back_it_would_be_refused(disk, monkeypatch):
    """The control: the disk is as full as it should be."""
    disk.fill()
    monkeypatch.setattr(disk_reserve, "_paths", lambda _: [])
    refused(disk.pit(*WORK["done"]))
    monkeypatch.undo()
    queue = disk.queue()
    (before,) = queue.store.read([disk.ids[0]])
    queue.close()
    assert (before.state, before.result) == (State.CLAIMED, None)
    assert disk.pit(*WORK["done"]).code == 0


@pytest.mark.parametrize("disk", [case for case in CASES if "blocks" in case[0]], indirect=True, ids=", ".join)
def test_more_than_is_held_back_waits_for_room(disk):
    """A result larger than all of it is refused, kept by whoever has it, and handed in later."""
    queue = disk.queue()
    (claim,) = queue.claim("big", ids=(disk.ids[1],))
    large = Done(output="x" * (disk_reserve.PIECES * disk_reserve.SIZE + 65536))
    disk.fill()
    with pytest.raises(Exception, match="No space left") as told:
        queue.finish(claim, large)
    assert told.value.exit_code == 8
    assert queue.card(disk.ids[1]).state is State.CLAIMED
    disk.free()
    assert str(queue.finish(claim, large)[0]) == "ok"
    queue.close()
    disk.is_whole()
