"""A queue that was lived in, a tree beside it that nobody may touch, and every consumer of the queue's files.

What hostile hands put into the folder may be refused, set aside or shown as text. It may not crash or hang anybody, and
the tree beside it stays as it is: nothing of it is changed, nothing of it is read into an answer.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import traceback
from functools import cache
from pathlib import Path

from boxes import Answer, make_fast, pit
from monsters import patience
from waits import PATIENCE
from world import keep

from taskpit.board import Board
from taskpit.queue import Queue

LAYOUTS = ("pit", "mailbox", "workspace", "activities")
#: What stands in every file outside: it may be in no answer.
SECRET = "S3CRET-of-the-tree-beside"
#: What a command may exit with: all but an error that nobody foresaw, which the words tell.
FINE = frozenset(range(10)) - {2}
CONSUMERS = (
    *(
        "list --state all",
        "ready",
        "status",
        "search good",
        "log",
        "stats",
        "show {id}",
        "why {id}",
        "export",
        "doctor",
    ),
    *("sweep --dry-run", "sweep", "add more", "claim --as w", "done {id} --as w", "doctor --fix", "board", "archive"),
    *(
        "every",
        "lessons",
        "report",
        "trace {id}",
        "add --from bug area=x",
        "review",
        "diff {id}",
        "undo --as w",
        "prime",
    ),
    *("edit {id} --priority 3", "fail {id} --as w --error x", "release {id} --as w", "renew {id} --as w", "retry {id}"),
    *("split {id} --as w one two", "ask {id} what --as w", "answer {id} yes", "unblock {id}", "cancel {id} x"),
    *("note {id} x", "pause --for 1s x", "lock name --as v", "token list", "trust", "hook session-start", "mcp"),
    *(
        "status --all",
        "list --json --state all",
        "show {id} --json",
        "log --json",
        "convert {home}/other --layout pit --release",
    ),
    *("web", "work --until +1s --max-tasks 2 --limit 5s -- true"),
)
#: Those that start a server or processes take as long as all the others together.
SLOW = CONSUMERS[-2:]
#: What a browser asks the board for, and what it has it do.
PAGES = ("/", "/columns", "/task/{id}", "/task/{id}/part", "/search?q=good", "/agents", "/report", "/plots", "/metrics")
POSTS = (("/tasks", {"title": "more"}), ("/task/{id}/note", {"text": "x"}), ("/task/{id}/cancel", {"reason": "x"}))
#: What an agent asks for over MCP.
CALLS = (
    *(
        ("list", {"state": "all"}),
        ("show", {}),
        ("claim", {}),
        ("renew", {}),
        ("note", {"text": "x"}),
        ("add", {"title": "x"}),
    ),
    *(("give_back", {"how": "release"}), ("show", {}), ("show", {}), ("done", {"result": "x"})),
)
#: What it may answer: anything but that something unforeseen has happened.
ANSWERS = frozenset((200, 201, 204, 303, 400, 403, 404, 405, 409, 413, 503))
#: Where only we write; hostile hands make whatever they like there.
OURS = (
    *("ids", "sealed", "outcomes", "tries", "late", "workers", "tmp", "notes", "beside", "stops", "fences", "locks"),
    *("index", "line", "guard", "quarantine", "logs", "crew", "runs", "sessions", "backends", "archive", "templates"),
)


@cache
def _lived(layout):
    """Tasks in every state, notes, a try, a lock, a pause that is over: as many kinds of files as there are.

    Made once in a process, and copied for each.
    """
    root = make_fast(keep("yard") + "/pristine", layout)
    with open(f"{root}/.taskpit/config.toml", "a", encoding="utf-8") as file:
        file.write('keep_tmp = "0s"\n')
    for title in ("good", "better", "best", "odd", "more"):
        assert pit("-C", root, "add", title).code == 0
    ids = [row["id"] for row in pit("-C", root, "list", "--json").data]
    for number, verb in ((0, "done"), (1, "fail"), (2, "")):
        assert pit("-C", root, "claim", ids[number], "--as", "w").code == 0
        if verb:
            words = ("--error", "x", "--final") if verb == "fail" else ()
            pit("-C", root, verb, ids[number], "--as", "w", *words)
    pit("-C", root, "note", ids[3], "a note")
    pit("-C", root, "every", "mon-fri 07:00", "look around", "--zone", "Europe/Berlin")  # not in work items
    for key, text in (("hold", "waits for review by a person"), ("land", "merge"), ("sandbox", "on")):
        pit("-C", root, "add", f"with a {key}", "--set", f"{key}={text}")
    pit("-C", root, "block", ids[4], "a reason", "--as", "w")
    pit("-C", root, "lock", "name", "--as", "w")
    pit("-C", root, "pause", "--for", "1s", "x")
    pit("-C", root, "resume")
    for place in ("crew", "runs", "sessions", "backends", "archive/2026-01", "templates", "tmp"):
        os.makedirs(f"{root}/.taskpit/{place}", exist_ok=True)
    for name, text in (
        ("crew/plan.json", '{"plan": {}, "seal": ""}'),
        ("spend.log", '{"at": 1.0, "task": "0001", "worker": "w", "usd": 1.0}\n'),
        (f"sessions/{ids[0]}", '{"preset": "x", "session": "s", "cwd": "/", "attempt": 1}'),
        ("backends/x.json", '{"paused_until": 0, "reason": "", "strikes": 0}'),
        (f"tmp/{ids[3]}~abc~result", "x"),
        ("templates/bug.md", "What it is for\n- **fields:** area, how=low\n\n# find: Find it in {area}\n\nLook.\n"),
        ("lessons.jsonl", '{"mark": "x", "error": "e", "helped": "h", "paths": ["a"], "task": "1", "at": 1.0}\n'),
        ("prices.toml", '[models."x"]\ninput = 1.0\noutput = 2.0\n'),
    ):
        with open(f"{root}/.taskpit/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    return root, ids


class Yard:
    """A queue of one layout and the tree beside it."""

    def __init__(self, tmp_path, layout):
        self.layout = layout
        self.home = tmp_path
        self.outside = tmp_path / "outside"
        self._build()
        self.pristine = str(tmp_path / "pristine")
        lived, self.some = _lived(layout)
        shutil.copytree(lived, self.pristine, symlinks=True)
        self.root = str(tmp_path / "queue")
        self.fresh()
        self.before = self.tree()

    def _build(self):
        for name in ("food", "deep/er"):
            (self.outside / name).mkdir(parents=True)
        for name in (
            "food-0077-x.md",
            "0077~a~result",
            "x.json",
            "food/food-0078-y.md",
            "deep/er/log",
            "progress.yaml",
        ):
            (self.outside / name).write_text(f"# {SECRET}\n- **task:** {SECRET}\n")
            os.utime(self.outside / name, (1, 1))

    def reset(self):
        """The tree beside it is made anew, after somebody touched it."""
        for name in set(os.listdir(self.home)) - set(self.before[1]):
            path = self.home / name
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        shutil.rmtree(self.outside)
        self._build()
        self.before = self.tree()

    def fresh(self):
        """The queue as it was lived in."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.pristine, self.root, symlinks=True)

    def files(self):
        """Every file and directory of it, from its root."""
        found = []
        for folder, dirs, files in os.walk(self.pristine):
            found += [os.path.relpath(os.path.join(folder, name), self.pristine) for name in (*dirs, *files)]
        return sorted(found)

    def tree(self):
        """What stands beside the queue: names, kinds, times and bytes."""
        told = {}
        for folder, dirs, files in os.walk(self.outside):
            for name in (*dirs, *files):
                path = os.path.join(folder, name)
                status = os.lstat(path)
                regular = stat.S_ISREG(status.st_mode)
                told[path] = (status.st_mode, status.st_nlink if regular else 0, status.st_mtime_ns if regular else 0)
                told[path] += (Path(path).read_bytes() if regular else b"",)
        return told, sorted(os.listdir(self.home))

    def run(self, words):
        """One consumer; whatever it says, it says it in time, and nothing of what is not the queue's."""
        line = [word.format(id=self.some[len(words) % 3], home=self.home) for word in words.split()]
        with patience(PATIENCE):
            if words in ("board", "web", "mcp"):
                {"board": self.look, "web": self.browse, "mcp": self.call}[words]()
                return
            answer = self.work(line) if words.startswith("work") else pit("-C", self.root, *line)
        shutil.rmtree(self.home / "other", ignore_errors=True)
        told = answer.out + answer.err
        assert answer.code in FINE, (line, answer.code, told)
        assert "something unexpected happened" not in told, (line, told)
        assert SECRET not in told, (line, told)

    def look(self):
        """What both boards show."""
        from taskpit.errors import TaskpitError

        try:
            queue = Queue.open(self.root)
        except TaskpitError:
            return
        try:
            board = Board(queue).load()
            assert SECRET not in "".join(f"{slip.title} {slip.id}" for slip in board.slips.values())
        except TaskpitError:
            return
        finally:
            queue.close()

    def browse(self):
        """What the web board answers, over HTTP."""
        from boards import Served

        from taskpit.errors import TaskpitError

        try:
            served = Served(self.root, opened=Queue.open).__enter__()
        except TaskpitError:
            return
        try:
            for number, (asked, form) in enumerate((*((page, None) for page in PAGES), *POSTS)):
                path = asked.format(id=self.some[number % 4])
                answer = served.get(path) if form is None else served.post(path, form)
                assert answer.status in ANSWERS, (path, answer.status, answer.body)
                assert SECRET.encode() not in answer.body, path
        finally:
            served.__exit__()

    def call(self):
        """What the tools of an agent answer."""
        from taskpit.errors import TaskpitError
        from taskpit.mcp.tools import ToolCalls

        try:
            desk = ToolCalls(lambda: Queue.open(self.root), "w", self.root)
        except TaskpitError:
            return
        told = []
        for number, (tool, given) in enumerate(CALLS):
            try:
                told.append(desk.answer(tool, {**given, "id": self.some[number % 4]}))
            except TaskpitError as error:
                told.append((str(error), error.hint, error.details))
        desk.close()
        assert SECRET not in json.dumps(told, default=str)

    def work(self, words):
        """A pool, by itself: it is trusted, so whatever a task has for a check is run.

        In a child that has everything loaded already: to start anew would be most of its work.
        """
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            try:
                answer = pit("-C", self.root, *words, env={"TASKPIT_TRUST": "1"})
                said = [answer.code, answer.out, answer.err]
            except BaseException:
                said = [-1, "something unexpected happened", traceback.format_exc()]
            with open(writer, "w", encoding="utf-8", errors="backslashreplace") as file:
                json.dump(said, file)
            os._exit(0)
        os.close(writer)
        try:
            with open(reader, encoding="utf-8") as file:
                said = json.load(file)
        except BaseException:
            os.kill(child, signal.SIGKILL)
            raise
        finally:
            os.waitpid(child, 0)
        return Answer(words, *said)

    def judge(self, about):
        """The tree beside it is as it was."""
        assert self.tree() == self.before, about


# -- what is put in the place of a file or directory -----------------------------------------------


def link_to_file(yard, path):
    os.symlink(yard.outside / "food-0077-x.md", path)


def link_to_folder(yard, path):
    os.symlink(yard.outside / "food", path)


def link_to_nothing(yard, path):
    os.symlink(yard.outside / "new", path)


def link_to_zero(_, path):
    os.symlink("/dev/zero", path)


def fifo(_, path):
    os.mkfifo(path)


def a_socket(_, path):
    here = os.getcwd()
    os.chdir(os.path.dirname(path))  # names of sockets must be short
    try:
        one = socket.socket(socket.AF_UNIX)
        one.bind(os.path.basename(path)[:90])
        one.close()
    finally:
        os.chdir(here)


def folder(_, path):
    os.mkdir(path)


def device(_, path):
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero


THINGS = (link_to_file, link_to_folder, link_to_nothing, link_to_zero, fifo, a_socket, folder, device)


def put_in_place(yard, relative, thing):
    """The thing stands there, whatever stood there before; False if it cannot be made."""
    path = os.path.join(yard.root, relative)
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
    try:
        thing(yard, path)
    except OSError:  # no device without privileges
        return False
    return True
