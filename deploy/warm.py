"""Compiles every kernel that a service may need, by doing all its work once.

That is the work of the default recipe, of `extract = "fast"`, and of the news page. For images with a read-only
root: a kernel that is not compiled here would be compiled at each start. The kernels go to NUMBA_CACHE_DIR, the
tables to SIMSTREAM_CACHE.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator

from simstream import Deduper
from simstream.cli.main import invoke
from simstream.feeds.title_words import TitleWords
from simstream.feeds.warming import warm_news
from simstream.judge.policy import Link, make_policy
from simstream.judge.warming import warm_judge
from simstream.settings import resolve
from simstream.text.recipe_file import load_recipe

PAGES = 20_000
"""Enough pages for several segments, their merges, and buckets that end."""
AT_ONCE = 1_000
STEP_MS = 60_000
AGO = 4_500
"""The earlier version of a page is so far back that it lies in a segment; merges then leave it out."""
SYLLABLES = [first + last for first in "bcdfghjklm" for last in "aeiou"]


def pages(count: int) -> Iterator[dict[str, object]]:
    """Pages of made-up words: most are new, some are edits, some are fetched again."""
    rng = random.Random(1)
    texts: list[str] = []
    for number in range(count):
        text = " ".join("".join(rng.choices(SYLLABLES, k=3)) for _ in range(40))
        if number % 10 == 9:
            text = rng.choice(texts[-500:]) + " more"
        texts.append(text)
        again = number >= AGO and number % 3 == 0
        yield {"id": f"p{number - AGO if again else number}", "text": text, "time": number * STEP_MS}


def main() -> int:
    """Run the demo for the service's own parts, and both link rules over enough pages for every index stage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=PAGES, help="fewer pages leave some kernels uncompiled")
    count = parser.parse_args().pages
    code, cache = invoke(["demo", "--quiet"]), resolve({}).settings.cache_folder
    warm_news(TitleWords(cache))
    links: tuple[Link, ...] = ("any", "canonical")
    for link in links:
        warm_judge(make_policy(load_recipe("default"), "", link=link))
        with tempfile.TemporaryDirectory() as folder:
            made = list(pages(count))
            for half in (made[: count // 2], made[count // 2 :]):  # the second from the state of the first
                with Deduper(path=folder, link=link, window="200h", cache=cache) as deduper:
                    for start in range(0, len(half), AT_ONCE):
                        deduper.judge(half[start : start + AT_ONCE])
    return code


if __name__ == "__main__":
    sys.exit(main())
