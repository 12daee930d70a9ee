"""Contend for a lock once for every line on stdin. Run as: contender.py ROOT PROTOCOL WORKER MUTANT.

A line is the number of the call to be killed before (0: none). Printed: `won NUMBER`, `lost` or an error,
and whether somebody else was inside at the same time.
"""

from __future__ import annotations

import os
import sys
import time

import lockers

from taskpit import fs

root, protocol, worker, mutant = sys.argv[1:]
store = lockers.store(root)
if mutant:
    lockers.MUTANTS[mutant](lockers.Patch())
contend = lockers.PROTOCOLS[protocol]
witness = f"{root}/inside"
print("here", flush=True)
for turn, line in enumerate(sys.stdin):
    fs.set_hook(lockers.dies_at(int(line)) if int(line) else lockers.pauses(f"{worker} {turn}"))
    number = contend(store, f"{worker}-{turn}")
    fs.set_hook(None)
    if number is None:
        print("lost", flush=True)
        continue
    try:
        os.close(os.open(witness, os.O_CREAT | os.O_EXCL))
        alone = "alone"
    except FileExistsError:
        alone = "together"
    time.sleep(0.0005)
    if alone == "alone":
        os.unlink(witness)
    print("won", number, alone, flush=True)
