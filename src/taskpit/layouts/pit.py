"""The snake pit: `food/`, `claimed/`, `done/`, `scraps/`, `waste/`. Names and Markdown, no disk.

food/food-<id>-<slug>.md                 ready
claimed/<snake-id>.food-<id>-<slug>.md   claimed
done/food-<id>-<slug>.result.md          done; .plan.md if a planner took it apart
scraps/food-<id>-<slug>-needs-keeper.md  failed, for a person to look at
waste/<snake-id>-<ts>.log                working logs
"""

from __future__ import annotations

from taskpit.errors import Invalid
from taskpit.ids import ALNUM, LONGEST_WORD, is_word, name_of
from taskpit.layouts.layout import LONGEST_NAME, OF_NONCES, Layout, Named, Spot, check_word
from taskpit.layouts.markdown_task import (
    dump_report,
    dump_sure,
    dump_task,
    load_report,
    load_task,
    read_sheet,
    with_bullet,
)
from taskpit.model import Result, State, Task, Verdict

#: What no slug has: they end names, or a terminal would obey them.
_NEVER = frozenset(map(chr, (*range(32), 47, 126, 127)))

#: What the slugs that we choose are made of.
_OF_SLUGS = f"{OF_NONCES}-"

#: What failed results are called, by verdict.
_SCRAPS = {Verdict.FAILED: "needs-keeper", Verdict.CANCELLED: "cancelled"}


class Pit(Layout):
    """The layout of the snake pit."""

    name = "pit"
    slugged = True
    takes_in = ".md"
    archives = True
    folders = ("food", "claimed", "done", "scraps", "waste")
    ready = "food"
    claimed = "claimed"
    results = ("done",)
    logs = "waste"
    digest = "waste/COMPOST.md"
    reclaims = "scraps/reclaims.md"

    def check_id(self, text: str) -> str:
        """An id without a dash: the first dash of a name ends the id."""
        if not is_word(text):
            check_word(text, "id")  # says why not
        if "-" in text:
            message = f"id {text!r} has a dash; in a pit the first dash of a file name ends the id"
            raise Invalid(message, hint=f"Call it {text.replace('-', '_')!r} or {text.replace('-', '.')!r}.", text=text)
        return text

    def new_id(self, number: int) -> str:
        """Numbers of at least four digits."""
        return f"{number:04d}"

    def number(self, text: str) -> int:
        """The number behind an id like `0007`."""
        return int(text) if text.isdecimal() and text.isascii() else 0

    def spot(self, folder: str, file: str) -> Spot | None:
        """What a directory entry is, by its name alone."""
        if folder == "food":
            plain = _plain_name(file)
            if plain is not None:
                return Spot(state=State.READY, id=plain[0], slug=plain[1], path=f"food/{file}")
            return self._food(file, State.READY, f"food/{file}") if file.startswith("food-") else None
        if folder == "claimed":
            worker, of, name = file.partition(".food-")
            if not of and file.startswith("food-"):
                return self._food(file, State.CLAIMED, f"claimed/{file}")  # moved there by somebody who did not say who
            if not of or not worker:
                return None
            spot = self._food(f"food-{name}", State.CLAIMED, f"claimed/{file}")
            return spot and spot.replace(worker=worker)
        if folder == "done":
            for suffix in (".result.md", ".plan.md"):
                if file.startswith("food-") and file.endswith(suffix):
                    spot = self._food(file[: -len(suffix)] + ".md", State.DONE, f"done/{file}")
                    return spot and spot.replace(verdict=Verdict.DONE)
        return None

    def state_in(self, folder: str, file: str) -> State | None:
        """Food is counted by how its name begins and ends, as long as nothing in it is odd."""
        if folder == "food" and _plain_name(file) is not None:
            return State.READY
        return super().state_in(folder, file)

    def ready_id(self, file: str) -> str | None:
        """What stands between the dashes, as long as nothing in the name is odd."""
        plain = _plain_name(file)
        return plain[0] if plain is not None else super().ready_id(file)

    def ended_id(self, folder: str, file: str) -> str:  # noqa: ARG002 - there is one
        """What stands before the second dash, or before what a result's name ends with."""
        stem = file.removesuffix(".md").removesuffix(".result").removesuffix(".plan")
        return stem[5:].partition("-")[0] if file[:5] == "food-" else ""

    def _food(self, file: str, state: State, path: str) -> Spot | None:
        """None if it does not read food-<id>-<slug>.md: an editor's swap file, or a text that is yet to be taken in."""
        name = _name_of(file)
        if name is None or len(file.encode("utf-8", "surrogateescape")) > LONGEST_NAME:
            return None
        try:
            file.encode("utf-8")
            return Spot(state=state, id=self.check_id(name[0]), slug=name[1], path=path)
        except (UnicodeEncodeError, Invalid):
            return None

    def _stem(self, task: Named) -> str:
        return f"food-{task.id}-{task.slug}" if task.slug else f"food-{task.id}"

    def ready_path(self, task: Named) -> str:
        """`food/food-0007-reverse-string.md`."""
        return f"food/{name_of(task.id, f'-{task.slug}.md' if task.slug else '.md', 'food-')}"

    def claimed_path(self, task: Named, worker: str) -> str:
        """`claimed/snake-2.food-0007-reverse-string.md`."""
        who = f"{worker}.food-" if worker else "food-"
        return f"claimed/{name_of(task.id, f'-{task.slug}.md' if task.slug else '.md', who)}"

    def result_path(self, task: Task, verdict: Verdict, again: str = "") -> str:
        """`done/food-0007-reverse-string.result.md`, or the scraps for what did not work."""
        tail = (f"-{task.slug}" if task.slug else "") + (f"-{again}" if again else "")
        if verdict is Verdict.DONE:
            return f"done/{name_of(task.id, f'{tail}.plan.md' if task.big else f'{tail}.result.md', 'food-')}"
        return f"scraps/{name_of(task.id, f'{tail}-{_SCRAPS[verdict]}.md', 'food-')}"

    def finished_paths(self, task: Named) -> tuple[str, ...]:
        """Results, and where it is not known to be a small task the plan; what lies in the scraps decides nothing."""
        stem = f"done/{name_of(task.id, f'-{task.slug}' if task.slug else '', 'food-')}"
        if isinstance(task, Task) and not task.big:
            return (f"{stem}.result.md",)
        return f"{stem}.result.md", f"{stem}.plan.md"

    def note_path(self, task: Named, kind: str) -> str:
        """`scraps/food-0007-reverse-string-choked.md`."""
        return f"scraps/{name_of(task.id, f'-{task.slug}-{kind}.md' if task.slug else f'-{kind}.md', 'food-')}"

    def load(self, spot: Spot, data: bytes, beside: bytes = b"") -> Task:  # noqa: ARG002 - all is inside
        """The food in these bytes."""
        task = load_task(spot, data)
        if not task.slug and not spot.path:  # the name is the name; only a copy without one asks its heading
            task = task.replace(slug=_slug_in(read_sheet(data).heading, spot.id))
        return task

    def dump_sure(self, task: Task) -> bytes | None:
        """If nothing in it needs care, its slug least."""
        if task.slug.strip(_OF_SLUGS) or len(task.slug) > LONGEST_NAME - LONGEST_WORD - 9:
            return None
        return dump_sure(task, self._stem(task))

    def dump(self, task: Task) -> bytes:
        """The food's bytes, new ones as the pit draws them."""
        return dump_task(task, self._stem(task))

    def with_field(self, task: Task, key: str, text: str) -> Task:
        """Any bullet."""
        return with_bullet(task, key, text)

    def load_result(self, spot: Spot, data: bytes) -> tuple[Result, Task | None]:
        """The result in these bytes; a text that another program wrote is all output."""
        result, stem, text = load_report(spot.id, spot.verdict or Verdict.DONE, data)
        if text is None:
            return result, None
        return result, self.load(spot.replace(state=State.READY, slug=spot.slug or _slug_in(stem, spot.id)), text)

    def dump_result(self, task: Task, result: Result) -> bytes:
        """Verdict first, then output and evidence, then the task's own text."""
        stem = self._stem(task)
        return dump_report(stem, result, dump_task(task, stem))


class Table(Pit):
    """Tasks that lie in a table, without file names: any word is an id. Shown and edited as the pit draws them."""

    name = "table"

    def check_id(self, text: str) -> str:
        """Any word: no name must be told apart from it."""
        return check_word(text, "id")


def _plain_name(file: str) -> tuple[str, str] | None:
    """Id and slug, if nothing in the name is odd; None: look closer."""
    if file[:5] == "food-" and file[-3:] == ".md" and len(file) <= LONGEST_NAME and file.isascii():
        task_id, dash, slug = file[5:-3].partition("-")
        plain = task_id.isalnum() and len(task_id) <= LONGEST_WORD and bool(dash) == bool(slug)
        if plain and slug.isprintable() and "~" not in slug and "/" not in slug:
            return task_id, slug
    return None


def _name_of(file: str) -> tuple[str, str] | None:
    """Id and slug in `food-0007-reverse-string.md`; None if it does not read so."""
    task_id, dash, slug = file.removeprefix("food-").removesuffix(".md").partition("-")
    if len(file) < 9 or not file.startswith("food-") or not file.endswith(".md"):
        return None
    if not task_id or task_id[0] not in ALNUM or task_id.strip(f"{ALNUM}._"):
        return None
    return (task_id, slug) if (bool(slug) and _NEVER.isdisjoint(slug)) or not dash else None


def _slug_in(heading: str, task_id: str) -> str:
    """The slug in `food-0007-reverse-string`, if that is this task's name."""
    prefix = f"food-{task_id}-"
    return heading[len(prefix) :] if heading.startswith(prefix) and _name_of(f"{heading}.md") else ""
