"""Look at the repository in which a pool starts: whether changes can land there, and what its clones will lack.

Runs git to look, and nothing else.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable

import msgspec

from taskpit.errors import Invalid
from taskpit.landing.git import GitTrouble, outside
from taskpit.model import Evidence

#: How to work without landing; the second way out of each refusal.
SHARE = "`--land none` works in this folder, on files that agents and you share."
#: The set-up for each lock file, the folder that it fills, and the first file that counts if several are there.
#: Every one installs into the clone.
SETUPS = (
    ("package-lock.json", "npm ci", "node_modules"),
    ("pnpm-lock.yaml", "pnpm install --frozen-lockfile", "node_modules"),
    ("yarn.lock", "yarn install --frozen-lockfile", "node_modules"),
    ("bun.lock", "bun install --frozen-lockfile", "node_modules"),
    ("uv.lock", "uv sync", ".venv"),
    ("poetry.lock", "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install", ".venv"),
    ("Pipfile.lock", "PIPENV_VENV_IN_PROJECT=1 pipenv sync", ".venv"),
    ("requirements.txt", "python -m venv .venv && .venv/bin/pip install -r requirements.txt", ".venv"),
    ("pyproject.toml", "python -m venv .venv && .venv/bin/pip install -e .", ".venv"),
    ("Gemfile.lock", "BUNDLE_PATH=vendor/bundle bundle install", "vendor/bundle"),
    ("composer.lock", "composer install", "vendor"),
)
#: Exit code and words of a check that could not start.
NOT_FOUND = 127
_MISSING = re.compile(
    r"(?:command |: )not found|No such file or directory|No module named|Cannot find (?:module|package)", re.MULTILINE
)


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """A git work tree."""

    top: str
    #: The branch that is checked out; empty for a detached HEAD.
    branch: str
    has_commit: bool
    has_user: bool


def find(cwd: str) -> Checkout | None:
    """Return the work tree that this directory is in; None if it is in none, or if there is no git."""
    try:
        place = outside(cwd, "rev-parse", "--is-inside-work-tree", "--show-toplevel", ok=(0, 128)).text.splitlines()
        if len(place) != 2 or place[0] != "true":
            return None
        mail = os.environ.get("GIT_AUTHOR_EMAIL") or outside(cwd, "config", "user.email", ok=(0, 1), personal=True).text
        return Checkout(
            top=place[1],
            branch=outside(cwd, "symbolic-ref", "--quiet", "--short", "HEAD", ok=(0, 1, 128)).text,
            has_commit=bool(outside(cwd, "rev-parse", "--quiet", "--verify", "HEAD", ok=(0, 1, 128)).text),
            has_user=bool(mail),
        )
    except (GitTrouble, OSError):
        return None


def require_landing(checkout: Checkout, onto: str) -> None:
    """Raise Invalid if the changes of agents cannot land in this checkout."""
    if not checkout.has_commit:
        raise Invalid(
            f"{checkout.top} has no commit yet, so agents cannot have clones of it",
            hint=f"Commit something first: `git commit --allow-empty -m begin`. Or {SHARE}",
        )
    if not checkout.branch and not onto:
        raise Invalid(
            f"no branch is checked out in {checkout.top}, so there is nothing for changes to land on",
            hint=f"Name one: --onto BRANCH, or `git switch BRANCH`. Or {SHARE}",
        )
    if not checkout.has_user:
        raise Invalid(
            f"git knows no author for commits in {checkout.top}",
            hint=f"`git config user.name NAME` and `git config user.email ADDRESS`. Or {SHARE}",
        )


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """An option that fresh clones of a checkout probably need."""

    #: Why, as a sentence.
    why: str
    #: `setup` or `copy`, and its value.
    option: str
    value: str

    def spelled(self) -> str:
        """Write the option as a shell takes it."""
        return f"--{self.option} {shlex.quote(self.value)}"


def advice(checkout: Checkout, checks: Iterable[str], *, setup: str, copied: Iterable[str]) -> list[Advice]:
    """List what clones of this checkout lack and these checks may need, with the exact options."""
    found = []
    lock = next((row for row in SETUPS if os.path.isfile(f"{checkout.top}/{row[0]}")), None)
    if lock is not None and not setup:
        name, command, folder = lock
        ignored = _is_ignored(checkout, folder)
        also = "" if ignored else f" Add {folder}/ to .gitignore first, or it becomes part of each change."
        found.append(
            Advice(
                why=f"Fresh clones have no {folder}, and {name} is there: {command!r} can make it in each.{also}",
                option="setup",
                value=command,
            )
        )
    names = sorted({word for check in checks for word in _words(check)} - set(copied))
    for name in names[:20]:
        path = os.path.normpath(f"{checkout.top}/{name}")
        if path.startswith(f"{checkout.top}/") and os.path.isfile(path) and _is_ignored(checkout, name):
            why = f"A check names {name}, which git ignores, so clones do not have it."
            found.append(Advice(why=why, option="copy", value=name))
    return found


def _is_ignored(checkout: Checkout, name: str) -> bool:
    try:
        return outside(checkout.top, "check-ignore", "--quiet", "--", name, ok=(0, 1)).code == 0
    except (GitTrouble, OSError):
        return False


def _words(check: str) -> list[str]:
    """Split a check into words that may be files of the checkout."""
    try:
        words = shlex.split(check)
    except ValueError:
        words = check.split()
    plain = [word.partition("=")[2] or word for word in words]
    return [word.removeprefix("./") for word in plain if word and not word.startswith(("/", "-", "~"))]


def missing_in_clone(evidence: Evidence, clone: str, top: str) -> str:
    """Say why a red check could not start in a clone although it starts in the checkout; empty if that is not so."""
    if evidence.green or not (evidence.exit_code == NOT_FOUND or _MISSING.search(evidence.tail)):
        return ""
    folders = dict.fromkeys(row[2] for row in SETUPS)
    names = [name for name in (*_words(evidence.command), *folders) if not name.startswith("../")]
    lacking = [name for name in names if os.path.exists(f"{top}/{name}") and not os.path.exists(f"{clone}/{name}")]
    if not lacking:
        return ""
    row = next((row for row in SETUPS if os.path.isfile(f"{top}/{row[0]}")), None)
    file = os.path.isfile(f"{top}/{lacking[0]}") and not (row and lacking[0].startswith(f"{row[2]}/"))
    option = f"--copy {shlex.quote(lacking[0])}" if file else f"--setup {shlex.quote(row[1])}" if row else "--setup CMD"
    return (
        f"the check could not start in its clone: {lacking[0]} is in your checkout, but not in the clone. "
        f"Start the pool with {option}"
    )
