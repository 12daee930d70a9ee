"""A disk as a model sees it: names, the file behind each, and system calls that happen or have not.

A disk is a plain mapping from names to files; a file is a word that stands for one inode and what is in it, so
two names with the same word are hard links. Besides files the mapping holds what only the explorer sees:

    flock/<name>          who holds that lock
    mtime/<file> ctime/<file>  "old": that time of the inode lies further back than a lease
    told/<fact>           what an actor was promised or believes
    ever/<place>/<file>   a file that stood, at some time, in one of the WATCHED places
    ever/split            an end with children was sealed
    ever/born/<file>      how often this inode's number was given out, where that matters
    ever/number           the highest number under which a lock was ever granted

Knows nothing about tasks, actors' programs or the order of events.
"""

from __future__ import annotations

#: What has stood in these places is remembered: a result that was replaced is gone, but was there.
WATCHED = ("done/", "failed/")
#: Names that are not files.
UNREAL = ("flock/", "mtime/", "ctime/", "told/", "ever/")

# -- the calls, as values: what a program yields ----------------------------------------------------------


def create(name, file):
    """A new file; False if the name is taken."""
    return "create", name, file


def create_numbered(name, stem):
    """A new file whose inode has the lowest free number, as filesystems give numbers back out. Its word."""
    return "create_numbered", name, stem


def link(source, target):
    """True: another name. False: the name is taken. None: there is no source."""
    return "link", source, target


def move(source, target):
    """Rename, replacing; False if there is no source."""
    return "move", source, target


def move_new(source, target):
    """Rename; None if the target is taken, False if there is no source."""
    return "move_new", source, target


def remove(name):
    """Unlink; False if it was not there."""
    return "remove", name


def touch(name):
    """Stamp by path: mtime and ctime are fresh; False if the name is gone."""
    return "touch", name


def look(name):
    """The file under this name, or None."""
    return "look", name


def links(name):
    """How many names the file has; 0 if it is not there."""
    return "links", name


def ages(name):
    """Which of its times are old: "", "m", "c" or "mc"; None if it is not there."""
    return "ages", name


def sign(name):
    """By what a file is known again: its inode and its age, since numbers of inodes are given out anew; or None."""
    return "sign", name


def stat(name):
    """The file under this name and how many names it has, in one look; None if it is not there."""
    return "stat", name


def names(*prefixes):
    """All names that begin so."""
    return "names", *prefixes


def pick(*prefixes):
    """Any one name that begins so; waits until there is one."""
    return "pick", *prefixes


def await_(name):
    """Waits until the name is there."""
    return "await", name


def choose(*options):
    """Any of these."""
    return "choose", *options


def take(lock, me):
    """The lock is ours; False if somebody has it and our patience ends. Whoever waits simply isn't scheduled."""
    return "take", lock, me


def drop(lock):
    """Let go."""
    return "drop", lock


def tell(*facts):
    """From now on this is known to have happened."""
    return "tell", *facts


def forget(*facts):
    """This is no longer so."""
    return "forget", *facts


def granted(call, holder):
    """A call that, if it goes well, gives `holder` (`<actor>#<number>`) a lock, in the same instant."""
    return "granted", call, holder


def telling(call, answer, tell=(), forget=()):
    """A call; if this is its answer, the facts are known, or no longer so, in the same instant."""
    return "telling", call, answer, tuple(tell), tuple(forget)


def unsure(call):
    """A call over the network: if it goes well, the answer may get lost, and what is tried again finds it done."""
    return "unsure", call


def given_back(name, holder):
    """Unlink a lock; told as a theft if it was another's."""
    return "given_back", name, holder


def write(resource, holder):
    """A write that a lock protects; told as stale if a higher number has been granted by now."""
    return "write", resource, holder


# -- what they do -------------------------------------------------------------------------------------------


def apply(disk, call):
    """Every way the call may go: (its answer, the disk after it). None at all: it has to wait."""
    kind, *words = call
    if kind == "choose":
        return [(option, disk) for option in words]
    if kind == "pick":
        return [(name, disk) for name in _matching(disk, words)]
    if kind == "await":
        return [(True, disk)] if words[0] in disk else []
    if kind == "unsure":
        ways = apply(disk, words[0])
        return ways + [(False, after) for answer, after in ways if answer]
    after = dict(disk)
    answer = _CALLS[kind](after, *words)
    return [(answer, after)]


def crash(disk, actor):
    """The kernel lets go of a dead actor's locks, and it believes nothing any more; the rest stays as it is."""
    gone = {name for name, holder in disk.items() if name.startswith("flock/") and holder == actor}
    gone |= {name for name in disk if name.startswith(f"told/holds/{actor}#")}
    return {name: file for name, file in disk.items() if name not in gone} if gone else disk


def age(disk, file):
    """Time passes over a file: both of its times are old."""
    return {**disk, f"mtime/{file}": "old", f"ctime/{file}": "old"}


def _matching(disk, prefixes):
    return tuple(sorted(name for name in disk if name.startswith(tuple(prefixes)) and not name.startswith(UNREAL)))


def _set(disk, name, file):
    before = disk.get(name)
    disk[name] = file
    if name.startswith(WATCHED):
        disk[f"ever/{name}/{file}"] = ""
    if name.startswith("sealed/") and name.endswith("c"):
        disk["ever/split"] = ""
    if before is not None and before != file:
        _free(disk, before)


def _free(disk, file):
    """An inode without a name is gone, and its times with it; but who had a lock knows how long it had it."""
    if f"told/holds/{file}" not in disk and not any(
        held == file for name, held in disk.items() if not name.startswith(UNREAL)
    ):
        disk.pop(f"mtime/{file}", None)
        disk.pop(f"ctime/{file}", None)


def _create(disk, name, file):
    if name in disk:
        return False
    _set(disk, name, file)
    return True


def _create_numbered(disk, name, stem):
    used = {file for key, file in disk.items() if not key.startswith(UNREAL)}
    file = next(word for number in range(1, 99) if (word := f"{stem}+{number}") not in used)
    disk[f"ever/born/{file}"] = str(1 + int(disk.get(f"ever/born/{file}", "0")))
    return file if _create(disk, name, file) else None


def _link(disk, source, target):
    if source not in disk:
        return None
    if target in disk:
        return False
    _set(disk, target, disk[source])
    disk.pop(f"ctime/{disk[source]}", None)
    return True


def _move(disk, source, target):
    if source not in disk:
        return False
    disk.pop(f"ctime/{disk[source]}", None)
    if disk.get(target) != disk[source]:  # two names of one inode: rename does nothing, and both stay
        _set(disk, target, disk.pop(source))
    return True


def _move_new(disk, source, target):
    if source not in disk:
        return False
    return None if target in disk else _move(disk, source, target)


def _remove(disk, name):
    file = disk.pop(name, None)
    if file is not None:
        _free(disk, file)
    return file is not None


def _touch(disk, name):
    if name not in disk:
        return False
    disk.pop(f"mtime/{disk[name]}", None)
    disk.pop(f"ctime/{disk[name]}", None)
    return True


def _links(disk, name):
    file = disk.get(name)
    return sum(1 for key, held in disk.items() if held == file and not key.startswith(UNREAL)) if file else 0


def _ages(disk, name):
    file = disk.get(name)
    return file and "".join(letter for letter in "mc" if f"{letter}time/{file}" in disk)


def _sign(disk, name):
    file = disk.get(name)
    return file and f"{file}@{disk.get(f'ever/born/{file}', '')}"


def _take(disk, lock, me):
    return _create(disk, f"flock/{lock}", me)


def _tell(disk, *facts):
    disk.update({f"told/{fact}": "" for fact in facts})
    return True


def _forget(disk, *facts):
    for fact in facts:
        disk.pop(f"told/{fact}", None)
        _free(disk, fact.removeprefix("holds/"))
    return True


def _granted(disk, call, holder):
    answer = _CALLS[call[0]](disk, *call[1:])
    if answer:
        number, highest = int(holder.partition("#")[2]), int(disk.get("ever/number", "0"))
        if number <= highest:
            disk["told/number"] = f"{number} after {highest}"
        disk["ever/number"] = str(max(number, highest))
        disk[f"told/holds/{holder}"] = ""
    return answer


def _telling(disk, call, expected, tell, forget):
    answer = _CALLS[call[0]](disk, *call[1:])
    if answer == expected:
        _tell(disk, *tell)
        _forget(disk, *forget)
    return answer


def _given_back(disk, name, holder):
    if disk.get(name, holder) != holder:
        disk["told/theft"] = f"{holder} removed the lock of {disk[name]}"
    return _remove(disk, name)


def _write(disk, resource, holder):
    if holder.partition("#")[2] != disk.get("ever/number"):
        disk["told/stale"] = f"{holder} wrote after number {disk.get('ever/number')} was given out"
    return True


_CALLS = {
    "create": _create,
    "create_numbered": _create_numbered,
    "link": _link,
    "move": _move,
    "move_new": _move_new,
    "remove": _remove,
    "touch": _touch,
    "look": lambda disk, name: disk.get(name),
    "links": _links,
    "ages": _ages,
    "sign": _sign,
    "names": lambda disk, *prefixes: _matching(disk, prefixes),
    "take": _take,
    "drop": lambda disk, lock: disk.pop(f"flock/{lock}", None) is not None,
    "tell": _tell,
    "forget": _forget,
    "granted": _granted,
    "telling": _telling,
    "stat": lambda disk, name: (disk[name], _links(disk, name)) if name in disk else None,
    "given_back": _given_back,
    "write": _write,
}
