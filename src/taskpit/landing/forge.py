"""Pull requests where a repository is hosted: opened, found and looked at by the person's own `gh` or `glab`.

Runs these programs in a directory of ours, with the repository named in each call: they read nothing that an agent
could write. What they say is data. Where there is neither, a command template opens pull requests, or nothing does, and
a person confirms. Knows no tasks.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from urllib.parse import quote, urlsplit

from taskpit.decode import read_json
from taskpit.errors import Invalid, TaskpitError
from taskpit.landing.git import GitTrouble
from taskpit.landing.values import CANDIDATE, FenceLost, held, opened
from taskpit.model import Value
from taskpit.policy import PULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from taskpit.landing.pipe import LandingPipe
    from taskpit.landing.values import HandIn
    from taskpit.model import Card, Claim, Done, Release

#: Seconds one call may take.
PATIENCE = 120.0
#: Pull requests in one list; older ones that still matter are asked for one by one.
LISTED = 200
#: Whose words go to an agent: people who may write to the repository. Anybody may comment on a public one.
MEMBERS = ("OWNER", "MEMBER", "COLLABORATOR")
#: What a command template may name.
PLACES = ("branch", "base", "title", "body", "repository")
_FIELDS = "number,url,state,headRefName,headRefOid,isCrossRepository,mergeCommit,reviews"
_STATES = {"open": "open", "opened": "open", "locked": "open", "merged": "merged", "closed": "closed"}
_ADDRESS = re.compile(r"https?://[^\s\x00-\x20\"'<>]{1,500}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class ForgeTrouble(TaskpitError):
    """The forge, or the program that talks to it, could not do what was asked."""

    code = "forge"


class Pull(Value, frozen=True, kw_only=True):
    """One pull request, as its forge tells of it."""

    number: int
    url: str
    #: open, merged or closed.
    state: str
    branch: str = ""
    #: The last commit of its branch, and the commit that merged it.
    head: str = ""
    merged: str = ""
    #: What members of the repository want changed, each with the commit they looked at.
    wanted: tuple[tuple[str, str], ...] = ()


def template(text: str) -> tuple[str, ...]:
    """The words of a command template; Invalid if it names what there is not."""
    try:
        words = tuple(shlex.split(text))
        for word in words:
            word.format(**dict.fromkeys(PLACES, ""))
    except (ValueError, KeyError, IndexError, AttributeError):
        raise Invalid(
            f"the command for pull requests cannot be read: {text!r}",
            hint=f"It is run without a shell; it may name {', '.join(f'{{{name}}}' for name in PLACES)}.",
        ) from None
    return words


def _place(url: str) -> tuple[str, str]:
    """Host and path of the repository behind an address; empty if it is none of a forge's."""
    short = re.fullmatch(r"(?:[\w.-]+@)?([\w.-]+):(?!//)([\w./~-]+)", url)
    if short:
        host, path = short.groups()
    else:
        parts = urlsplit(url)
        host, path = (parts.hostname or "", parts.path) if parts.scheme in ("https", "http", "ssh") else ("", "")
    path = path.strip("/").removesuffix(".git")
    return (host, path) if host and re.fullmatch(r"[\w.~-]+(/[\w.~-]+)+", path) else ("", "")


class Forge:
    """Where the repository at one address is hosted."""

    def __init__(self, url: str, cwd: str, command: str = "") -> None:
        self._cwd = cwd
        self._command = template(command) if command else ()
        self.host, self.path = _place(url)
        self.tool = "" if command or not self.host else self._tool()

    def _tool(self) -> str:
        """The program that talks to this host, if it is installed."""
        for name, variable, word in (("gh", "GH_HOST", "github"), ("glab", "GITLAB_HOST", "gitlab")):
            if (word in self.host or os.environ.get(variable) == self.host) and shutil.which(name):
                return name
        return ""

    def address(self, branch: str, base: str) -> str:
        """Where a person opens the pull request themselves; empty if nobody knows."""
        if not self.host:
            return ""
        if "gitlab" in self.host:
            return (
                f"https://{self.host}/{self.path}/-/merge_requests/new?merge_request%5Bsource_branch%5D={quote(branch)}"
            )
        return f"https://{self.host}/{self.path}/compare/{quote(base)}...{quote(branch)}?expand=1"

    # -- opening -----------------------------------------------------------------------------------

    def open(self, branch: str, base: str, title: str, body: str) -> Pull:
        """There is a pull request for this branch, made now if there was none; number 0: nobody can look at it."""
        if self._command:
            return self._by_template(branch, base, title, body)
        if not self.tool:
            return Pull(number=0, url=self.address(branch, base), state="open", branch=branch)
        found = self._of(branch)
        if found is None:
            self._create(branch, base, title, body)
            found = self._of(branch)
        if found is None:
            raise ForgeTrouble(f"{self.tool} made a pull request for {branch} and does not show it")
        return found

    def _of(self, branch: str) -> Pull | None:
        where = (f"--head={branch}",) if self.tool == "gh" else (f"--source-branch={branch}",)
        return next((pull for pull in self._listed(*where) if pull.branch == branch and pull.state == "open"), None)

    def _create(self, branch: str, base: str, title: str, body: str) -> None:
        """Made, or it exists already."""
        if self.tool == "gh":
            words = ("pr", "create", f"--head={branch}", f"--base={base}", f"--title={title}", "--body-file=-")
            code, said = self._run((*self._named(*words),), body)
        else:
            more = (f"--target-branch={base}", f"--title={title}", f"--description={body}", "--yes")
            code, said = self._run(self._named("mr", "create", f"--source-branch={branch}", *more))
        if code and "already exists" not in said:
            raise ForgeTrouble(f"{self.tool} made no pull request: {_tail(said)}")

    def _by_template(self, branch: str, base: str, title: str, body: str) -> Pull:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", errors="replace", suffix=".md") as file:
            file.write(body)
            file.flush()
            known = {"branch": branch, "base": base, "title": title, "body": file.name}
            known["repository"] = f"{self.host}/{self.path}"
            code, said = self._run([word.format(**known) for word in self._command])
        if code and "already exists" not in said:
            raise ForgeTrouble(f"{self._command[0]} made no pull request: {_tail(said)}")
        found = _ADDRESS.findall(said)
        return Pull(number=0, url=found[-1] if found else self.address(branch, base), state="open", branch=branch)

    # -- looking -----------------------------------------------------------------------------------

    def look(self, numbers: Sequence[int]) -> dict[int, Pull]:
        """How these stand now, by one list; the few that are not in it are asked for alone."""
        if not self.tool or not numbers:
            return {}
        found = {pull.number: pull for pull in self._listed()}
        missing = [number for number in numbers if number not in found]
        return {number: found[number] for number in numbers if number in found} | {
            number: self._one(number) for number in missing
        }

    def _listed(self, *where: str) -> list[Pull]:
        if self.tool == "gh":
            words = ("pr", "list", *where, "--state=all", f"--limit={LISTED}", f"--json={_FIELDS}")
        else:
            words = ("mr", "list", *where, "--all", f"--per-page={min(LISTED, 100)}", "--output=json")
        rows = self._json(self._named(*words))
        if not isinstance(rows, list):
            raise ForgeTrouble(f"{self.tool} told of no list")
        return [pull for row in rows if (pull := self._read(row)) is not None]

    def _one(self, number: int) -> Pull:
        gh = ("pr", "view", str(number), f"--json={_FIELDS}")
        words = gh if self.tool == "gh" else ("mr", "view", str(number), "--output=json")
        pull = self._read(self._json(self._named(*words)))
        if pull is None or pull.number != number:
            raise ForgeTrouble(f"{self.tool} told nothing of use about {number}")
        return pull

    def _read(self, row: object) -> Pull | None:
        """One row; None if it is none, or comes from a fork: there any branch may have any name."""
        if not isinstance(row, dict):
            return None
        gh = self.tool == "gh"
        number, url = row.get("number" if gh else "iid"), row.get("url" if gh else "web_url")
        state = _STATES.get(str(row.get("state")).lower(), "")
        fork = row.get("isCrossRepository") if gh else row.get("source_project_id") != row.get("target_project_id")
        if fork or not isinstance(number, int) or not isinstance(url, str) or not _ADDRESS.fullmatch(url) or not state:
            return None
        head = _commit(row.get("headRefOid" if gh else "sha"))
        merge = row.get("mergeCommit")
        by = merge.get("oid") if gh and isinstance(merge, dict) else None
        if not gh and state == "merged":  # a fast-forward has made no commit of its own
            by = row.get("merge_commit_sha") or row.get("squash_commit_sha") or head
        return Pull(
            number=number,
            url=url,
            state=state,
            branch=str(row.get("headRefName" if gh else "source_branch") or ""),
            head=head,
            merged=_commit(by),
            wanted=tuple(_wanted(row.get("reviews"))) if gh else (),
        )

    def remarks(self, number: int, head: str) -> list[str]:
        """What members said about lines of this very commit."""
        if self.tool != "gh":
            return []
        rows = self._json(("gh", "api", f"--hostname={self.host}", f"repos/{self.path}/pulls/{number}/comments"))
        lines = []
        for row in rows if isinstance(rows, list) else []:
            if not isinstance(row, dict) or row.get("author_association") not in MEMBERS:
                continue
            if head in (row.get("original_commit_id"), row.get("commit_id")):
                line = row.get("line") or row.get("original_line")
                place = f"{_short(row.get('path'), 300)}:{line if isinstance(line, int) else 0}"
                lines.append(f"`{place}`: {_short(row.get('body'))}")
        return lines

    # -- running -----------------------------------------------------------------------------------

    def _named(self, *words: str) -> tuple[str, ...]:
        where = f"{self.host}/{self.path}" if self.tool == "gh" else f"https://{self.host}/{self.path}"
        return (self.tool, *words, f"--repo={where}")

    def _json(self, words: Sequence[str]) -> Any:
        code, said = self._run(words)
        if code:
            raise ForgeTrouble(f"{words[0]} {words[1]}: {_tail(said)}")
        try:
            return read_json(said.encode())
        except ValueError:
            raise ForgeTrouble(f"{words[0]} {words[1]} answered with what is no JSON: {_tail(said)}") from None

    def _run(self, words: Sequence[str], stdin: str = "") -> tuple[int, str]:
        """Its exit code and what it said: on success its output, else also its complaints."""
        quiet = {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1", "GIT_TERMINAL_PROMPT": "0"}
        try:
            ran = subprocess.run(
                words,
                cwd=self._cwd,
                env={**os.environ, **quiet},
                input=stdin.encode("utf-8", "replace"),
                capture_output=True,
                timeout=PATIENCE,
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            raise ForgeTrouble(f"{words[0]} took longer than {PATIENCE:g} seconds") from None
        except (OSError, ValueError) as error:
            raise ForgeTrouble(f"{words[0]} cannot be run: {error}") from None
        said = ran.stdout if ran.returncode == 0 else ran.stdout + b"\n" + ran.stderr
        return ran.returncode, said.decode("utf-8", "replace")


def _commit(value: object) -> str:
    return value if isinstance(value, str) and _COMMIT.fullmatch(value) else ""


def _wanted(reviews: object) -> list[tuple[str, str]]:
    """The changes members asked for: the commit each looked at, and their words."""
    found = []
    for row in reviews if isinstance(reviews, list) else []:
        if (
            isinstance(row, dict)
            and row.get("state") == "CHANGES_REQUESTED"
            and row.get("authorAssociation") in MEMBERS
        ):
            commit, author = row.get("commit"), row.get("author")
            seen = _commit(commit.get("oid")) if isinstance(commit, dict) else ""
            name = _short(author.get("login"), 80) if isinstance(author, dict) else ""
            found.append((seen, f"{name}: {_short(row.get('body'))}".strip(": ")))
    return found


def _short(value: object, most: int = 4000) -> str:
    return " ".join(value.split())[:most] if isinstance(value, str) else ""


def _tail(said: str) -> str:
    return " ".join(said.split())[-300:] or "it said nothing"


# -- a task whose change lands by a pull request ---------------------------------------------------
#     push     the candidate, to a branch of its own at the remote; a head that is not ours is never pushed over
#     open     one pull request for that branch; the task stays held: "waits for the pull request N"
#     look     by any process, at most once a minute for each repository: merged, closed, changes wanted
#     merged   the forge's merge commit is in the remote's branch: that is what landed
#
# Work begins from the remote's branch, and the person's own branches are never moved.


#: Seconds between two looks at one repository's pull requests.
APART = 60.0


def is_open(card: Card | None, handed: HandIn) -> bool:
    """Whether this very candidate waits for its pull request."""
    if card is None or not handed.pr or not card.task.hold.startswith(PULL):
        return False
    candidate = card.task.extra.get(CANDIDATE)
    return isinstance(candidate, dict) and candidate.get("commit") == handed.commit


class Pulls:
    """The pull requests of one pipe."""

    def __init__(self, pipe: LandingPipe) -> None:
        self.pipe = pipe
        self.git = pipe.git

    def _forge(self, handed: HandIn | None = None) -> Forge:
        place = self.pipe.repository
        return Forge(place.remote().url, place.folder, handed.pr_command if handed else "")

    # -- opening -----------------------------------------------------------------------------------

    def open(self, claim: Claim, handed: HandIn) -> Release:
        """Pushed, and there is a pull request: the end of the claim, held until that is over."""
        branch = self.pipe.branch_of(handed.task)
        foreign = self._push(handed, branch)
        if foreign:
            where = self.pipe.repository.remote().name
            message = f"the branch {branch} at {where} has a commit that is not this task's, {foreign[:12]}"
            return held(claim.task, handed, [f"{message}; it was not pushed over"])
        pull = self._forge(handed).open(branch, handed.target, " ".join(handed.title.split())[:200], _body(handed))
        return opened(claim.task, self.pipe.note(handed, handed.replace(pr=pull.url or branch, number=pull.number)))

    def _push(self, handed: HandIn, branch: str) -> str:
        """The remote's branch is the candidate; else the foreign commit that is there. What was there must be ours."""
        record = self.pipe.ref("pushed", handed.task)
        there = self.pipe.repository.remote_head(branch)
        if there == handed.commit:
            return ""
        ours = self.git.look(record)[0].data.decode().split()
        if there and there not in ours:
            return there
        if handed.commit not in ours:  # noted first: what a killed push has brought there is known to be ours
            self.git.set(record, self.git.blob("\n".join([*ours, handed.commit]).encode()))
        self.pipe.repository.push(handed.commit, branch, there)
        return ""

    # -- looking -----------------------------------------------------------------------------------

    def look(self, waiting: list[HandIn], *, now: bool = False) -> dict[str, Pull]:
        """How the pull requests of these stand, by task; nothing if one has looked within the last minute."""
        asked = [one for one in waiting if one.number]
        if not asked or not (self.pipe.repository.is_due("looked", APART) or now):
            return {}
        found = self._forge().look([one.number for one in asked])
        return {one.task: found[one.number] for one in asked if one.number in found}

    def wanted(self, handed: HandIn, pull: Pull) -> str:
        """What members want changed in this very candidate; empty if nothing. Older words were about older commits."""
        said = [words for commit, words in pull.wanted if commit == handed.commit]
        if not said:
            return ""
        lines = [*said, *self._forge().remarks(pull.number, handed.commit)]
        return f"changes are wanted in {pull.url}\n\n" + "\n".join(f"- {line}" for line in lines if line)

    # -- the end -----------------------------------------------------------------------------------

    def merged(self, claim: Claim, handed: HandIn, commit: str) -> Done:
        """It has landed by this commit, which the remote's branch has; a person's word names none: then by its last."""
        fence = self.pipe.take_fence(claim)
        line = self.pipe.repository.remote_line(handed.target)
        if not commit:
            commit = handed.commit if self.git.is_ancestor(handed.commit, line) else line
        elif not self.pipe.repository.knows(commit) or not self.git.is_ancestor(commit, line):
            raise GitTrouble(f"{commit[:12]}, by which {handed.pr} was merged, is not on {handed.target} at the remote")
        name = self.pipe.ref("land", handed.task)
        if not self.git.move(name, commit, fence=fence):
            raise FenceLost(f"another worker has taken over the landing of {handed.task}")
        return self.pipe.sealed(handed, commit)

    def closed(self, claim: Claim, handed: HandIn) -> Release:
        """A person must say what now: approving it opens another one."""
        handed = self.pipe.note(handed, handed.replace(pr="", number=0, approved=""))
        return held(claim.task, handed, ["its pull request was closed without being merged"])


def _body(handed: HandIn) -> str:
    lines = [f"Task: {handed.task}", ""]
    if handed.evidence is not None:
        lines += [f"`{handed.evidence.command}` is {'green' if handed.evidence.green else 'red'} on this commit.", ""]
    words = handed.output.strip()[:8000].splitlines()
    return "\n".join([*lines, *(["In its worker's words:", ""] if words else []), *(f"> {line}" for line in words), ""])
