"""Addresses of queues behind a gateway, `https://host:8443/q`, and the token that is shown there.

A token is never part of an address, a command line or a message: it comes from TASKPIT_TOKEN, from the file that
TASKPIT_TOKEN_FILE names, or from a folder that contains the address.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from taskpit import fs
from taskpit.errors import Invalid
from taskpit.model import Value
from taskpit.store.disk_errors import storage_error

SCHEMES = ("https://", "http://")
#: Where a folder that contains an address keeps its token.
TOKEN = ".taskpit/token"  # noqa: S105 - the name of a file
LOOPBACK = ("127.0.0.1", "::1", "localhost")
LONGEST_TOKEN = 512
#: How many seconds a verb goes on trying when its gateway is gone.
PATIENCE = 15.0


class GatewayAddress(Value, frozen=True, kw_only=True):
    """Where a gateway is."""

    host: str
    port: int
    #: What comes before `/v1/...`.
    path: str = ""
    secure: bool = True
    #: A file of certificates to trust instead of the system's.
    ca: str = ""
    token: str = ""
    patience: float = PATIENCE

    def __repr__(self) -> str:
        return f"GatewayAddress({self.whole!r})"  # never its token

    @property
    def whole(self) -> str:
        """The address as it is written; it contains no secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.path}"


def is_address(text: str) -> bool:
    """Whether this names a queue behind a gateway."""
    return text.startswith(SCHEMES)


def shown(text: str) -> str:
    """Return an address, valid or not, without anything that may be a secret."""
    scheme, _, rest = text.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0].partition('#')[0][:200]}"


def parse(text: str, env: Mapping[str, str], folder: str = "") -> GatewayAddress:
    """Return the address with its token. Raises Invalid."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _unreadable(text, "its host or its port is none") from None
    if parts.username is not None or parts.password is not None:
        raise _unreadable(text, "it has a name or a password in it", "Put the token into TASKPIT_TOKEN.")
    if parts.query or parts.fragment:
        raise _unreadable(text, "something follows a ? or a #", "A token is never part of an address: TASKPIT_TOKEN.")
    if not host or not text.isascii() or not text.isprintable() or " " in text:
        raise _unreadable(text, "it names no host, or has letters no address has")
    secure = parts.scheme == "https"
    if not secure and host not in LOOPBACK:
        raise Invalid(
            f"{shown(text)} would send tasks and the token in the clear",
            hint="Use https://; http:// is for this machine only (127.0.0.1, localhost).",
        )
    return GatewayAddress(
        host=host,
        port=port or (443 if secure else 80),
        path=parts.path.rstrip("/"),
        secure=secure,
        ca=env.get("TASKPIT_CA", ""),
        token=read_token(env, folder),
    )


def read_token(env: Mapping[str, str], folder: str = "") -> str:
    """Return the token to show. Raises Invalid if there is none that can be shown."""
    token, where = env.get("TASKPIT_TOKEN", ""), "TASKPIT_TOKEN"
    for path in (env.get("TASKPIT_TOKEN_FILE", ""), f"{folder}/{TOKEN}" if folder else ""):
        if not token and path:
            token, where = _in_file(path), path
    token = token.strip()
    if not token:
        raise Invalid(
            "a queue behind a gateway needs a token",
            hint="`pit serve token add NAME` where the queue is makes one; put it into TASKPIT_TOKEN, or the path of a "
            "file with it into TASKPIT_TOKEN_FILE.",
        )
    if len(token) > LONGEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise Invalid(f"{where} holds no token", hint="It is one word, as `pit serve token add` showed it.")
    return token


def _in_file(path: str) -> str:
    try:
        return fs.read(os.path.abspath(path), 2 * LONGEST_TOKEN)[0].decode("ascii", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Invalid(f"the token's file {path} cannot be read: {error.strerror}", path=path) from None


def name_in(token: str) -> str:
    """Return the worker that a token is for; empty if it does not say."""
    name, dot, _ = token.partition(".")
    return name if dot else ""


def leave_address(root: str, address: GatewayAddress, *, trusted: bool = True) -> None:
    """Write the address and its token into a folder, which then opens this queue; only its owner may read the token."""
    from taskpit.store.postgres.opening import leave_address as leave  # noqa: PLC0415 - needs an extra

    leave(root, address.whole, trusted=trusted)
    path = f"{root}/{TOKEN}"
    try:
        if fs.exists(path) and fs.read(path, 4096)[0].decode("ascii", "replace").strip() == address.token:
            return
        scratch = f"{root}/.taskpit/.{fs.fresh_name()}"
        fs.replace(path, f"{address.token}\n".encode(), scratch, sync=False, mode=0o600)
    except OSError as error:
        raise storage_error(error) from error


def _unreadable(text: str, why: str, hint: str = "Write https://HOST:PORT/q, as `pit serve` shows it.") -> Invalid:
    return Invalid(f"the address {shown(text)} cannot be read: {why}", hint=hint)
