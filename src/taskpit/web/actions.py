"""What people do on the board, each thing with the queue's own verb: add, hold, answer, note, give back, and so on."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.responses import HTMLResponse, RedirectResponse, Response

from taskpit.errors import Invalid, Lost, NotFound
from taskpit.task import Release, Said, Task
from taskpit.text import words_in
from taskpit.web.paper import task_link
from taskpit.worker.byhand import answer_by_hand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from taskpit.web.desk import Desk

    Form = dict[str, str]

__all__ = ["Actions"]

#: A form of ours has few fields.
FIELDS = 50


class Actions:
    """The things that change something. Each answers with a word for the person who did it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._verbs: dict[str, Callable[[str, Form], str]] = {
            "block": self._block,
            "unblock": self._unblock,
            "retry": self._retry,
            "cancel": self._cancel,
            "release": self._release,
            "priority": self._priority,
            "answer": self._answer,
            "note": self._note,
        }

    async def act(self, request: Request) -> Response:
        """One of these verbs on one task."""
        verb = self._verbs.get(request.path_params["verb"])
        if verb is None:
            raise NotFound("there is no such action")
        form = await _form(request)

        def work() -> tuple[str, str]:
            task_id = self.desk.task_id(request.path_params["id"])
            return task_id, verb(task_id, form)

        task_id, told = await self.desk.do(work)
        return self._said(request, told, task_link(task_id))

    async def add(self, request: Request) -> Response:
        """A task from the form."""
        form = await _form(request)
        task_id = await self.desk.do(lambda: self._add(form))
        return self._said(request, f"{task_id} is in", task_link(task_id))

    async def file(self, request: Request) -> Response:
        """The tasks of one file that was dropped on the page; it is all of them or none."""
        name, data = request.query_params.get("name", "")[:255], await request.body()
        name = name.replace("\\", "/").rpartition("/")[2]
        ids = await self.desk.do(lambda: self.desk.bring(self.desk.queue, name, data))
        shown = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
        return self._said(
            request, f"{name}: {shown} {'are' if len(ids) > 1 else 'is'} in" if ids else f"{name}: nothing new", "/"
        )

    def _said(self, request: Request, told: str, then: str) -> Response:
        if "hx-request" in request.headers:
            return HTMLResponse(self.desk.paper.write("toast.html", told=told, hint="", good=True, link=then))
        return RedirectResponse(then, status_code=303)

    # -- the verbs, in the desk's thread -----------------------------------------------------------

    def _add(self, form: Form) -> str:
        task = Task(
            id="",
            title=" ".join(form.get("title", "").split()),
            body=form.get("body", ""),
            check=form.get("check", "").strip(),
            priority=_priority(form.get("priority", "")),
            tags=words_in(form.get("tags", "")),
            needs=tuple(self.desk.task_id(word) for word in words_in(form.get("needs", ""))),
            by=self.desk.worker,
        )
        if not task.title:
            raise Invalid("a task needs a title")
        return self.desk.queue.put([task])[0][0]

    def _block(self, task_id: str, form: Form) -> str:
        reason = " ".join(form.get("text", "").split()) or f"held on the board by {self.desk.worker}"
        self.desk.queue.block(task_id, self.desk.worker, reason)
        return f"{task_id} is held"

    def _unblock(self, task_id: str, _: Form) -> str:
        self.desk.queue.unblock(task_id, self.desk.worker)
        return self._freed(task_id, "goes on")

    def _retry(self, task_id: str, _: Form) -> str:
        self.desk.queue.retry(task_id, self.desk.worker)
        return self._freed(task_id, "is ready again")

    def _freed(self, task_id: str, told: str) -> str:
        held = self.desk.queue.card(task_id).held
        return f"{task_id} {told}" + (f", but {held}" if held else "")

    def _cancel(self, task_id: str, form: Form) -> str:
        reason = " ".join(form.get("text", "").split())
        ended = self.desk.queue.cancel(task_id, self.desk.worker, reason)
        return f"{task_id} is cancelled" if ended else f"{task_id}: its worker is asked to stop"

    def _release(self, task_id: str, _: Form) -> str:
        """Whoever has it loses it, and learns so when it renews; a result that comes later is kept aside."""
        queue, card = self.desk.queue, self.desk.queue.card(task_id)
        claim = queue.holding(task_id, card.worker)
        said, _end = queue.finish(claim, Release(reason=f"given back on the board by {self.desk.worker}"))
        if said is Said.LOST:
            raise Lost(f"{task_id} was over before it could be given back", id=task_id)
        return f"{task_id} is given back"

    def _priority(self, task_id: str, form: Form) -> str:
        priority = _priority(form.get("priority", ""))
        self.desk.queue.edit(task_id, self.desk.worker, lambda task: task.replace(priority=priority))
        return f"{task_id} has priority {priority}"

    def _answer(self, task_id: str, form: Form) -> str:
        ids = answer_by_hand(self.desk.queue, task_id, form.get("text", ""), self.desk.worker)
        return f"{', '.join(ids)} {'go' if len(ids) > 1 else 'goes'} on"

    def _note(self, task_id: str, form: Form) -> str:
        self.desk.queue.note(task_id, form.get("text", "").replace("\r\n", "\n"), self.desk.worker)
        return f"noted beside {task_id}"


async def _form(request: Request) -> Form:
    try:
        pairs = parse_qsl(
            (await request.body()).decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS, errors="strict"
        )
    except ValueError:
        raise Invalid("that is no form of ours") from None
    return {key: value.replace("\r\n", "\n") for key, value in pairs}


def _priority(text: str) -> int:
    text = text.strip() or "0"
    try:
        if len(text) < 10:
            return int(text)
    except ValueError:
        pass
    raise Invalid(f"{text[:20]!r} is not a priority", hint="Write a whole number; higher comes first.")
