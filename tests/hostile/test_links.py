"""Links, FIFOs, sockets, devices and directories at every path of a queue and of a run directory, before and between
our calls: nothing outside is touched or told, nobody hangs.

`TASKPIT_LONG=1` puts every thing in every place, and has every consumer meet something in every place; otherwise each
place gets one thing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from boxes import clean_environment, make, make_fast, pit
from faults import record
from hostility import (
    CONSUMERS,
    LAYOUTS,
    SECRET,
    SLOW,
    THINGS,
    Yard,
    fifo,
    link_to_file,
    link_to_folder,
    link_to_nothing,
    put_in_place,
)
from monsters import patience
from rotation import TURN, part, turn_of
from waits import PATIENCE

from taskpit import fs, held_directories, layouts
from taskpit.crew.log_tail import log_of_task
from taskpit.errors import Invalid, Storage, TaskpitError
from taskpit.model import Done, Task
from taskpit.run import usage
from taskpit.run.process import run_check
from taskpit.run.run_directory import RunDirectory

LONG = bool(os.environ.get("TASKPIT_LONG"))
#: How `init` is told what to do about git: with the template it writes more files than otherwise.
GIT = ("--git track", "--git ignore", "--template snakepit --git leave")
QUICK = [words for words in CONSUMERS if words not in SLOW]


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_whatever_stands_in_the_place_of_a_file_leads_nowhere(layout, tmp_path):
    yard = Yard(tmp_path, layout)
    for number, relative in part(enumerate(yard.files()), 8):
        for turn, thing in enumerate(THINGS if LONG else [THINGS[(number // 8 + TURN) % len(THINGS)]]):
            yard.fresh()
            if not put_in_place(yard, relative, thing):
                continue
            some = [QUICK[(number + turn + 5 * one) % len(QUICK)] for one in range(3)]
            if LONG:
                some = [*QUICK[(number + turn) % 5 :: 5], *(SLOW if turn == number % len(THINGS) else ())]
            for words in some:
                yard.run(words)
            yard.judge((relative, thing.__name__))


@pytest.mark.parametrize("layout", ["pit", "mailbox", "workspace"])
@pytest.mark.parametrize(
    "place", [".taskpit", ".taskpit/tmp", ".taskpit/ids", ".taskpit/quarantine", "ready", "claimed"]
)
def test_a_linked_directory_is_refused_before_anything_is_done(layout, place, tmp_path):
    """`pit sweep` deleted what lay behind a linked `.taskpit/tmp`; verbs wrote through the others."""
    yard = Yard(tmp_path, layout)
    yard.fresh()
    kind = layouts.get(layout)
    place = {"ready": kind.ready, "claimed": kind.claimed}.get(place, place)
    if layout == "mailbox" and place == ".taskpit/tmp":
        place = ".tmp"
    put_in_place(yard, place, link_to_folder)
    listed = sorted(os.listdir(yard.root))
    answer = pit("-C", yard.root, "sweep")
    assert answer.code == 8, answer.out + answer.err
    assert place in answer.err
    assert "link" in answer.err
    assert "hint" in answer.err
    for words in ("add more", "claim --as w", "list"):
        yard.run(words)
    yard.judge(place)
    assert sorted(os.listdir(yard.root)) == listed
    if place != ".taskpit":
        assert "missing" in pit("-C", yard.root, "doctor").out
        assert pit("-C", yard.root, "doctor", "--fix").code in (0, 1)
        assert os.path.isdir(f"{yard.root}/{place}")
        assert not os.path.islink(f"{yard.root}/{place}")
        assert pit("-C", yard.root, "sweep").code in (0, 1)
    yard.judge(place)


class Queue_of:
    """The layout of a yard."""

    def __init__(self, yard):
        from taskpit import layouts

        self.layout = layouts.get(yard.layout)


def test_a_control_that_follows_links_is_seen(tmp_path, monkeypatch):
    """The game would notice: without the wall, a sweep deletes what lies outside."""
    yard = Yard(tmp_path, "pit")
    yard.fresh()
    put_in_place(yard, ".taskpit/tmp", lambda yard, path: os.symlink(yard.outside, path))
    monkeypatch.setattr(held_directories, "OPEN", held_directories.OPEN & ~os.O_NOFOLLOW)
    pit("-C", yard.root, "sweep")
    with pytest.raises(AssertionError):
        yard.judge("")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes another user's directory")
def test_another_users_directory_is_refused_unless_the_group_shares_the_queue(tmp_path):
    root = str(tmp_path / "queue")
    queue = make(root, "pit")
    shutil.rmtree(f"{root}/food")
    os.chmod(root, 0o777)
    os.mkdir(f"{root}/food")
    os.chown(f"{root}/food", 4711, 4711)
    fs.wall(root)
    with pytest.raises(Storage, match="belongs to another user"):
        queue.store.put([Task(id="0001", title="x", slug="x")])
    os.chmod(root, 0o2770)
    os.chown(root, 0, 4711)
    os.chmod(root, 0o2770)
    fs.wall(root)
    assert queue.store.put([Task(id="0001", title="x", slug="x")])
    queue.close()


# -- between our calls -----------------------------------------------------------------------------

VERBS = {
    "put": lambda queue: queue.put([Task(id="", title="new")]),
    "claim": lambda queue: queue.claim("w", count=1),
    "done": lambda queue: [queue.finish(claim, Done(output="ok")) for claim in queue.claim("w", count=1)],
    "sweep": lambda queue: queue.store.mend(),
    "look": lambda queue: queue.store.page(limit=50),
}


def swapped(yard, path, thing, at, work):
    """The work is done; before its call number `at`, the thing took the place of what that call is about."""
    count = 0

    def hook(call, asked):
        nonlocal count
        count += 1
        if count == at and asked.startswith(yard.root):
            fs.set_hook(None)
            target = os.path.dirname(asked) if path == "directory" else asked
            if target != yard.root:
                put_in_place(yard, os.path.relpath(target, yard.root), thing)
            fs.set_hook(hook)

    fs.set_hook(hook)
    try:
        with patience(60):
            work()
    except (TaskpitError, OSError):
        return  # any refusal will do; what matters is what it leaves
    finally:
        fs.set_hook(None)


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("path", ["directory", "name"])
@pytest.mark.parametrize("verb", VERBS)
def test_between_any_two_calls(verb, path, tmp_path):
    yard = Yard(tmp_path, "pit")
    yard.fresh()
    queue = make(yard.root, "pit")
    with record() as calls:
        VERBS[verb](queue)
    queue.close()
    for at in range(1, len(calls) + 1, 1 if LONG else max(len(calls) // 4, 1)):
        for thing in THINGS if LONG else (link_to_folder, fifo) if path == "directory" else (link_to_file, fifo):
            yard.fresh()
            queue = make(yard.root, "pit")
            swapped(yard, path, thing, at, partial(VERBS[verb], queue))
            queue.close()
            yard.judge((verb, at, thing.__name__))


def test_a_directory_that_was_replaced_is_noticed(tmp_path, monkeypatch):
    """git switches branches: what is held is an unlinked directory. A put must not vanish into it."""
    queue = make(tmp_path / "queue", "pit")
    queue.put([Task(id="", title="one")])
    food = tmp_path / "queue" / "food"
    os.rename(food, tmp_path / "away")
    os.mkdir(food)
    monkeypatch.setattr(held_directories, "COMPARED_AGAIN", -1.0)
    shutil.rmtree(tmp_path / "away")
    ((task_id, _),) = queue.put([Task(id="", title="two")])
    assert [name for name in os.listdir(food) if task_id in name]
    queue.close()


def test_listings_of_many_threads_do_not_share_a_place(tmp_path):
    import threading

    queue = make(tmp_path / "queue", "pit")
    folder = str(tmp_path / "queue" / "food")
    for number in range(2000):
        open(f"{folder}/food-{number:05d}-x.md", "w", encoding="ascii").close()
    wrong = []

    def look():
        wrong.extend(count for count in (len(fs.names(folder)) for _ in range(20)) if count != 2000)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []
    queue.close()


def test_no_descriptor_is_left_behind(tmp_path):
    queue = make(tmp_path / "queue", "pit")

    def life():
        queue.put([Task(id="", title="x")])
        queue.finish(queue.claim("w")[0], Done(output="ok"))
        queue.store.page()

    life()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        life()
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    queue.close()


# -- run directories -------------------------------------------------------------------------------


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.__name__)
@pytest.mark.parametrize("name", ["log", "result.md", "events", "errors", "prompt.md", "task.md", "group", ""])
def test_whatever_an_agent_leaves_in_its_run_directory_is_not_followed(name, thing, tmp_path):
    yard = Yard(tmp_path, "pit")
    yard.fresh()
    run = ".taskpit/runs/0001~1~abc"
    make(yard.root, "pit").close()
    place = RunDirectory(f"{yard.root}/{run}")
    place.make()
    fs.write(place.prompt, b"do it")
    if not put_in_place(yard, f"{run}/{name}".rstrip("/"), thing):
        pytest.skip("no device without privileges")
    fs.wall(yard.root)
    with patience(60):
        told = [place.read_log(), place.last_words() if name else b"", (place.read_result() or "").encode()]
        for write in (lambda: fs.append(place.log, b"x\n"), lambda: fs.write(place.prompt, b"x"), place.clear):
            try:
                write()
            except OSError:
                continue
    assert SECRET.encode() not in b"".join(told)
    assert all(len(one) < 1_000_000 for one in told)
    yard.judge((name, thing.__name__))


@pytest.mark.parametrize("make_thing", ["ln -s '{secret}'", "mkfifo", "ln -s /dev/zero"], ids=["link", "fifo", "zero"])
def test_a_pool_publishes_nothing_that_an_agent_put_in_the_place_of_its_papers(make_thing, tmp_path):
    """A link published any file; a FIFO stopped the slot for good; an endless log took all memory."""
    yard = Yard(tmp_path, "pit")
    command = make_thing.format(secret=yard.outside / "food-0077-x.md")
    script = f'for one in log result.md; do rm -f "$TASKPIT_RUN_DIR/$one"; {command} "$TASKPIT_RUN_DIR/$one"; done'
    words = [sys.executable, "-m", "taskpit", "-C", yard.root, "work", "--max-tasks", "1", "--", "sh", "-c", script]
    ran = subprocess.run(
        words, env=clean_environment(TASKPIT_TRUST="1"), capture_output=True, timeout=PATIENCE, check=False
    )
    assert ran.returncode in (0, 1), ran.stderr
    yard.judge("pool")
    published = [Path(folder, name) for folder, _, files in os.walk(f"{yard.root}/done") for name in files]
    assert len(published) == 2  # the one that was lived in, and this
    assert all(SECRET not in path.read_text() for path in published)


def test_a_pool_whose_run_directories_are_a_link_ends_and_leaves_no_trace_behind_it(tmp_path):
    """Its thread died when it cleared up, and the pool waited for it for ever."""
    yard = Yard(tmp_path, "pit")
    put_in_place(yard, ".taskpit/runs", link_to_folder)
    yard.run("work --until +1s --max-tasks 1 --limit 5s -- true")
    yard.judge("runs")


def test_a_catalogue_that_is_more_than_rows_is_built_anew(tmp_path):
    """A view in the place of its table could run for ever; a link leads SQLite out of the folder."""
    import sqlite3

    root = str(tmp_path / "queue")
    queue = make(root, "pit")
    queue.put([Task(id="", title=f"t {number}") for number in range(80)])
    assert len(queue.claim("w", count=2)) == 2
    queue.close()
    index = Path(root, ".taskpit/index")
    (database,) = index.glob("catalog-*.db")
    with sqlite3.connect(database) as spoilt:
        spoilt.execute("drop table rows")
        endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select i, i, i, i, i, i, i, i from n"
        spoilt.execute(f"create view rows as {endless}")
    spoilt.close()
    with patience(60):
        assert pit("-C", root, "claim", "--as", "x").code == 0
        assert pit("-C", root, "list").code == 0
    (database,) = index.glob("catalog-*.db")
    outside = tmp_path / "outside.db"
    os.rename(database, outside)
    os.symlink(outside, database)
    before = outside.read_bytes()
    assert pit("-C", root, "claim", "--as", "y").code == 0
    assert outside.read_bytes() == before


@pytest.mark.parametrize(
    "log", ["../outside/food-0077-x.md", "food/../../outside/x.json", "away/food-0077-x.md", "/etc/passwd"]
)
def test_a_log_that_a_result_names_is_in_the_queue_or_none(log, tmp_path):
    yard = Yard(tmp_path, "pit")
    os.symlink(yard.outside, f"{yard.root}/away")
    queue = make(yard.root, "pit")
    card = queue.card(yard.some[0])
    assert log_of_task(queue.store, card.replace(result=card.result.replace(log=log))) == ""
    queue.close()


def test_a_message_obeys_no_terminal_and_is_whole_for_a_program(tmp_path):
    root = str(tmp_path / "queue")
    make(root, "workspace").close()
    words = [sys.executable, "-m", "taskpit", "-C", root, "pipe"]
    message = "hello \x1b]0;title\x07\x1b[2Jworld"
    shown = []
    for terminal in (True, False):
        sending = [*words, "send", "a", "b", message, "--timeout", f"{PATIENCE}s"]
        sender = subprocess.Popen(sending, env=clean_environment())
        outer, inner = os.openpty() if terminal else os.pipe()
        out = inner
        receiver = [*words, "receive", "a", "b", "--timeout", f"{PATIENCE}s"]
        subprocess.run(receiver, env=clean_environment(), stdout=out, timeout=PATIENCE, check=True)
        os.close(inner)
        shown.append(os.read(outer, 4096))
        os.close(outer)
        assert sender.wait(PATIENCE) == 0
    assert b"\x1b" not in shown[0]
    assert b"hello" in shown[0]
    assert message.encode() in shown[1]


# -- what a person makes in a folder that is not theirs ----------------------------------------------


@pytest.mark.parametrize("thing", [link_to_file, link_to_folder, link_to_nothing, fifo], ids=lambda one: one.__name__)
@pytest.mark.parametrize(
    "path",
    [
        *("pit/.gitignore", "pit/.taskpit/.gitignore", "pit/.gitattributes", "pit/.taskpit/config.toml", "pit/food"),
        *("pit/food/.gitkeep", "pit/done/.gitkeep", "pit/scraps", "pit/.taskpit", "pit/agents.toml"),
        *("pit/.taskpit/templates", "pit/.taskpit/presets", ".git/info/exclude"),
    ],
)
@pytest.mark.needs("git")
def test_a_queue_that_is_made_among_links_makes_nothing_elsewhere(path, thing, tmp_path):
    """`init` in a project that somebody else has made: `--git` and `--template` write more files than others do."""
    yard = Yard(tmp_path, "pit")
    for options in turn_of(f"{path} {thing.__name__}", *GIT):
        shutil.rmtree(yard.root)
        os.makedirs(f"{yard.root}/pit")
        subprocess.run(["git", "init", "-q", "--template=", yard.root], check=True)
        os.makedirs(f"{yard.root}/{os.path.dirname(path)}", exist_ok=True)
        put_in_place(yard, path, thing)
        with patience(60):
            answer = pit("init", f"{yard.root}/pit", *options.split())
        assert "unexpected" not in answer.err, (options, answer.err)
        yard.judge((path, thing.__name__, options))


@pytest.mark.parametrize("thing", THINGS, ids=lambda one: one.__name__)
def test_prices_are_read_from_a_file_of_the_queue_or_not_at_all(thing, tmp_path):
    yard = Yard(tmp_path, "pit")
    if not put_in_place(yard, ".taskpit/prices.toml", thing):
        pytest.skip("only root makes a device")
    make(yard.root, "pit").close()
    with patience(60), pytest.raises(Invalid) as refused:
        usage.load(usage.files(yard.root))
    assert SECRET not in str(refused.value)


def test_a_check_does_not_write_through_what_stands_in_the_place_of_its_log(tmp_path):
    (tmp_path / "outside").write_text("kept")
    (tmp_path / "log").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="not a regular file"):
        run_check("echo x", str(tmp_path), 60.0, log=str(tmp_path / "log"))
    assert (tmp_path / "outside").read_text() == "kept"


def test_a_result_as_large_as_the_changelog_says_is_not_read_for_that(tmp_path):
    """`doctor` read a terabyte that a line of the changelog called a result."""
    root = make_fast(tmp_path / "queue", "pit")
    for words in ("add x", "claim --as w", "done 1 --as w"):
        assert pit("-C", root, *words.split()).code == 0
    (outcome,) = (path for path in Path(root).rglob("0001~done") if path.is_file())
    os.truncate(outcome, 1 << 40)
    log = Path(root, "changelog.log") if Path(root, "changelog.log").exists() else next(Path(root).rglob("*changelog*"))
    log.write_text(re.sub(r'"\d+-[0-9a-f]{8}"', f'"{1 << 40}-00000000"', log.read_text()))
    with patience(60):
        assert "not what was published" in pit("-C", root, "doctor").out


@pytest.mark.parametrize("words", ["board", "mcp"])
def test_a_program_that_opens_a_queue_hears_of_a_link_in_our_words(words, tmp_path):
    """A link in the place of `sealed`, at which every opening looks, was an error that boards and tools do not know."""
    yard = Yard(tmp_path, "pit")
    yard.fresh()
    put_in_place(yard, ".taskpit/sealed", link_to_folder)
    yard.run(words)
    yard.judge(words)
