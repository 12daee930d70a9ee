"""The broken variants of the protocol that the hammer must notice: one that does not proves nothing.

Each breaks the process that asks for it, before it touches the queue and for as long as it lives.
"""

from __future__ import annotations

import broken
import pytest

from taskpit.store import claim as claims


def fixed_name(patch):
    """All claims of a task have one name: nothing tells an earlier one from a later one."""
    patch.setattr(claims, "_fence", lambda want: want.worker)


def renewal_without_a_lease(patch):
    """A renewal stamps the moment, not the end of the lease."""
    real = claims.renew
    patch.setattr(claims, "renew", lambda folder, claim, _lease: real(folder, claim, 0.0))


MUTANTS = {
    "seal skipped": broken.seal_skipped,
    "publish before seal": broken.publish_before_seal,
    "publish by rename": broken.publish_by_rename,
    "seal by link and unlink": broken.seal_by_link_and_unlink,
    "fixed name": fixed_name,
    "second link in put": broken.second_link_in_put,
    "next bytes straight to ready": broken.next_bytes_straight_to_ready,
    "renewal without a lease": renewal_without_a_lease,
}


def become(name):
    """This process is that mutant from now on; nothing changes without a name."""
    if name:
        MUTANTS[name](pytest.MonkeyPatch())
