"""Making, finding and opening a queue's folder: discovery, settings.

Knows where queues may lie and whose they may be; nothing of what happens in them.
"""

from __future__ import annotations

import errno
import os

from taskpit import fs, layouts
from taskpit.clock import Clock
from taskpit.config import SAMPLE, Config, parse, plain_settings
from taskpit.decode import read_toml
from taskpit.errors import Invalid, NotFound, Storage
from taskpit.held_directories import Holding
from taskpit.layouts.layout import NEVER
from taskpit.store.disk_errors import storage_error, verb
from taskpit.store.folder import HIDDEN, IDS, OURS, QUARANTINE, SEALED, Folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from taskpit.store.activities.store import ActivityStore
    from taskpit.store.files import FileStore
    from taskpit.store.http.client import HttpStore
    from taskpit.store.port import Mend, OpenStore
    from taskpit.store.postgres.store import PostgresStore

CONFIG = f"{HIDDEN}/config.toml"
LAYOUT = f"{HIDDEN}/layout"
#: What is asked about by itself, and how the folder of a work item begins.
PRESETS, ITEM = "presets", "WI-"


def init(root: str, layout_name: str | None = None, clock: Clock | None = None, *, trusted: bool = True) -> list[str]:
    """The folder is a queue of this layout; what is there already is left alone. The directories it made.

    Without a name the layout is told from what is there, and is a pit where nothing is. A queue that is made here
    is trusted from birth, unless the folder brings tasks, or something else that could start by itself.
    """
    root = os.path.abspath(root)
    fs.wall(root)
    layout_name = layout_name or _layout_name(root) or detect(root) or "pit"
    layout = layouts.get(layout_name)
    known = _layout_name(root)
    if known not in (None, layout_name):
        raise Invalid(f"{root} is a queue of layout {known!r} already", hint=f"Leave out --layout {layout_name}.")
    trusted = trusted and known is None and not brings_tasks(root, layout)
    try:
        from taskpit.store.disk_reserve import hold

        if layout_name == "activities":
            from taskpit.layouts.yamltext import load

            load(b"{}")  # say at once if the library is missing
        made = [name for name in (*layout.folders, *OURS, layout.tmp) if not os.path.isdir(f"{root}/{name}")]
        if made:
            fs.make_dir(root)
        for name in made:
            fs.make_dir(f"{root}/{name}")
        _check_links(root, layout.tmp)
        for name, text in ((LAYOUT, f"{layout_name}\n"), (CONFIG, SAMPLE), (f"{HIDDEN}/.gitignore", "*\n")):
            try:
                fs.create(f"{root}/{name}", text.encode(), sync=name == LAYOUT)  # the others can do without
            except FileExistsError:
                continue
        folder = Folder(root, layout, Config(), clock or Clock())
        from taskpit.store.leases import begin

        begin(folder)
        hold(folder)
        folder.close()
    except OSError as error:
        raise storage_error(error) from error
    if trusted:
        from taskpit import trust

        seen = trust.look(root)
        if all(one.kind == "plug-in" for one in seen.starts):  # which was named just now
            trust.record(seen)
    return made


def brings_tasks(root: str, layout: layouts.Layout | None = None) -> bool:
    """Whether tasks or results lie there, or what an earlier queue has left of some: their checks are commands.

    Without a layout it is the one that the folder names, if it is one of ours.
    """
    if layout is None:
        name = _layout_name(root)
        if name not in layouts.NAMES:
            return False
        layout = layouts.get(name)
    if layout.name == "activities" and any(name.startswith(ITEM) for name in _inside(root)):
        return True
    hidden = [f"{HIDDEN}/{name}" for name in _inside(f"{root}/{HIDDEN}") if name != PRESETS]
    places = (*filter(None, (layout.ready, layout.claimed, *layout.results)), layout.tmp, *hidden)
    return any(not name.startswith(NEVER) for place in places for name in _inside(f"{root}/{place}"))


def _check_links(root: str, tmp: str) -> None:
    """The id registry is made of hard links: say so at once where there are none."""
    one, two = (f"{root}/{tmp}/{fs.fresh_name()}~links" for _ in range(2))
    try:
        fs.create(one, b"", sync=False)
        try:
            fs.link(one, two)
        except OSError as error:
            raise Storage(
                f"this filesystem cannot do hard links: {root}",
                hint="Put the queue on a local Linux or macOS filesystem, or on NFS.",
                errno=error.errno,
            ) from error
    finally:
        fs.remove(one)
        fs.remove(two)


def _layout_name(root: str) -> str | None:
    try:
        return fs.read(f"{root}/{LAYOUT}", 4096)[0].decode("utf-8", "replace").strip()
    except (fs.NotADirectory, fs.Foreign) as error:
        raise storage_error(error) from error
    except OSError:
        return None


#: Directories by which a layout is known; several may fit, the first does.
SIGNS = (
    ("pit", ("food", "claimed")),
    ("mailbox", ("inbox", "processing")),
    ("workspace", ("tasks", "agents")),
    ("workspace", ("tasks", "outputs")),
)


def detect(root: str) -> str | None:
    """The layout a folder looks like, if it looks like one."""
    for name, folders in SIGNS:
        if all(os.path.isdir(f"{root}/{folder}") for folder in folders):
            return name
    items = any(name.startswith(ITEM) and os.path.isfile(f"{root}/{name}/progress.yaml") for name in _inside(root))
    return "activities" if items else None


def _inside(root: str) -> list[str]:
    try:
        return os.listdir(root)
    except OSError:
        return []


def _drover(env: Mapping[str, str]) -> str | None:
    """The mailbox that Drover's own variables name, if they are in force."""
    if env.get("DROVER_MAILBOX_ENABLED", "").lower() not in ("true", "1", "yes"):
        return None
    root = env.get("DROVER_MAILBOX_DIR") or "/tmp/drover/mailbox"  # noqa: S108 - Drover's own default
    if not os.path.isdir(root):
        raise Storage(f"ErrMailboxDir: there is no mailbox {root}", hint=f"Make it with `pit init {root}`.", path=root)
    _refuse_foreign(root, root)
    if _layout_name(root) is None and detect(root) == "mailbox":
        init(root, "mailbox", trusted=False)
    return root


def discover(start: str, env: Mapping[str, str]) -> str:
    """The queue for somebody working in `start`: `TASKPIT_DIR`, else the nearest one upwards."""
    if env.get("TASKPIT_DIR"):
        return env["TASKPIT_DIR"]
    mailbox = _drover(env)
    if mailbox:
        return mailbox
    for folder in _upwards(os.path.abspath(start)):
        for root in (folder, f"{folder}/pit"):
            if os.path.isdir(f"{root}/{HIDDEN}"):
                _refuse_foreign(root, root, f"{root}/{HIDDEN}")
                return root
    if os.path.isdir(start) and not os.access(start, os.R_OK | os.X_OK):
        raise storage_error(PermissionError(errno.EACCES, os.strerror(errno.EACCES), start))
    near = next((root for root in (start, f"{start}/pit") if detect(root)), None)
    raise NotFound(
        f"there is no queue in {start} or above it",
        hint=f"{near} looks like one: `pit init {near}` adopts it as it is."
        if near
        else "Make one with `pit init pit`, or name one with -C DIR or TASKPIT_DIR.",
    )


def _refuse_foreign(root: str, *parts: str) -> None:
    """A queue that was only found, not named, is this user's own or a trusted one: else tasks would go to others."""
    why = next(filter(None, map(fs.foreign, parts)), "")
    if not why:
        return
    from taskpit import trust

    if not trust.is_given(root):
        raise trust.untrusted(root, f"it {why}, and was found without being named (-C {root} looks at it)")


def _upwards(folder: str) -> Iterator[str]:
    """This folder and those above it; from a git worktree's root on to the main checkout."""
    seen = set()
    while folder not in seen:
        seen.add(folder)
        main = _main_checkout(folder)
        if main and main not in seen:
            folder = main
            continue
        yield folder
        folder = os.path.dirname(folder)


def _main_checkout(folder: str) -> str | None:
    """The main checkout, if this folder is the root of another worktree of it."""
    git = f"{folder}/.git"
    if not os.path.isfile(git):
        return None
    try:
        with open(git, encoding="utf-8") as file:
            pointer = file.read(4096)
        private = os.path.join(folder, pointer.removeprefix("gitdir:").strip())
        with open(f"{private}/commondir", encoding="utf-8") as file:
            common = os.path.normpath(os.path.join(private, file.read(4096).strip()))
    except (OSError, ValueError):
        return None
    return os.path.dirname(common) if os.path.basename(common) == ".git" else None


def open_store(
    root: str, env: Mapping[str, str] | None = None, clock: Clock | None = None
) -> FileStore | ActivityStore | PostgresStore | HttpStore | OpenStore:
    """The queue in this folder, or at this address. NotFound: there is none; Untrusted: it lies in wait for others."""
    if "://" in root:
        return _open_elsewhere(root, env, clock)
    root = os.path.abspath(root)
    fs.wall(root)
    holding = Holding(root)  # what is read now and the store go through the same open directories
    try:
        return _open_folder(root, env or {}, clock)
    finally:
        holding.close()


def _furnish(root: str, name: str) -> None:
    """A clone has no empty folder; where it may only be looked at, none is needed."""
    try:
        init(root, name)
    except Storage:
        return


@verb
def _open_folder(
    root: str, env: Mapping[str, str], clock: Clock | None
) -> FileStore | ActivityStore | PostgresStore | HttpStore | OpenStore:
    name = _layout_name(root)
    if name is None and os.path.isfile(f"{root}/{HIDDEN}/address"):
        return _open_pointer(root, env, clock)
    if name is None:
        if not os.path.isdir(root):
            raise Storage(f"there is no folder {root}", hint=f"Make a queue with `pit init {root}`.", path=root)
        looks = detect(root)
        told = (
            f"it looks like a {looks}: `pit init {root}` adopts it" if looks else f"make it one with `pit init {root}`"
        )
        raise NotFound(f"{root} is not a queue", hint=f"{told[0].upper()}{told[1:]}.", path=root)
    if not layouts.is_known(name):
        hint = f"This version knows {', '.join(layouts.NAMES)}. A newer one may know it; nothing was touched."
        raise Invalid(f"{root}/{LAYOUT} says {name[:40]!r}, which is no layout", hint=hint, path=f"{root}/{LAYOUT}")
    if name not in layouts.NAMES:
        from taskpit import trust

        trust.require(root)  # another package's code would be loaded because the folder says so
    layout = layouts.get(name)
    config = _config(root, layout, env)
    if name != "activities":
        if config.git == "track" and not os.path.isdir(f"{root}/{IDS}"):
            _furnish(root, name)
        from taskpit.store.files import FileStore  # a queue elsewhere does without

        store = FileStore(root, layout, config, clock)
        if config.git == "track":
            from taskpit.store.git_tracked import agree

            agree(store.folder)
        if fs.names(f"{root}/{SEALED}"):
            from taskpit.store.mend import carry_out_ends

            carry_out_ends(store.folder)
        return store
    from taskpit.store.activities.store import ActivityStore

    return ActivityStore(root, layout, config, clock)


def _open_elsewhere(
    text: str, env: Mapping[str, str] | None, clock: Clock | None, papers: str = ""
) -> PostgresStore | HttpStore | OpenStore:
    """The queue at an address."""
    from taskpit.store.http import address
    from taskpit.store.postgres.opening import is_address, open_database

    if address.is_address(text):
        from taskpit.store.http.client import open_gateway

        return open_gateway(text, env, clock, papers)
    if not is_address(text):
        return _open_plugged(text, clock)
    return open_database(text, clock, papers)


def _open_plugged(text: str, clock: Clock | None) -> OpenStore:
    """The queue at an address whose scheme is a store of an installed package."""
    from taskpit import plugins

    found = plugins.find("stores", text.partition("://")[0])
    if not callable(found):
        raise no_address(text)
    store: OpenStore = found(text, clock)
    return store


def no_address(text: str) -> Invalid:
    """What is no address of a queue."""
    scheme = text.partition("://")[0][:40]
    hint = "Write postgresql://HOST/DATABASE, or https://HOST:PORT/q for a queue that `pit serve` serves."
    return Invalid(f"{scheme}:// is no address of a queue", hint=hint)


def _open_pointer(root: str, env: Mapping[str, str], clock: Clock | None) -> PostgresStore | HttpStore | OpenStore:
    """The queue a folder leads to; a folder that is not trusted leads nowhere, for it would be told a password."""
    from taskpit import trust
    from taskpit.store.postgres.opening import address_in

    trust.require(root)
    store = _open_elsewhere(address_in(root) or "", env or None, clock, root)
    store.config = store.config.replace(hooks=_written(root, Config()).hooks)  # this machine's own, trusted just now
    return store


def _config(root: str, layout: layouts.Layout, env: Mapping[str, str]) -> Config:
    base = Config().replace(**layout.defaults) if layout.defaults else Config()
    config = _written(root, base)
    return config.replace(**_drover_settings(env)) if layout.name == "mailbox" else config


#: Drover's variables, the setting each one is, and its unit in seconds. The minutes between two scans for orphans are
#: no setting: our pools look every half minute at most, which is sooner than any number of minutes.
DROVER = {
    "DROVER_MAILBOX_OUTBOX_RETENTION": ("keep_results", 86400.0),
    "DROVER_MAILBOX_FAILED_RETENTION": ("keep_failed", 86400.0),
    "DROVER_MAILBOX_ORPHAN_SCAN_MINUTES": ("", 60.0),
}


def _drover_settings(env: Mapping[str, str]) -> dict[str, float]:
    settings = {}
    for variable, (setting, unit) in DROVER.items():
        text = env.get(variable)
        if not text:
            continue
        if not (text.isascii() and text.isdecimal()) or not int(text):
            raise Invalid(f"{variable} is {text!r}, not a whole number of at least 1", variable=variable)
        if setting:
            settings[setting] = int(text) * unit
    return settings


def _written(root: str, base: Config) -> Config:
    """What `config.toml` says, over the layout's defaults."""
    try:
        data = fs.read(f"{root}/{CONFIG}", 1 << 20)[0]
    except FileNotFoundError:
        return base
    except OSError as error:
        raise storage_error(error) from error
    mend = f"Mend {root}/{CONFIG}; every line of it is optional."
    try:
        text = data.decode("utf-8")
        settings = plain_settings(text)
        return parse(read_toml(text) if settings is None else settings, base)
    except ValueError as error:
        raise Invalid(f"config.toml cannot be read: {error}", hint=mend, path=f"{root}/{CONFIG}") from None
    except Invalid as error:
        error.hint = error.hint or mend
        raise


@verb
def refound(root: str, *, dry_run: bool) -> list[Mend]:
    """The folder says again of which layout it is, if it was ours and looks like one; what was done, or would be."""
    if not os.path.isdir(f"{root}/{HIDDEN}") or layouts.is_known(_said(root)):
        return []
    name = detect(root)
    if name is None:
        return []  # nobody can tell what it was; opening it says so
    from taskpit.store.port import Mend

    told = f"it looks like a {name}"
    if not dry_run:
        if fs.exists(f"{root}/{LAYOUT}"):
            fs.make_dir(f"{root}/{QUARANTINE}")
            fs.move(f"{root}/{LAYOUT}", f"{root}/{QUARANTINE}/layout~{fs.fresh_name()}")
        init(root, name, trusted=False)
        told += ", and says so again"
    return [Mend(kind="missing", what=LAYOUT, details=told)]


def _said(root: str) -> str:
    try:
        return fs.read(f"{root}/{LAYOUT}", 4096)[0].decode("utf-8", "replace").strip()
    except OSError:
        return ""
