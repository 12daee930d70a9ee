"""Which test kills which mutant, by suite."""

from __future__ import annotations

import importlib.util
import os
from typing import NamedTuple

import broken
import pytest
import scenes
from crashes import Stages
from faults import killed_at
from hypothesis import Phase, core, settings
from hypothesis.stateful import run_state_machine_as_test
from outages import Outage, scenes_of
from pits import POWER, make

from taskpit import layouts
from taskpit.config import Config
from taskpit.logfile import Log
from taskpit.store.files import FileStore
from taskpit.store.opening import init
from taskpit.testing import FakeClock, StoreContract

TESTS = os.path.dirname(os.path.dirname(__file__))


class Case(NamedTuple):
    """One mutant and one test that must not survive it."""

    mutant: object
    suite: str
    shown: str
    victim: object


def module(path):
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), f"{TESTS}/{path}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def tests_of(suite, path):
    """The tests of a file, each by name as a victim of a mutant."""
    found = module(path)

    def victims(mutant, name, *args):
        run = getattr(found, f"test_{name}")
        return Case(mutant, suite, name.replace("_", " "), lambda tmp_path: run(*args, tmp_path))

    return victims


worker = tests_of("races", "races/test_stalled_worker")
others = tests_of("races", "races/test_stalled_others")
guard = tests_of("races", "mailbox/test_guard")
every_call = module("crash/test_every_call")
every_call.part = lambda things, _: things  # whatever the seed
fsync = module("crash/test_fsync")
power_loss = module("crash/test_power_loss")
model_of = module("model/test_files_like_memory")
log_tests = module("store/test_log")
put_again = module("interop/test_put_again")
put_again.part = lambda things, _: list(things)[20:]


def crash(mutant, name):
    """The crash suite's own loop over one verb, killed before each change."""

    def victim(tmp_path):
        scene = next(one for one in scenes.SCENES if one.name == name)
        stages = Stages(scene, tmp_path)
        for number in stages.numbers(changes=True):
            queue, given = stages.stage()
            with killed_at(number):
                scene.act(queue, given)
            stages.judge(queue, f"killed before call {number}")

    return Case(mutant, "crashes", name, victim)


def faulted(mutant, name):
    """Every fault at every call of one verb."""
    scene = next(one for one in scenes.SCENES if one.name == name)
    run = every_call.test_every_fault_at_every_call
    return Case(mutant, "crashes", name, lambda tmp_path: run("pit", scene, tmp_path))


def power(mutant, layout, name, model, *, once=False):
    """The states of one verb after a power loss, by one model."""

    def victim(tmp_path):
        scene = next(one for one in scenes_of(layout) if one.name == name)
        outage = Outage(scene, tmp_path, layout, once=once)
        fault, _ = power_loss.first_fault(outage, outage.trace, model)
        assert not fault, fault

    return Case(mutant, "power loss", f"{name} ({layout}, {model}{', one fsync' * once})", victim)


def traced(mutant, name, *, once=False):
    """The order of fsyncs around the call that decides."""

    def victim(tmp_path):
        queue = make(str(tmp_path / "pit"), FakeClock(), POWER)
        queue.store.folder._ordered = once  # whatever filesystem this is
        try:
            getattr(fsync, f"test_{name}")(queue)
        finally:
            queue.close()

    return Case(mutant, "fsync order", name.replace("_", " "), victim)


def logged(mutant, name):
    """A log by itself."""

    def victim(tmp_path):
        log = Log(str(tmp_path / "log"))
        try:
            getattr(log_tests, f"test_{name}")(log)
        finally:
            log.close()

    return Case(mutant, "log", name.replace("_", " "), victim)


def plain(mutant, name):
    """One queue, one promise."""

    def victim(tmp_path):
        queue = make(str(tmp_path / "pit"), FakeClock())
        try:
            getattr(log_tests, f"test_{name}")(queue)
        finally:
            queue.close()

    return Case(mutant, "store", name.replace("_", " "), victim)


def contract(mutant, name):
    """A test of the contract that every store keeps."""

    class Folder(StoreContract):
        def make_store(self, clock):
            root = str(self.where / f"pit-{os.urandom(4).hex()}")
            init(root, "pit", clock)
            return FileStore(root, layouts.get("pit"), Config(durability="process"), clock)

    def victim(tmp_path):
        kept = Folder()
        kept.where = tmp_path
        kept.setup_method()
        try:
            getattr(kept, f"test_{name}")()
        finally:
            kept.teardown_method()

    return Case(mutant, "contract", name.replace("_", " "), victim)


def retried(mutant, way):
    """A failed task's file is put back by hand, and retried before a call of the sweep that takes it up."""
    run = put_again.test_whatever_becomes_of_it_meanwhile_it_is_one_task_and_no_words_are_lost
    hands = getattr(put_again, way), put_again.retried
    return Case(mutant, "put again", f"{way.replace('_', ' ')}, and retried", lambda tmp_path: run(*hands, tmp_path))


def model(mutant):
    """The file store beside the store in memory, whatever is done to both."""
    quick = settings(
        max_examples=2000,
        stateful_step_count=30,
        deadline=None,
        database=None,
        derandomize=False,  # as it is where CI is set: the seed below would not count
        phases=(Phase.generate,),
    )

    def victim(tmp_path):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(core, "global_force_seed", 8)  # one by which each of them is found soon
            run_state_machine_as_test(model_of.FilesLikeMemory, settings=quick)

    return Case(mutant, "model", "files like memory", victim)


CASES = [
    worker(broken.seal_skipped, "a_stalled_done_while_the_other_still_works"),
    worker(broken.publish_before_seal, "a_stalled_done"),
    crash(broken.publish_before_seal, "done"),
    others(broken.publish_by_rename, "a_foreign_result_while_finishing"),
    crash(broken.seal_by_link_and_unlink, "reclaim"),
    others(broken.seal_by_link_and_unlink, "two_keepers"),
    others(broken.second_link_in_put, "a_stalled_putter_brings_nothing_back_to_life"),
    others(broken.put_without_the_registry, "two_putters_of_one_id"),
    others(broken.fixed_claim_name, "a_stalled_keeper_and_the_same_worker_again"),
    contract(broken.fixed_claim_name, "every_claim_has_a_fence_of_its_own"),
    crash(broken.next_bytes_straight_to_ready, "failed, again later"),
    crash(broken.result_before_its_bytes_are_written, "split"),
    power(broken.result_before_its_bytes_are_written, "pit", "split", "subset"),
    crash(broken.children_forgotten_by_the_keeper, "split"),
    crash(broken.children_before_the_seal, "split"),
    contract(broken.children_before_the_seal, "no_children_of_a_lost_claim"),
    power(broken.children_before_the_seal, "pit", "split", "ordered"),
    crash(broken.swallowed_lines_stay_swallowed, "done"),
    worker(broken.renewal_by_descriptor, "a_stalled_renewal"),
    worker(broken.judged_by_mtime_alone, "a_rivals_stamp_robs_nobody"),
    worker(broken.stamped_once_and_never_looked_at, "a_rivals_stamp_before_our_rename_is_made_good"),
    worker(broken.claim_replaces, "one_name_for_two_claims_replaces_neither"),
    contract(broken.tombstone_not_kept, "an_id_is_known_when_its_task_is_done"),
    model(broken.tombstone_not_kept),
    crash(broken.attempt_counted_by_every_roller, "failed, again later"),
    worker(broken.sealed_file_removed_without_an_outcome, "a_stalled_end_whose_parts_were_swept"),
    worker(broken.late_results_thrown_away, "a_stalled_done"),
    contract(broken.late_results_thrown_away, "late_results_are_kept_aside"),
    others(broken.copies_run, "an_editor_saves_a_finished_task"),
    retried(broken.moved_without_a_second_look, "by_mv"),
    retried(broken.set_aside_beside_its_seal, "by_hand"),
    guard(broken.no_guard_in_the_mailbox, "a_stalled_end_takes_nothing_from_the_next_holder", "done"),
    guard(broken.holder_not_looked_at, "a_stalled_renewal_stamps_nobody_elses_claim"),
    faulted(broken.short_writes_taken_for_whole, "put"),
    faulted(broken.half_a_file_left_behind, "done"),
    contract(broken.need_counts_as_done_when_it_is_known, "a_need_must_be_done_first"),
    model(broken.need_counts_as_done_when_it_is_known),
    traced(broken.no_fsync_of("file"), "put"),
    power(broken.no_fsync_of("file"), "pit", "put", "ordered"),
    traced(broken.no_fsync_of("/ids"), "put"),
    power(broken.no_fsync_of("/ids"), "pit", "put", "folders"),
    traced(broken.no_fsync_of("/food"), "put"),
    traced(broken.no_fsync_of("/food"), "back_to_ready"),
    power(broken.no_fsync_of("/food"), "pit", "put", "folders"),
    traced(broken.no_fsync_of("/tmp"), "done"),
    traced(broken.no_fsync_of("/tmp"), "reopen"),
    power(broken.no_fsync_of("/tmp"), "pit", "put", "subset"),
    traced(broken.no_fsync_of("/done"), "done"),
    power(broken.no_fsync_of("/done"), "pit", "done", "ordered"),
    traced(broken.no_fsync_of("/scraps"), "failed"),
    power(broken.no_fsync_of("/scraps"), "pit", "failed for good", "subset"),
    traced(broken.no_fsync_of("/sealed"), "split"),
    power(broken.no_fsync_of("/sealed"), "pit", "reopen", "subset"),
    power(broken.no_fsync_of("/claimed"), "pit", "ask", "folders"),
    power(broken.no_fsync_of("/outcomes"), "pit", "failed for good", "folders"),
    logged(broken.no_line_of_its_own, "a_torn_line_spoils_only_itself"),
    logged(broken.rest_after_a_short_write, "after_a_short_write_the_whole_line_comes_again"),
    logged(broken.rotation_unnoticed, "a_log_that_was_rotated_is_noticed"),
    plain(broken.log_fails_the_claim, "a_log_that_refuses_fails_no_claim"),
    plain(broken.claim_kept_by_nobody, "a_claim_that_cannot_be_read_for_want_of_descriptors_is_given_back"),
    plain(broken.wish_to_stop_survives, "a_wish_to_stop_does_not_outlive_a_retry"),
    plain(broken.stamped_before_it_is_judged, "nothing_touches_a_file_that_is_still_being_written"),
    power(broken.late_fsync_left_out, "pit", "put", "ordered", once=True),
    power(broken.late_fsync_left_out, "pit", "done", "ordered", once=True),
    traced(broken.fsync_after_the_ready_name, "put_with_a_journal", once=True),
    power(broken.fsync_after_the_ready_name, "pit", "put", "ordered", once=True),
    traced(broken.fsync_after_the_result_is_shown, "done_with_a_journal", once=True),
    power(broken.fsync_after_the_result_is_shown, "pit", "done", "ordered", once=True),
    traced(broken.keeper_settles_nothing, "a_keeper_settles_a_result_before_anybody_sees_it", once=True),
    power(broken.torn_taken_for_whole, "pit", "put", "ordered", once=True),
    power(broken.torn_taken_for_whole, "pit", "done", "ordered", once=True),
    power(broken.torn_taken_for_whole, "pit", "split", "ordered", once=True),
    traced(broken.nothing_settled_for_others, "what_is_known_already_is_settled_before_we_say_so"),
    traced(broken.nothing_settled_for_others, "what_has_ended_already_is_settled_before_we_say_so"),
    traced(broken.asked_again_after_a_failed_fsync, "a_put_whose_fsync_fails_is_written_anew", once=True),
]


def name_of(case):
    """How a case is called among the tests."""
    return f"{case.mutant.__name__} by {case.suite}: {case.shown}"


#: Breaks that were named before the store was built, by their number: what each is, and what kills it. `model` is a
#: control of `tests/models` (its beginning), `mutant` one of the table above, `test` a test by its file and name.
NAMED = (
    (1, "the verdict is named before the seal is gone, and a reopening comes", "model lean 1"),
    (2, "the registry goes on naming the task's file after its end", "model lean 2"),
    (
        3,
        "back to ready without a look at what is registered",
        "model lean 3",
        "mutant sealed file removed without an outcome",
    ),
    (4, "a claim does not look at the visible result", "model lean 4"),
    (5, "a reclaim that does not judge", "model lean 5"),
    (6, "the slow door without its lock, or without registering", "model lean 6"),
    (7, "the second name for the registry made by each roller", "model lean 7"),
    (8, "a claim that replaces", "model lean 8", "mutant claim replaces"),
    (
        9,
        "what stood at the ready name is put away unseen",
        "model lean 9",
        "test races/test_found_by_models.py setting_aside_unseen_loses_a_put",
    ),
    (
        10,
        "a result withdrawn by look and unlink",
        "model lean 10",
        "test races/test_found_by_models.py a_look_and_an_unlink_take_a_later_result_away",
    ),
    (
        11,
        "seals listed before link counts",
        "test races/test_found_by_models.py the_seals_before_the_links_bring_it_twice",
    ),
    (
        12,
        "the fsync after the ready name, after the result is shown, left out",
        "mutant fsync after the ready name",
        "mutant fsync after the result is shown",
        "mutant late fsync left out",
    ),
    (13, "a keeper shows a result that is not settled", "mutant keeper settles nothing"),
    (14, "lengths and digests in names are ignored", "mutant torn taken for whole"),
    (15, "an id whose task was finished is given out again", "mutant tombstone not kept"),
    (
        16,
        "EXISTS or ALREADY unsettled, a second fsync after a failed one",
        "mutant nothing settled for others",
        "mutant asked again after a failed fsync",
    ),
    (
        17,
        "judged by the mtime alone, never stamped again",
        "model lean 17",
        "mutant judged by mtime alone",
        "mutant stamped once and never looked at",
    ),
    (18, "a file is stamped before it is judged", "mutant stamped before it is judged"),
    (
        19,
        "log: lines run together, a rest after a short write, rotation unnoticed, an error that fails the verb",
        "mutant no line of its own",
        "mutant rest after a short write",
        "mutant rotation unnoticed",
        "mutant log fails the claim",
    ),
    (
        20,
        "the catalogue's place in the log noted after the listing, or without a mark",
        "test store/test_catalogue.py what_comes_while_a_catalogue_is_built_is_told_by_the_log",
        "test store/test_catalogue.py a_place_in_another_log_is_none",
    ),
    (21, "one's own link taken for another's", "model lean 21"),
    (22, "the same nonces after a fork", "test store/test_log.py names_are_others_after_a_fork"),
    (
        23,
        "a listing over a shared descriptor, a replaced directory unnoticed",
        "test hostile/test_links.py listings_of_many_threads_do_not_share_a_place",
        "test hostile/test_links.py a_directory_that_was_replaced_is_noticed",
    ),
    (24, "trouble after the claiming rename keeps the claim", "mutant claim kept by nobody"),
    (25, "a wish to stop survives a reopening", "mutant wish to stop survives"),
    (
        28,
        "a result put back among the tasks is taken for the task",
        "model lean 28",
        "test interop/test_put_again.py it_is_tried_again",
    ),
)
