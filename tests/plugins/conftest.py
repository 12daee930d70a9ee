"""The package that docs/extending.md shows, installed where Python looks for packages."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/extending.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def install(site: Path) -> Path:
    """What pip would leave behind for it."""
    project = tomllib.loads(blocks("toml")[0])["project"]
    (site / "taskpit_kanban.py").write_text("\n".join(blocks("python")), encoding="utf-8")
    info = site / f"taskpit_kanban-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items()) for group, points in groups
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return site


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "site"
    folder.mkdir()
    return install(folder)
