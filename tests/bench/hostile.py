"""HTML, and hostile pages among it: `python -m tests.bench.hostile`.

How much slower ordinary pages get when a few pages among them are made to be slow, and what a page costs beyond the
parser itself. Small sizes make it run in seconds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from simstream.model import Page, PageKind
from simstream.processors import cores
from simstream.settings import default_cache
from simstream.text.extraction.extract import extract_one
from simstream.text.extraction.pool import ExtractionPool
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import preset
from tests.bench import measure
from tests.hostile_html import LINEAR, QUADRATIC, ordinary

HTML = "text/html; charset=utf-8"
BATCH = 250
"""Pages handed to the fingerprinter at once."""


class ThroughputRatios(NamedTuple):
    """Throughput with hostile pages to that without; a page's time by way of a process to that in the parser."""

    throughput: float
    beyond_parser: float


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--pages", default=1_000, show_default=True, help="Ordinary pages.")
@click.option("--size", default=40_000, show_default=True, help="Bytes of a page.")
@click.option("--share", default=0.05, show_default=True, help="Hostile pages, of all.")
@click.option("--workers", default=cores(), show_default=True, help="Processes that extract.")
@click.option("--rounds", default=3, show_default=True, help="Turns of each, the median counts.")
def main(pages: int, size: int, share: float, workers: int, rounds: int) -> None:
    """Run both measurements and print their results. Answers are checked before a clock starts."""
    run(pages, size, share, workers, rounds)


def run(pages: int, size: int, share: float, workers: int, rounds: int) -> ThroughputRatios:
    good = [ordinary(size, seed=100 * number).encode() for number in range(pages)]
    makers = [*QUADRATIC.values(), *LINEAR.values()]
    bad = [make(size).encode() for make in islice(cycle(makers), max(1, round(pages * share / (1 - share))))]
    return ThroughputRatios(_throughput(good, bad, workers, rounds), _beyond_parser(good, rounds))


def _throughput(good: Sequence[bytes], bad: Sequence[bytes], workers: int, rounds: int) -> float:
    """Ordinary pages a second with hostile ones among them, to those without."""
    measure.title("hostile", f"{len(bad)} hostile pages among {len(good)} ordinary ones of {len(good[0]):,} bytes")
    step = max(1, len(good) // len(bad))
    mixed: list[tuple[bytes, bool]] = []
    for number, page in enumerate(good):
        if number % step == 0 and number // step < len(bad):
            mixed.append((bad[number // step], False))
        mixed.append((page, True))
    alone = [(page, True) for page in good]
    cache = Path(os.environ.get("SIMSTREAM_CACHE") or default_cache())
    with Fingerprinter(preset("default"), cache, workers=workers) as fingerprinter:
        _check(_fingerprints(fingerprinter, alone), _fingerprints(fingerprinter, mixed))
        seconds = measure.rounds(
            {
                "alone": lambda: _fingerprints(fingerprinter, alone),
                "mixed": lambda: _fingerprints(fingerprinter, mixed),
            },
            rounds,
        )
    for name, what in (("alone", "ordinary pages alone"), ("mixed", "with hostile ones")):
        measure.line(f"{what}: {len(good) / seconds[name]:,.0f} ordinary pages/s, {workers} processes")
    ratio = seconds["alone"] / seconds["mixed"]
    measure.against("throughput of ordinary pages, with to without", ratio, "at least 0.67")
    return ratio


def _fingerprints(fingerprinter: Fingerprinter, pages: Sequence[tuple[bytes, bool]]) -> np.ndarray:
    """The fingerprints of the ordinary ones among these pages."""
    found = []
    for start in range(0, len(pages), BATCH):
        batch = [_page(raw) for raw, _ in pages[start : start + BATCH]]
        columns = fingerprinter.columns(batch)
        is_good = np.array([good for _, good in pages[start : start + BATCH]])
        assert not any(p.kind == PageKind.UNREADABLE for p, good in zip(batch, is_good, strict=True) if good)
        found.append(columns.fingerprint[is_good])
    return np.concatenate(found)


def _page(raw: bytes) -> Page:
    return Page(id="a", identity=bytes(16), offset=0, time=0, raw=raw, content_type=HTML)


def _check(alone: np.ndarray, mixed: np.ndarray) -> None:
    assert (alone != 0).all(), "an ordinary page has no fingerprint"
    assert (alone == mixed).all(), "a hostile page has changed another page's fingerprint"


def _beyond_parser(good: Sequence[bytes], rounds: int) -> float:
    """Return the time of a page through one process, divided by the parser's time in this process."""
    measure.title("extraction", "one process beside the parser alone, in time for a page")
    items = [(page, HTML) for page in good]
    texts = [page.decode() for page in good]
    with ExtractionPool(1) as pool:
        assert pool.extract(items) == [extract_one(*item) for item in items]
        seconds = measure.rounds(
            {"process": lambda: pool.extract(items), "parser": lambda: [_parsed(text) for text in texts]}, rounds
        )
    for name in ("parser", "process"):
        measure.line(f"{name}: {seconds[name] / len(good) * 1e6:,.0f} us a page")
    ratio = seconds["process"] / seconds["parser"]
    measure.against("a page by way of a process, to the parser alone", ratio, "below 1.5")
    return ratio


def _parsed(html: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    return str(extract_plain_text(html, main_content=True, comments=False, list_bullets=False, alt_texts=False))


if __name__ == "__main__":
    main()
