"""The server's own client library, by `ctypes`: connections, statements, rows. Knows values, no verbs and no tables.

The whole of psycopg takes a command longer to load than all the rest of it, and a statement longer to send than the
server takes to carry it out. Of its package only the library is used, or the system's own.
Calls that wait do so in Python, so that Ctrl-C ends them.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
import threading
from ctypes import POINTER, c_char_p, c_int, c_uint, c_void_p

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Self

    Row = tuple[Any, ...]

#: Where packages keep the library, below a folder of `sys.path`; and the system's own, by name.
BROUGHT, SYSTEM = ("psycopg_binary.libs", "psycopg_binary/.dylibs"), ("libpq.so.5", "libpq.5.dylib")
#: What a connection and an answer may be.
CONNECTED, DONE, ROWS, NOTHING = 0, 1, 2, 0
#: What an error is asked for: its code and its words.
CODE, WORDS = ord("C"), ord("M")
#: A statement that was used so often is prepared, and so many are.
OFTEN, MANY = 5, 100
#: Kinds of values, by the server's numbers; and of lists of them.
BOOL, BYTES, INT8, INT2, INT4, TEXT, OID, FLOAT4, FLOAT8 = 16, 17, 20, 21, 23, 25, 26, 700, 701
BOOLS, MANY_BYTES, TEXTS = 1000, 1001, 1009
#: What a number must be below for the server's usual kind.
LARGE = 1 << 31

#: Each function: what it gives, what it takes. Those that never wait keep the interpreter's lock: that is quicker.
WAITING: dict[str, tuple[Any, ...]] = {
    "PQconnectdbParams": (c_void_p, POINTER(c_char_p), POINTER(c_char_p), c_int),
    "PQfinish": (None, c_void_p),
    "PQsendQuery": (c_int, c_void_p, c_char_p),
    "PQsendPrepare": (c_int, c_void_p, c_char_p, c_char_p, c_int, POINTER(c_uint)),
    "PQsendQueryParams": (
        *(c_int, c_void_p, c_char_p, c_int, POINTER(c_uint), POINTER(c_char_p)),
        *(POINTER(c_int), POINTER(c_int), c_int),
    ),
    "PQsendQueryPrepared": (
        *(c_int, c_void_p, c_char_p, c_int, POINTER(c_char_p)),
        *(POINTER(c_int), POINTER(c_int), c_int),
    ),
}
QUICK: dict[str, tuple[Any, ...]] = {
    "PQconninfoParse": (c_void_p, c_char_p, c_void_p),
    "PQconninfoFree": (None, c_void_p),
    "PQsetNoticeProcessor": (c_void_p, c_void_p, c_void_p, c_void_p),
    "PQstatus": (c_int, c_void_p),
    "PQerrorMessage": (c_char_p, c_void_p),
    "PQsocket": (c_int, c_void_p),
    "PQbackendPID": (c_int, c_void_p),
    "PQserverVersion": (c_int, c_void_p),
    "PQconsumeInput": (c_int, c_void_p),
    "PQisBusy": (c_int, c_void_p),
    "PQgetResult": (c_void_p, c_void_p),
    "PQresultStatus": (c_int, c_void_p),
    "PQresultErrorField": (c_char_p, c_void_p, c_int),
    "PQresultErrorMessage": (c_char_p, c_void_p),
    "PQntuples": (c_int, c_void_p),
    "PQnfields": (c_int, c_void_p),
    "PQftype": (c_uint, c_void_p, c_int),
    "PQgetisnull": (c_int, c_void_p, c_int, c_int),
    "PQgetvalue": (c_char_p, c_void_p, c_int, c_int),
    "PQclear": (None, c_void_p),
    "PQnotifies": (c_void_p, c_void_p),
    "PQfreemem": (None, c_void_p),
}


class ServerError(Exception):
    """What the server or its library refused: its words, and its code if it had one."""

    def __init__(self, said: str, sqlstate: str = "") -> None:
        super().__init__(said)
        self.sqlstate = sqlstate


class _Library:
    """The functions above."""

    def __init__(self) -> None:
        path = _path()
        for loaded, functions in ((ctypes.CDLL(path), WAITING), (ctypes.PyDLL(path), QUICK)):
            for name, (gives, *takes) in functions.items():
                function = getattr(loaded, name)
                function.restype, function.argtypes = gives, takes
                setattr(self, name, function)
        # Notices would go to standard error.
        self.silence = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)(lambda *_: None)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(name)


def _path() -> str:
    """The library that a package brought, or else the system's own name for it."""
    for place in sys.path:
        for folder in BROUGHT:
            try:
                names = sorted(os.listdir(f"{place}/{folder}")) if os.path.isabs(place) else []
            except OSError:
                continue
            for name in names:
                if name.startswith("libpq"):
                    return f"{place}/{folder}/{name}"
    return SYSTEM[sys.platform == "darwin"]


_library: _Library | None = None


def load() -> _Library:
    """The library, loaded once; OSError if there is none."""
    global _library  # noqa: PLW0603 - one library for all
    if _library is None:
        _library = _Library()
    return _library


def is_readable(address: str) -> bool:
    """Whether the library understands this address."""
    pq = load()
    parsed = pq.PQconninfoParse(address.encode("utf-8", "surrogateescape"), None)
    if parsed:
        pq.PQconninfoFree(parsed)
    return bool(parsed)


# -- values ----------------------------------------------------------------------------------------


def _dumped(value: object) -> tuple[int, bytes | None, bool]:
    """The server's number for this kind of value (0: it shall find out itself), the value, and whether it is as the
    server itself keeps it, not in words: what is long would have to be spelt, and read again.
    """
    for kind, dump in DUMPED.items():
        if isinstance(value, kind):
            return dump(value)
    raise TypeError(f"the server has no kind for {type(value).__name__}")


def _dumped_list(value: list[Any]) -> tuple[int, bytes, bool]:
    first = value[0] if value else None
    if isinstance(first, str):
        return TEXTS, _listed(TEXT, [_whole(one) for one in value]), True
    if isinstance(first, bytes):
        return MANY_BYTES, _listed(BYTES, value), True
    if isinstance(first, bool):
        return BOOLS, _listed(BOOL, [b"\1" if one else b"\0" for one in value]), True
    return 0, _whole("{" + ",".join(map(str, value)) + "}"), False


#: How values are told, by their kind; a bool is an int, and comes first.
DUMPED: dict[type, Callable[[Any], tuple[int, bytes | None, bool]]] = {
    str: lambda value: (0, _whole(value), False),
    type(None): lambda _: (0, None, False),
    bool: lambda value: (BOOL, b"t" if value else b"f", False),
    int: lambda value: (INT4 if -LARGE <= value < LARGE else INT8, b"%d" % value, False),
    float: lambda value: (FLOAT8, repr(value).encode(), False),
    bytes: lambda value: (BYTES, value, True),
    list: _dumped_list,
}


def _listed(kind: int, values: list[bytes]) -> bytes:
    """A list as the server keeps it: its shape, then each value behind its length."""
    pieces = [struct.pack(">iiIii", 1, 0, kind, len(values), 1)]
    for one in values:
        pieces += (len(one).to_bytes(4, "big"), one)
    return b"".join(pieces)


def _whole(text: str) -> bytes:
    if "\0" in text:
        raise ServerError("a text for PostgreSQL cannot contain a zero byte", "22021")
    return text.encode("utf-8", "replace")  # half a letter, as in a file


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _array(kind: Callable[[bytes], Any]) -> Callable[[bytes], list[Any]]:
    """What reads a list of these."""

    def read(data: bytes) -> list[Any]:
        if b'"' not in data:
            return [None if one == b"NULL" else kind(one) for one in data[1:-1].split(b",")] if len(data) > 2 else []
        found, place = [], 1
        while place < len(data):
            if data[place : place + 1] == b'"':
                end = place + 1
                while data[end : end + 1] != b'"':
                    end += 2 if data[end : end + 1] == b"\\" else 1
                pieces = data[place + 1 : end].split(b"\\\\")
                found.append(kind(b"\\".join(piece.replace(b"\\", b"") for piece in pieces)))
                place = end + 2
            else:
                word = data[place:].partition(b",")[0].removesuffix(b"}")
                found.append(None if word == b"NULL" else kind(word))
                place += len(word) + 1
        return found

    return read


def _is_true(data: bytes) -> bool:
    return data == b"t"


def _bytes(data: bytes) -> bytes:
    return bytes.fromhex(data[2:].decode())


#: How answers are read, by the number of their kind; what is not here is text.
READ: dict[int, Callable[[bytes], Any]] = {
    BOOL: _is_true,
    BYTES: _bytes,
    BOOLS: _array(_is_true),
    MANY_BYTES: _array(_bytes),
    **dict.fromkeys((INT8, INT2, INT4, OID), int),
    **dict.fromkeys((FLOAT4, FLOAT8), float),
    **dict.fromkeys((1009, 1015), _array(_text)),
    **dict.fromkeys((1005, 1007, 1016), _array(int)),
    1022: _array(float),
}


def numbered(sql: str) -> tuple[bytes, list[str]]:
    """The statement with $1, $2 in place of %(name)s, and the names in that order."""
    first, *pieces = sql.split("%(")
    names: dict[str, int] = {}
    told = first
    for piece in pieces:
        name, _, rest = piece.partition(")s")
        told += f"${names.setdefault(name, len(names) + 1)}{rest}"
    return told.encode(), list(names)


# -- connections -----------------------------------------------------------------------------------


class Connection:
    """One session, in which every statement is a transaction of its own unless BEGIN was said."""

    def __init__(self, address: str, usual: Mapping[str, str]) -> None:
        """`usual`: settings of the connection that the address may change."""
        self._session: int | None = None
        self._own = os.getpid()
        self._pq = load()
        self._statements: dict[str, tuple[bytes, list[str]]] = {}
        self._used: dict[tuple[str, tuple[int, ...]], int] = {}
        self._names: dict[tuple[str, tuple[int, ...]], bytes] = {}
        #: How the columns of a prepared statement are read, once it has answered.
        self._columns: dict[bytes, list[Callable[[bytes], Any]]] = {}
        #: Whether statements are prepared that come often.
        self.prepares = True
        given = {**usual, "dbname": address, "client_encoding": "UTF8"}
        keys, values = (
            [word.encode("utf-8", "surrogateescape") for word in words] for words in (given.keys(), given.values())
        )
        array = c_char_p * (len(given) + 1)
        self._connect(array(*keys, None), array(*values, None))
        if self._pq.PQstatus(self._session) != CONNECTED:
            said = _text(self._pq.PQerrorMessage(self._session))
            self.close()
            raise ServerError(said)
        self._pq.PQsetNoticeProcessor(self._session, ctypes.cast(self._pq.silence, c_void_p), None)
        self.pid: int = self._pq.PQbackendPID(self._session)
        self.version: int = self._pq.PQserverVersion(self._session)
        self._bell = select.poll()
        self._bell.register(self._pq.PQsocket(self._session), select.POLLIN)

    def _connect(self, keys: object, values: object) -> None:
        """Over any of the servers that the address names. A person can end the waiting: it is done beside them."""

        def connect() -> None:
            self._session = self._pq.PQconnectdbParams(keys, values, 1)

        if threading.current_thread() is threading.main_thread():
            helper = threading.Thread(target=connect, daemon=True)
            helper.start()
            helper.join()
        else:
            connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._own == os.getpid():  # a child that was forked says no good-bye for its parent
            self.close()

    def close(self) -> None:
        """The session is over, and with it what was begun in it."""
        session, self._session = self._session, None
        if session:
            self._pq.PQfinish(session)

    @property
    def is_usable(self) -> bool:
        """Whether the session lasts, as far as is known."""
        return self._session is not None and self._pq.PQstatus(self._session) == CONNECTED

    def execute(self, sql: str, words: Mapping[str, object] | None = None) -> list[Row]:
        """The rows of a statement with these in place of %(name)s; without words of any number of statements."""
        if self._session is None:
            raise ServerError("the connection is closed")
        if words is None:
            return self._answer(self._pq.PQsendQuery(self._session, sql.encode()))
        text, names = self._statements.get(sql) or self._statements.setdefault(sql, numbered(sql))
        dumped = [(DUMPED.get(type(value)) or _dumped)(value) for value in map(words.__getitem__, names)]
        kinds, count = tuple([kind for kind, _, _ in dumped]), len(dumped)
        values, sizes, forms = (c_char_p * count)(*[value for _, value, _ in dumped]), None, None
        if any(raw for _, _, raw in dumped):
            sizes = (c_int * count)(*[len(value or b"") for _, value, _ in dumped])
            forms = (c_int * count)(*[raw for _, _, raw in dumped])
        name = self._prepared(sql, text, kinds) if self.prepares else None
        if name is not None:
            sent = self._pq.PQsendQueryPrepared(self._session, name, count, values, sizes, forms, 0)
        else:
            types = (c_uint * count)(*kinds)
            sent = self._pq.PQsendQueryParams(self._session, text, count, types, values, sizes, forms, 0)
        return self._answer(sent, name)

    def _prepared(self, sql: str, text: bytes, kinds: tuple[int, ...]) -> bytes | None:
        """The name of this statement, once it came often."""
        key = (sql, kinds)
        name = self._names.get(key)
        if name is None and len(self._names) < MANY:
            self._used[key] = self._used.get(key, 0) + 1
            if self._used[key] > OFTEN:
                new = b"taskpit_%d" % len(self._names)
                types = (c_uint * len(kinds))(*kinds)
                self._answer(self._pq.PQsendPrepare(self._session, new, text, len(kinds), types))
                name = self._names[key] = new
        return name

    def _answer(self, sent: int, name: bytes | None = None) -> list[Row]:
        """The rows of the last statement that was sent, of this name if it was prepared; raises the first error."""
        if not sent:
            raise ServerError(_text(self._pq.PQerrorMessage(self._session)))
        pq, session = self._pq, self._session
        rows: list[Row] = []
        refused: ServerError | None = None
        while True:
            while pq.PQisBusy(session):
                self._bell.poll()
                if not pq.PQconsumeInput(session):
                    raise ServerError(_text(pq.PQerrorMessage(session)))
            result = pq.PQgetResult(session)
            if not result:
                break
            try:
                status = pq.PQresultStatus(result)
                if status == ROWS:
                    rows = self._rows(result, name)
                elif status not in (NOTHING, DONE):
                    refused = refused or self._error(result)
            finally:
                pq.PQclear(result)
        if refused is not None:
            raise refused
        return rows

    def _rows(self, result: int, name: bytes | None) -> list[Row]:
        pq = self._pq
        get, is_null = pq.PQgetvalue, pq.PQgetisnull
        columns = self._columns.get(name) if name else None
        if columns is None:
            columns = [READ.get(pq.PQftype(result, place), _text) for place in range(pq.PQnfields(result))]
            if name:
                self._columns[name] = columns
        rows = []
        for row in range(pq.PQntuples(result)):
            fields = []
            for place, read in enumerate(columns):
                data = get(result, row, place)  # which is empty for what is null, too
                fields.append(read(data) if data or not is_null(result, row, place) else None)
            rows.append(tuple(fields))
        return rows

    def _error(self, result: int) -> ServerError:
        code, words = (self._pq.PQresultErrorField(result, field) for field in (CODE, WORDS))
        return ServerError(_text(words or self._pq.PQresultErrorMessage(result)), _text(code or b""))

    def hears(self, timeout: float) -> bool:
        """Whether a ring came within that many seconds, on a channel that was listened to; all of them are taken."""
        for wait in (0.0, timeout):
            if self._bell.poll(1000 * wait) and not self._pq.PQconsumeInput(self._session):
                raise ServerError(_text(self._pq.PQerrorMessage(self._session)))
            rings = 0
            while ring := self._pq.PQnotifies(self._session):
                self._pq.PQfreemem(ring)
                rings += 1
            if rings:
                return True
        return False
