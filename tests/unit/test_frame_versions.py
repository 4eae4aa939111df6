"""Frames of other versions: format 1 is read under new identities, what is newer is refused by name."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import msgspec
import numpy as np
import pytest

from simstream.errors import FrameDamaged, FrameFormat
from simstream.judge.acceptor import AcceptedPages, Acceptor, IgnoreReason
from simstream.model import REASONS, FingerprintColumns, PageKind
from simstream.wire import frame as frames
from simstream.wire.frame_versions import FORMAT
from tests.old_format import as_format, as_format_1
from tests.unit.test_frame import same, small

GOLDEN = Path(__file__).parents[1] / "golden" / "format-1" / "frame.bin"
"""Written by 0.1.0."""
NAMES = ["https://news.example/0", "é/甲", "https://victim.example/news/2026/03/02/bridge-reopens"]


def test_a_frame_that_the_first_version_wrote_has_the_identities_of_its_ids() -> None:
    frame = frames.decode(GOLDEN.read_bytes())
    header, columns = frame.header, frame.columns
    assert (header.recipe, header.partition, header.start, header.to, header.first) == ("1234abcd", 3, 5, 10, True)
    assert columns.id_list() == NAMES
    assert columns.url_list() == [None, "u", None]
    assert [one.tobytes() for one in columns.identity] == [
        blake2b(name.encode(), digest_size=16).digest() for name in NAMES
    ]
    assert columns.fingerprint.tolist() == [7, 0, 9]
    assert columns.sketch.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert columns.kind.tolist() == [0, 1, 0]
    assert as_format_1(header, columns) == GOLDEN.read_bytes()


def test_an_old_frame_and_a_new_one_of_a_page_give_the_page_one_identity() -> None:
    header, columns = small()
    new = frames.decode(frames.encode(header, frames.decode(as_format_1(header, columns)).columns))
    assert same(new.columns, frames.decode(as_format_1(header, columns)).columns)


def test_a_lost_frame_of_format_1_is_read() -> None:
    header = msgspec.structs.replace(small()[0], lost=True)
    nothing = small()[1].part(0, 0)
    assert frames.decode(as_format_1(header, nothing)).header.lost


@pytest.mark.parametrize("number", [FORMAT + 1, 77, 0xFFFF])
def test_a_frame_of_a_newer_format_is_not_damaged_with_any_content(number: int) -> None:
    encoded = frames.encode(*small())
    for body in (encoded[16:], b"\0" * 8, b"\xff" * 500):
        with pytest.raises(FrameFormat, match=f"is of format {number}.*fingerprinters last"):
            frames.decode(as_format(number, encoded, body))


def test_each_bit_of_a_newer_frame_is_under_its_checksum() -> None:
    encoded = as_format(FORMAT + 1, frames.encode(*small()))
    for at in range(8 * len(encoded)):
        broken = bytearray(encoded)
        broken[at // 8] ^= 1 << at % 8
        with pytest.raises(FrameDamaged):
            frames.decode(bytes(broken))


def newer(header: frames.FrameHeader, columns: FingerprintColumns, what: str) -> bytes:
    """A frame of two pages as a version to come might write it."""
    if what == "format":
        return as_format(FORMAT + 1, frames.encode(header, columns))
    least = {"kind": max(PageKind) + 1, "reason": len(REASONS)}[what]
    return frames.encode(header, replace(columns, **{what: np.full(2, least, np.uint8)}))


@pytest.mark.parametrize("what", ["format", "kind", "reason"])
def test_the_acceptor_stops_before_a_frame_that_only_a_newer_version_understands(what: str) -> None:
    header = msgspec.structs.replace(small()[0], first=True)
    columns = replace(small()[1], kind=np.zeros(2, np.uint8), reason=np.zeros(2, np.uint8))
    acceptor = Acceptor(header.recipe, header.sketch_words)
    before = dict(vars(acceptor))
    with pytest.raises(FrameFormat, match="newer simstream"):
        acceptor.accept(0, newer(header, columns, what), 10**12)
    assert vars(acceptor) == before, "nothing is accepted, passed over or left open"
    assert acceptor.accept(0, b"smfr", 10**12) is IgnoreReason.DAMAGED
    assert isinstance(acceptor.accept(1, frames.encode(header, columns), 10**12), AcceptedPages)
