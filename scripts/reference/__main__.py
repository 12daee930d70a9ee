"""`python -m reference` writes; `--check` only says whether what is there is up to date."""

from __future__ import annotations

import sys

from reference import stale, write

if "--check" in sys.argv:
    found = stale()
    print(f"stale: {', '.join(found)}; `make reference` writes them" if found else "the reference is up to date")
    sys.exit(1 if found else 0)
write()
