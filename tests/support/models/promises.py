"""What must be true of a task on every disk, and of what is left after recovery. Knows names, no programs."""

from __future__ import annotations

from models.disk import age
from models.explorer import World

TASK = "T"
CHILDREN = ("A", "B")


class Promises(World):
    """A world with tasks in it."""

    #: Whose promises are looked at.
    tasks = (TASK,)
    #: Broken promises that a control is not held to.
    forgiven = ()
    #: Whether nothing temporary may be left.
    clears = False

    def aged_for_recovery(self, disk):
        """Every lease has run out."""
        for name, file in list(disk.items()):
            if name.startswith("claimed/"):
                disk = age(disk, file)
        return disk

    def wrong(self, disk):
        """The promises, on any disk at any moment."""
        broken = (said for said in self._broken(disk) if not any(words in said for words in self.forgiven))
        return next(broken, "")

    def _broken(self, disk):
        for name in disk:
            if name.startswith("told/robbed/"):
                yield f"{name.rpartition('/')[2]} renewed in time and lost its claim"
        if f"ids/{CHILDREN[0]}" in disk and "ever/split" not in disk:
            yield "there are children, and no split was committed"
        for task in self.tasks:
            yield from self._broken_of(disk, task)

    def _broken_of(self, disk, task):
        tokens = tokens_of(disk, task)
        results = files_under(disk, f"ever/done/{task}/", f"ever/failed/{task}/")
        ended = files_under(disk, f"told/ended/{task}/")
        stands = [disk[name] for name in (f"done/{task}", f"failed/{task}") if name in disk]
        if len(tokens) > 1:
            yield f"two tokens of {task}: {' and '.join(tokens)}"
        if len(results) > 1:
            yield f"two results of {task}: {' and '.join(results)}"
        if ended and ended != stands:
            yield f"{task} was acknowledged as {ended}, and there stands {stands}"
        if results and not stands:
            yield f"the result of {task} is gone"
        if f"told/put/{task}" in disk and f"ids/{task}" not in disk:
            yield f"{task} was acknowledged and is unknown"
        if stands and any(not token.startswith("sealed/") for token in tokens):
            yield f"{task} is finished and can be run again: {tokens[0]}"
        if f"ids/{task}" in disk and not tokens and not stands and not self._coming(disk, task):
            yield f"{task} is known and nowhere"

    def _coming(self, disk, task):
        """Whether its file is still about to enter."""
        puts = [file for name, file in disk.items() if name.startswith(f"tmp/{task}~") and name.endswith("~put")]
        return disk[f"ids/{task}"] in puts

    def unfinished(self, disk):
        """After recovery a task is ready or finished, wholly."""
        left = [name for name in disk if name.startswith(("sealed/", "claimed/"))]
        if left:
            return f"nobody carries this out: {left[0]}"
        if self.clears and any(name.startswith("tmp/") for name in disk):
            return "nobody clears this up: " + next(name for name in disk if name.startswith("tmp/"))
        for task in self.tasks:
            for verdict in ("done", "failed"):
                result = disk.get(f"{verdict}/{task}")
                if result is not None and disk.get(f"outcomes/{task}~{verdict}") != result:
                    return f"the result of {task} is not known as its outcome"
        if disk.get(f"done/{TASK}", "").startswith("split") and any(f"ids/{child}" not in disk for child in CHILDREN):
            return "it was split, and not all of its children are there"
        return ""


def files_under(disk, *prefixes):
    """The last words of names that begin so."""
    return sorted(name.rpartition("/")[2] for name in disk if name.startswith(prefixes))


def tokens_of(disk, task):
    """Where the task can be run from, or is on its way from."""
    moving = (f"claimed/{task}~", f"sealed/{task}~")
    return sorted(name for name in disk if name == f"ready/{task}" or name.startswith(moving))
