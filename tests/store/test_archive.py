"""Archiving: old results go to the folder of their month, everything still finds them, and no crash loses one."""

from __future__ import annotations

import os

import pytest
from faults import killed_at, record
from pits import POWER, make, reopened, root_of, task
from waits import numbers

from taskpit import transfer
from taskpit.errors import Invalid
from taskpit.keeper import sweep
from taskpit.model import Done, State
from taskpit.store import cards
from taskpit.testing import FakeClock

DAY = 86400.0
#: The tenth of November 2026, the third of December.
NOVEMBER, DECEMBER = 1794268800.0, 1796256000.0


def filled(root, clock, layout="pit", config=POWER):
    """Two results of November, one of December, one task that needs the first, one that waits."""
    queue = make(root, clock, config, layout)
    queue.put([task(number) for number in (1, 2, 3)])
    for claim in queue.claim("snake", count=3):
        queue.finish(claim, Done(output=f"did {claim.task.id}"))
    folder = queue.store.folder
    for spot in list(folder.finished()):
        when = DECEMBER if spot.id == "0003" else NOVEMBER
        os.utime(folder.at(spot.path), (when, when))
    queue.put([task(4, needs=("0001",)), task(5)])
    clock.advance(DECEMBER + 10 * DAY - clock.now())
    return queue


def seen(root):
    return sorted(
        f"{os.path.relpath(folder, root)}/{name}"
        for place in ("done", "outbox", ".taskpit/archive")
        for folder, _, names in os.walk(f"{root}/{place}")
        for name in names
    )


def judge(queue):
    """Nothing of it is lost or out of order, and what needs an archived task may run."""
    cards = {card.task.id: card for card in queue.store.page().cards}
    assert {key: card.state for key, card in cards.items()} == {
        **dict.fromkeys(("0001", "0002", "0003"), State.DONE),
        **dict.fromkeys(("0004", "0005"), State.READY),
    }
    assert [cards[f"000{n}"].result.output for n in (1, 2, 3)] == ["did 0001", "did 0002", "did 0003"]
    assert not cards["0004"].held
    assert queue.store.counts()[State.DONE] == 3
    assert sweep(queue) == []
    assert queue.store.check() == []


@pytest.mark.parametrize("layout", ["pit", "mailbox"])
def test_old_results_go_to_their_month_and_are_found(layout, tmp_path, clock):
    queue = filled(str(tmp_path), clock, layout)
    before = list(transfer.dump(queue.store))[1:4]

    would = queue.store.archive(20 * DAY, dry_run=True)
    assert not os.path.exists(f"{tmp_path}/.taskpit/archive")
    assert queue.store.archive(20 * DAY) == would
    assert queue.store.archive(20 * DAY) == []

    assert [mend.what for mend in sorted(would, key=lambda mend: mend.what)] == ["0001", "0002"]
    names = seen(tmp_path)
    assert [name.rpartition("/")[0] for name in names] == [
        *[".taskpit/archive/2026-11"] * 2,
        "done" if layout == "pit" else "outbox",
    ]
    judge(queue)
    assert list(transfer.dump(queue.store))[1:4] == before
    assert queue.resolve("0001") == "0001"
    queue.close()


def test_killed_anywhere_nothing_is_lost(tmp_path):
    for number in numbers():
        clock = FakeClock()
        queue = filled(str(tmp_path / str(number)), clock)
        with record() as calls, killed_at(number):
            queue.store.archive(0.0)
        whole = len(calls) < number
        other = reopened(root_of(queue), clock, POWER)
        judge(other)
        other.store.archive(0.0)
        judge(other)
        assert len([name for name in seen(root_of(queue)) if "/archive/" in name]) == 3
        other.close()
        queue.close()
        if whole:
            return


def test_a_result_that_somebody_else_wrote_waits_until_it_is_known(tmp_path, clock):
    queue = filled(str(tmp_path), clock)
    path = f"{tmp_path}/done/food-0009-foreign.result.md"
    with open(path, "w", encoding="utf-8") as file:
        file.write("done elsewhere\n")
    os.utime(path, (NOVEMBER, NOVEMBER))
    assert "0009" not in [mend.what for mend in queue.store.archive(0.0)]
    assert os.path.exists(path)
    queue.close()


def test_what_stands_there_already_is_never_replaced(tmp_path, clock):
    queue = filled(str(tmp_path), clock)
    os.makedirs(f"{tmp_path}/.taskpit/archive/2026-11")
    with open(f"{tmp_path}/.taskpit/archive/2026-11/food-0001-task-1.result.md", "w", encoding="utf-8") as file:
        file.write("another\n")
    assert "0001" not in [mend.what for mend in queue.store.archive(0.0)]
    with open(f"{tmp_path}/.taskpit/archive/2026-11/food-0001-task-1.result.md", encoding="utf-8") as file:
        assert file.read() == "another\n"
    judge(queue)
    queue.close()


def test_archived_between_the_listing_and_the_reading_it_is_read_all_the_same(tmp_path, clock, monkeypatch):
    """A search reads thousands of results after it has listed them."""
    queue = filled(str(tmp_path / "pit"), clock)
    card_at = cards._card_at

    def late(*words):
        queue.store.archive(0.0)
        return card_at(*words)

    monkeypatch.setattr(cards, "_card_at", late)
    outputs = {card.result.output for card in queue.store.page(State.DONE).cards}
    assert outputs == {"did 0001", "did 0002", "did 0003"}
    queue.close()


def test_two_names_after_a_power_loss_become_one(tmp_path, clock):
    queue = filled(str(tmp_path), clock)
    queue.store.archive(0.0)
    name = "food-0001-task-1.result.md"
    os.link(f"{tmp_path}/.taskpit/archive/2026-11/{name}", f"{tmp_path}/done/{name}")
    assert [mend.what for mend in queue.store.archive(0.0)] == ["0001"]
    assert not os.path.exists(f"{tmp_path}/done/{name}")
    judge(queue)
    queue.close()


def test_where_an_index_says_where_results_are_they_stay(tmp_path, clock):
    queue = make(str(tmp_path), clock, POWER, "workspace")
    with pytest.raises(Invalid, match="index"):
        queue.store.archive(0.0)
    queue.close()


@pytest.mark.parametrize("layout", ["pit", "mailbox"])
def test_what_is_archived_is_pruned_like_the_rest(tmp_path, clock, layout):
    """Where the settings say so; how it ended is known for ever."""
    root = str(tmp_path / "pit")
    queue = filled(root, clock, layout)
    queue.store.archive(DAY)
    queue.store.folder.config = queue.config.replace(keep_results=20 * DAY)
    pruned = [mend for mend in sweep(queue) if mend.kind == "pruned"]
    assert [mend.what for mend in sorted(pruned, key=lambda mend: mend.what)] == ["0001", "0002"]
    assert [name for name in seen(root) if "0001" in name or "0002" in name] == []
    (card,) = queue.store.read(["0001"])
    assert (card.state, card.result.reason) == (State.DONE, "the result was pruned")
    assert not queue.card("0004").held
    assert [mend for mend in sweep(queue) if mend.kind == "pruned"] == []
    queue.close()
