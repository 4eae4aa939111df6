"""Every program of this folder runs by its command line, as small as it can be, and prints what it is there for.

Figures are not looked at: on a machine that others use, and at these sizes, they say nothing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.bench.__main__ import NAMES
from tests.bench.measure import generate
from tests.e2e.test_prometheus import installed
from tests.hostile_html import ordinary
from tests.kafka_fixtures import need_broker

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PATIENCE_S = 240
"""Kernels may have to be compiled first."""
FIGURE = r"[\d,.]*\d"
RUN_HERE = {"text", "index", "pages", "commands", "service"}
ELSEWHERE = {"latency"}
"""Names of `python -m tests.bench` with a test of their own, in another file."""
PROGRAMS = {
    "__main__.py",
    "bench_index.py",
    "bench_pages.py",
    "crawl.py",
    "crowd.py",
    "dashboard.py",
    "dedup_memory.py",
    "dedup_peers.py",
    "expiry.py",
    "extraction.py",
    "parquet.py",
    "patterns.py",
    "peers.py",
    "queries.py",
    "rebuild.py",
    "restart.py",
    "same_verdicts.py",
    "schemes.py",
    "shards.py",
    "state.py",
    "tables.py",
    "unindexed.py",
    "window.py",
}
STARTED_BY_OTHERS = {"crawl_spider.py", "peer_datatrove.py"}
IN_ANOTHER_FILE = {"hostile.py", "latency.py"}


def said(cache: Path, module: str, *arguments: object) -> str:
    """What a program prints; it must end with 0."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "SIMSTREAM_CACHE": str(cache)},
        timeout=PATIENCE_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def expect(text: str, *lines: str) -> None:
    """Each of these patterns, in which # is a figure, is found in the text; they come in this order."""
    at = 0
    for line in lines:
        found = re.compile(line.replace("#", FIGURE)).search(text, at)
        assert found, f"{line!r} is not said, or not in its place:\n{text}"
        at = found.end()


def test_no_program_is_without_a_run_of_its_own() -> None:
    guarded = {file.name for file in HERE.glob("*.py") if '\nif __name__ == "__main__":' in file.read_text("utf-8")}
    assert guarded == PROGRAMS | STARTED_BY_OTHERS | IN_ANOTHER_FILE
    assert set(NAMES) == RUN_HERE | ELSEWHERE


@pytest.mark.long
def test_text_is_compared_with_jieba_and_says_when_a_peer_is_missing(cache: Path) -> None:
    text = said(cache, "tests.bench", "text", "--count", 40, "--rounds", 1)
    peer = "against rjieba.cut: # x" if find_spec("rjieba") else "rjieba is missing: pip install rjieba to compare"
    expect(text, "== text: tokens", "checked: all # tokens are jieba's", "against jieba.lcut: # x", peer)
    expect(text, "checked: from the same words the peer makes the same bits", "in tokens' cost: # x")


def test_the_index_is_compared_with_a_scan(cache: Path) -> None:
    text = said(cache, "tests.bench", "index", "--count", 10, "--size", 3000)
    for distance in (3, 5, 8):
        expect(
            text, f"k={distance} n=3,000: plain scan +# us a query", "chosen .* # x the scan", "in the background"
        )


def test_the_index_can_be_measured_at_one_distance(cache: Path) -> None:
    text = said(cache, "tests.bench.bench_index", "--size", 3000, "--queries", 50, "--distance", 4)
    expect(text, "k=4 n=3,000", "merged at once: add # us an entry", "bytes an entry: #")
    assert "k=3" not in text


def test_the_page_store_is_measured_in_memory_and_on_disk(cache: Path) -> None:
    for arguments in (("tests.bench", "pages", "--count", 10), ("tests.bench.bench_pages",)):
        text = said(cache, *arguments, "--size", 70_000)
        expect(
            text, "directory: add # ns", "directory: # bytes a page", "read from disk # us", "# steps of compaction"
        )


def test_commands_are_compared_with_what_their_imports_cost(cache: Path) -> None:
    text = said(cache, "tests.bench", "commands", "--count", 5, "--rounds", 1)
    expect(text, "checked: --help names the commands", "simstream --help +# ms", "against `import numba`: # x")


def test_pages_like_thousands_of_others_are_set_beside_distinct_ones(cache: Path) -> None:
    expect(
        said(cache, "tests.bench.crowd", "--pages", 4_000),
        "live pages +distinct +alike",
        "2,000 +# +# +#",
        "4,000 +# +#",
    )


def test_a_window_that_moves_at_once_is_timed(cache: Path) -> None:
    expect(
        said(cache, "tests.bench.expiry", "--pages", 5_000),
        "any: 5,000 pages left in # s: # us a page",
        "% .aim 10.",
    )


@pytest.mark.parametrize("texts", [0, 300])
def test_a_full_window_is_set_beside_none(cache: Path, texts: int) -> None:
    expect(
        said(cache, "tests.bench.window", "--live", 6_000, "--pages", 1_000, "--texts", texts),
        "6,0[01][0-9] live pages, .* texts, 60 pages a batch",
        "with a full window # us a page",
        "without a window # us a page",
        "with to without: # x",
    )


def test_articles_by_kernels_are_set_beside_the_parser(cache: Path, tmp_path: Path) -> None:
    small = ("--size", 20_000, "--count", 5, "--rounds", 1)
    gbk = "Python's time, to the kernel's: # x", "in GBK, to the same in UTF-8: # x"
    as_json = "in JSON, to that of its bytes: # x", "Python's strings, to this one: # x"
    first = "kernels: # MB/s, # us a page", "time of the parser, to the kernels: # x"
    lines = *first, *gbk, *as_json, "an ordinary one: # x"
    expect(said(cache, "tests.bench.extraction", *small), "5 pages of # KB", *lines)
    (tmp_path / "a.html").write_text(ordinary(5_000))
    real = said(cache, "tests.bench.extraction", *small, "--pages", tmp_path, "--least", 1)
    expect(real, "1 pages of # KB", *lines)


def test_tables_are_set_beside_lists_of_dicts(cache: Path) -> None:
    text = said(cache, "tests.bench.tables", "--pages", 100, "--rounds", 1)
    expect(text, "checked: judge and judge_table give the same verdicts", "to that by lists of dicts: # x")


def test_parquet_is_set_beside_jsonl(cache: Path) -> None:
    text = said(cache, "tests.bench.parquet", "--pages", 100, "--rounds", 1)
    expect(text, "checked: both files give the same pages", "pages.parquet: # us a page", "Parquet, to JSONL: # x")


def test_the_peers_are_compared_over_labelled_pages_and_the_missing_ones_are_named(
    cache: Path, tmp_path: Path
) -> None:
    pages, pairs = tmp_path / "docs.jsonl", tmp_path / "pairs.jsonl"
    made = list(generate(9))
    edited = [{"id": f"{page['id']} edited", "text": page["text"] + "One more sentence."} for page in made]
    pages.write_text("".join(f"{json.dumps(page)}\n" for page in (*made, *edited)), "utf-8")
    labels = [{"a": old["id"], "b": new["id"], "label": 1} for old, new in zip(made, edited, strict=True)]
    pairs.write_text("".join(f"{json.dumps(pair)}\n" for pair in labels), "utf-8")
    text = said(cache, "tests.bench.peers", "--pages", pages, "--pairs", pairs, "--peers", tmp_path)
    for package, module in (("datasketch", "datasketch"), ("rensa", "rensa"), ("text-dedup", "text_dedup")):
        expect(text, f"{package}.* +#%" if find_spec(module) else f"{package} is left out .*pip install")
    expect(
        text,
        "18 pages",
        "9 >= .9",
        "checked: # methods find a copy",
        "simstream, default +100.0% ",
        "google2007 +#%",
        "in Python: #",
    )


def test_a_collection_goes_through_dedup_and_the_missing_programs_are_named(cache: Path) -> None:
    text = said(cache, "tests.bench.dedup_peers", "--pages", 20_000)
    of_edited = r"of the edited pages; lost 0\.0000%"
    expect(
        text,
        "20,000 pages",
        rf"simstream: # s.*missed 0, at most 0\.00% {of_edited}",
        rf"simstream --distance 8: # s.*missed \d, at most 0\.\d\d% {of_edited}",
    )
    for package, module in (("text-dedup", "text_dedup"), ("datatrove", "datatrove")):
        expect(text, f"{package}: # s" if find_spec(module) else f"{package} is missing: give --peers")


def test_questions_are_timed_from_another_process(cache: Path) -> None:
    text = said(cache, "tests.bench.queries", "--pages", 2000, "--questions", 5)
    expect(text, "2,000 live pages", "60 words: median +# ms", "600 words: median +# ms")


def test_shards_are_set_beside_one_index(cache: Path) -> None:
    text = said(cache, "tests.bench.shards", "--entries", 20_000, "--shards", 4, "--pages", 200)
    expect(
        text, "20,000 random entries", "one index: # us", "the largest shard: # MB", "all shards, of one index: # x"
    )


def test_verdicts_by_shards_are_compared_byte_for_byte(cache: Path) -> None:
    text = said(cache, "tests.bench.same_verdicts", "--count", 1_500, "--texts", 300, "--shards", 2, "--shards", 8)
    expect(text, "1,500 pages", "'unchanged': #", "2 shards: the same bytes; # us", "8 shards: the same .* # bytes")


def test_verdicts_are_the_same_bytes_after_every_shard_has_lost_its_state(cache: Path) -> None:
    text = said(
        cache, "tests.bench.same_verdicts", "--count", 9_000, "--texts", 300, "--shards", 2, "--lose", 4_000
    )
    expect(text, "9,000 pages", "2 shards: the same bytes; # us", "2 states lost")


def test_taking_in_a_log_is_compared_with_answering_it(cache: Path) -> None:
    text = said(cache, "tests.bench.rebuild", "--pages", 20_000)
    expect(text, "20,000 pages in frames of 100", "taken in: # pages a second, # of", "answered: # .* # times as")


@pytest.mark.long
def test_schemes_are_compared_and_drawn(cache: Path, tmp_path: Path) -> None:
    text = said(cache, "tests.bench.schemes", "--most", 8, "--svg", tmp_path / "schemes.svg")
    expect(text, "256 +scan of all +# us a query", "permuted tables .* # us a query", "table of all variants")
    assert (tmp_path / "schemes.svg").read_text("utf-8").endswith("</svg>\n")


def test_a_state_is_filled_saved_and_taken_up_again(cache: Path) -> None:
    text = said(cache, "tests.bench.state", "--pages", 5000)
    expect(text, "5,000 live pages, # % of all alike", "page store +# bytes a page", "restart: # s until")


def test_a_shard_is_filled_saved_and_taken_up_again(cache: Path) -> None:
    text = said(cache, "tests.bench.state", "--pages", 5000, "--shards", 8, "--threads", 2)
    expect(text, "# live pages, # % of all alike", "tables +# bytes a page", "restart: # s until")


def test_a_judge_without_an_index_is_filled(cache: Path) -> None:
    text = said(cache, "tests.bench.unindexed", "--pages", 6000, "--shards", 2)
    expect(
        text, "6,000 pages, 20% of them alike, 2 shards", "directory +# bytes", "# bytes a live page", "# us a page"
    )


def test_the_memory_of_dedup_is_noted_while_it_judges(cache: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    text = said(
        cache, "tests.bench.dedup_memory", "--pages", 3000, "--vocabulary", 200, "--folder", tmp_path, "--state"
    )
    expect(text, "3,000 pages --state: # s, # s of CPU", "own -?#, mapped -?# bytes a page", "directory +# bytes")


def test_copies_and_templates_are_set_beside_distinct_pages(cache: Path) -> None:
    text = said(cache, "tests.bench.state", "--alike", "--pages", 1000)
    expect(text, "distinct pages +#", "copies of one page .* # / #", "one template, any", "one template, canonical")


@pytest.mark.long
def test_a_restart_is_timed_after_a_clean_stop_and_after_a_kill(cache: Path) -> None:
    text = said(cache, "tests.bench.restart", "--pages", 2000, "--tail", 200)
    expect(text, "2,000 pages judged in", "ready after a clean stop: # s", "ready after a kill, 200 pages .*: # s")


@pytest.mark.kafka
@pytest.mark.long
def test_the_service_is_compared_with_a_reader_and_each_verdict_with_the_deduper(cache: Path) -> None:
    need_broker()
    text = said(cache, "tests.bench", "service", "--count", 50, "--repeat", 2)
    expect(
        text, "checked: one verdict each", "are those of Deduper", "the service # pages/s", "only reading, .*: # x"
    )


@pytest.mark.kafka
@pytest.mark.long
def test_a_crawl_is_compared_with_one_without_simstream(cache: Path) -> None:
    need_broker()
    size = {"articles": 8, "archived": 4, "mirrors": 1, "sessions": 1, "months": 3, "days": 1, "tags": 3}
    text = said(cache, "tests.bench.crawl", *(f"--{name}={value}" for name, value in size.items()))
    expect(
        text, "without simstream +# fetched", "with it: probe +# fetched +# useless +12 articles", "#% of useless"
    )


@pytest.mark.kafka
@pytest.mark.long
def test_patterns_of_a_crawl_are_measured_in_the_next_ones(cache: Path) -> None:
    need_broker()
    # Where links are probed; tests/e2e/test_crawl.py follows every link.
    # With half as many articles a crawl that probes saves some fetches or none, as their order will have it.
    size = {"articles": 40, "archived": 12, "mirrors": 0, "sessions": 3, "months": 2, "days": 1, "tags": 3}
    asked = size | {"links": "probe"}
    text = said(cache, "tests.bench.patterns", *(f"--{name}={value}" for name, value in asked.items()))
    expect(
        text,
        r"\?sid= ",
        "/print/ for /article/",
        "probe: #% of useless fetches saved by patterns, 0 articles lost",
    )


@pytest.mark.kafka
@pytest.mark.corpora
@pytest.mark.long
def test_the_dashboard_is_drawn_from_a_real_run(cache: Path, tmp_path: Path) -> None:
    need_broker()
    installed()
    file = tmp_path / "dashboard.png"
    text = said(cache, "tests.bench.dashboard", "--minutes", 0.1, "--pages", 200, file)
    expect(text, "dashboard.png; alerts that fired at the end: ")
    assert file.read_bytes().startswith(b"\x89PNG")
