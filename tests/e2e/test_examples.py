"""The programs of `examples/`, its notebook, and the clients' docstrings do what they say."""

from __future__ import annotations

import asyncio
import contextlib
import doctest
import io
import json
import os
import re
import runpy
import secrets
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer

from deploy.kafka.broker import KafkaBroker
from simstream import AsyncClient, Client, Deduper, RawPage, RecordTooLarge, Verdict, fingerprint
from simstream.client import aio, pages, sync
from simstream.model import PageSource
from tests.e2e.harness import PATIENCE_S, Program
from tests.kafka_fixtures import TopicPlace
from tests.missing import skip_or_fail
from tests.web_server import LoopbackServer, serving


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


EXAMPLES = Path(__file__).parents[2] / "examples"
PAGES = EXAMPLES / "pages.jsonl"
TEXTS = {page.get("id") or page["url"]: page["text"] for page in read_lines(PAGES)}
LONG = [text for text in TEXTS.values() if text.isascii() and len(text) > 600]
STORIES = list({text[:16]: text for text in reversed(LONG)}.values())
"""One text of each English story."""
ADDRESS = "kafka://127.0.0.1:9092"
"""What the clients' docstrings show."""

Run = Callable[..., str]


@pytest.fixture
def run(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a program of `examples/` in this process; return what it prints."""
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))

    def run(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_the_table_of_the_readme_names_each_example_and_its_own_words_are_short() -> None:
    programs = {path.name: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py")}
    table = re.findall(r"^\| \[(\S+)\]\(\1\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    others = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".ipynb", ".mjs", ".java")}
    assert set(table) == {*programs, *others}
    assert {name: len(text.splitlines()) for name, text in programs.items() if len(text.splitlines()) > 60} == {}
    named = [name for name, text in programs.items() if f"examples/{name}" in text]
    assert sorted(named) == sorted(programs)  # how to run it stands in its docstring


def test_jsonl_unique_keeps_the_first_of_each_group(run: Run, tmp_path: Path) -> None:
    said = run("jsonl_unique.py", PAGES, tmp_path / "unique.jsonl")
    kept = (tmp_path / "unique.jsonl").read_text(encoding="utf-8").splitlines()
    assert said == f"{len(kept)} of 30 pages kept\n"
    assert kept[0] == PAGES.read_text(encoding="utf-8").splitlines()[0]
    assert 10 < len(kept) < 25


def test_jsonl_unique_passes_over_blank_lines(run: Run, tmp_path: Path) -> None:
    lines = [json.dumps({"id": name, "text": text}) for name, text in zip("ab", STORIES, strict=False)]
    (tmp_path / "pages.jsonl").write_text(f"\n{lines[0]}\n \n{lines[1]}\n\n", encoding="utf-8")
    assert run("jsonl_unique.py", tmp_path / "pages.jsonl", tmp_path / "unique.jsonl") == "2 of 2 pages kept\n"
    assert (tmp_path / "unique.jsonl").read_text(encoding="utf-8").splitlines() == lines


def test_parquet_table_adds_the_verdicts_as_columns(run: Run, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    story = STORIES[0]
    rows = [{"id": "a", "text": story}, {"id": "b", "text": story + " Again."}, {"id": "c", "text": STORIES[1]}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    assert run("parquet_table.py", tmp_path / "in.parquet", tmp_path / "out.parquet").startswith(
        "3 rows, 2 of them new"
    )
    out = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [(row["id"], row["verdict"], row["near_duplicate_of"]) for row in out] == [
        ("a", "new", None),
        ("b", "near_duplicate", "a"),
        ("c", "new", None),
    ]


@pytest.mark.parametrize("way", ["duckdb", "datasets"])
def test_other_tables_keeps_the_new_rows_with_all_their_columns(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({name: [row[name] for row in read_lines(PAGES)] for name in ("url", "text")})
    pq.write_table(table, tmp_path / "in.parquet")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    said = run("other_tables.py", way, tmp_path / "in.parquet", tmp_path / "out.parquet")
    with Deduper() as deduper:
        kinds = deduper.judge_table(table)["verdict"].to_pylist()
    unique = table.filter(pa.array([kind == "new" for kind in kinds]))
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == unique.to_pylist()
    assert f"{unique.num_rows} of 30 rows are new: " in said


def test_match_corpus_finds_the_page_of_a_text(run: Run, tmp_path: Path) -> None:
    assert run("match_corpus.py", "corpus", tmp_path / "state", PAGES).startswith("30 pages read, ")
    name, text = next((name, text) for name, text in TEXTS.items() if text == STORIES[0])
    assert run("match_corpus.py", "ask", tmp_path / "state", text).startswith(f"{name}: 0 bits apart")
    assert run("match_corpus.py", "ask", tmp_path / "state", "no such page") == "no page of the corpus matches\n"


def test_the_crawler_says_in_one_line_what_it_lacks(tmp_path: Path) -> None:
    command = [sys.executable, EXAMPLES / "crawler.py", tmp_path / "log", "http://127.0.0.1:9/"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr.startswith("there is no topic simstream.pages")) == (1, True)
    assert len(done.stderr.splitlines()) == 1


def test_explain_pair_says_which_rule_decides(run: Run, tmp_path: Path) -> None:
    one, other = tmp_path / "one.txt", tmp_path / "other.txt"
    one.write_text(STORIES[0])
    for text, said in (
        (STORIES[0] + " Again.", r"a match: \d bits apart \(at most 8\), similarity [01]\.\d"),
        (STORIES[1], "no match: they differ in more than 16 bits"),
        ("too short", r"no match: a text cannot be compared \(few_words\)"),
    ):
        other.write_text(text)
        assert re.match(said, run("explain_pair.py", one, other))


def test_hamming_names_the_nearest_text(run: Run, tmp_path: Path) -> None:
    lines = [STORIES[0], STORIES[1], "short", STORIES[0] + " Again."]
    (tmp_path / "texts.txt").write_text("\n".join(lines))
    said = run("hamming.py", tmp_path / "texts.txt").splitlines()
    assert [line.split(":")[0] for line in said] == ["line 1", "line 2", "line 4"]
    assert said[0].startswith(f"line 1: {fingerprint([STORIES[0]])[0]:016x}, nearest is line 4, ")


@pytest.mark.parametrize("text", ["short", f"short\n{STORIES[0]}"])
def test_hamming_says_that_there_are_no_two_texts_to_compare(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "texts.txt").write_text(text)
    with pytest.raises(SystemExit, match="fewer than two lines have enough words"):
        run("hamming.py", tmp_path / "texts.txt")


def test_compare_recipes_shows_precision_and_recall(run: Run, tmp_path: Path) -> None:
    (tmp_path / "wide.toml").write_text('distance = 16\nsimilarity = "0"\n')
    head, *rows = run(
        "compare_recipes.py", EXAMPLES / "text_pairs.jsonl", "google2007", tmp_path / "wide.toml"
    ).splitlines()
    assert head.split() == ["recipe", "precision", "recall"]
    found = {name: (float(precision), float(recall)) for name, precision, recall in map(str.split, rows)}
    assert set(found) == {"google2007", "wide"}
    assert found["google2007"][1] < found["wide"][1]


def test_train_weights_makes_a_recipe_with_other_fingerprints(run: Run, tmp_path: Path) -> None:
    said = run("train_weights.py", PAGES, tmp_path / "weights.txt")
    assert said.startswith("lightest words: ")
    assert int(said.split()[-1]) > 0
    assert (tmp_path / "weights.toml").is_file()


def test_news_feed_shows_the_largest_stories_of_a_file_of_verdicts(
    run: Run, alone: Program, tmp_path: Path
) -> None:
    alone.dedup(PAGES, "-o", "verdicts.jsonl")
    sizes: dict[str, set[str]] = {}
    for verdict in read_lines(tmp_path / "verdicts.jsonl"):
        if verdict["cluster_id"] is not None:
            sizes.setdefault(verdict["cluster_id"], set()).add(verdict["id"])
    said = run("news_feed.py", tmp_path / "verdicts.jsonl", 3).splitlines()
    assert [int(line.split()[0]) for line in said] == sorted(map(len, sizes.values()), reverse=True)[:3]


def verdict_on(page_id: str, ordinal: int, cluster: int, *merged: str) -> Verdict:
    """The verdict on a page that belongs to a cluster."""
    kind = "new" if ordinal == cluster else "near_duplicate"
    place = PageSource("pages", 0, ordinal)
    return Verdict(
        page_id, None, kind, None, None, None, None, str(cluster), None, merged, None, "0" * 8, ordinal, 1, place
    )


def test_news_feed_shows_one_story_if_the_merge_of_two_stands_before_their_pages(run: Run, tmp_path: Path) -> None:
    lines = [verdict_on("a", 0, 0), verdict_on("x", 3, 0, "1"), verdict_on("b", 1, 1), verdict_on("c", 2, 1)]
    (tmp_path / "verdicts.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    assert run("news_feed.py", tmp_path / "verdicts.jsonl") == "4 pages of 1 sites: a\n"


def test_the_notebook_prints_what_it_shows(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))
    monkeypatch.chdir(EXAMPLES)
    space: dict[str, object] = {}
    cells = json.loads((EXAMPLES / "research.ipynb").read_text(encoding="utf-8"))["cells"]
    for cell in [cell for cell in cells if cell["cell_type"] == "code"]:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), cell["id"], "exec"), space)
        [shown] = cell["outputs"]
        assert printed.getvalue() == "".join(shown["text"])


def test_what_the_readme_says_to_try_runs_from_the_root(
    run: Run, alone: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for name in ("README.md", "docs", "examples"):
        (tmp_path / name).symlink_to(EXAMPLES.parent / name)
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("pyarrow")
    [table] = re.findall(r"python -c \"(.*?)\"\n", text, re.DOTALL)
    exec(table.replace("\n  ", "\n"), {})
    [verdicts] = re.findall(r"`simstream dedup (.*)`", text)
    alone.dedup(*verdicts.split())
    tries = [shlex.split(line) for line in re.findall(r"`python examples/(.+)`", text)]
    assert {name for name, *_ in tries} == {path.name for path in EXAMPLES.glob("*.py")} - {"spider.py"}
    for name, *arguments in tries:
        if name != "spark_frames.py" and not any("127.0.0.1" in word for word in arguments):  # test_spark runs it
            assert run(name, *arguments) != "", name


@pytest.mark.parametrize(
    "name", sorted({path.name for path in EXAMPLES.glob("*.py")} - {"spider.py", "crawl4ai_crawler.py"})
)
def test_a_program_without_arguments_says_how_to_call_it(run: Run, name: str) -> None:
    with pytest.raises(SystemExit, match=f"python examples/{name} "):
        run(name)


def test_news_feed_says_that_pages_are_no_verdicts(run: Run) -> None:
    with pytest.raises(SystemExit, match=r"pages.jsonl: a line is not a verdict \(.+\); write verdicts with"):
        run("news_feed.py", PAGES)


def test_hamming_ends_quietly_if_nobody_reads_on() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    call = [sys.executable, EXAMPLES / "hamming.py", PAGES]
    ended = subprocess.run(call, stdout=writer, stderr=subprocess.PIPE, check=False, timeout=PATIENCE_S)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.fixture(scope="module")
def served(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[TopicPlace]:
    """A running service over the broker, for the rest of this module."""
    place = TopicPlace(broker.address, f"x{secrets.token_hex(4)}")
    with place.open() as log:
        log.create_topics(2)
    with Program(tmp_path_factory.mktemp("examples"), cache, place).serve() as service:
        service.ready()
        yield place
        assert service.end() == 0


@contextlib.contextmanager
def site(story: str, other: str, more: str = "") -> Iterator[str]:
    """Yield the address of a site: a story, its copy, a page that only the copy links to, and another story. The
    first page has `more` behind its links."""
    bodies = {
        "/": f'<p>{story}</p><a href="/copy">copy</a> <a href="/other">other</a>{more}',
        "/copy": f'<p>{story} Printed.</p><a href="/behind">behind</a>',
        "/other": f"<p>{other}</p>",
        "/behind": "<p>Only a copy leads here.</p>",
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path in bodies else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(f"<html><body><main>{bodies.get(self.path, '')}</main></body></html>".encode())

    with serving(LoopbackServer(Handler)) as server:
        yield f"{server.url}/"


@pytest.mark.kafka
def test_the_crawler_follows_the_links_of_copies_last(
    run: Run, served: TopicPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMSTREAM_PREFIX", served.prefix)
    with site(STORIES[0], STORIES[1], '<a href="/新 闻">unescaped</a>') as start:
        *lines, last = run("crawler.py", served.address, start).splitlines()
    assert lines == [
        f"{start} new ",
        f"{start}copy near_duplicate {start}",
        f"{start}other new ",
        f"{start}%E6%96%B0%20%E9%97%BB: HTTP Error 404: Not Found",
        f"{start}behind too_short ",
    ]
    assert last == "1 near_duplicate, 2 new, 1 too_short"


class PickyClient:
    """A client of a service whose topic admits only short pages."""

    def __init__(self, deduper: Deduper) -> None:
        self._deduper = deduper

    def submit(self, page: RawPage) -> Future[Verdict]:
        answer = Future[Verdict]()
        if len(page.body) > 8_000:
            answer.set_exception(RecordTooLarge("the topic does not admit a record of this size"))
        else:
            answer.set_result(self._deduper.judge([{"url": page.url, "html": page.body.decode()}])[0])
        return answer


def test_the_crawler_goes_on_behind_a_page_that_is_too_large(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = runpy.run_path(str(EXAMPLES / "crawler.py"))["crawl"]
    with site(STORIES[0], "x " * 8_000) as start, Deduper(cache=cache) as deduper:
        assert crawl(PickyClient(deduper), start) == {"new": 1, "near_duplicate": 1, "too_short": 1}
    assert f"{start}other: the topic does not admit a record of this size" in capsys.readouterr().out


@pytest.mark.kafka
def test_the_crawlee_crawl_follows_the_links_of_copies_last(served: TopicPlace, tmp_path: Path) -> None:
    if find_spec("crawlee") is None:
        skip_or_fail("run pip install 'crawlee[parsel]'")
    with site(STORIES[4], STORIES[5]) as start:
        command = [sys.executable, str(EXAMPLES / "crawlee_crawler.py"), served.address, start]
        variables = os.environ | {"SIMSTREAM_PREFIX": served.prefix}
        done = subprocess.run(
            command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "1 near_duplicate, 2 new, 1 too_short"
    assert not list(tmp_path.iterdir())  # its queue is in memory


class LocalClient:
    """An asynchronous client of a service that judges in this process."""

    def __init__(self, deduper: Deduper) -> None:
        self._deduper = deduper

    async def __aenter__(self) -> LocalClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def judge(self, page: RawPage) -> Verdict:
        return self._deduper.judge([{"url": page.url, "html": page.body.decode()}])[0]


def crawlee_crawl(cache: Path, most: int, interrupted_at: int | None = None) -> Counter[str]:
    """The verdicts of a Crawlee crawl of at most so many pages, at a site of nine copies; SIGINT comes at one."""
    if find_spec("crawlee") is None:
        skip_or_fail("run pip install 'crawlee[parsel]'")
    crawl = runpy.run_path(str(EXAMPLES / "crawlee_crawler.py"))["crawl"]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            number = int(self.path.strip("/") or 0)
            if number == interrupted_at:
                os.kill(os.getpid(), signal.SIGINT)
            link = f'<a href="/{number + 1}">next</a>' if number < 8 else ""
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(f"<html><body><main><p>{STORIES[0]}</p></main>{link}</body></html>".encode())

    with serving(LoopbackServer(Handler)) as server, Deduper(cache=cache) as deduper:
        crawl.__globals__.update(MAX_PAGES=most, AsyncClient=lambda *_, **__: LocalClient(deduper))
        return asyncio.run(crawl("", f"{server.url}/"))


def test_the_crawlee_crawl_of_endless_copies_ends_at_its_limit(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert crawlee_crawl(cache, 5) == {"new": 1, "near_duplicate": 4}


def test_the_crawlee_crawl_ends_at_ctrl_c(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert crawlee_crawl(cache, 100, interrupted_at=3).total() < 8


@pytest.mark.kafka
@pytest.mark.skipif("CRAWL4AI" not in os.environ, reason="CRAWL4AI names no Python that has crawl4ai")
def test_the_crawl4ai_crawl_follows_the_links_of_copies_last(served: TopicPlace, tmp_path: Path) -> None:
    with site(STORIES[4], STORIES[5]) as start:
        command = [os.environ["CRAWL4AI"], str(EXAMPLES / "crawl4ai_crawler.py"), served.address, start]
        variables = os.environ | {"SIMSTREAM_PREFIX": served.prefix, "PYTHONPATH": str(EXAMPLES.parent / "stream")}
        done = subprocess.run(
            command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "1 near_duplicate, 2 new, 1 not fetched"  # it has hardly any text


@pytest.mark.kafka
def test_the_consumer_prints_committed_verdicts(run: Run, served: TopicPlace) -> None:
    with Client(served.address, served.prefix, timeout=PATIENCE_S) as client:
        for future in [client.submit({"id": f"short-{number}", "text": "Too short."}) for number in range(3)]:
            future.result()
    lines = run("consume_verdicts.py", served.servers, f"{served.prefix}.verdicts", 3).splitlines()
    assert len(lines) == 3
    said = r"\S+ is (new|unchanged|too_short few_words|like \S+: similarity \S+)"
    assert all(re.fullmatch(said, line) for line in lines)


@pytest.mark.kafka
def test_the_consumer_reads_a_verdict_again_that_was_in_work_when_it_ended(kafka_place: TopicPlace) -> None:
    topic = f"{kafka_place.prefix}.verdicts"
    with kafka_place.open() as log:
        log.create_topics(1)
    producer = Producer({"bootstrap.servers": kafka_place.servers})
    for number in range(3):
        producer.produce(topic, msgspec.json.encode(verdict_on(str(number), number, number)))
    producer.flush()
    verdicts = runpy.run_path(str(EXAMPLES / "consume_verdicts.py"))["verdicts"]
    with contextlib.closing(verdicts(kafka_place.servers, topic, kafka_place.prefix, 3)) as broken_off:
        assert [next(broken_off).id, next(broken_off).id] == ["0", "1"]
    with contextlib.closing(verdicts(kafka_place.servers, topic, kafka_place.prefix, 3)) as again:
        assert next(again).id == "1"


@pytest.mark.kafka
def test_the_spider_drops_the_items_of_near_duplicates(served: TopicPlace, tmp_path: Path) -> None:
    items = tmp_path / "items.jsonl"
    settings = [f"SIMSTREAM_LOG={served.address}", f"SIMSTREAM_PREFIX={served.prefix}", "SIMSTREAM_WAIT=60"]
    more = [part for setting in (*settings, "LOG_LEVEL=WARNING") for part in ("-s", setting)]
    with site(STORIES[2], STORIES[3]) as start:
        command = ["scrapy", "runspider", str(EXAMPLES / "spider.py"), "-a", f"start={start}", *more, "-O", items]
        subprocess.run([sys.executable, "-m", *map(str, command)], cwd=tmp_path, check=True, timeout=PATIENCE_S)
    found = {item["url"].removeprefix(start): item["verdict"] for item in read_lines(items)}
    assert found.pop("behind", "too_short") == "too_short"  # a trial of the copy's link
    assert found == {"": "new", "other": "new"}


@pytest.mark.kafka
def test_the_examples_in_the_clients_docstrings_print_what_they_say(
    served: TopicPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMSTREAM_PREFIX", served.prefix)
    runner = doctest.DocTestRunner()
    for module in (aio, pages, sync):
        for test in doctest.DocTestFinder().find(module):
            for example in test.examples:
                example.source = example.source.replace(ADDRESS, served.address)
            test.globs |= {"AsyncClient": AsyncClient, "Client": Client, "asyncio": asyncio}
            runner.run(test)
    assert runner.tries > 10
    assert runner.failures == 0
