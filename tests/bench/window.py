"""What a page costs while others leave: `python -m tests.bench.window --live 2000000`.

A state is filled until its window is full. From then on a page leaves for each that comes. The same pages are
judged
by a state without a window, in turns. They are made up: all unlike each other, or a few texts that come again and
again, as in news. The time is that of the judge's thread; merges have threads of their own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import click
import numpy as np

from simstream.errors import SimstreamError
from simstream.judge.state import JudgeState
from simstream.model import U64, FingerprintColumns
from tests.bench.made_pages import BATCH, columns_of, policy
from tests.bench.measure import line, title
from tests.bench.state import judge

A_MS = 10
"""So many pages come in a ms of their own time."""


class MadePages:
    """Pages without an end: `texts` in turn, or all unlike each other if `texts` is 0."""

    def __init__(self, texts: int) -> None:
        self.texts, self.count = texts, 0
        self._rng = np.random.default_rng(1)
        self._drawn = self._draw(texts)

    def _draw(self, count: int) -> tuple[U64, U64]:
        """Fingerprints and sketches that no other page has."""
        return self._rng.integers(0, 2**64, count, np.uint64), self._rng.integers(0, 2**64, (count, 4), np.uint64)

    def batch(self, size: int) -> FingerprintColumns:
        """The next pages."""
        numbers = np.arange(self.count, self.count + size)
        if self.texts:
            fingerprints, sketches = (column[numbers % self.texts] for column in self._drawn)
        else:
            fingerprints, sketches = self._draw(size)
        self.count += size
        return columns_of(int(numbers[0]), fingerprints, sketches)


@dataclass(slots=True)
class TimedState:
    """A judge's state, and what its thread needed for the pages since `us` was set to 0."""

    state: JudgeState
    ns: int = 0
    alike: int = 0

    def take(self, columns: FingerprintColumns) -> None:
        """Judge a batch."""
        began = time.thread_time_ns()
        self.alike += judge(self.state, columns)
        self.ns += time.thread_time_ns() - began


@click.command()
@click.option("--live", default=300_000, help="Pages that the window holds.")
@click.option("--texts", default=0, help="So many texts come in turn; 0: all pages are unlike each other.")
@click.option("--batch", default=60, help="Pages that are judged together once the window is full.")
@click.option("--pages", default=100_000, help="Pages that are timed.")
def main(live: int, texts: int, batch: int, pages: int) -> None:
    """Print the microseconds of a page with a full window and without one."""
    made = MadePages(texts)
    windowed = TimedState(JudgeState(policy(window_ms=live // A_MS), background=True))
    endless = TimedState(JudgeState(policy(), background=True))
    both = windowed, endless
    while made.count < live + live // 2:
        columns = made.batch(BATCH)
        for one in both:
            one.take(columns)
    for one in both:
        one.state.index.wait()
        one.ns = 0
    begun = made.count
    while made.count < begun + pages:
        columns = made.batch(batch)
        for one in both:
            one.take(columns)
    check(made, windowed, endless, live)
    us = [one.ns / 1000 / (made.count - begun) for one in both]
    title(
        "window",
        f"{windowed.state.resolver.live_pages:,} live pages, {texts or 'distinct'} texts, {batch} pages a batch",
    )
    line(f"with a full window {us[0]:.1f} us a page, {windowed.state.index.segments} segments")
    line(f"without a window {us[1]:.1f} us a page, {endless.state.index.segments} segments")
    line(f"with to without: {us[0] / us[1]:.2f} x")
    for one in both:
        one.state.close()


def check(made: MadePages, windowed: TimedState, endless: TimedState, live: int) -> None:
    """Raise an error if the verdicts are not as the pages were made."""
    alike = max(0, made.count - made.texts) if made.texts else 0
    for one, pages in ((windowed, live), (endless, made.count)):
        if one.alike != alike or abs(one.state.resolver.live_pages - pages) > A_MS:
            found = one.state.resolver.live_pages
            raise SimstreamError(f"{one.alike} pages are like others, not {alike}; {found} are live, not {pages}")


if __name__ == "__main__":
    main()
