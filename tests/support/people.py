"""Commands run as other users: unprivileged ids of one group, or of none. Needs root; knows processes and modes.

The interpreter may lie where other users cannot even start it. So one process of ours loads everything first, and
then becomes somebody else in a child for each command.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import shutil
import stat
import subprocess
import sys
import tempfile
import traceback

import pytest
from boxes import Answer, clean_environment, pit
from waits import PATIENCE

#: Users and groups that exist nowhere: numbers are all the kernel needs.
ANN, BOB, EVE = 54322, 54323, 54329
GROUP = 54321
GROUPS = {ANN: [GROUP], BOB: [GROUP], EVE: []}
NAMES = {ANN: "ann", BOB: "bob", EVE: "eve"}


class People:
    """`people(ANN, "add", "title")` is `pit add title`, typed by ann."""

    def __init__(self, umask=0o002):
        self.umask = umask
        self._homes = tempfile.mkdtemp(prefix="taskpit-homes-")
        os.chmod(self._homes, 0o755)
        for who in NAMES:
            os.mkdir(f"{self._homes}/{who}")
            os.chown(f"{self._homes}/{who}", who, who)
        self._server = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**clean_environment(), "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))},
        )
        assert self._server.stdout.readline() == "here\n"

    def __call__(self, who, *words, **env):
        env = {"HOME": f"{self._homes}/{who}", **env}
        told = {"who": who, "words": [str(word) for word in words], "umask": self.umask, "env": env}
        self._server.stdin.write(json.dumps(told) + "\n")
        self._server.stdin.flush()
        return Answer(told["words"], *json.loads(self._server.stdout.readline()))

    def close(self):
        """The process ends when nobody can ask it any more."""
        self._server.stdin.close()
        assert self._server.wait(timeout=PATIENCE) == 0
        self._server.stdout.close()
        shutil.rmtree(self._homes)


def start_python():
    """Skip the test where other users cannot start this interpreter, as every check does."""
    path = os.path.realpath(sys.executable)
    while path != "/":
        if not os.stat(path).st_mode & stat.S_IXOTH:
            pytest.skip(f"other users cannot start {sys.executable}: {path} is shut")
        path = os.path.dirname(path)


def load_everything():
    """Nothing is left to be imported: by other users it could not be read."""
    import taskpit

    for found in pkgutil.walk_packages(taskpit.__path__, "taskpit."):
        if not found.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(found.name)
    with tempfile.TemporaryDirectory() as where:  # what verbs import when they first run
        assert pit("init", f"{where}/pit").code == 0
        for words in (("add", "one"), ("claim",), ("done", "1"), ("sweep",), ("lock", "x"), ("--json", "list")):
            assert pit("-C", f"{where}/pit", *words).code in (0, 5), words


@contextlib.contextmanager
def acting(who, umask=0o002):
    """Meanwhile this process is that user, as far as files are concerned; everything must be loaded before."""
    groups, before = os.getgroups(), os.umask(umask)
    os.setgroups(GROUPS[who])
    os.setegid(who)
    os.seteuid(who)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
        os.umask(before)


def become(who, umask):
    """This process is that user, for good."""
    os.setgroups(GROUPS[who])
    os.setresgid(who, who, who)
    os.setresuid(who, who, who)
    os.umask(umask)
    os.chdir("/")


def act(told):
    """The command in a child that is somebody else: exit code, output, complaints."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            become(told["who"], told["umask"])
            env = {key: value.format(who=told["who"]) for key, value in told["env"].items()}
            answer = pit(*told["words"], env={"TASKPIT_AS": NAMES[told["who"]], **env})
            said = [answer.code, answer.out, answer.err]
        except BaseException:
            said = [-1, "", traceback.format_exc()]
        with open(writer, "w", encoding="utf-8") as file:
            json.dump(said, file)
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as file:
        said = file.read()
    os.waitpid(pid, 0)
    return said


def serve():
    """One command per line."""
    load_everything()
    print("here", flush=True)
    for line in sys.stdin:
        print(act(json.loads(line)), flush=True)


if __name__ == "__main__":
    serve()
