"""Keeping the queue in order: `sweep` does what is due; `doctor` looks, and with `--fix` puts right; `archive`."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from platform import platform, python_implementation, python_version
from re import match

from taskpit import __version__, access, fs, kernel
from taskpit.cli.context import Args, Context, Reply, Usage, arg, takes
from taskpit.cli.options import an_age
from taskpit.cli.output import paint
from taskpit.cli.progress import ProgressBar
from taskpit.clock import boot_id
from taskpit.errors import Invalid, TaskpitError, install_hint
from taskpit.keeper import fix, sweep
from taskpit.landing.review import pipes, prune, standing
from taskpit.model import Value
from taskpit.run.lost import settle
from taskpit.store.opening import refound
from taskpit.store.port import Mend
from taskpit.trust import from_home
from taskpit.watch import Watch
from taskpit.workers import default_worker

#: Findings that mend themselves or are merely worth knowing; all others need a person.
HARMLESS = frozenset(
    (
        "sweep will do",
        "late result",
        "unregistered",
        "torn",
        "not published",
        "kept clone",
        "left alone",
        "being written",
    )
)
#: What each kind of finding means for the reader.
ADVICE = {
    "sweep will do": "`pit sweep` does these",
    "late result": "results that came too late, or that `pit retry` took back; the published ones stand",
    "quarantined": "set aside with the reason; look, mend, and put it back or leave it",
    "old transaction": "while it is open the server cannot clean up, and claims become slow; end it there",
    "dead rows": "`pit sweep` cleans them up, once no old transaction is open",
    "no autovacuum": "the server does not clean up by itself; switch it on there",
    "vanished": "the file was removed by hand; the task's text is kept, and --fix puts it back",
    "in two places": "look which of them is right; `pit sweep` sets copies aside, --fix second names of one file",
    "stranger": "`pit import FILE` makes a task of it if it should be one; --fix sets it aside",
    "foreign": "nothing of the queue's own; --fix sets it aside",
    "result gone": "the result was removed by hand; --fix puts the kept copy back in its place",
    "edited result": "look who wrote there, and what it should be; --fix accepts it as it stands, and logs that",
    "unregistered": "--fix makes its id known again",
    "being written": "tasks once they are whole; remove what nobody will fill",
    "torn": "a writer was killed; --fix ends the line",
    "not readable": "--fix gives you back the right to",
}


@takes(arg("--dry-run", "only say what would be done"))
def _sweep(args: Args, context: Context) -> Reply:
    """Give back what was abandoned, carry out what a crash left undone, register what was made by hand, prune
    old logs. Anybody may run it at any time; workers that renew are never disturbed.

    pit sweep --dry-run
    pit sweep
    """
    with ProgressBar(context, "sweeping", turns=True):
        mends = sweep(context.queue, dry_run=args.dry_run, closely=True, ended=settle)
        if not args.dry_run:
            mends = [*mends, *_publish(context), *_pulls(context), *_pruned(context)]
    data = {"dry_run": args.dry_run, "did": [mend.as_dict() for mend in mends]}
    return Reply(data=data, text=lambda: _swept(mends, dry_run=args.dry_run))


def _publish(context: Context) -> list[Mend]:
    """Branches follow what landed on them, where nothing is in the way; what is, is a warning."""
    did = []
    for pipe in pipes(context.queue):
        try:
            before = set(pipe.repository.unpublished())
            for line in pipe.publish():
                context.warn(line)
            moved = before - set(pipe.repository.unpublished())
        except (TaskpitError, OSError) as error:
            context.warn(f"what landed in {pipe.repository.top} cannot be brought to its branch: {error}")
            continue
        did += [Mend(kind="published", what=name, details="your branch has what landed") for name in sorted(moved)]
    return did


def _pulls(context: Context) -> list[Mend]:
    """Pull requests that were merged, closed or answered have their consequences."""
    from taskpit.landing.lander import Lander
    from taskpit.run.landing_thread import ByHand

    did = []
    worker = default_worker(context.token_name())
    for pipe in pipes(context.queue):
        lander = Lander(context.queue, pipe, worker, ByHand(context.warn))
        try:
            ended = lander.look()
        except (TaskpitError, OSError) as error:
            context.warn(f"pull requests could not be looked at: {error}")
            continue
        did += [Mend(kind="pull request", what=claim.task.id, details=end.details) for claim, end in ended]
    return did


def _pruned(context: Context) -> list[Mend]:
    """Candidates that nobody looks at any more are gone."""
    try:
        found = prune(context.queue)
    except (TaskpitError, OSError) as error:
        context.warn(f"old candidates could not be pruned: {error}")
        return []
    return [Mend(kind="pruned", what=one, details="its candidate; what landed stays") for one in found]


def _unlanded(context: Context) -> list[Mend]:
    """What of this queue's work is not where a person looks for it."""
    found = standing(context.queue)
    behind = [Mend(kind="repository gone", what="git", details=line) for line in found.stranded]
    behind += [Mend(kind="not published", what="git", details=line) for line in found.behind]
    return [*behind, *(Mend(kind="kept clone", what=path, details="its task is over") for path in found.kept)]


def _swept(mends: Sequence[Mend], *, dry_run: bool) -> str:
    if not mends:
        return "nothing to do"
    logs = sum(1 for mend in mends if mend.kind == "composted")
    lines = [
        f"{paint('bold', mend.kind)}  {mend.what}" + (f": {mend.details}" if mend.details else "")
        for mend in mends
        if mend.kind != "composted"
    ]
    if logs:
        lines.append(f"{paint('bold', 'pruned')}  {logs} old log{'s' * (logs > 1)}, of each a line is kept")
    return "\n".join([*(["would do:"] if dry_run else []), *lines])


@takes(
    arg("--fix", "put right what can be, then look"),
    arg("--dry-run", "with --fix: only say what would be done"),
    arg("--system", "instead: what works on this machine, for bug reports"),
)
def _doctor(args: Args, context: Context) -> Reply:
    """Look for what is out of order; change nothing. Exits 1 when something needs a person.
    With --fix, put right what can be: all that a sweep mends, and what needs your word, such as a task whose
    file is gone. Nothing is deleted; what is in the way is set aside with its reason. Workers may go on.

    pit doctor
    pit doctor --fix --dry-run
    pit doctor --fix
    pit doctor --system --json
    """
    if args.dry_run and not args.fix:
        raise Usage("--dry-run goes with --fix", hint="Without --fix nothing is changed anyway.")
    if args.system:
        return _system(args, context)
    if args.fix:
        access.need_verb("doctor --fix", context.env)

    act = args.fix and not args.dry_run
    lost = refound(context.find(), dry_run=not act)  # without what says that the folder is a queue, nothing is opened
    if lost and not act:
        data = {"clean": False, "needs_person": True, "findings": _findings(lost), "queue": None}
        return Reply(data=data, text=lambda: _diagnosis(context.find(), lost), exit_code=1)
    did = [*lost]
    if args.fix:
        with ProgressBar(context, "mending", turns=True):
            did += fix(context.queue, dry_run=args.dry_run, ended=settle)
    store = context.queue.store
    with ProgressBar(context, "looking", turns=True):
        findings, info = [*store.check(), *_unlanded(context)], store.info()
    urgent = [mend for mend in findings if mend.kind not in HARMLESS]
    data = {
        "clean": not findings,
        "needs_person": bool(urgent),
        "findings": _findings(findings),
        "queue": info.as_dict(),
    }
    if args.fix:
        data |= {"dry_run": args.dry_run, "did": [mend.as_dict() for mend in did]}
    place = "\n".join((f"{info.where}: layout {info.layout}, durability {info.durability}", *info.warnings))

    def text() -> str:
        message = [_swept(did, dry_run=args.dry_run), ""] if args.fix else []
        return "\n".join([*message, _diagnosis(place, findings)])

    return Reply(data=data, text=text, exit_code=1 if urgent else 0)


def _system(args: Args, context: Context) -> Reply:
    """What this machine can do, where the queue is or would be."""
    if args.fix:
        raise Usage("--system looks at the machine; --fix at the queue", hint="Say one of them.")
    from taskpit.cli.bench import place_of

    found = survey(place_of(context))
    works = all(finding.works is not False for finding in found)
    return Reply(
        data={"works": works, "findings": [finding.as_dict() for finding in found]},
        text=lambda: _surveyed(found),
        exit_code=0 if works else 1,
    )


def _surveyed(found: Sequence[Tried]) -> str:
    width = max(len(finding.name) for finding in found)
    lines = []
    for finding in found:
        colour = {True: "", None: "yellow", False: "red"}[finding.works]
        text = paint(colour, finding.told) if colour else finding.told
        lines.append(f"{finding.name:<{width}}  {text}" + (f"  ({finding.hint})" if finding.hint else ""))
    return "\n".join(lines)


def _findings(found: Sequence[Mend]) -> list[dict[str, object]]:
    return [{**mend.as_dict(), "needs_person": mend.kind not in HARMLESS} for mend in found]


def _diagnosis(place: str, findings: Sequence[Mend]) -> str:
    lines = [place]
    for kind in dict.fromkeys(mend.kind for mend in findings):
        some = [mend for mend in findings if mend.kind == kind]
        colour = "yellow" if kind in HARMLESS else "red"
        advice = f": {ADVICE[kind]}" if kind in ADVICE else ""
        lines += ["", f"{paint(colour, f'{kind} ({len(some)})')}{advice}"]
        lines += [f"  {mend.what}" + (f"  {mend.details}" if mend.details else "") for mend in some]
    return "\n".join(lines if findings else [*lines, paint("green", "all is in order")])


# -- archive ---------------------------------------------------------------------------------------


@takes(
    arg("--older AGE", "results published longer ago than this (default: 30d)", type=an_age, default=30 * 86400.0),
    arg("--dry-run", "only say what would be done"),
)
def _archive(args: Args, context: Context) -> Reply:
    """Old results leave their place for a folder of their month in .taskpit/archive. Nothing is copied or deleted,
    and everything still finds them: show, search, needs, export, doctor. Of a queue in a database, done tasks
    leave for a compressed file of their month, in .taskpit/archive of the machine that archives; `pit show`
    there finds them whole, and elsewhere says which file has them.

    pit archive --dry-run
    pit archive --older 90d
    """
    store = context.queue.store
    away = getattr(store, "archive", None)
    if away is None:
        where = "; archive where it is" if store.info().kind == "remote" else ""
        raise Invalid(f"a queue of layout {store.info().layout} keeps its results where they are{where}")
    mends = away(args.older, dry_run=args.dry_run)
    data = {"dry_run": args.dry_run, "did": [mend.as_dict() for mend in mends]}
    return Reply(data=data, text=lambda: _put_away(mends, dry_run=args.dry_run))


def _put_away(mends: Sequence[Mend], *, dry_run: bool) -> str:
    """How many went where."""
    if not mends:
        return "nothing to archive"
    months = Counter(
        mend.details if mend.details.endswith(".gz") else mend.details.rpartition("/")[0] for mend in mends
    )
    text = "would go to" if dry_run else "now in"
    return "\n".join(f"{count} result{'s' * (count > 1)} {text} {month}" for month, count in sorted(months.items()))


# -- what works on this machine: `doctor --system` tries each thing in a scratch folder --------------


LINUX = sys.platform == "linux"
#: Filesystems whose changes other machines may make unseen.
NETWORK = frozenset(("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs", "lustre", "afs"))
INOTIFY = "/proc/sys/fs/inotify"
#: This many fsyncs are timed; the middle one counts.
SYNCS = 7
NO_GIT = "not found; needed only for landing"


class Tried(Value, frozen=True, kw_only=True):
    """One thing that was tried."""

    name: str
    #: What was found, in words.
    told: str
    #: False if a queue cannot work without it, None if it does, with less comfort.
    works: bool | None = True
    hint: str = ""


#: What a trial found in words, whether that works as `Tried` has it, and a hint.
Found = tuple[str, bool | None, str]


def survey(place: str) -> list[Tried]:
    """What this machine can do, tried in `place`."""
    return [*_machine(), *_disk(place), *_tools(), *_extras()]


def _machine() -> list[Tried]:

    boot = boot_id()
    enough = sys.version_info >= (3, 11)
    return [
        Tried(name="taskpit", told=__version__),
        Tried(name="python", told=f"{python_implementation()} {python_version()}", works=enough),
        Tried(name="system", told=platform()),
        Tried(name="boot id", told="guessed from the boot time" if boot.startswith("boot-") else "from the kernel"),
        Tried(name="processors", told=str(len(os.sched_getaffinity(0)) if LINUX else os.cpu_count())),
    ]


# -- the disk --------------------------------------------------------------------------------------


def _disk(place: str) -> list[Tried]:
    from shutil import rmtree
    from tempfile import mkdtemp

    found = [Tried(name="folder", told=from_home(place)), _kind(place), _room(place)]
    try:
        folder = mkdtemp(prefix=".taskpit-system-", dir=place)
    except OSError as error:
        hint = "Name a folder you may write to with -C, or run it where the queue will be."
        return [*found, Tried(name="writing", told=_reason(error), works=False, hint=hint)]
    try:
        return [*found, *(_tried(name, trial, folder) for name, trial in _TRIALS.items())]
    finally:
        rmtree(folder, ignore_errors=True)


def _kind(place: str) -> Tried:
    kind = _filesystem(os.path.realpath(place))
    if kind in NETWORK:
        return Tried(name="filesystem", told=f"{kind}, a network filesystem", works=None, hint="See docs/howto/nfs.md.")
    return Tried(name="filesystem", told=kind or "unknown")


def _filesystem(path: str) -> str:
    """The kind of the filesystem that is mounted nearest above the path; empty if nobody tells."""
    best, kind = "", ""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                mount = before.split()[4].replace(r"\040", " ")
                inside = path == mount or path.startswith(mount.rstrip("/") + "/")
                if inside and len(mount) >= len(best):
                    best, kind = mount, after.split()[0]
    except (OSError, IndexError):
        return ""
    return kind


def _room(place: str) -> Tried:
    try:
        text = os.statvfs(place)
    except OSError as error:
        return Tried(name="room", told=_reason(error), works=None)
    free = text.f_bavail * text.f_frsize
    files = f", {text.f_favail:,} more files" if text.f_files else ""
    full = free < 1 << 20 or (text.f_files and not text.f_favail)
    hint = "Make room; finished tasks can be archived." if full else ""
    return Tried(name="room", told=f"{free / (1 << 30):.1f} GiB free{files}", works=not full, hint=hint)


def _tried(name: str, trial: Callable[[str], Found], folder: str) -> Tried:
    try:
        text, works, hint = trial(folder)
    except OSError as error:
        text, works, hint = _reason(error), False, "The queue must be on a disk that can do this."
    return Tried(name=name, told=text, works=works, hint=hint)


def _reason(error: OSError) -> str:
    return f"no: {error.strerror or error}"


def _links(folder: str) -> Found:
    fs.create(f"{folder}/one", b"x", sync=False)
    fs.link(f"{folder}/one", f"{folder}/two")
    same = os.path.samefile(f"{folder}/one", f"{folder}/two") and not fs.link(f"{folder}/one", f"{folder}/two")
    return "yes" if same else "no: a taken name is not refused", same, ""


def _no_replace(folder: str) -> Found:
    fs.create(f"{folder}/from", b"x", sync=False)
    if kernel.rename_new(f"{folder}/from", f"{folder}/to") == 0:
        return "yes, by the kernel", True, ""
    return "no; names are looked at first, which leaves a gap only to other programs", None, ""


def _unnamed(folder: str) -> Found:
    flag = getattr(os, "O_TMPFILE", 0)
    try:
        if flag:
            os.close(os.open(folder, flag | os.O_WRONLY, 0o600))
            return "yes (O_TMPFILE)", True, ""
    except OSError:
        pass
    return "no; files get a temporary name first", None, ""


def _flock(folder: str) -> Found:
    mine, theirs = fs.Flock(f"{folder}/lock"), fs.Flock(f"{folder}/lock")
    mine.take()
    refused = not theirs.take(wait=False)
    mine.drop()
    theirs.drop()
    return "yes" if refused else "no: two may have it at once", refused, ""


def _times(folder: str) -> Found:
    ahead = int(time.time()) + 86400
    fs.create(f"{folder}/lease", b"", sync=False)
    fs.set_times(f"{folder}/lease", float(ahead))
    kept = int(os.stat(f"{folder}/lease").st_mtime) == ahead
    return "yes" if kept else "no: leases cannot be kept", kept, ""


def _fsync(folder: str) -> Found:
    took = []
    for number in range(SYNCS):
        start = time.perf_counter()
        fs.create(f"{folder}/sync-{number}", b"x" * 500, sync=True)
        fs.sync_dir(folder)
        took.append(time.perf_counter() - start)
    return f"{sorted(took)[SYNCS // 2] * 1000:.2f} ms for a file and its directory", True, ""


def _inotify(folder: str) -> Found:

    limits = ", ".join(f"{name[9:]} {_limit(name)}" for name in ("max_user_instances", "max_user_watches"))
    watch = Watch([folder])
    try:
        if not watch.told:
            hint = "All instances may be in use: `sysctl fs.inotify.max_user_instances` is the limit."
            return f"no ({limits}); directories are looked at now and then", None, hint if LINUX else ""
        fs.create(f"{folder}/seen", b"", sync=False)
        woke = watch.wait(1.0)
    finally:
        watch.close()
    return f"yes ({limits})" if woke else "no: changes are not reported", woke or None, ""


def _limit(name: str) -> str:
    try:
        with open(f"{INOTIFY}/{name}", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


_TRIALS: dict[str, Callable[[str], Found]] = {
    "hard links": _links,
    "rename without replacing": _no_replace,
    "unnamed files": _unnamed,
    "flock": _flock,
    "times in the future": _times,
    "fsync": _fsync,
    "inotify": _inotify,
}


# -- what is installed -----------------------------------------------------------------------------


def _tools() -> list[Tried]:
    from shutil import which

    from taskpit.run.preset import names, places

    found = [name for name in names(places()) if which(name)]
    git = which("git")
    return [
        Tried(name="git", told=from_home(git) if git else NO_GIT, works=True if git else None),
        Tried(name="agents", told=", ".join(found) or "none of those with a preset; any command can be run"),
    ]


def extras() -> dict[str, dict[str, str]]:
    """Each optional part, what it needs, and the version that is installed; empty if it is not."""
    from importlib.metadata import PackageNotFoundError, requires, version

    try:
        needed = requires("taskpit") or []
    except PackageNotFoundError:
        return {}
    found: dict[str, dict[str, str]] = {}
    for line in needed:
        text = match(r"""([A-Za-z0-9._-]+).*extra == ['"]([^'"]+)['"]""", line)
        if text is None or text[1].lower() == "taskpit":
            continue
        try:
            installed = version(text[1])
        except PackageNotFoundError:
            installed = ""
        found.setdefault(text[2], {})[text[1]] = installed
    return found


def _extras() -> list[Tried]:
    found = []
    for extra, packages in sorted(extras().items()):
        if extra == "all":
            continue
        missing = [name for name, version in packages.items() if not version]
        text = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
        hint = install_hint(extra).replace(os.path.expanduser("~"), "~")
        text = f"{text}; missing: {', '.join(missing)}".lstrip("; ") if missing else text
        found.append(
            Tried(name=f"extra {extra}", told=text, works=None if missing else True, hint=hint * bool(missing))
        )
    return found
