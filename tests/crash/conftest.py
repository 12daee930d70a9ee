"""Thousands of small folders: in memory, where there is room for them."""

from __future__ import annotations

from world import in_memory as tmp_path

__all__ = ["tmp_path"]
