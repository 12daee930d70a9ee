"""What holds for every name and every text, found out by trying many."""

from __future__ import annotations

import string

from hypothesis import given, settings
from hypothesis import strategies as st
from rotation import examples

from taskpit.errors import Invalid
from taskpit.layouts import Spot, get
from taskpit.model import Evidence, Result, State, Task, Verdict
from taskpit.queue import Queue
from taskpit.store.memory import MemoryStore

PIT = get("pit")
QUEUE = Queue(MemoryStore())
SPOT = Spot(state=State.READY, id="0001", slug="x", path="food/food-0001-x.md")

few = settings(max_examples=examples(150, 6), deadline=None)


def accepted(check, text):
    try:
        return check(text) == text
    except Invalid:
        return False


ALNUM = string.ascii_letters + string.digits
ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._]{0,20}", fullmatch=True).filter(lambda text: accepted(PIT.check_id, text))
workers = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_@+-]{0,20}(~[a-z0-9]{1,6})?", fullmatch=True)
slugs = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,30}[a-z0-9])?", fullmatch=True)
lines = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), max_size=60).map(
    lambda s: " ".join(s.split())
)
titles = lines.filter(bool)
words = st.lists(st.text(ALNUM + "._/*", min_size=1, max_size=10), max_size=3, unique=True).map(tuple)
bodies = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\x00\r"), max_size=200)
times = st.one_of(st.just(0.0), st.integers(1, 4_000_000_000).map(float))
#: Any text, and text that is likely to be mistaken for something.
texts = st.one_of(
    st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\x00"), max_size=200),
    st.lists(
        st.sampled_from(
            [
                "# food-0001-x",
                "# A heading",
                "- **task:** do it",
                "- **task:**",
                "- **priority:** 5  # high",
                "- **tags:** a, b",
                "- **mood:** fine",
                "  and more",
                "",
                "plain",
                "<!-- body -->",
                "<!-- taskpit:task -->",
                "<!-- taskpit:output -->",
                " <!-- taskpit:output -->",
                "## Output",
                "## Task",
                "```",
                "\r",
                "\t# x",
            ]
        ),
        max_size=12,
    ).map("\n".join),
)


@st.composite
def tasks(draw):
    """Tasks that a queue lets in."""
    task = Task(
        id="0001",
        slug="x",
        title=draw(titles),
        body=draw(bodies),
        priority=draw(st.integers(-100, 100)),
        needs=draw(st.lists(ids.filter(lambda i: not i.startswith("food")), max_size=2, unique=True).map(tuple)),
        check=draw(st.one_of(st.just(""), titles)),
        attempts=(spent := draw(st.integers(0, 3))),
        max_attempts=draw(st.integers(3, 9)) if spent else draw(st.integers(0, 9)),
        tags=draw(words),
        touches=draw(words),
        parent=draw(st.one_of(st.just(""), ids.filter(lambda i: not i.startswith("food")))),
        not_before=draw(times),
        hold=draw(lines),
        big=draw(st.booleans()),
        by=draw(st.text(ALNUM + "@-_", max_size=12)),
        created=draw(times),
    )
    try:
        QUEUE.check(task)
    except Invalid:
        return task.replace(title="x", check="", hold="", body="")
    return task


def stripped(task):
    return task.replace(source=b"", body=task.body.strip("\r\n"))


@few
@given(ids, slugs)
def test_a_ready_name_reads_back(task_id, slug):
    task = Task(id=task_id, title="x", slug=slug)
    folder, _, file = PIT.ready_path(task).partition("/")
    spot = PIT.spot(folder, file)
    assert (spot.state, spot.id, spot.slug, spot.path) == (State.READY, task_id, slug, f"{folder}/{file}")


@few
@given(ids, slugs, workers)
def test_a_claimed_name_reads_back(task_id, slug, worker):
    PIT.check_worker(worker)
    folder, _, file = PIT.claimed_path(Task(id=task_id, title="x", slug=slug), worker).partition("/")
    spot = PIT.spot(folder, file)
    assert (spot.state, spot.id, spot.slug, spot.worker) == (State.CLAIMED, task_id, slug, worker)


@few
@given(ids, slugs, st.booleans())
def test_a_results_name_reads_back(task_id, slug, big):
    folder, _, file = PIT.result_path(Task(id=task_id, title="x", slug=slug, big=big), Verdict.DONE).partition("/")
    spot = PIT.spot(folder, file)
    assert (spot.state, spot.id, spot.slug, spot.verdict) == (State.DONE, task_id, slug, Verdict.DONE)


@few
@given(st.sampled_from(["food", "claimed", "done"]), st.text(max_size=80))
def test_any_name_is_ours_or_not_or_says_why(folder, name):
    try:
        spot = PIT.spot(folder, name)
    except Invalid:
        return
    if spot is not None:
        assert spot.path == f"{folder}/{name}"
        assert PIT.check_id(spot.id) == spot.id


@settings(max_examples=examples(300, 6), deadline=None)
@given(tasks())
def test_a_task_reads_back(task):
    assert stripped(PIT.load(SPOT, PIT.dump(task))) == stripped(task)


@settings(max_examples=examples(300, 6), deadline=None)
@given(texts)
def test_any_text_is_written_back_as_it_was(text):
    data = text.encode()
    try:
        task = PIT.load(SPOT, data)
    except Invalid:
        return
    assert PIT.dump(task) == (data or PIT.dump(task))


CHANGES = st.sampled_from(
    [
        ("priority", "priority", 77),
        ("hold", "hold", "wait for Ann"),
        ("tags", "tags", ("one", "two")),
        ("needs", "needs", ("0009",)),
        ("by", "tossed-by", "somebody"),
        ("check", "done-when", "make test"),
    ]
)


@settings(max_examples=examples(300, 6), deadline=None)
@given(texts, CHANGES)
def test_a_change_changes_its_own_bullet_only(text, change):
    field, bullet, value = change
    try:
        task = PIT.load(SPOT, text.encode())
    except Invalid:
        return
    changed = PIT.dump(task.replace(**{field: value}))
    again = PIT.load(SPOT, changed)
    assert getattr(again, field) == value
    assert stripped(again.replace(**{field: getattr(task, field)})).replace(extra={}) == stripped(task).replace(
        extra={}
    )
    if task.source:
        before = text.split("\n")
        after = changed.decode().split("\n")
        assert [line for line in after if f"**{bullet}:**" not in line.lower()] == [
            line for line in before if f"**{bullet}:**" not in line.lower()
        ] or any(line.startswith((" ", "\t")) for line in before)


@settings(max_examples=examples(300, 6), deadline=None)
@given(tasks(), texts, texts, st.integers(-1, 255), st.sampled_from(list(Verdict)), lines)
def test_a_result_reads_back_whatever_it_says(task, output, tail, code, verdict, reason):
    evidence = Evidence(command=task.check or "make", exit_code=code, seconds=1.5, tail=tail)
    result = Result(
        id="0001",
        verdict=verdict,
        output=output.replace("\r", ""),
        reason=reason,
        worker="snake-2~k3f9",
        attempt=3,
        finished=1_780_000_000.0,
        seconds=2.25,
        evidence=evidence.replace(tail=tail.replace("\r", "")),
        cost={"usd": 0.5, "words": "many"},
        children=("0002", "0003"),
        log="waste/snake-2.log",
    )
    spot = Spot(state=verdict.state, id="0001", slug="x", verdict=Verdict.DONE)
    read, text = PIT.load_result(spot, PIT.dump_result(task, result))
    assert read == result
    assert stripped(text) == stripped(task)
