"""Broken variants of landing: each must be caught by a test that is there to catch it.

Unchanged, the same tests pass where they stand.
"""

from __future__ import annotations

import os
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from itertools import count

import pytest
from forges import StandInForge
from ground import Ground
from rotation import part

from taskpit.errors import TaskpitError
from taskpit.landing import candidate, forge, lander, line, repository, reviewer
from taskpit.landing.candidate import Candidates
from taskpit.landing.clones import Clones
from taskpit.landing.forge import Pulls
from taskpit.landing.git import Git, GitTrouble
from taskpit.landing.pipe import LandingPipe
from taskpit.landing.repository import Merge, Repository
from taskpit.model import Done


def _tests(name):
    """The tests beside this one, as a module."""
    spec = spec_from_file_location(f"victims_{name}", os.path.join(os.path.dirname(__file__), f"test_{name}.py"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


test_apart, test_attacks, test_crashes, test_pipe, test_proof, test_pulls, test_review, test_reviewer = map(
    _tests, ("apart", "attacks", "crashes", "pipe", "proof", "pulls", "review", "reviewer")
)
_numbers = count()
#: The terms of those whose ground is not as usual.
TERMS = {
    "apart": {"land_check": "landing"},
    "proof": {"frozen": ("tests/**", "Makefile")},
    "pulls": {"land": "pr"},
    "review": {"review": "person"},
    "reviewer": {"review": "agent"},
}


def no_fence(patch):
    """The line is moved without a look at the fence."""
    real = Git.move
    patch.setattr(Git, "move", lambda self, name, new, old="", **_: real(self, name, new, old))


def seal_first(patch):
    """The task is done before its commit is in the line."""
    real = LandingPipe._turn

    def turn(self, claim, handed, fence, hands):
        queues[-1].finish(claim, Done(output="sealed before it landed"))
        return real(self, claim, handed, fence, hands)

    queues = []
    begin = lander.Lander.__init__

    def init(self, queue, *rest):
        queues.append(queue)
        begin(self, queue, *rest)

    patch.setattr(lander.Lander, "__init__", init)
    patch.setattr(LandingPipe, "_turn", turn)


def two_ref_mark(patch):
    """A mark beside the line decides what has landed: a crash comes between the two."""
    patch.setattr(LandingPipe, "landed", lambda self, task_id: self.git.ref(self.ref("land", task_id)))


def no_look_at_what_landed(patch):
    """A landing that was not sealed is landed again."""
    patch.setattr(LandingPipe, "landed", lambda *_: "")


def the_check_of_the_candidate_is_enough(patch):
    """What lands is not what was checked."""
    patch.setattr(LandingPipe, "_recheck", lambda *_: None)


def any_exit_is_a_conflict(patch):
    """Trouble is taken for a conflict."""
    real = Repository.merge

    def merge(self, ours, theirs):
        try:
            return real(self, ours, theirs)
        except GitTrouble:
            return Merge(tree="0" * 40, conflicts=("?",))

    patch.setattr(Repository, "merge", merge)


def frozen_from_the_base(patch):
    """Frozen paths are those of the base, not of the target."""
    real = Candidates.take
    patch.setattr(Candidates, "take", lambda self, path, terms, base, _: real(self, path, terms, base, base))
    patch.setattr(Candidates, "frozen", lambda _self, _globs, tree, _target: tree)


def an_empty_object_is_let_through(patch):
    """An empty new value deletes the branch."""

    def move(self, name, new, old="", **_):
        return self.alone("update-ref", "--stdin", stdin=f"update {name} {new or '0' * 40} {old}\n".encode()).code == 0

    patch.setattr(Git, "move", move)


def excludes_not_copied(patch):
    """What the person's git ignores is committed."""
    patch.setattr(repository, "_excludes", lambda _path: b"")


def nested_included(patch):
    """A repository inside is taken as a pointer."""
    patch.setattr(candidate, "_nested", lambda _path: [])


def the_clone_is_not_looked_at(patch):
    """Whatever stands where the clone was is taken for it."""
    patch.setattr(Clones, "is_ours", lambda _self, path: os.path.exists(f"{path}~ready"))


def the_base_is_noted_first(patch):
    """A clone whose files are of an older base than the one noted for it."""
    real = LandingPipe._rebase

    def rebase(self, task_id, target, base, tree):
        Git.alone(self.git, "update-ref", self.ref("base", task_id), base)
        real(self, task_id, target, base, tree)

    patch.setattr(LandingPipe, "_rebase", rebase)


def overwriting_ignored_files(patch):
    """The merge into the checkout may overwrite what git ignores."""
    real = repository.outside

    def outside(cwd, *words, **more):
        return real(cwd, *(word for word in words if word != "--no-overwrite-ignore"), **more)

    patch.setattr(repository, "outside", outside)


def the_configuration_is_not_looked_at(patch):
    """Whatever an agent wrote into the person's configuration is obeyed."""
    patch.setattr(repository, "digest", lambda _: "")


def a_reset_is_not_seen(patch):
    """Where the branch is an ancestor of what landed, it is moved there, whatever it was before."""
    patch.setattr(Repository, "_is_behind", lambda self, _up, old, line: self._has(line, old))


def histories_are_merged(patch):
    """What a person amended comes back beside its amendment."""
    patch.setattr(line, "_made_again", lambda where, _branch, ours, theirs, _base: _merged(where, ours, theirs))


def _merged(where, ours, theirs):
    return where.git.commit(where.merge(ours, theirs).tree, [ours, theirs], "both\n")


def made_again_is_not_known(patch):
    """A landing that was made again counts as none."""
    patch.setattr(line, "_named", lambda *_: [])


def settings_of_a_stranger_are_obeyed(patch):
    """A program that the repository names is started."""
    patch.setattr(repository, "unsafe", lambda *_, **__: "")


def a_dirty_checkout_is_no_reason(patch):
    """The person's checkout is moved while they are at work."""
    patch.setattr(Repository, "_changed", lambda *_: [])


def a_conflict_without_attempts_fails(patch):
    """Out of attempts its work is thrown away."""
    patch.setattr(lander, "held", lambda *_: (_ for _ in ()).throw(AssertionError("nothing waits")))


def pushed_over_what_is_there(patch):
    """Whatever the remote's branch has is pushed over."""
    real = Git.reach

    def reach(self, *words, **more):
        return real(self, *("--force" if word.startswith("--force-with-lease") else word for word in words), **more)

    patch.setattr(Git, "reach", reach)


def strangers_are_members(patch):
    """Anybody's words go to the agent."""
    patch.setattr(forge, "MEMBERS", ("OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR", "NONE"))


def the_forge_is_believed(patch):
    """A merge commit that the remote does not have on its branch is taken for landed."""
    patch.setattr(Git, "is_ancestor", lambda *_: True)


def old_words_count(patch):
    """Changes wanted in an older candidate send back the newer one, for ever."""
    real = Pulls.wanted

    def wanted(self, handed, pull):
        return real(self, handed, pull.replace(wanted=tuple((handed.commit, words) for _, words in pull.wanted)))

    patch.setattr(Pulls, "wanted", wanted)


def an_approval_covers_whatever_lands(patch):
    """What was approved and what lands may be two changes."""
    patch.setattr(LandingPipe, "_is_another", lambda *_: False)


def sent_back_is_approved_still(patch):
    """What a person sent back lands if it comes again."""
    patch.setattr(LandingPipe, "forget", lambda self, task_id, **_: self.git.drop(self.ref("hand", task_id)))


def the_builder_judges(patch):
    """Whoever built a change reviews it."""
    patch.setattr(reviewer.workers, "base", lambda name: f"{name}{next(_numbers)}")


def handed_in_is_built_again(patch):
    """Work that was paid for is done once more, because its worker died after it."""
    patch.setattr(LandingPipe, "left_by", lambda *_: None)


def any_word_is_a_verdict(patch):
    """A reviewer that says nothing of use approves."""
    patch.setattr(reviewer, "_object", lambda _text: {"verdict": "approve", "summary": "fine"})


def before_the_line_is_moved(ground, monkeypatch):
    test_crashes.test_killed_around_the_one_move_that_decides(ground, monkeypatch, moved=False)


CASES = [
    (an_approval_covers_whatever_lands, test_review.test_an_approval_stands_while_the_change_is_the_same),
    (sent_back_is_approved_still, test_review.test_what_comes_back_unchanged_is_approved_still_unless_it_was_sent_back),
    (the_builder_judges, test_reviewer.test_who_built_it_is_no_reviewer_of_it),
    (any_word_is_a_verdict, test_reviewer.test_what_is_no_answer),
    (handed_in_is_built_again, test_crashes.test_handed_in_and_its_claim_not_ended_it_is_not_built_again),
    (seal_first, before_the_line_is_moved),
    (two_ref_mark, before_the_line_is_moved),
    (pushed_over_what_is_there, test_pulls.test_a_head_that_came_between_look_and_push_is_not_pushed_over),
    (strangers_are_members, test_pulls.test_changes_that_members_want_go_back_once_and_strangers_have_no_say),
    (the_forge_is_believed, test_pulls.test_a_merge_the_remote_does_not_have_is_not_believed),
    (old_words_count, test_pulls.test_changes_that_members_want_go_back_once_and_strangers_have_no_say),
    (no_fence, test_crashes.test_whoever_lost_the_claim_lands_nothing),
    (no_look_at_what_landed, test_crashes.test_landed_and_not_sealed_is_sealed_by_the_next_without_another_commit),
    (the_check_of_the_candidate_is_enough, test_pipe.test_red_on_what_would_land_goes_back_to_the_agent),
    (any_exit_is_a_conflict, test_attacks.test_only_exit_code_one_is_a_conflict),
    (frozen_from_the_base, test_proof.test_frozen_means_the_target_as_it_is_now_not_as_it_was_at_the_base),
    (an_empty_object_is_let_through, test_crashes.test_an_empty_object_deletes_no_branch),
    (excludes_not_copied, test_attacks.test_the_persons_own_excludes_count),
    (the_clone_is_not_looked_at, test_attacks.test_a_clone_replaced_by_a_link_is_not_followed),
    (nested_included, test_attacks.test_a_nested_repository_is_left_out_and_asked_about),
    (the_base_is_noted_first, test_crashes.test_files_of_an_older_base_never_undo_what_landed),
    (overwriting_ignored_files, test_attacks.test_the_persons_ignored_files_are_not_overwritten),
    (
        the_configuration_is_not_looked_at,
        test_attacks.test_the_persons_configuration_changed_meanwhile_nothing_is_run_there,
    ),
    (a_reset_is_not_seen, test_apart.test_what_needs_a_change_that_was_made_again_begins_with_it),
    (histories_are_merged, test_apart.test_what_needs_a_change_that_was_made_again_begins_with_it),
    (made_again_is_not_known, test_apart.test_what_conflicts_with_a_reset_is_brought_by_the_commands_that_are_told),
    (settings_of_a_stranger_are_obeyed, test_attacks.test_a_change_is_not_given_where_git_would_start_a_program),
    (a_dirty_checkout_is_no_reason, test_pipe.test_a_dirty_checkout_delays_only_the_last_step),
    (
        a_conflict_without_attempts_fails,
        test_pipe.test_a_conflict_without_attempts_left_waits_for_a_person_with_its_candidate,
    ),
]


@pytest.mark.parametrize(("mutant", "victim"), part(CASES, 3), ids=lambda one: one.__name__)
def test_the_mutant_is_caught(mutant, victim, tmp_path, monkeypatch):
    name = victim.__module__.removeprefix("victims_")
    ground = Ground(tmp_path / "mutant", **TERMS.get(name, {}))
    if name == "proof":
        ground.commit("tests/test_it.sh", "test -s answer.txt\n")
    at_forge = StandInForge(ground, monkeypatch) if name == "pulls" else None
    mutant(monkeypatch)
    known = {
        **dict.fromkeys(("ground", "frozen", "pulled", "looked", "judged"), ground),
        "tmp_path": tmp_path,
        "monkeypatch": monkeypatch,
        "forge": at_forge,
    }
    with pytest.raises((AssertionError, AttributeError, StopIteration, TaskpitError, pytest.fail.Exception)):
        victim(*(known[name] for name in signature(victim).parameters))
    ground.close()
