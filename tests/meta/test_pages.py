"""The pages hang together: links and anchors lead somewhere, every page can be found, and what they name exists."""

from __future__ import annotations

import ast
import json
import os
import random
import re
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from xml.etree import ElementTree as ET

import pytest
import sessions
from ruamel.yaml import YAML
from waits import PATIENCE

from taskpit import layouts
from taskpit.cli import verbs
from taskpit.cli.parser import make_parser
from taskpit.layouts import Spot

ROOT = sessions.ROOT
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def prose_of(page):
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page):
    """What its headings are called in an address."""
    found = []
    for line in prose_of(page).splitlines():
        if heading := re.match(r"#+ +(.*)", line):
            words = re.sub(r"[^\w\s-]", "", heading[1].replace("`", "").lower()).strip()
            found.append(re.sub(r"\s+", "-", words))
    return found


def in_all(found):
    """What is found in each page, with the page."""
    return [(page, one) for page in PAGES for one in found(page)]


def test_links_lead_somewhere():
    dead = []
    for page, target in in_all(lambda page: LINK.findall(re.sub(r"`[^`]*`", "", prose_of(page)))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            dead.append(f"{page.name}: {target}")
    assert dead == []


def test_a_dead_link_is_noticed(tmp_path):
    (tmp_path / "a.md").write_text(
        "# One `two`: three\n[x](#one-two-three) [y](b.md) [z](#four)\n```\n[no](c.md)\n```\n"
    )
    assert LINK.findall(prose_of(tmp_path / "a.md")) == ["#one-two-three", "b.md", "#four"]
    assert anchors(tmp_path / "a.md") == ["one-two-three"]


def places(nav):
    for entry in nav:
        for where in entry.values():
            yield from [where] if isinstance(where, str) else places(where)


def test_every_page_is_in_the_navigation():
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    found = sorted(places(site["project"]["nav"]))

    assert found == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_the_site_builds_without_a_warning(tmp_path):
    if not os.environ.get("TASKPIT_LONG"):
        pytest.skip("`make docs` does; here only with TASKPIT_LONG=1")
    pytest.importorskip("zensical", reason="zensical is missing: make .venv/docs")
    subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT, check=True, timeout=PATIENCE
    )


READERS = {
    "ini": lambda text: ConfigParser().read_string(text),
    "xml": ET.fromstring,
    "toml": tomllib.loads,
    "json": lambda text: [json.loads(part) for part in (text.splitlines() if text.count('{"schema"') > 1 else [text])],
    "python": lambda text: compile(text, "a page", "exec"),
    "yaml": lambda text: YAML(typ="safe").load(text),
    "sh": lambda text: subprocess.run(["/bin/sh", "-n", "-c", text], check=True, capture_output=True),
}


def test_blocks_are_what_they_say():
    for page in (page for page in PAGES if "reference" not in page.parts):
        written = page.read_text(encoding="utf-8")
        for kind, text in re.findall(r"^```(\w+)\n(.*?)^```$", written, re.DOTALL | re.MULTILINE):
            if kind in READERS:
                READERS[kind](text)
            else:
                assert kind in ("console", "markdown"), f"{page.name}: what is {kind}?"


def test_the_crew_that_is_shown_can_be_read(tmp_path):
    """The agents.toml of the page is one."""
    from taskpit.crew.file import load

    shown = re.findall(
        r"^```toml\n(.*?)^```$", (DOCS / "agents.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    (tmp_path / "agents.toml").write_text(shown[1], encoding="utf-8")
    (tmp_path / ".git/refs").mkdir(parents=True)  # the work of its agents is to land
    for name in ("planner", "snake"):
        (tmp_path / "agents").mkdir(exist_ok=True)
        (tmp_path / "agents" / f"{name}.md").write_text("You are one.\n", encoding="utf-8")
    (tmp_path / "claude").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "claude").chmod(0o755)
    crew = load(str(tmp_path / "agents.toml"), str(tmp_path), {"PATH": str(tmp_path)})

    assert [post.name for post in crew.posts] == ["planner", "snake-1", "snake-2", "snake-3", "chronicle"]


# -- architecture ----------------------------------------------------------------------------------


def functions(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_what_the_architecture_names_exists():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "taskpit"
    named = re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py|[a-z_]+/)`", text)
    tests = re.findall(r"`(tests/[a-z]+)`", text)
    steps = re.findall(r"\| `([a-z_/]+\.py)` \| `([a-z_]+)` \|", text)

    assert len(named) > 30
    assert len(steps) > 15
    assert [name for name in named if not ((source / name).exists() or (ROOT / name).exists())] == []
    assert [name for name in tests if not (ROOT / name).is_dir()] == []
    assert [(file, name) for file, name in steps if name not in functions(source / file)] == []


def test_the_architecture_names_every_room():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    # A package that has moved leaves a folder of bytecode behind.
    there = [path for path in (ROOT / "src" / "taskpit").iterdir() if path.is_file() or any(path.glob("[!_]*"))]
    rooms = {path.name + "/" * path.is_dir() for path in there}
    others = {
        "__init__.py",
        "__main__.py",
        "__pycache__/",
        "py.typed",
        "presets/",
        "schemas/",
        "templates/",
        "testing/",
    }

    assert [room for room in sorted(rooms - others) if f"`{room}`" not in text] == []


# -- formats ---------------------------------------------------------------------------------------


def grammar():
    """The names of the specification by layout and state, and the expressions of their parts."""
    text = (DOCS / "formats" / "index.md").read_text(encoding="utf-8")
    parts = dict(re.findall(r"^\| `\{(\w+)\}` \| `(.+?)` \|", text, re.MULTILINE))
    assert set(parts) == {"id", "plain", "slug", "worker"}
    return re.findall(r"^\| (\w+) \| (\w+)[, a-z]* \| `([^`]+)` \|$", text, re.MULTILINE), parts


def expression(path, parts):
    for part, told in parts.items():
        path = path.replace(f"{{{part}}}", f"(?P<{'id' if part == 'plain' else part}>{told})")
    return path


def words(told, chance):
    """Words that the expression allows, odd ones first."""
    letters = "aZ0._-@+~"
    found = {
        word for word in ("a.b", "0007", "A_b", "x-y", "done", "a~k3f9ab", "a_inprogress") if re.fullmatch(told, word)
    }
    while len(found) < 25:
        word = "".join(chance.choices(letters, k=chance.randint(1, 9)))
        if re.fullmatch(told, word):
            found.add(word)
    return sorted(found)


@pytest.mark.parametrize(("name", "state", "path"), grammar()[0])
def test_names_are_read_as_specified(name, state, path):
    layout, parts, chance = layouts.get(name), grammar()[1], random.Random(7)
    pattern, seen = expression(path, parts), 0
    for task_id in words(parts["plain" if "{plain}" in path else "id"], chance):
        worker = chance.choice(words(parts["worker"], chance))
        made = path.replace("{id}", task_id).replace("{plain}", task_id).replace("{worker}", worker)
        made = made.replace("(-{slug})?", "-fix-it").replace("\\", "")
        assert re.fullmatch(pattern, made)
        if ".." in task_id or (name == "workspace" and re.search("_(inprogress|pending|done|failed)", task_id)):
            continue
        spot = layout.spot(*made.split("/"))
        assert isinstance(spot, Spot), made
        assert (spot.id, str(spot.state)) == (task_id, state)
        assert spot.worker == (worker if "{worker}" in path else "")
        seen += 1
    assert seen > 15


def test_names_that_are_written_are_as_specified():
    """Whatever a layout writes fits its expression."""
    from taskpit.model import Task, Verdict, Want
    from taskpit.store import claim as claims

    claims._fence(Want(worker="a", lease=1.0))  # a process counts its claims, and the names get longer
    rows, parts = grammar()
    patterns = {}
    for name, state, path in rows:
        patterns.setdefault((name, state), []).append(expression(path, parts))
    for name in ("pit", "mailbox", "workspace"):
        layout = layouts.get(name)
        task = layout.named(Task(id=layout.new_id(7), title="Fix the login, *now*!"))
        written = {
            "ready": layout.ready_path(task),
            "claimed": layout.claimed_path(task, claims._fence(Want(worker="snake-2", lease=1.0))),
            "done": layout.finished_paths(task)[0] if name == "workspace" else layout.result_path(task, Verdict.DONE),
        }
        for state, path in written.items():
            assert any(re.fullmatch(pattern, path) for pattern in patterns[name, state]), path


# -- commands --------------------------------------------------------------------------------------


def options_of(verb):
    parser = make_parser(verb)
    return {option for action in parser._actions for option in action.option_strings}


def spoken(text):
    """Every `pit ...` that a page says, in blocks and in lines."""
    ours = (line for line in text.splitlines() if not line.startswith("npx "))  # another program's line
    blocks = "\n".join(re.sub(r"^[$>] ", "", line) for line in ours)
    for said in re.findall(r"(?<![\w/`.-])pit ((?:-C \S+ |--json )*[a-z]+[^\n`|&;]*)", blocks):
        yield said.strip()
    for said in re.findall(r"`pit ([^`\n]+)`", text):
        yield said


def test_commands_that_pages_name_exist():
    known = {verb.name: options_of(verb) for verb in verbs.VERBS}
    wrong = []
    for page, said in in_all(lambda page: spoken(page.read_text(encoding="utf-8"))):
        words = re.sub(r"^(-C \S+ |--json )+", "", said).split(" -- ")[0].split()
        verb = verbs.find(words[0]) if words else None
        if verb is None:
            continue
        options = [re.split(r"[=,.)\]']", word)[0] for word in words[1:] if re.match(r"--[a-z]", word)]
        wrong += [f"{page.name}: pit {said}: {option}" for option in options if option not in known[verb.name]]
    assert wrong == []
    for page, said in in_all(lambda page: re.findall(r"`pit ([a-z]+)[ `]", prose_of(page))):
        assert verbs.find(verbs.meant([said])[0]) or said == "help", f"{page.name} names `pit {said}`"


def test_spelling():
    """British words in the pages; misspelt ones are found by `make check`."""
    american = r"\b(color|behavior|honor|favor|center|license[ds]?|initializ|recogniz|organiz|synchroniz|serializ)\w*"
    found = [
        f"{page.name}: {word[0]}"
        for page in PAGES
        if "reference" not in page.parts
        for word in re.finditer(american, re.sub(r"`[^`]*`|\([^)]*\)", "", prose_of(page)))
    ]
    assert found == []
