"""What is said to an agent while it works, and what becomes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from waits import PATIENCE, until
from workshop import own, pit_work

from taskpit.model import State
from taskpit.run import steering

#: An agent that waits to be told, and remembers what it was told in its session.
PATIENT = """\
bin = "sh"
argv = ["sh", "-c", 'cat > first; touch going; until test -e told; do sleep 0.05; done; echo "session: abc"; echo done']
resume = ["sh", "-c", 'cat > "$0"; echo "and again"', "{session}"]
session = "ours"
"""


def tell(pit, task, text):
    argv = [sys.executable, "-m", "taskpit", "-C", pit.root, "--json", "tell", task, text]
    done = subprocess.run(argv, cwd=pit.root, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return done.returncode, json.loads(done.stdout)


def test_what_comes_too_late_for_the_run_goes_on_in_its_session(pit):
    own(pit, "patient", PATIENT)
    (task,) = pit.put("wait")
    process = pit.start("--agent", "patient", "--until", "empty")
    until(lambda: os.path.exists(f"{pit.root}/going"), process)
    code, reply = tell(pit, task, "mind the gap")
    assert (code, reply["data"]["way"]) == (0, "resume")
    with open(f"{pit.root}/told", "w", encoding="ascii"):
        pass
    assert process.wait(PATIENCE) == 0, pit.said()
    card = pit.card(task)
    assert (card.state, card.result.output) == (State.DONE, "and again")
    session = next(name for name in os.listdir(pit.root) if name.count("-") == 4)
    with open(f"{pit.root}/{session}", encoding="utf-8") as file:
        assert "mind the gap" in file.read()
    assert "told: mind the gap" in card.notes


def test_nobody_works_on_it_so_the_next_attempt_reads_it(pit):
    (task,) = pit.put("good: later")
    assert tell(pit, task, "mind the gap")[1]["data"]["way"] == "next attempt"
    assert pit_work(pit, "--agent", "claude", "--until", "empty")[0] == 0
    assert "mind the gap" in pit.calls()[0]["prompt"]
    code, reply = tell(pit, task, "too late")
    assert (code, "is finished" in reply["error"]["message"]) == (6, True)


def test_the_hook_says_it_once_and_in_the_agents_words(tmp_path):
    argv = [sys.executable, "-I", "-S", steering.__file__, str(tmp_path)]
    steering.offer(str(tmp_path), "hook")
    assert steering.way_of(str(tmp_path)) == "hook"
    steering.say_to(str(tmp_path), 'one "quoted"')
    steering.say_to(str(tmp_path), "two")
    said = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout)
    told = said["hookSpecificOutput"]
    assert told["hookEventName"] == "PostToolUse"
    assert 'one "quoted"\n\ntwo' in told["additionalContext"]
    assert subprocess.run(argv, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout == ""
    (tmp_path / "steer").write_text("rm -rf")
    assert steering.way_of(str(tmp_path)) == ""
