"""Messages through FIFOs: ours and the original's own snippets as either peer; peers that die; never a hang.

Every process here ends within a time limit, and none is waited for by sleeping.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest
from boxes import clean_environment, ended, make_fast, pit, python
from waits import PATIENCE, numbers, until

from taskpit import pipes
from taskpit.fs import NotAFile
from taskpit.pipes import Pipe

#: The original's orchestrator: open, write, close.
ORIGINAL_WRITER = """
import sys
with open(sys.argv[1], "w") as pipe:
    pipe.write(sys.argv[2] * int(sys.argv[3]))
"""

#: The original's agent: open, read to the end.
ORIGINAL_READER = """
import sys
print("here", flush=True)
for _ in range(int(sys.argv[2])):
    with open(sys.argv[1], "r") as pipe:
        task = pipe.read()
    print(len(task), task[:20], flush=True)
"""

#: Opens the FIFO and reads nothing: what is written lies in the kernel and dies with it.
DEAF_READER = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
print("here", flush=True)
time.sleep(600)
"""


@pytest.fixture
def space(tmp_path):
    return make_fast(tmp_path / "space", "workspace")


@pytest.fixture
def pipe(space):
    assert pit("-C", space, "pipe", "make", "orchestrator", "agent_a").code == 0
    return Pipe(f"{space}/pipes/orchestrator_to_agent_a", f"{space}/.taskpit/pipes/orchestrator_to_agent_a")


def command(space, action, *words):
    """`pit pipe` as a process."""
    line = [sys.executable, "-m", "taskpit", "-C", space, "pipe", action, "orchestrator", "agent_a", *words]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(line, env=clean_environment(), **streams)


def finished(process):
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err.decode()


def received(pipe):
    """Everything that waits for a reader of ours, acknowledged."""
    found = []
    while message := pipe.receive(0):
        pipe.acknowledge(message)
        found.append(message.data)
    return found


def here(process):
    assert process.stdout.readline() == "here\n"
    return process


def killed(process):
    process.kill()
    process.communicate()


# -- the two FIFOs ---------------------------------------------------------------------------------


def test_make_makes_both(space):
    answer = pit("-C", space, "pipe", "make", "orchestrator", "agent_a", "--json")
    assert sorted(os.listdir(f"{space}/pipes")) == ["agent_a_to_orchestrator", "orchestrator_to_agent_a"]
    for path in answer.data["pipes"]:
        assert stat.S_ISFIFO(os.stat(path).st_mode)
    assert pit("-C", space, "pipe", "make", "orchestrator", "agent_a").code == 0


def test_fifos_made_by_the_originals_mkfifo_are_used(space):
    os.mkfifo(f"{space}/pipes/orchestrator_to_agent_a")
    inode = os.stat(f"{space}/pipes/orchestrator_to_agent_a").st_ino
    assert pit("-C", space, "pipe", "make", "orchestrator", "agent_a").code == 0
    assert os.stat(f"{space}/pipes/orchestrator_to_agent_a").st_ino == inode


def test_a_file_in_its_place_is_refused(space):
    path = f"{space}/pipes/orchestrator_to_agent_a"
    with open(path, "w", encoding="utf-8"):
        pass
    with pytest.raises(NotAFile):
        Pipe(path, f"{space}/.taskpit/pipes/x").make()
    assert pit("-C", space, "pipe", "send", "orchestrator", "agent_a", "hello").code == 8
    assert os.path.isfile(path)


@pytest.mark.parametrize("layout", ["pit", "mailbox"])
def test_other_layouts_have_no_pipes(tmp_path, layout):
    root = make_fast(tmp_path / "queue", layout)
    answer = pit("-C", root, "pipe", "send", "a", "b", "hello", "--json")
    assert (answer.code, answer.error["code"]) == (6, "invalid")


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "a.b"])
def test_names_that_lead_elsewhere_are_refused(space, name):
    assert pit("-C", space, "pipe", "send", name, "agent_a", "hello").code == 6
    assert os.listdir(f"{space}/pipes") == []


# -- between two of ours ---------------------------------------------------------------------------


def test_a_message_waits_for_its_reader(pipe):
    assert pipe.send(b"one", 0) is False
    pipe.post(b"two")
    assert received(pipe) == [b"one", b"two"]


def test_a_waiting_reader_is_woken(space, pipe):
    receiver = command(space, "receive", "--timeout", "100s")
    sender = command(space, "send", "do task_001", "--timeout", "100s")
    assert finished(sender)[0] == 0
    assert finished(receiver) == (0, b"do task_001", "")
    assert received(pipe) == []


def test_every_byte_comes_as_it_was(pipe):
    for data in (b"", b"\n", b"\n\n", bytes(range(256)), b"\xff\xfe", b"no newline"):
        pipe.post(data)
        message = pipe.receive(0)
        assert message.data == data
        pipe.acknowledge(message)


def test_a_message_survives_a_reader_killed_before_it_acknowledges(pipe):
    script = """
import sys, time
from taskpit.pipes import Pipe
print(Pipe(sys.argv[1], sys.argv[2]).receive(50).data.decode(), flush=True)
time.sleep(600)
"""
    pipe.post(b"important")
    reader = python(script, pipe.fifo, pipe.spool)
    assert reader.stdout.readline() == "important\n"
    killed(reader)
    assert received(pipe) == [b"important"]


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_message_that_could_not_be_printed_is_there_for_the_next(space, pipe, words):
    pipe.post(b"important")
    line = [sys.executable, "-m", "taskpit", "-C", space, "pipe", "receive", "orchestrator", "agent_a", *words]
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(line, env=clean_environment(), stdout=full, stderr=subprocess.PIPE, check=False)
    assert ran.returncode != 0
    assert b"No space left" in ran.stderr
    told = finished(command(space, "receive", "--json"))[1]
    assert json.loads(told)["data"] == {"text": "important", "bytes": 9}
    assert received(pipe) == []


def test_a_message_survives_a_reader_killed_while_it_listens(space, pipe):
    reader = command(space, "receive", "--timeout", "100s")
    until(pipe._reader_is_ours)
    reader.kill()
    reader.communicate()
    assert pipe.send(b"important", 0.05) is False
    assert received(pipe) == [b"important"]


def test_a_writer_killed_anywhere_leaves_a_whole_message_or_none(pipe):
    script = """
import sys
from taskpit import fs
from taskpit.pipes import Pipe
count, last = 0, int(sys.argv[3])
def hook(call, path):
    global count
    count += 1
    if count == last:
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
fs.set_hook(hook)
Pipe(sys.argv[1], sys.argv[2]).send(b"x" * 100_000, 0)
"""
    ended_well = 0
    for last in range(1, 40, 2):
        writer = python(script, pipe.fifo, pipe.spool, last)
        writer.communicate(timeout=PATIENCE)
        ended_well += writer.returncode == 0
        assert received(pipe) in ([], [b"x" * 100_000])
        if writer.returncode == 0:
            break
    assert ended_well == 1


def test_two_senders_at_once_do_not_mix(space, pipe):
    senders = [command(space, "send", letter * 100_000, "--timeout", "100s") for letter in "ab"]
    receivers = [command(space, "receive", "--timeout", "100s")]
    first = finished(receivers[0])
    second = finished(command(space, "receive", "--timeout", "100s"))
    assert [finished(sender)[0] for sender in senders] == [0, 0]
    assert sorted([first[1], second[1]]) == [b"a" * 100_000, b"b" * 100_000]


def test_a_megabyte(space, pipe, tmp_path):
    data = os.urandom(1 << 20)
    (tmp_path / "big").write_bytes(data)
    receiver = command(space, "receive", "--timeout", "100s")
    sender = command(space, "send", "-F", str(tmp_path / "big"), "--timeout", "100s")
    code, out, _ = finished(receiver)
    assert (code, hashlib.sha256(out).digest()) == (0, hashlib.sha256(data).digest())
    assert finished(sender)[0] == 0


def test_messages_of_one_sender_keep_their_order(pipe):
    wanted = [str(number).encode() for number in range(50)]
    for data in wanted:
        pipe.post(data)
    assert received(pipe) == wanted


# -- the original's snippets -----------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 100_000, 1 << 18])
def test_the_originals_writer_to_our_reader(space, pipe, times):
    writer = python(ORIGINAL_WRITER, pipe.fifo, "task", times)
    code, out, _ = finished(command(space, "receive", "--timeout", "100s"))
    assert (code, out) == (0, b"task" * times)
    ended(writer)


@pytest.mark.parametrize("times", [1, 100_000, 1 << 18])
def test_our_writer_to_the_originals_reader(pipe, times):
    reader = here(python(ORIGINAL_READER, pipe.fifo, 1))
    assert pipe.send(b"task" * times, PATIENCE) is True
    assert ended(reader).split()[0] == str(4 * times)
    assert received(pipe) == []


def test_the_originals_loop_gets_each_message_once_and_nothing_else(pipe):
    """Nothing we do to look after the FIFO may wake a reader for an empty message."""
    reader = here(python(ORIGINAL_READER, pipe.fifo, 20))
    for number in range(20):
        assert pipe.send(f"message {number}".encode(), PATIENCE) is True
    assert [line.split(" ", 1)[1] for line in ended(reader).splitlines()] == [f"message {n}" for n in range(20)]


def test_two_of_our_senders_to_the_originals_reader_do_not_mix(space, pipe):
    reader = here(python(ORIGINAL_READER, pipe.fifo, 6))
    senders = [command(space, "send", letter * 90_000, "--timeout", "100s") for letter in "abcdef"]
    assert [finished(sender)[0] for sender in senders] == [0] * 6
    lines = sorted(ended(reader).splitlines())
    assert lines == [f"90000 {letter * 20}" for letter in "abcdef"]


def test_the_next_sender_waits_until_the_originals_reader_has_left(pipe):
    """It has read all there is and not yet seen the end: whoever wrote now would be read as the same message."""
    script = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
text = os.read(fd, 65536)
print("here", flush=True)
sys.stdin.readline()
while chunk := os.read(fd, 65536):
    text += chunk
print(text.decode(), flush=True)
"""
    reader = python(script, pipe.fifo)
    senders = [threading.Thread(target=pipe.send, args=(data, 2.0)) for data in (b"first", b"second")]
    senders[0].start()
    here(reader)
    senders[1].start()
    until(lambda: any(name[0].isdecimal() for name in os.listdir(pipe.spool)))
    early = time.monotonic() + 0.3
    while time.monotonic() < early and len(os.listdir(f"{pipe.spool}/sent")) < 2:
        time.sleep(0.01)
    reader.stdin.write("\n")
    assert ended(reader) == "first\n"
    for sender in senders:
        sender.join(PATIENCE)
    assert received(pipe) == [b"second"]


def test_there_and_back_as_in_the_original(space, pipe):
    """Orchestrator ours, agent the original's: task down, result up."""
    script = """
import sys
with open("pipes/orchestrator_to_agent_a", "r") as pipe: task = pipe.read()
result = task.upper()
with open("pipes/agent_a_to_orchestrator", "w") as pipe: pipe.write(result)
"""
    agent = python(script, cwd=space)
    assert finished(command(space, "send", "do it", "--timeout", "100s"))[0] == 0
    answer = pit("-C", space, "pipe", "receive", "agent_a", "orchestrator", "--timeout", "100s", "--json")
    assert answer.data == {"text": "DO IT", "bytes": 5}
    ended(agent)


def test_a_foreign_writer_and_one_of_ours_at_once(space, pipe):
    """A message of ours comes while a foreign one is half written: both come whole."""
    fd = None
    receiver = command(space, "receive", "--timeout", "100s")
    until(pipe._reader_is_ours)
    while fd is None:
        fd = pipe._open_for_writing()
    os.write(fd, b"first half, ")
    assert pipe.send(b"ours", PATIENCE) is True
    os.write(fd, b"second half")
    os.close(fd)
    said = [finished(receiver)[1], *received(pipe)]
    assert sorted(said) == [b"first half, second half", b"ours"]


@pytest.mark.parametrize("when", [1, 2])
def test_what_a_foreign_writer_wrote_while_one_of_ours_came_is_not_closed_away(pipe, monkeypatch, when):
    """It writes all of it between the moment in which our reader opens the pipe and its look at what is there, or
    while another text becomes a file.
    """
    calls = itertools.count()
    look, post = pipe._oldest, pipe.post

    def write(text):
        fd = pipe._open_for_writing()
        os.write(fd, text)
        os.close(fd)

    def oldest():
        if next(calls) == 1:  # the pipe is open
            write(b"theirs")
            if when == 1:
                post(b"ours")
        return look()

    def posted(data):
        if data == b"theirs" and when == 2:
            write(b"ours")
        return post(data)

    monkeypatch.setattr(pipe, "_oldest", oldest)
    monkeypatch.setattr(pipe, "post", posted)
    first = pipe.receive(PATIENCE)
    pipe.acknowledge(first)
    assert sorted([first.data, *received(pipe)]) == [b"ours", b"theirs"]


def test_the_originals_writer_killed_in_the_middle(space, pipe):
    """What it wrote comes through; our reader does not hang."""
    script = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY)
os.write(fd, b"half")
print("here", flush=True)
time.sleep(600)
"""
    writer = python(script, pipe.fifo)
    receiver = command(space, "receive", "--timeout", "100s")
    here(writer)
    killed(writer)
    assert finished(receiver)[:2] == (0, b"half")


#: Whoever listens may have gone between its open and its first word: then it begins again.
HALF = """
import os, sys, time
while True:
    fd = os.open(sys.argv[1], os.O_WRONLY)
    try:
        os.write(fd, b"half")
        time.sleep(600)
    except BrokenPipeError:
        os.close(fd)
"""


def test_a_writer_that_stops_in_the_middle_and_never_ends(pipe, monkeypatch):
    """Once our time is over and it has been silent long enough, what it said is kept as it is."""
    monkeypatch.setattr(pipes, "SILENCE", 0.05)
    writer = python(HALF, pipe.fifo)
    answer = []
    for _ in numbers():
        if answer:
            break
        message = pipe.receive(0.05)
        if message:
            pipe.acknowledge(message)
            answer.append(message.data)
        assert writer.poll() is None
    killed(writer)
    assert answer == [b"half"]


@pytest.mark.timeout(60)
def test_who_begins_when_our_time_is_over_is_heard_and_not_looked_at_for_ever(pipe, monkeypatch):
    """Text that came between our last look and our last word was seen again and again, and never read."""
    monkeypatch.setattr(pipes, "SILENCE", 0.05)
    writers = []

    def begins():
        writers.append(pipes.open_fifo(pipe.fifo, os.O_WRONLY))
        os.write(writers[0], b"late")

    with monkeypatch.context() as moment:
        moment.setattr(pipe, "_oldest", begins)
        pipe._listen(time.monotonic() - 1)
    os.close(writers[0])
    assert pipe.receive(0).data == b"late"


# -- peers that are not there ----------------------------------------------------------------------


def test_a_dead_peer_is_exit_4_and_the_message_is_kept(space, pipe):
    answer = pit("-C", space, "pipe", "send", "orchestrator", "agent_a", "hello", "--timeout", "0.2s", "--json")
    assert (answer.code, answer.error["code"]) == (4, "lost")
    assert answer.error["details"]["kept"] is True
    assert "no reader opened" in answer.error["message"]
    assert pit("-C", space, "pipe", "receive", "orchestrator", "agent_a", "--timeout", "100s").out == "hello"


def test_nothing_to_receive_is_exit_3(space, pipe):
    answer = pit("-C", space, "pipe", "receive", "orchestrator", "agent_a", "--timeout", "0.1s", "--json")
    assert (answer.code, answer.error["code"]) == (3, "nothing_to_claim")
    assert "within 0.1s" in answer.error["message"]


def test_a_foreign_reader_killed_before_it_read(pipe):
    """What lay in the kernel is gone with it; the message is not."""
    reader = here(python(DEAF_READER, pipe.fifo))
    answers = []
    sender = threading.Thread(target=lambda: answers.append(pipe.send(b"important", 3.0)))
    sender.start()
    until(lambda: os.listdir(f"{pipe.spool}/sent"))
    killed(reader)
    sender.join(PATIENCE)
    assert answers == [False]
    assert received(pipe) == [b"important"]


def test_a_foreign_reader_that_never_reads(pipe):
    reader = here(python(DEAF_READER, pipe.fifo))
    assert pipe.send(b"x" * (1 << 20), 0.2) is False
    killed(reader)
    assert received(pipe) == [b"x" * (1 << 20)]


def test_a_foreign_reader_killed_in_the_middle_of_a_megabyte(pipe):
    script = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
os.read(fd, 1000)
print("here", flush=True)
time.sleep(600)
"""
    reader = python(script, pipe.fifo)
    answers = []
    sender = threading.Thread(target=lambda: answers.append(pipe.send(b"y" * (1 << 20), 3.0)))
    sender.start()
    here(reader)
    killed(reader)
    sender.join(PATIENCE)
    assert answers == [False]
    assert received(pipe) == [b"y" * (1 << 20)]


def test_a_sender_that_was_stopped_stops_no_other(space, pipe):
    """It stands still with the turn to send; the next one gives up in time, and its message is kept."""
    script = """
import os, signal, sys
from taskpit import fs
turn = fs.Flock(sys.argv[1] + "/.send")
turn.take()
print("here", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""
    holder = here(python(script, pipe.spool))
    code, _, err = finished(command(space, "send", "hello", "--timeout", "0.2s"))
    assert (code, "no reader opened" in err) == (4, True)
    os.kill(holder.pid, signal.SIGCONT)
    killed(holder)
    assert received(pipe) == [b"hello"]


def test_two_readers_one_message(space, pipe):
    """Only one of them listens at a time; the other's time runs out."""
    first = command(space, "receive", "--timeout", "100s")
    until(pipe._reader_is_ours)
    assert finished(command(space, "receive", "--timeout", "0.1s"))[0] == 3
    assert pipe.send(b"one", PATIENCE)
    assert finished(first)[:2] == (0, b"one")
    assert received(pipe) == []


def test_the_message_is_given_exactly_one_way(space):
    assert pit("-C", space, "pipe", "send", "a", "b").code in (2, 6)
    assert pit("-C", space, "pipe", "send", "a", "b", "text", "-F", "file").code in (2, 6)


def test_sent_messages_are_kept(pipe):
    pipe.post(b"one")
    received(pipe)
    (kept,) = os.listdir(f"{pipe.spool}/sent")
    with open(f"{pipe.spool}/sent/{kept}", "rb") as file:
        assert file.read() == b"one"


def test_json_of_both_ends(space, pipe):
    pipe.post("grüße".encode())
    answer = pit("-C", space, "pipe", "receive", "orchestrator", "agent_a", "--json")
    assert json.loads(answer.out)["data"] == {"text": "grüße", "bytes": 7}
