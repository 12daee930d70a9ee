"""Old done tasks leave the database for compressed files, a line of JSON each, and are still found.

The files are on the machine that archives, in `.taskpit/archive/<year>-<month>.jsonl.gz`, which `zcat` reads. Next to
each is an index with the place of every task in it. The database keeps a task's id, its place in the order and how it
ended, so that ids, needs and counts are as before. The file is on the disk before anything leaves the database: a crash
in between leaves a task in both, and the next archive writes it again.
"""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import Callable
from typing import Any

from taskpit import fs
from taskpit.decode import convert
from taskpit.errors import Invalid
from taskpit.model import Card, Result, Task, Try
from taskpit.store.disk_errors import verb
from taskpit.store.port import Mend
from taskpit.store.postgres.database import Row
from taskpit.store.postgres.rows import as_json

#: Where the files are below the papers, and how their names end.
PLACE, DATA, INDEX = ".taskpit/archive", ".jsonl.gz", ".index"
#: Tasks of one piece of a file, and pieces that are remembered.
TOGETHER, REMEMBERED = 500, 4
#: The largest index: that of a hundred million tasks.
LARGEST_INDEX = 4 << 30


class Archive:
    """The archived tasks on this machine."""

    def __init__(self, papers: str) -> None:
        self._place = f"{papers}/{PLACE}"
        self._known: dict[str, tuple[int, dict[str, int]]] = {}
        self._pieces: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}

    # -- putting away ------------------------------------------------------------------------------

    @verb
    def put_away(self, ask: Callable[..., list[Row]], age: float, *, dry_run: bool) -> list[Mend]:
        """Move done tasks that ended so many seconds ago; return each with its file."""
        moved: list[Mend] = []
        after = b""
        while True:
            rows = ask("old_done", slow=True, after=after, age=age, limit=TOGETHER)
            months: dict[str, list[dict[str, Any]]] = {}
            for task_id, _, doc, result, finished, tries, notes in rows:
                line = {"id": task_id, "task": json.loads(doc), "result": json.loads(result)}
                line |= {"tries": [json.loads(one) for one in tries or ()], "notes": notes or ""}
                months.setdefault(time.strftime("%Y-%m", time.gmtime(finished)), []).append(line)
            for month, lines in months.items():
                moved += [Mend(kind="archived", what=line["id"], details=f"{PLACE}/{month}{DATA}") for line in lines]
                if not dry_run:
                    self._write(month, lines)
                    ids = as_json([line["id"] for line in lines])
                    ask("archive", slow=True, ids=ids, file=f"{month}{DATA}")
            if len(rows) < TOGETHER:
                return moved
            if dry_run:
                after = rows[-1][1]

    def _write(self, month: str, lines: list[dict[str, Any]]) -> None:
        """Append a piece to the file on the disk, then the places of its tasks to the index."""
        fs.make_dir(self._place)
        data = f"{self._place}/{month}{DATA}"
        text = "".join(f"{json.dumps(line, ensure_ascii=False, sort_keys=True)}\n" for line in lines)
        piece = gzip.compress(text.encode("utf-8", "surrogatepass"), 6)
        lock = fs.Flock(f"{data}.lock")
        lock.take(wait=True)
        try:
            offset = fs.append(data, piece, piece=True)
            index = "".join(f"{offset} {line['id']}\n" for line in lines).encode()
            fs.append(f"{self._place}/{month}{INDEX}", index, piece=True)
            fs.sync_dir(self._place)
        finally:
            lock.drop()

    # -- finding again -----------------------------------------------------------------------------

    def restore(self, card: Card, name: str) -> Card:
        """Return the card with all that was archived. Without the file, its result names it."""
        line = self._line(name, card.task.id)
        if line is None:
            output = f"archived in {name}, which is not on this machine"
            return card.replace(result=card.result.replace(output=output) if card.result is not None else None)
        try:
            return card.replace(
                task=convert(line["task"], Task),
                result=convert(line["result"], Result),
                tries=tuple(convert(attempt, Try) for attempt in line["tries"]),
                notes=str(line["notes"]),
            )
        except (Invalid, KeyError, TypeError):
            return card  # the file was edited by hand

    def _line(self, name: str, task_id: str) -> dict[str, Any] | None:
        if "/" in name or not name.endswith(DATA):
            return None
        offset = self._offsets(name.removesuffix(DATA)).get(task_id)
        return None if offset is None else self._piece(name, offset).get(task_id)

    def _offsets(self, month: str) -> dict[str, int]:
        path = f"{self._place}/{month}{INDEX}"
        found = fs.status(path)
        if found is None:
            return {}
        size, known = self._known.get(month, (-1, {}))
        if size != found.st_size:
            words = (
                line.partition(" ") for line in fs.read(path, LARGEST_INDEX)[0].decode("utf-8", "replace").splitlines()
            )
            known = {task_id: int(offset) for offset, _, task_id in words if offset.isdecimal()}
            self._known[month] = (found.st_size, known)
        return known

    def _piece(self, name: str, offset: int) -> dict[str, dict[str, Any]]:
        """Return the tasks of one piece, by id."""
        piece = self._pieces.get((name, offset))
        if piece is None:
            piece = {}
            try:
                with open(f"{self._place}/{name}", "rb") as file:
                    file.seek(offset)
                    reader = zlib.decompressobj(wbits=31)
                    text = b""
                    while not reader.eof and (some := file.read(1 << 16)):
                        text += reader.decompress(some)
                for line in text.decode("utf-8", "surrogatepass").splitlines():
                    one = json.loads(line)
                    piece[one["id"]] = one
            except (OSError, ValueError, KeyError, TypeError, zlib.error):
                piece = {}
            if len(self._pieces) >= REMEMBERED:
                self._pieces.pop(next(iter(self._pieces)))
            self._pieces[name, offset] = piece
        return piece
