"""The suite under other circumstances: `trials.py matrix` on other machines, `trials.py moody` on a busy one.

Arguments after `--` are for pytest, for example the tests to run. Without any, each row of the matrix runs another
part of the suite, all of which together are the whole, and every test that its circumstance could touch; moody runs
those that wait for something: all of them in the first run of a clone, then of the dear ones a part in turn. Each
failure is printed with what repeats it, and all of it is kept in a file as it happens: a trial that is broken off has
said what it saw. What a run with failures said is kept whole beside it, by its seed: not each of them can be repeated.

The rows `full` of the matrix are `make test`, whole, each from a fresh clone and with the set-up: as root, as an
ordinary user, with another umask and on Python 3.13; each on an idle machine and next to busy processes. A row that is
in the record for this commit is not run again, so a trial that was broken off goes on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
#: What tests may do without, if they say so.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
OPTIONAL = ("git", "strace", "tmux", *BROWSERS, "groff", "script", "zsh", "fish")
ORDINARY = 65534
#: As many at a time as in `make test`: no processor is left to the busy ones alone.
JOBS = max(6, os.cpu_count() or 2)
#: Once a moody run has written down what each test costs, a dear one is in one run of so many.
TURNS = 6
RECORD = f"{ROOT}/build/trials.md"
#: What a test waits with or for: where it does, a busy machine could change its answer.
WAITING = r"Popen|lease=|Thread|page\.|pilot|asyncio\.run|timeout=|sleep\(|kill\("


class Ran(NamedTuple):
    """How a run of the suite ended."""

    passed: bool
    summary: str
    failures: list[str]
    seconds: float


#: A `make test` that takes longer, in seconds, hangs.
LONGEST = 3600


def suite(command: Sequence[str], seed: int, **how: object) -> Ran:
    """Run it with this seed, and read what it said at the end."""
    began = time.monotonic()
    words = [*command, f"--randomly-seed={seed}", "-q", "-rfE", "-n", str(JOBS), "--dist", "worksteal"]
    ran = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **how)
    said = ran.stdout.decode(errors="replace")
    if ran.returncode:
        keep(f"trial-{seed}.txt", said)
    return Ran(ran.returncode == 0, last_line(said), failures(said), time.monotonic() - began)


def keep(name: str, output: str) -> None:
    """Write the whole output of a run next to the record."""
    os.makedirs(os.path.dirname(RECORD), exist_ok=True)
    with open(f"{os.path.dirname(RECORD)}/{name}", "w", encoding="utf-8") as file:
        file.write(output)


def failures(output: str) -> list[str]:
    """The tests that pytest lists as red."""
    return sorted(set(re.findall(r"^(?:FAILED|ERROR) (\S+::.*?|\S+\.py)(?: - .*)?$", output, re.MULTILINE)))


def last_line(output: str) -> str:
    """The last line that says something."""
    return next((line.strip("= ") for line in reversed(output.splitlines()) if line.strip()), "no output")


def tell(line: str) -> None:
    """Print it, and keep it."""
    print(line, flush=True)
    os.makedirs(os.path.dirname(RECORD), exist_ok=True)
    with open(RECORD, "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def commit() -> str:
    """What is tried."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return said.stdout.strip()


@contextmanager
def load(busy: int) -> Iterator[None]:
    """So many processes that never rest, together in a session of their own, as other programs of a machine are."""
    each = f"{shlex.quote(sys.executable)} -c 'while True: pass' &"
    process = subprocess.Popen(["sh", "-c", f"{each} " * busy + "wait"], start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def waiting() -> list[str]:
    """The files in which a test waits for something: the others need not be read in each run."""
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--matching", WAITING]
    listed = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return sorted({line.partition("::")[0] for line in listed.splitlines() if "::" in line})


def moody(runs: int, busy: int, words: Sequence[str]) -> int:
    """So many runs with other seeds beside busy processes; how many of them failed."""
    bad = 0
    chosen = words or [*waiting(), "--matching", WAITING]
    said = shlex.join(words) or "what waits for something"
    tell(f"\n{time.strftime('%F %T')}, {commit()}: {runs} runs beside {busy} busy processes: {said}")
    costs = f"{os.path.dirname(RECORD)}/costs.json"
    with load(busy):
        for number in range(1, runs + 1):
            seed = random.randrange(2**31)  # noqa: S311 - any will do, it is printed
            turn = f"--turn={number}/{TURNS}:{costs}" if os.path.exists(costs) else f"--keep-costs={costs}"
            ran = suite([sys.executable, "-m", "pytest", *chosen, turn], seed, cwd=ROOT)
            tell(f"run {number} of {runs}, seed {seed}: {ran.summary}")
            for failure in ran.failures:
                tell(f"  pytest --randomly-seed={seed} '{failure}'")
            bad += not ran.passed
    tell(f"{bad} of {runs} runs failed, beside {busy} busy processes")
    return bad


class Place:
    """Clones, environments and folders for a matrix, gone afterwards."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._ready: dict[tuple[str, int | None], str] = {}

    def folder(self, name: str, user: int | None = None) -> str:
        """A folder in it, this user's own if one is named."""
        path = f"{self.root}/{name}"
        os.makedirs(path, exist_ok=True)
        if user is not None:
            os.chown(path, user, user)
        return path

    def programs(self) -> str:
        """The programs of the path, without those that tests may do without."""
        folder = self.folder("programs")
        for place in os.environ["PATH"].split(os.pathsep):
            for path in glob.glob(f"{place}/*"):
                name = os.path.basename(path)
                if not name.startswith(OPTIONAL) and not os.path.lexists(f"{folder}/{name}"):
                    os.symlink(path, f"{folder}/{name}")
        return folder

    def clone(self, python: str, user: int | None) -> tuple[str, str]:
        """A fresh clone and its pytest, set up by `make` as that user."""
        key = python, user
        if key not in self._ready:
            home = self.folder(f"home-{len(self._ready)}", user)
            where = f"{self.root}/clone-{len(self._ready)}"
            subprocess.run(["git", "clone", "--quiet", f"file://{ROOT}", where], check=True)
            if user is not None:
                subprocess.run(["chown", "-R", f"{user}:{user}", where], check=True)
            how = _as(user, {**os.environ, "HOME": home})
            subprocess.run(["make", "-s", f"PYTHON={python}", ".venv/dev"], cwd=where, check=True, **how)
            self._ready[key] = where
        return self._ready[key], f"{self._ready[key]}/.venv/bin/pytest"


def _as(user: int | None, env: dict[str, str]) -> dict[str, object]:
    if user is None:
        return {"env": env}
    return {"env": env, "user": user, "group": user, "extra_groups": []}


class Row(NamedTuple):
    """One circumstance: what tests mention that it could touch, what stands before the command, and so on."""

    name: str
    words: str
    before: Sequence[str] = ()
    env: Callable[[Place], dict[str, str]] = lambda _: {}
    user: int | None = None
    version: str = ""


def in_checkout(place: Place) -> dict[str, str]:
    """Temporary files below a `.git`."""
    folder = place.folder("checkout")
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    return {"TMPDIR": place.folder("checkout/temporary")}


GIT = r"\"git\"|git\("
ROWS = [
    Row("plain", ""),
    Row(
        "user",
        r"geteuid|chmod|chown|getuid|S_I",
        user=ORDINARY,
        env=lambda place: {"HOME": place.folder("empty", ORDINARY)},
    ),
    Row("checkout", GIT, env=in_checkout),
    Row("space", r"shlex|\"sh\"|shell=True|/bin/sh", env=lambda place: {"TMPDIR": place.folder("with a space")}),
    Row("umask", r"umask|st_mode|chmod", before=("sh", "-c", 'umask 077; exec "$@"', "sh")),
    Row("background", r"SIGINT|SIGHUP|SIGTERM|SIGQUIT", before=("sh", "-c", 'nohup "$@" & wait $!', "sh")),
    Row("bare", rf"needs\(|require\(|which\(|{GIT}", env=lambda place: {"PATH": place.programs()}),
    Row(
        "no-shm",
        r"shm|TMPDIR|on_disk|O_TMPFILE|st_dev",
        before=("unshare", "-m", "sh", "-c", 'umount -l /dev/shm && exec "$@"', "sh"),
    ),
    *(
        Row(f"python-{version}", r"tarfile|version_info|asyncio|sqlite|argparse|parser", version=version)
        for version in VERSIONS
    ),
]


def pythons(version: str) -> Iterator[str]:
    """The interpreters of this version that are here."""
    found = [
        shutil.which(f"python{version}"),
        *glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python{version}")),
        f"/usr/bin/python{version}",
    ]
    for path in found:
        if path and os.path.exists(path) and _is(path, version):
            yield path


def _is(path: str, version: str) -> bool:
    said = subprocess.run([path, "-c", "import sys; print(sys.version)"], capture_output=True, text=True, check=False)
    return said.stdout.startswith(f"{version}.")


def missing(row: Row, python: str) -> str:
    """Why this row cannot be tried here; empty if it can."""
    if not python:
        return f"there is no Python {row.version} here"
    if row.user is not None and os.geteuid():
        return "only root can be another user: the plain row shows an ordinary one already"
    if row.before and subprocess.run([*row.before, "true"], capture_output=True, check=False).returncode:
        return f"not allowed here: {' '.join(row.before[:2])}"
    return ""


def matrix(names: Sequence[str], words: Sequence[str]) -> int:
    """The suite in a fresh clone under each circumstance; how many rows failed."""
    bad = 0
    tell(f"\n{time.strftime('%F %T')}, {commit()}\n\n| circumstances | seconds | said |\n|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="taskpit-matrix-", dir="/var/tmp") as root:
        os.chmod(root, 0o755)  # noqa: S103 - the other user comes in here
        place = Place(root)
        for number, row in enumerate(ROWS):
            if names and row.name not in names:
                continue
            python = (
                next(pythons(row.version), "") if row.version else "/usr/bin/python3" if row.user else sys.executable
            )
            why, seed = missing(row, python), random.randrange(2**31)  # noqa: S311 - any will do, it is printed
            ran = Ran(passed=True, summary=f"missing: {why}", failures=[], seconds=0.0)
            if not why:
                clone, pytest = place.clone(python, row.user)
                how = _as(row.user, {**os.environ, **row.env(place)})
                chosen = words or [f"--share={number}/{len(ROWS)}", *([f"--matching={row.words}"] * bool(row.words))]
                ran = suite([*row.before, pytest, *chosen], seed, cwd=clone, **how)
            tell(f"| {row.name} | {ran.seconds:.0f} | {ran.summary} |")
            for failure in ran.failures:
                tell(f"  {failure} --randomly-seed={seed}")
            bad += not ran.passed
    return bad


#: Whole runs of `make test`. `full` stands for all of them.
FULL = [
    Row("full-root", ""),
    Row(
        "full-user",
        "",
        user=ORDINARY,
        env=lambda place: {"HOME": place.folder("empty", ORDINARY), "TMPDIR": place.folder("with a space", ORDINARY)},
    ),
    Row("full-umask", "", before=("sh", "-c", 'umask 077; exec "$@"', "sh")),
    Row("full-python-3.13", "", version="3.13"),
]


def full(rows: Sequence[Row]) -> int:
    """`make test` from a fresh clone in each of these worlds, idle and busy; how many were red or hung."""
    name = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    bad = 0
    if not recorded(f"| {name} |"):
        tell(f"\n{time.strftime('%F %T')}\n")
        tell("| commit | circumstances | seconds | verdict | summary |\n|---|---|---|---|---|")
    for busy in (0, 8):
        for row in rows:
            key = f"| {name} | {row.name}, {f'{busy} busy processes' if busy else 'idle'} |"
            if recorded(key):
                continue
            with load(busy):
                ran = make_test(row, f"trial-{name}-{row.name}-{busy}.txt")
            tell(f"{key} {ran.seconds:.0f} | {'green' if ran.passed else 'RED'} | {ran.summary} |")
            for failure in ran.failures:
                tell(f"  {failure}")
            bad += not ran.passed
    return bad


def recorded(key: str) -> bool:
    """Whether the record has this row."""
    with contextlib.suppress(FileNotFoundError), open(RECORD, encoding="utf-8") as file:
        return any(line.startswith(key) for line in file)
    return False


def make_test(row: Row, output: str) -> Ran:
    """One whole `make test` in a fresh clone."""
    python = next(pythons(row.version), "") if row.version else "/usr/bin/python3" if row.user else sys.executable
    if why := missing(row, python):
        return Ran(passed=False, summary=f"not run: {why}", failures=[], seconds=0.0)
    with tempfile.TemporaryDirectory(prefix="taskpit-full-", dir="/var/tmp", ignore_cleanup_errors=True) as root:
        os.chmod(root, 0o755)  # noqa: S103 - the other user comes in here
        place = Place(root)
        subprocess.run([*row.before, "git", "clone", "--quiet", f"file://{ROOT}", f"{root}/clone"], check=True)
        if row.user is not None:
            subprocess.run(["chown", "-R", f"{row.user}:{row.user}", f"{root}/clone"], check=True)
        began = time.monotonic()
        with open(f"{root}/output", "w+", encoding="utf-8", errors="replace") as said:
            process = subprocess.Popen(
                [*row.before, "make", "test", f"PYTHON={python}"],
                cwd=f"{root}/clone",
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **_as(row.user, {**os.environ, **row.env(place)}),
            )
            try:
                code = process.wait(LONGEST)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            said.seek(0)
            text = said.read()
    keep(output, text)
    summary = "hung" if code is None else next(iter(re.findall(r"=+ (.* in .*) =+", text)[-1:]), last_line(text))
    return Ran(code == 0, summary, failures(text), time.monotonic() - began)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trial", choices=["matrix", "moody"])
    names = ", ".join(row.name for row in (*ROWS, *FULL))
    parser.add_argument("--rows", default="", help=f"only these of {names}, or full")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--busy", type=int, default=8)
    ours, words = sys.argv[1:], list[str]()
    if "--" in ours:
        ours, words = ours[: ours.index("--")], ours[ours.index("--") + 1 :]
    options = parser.parse_args(ours)
    if options.trial == "moody":
        return bool(moody(options.runs, options.busy, words))
    rows = options.rows.replace(",", " ").split()
    if chosen := [row for row in FULL if row.name in rows or "full" in rows]:
        return bool(full(chosen))
    return bool(matrix(rows, words))


if __name__ == "__main__":
    sys.exit(main())
