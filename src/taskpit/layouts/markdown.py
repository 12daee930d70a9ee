"""Markdown with a head of `- **key:** value` bullets. Knows the spelling, not what the keys mean.

    # heading
    - **task:** a value            # a comment is not part of it
      that may go on, indented
    - **priority:** 5

    Everything after the head is the body.

The head ends at the first line that is neither bullet nor continuation; an empty line inside it is
allowed before a bullet whose key is known. What nobody sets is written back byte for byte.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#: What a bullet's key is made of.
_OF_KEYS = f"{_LETTERS}0123456789 ._-"
#: The key that counts also with its colon outside, as people and models write bullets.
PROVES = "done-when"
#: Stands between head and body when the body itself begins like a head.
BODY_MARK = "<!-- body -->"
BYTE_ORDER_MARK = "\ufeff"


class _Bullet:
    __slots__ = ("comment", "count", "key", "line", "value")

    def __init__(self, key: str, line: int) -> None:
        self.key = key
        self.line = line
        self.count = 1
        self.value = ""
        self.comment = ""


class Sheet:
    """One such text, to look at and to change."""

    def __init__(self, text: str, known: Collection[str], prose: Collection[str] = ()) -> None:
        #: What some editors begin every file with; it is no letter of the text.
        self._mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
        self._lines = text.removeprefix(BYTE_ORDER_MARK).split("\n")
        self._known = known
        #: Keys whose values are sentences: there a comment needs two spaces before its `#`.
        self._prose = prose
        self._bullets: list[_Bullet] = []
        self._heading = ""
        self._heading_line = -1
        self._head = self._read_head()

    def _read_head(self) -> int:
        """Read heading and bullets; the number of the first line after them."""
        lines, at = self._lines, 0
        while at < len(lines) and not lines[at].strip():
            at += 1
        if at < len(lines) and lines[at].startswith("# "):
            self._heading, self._heading_line = lines[at][2:].strip(), at
            at += 1
        end = at
        while at < len(lines):
            line = lines[at]
            found = _bullet_in(line)
            gap = at > end  # an empty line came before this one
            if found and not (gap and self._bullets and found[0].lower() not in self._known):
                self._bullets.append(self._bullet(*found, at))
                end = at + 1
            elif line.strip() and line[0] in " \t" and self._bullets and not gap:
                while end < len(lines) and lines[end].strip() and lines[end][0] in " \t":
                    end += 1
                bullet = self._bullets[-1]  # all at once: a long value is read in one go
                bullet.value = " ".join([bullet.value, *(line.strip() for line in lines[at:end])]).strip()
                bullet.count += end - at
                at = end - 1
            elif line.strip():
                break
            at += 1
        return end

    def _bullet(self, said: str, value: str, at: int) -> _Bullet:
        key = said.lower()
        bullet = _Bullet(key if key in self._known else said, at)
        bullet.value, bullet.comment = _cut_comment(value.rstrip(), bullet.key in self._prose)
        return bullet

    @property
    def heading(self) -> str:
        """The text of the first line, if it is a heading."""
        return self._heading

    @heading.setter
    def heading(self, text: str) -> None:
        if self._heading_line >= 0:
            self._lines[self._heading_line] = f"# {text}"
        else:
            self._lines.insert(0, f"# {text}")
            self._head += 1
            for bullet in self._bullets:
                bullet.line += 1
            self._heading_line = 0
        self._heading = text

    def get(self, key: str) -> str | None:
        """The value of the first bullet with this key."""
        for bullet in self._bullets:
            if bullet.key == key:
                return bullet.value
        return None

    def items(self) -> list[tuple[str, str]]:
        """Keys (known ones in small letters) and values, in order."""
        return [(bullet.key, bullet.value) for bullet in self._bullets]

    def set(self, key: str, value: str) -> None:
        """This bullet has this value; added at the end of the head if it was not there."""
        line = f"- **{key}:** {value}"
        for bullet in self._bullets:
            if bullet.key == key:
                self._put(bullet, [line + bullet.comment])
                bullet.value = value
                return
        at = self._bullets[-1].line + self._bullets[-1].count if self._bullets else self._head
        bullet = _Bullet(key, at)
        bullet.value, bullet.count = value, 0
        self._bullets.append(bullet)
        self._put(bullet, [line])
        if self._lines[self._head : self._head + 1] and self._lines[self._head].startswith((" ", "\t")):
            self._lines.insert(self._head, "")  # a body that begins indented is no continuation of our bullet

    def drop(self, key: str) -> None:
        """There is no such bullet."""
        for bullet in [bullet for bullet in self._bullets if bullet.key == key]:
            self._put(bullet, [])
            self._bullets.remove(bullet)

    def _put(self, bullet: _Bullet, lines: list[str]) -> None:
        grown = len(lines) - bullet.count
        self._lines[bullet.line : bullet.line + bullet.count] = lines
        for other in self._bullets:
            if other.line > bullet.line:
                other.line += grown
        bullet.count = len(lines)
        self._head += grown

    @property
    def body(self) -> str:
        """What follows the head, without empty lines around it."""
        text = "\n".join(self._lines[self._head :]).strip("\r\n")
        first, _, rest = text.partition("\n")
        return rest if first.strip() == BODY_MARK else text

    @body.setter
    def body(self, text: str) -> None:
        text = text.strip("\r\n")
        like_head = text.startswith((" ", "\t", "# ", BODY_MARK)) or _bullet_in(text) is not None
        mark = f"{BODY_MARK}\n" if like_head else ""
        self._lines[self._head :] = ["", *f"{mark}{text}\n".split("\n")] if text else [""]

    def text(self) -> str:
        """The whole text."""
        return self._mark + "\n".join(self._lines)


def skim(text: str, known: Collection[str]) -> tuple[list[tuple[str, str]], str, str] | None:
    """Bullets, heading and body of a text as we write it ourselves; None if only a `Sheet` can tell.

    One heading, known bullets of one line each without a comment, an empty line, the body.
    """
    head, _, body = text.partition("\n\n")
    if "\r" in text or "#" in head[1:] or head[:2] != "# " or body.lstrip()[:1] in ("-", "<"):
        return None
    if not head.replace("\n", " ").isprintable():
        return None
    head = head.removesuffix("\n")
    heading, *lines = head.split("\n- **")
    if head.count("\n") != len(lines):
        return None  # there are lines that are no bullets
    bullets = []
    for line in lines:
        key, found, value = line.partition(":** ")
        if not found or key not in known:
            return None
        bullets.append((key, value.strip(" ")))
    return (bullets, heading[2:].strip(" "), body.strip("\n")) if bullets else None


def _bullet_in(line: str) -> tuple[str, str] | None:
    """Key and value of `- **key:** value`; by hand, since a regular expression costs every command its import."""
    if not line.startswith("- **"):
        return None
    end = line.find(":**", 4)
    if end < 0 and line[4 : line.find("**:", 4)].lower() == PROVES:  # a check that nobody sees would never be run
        end = line.find("**:", 4)
    key, rest = line[4:end], line[end + 3 :]
    if end <= 4 or not is_key(key):
        return None
    if rest[:1] in (" ", "\t"):
        return key, rest.lstrip(" \t")
    return (key, "") if rest in ("", "\r") else None


def is_key(text: str) -> bool:
    """Whether a bullet's key may read so."""
    return text[:1] in _LETTERS and bool(text) and not text.strip(_OF_KEYS)


def _cut_comment(value: str, prose: bool) -> tuple[str, str]:
    """Value and trailing comment, the comment with the space before it. JSON has no comments."""
    if "#" not in value or value.startswith("json "):
        return value, ""
    at, ticks, counted = -1, 0, 0
    while (at := value.find("#", at + 1)) >= 0:  # each letter is looked at once: no pattern goes back over blanks
        start = at
        while start and value[start - 1] in " \t":
            start -= 1
        if at - start < (2 if prose else 1) or value[at + 1 : at + 2] not in (" ", "\t", ""):
            continue
        ticks, counted = ticks + value.count("`", counted, start), start
        if ticks % 2 == 0:
            return value[:start].rstrip(), value[start:]
    return value, ""


def is_plain(text: str) -> bool:
    """Whether a bullet says this text as it is, for every reader: no white space but single blanks, no marks."""
    if not text.isprintable() or "  " in text or text[:1] == " " or text[-1:] == " " or text.startswith("json"):
        return False
    return not ("#" in text or "`" in text or "," in text or "\xa0" in text)


def are_plain(texts: Collection[str]) -> bool:
    """Whether each of these surely is plain; where it says no, `is_plain` may say yes."""
    joined = f"|{'|'.join(texts)}|"
    if not joined.isprintable() or "#" in joined or "`" in joined or "," in joined or "\xa0" in joined:
        return False
    return not ("  " in joined or "| " in joined or " |" in joined or "|json" in joined)


def one_line(text: str) -> str:
    """The text with every run of white space as one space: what a bullet can carry."""
    return " ".join(text.split())


def command_in(value: str) -> str:
    """The command in a sentence: what stands between its first backticks, else nothing.

    Several with no more than commas and an `and` between them are one command: each must be green. A check written
    without backticks is a sentence for people: never run what nobody marked as a command.
    """
    commands: list[str] = []
    end = 0
    for start, then, inner in _between_ticks(value):
        if commands and not _JOINS.issuperset(value[end:start].replace(",", " ").replace(";", " ").split()):
            break
        padded = inner.startswith(" ") and inner.endswith(" ") and inner.strip()
        commands.append(inner[1:-1] if padded else inner)
        end = then
    if len(commands) < 2:
        return "".join(commands)
    return " && ".join(map(_ended, commands))


#: What may stand between two commands that are meant together.
_JOINS = frozenset(("and", "then", "&&"))


def _ended(command: str) -> str:
    """The command, so that a comment in it goes no further."""
    return "eval '{}'".format(command.replace("'", "'\\''")) if "#" in command else command


def _ticks(value: str) -> Iterator[tuple[int, int]]:
    """Where backticks begin and end."""
    start = value.find("`")
    while start >= 0:
        end = start + 1
        while value.startswith("`", end):
            end += 1
        yield start, end
        start = value.find("`", end)


def _between_ticks(value: str) -> Iterator[tuple[int, int, str]]:
    """What stands on one line between some backticks and the next that are just as many, and from where to where."""
    runs = list(_ticks(value))
    starts: dict[int, list[int]] = {}
    for start, end in reversed(runs):
        starts.setdefault(end - start, []).append(start)
    after = 0
    for start, end in runs:
        for ticks in range(end - start, 0, -1) if start >= after else ():
            closing = starts.get(ticks, [])
            while closing and closing[-1] <= start:
                closing.pop()
            if closing and value.find("\n", start + ticks, closing[-1]) < 0:
                after = closing[-1] + ticks
                yield start, after, value[start + ticks : closing[-1]]
                break


def quote_command(command: str) -> str:
    """The command between as many backticks as it takes."""
    ticks = "`"
    while ticks in command:
        ticks += "`"
    pad = " " if command.startswith(("`", " ")) or command.endswith(("`", " ")) else ""
    return f"{ticks}{pad}{command}{pad}{ticks}"
