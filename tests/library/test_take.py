"""`with queue.take() as job`: done, failed, given back, kept, lost, cancelled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time

import pytest
from waits import PATIENCE, until

from taskpit import Ask, Done, Failed, Queue, Split, State, Task
from taskpit.errors import CheckFailed, Denied, Invalid, Lost, Nothing, Storage, TaskpitError, Unknown
from taskpit.keeper import sweep
from taskpit.model import Release, Retry, Said
from taskpit.store.memory import MemoryStore


def lose(queue, task_id):
    """A keeper gives the task back although its worker lives."""
    claim = queue.holding(task_id, queue.card(task_id).worker)
    assert queue.finish(claim, Failed(error="judged dead", kind="lost"))[0] is Said.OK


class Counting:
    """The queue's store, and how often it has renewed."""

    def __init__(self, queue, monkeypatch):
        self.count = 0
        self._heard = threading.Condition()
        renew = queue.store.renew

        def counted(held, lease):
            said = renew(held, lease)
            with self._heard:
                self.count += 1
                self._heard.notify_all()
            return said

        monkeypatch.setattr(queue.store, "renew", counted)

    def wait_for(self, count):
        with self._heard:
            assert self._heard.wait_for(lambda: self.count >= count, timeout=PATIENCE)


def test_left_in_good_order_it_is_done(queue):
    task_id = queue.add("greet", body="say hello")
    with queue.take("ada") as job:
        assert (job.task.id, job.task.body.strip(), job.stopping, job.lost) == (task_id, "say hello", "", False)
        assert queue.card(task_id).state is State.CLAIMED
        job.check()
        job.output = "hello"
    card = queue.card(task_id)

    assert (card.state, card.result.output.strip()) == (State.DONE, "hello")
    assert card.result.worker.startswith("ada~")


def test_an_exception_fails_it_with_the_trace_and_goes_on(queue):
    task_id = queue.add("break")
    with pytest.raises(ZeroDivisionError), queue.take():
        1 / 0  # noqa: B018 - it is thrown
    card = queue.card(task_id)

    assert (card.state, card.task.attempts) == (State.READY, 1)
    assert card.tries[-1].kind == "crash"
    assert card.tries[-1].error.startswith("ZeroDivisionError: division by zero")
    assert "test_take.py" in card.tries[-1].error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_gives_it_back_as_it_was(queue, error):
    task_id = queue.add("stop")
    with pytest.raises(error), queue.take():
        raise error
    card = queue.card(task_id)

    assert (card.state, card.task.attempts, card.tries, card.held) == (State.READY, 0, (), "")


def test_it_may_end_in_any_way(queue):
    whole = queue.add("too much")
    with queue.take() as job:
        job.outcome = Split(children=(Task(id="", title="one"), Task(id="", title="two")))
    with queue.take() as job:
        asking = job.task.id
        job.outcome = Ask(question="which one?")

    assert len(queue.card(whole).result.children) == 2
    assert "which one?" in queue.card(asking).held


def test_the_program_may_end_the_claim_itself(queue):
    task_id = queue.add("mine")
    with queue.take() as job:
        queue.finish(job.claim, Failed(error="no", final=True))

    assert queue.card(task_id).state is State.FAILED


def test_nothing_to_take(queue):
    queue.add("big", big=True)
    with pytest.raises(Nothing), queue.take():
        pytest.fail("there was something")


def test_it_waits_for_a_task_as_long_as_it_is_told(queue):
    began = time.monotonic()
    with pytest.raises(Nothing), queue.take(wait=0.2):
        pytest.fail("there was something")
    assert time.monotonic() - began >= 0.2

    later = threading.Timer(0.2, lambda: queue.add("late"))
    later.start()
    with queue.take(wait=PATIENCE) as job:
        job.output = "had it"
    later.join()
    assert queue.card(job.task.id).result.output == "had it"


def test_a_red_check_is_a_failure_and_a_green_one_is_evidence(queue, tmp_path):
    task_id = queue.add("check me", check="test -e proof && echo seen")
    with pytest.raises(CheckFailed, match="red"), queue.take(checks=str(tmp_path)):
        pass
    assert queue.card(task_id).tries[-1].kind == "check"
    with queue.take(wait=PATIENCE, checks=str(tmp_path)):
        (tmp_path / "proof").touch()

    assert queue.card(task_id).result.evidence.tail.strip() == "seen"


def test_a_lenient_check_that_is_red_is_told_and_ignored(queue):
    lenient = Task(id="", title="check me", check="false", extra={"test_mode": "lenient"})
    ((task_id, _),) = queue.put([lenient])
    with queue.take():
        pass

    result = queue.card(task_id).result
    assert (result.reason, result.evidence.exit_code) == ("the check is red; ignored (lenient)", 1)


def test_checks_can_be_left_out(queue):
    task_id = queue.add("check me", check="false")
    with queue.take(checks=None):
        pass

    assert queue.card(task_id).state is State.DONE


def test_who_works_is_never_given_up(queue, root, monkeypatch):
    task_id = queue.add("long")
    counting, ends = Counting(queue, monkeypatch), []
    monkeypatch.setattr("taskpit.library.RENEW_AT_MOST", 0.05)
    with queue.take("slow", lease=60.0) as mine, Queue.open(root) as other:
        for _ in range(5):
            counting.wait_for(counting.count + 3)
            ends.append(other.card(task_id).until)
            assert [mend for mend in sweep(other) if mend.kind == "reclaimed"] == []
            mine.check()

    assert ends == sorted(set(ends))  # later and later
    assert queue.card(task_id).state is State.DONE


def test_renewing_stops_when_it_is_left(queue):
    queue.add("short")
    with queue.take():
        names = [thread.name for thread in threading.enumerate()]
        assert "keeps 0001" in names

    assert "keeps 0001" not in [thread.name for thread in threading.enumerate()]


def test_a_lost_claim_is_told_and_what_was_brought_is_kept_aside(queue, monkeypatch):
    monkeypatch.setattr("taskpit.library.RENEW_AT_MOST", 0.05)
    task_id = queue.add("contested")
    with pytest.raises(Lost, match="another worker"), queue.take("slow") as mine:  # noqa: PT012
        lose(queue, task_id)
        with Queue.open(queue.store.info().where) as other, other.take("fast") as theirs:
            theirs.output = "theirs"
        until(lambda: mine.lost)
        with pytest.raises(Lost):
            mine.check()
        mine.output = "mine"
    card = queue.card(task_id)

    assert card.result.output.strip() == "theirs"
    assert len(card.late) == 1


def test_a_loss_nobody_noticed_is_told_at_the_end(queue):
    task_id = queue.add("contested")
    with pytest.raises(Lost), queue.take("slow"):
        lose(queue, task_id)


def test_a_failure_after_a_loss_is_thrown_with_a_note(queue):
    task_id = queue.add("contested")
    with pytest.raises(ValueError, match="mine") as caught, queue.take("slow"):  # noqa: PT012
        lose(queue, task_id)
        raise ValueError("mine")

    assert "another worker holds 0001" in caught.value.__notes__[0]
    assert [one.kind for one in queue.card(task_id).tries] == ["lost"]


def test_a_person_can_cancel_it(queue, monkeypatch):
    monkeypatch.setattr("taskpit.library.RENEW_AT_MOST", 0.05)
    task_id = queue.add("not needed")
    with pytest.raises(Lost, match="cancelled"), queue.take() as mine:  # noqa: PT012
        queue.cancel(task_id, "ada@home")
        until(lambda: mine.stopping)
        assert (mine.stopping, mine.lost) == ("cancel", False)
        mine.check()

    assert queue.card(task_id).result.verdict == "cancelled"


def test_an_end_that_cannot_be_written_is_told(queue, monkeypatch):
    task_id = queue.add("no disk")
    monkeypatch.setattr("taskpit.run.attempt.FIRST_PAUSE", 0.0)
    finish = queue.store.finish

    def refuse(_ends):
        raise Storage("the disk is full")

    with pytest.raises(Unknown, match="disk is full"), queue.take():
        monkeypatch.setattr(queue.store, "finish", refuse)
    monkeypatch.setattr(queue.store, "finish", finish)

    assert queue.card(task_id).state is State.CLAIMED


@pytest.mark.parametrize("refusal", [Denied("the token is over"), TaskpitError("HTTP 500"), Storage("no disk")])
def test_a_renewal_that_is_refused_is_tried_again(queue, monkeypatch, refusal):
    monkeypatch.setattr("taskpit.library.RENEW_AT_MOST", 0.02)
    task_id = queue.add("a moment")
    renew, asked, kept = queue.store.renew, [], threading.Event()

    def refuse_twice(held, lease):
        asked.append(held)
        if len(asked) < 3:
            raise refusal
        said = renew(held, lease)
        kept.set()
        return said

    monkeypatch.setattr(queue.store, "renew", refuse_twice)
    with queue.take("ada", lease=600.0) as mine:
        assert kept.wait(PATIENCE)
        mine.check()
    assert queue.card(task_id).state is State.DONE


def test_a_claim_that_is_not_renewed_for_a_whole_lease_is_told_as_lost_until_it_is(queue, monkeypatch):
    monkeypatch.setattr("taskpit.library.RENEW_AT_MOST", 0.02)
    queue.add("away")
    renew, now, asked = queue.store.renew, queue.clock.monotonic, threading.Semaphore(0)

    def refuse(_held, _lease):
        asked.release()
        raise Denied("the token is over")

    with queue.take("ada", lease=600.0) as mine:
        monkeypatch.setattr(queue.store, "renew", refuse)
        for _ in range(2):
            assert asked.acquire(timeout=PATIENCE)
        assert mine.stopping == ""  # another lease may be had in time
        monkeypatch.setattr(queue.clock, "monotonic", lambda: now() + 601.0)
        until(lambda: mine.lost)
        with pytest.raises(Lost, match=r"for a whole lease, .* the token is over") as told:
            mine.check()
        assert "pit why" in told.value.hint
        monkeypatch.setattr(queue.store, "renew", renew)
        until(lambda: not mine.lost)
        mine.check()


@pytest.mark.parametrize("refusal", [Denied("the token is over"), TaskpitError("HTTP 500")])
def test_an_end_that_is_refused_is_told_with_the_reason_and_what_is_next(queue, monkeypatch, refusal):
    task_id = queue.add("refused")
    monkeypatch.setattr("taskpit.run.attempt.FIRST_PAUSE", 0.0)

    def refuse(_ends):
        raise refusal

    with pytest.raises(Unknown, match=refusal.message) as told, queue.take():
        monkeypatch.setattr(queue.store, "finish", refuse)
    assert f"pit why {task_id}" in told.value.hint


def test_trouble_of_a_gateways_own_makes_no_failure_of_what_is_done(queue, monkeypatch):
    task_id = queue.add("done")
    monkeypatch.setattr("taskpit.run.attempt.FIRST_PAUSE", 0.0)
    finish, asked = queue.store.finish, []

    def refuse_once(ends):
        asked.append(ends)
        if len(asked) == 1:
            raise TaskpitError("HTTP 500")
        return finish(ends)

    with queue.take():
        monkeypatch.setattr(queue.store, "finish", refuse_once)
    assert queue.card(task_id).state is State.DONE


def test_two_threads_never_have_the_same_task(queue):
    ids = {queue.add(f"task {number}") for number in range(30)}
    start, taken = threading.Barrier(6), []

    def work():
        start.wait()
        while True:
            try:
                with queue.take("many") as job:
                    taken.append(job.task.id)
            except Nothing:
                return

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)

    assert sorted(taken) == sorted(ids)


def test_a_name_that_a_living_process_has_gets_a_number(queue, root):
    queue.add("one")
    queue.add("two")
    with Queue.open(root) as other, queue.take("ada") as mine, other.take("ada") as theirs:
        assert (mine.claim.worker, theirs.claim.worker) == ("ada", "ada-2")


KILLED = """
import os, signal, sys
from taskpit import Queue
with Queue.open(sys.argv[1]) as queue, queue.take("doomed") as job:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_program_had_is_taken_at_once(queue, root):
    task_id = queue.add("deadly")
    subprocess.run([sys.executable, "-c", KILLED, str(root)], check=False, env={**os.environ})
    assert queue.card(task_id).state is State.CLAIMED

    with queue.take("next") as job:
        assert job.task.id == task_id


def test_it_works_on_any_store():
    queue = Queue(MemoryStore())
    queue.add("anywhere")
    with queue.take() as job:
        job.outcome = Done(output="here")

    assert queue.card(job.task.id).result.output == "here"


def test_one_text_where_several_belong_is_refused(queue):
    """A text is a sequence of texts to Python: `needs="0001"` would need task 0, 0, 0 and 1."""
    for fields in ({"needs": "0001"}, {"tags": "web"}, {"touches": "src/**"}):
        with pytest.raises(Invalid, match="several texts, not one"):
            queue.add("x", **fields)
    with pytest.raises(Invalid) as refused, queue.take("ada", tags="web"):
        pass
    assert refused.value.hint == "Write tags=['web']."
    for wish in ({"tags": "web"}, {"ids": "0001"}):
        with pytest.raises(Invalid, match="several texts, not one"):
            queue.claim("ada", **wish)


@pytest.mark.parametrize(
    "fields",
    [
        {"title": None},
        {"title": 5},
        {"body": b"bytes"},
        {"check": ["make", "test"]},
        {"tags": [1]},
        {"tags": None},
        {"needs": [1]},
        {"not_before": "tomorrow"},
        {"not_before": float("nan")},
        {"big": "no"},
    ],
)
def test_what_no_field_of_a_task_can_be_is_refused_by_its_name(queue, fields):
    with pytest.raises(Invalid, match=next(iter(fields))):
        queue.add(**{"title": "x", **fields})
    assert queue.store.counts()[State.READY] == 0


@pytest.mark.parametrize("given", ["Fix the login", ["Fix the login"], [None]])
def test_what_is_no_list_of_tasks_is_refused_with_what_to_write(queue, given):
    with pytest.raises(Invalid, match="put takes tasks") as error:
        queue.put(given)
    assert "queue.add(" in error.value.hint


def test_a_task_made_by_hand_has_no_text_where_several_belong(queue):
    """It was put with the tags w, e and b."""
    with pytest.raises(Invalid, match="tags"):
        queue.put([Task(id="", title="x", tags="web")])


@pytest.mark.parametrize(
    "wish", [{"count": 0}, {"count": 1.5}, {"lease": -5}, {"lease": "30m"}, {"lease": float("nan")}, {"ids": None}]
)
def test_a_claim_that_cannot_be_meant_takes_nothing(queue, wish):
    """`count=0` took every task, and a lease below none was over when it began."""
    queue.add("x")
    with pytest.raises(Invalid, match=next(iter(wish))):
        queue.claim("ada", **wish)
    assert queue.store.counts()[State.READY] == 1


def test_a_renewal_ends_no_lease(queue):
    queue.add("x")
    claim = queue.claim("ada")[0]
    with pytest.raises(Invalid, match="lease"):
        queue.renew(claim, -5)


@pytest.mark.parametrize("told", [{"output": 5}, {"outcome": "failed"}, {"outcome": Failed}])
def test_a_job_that_brings_no_end_of_a_task_has_failed(queue, told):
    """Its task stayed claimed, and nobody renewed it."""
    task_id = queue.add("x")
    with pytest.raises(Invalid, match="neither a text nor an outcome"), queue.take() as job:
        vars(job).update(told)
    assert (queue.card(task_id).state, queue.card(task_id).task.attempts) == (State.READY, 1)


def test_a_queue_whose_folder_is_gone_is_not_made_again(queue, root):
    """An empty one stood in its place: who came for a task waited for ever, and a result was kept there aside."""
    queue.add("x")
    claim = queue.claim("ada")[0]
    shutil.rmtree(root)

    for verb in (
        lambda: queue.claim("ada", wait=PATIENCE),
        lambda: queue.renew(claim),
        lambda: queue.finish(claim, Done()),
        lambda: queue.add("y"),
    ):
        with pytest.raises(Storage, match="No such file"):
            verb()
        assert not root.exists()


def wrong_ends():
    """Ends whose fields are of another kind than they say."""
    yield from (Done(output=5), Done(output=["a"]), Done(reason=None), Done(seconds="x"), Done(cost="x"), Done(log=5))
    yield from (Done(evidence="green"), Failed(error=ValueError("x")), Failed(error="x", final="no"))
    yield from (Retry(reason="x", after="5m"), Retry(reason="x", after=float("nan")), Retry(reason="x", after=-5))
    yield from (Release(reason=5), Release(action=5), Release(task="x"), Ask(question=5), Ask(question="x", key=5))
    yield from (
        Split(children="ab"),
        Split(children=5),
        Split(children=(None,)),
        Split(children=Task(id="", title="x")),
    )
    yield from ("done", None, 5, Done)


@pytest.mark.parametrize("outcome", list(wrong_ends()), ids=repr)
def test_an_end_that_is_none_is_refused_and_changes_nothing(queue, root, outcome):
    """It was a TypeError from deep inside; of some the claim had ended by then."""
    queue.add("x")
    (claim,) = queue.claim("w")
    before = files(root)
    with pytest.raises(Invalid) as error:
        queue.finish(claim, outcome)
    assert error.value.message
    with pytest.raises(Invalid):
        queue.finish_many([(claim, Done()), (claim, outcome)])
    assert files(root) == before
    assert queue.finish(claim, Done(output="ok"))[0] is Said.OK


def files(root):
    """Every file of the queue, and what is in it."""
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "call",
    [
        lambda queue, claim: queue.finish("0001", Done()),
        lambda queue, claim: queue.finish([claim], Done()),
        lambda queue, claim: queue.finish_many([claim]),
        lambda queue, claim: queue.renew("0001"),
        lambda queue, claim: queue.put(5),
        lambda queue, claim: queue.put(claim.task),
        lambda queue, claim: queue.put([Task(id="", title="x", limits=5)]),
        lambda queue, claim: queue.put([Task(id="", title="x", extra={"a": object()})]),
        lambda queue, claim: queue.put([Task(id="", title="x", extra={5: "a"})]),
        lambda queue, claim: queue.put([Task(id="", title="x", source="text")]),
        lambda queue, claim: queue.claim(5),
        lambda queue, claim: queue.claim("w", wait="5"),
        lambda queue, claim: queue.claim("w", tags=["none"], wait=float("nan")),
        lambda queue, claim: queue.card(1),
        lambda queue, claim: queue.resolve(1),
        lambda queue, claim: queue.why(None),
        lambda queue, claim: queue.note("0002", 5, "w"),
        lambda queue, claim: queue.note("0002", "x", None),
        lambda queue, claim: queue.block("0002", "w", None),
        lambda queue, claim: queue.cancel("0002", "w", 5),
        lambda queue, claim: queue.cancel("0002", 5),
        lambda queue, claim: queue.take(5),
        lambda queue, claim: queue.take("w", wait="5"),
        lambda queue, claim: queue.work(5),
        lambda queue, claim: queue.work(str, n="2"),
        lambda queue, claim: queue.work(str, max_tasks="1"),
    ],
)
def test_arguments_of_another_kind_are_refused_and_change_nothing(queue, root, call):
    """They were a TypeError from deep inside."""
    queue.add("x")
    queue.add("y")
    (claim,) = queue.claim("w", ids=["0001"])
    before = files(root)
    with pytest.raises(Invalid) as error:
        call(queue, claim)
    assert error.value.message
    ignored = (root / ".taskpit/next", root / ".taskpit/index")
    after = files(root)
    assert {path for path in {*before, *after} if before.get(path) != after.get(path)} <= {*ignored}


def test_what_was_to_be_waited_for_may_be_over(queue):
    assert queue.claim("w", wait=-1) == []


def test_a_change_to_what_is_no_task_changes_nothing(queue):
    queue.add("x")
    with pytest.raises(Invalid, match="no task"):
        queue.edit("0001", "w", lambda task: 5)
    assert queue.card("0001").state == "ready"
