"""What goes wrong is said with the next step, and changes nothing. What is not allowed does not get in."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
import pytest
from talks import PIT, refused, talk, told
from waits import PATIENCE, until

from taskpit.cli.main import main
from taskpit.errors import NotFound
from taskpit.mcp.server import QueueServer
from taskpit.mcp.tools import TOOLS, ToolCalls
from taskpit.model import State, Task
from taskpit.queue import Queue

MODERN = {"mode": "2026-07-28"}
HELLO = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    }
)


@pytest.mark.parametrize(
    ("tool", "given", "why", "then"),
    [
        ("add", {}, "'title' is a required property", "`add` takes title, body?"),
        ("add", {"title": " "}, "title", ""),
        ("add", {"title": "x", "prio": 1}, "'prio' was unexpected", "priority?"),
        ("add", {"title": "x", "needs": ["a/b"]}, "a/b", ""),
        ("show", {"id": "99"}, "not_found: there is no task 99", "`list` shows what there is."),
        ("claim", {"id": "1"}, "'worker' is a required property", "`claim` takes worker"),
        ("claim", {"worker": "w.1"}, "w.1", ""),
        ("claim", {"worker": "w1", "wait_seconds": 3600}, "wait_seconds: 3600 is greater than the maximum of 50", ""),
        ("renew", {"id": "1", "worker": "w1"}, "lost: 0001 is ready, not claimed", "`claim 0001` takes it."),
        ("done", {"id": "1", "worker": "w1"}, "lost: 0001 is ready, not claimed", "`claim 0001` takes it."),
        ("give_back", {"id": "1", "worker": "w1", "how": "fail"}, "say what went wrong", "Give `reason`"),
        ("give_back", {"id": "1", "worker": "w1", "how": "split"}, "a split needs `parts`", "title"),
        ("give_back", {"id": "1", "worker": "w1", "how": "give up"}, "'give up' is not one of", "how"),
        ("note", {"id": "1", "worker": "w1", "text": " "}, "the note is empty", ""),
        ("note", {"id": "1", "worker": "a b\nc", "text": "x"}, "worker name 'a b\\nc' is not allowed", "letters"),
        ("list", {"state": "somewhere"}, "'somewhere' is not a state", "needs-you, ready, waiting, running"),
    ],
)
def test_a_refusal_says_what_to_do(root, serve, queue, tool, given, why, then):
    async def ask(client):
        await told(client, "add", title="the first")
        return await refused(client, tool, **given)

    answer = talk(serve(root).protocol, ask, **MODERN)

    assert why in answer
    assert then in answer
    assert queue.store.counts() == {State.READY: 1, State.CLAIMED: 0, State.DONE: 0, State.FAILED: 0}


def test_a_red_check_keeps_the_task_yours(root, serve, queue, tmp_path):
    async def work(client):
        await told(client, "add", title="x", check="echo what is wrong; test -e fixed")
        await told(client, "claim", worker="w1")
        assert "there is no folder" in await refused(client, "done", id="1", worker="w1", cwd=f"{root}/nowhere")
        why = await refused(client, "done", id="1", worker="w1", cwd=str(tmp_path))
        (tmp_path / "fixed").touch()
        return why, await told(client, "done", id="1", worker="w1", cwd=str(tmp_path))

    why, done = talk(serve(root).protocol, work, **MODERN)
    assert why.startswith("check_failed: the check of 0001 is red")
    assert "fix it and repeat, or `give_back` with how=fail and the reason." in why
    assert why.endswith("what is wrong")
    assert done["state"] == "done"


def test_hints_name_what_an_agent_has(root, serve):
    """`list --state running` and --wait are words of the command line."""

    async def work(client):
        await told(client, "add", title="x")
        await told(client, "claim", worker="w1")
        none = await told(client, "claim", worker="w2")
        running = await told(client, "list", state="running")
        return none["hint"], running, await told(client, "list", state="needs-you")

    hint, running, asks = talk(serve(root).protocol, work, **MODERN)
    assert hint == "1 running; `list` with state=running shows by whom, wait_seconds waits for more."
    assert [one["id"] for one in running["tasks"]] == ["0001"]
    assert asks["tasks"] == []


def test_what_nobody_thought_of_is_said_in_words(root, serve, monkeypatch):
    def broken(*_):
        raise KeyError("a slip of ours")

    monkeypatch.setattr(ToolCalls, "_show", broken)
    answer = talk(serve(root).protocol, lambda client: refused(client, "show", id="1"), **MODERN)
    assert answer.startswith("error: something unexpected happened: KeyError: 'a slip of ours'\nNext: ")


def test_what_a_superseded_worker_brings_is_kept_aside(root, serve, queue):
    async def work(client):
        await told(client, "add", title="x")
        await told(client, "claim", worker="w1")
        await told(client, "give_back", id="1", worker="w1", how="release")
        await told(client, "claim", worker="w2")
        why = await refused(client, "done", id="1", worker="w1", result="too late")
        await told(client, "done", id="1", worker="w2", result="in time")
        return why

    assert "kept aside" in talk(serve(root).protocol, work, **MODERN)
    card = queue.card("0001")
    assert card.result.output.strip() == "in time"
    assert len(card.late) == 1


def test_there_is_no_such_tool(root, serve):
    async def ask(client):
        with pytest.raises(Exception, match="there is no tool 'nonsense'; there are add, list"):
            await client.call_tool("nonsense", {})
        return True

    assert talk(serve(root).protocol, ask, **MODERN)


def test_the_tool_list_is_short(root, serve):
    """About 1,420 tokens: o200k_base (gpt-tokenizer 4.0.0) counted 1,416 when it was 17 bytes shorter.

    Three bytes a token is on the safe side of that.
    """

    async def ask(client):
        return (await client.list_tools()).tools

    tools = talk(serve(root).protocol, ask, **MODERN)
    listed = json.dumps([one.model_dump(by_alias=True, exclude_none=True) for one in tools], separators=(",", ":"))
    assert len(tools) <= 8
    assert len(listed.encode()) / 3 < 2000
    readers = {one.name for one in tools if one.annotations.read_only_hint}
    assert readers == {"list", "show"}
    assert all(one.annotations.destructive_hint is False for one in tools if one.name not in readers)
    assert all(one.output_schema["required"] for one in tools)


def test_the_documents_list_the_tools():
    page = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `(\w+)` \| (.*) \|$", page.partition("| tool |")[2].partition("\n\n")[0], re.MULTILINE)

    assert shown == [(row.name, row.about) for row in TOOLS]


def test_a_server_that_speaks_for_one_worker(root, serve):
    async def ask(client):
        await told(client, "add", title="x")
        mine = await told(client, "claim")
        return mine, [one.input_schema.get("required", []) for one in (await client.list_tools()).tools]

    mine, required = talk(serve(root, worker="w9").protocol, ask, **MODERN)
    assert mine["worker"] == "w9"
    assert not any("worker" in names for names in required)


# -- HTTP ------------------------------------------------------------------------------------------


@pytest.fixture
def ask(http):
    place = urlsplit(http)
    token = place.query.removeprefix("token=")

    def ask(method="POST", target="/mcp", body=HELLO, **headers):
        given = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        given |= {"authorization": f"Bearer {token}", "host": place.netloc}
        given |= {key.replace("_", "-"): value for key, value in headers.items()}
        connection = http_client(place.hostname, place.port)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for key, value in given.items():
                if value is not None:
                    connection.putheader(key, value)
            if "content-length" not in given:
                connection.putheader("content-length", str(len(body)))
            connection.endheaders(body.encode())
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())
        finally:
            connection.close()

    ask.token = token
    return ask


def http_client(host, port):
    return http.client.HTTPConnection(host, port, timeout=PATIENCE)


def test_attacks_over_http(ask, queue):
    status, body, headers = ask()
    assert (status, "serverInfo" in body) == (200, True)
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "server" not in headers
    attacks = {
        "wrong name": (421, {"host": "evil.example"}),
        "name that resolves to us": (421, {"host": "127.0.0.1.evil.example:80"}),
        "foreign page": (403, {"origin": "https://evil.example"}),
        "sandboxed page": (403, {"origin": "null"}),
        "page on another port": (403, {"origin": "http://127.0.0.1:1"}),
        "no token": (401, {"authorization": None}),
        "wrong token": (401, {"authorization": "Bearer " + "x" * 32}),
        "wrong token in the address": (401, {"authorization": None, "target": "/mcp?token=" + "x" * 32}),
        "large body": (413, {"content_length": str(5 * 1024 * 1024)}),
        "a read without a token": (401, {"method": "GET", "body": "", "authorization": None}),
    }
    found = {name: ask(**attack)[0] for name, (_, attack) in attacks.items()}
    assert found == {name: status for name, (status, _) in attacks.items()}
    add = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {"title": "x"}}}
    assert ask(body=json.dumps(add), origin="https://evil.example")[0] == 403
    assert sum(queue.store.counts().values()) == 0


def test_nobody_listens_elsewhere_by_mistake(root, capsys, monkeypatch):
    for words in (["--host", "0.0.0.0"], ["--host", "0.0.0.0", "--expose"]):
        assert main(["-C", root, "mcp", "--http", *words]) == 6
        assert "--expose" in capsys.readouterr().err
    monkeypatch.setenv("TASKPIT_TOKEN", "x" * 20)
    assert main(["-C", root, "mcp", "--http", "--host", "0.0.0.0"]) == 6
    assert "--expose" in capsys.readouterr().err
    monkeypatch.setenv("TASKPIT_TOKEN", "short")
    assert main(["-C", root, "mcp", "--http"]) == 6
    assert "16 or more" in capsys.readouterr().err
    assert main(["-C", root, "mcp", "--http", "--token", "x" * 20]) == 2  # every user can read a command line


def test_a_parent_tells_nothing_of_files(root, queue):
    """One that leads to a file and one that leads nowhere get the same answer, and nothing is added."""
    desk = ToolCalls(lambda: Queue.open(root), "me", root)
    told = set()
    for parent in ("../..", "../../../../etc/passwd", "../nowhere", "/etc", "x/../../y"):
        with pytest.raises(NotFound) as refused:
            desk.answer("add", {"title": "x", "parent": parent})
        told.add(refused.value.message.replace(parent, ""))
    assert len(told) == 1
    assert sum(queue.store.counts().values()) == 0
    desk.close()


def test_those_who_wait_for_work_keep_nobody_else_waiting(root, queue):
    """Forty-five calls wait for a task, more than there are threads to answer calls; all others go by."""
    desk = ToolCalls(lambda: Queue.open(root), "me", root)
    server = QueueServer(desk)
    waiting = {"worker": "w", "wait_seconds": 50}

    async def call(name, given):
        return await server._call_tool(None, types.CallToolRequestParams(name=name, arguments=given))

    async def scene():
        async with anyio.create_task_group() as group:
            for number in range(45):
                group.start_soon(call, "claim", {**waiting, "worker": f"w-{number}"})
            await anyio.lowlevel.checkpoint()
            await anyio.to_thread.run_sync(until, lambda: server._lines["claim"].borrowed_tokens == 45)
            assert not (await call("list", {})).is_error  # would come after all of them
            for number in range(45):
                await call("add", {"title": f"for {number}"})

    anyio.run(scene)
    assert queue.store.counts()[State.CLAIMED] == 45
    desk.close()


@pytest.fixture
def scene(root):
    """A server, and its calls as the protocol makes them: `await call(tool, given)`."""
    desk = ToolCalls(lambda: Queue.open(root), "me", root)
    server = QueueServer(desk)

    async def call(name, **given):
        return await server._call_tool(None, types.CallToolRequestParams(name=name, arguments=given))

    call.desk, call.lines = desk, server._lines
    yield call
    desk.close()


def test_a_claim_that_nobody_waits_for_takes_nothing(scene, queue):
    async def run():
        async with anyio.create_task_group() as group:
            group.start_soon(partial(scene, "claim", worker="w1", wait_seconds=50))
            await anyio.lowlevel.checkpoint()
            await anyio.to_thread.run_sync(until, lambda: scene.lines["claim"].borrowed_tokens == 1)
            group.cancel_scope.cancel()  # as the SDK does, when a request is cancelled or its client has gone
            queue.put([Task(id="", title="for somebody else")])

    anyio.run(run)
    assert queue.store.counts()[State.CLAIMED] == 0


@pytest.mark.parametrize("before", [False, True], ids=["free", "mine before"])
def test_a_claim_that_comes_too_late_is_given_back(before, scene, queue, monkeypatch):
    """The request is cancelled between the claim and its answer; what the worker had before is still its own."""
    queue.put([Task(id="", title="x")])
    if before:
        queue.claim("w1", verbatim=True)
    claim, calls = scene.desk.queue.claim, []

    async def run():
        with anyio.CancelScope() as scope:

            def late(*words, **given):
                calls.append(claim(*words, **given))
                anyio.from_thread.run_sync(scope.cancel)
                return calls[-1]

            monkeypatch.setattr(scene.desk.queue, "claim", late)
            await scene("claim", worker="w1", id="1")
            await anyio.lowlevel.checkpoint()

    anyio.run(run)
    assert len(calls[0]) == 1
    assert queue.card("0001").state is (State.CLAIMED if before else State.READY)


def test_a_done_that_was_called_off_publishes_nothing_and_a_second_waits_for_its_check(scene, queue, tmp_path):
    alone, go = tmp_path / "alone", tmp_path / "go"
    check = f"mkdir '{alone}' || exit 1; while ! [ -e '{go}' ]; do sleep 0.05; done; rmdir '{alone}'"
    queue.put([Task(id="", title="x", check=check)])
    queue.claim("w1", verbatim=True)
    seen = []

    async def run():
        async with anyio.create_task_group() as both, anyio.create_task_group() as first:
            first.start_soon(partial(scene, "done", id="1", worker="w1", result="the first"))
            await anyio.to_thread.run_sync(until, alone.exists)
            both.start_soon(second)
            await anyio.to_thread.run_sync(until, lambda: scene.lines["done"].borrowed_tokens == 2)
            first.cancel_scope.cancel()
            go.touch()

    async def second():
        seen.append(await scene("done", id="1", worker="w1", result="the second"))

    anyio.run(run)
    assert not seen[0].is_error, seen
    assert queue.card("0001").result.output.strip() == "the second"


def test_a_port_that_is_taken(root, http, capsys):
    assert main(["-C", root, "mcp", "--http", "--port", str(urlsplit(http).port)]) == 6
    assert "leave it out" in capsys.readouterr().err


def test_there_must_be_a_queue(tmp_path, capsys):
    assert main(["-C", str(tmp_path / "nowhere"), "mcp"]) == 8
    assert capsys.readouterr().out == ""


def test_what_is_missing_is_named(root, capsys, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp" or name.startswith("taskpit.mcp")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)

    assert main(["-C", root, "mcp", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "missing_extra"
    assert "pip install 'taskpit[mcp]'" in error["hint"]


# -- the inspector ---------------------------------------------------------------------------------


@pytest.mark.skipif(not os.environ.get("TASKPIT_LONG"), reason="fetches the inspector from npm: TASKPIT_LONG=1")
def test_the_inspector_lists_and_calls(root, tmp_path, queue):
    def inspect(*words):
        command = ["npx", "--yes", "@modelcontextprotocol/inspector", "--cli", PIT, "-C", root, "mcp", *words]
        env = {**os.environ, "npm_config_cache": str(tmp_path / "npm"), "HOME": os.path.expanduser("~")}
        ran = subprocess.run(command, capture_output=True, text=True, env=env, timeout=600, check=False)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    assert len(inspect("--method", "tools/list")["tools"]) == 8
    call = ("--method", "tools/call", "--tool-name", "add", "--tool-arg", "title=from the inspector")
    assert inspect(*call)["structuredContent"] == {"id": "0001", "created": True}
    assert queue.card("0001").task.title == "from the inspector"
