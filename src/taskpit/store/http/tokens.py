"""Who may ask a gateway: tokens by name, hashed, in a file that only its owner may read.

The file is in `.taskpit/` of the queue's folder; for a database, of the folder among the user's own state that
contains its address. A secret has 256 random bits, so its plain digest cannot be guessed back.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from taskpit import fs, trust
from taskpit.clock import Clock, iso
from taskpit.errors import Conflict, Invalid, NotFound
from taskpit.layouts.layout import is_worker
from taskpit.model import Seconds, Text, Texts, Time, Value
from taskpit.store.disk_errors import verb
from taskpit.workers import MARK

#: The file below the folder, and the most bytes of it.
FILE, LARGEST = trust.TOKENS, 4 * 1024 * 1024
#: Letters of a name: workers have a number added to it.
LONGEST_NAME = 40


class Grant(Value, frozen=True, kw_only=True):
    """A token as it is kept: everything but its secret."""

    name: Text
    #: The digest of the secret.
    digest: Text
    rights: Texts = ("work",)
    #: It may only claim tasks with one of these; empty: any.
    tags: Texts = ()
    created: Time = 0.0
    #: Unix seconds of its end; 0: none.
    until: Seconds = 0.0
    #: Names of other tokens that begin with this one's and a dash: their workers are not this one's. Not kept.
    others: Texts = ()


class TokenFile(msgspec.Struct):
    """The file."""

    schema: int
    tokens: list[Grant]


class TokenRefused(Exception):
    """This token opens nothing; the reason is for the gateway's own log, not for its caller."""

    def __init__(self, why: str, name: str = "") -> None:
        super().__init__(why)
        self.why, self.name = why, name


class Tokens:
    """The tokens of one queue."""

    def __init__(self, folder: str, clock: Clock | None = None) -> None:
        self._folder = folder
        self.path = f"{folder}/{FILE}"
        self._clock = clock or Clock()
        self._stamp: tuple[int, int, int] | None = None
        self._known: dict[str, Grant] = {}

    def check(self, token: str) -> Grant:
        """Return what this token grants. Raises TokenRefused. A change of the file counts from the next call on."""
        name, _, secret = token.partition(".")
        grant = self._current().get(name)
        if grant is None:
            raise TokenRefused("no such token", name if is_worker(name) and len(name) <= LONGEST_NAME else "")
        if not hmac.compare_digest(grant.digest, _digest(secret)):
            raise TokenRefused("the secret is wrong", name)
        if grant.until and grant.until <= self._clock.now():
            raise TokenRefused(f"it ended at {iso(grant.until)}", name)
        return grant

    def _current(self) -> dict[str, Grant]:
        try:
            status = os.lstat(self.path)
        except FileNotFoundError:
            return {}
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp != self._stamp:
            known = self._load()
            for name, grant in known.items():
                known[name] = grant.replace(others=tuple(other for other in known if other.startswith(f"{name}-")))
            self._known, self._stamp = known, stamp
        return self._known

    @verb
    def all(self) -> list[Grant]:
        """Return them by name."""
        return [grant for _, grant in sorted(self._load().items())]

    def _load(self) -> dict[str, Grant]:
        try:
            kept = msgspec.json.decode(fs.read(self.path, LARGEST)[0], type=TokenFile)
        except FileNotFoundError:
            return {}
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            hint = "Move it away and make the tokens again."
            raise Invalid(f"{self.path} cannot be read: {error}", hint=hint, path=self.path) from None
        return {grant.name: grant for grant in kept.tokens}

    @verb
    def add(self, name: str, rights: Sequence[str], tags: Sequence[str] = (), lasts: float = 0.0) -> str:
        """Return a new token, which cannot be shown a second time. Raises Invalid or Conflict."""
        if not is_worker(name) or len(name) > LONGEST_NAME or "@" in name or MARK in name:
            hint = "Use letters, digits, dash and underscore; workers are then NAME, NAME-1, NAME-2, ..."
            raise Invalid(f"a token cannot be called {name[:80]!r}", hint=hint)
        secret, now = secrets.token_urlsafe(32), self._clock.now()
        grant = Grant(
            name=name,
            digest=_digest(secret),
            rights=tuple(dict.fromkeys(rights)),
            tags=tuple(tags),
            created=now,
            until=now + lasts if lasts else 0.0,
        )
        with _locked(self.path):
            known = self._load()
            if name in known:
                hint = f"`pit serve token revoke {name}` ends it first, or take another name."
                raise Conflict(f"there is a token {name} already", hint=hint, name=name)
            near = next((other for other in known if other.startswith(f"{name}-") or name.startswith(f"{other}-")), "")
            if near:
                shorter, longer = sorted((name, near), key=len)
                message = f"a token {longer} could not be told from the workers of {shorter}"
                hint = f"Take a name that begins otherwise, or end that token first: `pit serve token revoke {near}`."
                raise Conflict(message, hint=hint, name=near)
            self._save([*known.values(), grant])
        return f"{name}.{secret}"

    @verb
    def revoke(self, name: str) -> None:
        """End a token: it opens nothing from now on. Raises NotFound."""
        with _locked(self.path):
            known = self._load()
            if known.pop(name, None) is None:
                raise NotFound(f"there is no token {name}", hint="`pit serve token list` shows them.", name=name)
            self._save(list(known.values()))

    def _save(self, grants: Sequence[Grant]) -> None:
        kept = TokenFile(1, [grant.replace(others=()) for grant in grants])
        data = msgspec.json.format(msgspec.json.encode(kept), indent=1)
        before = trust.trusted_look(self._folder)
        fs.replace(self.path, data, f"{self.path}~{fs.fresh_name()}", sync=True, mode=0o600)
        if before is not None:  # the tokens are part of what the user trusts, and this user changes them here
            trust.carry_over(before, self._folder, (data.decode(),))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Change the file alone."""
    fs.make_dir(os.path.dirname(path))
    lock = fs.Flock(f"{path}.lock")
    lock.take(wait=True)
    try:
        yield
    finally:
        lock.drop()
