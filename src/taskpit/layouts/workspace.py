"""The workspace: state in the file name, all in `tasks/`. Names and Markdown, no disk.

tasks/{id}_pending.md                ready
tasks/{id}_inprogress_{agent}.md     claimed
tasks/{id}_done.md                   done; its result is outputs/{id}_result.md
tasks/{id}_failed.md                 failed
agents/*.md                          what each agent is told to be
manifest.json                        an index for coordinators, derived from the names
"""

from __future__ import annotations

from taskpit.errors import Invalid
from taskpit.ids import path_of
from taskpit.layouts.layout import Layout, Named, Spot
from taskpit.layouts.markdown_task import dump_report, dump_task, load_report, load_task, with_bullet
from taskpit.model import Result, State, Task, Verdict

_CLAIM = "_inprogress_"
#: What a file's name ends in, the state it says, and the verdict if it is one.
_ENDINGS = (
    ("_pending", State.READY, None),
    (_CLAIM.rstrip("_"), State.CLAIMED, None),  # by a program that names no worker
    ("_done", State.DONE, Verdict.DONE),
    ("_failed", State.FAILED, Verdict.FAILED),
)


class Workspace(Layout):
    """The layout of the workspace."""

    name = "workspace"
    folders = ("tasks", "agents", "outputs", "pipes")
    ready = "tasks"
    claimed = "tasks"
    results = ("tasks",)
    manifest = "manifest.json"
    pipes = "pipes"

    def check_id(self, text: str) -> str:
        """An id that can't be mistaken for a state."""
        super().check_id(text)
        if _CLAIM in text or text.endswith(tuple(ending for ending, _, _ in _ENDINGS)):
            raise Invalid(
                f"id {text!r} reads like a state; in a workspace the name of the file tells the state", text=text
            )
        return text

    def new_id(self, number: int) -> str:
        """`task_001`."""
        return f"task_{number:03d}"

    def number(self, text: str) -> int:
        """The number behind an id like `task_001`."""
        digits = text.removeprefix("task_")
        return int(digits) if digits.isdecimal() and digits.isascii() else 0

    def spot(self, folder: str, file: str) -> Spot | None:
        """What a directory entry is, by its name alone."""
        if folder != "tasks" or not file.endswith(".md"):
            return None
        path, name = f"tasks/{file}", file.removesuffix(".md")
        if _CLAIM in name:  # before the endings: an agent may be called anything
            task_id, _, worker = name.partition(_CLAIM)  # any worker: other programs call theirs as they like
            served = bool(worker) and self._serves(task_id)
            return Spot(state=State.CLAIMED, id=task_id, worker=worker, path=path) if served else None
        for ending, state, verdict in _ENDINGS:
            if name.endswith(ending):
                task_id = name.removesuffix(ending)
                return Spot(state=state, id=task_id, verdict=verdict, path=path) if self._serves(task_id) else None
        return None

    def is_others(self, file: str) -> bool:
        """Ids that others give and we do not serve (spaces, letters beyond ASCII, more than 64 bytes), and no agent."""
        name = file.removesuffix(".md")
        return file != name and (_CLAIM in name or name.endswith(tuple(ending for ending, _, _ in _ENDINGS)))

    def _serves(self, task_id: str) -> bool:
        try:
            return bool(self.check_id(task_id))
        except Invalid:
            return False

    def ready_path(self, task: Named) -> str:
        """`tasks/task_001_pending.md`."""
        return path_of("tasks", task.id, "_pending.md")

    def claimed_path(self, task: Named, worker: str) -> str:
        """`tasks/task_001_inprogress_agent_a.md`."""
        return path_of("tasks", task.id, f"{f'{_CLAIM}{worker}' if worker else _CLAIM.rstrip('_')}.md")

    def result_path(self, task: Task, verdict: Verdict, again: str = "") -> str:  # noqa: ARG002 - one place for all
        """`outputs/task_001_result.md`, whatever it says."""
        return path_of("outputs", task.id, f"_result{'_' + again if again else ''}.md")

    def finished_paths(self, task: Named) -> tuple[str, ...]:
        """The names that say it; an output without such a name is not finished yet."""
        return (path_of("tasks", task.id, "_done.md"), path_of("tasks", task.id, "_failed.md"))

    def result_of(self, spot: Spot) -> str:
        """`outputs/task_001_result.md`."""
        return path_of("outputs", spot.id, "_result.md")

    def ended_path(self, task: Named, verdict: Verdict) -> str:
        """`tasks/task_001_done.md` or `tasks/task_001_failed.md`."""
        return path_of("tasks", task.id, f"_{verdict.state}.md")

    def load(self, spot: Spot, data: bytes, beside: bytes = b"") -> Task:  # noqa: ARG002 - all is inside
        """The task in these bytes; its heading is the title. A slug of another layout is only carried."""
        task = load_task(spot, data, title_in_heading=True)
        slug = task.extra.get("slug")
        extra = {key: value for key, value in task.extra.items() if key != "slug"}
        match slug:
            case str():
                return task.replace(slug=slug, extra=extra)
            case [str(ours), theirs]:  # there is another field of that name
                return task.replace(slug=ours, extra={**extra, "slug": theirs})
        return task

    def dump(self, task: Task) -> bytes:
        """The task's bytes: a heading, what the queue must know, the text."""
        if task.source and self.load(Spot(state=State.READY, id=task.id), task.source) == task:
            return task.source
        if "slug" in task.extra:
            task = task.replace(extra={**task.extra, "slug": [task.slug, task.extra["slug"]]})
        elif task.slug:
            task = task.replace(extra={**task.extra, "slug": task.slug})
        return dump_task(task, task.title, title_in_heading=True)

    def with_field(self, task: Task, key: str, text: str) -> Task:
        """Any bullet."""
        return with_bullet(task, key, text)

    def load_result(self, spot: Spot, data: bytes) -> tuple[Result, Task | None]:
        """The result in these bytes; a text that another program wrote is all output."""
        result, _, text = load_report(spot.id, spot.verdict or Verdict.DONE, data)
        return result, None if text is None else self.load(spot.replace(state=State.READY), text)

    def dump_result(self, task: Task, result: Result) -> bytes:
        """Verdict first, then output and evidence, then the task's own text."""
        return dump_report(task.id, result, self.dump(task))
