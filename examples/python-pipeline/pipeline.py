"""Three stages, each a function: numbers are fetched, squared and summed. Run it as often as you like, also at once.

Ids are fixed before a task is put, so whoever repeats a step after a crash puts the same task again, which is fine.
"""

from __future__ import annotations

import os
import sys

from taskpit import Claim, Done, Failed, Queue, Task

HERE = os.path.dirname(os.path.abspath(__file__))


def fetch(queue: Queue, claim: Claim) -> Done:
    number = int(claim.task.body)
    queue.put([Task(id=f"square.{number}", title=f"square {number}", body=str(number), tags=("square",))])
    return Done(output=str(number))


def square(queue: Queue, claim: Claim) -> Done:
    if claim.task.body == "3" and claim.attempt == 1:
        raise RuntimeError("three is hard the first time")
    return Done(output=str(int(claim.task.body) ** 2))


def total(queue: Queue, claim: Claim) -> Done:
    parts = [queue.card(task_id).result for task_id in claim.task.needs]  # needs are done, so each has one
    return Done(output=str(sum(int(part.output) for part in parts if part is not None)))


STAGES = {"fetch": fetch, "square": square, "total": total}


def work(queue: Queue, worker: str) -> None:
    """Take what can be taken, until everything is finished."""
    while True:
        claims = queue.claim(worker, wait=1.0)
        if not claims:
            if queue.card("total").result:
                return
            continue
        claim = claims[0]
        try:
            outcome = STAGES[claim.task.tags[0]](queue, claim)
        except RuntimeError as error:
            queue.finish(claim, Failed(error=str(error)))
        else:
            queue.finish(claim, outcome)


def main() -> None:
    queue = Queue.open(os.path.join(HERE, "numbers"))
    try:
        needs = tuple(f"square.{number}" for number in range(1, 6))
        tasks = [Task(id=f"fetch.{n}", title=f"fetch {n}", body=str(n), tags=("fetch",)) for n in range(1, 6)]
        queue.put([*tasks, Task(id="total", title="add them up", needs=needs, tags=("total",))])
        work(queue, f"python-{sys.argv[1] if sys.argv[1:] else os.getpid()}")
        result = queue.card("total").result
        print(result.output if result else "no result")
    finally:
        queue.close()


if __name__ == "__main__":
    main()
