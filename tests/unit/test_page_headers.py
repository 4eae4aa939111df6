"""Headers of pages on their way to verdicts: which go on, how frames hold them, what strangers may send."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from simstream.errors import SettingsError
from simstream.settings import resolve
from simstream.wire import frame as frames
from simstream.wire.page_headers import (
    MAX_BYTES,
    MAX_NAMES,
    NO_HEADERS,
    HeaderChoice,
    Headers,
    pack,
    parse_names,
    unpack,
)
from tests.unit.test_frame import same, small

TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_only_named_headers_go_on_in_the_order_of_the_setting() -> None:
    choice = HeaderChoice(("traceparent", "Tenant"))
    page = (("url", b"u"), ("tenant", b"\xff\x00"), ("TraceParent", b"old"), ("traceparent", TRACE))
    assert choice.choose(page) == ((("traceparent", TRACE), ("Tenant", b"\xff\x00")), 0)
    assert choice.choose((("url", b"u"),)) == ((), 0)


def test_a_value_that_does_not_fit_is_left_out_and_the_next_one_goes_on() -> None:
    choice = HeaderChoice(("a", "b", "c"))
    page = (("a", b"x" * (MAX_BYTES + 1)), ("b", b"x" * MAX_BYTES), ("c", b"x"))
    assert choice.choose(page) == ((("b", b"x" * MAX_BYTES),), 2)


def test_thousands_of_headers_are_one_header_for_each_name() -> None:
    page = tuple(("a", b"%d" % number) for number in range(50_000))
    assert HeaderChoice(("a",)).choose(page) == ((("a", b"49999"),), 0)


def test_headers_of_the_service_itself_are_refused() -> None:
    for text in ("verdict", "Verdict", "a,simstream-error", "simstream.x", "a" * 65, "a\nb"):
        with pytest.raises(SettingsError, match=r"^verdict_headers .*: "):
            parse_names(text)
    with pytest.raises(SettingsError, match="17 names: give at most 16"):
        parse_names(",".join(map(str, range(MAX_NAMES + 1))))
    assert parse_names(" a, b,,A ") == ("a", "b")
    assert parse_names("") == ()


def test_a_list_in_the_file_and_a_variable_say_the_same(tmp_path: pytest.TempPathFactory) -> None:
    file = tmp_path / "own.toml"  # type: ignore[operator]
    file.write_text('verdict_headers = ["traceparent", "tenant"]\n')
    assert resolve({}, {}, str(file)).settings.verdict_header_names == ("traceparent", "tenant")
    variable = {"SIMSTREAM_VERDICT_HEADERS": "traceparent,tenant"}
    assert resolve({}, variable).settings.verdict_header_names == ("traceparent", "tenant")
    wrong: list[SettingsError] = []
    file.write_text('verdict_headers = ["verdict"]\n')
    settings = resolve({}, {}, str(file), wrong).settings  # type: ignore[arg-type]
    assert settings.verdict_header_names == ("traceparent", "tracestate")
    assert str(file) in str(wrong[0])


def test_a_frame_without_headers_has_the_bytes_of_earlier_versions() -> None:
    header, columns = small()
    bare = frames.encode(header, columns)
    assert frames.encode(msgspec.structs.replace(header, headers=pack({}, 0)), columns) == bare
    assert b"\xc0" not in msgspec.msgpack.encode(msgspec.structs.astuple(frames.decode(bare).header)[:-1])


def test_an_earlier_version_reads_a_frame_with_headers_without_them() -> None:
    class EarlierHeader(msgspec.Struct, frozen=True, array_like=True):
        """As it was before headers went on."""

        recipe: str
        topic: str
        topic_id: str
        partition: int
        start: int
        to: int
        sketch_words: int
        first: bool = False
        lost: bool = False
        came: tuple[tuple[int, int], ...] = ()

    header, columns = small()
    header = msgspec.structs.replace(header, headers=pack({5: (("traceparent", TRACE),)}, header.start))
    encoded = frames.encode(header, columns)
    length = int.from_bytes(encoded[16:20], "little")
    read = msgspec.msgpack.decode(encoded[24 : 24 + length], type=EarlierHeader)
    assert msgspec.structs.astuple(read) == msgspec.structs.astuple(header)[:-1]
    decoded = frames.decode(encoded)
    assert same(decoded.columns, columns)
    assert unpack(decoded.header.headers, header.start) == {5: (("traceparent", TRACE),)}


pages_with_headers = some.dictionaries(
    some.integers(0, 1 << 40),
    some.dictionaries(some.sampled_from("abcdef"), some.binary(max_size=9), min_size=1).map(
        lambda found: tuple(found.items())
    ),
    max_size=20,
)


@given(pages_with_headers)
def test_what_is_packed_is_unpacked(pages: dict[int, Headers]) -> None:
    assert unpack(pack(pages, 0), 0) == pages
    assert (pack(pages, 0) == NO_HEADERS) == (not pages)


@given(some.binary(max_size=60))
def test_any_bytes_of_a_stranger_are_headers_within_the_limits_or_none(data: bytes) -> None:
    for headers in unpack(msgspec.Raw(data), 7).values():
        assert len(headers) <= MAX_NAMES


@pytest.mark.parametrize(
    "headers",
    [
        [["verdict"], [[0, [[0, b"new"]]]]],
        [["a"], [[0, [[1, b"no such name"]]]]],
        [["a"], [[0, [[0, b"once"], [0, b"twice"]]]]],
        [["a"], [[0, [[0, b"x" * (MAX_BYTES + 1)]]]]],
        [["a" * 65], [[0, [[0, b"x"]]]]],
        [[str(n) for n in range(17)], [[0, [[n, b""] for n in range(17)]]]],
        "text",
        17,
        {"a": 1},
    ],
)
def test_a_forged_frame_is_accepted_as_ever_and_its_headers_are_none(headers: object) -> None:
    header, columns = small()
    forged = msgspec.structs.replace(header, headers=msgspec.Raw(msgspec.msgpack.encode(headers)))
    decoded = frames.decode(frames.encode(forged, columns))
    assert same(decoded.columns, columns)
    assert unpack(decoded.header.headers, header.start) == {}


def test_frames_close_by_the_bytes_of_headers_too() -> None:
    columns = small()[1]
    n = len(columns)
    assert list(frames.find_cuts(columns, 100, 4096)) == [(0, n)]
    heavy = np.full(n, 3000, np.int64)
    assert list(frames.find_cuts(columns, 100, 4096, heavy)) == [(at, at + 1) for at in range(n)]
