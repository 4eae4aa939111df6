"""Tells how much memory this process uses, and how much it may use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PROCESS = Path("/proc/self/status")
MACHINE = Path("/proc/meminfo")
GROUPS = Path("/proc/self/cgroup")
LIMITS = {"": ("/sys/fs/cgroup", "memory.max"), "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")}
"""The files with the limits of both versions of Linux's control groups, by controller."""
_KINDS = {"RssAnon": "own", "RssFile": "mapped"}


def held() -> Iterator[tuple[str, int]]:
    """Return the bytes in memory by kind: `own`, and `mapped` from files, which the system can take back.

    Does not count the processes that extract HTML. Empty on systems other than Linux.
    """
    for name, size in _kilobytes(PROCESS):
        if name in _KINDS:
            yield _KINDS[name], size


def peak() -> int:
    """Return the most bytes that this process ever held in memory; 0 on systems other than Linux."""
    return next((size for name, size in _kilobytes(PROCESS) if name == "VmHWM"), 0)


def limit() -> int:
    """Return the limit of the container or service in bytes, or the machine's memory if that is less; 0 if
    unknown."""
    found = [size for name, size in _kilobytes(MACHINE) if name == "MemTotal"]
    for line in _read(GROUPS).splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers in LIMITS:
            folder, name = LIMITS[controllers]
            for place in {folder, folder + group}:  # within a container its own group is the topmost one
                text = _read(Path(place, name)).strip()
                if text.isdigit():
                    found.append(int(text))
    return min(found, default=0)


def _kilobytes(path: Path) -> Iterator[tuple[str, int]]:
    for name, size in re.findall(r"^(\w+):\s+(\d+) kB$", _read(path), re.MULTILINE):
        yield name, int(size) * 1024


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
