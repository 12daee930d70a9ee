"""Running work: claim, run, check, finish. Knows processes; leaves policy to the queue."""
