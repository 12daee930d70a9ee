"""What people do on the board: forms in, a sentence back. What each thing does to a task is in `actions`."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.responses import HTMLResponse, RedirectResponse, Response

from taskpit.actions import ACTIONS, a_priority, remember, undo
from taskpit.errors import Conflict, Invalid, NotFound
from taskpit.task import Task
from taskpit.task_templates import put_filled
from taskpit.text import words_in
from taskpit.web.html import mark_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from starlette.requests import Request

    from taskpit.web.shared import BoardThreads

    Form = dict[str, str]

__all__ = ["Actions"]

#: What can be done to a task here, by the word in the address, and what that is called in `actions`.
VERBS = {
    **{name: name for name in ("answer", "unblock", "retry", "block", "priority", "cancel", "note", "tell")},
    **{name: name for name in ("approve", "send_back", "take_over")},
    "release": "take_back",
}
#: The field of a form that says more, where that is not `text`.
FIELD = {"priority": "priority", "approve": "commit"}
#: A form of ours has few fields.
FIELDS = 50


class Actions:
    """The things that change something. Each answers with a word for the person who did it."""

    def __init__(self, desk: BoardThreads) -> None:
        self.desk = desk

    async def act(self, request: Request) -> Response:
        """One of these verbs on one task."""
        desk, verb, form = self.desk, request.path_params["verb"], await _form(request)

        def work() -> tuple[str, str, bool]:
            task_id = desk.task_id(request.path_params["id"])
            if verb == "edit":
                return task_id, self._edit(task_id, form), True
            if verb not in VERBS:
                raise NotFound("there is no such action")
            action = ACTIONS[VERBS[verb]]
            told = action.do(desk.queue, task_id, desk.worker, form.get(FIELD.get(verb, "text"), ""))
            if action.then is not None:
                desk.begin(action.then, task_id)
            return task_id, told, action.undoable

        task_id, told, undoable = await self.desk.do(work)
        return self._said(request, told, self.desk.paper.link(task_id), undoable=undoable)

    async def undo(self, request: Request) -> Response:
        """The last thing that was done on this board is taken back."""
        task_id, told = await self.desk.do(lambda: undo(self.desk.queue, self.desk.worker))
        return self._said(request, told, self.desk.paper.link(task_id))

    async def add(self, request: Request) -> Response:
        """A task from the form."""
        form = await _form(request)
        task_id = await self.desk.do(lambda: self._add(form))
        return self._said(request, f"{task_id} is added", self.desk.paper.link(task_id), undoable=True)

    async def add_from(self, request: Request) -> Response:
        """The tasks of a template, with the fields of the form."""
        name, form = request.path_params["name"], await _form(request)
        given = [f"{key}={value}" for key, value in form.items() if key != "csrf" and value.strip()]
        desk = self.desk
        tasks, _ = await desk.do(lambda: put_filled(desk.queue, name, given, lambda task: task.replace(by=desk.worker)))
        ids = ", ".join(task.id for task in tasks)
        return self._said(request, f"{ids} {'are' if len(tasks) > 1 else 'is'} added", desk.paper.link(tasks[0].id))

    async def file(self, request: Request) -> Response:
        """The tasks of one file that was dropped on the page; it is all of them or none."""
        name, data = request.query_params.get("name", "")[:255], await request.body()
        name = name.replace("\\", "/").rpartition("/")[2]
        ids = await self.desk.do(lambda: self.desk.bring(self.desk.queue, name, data))
        shown = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
        return self._said(
            request, f"{name}: {shown} {'are' if len(ids) > 1 else 'is'} added" if ids else f"{name}: nothing new", ""
        )

    def _said(self, request: Request, told: str, then: str, *, undoable: bool = False) -> Response:
        if "hx-request" in request.headers:
            values = {"told": told, "hint": "", "good": True, "link": then, "undoable": undoable}
            return HTMLResponse(self.desk.paper.write("toast.html", **values))
        return RedirectResponse(then or f"{self.desk.paper.root}/", status_code=303)

    # -- the verbs, in the desk's thread -----------------------------------------------------------

    def _add(self, form: Form) -> str:
        task = Task(id="", by=self.desk.worker, **self._fields(form))
        return self.desk.queue.put([task])[0][0]

    def _edit(self, task_id: str, form: Form) -> str:
        """What the form says instead of what was there; refused if the task was changed since the form was shown."""
        queue = self.desk.queue
        fields, before = self._fields(form), queue.card(task_id).task

        def change(task: Task) -> Task:
            if form.get("was") and form["was"] != mark_of(task):
                hint = "Your text is still in the form: copy it, load the page again, then edit."
                raise Conflict(f"{task_id} was changed meanwhile", hint=hint)
            return task.replace(**fields)

        queue.edit(task_id, self.desk.worker, change)
        remember(queue, self.desk.worker, before)
        return f"{task_id} is changed"

    def _fields(self, form: Form) -> dict[str, Any]:
        """What a form says of a task."""
        title = " ".join(form.get("title", "").split())
        if not title:
            raise Invalid("a task needs a title")
        return {
            "title": title,
            "body": form.get("body", ""),
            "check": form.get("check", "").strip(),
            "priority": a_priority(form.get("priority", "")),
            "tags": words_in(form.get("tags", "")),
            "needs": tuple(self.desk.task_id(word) for word in words_in(form.get("needs", ""))),
        }


async def _form(request: Request) -> Form:
    try:
        pairs = parse_qsl(
            (await request.body()).decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS, errors="strict"
        )
    except ValueError:
        raise Invalid("the form was not understood: load the page again") from None
    return {key: value.replace("\r\n", "\n") for key, value in pairs}
