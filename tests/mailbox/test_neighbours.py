"""Beside tools that know only the original: `mv`, `rm`, readers that rewrite files and drop what they don't know."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter

import pytest
from boxes import LEASE, ended, load, make_fast, pit, python, reopened, write

from taskpit.keeper import sweep
from taskpit.layouts.mailbox import SCHEMA
from taskpit.model import Done, Said, State, Task
from taskpit.queue import Queue

OURS = """
import sys
from taskpit.queue import Queue
from taskpit.model import Done, Said
queue = Queue.open(sys.argv[1])
while claims := queue.claim(sys.argv[2], count=3):
    for claim in claims:
        if queue.finish(claim, Done(output=f"{claim.task.id} by {sys.argv[2]}"))[0] is Said.OK:
            print(claim.task.id, flush=True)
queue.close()
"""

#: The original's worker, as a shell does it: claim, write to .tmp, rename to outbox, remove.
SHELL = r"""
cd "$1" || exit 1
while :; do
  found=
  for file in inbox/*.json; do
    [ -e "$file" ] || continue
    found=1
    id=${file#inbox/}; id=${id%.json}
    mv "inbox/$id.json" "processing/$id.json" 2>/dev/null || continue
    printf '{"task_id": "%s", "status": "completed", "verdict": "pass", "output": "%s by shell"}\n' "$id" "$id" \
      > ".tmp/${id}_result.json.tmp"
    mv ".tmp/${id}_result.json.tmp" "outbox/${id}_result.json"
    rm "processing/$id.json"
    echo "$id"
  done
  [ "$found" ] || exit 0
done
"""


# -- a shell beside us -----------------------------------------------------------------------------


@pytest.mark.races
def test_a_shell_and_two_of_ours_over_five_hundred_tasks(tmp_path):
    box = make_fast(tmp_path / "box", "mailbox")
    queue = Queue.open(box)
    wanted = {f"task_{number}" for number in range(500)}
    queue.store.put([Task(id=task_id, title=task_id) for task_id in sorted(wanted)])
    shell = subprocess.Popen(["sh", "-c", SHELL, "sh", box], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    crew = [shell, *(python(OURS, box, name) for name in ("one", "two"))]
    done = Counter(task_id for worker in crew for task_id in ended(worker).split())
    assert set(done) == wanted
    assert set(done.values()) == {1}
    assert os.listdir(f"{box}/inbox") == os.listdir(f"{box}/processing") == []
    assert {name.removesuffix("_result.json") for name in os.listdir(f"{box}/outbox")} == wanted
    for task_id in wanted:
        assert load(f"{box}/outbox/{task_id}_result.json")["output"].startswith(f"{task_id} by ")
    queue.close()
    queue = reopened(box, "mailbox")
    sweep(queue)
    assert sweep(queue) == []
    assert queue.store.counts() == {State.READY: 0, State.CLAIMED: 0, State.DONE: 500, State.FAILED: 0}
    assert queue.store.check() == []
    queue.close()


# -- what lies in the inbox ------------------------------------------------------------------------

BAD = {
    "half": b'{"id": "a_bad", "title": "ha',
    "a list": b"[]",
    "binary": bytes(range(256)),
    "another id": b'{"id": "other", "title": "t"}',
    "a wrong type": b'{"id": "a_bad", "title": "t", "priority": "high"}',
    "a number without end": b'{"id": "a_bad", "title": "t", "created_at": 1' + b"0" * 400 + b"}",
    "a time nobody lives to see": b'{"id": "a_bad", "title": "t", "not_before": 1e300}',
    "deep": b'{"id": "a_bad", "x": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "too much": b'{"id": "a_bad", "title": "' + b"x" * (1 << 21) + b'"}',
}


@pytest.mark.parametrize("kind", BAD)
def test_one_bad_file_at_the_head_does_not_stop_a_claim(queue, box, kind):
    queue.store.put([Task(id="good", title="good")])
    with open(f"{box}/inbox/a_bad.json", "wb") as file:
        file.write(BAD[kind])
    os.utime(f"{box}/inbox/a_bad.json", (1, 1))
    assert [claim.task.id for claim in queue.claim("w")] == ["good"]
    sweep(queue)
    assert os.listdir(f"{box}/inbox") == []
    assert any("a_bad" in finding.what for finding in queue.store.check())


def test_a_pipe_and_a_link_at_the_head_neither(queue, box):
    queue.store.put([Task(id="good", title="good")])
    os.mkfifo(f"{box}/inbox/a_pipe.json")
    os.symlink("/etc/hostname", f"{box}/inbox/a_link.json")
    os.mkdir(f"{box}/inbox/a_folder.json")
    assert [claim.task.id for claim in queue.claim("w")] == ["good"]


def test_an_id_that_leads_outside_is_refused(queue, box, tmp_path):
    for task_id in ("../../x", "..", "a/b", "/etc/passwd"):
        answer = pit("-C", box, "add", "x", "--id", task_id, "--json")
        assert (answer.code, answer.error["code"]) == (6, "invalid")
    write(f"{box}/inbox/inside.json", '{"id": "../../x", "title": "t"}')
    os.utime(f"{box}/inbox/inside.json", (1, 1))
    assert queue.claim("w") == []
    assert not (tmp_path.parent / "x.json").exists()


@pytest.mark.parametrize("holder", ["../../x", "a/b", "\x00", "\ud800", "x" * 5000, 5, None, ["x"], "~", "w~~"])
def test_any_holder_may_stand_in_a_claimed_file(queue, box, clock, holder):
    """It is looked at, judged like any foreign claim, and given back when its time is over."""
    queue.store.put([Task(id="x", title="x")])
    os.rename(f"{box}/inbox/x.json", f"{box}/processing/x.json")
    fields = load(f"{box}/processing/x.json")
    write(f"{box}/processing/x.json", json.dumps({**fields, "status": "claimed", "claimed_by": holder}))
    assert queue.card("x").state is State.CLAIMED
    sweep(queue)
    assert queue.card("x").state is State.CLAIMED
    clock.advance(queue.config.abandoned + 10)
    sweep(queue)
    assert queue.card("x").state is State.READY
    assert not load(f"{box}/inbox/x.json")["claimed_by"]


# -- how long is long ------------------------------------------------------------------------------


def waited_an_hour(box, clock, task_id="x"):
    """It has lain in the inbox for an hour, by every time a file has."""
    long_ago = clock.now() - 3600
    write(f"{box}/inbox/{task_id}.json", json.dumps({"id": task_id, "title": "t", "created_at": int(long_ago)}))
    os.utime(f"{box}/inbox/{task_id}.json", (long_ago, long_ago))


def test_what_waited_an_hour_is_not_taken_back_from_us(queue, box, clock):
    waited_an_hour(box, clock)
    (claim,) = queue.claim("w")
    status = os.stat(f"{box}/processing/x.json")
    assert status.st_mtime > clock.now() - 5  # a cleaner that judges by mtime lets it be for 15 minutes, too
    sweep(queue)
    assert queue.card("x").state is State.CLAIMED
    assert queue.finish(claim, Done())[0] is Said.OK


@pytest.mark.parametrize("known", [False, True])
def test_what_waited_an_hour_is_not_taken_back_from_others(queue, box, clock, known):
    """Also from somebody whose name we know from commands of ours."""
    if known:
        queue.store.put([Task(id="earlier", title="earlier")])
        (claim,) = queue.claim("mv", verbatim=True)
        queue.finish(claim, Done())
    waited_an_hour(box, clock)
    os.rename(f"{box}/inbox/x.json", f"{box}/processing/x.json")
    if known:
        old = os.stat(f"{box}/processing/x.json")
        write(f"{box}/processing/x.json", '{"id": "x", "title": "t", "claimed_by": "mv"}')
        os.utime(f"{box}/processing/x.json", (old.st_mtime, old.st_mtime))
    clock.advance(5)
    sweep(queue)
    assert queue.card("x").state is State.CLAIMED
    clock.advance(max(queue.config.abandoned, LEASE) + 10)
    sweep(queue)
    assert queue.card("x").state is State.READY


# -- a reader that drops what it does not know -----------------------------------------------------


def as_a_strict_reader(box, task_id):
    """Claims as the Go program does: rename, then write the file anew, in place, with the keys it knows."""
    os.rename(f"{box}/inbox/{task_id}.json", f"{box}/processing/{task_id}.json")
    fields = load(f"{box}/processing/{task_id}.json")
    known = {key: fields[key] for key in SCHEMA if key in fields}
    for key in ("parent_id", "sequence_number", "test_mode", "test_scope", "test_command"):
        if not known.get(key):
            known.pop(key, None)
    known["metadata"] = {key: known["metadata"][key] for key in ("worktree", "dependencies")}
    known |= {"status": "claimed", "claimed_by": "go-worker", "claimed_at": None}
    write(f"{box}/processing/{task_id}.json", json.dumps(known))


FULL = Task(
    id="x",
    title="everything",
    body="at length",
    priority=3,
    tags=("a", "b"),
    touches=("src/*",),
    hold="look first",
    not_before=4_000_000_000.0,
    big=True,
    by="ann",
    created=1705862400.0,
    max_attempts=3,
    extra={"epic_id": "e", "x_new": {"deep": [1]}, "metadata": {"worktree": "/w", "team": "blue"}},
)


def test_what_it_drops_comes_back_when_we_take_the_task_back(queue, box, clock):
    queue.store.put([FULL])
    before = load(f"{box}/inbox/x.json")
    as_a_strict_reader(box, "x")
    assert "tags" not in load(f"{box}/processing/x.json")
    claimed = queue.card("x").task
    assert (claimed.tags, claimed.extra["x_new"]) == (("a", "b"), {"deep": [1]})
    sweep(queue)
    clock.advance(queue.config.abandoned + 10)
    sweep(queue)
    card = queue.card("x")
    assert card.state is State.READY
    assert card.task.replace(source=b"", updated=0.0) == FULL
    after = load(f"{box}/inbox/x.json")
    for key in (*(key for key in before if key not in SCHEMA), "metadata", "priority", "epic_id"):
        assert after[key] == before[key], key
    assert (after["status"], after["claimed_by"]) == ("ready", "")


def test_killed_while_it_wrote_the_file_anew(queue, box, clock):
    """Half of it is there: the task goes back as it was put, and the half is kept with the reason."""
    queue.store.put([FULL.replace(hold="", not_before=0.0)])
    os.rename(f"{box}/inbox/x.json", f"{box}/processing/x.json")
    write(f"{box}/processing/x.json", '{"id": "x", "title": "every')
    sweep(queue)
    assert queue.card("x").state is State.CLAIMED
    clock.advance(queue.config.abandoned + 10)
    sweep(queue)
    (claim,) = queue.claim("w")
    assert (claim.task.title, claim.task.tags) == ("everything", ("a", "b"))
    assert any("not JSON" in finding.details for finding in queue.store.check())


def test_what_was_changed_since_it_was_put_comes_back_as_it_was_last(queue, box, clock):
    queue.store.put([Task(id="x", title="x", tags=("old",), extra={"x_new": 1})])
    queue.edit("x", "ann", lambda task: task.replace(tags=("new",), extra={"x_new": 2, "x_more": 3}))
    as_a_strict_reader(box, "x")
    sweep(queue)
    clock.advance(queue.config.abandoned + 10)
    sweep(queue)
    task = queue.card("x").task
    assert (task.tags, dict(task.extra)) == (("new",), {"x_new": 2, "x_more": 3})


def test_what_was_taken_away_stays_away(queue, box, clock):
    """Nothing left to keep beside is also something to remember."""
    write(f"{box}/inbox/x.json", '{"id": "x", "title": "x", "hold": "wait", "tags": ["a"], "x_new": 1}')
    sweep(queue)
    queue.edit("x", "ann", lambda task: task.replace(hold="", tags=(), extra={}))
    fields = load(f"{box}/inbox/x.json")
    assert not {"hold", "tags", "x_new"} & fields.keys()
    assert (queue.card("x").held, queue.card("x").task.tags, queue.card("x").task.extra) == ("", (), {})
    as_a_strict_reader_of = {**fields, "status": "claimed"}
    write(f"{box}/inbox/x.json", json.dumps(as_a_strict_reader_of))
    (claim,) = queue.claim("w")
    assert (claim.task.hold, claim.task.tags, claim.task.extra) == ("", (), {})


def test_a_strict_reader_finishes_it(queue, box, clock):
    """As the original says, result first, then the file: needs of others are met, the id stays taken."""
    queue.store.put([Task(id="x", title="x"), Task(id="next", title="next", needs=("x",))])
    as_a_strict_reader(box, "x")
    assert queue.claim("w") == []
    write(f"{box}/.tmp/x_result.json.tmp", '{"task_id": "x", "status": "completed", "output": "theirs"}')
    os.rename(f"{box}/.tmp/x_result.json.tmp", f"{box}/outbox/x_result.json")
    os.unlink(f"{box}/processing/x.json")
    assert [claim.task.id for claim in queue.claim("w")] == ["next"]
    sweep(queue)
    assert queue.card("x").result.output == "theirs"
    assert queue.store.put([Task(id="x", title="another")]) == [Said.CONFLICT]


def test_killed_between_its_result_and_its_rm(queue, box, clock):
    """The result stands; the task is not run again."""
    queue.store.put([Task(id="x", title="x")])
    as_a_strict_reader(box, "x")
    write(f"{box}/outbox/x_result.json", '{"task_id": "x", "status": "completed", "output": "theirs"}')
    sweep(queue)
    assert queue.card("x").state is State.DONE
    assert os.listdir(f"{box}/processing") == []
    assert queue.claim("w") == []


def test_a_result_that_replaces_ours_is_put_aside(queue, box):
    queue.store.put([Task(id="x", title="x")])
    (claim,) = queue.claim("w")
    queue.finish(claim, Done(output="ours"))
    write(f"{box}/.tmp/late", '{"task_id": "x", "status": "completed", "output": "theirs"}')
    os.rename(f"{box}/.tmp/late", f"{box}/outbox/x_result.json")
    sweep(queue)
    assert load(f"{box}/outbox/x_result.json")["output"] == "ours"
    assert load(queue.store.folder.at(queue.card("x").late[0]))["output"] == "theirs"


def test_an_editor_that_saves_a_finished_task_again(queue, box):
    queue.store.put([Task(id="x", title="x")])
    text = json.dumps(load(f"{box}/inbox/x.json"))
    (claim,) = queue.claim("w")
    queue.finish(claim, Done())
    write(f"{box}/inbox/x.json", text)
    assert queue.claim("w") == []
    assert os.listdir(f"{box}/inbox") == []
    assert queue.card("x").state is State.DONE
