"""Parquet as pages: which columns count, as what, and what comes of files that are damaged."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from simstream.errors import InputError, Unavailable, UsageError
from simstream.model import Page
from simstream.sources.fields import FieldNames
from simstream.sources.page_headers import PageHeader, _struct, page_headers
from simstream.sources.read import read_pages, size_of
from simstream.sources.row_groups import _ListColumn, batches_of, open_parquet
from simstream.wire.page import NO_TIME, PageLimits, decode

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pq_encryption = pytest.importorskip("pyarrow.parquet.encryption")
LIMITS = PageLimits(1 << 20)


def written(path: Path, columns: dict[str, Any], **options: Any) -> str:
    pq.write_table(pa.table(columns), path, **options)
    return str(path)


def pages(path: str, fields: FieldNames | None = None) -> list[Page]:
    return [decode(record, LIMITS) for record in read_pages([path], fields=fields)]


def test_a_row_is_a_page_across_row_groups(tmp_path: Path) -> None:
    columns = {
        "id": [f"i{n}" for n in range(500)],
        "url": [None, *(f"u{n}" for n in range(1, 500))],
        "text": pa.array([f"text {n}" for n in range(500)]).dictionary_encode(),
        "time": list(range(500)),
        "status": [200, 404, None] + [200] * 497,
        "other": [[n] for n in range(500)],
    }
    path = written(tmp_path / "a.parquet", columns, row_group_size=90)
    reader = read_pages([path])
    found = [decode(record, LIMITS) for record in reader]
    assert [(page.id, page.offset, page.time) for page in found] == [(f"i{n}", n, n) for n in range(500)]
    assert (found[0].url, found[3].url, found[3].text) == (None, "u3", "text 3")
    assert [page.reason for page in found[:4]] == ["", "http_status", "", ""]
    assert reader.consumed == size_of([path])


def test_columns_may_have_other_names_and_types(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    columns = {"doc": [7, 8], "body": ["a", None], "time": pa.array([moment, None], pa.timestamp("ns", "UTC"))}
    found = pages(written(tmp_path / "a.pq", columns), FieldNames("body", "doc"))
    assert [(page.id, page.text, page.time, page.reason) for page in found] == [
        ("7", "a", 1_767_323_045_000, ""),
        ("8", None, NO_TIME, "no_text"),
    ]
    columns = {"id": [7], "text": ["a"], "time": [date(2026, 1, 2)]}
    (page,) = pages(written(tmp_path / "b.parquet", columns))
    assert (page.id, page.time) == ("7", 1_767_312_000_000)


def test_ids_that_pandas_or_duckdb_write_as_floats_or_uuids_are_those_that_were_meant(tmp_path: Path) -> None:
    columns = {"id": [7.0, None, float("nan"), 2.0**53 - 1], "text": ["a"] * 4}
    path = written(tmp_path / "a.parquet", columns)
    assert [page.id for page in pages(path)] == ["7", f"{path}:2", f"{path}:3", "9007199254740991"]
    decimals = pa.array([Decimal(7), None, Decimal(10) ** 30], pa.decimal128(38, 0))
    found = pages(written(tmp_path / "c.parquet", {"id": decimals, "text": ["a"] * 3}))
    assert [page.id for page in found] == ["7", f"{tmp_path / 'c.parquet'}:2", f"1{30 * '0'}"]
    if not hasattr(pa, "uuid"):  # before 18
        return
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16))], pa.binary(16)))
    (page,) = pages(written(tmp_path / "b.parquet", {"id": uuids, "text": ["a"]}))
    assert page.id == "00010203-0405-0607-0809-0a0b0c0d0e0f"


NO_IDS: list[Any] = [
    [datetime(2026, 1, 2, tzinfo=UTC)],
    [date(2026, 1, 2)],
    [True],
    [None, False],
    [7.0, 1.5],
    [2.0**53],
    [float("inf")],
    pa.array([1.0, 16_777_217.0], pa.float32()),
    [Decimal("1.5")],
    [[1]],
]


@pytest.mark.parametrize("ids", NO_IDS)
def test_a_column_of_other_values_is_no_column_of_ids(tmp_path: Path, ids: Any) -> None:
    """Rows of one millisecond, and half of all rows, would be versions of one page."""
    path = written(tmp_path / "a.parquet", {"text": ["a"] * len(ids), "doc": ids})
    assert len(pages(path)) == len(ids)
    with pytest.raises(UsageError, match=r"the column doc has values of the type .*, which cannot be ids"):
        pages(path, FieldNames(id="doc"))
    with pytest.raises(UsageError, match=r"the column id has values of the type"):
        pages(written(tmp_path / "b.parquet", {"text": ["a"] * len(ids), "id": ids}))


def test_of_a_struct_only_the_named_fields_are_read(tmp_path: Path) -> None:
    rows = [{"c": ["one", "two"], "key": {"n": 7}, "big": "x" * 1000}, None, {"c": [], "key": None, "big": None}]
    path = Path(written(tmp_path / "a.parquet", {"b": rows, "other": [1, 2, 3]}, compression="none"))
    data, group = bytearray(path.read_bytes()), pq.ParquetFile(path).metadata.row_group(0)
    for place in range(group.num_columns):
        if (column := group.column(place)).path_in_schema == "b.big":
            begin = column.dictionary_page_offset or column.data_page_offset
            data[begin : begin + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(data)
    found = pages(str(path), FieldNames("b.c", "b.key.n"))
    assert [(page.id, page.text) for page in found] == [("7", "one\ntwo"), (f"{path}:2", None), (f"{path}:3", None)]
    with pytest.raises(InputError, match="is damaged"):
        pages(str(path), FieldNames("b.big"))


def test_a_pipe_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    os.mkfifo(path)
    both_ends = os.open(path, os.O_RDWR)  # so that its reader need not wait for a writer
    with pytest.raises(InputError, match="is a pipe, and Parquet is read from its end"):
        pages(str(path))
    os.close(both_ends)


def test_strings_of_an_array_are_joined_in_a_column_that_is_named_text_too(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", {"text": [["one", "two"], ["three"]]})
    assert [page.text for page in pages(path, FieldNames(text="text"))] == ["one\ntwo", "three"]
    assert [page.reason for page in pages(path)] == ["wrong_type"] * 2


def test_binary_html_is_as_it_was_fetched(tmp_path: Path) -> None:
    raw = '<meta charset="gbk"><p>正文'.encode("gbk")
    columns = {"url": ["http://a.example/", None], "html": [raw, raw], "time": [5, 6], "status": [200, 503]}
    path = written(tmp_path / "a.parquet", columns)
    first, second = pages(path)
    assert (first.id, first.url, first.raw, first.content_type) == (
        "http://a.example/",
        "http://a.example/",
        raw,
        "text/html",
    )
    assert (first.time, second.id, second.reason) == (5, f"{path}:2", "http_status")


@pytest.mark.parametrize(
    "given",
    [
        {"status": ["OK", "200", " 404 ", "", None]},
        {"status": [200.0, 404.0, 2.5, -1.0, None]},
        {"time": [1_767_323_045_000.0, 12.5, -1.0, float("inf"), None]},
        {"time": [Decimal("1767323045000.5"), Decimal("12.5"), Decimal(-1), Decimal(10) ** 20, None]},
        {"time": ["2026-01-02", "noon", "", None, "1767323045000"]},
    ],
)
def test_binary_text_has_the_status_and_the_time_that_text_has(tmp_path: Path, given: dict[str, Any]) -> None:
    def read(name: str, text: str | bytes) -> list[Any]:
        found = pages(written(tmp_path / name, {"id": [*"abcde"], "text": [text] * 5, **given}))
        return [(page.kind, page.reason, page.time) for page in found]

    assert read("a.parquet", b"text") == read("b.parquet", "text")


@pytest.mark.parametrize("scale", [0, 3])
def test_a_time_may_be_a_decimal_as_databases_write_it(tmp_path: Path, scale: int) -> None:
    times = pa.array([Decimal(1_767_323_045_000), Decimal(10) ** 20, None], pa.decimal128(38, scale))
    found = pages(written(tmp_path / "a.parquet", {"text": ["a"] * 3, "time": times}))
    assert [(page.time, page.reason) for page in found] == [(1_767_323_045_000, ""), (NO_TIME, ""), (NO_TIME, "")]


def test_a_string_that_is_not_utf8_costs_no_other_row(tmp_path: Path) -> None:
    strings = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0"), pa.py_buffer(b"a\xffbc")]
    )
    path = written(tmp_path / "a.parquet", {"text": strings})
    assert [page.text for page in pages(path)] == ["a\udcff", "bc"]
    path = written(tmp_path / "b.parquet", {"id": strings, "text": ["x", "y"]})
    assert [(page.id, page.reason) for page in pages(path)][1] == ("bc", "")
    assert pages(path)[0].reason == "bad_id"


def test_the_error_for_a_file_without_text_names_its_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", {"id": ["a"], "body": ["x"]})
    with pytest.raises(
        UsageError, match=r"no column text or html: name it with --text-field; the file has id, body"
    ):
        pages(path)
    with pytest.raises(UsageError, match=r"no column doc: name it with --id-field"):
        pages(path, FieldNames("body", "doc"))


@pytest.mark.parametrize("damage", ["cut", "flip", "other"])
def test_a_damaged_file_is_a_named_error(tmp_path: Path, damage: str) -> None:
    path = written(tmp_path / "a.parquet", {"text": [f"{n} some text" for n in range(5_000)]}, row_group_size=1_000)
    data = bytearray(Path(path).read_bytes())
    middle = len(data) // 2
    if damage == "flip":
        data[middle : middle + 4_000] = b"\xff" * 4_000
    Path(path).write_bytes({"cut": data[:middle], "flip": data, "other": b"no Parquet"}[damage])
    with pytest.raises(InputError, match=r"a\.parquet is damaged or not a Parquet file; [\d,]+ rows were read"):
        pages(path)


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.parquet", {"text": ["x"]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Unavailable, match=r"pip install 'simstream\[parquet\]'"):
        pages(path)


def test_a_row_that_is_too_large_is_one_page(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", {"text": ["x", "y" * 5_000, "z"]})
    records = list(read_pages([path], 1_000))
    assert [decode(record, PageLimits(1_000)).reason for record in records] == ["", "too_large", ""]


@pytest.mark.parametrize("coded", [True, False], ids=["one value for all rows", "a value a row"])
def test_a_small_file_of_long_values_takes_little_memory(tmp_path: Path, coded: bool) -> None:
    rows, long = 40, "正文 long\n" * (2 << 20)
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows), [long]) if coded else pa.array([long] * rows)
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(
        path, pa.schema([("text", pa.string())]), compression="zstd", use_dictionary=coded
    ) as out:
        for at in range(rows) if not coded else [slice(None)]:
            part = text[at : at + 1] if not coded else text[at].cast(pa.string())
            out.write_table(pa.table({"text": part}))
    assert path.stat().st_size < 1 << 20
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        found = pages(str(path))
    finally:
        pa.set_memory_pool(before)
    assert [page.reason for page in found] == ["too_large"] * rows
    assert pool.max_memory() < 6 * len(long.encode())


@pytest.mark.parametrize("beyond", range(4))
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_a_value_around_the_limit_is_read_or_too_large(tmp_path: Path, kind: Any, beyond: int) -> None:
    """`beyond`: bytes of the last character that are beyond the limit."""
    room = LIMITS.max_record_bytes - (0 if "binary" in str(kind) else len('{"text":""}'))
    values = ["é", "a" * (room - 3 + beyond) + "文", "文" * (1 << 20)]
    path = written(tmp_path / "a.parquet", {"text": pa.array([value.encode() for value in values]).cast(kind)})
    found = pages(path)
    assert [page.reason == "too_large" for page in found] == [False, beyond > 0, True]
    assert found[0].kind == found[0].kind.READABLE


class NoSecret(pq_encryption.KmsClient):
    """Keys that are wrapped by writing them down."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(key_bytes)


@pytest.mark.parametrize("plain_footer", [False, True])
def test_an_encrypted_file_is_called_encrypted(tmp_path: Path, plain_footer: bool) -> None:
    settings = pq_encryption.EncryptionConfiguration(
        footer_key="one", column_keys={"two": ["text"]}, plaintext_footer=plain_footer
    )
    factory = pq_encryption.CryptoFactory(lambda _: NoSecret())
    secrets = factory.file_encryption_properties(pq_encryption.KmsConnectionConfig(), settings)
    path = written(tmp_path / "a.parquet", {"id": ["a"], "text": ["one"]}, encryption_properties=secrets)
    with pytest.raises(InputError, match="is encrypted"):
        pages(path)


def test_rows_that_share_a_long_value_are_read_few_at_a_time(tmp_path: Path) -> None:
    long = "".join(map(str, range(6 << 20)))
    for value, rows in ((long[: 40 << 20], 3), (long[: 12 << 20], 10), (long[: 3 << 20], 42), ("short", 64)):
        column = pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int32()), pa.array([value]))
        path = written(tmp_path / "a.parquet", {"text": column}, dictionary_pagesize_limit=1 << 30)
        with open(path, "rb") as handle, open_parquet(pa, handle) as file:
            first = next(iter(batches_of(pa, file, handle, 0)))
            assert first.num_rows == rows


@pytest.mark.parametrize("form", ["list", "lists", "struct", "map", *(["json"] if hasattr(pa, "json_") else [])])
def test_a_row_that_repeats_a_long_value_is_refused_by_name_within_little_memory(tmp_path: Path, form: str) -> None:
    """A list names its values by numbers, which are packed to nothing."""
    times = 300
    items = pa.DictionaryArray.from_arrays(pa.array([0] * times, pa.int32()), ["a" * (1 << 20)])
    ends = pa.array([0, times], pa.int32())
    column = pa.ListArray.from_arrays(ends, items)
    if form == "json":
        column = column.cast(pa.list_(pa.json_()))
    if form == "lists":
        column = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), column)
    if form == "struct":
        column = pa.StructArray.from_arrays([column], ["within"])
    if form == "map":
        column = pa.MapArray.from_arrays(ends, pa.array(map(str, range(times))), items)
    options = {"compression": "zstd", "dictionary_pagesize_limit": 8 << 20, "store_schema": form == "json"}
    path = written(tmp_path / "a.parquet", {"text": column}, **options)
    assert Path(path).stat().st_size < 10_000
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(InputError, match=r"a.parquet has a row with 300 MB in the lists of text"):
            pages(path)
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < 30 << 20


def peak_of_batches(path: str) -> int:
    """Return the most bytes that pyarrow holds while it reads the batches of a file with one row group."""
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        with open(path, "rb") as handle, open_parquet(pa, handle) as file:
            assert sum(batch.num_rows for batch in batches_of(pa, file, handle, 0)) == file.metadata.num_rows
    finally:
        pa.set_memory_pool(before)
    peak: int = pool.max_memory()
    return peak


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"}], ids=str)
def test_lists_of_different_strings_take_no_more_memory_than_their_pages(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    texts = [f"{number:0400}" for number in range(60_000)]
    column = [texts[begin : begin + 10] for begin in range(0, 60_000, 10)]
    path = written(tmp_path / "a.parquet", {"text": column}, compression="none", **options)
    assert peak_of_batches(path) < 15 << 20


REPEATED = (
    "UEFSMRUEFYiAgAEVekwVAhUAEgAAKLUv/YBIBAAQAGwAACgAABAAYQEA+P850AICABBhAgAQYQIAEGECABBhAgAQYQIAEGECABBh"
    "IQAAYWFhYRUAFSgVOiwV2AQVEBUGFQYcNgAAAAAotS/9IBShAAAFAAAAA/7IBAEDAAAA2AQBAdgEABUEGSw1ABgGc2NoZW1hFQIA"
    "FQwlBBgEdGV4dCUATBwAAAAWAhkcGRwmABwVDBk1AAYQGRgEdGV4dBUMFtgEFv6AgAEWggImpAEmCBw2AAAZLBUEFQAVAgAVABUQ"
    "FQIAPBaAgICsAhkmAtYEGSYA2AQAAAAW/oCAARYCJggWggIAKCBwYXJxdWV0LWNwcC1hcnJvdyB2ZXJzaW9uIDI2LjAuMRkcHAAA"
    "AKgAAABQQVIx"
)
"""A file with the column `repeated binary text (String)`, as protobuf has it: a row with 300 times one MB."""


def test_a_repeated_column_without_a_list_is_measured_too(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(base64.b64decode(REPEATED))
    with pytest.raises(OSError, match="300 MB in the lists of text"):
        peak_of_batches(str(path))


def test_lists_with_too_many_items_or_long_values_of_one_length_are_refused(tmp_path: Path) -> None:
    def refused(items: Any, said: str) -> None:
        column = pa.ListArray.from_arrays(pa.array([0, len(items)], pa.int32()), items)
        path = written(tmp_path / "a.parquet", {"text": column}, compression="zstd", store_schema=False)
        with pytest.raises(OSError, match=said):
            peak_of_batches(path)

    refused(pa.array([b"a" * (1 << 16)] * 2_100, pa.binary(1 << 16)), "131 MB in lists up to text")
    refused(pa.array([b"a" * (1 << 16), *[None] * 2_100], pa.binary(1 << 16)), "131 MB in lists up to text")
    many = (1 << 24) + 1
    refused(pa.nulls(many, pa.int8()), "16,777,217 items")


def test_rows_with_long_values_of_one_length_are_read_few_at_a_time(tmp_path: Path) -> None:
    """Nulls stand for no bytes; they only make fewer rows be read at once."""
    rows = 64
    items = pa.array([b"a" * (1 << 16), *[None] * (100 * rows - 1)], pa.binary(1 << 16))
    column = pa.ListArray.from_arrays(pa.array(range(0, 100 * rows + 1, 100), pa.int32()), items)
    path = written(tmp_path / "a.parquet", {"text": column}, compression="zstd", store_schema=False)
    with open(path, "rb") as handle, open_parquet(pa, handle) as file:
        assert next(iter(batches_of(pa, file, handle, 0))).num_rows == 20
    empty = pa.array([None] * 200_000, pa.list_(pa.binary(768)))
    assert peak_of_batches(written(tmp_path / "b.parquet", {"text": empty})) < 15 << 20


def test_a_hole_in_a_file_is_named_at_once(tmp_path: Path) -> None:
    path = Path(written(tmp_path / "a.parquet", {"text": [["x", "y"]] * 100_000}, compression="none"))
    data = bytearray(path.read_bytes())
    with open(path, "rb") as handle, open_parquet(pa, handle) as file:
        chunk = file.metadata.row_group(0).column(0)
        begin, size = chunk.dictionary_page_offset, chunk.total_compressed_size
        data[begin : begin + size] = bytes(size)
    path.write_bytes(data)
    with open(path, "rb") as handle, open_parquet(pa, handle) as file:
        assert list(page_headers(handle, file.metadata.row_group(0).column(0))) == []
    with pytest.raises(InputError, match="damaged"):
        pages(str(path))


@pytest.mark.parametrize(
    ("again", "value"),
    [(b"\x05\x04\x90\x80\x80\x80\xc0\x01", 8), (b"\x08\x04\x01a", 2), (b"\x0d\x04" + bytes(16), 2)],
    ids=["low 32 bits", "no text", "no uuid"],
)
def test_a_field_that_comes_again_is_read_as_thrift_reads_it(again: bytes, value: int) -> None:
    data = b"\x15\x02\x15\x04" + again + b"\0"
    assert _struct(data, 0) == ({1: 1, 2: value}, len(data))


def test_lists_of_two_columns_with_one_name_are_refused(tmp_path: Path) -> None:
    items = pa.DictionaryArray.from_arrays(pa.array([0] * 300, pa.int32()), ["a" * (1 << 20)])
    column = pa.ListArray.from_arrays(pa.array([0, 300], pa.int32()), items)
    table = pa.Table.from_arrays([column, column], names=["text", "text"])
    path = str(tmp_path / "a.parquet")
    pq.write_table(table, path, compression="zstd", dictionary_pagesize_limit=8 << 20, store_schema=False)
    with pytest.raises(OSError, match=r"lists of two columns text\.list\.element"):
        peak_of_batches(path)


def test_lists_of_several_columns_are_measured_together(tmp_path: Path) -> None:
    items = pa.DictionaryArray.from_arrays(pa.array([0] * 70, pa.int32()), ["a" * (1 << 20)])
    column = pa.ListArray.from_arrays(pa.array([0, 70], pa.int32()), items)
    options = {"compression": "zstd", "dictionary_pagesize_limit": 8 << 20, "store_schema": False}
    path = written(tmp_path / "a.parquet", {"text": column, "other": column}, **options)
    with pytest.raises(OSError, match=r"140 MB in the lists of text.list.element and other.list.element"):
        peak_of_batches(path)


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"}], ids=str)
def test_the_headers_of_pages_are_read(tmp_path: Path, options: dict[str, Any]) -> None:
    texts = ["x" * 3_000 + str(number) for number in range(2_000)]
    path = written(tmp_path / "a.parquet", {"n": [1] * 2_000, "text": texts}, **options)
    with open(path, "rb") as handle, open_parquet(pa, handle) as file:
        for place in range(2):
            column = file.metadata.row_group(0).column(place)
            headers = list(page_headers(handle, column))
            pages = [header for header in headers if not header.is_dictionary]
            assert sum(header.values for header in pages) == 2_000
            coded = sum(header.values for header in pages if header.is_coded)
            assert [header.is_dictionary for header in headers].count(True) == ("use_dictionary" not in options)
            if "use_dictionary" in options:
                assert coded == 0
            else:
                assert coded == 2_000 if place == 0 else 0 < coded < 2_000


def test_values_of_the_dictionary_behind_others_are_measured() -> None:
    dictionary, coded, plain = (
        PageHeader(10, 2, True, False),
        PageHeader(10, 3, False, True),
        PageHeader(10, 4, False, False),
    )
    for pages, is_coded_first in (([coded, coded, plain], True), ([coded, plain, coded], False), ([plain], True)):
        column = _ListColumn.of("a", sum(page.values for page in pages), [dictionary, *pages])
        assert column.is_coded_first is is_coded_first
        assert (column.coded, column.dictionary_values) == (3 * pages.count(coded), 2)


def test_rows_with_long_lists_are_read_few_at_a_time(tmp_path: Path) -> None:
    lists = [["a" * 1_000_000] * 10] * 20
    path = written(tmp_path / "a.parquet", {"text": lists, "tags": [["x", "y"]] * 20}, compression="zstd")
    with open(path, "rb") as handle, open_parquet(pa, handle) as file:
        batches = list(batches_of(pa, file, handle, 0))
        assert [batch.num_rows for batch in batches] == [8, 8, 4]
        assert pa.Table.from_batches(batches).equals(file.read())


def test_a_column_whose_name_is_no_utf8_is_named(tmp_path: Path) -> None:
    path = Path(written(tmp_path / "a.parquet", {"text": ["a"], "other": ["b"]}, store_schema=False))
    path.write_bytes(path.read_bytes().replace(b"other", b"\xff\xfeher"))
    with pytest.raises(InputError, match="the name of a column is not valid UTF-8"):
        pages(str(path))


DAMAGING = """
import io, random, sys
import pyarrow as pa, pyarrow.parquet as pq
from simstream.sources.row_groups import batches_of, open_parquet

columns = {"id": list(map(str, range(200))), "tags": [[str(n), "a"] for n in range(200)]}
columns |= {"text": [f"word{n} " * 20 for n in range(200)], "n": list(range(200))}
out = io.BytesIO()
pq.write_table(pa.table(columns), out, row_group_size=50)
whole, chosen, damaged = out.getvalue(), random.Random(1), 0
footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
for _ in range(700):
    data = bytearray(whole)
    for _ in range(chosen.choice([1, 1, 2, 4])):
        at = chosen.randrange(footer, len(whole) - 8)
        data[at] = chosen.randrange(256) if chosen.random() < 0.5 else data[at] ^ 1 << chosen.randrange(8)
    handle = io.BytesIO(data)
    try:
        with open_parquet(pa, handle) as file:
            for group in range(file.metadata.num_row_groups):
                list(batches_of(pa, file, handle, group))
    except (pa.ArrowException, OSError, MemoryError):
        damaged += 1
print(damaged)
"""


def test_no_damage_to_the_footer_ends_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", DAMAGING], capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert 100 < int(done.stdout) < 600
