"""What finding the text that counts costs: `python -m tests.bench.extraction [--pages FOLDER]`.

Articles by kernels (`extract = "fast"`) beside the parser that the other extractions use, on one core; the same
pages in GBK, read by the kernel and by Python's decoder, and in JSON; and the worst of hostile pages beside an
ordinary page of its size. FOLDER has real pages in files `*.html`; without it the pages are made up, with more text
than real ones.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import click
import msgspec

from simstream.kernels.text.charsets import to_utf8
from simstream.model import Record
from simstream.text.extraction.article import article_of
from simstream.text.extraction.extract import extract_one
from simstream.text.extraction.fast import extract_fast
from simstream.text.extraction.prose import prose
from simstream.text.extraction.refused_html import refusal
from simstream.utf8_html import Utf8Html
from simstream.wire.page import PageLimits, decode
from tests.bench import measure
from tests.hostile_html import LINEAR, QUADRATIC, UNDECLARED, ordinary

HTML: Final = "text/html; charset=utf-8"
"""The pages are in UTF-8, whatever they declare."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--pages", type=click.Path(path_type=Path, exists=True), help="Folder of real pages.")
@click.option("--least", default=100_000, show_default=True, help="Leave out real pages of fewer bytes.")
@click.option("--most", default=200_000, show_default=True, help="Leave out real pages of more bytes.")
@click.option("--count", default=200, show_default=True, help="Pages.")
@click.option("--size", default=150_000, show_default=True, help="Bytes of a made page, and of a hostile one.")
@click.option("--rounds", default=5, show_default=True, help="Turns of each, the median counts.")
def main(pages: Path | None, least: int, most: int, count: int, size: int, rounds: int) -> None:
    """Run all measurements and print their results. Answers are checked before a clock starts."""
    if pages is None:
        found = [page.encode() for page in measure.html_pages(count, size)]
    else:
        found = [page for page in measure.html_files(pages) if least <= len(page) <= most][:count]
        if not found:
            raise click.UsageError(f"--pages: no file *.html of {least:,} to {most:,} bytes in {pages}")
    _against_parser(found, rounds)
    _in_gbk(found, rounds)
    _in_json(found, rounds)
    _hostile(size, rounds)


def _against_parser(pages: list[bytes], rounds: int) -> None:
    size = sum(map(len, pages))
    measure.title("extraction", f"{len(pages)} pages of {size / len(pages) / 1000:,.0f} KB, one core")
    assert [extract_fast(page, HTML).text for page in pages] == [article_of(page).decode() for page in pages]
    seconds = measure.rounds(
        {
            "kernels": lambda: [extract_fast(page, HTML) for page in pages],
            "parser": lambda: [prose(extract_one(page, HTML).text or "") for page in pages if not refusal(page)],
        },
        rounds,
    )
    for name in ("kernels", "parser"):
        taken = seconds[name]
        measure.line(f"{name}: {size / taken / 1e6:,.0f} MB/s, {taken / len(pages) * 1e6:,.0f} us a page")
    measure.against("time of the parser, to the kernels", seconds["parser"] / seconds["kernels"], "at least 3")


def _in_gbk(pages: list[bytes], rounds: int) -> None:
    measure.title("GBK", "the same pages, with what GBK has of their characters")
    raw = [page.decode("utf-8", "ignore").encode("gbk", "ignore") for page in pages]
    utf8 = [page.decode("gbk").encode() for page in raw]
    assert [to_utf8(page, "gb18030") for page in raw] == utf8
    seconds = measure.rounds(
        {
            "kernel": lambda: [to_utf8(page, "gb18030") for page in raw],
            "Python": lambda: [page.decode("gb18030").encode() for page in raw],
            "a page in UTF-8": lambda: [extract_fast(page, HTML) for page in utf8],
            "a page in GBK": lambda: [extract_fast(page, "text/html; charset=gbk") for page in raw],
        },
        rounds,
    )
    for name in ("kernel", "Python"):
        measure.line(f"{name}: {sum(map(len, raw)) / seconds[name] / 1e6:,.0f} MB/s of GBK to UTF-8")
    measure.against("Python's time, to the kernel's", seconds["Python"] / seconds["kernel"], "at least 3")
    ratio = seconds["a page in GBK"] / seconds["a page in UTF-8"]
    measure.against("the article of a page in GBK, to the same in UTF-8", ratio, "at most 1.3")


def _in_json(pages: list[bytes], rounds: int) -> None:
    measure.title("JSON", "the same pages as records, up to their article")
    html = [f"<!-- é {' ' * 16_384} -->" + page.decode("utf-8", "ignore") for page in pages]
    given = {
        "raw": [Record("p", 0, 0, b"a", page.encode(), (("content-type", HTML.encode()),)) for page in html],
        "JSON": [Record("p", 0, 0, b"a", msgspec.json.encode({"html": page})) for page in html],
    }
    strings = [record.value or b"" for record in given["JSON"]]
    found = {name: [_article(record) for record in records] for name, records in given.items()}
    assert found["JSON"] == [extract_fast(page, HTML).text for page in html]
    assert found["raw"] == [extract_fast(page.encode(), HTML).text for page in html]
    seconds = measure.rounds(
        {
            "JSON": lambda: [_article(record) for record in given["JSON"]],
            "raw": lambda: [_article(record) for record in given["raw"]],
            "strings": lambda: [_over_a_string(value) for value in strings],
        },
        rounds,
    )
    ratio = seconds["JSON"] / seconds["raw"]
    measure.against("the article of a page in JSON, to that of its bytes", ratio, "at most 1.5")
    measure.against(
        "the way over Python's strings, to this one", seconds["strings"] / seconds["JSON"], "at least 1.1"
    )


class _Html(msgspec.Struct):
    html: str


_decode_html: Final = msgspec.json.Decoder(_Html).decode


def _over_a_string(value: bytes) -> str | None:
    value.decode()  # msgspec does not check what it skips
    return extract_fast(_decode_html(value).html, HTML).text


def _article(record: Record) -> str | None:
    page = decode(record, PageLimits(html_by_kernels=True))
    assert record.headers or isinstance(page.raw, Utf8Html)
    return extract_fast(page.raw or b"", page.content_type).text


def _hostile(size: int, rounds: int) -> None:
    measure.title("hostile", f"made pages of {size:,} bytes, beside an ordinary one")
    plain = _seconds(ordinary(size).encode(), rounds)
    makers = {**QUADRATIC, **LINEAR, "paragraphs of a letter": lambda size: "<p>a" * (size // 4)}
    declared = {name: _seconds(make(size).encode(), rounds) for name, make in makers.items()}
    undeclared = {name: _seconds(make(size) + b"\xff", rounds, "text/html") for name, make in UNDECLARED.items()}
    for what, taken in (("hostile page", declared), ("page without a usable charset", undeclared)):
        worst = max(taken, key=lambda name: taken[name])
        measure.line(f"the worst of {len(taken)}: {worst}, {taken[worst] * 1e3:.2f} ms for {plain * 1e3:.2f} ms")
        measure.against(f"the worst {what}, to an ordinary one", taken[worst] / plain, "at most 3")


def _seconds(page: bytes, rounds: int, content_type: str = HTML) -> float:
    times = []
    for _ in range(rounds):
        began = perf_counter()
        extract_fast(page, content_type)
        times.append(perf_counter() - began)
    return median(times)


if __name__ == "__main__":
    main()
