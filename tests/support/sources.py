"""The program's own source as trees, each read once in a process."""

from __future__ import annotations

import ast
import os
from functools import cache

import taskpit

ROOT = os.path.dirname(taskpit.__file__)
#: Every module, by its path below the package.
MODULES = sorted(
    os.path.relpath(os.path.join(folder, name), ROOT)
    for folder, _, names in os.walk(ROOT)
    for name in names
    if name.endswith(".py")
)


@cache
def tree(module):
    with open(os.path.join(ROOT, module), encoding="utf-8") as file:
        return ast.parse(file.read(), module)
