"""Files that cannot be tasks: quarantined with the reason, told by the doctor, and never in anybody's way."""

from __future__ import annotations

import os

import pytest
from faults import Killed, killed_at, record
from pits import CONFIG, POWER, make, put, reopened, root_of, take, task
from rotation import part

from taskpit import layouts
from taskpit.errors import Invalid, TooLarge
from taskpit.keeper import sweep
from taskpit.model import Done, End, Said, Split, State, Task
from taskpit.queue import Queue
from taskpit.store import finish
from taskpit.store.files import FileStore
from taskpit.store.folder import QUARANTINE
from taskpit.testing import FakeClock


def symlink(path):
    os.symlink("/etc/hostname", path)


def dangling(path):
    os.symlink("/nowhere/at/all", path)


def fifo(path):
    os.mkfifo(path)


def directory(path):
    os.mkdir(path)
    with open(f"{path}/inside", "w", encoding="utf-8") as file:
        file.write("kept")


def binary(path):
    write(path, b"\x7fELF\x00\x00")


def not_utf8(path):
    write(path, b"- **task:** \xff\xfe\n")


def huge(path):
    write(path, b"x" * (2 * CONFIG.largest_task))


def wrong_type(path):
    write(path, b"# food-0002-bad\n- **priority:** high\n")


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


BAD = [symlink, dangling, fifo, directory, binary, not_utf8, huge, wrong_type]
NAMES = ["food-0002-" + "x" * 230 + ".md", "food-..-x.md", b"food-0002-\xff.md", "food-0002-a\nb.md", "food--x.md"]


@pytest.fixture
def queue(tmp_path):
    queue = make(str(tmp_path / "pit"), FakeClock())
    yield queue
    queue.close()


def aside(queue):
    """What lies in quarantine, each with its reason."""
    folder = f"{root_of(queue)}/{QUARANTINE}"
    found = {}
    for name in os.listdir(folder):
        if not name.endswith(".reason"):
            with open(f"{folder}/{name}.reason", encoding="utf-8") as file:
                found[name] = file.read()
    return found


def goes_on(queue):
    """The good task beside the bad one is claimed and done."""
    (claim,) = queue.claim("snake")
    assert claim.task.id == "0001"
    assert queue.finish(claim, Done())[0] is Said.OK
    assert queue.claim("snake") == []


@pytest.mark.parametrize("make_bad", BAD, ids=lambda f: f.__name__)
def test_claiming_passes_over_a_bad_file(make_bad, queue):
    make_bad(f"{root_of(queue)}/food/food-0002-bad.md")
    put(queue, task(1, priority=-5))
    goes_on(queue)
    assert len(aside(queue)) == 1
    assert "food-0002-bad.md" in "".join(aside(queue).values())
    assert [found.kind for found in queue.store.check()] == ["quarantined"]


@pytest.mark.parametrize("make_bad", BAD, ids=lambda f: f.__name__)
def test_sweeping_sets_a_bad_file_aside(make_bad, queue):
    make_bad(f"{root_of(queue)}/food/food-0002-bad.md")
    put(queue, task(1))
    assert [mend.kind for mend in sweep(queue)] == ["set aside"]
    assert sweep(queue) == []
    assert len(aside(queue)) == 1
    goes_on(queue)


@pytest.mark.parametrize("make_bad", BAD, ids=lambda f: f.__name__)
def test_claiming_a_bad_file_by_its_id(make_bad, queue):
    make_bad(f"{root_of(queue)}/food/food-0002-bad.md")
    put(queue, task(1))
    other = reopened(root_of(queue), queue.clock)
    assert other.store.claim(want(("0002", "0001"))) != []
    assert len(aside(other)) == 1
    other.close()


def want(ids):
    from taskpit.model import Want

    return Want(worker="snake", lease=60.0, ids=ids)


@pytest.mark.parametrize("make_bad", BAD, ids=lambda f: f.__name__)
def test_a_bad_file_among_the_claimed_stops_no_keeper(make_bad, queue):
    make_bad(f"{root_of(queue)}/claimed/snake.food-0002-bad.md")
    put(queue, task(1))
    sweep(queue)
    queue.clock.advance(10**6)
    sweep(queue)
    sweep(queue)
    assert os.listdir(f"{root_of(queue)}/claimed") == []
    goes_on(queue)


@pytest.mark.parametrize("make_bad", [symlink, fifo, directory, binary, not_utf8], ids=lambda f: f.__name__)
def test_a_bad_file_among_the_results_stops_nobody(make_bad, queue):
    make_bad(f"{root_of(queue)}/done/food-0002-bad.result.md")
    put(queue, task(1), task(3, needs=("0002",)))
    sweep(queue)
    assert queue.store.page().cards
    assert queue.store.counts()[State.READY] == 2
    assert queue.claim("snake")[0].task.id == "0001"


@pytest.mark.parametrize("name", NAMES, ids=["long", "dots", "bytes", "newline", "empty id"])
def test_a_name_that_is_nearly_a_tasks_is_taken_in_under_another(name, queue):
    write(os.path.join(os.fsencode(root_of(queue)), b"food", os.fsencode(name)), b"- **task:** x\n")
    put(queue, task(1))
    assert any(found.kind == "sweep will do" for found in queue.store.check())
    goes_on(queue)
    sweep(queue)
    (claim,) = queue.claim("snake")
    assert (claim.task.title, queue.finish(claim, Done())[0]) == ("x", Said.OK)
    assert (aside(queue), queue.store.check()) == ({}, [])


@pytest.mark.parametrize("name", [".hidden", ".gitkeep", "README.md", "food-0002-x.md~", ".nfs0001", "notes.txt"])
def test_names_that_are_never_tasks(name, queue):
    write(f"{root_of(queue)}/food/{name}", b"\x00 not for us")
    put(queue, task(1))
    goes_on(queue)
    assert sweep(queue) == []
    assert os.path.exists(f"{root_of(queue)}/food/{name}")


@pytest.mark.parametrize(
    "bad",
    [
        task(1, id="a-b"),
        task(1, id="../../etc"),
        task(1, id="a/b"),
        task(1, id=".."),
        task(1, id=""),
        task(1, slug="a/../../b"),
        task(1, slug="a\nb"),
        task(1, slug="x" * 200),
        task(1, slug="a~b"),
        task(1, priority=5.0),
        task(1, priority=10**20),
        task(1, attempts=10**20, max_attempts=1),
        task(1, max_attempts=2**53 + 1),
    ],
    ids=lambda bad: repr(bad.replace(source=b""))[:60],
)
def test_what_could_not_be_read_back_is_not_put(bad, queue):
    """Neither as a task nor as a child, before anything has happened."""
    with pytest.raises(Invalid):
        queue.store.put([bad])
    put(queue, task(9))
    claim = take(queue, "0009")
    result = queue.store.read(["0009"])[0]
    with pytest.raises(Invalid):
        queue.store.finish([End(claim=claim, children=(bad,))])
    assert result.state is State.CLAIMED
    assert queue.renew(claim) is Said.OK
    assert sweep(queue) == []
    assert queue.store.counts()[State.READY] == 0


@pytest.mark.parametrize("field", ["title", "body", "check", "hold"])
@pytest.mark.parametrize("text", ["\udcff", "a\x00b", "a\nb", "a  # b", "`a` ``b``", "- **task:** x"])
def test_odd_texts_are_refused_or_kept(field, text, queue):
    """Never put and then set aside as unreadable."""
    odd = task(1, **{field: text})
    try:
        put(queue, odd)
    except Invalid:
        assert queue.store.read(["0001"]) == [None]
        return
    claim = take(queue, "0001", even_held=True)
    kept = getattr(claim.task, field)
    assert kept == text or " ".join(kept.split()) == " ".join(text.split())
    assert aside(queue) == {}


def test_a_child_that_is_too_large_is_refused(queue):
    put(queue, task(1))
    claim = take(queue, "0001")
    with pytest.raises(TooLarge):
        queue.finish(claim, Split(children=(Task(id="0002", title="x", slug="x", body="x" * CONFIG.largest_task),)))
    assert queue.renew(claim) is Said.OK


@pytest.mark.parametrize("layout", ["pit", "mailbox", "workspace"])
@pytest.mark.parametrize("wait", [False, True])
def test_parts_that_cannot_be_read_do_not_end_their_parent(layout, wait, tmp_path, monkeypatch):
    """Spoilt between the seal and the roll: none enters, and the parent is held, wherever whoever carries on dies."""
    numbers = [0]
    for number in numbers:
        place, clock = tmp_path / str(number), FakeClock()
        queue = make(str(place), clock, POWER, layout)
        ((whole, _),) = queue.put([Task(id="", title="whole")])
        queue.put([Task(id="", title="next", needs=(whole,))])
        (claim,) = queue.claim("snake")
        split = Split(children=(Task(id="", title="part"),), wait=wait, output="what I found")
        with monkeypatch.context() as patch:
            patch.setattr(finish, "admit_parts", die)
            with pytest.raises(Killed):
                queue.finish(claim, split)
        (parts,) = place.rglob("*~children")
        write(parts, parts.read_bytes().replace(b'"text"', b'"texts"'))
        other = reopened(str(place), clock, POWER)
        if number == 0:
            with record() as steps:
                sweep(other)
            numbers += part(range(1, len(steps) + 1), 5)
        else:
            with killed_at(number):
                sweep(other)
        queue.close()
        other.close()
        last = reopened(str(place), clock, POWER)
        sweep(last)
        card = last.card(whole)
        assert (card.state, card.result) == (State.READY, None)
        assert card.task.hold.startswith("its parts could not enter: it is no list of parts")
        assert last.store.counts() == {State.READY: 2, State.CLAIMED: 0, State.DONE: 0, State.FAILED: 0}
        assert last.claim("snake") == []
        if number == 0:
            assert len(aside(last)) == 1
            assert len(card.late) == (not wait)
        clock.advance(10**6)
        sweep(last)
        assert {one.kind for one in last.store.check()} <= {"quarantined", "late result"}
        last.close()


def die(*_):
    raise Killed


def test_an_edit_that_could_not_be_read_back_is_refused(queue):
    put(queue, task(1))
    with pytest.raises(Invalid):
        queue.edit("0001", "ann", lambda one: one.replace(body="\udcff"))
    assert queue.card("0001").state is State.READY
    assert queue.card("0001").task.body == ""
    with pytest.raises(TooLarge):  # seen only when its bytes are made
        queue.edit("0001", "ann", lambda one: one.replace(body="x" * 2 * CONFIG.largest_task))
    assert queue.card("0001").state is State.READY


def test_food_without_a_slug_whose_heading_has_one(queue):
    """The file's name is its name, whatever stands in it: claimed by id or not, it can be renewed and finished."""
    for number, ids in ((1, ("0001",)), (2, ())):
        write(f"{root_of(queue)}/food/food-000{number}.md", f"# food-000{number}-other\n- **task:** x\n".encode())
        assert [card.task.id for card in queue.store.page().cards if card.state is State.READY] == [f"000{number}"]
        (claim,) = queue.claim("snake", ids=ids)
        assert queue.renew(claim) is Said.OK
        assert queue.finish(claim, Done())[0] is Said.OK
        assert queue.card(f"000{number}").state is State.DONE


def test_an_unblocked_task_is_noticed_by_a_worker_that_stays(queue):
    """Somebody else lifts the hold between two looks of ours: the file has its old name and new content."""
    put(queue, task(1, hold="wait"), task(2))
    assert take_next(queue) == "0002"
    other = reopened(root_of(queue), queue.clock)
    other.unblock("0001", "ann")
    assert take_next(queue) == "0001"
    other.close()


def take_next(queue):
    return queue.claim("snake")[0].task.id


def test_what_was_written_a_moment_ago_is_left_alone(tmp_path):
    """Somebody may still be writing it. The default: other tests here leave nobody time."""
    root, clock = str(tmp_path / "pit"), FakeClock()
    make(root, clock).close()
    queue = Queue(FileStore(root, layouts.get("pit"), CONFIG, clock), CONFIG, clock)
    binary(f"{root}/food/food-0002-bad.md")
    clock.advance(1)
    sweep(queue)
    assert os.path.exists(f"{root}/food/food-0002-bad.md")
    clock.advance(2)
    sweep(queue)
    assert not os.path.exists(f"{root}/food/food-0002-bad.md")
    assert aside(queue) != {}
    queue.close()
