"""HTML from values: templates, and how times, names and addresses are written. Knows no request and no queue.

Whatever a task says is shown and never obeyed: everything is escaped, and what a browser or a terminal would
take for a command (control letters, turned writing directions) is left out.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape

from taskpit.actions import moves
from taskpit.board import COLUMNS, Slip
from taskpit.clock import iso, say_age, say_duration
from taskpit.explain import costs, further
from taskpit.history import who
from taskpit.landing.diff import FilePatch
from taskpit.model import Task
from taskpit.status import LABELS, counted
from taskpit.text import headline, plain, revealed
from taskpit.trust import from_home

#: Longer texts are shown as they are written.
LONGEST_TEXT = 100_000
#: Where a link may lead.
SCHEMES = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)


def _picture(_: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    """A picture is described, not loaded: loading it would tell its owner who looks."""
    del options, env
    token = tokens[at]
    text = token.content or "no description"
    return str(Markup('<span class="picture" title="{}">picture: {}</span>').format(token.attrs.get("src", ""), text))


def _link(self: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    tokens[at].attrSet("rel", "noopener noreferrer nofollow")
    tokens[at].attrSet("target", "_blank")
    return self.renderToken(tokens, at, options, env)


def _make() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    made.validateLink = lambda url: bool(SCHEMES.match(url.strip()))  # type: ignore[method-assign]
    made.add_render_rule("image", _picture)
    made.add_render_rule("link_open", _link)
    return made


_MARKDOWN = _make()


def markdown_html(text: str) -> Markup:
    """The text as HTML."""
    text = plain(text)
    if len(text) > LONGEST_TEXT:
        return Markup("<pre>{}</pre>").format(text)
    return Markup(_MARKDOWN.render(text))  # noqa: S704 - made with html=False, so that it escapes all it is given


# -- lines of source text with the colours of their language ---------------------------------------


#: Languages by how a file's name ends: few and common, since each is a program that reads what strangers wrote.
LANGUAGES = {
    **dict.fromkeys(("py", "pyi"), "python"),
    **dict.fromkeys(("js", "mjs", "jsx"), "javascript"),
    **dict.fromkeys(("ts", "tsx"), "typescript"),
    **dict.fromkeys(("c", "h"), "c"),
    **dict.fromkeys(("yaml", "yml"), "yaml"),
    **{ending: ending for ending in ("css", "go", "html", "java", "json", "rust", "sql", "toml")},
    "rs": "rust",
    "sh": "bash",
}
#: Longer files and wider lines are shown as they are.
LONGEST_FILE, WIDEST = 100_000, 500


def coloured(part: FilePatch) -> list[Markup]:
    """Each row's text."""
    shown = [escape(row.text) for row in part.rows]
    for sides in ("+ ", "-"):
        at = [number for number, row in enumerate(part.rows) if row.kind in sides]
        for number, line in zip(at, _lexed(part.path, [part.rows[one].text for one in at]), strict=False):
            shown[number] = line
    return shown


def _lexed(path: str, lines: Sequence[str]) -> list[Markup]:
    """The lines in colours; none if there are none to be had."""
    language = LANGUAGES.get(path.rpartition("/")[2].rpartition(".")[2].lower(), "")
    if not language or sum(map(len, lines)) > LONGEST_FILE or any(len(line) > WIDEST for line in lines):
        return []
    try:
        from pygments import highlight  # type: ignore[import-untyped]
        from pygments.formatters.html import HtmlFormatter  # type: ignore[import-untyped]
        from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    except ImportError:
        return []
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    made = highlight("\n".join(lines), lexer, HtmlFormatter(nowrap=True, classprefix="s-")).split("\n")
    if len(made) < len(lines) or any(made[len(lines) :]):
        return []  # it took a line for two
    return [Markup(line) for line in made[: len(lines)]]  # noqa: S704 - the formatter escapes all it is given


# -- HTML from values ------------------------------------------------------------------------------

TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
#: What there is for browsers, below static/.
NAMES = ("app.js", "board.js", "door.js", "style.css", "icon.svg", "vendor/htmx.min.js")


def _load() -> dict[str, tuple[bytes, str, str]]:
    """Each file with its type, and a word that changes when it does: it can be kept for ever under that."""
    folder = files("taskpit.web").joinpath("static")
    loaded = {name: folder.joinpath(name).read_bytes() for name in NAMES}
    return {
        name: (data, TYPES[name.rpartition(".")[2]], hashlib.sha256(data).hexdigest()[:12])
        for name, data in loaded.items()
    }


STATIC = _load()


class Paper:
    """Pages and parts of pages, as one server writes them."""

    def __init__(self, *, title: str, read_only: bool = False, root: str = "") -> None:
        #: What the addresses of this queue begin with, where a server has several.
        self.root = root
        self._env = Environment(
            loader=PackageLoader("taskpit.web"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
            finalize=_harmless,
        )
        self._env.filters.update(
            age=_age,
            duration=say_duration,
            further=further,
            iso=lambda at: iso(at) if at else "",
            link=self.link,
            markdown=markdown_html,
            money=lambda usd: f"${usd:.2f}" if usd >= 0.01 else f"${usd:.4f}",
            costs=costs,
            headline=headline,
            mark=mark_of,
            home=from_home,
            counted=counted,
            place=place_of,
            revealed=revealed,
            who=who,
        )
        self._env.globals.update(
            columns=COLUMNS,
            moves=moves,
            titles=LABELS,
            title=title,
            read_only=read_only,
            root=root,
            still=False,
            templates=(),
            static=lambda name: f"/static/{name}?v={STATIC[name][2]}",
            csrf="",
            page="",
            needs_you=0,
        )
        self._card = self._env.get_template("card.html")

    def write(self, template: str, **values: object) -> str:
        """This template with these values."""
        return self._env.get_template(template).render(**values)

    def card(self, slip: Slip, now: float, *, still: bool = False) -> str:
        """One slip as it lies in its column; `still`: it cannot be dragged."""
        return self._card.render(slip=slip, now=now, place=place_of(slip), still=still)

    def link(self, task_id: str) -> str:
        """The address of a task's page."""
        return f"{self.root}/task/{quote(task_id, safe='')}"


def place_of(slip: Slip) -> str:
    """By what a browser sorts it into its column."""
    return json.dumps([int(one) if isinstance(one, bool) else one for one in slip.place])


def mark_of(task: Task) -> str:
    """A mark that changes with what a form can change."""
    shown = (task.title, task.body, task.check, task.priority, task.tags, task.needs)
    return hashlib.sha256(repr(shown).encode("utf-8", "replace")).hexdigest()[:16]


def _harmless(value: object) -> object:
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _age(at: float, now: float) -> Markup:
    """How long ago, as an element that a browser keeps true."""
    if not at:
        return Markup("")
    return Markup('<time datetime="{}" data-at="{}" title="{}">{}</time>').format(
        iso(at), int(at), iso(at), say_age(now - at)
    )
