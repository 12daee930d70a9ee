"""Lines of source text with the colours of their language, as HTML that does nothing. Pure; plain without Pygments."""

from __future__ import annotations

from markupsafe import Markup, escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from taskpit.landing.diff import FilePart

__all__ = ["coloured"]

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
LONGEST, WIDEST = 100_000, 500


def coloured(part: FilePart) -> list[Markup]:
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
    if not language or sum(map(len, lines)) > LONGEST or any(len(line) > WIDEST for line in lines):
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
