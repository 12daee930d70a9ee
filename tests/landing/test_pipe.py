"""The steps of landing, one by one: what an agent left in its files is one commit, checked as such, and lands once."""

from __future__ import annotations

import os
import shlex
import subprocess
import time

import pytest
from faults import record
from ground import Ground, git, read, write
from rotation import part

from taskpit.errors import Invalid
from taskpit.landing import git as git_calls
from taskpit.landing import review
from taskpit.landing.clones import Setups
from taskpit.landing.git import GitTrouble
from taskpit.landing.repository import Repository, line_of
from taskpit.landing.values import CANDIDATE, SetupFailed, Terms, Waits
from taskpit.model import Done, Failed, Release, State, Task
from taskpit.policy import LANDING, REVIEW


def test_files_become_one_commit_on_the_persons_branch(ground):
    task = ground.put("Say hello", check="grep -q hi greeting.txt")
    outcome = ground.work(task, greeting_dot_txt="hi\n")
    assert isinstance(outcome, Release)
    card = ground.card(task)
    assert card.state is State.READY
    assert card.held == f"{LANDING} on main"
    assert card.task.extra[CANDIDATE]["files"] == 1
    assert ground.log() == ["begin"]
    ground.land(task)
    card = ground.card(task)
    assert card.state is State.DONE
    assert card.result.evidence.green
    assert ground.log() == ["Say hello", "begin"]
    assert f"Task: {task}" in git(ground.top, "log", "-1", "--format=%B")
    assert git(ground.top, "log", "-1", "--format=%an <%ae>") == "Ada <ada@example.org>"
    assert git(ground.top, "status", "--porcelain") == ""
    assert os.path.exists(f"{ground.top}/greeting.txt")
    assert not os.path.exists(ground.pipe.workspace(task))


def test_what_the_agent_committed_switched_or_detached_does_not_matter(ground):
    task = ground.put()
    claim, path = ground.enter(task)
    write(f"{path}/a.txt")
    git(path, "add", ".")
    git(path, "commit", "-qm", "mine")
    git(path, "checkout", "-q", "--detach", "HEAD~1")
    write(f"{path}/b.txt")
    ground.hand_in(claim)
    ground.land(task)
    assert ground.files() == {"README", "b.txt"}  # the files as they were left decide, not the history


def test_each_task_has_a_clone_of_its_own_and_keeps_it_for_the_next_attempt(ground):
    one, two = ground.put("one"), ground.put("two")
    _, first = ground.enter(one)
    _, second = ground.enter(two)
    assert first != second
    write(f"{first}/half.txt")
    assert ground.pipe.enter(ground.card(one).task, ground.hands) == first
    assert os.path.exists(f"{first}/half.txt")
    assert git(first, "remote") == ""
    assert git(first, "config", "user.email") == "ada@example.org"
    assert git(first, "branch", "--format=%(refname:short)").split() == ["main", "pit/0001"]
    assert git(first, "rev-parse", "main") == git(ground.top, "rev-parse", "main")
    assert git(first, "fsck") == ""


@pytest.mark.parametrize("branch", ["master", "pit", "pit/0001", "pit/0001/x", "a/b"])
def test_branches_that_are_called_as_ours_or_as_gits_are_landed_on(tmp_path, branch):
    ground = Ground(tmp_path / "there")
    git(ground.top, "checkout", "-q", "-b", branch)
    ground.terms = ground.terms.replace(onto=branch)
    ground.pipe = ground.new_pipe()
    task = ground.put("one", check="test -e README")
    ground.work(task, a_dot_txt="x\n")
    ground.land(task)
    assert ground.log(branch=branch) == ["one", "begin"]
    assert ground.files(branch) == {"README", "a.txt"}
    ground.close()


def test_a_clone_has_the_persons_name_whatever_letters_are_in_it(ground):
    name = 'Ada "the first" \\ Löve; #1\tof two'
    git(ground.top, "config", "user.name", name)
    _, path = ground.enter(ground.put())
    assert git(path, "config", "user.name") == name


def test_how_many_calls_of_git_a_change_takes(ground):
    """From its clone to the person's branch: each is a process."""
    ground.work(ground.put(), z_dot_txt="z")
    one, two = ground.put("one", check="true"), ground.put("two", check="true")
    calls = dict.fromkeys((one, two), 0)
    for step in (lambda task: ground.work(task, **{f"{task}_dot_txt": "x"}), ground.land):
        for task in (one, two):
            with record() as found:
                step(task)
            calls[task] += [call for call, _ in found].count("git")
    assert calls[one] <= 41
    assert calls[two] <= 45  # merged, and checked again


def test_who_mends_the_branch_and_says_retry_has_it_begin_from_there(ground):
    """What was red for the branch's sake stayed red for ever, in the clone of the first attempt."""
    write(f"{ground.top}/check", "false")
    git(ground.top, "add", "-A")
    git(ground.top, "commit", "-qm", "a check that cannot be green")
    task = ground.put("a", check="sh check", max_attempts=1)
    ground.pool("echo hi >> a.txt")
    assert ground.card(task).state is State.FAILED
    write(f"{ground.top}/check", "true")
    git(ground.top, "commit", "-qam", "mended")
    ground.queue.retry(task, "ada@here")
    ground.pool("echo hi >> a.txt")
    assert ground.card(task).state is State.DONE
    assert read(f"{ground.top}/a.txt") == "hi\nhi\n"  # its work went along


def test_a_clone_that_was_not_finished_is_made_again(ground):
    task = ground.put()
    _, path = ground.enter(task)
    os.unlink(f"{path}~ready")
    write(f"{path}/half.txt")
    ground.pipe.enter(ground.card(task).task, ground.hands)
    assert not os.path.exists(f"{path}/half.txt")


def test_the_check_runs_on_the_commit_not_on_what_lies_around(ground):
    ground.commit(".gitignore", "*.cache\n")
    task = ground.put(check="test -e made.cache")
    outcome = ground.work(task, made_dot_cache="x", a_dot_txt="x")
    assert isinstance(outcome, Failed)
    assert "green only with files that are not committed (made.cache)" in outcome.error


def test_a_red_check_is_an_attempt(ground):
    task = ground.put(check="echo boom; false")
    outcome = ground.work(task, a_dot_txt="x")
    assert (outcome.kind, "boom" in outcome.error) == ("check", True)
    assert ground.card(task).task.attempts == 1


def test_nothing_changed_is_red_unless_that_is_allowed(ground):
    task = ground.put()
    assert "nothing changed" in ground.work(task).error
    allowed = ground.put(extra={"allow-empty": "yes"})
    ground.work(allowed)
    ground.land(allowed)
    assert ground.card(allowed).state is State.DONE
    assert ground.log() == ["begin"]


def test_what_lands_is_checked_again_unless_its_tree_is_known_to_be_green(ground):
    one, two = ground.put("one", check="true"), ground.put("two", check="true #2")
    ground.work(one, a_dot_txt="a")
    ground.work(two, b_dot_txt="b")
    ground.hands.ran.clear()
    ground.land(one)
    assert ground.hands.ran == []
    ground.land(two)
    assert ground.hands.ran == [("true #2", [".git", "README", "a.txt", "b.txt"])]
    assert ground.log() == ["two", "one", "begin"]


def test_red_on_what_would_land_goes_back_to_the_agent(ground):
    one, two = ground.put("one"), ground.put("two", check="test ! -e a.txt")
    ground.work(one, a_dot_txt="a")
    ground.work(two, b_dot_txt="b")
    ground.land(one)
    ground.land(two)
    card = ground.card(two)
    assert (card.state, card.task.hold, card.task.attempts) == (State.READY, "", 1)
    assert "on what would land on main" in card.tries[-1].error
    assert ground.log() == ["one", "begin"]
    path = ground.pipe.workspace(two)
    assert {"a.txt", "b.txt"} <= set(os.listdir(path))  # its clone has what landed and its own work


def test_what_was_red_with_nothing_left_to_change_has_not_landed(ground):
    one, two = ground.put("one"), ground.put("two", check="test ! -e b.txt || test -e c.txt")
    ground.work(two, a_dot_txt="a")
    ground.work(one, a_dot_txt="a", b_dot_txt="b")
    ground.land(one)  # has all that the second changed, and is red with its check
    ground.land(two)
    assert ground.card(two).tries[-1].kind == "check"
    ground.work(two, c_dot_txt="c")
    ground.land(two)
    assert ground.card(two).state is State.DONE
    assert ground.log() == ["two", "one", "begin"]
    assert os.path.exists(f"{ground.top}/c.txt")


def test_the_land_check_guards_the_branch(ground):
    ground.terms = ground.terms.replace(land_check="test ! -e forbidden.txt")
    ground.pipe = ground.new_pipe()
    task = ground.put()
    ground.work(task, forbidden_dot_txt="x")
    ground.land(task)
    assert ground.card(task).task.attempts == 1
    assert ground.log() == ["begin"]


def test_a_conflict_goes_back_with_files_sides_and_target(ground):
    one, two = ground.put("one"), ground.put("two")
    ground.work(one, README="mine\n")
    ground.work(two, README="yours\n", other_dot_txt="kept")
    ground.land(one)
    ground.land(two)
    card = ground.card(two)
    assert (card.state, card.task.hold, card.task.attempts, card.tries[-1].kind) == (State.READY, "", 1, "conflict")
    assert CANDIDATE not in card.task.extra
    assert "meanwhile, in: README" in card.tries[-1].error
    assert "main" in card.tries[-1].error
    path = ground.pipe.workspace(two)
    text = read(f"{path}/README")
    assert "<<<<<<<" in text
    assert "mine" in text
    assert "yours" in text
    assert os.path.exists(f"{path}/other.txt")
    assert git(path, "rev-parse", "HEAD") == git(ground.top, "rev-parse", "main")
    claim = ground.claim(two)
    assert ground.pipe.enter(claim.task, ground.hands) == path
    write(f"{path}/README", "both\n")
    ground.hand_in(claim)
    ground.land(two)
    assert ground.card(two).state is State.DONE
    assert git(ground.top, "show", "main:README") == "both"
    assert ground.log() == ["two", "one", "begin"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_conflict_that_its_agent_leaves_as_it_is_waits_for_a_person(ground, end):
    one, two = ground.put("one"), ground.put("two")
    ground.work(one, README=f"mine{end}")
    ground.work(two, README=f"yours{end}")
    ground.land(one)
    ground.land(two)
    ground.work(two)
    assert ground.card(two).held == f"{REVIEW} by a person: README has the marks of a conflict"
    assert ground.lander().waiting() == []
    assert ground.log() == ["one", "begin"]


def test_a_conflict_without_attempts_left_waits_for_a_person_with_its_candidate(ground):
    one, two = ground.put("one"), ground.put("two", max_attempts=1)
    ground.work(one, README="mine\n")
    ground.work(two, README="yours\n")
    ground.land(one)
    ground.land(two)
    card = ground.card(two)
    assert card.state is State.READY
    assert card.held.startswith(f"{REVIEW} by a person: no attempt is left: The work conflicts")
    assert "README" in card.held
    commit = card.task.extra[CANDIDATE]["commit"]
    assert git(ground.pipe.git.directory, "show", f"{commit}:README") == "yours"


def test_dependants_begin_from_what_landed(ground):
    one = ground.put("one")
    two = ground.put("two", needs=(one,))
    ground.work(one, a_dot_txt="a")
    write(f"{ground.top}/README", "the person edits this\n")  # main stays behind
    ground.land(one)
    assert ground.log() == ["begin"]
    _, path = ground.enter(two)
    assert os.path.exists(f"{path}/a.txt")


def test_a_dirty_checkout_delays_only_the_last_step(ground):
    task = ground.put("one")
    ground.work(task, a_dot_txt="a")
    write(f"{ground.top}/README", "the person edits this\n")
    ground.land(task)
    assert ground.card(task).state is State.DONE
    assert ground.log() == ["begin"]
    (told,) = ground.pipe.publish()
    assert "1 commit that landed on main is not in your checkout yet" in told
    assert "README" in told
    assert read(f"{ground.top}/README") == "the person edits this\n"
    git(ground.top, "checkout", "-q", "README")
    assert ground.pipe.publish() == []
    assert ground.log() == ["one", "begin"]
    assert os.path.exists(f"{ground.top}/a.txt")


#: What stands in the person's checkout, by which commands, and whether their branch may follow.
IN_THE_WAY = {
    "the same file, unknown to git": ("printf 'x\\n' > a.txt", True),
    "the same file, ignored": ("echo a.txt > .git/info/exclude; printf 'x\\n' > a.txt", True),
    "the same change, not committed": ("echo landed > README", True),
    "the same change, staged": ("echo landed > README; git add README", True),
    "both": ("echo landed > README; printf 'x\\n' > a.txt", True),
    "the same link": ("ln -s README link", True),
    "the same removal": ("rm gone.txt", True),
    "the same removal, staged": ("git rm -q gone.txt", True),
    "another file": ("echo mine > a.txt", False),
    "another file of the same length": ("printf 'y\\n' > a.txt", False),
    "one that is the same, one that is not": ("printf 'x\\n' > a.txt; echo mine > sub", False),
    "the same bytes, but a program": ("printf 'x\\n' > a.txt; chmod +x a.txt", False),
    "a link to the same bytes": ("printf 'x\\n' > ../a.txt; ln -s ../../a.txt a.txt", False),
    "another link": ("ln -s elsewhere link", False),
    "a link on the way": ("mkdir ../sub; printf 'x\\n' > ../sub/b.txt; ln -s ../sub sub", False),
    "a directory": ("mkdir a.txt; echo mine > a.txt/b", False),
    "another staged, the same in the file": ("echo mine > README; git add README; echo landed > README", False),
    "no longer to be known to git": ("git rm -q --cached README; echo landed > README", False),
    "another change beside it": ("printf 'x\\n' > a.txt; echo mine > other.txt", False),
    "a removal of what changed": ("rm README", False),
    "another change that git shall not see": ("git update-index --assume-unchanged README; echo mine > README", False),
    "another change out of sight": ("git update-index --skip-worktree README; echo mine > README", False),
    "a file that shall come": ("echo mine > a.txt; git add -N a.txt", False),
}


@pytest.mark.parametrize("how", part(IN_THE_WAY, 2))
def test_what_is_just_what_landed_is_not_in_the_way_and_anything_else_is_not_touched(ground, how):
    """Byte for byte, and of the same kind: the person brought it themselves, or a git that was killed did."""
    command, follows = IN_THE_WAY[how]
    for name in ("gone.txt", "other.txt"):
        ground.commit(name)
    task = ground.put("one")
    claim, path = ground.enter(task)
    for name, text in {"a.txt": "x\n", "sub/b.txt": "x\n", "README": "landed\n"}.items():
        write(f"{path}/{name}", text)
    os.symlink("README", f"{path}/link")
    os.unlink(f"{path}/gone.txt")
    ground.hand_in(claim)
    subprocess.run(("sh", "-c", command), cwd=ground.top, check=True)
    before = snapshot(ground.top)
    ground.land(task)
    assert ground.card(task).state is State.DONE
    if follows:
        assert ground.log()[0] == "one"
        assert git(ground.top, "status", "--porcelain") == ""
    else:
        assert ground.log()[0] == "add other.txt"
        assert snapshot(ground.top) == before
        assert len(ground.pipe.publish()) == 1


def snapshot(top):
    """All that a person sees of their files and of git's index, with the very files that these are."""
    found = {}
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if name != ".git"]
        for name in (*folders, *files):
            status = os.lstat(f"{folder}/{name}")
            link = os.path.islink(f"{folder}/{name}")
            kept = os.readlink(f"{folder}/{name}") if link else name in files and read(f"{folder}/{name}")
            found[f"{folder}/{name}"] = (status.st_ino, status.st_mode, status.st_mtime_ns, kept)
    return found, git(top, "ls-files", "--stage")


@pytest.mark.parametrize("edited", [False, True], ids=["", "and edited"])
def test_a_checkout_that_a_killed_git_has_brought_half_way_is_brought_there(ground, edited):
    """Files and index are what landed, the branch is not. What a person has changed since is theirs."""
    task = ground.put()
    write(f"{ground.top}/README", "unsaved\n")
    ground.work(task, a_dot_txt="x\n", README="landed\n")
    ground.land(task)
    git(ground.top, "checkout", "-q", "README")
    git(ground.top, "fetch", "-q", ground.pipe.git.directory, line_of("main"))
    git(ground.top, "read-tree", "-m", "-u", "HEAD", "FETCH_HEAD")
    if edited:
        write(f"{ground.top}/a.txt", "the person's\n")
    told = ground.pipe.publish()
    if edited:
        assert "changes that are not committed (README, a.txt)" in told[0]
        assert read(f"{ground.top}/a.txt") == "the person's\n"
    else:
        assert (told, git(ground.top, "status", "--porcelain"), len(ground.log())) == ([], "", 2)


def test_commits_of_the_person_meanwhile_are_merged(ground):
    task = ground.put("one")
    ground.work(task, a_dot_txt="a")
    ground.commit("person.txt")
    ground.land(task)
    assert ground.log() == ["one", "add person.txt", "begin"]
    other = ground.put("two")
    write(f"{ground.top}/README", "dirty\n")
    ground.work(other, b_dot_txt="b")
    ground.land(other)  # landed, not published
    git(ground.top, "checkout", "-q", "README")
    ground.commit("more.txt")  # main has diverged from what landed
    third = ground.put("three")
    ground.work(third, c_dot_txt="c")
    ground.land(third)
    assert ground.files() == {"README", "a.txt", "b.txt", "c.txt", "more.txt", "person.txt"}


def test_a_person_whose_commits_conflict_with_what_landed_is_asked(ground):
    one, two = ground.put("one"), ground.put("two")
    ground.work(one, README="landed\n")
    ground.work(two, b_dot_txt="b")
    write(f"{ground.top}/README", "dirty\n")
    ground.land(one)
    git(ground.top, "commit", "-qam", "mine")
    ground.land(two)
    assert "main has commits that conflict with what has landed: README" in ground.card(two).held
    assert ground.log() == ["mine", "begin"]

    told = ground.card(two).held.partition("`git ")[2]
    git(ground.top, *shlex.split(told.partition("`")[0]))
    git(ground.top, "merge", "-q", "-X", "ours", "FETCH_HEAD")
    review.approve(ground.queue, two, "ada")
    ground.land(two)
    assert ground.files() == {"README", "b.txt"}
    assert read(f"{ground.top}/README") == "dirty\n"


def test_what_a_person_resets_stays_out_also_of_what_was_begun_with_it(ground):
    one, two, three = ground.put("one"), ground.put("two"), ground.put("three")
    ground.work(one, a_dot_txt="a")
    ground.land(one)
    ground.work(two, b_dot_txt="b")  # begun from what is taken out
    git(ground.top, "reset", "-q", "--hard", "HEAD~1")
    ground.land(two)
    ground.work(three, c_dot_txt="c")
    ground.land(three)
    assert ground.log() == ["three", "two", "begin"]
    assert ground.files() == {"README", "b.txt", "c.txt"}


def test_what_a_person_amends_or_rebases_is_what_the_next_task_begins_from(ground):
    one, two, three = ground.put("one"), ground.put("two"), ground.put("three")
    git(ground.top, "branch", "upstream")
    ground.work(one, a_dot_txt="a\n")
    ground.land(one)
    write(f"{ground.top}/a.txt", "better\n")
    git(ground.top, "commit", "-q", "--amend", "-am", "one, better")
    ground.work(two, b_dot_txt="b")
    ground.land(two)
    git(ground.top, "checkout", "-q", "upstream")
    ground.commit("up.txt")
    git(ground.top, "checkout", "-q", "main")
    git(ground.top, "rebase", "-q", "upstream")  # as `git pull --rebase` does
    ground.work(three, c_dot_txt="c")
    ground.land(three)
    assert ground.log() == ["three", "two", "one, better", "add up.txt", "begin"]
    assert read(f"{ground.top}/a.txt") == "better\n"
    assert ground.pipe.behind() == []


def test_the_target_is_a_name_that_does_not_follow_the_persons_checkout(ground):
    task = ground.put("one")
    ground.work(task, a_dot_txt="a")
    git(ground.top, "checkout", "-q", "-b", "other")
    ground.land(task)
    assert ground.log(branch="main") == ["one", "begin"]
    assert ground.log(branch="other") == ["begin"]
    assert not os.path.exists(f"{ground.top}/a.txt")


def test_a_branch_of_its_own(tmp_path):
    ground = Ground(tmp_path / "branch", land="branch")
    one, two = ground.put("one"), ground.put("two")
    needing = ground.put("three", needs=(one, two))
    for task, name in ((one, "a"), (two, "b")):
        ground.work(task, **{f"{name}_dot_txt": name})
        ground.land(task)
        assert ground.card(task).state is State.DONE
        assert ground.files(f"pit/{task}") == {"README", f"{name}.txt"}
    assert ground.log("main") == ["begin"]
    _, path = ground.enter(needing)
    assert {"a.txt", "b.txt"} <= set(os.listdir(path))
    ground.close()


def test_a_task_of_another_queue_with_the_same_id_has_a_branch_of_its_own(tmp_path):
    ground = Ground(tmp_path / "branch", land="branch")
    for number, name in enumerate(("queue", "queue", "another")):  # the second is in the place of the first
        if number:
            ground.close()
            ground.make_queue(f"{tmp_path}/branch/{name}")
        task = ground.put(f"of {number}")
        ground.work(task, **{f"{number}_dot_txt": "x"})
        ground.land(task)
        assert ground.card(task).state is State.DONE
        branch = f"pit/{task}-{number + 1}" if number else f"pit/{task}"
        assert f"landed on {branch}" in ground.card(task).result.reason
        assert ground.files(branch) == {"README", f"{number}.txt"}
    git(ground.top, "branch", "pit/0002", "main")  # one of the person's own
    task = ground.put("next")
    ground.work(task, n_dot_txt="n")
    ground.land(task)
    assert ground.log(branch="pit/0002") == ["begin"]
    assert ground.log(branch="pit/0002-2") == ["next", "begin"]
    ground.close()


def test_what_is_landed_takes_no_clone_of_a_task_with_a_longer_id_along(tmp_path):
    ground = Ground(tmp_path / "box", layout="mailbox")
    for task in ("job", "job.2"):
        ground.queue.put([Task(id=task, title=task)])
    claim, path = ground.enter("job.2")
    write(f"{path}/b.txt", "b")
    ground.work("job", a_dot_txt="a")
    ground.land("job")
    ground.hand_in(claim)
    ground.land("job.2")
    assert ground.files() == {"README", "a.txt", "b.txt"}
    ground.close()


def test_a_queue_in_the_place_of_another_lands_its_own_work(ground):
    one, red = ground.put("one", created=1e9), ground.put("red", check="false", created=1e9)
    ground.work(one, a_dot_txt="a")
    ground.land(one)
    ground.work(red, wrong_dot_txt="x")
    ground.make_queue(ground.root)
    two, three = ground.put("two"), ground.put("three")
    assert (two, three) == (one, red)
    ground.work(two, b_dot_txt="b")
    ground.land(two)
    assert ground.card(two).state is State.DONE
    ground.work(three, c_dot_txt="c")
    ground.land(three)
    assert ground.log() == ["three", "two", "one", "begin"]
    assert ground.files() == {"README", "a.txt", "b.txt", "c.txt"}


@pytest.mark.parametrize("land", ["branch", "merge"])
def test_what_an_earlier_queue_in_the_same_place_landed_is_no_work_of_a_need(ground, land):
    one = ground.put("one", extra={"land": "branch"})
    ground.work(one, a_dot_txt="a")
    ground.land(one)
    ground.make_queue(ground.root)
    soon = time.time() + 10  # later than that commit, whose time is in whole seconds
    assert ground.put("another", extra={"land": "none"}, created=soon) == one
    ground.queue.finish(ground.claim(one), Done())
    two = ground.put("two", needs=(one,))
    report, _ = ground.pool("ls > b.txt", land=land)
    assert report.tally == {"done": 1}
    assert git(ground.top, "show", f"{'main' if land == 'merge' else f'pit/{two}'}:b.txt") == "README\nb.txt"


def test_what_needs_work_that_landed_elsewhere_waits(ground):
    one = ground.put("one", extra={"land": "branch"})
    ground.work(one, a_dot_txt="a")
    ground.land(one)
    two = ground.put("two", needs=(one,))
    with pytest.raises(Waits, match="landed elsewhere"):
        ground.pipe.enter(ground.claim(two).task, ground.hands)


@pytest.mark.parametrize("ignored", ["made\n", "made\n.env\n"])
def test_files_are_copied_and_never_committed_and_the_set_up_runs_everywhere(tmp_path, ignored):
    ground = Ground(tmp_path / "set", copy=(".env",), setup="cp .env made; echo said")
    ground.commit(".gitignore", ignored)
    write(f"{ground.top}/.env", "TOKEN=1\n")
    task = ground.put(check="grep -q TOKEN .env && test -e made")
    assert isinstance(ground.work(task, a_dot_txt="x"), Release)
    assert read(f"{ground.pipe.workspace(task)}~log") == "said\n"
    ground.land(task)
    assert ground.files() == {"README", "a.txt", ".gitignore"}
    ground.close()


def test_a_set_up_that_hangs_is_ended_and_its_log_kept(tmp_path):
    ground = Ground(tmp_path / "hangs", setup="echo begun; sleep 600", setup_limit=0.3)
    with pytest.raises(SetupFailed, match="begun") as failed:
        ground.pipe.enter(ground.claim(ground.put()).task, ground.hands)
    assert read(failed.value.details["log"]) == "begun\n"
    ground.close()


def test_a_red_set_up_is_nothing_the_task_did(tmp_path):
    ground = Ground(tmp_path / "set", setup="echo no network; exit 3")
    task = ground.put()
    with pytest.raises(SetupFailed, match="no network"):
        ground.pipe.enter(ground.claim(task).task, ground.hands)
    ground.close()


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("big.bin", "x" * (6 * 1024 * 1024), "big.bin is new and large (6 MB)"),
        ("deploy/id_rsa", "x", "deploy/id_rsa looks like a secret"),
        (".env.local", "x", ".env.local looks like a secret"),
        ("notes.md", "the key is ghp_" + "a" * 36, "notes.md looks like a secret"),
        (".gitattributes", "*.bin filter=lfs\n", ".gitattributes changes how git writes files"),
        ("a.key", "-----BEGIN RSA PRIVATE KEY-----", "a.key looks like a secret"),
        ("a.py", "key = 'sk-proj-" + "a" * 30, "a.py looks like a secret"),
        ("a.py", "key = 'sk_live_" + "a" * 24, "a.py looks like a secret"),
        (".env.sample", "NPM=npm_" + "a" * 36, ".env.sample looks like a secret"),
        ("a.py", "github_pat_" + "a" * 40, "a.py looks like a secret"),
        ("a.py", "eyJ" + "a" * 20 + ".eyJ" + "b" * 20 + "." + "c" * 20, "a.py looks like a secret"),
        ("a.py", "postgres://app:hunter22@db.example/x", "a.py looks like a secret"),
        ("a.py", "postgres://app:password@db.example/x", ""),
        ("a.py", "the value is given-by-a-variable", "a.py looks like a secret"),
        (".envrc", "use nix", ".envrc is run or obeyed by a tool without being asked"),
        (
            ".github/workflows/x.yml",
            "on: push",
            ".github/workflows/x.yml is run or obeyed by a tool without being asked",
        ),
        (".husky/pre-commit", "x", ".husky/pre-commit is run or obeyed by a tool without being asked"),
        (".vscode/tasks.json", "{}", ".vscode/tasks.json is run or obeyed by a tool without being asked"),
        (".env.example", "TOKEN=\n", ""),
    ],
)
def test_a_person_is_asked_about_large_and_secret_looking_files(ground, monkeypatch, name, text, told):
    monkeypatch.setenv("SOME_API_KEY", "given-by-a-variable")
    task = ground.put()
    claim, path = ground.enter(task)
    write(f"{path}/{name}", text)
    ground.hand_in(claim)
    held = ground.card(task).held
    assert held == (f"{REVIEW} by a person: {told}" if told else f"{LANDING} on main")


def test_a_file_that_a_filter_would_change_is_asked_about(ground):
    ground.commit(".gitattributes", "*.psd filter=lfs\n")
    task = ground.put()
    ground.work(task, image_dot_psd="pixels")
    assert "image.psd would go through a git filter" in ground.card(task).held


def test_a_pool_that_asks_for_review_lands_nothing_unseen(tmp_path):
    ground = Ground(tmp_path / "review", review="person")
    task = ground.put()
    ground.work(task, a_dot_txt="x\ny\n")
    assert ground.card(task).held == f"{REVIEW} by a person: 1 file, +2 -0"
    assert ground.lander().waiting() == []
    ground.close()


@pytest.mark.parametrize("layout", ["pit", "mailbox", "workspace", "activities"])
def test_every_layout_carries_a_candidate(tmp_path, layout):
    ground = Ground(tmp_path / layout, layout)
    ids = {"activities": "WI-001-A1"}
    task = ground.queue.put([Task(id=ids.get(layout, ""), title="one", check="true")])[0][0]
    ground.work(task, a_dot_txt="a")
    card = ground.card(task)
    assert card.held == f"{LANDING} on main"
    assert card.task.extra[CANDIDATE]["onto"] == "main"
    ground.land(task)
    assert ground.card(task).state is State.DONE
    assert "landed on main as" in ground.card(task).result.reason
    assert ground.log() == ["one", "begin"]
    ground.close()


def test_a_task_says_otherwise_than_its_pool(ground):
    told = Terms().of(Task(id="1", title="x", extra={"land": "merge", "onto": "dev", "frozen": "tests/**, Makefile"}))
    assert (told.land, told.onto, told.frozen) == ("merge", "dev", ("tests/**", "Makefile"))
    for pool, asked, wanted in (
        ("person", "none", "person"),
        ("person", "agent", "person"),
        ("agent", "none", "agent"),
        ("none", "person", "person"),
        ("agent", "person", "person"),
    ):
        assert Terms(review=pool).of(Task(id="1", title="x", extra={"review": asked})).review == wanted
    pool = Terms(land="merge", review="agent", review_tags=("security", "api"))
    assert pool.of(Task(id="1", title="x", tags=("api",), extra={"review": "none"})).review == "person"
    assert pool.of(Task(id="1", title="x", tags=("docs",))).review == "agent"
    with pytest.raises(Invalid, match="review"):
        Terms(land="merge", review_tags=("api",)).of(Task(id="1", title="x", tags=("api",), extra={"land": "none"}))
    with pytest.raises(Invalid, match="land is one of"):
        Terms().of(Task(id="1", title="x", extra={"land": "yes"}))
    with pytest.raises(Invalid, match="review"):  # it would work in the checkout itself
        Terms(land="merge", review="person").of(Task(id="1", title="x", extra={"land": "none"}))
    with pytest.raises(Invalid, match="no branch 'dev'"):
        ground.pipe.enter(Task(id="1", title="x", extra={"onto": "dev"}), ground.hands)


def test_where_there_is_nothing_to_land_on_is_told_at_once(ground, tmp_path):
    with pytest.raises(GitTrouble, match="in no git checkout"):
        Repository(str(tmp_path))
    git(ground.top, "checkout", "-q", "--detach")
    with pytest.raises(Invalid, match="no branch is checked out"):
        Repository(ground.top).current_branch()


def test_a_repository_that_git_does_not_read_is_told_as_what_it_is(ground, monkeypatch):
    """Also where `safe.directory` names it: that stands in the person's configuration, which landing does not read."""
    environment = git_calls._environment
    other = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    with monkeypatch.context() as patch:
        patch.setattr(git_calls, "_environment", lambda *rest, **more: {**environment(*rest, **more), **other})
        with pytest.raises(GitTrouble) as found:
            Repository(ground.top)
    assert (
        found.value.message
        == f"the repository in {ground.top} belongs to another user, and landing needs one of your own"
    )
    assert found.value.hint == f"Clone it, and work there: git clone {shlex.quote(ground.top)} DIRECTORY"
    git(ground.folder, "clone", "-q", "--bare", ground.top, "bare.git")
    for place in (f"{ground.folder}/bare.git", f"{ground.top}/.git"):
        with pytest.raises(GitTrouble, match=r"is in no git checkout$"):
            Repository(place)
    write(f"{ground.top}/.git/config", "[core\n")
    with pytest.raises(GitTrouble, match=r"git cannot read the repository .*: fatal: bad config line 1"):
        Repository(ground.top)


@pytest.mark.parametrize("how", ["detached", "unborn"])
def test_a_task_that_is_to_land_where_no_branch_is_waits_and_spends_nothing(ground, how):
    task = ground.put(extra={"land": "merge"})
    words = ("--detach",) if how == "detached" else ("--orphan", "new")
    git(ground.top, "checkout", "-q", *words)
    ground.pool("touch ran", land="none", onto="")
    card = ground.card(task)
    told = {"detached": "no branch is checked out", "unborn": "there is no branch 'new'"}[how]
    assert card.held.startswith(told)
    assert (card.task.attempts, card.tries) == (0, ())
    assert not os.path.exists(f"{ground.top}/ran")


@pytest.mark.parametrize("name", ["main^", "main~0", "main@{0}"])
def test_a_commit_near_a_branch_is_no_branch(ground, name):
    """Nothing can land there, which is told before anything runs."""
    ground.commit("a.txt")
    with pytest.raises(Invalid, match="there is no branch"):
        Repository(ground.top).require_branch(name)


def test_done_twice_is_impossible_and_a_second_lander_finds_nothing(ground):
    task = ground.put()
    ground.work(task, a_dot_txt="x")
    handed = ground.lander().waiting()[0]
    assert ground.land(task) is not None
    assert ground.lander().land(handed) is None
    assert len(ground.log()) == 2


def test_cancelled_while_it_waits_nothing_lands(ground):
    task = ground.put()
    ground.work(task, a_dot_txt="x")
    ground.queue.cancel(task, "ada@here")
    assert ground.lander().waiting() == []
    assert ground.log() == ["begin"]
    assert ground.card(task).result.verdict == "cancelled"


def test_output_and_cost_of_the_agent_are_those_of_the_result(ground):
    task = ground.put()
    claim, path = ground.enter(task)
    write(f"{path}/a.txt")
    done = Done(output="what I did", cost={"usd": 0.5}, seconds=3.0)
    ground.queue.finish(claim, ground.pipe.hand_in(claim, done, ground.hands))
    ground.land(task)
    result = ground.card(task).result
    assert result.output.startswith("what I did\n\nLanded on main as ")
    assert (result.cost, result.seconds) == ({"usd": 0.5}, 3.0)


def test_a_path_with_an_end_of_line_is_refused_in_words(ground, tmp_path):
    folder = str(tmp_path / "two\nlines")
    git(str(tmp_path), "clone", "-q", ground.top, folder)
    with pytest.raises(GitTrouble, match="an end of line in its path"):
        Repository(folder)


def test_a_publishing_between_two_looks_is_no_reset_by_the_person(ground, monkeypatch):
    repository = ground.pipe.repository
    repository.open()
    old = repository.sync("main")
    new = repository.git.commit(repository.git.tree_of(old), [old], "landed\n")
    repository.git.set("refs/pit/line/main", new)
    real = type(repository.git).alone

    def alone(git, *words, **options):
        ran = real(git, *words, **options)
        if words[0] == "fetch":  # the branch was read as it was; now another lander publishes
            monkeypatch.undo()
            assert repository.publish("main").sentence() == ""
        return ran

    monkeypatch.setattr(type(repository.git), "alone", alone)
    assert repository.sync("main") == new
    assert repository.line("main") == new


def test_a_repository_whose_objects_have_longer_names(tmp_path):
    """SHA-256: the name of no object has 64 letters there; 40 were refused at the first task."""
    ground = Ground(tmp_path / "long", objects="sha256", frozen=("kept/*",))
    ground.commit("kept/as-is", "mine\n")
    first, second = ground.put("first", check="grep -q hi a.txt"), ground.put("second")
    ground.work(first, a_dot_txt="hi\n", kept__new="an agent's\n", kept__as_is="an agent's\n")
    ground.work(second, a_dot_txt="other\n")
    ground.land(first)
    assert ground.card(first).state is State.DONE
    assert ground.files() == {"README", "a.txt", "kept/as-is"}
    assert git(ground.top, "show", "main:kept/as-is") == "mine"
    assert len(git(ground.top, "rev-parse", "main")) == 64
    ground.land(second)  # both made the same file
    assert "<<<<<<< (main)" in ground.card(second).tries[-1].error
    ground.close()


def test_what_an_agent_changed_in_a_submodule_is_told_by_its_name(ground, tmp_path):
    """It was "nothing changed", and a repository of its own."""
    library = str(tmp_path / "library")
    git(str(tmp_path), "init", "-q", "-b", "main", library)
    write(f"{library}/x.txt")
    git(library, "add", "x.txt")
    git(library, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "x")
    allowed = ("-c", "protocol.file.allow=always", "submodule")
    git(ground.top, *allowed, "--quiet", "add", library, "lib")
    git(ground.top, "commit", "-qm", "with a library")
    task = ground.put()
    claim, path = ground.enter(task)
    git(path, *allowed, "--quiet", "update", "--init")
    write(f"{path}/lib/x.txt", "changed\n")
    outcome = ground.hand_in(claim)
    told = "lib is a submodule: nothing of it lands, commit and push what changed in it there"
    assert isinstance(outcome, Failed)
    assert outcome.error == f"nothing changed in its clone, so there is nothing to land; {told}"
    other = ground.put()
    claim, path = ground.enter(other)
    git(path, *allowed, "--quiet", "update", "--init")
    write(f"{path}/a.txt")
    ground.hand_in(claim)
    assert ground.card(other).held == f"{REVIEW} by a person: {told}"
    another = ground.put()
    claim, path = ground.enter(another)
    os.rmdir(f"{path}/lib")  # not fetched, it is an empty directory, which tools clear away
    ground.hand_in(claim)
    assert ground.card(another).held == f"{REVIEW} by a person: lib is a submodule no longer"
    last = ground.put()
    ground.work(last, a_dot_txt="x", lib__new_dot_txt="x")  # into the empty directory: git takes nothing of that
    assert ground.card(last).held == f"{REVIEW} by a person: {told}"


def test_candidates_are_kept_for_their_time_and_what_an_open_task_needs_for_longer(ground):
    from taskpit.clock import Clock
    from taskpit.landing import review

    class Later(Clock):
        def now(self):
            return super().now() + 40 * 86400.0

    one, two, waits = ground.put("one"), ground.put("two"), ground.put("waits")
    open_one = ground.put("open", needs=(two,), hold="not yet")
    for task in (one, two, waits):
        ground.work(task, **{f"{task}_dot_txt": "x"})
    for task in (one, two):
        ground.land(task)
    assert review.prune(ground.queue) == []
    ground.queue.clock = Later()
    ground.queue.config = ground.queue.config.replace(keep_candidates=0.0)
    assert review.prune(ground.queue) == []
    ground.queue.config = ground.queue.config.replace(keep_candidates=30 * 86400.0)
    assert review.prune(ground.queue) == [one]  # `two` is needed, `waits` is not over
    assert open_one
    left = {name.split("/")[-1] for name in ground.pipe.git.below("refs/pit/cand")}
    assert left == {two, waits}
    ground.land(waits)
    assert ground.log()[0] == "waits"


def _setups(ground):
    return len(read(f"{ground.folder}/setups").splitlines())


def test_what_a_set_up_made_is_copied_while_the_files_that_decide_it_are_the_same(tmp_path):
    made = (
        f"echo run >> '{tmp_path}/kept/setups'; mkdir -p deep/modules; cp lock deep/modules/x; ln -s x deep/modules/y"
    )
    ground = Ground(tmp_path / "kept", setup=made, setup_key=("lock",))
    ground.commit("lock", "1\n")
    ground.commit("deep/a.txt")
    ground.commit(".gitignore", "modules/\n")
    one, two, three, four = (ground.put(name, check="grep -q . deep/modules/y") for name in ("a", "b", "c", "d"))
    ground.work(one, a_dot_txt="x\n")
    ground.land(one)
    ground.work(two, b_dot_txt="x\n")
    ground.land(two)
    assert _setups(ground) == 1  # for two clones, and two checks in fresh ones
    outside, place = tmp_path / "outside", tmp_path / "place"
    outside.mkdir()
    place.mkdir()
    os.symlink(outside, place / "deep")
    setups = Setups(ground.pipe.repository)
    key = setups.key(ground.pipe.repository.line("main"), ground.terms)
    assert not setups.bring(key, str(place))  # no link is followed
    assert os.listdir(outside) == []
    ground.commit("lock", "2\n")
    claim, path = ground.enter(three)
    assert read(f"{path}/deep/modules/x") == "2\n"
    assert _setups(ground) == 2
    write(f"{path}/deep/modules/x", "the agent's\n")
    ground.hand_in(claim)
    _, path = ground.enter(four)
    assert read(f"{path}/deep/modules/x") == "2\n"  # nothing of an agent's gets into it
    assert _setups(ground) == 2
    ground.close()


def test_a_virtual_environment_is_made_where_it_is_used(tmp_path):
    made = f"echo run >> '{tmp_path}/kept/setups'; mkdir -p .venv; touch .venv/pyvenv.cfg"
    ground = Ground(tmp_path / "kept", setup=made, setup_key=("README",))
    for name in ("a", "b"):
        ground.enter(ground.put(name))
    assert _setups(ground) == 2
    ground.close()
