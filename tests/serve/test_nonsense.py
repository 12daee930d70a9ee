"""A gateway is another machine: what it answers is checked like what stands in a file, and is an error that says so."""

from __future__ import annotations

import msgspec
import pytest

from taskpit.errors import Invalid, Storage, TooLarge
from taskpit.model import Claim, End, Task, Want
from taskpit.store.http import wire

TASK = Task(id="0001", title="one")
WANT = Want(worker="w", lease=60.0)
CLAIM = Claim(task=TASK, worker="w", fence="w~1", lease=60.0)
OF_ANOTHER = {"task": {"id": "0002", "title": "two"}, "state": "ready"}


@pytest.fixture
def store(served):
    found = served.store()
    yield found
    found.close()


ANSWERS = {
    "put": (lambda store: store.put([TASK]), None, {}, "created", [], ["created"] * 2, ["well"]),
    "claim": (lambda store: store.claim(WANT), None, [5], [{"task": []}], [{"lease": "x"}]),
    "finish": (lambda store: store.finish([End(claim=CLAIM)]), [None], ["ok", "lost"], {"0001": "ok"}),
    "read": (lambda store: store.read(["0001"]), [], [OF_ANOTHER], [["0001"]], [None, None]),
    "counts": (lambda store: store.counts(), None, [], {"ready": "many"}, {"ready": 1.5}),
    "page": (lambda store: store.page(), None, [], {"cards": {}}, {"cards": [{"state": "lost"}]}),
    "latest": (lambda store: store.latest(3), None, [[]], [[], 5], [[], "", ""]),
    "pause": (lambda store: store.pause("x", 1.0, "w"), "done", {}, 0),
    "file": (lambda store: store.read_artifact("0001", "a.txt"), None, 5, "not base64!"),
    "locks": (lambda store: store.locks(), [{"name": "x", "number": "seven"}]),
}


@pytest.mark.parametrize("verb", ANSWERS)
def test_an_answer_that_means_nothing_is_told_as_that(verb, store, monkeypatch):
    call, *answers = ANSWERS[verb]
    for answer in answers:
        reply = wire.read_reply(wire.reply(answer))
        monkeypatch.setattr(store._line, "ask", lambda *_, reply=reply, **__: (reply, False))
        with pytest.raises(Storage, match="answers what no gateway of this version says: ") as told:
            call(store)
        assert told.value.hint == "Is it of another version?"
        assert len(told.value.message) < 400


@pytest.mark.parametrize(
    "change", [{"layout": "ravine"}, {"layout": 5}, {"largest_task": "huge"}, {"version": 1}, None]
)
def test_a_gateway_whose_first_words_mean_nothing_is_not_opened(change, served, monkeypatch):
    async def other(_):
        info = msgspec.to_builtins(served.queue.store.info())
        hello = {"version": wire.VERSION, "info": info, "config": {}, "now": 0.0}
        return change and {**hello, "info": {**info, **change}, **change}

    monkeypatch.setitem(served.gateway._special, "hello", other)
    with pytest.raises(Storage, match="answers what no gateway of this version says: "):
        served.store()


def test_what_is_too_large_to_be_sent_is_not_sent(store, monkeypatch):
    monkeypatch.setattr(store._line, "ask", lambda *_, **__: pytest.fail("it was sent"))
    with pytest.raises(TooLarge, match=r"takes .* bytes to send"):
        store.finish([End(claim=CLAIM, details="x" * wire.LARGEST_BODY)])
    with pytest.raises(TooLarge, match=r"the task is .* bytes"):
        store.vet([TASK.replace(body="x" * (store.info().largest_task + 1))])


@pytest.mark.parametrize("value", [object(), {1j}])
def test_what_json_has_no_word_for_is_refused_before_it_is_sent(value):
    with pytest.raises(Invalid, match="this cannot be written as JSON"):
        wire.encode({"value": value})


def test_letters_that_no_text_may_have_are_replaced():
    assert wire.encode({"a": "x\ud800y"}) == b'{"a":"x?y"}'
