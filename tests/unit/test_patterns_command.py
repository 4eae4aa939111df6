"""`simstream patterns`: what it reads, prints and writes, and what it refuses."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import msgspec
import pytest

from simstream import Deduper
from simstream.cli.main import invoke
from simstream.errors import InputMissing, SettingsError
from simstream.sources.input_files import files_of
from simstream.tools.dedup.row_layouts import VERDICT_ROWS
from simstream.tools.patterns import pattern_file
from simstream.tools.patterns.pattern import LearnedPattern
from simstream.tools.patterns.pattern_file import from_json, read_patterns, to_json
from simstream.tools.patterns.verdicts import of_file
from simstream.wire import verdict as wire
from tests.bench.crawl_text import article

SITE = "https://a.example"
ARTICLES = 30
Said = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def lines() -> bytes:
    """Verdicts on articles and their print pages, as `dedup` writes them."""
    pages = [
        {"url": f"{SITE}/{form}/{number}", "text": "\n".join(article(number)[1])}
        for number in range(ARTICLES)
        for form in ("print", "article", "article")
    ]
    with Deduper() as deduper:
        return b"".join(wire.encode(verdict) + b"\n" for verdict in deduper.judge(pages))


@pytest.fixture
def verdicts(tmp_path: Path, lines: bytes) -> Path:
    path = tmp_path / "verdicts.jsonl"
    path.write_bytes(lines)
    return path


def test_it_shows_the_patterns_and_writes_them_to_a_file(verdicts: Path, tmp_path: Path, capsys: Said) -> None:
    out = tmp_path / "patterns.json"
    assert invoke(["patterns", str(verdicts), "-o", str(out)]) == 0
    said = capsys.readouterr()
    assert "/print/ for /article/" in said.out
    assert f"They would have saved {ARTICLES} of {2 * ARTICLES} fetches." in said.out
    [learned] = read_patterns(str(out))
    assert learned == LearnedPattern(SITE, "segment", "print", "article", "", ARTICLES, ARTICLES, ARTICLES)
    assert json.loads(out.read_text())["patterns"][0] == {
        "site": SITE,
        "kind": "segment",
        "name": "print",
        "to": "article",
        "below": "",
        "pages": ARTICLES,
        "copies": ARTICLES,
        "originals": ARTICLES,
        "most_lost": 0.095,
    }


@pytest.mark.parametrize("given", ["file://{path}", "{path.parent}/v*.jsonl"])
def test_a_file_of_verdicts_is_no_output(verdicts: Path, lines: bytes, given: str, capsys: Said) -> None:
    assert invoke(["patterns", given.format(path=verdicts), "-o", str(verdicts)]) == 2
    assert f"{verdicts} is an input, too" in capsys.readouterr().err
    assert verdicts.read_bytes() == lines


def test_packed_files_parquet_files_and_stdin_are_read_alike(
    lines: bytes, tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, table = tmp_path / "v.jsonl.gz", tmp_path / "v.parquet"
    packed.write_bytes(gzip.compress(lines))
    import pyarrow
    from pyarrow import parquet

    rows = [wire.decode(line) for line in lines.splitlines()]
    layout = VERDICT_ROWS.table
    parquet.write_table(pyarrow.table(layout.columns(pyarrow, rows), schema=layout.schema(pyarrow)), table)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    shown = []
    for source in (packed, table, "-"):
        assert invoke(["patterns", str(source)]) == 0
        shown.append(capsys.readouterr().out)
    assert "/print/" in shown[0]
    assert shown[0] == shown[1] == shown[2]


def test_rows_of_parquet_that_share_a_long_value_take_little_memory(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    rows, path = 250, tmp_path / "v.parquet"
    long = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows), ["".join(map(str, range(500_000)))])
    columns = {"id": long, "url": [None] * rows, "verdict": ["new"] * rows, "cluster_id": ["1"] * rows}
    table = pyarrow.table(columns | {"ordinal": range(rows)})
    parquet.write_table(table, path, dictionary_pagesize_limit=8 << 20, store_schema=False)
    before, pool = pyarrow.default_memory_pool(), pyarrow.proxy_memory_pool(pyarrow.default_memory_pool())
    pyarrow.set_memory_pool(pool)
    try:
        assert sum(1 for _ in of_file(*files_of([str(path)]))) == rows
    finally:
        pyarrow.set_memory_pool(before)
    assert pool.max_memory() < 400 << 20


def test_earlier_patterns_are_kept_in_the_same_file(verdicts: Path, tmp_path: Path, capsys: Said) -> None:
    out, none = tmp_path / "patterns.json", tmp_path / "none.jsonl"
    none.write_bytes(b"")
    assert invoke(["patterns", str(verdicts), "-o", str(out)]) == 0
    before = out.read_bytes()
    assert invoke(["patterns", str(none), "--earlier", str(out), "-o", str(out)]) == 0
    assert out.read_bytes() == before
    assert invoke(["patterns", str(none), "-o", str(out)]) == 0
    assert read_patterns(str(out)) == []
    assert "no pattern: each needs 29 different texts, and no exception" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b'{"id": "a"}\n', "line 1 is no verdict (Object missing required field `url`"),
        (b"\n[]\n", "line 2 is no verdict"),
        (b'{"id":"\xff"}\n', "line 1 is no verdict"),
        (b"[" * 100_000, "line 1 is no verdict"),
    ],
)
def test_a_line_that_is_no_verdict_is_named(tmp_path: Path, capsys: Said, content: bytes, error: str) -> None:
    path = tmp_path / "verdicts.jsonl"
    path.write_bytes(content)
    assert invoke(["patterns", str(path), "-o", str(tmp_path / "out.json")]) == 1
    assert error in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_what_cannot_be_right_is_refused(verdicts: Path, tmp_path: Path, capsys: Said) -> None:
    for arguments, error in (
        ([str(tmp_path / "none.jsonl")], "cannot be read"),
        ([str(verdicts), "--log", str(tmp_path)], "files of verdicts and a log are both given"),
        ([str(verdicts), "-o", str(verdicts)], "is an input, too"),
        ([str(verdicts), "--memory", "much"], "--memory is 'much'"),
        ([str(verdicts), "--most-lost", "0"], "--most-lost"),
        ([str(verdicts), "--most-lost", "nan"], "--most-lost"),
        ([str(verdicts), "--earlier", str(verdicts)], "is no file of patterns"),
        ([str(verdicts), "--earlier", str(tmp_path / "none.json")], "cannot be read"),
    ):
        assert invoke(["patterns", *arguments]) == 2
        assert error in capsys.readouterr().err
    (tmp_path / "page.html").write_text("<p>no verdicts</p>")
    assert invoke(["patterns", str(tmp_path / "page.html")]) == 2
    assert "holds no verdicts" in capsys.readouterr().err


def test_a_log_without_topics_is_named(tmp_path: Path, capsys: Said) -> None:
    assert invoke(["patterns", "--log", str(tmp_path / "log")]) == 1
    assert "simstream topics create" in capsys.readouterr().err


def test_names_of_strangers_cannot_steer_the_terminal(tmp_path: Path, capsys: Said) -> None:
    name = "\x1b[2J\u202e[red]x"
    verdict = {"verdict": "new", "merged_clusters": []}
    path = tmp_path / "verdicts.jsonl"
    path.write_bytes(
        b"".join(
            msgspec.json.encode(
                verdict | {"id": "x", "url": f"{SITE}/{n}{query}", "cluster_id": str(n), "ordinal": n}
            )
            + b"\n"
            for n in range(ARTICLES)
            for query in ("", f"?{name}=1")
        )
    )
    assert invoke(["patterns", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[red]x=" in shown


LEARNED = LearnedPattern(SITE, "parameter", "sid", "", "a\u202eb", 9, 8, 7)


def test_a_file_of_patterns_says_its_format_and_is_read_as_it_was_written() -> None:
    data = to_json([LEARNED, LEARNED])
    assert data.startswith(b'{\n "format": "simstream-patterns/1",')
    assert from_json(data, "x") == [LEARNED]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ((b"patterns/1", b"patterns/2"), "has the format 'simstream-patterns/2'"),
        ((b"parameter", b"regex"), "is no file of patterns"),
        ((SITE.encode(), b"a.example"), "has a pattern that cannot be used"),
        ((SITE.encode(), b"https://a.example/x"), "has a pattern that cannot be used"),
        ((b'"originals": 7', b'"originals": 0'), "has a pattern that cannot be used"),
        ((b'"most_lost"', b'"lost"'), "is no file of patterns"),
        ((b'"sid"', b'""'), "has a pattern that cannot be used"),
    ],
)
def test_another_file_is_refused_by_name(tmp_path: Path, changed: tuple[bytes, bytes], error: str) -> None:
    path = tmp_path / "patterns.json"
    path.write_bytes(to_json([LEARNED]).replace(*changed))
    with pytest.raises(SettingsError, match=error):
        read_patterns(str(path))


def test_a_file_that_is_missing_or_huge_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputMissing):
        read_patterns(str(tmp_path / "none"))
    monkeypatch.setattr(pattern_file, "MAX_FILE_BYTES", 100)
    (tmp_path / "large").write_bytes(b" " * 101)
    with pytest.raises(SettingsError, match="is larger than"):
        read_patterns(str(tmp_path / "large"))


def test_a_pattern_of_several_sites_is_one_line(tmp_path: Path, capsys: Said) -> None:
    path = tmp_path / "verdicts.jsonl"
    verdict = {"id": "x", "verdict": "new"}
    path.write_bytes(
        b"".join(
            msgspec.json.encode(
                verdict | {"url": f"https://{site}.example/{n}{query}", "cluster_id": str(n), "ordinal": n}
            )
            + b"\n"
            for site in "ab"
            for n in range(ARTICLES + 9 * (site == "b"))
            for query in ("", "?sid=1")
        )
    )
    assert invoke(["patterns", str(path)]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if "sid" in line]
    assert line.split() == ["?sid=", "2", "sites", "69", "69", "69", "9.5%"]
