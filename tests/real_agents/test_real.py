"""Every preset as shipped, with the real CLI: what a run leads to, and what it leaves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import threading
import time

import pytest
import realagents
from standin import CACHED, INPUT, OUTPUT, SHELLS, TIMES, Call, Cut, Refuse, Say, Shell, Write
from waits import until
from workshop import alive

import taskpit
from taskpit.model import State
from taskpit.run import usage


def test_there_is_no_network_but_loopback():
    with open("/proc/net/dev", encoding="ascii") as file:
        assert [line.split(":")[0].strip() for line in file.readlines()[2:]] == ["lo"]
    with pytest.raises(OSError, match="unreachable"):
        socket.create_connection(("192.0.2.1", 80), timeout=5).close()


def is_toolless(bench):
    """It edits by what it says, and runs nothing."""
    return bench.agent == "aider"


#: What runs as long as a step does not come to an end.
ENDLESS = "tail -f /dev/null"


def hangs(bench):
    """A step that does not come to an end: of a command, or of the model's where there are no commands."""
    if not is_toolless(bench):
        return Shell(f"timeout 301 {ENDLESS}")

    def step(_heard):
        bench.model.closing.wait(301)
        return Say("All done.")

    return step


def test_works(bench, record_property):
    """edits, runs commands, calls pit and leaves a result file; the prompt arrives as it was written."""
    if is_toolless(bench):
        record_property("but", "it runs no command")
        bench.model.scripts["fix"] = [Write("hello.txt", "hello")]
        task = bench.put("fix")
        bench.work()
        assert bench.card(task).state is State.DONE, bench.said()
        said = bench.card(task).result.output
        assert said.startswith("hello.txt")
        assert "Tokens:" not in said
        with open(f"{bench.repo}/hello.txt", encoding="utf-8") as file:
            assert file.read() == "hello\n"
        assert 'Mind "quotes", `code` and $HOME.\n' in bench.model.of("fix")[0].text
        assert bench.git("status", "--porcelain", "--ignored").split() == ["AM", "hello.txt", "!!", "pit/"]
        return
    fix = bench.model.scripts["fix"] = [
        Write(f"{bench.repo}/hello.txt", "hello"),
        Shell("grep hello hello.txt && pit --version && pit list --json > /dev/null && echo seen by $TASKPIT_TASK"),
        Shell('echo "token:$TASKPIT_TOKEN:"'),
        lambda heard: Write(f"{run_dir(heard)}/result.md", "# Found\n\nAll is well."),
        Say("I wrote hello.txt."),
    ]
    task = bench.put("fix")
    bench.work()
    card = bench.card(task)
    assert card.state is State.DONE, bench.said()
    assert card.result.output == "# Found\n\nAll is well."
    with open(f"{bench.repo}/hello.txt", encoding="utf-8") as file:
        assert file.read() == "hello"
    heard = bench.model.of("fix")
    assert len(heard) == len(fix)
    assert f"seen by {task}" in heard[2].text
    assert "token::" in heard[3].text
    assert 'Mind "quotes", `code` and $HOME.\n' in heard[0].text
    assert not os.listdir(f"{bench.pit}/.taskpit/runs")


def run_dir(heard):
    """Where the result file is to be, as the prompt says."""
    return heard.text.split("write what you did and found to `")[-1].split("/result.md`")[0]


def test_cost(bench):
    """tells model, session, tokens, turns; dollars by itself or by the price table."""
    requests = 1 if is_toolless(bench) else 2
    bench.model.scripts["cost"] = [Shell("true"), Say("Done.")][-requests:]
    task = bench.put("cost")
    bench.work("--budget", "$1/day")
    cost = bench.card(task).result.cost
    name = realagents.MODELS[bench.agent].rpartition("/")[2]
    assert cost["agent"] == bench.agent
    assert cost["model"].startswith(name) or cost["model"].endswith(name)
    assert is_toolless(bench) or cost["session"]
    assert cost["output_tokens"] == requests * OUTPUT
    assert cost["input_tokens"] == requests * INPUT
    assert cost["usd"] > 0
    if "usd" not in bench_preset(bench).take:
        known = usage.load(usage.files())
        cached = requests * CACHED if "cached_tokens" in bench_preset(bench).take else 0
        facts = {"input_tokens": requests * INPUT, "output_tokens": requests * OUTPUT, "cached_tokens": cached}
        assert cost["usd"] == pytest.approx(known.dollars(name, facts))


def bench_preset(bench):
    from taskpit.run.preset import find, places

    return find(bench.agent, places(bench.pit))


def test_budget(bench):
    """a budget of a dollar ends the work within one task of it."""
    TIMES[0] = 5000  # each answer is five million tokens: more than a dollar with every model
    bench.model.scripts["dear"] = [Say("Done.")]
    tasks = [bench.put("dear") for _ in range(3)]
    process = bench.start("--until", "empty", "--budget", "$1/day")
    until(lambda: "the budget is spent" in bench.said(), seconds=120)
    done = [task for task in tasks if bench.card(task).state is State.DONE]
    assert len(done) == 1, bench.said()
    assert bench.card(done[0]).result.cost["usd"] >= 1
    process.send_signal(signal.SIGTERM)
    process.wait(60)


def test_limit(bench):
    """ended at its time limit is not done, even if it says so."""
    bench.model.scripts["long"] = [*[hangs(bench)] * 20, Say("All done.")]
    task = bench.put("long", max_attempts=1)
    bench.work("--limit", "15s")
    result = bench.card(task).result
    assert (result.verdict, bench.card(task).tries[-1].kind if bench.card(task).tries else "timeout") == (
        "failed",
        "timeout",
    )
    assert "took longer than 15s" in result.reason


def test_limit_green(bench):
    """ended at its limit with a green check is done, and says why."""
    bench.model.scripts["late"] = [Write(f"{bench.repo}/late.txt", "late"), *[hangs(bench)] * 20, Say("All done.")]
    if is_toolless(bench):  # what it writes is its last step
        bench.model.scripts["late"] = [hangs(bench)]
        with open(f"{bench.repo}/late.txt", "w", encoding="ascii") as file:
            file.write("late")
    task = bench.put("late", check="test -s late.txt")
    bench.work("--limit", "50s")
    card = bench.card(task)
    assert card.state is State.DONE, bench.said()
    assert "its check is green nevertheless" in card.result.reason


#: How long each of these goes on by itself before it gives up, shortened where it can be told.
REFUSALS = {
    "429": Refuse(429),
    "credit": Refuse(
        400, "invalid_request_error", "Your credit balance is too low to access the API. Please purchase credits."
    ),
}


@pytest.mark.parametrize("why", REFUSALS)
def test_rests(bench, why):
    """three tasks, three slots, an API that refuses (429: for a minute): no attempt spent, all done afterwards."""
    first = []

    def answer(_heard):
        """Some try again by themselves for a minute and more: it goes on until one has given up."""
        first[:] = first or [time.monotonic()]
        waits = why == "429" and time.monotonic() - first[0] < 60.0
        return REFUSALS[why] if waits or "rests until" not in bench.said() else Say("Done.")

    bench.model.scripts["limited"] = [answer]
    bench.preset('pause = "8s"\nstall = "90s"')
    tasks = [bench.put("limited") for _ in range(3)]
    process = bench.start("--until", "empty", "-n", "3")
    until(lambda: "rests until" in bench.said(), seconds=300)
    assert process.wait(400) == 0, bench.said()
    assert all(bench.card(task).task.attempts == 0 for task in tasks)
    assert all(bench.card(task).state is State.DONE for task in tasks), bench.said()
    assert all(one.kind in ("quota", "infra") for task in tasks for one in bench.card(task).tries)


@pytest.mark.parametrize("why", ["overloaded", "cut"])
def test_trouble(bench, why):
    """trouble of its model spends no attempt."""
    step = Cut() if why == "cut" else Refuse(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")
    open_ = []
    bench.model.scripts["trouble"] = [lambda _: Say("Done.") if open_ else step]
    bench.preset('pause = "2s"\nstall = "90s"')
    task = bench.put("trouble")
    process = bench.start("--until", "empty")
    until(lambda: "rests until" in bench.said(), seconds=300)
    assert bench.card(task).task.attempts == 0
    open_.append(True)
    assert process.wait(300) == 0, bench.said()
    assert bench.card(task).state is State.DONE, bench.said()


#: Modes in which an agent may not run a command: flags of its preset, or a variable.
STRICT = {
    "claude": ["--permission-mode", "default"],
    "codex": ["-s", "read-only"],
    "gemini": ["--approval-mode", "default"],
    "opencode": [],
    "qwen": ["--approval-mode", "default"],
    "copilot": ["--allow-tool", "view"],
}


def test_refused(bench):
    """a tool that it may not use is not used; the run ends, and says so where the CLI tells."""
    bench.env["OPENCODE_PERMISSION"] = '{"bash": "deny", "edit": "deny"}'
    bench.preset(f"flags = {json.dumps(STRICT[bench.agent])}")
    bench.model.scripts["strict"] = [
        lambda heard: Shell("touch not-allowed") if set(SHELLS) & set(heard.tools) else Say("I have no such tool."),
        Say("I was not allowed to."),
    ]
    task = bench.put("strict", check="test -e not-allowed", max_attempts=1)
    bench.work()
    card = bench.card(task)
    assert not os.path.exists(f"{bench.repo}/not-allowed")
    assert (card.state, card.result.verdict) == (State.FAILED, "failed")
    if bench.agent in ("claude", "copilot"):
        assert card.result.cost["refused"] >= 1


def test_mcp(bench):
    """pit setup, and its --check says that the CLI lists our server; the model calls our tools."""
    bench.pit_("setup", bench.agent, "--project", bench.repo)
    realagents.trust(bench.env["HOME"], bench.repo)
    check = ("setup", bench.agent, "--project", bench.repo, "--check")
    until(lambda: bench.pit_(*check)["data"]["listed"] == "yes")  # on a busy machine some have no patience themselves
    bench.put("nothing", title="A thing to be found", hold="later")

    def step(heard):
        if "A thing to be found" in heard.text or heard.step > 60:
            return Say("Done.")
        if any("taskpit" in name and name.endswith("list") for name in heard.tools):
            return Call("list", {"state": "held"})
        if "tool_search" in heard.tools and heard.step % 2:  # some tell of a tool only when it is looked for
            return Call("tool_search", {"query": "select:mcp__taskpit__list"})
        return Shell("sleep 1")  # some don't wait for their servers

    bench.model.scripts["tools"] = [step]
    task = bench.put("tools")
    bench.work()
    assert bench.card(task).state is State.DONE, bench.said()
    heard = bench.model.of("tools")[-1]
    assert "A thing to be found" in heard.text, heard.tools
    bench.pit_("setup", bench.agent, "--project", bench.repo, "--remove")
    if bench.agent == "qwen":  # it has put a version of its own into the file, and a copy beside it
        with open(f"{bench.repo}/.qwen/settings.json", encoding="utf-8") as file:
            assert "taskpit" not in file.read()
        shutil.rmtree(f"{bench.repo}/.qwen")
    assert bench.git("status", "--porcelain", "--ignored").split() == ["!!", "pit/"]


def test_sandbox(bench, record_property):
    """in the sandbox it works, and what lies outside its place of work it cannot change."""
    outside = f"{os.path.dirname(bench.repo)}/outside"
    os.makedirs(f"{bench.env['HOME']}/private")
    bench.model.scripts["shut-in"] = [
        Write(f"{bench.repo}/inside.txt", "inside"),
        Shell(f"touch {outside} $HOME/escaped /etc/escaped; ls $HOME; cat inside.txt; pit --version"),
        Say("Done."),
    ]
    if is_toolless(bench):
        record_property("but", "it changes nothing but files of the repository")
        bench.model.scripts["shut-in"] = [Write("inside.txt", "inside")]
    task = bench.put("shut-in", check="test -s inside.txt")
    bench.work("--sandbox")
    assert bench.card(task).state is State.DONE, bench.said()
    heard = bench.model.of("shut-in")[-1].text
    assert is_toolless(bench) or "inside" in heard
    assert "private" not in heard
    assert not any(os.path.exists(path) for path in (outside, "/etc/escaped", f"{bench.env['HOME']}/escaped"))


def test_login(bench):
    """a login that is refused stops the pool; no attempt is spent."""
    bench.model.scripts["login"] = [Refuse(401, "authentication_error", "invalid x-api-key")]
    bench.preset('stall = "60s"')
    task = bench.put("login")
    bench.work(code=1)
    assert "is not logged in" in bench.said()
    assert bench.card(task).task.attempts == 0


def once_and_again(bench):
    """A script that does enough only when it is told what went wrong."""

    def step(heard):
        text = "two" if "What went wrong before" in heard.text else "one"
        return Write("tries", text) if is_toolless(bench) else Shell(f"echo {text} >> tries")

    return [step, Say("Done.")]


def test_resumes(bench, record_property):
    """a red check goes back into the same session with its output; what that costs is counted once."""
    bench.model.scripts["red"] = once_and_again(bench)
    task = bench.put("red", check="grep two tries || { echo the second is missing; exit 1; }")
    bench.work()
    card = bench.card(task)
    assert (card.state, [one.kind for one in card.tries]) == (State.DONE, ["check"])
    last = bench.model.of("red")[-1]
    assert "the second is missing" in last.text
    if is_toolless(bench):
        record_property("but", "in the next attempt's prompt: it has no sessions")
        return
    assert last.text.count("SCRIPT: red") == 2  # the first prompt is in the session too
    assert card.result.cost["output_tokens"] == 2 * OUTPUT


def test_killed(bench, record_property):
    """kill -9 of the pool in a tool call: nothing left after 2 s, worktree kept, session resumed, no attempt spent."""
    hang, killed = hangs(bench), []
    half = Shell("echo half > half.txt"), hang, Say("Done.")
    again = Shell("cat half.txt > whole.txt"), Say("Done.")

    def step(heard):
        if is_toolless(bench):
            return Write("whole.txt", "half") if killed else hang(heard)
        told = again if "this very session" in heard.text else half
        return told[min(heard.step, len(told) - 1)]

    def works():
        if is_toolless(bench):
            return bench.model.of("slow")
        return any(ENDLESS in command(pid) for pid in everybody(bench.pit))

    bench.model.scripts["slow"] = [step]
    task = bench.put("slow", check="grep half whole.txt")
    pool = bench.start("--until", "empty", "--land", "merge")
    until(works, seconds=240)
    until(lambda: is_toolless(bench) or os.path.exists(f"{bench.pit}/.taskpit/sessions/{task}"))
    mine = [pid for pid in everybody(bench.pit) if pid != pool.pid]
    assert mine
    killed.append(pool.pid)
    os.kill(pool.pid, signal.SIGKILL)
    pool.wait()
    time.sleep(2.0)
    assert not [pid for pid in mine if alive(pid)]
    assert not everybody(bench.pit)
    bench.queue.close()
    bench.queue = type(bench.queue).open(bench.pit)
    bench.work("--land", "merge")
    card = bench.card(task)
    assert (card.state, card.task.attempts) == (State.DONE, 0), bench.said()
    assert bench.git("show", "main:whole.txt") == "half\n"
    if is_toolless(bench):
        record_property("but", "while its model answers, and it begins anew: it has neither tools nor sessions")
        return
    assert bench.git("show", "main:half.txt") == "half\n"  # it was in the worktree, and nobody has written it again
    assert "this very session" in bench.model.of("slow")[-1].text


def everybody(pit):
    """Every process that works for this queue."""
    return [pid for pid in realagents.carrying(f"TASKPIT_DIR={pit}") if alive(pid)]


def command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def test_talk(bench):
    """an answer without any work needs a person."""
    bench.model.scripts["chat"] = [Say("I have thought about it.")]
    task = bench.put("chat")
    bench.work()
    assert "the agent used no tool, changed nothing and left no result" in bench.card(task).held


def told_too_late(bench, record_property):
    """Who cannot be told anything while it runs is told in the next attempt."""
    record_property("but", "in the next attempt's prompt: it has no sessions")
    going, told = threading.Event(), threading.Event()

    def step(heard):
        going.set()
        told.wait(120)
        return Write("blue", "gap") if "BLUE" in heard.text else Say("Done.")

    bench.model.scripts["steered"] = [step]
    task = bench.put("steered", check="test -e blue")
    process = bench.start("--until", "empty")
    assert going.wait(120)
    assert bench.pit_("tell", task, "mind the BLUE gap")["data"]["way"] == "next attempt"
    told.set()
    assert process.wait(120) == 0, bench.said()
    assert (bench.card(task).state, len(bench.card(task).tries)) == (State.DONE, 1), bench.said()


def test_told(bench, record_property):
    """a note sent while it runs is in the model's next request, or goes on in the same session."""
    going = f"{bench.repo}/going"
    bench.model.scripts["steered"] = [
        Shell(f"touch {going}; until test -e {bench.repo}/told; do sleep 0.2; done"),
        Shell("true"),
        Say("Done."),
    ]
    if is_toolless(bench):
        told_too_late(bench, record_property)
        return
    task = bench.put("steered")
    process = bench.start("--until", "empty")
    until(lambda: os.path.exists(going), seconds=120)
    reply = bench.pit_("tell", task, "mind the BLUE gap")["data"]
    with open(f"{bench.repo}/told", "w", encoding="ascii"):
        pass
    assert process.wait(120) == 0, bench.said()
    assert bench.card(task).state is State.DONE
    heard = ["BLUE" in one.text for one in bench.model.of("steered")]
    assert heard[0] is False
    assert heard[-1] is True
    if reply["way"] == "hook":
        assert heard == [False, True, True]
    else:
        assert reply["way"] == "resume"


#: Programs that speak the Agent Client Protocol, by the agent they belong to.
SPEAKERS = {
    "claude": "claude-agent-acp",
    "codex": "codex-acp",
    "gemini": "gemini --acp",
    "opencode": "opencode acp",
    "qwen": "qwen --acp",
    "copilot": "copilot --acp",
    "goose": "goose acp --with-builtin developer",
}


def speak(bench):
    """It is run by the protocol."""
    speaker = SPEAKERS[bench.agent]
    assert os.path.exists(f"{realagents.PROGRAMS}/{speaker.split()[0]}"), f"{speaker} is not installed"
    bench.agent = f"acp:{speaker}"


def test_acp_goes_on(bench):
    """by the Agent Client Protocol: a red check goes back into the same session."""
    bench.model.scripts["red"] = once_and_again(bench)
    # A session of gemini's that goes on in the minute in which it began is written over by itself.
    minute = "sleep $((61 - $(date +%s) % 60)); " if bench.agent == "gemini" else ""
    task = bench.put("red", check=f"grep two tries || {{ echo the second is missing; {minute}exit 1; }}")
    speak(bench)
    bench.work()
    card = bench.card(task)
    assert (card.state, [one.kind for one in card.tries]) == (State.DONE, ["check"]), bench.said()
    last = bench.model.of("red")[-1]
    assert "the second is missing" in last.text
    assert last.text.count("SCRIPT: red") == 2


def test_acp(bench):
    """by the Agent Client Protocol: works, uses a tool, and is told a note in the same session."""
    going = f"{bench.repo}/going"
    bench.model.scripts["spoken"] = [
        Shell(f"touch {going}; until test -e {bench.repo}/told; do sleep 0.2; done"),
        Say("Done."),
    ]
    task = bench.put("spoken")
    speak(bench)
    process = bench.start("--until", "empty")
    until(lambda: os.path.exists(going), seconds=120)
    assert bench.pit_("tell", task, "mind the BLUE gap")["data"]["way"] == "acp"
    with open(f"{bench.repo}/told", "w", encoding="ascii"):
        pass
    assert process.wait(120) == 0, bench.said()
    assert bench.card(task).state is State.DONE, bench.said()
    assert "BLUE" in bench.model.of("spoken")[-1].text


def test_acp_asks(bench, record_property):
    """by the Agent Client Protocol: a permission it wants is asked of a person, and used once there is a yes."""
    bench.model.scripts["asks"] = [
        lambda heard: Say("Done.") if os.path.exists(f"{bench.repo}/asked") else Shell("touch asked"),
    ]
    task = bench.put("asks", check="test -e asked")
    bench.preset('permissions = "ask"', name="acp")
    speak(bench)
    bench.work()
    if bench.card(task).state is State.DONE:
        record_property("cannot", "it asks for nothing")
        pytest.skip("it asks for nothing")
    assert "may its agent do this" in bench.card(task).task.hold, bench.said()
    assert not os.path.exists(f"{bench.repo}/asked")
    bench.pit_("answer", task, "yes")
    bench.work()
    card = bench.card(task)
    assert (card.state, card.task.attempts) == (State.DONE, 0), bench.said()


def test_lands(bench):
    """its change lands; a conflict goes back into its session with the files, both sides and the target."""

    def step(heard):
        again = "has landed on main meanwhile, in: README" in heard.text
        if heard.step:
            return Say("Done.")
        if not again and not os.path.exists(f"{bench.repo}/README"):  # a person is faster
            with open(f"{bench.repo}/README", "w", encoding="ascii") as file:
                file.write("theirs\n")
            bench.git("add", "README")
            bench.git("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "theirs")
        text = "both" if again else "mine"
        return Write("README", text) if is_toolless(bench) else Shell(f"echo {text} > README")

    bench.model.scripts["land"] = [step]
    task = bench.put("land", check="test -s README")
    bench.work("--land", "merge")
    card = bench.card(task)
    assert (card.state, [one.kind for one in card.tries]) == (State.DONE, ["conflict"]), bench.said()
    assert bench.git("show", "main:README") == "both\n"
    assert len(bench.git("log", "--format=%h", "main").split()) == 3
    told = bench.model.of("land")[-1].text
    assert "<<<<<<< (main)" in told
    assert is_toolless(bench) or "this very session" in told


def verdict(word, summary):
    return Say(json.dumps({"verdict": word, "summary": summary}))


def test_crew(bench):
    """the crew of --template builder-reviewer: sent back once by its reviewer, then approved and landed."""

    def step(heard):
        if "You are the reviewer" not in heard.text:
            text = "better" if "it should say better" in heard.text else "good"
            if is_toolless(bench):
                return Write("built.txt", text)
            return Say("Built.") if heard.step else Shell(f"echo {text} > built.txt")
        if not heard.step and not is_toolless(bench):
            return Shell("sed 's/^/it says /' built.txt")
        if "it says better" in heard.text or "\nbetter\n" in heard.text:
            return verdict("approve", "I have read built.txt, and it holds.")
        return verdict("send-back", "built.txt says too little: it should say better.")

    bench.model.scripts["build"] = [step]
    template = f"{os.path.dirname(taskpit.__file__)}/templates/builder-reviewer"
    shutil.copytree(f"{template}/agents", f"{bench.pit}/agents")
    with open(f"{template}/agents.toml", encoding="utf-8") as file:
        crew = file.read().replace('backend = "demo"', 'backend = "real"', 1)
    assert 'backend = "real"' in crew
    with open(f"{bench.pit}/agents.toml", "w", encoding="utf-8") as file:
        file.write(f'{crew}\n[backend.real]\npreset = "{bench.agent}"\nmodel = "{realagents.MODELS[bench.agent]}"\n')
    built = bench.put("build", check="test -s built.txt")
    bench.pit_("crew", "up")
    try:
        until(lambda: bench.card(built).result is not None, seconds=500)
    finally:
        bench.pit_("crew", "down", "--now")
    card = bench.card(built)
    assert (card.state, card.task.attempts) == (State.DONE, 0)
    assert "landed on main" in card.result.reason
    assert bench.git("show", "main:built.txt").splitlines()[-1] == "better"
    looked = 0 if is_toolless(bench) else 1
    reviews = [one for one in bench.model.of("build") if "You are the reviewer" in one.text and one.step >= looked]
    assert len(reviews) >= 2
