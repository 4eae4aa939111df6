"""What a process may hold: the least of what container, service and machine say."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import pytest

from simstream.telemetry import process_memory

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of 8 GiB whose files a test writes."""
    (tmp_path / "meminfo").write_text("MemTotal:        8388608 kB\nMemFree:  1 kB\n")
    monkeypatch.setattr(process_memory, "MACHINE", tmp_path / "meminfo")
    monkeypatch.setattr(process_memory, "GROUPS", tmp_path / "cgroup")
    limits = {"": (str(tmp_path / "two"), "memory.max"), "memory": (str(tmp_path / "one"), "memory.limit_in_bytes")}
    monkeypatch.setattr(process_memory, "LIMITS", limits)
    return tmp_path


def limited(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_without_a_group_it_is_the_machine(machine: Path) -> None:
    assert process_memory.limit() == 8 * GIB
    (machine / "meminfo").unlink()
    assert process_memory.limit() == 0


def test_a_container_sees_its_own_group_as_the_uppermost(machine: Path) -> None:
    (machine / "cgroup").write_text("0::/\n")
    limited(machine / "two", "memory.max", f"{2 * GIB}\n")
    assert process_memory.limit() == 2 * GIB


def test_a_service_has_the_limit_of_its_group(machine: Path) -> None:
    (machine / "cgroup").write_text("0::/system.slice/simstream.service\n")
    limited(machine / "two" / "system.slice" / "simstream.service", "memory.max", f"{GIB}\n")
    assert process_memory.limit() == GIB
    limited(machine / "two" / "system.slice" / "simstream.service", "memory.max", "max\n")
    assert process_memory.limit() == 8 * GIB


def test_groups_of_the_first_version_are_known_too(machine: Path) -> None:
    (machine / "cgroup").write_text("5:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab\n0::/\n")
    limited(machine / "one" / "docker" / "ab", "memory.limit_in_bytes", f"{3 * GIB}\n")
    limited(machine / "one", "memory.limit_in_bytes", "9223372036854771712\n")
    assert process_memory.limit() == 3 * GIB


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what is mapped and what is not")
def test_what_is_taken_is_seen() -> None:
    before = dict(process_memory.held())
    with mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:  # never what others gave back
        for at in range(0, len(block), 4096):
            block[at] = 1
        assert dict(process_memory.held())["own"] - before["own"] > 32 << 20
