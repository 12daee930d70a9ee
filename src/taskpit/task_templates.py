"""Templates of tasks: a Markdown file with fields, for one task or for several that need each other.

    Find it, fix it, write down why.            what it is for
    - **fields:** area, severity=low            what has to be said, and what is assumed

    # find: Find the bug in {area}              a name for this task inside the file, and its title
    - **tags:** {area}, {severity}              bullets as in a task's own file

    Say how to make it happen again.            the body

    # fix: Fix it
    - **needs:** find                           of this file, or of the queue
    - **done-when:** `make test-{area}` is green.

A field is a word between braces; other braces are left alone. What is filled in stays on one line, and is a bullet's
value or a part of the body: it is never a bullet itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from taskpit import fs
from taskpit.errors import Invalid, NotFound
from taskpit.layouts import Spot, slugify
from taskpit.layouts.markdown import Sheet
from taskpit.layouts.markdown_task import load_task, read_sheet
from taskpit.model import Said, State, Task, Value
from taskpit.queue import Queue
from taskpit.text import did_you_mean, fence_after

_FIELD = re.compile(r"\{([a-z][a-z0-9_-]*)\}")
_SECTION = re.compile(r"^# +(?:([A-Za-z0-9][\w-]*): +)?(.+)$")


class Recipe(Value, frozen=True, kw_only=True):
    """A template that was read, its fields still open."""

    name: str
    #: What it is for, in a line.
    summary: str = ""
    #: What may be said, with what is assumed; None must be said.
    fields: Mapping[str, str | None] = {}
    #: Inner name, title and the rest of each task's text.
    tasks: tuple[tuple[str, str, str], ...] = ()


def read_recipe(name: str, text: str) -> Recipe:
    """The template in this text; Invalid names the place that is wrong."""
    head, sections = _sections(text)
    if not sections:
        raise Invalid(f"{name}: it has no task", hint="A task begins with a line such as `# Fix the login of {area}`.")
    sheet = Sheet(f"# {name}\n{_bullets(head)}", ("fields",))
    fields: dict[str, str | None] = {}
    for part in (sheet.get("fields") or "").split(","):
        word, equals, assumed = (piece.strip() for piece in part.partition("="))
        if word and not _FIELD.fullmatch(f"{{{word}}}"):
            raise Invalid(f"{name}: {word!r} cannot be a field", hint="Small letters, digits, dash and underscore.")
        if word:
            fields[word] = assumed if equals else None
    used = {word for _, title, rest in sections for word in _FIELD.findall(f"{title}\n{rest}")}
    for word in sorted(used - fields.keys()):
        near = did_you_mean(word, fields)
        raise Invalid(f"{name}: {{{word}}} is no field of this template", hint=near or f"Add it: - **fields:** {word}")
    names = [inner for inner, _, _ in sections if inner]
    twice = next((one for one in names if names.count(one) > 1), "")
    if twice:
        raise Invalid(f"{name}: two tasks are called {twice}", hint="Give one of them another name.")
    summary = next((line.strip() for line in head if line.strip() and not line.startswith("- **")), "")
    return Recipe(name=name, summary=summary, fields=fields, tasks=tuple(sections))


def _sections(text: str) -> tuple[list[str], list[tuple[str, str, str]]]:
    """The lines before the first task, and inner name, title and rest of each task."""
    head: list[str] = []
    found: list[tuple[str, str, list[str]]] = []
    fence = ""
    for line in text.splitlines():
        fence = fence_after(line, fence)
        section = None if fence else _SECTION.match(line)
        if section:
            found.append((section[1] or "", section[2].strip(), []))
        else:
            (found[-1][2] if found else head).append(line)
    return head, [(inner, title, "\n".join(lines)) for inner, title, lines in found]


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(line for line in lines if line.startswith("- **"))


def fill(recipe: Recipe, given: Sequence[str]) -> list[Task]:
    """Its tasks with these fields (`area=api`); ids and needs are the inner names. Invalid says what is missing."""
    values = {**recipe.fields}
    for text in given:
        word, equals, value = text.partition("=")
        if not equals:
            raise Invalid(f"{text!r} does not read FIELD=VALUE", hint=_usage(recipe))
        if word not in recipe.fields:
            hint = did_you_mean(word, recipe.fields) or _usage(recipe)
            raise Invalid(f"{recipe.name} has no field {word!r}", hint=hint)
        values[word] = " ".join(value.split())
    missing = [word for word, value in values.items() if not value and recipe.fields[word] is None]
    if missing:
        raise Invalid(f"{recipe.name} wants {' and '.join(missing)}", hint=_usage(recipe))

    def filled(text: str) -> str:
        return _FIELD.sub(lambda found: values.get(found[1]) or "", text)

    tasks = []
    for number, (inner, title, rest) in enumerate(recipe.tasks, 1):
        name = inner or f"{number}"
        try:
            sheet = read_sheet(f"# {name}\n- **task:** {title}\n{rest}".encode())
            body, sheet.body = sheet.body, ""  # apart: what is filled in there is never a bullet
            spot = Spot(state=State.READY, id=name, slug=slugify(filled(title)))
            task = load_task(spot, filled(sheet.text()).encode())
        except Invalid as error:
            raise Invalid(f"{recipe.name}, {name}: {error.message}", hint=error.hint) from None
        tasks.append(task.replace(body=filled(body), source=b""))
    return tasks


def _usage(recipe: Recipe) -> str:
    words = [f"{word}=..." if value is None else f"[{word}={value}]" for word, value in recipe.fields.items()]
    return f"For example: `pit add --from {recipe.name} {' '.join(words)}`." if words else "It has no fields."


# -- the templates of a queue ----------------------------------------------------------------------


def _folder(queue: Queue) -> str:
    return f"{queue.store.info().papers}/templates"


def templates(queue: Queue) -> list[str]:
    """Names of the templates of this queue; none where it has no folder."""
    found = fs.names(_folder(queue)) if queue.store.info().papers else []
    names = (name for name in found if name.endswith(".md") and not name.startswith((".", "README")))
    return sorted(name.removesuffix(".md") for name in names)


def template(queue: Queue, name: str) -> Recipe:
    """The template of this name; NotFound says which there are, Invalid what is wrong with it."""
    names, folder = templates(queue), _folder(queue)
    if name not in names:
        there = f"There are {', '.join(names)}." if names else f"Templates are Markdown files in {folder}."
        raise NotFound(f"there is no template {name!r}", hint=did_you_mean(name, names) or there)
    try:
        text = fs.read(f"{folder}/{name}.md", queue.config.largest_task)[0].decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"templates/{name}.md cannot be read: {error}") from None
    return read_recipe(name, text)


def put_filled(
    queue: Queue, name: str, given: Sequence[str], change: Callable[[Task], Task], parent: str = ""
) -> tuple[list[Task], list[tuple[str, Said]]]:
    """The template's tasks, each changed like this, and what was said of them; all were checked before any was put.

    Where ids tell what belongs where, theirs are under this parent.
    """
    tasks = fill(template(queue, name), given)
    ids = dict(zip((task.id for task in tasks), queue.store.allot([parent] * len(tasks)), strict=True))
    tasks = [change(task.renamed(ids)) for task in tasks]
    return tasks, queue.put(tasks)
