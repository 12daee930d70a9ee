"""Addresses of queues in a database: `postgresql://user@host/database?schema=name`."""

from __future__ import annotations

import os
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from taskpit.clock import duration
from taskpit.errors import Invalid
from taskpit.model import Value

#: The schema of a queue whose address names none.
SCHEMA = "taskpit"
#: How long a verb goes on trying when the server that was there is gone, in seconds.
PATIENCE = 15.0
#: PostgreSQL cuts longer names, and two of them could become one.
LONGEST_SCHEMA = 63


class PostgresAddress(Value, frozen=True, kw_only=True):
    """Where a queue is."""

    #: What libpq understands: the address without what is ours.
    server: str
    schema: str = SCHEMA
    #: True: there are no notifications and no prepared statements; None: found out when connected.
    pooled: bool | None = None
    patience: float = PATIENCE
    #: As it was given, secrets and all.
    whole: str = ""

    @property
    def shown(self) -> str:
        """Return the address without its password."""
        return shown(self.whole)


def unreadable(text: str, why: str) -> Invalid:
    """Return the error for a bad address. It does not quote the parser, which quotes the password."""
    hint = "In a user or a password, write %25 for %, %23 for #, %2F for /, %3A for :, %3F for ? and %40 for @."
    return Invalid(f"the address {shown(text)} cannot be read: {why}", hint=hint)


def without_secrets(text: str, address: PostgresAddress) -> str:
    """Return the text without the passwords of this address."""
    userinfo = address.whole.partition("://")[2].rpartition("@")[0]
    given = [userinfo.partition(":")[2], os.environ.get("PGPASSWORD", "")]
    given += [value for key, value in parse_qsl(urlsplit(address.server).query) if "password" in key]
    for secret in sorted({*given, *map(unquote, given)}, key=len, reverse=True):
        text = text.replace(secret, "***") if secret else text
    return text


def shown(text: str) -> str:
    """Return an address, valid or not, without its password."""
    rest = text.partition("://")[2]
    authority = _upto(rest, "/?#")
    path, _, query = rest[len(authority) :].partition("?")
    user, at, host = authority.rpartition("@")
    port = host.rpartition("]")[2].rpartition(":")[2]
    if "@" in user + path or "#" in rest or not all(one.isdecimal() for one in port.split(",") if ":" in host and one):
        head, at, host = rest.rpartition("@")  # it is invalid: a password has / or # in it
        name = _upto(head if at else "", ":/?#")
        return f"postgresql://{name}:***@{_upto(host, '/?#')}" if at else "postgresql://***"
    name, colon, _ = user.partition(":")
    pairs = [(key, "***" if "password" in key else value) for key, value in parse_qsl(query, keep_blank_values=True)]
    return _joined(f"{name}{':***' if colon else ''}{at}{host}", path, urlencode(pairs, safe="/*,"))


def _upto(text: str, marks: str) -> str:
    """Return the text before the first of these marks."""
    for mark in marks:
        text = text.partition(mark)[0]
    return text


def quoted(schema: str) -> str:
    """Return the name of a schema in SQL."""
    return '"' + schema.replace('"', '""') + '"'


def parse(text: str) -> PostgresAddress:
    """Return the address of this text, or raise Invalid."""
    try:
        parts = urlsplit(text)
    except ValueError:
        raise unreadable(text, "its host is none") from None
    if parts.netloc.count("@") > 1:
        raise unreadable(text, "there is more than one @ before the database")
    ports = [host.rpartition("]")[2].partition(":")[2] for host in parts.netloc.rpartition("@")[2].split(",")]
    if not all(port.isdecimal() for port in ports if port):
        raise unreadable(text, "its port is no number")
    try:
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise unreadable(text, "what follows the ? does not read key=value&key=value") from None
    ours = {key: value for key, value in given if key in ("schema", "pgbouncer", "patience")}
    rest = urlencode([(key, value) for key, value in given if key not in ours], quote_via=quote)
    server = _joined(parts.netloc, parts.path, rest)
    return PostgresAddress(
        server=server,
        schema=_schema(ours.get("schema", SCHEMA)),
        pooled=_pooled(ours.get("pgbouncer")),
        patience=_patience(ours.get("patience")),
        whole=text,
    )


def place_of(text: str) -> tuple[str, ...]:
    """Return the server, database and schema of an address, without user and settings."""
    address = parse(text)
    parts = urlsplit(address.server)
    named = dict(parse_qsl(parts.query))
    words = (named.get(key, "") for key in ("host", "hostaddr", "port", "dbname"))
    return parts.netloc.rpartition("@")[2].lower(), parts.path, *words, address.schema


def _joined(netloc: str, path: str, query: str) -> str:
    """Return an address of these parts. Without a host it means this machine's own server."""
    return f"postgresql://{netloc}{path}" + (f"?{query}" if query else "")


def _schema(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum() and name[:1].isalpha()
    if not plain or len(name) > LONGEST_SCHEMA or name.lower().startswith("pg_"):
        raise Invalid(
            f"schema={name[:80]!r} cannot be a queue's name",
            hint="Use letters, digits, dash and underscore, beginning with a letter; pg_ is the server's own.",
        )
    return name


def _pooled(text: str | None) -> bool | None:
    words = {None: None, "1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if text not in words:
        raise Invalid(f"pgbouncer={text!r}: write 1 or 0, or leave it out and it is found out")
    return words[text]


def _patience(text: str | None) -> float:
    try:
        return PATIENCE if text is None else duration(text)
    except ValueError as error:
        raise Invalid(f"patience: {error}") from None
