"""Wait for the start, put one task, say how it was taken. Run as: putter.py ROOT START TITLE."""

from __future__ import annotations

import os
import sys
import time

from taskpit.model import Task
from taskpit.queue import Queue

root, start, title = sys.argv[1:]
queue = Queue.open(root)
print("here", flush=True)
while not os.path.exists(start):
    time.sleep(0.001)
print(queue.store.put([Task(id="0001", title=title, slug="one")])[0])
queue.close()
