"""The person's repository, ours beside it, and clones: bringing a branch in, and back out. Knows no tasks.

<state>/taskpit/landing/<name>-<digest>/
    git/         P: `refs/pit/up/<branch>` as last seen at the person's, `refs/pit/line/<branch>` what has landed,
                 `refs/pit/have/<branch>` as last fetched
    work/        the agents' clones
    check/       clones in which checks run
    publish.lock held by the process that moves the person's branch

What has landed is what the line holds: a ref that nobody has checked out. Moving the person's branch to it is a
separate step that can be repeated, so a dirty checkout delays only that.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import stat
from collections.abc import Mapping, Sequence

from taskpit import fs
from taskpit.clock import Clock
from taskpit.errors import Invalid
from taskpit.landing.candidate import FILE, LINK, PROGRAM, Candidates, PathChange
from taskpit.landing.git import ZERO, Git, GitTrouble, Ref, outside, require
from taskpit.landing.line import BranchTrouble, have_of, line_of, together, up_of
from taskpit.landing.settings import (
    HABITS,
    IGNORED,
    Remote,
    Setting,
    digest,
    is_partial,
    line_for,
    remote_of,
    unsafe,
)
from taskpit.model import Value
from taskpit.trust import state_path

#: What stands in a repository's directory while the person is in the middle of something.
BUSY = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "index.lock": "another git command",
}
#: What is told of a branch that the person changes while it is looked at.
MEANWHILE = "{} was changed in this very moment; the next look brings it there"
#: What to do about a repository that may lack objects.
WHOLE = "Clone it again without --filter, and work there."
#: Objects that no ref needs are pruned when they are older than this.
UNUSED = "2.weeks.ago"
#: Scratch files and clones for checks that are older than this were left by a killed process.
LEFTOVER = 2 * 86400.0
#: The largest file of excludes that is read, and the largest that is copied into a clone.
LARGEST_EXCLUDES, LARGEST_COPY = 1024 * 1024, 64 * 1024 * 1024


class Merge(Value, frozen=True, kw_only=True):
    """Two commits brought together."""

    tree: str
    #: Files that both sides changed differently; the tree has both, with marks.
    conflicts: tuple[str, ...] = ()


class Published(Value, frozen=True, kw_only=True):
    """How far the person's branch is behind what has landed, and why."""

    branch: str
    behind: int = 0
    why: str = ""

    def sentence(self) -> str:
        """The same as a sentence; empty if it is not behind."""
        if not self.behind:
            return ""
        count, are = ("1 commit", "is") if self.behind == 1 else (f"{self.behind} commits", "are")
        return f"{count} that landed on {self.branch} {are} not in your checkout yet: {self.why}"


class Repository:
    """One repository of a person's, and ours for it."""

    def __init__(self, cwd: str) -> None:
        words = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir", "--git-dir")
        found = outside(cwd, *words, ok=(0, 128))
        if found.code:
            raise _no_repository(cwd, found.err)
        try:
            self.top, self.common, self._directory = found.text.split("\n")
        except ValueError:
            raise GitTrouble(f"{cwd!r} has an end of line in its path", hint="Landing needs another path.") from None
        mark = hashlib.sha256(os.fsencode(os.path.realpath(self.common))).hexdigest()[:12]
        name = "".join(c if c.isascii() and c.isalnum() else "-" for c in os.path.basename(self.top))[:40]
        self.folder = f"{state_path('landing')}/{name}-{mark}"
        self.git = Git(f"{self.folder}/git")
        self._accepted = ""
        self._habits: tuple[tuple[str, str], ...] = ()
        self._remote: Remote | None = None

    def _settings(self, place: str = "", *, personal: bool = False) -> list[Setting]:
        """What the configuration says here, or in another checkout of the same repository, in git's order.

        The repository's own; with the person's and the machine's before it, if it is `personal`.
        """
        words = ("config", "--includes", "--list", "--show-scope", "-z")
        out = os.fsdecode(outside(place or self.top, *words, ok=(0, 1, 128), personal=personal).out)
        pairs = zip(*[iter(out.split("\0"))] * 2, strict=False)
        entries = ((scope, entry.partition("\n")) for scope, entry in pairs)
        return [(scope, key, value if is_said else "true") for scope, (key, is_said, value) in entries]

    def current_branch(self) -> str:
        """The branch the person has checked out; Invalid if there is none to land on."""
        name = outside(self.top, "symbolic-ref", "--quiet", "--short", "HEAD", ok=(0, 1, 128)).text
        if not name:
            raise Invalid(f"no branch is checked out in {self.top}", hint="Say which one: --onto BRANCH.")
        return name

    def require_branch(self, name: str) -> None:
        """Invalid unless there is such a branch with a commit."""
        if not self._theirs(name):
            raise Invalid(f"there is no branch {name!r} in {self.top}", hint="`git branch` shows them.", branch=name)

    def _theirs(self, branch: str) -> str:
        """The last commit of the person's branch; empty if there is no such branch."""
        return outside(self.top, "show-ref", "--verify", "--hash", f"refs/heads/{branch}", ok=(0, 1, 128)).text

    def is_known(self) -> bool:
        """Whether ours is there: something was to land here before."""
        return os.path.isdir(self.git.directory)

    def places(self) -> tuple[str, ...]:
        """Directories in which something changes when the person uses git here."""
        return (self._directory, self.common, f"{self.common}/refs/heads")

    def is_due(self, name: str, apart: float) -> bool:
        """Whether what has this name was not begun here for so many seconds, by any process; it is begun now."""
        mark = f"{self.folder}/{name}"
        with fs.Flock(f"{mark}.lock"):
            status = fs.status(mark)
            if status is not None and 0 <= Clock().now() - status.st_mtime < apart:
                return False
            with open(mark, "ab"):
                os.utime(mark)
            return True

    # -- ours --------------------------------------------------------------------------------------

    def open(self) -> None:
        """Our repository is there and knows the person's habits; what they have configured now is accepted."""
        require()
        personal, own = self._settings(personal=True), self._settings()
        said = {key: value for _, key, value in personal}
        name = os.environ.get("GIT_AUTHOR_NAME") or said.get("user.name") or "taskpit"
        mail = os.environ.get("GIT_AUTHOR_EMAIL") or said.get("user.email") or "taskpit@localhost"
        self.git = Git(self.git.directory, author=(name, mail))
        if is_partial(own):
            raise GitTrouble(f"{self.top} is a partial clone, whose files may be missing", hint=WHOLE)
        habits = {
            key: said.get(key, "").lower() for key, values in HABITS.items() if said.get(key, "").lower() in values
        }
        self._habits = (("user.name", name), ("user.email", mail), *habits.items())
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        with fs.Flock(f"{self.folder}/open.lock"):
            if not os.path.isdir(self.git.directory):
                self._clone_ours()
            self._learn(habits, [value for scope, key, value in personal if (scope, key) == IGNORED])
            for name in ("work", "check"):
                fs.make_dir(f"{self.folder}/{name}")
            self._tidy()
        self._accepted = digest(own)
        self._remote = remote_of(own)

    def _tidy(self) -> None:
        """What killed processes left is gone: nobody is at work in one of these for so long."""
        before = Clock().now() - LEFTOVER
        packs = f"{self.git.directory}/objects/pack"
        left = ((f"{self.folder}/check", ""), (self.git.directory, "index."), (self.folder, "git."))
        for folder, begin in (*left, (packs, "tmp_"), (packs, ".tmp-")):
            for name in fs.names(folder):
                status = fs.status(f"{folder}/{name}")
                if name.startswith(begin) and status is not None and status.st_mtime < before:
                    remove(f"{folder}/{name}")

    def _clone_ours(self) -> None:
        scratch = f"{self.folder}/git.{fs.fresh_name()}"
        outside(self.folder, "clone", "--quiet", "--bare", "--template=", "--no-tags", "--", self.common, scratch)
        os.makedirs(f"{scratch}/info", exist_ok=True)
        fs.write(f"{self.folder}/repository", os.fsencode(f"{self.top}\n"))
        fs.move(scratch, self.git.directory)

    def _learn(self, habits: Mapping[str, str], ignored: Sequence[str]) -> None:
        known = self.git.run("config", "-z", "--get-regexp", r"^core\.", ok=(0, 1)).text.split("\0")
        for key, value in habits.items():
            if f"{key}\n{value}" not in known:
                self.git.run("config", key, value)
        home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
        theirs = os.path.expanduser(ignored[-1]) if ignored else f"{home}/git/ignore"
        files = (f"{self.common}/info/exclude", theirs)
        fs.replace(f"{self.git.directory}/info/exclude", b"\n".join(_excludes(path) for path in files), sync=False)

    # -- the line ----------------------------------------------------------------------------------

    def line(self, branch: str) -> str:
        """The last commit that landed on this branch; empty if nothing ever did."""
        return self.git.ref(line_of(branch))

    def sync(self, branch: str) -> str:
        """The line has all that the person's branch has; its last commit. BranchTrouble if it cannot have.

        What a person took out by a reset, an amendment or a rebase is not in the line either.
        """
        up, have, line = up_of(branch), have_of(branch), line_of(branch)
        while True:
            # What was seen is read before the branch is: a publishing between the two must not look like a reset.
            seen, had, ours = (ref.oid for ref in self.git.look(up, have, line))
            if not (seen and ours):
                self._make_room(branch)
            theirs = self._fetched(branch, have, (seen, had))
            new = together(self, branch, ours, theirs, (seen, had))
            if new == ours or self.git.move(line, new, ours or ZERO):
                if seen != theirs:  # only now: what a crash leaves undone is seen again
                    self.git.move(up, theirs, seen or ZERO)
                return new

    def _make_room(self, branch: str) -> None:
        """Nothing of ours stands in the way of this branch: git has none below another, and `release` may follow on a
        `release/1` that the person has deleted. What landed there and is on no branch of theirs is told instead.
        """
        found = self.git.below(*(kind("").rstrip("/") for kind in (line_of, up_of, have_of)))
        for other in sorted({name.split("/", 3)[3] for name in found}):
            if not (other.startswith(f"{branch}/") or branch.startswith(f"{other}/")):
                continue
            line, seen = (found.get(kind(other), Ref()).oid for kind in (line_of, up_of))
            if line and line != seen and not self._is_theirs(line):
                fetch = f"git fetch {shlex.quote(self.git.directory)} {shlex.quote(line_of(other))}"
                keep = shlex.quote(f"{other.replace('/', '-')}-landed")
                raise BranchTrouble(
                    f"something landed on {other}, which you have no longer, and is on no branch of yours; git has no "
                    f"{branch} beside that. In {self.top}, `{fetch}` and `git branch {keep} FETCH_HEAD` keep it"
                )
            self.git.drop(line_of(other))  # first: without it there is nothing that could be missed
            self.git.drop(up_of(other), have_of(other))

    def _is_theirs(self, commit: str) -> bool:
        """Whether a branch of the person's has this commit."""
        words = ("for-each-ref", "--count=1", "--format=x", "--contains", commit, "refs/heads")
        return bool(outside(self.top, *words, ok=(0, 128, 129)).text)

    def _fetched(self, branch: str, have: str, known: tuple[str, ...]) -> str:
        """The last commit of the person's branch, with all of its history here: what a killed fetch left is no proof
        of that, a ref is.
        """
        commit = self._theirs(branch)
        if not commit:
            raise BranchTrouble(
                f"there is no branch {branch!r} in {self.top} any more; make it again (`git branch {branch} COMMIT`)"
            )
        if commit in known:
            return commit
        words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--update-shallow", "--", self.common)
        self.git.alone(*words, f"+refs/heads/{branch}:{have}")
        return self.git.ref(have)

    # -- the remote --------------------------------------------------------------------------------

    def remote(self) -> Remote:
        """Where pull requests go; Invalid if there is no such place."""
        if self._remote is None:
            hint = "`git remote add origin ADDRESS` says where pull requests go."
            raise Invalid(f"{self.top} has no remote called origin", hint=hint)
        return self._remote

    def remote_head(self, branch: str) -> str:
        """The last commit of a branch at the remote; empty if it has no such branch."""
        name = f"refs/heads/{branch}"
        lines = self.git.reach("ls-remote", "--", self.remote().url, name).text.splitlines()
        return next((oid for oid, _, ref in (line.partition("\t") for line in lines) if ref == name), "")

    def remote_line(self, branch: str) -> str:
        """The same of a branch that must be there, with all of its history here."""
        head = self.remote_head(branch)
        if not head:
            message = f"there is no branch {branch!r} at {self.remote().name}"
            raise Invalid(message, hint=f"Push it, or name another with --onto: git push {self.remote().name} {branch}")
        if not self.knows(head):
            words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", self.remote().url)
            self.git.reach(*words, f"refs/heads/{branch}")
        self.git.set(f"refs/pit/remote/{branch}", head)
        return head

    def push(self, commit: str, branch: str, old: str) -> None:
        """The remote's branch is this commit, if it was `old` (empty: there was none)."""
        if len(commit) < 40:  # an empty one would delete the branch
            raise GitTrouble(f"{branch} was to be pushed as {commit!r}")
        name = f"refs/heads/{branch}"
        words = ("push", "--quiet", "--no-verify", f"--force-with-lease={name}:{old}", "--", self.remote().url)
        self.git.reach(*words, f"{commit}:{name}")

    def merge(self, ours: str, theirs: str) -> Merge:
        """Both together. Only exit code 1 is a conflict; anything else but 0 is trouble."""
        words = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
        ran = self.git.run(*words, ok=(0, 1))
        tree, *files = ran.out.decode("utf-8", "surrogateescape").rstrip("\0").split("\0")
        if len(tree) < 40 or (ran.code == 1 and not files):
            raise GitTrouble(f"git merge-tree said nothing of use: {ran.err[-200:]}")
        return Merge(tree=tree, conflicts=tuple(dict.fromkeys(files)) if ran.code else ())

    def prune(self, *names: str) -> None:
        """These refs are gone, and of what was only theirs whatever nobody can be about to use."""
        self.git.drop(*names)
        self.git.alone("prune", f"--expire={UNUSED}")
        self.git.alone("pack-refs", "--all")

    # -- clones ------------------------------------------------------------------------------------

    def clone(self, path: str, commit: str, branch: str = "", onto: str = "") -> None:
        """A clone of its own with this commit checked out, on `branch` if one is named, and so is where it lands; what
        was there is gone. It borrows our objects and knows nothing else of us.
        """
        remove(path)
        form = "sha256" if len(commit) > len(ZERO) else "sha1"
        outside(self.folder, "init", "--quiet", "--template=", f"--object-format={form}", "--", path)
        directory = f"{path}/.git"
        with open(f"{directory}/config", "ab") as file:
            file.write(b"".join(line_for(key, value) for key, value in self._habits))
        os.makedirs(f"{directory}/info", exist_ok=True)
        fs.write(f"{directory}/objects/info/alternates", os.fsencode(f"{self.git.directory}/objects\n"))
        for name in ("shallow", "info/exclude"):
            if os.path.exists(f"{self.git.directory}/{name}"):
                shutil.copyfile(f"{self.git.directory}/{name}", f"{directory}/{name}")
        below = f"{branch}/".startswith(f"{onto}/") or onto.startswith(f"{branch}/")
        if onto and not below:  # git has no branch below another
            fs.write(f"{directory}/packed-refs", os.fsencode(f"{commit} refs/heads/{onto}\n"))
        where = ("-B", branch) if branch else ("--detach",)
        Git(directory).run("checkout", "--quiet", *where, commit, tree=path)

    def copy(self, names: tuple[str, ...], path: str) -> None:
        """Files of the person's checkout that no commit has are in the clone; links are not followed."""
        for name in names:
            source, target = f"{self.top}/{name}", f"{path}/{name}"
            status = fs.status(source)
            if status is None:
                raise Invalid(
                    f"there is no file {name} in {self.top} to copy", hint="--copy names files that are there."
                )
            if not stat.S_ISREG(status.st_mode) or os.path.realpath(source) != os.path.join(
                os.path.realpath(self.top), name
            ):
                raise Invalid(f"{name} is not a plain file in {self.top}", hint="--copy takes plain files.")
            data, _ = fs.read(source, LARGEST_COPY)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            fs.replace(target, data, sync=False, mode=stat.S_IMODE(status.st_mode))

    # -- back to the person ------------------------------------------------------------------------

    def unpublished(self) -> list[str]:
        """Branches on which something landed that the person's did not have when they were last seen."""
        found = self.git.below("refs/pit/line", "refs/pit/up")
        lines = {name.removeprefix(line_of("")): ref.oid for name, ref in found.items() if name.startswith(line_of(""))}
        return [branch for branch, line in lines.items() if found.get(up_of(branch), Ref()).oid != line]

    def publish(self, branch: str) -> Published:
        """The person's branch has what landed, or why not yet. Nothing of theirs that is not committed is touched."""
        with fs.Flock(f"{self.folder}/publish.lock"):
            line, up = (ref.oid for ref in self.git.look(line_of(branch), up_of(branch)))
            place, old = self._checked_out(branch)
            why = ""
            if line and old and not self._is_behind(up, old, line):
                line, why = self._together(branch)
                place, old = self._checked_out(branch)
                if old and not why and not self._is_behind("", old, line):
                    why = MEANWHILE.format(branch)
            if line and old != line and not why:
                why = self._move(branch, place, old, line)
            if why:
                fs.replace(self._reason(branch), why.encode(), sync=False)
                return self.look(branch)
            if line and up != line:
                self.git.set(up_of(branch), line)
                fs.remove(self._reason(branch))
            return Published(branch=branch)

    def _is_behind(self, up: str, old: str, line: str) -> bool:
        """Whether the person's branch needs nothing but to be moved on: it has all that it had, and no more than the
        line has. It may have commits that we do not know.
        """
        return self._has(old, up) and self._has(line, old)

    def _has(self, new: str, old: str) -> bool:
        return old in ("", new) or self.git.run("merge-base", "--is-ancestor", old, new, ok=(0, 1, 128)).code == 0

    def _together(self, branch: str) -> tuple[str, str]:
        """The line with all that the person's branch has, as the next task begins from it; or why there is none."""
        try:
            return self.sync(branch), ""
        except BranchTrouble as error:
            return "", error.message

    def give(self, ref: str, branch: str) -> str:
        """A branch of the person's is what this ref of ours is; the branch. Where they have another so called, it has
        a number.
        """
        name = self.free_branch(branch, self.git.ref(ref))
        if not self._theirs(name):
            self._refuse(self._settings(), f"{ref}:refs/heads/{name}")
            self._bring(f"{ref}:refs/heads/{name}")
        return name

    def free_branch(self, branch: str, commit: str) -> str:
        """This name, or the first with a number, under which there is no other commit, neither theirs nor ours."""
        for number in range(1, 100):
            name = branch if number == 1 else f"{branch}-{number}"
            if {self.line(name), self._theirs(name)} <= {"", commit}:
                return name
        raise GitTrouble(f"there are 99 branches like {branch} already", hint="Delete those that you do not need.")

    def look(self, branch: str) -> Published:
        """How far the person's branch is behind, and what was in the way at the last try. Runs nothing there."""
        try:
            why = fs.read(self._reason(branch), 4096)[0].decode("utf-8", "replace")
        except OSError:
            why = "`pit sweep` brings it there"
        line, up = (ref.oid for ref in self.git.look(line_of(branch), up_of(branch)))
        if not line or line == up:
            return Published(branch=branch)
        count = self.git.say("rev-list", "--count", line, *([f"^{up}"] if up else []))
        return Published(branch=branch, behind=int(count), why=why)

    def _reason(self, branch: str) -> str:
        return f"{self.folder}/behind-{hashlib.sha256(os.fsencode(branch)).hexdigest()[:12]}"

    def knows(self, commit: str) -> bool:
        """Whether this commit is among our objects."""
        return self.git.run("cat-file", "-e", commit, ok=(0, 1, 128)).code == 0

    def _move(self, branch: str, place: str, old: str, new: str) -> str:
        """The branch is moved where it may be; else why it may not."""
        settings = self._settings()
        if digest(settings) != self._accepted:
            return (
                f"the git configuration in {self.top} has changed since this pool began; start it again to accept that"
            )
        try:
            if place and (why := self._busy(place)):
                return why
            if place not in ("", self.top):
                settings = self._settings(place)
            what = line_of(branch) if place else f"{line_of(branch)}:refs/heads/{branch}"
            self._refuse(settings, what, place)
            if not place:  # git refuses what is no fast-forward
                self._bring(what)
                return ""
            changed = self._changed(place)
            same = self._same(place, old, new, changed) if changed else b""
            if changed and not same:
                more = ", …" if changed[3:] else ""
                listed = f"{', '.join(changed[:3])}{more}"
                return (
                    f"{place} has changes that are not committed ({listed}); once it is clean, `pit sweep` updates it"
                )
            self._bring(what, place)
            if self._theirs(branch) != old:  # all that takes long is over
                return MEANWHILE.format(branch)
            self._merge(place, old, new, same)
        except GitTrouble as error:
            return " ".join(error.message.split())[:700]
        return ""

    def _bring(self, what: str, place: str = "") -> None:
        """A ref of ours is fetched into the person's repository."""
        words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", self.git.directory, what)
        outside(place or self.top, *words, personal=True)

    def _refuse(self, settings: Sequence[Setting], what: str, place: str = "") -> None:
        """GitTrouble if the repository's own configuration could have git start a program there, or look elsewhere."""
        key = unsafe(settings, self.git.directory, checkout=bool(place))
        if key:
            fetch = f"`git fetch {shlex.quote(self.git.directory)} {shlex.quote(what)}`"
            by_hand = f"{fetch} and `git merge --ff-only FETCH_HEAD` bring it there" if place else f"{fetch} brings it"
            raise GitTrouble(
                f"the configuration of {place or self.top} has {key[:80]}, by which git could start a program of "
                f"somebody else's, so git is not run there. By hand {by_hand}; what stands in your own configuration "
                "(`git config --global`) is obeyed"
            )

    def _checked_out(self, branch: str) -> tuple[str, str]:
        """The checkout that has this branch, empty if none has; and the branch's last commit."""
        path = commit = ""
        for line in outside(self.top, "worktree", "list", "--porcelain").text.splitlines():
            word, _, rest = line.partition(" ")
            path = rest if word == "worktree" else path
            commit = rest if word == "HEAD" else commit
            if word == "branch" and rest == f"refs/heads/{branch}":
                return path, commit.strip("0") and commit
        return "", self._theirs(branch)

    def _busy(self, place: str) -> str:
        """What the person is in the middle of there; empty if of nothing."""
        if not os.path.isdir(place):
            return f"the checkout {place} is not there"
        known = self._directory if place == self.top else ""
        directory = known or outside(place, "rev-parse", "--absolute-git-dir").text
        for name, doing in BUSY.items():
            if os.path.lexists(f"{directory}/{name}"):
                left = ", or was killed there and left its lock" if name == "index.lock" else ""
                return f"{doing} is under way in {place}{left} ({name})"
        return ""

    def _changed(self, place: str) -> list[str]:
        """Files there that differ from what is committed, of those that git knows; no git runs in a submodule."""
        words = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=dirty")
        return [os.fsdecode(entry[3:]) for entry in outside(place, *words, personal=True).out.split(b"\0") if entry]

    def _merge(self, place: str, old: str, new: str, same: bytes) -> None:
        """The checkout is at the new commit. A file that git does not know there is in its way, whatever it holds: one
        that is just what comes is made known first.
        """
        index = ("update-index", "-z", "--index-info")
        merge = ("merge", "--quiet", "--ff-only", "--no-overwrite-ignore", new)
        if same:
            outside(place, *index, stdin=same, personal=True)
        try:
            outside(place, *merge, personal=True)
        except GitTrouble:
            if same or not (same := self._same(place, old, new, ())):
                raise
            outside(place, *index, stdin=same, personal=True)
            outside(place, *merge, personal=True)

    def _same(self, place: str, old: str, new: str, changed: Sequence[str]) -> bytes:
        """What git's index should be told where all that differs in a checkout is, byte for byte, what comes: a git of
        ours was killed there, or the person brought it themselves. Empty if anything else differs.
        """
        comes = {one.name: one for one in Candidates(self.git).changes(old, new)} if old else {}
        listed = outside(place, "ls-files", "-z", "--stage", personal=True).out.split(b"\0")
        staged = {os.fsdecode(name): facts.decode() for facts, _, name in (row.partition(b"\t") for row in listed)}
        for name, one in comes.items():
            if staged.get(name, "") not in (one.entry, one.old_entry) or not _is_reached(place, name):
                return b""
        unknown = [name for name in comes if name not in staged and os.path.lexists(f"{place}/{name}")]
        found = {name: comes.get(name) for name in (*unknown, *changed)}
        blobs = self.git.blobs([one.oid for one in found.values() if one and one.mode in (FILE, PROGRAM, LINK)])
        if not all(one and _is_there(f"{place}/{name}", one, blobs.get(one.oid)) for name, one in found.items()):
            return b""
        return b"".join(os.fsencode(f"{one.mode} {one.oid}\t{name}\0") for name, one in found.items() if one)


def _no_repository(cwd: str, said: str) -> GitTrouble:
    """Why nothing can land from here, by what git said."""
    if "dubious ownership" in said:  # what the person's configuration says of that, `safe.directory`, is not read
        told = f"the repository in {cwd} belongs to another user, and landing needs one of your own"
        return GitTrouble(told, hint=f"Clone it, and work there: git clone {shlex.quote(cwd)} DIRECTORY", path=cwd)
    if any(words in said for words in ("not a git repository", "in a work tree", "bare repository")):
        return GitTrouble(f"{cwd} is in no git checkout", hint="Landing needs one: run it there.", path=cwd)
    told = f"git cannot read the repository in {cwd}: {' '.join(said.split())[-200:]}"
    return GitTrouble(told, hint="Mend that; `git status` there says when it is.", path=cwd)


def remove(path: str) -> None:
    """A clone or a file is gone, whatever modes an agent gave its directories; a link goes, not what it leads to."""
    if not os.path.isdir(path) or os.path.islink(path):
        fs.remove(path)
        return

    def again(_call: object, name: str, _error: object) -> None:
        try:
            os.chmod(os.path.dirname(name), 0o700)
            if os.path.isdir(name) and not os.path.islink(name):
                os.chmod(name, 0o700)
                shutil.rmtree(name)
            else:
                os.unlink(name)
        except OSError:
            return

    shutil.rmtree(path, onerror=again)


def _is_reached(place: str, name: str) -> bool:
    """Whether no file and no link stands where a path needs a directory."""
    parts = name.split("/")
    above = [f"{place}/{'/'.join(parts[:count])}" for count in range(1, len(parts))]
    return all(os.path.isdir(path) and not os.path.islink(path) for path in above if os.path.lexists(path))


def _is_there(path: str, one: PathChange, data: bytes | None) -> bool:
    """Whether a path is as it comes: of the same kind, with the same bytes; not there, if it goes."""
    if one.letter == "D" or not os.path.lexists(path):
        return one.letter == "D" and not os.path.lexists(path)
    try:
        if one.mode == LINK:
            return os.fsencode(os.readlink(path)) == data
        found, status = fs.read(path, len(data or b""))
    except OSError:  # something else stands there, or more
        return False
    return found == data and one.mode == (PROGRAM if status.st_mode & 0o100 else FILE)


def _excludes(path: str) -> bytes:
    try:
        return fs.read(os.path.realpath(path), LARGEST_EXCLUDES)[0]
    except OSError:
        return b""
