"""Snakes written in sh, with mv, cat and rm, in one pit with ours."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter

import pytest
from faults import Stopped
from waits import PATIENCE, numbers

from taskpit import fs
from taskpit.keeper import sweep
from taskpit.model import Done, Said, State, Task
from taskpit.queue import Queue
from taskpit.store.folder import CLEANED
from taskpit.store.opening import init

HERE = os.path.dirname(__file__)
WORKER = f"{HERE}/../races/actors/worker.py"
HOUR = 3600


@pytest.fixture
def queue(tmp_path):
    root = str(tmp_path / "pit")
    init(root, "pit")
    with open(f"{root}/.taskpit/config.toml", "w", encoding="utf-8") as file:
        file.write('durability = "process"\n')
    queue = Queue.open(root)
    queue.store.grace = queue.store.folder.grace = 0.0
    yield queue
    queue.close()


def root_of(queue):
    return queue.store.folder.root


def put(queue, count):
    tasks = [Task(id=f"{n:04d}", title=f"task {n}", slug=f"task-{n}") for n in range(1, count + 1)]
    assert set(queue.store.put(tasks)) == {Said.CREATED}


def clean_up(queue):
    """What the foreign cleanup moved back."""
    done = subprocess.run(
        ["sh", f"{HERE}/cleanup.sh", root_of(queue)], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stderr == ""
    return done.stdout.split()


def age(path, seconds):
    """The file has not been written for so long."""
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.mark.races
def test_a_snake_in_sh_races_four_of_ours(queue):
    """Five hundred tasks: each runs at least once, each has one result, none is lost, nobody falls over."""
    put(queue, 500)
    start, first = f"{root_of(queue)}/.start", f"{root_of(queue)}/.first"
    ours = [[sys.executable, WORKER, root_of(queue), start, f"snake-{n}"] for n in range(4)]
    commands = [*ours, ["sh", f"{HERE}/snake.sh", root_of(queue), "sh", first]]
    crowd = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands
    ]
    for process in crowd:
        assert process.stdout.readline() == "here\n"
    with open(first, "w", encoding="utf-8"):
        pass
    begun = crowd[-1].stdout.readline()  # it has one, however fast the others are
    with open(start, "w", encoding="utf-8"):
        pass
    ran = Counter()
    shares = []
    for process in crowd:
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (0, "")
        said = [*([begun] if process is crowd[-1] else []), *out.splitlines()]
        lines = [line.split()[0].removeprefix("food-").partition("-")[0] for line in said]
        ran.update(lines)
        shares.append(len(lines))
    os.unlink(start)
    os.unlink(first)
    sweep(queue)
    sweep(queue)
    assert set(ran) == {f"{n:04d}" for n in range(1, 501)}
    assert shares[-1] > 0
    assert sum(shares[:4]) > 0
    assert queue.store.counts() == {State.READY: 0, State.CLAIMED: 0, State.DONE: 500, State.FAILED: 0}
    assert len(os.listdir(f"{root_of(queue)}/done")) == 500
    assert [found.kind for found in queue.store.check() if found.kind != "late result"] == []


def test_the_foreign_cleanup_leaves_our_claims_alone(queue):
    """A claim's file is stamped so that it looks abandoned when its lease is over, and not before."""
    put(queue, 1)
    (claim,) = queue.claim("snake", lease=HOUR)
    (name,) = os.listdir(f"{root_of(queue)}/claimed")
    assert os.stat(f"{root_of(queue)}/claimed/{name}").st_mtime > time.time() + HOUR - CLEANED - 60
    assert clean_up(queue) == []
    assert queue.renew(claim, HOUR) is Said.OK
    assert clean_up(queue) == []
    assert queue.finish(claim, Done())[0] is Said.OK


def test_every_moment_of_a_claim_is_safe_from_the_foreign_cleanup(queue):
    """Stopped before each of its calls, a claim of a task that waited an hour is not taken for abandoned."""
    stopped_at = []
    for number in numbers():
        put_one(queue, number)
        age(f"{root_of(queue)}/food/food-{number:04d}-x.md", HOUR)
        stopped = Stopped(lambda n=number: queue.claim("snake", ids=(f"{n:04d}",)), number)
        assert clean_up(queue) == [], stopped.call
        (claim,) = stopped.go_on()
        assert queue.finish(claim, Done())[0] is Said.OK
        if not stopped.there:
            break
        stopped_at.append(stopped.call[0])
    assert "rename" in stopped_at


@pytest.mark.parametrize("lease", [60, CLEANED, HOUR])
def test_a_dead_workers_claim_is_the_foreign_cleanups_when_its_lease_is_over(lease, queue):
    """Fifteen minutes after its last sign of life by default; nobody of ours need look at it."""
    put(queue, 1)
    queue.claim("snake", lease=lease)
    (name,) = os.listdir(f"{root_of(queue)}/claimed")
    path = f"{root_of(queue)}/claimed/{name}"
    stamped = os.stat(path).st_mtime
    for passed, cleaned in ((lease - 30, []), (lease + 90, [name])):  # `find` counts whole minutes
        os.utime(path, (stamped - passed,) * 2)
        assert clean_up(queue) == cleaned
    (again,) = queue.claim("healthy")
    assert queue.finish(again, Done())[0] is Said.OK


def put_one(queue, number):
    queue.store.put([Task(id=f"{number:04d}", title="x", slug="x")])


def test_the_foreign_cleanup_reclaims_what_was_abandoned(queue):
    """That is its right: the task is ready again, and whoever had it is told so."""
    put(queue, 1)
    (claim,) = queue.claim("snake", lease=60)
    (name,) = os.listdir(f"{root_of(queue)}/claimed")
    age(f"{root_of(queue)}/claimed/{name}", HOUR)
    assert clean_up(queue) == [name]
    assert queue.renew(claim) is Said.LOST
    (again,) = queue.claim("other")
    assert queue.finish(claim, Done(output="late"))[0] is Said.LOST
    assert queue.finish(again, Done(output="the one"))[0] is Said.OK
    card = queue.card("0001")
    assert (card.result.output, len(card.late)) == ("the one", 1)


def test_a_foreign_claim_is_given_back_after_its_time(queue):
    """A snake in sh died in the middle: its claim has no record of ours, and 15 minutes of grace."""
    put(queue, 1)
    os.rename(f"{root_of(queue)}/food/food-0001-task-1.md", f"{root_of(queue)}/claimed/sh.food-0001-task-1.md")
    assert [mend.kind for mend in sweep(queue)] == []
    card = queue.card("0001")
    assert (card.state, card.worker, card.alive) == (State.CLAIMED, "sh", "unknown")


def test_foreign_food_and_foreign_results_are_learned(queue):
    root = root_of(queue)
    with open(f"{root}/food/food-0042-by-hand.md", "w", encoding="utf-8") as file:
        file.write("# food-0042-by-hand\n- **task:** made by hand\n")
    with open(f"{root}/done/food-0041-elsewhere.result.md", "w", encoding="utf-8") as file:
        file.write("done elsewhere\n")
    assert sorted(mend.what for mend in sweep(queue) if mend.kind == "registered") == ["0041", "0042"]
    assert queue.card("0041").state is State.DONE
    assert queue.claim("snake")[0].task.title == "made by hand"
    assert queue.store.allot([""]) not in (["0041"], ["0042"])


@pytest.mark.parametrize("text", ["0043", "43", "004"])
def test_what_list_shows_can_be_shown(queue, text):
    """A task that was made, claimed and finished by hand between two of our looks."""
    claimed = f"{root_of(queue)}/claimed/snake-9.food-0043-by-hand.md"
    with open(claimed, "w", encoding="utf-8") as file:
        file.write("# food-0043-by-hand\n- **task:** made by hand\n")
    assert queue.resolve(text) == "0043"
    assert queue.card("0043").worker == "snake-9"

    with open(f"{root_of(queue)}/done/food-0043-by-hand.result.md", "w", encoding="utf-8") as file:
        file.write("done by hand\n")
    os.unlink(claimed)

    assert queue.resolve(text) == "0043"
    assert queue.card("0043").result.output == "done by hand\n"


@pytest.mark.parametrize(
    "path",
    [
        "food/food-0002.md",
        "food/food-0002-by-hand.md",
        "claimed/sh.food-0002.md",
        "claimed/sh.food-0002-by-hand.md",
        "done/food-0002.result.md",
        "done/food-0002-by-hand.result.md",
        "done/food-0002.plan.md",
    ],
)
def test_a_number_that_a_snake_used_by_hand_is_not_given_out(queue, path):
    (first,) = queue.store.allot([""])
    with open(f"{root_of(queue)}/{path}", "w", encoding="utf-8") as file:
        file.write("# food-0002\n- **task:** by hand\n")
    looked = []
    fs.set_hook(lambda call, what: looked.append(what) if call == "stat" and "000" in what else None)
    try:
        given = [queue.store.allot([""])[0] for _ in range(6)]
    finally:
        fs.set_hook(None)
    assert (first, *given) == ("0001", "0003", "0004", "0005", "0006", "0007", "0008")
    assert {os.path.dirname(what) for what in looked} == {f"{root_of(queue)}/.taskpit/ids"}  # the rest is listed


def test_food_that_a_snake_choked_on_is_anybodys_again(queue):
    """Back by `mv`, with a note in the scraps; also if it wrote into the file what went wrong."""
    root = root_of(queue)
    put(queue, 1)
    os.rename(f"{root}/food/food-0001-task-1.md", f"{root}/claimed/sh.food-0001-task-1.md")
    with open(f"{root}/scraps/sh-choked.md", "w", encoding="utf-8") as file:
        file.write("three times the same\n")
    with open(f"{root}/claimed/sh.food-0001-task-1.md", "a", encoding="utf-8") as file:
        file.write("\nIt chokes.\n")
    os.rename(f"{root}/claimed/sh.food-0001-task-1.md", f"{root}/food/food-0001-task-1.md")
    assert sweep(queue) == []
    (claim,) = queue.claim("snake")
    assert (claim.task.title, claim.task.body.strip(), claim.task.attempts) == ("task 1", "It chokes.", 0)
    assert queue.finish(claim, Done())[0] is Said.OK
    assert [card.state for card in queue.store.page().cards] == [State.DONE]
    assert os.path.exists(f"{root}/scraps/sh-choked.md")


def test_parts_that_a_snake_regurgitates_are_food_for_everybody(queue):
    """It writes them into food/, notes that in its result and removes its claim; no step is ours."""
    root = root_of(queue)
    put(queue, 1)
    os.rename(f"{root}/food/food-0001-task-1.md", f"{root}/claimed/sh.food-0001-task-1.md")
    for part in ("a", "b"):
        with open(f"{root}/food/food-0001{part}-part.md", "w", encoding="utf-8") as file:
            file.write(f"# food-0001{part}-part\n- **task:** part {part}\n- **tossed-by:** sh\n")
    with open(f"{root}/done/food-0001-task-1.result.md", "w", encoding="utf-8") as file:
        file.write("in two parts: 0001a, 0001b\n")
    os.unlink(f"{root}/claimed/sh.food-0001-task-1.md")
    parts = queue.claim("snake", count=9)
    assert sorted((claim.task.title, claim.task.by) for claim in parts) == [("part a", "sh"), ("part b", "sh")]
    assert queue.card("0001").result.output == "in two parts: 0001a, 0001b\n"


def test_a_result_that_is_written_where_it_belongs_is_whole_in_the_end(queue):
    """As the protocol says it: written, not moved; however long that takes."""
    root = root_of(queue)
    put(queue, 1)
    os.rename(f"{root}/food/food-0001-task-1.md", f"{root}/claimed/sh.food-0001-task-1.md")
    with open(f"{root}/done/food-0001-task-1.result.md", "w", encoding="utf-8") as file:
        file.write("first\n")
        file.flush()
        sweep(queue)
        assert queue.card("0001").state is State.DONE
        file.write("second\n")
    if os.path.exists(f"{root}/claimed/sh.food-0001-task-1.md"):
        os.unlink(f"{root}/claimed/sh.food-0001-task-1.md")
    sweep(queue)
    assert sweep(queue) == []
    assert queue.card("0001").result.output == "first\nsecond\n"


def test_a_stranger_that_has_the_name_of_a_dead_worker_of_ours_keeps_its_claim(queue):
    """The record of a pool that has gone says that its worker is dead, and nothing of another program's claim."""
    queue.store.join("snake-1", HOUR).leave()
    put_one(queue, 1)
    claimed = f"{root_of(queue)}/claimed/snake-1.food-0001-x.md"
    os.rename(f"{root_of(queue)}/food/food-0001-x.md", claimed)
    assert sweep(queue) == []
    assert os.path.exists(claimed)
    assert queue.card("0001").alive == "unknown"


@pytest.mark.parametrize("ended", [False, True], ids=["ours is ready", "ours is done"])
def test_a_result_of_another_task_that_was_given_our_number_by_hand(ended, queue):
    """Tossed and eaten by others before anybody here saw it: two tasks of one number, and both are done."""
    root = root_of(queue)
    put(queue, 1)
    if ended:
        (claim,) = queue.claim("snake")
        queue.finish(claim, Done(output="ours"))
    with open(f"{root}/done/food-0001-x.result.md", "w", encoding="utf-8") as file:
        file.write("theirs\n")
    assert [mend.kind for mend in sweep(queue)] == ["registered"]
    assert sweep(queue) == []
    if not ended:
        (claim,) = queue.claim("snake")
        queue.finish(claim, Done(output="ours"))
    cards = queue.store.page().cards
    assert {(card.state, card.result.output.strip()) for card in cards} == {
        (State.DONE, "ours"),
        (State.DONE, "theirs"),
    }
    assert queue.card("0001").result.output.strip() == "ours"
    assert (queue.card("0001").late, os.listdir(f"{root}/.taskpit/quarantine")) == ((), [])
    assert queue.store.check() == []


def test_a_claim_of_another_task_that_was_given_our_number_by_hand(queue):
    """Ours ends meanwhile; theirs is left to them, and if they leave it, it is a task of its own."""
    root = root_of(queue)
    put(queue, 1)
    with open(f"{root}/claimed/sh.food-0001-x.md", "w", encoding="utf-8") as file:
        file.write("- **task:** theirs\n")
    (claim,) = queue.claim("snake")
    queue.finish(claim, Done(output="ours"))
    assert sweep(queue) == []
    os.rename(f"{root}/claimed/sh.food-0001-x.md", f"{root}/food/food-0001-x.md")  # as a cleaner does
    (again,) = queue.claim("snake") or queue.claim("snake")
    assert (again.task.title, again.task.id != "0001") == ("theirs", True)
    assert os.listdir(f"{root}/.taskpit/quarantine") == []
