"""Count words that this project no longer uses, and fail where a directory has more of them than before.

    python scripts/words.py            compare with scripts/words.txt; `make check` does
    python scripts/words.py --lower    write the lower counts of today there; a count never rises
    python scripts/words.py -v tests   also show each line below that directory

They read as translated English: "whoever holds the lock" is "the process that holds the lock".
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
COUNTS = ROOT / "scripts" / "words.txt"
WORDS = re.compile(r"(?i)(?<![a-z])(whoever|nobody|somebody|told|anew|for ever|meanwhile|brought)(?![a-z])")
UNREAD = ("scripts/words.py", "scripts/words.txt")
SUFFIXES = ("", ".bash", ".css", ".html", ".js", ".json", ".md", ".py", ".sql", ".toml", ".txt", ".yml", ".zsh")


def directory(path: str) -> str:
    """The line of the table that a file is counted in: its package, or its directory at the top."""
    parts = path.split("/")
    return "/".join(parts[: 3 if parts[0] == "src" else 1][: len(parts) - 1]) or "."


def count(shown: str | None) -> Counter[str]:
    """Count the words of every file that git knows, by directory; print those below `shown`."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.split("\0")
    found: Counter[str] = Counter()
    for name in filter(None, names):
        path = ROOT / name
        if name in UNREAD or path.suffix not in SUFFIXES or not path.is_file() or path.is_symlink():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            hits = len(WORDS.findall(line))
            found[directory(name)] += hits
            if hits and shown is not None and name.startswith(shown):
                print(f"{name}:{number}: {line.strip()}")
    return +found


def kept() -> dict[str, int]:
    """The counts in the table."""
    rows = (line.split() for line in COUNTS.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {name: int(number) for number, name in rows}


def main() -> int:
    """Compare, or lower the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lower", action="store_true", help="write the lower counts of today")
    parser.add_argument("-v", dest="shown", metavar="DIRECTORY", help="show each line below this directory")
    args = parser.parse_args()
    now, before = count(args.shown), kept() if COUNTS.exists() else None
    if args.lower:
        limits = now if before is None else {name: min(number, now[name]) for name, number in before.items()}
        rows = [f"{number:5} {name}" for name, number in sorted(limits.items()) if number]
        head = "# At most so many unwanted words in each directory: scripts/words.py counts them."
        COUNTS.write_text("\n".join([head, *rows, ""]), encoding="utf-8")
        return 0
    more = {name: number for name, number in now.items() if number > (before or {}).get(name, 0)}
    for name, number in sorted(more.items()):
        print(f"{name}: {number} unwanted words, at most {(before or {}).get(name, 0)} before.", file=sys.stderr)
        print(f"  `python scripts/words.py -v {name}` shows them; the docstring has the list.", file=sys.stderr)
    return 1 if more else 0


if __name__ == "__main__":
    sys.exit(main())
