"""What is done by hand is the same on every surface: answers, and needs as people and agents write them."""

from __future__ import annotations

import pytest

from taskpit.errors import Conflict, Invalid
from taskpit.mcp.tools import ToolCalls
from taskpit.model import Ask, State, Task
from taskpit.queue import Queue
from taskpit.run.budget import GO_ON, Ledger, first_reached, parse
from taskpit.run.manual import answer_by_hand, finish_by_hand, need_ids
from taskpit.store.memory import MemoryStore
from taskpit.store.opening import init
from taskpit.testing import FakeClock


def by_hand(queue):
    answer_by_hand(queue, "0001", "yes", "me")


def in_the_terminal(queue):
    acts = pytest.importorskip("taskpit.tui.keys")
    acts.find("answer").action.do(queue, "0001", "me", "yes")


def in_the_browser(queue):
    pytest.importorskip("starlette")
    from taskpit.actions import ACTIONS
    from taskpit.web.app import VERBS

    ACTIONS[VERBS["answer"]].do(queue, "0001", "me", "yes")


class Elsewhere(MemoryStore):
    """A queue that is no folder, as one in a database: its ledger lies among the papers of this machine's pools."""

    papers = "/nowhere"

    def info(self):
        return super().info().replace(papers=self.papers)


@pytest.mark.parametrize("answer", [by_hand, in_the_terminal, in_the_browser])
def test_who_is_answered_may_cost_as_much_again_wherever_the_queue_is(tmp_path, answer):
    """Also where it is answered on a machine that has never had a pool."""
    (tmp_path / ".taskpit").mkdir()
    clock = FakeClock()
    store, ledger = Elsewhere(clock), Ledger(str(tmp_path))
    queue = Queue(store, clock=clock)
    queue.put([Task(id="0001", title="one")])
    ledger.enter("0001", "snake", {"usd": 5.0}, 1.0, clock.now())
    queue.finish(queue.claim("snake")[0], Ask(question=f"It has cost $5{GO_ON}"))
    limits = [parse("$5/task")]
    assert first_reached(queue, ledger, limits, "0001")

    answer(queue)

    assert not queue.card("0001").held
    assert first_reached(queue, ledger, limits, "0001") is None
    ledger.enter("0001", "snake", {"usd": 5.0}, 1.0, clock.now())
    assert first_reached(queue, ledger, limits, "0001"), "it is said once, and counts once"


def test_another_answer_lets_nothing_cost_more(tmp_path):
    (tmp_path / ".taskpit").mkdir()
    queue, ledger = Queue(MemoryStore(FakeClock())), Ledger(str(tmp_path))
    queue.put([Task(id="0001", title="one")])
    ledger.enter("0001", "snake", {"usd": 5.0}, 1.0, queue.clock.now())
    queue.finish(queue.claim("snake")[0], Ask(question="tabs?"))
    answer_by_hand(queue, "0001", "yes", "me")
    assert first_reached(queue, ledger, [parse("$5/task")], "0001")


def test_a_need_that_nobody_has_yet_is_called_as_it_will_be(tmp_path):
    init(str(tmp_path), "pit")
    desk = ToolCalls(lambda: Queue.open(str(tmp_path)), "me")
    try:
        assert need_ids(desk.queue, ["7", "0007", "later"]) == ("0007", "later")
        assert desk.answer("add", {"title": "x", "needs": ["9"]})["missing_needs"] == ["0009"]
        with pytest.raises(Invalid, match="a/b"):
            need_ids(desk.queue, ["a/b"])
    finally:
        desk.close()


@pytest.mark.parametrize("said", ["no", " No\n", "stop"])
def test_a_no_to_what_a_task_costs_lets_nothing_go_on(tmp_path, said):
    root = str(tmp_path / "pit")
    init(root, "pit")
    queue = Queue.open(root)
    queue.put([Task(id="0001", title="one"), Task(id="0002", title="two")])
    for claim, question in zip(queue.claim("snake", count=2), (f"it has cost $5{GO_ON}", "tabs?"), strict=True):
        queue.finish(claim, Ask(question=question))
    with pytest.raises(Invalid, match="0001 still waits") as told:
        answer_by_hand(queue, "1", said, "me")
    assert "pit cancel 0001" in told.value.hint
    assert queue.card("0001").held
    assert answer_by_hand(queue, "2", said, "me") == ["0002"]  # of a question, no is an answer
    assert answer_by_hand(queue, "1", "use less", "me") == ["0001"]
    queue.close()


def test_what_is_to_land_is_done_by_nobodys_word_but_a_persons_who_says_so(tmp_path):
    init(str(tmp_path), "pit")
    queue = Queue.open(str(tmp_path))
    queue.put([Task(id="", title=land, extra={"land": land}) for land in ("merge", "none")])
    one, two = queue.claim("me", count=2)
    with pytest.raises(Conflict, match="done when its change has landed"):
        finish_by_hand(queue, one.task.id, one.fence)
    desk = ToolCalls(lambda: Queue.open(str(tmp_path)), one.fence)
    with pytest.raises(Conflict):
        desk.answer("done", {"id": one.task.id})
    desk.close()
    assert queue.card(one.task.id).state is State.CLAIMED
    finish_by_hand(queue, one.task.id, one.fence, check=False)
    finish_by_hand(queue, two.task.id, two.fence)
    assert {queue.card(claim.task.id).state for claim in (one, two)} == {State.DONE}
    queue.close()
