"""Small files that ask for much memory, read by a process that has little."""

from __future__ import annotations

import gzip
import lzma
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from simstream.files.zstandard import zstd
from tests.e2e.harness import ROOT

ROOM_BYTES = 300 << 20
"""Of address space, beyond what the process has once all is imported."""
CHILD = """
import resource, sys
from simstream.errors import InputError
from simstream.sources.read import read_pages
from simstream.wire.page import PageLimits, decode
import lzma, gzip  # before memory is short
has = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
room = has + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (room, room))
limits = PageLimits(1 << 20)
for path in sys.argv[2:]:
    try:
        print(path, *[decode(record, limits).reason or "good" for record in read_pages([path])])
    except InputError as error:
        print(path, error)
"""
GOOD = b'{"text":"a"}\n'


def xz_with_a_dictionary(size_code: int) -> bytes:
    """40: 4 GB; 30: 128 MB, and a little more for the rest; 29: 96 MB.

    One byte of the first block's header gives this size. The header has its own checksum.
    """
    data = bytearray(lzma.compress(GOOD))
    size = (data[12] + 1) * 4
    assert bytes(data[14:16]) == b"\x21\x01"
    data[16] = size_code
    data[12 + size - 4 : 12 + size] = zlib.crc32(data[12 : 12 + size - 4]).to_bytes(4, "little")
    return bytes(data)


def zst_with_a_window(size_code: int) -> bytes:
    """168: 2 GB; 137: 144 MB; 136: 128 MB."""
    packer = zstd.ZstdCompressor()
    data = bytearray(packer.compress(GOOD) + packer.flush())
    assert not data[4] & 0x20, "the frame names its window"
    data[5] = size_code
    return bytes(data)


def nested_gzip() -> bytes:
    """A bomb within a bomb: only the outer one is unpacked."""
    return gzip.compress(gzip.compress(b"\0" * (64 << 20)), mtime=0)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
def test_what_unpacks_to_too_much_or_asks_for_too_much_is_refused_within_little_memory(tmp_path: Path) -> None:
    files = {
        **{f"{code}.jsonl.xz": xz_with_a_dictionary(code) for code in (40, 30, 29)},
        **{f"{code}.jsonl.zst": zst_with_a_window(code) for code in (168, 137, 136)},
        "nested.jsonl.gz": nested_gzip(),
        "deep.jsonl": b'{"x":' * 150_000 + b"\n" + b"[" * 900_000 + b"\n" + GOOD,
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(ROOM_BYTES), *files],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "stream"), str(ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    for refused in ("40.jsonl.xz", "30.jsonl.xz", "168.jsonl.zst", "137.jsonl.zst"):
        assert "is damaged or cut off after line 0" in said[refused]
    assert said["29.jsonl.xz"] == said["136.jsonl.zst"] == "good"
    assert said["nested.jsonl.gz"].startswith("bad_json")
    assert said["deep.jsonl"] == "bad_json bad_json good"
