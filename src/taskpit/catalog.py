"""A derived, sorted catalogue of a large directory: which entry comes first, without reading them all.

Belongs to the fs room; knows rows and their order, nothing about tasks. Whoever adds an entry to the
directory writes its row into a line of the log; whoever wants the first ones takes those into a small database first.
It may be deleted at any time, is built anew by itself, and is never trusted over the directory: a row whose
entry is gone costs a failed rename. On another boot, before which there may have been a power loss, a new one is
made: with the rows of the old one if that is whole, compared with the directory.
"""

from __future__ import annotations

import os
import stat
import time
from binascii import crc32
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import ref

from taskpit import fs
from taskpit.clock import boot_id
from taskpit.decode import read_json
from taskpit.listing import POINTER

#: The order of an entry, its name, its inode, whether something may tie it, and what its owner wants to know of it.
Row = tuple[int, float, int, str, str, int, int, str]

#: How a line of the log shows that it may have a row.
MARK = b'"ready":['
#: For each entry of the directory so many bytes of the log are looked through when a catalogue is built: lines of what
#: came and of what became of others. What came before is read from the directory.
BYTES_EACH, BYTES_MORE = 2000, 1 << 20
#: So much of the log is read at a time, and so long a line is none of ours.
PIECE = 1 << 20
#: Whether the log still has its name is looked at this often, in seconds.
LOOK = 1.0
#: Changes with what a row is made of.
FORM = 3
SCHEMA = """
create table if not exists rows (
    rank integer, age real, number integer, text text, name text primary key, inode integer, tied integer, brief text
) without rowid;
create table if not exists facts (key text primary key, value) without rowid;
pragma journal_mode = off;
pragma cache_size = -65536
"""
#: Made once the rows are in, which is faster; and from then on a kill may come at any time.
ORDERED = """
create index if not exists first on rows (rank, age, number, text);
create index if not exists held on rows (rank, age, number, text) where tied;
pragma cache_size = -2000;
pragma journal_mode = persist
"""
KEY = "rank, age, number, text"
#: What a database may have besides tables and their indexes.
PROGRAMS = "type not in ('table', 'index') or sql like 'create virtual%'"


class Arrivals:
    """The rows in a log that many append to. Nobody relies on it: what it does not tell is told by the directory."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._inode = 0
        self._looked = 0.0

    def end(self) -> int:
        """The place after all that is there now."""
        return os.fstat(self._fd).st_size if self._is_open() else 0

    def read(self, place: int) -> tuple[list[Row], int]:
        """The rows of the next lines after a place, and the place after them: the same if there are none."""
        if not self._is_open():
            return [], place
        data = os.pread(self._fd, PIECE, place)
        whole = data.rfind(b"\n") + 1
        if not whole:
            return [], place + (len(data) if len(data) == PIECE else 0)  # longer than any line of ours
        if MARK not in data:
            return [], place + whole
        found = [parse(line) for line in data[:whole].split(b"\n") if MARK in line]
        return [row for row in found if row is not None], place + whole

    def cursor(self, place: int) -> str:
        """A place in this log, by which another process finds it, unless the log is another one by then."""
        before = os.pread(self._fd, 64, max(place - 64, 0))[: min(place, 64)] if self._is_open() else b""
        return f"{self._inode}:{place}:{crc32(before):x}"

    def find(self, cursor: str) -> int | None:
        """The place of a cursor; None if it is of another log."""
        text = cursor.split(":")
        place = int(text[1]) if len(text) == 3 and text[1].isdecimal() else -1
        return place if 0 <= place <= self.end() and self.cursor(place) == cursor else None

    def is_current(self) -> bool:
        """Whether it is the log that it was: it may be rotated, or saved by an editor."""
        now = time.monotonic()
        if self._fd < 0 or now - self._looked < LOOK:
            return True
        there, mine, self._looked = fs.status(self._path), os.fstat(self._fd), now
        if there is not None and (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino):
            return True
        self.close()
        return False

    def _is_open(self) -> bool:
        if self._fd < 0:
            try:
                self._fd, status = fs.open_regular(self._path, fs.READ)
            except FileNotFoundError:
                return False
            self._inode, self._looked = status.st_ino, time.monotonic()
        return True

    def close(self) -> None:
        """Let go of it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()


#: The connection of each catalogue that is in use: of one that is dropped without being closed it is closed here.
_open: dict[ref[Catalog], Any] = {}


def _let_go(catalog: ref[Catalog]) -> None:
    _open.pop(catalog).close()


class Catalog:
    """The catalogue of one directory. Trouble with it is an OSError: do without."""

    def __init__(self, folder: str, name: str, database: Any, log: str) -> None:
        self._folder = folder
        self._name = name
        self._looked, self._stands = 0.0, False
        self._database = database
        _open[ref(self, _let_go)] = database
        self.log = Arrivals(log)

    @classmethod
    def open(cls, folder: str, log: str) -> Catalog | None:
        """The catalogue that is there, whole and of this boot; None if there is none."""
        name = _named(folder)
        if not name or not _is_plain(f"{folder}/{name}"):
            return None
        catalog = cls._connect(folder, name, log)
        try:
            if catalog is not None and catalog.is_data() and catalog.fact("boot") == _of_now():
                return catalog
        except OSError:
            pass  # spoilt: as good as none
        if catalog is not None:
            catalog.close()
        return None

    @classmethod
    def build(cls, folder: str, log: str, count: int, compare: Callable[[Catalog], object]) -> Catalog | None:
        """A new catalogue of so many entries, with what the log tells of late, once it was compared; None where there
        can be none. Whoever builds it, all have it then.
        """
        fs.make_dir(folder)
        before = _named(folder)
        with fs.Flock(f"{folder}/lock"):
            if _named(folder) != before:  # another was faster
                found = cls.open(folder, log)
                if found is not None:
                    return found
            catalog = cls._after(folder, before, log) if before else cls._empty(folder, log)
            if catalog is None:
                return None
            name = catalog._name  # noqa: SLF001 - its own
            try:
                place = max(catalog.log.end() - BYTES_EACH * count - BYTES_MORE, 0)
                catalog.note("log", catalog.log.cursor(place))
                catalog.take_in()
                compare(catalog)  # what comes meanwhile is told by lines after those
                catalog._prepare(ORDERED)  # noqa: SLF001 - its own
                fs.replace(f"{folder}/{POINTER}", name.encode(), f"{folder}/{POINTER}~{fs.fresh_name()}", sync=False)
            except BaseException:
                catalog.close()
                raise
            for old in fs.names(folder):
                if old.startswith("catalog-") and not old.startswith(name):
                    fs.remove(f"{folder}/{old}")
        return catalog

    @classmethod
    def _empty(cls, folder: str, log: str) -> Catalog | None:
        """A new one that nobody knows of yet."""
        catalog = cls._connect(folder, f"catalog-{fs.fresh_name()}.db", log)
        if catalog is not None:
            try:
                catalog._prepare(SCHEMA)  # noqa: SLF001 - its own
                catalog.note("boot", _of_now())
            except BaseException:
                catalog.close()
                raise
        return catalog

    @classmethod
    def _after(cls, folder: str, old: str, log: str) -> Catalog | None:
        """A new one with the rows of an older one, if that is whole: an empty one otherwise."""
        catalog = cls._empty(folder, log)
        if catalog is None or not _is_plain(f"{folder}/{old}"):
            return catalog
        try:
            catalog._inherit(old)  # noqa: SLF001 - its own
            return catalog
        except OSError:  # nobody knows how much of it came over
            catalog.close()
            return cls._empty(folder, log)

    def _inherit(self, old: str) -> None:
        """The rows of an older one. A power loss may have torn it, which shows; else each of them was right once.

        Which of them still hold is told by the directory: a row whose entry is another file by now is read anew.
        """
        self._ask("attach database ? as old", (f"{self._folder}/{old}",))
        told = self._ask("select value from old.facts where key = 'boot'")
        if not told or str(told[0][0]).partition(" ")[0] != str(FORM):
            raise OSError("its rows are others")
        if self._ask("pragma old.quick_check(1)") != [("ok",)]:
            raise OSError("it is torn")
        if self._ask(f"select 1 from old.sqlite_master where {PROGRAMS} limit 1"):  # noqa: S608 - our own words
            raise OSError("it has more in it than rows")
        self._ask("insert into rows select * from old.rows")
        self._ask("detach database old")

    @classmethod
    def _connect(cls, folder: str, name: str, log: str) -> Catalog | None:
        try:
            import sqlite3
        except ImportError:
            return None
        try:
            database = sqlite3.connect(f"{folder}/{name}", timeout=2.0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error:
            return None
        try:
            database.execute("pragma journal_mode = persist").fetchall()  # kill -9 must not spoil it
            database.execute("pragma synchronous = off").fetchall()  # power loss may: it is thrown away then
        except sqlite3.Error:
            database.close()
            return None
        return cls(folder, name, database, log)

    def _ask(self, statement: str, values: Iterable[object] = ()) -> list[tuple[Any, ...]]:
        import sqlite3

        try:
            return list(self._database.execute(statement, tuple(values)))
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            raise OSError(f"the catalogue: {error}") from None

    def _tell(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        """All of these or none."""
        import sqlite3

        try:
            self._database.execute("begin immediate")
            self._database.executemany(statement, rows)
            self._database.execute("commit")
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            raise OSError(f"the catalogue: {error}") from None

    def _prepare(self, statements: str) -> None:
        for statement in statements.split(";"):
            self._ask(statement)

    def is_current(self) -> bool:
        """Whether it still stands under its name: another may have been built, or somebody took it away. Looked at each
        second: rows of one that is gone lead to files that may be tried for all the same.
        """
        now = time.monotonic()
        if now - self._looked >= LOOK:
            self._looked, self._stands = now, _named(self._folder) == self._name
        return self._stands

    def is_data(self) -> bool:
        """Whether it holds nothing but rows: a view or a trigger that somebody put in could run for ever."""
        return not self._ask(f"select 1 from sqlite_master where {PROGRAMS} limit 1")  # noqa: S608 - our own words

    # -- rows --------------------------------------------------------------------------------------

    def first(self, count: int, after: tuple[Any, ...] | None = None, *, tied: bool = False) -> list[Row]:
        """The first rows by their order, or those after this one (or its order and name); only `tied` ones if asked."""
        bounds = [f"({KEY}, name) > (?, ?, ?, ?, ?)"] * (after is not None) + ["tied"] * tied
        where = f"where {' and '.join(bounds)}" if bounds else ""
        values = (*after[:5], count) if after else (count,)
        found: list[Any] = self._ask(f"select * from rows {where} order by {KEY}, name limit ?", values)  # noqa: S608
        return found

    def names(self) -> Iterator[tuple[str, int]]:
        """Every name, with its inode: one after the other, for there may be millions."""
        import sqlite3

        try:
            yield from self._database.execute("select name, inode from rows")
        except sqlite3.Error as error:
            raise OSError(f"the catalogue: {error}") from None

    def has_more_than(self, count: int) -> bool:
        """Whether there are more rows than this, without counting them all."""
        return int(self._ask("select count(*) from (select 1 from rows limit ?)", (count + 1,))[0][0]) > count

    def add(self, rows: Iterable[Row]) -> None:
        """These are in; a name that was known is known anew."""
        self._tell(INSERT, rows)

    def drop(self, names: Iterable[str]) -> None:
        """These are gone."""
        self._tell("delete from rows where name = ?", ((name,) for name in names))

    def fact(self, key: str) -> Any:
        """Something that was noted; None if it was not."""
        found = self._ask("select value from facts where key = ?", (key,))
        return found[0][0] if found else None

    def note(self, key: str, value: object) -> None:
        """Something to remember."""
        self._tell("replace into facts values (?, ?)", [(key, value)])

    # -- the log -----------------------------------------------------------------------------------

    def take_in(self) -> int:
        """What the log tells is in the rows; the place after it. Of another log only what comes: compare."""
        place = self.log.find(str(self.fact("log") or ""))
        if place is None:
            self.note("listed", 0.0)
            place = self.log.end()
            self.note("log", self.log.cursor(place))
        noted = place
        while True:
            rows, after = self.log.read(place)
            if after == place:
                return place
            if rows:
                self.add(rows)
            place = after
            if rows or place - noted >= PIECE:  # what tells of no row is read again in no time
                self.note("log", self.log.cursor(place))
                noted = place

    def close(self) -> None:
        """Let go of it."""
        self.log.close()
        self._database.close()


INSERT = "replace into rows values (?, ?, ?, ?, ?, ?, ?, ?)"


def parse(line: bytes) -> Row | None:
    """The row in a line of the log, its last field; None if it has none. The rest of the line is not looked at."""
    try:
        found = read_json(line[line.index(MARK) + len(MARK) - 1 : line.rindex(b"]") + 1])
        rank, age, number, text, name, inode, tied, brief = found
        return int(rank), float(age), int(number), str(text), str(name), int(inode), int(tied), str(brief)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _is_plain(path: str) -> bool:
    """Whether it is a regular file: SQLite opens by path, and would follow a link."""
    status = fs.status(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def _of_now() -> str:
    """What a catalogue says of itself that can be used: the form of its rows, and the boot it was built in."""
    return f"{FORM} {boot_id()}"


def _named(folder: str) -> str:
    """The name of the database that is the catalogue; empty if there is none, or what stands there is no such name."""
    try:
        name = fs.read(f"{folder}/{POINTER}", 4096)[0].decode("ascii", "replace").strip()
    except OSError:
        return ""
    return name if name.replace("-", "").replace(".", "").isalnum() else ""
