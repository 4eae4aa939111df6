"""How much memory this process uses, and how much it may use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PROCESS = Path("/proc/self/status")
MACHINE = Path("/proc/meminfo")
GROUPS = Path("/proc/self/cgroup")
LIMITS = {"": ("/sys/fs/cgroup", "memory.max"), "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")}
"""By the controllers of a group: where limits stand under both versions of Linux's control groups."""
_KINDS = {"RssAnon": "own", "RssFile": "mapped"}


def held() -> Iterator[tuple[str, int]]:
    """Bytes in memory by kind: `own`, and `mapped` from files, which the system takes back where it is short.

    Without the processes that extract HTML. Nothing where the system does not say (it is no Linux).
    """
    for name, size in _kilobytes(PROCESS):
        if name in _KINDS:
            yield _KINDS[name], size


def peak() -> int:
    """The most bytes that this process ever held in memory; 0 where the system does not say (it is no Linux)."""
    return next((size for name, size in _kilobytes(PROCESS) if name == "VmHWM"), 0)


def limit() -> int:
    """The container's or service's limit in bytes, or the machine's memory where that is less; 0: nobody says."""
    found = [size for name, size in _kilobytes(MACHINE) if name == "MemTotal"]
    for line in _read(GROUPS).splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers in LIMITS:
            folder, name = LIMITS[controllers]
            for place in {folder, folder + group}:  # within a container its own group is the uppermost
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
