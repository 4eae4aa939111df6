"""What all benchmarks share: the pages, rounds that alternate between rivals, and lines of results."""

from __future__ import annotations

import gzip
import json
import lzma
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from simstream.sources.demo import demo_records
from simstream.text.extraction.html_bytes import html_in_utf8

SENTENCE = re.compile(r"[^。！？.!?\n]+[。！？.!?\n]?")
GENERATED_BYTES = 1_500
"""About the size of a page of the news."""


def load(file: Path | None, count: int) -> list[dict[str, str]]:
    """Return up to `count` pages with `id` and `text`, from a JSONL file (also .xz, .gz), else generated."""
    if file is None:
        return list(generate(count))
    opener: Mapping[str, Any] = {".xz": lzma.open, ".gz": gzip.open}
    with opener.get(file.suffix, open)(file, "rt", encoding="utf-8") as lines:
        pages = []
        for line in lines:
            page = json.loads(line)
            pages.append({"id": str(page["id"]), "text": page["text"]})
            if len(pages) == count:
                break
        return pages


def html_files(folder: Path) -> Iterator[bytes]:
    """The files `*.html` of a folder and those below it, by name, as the kernels read them."""
    return (html_in_utf8(path.read_bytes(), "text/html") for path in sorted(folder.rglob("*.html")))


def generate(count: int) -> Iterator[dict[str, str]]:
    """Pages of sentences drawn from the bundled ones; every fifth is an earlier page with one sentence changed."""
    rng = random.Random(20240229)
    sentences = [found for text in _bundled() for found in SENTENCE.findall(text)]
    made: list[list[str]] = []
    for number in range(count):
        if number % 5 == 4:
            chosen = list(made[rng.randrange(len(made))])
            chosen[rng.randrange(len(chosen))] = rng.choice(sentences)
        else:
            chosen, size = [], 0
            while size < GENERATED_BYTES:
                chosen.append(rng.choice(sentences))
                size += len(chosen[-1].encode())
        made.append(chosen)
        yield {"id": f"made-{number}", "text": "".join(chosen)}


def html_pages(count: int, size: int) -> Iterator[str]:
    """Return articles of about `size` bytes of HTML: a site's lists of links, a fifth of prose, script and
    style."""
    rng = random.Random(20240301)
    sentences = [found for text in _bundled() for found in SENTENCE.findall(text)]
    for number in range(count):
        article: list[str] = []
        prose = 0
        while prose < size // 5:
            paragraph = "".join(rng.choice(sentences) for _ in range(5))
            article.append(f"<p>{paragraph}</p>")
            prose += len(paragraph.encode())
        link = '<li class="item"><a class="link" href="/2026/03/{0}" title="{1}"><span>{1}</span></a></li>'
        left = max(0, size - prose)
        links = "".join(link.format(rng.randrange(10**6), rng.choice(sentences)[:12]) for _ in range(left // 300))
        script = f"<script>var state = {'x' * (left // 4)!r};</script><style>.a {{ {'y' * (left // 8)} }}</style>"
        yield (
            f"<!doctype html><html><head><meta charset=utf-8><title>{number}</title>{script}</head><body>"
            f"<nav><ul>{links}</ul></nav><main><article>{''.join(article)}</article></main>"
            f"<footer>{links[: left // 8]}</footer></body></html>"
        )


def _bundled() -> Iterator[str]:
    for record in demo_records():
        try:
            page = json.loads(record.value or b"{}")
        except ValueError:
            continue  # one of the demo's pages is broken on purpose
        if isinstance(page, dict) and isinstance(page.get("text"), str):
            yield page["text"]


MIN_S = 0.25


def rounds(rivals: Mapping[str, Callable[[], object]], count: int = 5) -> dict[str, float]:
    """Median seconds of each rival; they take turns, so that a busy moment of the machine meets them all.

    A turn lasts at least a quarter of a second: a short rival would only measure how cold the last one left
    the processor's caches.
    """
    times = {name: 1 + int(MIN_S / max(1e-9, _timed(rival))) for name, rival in rivals.items()}
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(count):
        for name, rival in rivals.items():
            seconds[name].append(_timed(rival, times[name]))
    return {name: median(found) for name, found in seconds.items()}


def _timed(call: Callable[[], object], times: int = 1) -> float:
    began = perf_counter()
    for _ in range(times):
        call()
    return (perf_counter() - began) / times


def share(values: Sequence[float], part: float) -> float:
    """The value below which this part of all lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def title(name: str, what: str) -> None:
    print(f"\n== {name}: {what}", flush=True)


def line(text: str) -> None:
    print(f"   {text}", flush=True)


def against(what: str, ratio: float, aim: str) -> None:
    """Print one ratio with its aim. Asserts nothing."""
    print(f" > {what}: {ratio:.2f} x (aim: {aim})", flush=True)
