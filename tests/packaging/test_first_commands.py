"""The first pages that a newcomer reads: every block is run as it is printed, from an empty directory.

Each page has an environment of its own with the wheel and only those extras that the page tells its reader to
install. An agent is a stand-in on PATH. Lines that install something decide the environment; `make test-all` also
runs them, from a checkout and with the network.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from waits import PATIENCE
from world import once, require

from .conftest import ROOT

#: The pages, in the order in which a newcomer reads them.
PAGES = ("README.md", "docs/install.md", "docs/tutorial.md", "docs/howto/overnight.md", "docs/serve.md")
BLOCK = re.compile(r"^```(console|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INSTALLS = re.compile(r"(pip|pipx|uv tool) install '?\.(?:\[(?P<extras>[a-z,]+)\])?'?")
#: `cd` and `export` last until the page ends; any other command runs in a subshell.
LASTING = re.compile(r"(cd|export) [^&|;]*")
UNTIL_MORNING = re.compile(r"(pit work .*--until )\d\d:\d\d.*")
#: No page takes longer, in seconds.
LONGEST = 120
MARK = "~~ ended with exit code "

#: Ends the pool in the background (its process is $!) once no task is ready, running or about to land.
MORNING = """
quiet=0
for i in $(seq 300); do
  sleep 0.2
  quiet=$((quiet + 1))
  pit list --json | grep -Eq '"status": "(ready|running)"|"held": "waits for landing' && quiet=0
  [ $quiet -lt 3 ] || break
done
kill $!
wait $! || true
"""
#: What Claude Code would do with the tasks of these pages: one change for each title.
CLAUDE = r"""#!/bin/sh
prompt=$(cat)
case $prompt in
  *"Write a greeting"*) echo "hello" > hello.txt ;;
  *bonjour*) echo "bonjour" >> hello.txt ;;
  *"Explain hello.txt"*) echo "hello.txt has the greeting." > README.md ;;
  *"Reject empty passwords"*) printf 'def allowed(password):\n    return bool(password)\n' > login.py ;;
  *"Explain the retry setting"*) echo "retry: how often a request is repeated." > README.md ;;
  *"Raise the version"*) echo "1.1" > VERSION ;;
  *dragon*) echo "A dragon came." > "story-$(printf %s "$prompt" | sed -n 's/.*Write story //p' | head -n 1).txt" ;;
esac
echo '{"type":"system","subtype":"init","session_id":"s"}'
echo '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Write","input":{}}]}}'
echo '{"type":"result","is_error":false,"result":"Done.","session_id":"s","total_cost_usd":0.01,"num_turns":2}'
"""


class Step(NamedTuple):
    """A command of a page, and the output that the page shows; None if it shows none, and success is all we know."""

    command: str
    shown: str | None


class Ran(NamedTuple):
    """A step, its output and its exit code."""

    step: Step
    printed: str
    code: int

    @property
    def agrees(self) -> bool:
        if self.step.shown is None:
            return self.code == 0
        pattern = ".*".join(re.escape(part) for part in self.step.shown.split("..."))
        return re.fullmatch(pattern, self.printed, re.DOTALL) is not None

    def __str__(self) -> str:
        return (
            f"$ {self.step.command}\nthe page shows:\n{self.step.shown}\nexit code {self.code}, output:\n{self.printed}"
        )


def steps(text: str) -> list[Step]:
    """The commands of a page, in order."""
    found: list[tuple[list[str], list[str] | None]] = []
    for kind, block in BLOCK.findall(text):
        for line in block.splitlines():
            if kind == "sh":
                if line.split("#")[0].strip():
                    found.append(([line], None))
            elif line.startswith("$ "):
                found.append(([line[2:]], []))
            elif (line == ">" or line.startswith("> ")) and not found[-1][1]:
                found[-1][0].append(line[2:])
            else:
                found[-1][1].append(line)
    return [Step("\n".join(command), None if shown is None else "\n".join(shown).strip()) for command, shown in found]


def script(commands: list[str]) -> str:
    """A shell script that runs them one after the other, and writes each exit code."""
    lines = ["exec 2>&1"]
    for command in commands:
        if UNTIL_MORNING.fullmatch(command):
            lines.append(f"{command} &{MORNING}")
        elif command.endswith(" &"):
            lines += [command, listening(command.split("--port ")[1].split()[0])]
        else:
            lines.append(command if LASTING.fullmatch(command) else f"(\n{command}\n)")
        lines.append(f"printf '\\n{MARK}%s\\n' \"$?\"")
    return "\n".join(lines)


def listening(port: str) -> str:
    """Shell commands that wait until the server that was just started answers, or has ended."""
    connect = f"import socket; socket.create_connection(('127.0.0.1', {port})).close()"
    ask = f'"{sys.executable}" -c "{connect}" 2> /dev/null'
    return f"until {ask}; do kill -0 $! || exit 1; sleep 0.1; done"


def play(page: list[Step], folder: Path, programs: Path) -> list[Ran]:
    """Run the steps in the folder, with these programs."""
    home = folder.parent / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n"
    )
    agents = home / "agents"
    agents.mkdir()
    (agents / "claude").write_text(CLAUDE, encoding="utf-8")
    (agents / "claude").chmod(0o755)
    env = {"HOME": str(home), "LOGNAME": "ada", "TASKPIT_AS": "ada@home", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    env["PATH"] = f"{agents}:{programs}:{os.defpath}"
    output = folder.parent / "output"
    with output.open("w", encoding="utf-8") as file:
        shell = subprocess.Popen(
            ["/bin/sh", "-c", script([step.command for step in page])],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=file,
            start_new_session=True,
        )
        try:
            shell.wait(LONGEST)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)  # a server that a page leaves in the background
            shell.wait(PATIENCE)
    parts = re.split(rf"\n{MARK}(\d+)\n", output.read_text(encoding="utf-8"))
    assert len(parts) == 2 * len(page) + 1, parts[-1]
    return [
        Ran(step, printed.strip(), int(code))
        for step, printed, code in zip(page, parts[::2], parts[1::2], strict=False)
    ]


def needed(extras: set[str]) -> dict[str, object]:
    """The distributions that an installation of taskpit with these extras consists of, besides taskpit."""
    found: dict[str, object] = {}
    left = [("taskpit", frozenset(extras))]
    seen = set()
    while left:
        name, wanted = left.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        package = distribution(name)
        if name != "taskpit":
            found[name] = package
        for requirement in map(Requirement, package.requires or ()):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (wanted or {""}) | {""}):
                left.append((requirement.name, frozenset(requirement.extras)))
    return found


def environment(place: Path, wheel: Path, extras: set[str]) -> Path:
    """A virtual environment with the wheel and what these extras need; its `bin`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=PATIENCE)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--disable-pip-version-check", str(wheel)], check=True, timeout=PATIENCE)
    libraries = next((place / "lib").glob("python*/site-packages"))
    for package in needed(extras).values():
        for file in package.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (libraries / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(package.locate_file(file), libraries / file)
    return place / "bin"


def extras_of(page: list[Step]) -> set[str]:
    """The extras that a page tells its reader to install."""
    lines = (INSTALLS.match(step.command) for step in page)
    return {extra for match in lines if match and match["extras"] for extra in match["extras"].split(",")}


@pytest.mark.parametrize("name", PAGES)
def test_a_newcomer_gets_what_the_page_shows(name, built, tmp_path, tmp_path_factory):
    require("git")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    page = steps((ROOT / name).read_text(encoding="utf-8").replace("8443", port))
    extras = extras_of(page)
    place = once(
        tmp_path_factory,
        f"environment-{'-'.join(sorted(extras))}",
        lambda place: environment(place, built["wheel"], extras),
    )
    folder = tmp_path / "empty"
    folder.mkdir()
    page = [step for step in page if not INSTALLS.match(step.command)]
    ran = play(page, folder, place / "bin")

    assert len(ran) > 2
    assert not [one for one in ran if not one.agrees], "\n\n".join(str(one) for one in ran if not one.agrees)


def test_a_difference_is_noticed(tmp_path):
    page = steps(
        "```sh\ntrue\nfalse  # no\n```\n```console\n$ pwd\n.../empty\n$ echo a\nb\n$ cat <<END\n> x\n> END\nx\n```\n"
    )
    folder = tmp_path / "empty"
    folder.mkdir()

    assert [one.agrees for one in play(page, folder, tmp_path)] == [True, False, True, False, True]


@pytest.mark.long("test_a_newcomer_gets_what_the_page_shows, with the same extras from this environment")
@pytest.mark.parametrize("name", PAGES)
def test_the_install_lines_work(name, tmp_path):
    """Each line of a page that installs taskpit, from a checkout; then `pit --version`."""
    lines = [step.command for step in steps((ROOT / name).read_text(encoding="utf-8")) if INSTALLS.match(step.command)]
    for number, line in enumerate(lines):
        program = line.split()[0]
        place = tmp_path / str(number)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, timeout=PATIENCE)
        path = f"{place}/bin:{os.environ['PATH']}"
        if shutil.which(program, path=path) is None:
            continue  # the page offers several; pip is always there
        env = {
            **os.environ,
            "PATH": path,
            "HOME": str(place),
            "PIPX_HOME": f"{place}/pipx",
            "PIPX_BIN_DIR": f"{place}/bin",
        }
        env |= {"UV_TOOL_DIR": f"{place}/uv", "UV_TOOL_BIN_DIR": f"{place}/bin"}
        subprocess.run(["/bin/sh", "-c", line], cwd=ROOT, env=env, check=True, timeout=10 * PATIENCE)
        subprocess.run([f"{place}/bin/pit", "--version"], env=env, check=True, timeout=PATIENCE)


@pytest.mark.parametrize(
    ("receipt", "command"),
    [
        ("", "/bin/python -m pip install 'taskpit[yaml]'"),
        ("pipx_metadata.json", " pipx runpip hints install 'taskpit[yaml]'"),
        ("uv-receipt.toml", " uv pip install --python "),
    ],
)
def test_a_hint_names_the_tool_that_installed_pit(receipt, command, built, tmp_path):
    place = tmp_path / "hints"
    pit = environment(place, built["wheel"], set()) / "pit"
    if receipt:
        (place / receipt).touch()
    ran = subprocess.run(
        [pit, "init", tmp_path / "items", "--layout", "activities"],
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert ran.returncode == 1
    assert command in ran.stderr
