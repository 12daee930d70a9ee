"""`python -m taskpit` is `pit`."""

from __future__ import annotations

from taskpit.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
