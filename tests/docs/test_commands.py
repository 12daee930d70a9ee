"""Every command shown in the README, the docs and the examples is run, and what it prints is what they show."""

from __future__ import annotations

import re
from shutil import copytree
from typing import TYPE_CHECKING

import pytest
import sessions
from world import require

if TYPE_CHECKING:
    from pathlib import Path

#: These pages are run by other suites: by tests/postgres and tests/packaging/test_first_commands.py.
ELSEWHERE = {
    "README.md",
    "docs/howto/overnight.md",
    "docs/install.md",
    "docs/postgres.md",
    "docs/serve.md",
    "docs/tutorial.md",
}
SHOWN = [
    page
    for page in sessions.pages()
    if str(page.relative_to(sessions.ROOT)) not in ELSEWHERE and sessions.commands(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: str(page.relative_to(sessions.ROOT)))
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    if "examples" in page.parts:  # an example runs in its own folder
        copytree(page.parent, tmp_path, dirs_exist_ok=True)
    text = page.read_text(encoding="utf-8")
    if any(re.search(r"\bgit (?!checkout)", command) for command, _ in sessions.commands(text)):
        require("git")
    said = sessions.play(text, tmp_path)

    assert not [one for one in said if not one.agrees], "\n\n".join(str(one) for one in said if not one.agrees)


def test_the_player_sees_a_difference(tmp_path: Path) -> None:
    page = "```console\n$ mkdir a\n$ cd a\n$ pwd\n.../a\n$ cd / && pwd\n/\n$ cat <<END\n> x\n> END\ny\n```\n"
    said = sessions.play(page, tmp_path)

    assert [one.agrees for one in said] == [True, True, True, True, False]
    assert said[-1].printed == "x"
