"""Reading a local log's file while a writer is in the middle of a group: what a page's bytes say steers nothing."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from simstream.errors import LogDamaged
from simstream.files.file_system import FileSystem
from simstream.log.base import TopicInfo
from simstream.log.local.record_groups import FILE_HEADER, FILE_MAGIC, HEADER_SIZE, encode_group
from simstream.log.local.topic_file import GroupFile

TOPIC = TopicInfo("t.pages", str(uuid.UUID(int=7)), 1)
FIRM = encode_group([b"a record"], 0, 0, 1)
GROUP = encode_group([b"x" * 200 + FIRM + b"y" * 200], 0, 0, 1)
"""A page whose bytes hold a valid group."""
SEEN = HEADER_SIZE + 300
"""Bytes of it that a reader sees while the rest is being written."""
TORN = encode_group([b"z" * 100], 0, 0, 1)[:-1] + bytes(400)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.pages.log"
    path.write_bytes(FILE_MAGIC + uuid.UUID(TOPIC.id).bytes)
    return path


@contextmanager
def at_calls(*events: tuple[int, Callable[[], object]]) -> Iterator[None]:
    """Let each event happen just before the call of that number, from 0 on, of those that look into the file."""
    waiting, calls = list(events), 0
    real = {name: getattr(os, name) for name in ("pread", "fstat")}

    def hooked(name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal calls
            while waiting and waiting[0][0] <= calls:
                waiting.pop(0)[1]()
            calls += 1
            return real[name](*arguments)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in real:
            patch.setattr(os, name, hooked(name))
        yield
    for _, event in waiting:
        event()


@contextmanager
def replaced_tail(
    path: Path, tail: bytes, cut: int, append: tuple[int, bytes]
) -> Iterator[tuple[GroupFile, BinaryIO, AbstractContextManager[None]]]:
    """A file with a tail, its writer, and a time in which the tail is cut off and bytes come, at these calls."""
    with path.open("r+b", buffering=0) as writer:
        writer.seek(FILE_HEADER)
        writer.write(tail)
        file = GroupFile(path, TOPIC, FileSystem())

        def cut_off() -> None:
            writer.truncate(FILE_HEADER)
            writer.seek(FILE_HEADER)

        yield file, writer, at_calls((cut, cut_off), (append[0], lambda: writer.write(append[1])))
        file.close()


@pytest.mark.parametrize("tail", [b"", bytes(500), TORN], ids=["end", "zeros", "torn"])
@pytest.mark.parametrize(("cut", "append"), list(combinations_with_replacement(range(7), 2)))
def test_a_group_that_appears_between_two_reads_is_no_damage(
    path: Path, tail: bytes, cut: int, append: int
) -> None:
    with replaced_tail(path, tail, cut, (append, GROUP[:SEEN])) as (file, writer, reading):
        with reading:
            assert file.next() is None
        assert file.next() is None
        writer.write(GROUP[SEEN:])
        found = file.next()
    assert found is not None
    assert HEADER_SIZE + found.header.size == len(GROUP)


@pytest.mark.parametrize("tail", [bytes(500), TORN], ids=["zeros", "torn"])
@pytest.mark.parametrize(("cut", "append"), list(combinations_with_replacement(range(9), 2)))
def test_whole_groups_that_replace_a_torn_tail_between_two_reads_are_no_damage(
    path: Path, tail: bytes, cut: int, append: int
) -> None:
    with replaced_tail(path, tail, cut, (append, FIRM + GROUP)) as (file, _, reading):
        with reading:
            found = [file.next()]
        found += [file.next() for _ in range(3)]
    assert [HEADER_SIZE + one.header.size for one in found if one] == [len(FIRM), len(GROUP)]


@pytest.mark.parametrize("broken", [0, HEADER_SIZE + 5], ids=["header", "body"])
def test_a_valid_group_behind_a_broken_one_is_damage(path: Path, broken: int) -> None:
    data = bytearray(GROUP + FIRM)
    data[broken] ^= 1
    path.write_bytes(path.read_bytes() + data)
    file = GroupFile(path, TOPIC, FileSystem())
    with pytest.raises(LogDamaged, match=rf"at byte {FILE_HEADER}"):
        file.next()
    file.close()


def test_a_valid_group_in_the_bytes_of_a_broken_one_is_a_torn_tail(path: Path) -> None:
    path.write_bytes(path.read_bytes() + GROUP[:-1])
    file = GroupFile(path, TOPIC, FileSystem())
    assert file.next() is None
    file.close()
