"""Markdown that strangers wrote, as HTML that does nothing: no HTML of theirs, no pictures, no odd links. Pure."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markupsafe import Markup

from taskpit.text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict

__all__ = ["render"]

#: Longer texts are shown as they are written.
LONGEST = 100_000
#: Where a link may lead.
SCHEMES = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)


def _picture(_: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    """A picture is told of, not loaded: loading it would tell its owner who looks."""
    del options, env
    token = tokens[at]
    told = token.content or "no description"
    return str(Markup('<span class="picture" title="{}">picture: {}</span>').format(token.attrs.get("src", ""), told))


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


def render(text: str) -> Markup:
    """The text as HTML."""
    text = plain(text)
    if len(text) > LONGEST:
        return Markup("<pre>{}</pre>").format(text)
    return Markup(_MARKDOWN.render(text))  # noqa: S704 - made with html=False, so that it escapes all it is given
