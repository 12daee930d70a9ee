"""What an agent may leave behind: no code of its own runs outside its run, and nothing of the person's is touched.

Each trap, when it is sprung, makes a file: none may be there in the end.
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess

import pytest
from ground import Ground, git, read, write

from taskpit.landing import review
from taskpit.landing.git import GitTrouble
from taskpit.model import State
from taskpit.policy import REVIEW


def trap(ground, name="sprung"):
    """A program that would tell of its being run."""
    path = f"{ground.folder}/{name}.sh"
    write(path, f"#!/bin/sh\ntouch '{ground.folder}/{name}'\ncat\n")
    os.chmod(path, 0o755)
    return path


def config(directory, *pairs):
    for key, value in pairs:
        subprocess.run(("git", "config", "--file", f"{directory}/config", key, value), check=True)


def hooks(directory, program):
    """In the repository, and where `core.hooksPath` may lead."""
    for name in ("pre-commit", "post-checkout", "post-merge", "reference-transaction", "post-index-change", "pre-push"):
        for folder in (directory, os.path.dirname(program)):
            path = f"{folder}/hooks/{name}"
            write(path, f'#!/bin/sh\nexec "{program}" </dev/null\n')
            os.chmod(path, 0o755)


def poisoned(program):
    return (
        ("core.fsmonitor", program),
        ("core.hooksPath", f"{os.path.dirname(program)}/hooks"),
        ("filter.evil.clean", program),
        ("filter.evil.smudge", program),
        ("filter.evil.process", program),
        ("gpg.program", program),
        ("commit.gpgSign", "true"),
        ("core.sshCommand", program),
        ("diff.external", program),
        ("merge.evil.driver", f"{program} %A"),
        ("core.pager", program),
        ("core.editor", program),
        ("alias.add", f"!{program}"),
        ("uploadpack.packObjectsHook", program),
    )


def sprung(ground):
    return [name for name in os.listdir(ground.folder) if name.startswith("sprung") and not name.endswith(".sh")]


def carry_through(ground, claim):
    """Handed in, landed, published; also what is sent back after a conflict."""
    ground.hand_in(claim)
    if ground.lander().waiting():
        ground.land(claim.task.id)
    ground.pipe.publish()


def test_configuration_and_hooks_of_its_own_clone(ground):
    claim, path = ground.enter(ground.put())
    program = trap(ground)
    config(f"{path}/.git", *poisoned(program), ("extensions.worktreeConfig", "true"))
    write(f"{path}/.git/config.worktree", f"[core]\n\tfsmonitor = {program}\n")
    hooks(f"{path}/.git", program)
    write(f"{path}/.git/info/attributes", "* filter=evil diff=evil merge=evil\n")
    write(f"{path}/a.txt")
    carry_through(ground, claim)
    assert ground.files() == {"README", "a.txt"}
    assert sprung(ground) == []


def test_configuration_and_hooks_after_a_conflict(ground):
    one, two = ground.put("one"), ground.put("two")
    claim, path = ground.enter(two)
    program = trap(ground)
    ground.work(one, README="mine\n")
    config(f"{path}/.git", *poisoned(program))
    hooks(f"{path}/.git", program)
    write(f"{path}/README", "yours\n")
    ground.hand_in(claim)
    ground.land(one)
    ground.land(two)
    assert ground.card(two).tries[-1].kind == "conflict"
    assert "evil" not in read(f"{path}/.git/config")  # its clone has a fresh one
    assert any("~old-" in name for name in os.listdir(os.path.dirname(path)))  # its own commits are kept
    assert sprung(ground) == []


def test_a_git_file_that_leads_elsewhere(ground):
    claim, path = ground.enter(ground.put())
    program = trap(ground)
    evil = f"{ground.folder}/evil"
    git(ground.folder, "clone", "-q", ground.top, evil)
    config(f"{evil}/.git", *poisoned(program))
    os.rename(f"{path}/.git", f"{ground.folder}/old.git")
    write(f"{path}/.git", f"gitdir: {evil}/.git\n")
    write(f"{path}/a.txt")
    carry_through(ground, claim)
    assert ground.files() == {"README", "a.txt"}
    assert sprung(ground) == []


def test_a_git_directory_that_is_gone_commits_nothing_of_the_persons(tmp_path):
    """Even where clones lie inside the person's repository, and git would find that one upwards."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path / "in" / "repository" / "state")
    ground = Ground(tmp_path / "in")
    write(f"{ground.top}/README", "the person's unsaved work\n")
    claim, path = ground.enter(ground.put())
    subprocess.run(("rm", "-rf", f"{path}/.git"), check=True)
    write(f"{path}/a.txt")
    carry_through(ground, claim)
    assert git(ground.pipe.git.directory, "show", "refs/pit/line/main:README") == "hello"
    assert read(f"{ground.top}/README") == "the person's unsaved work\n"
    assert ground.log() == ["begin"]
    ground.close()


def test_a_nested_repository_is_left_out_and_asked_about(ground):
    task = ground.put()
    claim, path = ground.enter(task)
    program = trap(ground)
    nested = f"{path}/vendor/lib"
    os.makedirs(nested)
    git(nested, "init", "-q")
    config(f"{nested}/.git", *poisoned(program))
    write(f"{nested}/.gitattributes", "* filter=evil\n")
    write(f"{nested}/x.txt")
    write(f"{path}/a.txt")
    ground.hand_in(claim)
    card = ground.card(task)
    assert card.held == f"{REVIEW} by a person: vendor/lib is a repository of its own and was left out"
    assert git(ground.pipe.git.directory, "ls-tree", "-r", "--name-only", card.task.extra["candidate"]["commit"]) == (
        "README\na.txt"
    )
    assert sprung(ground) == []


def test_a_pointer_to_another_repository_is_asked_about(ground):
    """However it came into a tree: from files none does."""
    base = git(ground.top, "rev-parse", "HEAD")
    task = ground.put()
    ground.work(task, a_dot_txt="x")
    listed = f"160000 commit {base}\tlib\n"
    tree = ground.pipe.git.say("mktree", "--missing", stdin=listed.encode())
    files = ground.pipe.files
    with files.index(tree) as index:
        found = files._questions(files.changes(base, tree), index)
    assert [one.text for one in found] == ["lib points to another repository"]


def test_a_nested_repository_that_is_ignored_is_nobodys_business(ground):
    ground.commit(".gitignore", "node_modules/\n")
    task = ground.put()
    claim, path = ground.enter(task)
    os.makedirs(f"{path}/node_modules/x")
    git(f"{path}/node_modules/x", "init", "-q")
    write(f"{path}/a.txt")
    ground.hand_in(claim)
    assert not ground.card(task).held.startswith(REVIEW)


def test_edits_hidden_from_its_own_git_are_seen(ground):
    claim, path = ground.enter(ground.put())
    git(path, "update-index", "--assume-unchanged", "README")
    write(f"{path}/.git/info/exclude", "*\n")
    write(f"{path}/README", "changed\n")
    write(f"{path}/hidden.txt")
    carry_through(ground, claim)
    assert git(ground.top, "show", "main:README") == "changed"
    assert ground.files() == {"README", "hidden.txt"}


def test_replaced_objects_show_nobody_another_diff(ground):
    from taskpit.landing import review

    task = ground.put()
    claim, path = ground.enter(task)
    write(f"{path}/a.txt", "real\n")
    ground.hand_in(claim)
    handed = ground.pipe.hand_in_of(task)
    blob = git(ground.pipe.git.directory, "rev-parse", f"{handed.commit}:a.txt")
    fake = (
        subprocess.run(
            ("git", "hash-object", "-w", "--stdin"),
            cwd=ground.pipe.git.directory,
            input=b"fake\n",
            capture_output=True,
            check=True,
        )
        .stdout.decode()
        .strip()
    )
    git(ground.pipe.git.directory, "update-ref", f"refs/replace/{blob}", fake)
    assert "+real" in review.diff(ground.pipe, handed.base, handed.commit)


def test_a_clone_replaced_by_a_link_is_not_followed(ground, tmp_path):
    task = ground.put()
    claim, path = ground.enter(task)
    write(f"{tmp_path}/home/diary.txt", "private\n")
    os.rename(path, f"{path}.moved")
    os.symlink(f"{tmp_path}/home", path)
    outcome = ground.hand_in(claim)
    assert "another stands in its place" in outcome.error
    assert ground.log() == ["begin"]


def test_links_and_strange_files_in_the_clone_are_taken_as_they_are(ground, tmp_path):
    write(f"{tmp_path}/home/secret.txt", "private\n")
    claim, path = ground.enter(ground.put())
    os.symlink(f"{tmp_path}/home", f"{path}/link")
    os.mkfifo(f"{path}/fifo")
    write(f"{path}/-rf", "x")
    write(f"{path}/:(exclude)*", "x")
    write(f"{path}/a.txt")
    ground.hand_in(claim)
    assert "link is a link out of the repository" in ground.card(claim.task.id).held
    ground.pit("review", claim.task.id, "--approve", "--despite", "link")
    assert ground.files() == {"README", "a.txt", "link", "-rf", ":(exclude)*"}
    assert git(ground.top, "ls-tree", "main", "link").startswith("120000")


def test_the_persons_configuration_changed_meanwhile_nothing_is_run_there(ground):
    task = ground.put()
    ground.work(task, a_dot_txt="x")
    program = trap(ground)
    config(f"{ground.top}/.git", *poisoned(program))
    write(f"{ground.top}/.gitattributes", "* filter=evil\n")
    hooks(f"{ground.top}/.git", program)
    ground.land(task)
    assert ground.card(task).state is State.DONE
    assert ground.log("--", branch="refs/heads/main") == ["begin"]
    assert "has changed since this pool began" in ground.pipe.behind()[0]
    assert sprung(ground) == []


def test_a_file_that_the_persons_configuration_includes_counts_as_part_of_it(ground):
    included = f"{ground.top}/.git/more"
    write(included, "")
    git(ground.top, "config", "include.path", included)
    ground.pipe.repository.open()
    task = ground.put()
    ground.work(task, a_dot_txt="x")
    write(included, f"[core]\n\tfsmonitor = {trap(ground)}\n")
    ground.land(task)
    assert ground.log("--", branch="refs/heads/main") == ["begin"]
    assert sprung(ground) == []


def unpacked(ground, *pairs):
    """The repository came by another's hand, with these settings and files that would go through a filter."""
    ground.commit(".gitattributes", "*.txt filter=evil merge=evil diff=evil\n")
    ground.commit("old.txt")
    config(f"{ground.top}/.git", *pairs)
    os.utime(f"{ground.top}/old.txt", (1, 1))  # git looks at its bytes, through the filter
    write(f"{ground.folder}/home/.gitconfig", "[safe]\n\tdirectory = *\n")


def approved(ground, task):
    """A file that would go through a filter is asked about; the person says yes."""
    if ground.card(task).held.startswith(REVIEW):
        review.approve(ground.queue, task, "ada")
    ground.land(task)
    assert ground.card(task).state is State.DONE


@pytest.mark.parametrize(
    "key",
    [
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "core.alternateRefsCommand",
        "remote.{ours}.uploadpack",
        "remote.{ours}.url",
        "url.ext::{program}.insteadOf",
        "include.path",
    ],
)
def test_a_repository_that_names_programs_has_none_started_and_says_how_it_is_brought_there(ground, key):
    program, ours = trap(ground), ground.pipe.git.directory
    write(f"{ground.folder}/included", f'[filter "evil"]\n\tsmudge = {program}\n')
    value = {"url.ext::{program}.insteadOf": ours[:8], "include.path": f"{ground.folder}/included"}.get(key, program)
    key = key.format(ours=ours, program=program)
    unpacked(ground, ("protocol.ext.allow", "always"), (key, value))
    git(ground.folder, "clone", "-q", "--bare", ground.top, "lender.git")
    write(f"{ground.top}/.git/objects/info/alternates", f"{ground.folder}/lender.git/objects\n")
    assert sprung(ground) == []
    task = ground.put("one")
    ground.work(task, a_dot_txt="x", README="changed\n")
    approved(ground, task)
    assert sprung(ground) == []
    (told,) = ground.pipe.behind()
    assert f"{ground.top} has {'filter.evil.smudge' if key == 'include.path' else key[:40]}".lower() in told.lower()
    assert ground.log("--", branch="refs/heads/main") == ["add old.txt", "add .gitattributes", "begin"]
    git(ground.top, "config", "--remove-section", key.rpartition(".")[0])
    ground.pipe = ground.new_pipe()
    for words in told.split("`git ")[1:3]:
        git(ground.top, *shlex.split(words.partition("`")[0]))
    assert ground.pipe.publish() == []
    assert ground.log()[0] == "one"


def test_a_branch_that_is_not_checked_out_needs_no_filter_and_one_in_another_worktree_has_its_own(ground):
    program = trap(ground)
    unpacked(ground, ("filter.evil.smudge", program))
    task = ground.put("one")
    ground.work(task, a_dot_txt="x")
    git(ground.top, "checkout", "-q", "-b", "else")
    approved(ground, task)
    assert ground.log()[0] == "one"
    git(ground.top, "config", "--unset", "filter.evil.smudge")
    git(ground.top, "config", "extensions.worktreeConfig", "true")
    git(ground.top, "worktree", "add", "-q", f"{ground.folder}/there", "main")
    git(f"{ground.folder}/there", "config", "--worktree", "filter.evil.smudge", program)
    ground.pipe = ground.new_pipe()
    ground.work(ground.put("two"), b_dot_txt="x")
    approved(ground, "0002")
    assert f"{ground.folder}/there has filter.evil.smudge" in ground.pipe.behind()[0]
    assert sprung(ground) == []


def test_what_is_switched_off_starts_nothing_and_keeps_no_branch_behind(ground):
    """All other settings of a repository that name programs, its hooks, and the settings of a submodule."""
    program = trap(ground)
    library = f"{ground.folder}/library"
    git(ground.folder, "init", "-q", "-b", "main", library)
    write(f"{library}/x.txt")
    write(f"{library}/.gitattributes", "*.txt filter=evil\n")
    git(library, "add", "-A")
    git(library, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "begin")
    git(ground.top, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library, "library")
    git(ground.top, "commit", "-qm", "a library")
    unpacked(ground, *(pair for pair in poisoned(program) if not pair[0].startswith("filter.")))
    more = ("credential.helper", "core.askPass", "core.gitProxy", "remote.origin.uploadpack", "gpg.ssh.program")
    config(f"{ground.top}/.git", *((key, program) for key in more))
    config(f"{ground.top}/.git", ("fetch.recurseSubmodules", "true"), ("submodule.recurse", "true"))
    config(f"{ground.top}/.git/modules/library", *poisoned(program), ("remote.origin.uploadpack", program))
    hooks(f"{ground.top}/.git", program)
    os.utime(f"{ground.top}/library/x.txt", (1, 1))
    task = ground.put("one")
    ground.work(task, a_dot_txt="x", old_dot_txt="changed\n")
    approved(ground, task)
    assert ground.pipe.behind() == []
    assert sprung(ground) == []
    assert read(f"{ground.top}/a.txt") == "x"


def test_a_filter_of_the_persons_own_is_obeyed(ground):
    unpacked(ground)
    write(f"{ground.folder}/home/.gitconfig", '[filter "evil"]\n\tsmudge = tr x y\n\tclean = tr y x\n')
    task = ground.put("one")
    ground.work(task, a_dot_txt="x")
    approved(ground, task)
    assert read(f"{ground.top}/a.txt") == "y"


def test_a_change_is_not_given_where_git_would_start_a_program(ground):
    unpacked(ground, ("core.alternateRefsCommand", trap(ground)))
    task = ground.put("one")
    ground.work(task, a_dot_txt="x")
    name = ground.pipe.ref("cand", task)
    with pytest.raises(GitTrouble, match=r"has core\.alternaterefscommand") as found:
        ground.pipe.repository.give(name, "mine")
    git(ground.top, *shlex.split(found.value.message.partition("`git ")[2].partition("`")[0]))
    assert "a.txt" in ground.files("mine")


def test_what_a_person_configures_every_day_is_no_reason_to_wait(ground):
    task = ground.put()
    ground.work(task, a_dot_txt="x")
    git(ground.top, "config", "branch.main.remote", "origin")
    git(ground.top, "config", "user.name", "Ada L.")
    ground.land(task)
    assert len(ground.log()) == 2


def test_the_persons_ignored_files_are_not_overwritten(ground):
    ground.commit(".gitignore", "local.cfg\n")
    write(f"{ground.top}/local.cfg", "mine\n")
    claim, path = ground.enter(ground.put())
    write(f"{path}/.gitignore", "other\n")
    write(f"{path}/local.cfg", "the agent's\n")
    carry_through(ground, claim)
    assert read(f"{ground.top}/local.cfg") == "mine\n"
    assert ground.pipe.behind()


@pytest.mark.parametrize("what", ["rebase-merge", "MERGE_HEAD", "index.lock"])
def test_a_person_in_the_middle_of_something_is_not_disturbed(ground, what):
    task = ground.put()
    ground.work(task, a_dot_txt="x")
    path = f"{ground.top}/.git/{what}"
    write(path, git(ground.top, "rev-parse", "HEAD") + "\n")
    ground.land(task)
    assert ground.card(task).state is State.DONE
    assert git(ground.top, "rev-parse", "refs/heads/main") == git(
        ground.pipe.git.directory, "rev-parse", "refs/pit/up/main"
    )
    assert "under way" in ground.pipe.behind()[0]
    assert os.path.exists(path)


def test_other_worktrees_of_the_person_stay(ground):
    """One on a disk that is not there just now is still theirs, and one that has the branch is where it is brought."""
    git(ground.top, "worktree", "add", "-q", "-b", "away", f"{ground.folder}/away")
    os.rename(f"{ground.folder}/away", f"{ground.folder}/unmounted")
    git(ground.top, "checkout", "-q", "-b", "else")
    git(ground.top, "worktree", "add", "-q", f"{ground.folder}/there", "main")
    ground.pipe = ground.new_pipe()
    task = ground.put()
    ground.work(task, a_dot_txt="x")
    ground.land(task)
    assert os.path.exists(f"{ground.folder}/there/a.txt")
    assert not os.path.exists(f"{ground.top}/a.txt")
    os.rename(f"{ground.folder}/unmounted", f"{ground.folder}/away")
    assert git(f"{ground.folder}/away", "status", "--porcelain") == ""


def test_the_persons_own_excludes_count(ground, tmp_path):
    write(f"{ground.top}/.git/info/exclude", "*.local\n")
    write(f"{tmp_path}/home/.config/git/ignore", "*.swp\n")
    claim, path = ground.enter(ground.put())
    for name in ("a.txt", "b.local", "c.swp"):
        write(f"{path}/{name}")
    carry_through(ground, claim)
    assert ground.files() == {"README", "a.txt"}


def test_so_does_the_list_that_their_configuration_names(ground, tmp_path):
    write(f"{tmp_path}/home/.gitconfig", "[core]\n\texcludesFile = ~/lists/mine\n")
    write(f"{tmp_path}/home/lists/mine", "*.swp\n")
    claim, path = ground.enter(ground.put())
    for name in ("a.txt", "c.swp"):
        write(f"{path}/{name}")
    carry_through(ground, claim)
    assert ground.files() == {"README", "a.txt"}


def test_line_endings_and_modes_are_as_the_persons_git_would_have_them(ground):
    git(ground.top, "config", "core.autocrlf", "input")
    claim, path = ground.enter(ground.put())
    with open(f"{path}/dos.txt", "wb") as file:
        file.write(b"a\r\nb\r\n")
    write(f"{path}/run.sh", "#!/bin/sh\n")
    os.chmod(f"{path}/run.sh", stat.S_IRWXU)
    carry_through(ground, claim)
    shown = subprocess.run(("git", "show", "main:dos.txt"), cwd=ground.top, capture_output=True, check=True).stdout
    assert shown == b"a\nb\n"
    assert git(ground.top, "ls-tree", "main", "run.sh").startswith("100755")


def test_trouble_is_no_conflict(ground, monkeypatch):
    """A git that cannot read its objects sends no agent back to work; after a while a person is told."""
    task = ground.put()
    ground.work(task, a_dot_txt="x")
    ground.commit("b.txt")  # so that there is something to merge
    monkeypatch.setattr(type(ground.pipe.repository), "merge", _broken)
    lander = ground.lander()
    for _ in range(3):
        lander.land(lander.waiting()[0])
    card = ground.card(task)
    assert card.held == f"{REVIEW} by a person: it could not be landed: git merge-tree: fatal: bad object. Mend it."
    assert (card.task.attempts, card.tries) == (0, ())


def _broken(*_):
    raise GitTrouble("git merge-tree: fatal: bad object", hint="Mend it.")


def test_only_exit_code_one_is_a_conflict(ground):
    task = ground.put()
    ground.work(task, a_dot_txt="x")
    commit = ground.pipe.hand_in_of(task).commit
    with pytest.raises(GitTrouble):
        ground.pipe.repository.merge(ground.pipe.repository.line("main"), "f" * 40)
    assert ground.pipe.repository.merge(ground.pipe.repository.line("main"), commit).conflicts == ()


def test_a_partial_clone_is_refused(ground):
    git(ground.top, "config", "remote.origin.promisor", "true")
    with pytest.raises(GitTrouble, match="partial clone"):
        ground.pipe.enter(ground.claim(ground.put()).task, ground.hands)


def test_a_pool_in_a_partial_clone_is_refused_before_anything_runs(ground):
    git(ground.top, "config", "remote.origin.promisor", "true")
    task = ground.put()
    with pytest.raises(GitTrouble, match="partial clone") as found:
        ground.pool("true")
    assert found.value.hint == "Clone it again without --filter, and work there."
    assert (ground.card(task).state, ground.card(task).tries) == (State.READY, ())


def test_more_questions_than_anybody_reads_stop_no_landing(ground, monkeypatch):
    monkeypatch.setattr("taskpit.landing.values.LARGEST_HAND_IN", 16 * 1024)
    claim, path = ground.enter(ground.put("keys"))
    for number in range(300):
        write(f"{path}/{number:0200}.pem")
    ground.hand_in(claim)
    assert "looks like a secret" in ground.card(claim.task.id).held
    assert ground.pipe.hand_in_of(claim.task.id).questions[-1] == "and 280 more"
    other = ground.put("other")
    ground.work(other, b_dot_txt="b")
    ground.land(other)
    assert ground.log() == ["other", "begin"]


def test_a_hand_in_that_cannot_be_read_stops_no_other(ground):
    broken, other = ground.put("broken"), ground.put("other")
    ground.work(broken, a_dot_txt="a")
    ground.pipe.git.set(ground.pipe.ref("hand", broken), ground.pipe.git.blob(b"{"))
    ground.work(other, b_dot_txt="b")
    ground.land(other)
    assert ground.log() == ["other", "begin"]
    with pytest.raises(GitTrouble, match="cannot be read"):
        ground.pipe.hand_in_of(broken)


# -- what git or a tool would make of the files ------------------------------------------------------

STRICT = 'set -e\ntest "$(cat answer)" = 42\necho all tests passed\n'


@pytest.mark.parametrize("attribute", ["tests/run.sh text eol=crlf", "* eol=crlf text"])
def test_attributes_do_not_change_a_frozen_test(ground, attribute):
    """With CRLF, `set -e` is no option of the shell, and a red script ends green."""
    ground.commit("tests/run.sh", STRICT)
    ground.commit("answer", "42\n")
    task = ground.put(check="bash tests/run.sh", extra={"frozen": "tests"})
    claim, path = ground.enter(task)
    write(f"{path}/answer", "41\n")
    write(f"{path}/.gitattributes", f"{attribute}\n")
    outcome = ground.hand_in(claim)
    assert "the check is red" in getattr(outcome, "error", ""), outcome
    assert ground.files() == {"README", "answer", "tests/run.sh"}


def test_changed_attributes_wait_for_a_person_and_land_as_they_are(ground):
    ground.commit("tests/run.sh", STRICT)
    ground.commit("answer", "42\n")
    task = ground.put(check="bash tests/run.sh", extra={"frozen": "tests"})
    claim, path = ground.enter(task)
    write(f"{path}/.gitattributes", "tests/run.sh text eol=crlf\n")
    ground.hand_in(claim)
    assert ground.card(task).held.endswith(".gitattributes changes how git writes files")
    ground.pit("review", task, "--approve", code=6)
    ground.pit("review", task, "--approve", "--despite", "attributes")
    assert git(ground.top, "show", "main:.gitattributes") == "tests/run.sh text eol=crlf"


@pytest.mark.parametrize("place", ["", "docs/"])
def test_a_bare_repository_in_the_files_is_refused(ground, place):
    claim, path = ground.enter(ground.put())
    for name, text in (
        ("HEAD", "ref: x"),
        ("config", "[core]\n\tfsmonitor = ./evil\n"),
        ("objects/x", ""),
        ("refs/x", ""),
    ):
        write(f"{path}/{place}{name}", text)
    outcome = ground.hand_in(claim)
    assert "is a bare repository, whose settings git obeys" in outcome.error
    assert ground.files() == {"README"}


@pytest.mark.parametrize("target", [".git", ".git/hooks", "../.git/hooks", ".GIT/config", "a/../.git"])
def test_a_link_into_git_is_refused(ground, target):
    claim, path = ground.enter(ground.put())
    folder = "sub/" if target.startswith("..") else ""
    os.makedirs(f"{path}/{folder}", exist_ok=True)
    os.symlink(target, f"{path}/{folder}hooks")
    outcome = ground.hand_in(claim)
    assert "is a link into .git" in outcome.error
    assert ground.files() == {"README"}


# -- edits to frozen paths are named ------------------------------------------------------------------


def test_a_change_of_nothing_but_frozen_paths_names_them(ground):
    ground.commit("tests/run.sh", "true\n")
    task = ground.put(extra={"frozen": "tests"})
    claim, path = ground.enter(task)
    write(f"{path}/tests/run.sh", "exit 0\n")
    write(f"{path}/tests/new.sh", "exit 0\n")
    outcome = ground.hand_in(claim)
    assert outcome.error.endswith("edits to frozen paths were left out: tests/new.sh, tests/run.sh")
    assert "tests/new.sh" in ground.pit("why", task)


def test_frozen_edits_beside_a_change_are_named_in_review_and_result(ground):
    ground.commit("tests/run.sh", "true\n")
    task = ground.put(extra={"frozen": "tests", "review": "person"})
    claim, path = ground.enter(task)
    write(f"{path}/tests/run.sh", "exit 0\n")
    write(f"{path}/a.txt", "x\n")
    write(f"{path}/conftest.py", "")
    ground.hand_in(claim)
    page = ground.pit("review", task)
    assert "edits to frozen paths were left out: tests/run.sh" in page
    assert "new, and read by a test runner without being named: conftest.py" in page
    ground.pit("review", task, "--approve")
    assert "edits to frozen paths were left out: tests/run.sh" in ground.pit("show", task).lower()
    assert "edits to frozen paths were left out: tests/run.sh" in ground.pit("report", "--json")


def test_what_the_branch_changed_in_frozen_paths_is_no_edit_of_the_agent(ground):
    ground.commit("tests/run.sh", "true\n")
    task = ground.put(extra={"frozen": "tests"})
    claim, path = ground.enter(task)
    ground.commit("tests/run.sh", "true # better\n")
    write(f"{path}/a.txt", "x\n")
    ground.hand_in(claim)
    ground.land(task)
    assert "left out" not in ground.pit("show", task)


def test_the_prompt_names_the_frozen_paths(ground):
    ground.commit("tests/run.sh", "true\n")
    ground.put()
    ground.pool('cp "$TASKPIT_RUN_DIR/prompt.md" seen.md', frozen=("tests/**", "conftest.py"))
    assert "Frozen paths (`tests/**`, `conftest.py`) are checked and landed" in git(ground.top, "show", "main:seen.md")
