"""Agents that speak the Agent Client Protocol."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waits import PATIENCE, until
from workshop import pit_work

from taskpit.agents.acp import Client
from taskpit.task import State


@pytest.fixture
def agent(pit):
    fake = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fakes", "acp.py")
    return f"acp:{sys.executable} {fake}"


def read(pit, name):
    with open(f"{pit.root}/{name}", encoding="utf-8") as file:
        return file.read().split()


def test_a_task_by_the_protocol(pit, agent):
    (task,) = pit.put("good: a task")
    code, reply = pit_work(pit, "--agent", agent, "--until", "empty")
    assert (code, reply["data"]["ended"]) == (0, {"done": 1})
    result = pit.card(task).result
    assert result.output.startswith("All is well")
    assert (result.cost["session"], result.cost["tools"], result.cost["diffs"]) == ("sess-1", 1, 1)
    assert read(pit, "permission") == ["yes"]
    assert read(pit, "refused") == ["-32601"]
    assert not os.listdir(f"{pit.root}/.taskpit/runs")


def test_what_is_no_success_and_what_is_a_limit(pit, agent):
    (failed,) = pit.put("fails: a task", max_attempts=1)
    assert pit_work(pit, "--agent", agent, "--until", "empty")[1]["data"]["ended"] == {"failed": 1}
    assert "it says that it failed" in pit.card(failed).result.reason
    (limited,) = pit.put("limit: a task")
    pool = pit.start("--agent", agent)
    until(lambda: "rests until" in pit.said())
    pool.terminate()
    pool.wait(PATIENCE)
    assert pit.card(limited).task.attempts == 0


def test_a_red_check_goes_back_into_the_session(pit, agent):
    (task,) = pit.put("good: a task", check="test -s loaded")
    assert pit_work(pit, "--agent", agent, "--until", "empty")[0] == 0
    assert pit.card(task).state is State.DONE
    assert read(pit, "loaded") == ["sess-1"]
    assert "What went wrong before" in pit.calls()[1]["prompt"]


def test_it_is_told_in_the_same_session(pit, agent):
    (task,) = pit.put("steered: a task")
    pool = pit.start("--agent", agent, "--until", "empty")
    until(lambda: os.path.exists(f"{pit.root}/going"))
    argv = [sys.executable, "-m", "taskpit", "-C", pit.root, "--json", "tell", task, "mind the gap"]
    reply = json.loads(subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout)
    assert reply["data"]["way"] == "acp"
    with open(f"{pit.root}/go", "w", encoding="ascii"):
        pass
    assert pool.wait(PATIENCE) == 0
    assert "mind the gap" in pit.calls()[1]["prompt"]
    assert pit.card(task).state is State.DONE


def test_a_denied_tool():
    client = Client("/w", "do", permissions="deny")
    client.begin()
    options = [{"optionId": "a", "kind": "allow_always"}, {"optionId": "r", "kind": "reject_once"}]
    ask = {"id": 7, "method": "session/request_permission", "params": {"options": options}}
    assert json.loads(client.hear([json.dumps(ask).encode()]))["result"]["outcome"]["optionId"] == "r"
    ask["params"] = {"options": options[:1]}
    assert json.loads(client.hear([json.dumps(ask).encode()]))["result"]["outcome"] == {"outcome": "cancelled"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "method", "params", "result", "error", "options", "kind", "sessionId", "stopReason"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.lists(JSON, max_size=6), st.binary(max_size=50))
def test_whatever_an_agent_says_the_client_answers_in_lines_of_json(said, noise):
    client = Client("/w", "do")
    client.begin()
    for line in client.hear([*(json.dumps(one).encode() for one in said), noise]).splitlines():
        assert json.loads(line)["jsonrpc"] == "2.0"
