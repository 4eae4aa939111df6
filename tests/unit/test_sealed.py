"""Sealed files: what was written comes back, and no byte of them can change unnoticed."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from simstream.errors import StateDamaged, StateFormat
from simstream.files import checksum, header, sealed
from simstream.files.file_system import FileSystem
from simstream.files.snapshot_part import SnapshotPart
from tests.states import immutable, same

RECORD = np.dtype([("time", "<i8"), ("identity", "<u8", (2,)), ("short", "u1")], align=True)


def part(**arrays: Any) -> SnapshotPart:
    return SnapshotPart("pages-1", "pages", {"count": 3, "bucket": None, "limits": [1, "two", {"a": True}]}, arrays)


def write(path: Path, what: SnapshotPart) -> Path:
    sealed.write(FileSystem(), path, what)
    return path


def test_a_part_comes_back_as_it_was(tmp_path: Path) -> None:
    records = np.zeros(5, RECORD)
    records["identity"] = np.arange(10).reshape(5, 2)
    what = part(
        records=records,
        ids=np.frombuffer(b"https://a.example/", np.uint8),
        flags=np.array([True, False]),
        nothing=np.zeros((0, 7), np.float32),
        one=np.array(-3, np.int64),
        turned=np.arange(12).reshape(3, 4).T,
    )
    path = write(tmp_path / "a", what)
    for verify in (True, False):
        assert same([sealed.open(FileSystem(), path, verify)], [what])


@given(
    hnp.arrays(
        hnp.integer_dtypes() | hnp.unsigned_integer_dtypes() | hnp.floating_dtypes(), hnp.array_shapes(max_side=9)
    ),
    st.integers(0, 200),
)
def test_any_array_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, array: Any, size: int) -> None:
    what = part(array=array, blob=np.arange(size, dtype=np.uint8))
    path = write(tmp_path_factory.mktemp("any") / "a", what)
    assert same([sealed.open(FileSystem(), path)], [what])


def test_a_reader_without_a_map_finds_each_array_where_the_layout_says(tmp_path: Path) -> None:
    what = part(a=np.arange(100, dtype=np.uint16), b=np.arange(3, dtype=np.uint64))
    path = write(tmp_path / "a", what)
    for name, extent in sealed.describe(path).layout.items():
        with path.open("rb") as file:
            file.seek(extent.offset)
            read = np.frombuffer(file.read(extent.nbytes), extent.dtype).reshape(extent.shape)
        assert np.array_equal(read, what.arrays[name])
        assert extent.offset % 64 == 0


def test_what_write_says_is_what_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "a"
    written = sealed.write(FileSystem(), path, part(a=np.arange(1000)))
    assert written == sealed.describe(path)
    assert written.size == path.stat().st_size


def test_arrays_are_read_only_and_outlive_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a", part(a=np.arange(100_000)))
    array = sealed.open(FileSystem(), path).arrays["a"]
    path.unlink()
    assert array.sum() == 99_999 * 50_000
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write(tmp_path / "a", part(a=np.array([object()])))


def test_every_byte_of_a_file_is_under_a_checksum(tmp_path: Path) -> None:
    path = write(tmp_path / "a", immutable("segment-1", 1))
    good = path.read_bytes()
    for at in range(len(good)):
        for flip in (0x01, 0x80, 0xFF):
            path.write_bytes(good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :])
            with pytest.raises(StateDamaged, match=str(path)):
                sealed.open(FileSystem(), path)


def test_a_file_of_any_other_length_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a", immutable("segment-1", 1))
    good = path.read_bytes()
    for length in range(len(good)):
        path.write_bytes(good[:length])
        with pytest.raises(StateDamaged):
            sealed.open(FileSystem(), path, verify=False)
    for more in (b"\0", bytes(64), good):
        path.write_bytes(good + more)
        with pytest.raises(StateDamaged):
            sealed.open(FileSystem(), path, verify=False)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateDamaged, match="it is missing"):
        sealed.open(FileSystem(), tmp_path / "gone")


def in_format(good: bytes, version: int, writer: str) -> bytes:
    """The same file as another version would have written it."""
    head = header.encode(header.SEALED, version, writer)
    (length,) = struct.unpack("<Q", good[-32:-24])
    footer = good[-32 - length : -32]
    return head + good[64:-24] + checksum.of_block(head + footer + good[-32:-24]) + good[-8:]


@pytest.mark.parametrize("version", [0, header.FORMAT + 1, 0xFFFFFFFF])
def test_another_format_is_refused_with_the_version_that_reads_it(tmp_path: Path, version: int) -> None:
    path = write(tmp_path / "a", immutable("segment-1", 1))
    good = path.read_bytes()
    path.write_bytes(in_format(good, version, "9.8.7"))
    with pytest.raises(StateFormat, match=rf"simstream 9\.8\.7 in format {version};.* start simstream 9\.8\.7"):
        sealed.open(FileSystem(), path)
    path.write_bytes(in_format(good, header.FORMAT, "9.8.7"))
    assert same([sealed.open(FileSystem(), path)], [immutable("segment-1", 1)])


def test_a_large_array_is_verified_piece_by_piece(tmp_path: Path) -> None:
    array = np.random.default_rng(1).integers(0, 256, 9 * checksum.BLOCK_BYTES + 5, np.uint8)
    path = write(tmp_path / "a", part(a=array, b=array[: checksum.BLOCK_BYTES]))
    assert same([sealed.open(FileSystem(), path)], [part(a=array, b=array[: checksum.BLOCK_BYTES])])
    for at in (64, 64 + 8 * checksum.BLOCK_BYTES, 64 + len(array) - 1):
        with path.open("r+b") as file:
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 4]))
        with pytest.raises(StateDamaged, match="array a"):
            sealed.open(FileSystem(), path)
        with path.open("r+b") as file:
            file.seek(at)
            file.write(byte)
    assert same([sealed.open(FileSystem(), path)], [part(a=array, b=array[: checksum.BLOCK_BYTES])])
