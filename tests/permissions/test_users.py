"""Several users of one folder: what is made has sane modes, a group works together, others only look."""

from __future__ import annotations

import os
import stat

import pytest
from boxes import LAYOUTS
from people import ANN, BOB, EVE, GROUP, start_python

#: What those who may not write may do all the same, and what they may not.
LOOK = ("list", "show {id}", "why {id}", "ready", "stats", "status", "locks", "log", "sweep --dry-run")
CHANGE = (
    "add x",
    "claim",
    "claim {id}",
    "renew {taken}",
    "done {taken}",
    "note {id} x",
    "lock x",
    "sweep",
    "init {root}",
)


def everything(root):
    """Every entry with its type, mode, owner and group."""
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            yield path, stat.S_ISDIR(status.st_mode), stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param


class Group:
    """A queue in a shared folder, and its users."""

    def __init__(self, people, root, layout, env):
        self._people = people
        self._env = env
        self.root = root
        made = people(ANN, "init", root, "--layout", layout, **env)
        assert made.code == 0, made.err

    def __call__(self, who, line, code=0, **facts):
        words = [word.format(**facts) if facts else word for word in line.split()]
        answer = self._people(who, "-C", self.root, *words, **self._env)
        assert answer.code == code, (line, answer.code, answer.out, answer.err)
        return answer

    def add(self, who):
        return self(who, "add title").out.strip()

    def card(self, task_id):
        return self(ANN, f"--json show {task_id}").data


@pytest.fixture
def group(people, shared, layout, trust):
    return Group(people, shared, layout, trust)


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])
def test_modes_are_what_the_umask_says(umask, people, shared, layout):
    """Directories and files get every right the umask leaves, none is executable, and the group is the folder's."""
    people.umask = umask
    try:
        group = Group(people, shared, layout, {})
        one, two = group.add(ANN), group.add(ANN)
        for line in (f"claim {one}", f"done {one}", f"claim {two}", f"fail {two} --error no", f"note {two} x"):
            group(ANN, line)
        group(ANN, "lock door")
        group(ANN, "sweep")
    finally:
        people.umask = 0o002
    found = list(everything(shared))
    assert len(found) > 30
    for path, is_folder, mode, _, gid in found:
        assert mode == (0o2777 if is_folder else 0o666) & ~umask, path
        assert gid == GROUP, path


@pytest.mark.parametrize(("one", "other"), [(ANN, BOB), (BOB, ANN)], ids=["bob's turn", "ann's turn"])
def test_what_one_puts_the_other_works_on(one, other, group):
    tasks = [group.add(one) for _ in range(3)]
    for task_id in tasks:
        group(other, f"claim {task_id}")
        group(other, f"renew {task_id}")
    group(other, f"done {tasks[0]}")
    group(other, f"fail {tasks[1]} --error no")
    group(other, f"release {tasks[2]}")
    group(one, f"claim {tasks[2]}")
    group(one, f"done {tasks[2]}")
    states = [group.card(task_id)["state"] for task_id in tasks]
    assert states == ["done", "ready", "done"]
    assert group.card(tasks[1])["attempts"] == 1
    assert {uid for _, _, _, uid, _ in everything(group.root)} == {ANN, BOB}
    for who in (ANN, BOB):
        assert "all is in order" in group(who, "doctor").out
        group(who, "sweep")


def test_locks_notes_and_numbers_are_the_groups(group):
    group(ANN, "lock door")
    group(BOB, "lock door", 4)
    group(ANN, "unlock door")
    group(BOB, "lock door")
    group(BOB, "unlock door")
    tasks = [group.add(who) for who in (ANN, BOB, ANN)]
    assert len(set(tasks)) == 3
    group(ANN, f"note {tasks[1]} anns-words")
    group(BOB, f"note {tasks[1]} bobs-words")
    notes = group(ANN, f"show {tasks[1]}").out
    assert "anns-words" in notes
    assert "bobs-words" in notes


def test_who_may_not_write_is_told_so_and_may_look(group):
    words = {"id": group.add(ANN), "taken": group.add(ANN), "root": group.root}
    group(ANN, f"claim {words['taken']} --as eve")
    before = sorted(everything(group.root))
    for line in LOOK:
        group(EVE, line, **words)
    for line in CHANGE:
        answer = group(EVE, line, 8, **words)
        assert "Permission denied" in answer.err or "Operation not permitted" in answer.err
        assert "Check who owns the queue's folder and its permissions." in answer.err
    assert sorted(everything(group.root)) == before
    group(BOB, f"claim {words['id']}")


def test_a_folder_that_is_closed_to_others_says_so(people, shared, layout, trust):
    group = Group(people, shared, layout, trust)
    os.chmod(shared, 0o2770)
    for line in ("list", "add x", "claim"):
        group(EVE, line, 8)
    group(BOB, "list")


def test_a_strangers_checks_are_not_run_until_its_queue_is_trusted(group):
    """Who may write there has a shell of whoever works there: so bob is asked, ann is not."""
    start_python()
    tasks = [group(ANN, f"add {who} --check true").out.strip() for who in ("x", "y")]
    group(BOB, "list")
    group(BOB, f"claim {tasks[0]}")
    answer = group(BOB, f"--json done {tasks[0]}", 9)
    assert (answer.error["code"], group.root in answer.error["hint"]) == ("untrusted", True)
    group(BOB, "trust --yes")
    group(BOB, f"done {tasks[0]}")
    group(ANN, f"claim {tasks[1]}")
    group(ANN, f"done {tasks[1]}")


def test_a_strangers_queue_is_not_found_by_chance(people, shared, layout, trust):
    """What lies above one's folder in a public place would get one's tasks: it must be named, or trusted."""
    group = Group(people, shared, layout, trust)
    os.mkdir(f"{shared}/deep")
    for line in ("list", "add x", "claim", "prime"):
        answer = people(BOB, "--json", "-C", f"{shared}/deep", *line.split(), **trust)
        assert (answer.code, answer.error["code"]) == (9, "untrusted")
    assert people(BOB, "-C", f"{shared}/deep", "trust", "--yes", **trust).code == 0
    assert people(BOB, "-C", f"{shared}/deep", "add", "x", **trust).code == 0
    group(ANN, "list")
