"""Making queues and tasks: `init` and `add`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from taskpit import fs, layouts, trust
from taskpit.actions import tell_brought
from taskpit.cli.context import Args, Context, Reply, Usage, arg, either, takes
from taskpit.cli.options import read_text, vet
from taskpit.cli.output import quoted
from taskpit.cli.task_options import TASK_ARGS, task_fields
from taskpit.errors import Conflict, Invalid, TaskpitError
from taskpit.model import LISTS, Said, Task
from taskpit.queue import Queue
from taskpit.store.folder import HIDDEN
from taskpit.store.git_tracked import IGNORED
from taskpit.store.opening import CONFIG, LAYOUT, brings_tasks, discover, init, no_address
from taskpit.workers import run_around

# -- init ------------------------------------------------------------------------------------------


@takes(
    arg("DIR", "the folder that holds the tasks, or an address", dest="path", nargs="?"),
    arg("--layout NAME", "how it is laid out (default: as it looks, else pit)"),
    arg("--template NAME", "also write a crew: snakepit or builder-reviewer"),
    arg(
        "--git",
        "in a git checkout: ignore the queue, track it, leave it, or ask on a terminal (default)",
        choices=("ignore", "track", "leave", "ask"),
        default="ask",
    ),
    arg("--address URL", "make a folder that refers to a queue elsewhere: a database, or a server"),
    arg("--set KEY=VALUE", "a setting of a queue in a database", action="append"),
    arg("--dry-run", "for a queue in a database: only print the SQL that would create or upgrade it"),
)
def _init(args: Args, context: Context) -> Reply:
    """Make a folder a queue. Existing files are left alone, so you can repeat it at any time.
    Without DIR it is the queue in this folder, or else a new folder `pit`.

    pit init
    pit init work/queue --layout pit
    pit init zoo --template snakepit
    pit init 'postgresql://localhost/work?schema=queue'
    pit init pit --address https://build.example:8443/q
    """
    address = args.address or args.path or context.directory or ""
    if "://" in address or args.address:
        return _init_elsewhere(address, args, context)
    if args.dry_run:
        raise Usage(
            "--dry-run is for queues in a database",
            hint="For a folder leave it out: `pit init` changes no existing file.",
        )
    if args.set:
        raise Usage("--set is for queues in a database", hint="A folder has its settings in .taskpit/config.toml.")
    from taskpit.crew.file import template_folder

    if args.template:
        template_folder(args.template)  # NotFound before anything is made
    if args.git == "track" and args.layout not in (None, "pit"):
        raise Usage("only a queue of layout pit can be tracked by git", hint="`--git ignore` keeps it out of commits.")
    base = context.directory or "."
    path = args.path or ("" if os.path.isdir(os.path.join(base, HIDDEN)) else "pit")
    root = os.path.abspath(os.path.join(base, path))
    made = init(root, args.layout, trusted=not run_around(context.env))
    written, kept = _with_template(args.template, root, context) if args.template else ([], [])
    ignore = _ignore_rule(root)
    data = {
        "path": root,
        "made": made,
        "gitignore": ignore,
        **({"written": written, "kept": kept} if args.template else {}),
    }
    ignored = _ignored(root, ignore, args.git, context) if ignore is not None else ""
    _tell_untrusted(root, context)
    text = f"{root} is a queue now" if made else f"{root} is a queue already; nothing to do"
    lines = [
        text,
        ignored,
        f"wrote {', '.join(written)}" if written else "",
        f"left alone: {', '.join(kept)}" if kept else "",
    ]
    if args.template:
        lines.append(f"next: {_called(root, context)} crew up")
    elif made:
        lines.append(f"next: {_called(root, context)} add 'a first task'")
    return Reply(data=data, text="\n".join(filter(None, lines)))


def _trusted_look(root: str, context: Context) -> trust.Look | None:
    """Return the queue as it is trusted now; None if it is not, or only for one command, or inside a run."""
    return None if run_around(context.env) else trust.trusted_look(root)


def _with_template(name: str, root: str, context: Context) -> tuple[list[str], list[str]]:
    """The template's files are there; a queue that was trusted before stays so."""
    from taskpit.crew.file import texts_of, write_template

    before = _trusted_look(root, context)
    written, kept = write_template(name, root)
    if before is not None and written:
        trust.carry_over(before, root, texts_of(name))
    return written, kept


def _tell_untrusted(root: str, context: Context) -> None:
    """Say so at once if the folder brings something that could start by itself, or came from elsewhere."""
    why = trust.why_not(root)
    if why:
        found = [f"{one.kind} {os.path.basename(one.name)}" for one in trust.starts(root)]
        found += ["tasks, whose checks are commands"] if brings_tasks(root) else []
        context.warn(
            f"you have not trusted {root} yet: " + (f"it contains {', '.join(found)}" if found else why),
            hint=f"`{_called(root, context)} trust` shows what it would run, and asks.",
        )


def _called(root: str, context: Context) -> str:
    """How the queue there is called from here: with -C unless it is found without."""
    try:
        if os.path.realpath(discover(os.getcwd(), context.env)) == os.path.realpath(root):
            return "pit"
    except TaskpitError:
        pass
    near = os.path.relpath(root)
    return f"pit -C {quoted(root if near.startswith('..') else near)}"


def _init_elsewhere(address: str, args: Args, context: Context) -> Reply:
    """A queue in a database, or a folder that leads to one there or behind a gateway."""
    from taskpit.store.http import address as remote
    from taskpit.store.postgres.opening import is_address

    if args.layout or args.template:
        raise Usage("--layout and --template are for folders")
    if remote.is_address(address):
        return _init_remote(address, args, context)
    if not is_address(address):
        raise no_address(address)
    return _init_database(address, args, context)


def _init_remote(address: str, args: Args, context: Context) -> Reply:
    """The folder leads to the queue behind a gateway, which was asked whether it is there."""
    from taskpit.store.http.address import leave_address
    from taskpit.store.http.client import HttpStore

    if args.set or not args.address:
        hint = "`pit init DIR --address URL` makes a folder that refers to it; or set TASKPIT_DIR to the address."
        raise Usage("a queue behind a server is created and configured there", hint=hint)
    queue = Queue.open(address, context.env)
    try:
        store = queue.store
        assert isinstance(store, HttpStore)
        there = store.address
        return _init_pointer(there.whole, lambda root, **how: leave_address(root, there, **how), args, context)
    finally:
        queue.close()


def _init_database(address: str, args: Args, context: Context) -> Reply:
    """The queue at this address is there and up to date; what its server does not promise is a warning."""
    from taskpit.store.postgres.opening import init_database, leave_address, upgrade_script

    pairs = [text.partition("=") for text in args.set or ()]
    if not all(key and equals for key, equals, _ in pairs):
        raise Invalid("--set reads KEY=VALUE")
    settings: dict[str, Any] = {}
    for key, _, text in pairs:
        value = int(text) if text.isdecimal() else text
        table, dot, word = key.strip().partition(".")
        if dot and table in ("limits", "shares"):  # `limits.staging=1`
            settings.setdefault(table, {})[word] = value
        else:
            settings[key.strip()] = value
    if args.dry_run:
        versions, sql = upgrade_script(address)
        message = sql if versions else "The queue is up to date; nothing to do."
        return Reply(data={"versions": versions, "sql": sql}, text=message)
    made = init_database(address, settings)
    queue = Queue.open(address, context.env)
    try:
        info = queue.store.info()
    finally:
        queue.close()
    for warning in info.warnings:
        context.warn(warning)
    if args.address:
        return _init_pointer(info.where, lambda root, **how: leave_address(root, address, **how), args, context)
    message = f"{info.where} is a queue {'now' if made else 'already'}"
    message += f"; set: {', '.join(settings)}" if settings else "" if made else "; nothing to do"
    shown = f"export TASKPIT_DIR='{address}'" if info.where == address else "put its address into TASKPIT_DIR"
    next_step = f"next: {shown}" if made else ""
    data = {"path": info.where, "made": made, "durability": info.durability, "warnings": info.warnings}
    return Reply(data=data, text="\n".join(filter(None, (message, next_step))))


def _init_pointer(shown: str, leave: Callable[..., None], args: Args, context: Context) -> Reply:
    """The folder leads to the queue there: work below it finds that."""
    root = os.path.abspath(os.path.join(context.directory or ".", args.path or "pit"))
    if os.path.exists(f"{root}/{LAYOUT}"):
        raise Conflict(
            f"{root} is a queue of its own", hint=f"Name another folder, or move it: pit -C {root} convert URL"
        )
    brings = any(one.kind != "address" for one in trust.starts(root))  # that is named just now
    stays = _trusted_look(root, context) is not None
    leave(root, trusted=stays or not (brings or run_around(context.env)))
    _tell_untrusted(root, context)
    return Reply(data={"path": root, "leads_to": shown}, text=f"{root} refers to {shown}")


def _ignored(root: str, rule: str, wish: str, context: Context) -> str:
    """What was done about the repository around the folder: an ignore rule of this checkout alone, or a warning."""
    if wish == "ask" and _settled(root):
        return ""
    if wish == "ask" and sys.stdin.isatty() and sys.stdout.isatty() and not context.json:
        context.tell("This folder is inside a git checkout. Keep its files out of commits? [Y/n] ")
        wish = "leave" if sys.stdin.readline().strip().lower() in ("n", "no") else "ignore"
    if wish == "track":
        return _track(root, context)
    if wish == "ignore":
        text = _exclude(root, rule)
        if text:
            return text
    context.warn(
        "this queue is inside a git checkout: `git clean -fd` would delete it with all tasks",
        hint=f"`pit init --git ignore` adds {rule} to .git/info/exclude; then only `git clean -x` deletes it.",
    )
    return ""


def _track(root: str, context: Context) -> str:
    """Git's commits have the tasks and their results; what belongs to this checkout alone is left out of them."""
    if fs.read(f"{root}/{LAYOUT}", trust.LARGEST)[0].strip() != b"pit":
        raise Usage("only a queue of layout pit can be tracked by git")
    before = _trusted_look(root, context)
    kept = {f"{folder}/.gitkeep": "" for folder in ("food", "done", "scraps")}  # git removes folders that are empty
    for name, text in {**IGNORED, **kept}.items():
        fs.write(f"{root}/{name}", text.encode())
    settings = fs.read(f"{root}/{CONFIG}", trust.LARGEST)[0].decode("utf-8", "replace")
    missing = [line for line in ('ids = "random"', 'git = "track"') if line not in settings.splitlines()]
    if missing:
        fs.write(f"{root}/{CONFIG}", "\n".join([*missing, settings]).encode())
    if before is not None:
        trust.carry_over(before, root)
    return "Git tracks its tasks and results from now on, and new ids are random, to agree across branches. Commit it."


#: Seconds that git may take to say where its rules are.
GIT_PATIENCE = 10.0


def _settled(root: str) -> bool:
    """Whether the checkout has its rule already: git tracks the queue, or ignores it."""
    from taskpit.landing.git import GitTrouble, outside

    if os.path.exists(f"{root}/{next(iter(IGNORED))}"):
        return True
    asked = ("check-ignore", "--quiet", root)
    try:
        return outside(os.path.dirname(root), *asked, ok=(0, 1, 128), personal=True, patience=GIT_PATIENCE).code == 0
    except GitTrouble:
        return False


def _is_its_own(top: str, directory: str) -> bool:
    """Whether git keeps this checkout there: in it, or as one of several that it knows. A `.git` that came in an
    archive may name any repository of this user's.
    """
    pointer = f"{top}/.git"
    if os.path.isdir(pointer):
        return not os.path.islink(pointer)
    with open(f"{directory}/gitdir", encoding="utf-8") as file:
        return os.path.realpath(file.read(4096).strip()) == os.path.realpath(pointer)


def _exclude(root: str, rule: str) -> str:
    """The rule stands in this checkout's own list, which no commit has; empty if git cannot say where that is."""
    from taskpit.landing.git import GitTrouble, outside

    asked = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir")
    try:
        top, own, common = outside(root, *asked, personal=True, patience=GIT_PATIENCE).text.split("\n")
        info = f"{common}/info"
        path = f"{info}/exclude"
        if not _is_its_own(top, own):
            return ""
        os.makedirs(info, exist_ok=True)
        if os.path.islink(info):  # an unpacked checkout may have any file there
            return ""
        if fs.exists(path) and rule.encode() in fs.read(path, trust.LARGEST)[0].splitlines():
            return f"Git ignores it already: {rule} in {path}"
        fs.append(path, f"{rule}\n".encode())
    except (OSError, GitTrouble, ValueError):
        return ""
    return f"Git ignores it from now on: {rule} in {path}"


def _ignore_rule(root: str) -> str | None:
    """The line that keeps the folder out of commits, if it lies in a git checkout."""
    folder = fs.above(root, ".git")
    if not folder:
        return None
    inside = os.path.relpath(root, folder)
    return "/*" if inside == "." else f"/{inside}/"


# -- add -------------------------------------------------------------------------------------------


ADD_ARGS = (
    arg("--id ID", "choose the id (default: the next number)"),
    *either(
        arg("--body TEXT", "the task in detail, at any length"),
        arg("-F --file FILE", "read the body from a file; - is standard input"),
    ),
    *TASK_ARGS,
    arg("--big", "a planner splits it, because it is too large for one run"),
    arg("--race N", "run N agents, or the named ones, on it; the first one done wins"),
    arg("--set KEY=VALUE", "a further field; may be repeated", action="append"),
    arg("--by W", "the person or worker that asks for it (default: TASKPIT_AS, else user@host)"),
)


@takes(
    arg("TITLE", "one line", nargs="?"),
    arg("FIELD=VALUE", "with --from: a value for the template", dest="fields", nargs="*"),
    arg("--from NAME", "add the tasks of templates/NAME.md in the queue", dest="template"),
    *ADD_ARGS,
)
def _add(args: Args, context: Context) -> Reply:
    """Add a task to the queue and print its id. Adding the same id with the same content again is fine;
    with other content it is refused.

    pit add 'Fix the login' --check 'make test' --priority 5 --tag web
    pit add 'Write the report' -F notes.md --needs 0001 --needs 0002
    pit add --from bug area=api
    """
    if args.template:
        return add_from(args, context)
    if args.title is None:
        raise Usage("missing: TITLE", hint="For example: `pit add 'Fix the login' --check 'make test'`.")
    if args.fields:
        raise Usage(f"too many words: {' '.join(args.fields)}", hint="Put quotes around words that belong together.")
    task = asked_for(args, context)
    task_id, said = context.queue.put([task])[0]
    tell_by(args, context, [(task_id, said)])
    missing = _warn_missing(context.queue, task, task_id, context)
    data = {"id": task_id, "created": said is Said.CREATED, "missing_needs": missing}
    return Reply(data=data, text=task_id)


def asked_for(args: Args, context: Context) -> Task:
    """The task that the options of `add` describe."""
    queue = context.queue
    if args.id == "":
        raise Invalid("the id is empty", hint="Leave out --id to get the next number.")
    args.worker = args.by
    task = Task(
        id=args.id or "",
        title=args.title,
        body=read_text(args.file, queue.config.largest_task) if args.file else args.body or "",
        big=args.big,
        by=context.worker(args),
        **task_fields(args, queue),
    )
    return with_fields(queue, task, _further(args))


def tell_by(args: Args, context: Context, said: Sequence[tuple[str, Said]]) -> None:
    """The changelog says who put in what `--by` says that another asks for: `undo` takes back what one did."""
    args.worker = None
    if args.by and args.by != (me := context.worker(args)):
        tell_brought(context.queue, [task_id for task_id, word in said if word is Said.CREATED], me)


def _further(args: Args) -> list[str]:
    return [*(args.set or ()), *([f"race={args.race}"] if args.race is not None else ())]


def _warn_missing(queue: Queue, task: Task, task_id: str, context: Context) -> list[str]:
    """The ids that it needs and nobody has put yet, told to whoever adds it."""
    missing = queue.missing_needs(task)
    if missing:
        context.warn(f"{task_id} waits for {', '.join(missing)}, which does not exist yet")
    return missing


def with_fields(queue: Queue, task: Task, given: list[str] | None) -> Task:
    """The task with these further fields (KEY=VALUE, each as the layout understands it), checked as a whole."""
    layout = layouts.get(queue.store.info().layout)
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise Invalid(f"--set {text!r} does not read KEY=VALUE")
        task = layout.with_field(task, key.strip(), value)
    vet(queue, task)
    return task


# -- tasks from a template of the queue: `add --from` ----------------------------------------------


def add_from(args: Args, context: Context) -> Reply:
    """The template's tasks are in, each with what the options say; all of them were checked before any was put."""
    from taskpit.task_templates import put_filled  # only templates pay for it

    queue = context.queue
    for name in ("id", "body", "file"):
        if getattr(args, name):
            raise Usage(f"--{name} does not go with --from", hint="Edit the task afterwards, or the template.")
    given = [*([args.title] if args.title else []), *args.fields]
    args.worker = args.by
    by, fields = context.worker(args), task_fields(args, queue)

    def change(task: Task) -> Task:
        more = {name: tuple(dict.fromkeys((*getattr(task, name), *fields[name]))) for name in LISTS if name in fields}
        changed = task.replace(**{**fields, **more, "by": by, "big": task.big or args.big})
        return with_fields(queue, changed, _further(args))

    tasks, said = put_filled(queue, args.template, given, change, fields.get("parent", ""))
    tell_by(args, context, said)
    ids = [task_id for task_id, _ in said]
    missing = dict.fromkeys(need for task in tasks for need in _warn_missing(queue, task, task.id, context))
    data = {"id": ids[0], "created": said[0][1] is Said.CREATED, "missing_needs": list(missing), "ids": ids}
    lines = [f"{task.id}  {task.title}" for task in tasks]
    return Reply(data=data, text="\n".join(lines))
