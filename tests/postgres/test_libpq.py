"""The server's own library: values go there and come back as they were, and nobody waits who does not want to."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading

import pytest

from taskpit.store.postgres import libpq
from taskpit.store.postgres.libpq import Connection, ServerError, is_readable

pytestmark = pytest.mark.mechanism

ODD = [
    "",
    "a",
    "NULL",
    "null",
    'qu"ote',
    "back\\slash",
    '\\"',
    "\\\\",
    "{}",
    "a,b",
    " space ",
    "line\nline",
    "\t",
    "ü€𝄞",
    "%s",
    "$1",
]


@pytest.fixture
def line(server):
    with Connection(server.address(), {}) as line:
        yield line


@pytest.mark.parametrize("word", ODD)
def test_texts(line, word):
    assert line.execute("SELECT %(word)s::text, ARRAY[%(word)s::text]", {"word": word}) == [(word, [word])]


def test_every_kind_of_value(line):
    values = {
        "bool": True,
        "int4": -(2**31),
        "int8": 2**62,
        "float8": 0.1 + 0.2,
        "bytea": bytes(range(256)),
        "text[]": ODD,
        "int8[]": [1, 2**40],
        "float8[]": [0.5, 1e300],
        "bool[]": [True, False],
        "bytea[]": [b"", bytes(range(256)), b"\\x00"],
    }
    for kind, value in values.items():
        told = line.execute(f"SELECT %(value)s::{kind}, NULL::{kind}", {"value": value})
        assert told == [(value, None)]
    assert line.execute("SELECT ARRAY[NULL, 'x,y', NULL], '{}'::text[]", {}) == [([None, "x,y", None], [])]
    assert line.execute("SELECT %(a)s::text, %(b)s::text, %(a)s::text", {"a": "1", "b": "2", "c": "unused"}) == [
        ("1", "2", "1")
    ]


def test_a_zero_byte_is_refused_and_never_cuts_a_text_short(line):
    for word in ("a\0b", ["a\0b"]):
        with pytest.raises(ServerError, match="zero byte"):
            line.execute("SELECT %(word)s::text", {"word": word})


def test_what_comes_often_is_prepared(line):
    for number in range(10):
        assert line.execute("SELECT %(number)s + 1", {"number": number}) == [(number + 1,)]
    count = "SELECT count(*) FROM pg_prepared_statements"
    assert line.execute(count) == [(1,)]
    line.prepares = False
    for number in range(10):
        assert line.execute("SELECT %(number)s + 2", {"number": number}) == [(number + 2,)]
    assert line.execute(count) == [(1,)]


def test_an_error_has_its_code_and_spoils_nothing(line):
    for _ in range(2):
        with pytest.raises(ServerError, match="division by zero") as told:
            line.execute("SELECT 1 / %(none)s", {"none": 0})
        assert told.value.sqlstate == "22012"
        assert line.execute("SELECT 1") == [(1,)]
    with pytest.raises(ServerError, match="division"):
        line.execute("SELECT 1; SELECT 1 / 0; SELECT 2")
    assert line.is_usable


def test_notices_are_not_shown(line, capfd):
    line.execute("DO $$ BEGIN RAISE NOTICE 'hello'; END $$")
    assert capfd.readouterr() == ("", "")


def test_a_session_that_was_ended(server, line):
    server.sql("SELECT pg_terminate_backend(%s)", line.pid)
    with pytest.raises(ServerError):
        line.execute("SELECT 1")
    assert not line.is_usable
    line.close()
    line.close()
    with pytest.raises(ServerError, match="closed"):
        line.execute("SELECT 1")


def test_no_library_no_connection_and_no_noise(monkeypatch, capfd):
    monkeypatch.setattr(libpq, "_library", None)
    monkeypatch.setattr(libpq, "_path", lambda: "libpq-that-is-not-there.so")
    with pytest.raises(OSError, match="libpq-that-is-not-there"):
        Connection("postgresql:///d", {})
    gc.collect()
    assert capfd.readouterr() == ("", "")


def test_nobody_answers(tmp_path):
    with pytest.raises(ServerError, match="No such file"):
        Connection(f"postgresql://pit@/postgres?host={tmp_path}", {"connect_timeout": "5"})
    assert not is_readable("postgresql://h/d?what=1")


def test_ctrl_c_ends_the_waiting(server, line):
    """In the main thread a signal's handler runs while the server takes its time."""
    sleeping = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {line.pid} AND wait_event = 'PgSleep'"

    def strike():
        while not server.sql(sleeping)[0][0]:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=strike)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        line.execute("SELECT pg_sleep(3600)")
    thread.join()
    server.sql("SELECT pg_terminate_backend(%s)", line.pid)


def test_a_child_ends_nothing_of_its_parents(line):
    child = os.fork()
    if not child:
        del line
        os._exit(0)
    os.waitpid(child, 0)
    assert line.execute("SELECT 1") == [(1,)]


def test_rings(server, line):
    line.execute("LISTEN bell")
    assert not line.hears(0.0)
    server.sql("NOTIFY bell")
    server.sql("NOTIFY bell")
    assert line.hears(60.0)
    line.execute("SELECT 1")
    server.sql("NOTIFY bell")
    line.execute("SELECT 1")  # which reads the ring, too
    assert line.hears(60.0)


def test_commands_load_the_library_and_nothing_around_it(server, tmp_path):
    """psycopg alone takes longer to load than all the rest of a command."""
    address = server.new()
    run = "import sys; from taskpit.cli.main import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    for words in (["add", "x"], ["claim"], ["renew", "1"], ["done", "1"]):
        told = subprocess.run(
            [sys.executable, "-c", run, "-C", address, *words],
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "ctypes" in told.stderr.split()
        assert not {"psycopg", "asyncio", "logging", "socket", "ssl"} & set(told.stderr.split()), words
