"""How a page of Markdown is written: tables, code in them, prose. Knows nothing of what is told."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MADE = "<!-- Written by scripts/reference; `make reference` writes it anew. -->"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table."""
    titles = list(head)
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    return [*lines, *(f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows)]


def code(text: str) -> str:
    """The text as code in a table's cell."""
    return f"<code>{_html(text)}</code>" if "`" in text or "|" in text else f"`{text}`"


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "&#124;")


def prose(text: str) -> str:
    """Help text in Markdown: what looks like a tag or a glob is none."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([<*_{}\[\]])", r"\\\1", part) for part in parts)


def page(title: str, *lines: str) -> str:
    """A whole page."""
    return "\n".join([MADE, "", f"# {title}", "", *lines]).rstrip() + "\n"
