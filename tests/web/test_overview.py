"""Every queue of the user on one page, and each queue's own pages below it."""

from __future__ import annotations

import re
import shutil

from boards import AllServed, fill

from taskpit import trust
from taskpit.model import Ask


def key_of(queue):
    return trust.name_for(queue.store.info().where)[:12]


def asks(queue, question):
    fill(queue, 1)
    queue.finish(queue.claim("snake")[0], Ask(question=question))


def test_those_that_need_you_come_first_and_the_others_harm_nobody(five):
    asks(five["shop"], "blue or green?")
    fill(five["api"], 2)
    five["api"].claim("builder-1")
    with AllServed() as board:
        page = board.get("/").text
        order = re.findall(r'id="q-(\w+)"', page)
        assert order[:2] == [key_of(five["shop"]), key_of(five["api"])]
        assert len(order) == 6
        assert "blue or green?" in page
        assert "builder-1" in page
        assert "it leads to a database" in page
        assert "config.toml" in page  # what is wrong with the torn one
        assert re.search(r"6 queues.*1 needs you.*1 running", page, re.DOTALL)


def test_a_part_that_the_browser_has_is_not_sent_again(five):
    with AllServed() as board:
        seen = re.search(r'name="seen" value="(\w+)"', board.get("/queues").text)[1]
        assert board.get(f"/queues?seen={seen}").status == 204
        fill(five["docs"], 1)
        assert board.get(f"/queues?seen={seen}").status == 200


def test_a_page_and_an_action_lead_to_their_own_queue(five):
    asks(five["shop"], "blue or green?")
    asks(five["web"], "yes or no?")
    with AllServed() as board:
        root = f"/q/{key_of(five['shop'])}"
        page = board.get(f"{root}/task/0001").text
        assert f'action="{root}/task/0001/answer"' in page
        assert not re.search(r'(href|action|hx-get|hx-post)="/(?!q/|static/|")', page)
        answer = board.post(f"{root}/task/0001/answer", {"text": "green"})
        assert (answer.status, answer.headers["location"]) == (303, f"{root}/task/0001")
        assert board.get(f"{root}/columns").status == 200
        with board.listen(f"{root}/events") as listener:
            assert listener.event()[0] == "anew"
    assert "green" in five["shop"].card("0001").task.body
    assert five["web"].card("0001").held


def test_every_link_of_every_page_stays_in_its_queue(five):
    fill(five["api"], 1)
    fill(five["api"], 60, tags=("a",), needs=("0001",))
    with AllServed() as board:
        root = f"/q/{key_of(five['api'])}"
        for page in ("/", "/agents", "/report", "/plots", "/search?q=task", "/task/0002", "/task/none"):
            text = board.get(f"{root}{page}", accept="text/html").text
            assert root in text
            assert not re.search(r'(href|action|hx-get|hx-post|data-events)="/(?!q/|static/|")', text), page


def test_what_cannot_be_opened_is_told_and_what_is_none_is_not_found(five, tmp_path):
    with AllServed() as board:
        assert board.get("/q/0123456789ab/").status == 404
        assert board.get(f"/q/{key_of(five['torn'])}/", accept="text/html").status >= 400
        far = trust.name_for(str(tmp_path / "far" / "pit"))[:12]
        assert board.get(f"/q/{far}/", accept="text/html").status >= 400
        assert board.get("/q/../../etc/passwd").status == 404
        shutil.rmtree(tmp_path / "docs")
        assert len(re.findall(r'id="q-', board.get("/").text)) == 5


def test_a_folder_whose_commands_have_changed_is_marked(five, tmp_path, monkeypatch):
    monkeypatch.delenv(trust.VARIABLE, raising=False)
    config = tmp_path / "web" / "pit" / ".taskpit" / "config.toml"
    config.write_text('[hooks]\ndone = "touch gone"\n')
    with AllServed() as board:
        assert "not trusted: what it can start has changed" in board.get("/").text


def test_nobody_is_shown_anything_without_the_token(five):
    with AllServed(read_only=True) as board:
        for path in ("/", "/queues", f"/q/{key_of(five['api'])}/"):
            assert board.get(path, authorization="").status == 401
        assert board.get("/healthz", authorization="").status == 200
        fill(five["api"], 1)
        assert board.post(f"/q/{key_of(five['api'])}/task/0001/cancel").status == 403
