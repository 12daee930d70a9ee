"""Whole lives of tasks over the protocol: every way to connect, old and new clients, every layout."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading

import mcp_types
import pytest
import workitems
from mcp import Client, ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from talks import PIT, refused, talk, told
from waits import PATIENCE

from taskpit import fs
from taskpit.clock import Clock
from taskpit.mcp.server import QueueServer
from taskpit.mcp.tools import ToolCalls
from taskpit.model import State, Task
from taskpit.queue import Queue
from taskpit.store.opening import init

MODERN, OLD = {"mode": "2026-07-28"}, {"mode": "legacy"}


async def life(client):
    """Add, claim, renew, done; what the task is in the end."""
    added = await told(client, "add", title="a small thing", body="do it", check="true", worker="ann")
    task_id = added["id"]
    assert added["created"] is True
    assert [one["id"] for one in (await told(client, "list"))["tasks"]] == [task_id]
    claimed = await told(client, "claim", worker="w1", lease_seconds=60)
    assert (claimed["task"]["id"], claimed["worker"], claimed["lease_seconds"]) == (task_id, "w1", 60)
    assert claimed["task"]["body"] == "do it"
    renewed = await told(client, "renew", id=task_id, worker="w1", lease_seconds=120)
    assert renewed == {"id": task_id, "lease_seconds": 120, "stop": False}
    done = await told(client, "done", id=task_id, worker="w1", result="it is done")
    assert (done["id"], done["state"], done["check"]["exit_code"]) == (task_id, "done", 0)
    assert (await told(client, "done", id=task_id, worker="w1"))["already"] is True
    return await told(client, "show", id=task_id)


@pytest.mark.parametrize("target", ["process", "stdio", "http"], indirect=True)
def test_a_whole_life(target, queue):
    shown = talk(target, life)

    assert (shown["state"], shown["result"]["output"].strip()) == ("done", "it is done")
    assert queue.card(shown["id"]).result.worker == "w1"


def test_a_client_of_the_old_protocol(root, serve):
    assert talk(serve(root).protocol, life, **OLD)["state"] == "done"


def test_a_client_that_lost_patience_with_the_new_protocol_begins_by_the_old_one(root, queue):
    queue.put([Task(id="", title="a small thing")])

    async def run():
        server = StdioServerParameters(command=PIT, args=["-C", root, "mcp"])
        async with stdio_client(server) as pipes, ClientSession(*pipes) as session:
            with contextlib.suppress(MCPError):  # on a busy machine its patience is really at an end
                await session.send_discover(MODERN["mode"])
            await session.initialize()
            return (await session.call_tool("list", {})).structured_content

    assert [one["title"] for one in asyncio.run(run())["tasks"]] == ["a small thing"]


def test_an_old_client_over_http(http):
    assert talk(http, life, **OLD)["state"] == "done"


@pytest.mark.parametrize("layout", ["mailbox", "workspace"])
def test_every_layout_has_the_same_verbs(tmp_path, serve, layout):
    place = str(tmp_path / layout)
    init(place, layout)

    assert talk(serve(place).protocol, life, **MODERN)["state"] == "done"


def test_an_activity_is_a_task_too(tmp_path, serve):
    place = str(tmp_path / "work")
    items = workitems.make(place, Clock())
    workitems.put(items, "an item", parent="")
    workitems.put(items, "a small thing")

    async def work(client):
        claimed = await told(client, "claim", worker="w1")
        task_id = claimed["task"]["id"]
        await told(client, "renew", id=task_id, worker="w1")
        return task_id, await told(client, "give_back", id=task_id, worker="w1", how="release")

    task_id, after = talk(serve(place).protocol, work, **MODERN)
    assert after == {"id": task_id, "state": "ready"}


def test_the_old_protocol_line_by_line(root):
    """As a client writes it that knows nothing of us: JSON lines, the handshake of 2025-06-18."""
    with subprocess.Popen(
        [PIT, "-C", root, "mcp", "--as", "old"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def say(method, number=None, **params):
            message = {"jsonrpc": "2.0", "method": method, "params": params}
            process.stdin.write(json.dumps(message | ({"id": number} if number else {})) + "\n")
            process.stdin.flush()

        heard = []

        def hear(wanted):
            """The first message like that, also one that came before an answer we waited for."""
            while True:
                for message in heard:
                    if wanted(message):
                        heard.remove(message)
                        return message
                heard.append(json.loads(process.stdout.readline()))

        def ask(method, number, **params):
            say(method, number, **params)
            return hear(lambda message: message.get("id") == number)["result"]

        client = {"name": "old", "version": "1"}
        hello = ask("initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        assert hello["protocolVersion"] == "2025-06-18"
        assert hello["serverInfo"]["name"] == "taskpit"
        assert hello["capabilities"]["resources"]["subscribe"] is True
        say("notifications/initialized")
        assert len(ask("tools/list", 2)["tools"]) == 8
        ask("resources/subscribe", 3, uri="pit://task/0001")
        added = ask("tools/call", 4, name="add", arguments={"title": "x"})
        assert added["structuredContent"] == {"id": "0001", "created": True}
        assert hear(lambda message: message.get("method") == "notifications/resources/updated")["params"] == {
            "uri": "pit://task/0001"
        }
        claimed = ask("tools/call", 5, name="claim", arguments={})  # the server speaks for `old`
        assert claimed["structuredContent"]["worker"] == "old"
        ask("resources/unsubscribe", 6, uri="pit://task/0001")
        done = ask("tools/call", 7, name="done", arguments={"id": "1"})
        assert done["structuredContent"]["state"] == "done"
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_two_clients_race_for_one_task(root, serve, queue, monkeypatch):
    """Both have seen it ready and are about to take it; then both go on."""
    both = threading.Barrier(2)
    stood = set()

    def stop(call, path):
        if call == "open" and "/food/food-0001" in path and threading.get_ident() not in stood:
            stood.add(threading.get_ident())
            both.wait(PATIENCE)

    async def race():
        async with Client(serve(root).protocol) as one, Client(serve(root).protocol) as two:
            await told(one, "add", title="only one of it")
            fs.set_hook(stop)
            try:
                return await asyncio.gather(
                    one.call_tool("claim", {"worker": "w1", "id": "0001"}),
                    two.call_tool("claim", {"worker": "w2", "id": "0001"}),
                )
            finally:
                fs.set_hook(None)

    answers = asyncio.run(race())

    assert len(stood) == 2
    assert sorted(answer.is_error for answer in answers) == [False, True]
    winner = queue.card("0001").worker
    (won,) = [answer.structured_content["worker"] for answer in answers if not answer.is_error]
    (lost,) = [answer.content[0].text for answer in answers if answer.is_error]
    assert won == winner
    assert lost.startswith(f"lost: 0001 is claimed by {winner},")
    assert "\nNext: " in lost


def test_nobody_is_kept_waiting_by_a_check(root, serve):
    """While one call's check runs, others are answered."""

    async def work(client):
        task_id = (await told(client, "add", title="slow", check=f"while ! [ -e '{root}/go' ]; do sleep 0.05; done"))[
            "id"
        ]
        await told(client, "claim", worker="w1", id=task_id)
        finishing = asyncio.ensure_future(told(client, "done", id=task_id, worker="w1"))
        await told(client, "renew", id=task_id, worker="w1")
        await told(client, "add", title="meanwhile")
        assert not finishing.done()
        os.mknod(f"{root}/go")
        return await finishing

    assert talk(serve(root).protocol, work, **MODERN)["state"] == "done"


def test_several_may_wait_for_a_task(root, queue):
    """Only one may wait for an open queue: each call that waits has its own, and closes it."""
    opened, closed = [], []

    class Counted(Queue):
        def close(self):
            closed.append(self)
            super().close()

    def open_queue():
        opened.append(Counted.open(root))
        return opened[-1]

    desk = ToolCalls(open_queue)

    async def work(client):
        waiting = [asyncio.ensure_future(told(client, "claim", worker=name, wait_seconds=50)) for name in ("w1", "w2")]
        for title in ("one", "two"):
            await told(client, "add", title=title)
        return {(await one)["task"]["title"] for one in waiting}

    assert talk(QueueServer(desk).protocol, work, **MODERN) == {"one", "two"}
    assert queue.store.counts()[State.CLAIMED] == 2
    assert len(opened) == 3
    assert set(closed) == set(opened[1:])
    desk.close()


def test_a_number_is_an_id_too(root, serve):
    async def work(client):
        await told(client, "add", title="x")
        return await told(client, "show", id=1)

    assert talk(serve(root).protocol, work, **MODERN)["id"] == "0001"


def test_nothing_is_remembered_about_a_connection(root, serve, http):
    """One client begins, others go on, over other connections and servers."""
    task_id = talk(serve(root).protocol, lambda client: told(client, "add", title="handed on"), **MODERN)["id"]
    talk(http, lambda client: told(client, "claim", worker="w1"))
    talk(serve(root).protocol, lambda client: told(client, "renew", id=task_id, worker="w1"), **MODERN)

    assert talk(http, lambda client: told(client, "done", id=task_id, worker="w1"))["state"] == "done"


@pytest.mark.parametrize("target", ["stdio", "http"], indirect=True)
def test_changes_are_told(target, queue):
    """Somebody else changes the queue; whoever listens learns of it."""

    async def listen(client):
        heard = []
        board = client.listen(resource_subscriptions=["pit://board", "pit://task/0001"], resources_list_changed=True)
        async with board as events:
            await asyncio.to_thread(_put, queue)
            async for event in events:
                heard.append(event)
                if len(set(map(str, heard))) == 3:
                    return {getattr(event, "uri", "list") for event in heard}
        return None

    assert talk(target, listen) == {"pit://board", "pit://task/0001", "list"}


def _put(queue):
    queue.put([Task(id="", title="new")])


def test_the_board_and_the_tasks_can_be_read(root, serve):
    async def read(client):
        await told(client, "add", title="one")
        await told(client, "add", title="two", needs=["1"])
        await told(client, "claim", worker="w1")
        listed = [str(one.uri) for one in (await client.list_resources()).resources]
        board = (await client.read_resource("pit://board")).contents[0]
        task = (await client.read_resource("pit://task/0002")).contents[0]
        return listed, board, task

    listed, board, task = talk(serve(root).protocol, read, **MODERN)
    assert listed == ["pit://board", "pit://task/0001", "pit://task/0002"]
    assert "- 0001 one (w1, last sign" in board.text
    assert "- 0002 two (" in board.text
    assert (board.mime_type, task.mime_type) == ("text/markdown", "text/markdown")
    assert task.text.startswith("# two\n")
    assert "needs: 0001" in task.text


@pytest.mark.parametrize(
    "uri", ["pit://task/0099", "pit://nonsense", "pit://task/../../etc/passwd", "file:///etc/passwd"]
)
def test_there_is_no_such_resource(root, serve, uri):
    async def read(client):
        with pytest.raises(Exception, match=r"there is no (task|resource)") as caught:
            await client.read_resource(uri)
        return caught.value.error.code

    assert talk(serve(root).protocol, read, **MODERN) == mcp_types.INVALID_PARAMS


def test_the_prompts(root, serve):
    async def read(client):
        await told(client, "add", title="a large thing", body="everything")
        names = {one.name: [word.name for word in one.arguments] for one in (await client.list_prompts()).prompts}
        work = await client.get_prompt("work", {"worker": "w7"})
        split = await client.get_prompt("split", {"id": "1"})
        with pytest.raises(Exception, match="say which task"):
            await client.get_prompt("split", {})
        return names, work.messages[0].content.text, split.messages[0].content.text

    names, work, split = talk(serve(root).protocol, read, **MODERN)
    assert names == {"work": ["worker"], "split": ["id", "worker"]}
    assert "`w7`" in work
    assert "# a large thing" in split
    assert "everything" in split


def test_a_split_with_an_order(root, serve, queue):
    parts = [{"title": "design"}, {"title": "build", "after": [0], "check": "make"}, {"title": "ship", "after": [0, 1]}]

    async def work(client):
        await told(client, "add", title="a large thing")
        await told(client, "claim", worker="w1")
        late = [{"title": "a", "after": [1]}, {"title": "b"}]
        why = await refused(client, "give_back", id="0001", worker="w1", how="split", parts=late)
        assert "part 0 comes after one that is not earlier" in why
        return await told(client, "give_back", id="0001", worker="w1", how="split", parts=parts, wait=False)

    after = talk(serve(root).protocol, work, **MODERN)
    design, build, ship = after["children"]
    assert after["state"] == "done"
    assert queue.card(build).task.needs == (design,)
    assert queue.card(ship).task.needs == (design, build)
    assert queue.card(build).task.check == "make"
    assert [queue.card(child).task.parent for child in after["children"]] == ["0001"] * 3


def test_what_needs_a_task_waits_for_the_parts_of_it(root, serve):
    """As on the command line: it was done at once, and what needed it began before any part was done."""

    async def work(client):
        await told(client, "add", title="build")
        await told(client, "add", title="ship", needs=["1"])
        await told(client, "claim", worker="w1")
        after = await told(client, "give_back", id="1", worker="w1", how="split", parts=[{"title": "a part"}])
        return after, [one["title"] for one in (await told(client, "list"))["tasks"]]

    after, ready = talk(serve(root).protocol, work, **MODERN)
    assert (after["state"], ready) == ("ready", ["a part"])


def test_a_need_is_the_id_that_was_said(root, serve, queue):
    """Not another one that begins so: nobody has put it yet."""

    async def work(client):
        await told(client, "add", title="ten", id="auth.10")
        return await told(client, "add", title="uses one", id="user", needs=["auth.1", "1"])

    assert talk(serve(root).protocol, work, **MODERN)["missing_needs"] == ["auth.1", "0001"]
    assert queue.card("user").task.needs == ("auth.1", "0001")


def test_half_a_letter_is_read_as_a_question_mark(tmp_path):
    """It killed the server on standard output, and the claim with it."""
    place = tmp_path / "box"
    init(str(place), "mailbox")
    (place / "inbox" / "half.json").write_text('{"id": "half", "title": "half \\ud800", "description": "\\udfff"}')

    async def work(client):
        listed = [one.title for one in (await client.list_resources()).resources]
        texts = [(await client.read_resource(f"pit://{name}")).contents[0].text for name in ("board", "task/half")]
        split = (await client.get_prompt("split", {"id": "half"})).messages[0].content.text
        return await told(client, "claim", worker="w1"), listed, [*texts, split]

    server = StdioServerParameters(command=PIT, args=["-C", str(place), "mcp"])
    claimed, listed, texts = talk(server, lambda client: asyncio.wait_for(work(client), PATIENCE))
    assert claimed["task"]["title"] == "half ?"
    assert listed == [None, "half ?"]
    assert all("half ?" in text for text in texts)


def test_a_whole_number_may_be_written_as_any_number(root, serve, queue):
    """JSON knows no other; one was put, answered as added, and set aside as unreadable."""

    async def work(client):
        added = await told(client, "add", title="five", priority=5.0)
        why = await refused(client, "add", title="beyond", priority=10**20)
        await told(client, "claim", worker="w1", id=added["id"])
        parts = [{"title": "a", "priority": 3.0}, {"title": "b", "after": [0.0]}]
        huge = [{"title": "a"}, {"title": "b", "priority": 10**20}]
        assert "priority" in await refused(client, "give_back", id="1", worker="w1", how="split", parts=huge)
        return why, await told(client, "give_back", id="1", worker="w1", how="split", parts=parts)

    why, after = talk(serve(root).protocol, work, **MODERN)
    assert why.startswith("invalid: the priority is none that a task can have")
    assert queue.card("0001").task.priority == 5
    one, two = (queue.card(child).task for child in after["children"])
    assert (one.priority, two.needs) == (3, (one.id,))
    assert sum(queue.store.counts().values()) == 3


def test_asking_a_person(root, serve, queue):
    async def work(client):
        await told(client, "add", title="undecided")
        await told(client, "claim", worker="w1")
        await told(client, "note", id="1", worker="w1", text="looked around")
        return await told(client, "note", id="1", worker="w1", text="Which one?", ask=True)

    asked = talk(serve(root).protocol, work, **MODERN)
    assert "Which one?" in asked["held"]
    assert "looked around" in queue.card("0001").notes
    queue.answer("0001", "the second", "ann")

    again = talk(serve(root).protocol, lambda client: told(client, "claim", worker="w2"), **MODERN)
    assert "the second" in again["task"]["body"]


#: An agent that knows no more of the protocol than its lines.
IN_A_RUN = """
import json, os, subprocess, sys
words = {"id": os.environ["TASKPIT_TASK"], "worker": os.environ["TASKPIT_AS"]}
words |= {"result": "it is done", "cwd": sys.argv[2]}
hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
lines = [
    {"id": 1, "method": "initialize", "params": hello},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "done", "arguments": words}},
]
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
with subprocess.Popen([sys.argv[1], "-C", os.environ["TASKPIT_DIR"], "mcp"], **pipes) as server:
    for line in lines:
        print(json.dumps({"jsonrpc": "2.0", **line}), file=server.stdin, flush=True)
    while json.loads(server.stdout.readline()).get("id") != 2:
        pass
"""


@pytest.mark.parametrize("check", ["true", "test -e forged"], ids=["green", "red where the pool looks"])
def test_done_inside_a_run_hands_in_and_the_pool_checks(check, root, queue, tmp_path):
    """It ended the claim itself, by a check in whatever folder the agent named."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "forged").touch()
    ((task_id, _),) = queue.put([Task(id="", title="x", check=check, max_attempts=1)])
    script = [sys.executable, "-c", IN_A_RUN, PIT, str(tmp_path / "mine")]
    words = [PIT, "-C", root, "work", "--max-tasks", "1", "--", *script]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    card = queue.card(task_id)
    assert card.state is (State.DONE if check == "true" else State.FAILED), ran.stdout + ran.stderr
    assert card.result.evidence.green is (check == "true")
    if check == "true":
        assert (card.result.output.strip(), card.checked) == ("it is done", "yes")
