"""What was measured on: processor, kernel, disk. Says which, since figures without that mean nothing."""

from __future__ import annotations

import os
import platform
import sqlite3

__all__ = ["describe", "filesystem"]


def filesystem(path: str) -> str:
    """The kind of filesystem this folder is on, its options, and whether an ext4 has a journal."""
    real, best = os.path.realpath(path), ("", "unknown", "", "")
    try:
        with open("/proc/mounts", encoding="utf-8", errors="replace") as file:
            rows = [line.split()[:4] for line in file]
    except OSError:
        return "unknown"
    for device, mount, kind, options in rows:
        inside = real == mount or real.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best[0]):
            best = (mount, kind, options, device)
    _, kind, options, device = best
    told = f"{kind} ({options})"
    if kind == "ext4":
        told += ", with a journal" if _journaled(device) else ", WITHOUT a journal: creating files is bimodal there"
    return told


def _journaled(device: str) -> bool:
    name = os.path.basename(os.path.realpath(device))
    try:
        return any(entry.startswith(f"{name}-") for entry in os.listdir("/proc/fs/jbd2"))
    except OSError:
        return False


def describe(disk: str) -> dict[str, str]:
    """Facts, by name."""
    load = os.getloadavg()
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "kernel": platform.release(),
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "filesystem": filesystem(disk),
        "load before": " ".join(f"{value:.1f}" for value in load),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()
