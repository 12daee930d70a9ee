"""Old done tasks leave the database for compressed files, a line of JSON each, and are still found.

They lie on the machine that archives, in `.taskpit/archive/<year>-<month>.jsonl.gz`, which `zcat` reads, and beside
each an index that says where in it every task is. What stays in the database is the task's name, its place in the order
and how it ended, so that what needs it, ids and counts are as before. The file is on the disk before anything leaves
the database: a crash in between leaves a task in both, and the next time once more.
"""

from __future__ import annotations

import json
import time

from taskpit import fs
from taskpit.errors import Invalid
from taskpit.store.disk_errors import verb
from taskpit.store.port import Mend
from taskpit.store.postgres.row_text import result_of, task_of, try_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from taskpit.model import Card
    from taskpit.store.postgres.upkeep import Ask

#: Where the files lie below the papers, and how their names end.
PLACE, DATA, INDEX = ".taskpit/archive", ".jsonl.gz", ".index"
#: Tasks that go at once, and pieces of so many that are remembered.
TOGETHER, REMEMBERED = 500, 4
#: No index is larger than this; a month has a hundred million tasks by then.
LARGEST_INDEX = 4 << 30

OLD = """
    SELECT t.id, t.doc, t.result, x.finished,
           (SELECT pg_catalog.array_agg(a.doc ORDER BY a.n) FROM {s}.attempt a WHERE a.id = t.id),
           (SELECT string_agg(n.words, '' ORDER BY n.n) FROM {s}.note n WHERE n.id = t.id)
    FROM {s}.task t, LATERAL (SELECT (t.result::json ->> 'finished')::float8 AS finished) x
    WHERE t.state = 'd' AND t.archived IS NULL AND t.key > %(after)s
          AND t.result IS NOT NULL AND x.finished < {s}.time_of(%(now)s) - %(age)s
    ORDER BY t.key LIMIT %(limit)s
"""


class Archive:
    """The archived tasks that lie on this machine."""

    def __init__(self, papers: str) -> None:
        self._place = f"{papers}/{PLACE}"
        self._known: dict[str, tuple[int, dict[str, int]]] = {}
        self._pieces: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}

    # -- putting away ------------------------------------------------------------------------------

    @verb
    def put_away(self, ask: Ask, age: float, *, dry_run: bool) -> list[Mend]:
        """Done tasks that ended so many seconds ago; each, and the file it is in."""
        moved: list[Mend] = []
        after = b""
        while True:
            rows = ask(OLD, slow=True, after=after, age=age, limit=TOGETHER)
            months: dict[str, list[dict[str, Any]]] = {}
            for task_id, doc, result, finished, tries, notes in rows:
                line = {"id": task_id, "task": json.loads(doc), "result": json.loads(result)}
                line |= {"tries": [json.loads(one) for one in tries or ()], "notes": notes or ""}
                months.setdefault(time.strftime("%Y-%m", time.gmtime(finished)), []).append(line)
            for month, lines in months.items():
                moved += [Mend(kind="archived", what=line["id"], details=f"{PLACE}/{month}{DATA}") for line in lines]
                if not dry_run:
                    self._write(month, lines)
                    ids = [line["id"] for line in lines]
                    ask("SELECT {s}.archive(%(ids)s, %(file)s)", slow=True, ids=ids, file=f"{month}{DATA}")
            if len(rows) < TOGETHER:
                return moved
            if dry_run:
                after = self._last(ask, rows[-1][0])

    def _last(self, ask: Ask, task_id: str) -> bytes:
        key: bytes = ask("SELECT t.key FROM {s}.task t WHERE t.id = %(id)s", id=task_id)[0][0]
        return key

    def _write(self, month: str, lines: list[dict[str, Any]]) -> None:
        """One more piece of the file, on the disk; then where each is in it."""
        import gzip

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

    def whole(self, card: Card, name: str) -> Card:
        """The card with all that was archived, if its file lies here; else it says where to look."""
        line = self._line(name, card.task.id)
        if line is None:
            said = f"archived in {name}, which is not on this machine"
            return card.replace(result=card.result.replace(output=said) if card.result is not None else None)
        try:
            return card.replace(
                task=task_of(json.dumps(line["task"])),
                result=result_of(json.dumps(line["result"])),
                tries=tuple(try_of(json.dumps(one)) for one in line["tries"]),
                notes=str(line["notes"]),
            )
        except (Invalid, KeyError, TypeError):
            return card  # a hand was in the file; what the database knows stands

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
        """The tasks of one piece, by id."""
        import zlib

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
