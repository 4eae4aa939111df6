"""`python -m tests.bench.crowd`: what a page costs that is like thousands of others, beside one that is like none.

Fingerprints and sketches are made up, so that the text's share is not in it. `any` is meant, where all that is
alike becomes one cluster; under `canonical` a page is compared with one page of it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence

from simstream.judge.state import JudgeState
from simstream.model import FingerprintColumns
from tests.bench.made_pages import BATCH, distinct, policy, template
from tests.bench.state import judge


def costs(
    batches: Iterator[FingerprintColumns], sizes: Sequence[int], link: str = "any", fingerprints: int = 1
) -> list[float]:
    """Return the microseconds of CPU a page, for the batch after which this many pages are live."""
    state, found, live = JudgeState(policy(link, fingerprints=fingerprints)), [], 0
    for columns in batches:
        began = time.process_time()
        judge(state, columns)
        took = time.process_time() - began
        live += len(columns)
        if live in sizes:
            found.append(1e6 * took / len(columns))
    state.close()
    return found


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.crowd", description=__doc__)
    parser.add_argument("--pages", type=int, default=40_000)
    pages = parser.parse_args().pages // BATCH * BATCH
    sizes = [
        size for size in (BATCH, 4_000, 10_000, 16_000, 20_000, 30_000, 40_000, 100_000, pages) if size <= pages
    ]
    sizes = sorted(set(sizes))
    for _ in range(2):  # the first round compiles
        alone = costs(distinct(sizes[-1]), sizes)
        alike = costs(template(sizes[-1]), sizes)
    print(f"{'live pages':>12}{'distinct':>12}{'alike':>12} pages/s of CPU{'ratio of costs':>18}")
    for size, one, other in zip(sizes, alone, alike, strict=True):
        print(f"{size:>12,}{1e6 / one:>12,.0f}{1e6 / other:>12,.0f}{other / one:>33.1f}")


if __name__ == "__main__":
    main()
