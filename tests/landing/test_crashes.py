"""Killed anywhere: landed once or not at all, done if and only if landed, and no agent runs again for it.

The steps after the hand-in are killed before every git call and before every change of the queue's files, in this very
process: what a killed worker leaves is what it has done so far. Then another lander comes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest
from faults import CHANGES, Killed, kill_at, record
from ground import Ground, git, read, write
from rotation import part
from shims import Shim
from waits import until
from workshop import work

from taskpit.errors import TaskpitError
from taskpit.keeper import sweep
from taskpit.landing.git import Git
from taskpit.landing.pipe import LandingPipe
from taskpit.landing.repository import Repository, line_of
from taskpit.landing.values import FenceLost
from taskpit.model import Done, Failed, Release, State
from taskpit.queue import Queue
from taskpit.run.pool_options import PoolOptions
from taskpit.run.run_directory import RunPlaces
from taskpit.run.runner import Run

#: What counts as a place to die: our git calls and what changes the queue.
PLACES = frozenset((*CHANGES, "git"))


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """Two tasks handed in that do not conflict; the second must be merged and checked again. Copied for each kill."""
    folder = tmp_path_factory.mktemp("scene")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", f"{folder}/state")
        ground = Ground(folder)
        ids = [ground.put("one", check="true"), ground.put("two", check="true #2")]
        for task in ids:
            ground.work(task, **{f"{task}_dot_txt": "x\n"})
        ground.land(ids[0])
        ground.close()
    keep(folder)
    return folder, ids[1]


class Life:
    """One process that lands: its own queue, its own pipe."""

    def __init__(self, ground, worker):
        self.queue = Queue.open(ground.root)
        self.pipe = LandingPipe(Repository(ground.top), os.path.realpath(ground.root), ground.terms)
        self.ground, self.worker = ground, worker
        self.built = []

    def build(self, task):
        """As a pool's slot does it."""
        member = self.queue.store.join(self.worker, 5.0)
        orders = PoolOptions(check_in=self.ground.top, landing=self.pipe)
        try:
            (claim,) = self.queue.claim(member.worker, ids=(task,))
            run = Run(claim, RunPlaces(self.queue.store).of(claim), self.ground.root)
            work(self.queue, run, self._agent, orders, lambda: None)
        finally:
            member.leave()
            self.queue.close()

    def _agent(self, claim, run):
        self.built.append(claim.task.id)
        write(f"{run.cwd}/a.txt", "x\n")
        return Done(output="built")

    def land(self):
        from taskpit.landing.lander import Lander

        member = self.queue.store.join(self.worker, 5.0)
        try:
            lander = Lander(self.queue, self.pipe, member.worker, self.ground.hands)
            for handed in lander.waiting():
                lander.land(handed)
            self.pipe.publish()
        finally:
            member.leave()  # the lock of a dead process is gone, whatever it was doing
            self.queue.close()


def opened(folder, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/state")
    ground = Ground.__new__(Ground)
    from ground import Hands

    from taskpit.landing.values import Terms

    ground.folder, ground.top, ground.root = str(folder), f"{folder}/repository", f"{folder}/queue"
    ground.terms, ground.hands = Terms(land="merge", onto="main"), Hands()
    return ground


def steps(ground):
    with record() as calls:
        Life(ground, "first").land()
    return [number for number, (call, _) in enumerate(calls, 1) if call in PLACES]


def keep(folder):
    """A scene as it is now comes again by `fresh`."""
    shutil.copytree(folder, f"{folder}.kept", symlinks=True)


def fresh(folder, monkeypatch):
    """The scene as it was kept, under the same path: P and its clones know where they are."""
    shutil.rmtree(folder)
    shutil.copytree(f"{folder}.kept", folder, symlinks=True)
    return opened(folder, monkeypatch)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """One task that nobody has begun, in a repository that nothing has landed in."""
    folder = tmp_path_factory.mktemp("bare")
    ground = Ground(folder)
    task = ground.put("one", check="grep -q x a.txt")
    ground.close()
    keep(folder)
    return folder, task


def test_killed_at_every_git_call_and_every_change_before_it_is_handed_in(bare, monkeypatch):
    """Clone, candidate, check, hand-in: the next worker goes on, and what was handed in is not built again."""
    folder, task = bare
    with record() as calls:
        Life(fresh(folder, monkeypatch), "first").build(task)
    numbers = [number for number, (call, _) in enumerate(calls, 1) if call in PLACES]
    assert len(numbers) > 60
    outcomes = set()
    for number in some(numbers, 1):
        ground = fresh(folder, monkeypatch)
        with contextlib.suppress(Killed), kill_at(number):
            Life(ground, "first").build(task)
        queue = Queue.open(ground.root)
        if queue.card(task).state is State.CLAIMED:
            until(partial(_given_back, queue, task))
        pipe = LandingPipe(Repository(ground.top), os.path.realpath(ground.root), ground.terms)
        handed = pipe.repository.is_known() and pipe.hand_in_of(task) is not None
        was_held = bool(queue.card(task).held)
        outcomes.add((handed, was_held))
        assert handed or not was_held, number  # nothing waits that is not there
        queue.close()
        second = Life(ground, "second")
        if not was_held:
            second.build(task)
        assert len(second.built) == (0 if handed else 1), number
        second = Life(ground, "third")
        second.land()
        queue = Queue.open(ground.root)
        assert (queue.card(task).state, queue.card(task).task.attempts) == (State.DONE, 0), number
        queue.close()
        assert git(ground.top, "log", "--format=%s", "main").splitlines() == ["one", "begin"], number
        assert git(ground.top, "show", "main:a.txt") == "x", number
        assert git(ground.top, "status", "--porcelain") == "", number
        left = git(_ours(folder), "for-each-ref", "--format=%(refname)", "refs/pit").splitlines()
        assert {name.split("/")[2] for name in left} == {"cand", "have", "land", "line", "up"}, number
    assert {handed for handed, _ in outcomes} == {False, True}


def some(numbers, between):
    """The first and the last, and of those between them so many in turn; in the long run all."""
    return sorted({numbers[0], *part(numbers, len(numbers) // between), numbers[-1]})


def test_killed_at_every_git_call_and_every_change(scene, monkeypatch):
    folder, task = scene
    numbers = steps(fresh(folder, monkeypatch))
    assert len(numbers) > 30
    outcomes = set()
    for number in some(numbers, 2):
        ground = fresh(folder, monkeypatch)
        with contextlib.suppress(Killed), kill_at(number):
            Life(ground, "first").land()
        outcomes.add(_landed_by_the_next(ground, task, number))
    assert {(False, 2), (True, 3)} <= outcomes  # each side of the decision was met


def _landed_by_the_next(ground, task, number):
    """Whoever comes next lands it, if it has not landed; whether it was done before, and how long the line was."""
    line = git(_ours(ground.folder), "log", "--format=%s", "refs/pit/line/main").splitlines()
    queue = Queue.open(ground.root)
    state = queue.card(task).state
    assert (state is not State.DONE) or line == ["two", "one", "begin"], number  # git first, seal second
    assert line in (["one", "begin"], ["two", "one", "begin"]), number
    until(partial(_given_back, queue, task))
    queue.close()
    Life(ground, "second").land()
    queue = Queue.open(ground.root)
    card = queue.card(task)
    assert (card.state, card.task.attempts) == (State.DONE, 0), number
    told = [event.action for event in queue.store.events(limit=1000)[0]]
    assert told.count("completed_task") <= 2, number  # the log may lack a line, and never has one too many
    queue.close()
    locks = list(Path(ground.top, ".git").rglob("*.lock"))
    if locks:  # of a git that was killed in the person's own repository: theirs to remove
        assert git(ground.top, "log", "--format=%s", "main").splitlines() == ["one", "begin"], number
        for lock in locks:
            lock.unlink()
        Life(ground, "third").land()
    assert git(ground.top, "log", "--format=%s", "main").splitlines() == ["two", "one", "begin"], number
    assert git(ground.top, "status", "--porcelain") == "", number
    return state is State.DONE, len(line)


@pytest.mark.needs("cc")
@pytest.mark.parametrize("dies", [False, True], ids=["its worker goes on", "with its worker"])
def test_git_killed_at_every_rename_of_its_own(scene, tmp_path, monkeypatch, dies):
    folder, task = scene
    shim = Shim(str(tmp_path), monkeypatch)
    Life(fresh(folder, monkeypatch), "first").land()
    numbers = list(range(1, shim.counted() + 1))
    assert len(numbers) > 8
    real = Git._run

    def run(self, *words, **more):
        ran = real(self, *words, **more)
        if ran.code == -signal.SIGKILL and dies:
            raise Killed
        return ran

    monkeypatch.setattr(Git, "_run", run)
    outcomes = set()
    for number in some(numbers, 1):
        ground = fresh(folder, monkeypatch)
        shim.kill_at(number)
        with contextlib.suppress(Killed, TaskpitError):
            Life(ground, "first").land()
        assert shim.counted() >= number
        shim.kill_at(0)
        outcomes.add(_landed_by_the_next(ground, task, number))
    assert {length for _, length in outcomes} == {2, 3}


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """Two tasks handed in that change the same line; the first has landed."""
    folder = tmp_path_factory.mktemp("apart")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", f"{folder}/state")
        ground = Ground(folder)
        ids = [ground.put("one", check="true"), ground.put("two", check="! grep -q '<<<' README")]
        for task in ids:
            ground.work(task, README=f"{task}\n", **{f"{task}_dot_txt": "x\n"})
        ground.land(ids[0])
        ground.close()
    keep(folder)
    return folder, ids


def test_killed_at_every_git_call_and_every_change_while_a_conflict_goes_back(apart, monkeypatch):
    """Its agent finds both sides in its clone, whoever brought them there, and what has landed is not undone."""
    folder, (one, two) = apart
    numbers = steps(fresh(folder, monkeypatch))
    for number in some(numbers, 1):
        ground = fresh(folder, monkeypatch)
        with contextlib.suppress(Killed), kill_at(number):
            Life(ground, "first").land()
        queue = Queue.open(ground.root)
        until(partial(_given_back, queue, two))
        queue.close()
        Life(ground, "second").land()
        queue = Queue.open(ground.root)
        card = queue.card(two)
        kinds = [one.kind for one in card.tries if one.kind != "lost"]
        assert (card.state, card.held, kinds, card.task.attempts) == (State.READY, "", ["conflict"], 1), number
        queue.close()
        third = Life(ground, "third")
        text = read(f"{third.pipe.workspace(two)}/README")
        assert text.splitlines()[1:4:2] == [one, two], (number, text)
        write(f"{third.pipe.workspace(two)}/README", "both\n")
        third.build(two)
        Life(ground, "fourth").land()
        assert git(ground.top, "log", "--format=%s", "main").splitlines() == ["two", "one", "begin"], number
        landed = git(ground.top, "ls-tree", "--name-only", "main").splitlines()
        assert landed == [f"{one}.txt", f"{two}.txt", "README", "a.txt"], number
        assert git(ground.top, "show", "main:README") == "both", number


@pytest.fixture(scope="module")
def amended(tmp_path_factory):
    """Two have landed that the person's branch has not, whose last commit they have amended since."""
    folder = tmp_path_factory.mktemp("amended")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", f"{folder}/state")
        ground = Ground(folder)
        ground.commit("secret.txt")
        write(f"{ground.top}/README", "dirty")
        for title in ("one", "two"):
            task = ground.put(title)
            ground.work(task, **{f"{title}_dot_txt": "x\n"})
            ground.land(task)
        git(ground.top, "checkout", "-q", "README")
        amend(ground, "better")
        ground.close()
    keep(folder)
    return folder


def amend(ground, title):
    """The person's last commit is another one: a file of this name and nothing else."""
    write(f"{ground.top}/{title}.txt")
    git(ground.top, "reset", "-q", "--soft", "HEAD~1")
    git(ground.top, "rm", "-q", "--cached", "--ignore-unmatch", "secret.txt", "better.txt")
    git(ground.top, "add", f"{title}.txt")
    git(ground.top, "commit", "-qm", title)
    for name in {"secret.txt", "better.txt"} - {f"{title}.txt"}:
        Path(ground.top, name).unlink(missing_ok=True)


@pytest.mark.parametrize("again", [False, True], ids=["", "and amended again"])
def test_killed_at_every_git_call_while_what_landed_is_made_again_on_an_amended_branch(amended, monkeypatch, again):
    """All that landed comes to the branch, once, and what was taken out does not."""
    numbers = steps(fresh(amended, monkeypatch))
    for number in some(numbers, 1):
        ground = fresh(amended, monkeypatch)
        with contextlib.suppress(Killed), kill_at(number):
            Life(ground, "first").land()
        is_there = git(ground.top, "log", "-1", "--format=%s", "main") == "two"
        title = "best" if again and not is_there else "better"
        if title == "best":
            amend(ground, title)
        Life(ground, "second").land()
        found = git(ground.top, "log", "--format=%s", "main").splitlines()
        assert found == ["two", "one", title, "begin"], number
        landed = set(git(ground.top, "ls-tree", "--name-only", "main").splitlines())
        assert landed == {"README", "one.txt", "two.txt", f"{title}.txt"}, number
        assert git(ground.top, "status", "--porcelain") == "", number


def _given_back(queue, task):
    return not sweep(queue) and queue.card(task).state is not State.CLAIMED


def _ours(folder):
    (name,) = os.listdir(f"{folder}/state/taskpit/landing")
    return f"{folder}/state/taskpit/landing/{name}/git"


def test_whoever_lost_the_claim_lands_nothing(ground, monkeypatch):
    """The first lander stands still before it moves the line; another takes the fence; then the first goes on."""
    task = ground.put("one", check="true")
    ground.work(task, a_dot_txt="x")
    claim = _claimed(ground, task, "first")
    second = []
    real = Git.move

    def slow(self, name, new, old="", *, fence=("", "")):
        if name == line_of("main") and fence[0] and not second:
            ground.queue.finish(claim, Release())  # its claim is over
            second.append(_claimed(ground, task, "second"))
            ground.pipe.take_fence(second[0])
        return real(self, name, new, old, fence=fence)

    monkeypatch.setattr(Git, "move", slow)
    with pytest.raises(FenceLost):
        ground.new_pipe().land(claim, ground.hands, lambda: True)
    assert ground.pipe.repository.line("main") == git(ground.top, "rev-parse", "main")
    outcome = ground.pipe.land(second[0], ground.hands, lambda: True)
    ground.queue.finish(second[0], outcome)
    ground.pipe.publish()
    assert ground.log() == ["one", "begin"]
    assert ground.card(task).state is State.DONE


@pytest.mark.parametrize("moved", [False, True], ids=["before the line is moved", "after it"])
def test_killed_around_the_one_move_that_decides(ground, monkeypatch, moved):
    """It is done only if it is in the line, and what is in the line is not landed again."""
    task = ground.put("one", check="true")
    ground.work(task, a_dot_txt="x")
    real = Git.move

    def killed(self, name, new, old="", *, fence=("", "")):
        if name != line_of("main") or not fence[0]:
            return real(self, name, new, old, fence=fence)
        if moved:
            real(self, name, new, old, fence=fence)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Git, "move", killed)
        with pytest.raises(Killed):
            ground.land(task)
    assert ground.card(task).state is not State.DONE
    assert bool(ground.pipe.landed(task)) == moved
    if ground.card(task).state is State.CLAIMED:  # a lander that is only interrupted gives it back itself
        ground.queue.finish(ground.queue.holding(task, ground.card(task).worker), Release())
    line = ground.pipe.repository.line("main")
    ground.land(task)
    assert ground.card(task).state is State.DONE
    assert ground.log() == ["one", "begin"]
    assert (ground.pipe.repository.line("main") == line) == moved


def _claimed(ground, task, worker):
    from taskpit.model import Want

    return ground.queue.store.claim(Want(worker=worker, lease=60.0, ids=(task,), even_held=True))[0]


def test_one_that_takes_the_fence_too_late_notices(ground):
    task = ground.put("one")
    ground.work(task, a_dot_txt="x")
    claim = _claimed(ground, task, "first")
    ground.queue.finish(claim, Release())
    with pytest.raises(FenceLost):
        ground.pipe.land(claim, ground.hands, lambda: False)
    assert ground.log() == ["begin"]
    ground.land(task)
    assert ground.card(task).state is State.DONE


def test_landed_and_not_sealed_is_sealed_by_the_next_without_another_commit(ground):
    task = ground.put("one")
    ground.work(task, a_dot_txt="x")
    claim = _claimed(ground, task, "first")
    assert isinstance(ground.pipe.land(claim, ground.hands, lambda: True), Done)
    ground.queue.finish(claim, Release())  # killed before its seal: the claim goes back as it was
    assert ground.card(task).state is not State.DONE
    other = ground.put("two")
    ground.work(other, a_dot_txt="and on")  # built on it: merging it once more would conflict
    ground.land(other)
    ground.hands.ran.clear()
    ground.land(task)
    assert ground.card(task).state is State.DONE
    assert ground.log() == ["two", "one", "begin"]
    assert ground.hands.ran == []


def test_landed_and_not_sealed_cannot_be_cancelled_and_runs_no_agent_again(ground):
    from taskpit.actions import ACTIONS
    from taskpit.errors import Conflict

    task = ground.put("one", check="exit 3")
    claim, path = ground.enter(task)
    write(f"{path}/a.txt")
    ground.queue.finish(claim, ground.pipe.hand_in(claim, Done(), ground.hands, check=False))
    claim = _claimed(ground, task, "first")
    ground.pipe.land(claim, ground.hands, lambda: True)
    ground.queue.finish(claim, Release())
    with pytest.raises(Conflict, match="has landed already"):
        ACTIONS["cancel"].run(ground.queue, task, "ada@here", "")
    ground.queue.unblock(task, "ada@here")
    report, _ = ground.pool("touch again; exit 1")
    assert report.tally == {"done": 1}
    assert ground.log() == ["one", "begin"]
    assert ground.card(task).state is State.DONE


def test_handed_in_and_its_claim_not_ended_it_is_not_built_again(ground):
    task = ground.put("one")
    claim, path = ground.enter(task)
    write(f"{path}/a.txt")
    ground.pipe.hand_in(claim, Done(), ground.hands)
    ground.queue.finish(claim, Failed(error="its worker is gone", kind="lost"))  # as the keeper gives it back
    assert ground.card(task).held == ""
    report, _ = ground.pool(f"touch {ground.folder}/again; exit 1")
    assert report.tally == {"done": 1}
    assert not os.path.exists(f"{ground.folder}/again")
    assert ground.log() == ["one", "begin"]


def test_a_line_that_moved_meanwhile_is_landed_on_as_it_is_now(ground, monkeypatch):
    """Another landing comes between the check and the move: it is merged and checked once more."""
    one, two = ground.put("one", check="true"), ground.put("two")
    for task in (one, two):
        ground.work(task, **{f"{task}_dot_txt": "x"})
    real, between = Git.move, []

    def slow(self, name, new, old="", *, fence=("", "")):
        if name == line_of("main") and fence[0] and not between:
            between.append(name)
            ground.lander(ground.new_pipe(), "other").land(ground.pipe.hand_in_of(two))
        return real(self, name, new, old, fence=fence)

    monkeypatch.setattr(Git, "move", slow)
    ground.hands.ran.clear()
    ground.land(one)
    assert ground.log() == ["one", "two", "begin"]
    assert [found for command, found in ground.hands.ran if command == "true"] == [
        [".git", "0001.txt", "0002.txt", "README"]
    ]


def test_git_that_outlives_its_worker_moves_nothing(ground):
    """Its transaction names the fence: once another has that, it is refused, however late it comes."""
    task = ground.put("one")
    ground.work(task, a_dot_txt="x")
    claim = _claimed(ground, task, "first")
    name, old = ground.pipe.take_fence(claim)
    commit = ground.pipe.hand_in_of(task).commit
    text = f"start\nverify {name} {old}\nupdate {line_of('main')} {commit} {ground.pipe.repository.line('main')}\n"
    process = subprocess.Popen(
        ("git", "update-ref", "--stdin"),
        cwd=ground.pipe.git.directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    process.stdin.write(text.encode())
    process.stdin.flush()  # it stands still before it prepares
    ground.queue.finish(claim, Release())
    second = _claimed(ground, task, "second")
    ground.pipe.take_fence(second)
    process.communicate(b"prepare\ncommit\n")
    assert process.returncode != 0
    assert ground.pipe.repository.line("main") == git(ground.top, "rev-parse", "main")


def test_a_lock_of_a_killed_git_stops_nobody(ground):
    task = ground.put("one")
    ground.work(task, a_dot_txt="x")
    for name in ("refs/pit/line/main.lock", "packed-refs.lock", f"{ground.pipe.ref('land', task)}.lock"):
        write(f"{ground.pipe.git.directory}/{name}", "")
    ground.land(task)
    assert ground.card(task).state is State.DONE


def test_an_empty_object_deletes_no_branch(ground):
    from taskpit.landing.git import GitTrouble

    ground.work(ground.put(), a_dot_txt="x")
    with pytest.raises(GitTrouble):
        ground.pipe.git.move(line_of("main"), "", ground.pipe.repository.line("main"))
    with pytest.raises(GitTrouble, match="was to be pushed as"):
        ground.pipe.repository.push("", "main", ground.pipe.repository.line("main"))
    assert ground.pipe.repository.line("main")


@pytest.mark.parametrize("objects", ["sha1", "sha256"])
def test_a_ref_is_taken_away_if_it_is_what_it_was(tmp_path, objects):
    """Whatever length the names of a repository have: 40 zeros are none in one whose names have 64 letters."""
    from taskpit.landing.git import ZERO

    ground = Ground(tmp_path / "there", objects=objects)
    ground.work(ground.put(), a_dot_txt="x")
    git_, name = ground.pipe.git, "refs/pit/hand/x"
    one, other = git_.blob(b"one"), git_.blob(b"other")
    assert git_.move(name, one, ZERO)
    assert not git_.move(name, ZERO, other)
    assert git_.move(name, ZERO, one)
    assert git_.ref(name) == ""
    ground.close()


def test_files_of_an_older_base_never_undo_what_landed(ground):
    """Killed in the middle of bringing a clone up to date: the next attempt's commit has its own changes only."""
    one, two = ground.put("one"), ground.put("two")
    ground.work(one, README="mine\n", other_dot_txt="landed")
    claim, path = ground.enter(two)
    write(f"{path}/README", "yours\n")
    ground.hand_in(claim)
    ground.land(one)
    real, ground.pipe.git.__class__.set = Git.set, _dying_set
    try:
        lander = ground.lander()
        with pytest.raises(Killed):
            lander.land(lander.waiting()[0])
    finally:
        Git.set = real
    handed = ground.pipe.hand_in_of(two)
    assert handed is not None
    assert ground.pipe.git.ref(ground.pipe.ref("base", two)) == handed.base


def _dying_set(self, name, new):
    if "/base/" in name:
        raise Killed
    self.alone("update-ref", name, new)
