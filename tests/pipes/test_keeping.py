"""Messages that were read are pruned after a while; those that nobody has read never are."""

from __future__ import annotations

import os

from taskpit.keeper import sweep
from taskpit.pipes import Pipe
from taskpit.queue import Queue
from taskpit.store.opening import init


def test_only_what_was_read_long_ago_goes(tmp_path):
    root = str(tmp_path / "space")
    init(root, "workspace")
    queue = Queue.open(root)
    pipe = Pipe(f"{root}/pipes/a_to_b", f"{root}/.taskpit/pipes/a_to_b")
    pipe.make()
    for text in (b"read", b"unread"):
        pipe.post(text)
    message = pipe.receive(1.0)
    pipe.acknowledge(message)
    assert [mend.kind for mend in sweep(queue)] == []
    queue.store.folder.config = queue.config.replace(keep_messages=1e-9)
    assert [mend.kind for mend in sweep(queue, dry_run=True)] == ["pruned"]
    assert [mend.kind for mend in sweep(queue)] == ["pruned"]
    assert os.listdir(f"{root}/.taskpit/pipes/a_to_b/sent") == []
    assert pipe.receive(1.0).data == b"unread"
    queue.close()
