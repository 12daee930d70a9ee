"""How one task is run by a command: every way it can end."""

from __future__ import annotations

import glob
import os
import sys
import threading

import pytest
from waits import PATIENCE, Leap
from workshop import alive, read_pid, work

from taskpit import fs, held_directories
from taskpit.model import Card, Claim, Done, Failed, Result, Split, State, Task, Try, Verdict
from taskpit.queue import Queue
from taskpit.run import attempt, process
from taskpit.run.attempt import fate
from taskpit.run.pool_options import PoolOptions
from taskpit.run.run_directory import RunPlaces
from taskpit.run.runner import CannotRun, CommandRunner, Run
from taskpit.store.memory import MemoryStore


def shell(script, **options):
    return CommandRunner(["/bin/sh", "-c", script], cwd=options.pop("cwd", os.getcwd()), **options)


def test_exit_0_is_done_with_the_end_of_the_log(pit):
    (task,) = pit.put("say hello")
    over = pit.work_once(shell("echo hello; echo world >&2"))
    card = pit.card(task)
    assert (over.word, card.state, card.result.output) == ("done", State.DONE, "hello\nworld")
    with open(f"{pit.root}/{card.result.log}", encoding="utf-8") as file:
        assert file.read() == "hello\nworld\n"
    assert card.result.log.startswith("waste/snake-1-")
    assert card.result.seconds > 0


def test_the_result_file_is_the_output(pit):
    (task,) = pit.put("write it")
    pit.work_once(shell("echo noise; echo '# found' > '{result_file}'"))
    assert pit.card(task).result.output == "# found"


def test_papers_and_environment(pit):
    (task,) = pit.put("look around", body="Mind the step.", check="true", attempts=1)
    script = (
        'cat "{prompt_file}"; grep "Mind the step" "{task_file}"; '
        'echo "$TASKPIT_TASK {id} $TASKPIT_ATTEMPT $TASKPIT_DIR"; '
        'test "$TASKPIT_RUN_DIR" = "{run_dir}" && test "$TASKPIT_FILE" = "{task_file}"; echo $?; '
        'ls claimed; echo $TASKPIT_AS; cat; echo "{other} ${HOME:+braces}"'
    )
    pit.work_once(shell(script, cwd=pit.root))
    output = pit.card(task).result.output
    assert "# look around\n\nMind the step." in output
    assert "    true" in output
    assert f"{task} {task} 2 {pit.root}\n0\n" in output
    fence = pit.card(task).result.worker
    assert f"{fence}.food-{task}-look-around.md\n{fence}\n" in output
    assert output.endswith("{other} braces")
    assert not os.listdir(f"{pit.root}/.taskpit/runs")


def test_the_worktree_is_where_it_works(pit):
    pit.put("somewhere")
    claim = pit.queue.claim("snake-1")[0]
    run = Run(claim, RunPlaces(pit.queue.store).of(claim), pit.root)
    assert run.fill(["{worktree}", "{id}{nothing}"]) == (".", f"{claim.task.id}{{nothing}}")
    run.cwd = "/some/tree"
    assert run.fill(["-C{worktree}/src"]) == ("-C/some/tree/src",)
    run.bell.close()


@pytest.mark.parametrize(
    ("argv", "written"),
    [
        (["ls", "-d", "."], False),
        (["make", "-n", "nothing"], False),
        (["ls", "{prompt_file}"], True),
        (["ls", "{run_dir}"], True),
        (["sh", "-c", "ls $TASKPIT_RUN_DIR"], True),
        (["sh", "script"], True),
        (["./script"], True),
    ],
)
def test_a_prompt_is_written_for_whatever_may_read_it(pit, argv, written):
    """A script may have its name in it; a program that is told nothing of it cannot."""
    with open(f"{pit.root}/script", "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\ncat "$TASKPIT_RUN_DIR/prompt.md"\n')
    os.chmod(f"{pit.root}/script", 0o755)
    assert CommandRunner(argv, cwd=pit.root).reads_prompt is written
    (task,) = pit.put("look around")
    pit.work_once(CommandRunner(argv, cwd=pit.root))
    if "script" in argv[-1]:
        assert "# look around" in pit.card(task).result.output


def test_what_the_command_leaves_in_its_directory_stays(pit):
    pit.put("leave something")
    pit.work_once(shell("echo x > '{run_dir}/plan.txt'"))
    (run,) = os.listdir(f"{pit.root}/.taskpit/runs")
    assert os.listdir(f"{pit.root}/.taskpit/runs/{run}") == ["plan.txt"]


def test_a_crash_spends_an_attempt_and_says_why(pit):
    (task,) = pit.put("break")
    over = pit.work_once(shell("echo it broke; exit 3"))
    card = pit.card(task)
    assert (over.word, card.state, card.task.attempts) == ("retry", State.READY, 1)
    assert (card.tries[0].kind, card.tries[0].error) == ("crash", "exit code 3\nit broke")
    assert card.tries[0].log


def test_killed_by_a_signal_is_a_crash(pit):
    (task,) = pit.put("die")
    pit.work_once(shell("kill -SEGV $$"))
    assert pit.card(task).tries[0].error == "killed by SIGSEGV"


def test_a_red_check_is_fed_to_the_next_attempt(pit):
    proof = f"test -f '{pit.root}/proof' || {{ echo 'where is the proof?'; exit 4; }}"
    (task,) = pit.put("prove it", check=proof)
    script = f"if grep '    where is the proof' '{{prompt_file}}'; then touch '{pit.root}/proof'; fi"
    first = pit.work_once(shell(script))
    card = pit.card(task)
    assert (first.word, card.tries[0].kind, card.tries[0].evidence.exit_code) == ("retry", "check", 4)
    assert card.tries[0].evidence.tail == "where is the proof?"
    second = pit.work_once(shell(script))
    card = pit.card(task)
    assert (second.word, card.state, card.result.attempt) == ("done", State.DONE, 2)
    assert card.result.evidence.green


def test_checks_can_be_left_out(pit):
    (task,) = pit.put("trust me", check="false")
    assert pit.work_once(shell("true"), checks=False).word == "done"
    assert pit.card(task).result.evidence is None


def test_over_its_limit(pit, monkeypatch):
    monkeypatch.setattr(process, "time", Leap(lambda: os.path.exists(f"{pit.root}/begun")))
    (task,) = pit.put("dawdle")
    pit.work_once(shell("echo slow; touch begun; exec sleep 600", limit=3600.0, cwd=pit.root))
    assert pit.card(task).tries[0].kind == "timeout"
    assert pit.card(task).tries[0].error == "it took longer than 1h\nslow"


def test_tempfail_is_tried_again_and_spends_nothing(pit):
    (task,) = pit.put("not now")
    over = pit.work_once(shell("echo quota; exit 75"))
    card = pit.card(task)
    assert (over.word, card.state, card.task.attempts) == ("retry", State.READY, 0)
    assert (card.tries[0].kind, card.tries[0].counted) == ("infra", False)
    assert card.task.not_before > 0
    assert pit.queue.store.read_log(task, 0, 100)[0] == b"quota\n"  # what its last run printed


def test_what_asks_again_and_again_to_be_tried_later_waits_longer_each_time(pit, monkeypatch):
    """It was run every few seconds, all night: each run may cost."""
    monkeypatch.setattr(attempt, "pause", lambda _config, attempt: 100.0 * attempt)
    (task,) = pit.put("not now")
    waits = []
    for _ in range(3):
        pit.work_once(shell("exit 75"))
        waits.append(round(pit.card(task).task.not_before - pit.queue.clock.now(), -2))
        pit.queue.edit(task, "ada", lambda one: one.replace(not_before=0.0))
    assert waits == [100.0, 200.0, 300.0]


@pytest.mark.parametrize("name", ["no-such-command-here", "/etc/passwd"])
def test_no_command_blames_no_task(pit, name):
    (task,) = pit.put("innocent")
    runner = CommandRunner([name], cwd=pit.root)
    with pytest.raises(CannotRun):
        runner.check(os.environ)
    over = pit.work_once(runner)
    card = pit.card(task)
    assert isinstance(over.fatal, CannotRun)
    assert (card.state, card.task.attempts, card.tries[0].kind) == (State.READY, 0, "infra")


def test_a_grandchild_dies_with_its_group(pit):
    pit.put("fork")
    pit.work_once(shell("sleep 600 & echo $! > grandchild", cwd=pit.root))
    assert not alive(read_pid(f"{pit.root}/grandchild"))


def test_whoever_ignores_sigterm_is_killed(tmp_path):
    bell = process.Bell()
    deaf = "sh -c 'trap \"\" TERM; sleep 600'"
    script = f"trap '' TERM; {deaf} & echo $! > child; echo $$ > leader; while :; do sleep 0.1; done"
    order = process.Command(
        argv=("/bin/sh", "-c", script), cwd=str(tmp_path), env=os.environ, log=str(tmp_path / "log"), grace=0.3
    )
    ended = []
    thread = threading.Thread(target=lambda: ended.append(process.run(order, bell)))
    thread.start()
    leader, child = read_pid(tmp_path / "leader"), read_pid(tmp_path / "child")
    bell.ring()
    thread.join(PATIENCE)
    bell.close()
    assert ended[0].why == "bell"
    assert ended[0].code == -9
    assert not alive(leader)
    assert not alive(child)


def test_whoever_listens_to_sigterm_is_not_killed(tmp_path):
    bell = process.Bell()
    order = process.Command(
        argv=("/bin/sh", "-c", "trap 'echo bye; exit 5' TERM; echo $$ > pid; while :; do sleep 0.05; done"),
        cwd=str(tmp_path),
        env=os.environ,
        log=str(tmp_path / "log"),
        limit=0.0,
    )
    thread = threading.Thread(target=lambda: (read_pid(tmp_path / "pid"), bell.ring()))
    thread.start()
    ended = process.run(order, bell)
    thread.join()
    bell.close()
    assert (ended.code, ended.why) == (5, "bell")
    assert (tmp_path / "log").read_text().endswith("bye\n")


def test_a_log_without_end_keeps_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "LONGEST_LOG", 20000)
    monkeypatch.setattr(process, "KEPT_LOG", 5000)
    bell = process.Bell()
    script = "import sys\nfor n in range(100000): print('line', n)"
    order = process.Command(
        argv=(sys.executable, "-c", script), cwd=str(tmp_path), env=os.environ, log=str(tmp_path / "log")
    )
    assert process.run(order, bell).code == 0
    bell.close()
    text = (tmp_path / "log").read_text()
    assert len(text) < 20100
    assert text.startswith("[... ")
    assert text.endswith("line 99999\n")


@pytest.mark.parametrize(
    ("verb", "word", "state"),
    [
        ("done $TASKPIT_TASK", "done", State.DONE),
        ("fail $TASKPIT_TASK --error broken", "itself", State.READY),
        ("release $TASKPIT_TASK", "itself", State.READY),
        ("ask $TASKPIT_TASK which?", "asked", State.READY),
    ],
)
def test_the_command_may_hand_in_or_end_its_claim_itself(pit, verb, word, state):
    (task,) = pit.put("on my own")
    over = pit.work_once(shell(f"{sys.executable} -m taskpit {verb} --as $TASKPIT_AS && exit 9"))
    card = pit.card(task)
    assert (over.word, card.state) == (word, state), (over, card.tries)
    assert not card.late
    assert not pit.events("late_result")
    assert all(one.kind != "crash" for one in card.tries)


def test_a_claim_that_was_taken_away_is_lost(pit):
    (task,) = pit.put("stolen")

    def thief(claim, run):
        pit.queue.finish(claim, Failed(error="worker is gone", kind="lost"))
        pit.queue.claim("other")
        return Done(output="too late")

    assert pit.work_once(thief).word == "lost"
    assert pit.card(task).worker.startswith("other")


def test_a_callable_may_return_any_outcome(pit):
    (task,) = pit.put("too much")
    over = pit.work_once(lambda _claim, _run: Split(children=(Task(id="", title="half"), Task(id="", title="rest"))))
    assert over.word == "split"
    assert len(pit.card(task).result.children) == 2


@pytest.mark.parametrize("thrown", [RuntimeError("boom"), SystemExit(3)])
def test_what_a_callable_throws_is_a_crash(pit, thrown):
    (task,) = pit.put("throw")

    def runner(_claim, _run):
        raise thrown

    assert pit.work_once(runner).word == "retry"
    assert pit.card(task).tries[0].kind == "crash"
    assert type(thrown).__name__ in pit.card(task).tries[0].error


def test_no_outcome_is_a_crash(pit):
    (task,) = pit.put("nothing")
    pit.work_once(lambda _claim, _run: None)
    assert "no outcome" in pit.card(task).tries[0].error


def test_a_check_is_killed_when_its_run_is_stopped(pit):
    (task,) = pit.put("slow proof", check=f"echo $$ > '{pit.root}/checker'; sleep 600")
    claim = pit.queue.claim("snake-1")[0]
    run = Run(claim, RunPlaces(pit.queue.store).of(claim), pit.root)
    thread = threading.Thread(target=lambda: (read_pid(f"{pit.root}/checker"), run.stop("stop")))
    thread.start()
    over = work(pit.queue, run, lambda _c, _r: Done(), PoolOptions(check_in=pit.root), lambda: None)
    thread.join()
    run.bell.close()
    assert (over.word, pit.card(task).state) == ("released", State.READY)
    assert not alive(read_pid(f"{pit.root}/checker"))


@pytest.mark.parametrize("left", ["", "notes.txt"])
def test_directories_of_past_runs_are_not_held(pit, left):
    """Only so many are: they would push out the queue's own."""
    pit.put("work")
    place = RunPlaces(pit.queue.store).of(pit.queue.claim("snake-1")[0])
    place.make()
    place.write_task(b"work")
    assert place.path in held_directories._held
    if left:
        fs.write(f"{place.path}/{left}", b"kept")
    place.clear()
    assert place.path not in held_directories._held
    assert os.path.exists(place.path) == bool(left)


def test_a_task_is_written_over_another(pit):
    pit.put("work")
    place = RunPlaces(pit.queue.store).of(pit.queue.claim("snake-1")[0])
    for text in (b"a longer one", b"short"):
        place.make()
        place.write_task(text)
    assert fs.read(place.task, 100)[0] == b"short"


def test_a_queue_that_is_no_folder():
    queue = Queue(MemoryStore())
    queue.put([Task(id="", title="in memory")])
    claim = queue.claim("snake-1")[0]
    run = Run(claim, RunPlaces(queue.store).of(claim), "memory")
    over = work(queue, run, shell("cat '{prompt_file}'"), PoolOptions(check_in=os.getcwd()), lambda: None)
    run.bell.close()
    run.place.clear()
    assert over.word == "done"
    assert queue.card(claim.task.id).result.output.startswith("# in memory")
    assert not os.path.exists(run.place.path)


def test_control_characters_do_not_reach_the_queue(pit):
    (task,) = pit.put("paint")
    pit.work_once(shell(r"printf '\033[31mred\033[0m \007bell\033]0;title\007'"))
    assert pit.card(task).result.output == "red bell"


def test_what_is_left_running_is_asked_before_it_is_killed(pit):
    pit.put("leave a server")
    server = "sh -c 'trap \"echo bye > bye; exit\" TERM; echo x > up; while :; do sleep 0.02; done'"
    pit.work_once(shell(f"{server} & until test -s up; do sleep 0.02; done", cwd=pit.root))
    assert os.path.exists(f"{pit.root}/bye")


CLAIM = Claim(task=Task(id="0001", title="x"), worker="snake-1", fence="snake-1~abc")


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"state": State.CLAIMED, "worker": "snake-1~abc"}, "ours"),
        ({"state": State.CLAIMED, "worker": "snake-2~xyz"}, "lost"),
        ({"state": State.CLAIMED, "worker": "(ending)"}, "itself"),
        ({"state": State.READY}, "itself"),
        ({"state": State.READY, "tries": (Try(at=1.0, worker="snake-1~abc", kind="lost"),)}, "lost"),
        ({"state": State.READY, "tries": (Try(at=1.0, worker="snake-9~old", kind="lost"),)}, "itself"),
        (
            {"state": State.CLAIMED, "worker": "b~1", "tries": (Try(at=1.0, worker="snake-1~abc", kind="task"),)},
            "itself",
        ),
        ({"state": State.DONE, "result": Result(id="0001", verdict=Verdict.DONE, worker="snake-1~abc")}, "itself"),
        ({"state": State.DONE, "result": Result(id="0001", verdict=Verdict.DONE, worker="snake-2~xyz")}, "lost"),
    ],
)
def test_what_became_of_a_claim(fields, found):
    assert fate(CLAIM, Card(task=CLAIM.task, **fields)) == found
    assert fate(CLAIM, None) == "lost"


def test_pit_stands_where_nobody_else_writes(pit, monkeypatch):
    """What commands find under that name is run with this user's rights: it is not the queue's, which others share."""
    pit.put("look")
    pool = pit.start("--until", "empty", "--", "sh", "-c", f"command -v pit > '{pit.root}/found'; cat $BASH_ENV")
    assert pool.wait(PATIENCE) == 0
    with open(f"{pit.root}/found", encoding="utf-8") as file:
        found = file.read().strip()
    assert not found.startswith(os.path.realpath(pit.root))
    assert os.stat(os.path.dirname(found)).st_mode & 0o077 == 0
    assert not glob.glob(f"{pit.root}/.taskpit/runs/*")
    assert not glob.glob(f"{pit.root}/.taskpit/groups/*")


def test_without_a_place_of_ones_own_pit_stands_in_the_run(pit, monkeypatch, tmp_path):
    pit.put("look")
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(nowhere))
    monkeypatch.setenv("TASKPIT_TRUST", "1")
    pool = pit.start("--until", "empty", "--", "sh", "-c", f"command -v pit > '{pit.root}/found'; pit --version")
    assert pool.wait(PATIENCE) == 0, pit.said()
    with open(f"{pit.root}/found", encoding="utf-8") as file:
        assert f"{os.path.realpath(pit.root)}/.taskpit/runs/" in os.path.realpath(file.read().strip())
    assert not glob.glob(f"{pit.root}/.taskpit/runs/*")
