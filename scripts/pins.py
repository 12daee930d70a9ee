"""Write supply.txt: the tools that build, list and audit a release, each with the hashes of its files.

    python scripts/pins.py

The release workflow builds with nothing else, by `pip install --require-hashes`. What `make test` installs has its
versions pinned in constraints.txt, without hashes: pip cannot check those beside an editable package.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TOOLS = ("build", "cronsim", "cyclonedx-bom", "hatchling", "msgspec", "pip-audit")
#: The Pythons that a release may be built with, on the machine that the workflow has.
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_26_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
HEAD = "# Written by scripts/pins.py: what builds, lists and audits a release.\n"


def resolved(python: str) -> list[dict]:
    """What pip would install for this Python."""
    words = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    words += ["--disable-pip-version-check", "--only-binary", ":all:", "--python-version", python, "--target", "unused"]
    words += [word for platform in PLATFORMS for word in ("--platform", platform)]
    told = subprocess.run([*words, *TOOLS], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(told)["install"]


def main() -> None:
    """Each package once, with the hashes of the files for every Python."""
    found: dict[tuple[str, str], set[str]] = {}
    for python in PYTHONS:
        for one in resolved(python):
            name, version = one["metadata"]["name"].lower().replace("_", "-"), one["metadata"]["version"]
            found.setdefault((name, version), set()).add(one["download_info"]["archive_info"]["hashes"]["sha256"])
    if len({name for name, _ in found}) != len(found):
        sys.exit("a tool has other versions for other Pythons; leave out the oldest Python")
    lines = [
        f"{name}=={version} \\\n" + " \\\n".join(f"    --hash=sha256:{digest}" for digest in sorted(digests)) + "\n"
        for (name, version), digests in sorted(found.items())
    ]
    path = Path(__file__).resolve().parents[1] / "supply.txt"
    path.write_text(HEAD + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
