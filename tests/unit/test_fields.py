"""Fields of other names in JSONL, and CSV: what page a line or a row is."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simstream.cli.main import invoke
from simstream.errors import InputError, UsageError
from simstream.model import Page, PageKind
from simstream.sources import csv_rows
from simstream.sources.csv_rows import csv_pages
from simstream.sources.fields import FieldNames
from simstream.sources.read import read_pages
from simstream.wire.page import PageLimits, decode
from tests.peak_memory import peak_memory

LIMIT = 1000
MAPPED = FieldNames(text="body", id="doc")


def pages_of(path: Path, data: bytes, fields: FieldNames | None = None) -> list[Page]:
    path.write_bytes(data)
    return [decode(record, PageLimits(LIMIT)) for record in read_pages([str(path)], LIMIT, fields)]


NESTED = [
    {"meta": {"doc": "a"}, "body": {"content": "one"}},
    {"meta": {"doc": "b"}, "body": {"content": ["two", ["three"], None]}, "text": "no"},
    {"meta": None, "body": {"content": "four"}},
    {"meta": {"doc": "d"}, "body": [{"content": "five"}, {"content": "six"}]},
    {"meta": {"doc": "e"}, "body": "no"},
    {"meta": {"doc": "f"}, "body.content": "seven"},
]


def test_a_name_with_dots_leads_into_objects_unless_a_field_is_called_so(tmp_path: Path) -> None:
    data = b"".join(json.dumps(one).encode() + b"\n" for one in NESTED)
    found = pages_of(tmp_path / "p.jsonl", data, FieldNames(text="body.content", id="meta.doc"))
    path = f"{tmp_path}/p.jsonl:3"
    assert [(page.id, page.text) for page in found] == [
        ("a", "one"), ("b", "two\nthree"), (path, "four"), ("d", "five\nsix"), ("e", None), ("f", "seven")
    ]  # fmt: skip


def test_a_way_that_no_page_has_is_refused(tmp_path: Path) -> None:
    data = b"".join(json.dumps(one).encode() + b"\n" for one in NESTED)
    with pytest.raises(UsageError, match=r"no page of .* has a field body\.text") as refused:
        pages_of(tmp_path / "p.jsonl", data, FieldNames(text="body.text"))
    assert "there are meta, body, text" in refused.value.todo


def test_a_named_field_is_the_text_or_id_and_counts_alone(tmp_path: Path) -> None:
    lines = [
        {"doc": 7, "id": "no", "body": "正文", "text": "no", "html": "no", "url": "u", "time": 5, "more": [1]},
        {"doc": "b", "text": "no"},
        {"id": "no", "url": "v", "body": "x"},
        {"doc": True, "body": "x"},
        {"doc": "e", "body": "\ud800"},
    ]
    data = b"\n".join([*(json.dumps(line).encode() for line in lines), b"{broken", b"[1]"])
    first, second, third, fourth, fifth, *others = pages_of(tmp_path / "p.jsonl", data, MAPPED)
    assert (first.id, first.text, first.raw, first.url, first.time) == ("7", "正文", None, "u", 5)
    assert (second.id, second.reason) == ("b", "no_text")
    assert (third.id, third.text) == ("v", "x")
    assert fourth.reason == "wrong_type"
    assert (fifth.id, fifth.text) == ("e", "\ud800")
    assert [page.reason for page in others] == ["bad_json", "bad_json"]


@pytest.mark.parametrize("field", ["doc", "body", "status", "time", "other"])
def test_a_number_of_too_many_digits_is_what_it_is_without_named_fields(tmp_path: Path, field: str) -> None:
    def read(text: str, name: str, fields: FieldNames | None) -> tuple[object, ...]:
        path = tmp_path / "p.jsonl"
        line = {name: "a", text: "b", {"doc": name, "body": text}.get(field, field): 0}
        path.write_text(json.dumps(line).replace(": 0", ": " + "1" * 5000))
        [page] = [decode(record, PageLimits()) for record in read_pages([str(path)], fields=fields)]
        return page.id, page.kind, page.reason, page.text

    assert read("body", "doc", MAPPED) == read("text", "id", None)


def test_lines_come_byte_for_byte_where_nothing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{ "id":"a" , "text":"x","more":1}')
    [record] = read_pages([str(path)])
    assert record.value == path.read_bytes()


def test_a_json_array_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a JSON array"):
        pages_of(tmp_path / "p.json", b'\n [\n{"id":"a","text":"x"},\n{"id":"b","text":"y"}]\n')


def test_pages_wait_for_the_first_with_the_text_and_keep_their_order(tmp_path: Path) -> None:
    before = [b'{"id":"%d","status":404}' % number for number in range(1500)]
    pages = pages_of(tmp_path / "p.jsonl", b"\n".join([*before, b'{"id":"x","text":"y"}', b"{broken", b"{}"]))
    assert [page.id for page in pages[:1501]] == [*map(str, range(1500)), "x"]
    assert [page.reason for page in pages[1501:]] == ["bad_json", "no_text"]
    assert len(pages_of(tmp_path / "p.jsonl", b"\n".join(before))) == 1500


def test_a_file_that_breaks_off_gives_the_lines_that_were_held_back(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"id":"a"}\n{"id":"b"}\n' + b" " * 400_000)[:-8])
    reader = read_pages([str(path)], LIMIT)
    assert [next(reader).key, next(reader).key] == [b"a", b"b"]
    with pytest.raises(InputError, match=r"p\.jsonl\.gz is damaged or cut off after line"):
        next(reader)


@pytest.mark.parametrize("missing", [FieldNames(id="doc"), FieldNames(text="body")])
def test_a_named_field_that_no_page_has_is_an_error(tmp_path: Path, missing: FieldNames) -> None:
    with pytest.raises(
        UsageError, match=r"has a field (doc|body): name it with --(id|text)-field; there are id, text"
    ):
        pages_of(tmp_path / "p.jsonl", b'{"id":"a","text":"x"}\n' * 2000, missing)


def test_a_number_of_very_many_digits_in_a_row_stays_text() -> None:
    digits = "2" * 5_000  # Python refuses to convert more than 4,300
    assert csv_rows._typed({"status": digits, "time": "12"}) == {"status": digits, "time": 12}


@pytest.mark.parametrize("ending", [".csv", ".CSV", ".csv.gz"])
def test_a_row_is_a_page_whatever_its_quotes_hold(tmp_path: Path, ending: str) -> None:
    data = (
        b"\xef\xbb\xbfid,text,time,status,url,more\r\n"
        b'a,"one, ""two""\r\n\r\nthree",2026-03-01T00:00:00Z,200,u,x\r\n'
        b"\r\n"
        b",plain,5,404,,\n"
        b"c\n"
        b'd,"\xff",1\n'
        b'e,stray " quote\nf,one more "\n'
        b"wide,one,,,,,,\nthree, and four,,,,,four and more\n"
        b"last,no end,,,,,,"
    )
    path = tmp_path / f"p{ending}"
    pages = pages_of(path, gzip.compress(data) if ending.endswith("gz") else data)
    assert [(page.id, page.offset) for page in pages] == [
        ("a", 1),
        (f"{path}:6", 5),
        ("c", 6),
        (f"{path}:8", 7),
        ("e", 8),
        ("f", 9),
        ("wide", 10),
        (f"{path}:12", 11),
        ("last", 12),
    ]
    assert pages[0].text == 'one, "two"\r\n\r\nthree'
    assert (pages[0].url, pages[0].time) == ("u", 1_772_323_200_000)
    assert (pages[1].kind, pages[1].time) == (PageKind.TOO_SHORT, 5)
    assert pages[2].reason == "no_text"
    assert pages[3].reason == "bad_json", "it is not UTF-8"
    assert [page.text for page in pages[4:6]] == ['stray " quote', 'one more "']
    assert pages[7].reason == "bad_json", "a field without a column would be lost"


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_what_the_standard_library_writes_is_read_again(rows: list[tuple[str, str]], end: str) -> None:
    written = io.StringIO(newline="")
    writer = csv.writer(written, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("id", "text"), *rows])
    stream = io.BufferedReader(io.BytesIO(written.getvalue().encode()))  # type: ignore[arg-type]
    found = [json.loads(value) for _, value in csv_pages(stream, "p.csv", LIMIT, FieldNames())]
    assert found == [{"id": page_id, "text": text} for page_id, text in rows]


def standard_rows(content: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the number of the first line, the text and the fields of each row, as Python's `csv` finds them."""
    lines = content.splitlines(keepends=True)
    reader, first = csv.reader(lines), 0
    for cells in reader:
        yield first + 1, "".join(lines[first : reader.line_num]).removesuffix("\n").removesuffix("\r"), cells
        first = reader.line_num


def holds_perhaps_rows(row: str) -> bool:
    try:
        list(csv.reader([row], strict=True))
    except csv.Error:
        return "\n" in row
    return False


@given(
    st.lists(st.sampled_from(["a", ",", ',"', '"', '""', '",', "\n", "\r\n"]), max_size=40).map("".join),
    st.integers(3, 9),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_rows_are_those_of_the_standard_library(body: str, piece_bytes: int, mark: bytes) -> None:
    content = f'"id","te\nxt",text\n{body}\nend'
    _, *rows, (last, _, ending) = standard_rows(content)
    expected = [
        row.encode()
        if any(cells[3:]) or holds_perhaps_rows(row)
        else msgspec.json.encode(dict(zip(("id", "text"), [*cells[:1], *cells[2:3]], strict=False)))
        for _, row, cells in rows
        if cells
    ]
    found, is_closed = [], ending == ["end"]
    stream = io.BufferedReader(io.BytesIO(mark + content.encode()))  # type: ignore[arg-type]
    with (
        patch.object(csv_rows, "_PIECE_BYTES", piece_bytes),
        nullcontext() if is_closed else pytest.raises(InputError, match=f"the row from line {last}:"),
    ):
        for _, value in csv_pages(stream, "p.csv", LIMIT, FieldNames()):
            found.append(value)  # an error may come behind them
    assert found == expected + [b'{"id":"end"}'] * is_closed


def test_an_open_quote_that_has_joined_rows_is_told(tmp_path: Path) -> None:
    pages = pages_of(tmp_path / "p.csv", b'id,text\na,"one\nb,two\nc,3" disk\nd,4" disk\n')
    assert [(page.text, page.reason) for page in pages] == [(None, "bad_json"), ('4" disk', "")]


def test_columns_have_other_names_where_they_are_named(tmp_path: Path) -> None:
    [page] = pages_of(tmp_path / "p.csv", b"doc,text,body\n7,no,yes\n", MAPPED)
    assert (page.id, page.text) == ("7", "yes")


@pytest.mark.parametrize(
    ("first", "fields", "option"),
    [
        (b"id,body", FieldNames(), "--text-field"),
        (b"", FieldNames(), "--text-field"),
        (b"id,text", FieldNames(text="body"), "--text-field"),
        (b"id,body", FieldNames(text="body.content"), "--text-field"),
        (b"id,text", FieldNames(id="doc"), "--id-field"),
    ],
)
def test_a_column_that_is_missing_is_named_before_any_page(
    tmp_path: Path, first: bytes, fields: FieldNames, option: str
) -> None:
    with pytest.raises(UsageError, match=option):
        pages_of(tmp_path / "p.csv", first + b"\na,b\n", fields)


@pytest.mark.parametrize(
    ("first", "fields", "twice"),
    [
        (b"id,text,text", FieldNames(), "text"),
        (b"time,text,time", FieldNames(), "time"),
        (b"doc,body,doc", FieldNames(text="body", id="doc"), "doc"),
    ],
)
def test_a_column_that_a_page_has_twice_is_refused_by_name(
    tmp_path: Path, first: bytes, fields: FieldNames, twice: str
) -> None:
    with pytest.raises(UsageError, match=f"has two columns named {twice}: rename one of them"):
        pages_of(tmp_path / "p.csv", first + b"\na,b,c\n", fields)


def test_a_column_that_no_page_has_may_be_there_twice(tmp_path: Path) -> None:
    [page] = pages_of(tmp_path / "p.csv", b"tag,text,tag\na,b,c\n", FieldNames())
    assert page.text == "b"


def test_a_row_that_is_too_long_costs_one_page(tmp_path: Path) -> None:
    long = b'b,"' + b"x,\n" * LIMIT + b'"\n'
    pages = pages_of(tmp_path / "p.csv", b"id,text\na,one\n" + long + b"c,two\n")
    assert [(page.text, page.reason) for page in pages] == [("one", ""), (None, "too_large"), ("two", "")]
    assert pages[2].offset == 3 + LIMIT


def test_quotes_that_never_close_are_an_error_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(b'id,text\na,one\nb,"' + (b"x" * 50_000 + b"\n") * 320)
    with peak_memory() as peak:
        reader = read_pages([str(path)], LIMIT)
        assert decode(next(reader), PageLimits(LIMIT)).id == "a"
        with pytest.raises(InputError, match="the row from line 3"):
            next(reader)
    assert peak.bytes < 4 << 20


def test_dedup_takes_csv_and_names_and_keeps_rows_in_csv_alone(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))
    text = "The night train now stops at the mill village again after forty years, and the baker opens before dawn."
    Path("p.csv").write_text(f'doc,body\na,"{text}"\n')
    Path("q.jsonl").write_text(json.dumps({"doc": "b", "body": text}))
    assert invoke(["dedup", "p.csv", "q.jsonl", "--text-field", "body", "--id-field", "doc", "-o", "out"]) == 0
    verdicts = [json.loads(line) for line in Path("out").read_text().splitlines()]
    assert [(v["id"], v["near_duplicate_of"]) for v in verdicts] == [("a", None), ("b", "a")]
    capsys.readouterr()
    assert invoke(["dedup", "p.csv", "--keep", "kept"]) == 2
    assert (
        "--keep writes rows of CSV, as the inputs have them, and kept does not end in .csv"
        in capsys.readouterr().err
    )
