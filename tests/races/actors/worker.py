"""Claim and finish until there is nothing left; print each id that was finished. Run as: worker.py ROOT START NAME."""

from __future__ import annotations

import os
import sys
import time

from taskpit.model import Done, Said
from taskpit.queue import Queue

root, start, name = sys.argv[1:]
queue = Queue.open(root)
print("here", flush=True)
while not os.path.exists(start):
    time.sleep(0.001)
while claims := queue.claim(name):
    for claim in claims:
        said, _ = queue.finish(claim, Done(output=name))
        print(claim.task.id, said, flush=True)
        assert said is Said.OK
queue.close()
